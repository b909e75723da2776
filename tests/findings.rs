//! Findings: how a user runs them, errors in one, and the table in docs, which must list all.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::expect::{FAILS, HOLDS, PLAN, assert_refused, test};
use crate::home::Home;
use crate::support::{checkout, done, ended, stdout};

const FINDING: &str =
    "[finding]\nsource = \"1234567\"\npublished = \"twice <as> fast\"\nload = \"its own\"\n";

#[test]
fn a_plan_with_a_finding_says_what_became_of_it() {
    let home = Home::new();
    let cases = [
        (vec![HOLDS], 0, "REPRODUCED", "reproduced"),
        (vec![HOLDS, FAILS], 1, "CONTRADICTED", "contradicted"),
    ];
    for (expectations, code, word, outcome) in cases {
        let plan = format!("{PLAN}{}{FINDING}learned = \"much\"\n", expectations.concat());
        let shown = stdout(&ended(test(&home, &plan, &[]), code));
        assert!(shown.contains(&format!("plan.toml: {word}: ")), "{shown}");
        assert!(shown.contains("twice <as> fast") && shown.contains("learned  much"), "{shown}");
        assert!(shown.contains(&format!("1 finding: 1 {word}")), "{shown}");
        let json = stdout(&test(&home, &plan, &["--format", "json"]));
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json[0]["finding"]["outcome"], outcome);
        assert_eq!(json[0]["finding"]["source"], "1234567");
    }
    let plain = stdout(&test(&home, &format!("{PLAN}{HOLDS}"), &[]));
    assert!(!plain.contains("finding"), "{plain}");
}

#[test]
fn what_virtual_time_cannot_show_is_not_run_and_is_no_failure() {
    let home = Home::new();
    let plan = format!("{PLAN}{FINDING}not-modelled = \"it has no caches\"\n");
    let shown = stdout(&done(test(&home, &plan, &[])));
    assert!(shown.contains("plan.toml: NOT MODELLED: it has no caches"), "{shown}");
    assert!(shown.contains("1 finding: 1 NOT MODELLED"), "{shown}");
    let junit = stdout(&test(&home, &plan, &["--format", "junit"]));
    assert!(junit.contains("skipped=\"1\"") && junit.contains("it has no caches"), "{junit}");
    let runs = home.both(None, "list runs");
    assert!(!runs.contains("other"), "{runs}");
}

#[test]
fn a_wrong_finding_is_refused_with_the_place() {
    let home = Home::new();
    let cases = [
        (format!("{HOLDS}{}", FINDING.replace("source", "sources")), "has no `source`"),
        (format!("{HOLDS}{}", FINDING.replace("source", "sources")), "did you mean `source`?"),
        (format!("{HOLDS}{}", FINDING.replace("its own", "")), "`load` is empty"),
        (format!("{HOLDS}{}", FINDING.replace("\"its own\"", "7")), "does not fit here"),
        (FINDING.to_string(), "the finding expects nothing"),
        (format!("{HOLDS}finding = 3\n"), "not known here"),
    ];
    for (wrong, expected) in cases {
        assert_refused(&home, &wrong, expected);
    }
}

#[test]
fn findings_are_asked_for_by_name() {
    let home = Home::new();
    let said = home.says(2, "test --findings run-to-partiy");
    assert!(said.contains("did you mean `run-to-parity`?"), "{said}");
    // Nothing is cached here, and only the kernels of this finding are named.
    let message = home.says(3, "test --findings fair-sleepers");
    assert!(
        message.contains("hint: schedlab kernel get debian:6.1 debian:6.12 debian:6.18"),
        "{message}"
    );
    let null = home.both(None, "test --findings fair-sleepers --backend null");
    assert!(null.contains("1 finding: ") && null.contains("published  "), "{null}");
    let detail = home.ok("list findings fair-sleepers");
    assert!(detail.contains("published") && detail.contains("load"), "{detail}");
}

#[test]
fn the_table_in_docs_has_each_finding_once_and_in_order() {
    let text = std::fs::read_to_string(checkout().join("docs/findings.md")).unwrap();
    let names: Vec<&str> = schedlab::plan::findings().iter().map(|finding| finding.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    let outcomes = ["REPRODUCED", "CONTRADICTED", "OPEN", "NOT MODELLED"];
    let is_row = |line: &&str| {
        line.starts_with("| `") && outcomes.iter().any(|word| line.contains(&format!("| {word} |")))
    };
    let rows = text.lines().filter(is_row);
    let listed: Vec<&str> = rows.map(|row| row.split('`').nth(1).unwrap_or_default()).collect();
    assert_eq!(listed, names, "docs/findings.md");
}

/// The list, the table in docs and the plans of the lab have the same cases.
#[test]
fn each_case_of_a_hunt_is_listed_once_and_in_order() {
    let home = Home::new();
    let names: Vec<&str> = schedlab::plan::cases().iter().map(|case| case.name).collect();
    let list = home.ok("list cases");
    let rows = list.lines().filter(|line| !line.starts_with("  "));
    let listed: Vec<&str> = rows.filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(listed, names, "{list}");
    let text = std::fs::read_to_string(checkout().join("docs/hunt.md")).unwrap();
    let table = text.split("## ").find(|part| part.starts_with("What stock kernels do")).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), names, "docs/hunt.md");
    let detail = home.ok("list cases idle-smt");
    for part in [
        "8 runs",
        "debian:6.18, 8 virtual CPUs in cores of 2, 2 last-level caches",
        "schedlab hunt --confirm idle-smt --kernel debian:6.18",
    ] {
        assert!(detail.contains(part), "rounds are seeds: {detail}");
    }
    let said = home.says(2, "list cases idle-sm");
    assert!(said.contains("`idle-smt`? schedlab list cases"), "{said}");
    let said = home.says(2, "run idle-smt --and-lab");
    assert!(said.contains("leave --and-lab out"), "{said}");
    let text = schedlab::plan::builtin("idle-smt").unwrap().text.replace("\"7\"", "\"1000\"");
    home.write("far.toml", text.replace("\"3,5\"", "\"1001\""));
    let said = home.says(3, "run far.toml");
    assert!(said.contains("--backend lab"), "this machine lacks its CPUs: {said}");
    // It runs in the lab, which has no kernel here.
    let said = home.says(3, "run idle-smt --dry-run");
    assert!(said.contains("schedlab kernel get debian:6.18"), "{said}");
}
