//! Verdicts as a user gets them: `run`, `compare`, their formats and their exit codes.

use std::fs;
use std::ops::Deref;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::home;
use crate::support::{done, ended, joined, plan_ids, stderr, stdout};

/// Two equal variants, whose figures the null backend invents at once.
const PLAN: &str = "schema = 1\ntitle = \"two\"\n[measure]\nrounds = 12\nduration = \"2s\"\n\
    warmup = \"0s\"\nwindow = \"2s\"\n[[variant]]\nname = \"plain\"\n[[variant]]\n\
    name = \"other\"\n[[workload]]\nuse = \"spin\"\n";

/// The default is the null backend's baseline alone.
const LONE: &str = "schema = 1\ntitle = \"one\"\n[measure]\nrounds = 12\nduration = \"2s\"\n\
    warmup = \"0s\"\nwindow = \"2s\"\n[[workload]]\nuse = \"spin\"\n";

/// A home with both plans.
pub struct Home(home::Home);

impl Deref for Home {
    type Target = home::Home;

    fn deref(&self) -> &home::Home {
        &self.0
    }
}

impl Home {
    fn new() -> Home {
        let home = home::Home::new();
        home.write("two.toml", PLAN);
        home.write("one.toml", LONE);
        Home(home)
    }

    /// A home in which the plan was run once for each seed.
    pub fn with_runs(seeds: &[&str]) -> Home {
        let home = Home::new();
        for seed in seeds {
            home.null("./two.toml", &["--seed", seed, "--quiet"]);
        }
        home
    }

    /// A home with one plan, whose variant `other` has `factor` times the throughput.
    fn with_factor(factor: f64) -> Home {
        Home::of_plan_with_factor(PLAN, factor)
    }

    fn of_plan_with_factor(plan: &str, factor: f64) -> Home {
        let home = Home::new();
        home.write("two.toml", plan);
        home.null("./two.toml", &["--seed", "1", "--quiet"]);
        let lines = home.ok(&["export"]);
        let scaled: Vec<String> = lines.lines().map(|line| scaled(line, factor)).collect();
        home.replace_store(&scaled);
        home
    }

    /// A store with what these lines of an export say, in place of the one that is there.
    pub fn replace_store(&self, lines: &[String]) {
        self.write("lines", lines.join("\n"));
        fs::remove_dir_all(self.at(".local")).unwrap();
        self.ok(&["import", "lines"]);
    }

    fn call(&self, arguments: &[&str]) -> Output {
        self.0.call(&with_null(arguments))
    }

    pub fn ok(&self, arguments: &[&str]) -> String {
        self.0.ok(&with_null(arguments))
    }

    /// Checks that it fails with this code, which is not 0. Returns its messages.
    pub fn fails(&self, code: i32, arguments: &[&str]) -> String {
        self.0.says(code, &with_null(arguments))
    }

    /// Calls it while nobody reads its output. Returns its exit code and its messages.
    fn unread(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = self.command(&with_null(arguments));
        let child = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), stderr(&output))
    }

    pub fn null(&self, plan: &str, more: &[&str]) -> String {
        self.ok(&[&["run", plan, "--backend", "null"], more].concat())
    }

    pub fn ids(&self) -> Vec<String> {
        plan_ids(&self.ok(&["export"]))
    }

    /// The document of a comparison.
    fn compared(&self, arguments: &[&str]) -> Value {
        self.json(&with_null(&[&["compare"], arguments, &["--format", "json"]].concat()))
    }

    /// Set, metric and verdict of each headline row of a comparison.
    fn verdicts(&self, arguments: &[&str]) -> Vec<(String, String)> {
        verdicts(&self.compared(arguments))
    }
}

/// Plans of the null backend are `last` only where they are asked for.
pub const LAST: &str = "last,backend=null";
const LAST_3: &str = "last:3,backend=null";

/// The arguments with the null backend's plans instead of `last`.
fn with_null<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let mut words: Vec<&str> = arguments.iter().map(|word| of_null(word)).collect();
    let mut has_sides = false;
    let mut rest = arguments.iter().skip(1);
    while let Some(word) = rest.next() {
        match *word {
            "--mixed" | "-v" | "-vv" => {}
            columns if columns.starts_with("COLUMNS=") => {}
            option if option.starts_with("--") => drop(rest.next()),
            _ => has_sides = true,
        }
    }
    if !has_sides && matches!(arguments[0], "compare" | "report") {
        words.insert(1, of_null("last"));
    }
    words
}

fn of_null(word: &str) -> &str {
    match word {
        "last" => LAST,
        "last:2" => "last:2,backend=null",
        "last:3" => LAST_3,
        "variant=plain,all" => "variant=plain,all,backend=null",
        "variant=other,all" => "variant=other,all,backend=null",
        other => other,
    }
}

/// A line of `schedlab export` with the throughput of the second variant's runs changed. A factor of NaN
/// makes the throughput unknown.
pub fn scaled(line: &str, factor: f64) -> String {
    let mut event: Value = serde_json::from_str(line).unwrap();
    if event["event"] == "run_ended" && event["key"]["cell"] == 1 {
        for set in event["outcome"]["result"]["sets"].as_array_mut().unwrap() {
            for metric in set["metrics"].as_array_mut().unwrap() {
                if metric["name"] == "throughput" {
                    let value = metric["value"]["known"].as_f64().unwrap() * factor;
                    metric["value"] = if value.is_nan() {
                        json!({"unknown": "nobody counted"})
                    } else {
                        json!({"known": value})
                    };
                }
            }
        }
    }
    event.to_string()
}

