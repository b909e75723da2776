//! Errors are types. A caller cannot act on an error that is a `String`, which mixes the sentence with the
//! fact: few functions may have one.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};

use super::{Source, braces, code, functions, is_ident, is_punct};

/// Functions of src/ whose error is a `String`.
const MAX_FUNCTIONS: usize = 60;

#[test]
fn few_functions_have_a_string_for_an_error() {
    let mut by_room: BTreeMap<String, usize> = BTreeMap::new();
    let is_test = |path: &str| path.contains("/tests") || path.ends_with("/testing.rs");
    for source in code().into_iter().filter(|source| !is_test(&source.path)) {
        let room = source.path.split('/').nth(1).unwrap_or_default().to_string();
        *by_room.entry(room).or_default() += string_errors(&source).len();
    }
    let total: usize = by_room.values().sum();
    println!("functions whose error is a String: {total} (at most {MAX_FUNCTIONS}) {by_room:?}");
    assert!(total <= MAX_FUNCTIONS, "{total} functions have a String for an error: {by_room:?}");
}

/// `path:line: name` of each function, method or function of a trait that returns
/// `Result<_, String>`.
fn string_errors(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    functions(source, |name, rest| {
        if returns_string_error(rest) {
            found.push(source.finding(name.span().start().line, &name.to_string()));
        }
    });
    found
}

/// The tokens begin with the generics or arguments of a function.
fn returns_string_error(tokens: &[TokenTree]) -> bool {
    let is_end = |token: &&TokenTree| {
        is_punct(Some(token), ';') || is_ident(Some(token), "where") || braces(token).is_some()
    };
    // Closures in generics and arguments have other arrows, before the last group.
    let signature: Vec<&TokenTree> = tokens.iter().take_while(|token| !is_end(token)).collect();
    let arguments = signature.iter().position(|token| matches!(token, TokenTree::Group(_)));
    let Some(arguments) = arguments else { return false };
    let returned: TokenStream =
        signature[arguments + 1..].iter().map(|token| (*token).clone()).collect();
    let text: String = returned.to_string().split_whitespace().collect();
    text.match_indices("Result<").any(|(at, name)| {
        let error = last_argument(&text[at + name.len()..]);
        matches!(error, Some("String" | "std::string::String"))
    })
}

/// The last generic argument in the text after `<`; `None` if there is only one.
fn last_argument(text: &str) -> Option<&str> {
    let (mut depth, mut last) = (0_i32, None);
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if text[..at].ends_with('-') => {}
            '>' if depth == 0 => return last.map(|from| &text[from..at]),
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => last = Some(at + 1),
            _ => {}
        }
    }
    None
}

#[test]
fn string_errors_are_counted() {
    let cases: &[(&str, &[&str])] = &[
        ("fn a() -> Result<u8, String> { f() }", &["a"]),
        ("impl T { pub fn b(&self, x: u8) -> Result<Vec<(u8, u8)>, String> { f() } }", &["b"]),
        ("trait T { fn c(&self) -> Result<(), String>; }", &["c"]),
        ("fn d<T>(f: impl Fn() -> Result<T, String>) -> Option<T> { None }", &[]),
        ("fn e() -> Result<String, Error> { let x: Result<u8, String> = f(); x }", &[]),
        ("fn g() -> Option<Result<u8, String>> { None }", &["g"]),
        ("mod m { fn h() -> Result<u8, String> { f() } }", &["h"]),
        ("fn i() -> BTreeMap<u8, String> { f() }", &[]),
        ("fn j() -> Result<BTreeMap<u8, String>, Error> { f() }", &[]),
        ("fn k() -> io::Result<String> { f() }", &[]),
        ("fn l() -> Result<Box<dyn Fn(u8) -> u8>, String> { f() }", &["l"]),
    ];
    for (text, expected) in cases {
        let found = string_errors(&Source::new("src/x.rs", text));
        let expected: Vec<String> =
            expected.iter().map(|name| format!("src/x.rs:1: {name}")).collect();
        assert_eq!(found, expected, "{text}");
    }
}
