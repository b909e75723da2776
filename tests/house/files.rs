//! Files are replaced as a whole, by one piece of code: a program that truncates a file first loses it if it
//! is killed.

use proc_macro2::TokenTree;

use super::{Source, assert_none, code, walk_code};

/// Calls that truncate or rename a file, without blanks.
const CALLS: &[&str] = &["File::create(", "fs::write(", "fs::rename(", ".truncate(true)"];
/// Files of tests alone.
pub(super) const TESTS: &[&str] = &["/tests.rs", "/tests/", "/testing.rs", "/on_this_machine.rs"];

/// Files that may truncate, and why nothing is lost there.
const ALLOWED: &[(&str, &str)] = &[
    ("core/src/sys/replace.rs", "the one place"),
    ("core/src/sys/change.rs", "files of the kernel"),
    ("core/src/exec/xen/", "files of a run, in memory"),
    ("core/src/guest/", "files of a guest, in memory"),
    ("src/backend/local.rs", "a lock"),
    ("src/session/running.rs", "a lock"),
    ("src/backend/lab/files.rs", "locks, and files of one guest"),
    ("src/backend/lab/guest.rs", "files of one guest"),
    ("src/backend/lab/guests.rs", "files of one process"),
    ("src/backend/lab/initrd.rs", "files of one process"),
    ("src/backend/lab/trial.rs", "files of one process"),
    ("src/backend/lab/kernel/", "folders that are new, and get their name when they are whole"),
    ("src/backend/fleet/hosts.rs", "a store gets another name"),
    ("src/backend/fleet/shelf.rs", "a file of one process"),
    (
        "core/src/store/parquet/folder.rs",
        "folders that are new, and get their name when they are whole",
    ),
    ("src/cli/score.rs", "lines for who reads along"),
    ("src/cli/watch.rs", "the output of a command"),
];

#[test]
fn files_are_replaced_as_a_whole() {
    let all = code();
    let is_allowed = |path: &str| ALLOWED.iter().any(|(own, _)| path.starts_with(own));
    let findings = all.iter().filter(|source| !is_allowed(&source.path)).flat_map(check);
    assert_none(
        "a file is truncated where schedlab::sys::replace replaces it:",
        findings.collect(),
    );
    let unused = ALLOWED.iter().filter(|(path, _)| {
        !all.iter().any(|source| source.path.starts_with(path) && !check(source).is_empty())
    });
    assert_none("allowed, and not done:", unused.map(|(path, _)| path.to_string()).collect());
}

fn check(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    if TESTS.iter().any(|name| source.path.contains(name)) {
        return findings;
    }
    walk_code(&source.tokens, &mut |item| {
        for (at, token) in item.iter().enumerate() {
            let text: String = item[at..].iter().take(5).map(TokenTree::to_string).collect();
            let text = text.replace(' ', "");
            if let Some(call) = CALLS.iter().find(|call| text.starts_with(*call)) {
                findings.push(source.finding(token.span().start().line, call));
            }
        }
    });
    findings
}

#[test]
fn who_truncates_a_file_is_found() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("src/a.rs", "fn f() {\n std::fs::write(p, b) }", &["src/a.rs:2: fs::write("]),
        ("src/a.rs", "fn f() { g(|| {\n File::create(\n&p) }) }", &["src/a.rs:2: File::create("]),
        ("src/a.rs", "fn f() { o.write(true).truncate(true) }", &["src/a.rs:1: .truncate(true)"]),
        ("src/a.rs", "fn f() { o.truncate(false); File::create_new(p); list.truncate(2) }", &[]),
        ("src/a.rs", "fn f() {}\n#[cfg(test)]\nmod tests { fn g() { fs::write(p, b) } }", &[]),
        ("src/a/tests.rs", "fn f() { fs::write(p, b) }", &[]),
    ];
    for (path, text, expected) in cases {
        assert_eq!(check(&Source::new(path, text)), *expected, "{text}");
    }
}
