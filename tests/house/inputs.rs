//! All input from outside has a limit: `core/src/sys/input.rs` reads it, and no other file reads anything to its end.

use proc_macro2::TokenTree;

use super::{Source, assert_none, code, is_ident, is_punct, walk_code};

/// Files that may read to the end, with what they read.
const ALLOWED: &[(&str, &str)] = &[
    ("core/src/sys/input.rs", "all of it, up to a limit"),
    ("core/src/sys/load.rs", "/proc, again and again into one buffer"),
    ("core/src/sys/task.rs", "/proc, again and again into one buffer"),
    ("core/src/store/import.rs", "a line of an import, up to a limit: rooms below know no `sys`"),
    ("core/src/store/program.rs", "a column, up to a limit: rooms below know no `sys`"),
    ("core/src/variant/scx/mod.rs", "`output` is a method of its own, which keeps the end"),
];
/// Methods and functions that read to the end.
const ENDLESS: &[&str] = &[
    "read_to_end",
    "read_to_string",
    "read_until",
    "read_line",
    "from_reader",
    "wait_with_output",
];

#[test]
fn whatever_comes_from_outside_has_a_limit() {
    let is_test = |path: &str| {
        path.contains("/tests") || path.ends_with("testing.rs") || path.contains("on_this_machine")
    };
    let sources = code();
    for (path, _) in ALLOWED {
        let source = sources.iter().find(|source| source.path == *path).expect(path);
        assert!(!check(source).is_empty(), "{path} reads nothing any more: take it off the list");
    }
    let others = sources.iter().filter(|source| {
        !is_test(&source.path) && !ALLOWED.iter().any(|(path, _)| *path == source.path)
    });
    assert_none(
        "read without a limit; core/src/sys/input.rs has one:",
        others.flat_map(check).collect(),
    );
}

fn check(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    walk_code(&source.tokens, &mut |siblings| {
        for (at, token) in siblings.iter().enumerate() {
            let TokenTree::Ident(name) = token else { continue };
            if is_endless(siblings, at, &name.to_string()) {
                findings.push(source.finding(name.span().start().line, &format!("`{name}`")));
            }
        }
    });
    findings
}

/// Whether the token at this place, a word, is a call that reads to the end.
fn is_endless(siblings: &[TokenTree], at: usize, word: &str) -> bool {
    let before = |sign: char| at.checked_sub(1).is_some_and(|at| is_punct(siblings.get(at), sign));
    match word {
        "read" => before(':') && at >= 3 && is_ident(siblings.get(at - 3), "fs"),
        "output" => before('.') && is_empty_call(&siblings[at + 1..]),
        "lines" => before('.') && is_of_a_reader(&siblings[..at - 1]),
        word => ENDLESS.contains(&word) && (before('.') || before(':')),
    }
}

fn is_empty_call(after: &[TokenTree]) -> bool {
    matches!(after.first(), Some(TokenTree::Group(group)) if group.stream().is_empty())
}

/// `BufReader::new(x)` or `lock()`; texts have lines, too.
fn is_of_a_reader(before: &[TokenTree]) -> bool {
    let [.., name, TokenTree::Group(_)] = before else { return false };
    let is_new = is_ident(Some(name), "new")
        && before.len() >= 5
        && is_ident(before.get(before.len() - 5), "BufReader");
    is_new || is_ident(Some(name), "lock")
}

#[test]
fn a_read_without_a_limit_is_found() {
    let cases: &[(&str, bool)] = &[
        ("fn f() { fs::read(path) }", true),
        ("fn f() { std::fs::read(path)? }", true),
        ("fn f() { std::fs::read_to_string(path)? }", true),
        ("fn f() { file.take(5).read_to_end(&mut bytes) }", true),
        ("fn f() { io::stdin().lock().read_line(&mut line) }", true),
        ("fn f() { BufReader::new(stream).lines() }", true),
        ("fn f() { for line in io::stdin().lock().lines() {} }", true),
        ("fn f() { Command::new(x).output() }", true),
        ("fn f() { serde_json::from_reader(file) }", true),
        ("fn f() { text.lines() }", false),
        ("fn f() { self.output(Kind::All) }", false),
        ("fn f() { host.read(path) }", false),
        ("fn f() { fs::read_dir(path) }", false),
        ("fn read_line() {}", false),
        ("#[cfg(test)] mod tests { fn f() { fs::read(path) } }", false),
        ("#[cfg(all(test, x))] mod tests { fn f() { fs::read(path) } }", false),
        ("#[cfg(test)] use std::x; fn f() { fs::read(path) }", true),
        ("fn f() -> impl Iterator<Item = u8> { fs::read(path) } #[cfg(test)] mod tests {}", true),
    ];
    for (text, expected) in cases {
        assert_eq!(!check(&Source::new("src/x.rs", text)).is_empty(), *expected, "{text}");
    }
}
