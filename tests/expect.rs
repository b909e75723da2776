//! `schedlab test` as CI calls it: expectations that hold, fail or are open, and wrong plans.

use std::process::Output;

use serde_json::Value;

use crate::home::Home;
use crate::support::{done, ended, stderr, stdout};

pub const PLAN: &str = "schema = 1\n[measure]\nrounds = 12\n[[variant]]\nname = \"default\"\n[[variant]]\n\
    name = \"other\"\nnice = 1\n[[workload]]\nname = \"web\"\nuse = \"schbench\"\n";
pub const HOLDS: &str = "[[expect]]\nmetric = \"throughput\"\nfrom = \"0.5x\"\nto = \"2x\"\n";
pub const FAILS: &str =
    "[[expect]]\nmetric = \"web/wakeup_p99\"\nfrom = \"3x\"\nwhy = \"it was so in <2019>\"\n";
const OPEN: &str = "[[expect]]\nmetric = \"throughput\"\nis = \"better\"\n";

pub fn test(home: &Home, plan: &str, arguments: &[&str]) -> Output {
    home.write("plan.toml", plan);
    let words = ["test", "plan.toml", "--backend", "null"];
    home.call(&[&words[..], arguments].concat())
}

/// Checks that [`PLAN`] with this text is refused with a message that has `expected`, and a hint.
pub fn assert_refused(home: &Home, text: &str, expected: &str) {
    let message = stderr(&ended(test(home, &format!("{PLAN}{text}"), &[]), 2));
    assert!(message.replace('\n', " ").contains(expected), "{text} {message}");
    assert!(message.contains("hint:"), "{message}");
}

#[test]
fn the_exit_code_says_whether_all_holds() {
    let home = Home::new();
    let open = ["--rounds", "2"];
    let cases = [
        (vec![HOLDS], &[][..], 0, "1 expectation: 1 HOLD"),
        (vec![HOLDS, FAILS], &[], 1, "2 expectations: 1 HOLD, 1 FAIL"),
        (vec![HOLDS, OPEN], &open, 3, "OPEN"),
        (vec![FAILS, OPEN], &[], 1, "2 FAIL"),
        (vec![], &[], 2, ""),
    ];
    for (expectations, arguments, code, text) in cases {
        let plan = format!("{PLAN}{}", expectations.concat());
        let shown = stdout(&ended(test(&home, &plan, arguments), code));
        assert!(shown.contains(text), "{shown}");
    }
}

