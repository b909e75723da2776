//! The house rules that a test can check: who imports whom, where `unsafe` lives, how long a function is, how
//! files are replaced, what no file may contain, which words are plain, that errors are types, which licences
//! dependencies have, which of them a release holds, and that the documents are right. Each checker is a pure function from text to
//! findings, and has tests that show it finding something.

mod circles;
#[cfg(feature = "full")]
mod commands;
mod documents;
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

use proc_macro2::{TokenStream, TokenTree};

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

fn is_ident(token: Option<&TokenTree>, name: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == name)
}

fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}
