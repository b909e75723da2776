//! `schedlab test` as CI calls it: expectations that hold, fail or are open, and wrong plans.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::{self, done, ended, schedlab, stderr, stdout};

pub const PLAN: &str = "schema = 1\n[measure]\nrounds = 12\n[[variant]]\nname = \"default\"\n[[variant]]\n\
    name = \"other\"\nnice = 1\n[[workload]]\nname = \"web\"\nuse = \"schbench\"\n";
pub const HOLDS: &str = "[[expect]]\nmetric = \"throughput\"\nfrom = \"0.5x\"\nto = \"2x\"\n";
pub const FAILS: &str =
    "[[expect]]\nmetric = \"web/wakeup_p99\"\nfrom = \"3x\"\nwhy = \"it was so in <2019>\"\n";
const OPEN: &str = "[[expect]]\nmetric = \"throughput\"\nis = \"better\"\n";

pub fn test(home: &Path, plan: &str, arguments: &[&str]) -> Output {
    std::fs::write(home.join("plan.toml"), plan).unwrap();
    let words = ["test", "plan.toml", "--backend", "null"];
    schedlab(home, &[&words[..], arguments].concat()).output().unwrap()
}

/// Checks that [`PLAN`] with this text is refused with a message that has `expected`, and a hint.
pub fn assert_refused(home: &Path, text: &str, expected: &str) {
    let output = test(home, &format!("{PLAN}{text}"), &[]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text} {message}");
    assert!(message.replace('\n', " ").contains(expected), "{text} {message}");
    assert!(message.contains("hint:"), "{message}");
}

#[test]
fn the_exit_code_says_whether_all_holds() {
    let home = tempfile::tempdir().unwrap();
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
        let output = test(home.path(), &plan, arguments);
        let shown = stdout(&output);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{expectations:?} {shown} {}",
            stderr(&output)
        );
        assert!(shown.contains(text), "{shown}");
    }
}

