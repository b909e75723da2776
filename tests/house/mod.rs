//! The house rules that a test can check: who imports whom, where `unsafe` lives, how long a function is, how
//! files are replaced, what no file may contain, which words are plain, that errors are types, which licences
//! dependencies have, which of them a release holds, and that the documents are right. Each checker is a pure function from text to
//! findings, and has tests that show it finding something.

mod circles;
#[cfg(feature = "full")]
mod commands;
pub mod documents;
mod errors;
mod files;
mod functions;
mod imports;
mod inputs;
mod licences;
mod package;
mod plans;
mod safety;
mod text;
mod third_party;
mod words;

use std::fs;
use std::path::Path;
use std::process::Command;

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

use crate::support::{checkout, skip};

/// One Rust file: its path below the checkout (`core/src/sys/clock.rs`), its text and tokens.
struct Source {
    path: String,
    text: String,
    tokens: TokenStream,
}

impl Source {
    fn new(path: &str, text: &str) -> Source {
        let tokens = text.parse().unwrap_or_else(|why| panic!("{path}: {why}"));
        Source { path: path.to_string(), text: text.to_string(), tokens }
    }

    /// A finding as `path:line: what`, which editors and people can follow.
    fn finding(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// Every Rust file of both packages.
fn code() -> Vec<Source> {
    ["core/src", "src"].into_iter().flat_map(sources).collect()
}

/// Every Rust file of both packages and of the integration tests.
fn code_and_tests() -> Vec<Source> {
    ["core/src", "src", "tests"].into_iter().flat_map(sources).collect()
}

/// The path within a package: `sys/clock.rs` of `core/src/sys/clock.rs`.
fn below_src(path: &str) -> &str {
    let path = path.strip_prefix("core/").unwrap_or(path);
    path.strip_prefix("src/").unwrap_or(path)
}

/// Every Rust file below `folder` of the checkout, in the order of their paths.
fn sources(folder: &str) -> Vec<Source> {
    let mut paths = Vec::new();
    collect(&checkout().join(folder), &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "no Rust file below {folder}");
    paths.iter().map(|path| Source::new(path, &read(path))).collect()
}

fn collect(folder: &Path, paths: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the checkout") {
        let path = entry.expect("a folder's entry").path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let below = path.strip_prefix(checkout()).expect("below the checkout");
            paths.push(below.to_str().expect("a path in UTF-8").to_string());
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(checkout().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// The files that git tracks or would track; `None`, with a message, without git or a repository.
fn tracked() -> Option<Vec<String>> {
    // A checkout may belong to somebody else (a container's mount): git must accept that this
    // one is meant.
    let listed = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .args(["--cached", "--others", "--exclude-standard"])
        .current_dir(checkout())
        .output();
    let Some(listed) = listed.ok().filter(|output| output.status.success()) else {
        skip("git and a checkout");
        return None;
    };
    let listed = String::from_utf8(listed.stdout).expect("paths in UTF-8");
    let there = |path: &&str| !path.is_empty() && checkout().join(path).is_file();
    let mut paths: Vec<String> = listed.split('\0').filter(there).map(str::to_string).collect();
    paths.sort();
    paths.dedup();
    assert!(paths.iter().any(|path| path == "Cargo.lock"), "Cargo.lock must be committed");
    Some(paths)
}

fn assert_none(rule: &str, findings: Vec<String>) {
    assert!(findings.is_empty(), "{rule}\n  {}\n", findings.join("\n  "));
}

/// Calls `visit` with every sequence of sibling tokens, outermost first.
fn walk(tokens: &TokenStream, visit: &mut impl FnMut(&[TokenTree])) {
    let siblings: Vec<TokenTree> = tokens.clone().into_iter().collect();
    visit(&siblings);
    for token in &siblings {
        if let TokenTree::Group(group) = token {
            walk(&group.stream(), visit);
        }
    }
}

/// Calls `visit` with every sequence of tokens that [`items`] cuts, except those for tests.
fn walk_code(tokens: &TokenStream, visit: &mut dyn FnMut(&[TokenTree])) {
    let siblings: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for item in items(&siblings).into_iter().filter(|item| !is_test(item)) {
        visit(item);
        for token in item {
            if let TokenTree::Group(group) = token {
                walk_code(&group.stream(), visit);
            }
        }
    }
}

/// Sibling tokens cut after each `;` and each block, so that attributes stand with their item.
fn items(siblings: &[TokenTree]) -> Vec<&[TokenTree]> {
    let mut items = Vec::new();
    let (mut from, mut in_use) = (0, false);
    // As in `Iterator<Item = u8>`.
    let is_of_types =
        |at: usize| at >= 2 && ['<', ','].iter().any(|sign| is_punct(siblings.get(at - 2), *sign));
    for (at, token) in siblings.iter().enumerate() {
        let is_value = is_punct(Some(token), '=') && !is_of_types(at);
        in_use |= is_ident(Some(token), "use") || is_value;
        if is_punct(Some(token), ';') || (braces(token).is_some() && !in_use) {
            items.push(&siblings[from..=at]);
            (from, in_use) = (at + 1, false);
        }
    }
    items.push(&siblings[from..]);
    items
}

/// Whether `#[cfg(test)]` or the like stands before the item.
fn is_test(item: &[TokenTree]) -> bool {
    item.windows(2).any(|pair| match pair {
        [TokenTree::Punct(hash), TokenTree::Group(attribute)] if hash.as_char() == '#' => {
            let mut inner = attribute.stream().into_iter();
            let is_cfg = is_ident(inner.next().as_ref(), "cfg");
            let condition = inner.next().map(|condition| condition.to_string());
            is_cfg
                && condition.is_some_and(|text| text == "(test)" || text.starts_with("(all (test"))
        }
        _ => false,
    })
}

/// The name of each function, and the tokens behind it.
fn functions(source: &Source, mut visit: impl FnMut(&Ident, &[TokenTree])) {
    walk(&source.tokens, &mut |siblings| {
        for (at, pair) in siblings.windows(2).enumerate() {
            if let [keyword, TokenTree::Ident(name)] = pair
                && is_ident(Some(keyword), "fn")
            {
                visit(name, &siblings[at + 2..]);
            }
        }
    });
}

/// The group in braces that the token is.
fn braces(token: &TokenTree) -> Option<&Group> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    }
}

fn is_ident(token: Option<&TokenTree>, name: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == name)
}

fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}