/// The only analysis of a document.
fn analysis(document: &Value) -> &Value {
    assert_eq!(document["schema"], "schedlab-analysis");
    assert_eq!(document["version"], 2);
    let analyses = document["analyses"].as_array().unwrap();
    assert_eq!(analyses.len(), 1, "{document}");
    &analyses[0]
}

/// Set, metric and verdict of each row of the headline family.
pub fn verdicts(document: &Value) -> Vec<(String, String)> {
    verdicts_of("headline", document)
}

fn verdicts_of(family: &str, document: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let list = |value: &Value, key: &str| value[key].as_array().unwrap().clone();
    for work in list(analysis(document), "works") {
        for set in list(&work, "sets") {
            for row in list(&set, "rows").iter().filter(|row| row["family"] == family) {
                let name = row["name"].as_str().unwrap();
                let place = format!("{}/{name}", set["name"].as_str().unwrap());
                for cell in list(row, "cells").iter().skip(1) {
                    // An event that never happened on either side has no verdict.
                    if let Some(verdict) = word(&cell["judged"]["verdict"]) {
                        found.push((place.clone(), verdict));
                    }
                }
            }
        }
    }
    assert!(!found.is_empty(), "{document}");
    found
}

/// The word of a choice: a text, or the only key of one with data.
fn word(choice: &Value) -> Option<String> {
    let key = || choice.as_object().and_then(|choice| choice.keys().next().cloned());
    choice.as_str().map(str::to_string).or_else(key)
}

/// The command at the end of a text that repeats its last analysis, without the program's name; its lines are
/// joined, as by a shell.
pub fn again(text: &str) -> String {
    let at = text.rfind("\nagain ").unwrap_or_else(|| panic!("no command: {text}"));
    let message = joined(&text[at..].replace(" \\\n", " "));
    let command = message.strip_prefix("again schedlab ");
    command.unwrap_or_else(|| panic!("{message}")).to_string()
}

fn has_verdict(text: &str) -> bool {
    text.split_whitespace().any(|word| ["SAME", "BETTER", "WORSE", "open"].contains(&word))
}

/// Two plans of the null backend: the first looks like one of a host, the second like one of the lab. In the
/// lab the variant `other` has `in_lab` times the throughput, on the host half of it.
fn host_and_lab(in_lab: f64) -> Home {
    let home = Home::with_runs(&["1", "2"]);
    let (mut backends, mut factors) = (["local", "lab"].iter(), [0.5, in_lab].into_iter());
    let mut factor = 1.0;
    let lines: Vec<String> = home
        .ok(&["export"])
        .lines()
        .map(|line| {
            let mut event: Value = serde_json::from_str(line).unwrap();
            if event["event"] == "plan_started" {
                event["backend"] = (*backends.next().unwrap()).into();
                factor = factors.next().unwrap();
            }
            scaled(&event.to_string(), factor)
        })
        .collect();
    home.replace_store(&lines);
    home
}

