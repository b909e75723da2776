//! Built-in plans: every file of `plans/` is built in, is accepted like a user's plan, and names only what exists.

use std::fs;

use crate::support::{checkout, schedlab, stderr};

use super::{assert_none, read};

/// The folders of findings and of cases of `hunt`, which are plans, too.
const FOLDERS: [&str; 2] = ["findings", "cases"];

/// The names of the plans in all folders.
fn names() -> Vec<String> {
    let names = files().into_iter().map(|(name, _)| name);
    names.collect()
}

/// The names of plans and their files.
fn files() -> Vec<(String, String)> {
    let inner = FOLDERS.map(|folder| format!("plans/{folder}"));
    let mut files: Vec<(String, String)> = std::iter::once("plans".to_string())
        .chain(inner)
        .flat_map(|folder| {
            let entries = fs::read_dir(checkout().join(&folder)).expect("the folder of plans");
            let names = entries.map(|entry| entry.expect("an entry").file_name());
            let names = names.map(|name| name.into_string().expect("a name in UTF-8"));
            names.filter(|name| !FOLDERS.contains(&name.as_str())).map(move |file| {
                let name = file.strip_suffix(".toml");
                let name = name.unwrap_or_else(|| panic!("{file} is not a plan")).to_string();
                (name, format!("{folder}/{file}"))
            })
        })
        .collect();
    files.sort();
    files
}

#[test]
fn every_plan_is_built_in_and_accepted() {
    let mut built_in: Vec<String> =
        schedlab::plan::embedded().map(|plan| plan.name.to_string()).collect();
    built_in.sort();
    assert_eq!(built_in, names());
    let home = tempfile::tempdir().unwrap();
    // This machine may lack the CPUs of a case.
    let cases: Vec<&str> = schedlab::plan::cases().iter().map(|case| case.name).collect();
    for name in names().iter().filter(|name| !cases.contains(&name.as_str())) {
        // The null backend has no kernel and no privilege to lack: only the plan can be wrong.
        let arguments = ["run", name, "--dry-run", "--backend", "null"];
        let output = schedlab(home.path(), &arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
    }
}

#[test]
fn titles_and_comments_of_plans_are_in_order() {
    let findings = files().into_iter().flat_map(|(name, file)| check(&name, &read(&file)));
    assert_none("what a plan says of itself:", findings.collect());
}

fn check(name: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let titles: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("title")?.trim_start().strip_prefix('='))
        .map(|title| title.trim().trim_matches('"'))
        .collect();
    let [title] = titles[..] else { return vec![format!("{name}: {} titles", titles.len())] };
    let first = title.chars().next();
    let is_sentence =
        first.is_some_and(|first| first.is_uppercase() || title.starts_with("schbench"));
    if !is_sentence || title.ends_with('.') || title.chars().count() > 80 {
        findings.push(format!("{name}: no capital, a full stop or over 80 characters: {title}"));
    }
    // Comments that name a plan or a document.
    for comment in text.lines().filter_map(|line| Some(line.split_once('#')?.1)) {
        let words: Vec<&str> = comment.split_whitespace().collect();
        for command in words.windows(3).filter(|words| words[..2] == ["schedlab", "run"]) {
            let plan = command[2].trim_matches(['`', ':', ',', '.']);
            let is_plan = plan.starts_with('-')
                || plan.ends_with(".toml")
                || names().iter().any(|name| name == plan);
            if !is_plan {
                findings.push(format!("{name}: there is no plan `{plan}`"));
            }
        }
        for document in words.iter().filter(|word| word.starts_with("docs/")) {
            let path = document.trim_end_matches(['`', ':', ',', '.', ';', ')']);
            if !checkout().join(path).exists() {
                findings.push(format!("{name}: there is no {path}"));
            }
        }
    }
    findings
}

#[test]
fn a_plan_that_names_what_there_is_not_is_found() {
    let cases: &[(&str, usize)] = &[
        ("title = \"Good\"\n# schedlab run quick --rounds 3, see docs/method.md.", 0),
        ("title = \"bad\"", 1),
        ("title = \"Bad.\"", 1),
        ("# none", 1),
        ("title = \"Good\"\n# schedlab run quik", 1),
        ("title = \"Good\"\n# see docs/none.md", 1),
    ];
    for (text, expected) in cases {
        assert_eq!(check("p", text).len(), *expected, "{text}: {:?}", check("p", text));
    }
}
