//! Plain words: forbids the words of a dialect that the code once spoke, which newcomers had to read twice.

use proc_macro2::TokenTree;

use super::{Source, assert_none, code_and_tests, read, sources, tracked, walk};

/// Words that no text contains; `*` stands for any end.
const WORDS: &[&str] = &[
    "told", "tell", "tells", "mend", "mends", "mended", "mendable", "reckon*", "apart", "beside",
    "besides", "MOST_*", "LEAST_*",
];
const PHRASES: &[&str] = &["for ever", "at worst", "of its own will"];
/// Parts of identifiers (`fn told_apart`), in lower case.
const PARTS: &[&str] =
    &["told", "tell", "tells", "mend", "mends", "mended", "reckoned", "apart", "beside"];
/// Whole identifiers.
const IDENTIFIERS: &[&str] = &["Workshop", "Door", "Dress", "Crew", "Said", "Ask"];
/// Words that begin a comment without a subject.
const OPENINGS: &[&str] = &["What", "Of", "Which", "Who"];
/// The files that are checked.
const PLACES: &[&str] =
    &["core/", "src/", "docs/", "plans/", "tests/", "README.md", "CONTRIBUTING.md"];
/// This file contains the forbidden words.
const THIS: &str = "tests/house/words.rs";

#[test]
fn texts_are_in_plain_words() {
    let Some(paths) = tracked() else { return };
    let is_text = |path: &String| ![".o", ".ttf", ".gz"].iter().any(|end| path.ends_with(end));
    let looked_at = paths.iter().filter(|path| is_text(path) && is_looked_at(path));
    let findings = looked_at.flat_map(|path| {
        let text = read(path);
        let lines = text.lines().enumerate();
        let found = lines.flat_map(|(at, line)| {
            faults(line).into_iter().map(move |word| (at + 1, word)).collect::<Vec<_>>()
        });
        found.map(|(at, word)| format!("{path}:{at}: {word}")).collect::<Vec<_>>()
    });
    assert_none("a word of the dialect (CONTRIBUTING.md, plain English):", findings.collect());
}

#[test]
fn names_are_plain_words() {
    let all = code_and_tests();
    let looked_at = all.iter().filter(|source| is_looked_at(&source.path));
    let findings = looked_at.flat_map(names).collect();
    assert_none("a name in the dialect (CONTRIBUTING.md, plain English):", findings);
}

#[test]
fn comments_begin_with_a_subject() {
    let all = ["core/src", "src", "tests", "benches"].map(sources).into_iter().flatten();
    let looked_at = all.filter(|source| source.path != THIS);
    let findings = looked_at.flat_map(|source| {
        let begun = openings(&source.text).into_iter();
        begun.map(|(line, word)| source.finding(line, word)).collect::<Vec<_>>()
    });
    assert_none("a comment that begins in the middle of a sentence:", findings.collect());
}

/// The lines, from 1, where a comment begins with one of [`OPENINGS`].
fn openings(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut is_within = false;
    for (at, line) in text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        if let Some(comment) = comment.filter(|_| !is_within) {
            let first = comment.trim_start_matches(['/', '!']).split_whitespace().next();
            let opening = OPENINGS.iter().find(|word| first == Some(word));
            found.extend(opening.map(|word| (at + 1, *word)));
        }
        is_within = comment.is_some();
    }
    found
}

fn is_looked_at(path: &str) -> bool {
    let begins = |with: &&str| path.starts_with(*with);
    PLACES.iter().any(begins) && path != THIS
}

/// The forbidden words and phrases of a line.
fn faults(line: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let words = line.split(|c: char| !is_word(c)).filter(|word| !word.is_empty());
    let forbidden = words.filter(|word| WORDS.iter().any(|pattern| is_of(pattern, word)));
    let lower = line.to_lowercase();
    let ends = |rest: &str| !rest.starts_with(char::is_alphanumeric);
    let phrases = PHRASES.iter().filter(|phrase| lower.split(**phrase).skip(1).any(ends));
    forbidden.map(str::to_string).chain(phrases.map(|phrase| phrase.to_string())).collect()
}

/// Compares constants exactly, other words in any case.
fn is_of(pattern: &str, word: &str) -> bool {
    let lower = word.to_lowercase();
    match pattern.strip_suffix('*') {
        Some(head) if head.starts_with(char::is_uppercase) => word.starts_with(head),
        Some(head) => lower.starts_with(head),
        None => lower == pattern,
    }
}

fn names(source: &Source) -> Vec<String> {
    let mut findings = Vec::new();
    walk(&source.tokens, &mut |siblings| {
        for pair in siblings.windows(2) {
            if pair[0].to_string() == "fn" && pair[1].to_string() == "of" {
                findings.push(source.finding(pair[1].span().start().line, "fn of"));
            }
        }
        for token in siblings {
            let TokenTree::Ident(name) = token else { continue };
            let name = name.to_string();
            let mut parts = name.split('_');
            let is_part = parts.any(|part| PARTS.contains(&part));
            let is_limit = ["most_", "least_"].iter().any(|head| name.starts_with(head));
            if is_part || is_limit || IDENTIFIERS.contains(&name.as_str()) {
                findings.push(source.finding(token.span().start().line, &name));
            }
        }
    });
    findings
}

#[test]
fn words_of_the_dialect_are_found() {
    let cases: &[(&str, &[&str])] = &[
        ("one said more than was asked; foretold, teller, departed, MOST", &[]),
        ("what is Told, and mended", &["Told", "mended"]),
        ("MOST_ROUNDS, LEAST_NS and almost_all", &["MOST_ROUNDS", "LEAST_NS"]),
        ("for every run", &[]),
        ("it was reckoned at worst For ever", &["reckoned", "for ever", "at worst"]),
        ("beside the run, apart", &["beside", "apart"]),
    ];
    for (line, expected) in cases {
        assert_eq!(faults(line), *expected, "{line}");
    }
    let text =
        "//! Of x.\n//! What\n\nfn f() {} // What\n  /// What y.\n// Whatever\n\n/// Often\n";
    assert_eq!(openings(text), [(1, "Of"), (5, "What")]);
    let text = "fn of() {} fn is_told(most_rounds: u32, almost: Asked, least: Ask) -> Door { recommend() }";
    let mut found = names(&Source::new("src/x.rs", text));
    found.sort();
    let expected = ["Ask", "Door", "fn of", "is_told", "most_rounds"];
    assert_eq!(found, expected.map(|name| format!("src/x.rs:1: {name}")));
}