#[test]
fn a_text_a_junit_file_and_json_say_the_same() {
    let home = tempfile::tempdir().unwrap();
    let plan = format!("{PLAN}{HOLDS}{FAILS}");
    let text = stdout(&test(home.path(), &plan, &[]));
    let line = text.lines().find(|line| line.starts_with("FAILS")).expect("a line");
    assert!(line.contains("other web/wakeup_p99 is at least 3x"), "{text}");
    assert!(text.contains("it was so in <2019>"), "{text}");
    let junit = test(home.path(), &plan, &["--format", "junit", "-o", "out.xml"]);
    assert!(junit.status.code() == Some(1) && junit.stdout.is_empty());
    let junit = std::fs::read_to_string(home.path().join("out.xml")).unwrap();
    let case = "classname=\"other\" name=\"web&#x2f;wakeup_p99 is at least 3x\"";
    assert!(junit.contains(case), "the variant once: {junit}");
    assert!(junit.contains("tests=\"2\" failures=\"1\"") && junit.contains("<failure"), "{junit}");
    let json = stdout(&test(home.path(), &plan, &["--format", "json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    let outcomes = json[0]["tested"].as_array().unwrap();
    let outcomes: Vec<&str> = outcomes.iter().map(|of| of["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["holds", "fails"]);
    assert_eq!(json[0]["rounds"]["done"], 12);
    let metric = &json[0]["tested"][1]["metrics"][0];
    assert_eq!(metric["direction"], "lower_is_better", "{metric}");
    assert!(junit.contains("; it was so in &lt;2019&gt;"), "{junit}");
    let unknown = test(home.path(), &plan, &["--format", "lkml"]);
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn several_plans_are_tested_one_after_the_other() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("more.toml"), format!("{PLAN}{FAILS}")).unwrap();
    let words = ["test", "plan.toml", "more.toml", "--backend", "null"];
    std::fs::write(home.path().join("plan.toml"), format!("{PLAN}{HOLDS}")).unwrap();
    let output = schedlab(home.path(), &words).output().unwrap();
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{shown} {}", stderr(&output));
    assert!(shown.contains("plan.toml: 1 expectation: 1 HOLD"), "{shown}");
    assert!(shown.contains("more.toml: 1 expectation: 1 FAIL"), "{shown}");
    let stderr = stderr(&output);
    assert!(stderr.contains("more.toml: 2 of 2") && stderr.contains(" of 24 runs"), "{stderr}");
    let quiet = schedlab(home.path(), &[&words[..], &["-q"]].concat()).output().unwrap();
    assert_eq!(
        (stdout(&quiet).lines().count(), quiet.status.code()),
        (shown.lines().count(), Some(1))
    );
    assert!(!support::stderr(&quiet).contains("runs"), "{}", support::stderr(&quiet));
}

#[test]
fn a_plan_that_ends_the_test_and_those_after_it_are_errors_of_ci() {
    let home = tempfile::tempdir().unwrap();
    let skipped = format!("{PLAN}llcs = [64]\n");
    for (name, plan) in [("one.toml", PLAN), ("two.toml", &skipped), ("three.toml", PLAN)] {
        std::fs::write(home.path().join(name), format!("{plan}{HOLDS}")).unwrap();
    }
    let words = ["test", "one.toml", "two.toml", "three.toml", "--backend", "null"];
    let output = schedlab(home.path(), &[&words[..], &["--format", "junit"]].concat());
    let output = { output }.output().unwrap();
    let (junit, stderr) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(3), "{junit} {stderr}");
    let suite = |name: &str| {
        let (_, suite) = junit.split_once(&format!("<testsuite name=\"{name}\" ")).expect(name);
        suite.split("</testsuite>").next().unwrap()
    };
    assert!(suite("one.toml").contains("tests=\"1\" failures=\"0\" errors=\"0\""), "{junit}");
    for name in ["two.toml", "three.toml"] {
        assert!(suite(name).contains("errors=\"1\""), "{junit}");
    }
    assert!(stderr.contains("schedlab test three.toml"), "{stderr}");
}

/// Ids of the stored plans.
fn stored(home: &Path) -> Vec<String> {
    let listed = schedlab(home, &["list", "runs"]).output().unwrap();
    stdout(&listed)
        .lines()
        .skip(1)
        .filter_map(|line| Some(line.split_once(' ')?.0.to_string()))
        .collect()
}

#[test]
fn all_plans_are_checked_before_the_first_one_runs() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("good.toml"), format!("{PLAN}{HOLDS}")).unwrap();
    std::fs::write(home.path().join("none.toml"), PLAN).unwrap();
    let wrong = format!("{PLAN}[[expect]]\nmetric = \"wakeup_p98\"\nis = \"better\"\n");
    std::fs::write(home.path().join("wrong.toml"), wrong).unwrap();
    let cases: [(&[&str], &str); 4] = [
        (&["good.toml", "wrong.toml"], "wakeup_p98"),
        (&["good.toml", "none.toml"], "expects nothing"),
        (&["good.toml", "absent.toml"], "absent.toml"),
        (&["good.toml", "good.toml", "--events", "a"], "--events is a file of one plan"),
    ];
    for (words, expected) in cases {
        let words = [&["test", "--backend", "null"], words].concat();
        let output = schedlab(home.path(), &words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?} {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{words:?} {}", stderr(&output));
        assert!(!home.path().join(".local/share/schedlab/schedlab.db").exists(), "{words:?} ran");
    }
}

#[test]
fn what_is_stored_is_tested_without_a_run() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("plan.toml"), format!("{PLAN}{HOLDS}{FAILS}")).unwrap();
    let run = |words: &[&str]| schedlab(home.path(), words).output().unwrap();
    let output = done(run(&["run", "plan.toml", "--backend", "null"]));
    let ids = stored(home.path());
    let said = stderr(&output);
    let last = said.lines().find(|line| line.starts_with("expectations: ")).expect(&said);
    assert!(said.contains("\nfails: other web/wakeup_p99 is at least 3x: "), "{said}");
    let test = format!("test plan={}", ids[0]);
    let (counts, command) = last.split_once(": schedlab ").unwrap_or_else(|| panic!("{last}"));
    assert_eq!(counts, "expectations: 1 holds, 1 fails");
    assert!(command.starts_with(&test), "{command}");
    let output = ended(run(&test.split(' ').collect::<Vec<_>>()), 1);
    assert!(stdout(&output).contains("2 expectations: 1 HOLD, 1 FAIL"), "{}", stdout(&output));
    assert_eq!(stored(home.path()), ids, "nothing ran");
    let more = [&test.split(' ').collect::<Vec<_>>()[..], &["--rounds", "3"]].concat();
    assert_eq!(run(&more).status.code(), Some(2));
    // An ended plan cannot be resumed, and the message says so; without a name there is no interrupted plan.
    for words in [&["test", "--resume"][..], &["test", "--resume", "last", "plan.toml"]] {
        assert_eq!(run(words).status.code(), Some(2), "{words:?}");
    }
    let resumed = ended(run(&["test", "--resume", &ids[0]]), 1);
    assert!(stdout(&resumed).contains("1 HOLD, 1 FAIL"), "{}", stdout(&resumed));
}

