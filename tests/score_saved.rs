//! `schedlab score` as an experiment: kept, listed, compared, removed; and read while it counts.

use std::path::Path;

use serde_json::Value;

use crate::support::{done, schedlab, skip, stderr, stdout};

/// Two processes that wait for each other some thousand times.
const PIPE: [&str; 4] = ["--", "sh", "-c", "head -c 20000000 /dev/zero | cat > /dev/null"];

fn score(home: &Path, options: &[&str]) -> String {
    let words: Vec<&str> = ["score"].iter().chain(options).chain(&PIPE).copied().collect();
    let output = done(schedlab(home, &words));
    stderr(&output)
}

/// Standard output, or the error message if it failed.
fn run(home: &Path, words: &[&str]) -> Result<String, String> {
    let output = schedlab(home, words).output().unwrap();
    if output.status.success() { Ok(stdout(&output)) } else { Err(stderr(&output)) }
}

#[test]
fn scores_are_kept_compared_and_removed() {
    let home = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| run(home.path(), words);
    assert!(run(&["compare", "score=a", "score=b"]).is_err());
    let said = score(home.path(), &["--save", "before"]);
    assert!(said.contains(" with the tag before: schedlab show 2"), "{said}");
    let said = score(home.path(), &["--save", "after"]);
    assert!(said.contains("schedlab compare score=2"), "{said}");
    assert!(run(&["list", "scores"]).unwrap().contains("sh -c"));
    assert_eq!(run(&["list", "scores", "tag=before"]).unwrap().lines().count(), 2);

    let text = run(&["compare", "score=before", "score=after", "COLUMNS=80"]).unwrap();
    assert!(text.contains("none, as there is one score of each"), "{text}");
    assert!(text.contains("run --probe sched -- sh -c 'head -c"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let json = run(&["compare", "score=before", "score=last", "--format", "json"]).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "schedlab-score-comparison");
    let named =
        |name: &str| json["rows"].as_array().unwrap().iter().any(|row| row["label"] == name);
    assert!(named("cat") && named("head"), "{json}");

    for (words, part) in [
        (&["compare", "score=before", "score=before"][..], "both sides are score"),
        (&["compare", "score=before", "last"], "not with plans"),
        (&["compare", "score=before", "score=after", "--fail-on", "regression"], "no verdict"),
        (&["compare", "score=before", "score=after", "--format", "lkml"], "as lkml"),
        (&["compare", "score=befor", "score=after"], "did you mean `before`?"),
        (&["rm", "score=before"], "1 score would be removed"),
        (&["score", "--save", "a,b", "--", "true"], "is not a tag"),
    ] {
        let wrong = run(words).unwrap_err();
        assert!(wrong.contains(part), "{words:?}: {wrong}");
    }
    run(&["note", "score=before", "with the fan off"]).unwrap();
    run(&["tag", "score=before", "quiet"]).unwrap();
    let shown = run(&["show", "score=quiet"]).unwrap();
    assert!(shown.contains("with the fan off") && shown.contains("score of"), "{shown}");
    run(&["rm", "--yes", "score=before"]).unwrap();
    assert!(run(&["show", "score=quiet"]).is_err());
    if json["before"]["source"] != "bpf" {
        skip("privilege to load BPF programs");
    }
}

#[test]
fn a_line_for_each_interval_adds_up_to_the_scoreboard() {
    let home = tempfile::tempdir().unwrap();
    score(home.path(), &["--interval", "20ms", "--format", "json", "--output", "all.json"]);
    let text = std::fs::read_to_string(home.path().join("all.json")).unwrap();
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let whole = lines.pop().unwrap();
    assert_eq!(whole["schema"], "schedlab-score");
    assert!(!lines.is_empty(), "{text}");
    assert!(lines.iter().all(|line| line["schema"] == "schedlab-score-interval"), "{text}");
    if whole["source"] != "bpf" {
        return skip("privilege to load BPF programs");
    }
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let sum = |key: &str| lines.iter().map(|line| number(&line[key])).sum::<u64>();
    let watched = || {
        let tasks = whole["tasks"].as_array().unwrap().iter();
        tasks.filter(|task| task["watched"] == true)
    };
    let waits: u64 = watched().map(|task| number(&task["wait"]["count"])).sum();
    // The last moments have no line.
    assert!(sum("waits") > 0 && sum("waits") <= waits, "{} of {waits}", sum("waits"));
    assert!(sum("wall_ns") <= number(&whole["wall_ns"]));
    let longest = lines.iter().map(|line| number(&line["wait_max_ns"])).max().unwrap();
    assert!(longest <= number(&whole["worst"]["wait_ns"]), "{text}");
    let max = watched().map(|task| number(&task["wait"]["max_ns"])).max();
    assert_eq!(max, whole["worst"]["wait_ns"].as_u64(), "the longest wait is one of theirs");
}
