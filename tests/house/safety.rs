//! `unsafe` lives in `sys` and in the hot loops of workloads, and says why it is sound.

use proc_macro2::{Delimiter, TokenTree};

use super::{Source, assert_none, code, is_ident, walk};

const ROOMS: &[&str] = &["core/src/sys/", "core/src/workload/"];
/// Maximum number of lines from the beginning of a statement down to its `unsafe`.
const REACH_LINES: usize = 3;

#[test]
fn unsafe_code_is_where_it_belongs_and_says_why() {
    let findings = code().iter().flat_map(check).collect();
    assert_none("unsafe code without a place or a reason (CONTRIBUTING.md, unsafe):", findings);
}

fn check(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut findings = Vec::new();
    walk(&source.tokens, &mut |siblings| {
        for (at, token) in siblings.iter().enumerate() {
            if !is_ident(Some(token), "unsafe") || is_pointer_type(&siblings[at + 1..]) {
                continue;
            }
            let line = token.span().start().line;
            if !ROOMS.iter().any(|room| source.path.starts_with(room)) {
                findings.push(
                    source.finding(line, "`unsafe` outside of core/src/sys, core/src/workload"),
                );
            } else if !is_justified(&lines, line - 1) {
                findings.push(source.finding(line, "`unsafe` without a SAFETY comment above it"));
            }
        }
    });
    findings.sort();
    findings
}

/// `unsafe fn(..)` or `unsafe extern "C" fn(..)` as a type promises nothing yet.
fn is_pointer_type(after: &[TokenTree]) -> bool {
    let Some(at) = after.iter().take(3).position(|token| is_ident(Some(token), "fn")) else {
        return false;
    };
    matches!(&after.get(at + 1), Some(TokenTree::Group(group))
        if group.delimiter() == Delimiter::Parenthesis)
}

/// A comment block that says SAFETY ends on the line `at` or at most [`REACH_LINES`] above.
fn is_justified(lines: &[&str], at: usize) -> bool {
    let is_comment = |line: usize| lines[line].trim_start().starts_with("//");
    if lines[at].contains("// SAFETY: ") {
        return true;
    }
    let nearest = (at.saturating_sub(REACH_LINES)..at).rev().find(|&line| is_comment(line));
    let Some(end) = nearest else { return false };
    (0..=end)
        .rev()
        .take_while(|&line| is_comment(line))
        .any(|line| ["// SAFETY: ", "/// # Safety"].iter().any(|mark| lines[line].contains(mark)))
}

#[test]
fn a_missing_reason_is_found_and_a_given_one_is_seen() {
    let cases: &[(&str, &str, Option<usize>)] = &[
        ("core/src/sys/a.rs", "fn f() {\n // SAFETY: no precondition.\n unsafe { g() }\n}", None),
        ("core/src/sys/a.rs", "fn f() {\n // why\n unsafe { g() }\n}", Some(3)),
        ("core/src/sys/a.rs", "fn f() {\n unsafe { g() }\n}", Some(2)),
        ("core/src/sys/a.rs", "// SAFETY: far.\nfn f() {\n\n\n unsafe { g() }\n}", Some(5)),
        (
            "core/src/sys/a.rs",
            "// SAFETY: long,\n// long,\n// long,\n// long.\nunsafe impl T {}",
            None,
        ),
        ("core/src/sys/a.rs", "// SAFETY: cut off\n\n// other\nunsafe impl T {}", Some(4)),
        ("core/src/sys/a.rs", "/// # Safety\n/// Never.\n#[inline]\npub unsafe fn f() {}", None),
        ("core/src/sys/a.rs", "pub unsafe fn f() {}", Some(1)),
        ("core/src/sys/a.rs", "unsafe extern \"C\" { fn f(); }", Some(1)),
        ("core/src/sys/a.rs", "unsafe extern \"C\" fn f() {}", Some(1)),
        ("core/src/sys/a.rs", "macro_rules! m { () => { unsafe { f() } } }", Some(1)),
        ("core/src/sys/a.rs", "type F = unsafe extern \"C\" fn(i32);\ntype G = unsafe fn();", None),
        (
            "core/src/sys/a.rs",
            "#![forbid(unsafe_code)] // unsafe\nconst S: &str = \"unsafe\";",
            None,
        ),
        ("core/src/workload/a.rs", "// SAFETY: own slot.\nlet x = unsafe { g() };", None),
        ("core/src/store/a.rs", "// SAFETY: but elsewhere.\nlet x = unsafe { g() };", Some(2)),
    ];
    for (path, text, expected) in cases {
        let found = check(&Source::new(path, text));
        let places: Vec<String> =
            found.iter().map(|f| f.split(": ").next().unwrap_or("").to_string()).collect();
        let wanted: Vec<String> = expected.iter().map(|line| format!("{path}:{line}")).collect();
        assert_eq!(places, wanted, "{text}");
    }
}