#[test]
fn a_text_a_junit_file_and_json_say_the_same() {
    let home = Home::new();
    let plan = format!("{PLAN}{HOLDS}{FAILS}");
    let text = stdout(&test(&home, &plan, &[]));
    let line = text.lines().find(|line| line.starts_with("FAILS")).expect("a line");
    assert!(line.contains("other web/wakeup_p99 is at least 3x"), "{text}");
    assert!(text.contains("it was so in <2019>"), "{text}");
    let junit = test(&home, &plan, &["--format", "junit", "-o", "out.xml"]);
    assert!(junit.status.code() == Some(1) && junit.stdout.is_empty());
    let junit = home.read("out.xml");
    let case = "classname=\"other\" name=\"web&#x2f;wakeup_p99 is at least 3x\"";
    assert!(junit.contains(case), "the variant once: {junit}");
    assert!(junit.contains("tests=\"2\" failures=\"1\"") && junit.contains("<failure"), "{junit}");
    let json = stdout(&test(&home, &plan, &["--format", "json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    let outcomes = json[0]["tested"].as_array().unwrap();
    let outcomes: Vec<&str> = outcomes.iter().map(|of| of["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["holds", "fails"]);
    assert_eq!(json[0]["rounds"]["done"], 12);
    let metric = &json[0]["tested"][1]["metrics"][0];
    assert_eq!(metric["direction"], "lower_is_better", "{metric}");
    assert!(junit.contains("; it was so in &lt;2019&gt;"), "{junit}");
    ended(test(&home, &plan, &["--format", "lkml"]), 2);
}

#[test]
fn several_plans_are_tested_one_after_the_other() {
    let home = Home::new();
    home.write("more.toml", format!("{PLAN}{FAILS}"));
    home.write("plan.toml", format!("{PLAN}{HOLDS}"));
    let output = home.ends(1, "test plan.toml more.toml --backend null");
    let (shown, said) = (stdout(&output), stderr(&output));
    assert!(shown.contains("plan.toml: 1 expectation: 1 HOLD"), "{shown}");
    assert!(shown.contains("more.toml: 1 expectation: 1 FAIL"), "{shown}");
    assert!(said.contains("more.toml: 2 of 2") && said.contains(" of 24 runs"), "{said}");
    let quiet = home.ends(1, "test plan.toml more.toml --backend null -q");
    assert_eq!(stdout(&quiet).lines().count(), shown.lines().count());
    assert!(!stderr(&quiet).contains("runs"), "{}", stderr(&quiet));
}

#[test]
fn a_plan_that_ends_the_test_and_those_after_it_are_errors_of_ci() {
    let home = Home::new();
    let skipped = format!("{PLAN}llcs = [64]\n");
    for (name, plan) in [("one.toml", PLAN), ("two.toml", &skipped), ("three.toml", PLAN)] {
        home.write(name, format!("{plan}{HOLDS}"));
    }
    let words = "test one.toml two.toml three.toml --backend null --format junit";
    let output = home.ends(3, words);
    let (junit, said) = (stdout(&output), stderr(&output));
    let suite = |name: &str| {
        let (_, suite) = junit.split_once(&format!("<testsuite name=\"{name}\" ")).expect(name);
        suite.split("</testsuite>").next().unwrap()
    };
    assert!(suite("one.toml").contains("tests=\"1\" failures=\"0\" errors=\"0\""), "{junit}");
    for name in ["two.toml", "three.toml"] {
        assert!(suite(name).contains("errors=\"1\""), "{junit}");
    }
    assert!(said.contains("schedlab test three.toml"), "{said}");
}

#[test]
fn all_plans_are_checked_before_the_first_one_runs() {
    let home = Home::new();
    home.write("good.toml", format!("{PLAN}{HOLDS}"));
    home.write("none.toml", PLAN);
    let wrong = format!("{PLAN}[[expect]]\nmetric = \"wakeup_p98\"\nis = \"better\"\n");
    home.write("wrong.toml", wrong);
    for (words, expected) in [
        ("good.toml wrong.toml", "wakeup_p98"),
        ("good.toml none.toml", "expects nothing"),
        ("good.toml absent.toml", "absent.toml"),
        ("good.toml good.toml --events a", "--events is a file of one plan"),
    ] {
        let said = home.says(2, format!("test --backend null {words}"));
        assert!(said.contains(expected), "{words} {said}");
        assert!(!home.at(".local/share/schedlab/schedlab.db").exists(), "{words} ran");
    }
}

#[test]
fn what_is_stored_is_tested_without_a_run() {
    let home = Home::with_plan(format!("{PLAN}{HOLDS}{FAILS}"));
    let said = home.says(0, "run plan.toml --backend null");
    let ids = home.listed();
    let last = said.lines().find(|line| line.starts_with("expectations: ")).expect(&said);
    assert!(said.contains("\nfails: other web/wakeup_p99 is at least 3x: "), "{said}");
    let test = format!("test plan={}", ids[0]);
    let (counts, command) = last.split_once(": schedlab ").unwrap_or_else(|| panic!("{last}"));
    assert_eq!(counts, "expectations: 1 holds, 1 fails");
    assert!(command.starts_with(&test), "{command}");
    let shown = stdout(&home.ends(1, &*test));
    assert!(shown.contains("2 expectations: 1 HOLD, 1 FAIL"), "{shown}");
    assert_eq!(home.listed(), ids, "nothing ran");
    home.ends(2, format!("{test} --rounds 3"));
    // An ended plan cannot be resumed, and the message says so; without a name there is no interrupted plan.
    home.ends(2, "test --resume");
    home.ends(2, "test --resume last plan.toml");
    let resumed = stdout(&home.ends(1, &["test", "--resume", &ids[0]]));
    assert!(resumed.contains("1 HOLD, 1 FAIL"), "{resumed}");
}

#[test]
fn what_is_wrong_is_refused_before_anything_runs() {
    let home = Home::new();
    let cases = [
        ("[[expect]]\nmetric = \"throughput\"\n", "expects nothing"),
        ("[[expect]]\nis = \"better\"\n", "has no `metric`"),
        ("[[expect]]\nmetric = \"throughput\"\nis = \"faster\"\n", "`faster` is not known here"),
        ("[[expect]]\nmetric = \"throughput\"\nis = \"same\"\nto = \"1x\"\n", "two expectations"),
        ("[[expect]]\nmetric = \"throughput\"\nfrom = \"2x\"\nto = \"1x\"\n", "above `to`"),
        (
            "[[expect]]\nmetric = \"throughput\"\nis = \"same\"\nvariant = \"othr\"\n",
            "did you mean `other`?",
        ),
        (
            "[[expect]]\nmetric = \"throughput\"\nis = \"same\"\nvariant = \"default\"\n",
            "the baseline",
        ),
        (
            "[[expect]]\nmetric = \"throughput\"\nis = \"better\"\n[[expect]]\nmetric = \"throughput\"\nis = \"worse\"\n",
            "also expected to be better",
        ),
        ("[[expect]]\nmetric = \"wakeup_p98\"\nis = \"better\"\n", "wakeup_p98"),
        (
            "[[expect]]\nmetric = \"throughput\"\nis = \"same\"\n[[expect]]\nmetric = \"web/*\"\nfrom = \"1.5x\"\n",
            "`web/schbench/throughput` of `other` cannot be same",
        ),
        (
            "[[expect]]\nmetric = \"schbench/wakeup_p99\"\nis = \"better\"\n[[expect]]\nmetric = \"wakeup_p99\"\nis = \"more\"\n",
            "cannot be better",
        ),
        (
            "[[expect]]\nmetric = \"throughput\"\nto = \"0.8x\"\n[[expect]]\nmetric = \"web/throughput\"\nfrom = \"0.9x\"\n",
            "cannot be at most 0.8x",
        ),
    ];
    for (expectation, expected) in cases {
        assert_refused(&home, expectation, expected);
    }
    let better = "[[expect]]\nmetric = \"*_switches\"\nis = \"not-worse\"\n";
    let counter = ended(test(&home, &format!("{PLAN}{better}"), &["--probe", "sched"]), 2);
    let says = "is = \"more\" or is = \"less\"";
    assert!(stderr(&counter).contains(says), "{}", stderr(&counter));
    let other = "[[expect]]\nmetric = \"worker_wakeups\"\nis = \"more\"\n";
    let without_probe = stderr(&test(&home, &format!("{PLAN}{other}"), &[]));
    assert!(without_probe.contains("probes = [\"sched"), "{without_probe}");
    assert!(without_probe.contains("plan.toml:12:1"), "{without_probe}");
    for option in ["--aa", "--fail-on=regression", "--metric=throughput", "--metric=all"] {
        ended(test(&home, &format!("{PLAN}{HOLDS}"), &[option]), 2);
    }
    let cells = stdout(&done(test(&home, &format!("{PLAN}{HOLDS}"), &["--dry-run"])));
    assert!(cells.contains("web"), "{cells}");
    assert!(!home.at(".local/share/schedlab/schedlab.db").exists(), "nothing was stored");
}

#[test]
fn what_was_not_measured_is_said_and_is_no_success() {
    let home = Home::new();
    let plan = format!("{PLAN}[[workload]]\nname = \"far\"\nuse = \"spin\"\nllcs = [64]\n{HOLDS}");
    let shown = stdout(&ended(test(&home, &plan, &[]), 3));
    assert!(shown.contains("HOLDS") && shown.contains("llcs"), "{shown}");
}

/// The rounds of the only tested plan, and its outcomes.
fn rounds_and_outcomes(output: &Output) -> (String, Vec<String>) {
    let shown = stdout(output);
    let rounds = shown.lines().find_map(|line| line.strip_prefix("measured "));
    let outcomes = shown.lines().filter_map(|line| line.split_once("  ")).map(|(word, _)| word);
    let outcomes = outcomes.filter(|word| ["HOLDS", "FAILS", "OPEN"].contains(word));
    let rounds = rounds.unwrap_or_else(|| panic!("{shown} {}", stderr(output)));
    (rounds.trim().to_string(), outcomes.map(str::to_string).collect())
}

#[test]
fn rounds_are_added_until_expectations_are_decided() {
    let home = Home::new();
    // Throughputs of the null backend scatter by 1 %, wakeup latencies by more.
    let same = "[[expect]]\nmetric = \"throughput\"\nis = \"same\"\n";
    let until = ["--until-decided", "--budget", "10min"];
    let decided = done(test(&home, &format!("{PLAN}{same}{HOLDS}"), &until));
    let (rounds, outcomes) = rounds_and_outcomes(&decided);
    assert!(rounds.ends_with(" rounds, all is decided"), "{rounds}");
    assert_eq!(outcomes, ["HOLDS", "HOLDS"]);
    let again = test(&home, &format!("{PLAN}{same}{HOLDS}"), &until);
    assert_eq!(
        rounds_and_outcomes(&again),
        (rounds.clone(), outcomes),
        "the clock decides nothing"
    );
    // Metrics without an expectation need not be decided; the one with an expectation takes longer here.
    let range = "[[expect]]\nmetric = \"wakeup_p99\"\nfrom = \"0.95x\"\nto = \"1.05x\"\n";
    let longer = test(&home, &format!("{PLAN}{range}"), &until);
    let number = |rounds: &str| rounds.split(' ').next().unwrap().parse::<u32>().unwrap();
    let (long, _) = rounds_and_outcomes(&longer);
    assert!(number(&long) > number(&rounds), "{long} {rounds}");
    // The reason of the end is reported if it was not the last look.
    let never = "[[expect]]\nmetric = \"throughput\"\nfrom = \"1x\"\n";
    let short = test(&home, &format!("{PLAN}{never}"), &["--until-decided", "--budget", "1s"]);
    let (rounds, outcomes) = rounds_and_outcomes(&short);
    let ends = ["ended by its budget of 1s", "no more were allowed"];
    assert!(ends.iter().any(|end| rounds.ends_with(end)), "{rounds}");
    assert_eq!((outcomes, short.status.code()), (vec!["OPEN".to_string()], Some(3)));
    ended(test(&home, &format!("{PLAN}{same}"), &["--until-decided"]), 2);
}