/// The table of [`PLAN`] again, for the metric and the margin of the run.
#[test]
fn a_report_asks_as_the_run_did_unless_it_asks_itself() {
    let home = Home::new();
    home.null("./two.toml", &["--metric", "cpus", "--margin", "7%", "--quiet"]);
    let rows = |report: &str| {
        ["  cpus ", "  throughput ", "--margin 7%"].map(|word| report.contains(word))
    };
    let again = home.ok(&["report", "last"]);
    assert_eq!(rows(&again), [true, false, true], "{again}");
    let other = home.ok(&["report", "last", "--metric", "throughput"]);
    assert_eq!(rows(&other), [false, true, false], "{other}");
    // Plans come from outside, too: a metric that is not there is not asked for.
    let lines = home.ok(&["export"]);
    let asked = r#""metrics":["cpus"]"#;
    assert!(lines.contains(asked), "{lines}");
    home.replace_store(&[lines.replace(asked, r#""metrics":["nonesuch"]"#)]);
    let foreign = home.ok(&["report", "last"]);
    assert_eq!(rows(&foreign), [false, true, false], "{foreign}");
}

#[test]
fn fidelity_is_how_often_the_lab_says_what_the_host_says() {
    let home = host_and_lab(0.6);
    fn compare<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["compare", "--fidelity", "backend=local", "backend=lab"], more].concat()
    }
    let text = home.ok(&compare(&[]));
    let row = text.lines().find(|line| line.starts_with("throughput")).unwrap();
    let verdicts: Vec<&str> = row.split(' ').filter(|word| *word == "WORSE").collect();
    assert_eq!(verdicts.len(), 2, "{text}");
    let words: Vec<String> = again(&text).split(' ').map(str::to_string).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert_eq!(home.ok(&words), text, "the command that stands there gives it again");
    let summary = |home: &Home| home.json(&compare(&["--format", "json"]))["summary"].clone();
    assert_eq!(summary(&home)["signs"], json!({ "count": 1, "of": 1 }));
    assert_eq!(summary(&host_and_lab(2.0))["contradict"], 1);

    let swapped = ["compare", "--fidelity", "backend=lab", "backend=local"];
    assert!(home.fails(2, &swapped).contains("first side has to be of a host"));
    for more in
        [&["--format", "junit"][..], &["--mixed"], &["--fail-on", "bisect"], &["--against", "last"]]
    {
        let arguments = compare(more);
        let code = if more.contains(&"bisect") { 255 } else { 2 };
        home.fails(code, &arguments);
    }
    home.fails(2, &["compare", "--fidelity", "backend=local"]);
}

/// Whatever cannot be is said before the host measures.
#[test]
fn a_plan_for_both_instruments_is_checked_before_it_runs() {
    let home = Home::new();
    home.null("./two.toml", &[]);
    let cases: [(&[&str], &str); 4] = [
        (&["./two.toml", "--format", "html"], "format of --fidelity"),
        (&["--resume", "last"], "backend=local"),
        (&["./two.toml", "--machine", "none.toml"], "none.toml cannot be read"),
        (&["./two.toml", "--backend", "lab"], "cannot be used with"),
    ];
    for (words, expected) in cases {
        let arguments = [&["run", "--and-lab"], words].concat();
        let output = home.0.call(&arguments);
        let message = stderr(&output);
        let is_refused = matches!(output.status.code(), Some(2 | 3));
        assert!(is_refused && message.contains(expected), "{words:?}: {message}");
        assert_eq!(home.ids().len(), 1, "nothing was measured");
    }
    // It takes half a minute, and a file keeps it.
    let words = ["run", "./two.toml", "--backend", "lab", "--machine", "twin", "--dry-run"];
    let message = home.0.both(None, &words);
    assert!(message.contains("a run measures this machine"), "{message}");
    assert!(!home.at(".local/state/schedlab/machine.toml").exists(), "it was measured");
    let message = home.fails(2, &["test", "./two.toml", "--and-lab"]);
    assert!(message.contains("test does not take --and-lab"), "{message}");
}

#[test]
fn a_run_ends_with_the_verdicts_that_compare_gives_again() {
    let home = Home::new();
    let printed = home.null("./two.toml", &[]);
    let id = home.ids().remove(0);
    let command = format!("compare plan={id}");
    assert!(printed.contains("throughput") && again(&printed) == command, "{printed}");
    assert!(has_verdict(&printed), "{printed}");
    assert!(printed.contains("the backend invents its figures"), "{printed}");
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(home.ok(&words), printed, "the command that stands there gives it again");
    assert_eq!(home.ok(&["report", &id]), printed, "and so does a report of the plan");
    assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
    let other = home.null("./two.toml", &["--format", "csv"]);
    assert!(other.starts_with("kind,plan,") && !other.contains("\nagain "), "no text among data");
    assert_eq!(home.null("./two.toml", &["--quiet"]), "");
    let lone = home.null("./one.toml", &[]);
    assert!(lone.contains("throughput"), "{lone}");
    assert!(!has_verdict(&lone), "one variant has no verdicts: {lone}");
}

#[test]
fn a_variant_next_to_its_plan_has_the_command_that_shows_both() {
    let home = Home::with_runs(&["1"]);
    let id = home.ids().remove(0);
    let said = home.says(2, format!("compare plan={id} other"));
    assert!(said.ends_with(&format!("hint: schedlab compare plan={id}\n")), "{said}");
}

#[test]
fn variants_plans_and_dates_are_compared() {
    let home = Home::with_runs(&["1", "2"]);
    let ids = home.ids();
    // The comparison as JSON; its exit code does not matter here.
    let json = |arguments: &[&str]| home.compared(arguments);
    let sides = |document: &Value| -> Vec<(String, Vec<String>)> {
        let sides = analysis(document)["sides"].as_array().unwrap().iter();
        let words = |list: &Value| serde_json::from_value(list.clone()).unwrap();
        sides
            .map(|side| (side["label"].as_str().unwrap().to_string(), words(&side["plans"])))
            .collect()
    };
    let side = |label: &str, plans: &[&String]| {
        (label.to_string(), plans.iter().map(|id| id.to_string()).collect::<Vec<String>>())
    };
    let (old, new) = (&ids[0], &ids[1]);
    let newest = json(&[]);
    assert_eq!(sides(&newest), [side("plain", &[new]), side("other", &[new])]);
    assert_eq!(analysis(&newest)["method"]["pairing"], "within_rounds");
    assert_eq!(verdicts(&json(&["plain", "other"])), verdicts(&newest));
    assert_eq!(verdicts(&json(&["last"])), verdicts(&newest));
    assert_eq!(sides(&json(&["other", "plain"]))[0].0, "other");
    assert_eq!(sides(&json(&[old]))[1], side("other", &[old]), "the variants of one plan");
    let said = home.says(2, format!("compare plan={new} plain other"));
    let hint = format!("hint: schedlab compare plan={new},variant=plain plan={new},variant=other");
    assert!(said.contains("runs in common") && said.contains(&hint), "{said}");
    let two = json(&[old, new]);
    assert_eq!(sides(&two), [side(old, &[old]), side(new, &[new])]);
    assert_eq!(analysis(&two)["method"]["pairing"], "none");
    let labels = |document: &Value| {
        let works = analysis(document)["works"].as_array().unwrap().iter();
        works.map(|work| work["label"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(labels(&two), ["spin [plain]", "spin [other]"]);
    home.null("./two.toml", &["--seed", "3", "--quiet"]);
    let newest = home.ids().remove(2);
    let against = json(&["last", "--against", "last:3"]);
    assert_eq!(sides(&against), [side(LAST_3, &[old, new]), side(LAST, &[&newest])]);
    let of_newest = json(&["--against", "last:3"]);
    assert_eq!(analysis(&of_newest)["works"], analysis(&against)["works"], "of the newest plan");
    let both = json(&["variant=plain,all", "variant=other,all"]);
    assert_eq!(analysis(&both)["method"]["pairing"], "within_rounds");
    assert_eq!(analysis(&both)["sides"][0]["runs"], 36);
    let run = home.null("./two.toml", &["--seed", "4", "--against", "last:3"]);
    let id = home.ids().remove(3);
    assert!(run.contains("last:3,backend=null") && run.contains("  baseline; "), "{run}");
    let command = again(&run).strip_prefix("compare ").unwrap().to_string();
    let begins = format!("plan={id} --against last:3,backend=null,until=");
    assert!(command.starts_with(&begins), "{command}");
    let words: Vec<&str> = command.split(' ').collect();
    let works = |arguments: &[&str]| {
        let document = json(arguments);
        let document = analysis(&document);
        let labels = document["sides"].as_array().unwrap().iter().map(|side| &side["label"]);
        let works = document["works"].to_string();
        labels.fold(works, |works, label| works.replace(&label.to_string(), "\"\""))
    };
    let then = works(&words);
    assert_eq!(then, works(&["last", "--against", "last:3"]));
    home.null("./two.toml", &["--seed", "5", "--quiet"]);
    assert_eq!(works(&words), then, "whatever was stored since");
    assert_ne!(works(&["last", "--against", "last:3"]), then);
}

#[test]
fn every_format_has_the_same_comparison() {
    let home = Home::with_factor(0.5);
    let rendered = |name: &str| home.ok(&["compare", "--metric", "throughput", "--format", name]);
    assert!(rendered("text").contains("WORSE"), "{}", rendered("text"));
    assert_eq!(home.ok(&["compare", "--metric", "throughput"]), rendered("text"));
    let lkml = rendered("lkml");
    assert!(lkml.contains("Case: ") && lkml.contains("schedlab compare"), "{lkml}");
    let csv = rendered("csv");
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let head = rows.headers().unwrap().clone();
    let column = head.iter().position(|name| name == "verdict").expect("a verdict");
    assert!(rows.records().any(|row| &row.unwrap()[column] == "worse"), "{csv}");
    let json: Value = serde_json::from_str(&rendered("json")).unwrap();
    assert_eq!(verdicts(&json), [("spin/throughput".to_string(), "worse".to_string())]);
    assert!(rendered("gobench").lines().any(|line| line.starts_with("Benchmark")));
    assert!(rendered("markdown").contains("**WORSE**"), "{}", rendered("markdown"));
    assert!(rendered("junit").contains("<failure"), "{}", rendered("junit"));
    let message = home.fails(2, &["compare", "--format", "pdf"]);
    let all =
        "one of text, lkml, loads, markdown, html, svg, png, schbench, csv, json, gobench, junit";
    assert!(message.contains(all), "{message}");
}

#[test]
fn exit_codes_say_what_the_verdicts_say() {
    let worse = Home::with_factor(0.5);
    let one = ["compare", "--metric", "throughput"];
    let with = |more: &[&'static str]| [&one[..], more].concat();
    worse.ok(&one);
    for gate in [["--fail-on", "regression"], ["--fail-on", "bisect"]] {
        let message = worse.fails(1, &with(&gate));
        assert_eq!(message, "regression: spin throughput of other is WORSE\n");
    }
    let better = Home::with_factor(2.0);
    better.ok(&with(&["--fail-on", "regression"]));
    better.ok(&with(&["--fail-on", "bisect"]));
    // Equal figures and a narrow margin leave it undecided: neither a regression nor a good commit.
    let open = Home::with_factor(1.0);
    let narrow = ["--margin", "0.01%"];
    assert_eq!(open.verdicts(&[&one[1..], &narrow].concat())[0].1, "inconclusive");
    open.ok(&[&with(&["--fail-on", "regression"])[..], &narrow].concat());
    let message = open.fails(125, &[&with(&["--fail-on", "bisect"])[..], &narrow].concat());
    assert!(message.starts_with("not decided: spin throughput of other\nhint: "), "{message}");
    open.ok(&with(&["--fail-on", "bisect", "--margin", "50%"]));
}

#[test]
fn what_could_not_be_judged_is_no_good_news() {
    let plan = format!("{PLAN}count = 2\n");
    let unknown = Home::of_plan_with_factor(&plan, f64::NAN);
    let message = unknown.fails(3, &["compare", "--fail-on", "regression", "--margin", "50%"]);
    assert!(message.contains("not all could be judged: "), "{message}");
    assert!(message.contains("throughput"), "{message}");
    assert!(message.contains("hint: "), "{message}");
    unknown.fails(125, &["compare", "--fail-on", "bisect", "--margin", "50%"]);
    unknown.ok(&["compare"]);
    unknown.ok(&["compare", "--fail-on", "bisect", "--margin", "50%", "--metric", "fairness"]);
    // 0 is a value, and the worst throughput.
    let zero = Home::of_plan_with_factor(&plan, 0.0);
    let message = zero.fails(1, &["compare", "--fail-on", "regression", "--margin", "50%"]);
    assert_eq!(message, "regression: spin throughput of other is WORSE\n");
    zero.fails(1, &["compare", "--fail-on", "bisect", "--margin", "50%"]);
}

#[test]
fn the_verdict_decides_the_exit_code_also_where_nobody_reads() {
    let worse = Home::with_factor(0.5);
    let gate = ["--fail-on", "regression"];
    let compare = ["compare", "--metric", "throughput"];
    let message = (Some(1), "regression: spin throughput of other is WORSE\n".to_string());
    assert_eq!(worse.unread(&[&compare[..], &gate].concat()), message);
    assert_eq!(worse.unread(&[&compare[..], &["--fail-on", "bisect"]].concat()), message);
    assert_eq!(worse.unread(&compare), (Some(0), String::new()));
    // The stored plan has twice the throughput that will be measured.
    let better = Home::with_factor(2.0);
    let run = ["run", "./two.toml", "--backend", "null", "--seed", "1", "--metric", "throughput"];
    let stored = format!("plan={}", better.ids().remove(0));
    let against = ["--against", &stored];
    for format in ["text", "lkml", "csv"] {
        let all = [&run[..], &against, &gate, &["--format", format]].concat();
        let (code, message) = better.unread(&all);
        assert_eq!(code, Some(1), "{format}: {message}");
        assert!(message.contains("regression: spin [other] throughput of "), "{format}: {message}");
    }
    let (code, message) = better.unread(&run);
    assert_eq!(code, Some(0), "{message}");
    assert!(!message.contains("error"), "{message}");
}

#[test]
fn a_run_prints_the_verdicts_that_it_acts_by_in_every_format_that_has_them() {
    let home = Home::new();
    let asked = ["--metric", "throughput", "--margin", "50%", "--db", "./a b.db"];
    for format in ["text", "lkml"] {
        let run = home.null("./two.toml", &[&asked[..], &["--format", format]].concat());
        let message = joined(&run.replace(" \\\n", " "));
        let at = message.rfind("schedlab compare plan=").unwrap_or_else(|| panic!("{message}"));
        let command: Vec<&str> = message[at..].split(' ').collect();
        let id = command[2];
        let way = if format == "text" { "" } else { "--format lkml " };
        let words = format!("--margin 50% --metric throughput {way}--db './a b.db'");
        assert_eq!(command[3..].join(" "), words);
        let again = [&["compare", id], &asked[..], &["--format", format]].concat();
        let again = home.ok(&again);
        assert_eq!(run, again);
        assert!(again.contains("SAME"), "{again}");
    }
    let csv = home.null("./two.toml", &[&asked[..4], &["--format", "csv"]].concat());
    assert!(csv.contains(",same,"), "{csv}");
    // A plan with one variant has no verdicts, except against another plan.
    let lone = home.null("./one.toml", &["--format", "lkml"]);
    assert!(lone.contains("Case: ") && !lone.contains("Verdicts, "), "{lone}");
    let against = home.null("./one.toml", &["--format", "lkml", "--against", "last"]);
    assert!(against.contains("Verdicts, "), "{against}");
}

#[test]
fn a_bisection_takes_no_failure_for_a_bad_commit() {
    let home = Home::new();
    home.write("broken.toml", "schema = 1\n[[nonsense]]\n");
    let null = |plan: &'static str, more: &[&'static str]| {
        [&["run", plan, "--backend", "null", "--fail-on", "bisect"], more].concat()
    };
    for (arguments, message) in [
        (null("./broken.toml", &[]), "nonsense"),
        (null("./nonesuch.toml", &[]), "there is no built-in plan or file"),
        (null("./two.toml", &["--rounds", "0"]), "--rounds: 0 is below the least"),
        (null("./two.toml", &["--nonsense"]), "--nonsense"),
        (null("./two.toml", &["--margin", "2"]), "`2` is not a margin"),
        (null("./two.toml", &["--against", "last"]), "--against: nothing is stored yet"),
        (null("./one.toml", &[]), "the plan has one variant alone"),
        (null("./two.toml", &["--metric", "nonesuch"]), "`nonesuch` names no metric"),
    ] {
        let said = home.fails(255, &arguments);
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
    // Without stored plans, or without judged metrics, the result counts as not measured.
    home.fails(125, &["compare", "--fail-on", "bisect", "--db", "missing.db"]);
    let said = home.fails(125, &null("./two.toml", &["--metric", "cpus"]));
    assert!(said.contains("what was compared explains, and has no verdicts"), "{said}");
    // Without it the same failures have their usual codes.
    home.fails(2, &["run", "./two.toml", "--nonsense"]);
    home.fails(2, &["run", "./one.toml", "--backend", "null", "--fail-on", "regression"]);
    assert!(home.ok(&["run", "--help-all"]).contains("git bisect run"));
    // Old scripts end there, too.
    assert!(home.fails(255, &["compare", "--bisect"]).contains("hint: --fail-on bisect"));
    home.ok(&["run", "--help", "--fail-on", "bisect"]);
}

#[test]
fn what_is_asked_in_vain_is_refused_before_the_first_run() {
    let home = Home::with_runs(&["1"]);
    for (more, message) in [
        (&["./one.toml", "--fail-on", "bisect"][..], "the plan has one variant alone"),
        (
            &["./one.toml", "--until-decided", "--budget", "1h", "--against", "last"],
            "--until-decided",
        ),
        (&["./two.toml", "--against", "nonesuch"], "--against: no stored plan has"),
        (&["./two.toml", "--metric", "thruoghput"], "did you mean `throughput`?"),
        (&["./two.toml", "--metric", "spni/throughput"], "did you mean `spin/throughput`?"),
        (&["./two.toml", "--margin", "wakeup_p99=5%"], "--margin: `wakeup_p99` names no metric"),
        (
            &["./two.toml", "--margin", "throughput=1%,fairness=2%"],
            "repeat the option: --margin throughput=1% --margin fairness=2%",
        ),
    ] {
        let output = home.call(&[&["run", "--backend", "null"], more].concat());
        let said = stderr(&output);
        assert!(said.contains(message) && said.contains("hint: "), "{more:?}: {said}");
        assert_eq!(home.ids().len(), 1, "nothing was run");
    }
    // The variant is measured against itself, or against another plan.
    home.null("./one.toml", &["--aa", "--fail-on", "regression", "--quiet", "--margin", "50%"]);
    home.null("./two.toml", &["--against", "last:2", "--quiet"]);
}

#[test]
fn rounds_go_on_until_all_is_decided() {
    let home = Home::new();
    let message = home.fails(2, &["run", "./two.toml", "--backend", "null", "--until-decided"]);
    assert!(
        message.contains("`until-decided` needs a budget") && message.contains("hint: "),
        "{message}"
    );
    home.write("until.toml", PLAN.replace("[measure]", "[measure]\nuntil-decided = true"));
    let message = home.fails(2, &["run", "./until.toml", "--backend", "null"]);
    assert!(message.contains("`until-decided` needs a budget"), "{message}");
    home.fails(2, &["run", "./two.toml", "--until-decided", "--budget", "1h", "--rounds", "3"]);
    let asked = ["--metric", "throughput", "--margin", "5%"];
    let until = ["--until-decided", "--budget", "1h"];
    let printed = home.null("./two.toml", &[&until[..], &asked].concat());
    let events = home.ok(&["export"]);
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(last["reason"], "decided");
    let rounds = events.lines().filter(|line| line.contains("\"run_ended\"")).count() / 2;
    assert!([10, 15, 23, 35].contains(&rounds), "at a look: {rounds}");
    assert!(printed.contains("SAME"), "{printed}");
    let command = again(&printed);
    assert_eq!(home.ok(&command.split(' ').collect::<Vec<_>>()), printed, "and again");
    let document = home.compared(&asked);
    let looks = &analysis(&document)["method"]["looks"];
    assert_eq!(looks.as_array().unwrap().last().unwrap(), rounds);
    assert_eq!(verdicts(&document), [("spin/throughput".to_string(), "same".to_string())]);
}

#[test]
fn what_was_decided_or_ran_out_of_time_does_not_go_on() {
    let decided = Home::new();
    let plan = ["run", "./two.toml", "--backend", "null", "--until-decided", "--budget", "1h"];
    let asked = ["--metric", "throughput", "--margin", "50%"];
    let output = done(decided.call(&[&plan[..], &asked].concat()));
    let message = stderr(&output);
    assert!(message.ends_with("10 rounds done, 60 min of the budget left\n"), "{message}");
    let first = ": until it is decided, 60 min of the budget left\n1 round done, ";
    assert!(message.contains(first) && !message.contains("runs"), "{message}");
    let events = decided.ok(&["export"]);
    let begun: Vec<&str> = events.lines().take(8).collect();
    let imported = |lines: &[&str]| {
        let home = Home::new();
        home.write("lines", lines.join("\n"));
        home.ok(&["import", "lines"]);
        home
    };
    let last = events.lines().last().unwrap();
    let [budget, complete, interrupted] = ["budget", "complete", "interrupted"].map(|reason| {
        let ended = last.replace("decided", reason);
        assert_ne!(ended, last);
        imported(&[&begun[..], &[&ended]].concat())
    });
    for (home, why, listed) in [
        (&decided, "cannot go on: all of it is decided", "decided"),
        (&budget, "cannot go on: its budget is used up", "budget"),
        (&complete, "cannot go on: all of its rounds are done", "complete"),
    ] {
        let id = home.ids().remove(0);
        let message = home.fails(2, &["run", "--resume", &id]);
        assert!(message.contains(why) && message.contains("\nhint: "), "{message}");
        home.fails(255, &["run", "--resume", &id, "--fail-on", "bisect"]);
        assert!(home.fails(2, &["run", "--resume"]).contains("nothing to resume"));
        assert!(home.ok(&["list", "runs"]).contains(listed), "{}", home.ok(&["list", "runs"]));
    }
    // A plan's end leaves some of the error rate for added rounds.
    for home in [&budget, &complete] {
        let id = home.ids().remove(0);
        let added = ["run", "--resume", &id, "--quiet", "--rounds"];
        home.fails(2, &[&added[..], &["20"]].concat());
        home.ok(&[&added[..], &["+20"]].concat());
        let listed = home.ok(&["list", "runs"]);
        assert!(joined(&listed).ends_with(" 15 decided"), "{listed}");
        assert!(home.ok(&["export"]).contains("\"ends\":["));
    }
    // A plan of fixed rounds has spent its error rate.
    let fixed = Home::new();
    fixed.null("./two.toml", &["--quiet"]);
    let message = fixed.fails(2, &["run", "--resume", &fixed.ids()[0], "--rounds", "+3"]);
    assert!(message.contains("--until-decided"), "{message}");
    // A plan that was interrupted or killed continues, and is decided by the same looks at the same metrics.
    let elsewhere = begun.join("\n").replace("\"hostname\":\"null\"", "\"hostname\":\"other\"");
    let elsewhere = imported(&[&elsewhere]);
    let message = elsewhere.fails(2, &["run", "--resume"]);
    let go_on = format!("run --resume {}", elsewhere.ids()[0]);
    assert!(message.contains("was begun on machine other"), "{message}");
    assert!(message.trim_end().ends_with(&go_on), "{message}");
    let output = elsewhere.call(&["run", "--resume", &elsewhere.ids()[0]]);
    assert_eq!(output.status.code(), Some(0), "asked for: {output:?}");
    assert!(stderr(&output).contains("warning: "), "{output:?}");
    for home in [interrupted, imported(&begun)] {
        let printed = home.ok(&["run", "--resume"]);
        assert!(home.ok(&["list", "runs"]).contains("decided"));
        assert!(again(&printed).ends_with(" --margin 50% --metric throughput"), "{printed}");
    }
}

#[test]
fn a_knob_that_cannot_make_a_difference_is_noted() {
    let home = Home::new();
    let plan = "schema = 1\n[measure]\nrounds = 2\nduration = \"1s\"\n[[variant]]\n\
        name = \"plain\"\n[[variant]]\nname = \"nicer\"\nnice = 5\n[[variant]]\n\
        name = \"heavy\"\ncgroup-weight = 1000\nnice = 2\n[[workload]]\nname = \"alone\"\n\
        use = \"spin\"\n[[workload]]\nname = \"both\"\n[[workload.set]]\nname = \"a\"\n\
        use = \"spin\"\n[[workload.set]]\nname = \"b\"\nuse = \"spin\"\n\
        knobs = { nice = 1 }\n";
    home.write("knobs.toml", plan);
    let found = |document: &Value| {
        let notes = analysis(document)["notes"].as_array().unwrap().clone();
        let is_such = |note: &Value| note["note"] == "knob_without_effect";
        notes.into_iter().filter(is_such).collect::<Vec<_>>()
    };
    let expected = [
        json!({ "note": "knob_without_effect", "side": "nicer", "knob": "nice", "works": ["alone"], "scheduler": null, "own_of_sets": false }),
        json!({ "note": "knob_without_effect", "side": "heavy", "knob": "nice", "works": ["alone"], "scheduler": null, "own_of_sets": false }),
        json!({ "note": "knob_without_effect", "side": "heavy", "knob": "cgroup-weight", "works": ["alone", "both"], "scheduler": null, "own_of_sets": false }),
    ];
    let printed = home.json("run ./knobs.toml --backend null --format json");
    assert_eq!(found(&printed), expected, "{printed}");
    assert_eq!(found(&home.compared(&[])), expected);
    let dry = home.null("./knobs.toml", &["--dry-run"]);
    let line = |cell: &str| dry.lines().find_map(|line| line.strip_prefix(cell)).unwrap();
    assert_eq!(line("alone / plain: "), "ok");
    assert!(line("alone / nicer: ").starts_with("ok, but nice 5 changes nothing"), "{dry}");
    assert_eq!(line("both / nicer: "), "ok");
    let both =
        "alone / heavy: ok, but nice 2 changes nothing: all workers have it; cgroup-weight 1000 ";
    assert!(joined(&dry).contains(both), "{dry}");
    assert!(line("both / heavy: ").starts_with("ok, but cgroup-weight 1000 "), "{dry}");
}

#[test]
fn aa_measures_the_first_variant_against_itself() {
    let home = Home::new();
    let knobs = PLAN.replace("name = \"plain\"", "name = \"plain\"\npolicy = \"batch\"");
    home.write("knobs.toml", knobs);
    let printed = home.null("./knobs.toml", &["--aa"]);
    assert!(joined(&printed).contains(" plain plain-again spin throughput "), "{printed}");
    let started = home.events("").swap_remove(0);
    assert_eq!(started["plan"]["aa"], true);
    let variants = started["plan"]["variants"].as_array().unwrap();
    let names: Vec<&str> = variants.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["plain", "plain-again"]);
    assert_eq!(variants[0]["knobs"], variants[1]["knobs"]);
    assert!(variants[0]["knobs"].to_string().contains("batch"), "{variants:?}");
    assert_eq!(started["cells"].as_array().unwrap().len(), 2);
}

#[test]
fn too_few_rounds_are_reported() {
    let home = Home::new();
    let printed = home.null("./two.toml", &["--rounds", "2"]);
    assert!(joined(&printed).contains("open 1 of 1: spin throughput"), "{printed}");
    let document = home.compared(&[]);
    let row = &analysis(&document)["works"][0]["sets"][0]["rows"][0];
    let verdict = &row["cells"][1]["judged"]["verdict"];
    let least = &verdict["inconclusive"]["why"]["too_few_rounds"]["least"];
    assert!(least.as_u64().unwrap() > 2, "{verdict}");
}

#[test]
fn margins_and_metrics_are_what_the_user_says() {
    let home = Home::new();
    home.write("two.toml", PLAN.replace("spin", "schbench"));
    home.null("./two.toml", &["--quiet"]);
    let worded = ["--margin", "100%", "--margin", "schbench/throughput=0.01%"];
    let found = home.verdicts(&worded);
    for (metric, verdict) in &found {
        let expected = if metric == "schbench/throughput" { "inconclusive" } else { "same" };
        assert_eq!(verdict, expected, "{metric}");
    }
    assert!(found.len() > 1, "{found:?}");
    let command = again(&home.ok(&[&["compare"], &worded[..]].concat()));
    assert!(command.ends_with("--margin 100% --margin schbench/throughput=0.01%"), "{command}");
    // The other metrics are a separate family, and do not change the headline verdicts.
    let all = home.compared(&["--metric", "all"]);
    assert_eq!(verdicts(&all), home.verdicts(&[]));
    assert!(verdicts_of("explaining", &all).len() > found.len(), "{all}");
    let mail = |more: &[&str]| home.ok(&[&["compare", "--format", "schbench"], more].concat());
    assert!(!joined(&mail(&[])).contains("explaining family"), "{}", mail(&[]));
    let explained = mail(&["--metric", "all"]);
    assert!(joined(&explained).contains("explaining family"), "{explained}");
    for wrong in ["2", "0%", "-1%", "101%", "two%", "=2%", "x=y"] {
        let margin = format!("--margin={wrong}");
        for command in [&["compare"][..], &["run", "./two.toml"]] {
            let message = home.fails(2, &[command, &[&margin]].concat());
            assert!(
                message.contains(&format!("`{wrong}` is not a margin\nhint: 2% or throughput=1%")),
                "{message}"
            );
        }
    }
    let both = home.verdicts(&["--metric", "throughput", "--metric", "all"]);
    assert_eq!(both.len(), 1, "a headline family of its own: {both:?}");
    let named = |metric| home.verdicts(&["--metric", metric]);
    assert_eq!(named("schbench/throughput"), named("throughput"));
    for (metric, message) in
        [("thruput", "did you mean `throughput`?"), ("web/*", "names no metric")]
    {
        let said = home.fails(2, &["compare", "--metric", metric]);
        assert!(said.contains(message) && said.contains("hint: "), "{said}");
        home.fails(255, &["compare", "--metric", metric, "--fail-on", "bisect"]);
        home.fails(2, &["compare", "--margin", &format!("{metric}=1%")]);
    }
    let web = PLAN.replace("use = \"spin\"", "use = \"schbench\"\nname = \"web\"");
    home.write("web.toml", web);
    home.null("./web.toml", &["--metric", "web/throughput", "--quiet"]);
    assert_eq!(named("web/throughput").len(), 1);
}

#[test]
fn what_cannot_be_compared_is_refused_with_a_hint() {
    let home = Home::new();
    // Without a store the message is that of `schedlab report`.
    let message = home.fails(3, &["compare"]);
    assert_eq!(message, home.fails(3, &["report"]));
    home.null("./one.toml", &["--quiet"]);
    home.ok(&["rm", "--yes", &home.ids()[0]]);
    for arguments in [&["compare"][..], &["compare", "a", "b"], &["compare", "--against", "last"]] {
        let message = home.fails(3, arguments);
        assert_eq!(message, "error: nothing is stored yet\nhint: schedlab run quick\n");
    }
    home.null("./one.toml", &["--quiet"]);
    let said = home.fails(2, &["compare"]);
    assert!(said.contains("is one side alone: nothing to compare"), "{said}");
    for (arguments, message) in [
        (&["compare", "nonesuch", "default"][..], "machine, tag or id `nonesuch`"),
        (&["compare", "default", "default"], "`default` stands twice"),
        (&["compare", "last", "--against", "last"], "--against: no other plan is stored"),
        (&["compare", "default", "--against", "batch"], "hint: two variants of one plan"),
        (&["compare", "\u{1b}[2J", "default"], "`\\u{1b}[2J`"),
    ] {
        let said = home.fails(2, arguments);
        assert!(said.contains(message) && said.contains("hint: "), "{arguments:?}: {said}");
        assert!(!said.contains('\u{1b}'), "{said}");
    }
    // Another duration makes it other work.
    home.null("./one.toml", &["--duration", "3s", "--quiet"]);
    let output = ended(home.call(&["compare", "last", "--against", "last"]), 3);
    let words: Vec<String> = stdout(&output).split_whitespace().map(str::to_string).collect();
    assert!(words.join(" ").contains("the duration is 2s and 3s"), "{}", stdout(&output));
    assert!(stderr(&output).contains("hint: schedlab list runs"), "{}", stderr(&output));
    home.fails(125, &["compare", "last", "--against", "last", "--fail-on", "bisect"]);
}

/// Runs on this machine: every source of the probe counts switches. Next to other load a worker may get no
/// CPU for some 200 ms.
#[test]
fn switches_of_each_role_stand_next_to_the_throughput() {
    let home = Home::new();
    let plan = "schema = 1\ntitle = \"why\"\nprobes = [\"sched\"]\n[measure]\nrounds = 2\n\
        duration = \"800ms\"\nwarmup = \"0s\"\nwindow = \"400ms\"\n[[variant]]\nname = \"default\"\n\
        [[variant]]\nname = \"batch\"\npolicy = \"batch\"\n[[workload]]\nuse = \"pipe\"\n";
    home.write("why.toml", plan);
    let ran = home.ok(&["run", "./why.toml"]);
    assert!(ran.contains("throughput") && !ran.contains("_switches"), "the headlines: {ran}");
    let explained = home.ok(&["compare", "last:1", "-v"]);
    assert!(explained.contains("ping_voluntary_switches"), "{explained}");
    let lkml = home.ok(&["compare", "last:1", "--format", "lkml"]);
    assert!(lkml.contains("pong_involuntary_switches_per_op"), "{lkml}");
    assert!(!lkml.contains("preempted_by"), "only what explains most: {lkml}");
    let json = home.compared(&["last:1"]);
    let rows = analysis(&json)["works"][0]["sets"][0]["rows"].as_array().unwrap();
    for role in ["ping", "pong"] {
        for kind in ["voluntary", "involuntary"] {
            let name = format!("{role}_{kind}_switches_per_op");
            let row = rows.iter().find(|row| row["name"] == name.as_str()).expect(&name);
            for cell in row["cells"].as_array().unwrap() {
                let per_op = cell["mean"].as_f64().unwrap_or_else(|| panic!("{row}"));
                assert!(per_op > 0.0 || kind == "involuntary", "{row}");
                assert!(cell["judged"].is_null(), "{row}");
            }
        }
    }
    // An explaining metric is shown when it alone is asked for, and no gate passes on it.
    let alone = ["compare", "last:1", "--metric", "p*_voluntary_switches"];
    assert!(home.ok(&alone).contains("ping_voluntary_switches"));
    let message = home.fails(3, &[&alone[..], &["--fail-on", "regression"]].concat());
    assert!(message.contains("explains, and has no verdicts"), "{message}");
    let message = home.fails(2, &["run", "./why.toml", "--metric", "ping_voluntary_switch"]);
    assert!(message.contains("did you mean `ping_voluntary_switches`?"), "{message}");
}

#[test]
fn probes_are_listed_with_what_they_need_and_give() {
    let home = Home::new();
    let list = home.ok(&["list", "probes"]);
    assert!(list.trim_start().starts_with("sched ") && list.contains("sched-light"), "{list}");
    assert!(list.contains("needs"), "{list}");
    let one = home.ok(&["list", "probes", "sched"]);
    for metric in [
        "ROLE_voluntary_switches",
        "ROLE_preempted_by_OTHER",
        "ROLE_waited_for_OTHER",
        "(per second)",
        "(ns)",
    ] {
        assert!(one.contains(metric), "{metric}: {one}");
    }
    let counters = home.ok(&["list", "probes", "counters"]);
    for metric in ["cpus_page_faults", "cpus_cache_mpki", " energy_dram", "of the whole machine"] {
        assert!(counters.contains(metric), "{metric}: {counters}");
    }
    assert!(home.fails(2, &["list", "probes", "perf"]).contains("hint: schedlab list probes"));
}
