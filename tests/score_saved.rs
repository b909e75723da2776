//! `schedlab score` as an experiment: kept, listed, compared, removed; and read while it counts.

use serde_json::Value;

use crate::home::Home;
use crate::support::skip;

/// Two processes that wait for each other some thousand times.
const PIPE: [&str; 4] = ["--", "sh", "-c", "head -c 20000000 /dev/zero | cat > /dev/null"];

fn score(home: &Home, options: &[&str]) -> String {
    home.says(0, &[&["score"], options, &PIPE].concat())
}

#[test]
fn scores_are_kept_compared_and_removed() {
    let home = Home::new();
    assert!(!home.call("compare score=a score=b").status.success());
    let said = score(&home, &["--save", "before"]);
    assert!(said.contains(" with the tag before: schedlab show 2"), "{said}");
    let said = score(&home, &["--save", "after"]);
    assert!(said.contains("schedlab compare score=2"), "{said}");
    assert!(home.ok(&["list", "scores"]).contains("sh -c"));
    assert_eq!(home.ok(&["list", "scores", "tag=before"]).lines().count(), 2);

    let text = home.ok(&["compare", "score=before", "score=after", "COLUMNS=80"]);
    assert!(text.contains("none, as there is one score of each"), "{text}");
    assert!(text.contains("run --probe sched -- sh -c 'head -c"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let json = home.json("compare score=before score=last --format json");
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
        let wrong = home.says(2, words);
        assert!(wrong.contains(part), "{words:?}: {wrong}");
    }
    home.ok(&["note", "score=before", "with the fan off"]);
    home.ok(&["tag", "score=before", "quiet"]);
    let shown = home.ok(&["show", "score=quiet"]);
    assert!(shown.contains("with the fan off") && shown.contains("score of"), "{shown}");
    home.ok(&["rm", "--yes", "score=before"]);
    assert!(!home.call("show score=quiet").status.success());
    if json["before"]["source"] != "bpf" {
        skip("privilege to load BPF programs");
    }
}

#[test]
fn a_line_for_each_interval_adds_up_to_the_scoreboard() {
    let home = Home::new();
    score(&home, &["--interval", "20ms", "--format", "json", "--output", "all.json"]);
    let text = home.read("all.json");
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
