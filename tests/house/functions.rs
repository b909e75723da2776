//! No function is longer than a reader can hold.
//!
//! It counts the lines of a body on which a token begins: no comments, no blank lines, no inner lines of a
//! long string. Rows of tables are free: array literals and struct literals without control flow in them, and
//! match arms of one line.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::{
    Source, assert_none, braces, code_and_tests, functions, is_ident, is_punct, read, walk,
};

/// The rule is about 50; above this it is an error.
const MAX_LINES: usize = 60;
const CONTROL_FLOW: &[&str] = &["if", "else", "match", "for", "while", "loop", "let", "fn"];

#[test]
fn functions_are_short() {
    let findings = code_and_tests().iter().flat_map(check).collect();
    assert_none("a function is too long: give a part of it a name:", findings);
}

/// `make test-quick` leaves these out by their names.
#[test]
fn slow_tests_are_there() {
    let all = code_and_tests();
    let is_there =
        |name: &&str| all.iter().any(|source| source.text.contains(&format!("fn {name}(")));
    let slow = read("tests/slow.txt");
    let missing = slow.lines().filter(|name| !is_there(name)).map(str::to_string).collect();
    assert_none("tests/slow.txt names tests that are not there:", missing);
}

fn check(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    functions(source, |name, rest| {
        let mut signature = rest.iter().take_while(|token| !is_punct(Some(token), ';'));
        let lines = signature.find_map(braces).map_or(0, counted_lines);
        if lines > MAX_LINES {
            let what = format!("`{name}` has {lines} lines, {MAX_LINES} is the most");
            findings.push(source.finding(name.span().start().line, &what));
        }
    });
    findings
}

/// Lines between the braces of a body that are code and not rows of a table.
fn counted_lines(body: &Group) -> usize {
    let (mut code, mut rows) = (BTreeSet::new(), BTreeSet::new());
    walk(&body.stream(), &mut |siblings| {
        for (at, token) in siblings.iter().enumerate() {
            code.insert(token.span().start().line);
            let TokenTree::Group(group) = token else { continue };
            code.insert(group.span_close().start().line);
            let named = at.checked_sub(1).map(|at| &siblings[at]);
            if is_table(group, named) {
                rows.extend(group.span_open().start().line + 1..=group.span_close().start().line);
            } else if group.delimiter() == Delimiter::Brace {
                rows.extend(arms_of_one_line(group));
            }
        }
    });
    code.difference(&rows).count()
}

/// An array literal, or a struct literal (its type stands before it), of plain data.
fn is_table(group: &Group, before: Option<&TokenTree>) -> bool {
    let is_literal = match group.delimiter() {
        Delimiter::Bracket => true,
        Delimiter::Brace => matches!(before, Some(TokenTree::Ident(name))
            if name.to_string().starts_with(|c: char| c.is_uppercase())),
        _ => false,
    };
    is_literal && !has_control_flow(&group.stream())
}

fn has_control_flow(tokens: &TokenStream) -> bool {
    let mut found = false;
    walk(tokens, &mut |siblings| {
        found |= siblings.iter().any(|token| {
            CONTROL_FLOW.iter().any(|word| is_ident(Some(token), word))
                || is_punct(Some(token), ';')
        });
    });
    found
}

/// The lines of the arms of a match, given its braces, that begin and end on one line.
fn arms_of_one_line(group: &Group) -> Vec<usize> {
    let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
    let arrow = |at: usize| is_punct(tokens.get(at), '=') && is_punct(tokens.get(at + 1), '>');
    let mut lines = Vec::new();
    let (mut first, mut in_arm) = (0, false);
    for (at, token) in tokens.iter().enumerate() {
        in_arm |= arrow(at);
        let ends = is_punct(Some(token), ',') || braces(token).is_some() && in_arm;
        if ends || at + 1 == tokens.len() {
            let (begin, end) = (tokens[first].span().start().line, token.span().end().line);
            if in_arm && begin == end {
                lines.push(begin);
            }
            (first, in_arm) = (at + 1, false);
        }
    }
    lines
}

#[test]
fn long_functions_are_found_and_tables_are_free() {
    let repeat = |line: &str, times: usize| format!("{line}\n").repeat(times);
    let over = MAX_LINES + 1;
    let cases: &[(&str, String, bool)] = &[
        ("at the limit", format!("fn f() {{\n{}}}", repeat("g();", MAX_LINES)), false),
        ("over it", format!("fn f() {{\n{}}}", repeat("g();", over)), true),
        ("a method", format!("impl T {{ fn f(&self) {{\n{}}} }}", repeat("g();", over)), true),
        ("comments", format!("fn f() {{\n{}\n}}", repeat("// why\n", over)), false),
        ("a closure", format!("fn f() {{\nh(|| {{\n{}}})}}", repeat("g();", over)), true),
        ("chained calls", format!("fn f() {{\nC::new()\n{}}}", repeat(".g()", over)), true),
        ("an array", format!("fn f() {{\nlet t = [\n{}];}}", repeat("(1, None),", over)), false),
        ("code in an array", format!("fn f() {{\nh([{{{}}}])}}", repeat("g();", over)), true),
        ("a struct", format!("fn f() -> T {{\nT {{\n{}}}}}", repeat("a: 1,", over)), false),
        ("a string", format!("fn f() {{\ng(\"{}\")}}", repeat("SELECT", over)), false),
        ("arms", format!("fn f() {{\nmatch x {{\n{}}}}}", repeat("A => 1,", over)), false),
        ("wide arms", format!("fn f() {{\nmatch x {{\n{}}}}}", repeat("A => {\n1}", over)), true),
        (
            "a declaration",
            format!("trait T {{ fn f(); }} mod m {{ {} }}", repeat("g!();", over)),
            false,
        ),
    ];
    for (what, text, expected) in cases {
        let found = check(&Source::new("src/x.rs", text));
        assert_eq!(!found.is_empty(), *expected, "{what}: {found:?}");
    }
}
