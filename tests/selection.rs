//! One language: a selection means the same plans in every command that takes one.

use crate::home::Home;
use crate::support::{plan_ids, stderr, stdout};

const PLAN: &str = "schema = 1\ntitle = \"Two loads\"\n[measure]\nrounds = 4\n[[variant]]\n\
    name = \"default\"\n[[variant]]\nname = \"other\"\nnice = 1\n[[workload]]\nname = \"web\"\n\
    use = \"schbench\"\n[[expect]]\nmetric = \"throughput\"\nfrom = \"0.5x\"\nto = \"2x\"\n";

/// All that a command says, and its exit code.
fn said(home: &Home, words: &[&str]) -> (String, Option<i32>) {
    let output = home.call(words);
    (stdout(&output) + &stderr(&output), output.status.code())
}

/// Three plans of the null backend, and their ids, oldest first.
fn home_with_plans() -> (Home, Vec<String>) {
    let home = Home::with_plan(PLAN);
    for _ in 0..3 {
        home.ok("run plan.toml --backend null --quiet");
    }
    let ids = plan_ids(&home.ok("export"));
    assert_eq!(ids.len(), 3);
    for id in &ids[..2] {
        home.ok(&["tag", id, "before"]);
    }
    (home, ids)
}

#[test]
fn a_selection_means_the_same_plans_in_every_command() {
    let (home, ids) = home_with_plans();
    let prefix = ids[1].as_str();
    let kernel = "kernel=*,machine=*,backend=null,until=now";
    let cases: [(&str, &[usize]); 9] = [
        ("last,backend=null", &[2]),
        ("last:2,backend=null", &[1, 2]),
        (prefix, &[1]),
        ("tag=before", &[0, 1]),
        ("tag=before,last,backend=null", &[1]),
        ("since=1h,title=two LOADS", &[0, 1, 2]),
        (kernel, &[0, 1, 2]),
        ("variant=other,tag=before", &[0, 1]),
        ("variant=other", &[2]),
    ];
    for (selection, expected) in cases {
        for command in [
            &["report", "--format", "json"][..],
            &["compare", "--format", "json"],
            &["list", "runs"],
            &["show"],
            &["export"],
            &["tag"],
            &["note"],
            &["rm"],
            &["test", "--format", "json"],
            &["run", "--backend", "null", "--dry-run"],
        ] {
            let wants_one = ["show", "tag", "note", "run"].contains(&command[0]);
            // One side alone is compared by the variants of one plan.
            if command[0] == "compare" && (expected.len() > 1 || selection.contains("variant")) {
                continue;
            }
            // `test` and `run` take a plan only by a text that cannot be the name of a file.
            if ["test", "run"].contains(&command[0]) && selection == prefix {
                continue;
            }
            let text = match command[0] {
                "tag" => [command, &[selection, "again"]].concat(),
                "note" => [command, &[selection, "seen"]].concat(),
                _ => [command, &[selection]].concat(),
            };
            let (text, code) = said(&home, &text);
            if wants_one && expected.len() > 1 {
                assert_eq!(code, Some(2), "{command:?} {selection}: {text}");
                assert!(text.contains("and one is wanted"), "{command:?} {selection}: {text}");
            } else if command[0] == "run" {
                assert_eq!(code, Some(0), "{command:?} {selection}: {text}");
                continue;
            }
            // A list shortens ids as far as they stay distinct.
            let short = |id: &str| {
                let mut shown = text.lines().filter_map(|line| line.split_whitespace().next());
                command[0] == "list" && shown.any(|shown| shown != "id" && id.starts_with(shown))
            };
            let named = |at: &usize| text.contains(&ids[*at]) || short(&ids[*at]);
            let found: Vec<usize> = (0..3).filter(named).collect();
            assert_eq!(found, expected, "{command:?} {selection}: {text}");
        }
    }
}

#[test]
fn what_is_selected_and_several_is_removed_after_a_question_alone() {
    let (home, ids) = home_with_plans();
    let text = home.says(2, "rm tag=before");
    let hint = format!("schedlab rm --yes {} {}", ids[0], ids[1]);
    assert!(text.contains(&hint), "{text}");
    let text = home.says(2, "rm --yes 2");
    assert!(text.contains("`2` is 3 that are stored"), "{text}");
    let (text, code) = said(&home, &["rm", "--yes", "tag=before", &ids[0]]);
    assert_eq!((code, text.lines().count()), (Some(0), 2), "{text}");
    let left = home.ok("export");
    assert!(left.contains(&ids[2]) && !left.contains(&ids[0]) && !left.contains(&ids[1]));
}

#[test]
fn completions_offer_terms_and_names() {
    let home = Home::new();
    let script = home.ok("completions bash");
    let report = script.split("schedlab__subcmd__report)").nth(1).unwrap_or(&script);
    for term in ["last", "tag=", "since=", "backend="] {
        assert!(report.contains(term), "{term}");
    }
    let run = script.split("schedlab__subcmd__run)").nth(1).unwrap_or(&script);
    for (words, name) in [(run, "lab null"), (report, "html"), (&script, "verdicts")] {
        assert!(words.contains(name), "{name}");
    }
}