#[test]
fn what_is_wrong_is_refused_before_anything_runs() {
    let home = tempfile::tempdir().unwrap();
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
        assert_refused(home.path(), expectation, expected);
    }
    let better = "[[expect]]\nmetric = \"*_switches\"\nis = \"not-worse\"\n";
    let counter = ended(test(home.path(), &format!("{PLAN}{better}"), &["--probe", "sched"]), 2);
    let says = "is = \"more\" or is = \"less\"";
    assert!(stderr(&counter).contains(says), "{}", stderr(&counter));
    let other = "[[expect]]\nmetric = \"worker_wakeups\"\nis = \"more\"\n";
    let without_probe = stderr(&test(home.path(), &format!("{PLAN}{other}"), &[]));
    assert!(without_probe.contains("probes = [\"sched"), "{without_probe}");
    assert!(without_probe.contains("plan.toml:12:1"), "{without_probe}");
    for option in ["--aa", "--fail-on=regression", "--metric=throughput", "--metric=all"] {
        let output = test(home.path(), &format!("{PLAN}{HOLDS}"), &[option]);
        assert_eq!(output.status.code(), Some(2), "{option} {}", stderr(&output));
    }
    let cells = test(home.path(), &format!("{PLAN}{HOLDS}"), &["--dry-run"]);
    assert!(cells.status.success() && stdout(&cells).contains("web"), "{}", stderr(&cells));
    assert!(!home.path().join(".local/share/schedlab/schedlab.db").exists(), "nothing was stored");
}

#[test]
fn what_was_not_measured_is_said_and_is_no_success() {
    let home = tempfile::tempdir().unwrap();
    let plan = format!("{PLAN}[[workload]]\nname = \"far\"\nuse = \"spin\"\nllcs = [64]\n{HOLDS}");
    let output = ended(test(home.path(), &plan, &[]), 3);
    assert!(
        stdout(&output).contains("HOLDS") && stdout(&output).contains("llcs"),
        "{}",
        stdout(&output)
    );
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
    let home = tempfile::tempdir().unwrap();
    // Throughputs of the null backend scatter by 1 %, wakeup latencies by more.
    let same = "[[expect]]\nmetric = \"throughput\"\nis = \"same\"\n";
    let until = ["--until-decided", "--budget", "10min"];
    let decided = test(home.path(), &format!("{PLAN}{same}{HOLDS}"), &until);
    assert_eq!(decided.status.code(), Some(0), "{} {}", stdout(&decided), stderr(&decided));
    let (rounds, outcomes) = rounds_and_outcomes(&decided);
    assert!(rounds.ends_with(" rounds, all is decided"), "{rounds}");
    assert_eq!(outcomes, ["HOLDS", "HOLDS"]);
    let again = test(home.path(), &format!("{PLAN}{same}{HOLDS}"), &until);
    assert_eq!(
        rounds_and_outcomes(&again),
        (rounds.clone(), outcomes),
        "the clock decides nothing"
    );
    // Metrics without an expectation need not be decided; the one with an expectation takes longer here.
    let range = "[[expect]]\nmetric = \"wakeup_p99\"\nfrom = \"0.95x\"\nto = \"1.05x\"\n";
    let longer = test(home.path(), &format!("{PLAN}{range}"), &until);
    let number = |rounds: &str| rounds.split(' ').next().unwrap().parse::<u32>().unwrap();
    let (long, _) = rounds_and_outcomes(&longer);
    assert!(number(&long) > number(&rounds), "{long} {rounds}");
    // The reason of the end is reported if it was not the last look.
    let never = "[[expect]]\nmetric = \"throughput\"\nfrom = \"1x\"\n";
    let short =
        test(home.path(), &format!("{PLAN}{never}"), &["--until-decided", "--budget", "1s"]);
    let (rounds, outcomes) = rounds_and_outcomes(&short);
    let ends = ["ended by its budget of 1s", "no more were allowed"];
    assert!(ends.iter().any(|end| rounds.ends_with(end)), "{rounds}");
    assert_eq!((outcomes, short.status.code()), (vec!["OPEN".to_string()], Some(3)));
    let endless = test(home.path(), &format!("{PLAN}{same}"), &["--until-decided"]);
    assert_eq!(endless.status.code(), Some(2));
}
