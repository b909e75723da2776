//! The drop-in for schedbench as a user calls it: plan, run, report, and files that are wrong.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;

use crate::home::Home;
use crate::support::{done, stderr, stdout};

const TEMPLATE: &str = r#"{ "Input": {
  "WorkerPresets": { "A": { "Args": [ "burnwait", "70", "200000" ] } },
  "SimpleMatrix": { "Schedulers": [ "batch", "credit" ], "Workers": [ "A" ], "Count": [ 2 ] } },
  "WorkerType": 0 }"#;

/// A planned file, its runs of a second each.
fn planned() -> Home {
    let home = Home::new();
    home.write("sample.bench", TEMPLATE);
    home.ok("schedbench -t sample.bench plan");
    let plan = home.read("test.bench");
    let short = plan.replace("\"RuntimeSeconds\":10", "\"RuntimeSeconds\":1");
    assert_ne!(plan, short, "{plan}");
    home.write("test.bench", short);
    home
}

#[test]
fn what_can_be_run_is_run_stored_and_reported_and_the_rest_skipped() {
    let home = planned();
    let errors = home.says(0, "schedbench run");
    assert!(errors.contains("policy batch: batch"), "{errors}");
    assert_eq!(errors.matches("skipped: the scheduler credit is Xen's").count(), 2, "{errors}");
    let text = home.ok("schedbench -v 1 report");
    let tables: Vec<&str> = text.split("== RUN ").skip(1).collect();
    assert_eq!(tables.len(), 4, "{text}");
    // CPU use of the two workers of the second completed run: something, but at most one CPU each.
    let row = tables[2].lines().find(|line| line.trim_start().starts_with("0 ")).unwrap();
    let cells: Vec<f64> =
        row.split_whitespace().skip(1).map(|cell| cell.parse().unwrap()).collect();
    assert!(cells[0] > 0.0 && (0.01..=2.0).contains(&cells[7]), "{row}");
    assert_eq!(text.matches("not run").count(), 2, "{text}");
    let had = "\nknobs read back: policy batch: batch";
    assert_eq!(text.matches(had).count(), 2, "{text}");
    let original = home.ok("schedbench -v 1 --original-averages report");
    assert!(!original.contains("read back"), "{original}");
    // The file has no `Cpus`; those that the run was on make the pool.
    assert_eq!(text.matches("\nfairness on ").count(), 1, "{text}");
    let page = home.ok("schedbench htmlreport");
    assert!(page.starts_with("<!DOCTYPE html>") && !page.contains("://"), "{page:.300}");
    // Only runs that are impossible here are left.
    let before = home.read("test.bench");
    home.ends(3, "schedbench run");
    assert_eq!(home.read("test.bench"), before);
}

#[test]
fn a_scheduler_may_be_a_variant_of_a_plan() {
    let home = planned();
    let plan = home.read("test.bench").replace("\"credit\"", "\"gentle\"");
    home.write("test.bench", plan.replace("\"batch\"", "\"unheard-of\""));
    let variants = "schema = 1\n[[variant]]\nname = \"gentle\"\nnice = 3\ntimer-slack = \"1ms\"\n\
                    [[workload]]\nuse = \"spin\"\n";
    home.write("variants.toml", variants);
    let errors = home.says(0, "schedbench --variants variants.toml run");
    assert_eq!(errors.matches("nice 3: 3").count(), 2, "{errors}");
    assert_eq!(errors.matches("timer-slack 1ms: 1ms").count(), 2, "{errors}");
    assert_eq!(
        errors.matches("skipped: there is no scheduler `unheard-of` here").count(),
        2,
        "{errors}"
    );
    let said = home.says(2, "schedbench --variants nowhere.toml run");
    assert!(said.contains("`nowhere.toml`"), "{said}");
}

#[test]
fn sets_in_different_pools_do_not_compete_and_pool_0_is_the_machine() {
    let set = |pool: &str| {
        format!(
            r#"{{"Params":{{"Args":["burnwait","1","1"]}},"Config":{{"Pool":"{pool}"}},"Count":1}}"#
        )
    };
    let cases = [
        ("bench", "Pool-0", "skipped: worker sets in two pools, bench and the whole machine, "),
        ("", "Pool-0", "[1 of 1] x: 1 s"),
    ];
    for (one, other, expected) in cases {
        let home = Home::new();
        let (one, other) = (set(one), set(other));
        let file = format!(
            r#"{{"Runs":[{{"Label":"x","WorkerSets":[{one},{other}],"RuntimeSeconds":1}}]}}"#
        );
        home.write("test.bench", file);
        let errors = stderr(&home.call("schedbench --backend null run"));
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn xen_workers_are_skipped_and_never_started_as_processes() {
    let home = planned();
    let plan = home.read("test.bench").replacen('{', "{\"WorkerType\":1,", 1);
    home.write("test.bench", &plan);
    let errors = home.says(3, "schedbench run");
    assert_eq!(errors.matches("workers that are guests need Xen").count(), 2, "{errors}");
    assert_eq!(errors.matches("batch is not a scheduler of Xen").count(), 2, "{errors}");
    assert_eq!(home.read("test.bench"), plan);
}

#[test]
fn the_binary_called_schedbench_does_its_actions_in_order() {
    let home = planned();
    let link = home.at("schedbench");
    symlink(env!("CARGO_BIN_EXE_schedlab"), &link).unwrap();
    let output = Command::new(&link)
        .args(["-f", "test.bench", "--backend", "null", "run", "report"])
        .current_dir(home.path())
        .env("HOME", home.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout(&output).contains("== RUN A 2 batch"), "{}", stdout(&output));
}

#[test]
fn the_null_backend_fills_a_file_with_reports_of_every_second() {
    let home = Home::new();
    home.write("sample.bench", TEMPLATE);
    home.call("schedbench -t sample.bench plan");
    home.ok("schedbench --backend null run");
    let file: Value = home.document("test.bench");
    let runs = file["Runs"].as_array().unwrap();
    let raw = runs.iter().filter_map(|run| run["Results"]["Raw"].as_array());
    let raw: Vec<&Vec<Value>> = raw.collect();
    // The run alone has one worker, the other two; each reports at the start and for ten seconds.
    assert_eq!(raw.iter().map(|list| list.len()).collect::<Vec<_>>(), [11, 22]);
    let second = 1_000_000_000;
    for (list, workers) in raw.iter().zip([1, 2]) {
        for id in 0..workers {
            let own = || list.iter().filter(|report| report["Id"]["Id"] == id);
            let numbers = |key: &str| -> Vec<i64> {
                own().map(|report| report[key].as_i64().unwrap()).collect()
            };
            // A report at 0 would count as missing.
            let seconds: Vec<i64> = (0..=10).map(|at| (at * second).max(1)).collect();
            assert_eq!(numbers("Now"), seconds);
            let (cputime, kops) = (numbers("Cputime"), numbers("Kops"));
            assert_eq!((cputime[0], cputime[10], kops[0]), (0, 5 * second, 0));
            assert!(cputime.is_sorted() && kops.is_sorted() && kops[10] > 9_000, "{kops:?}");
        }
    }
    let text = home.ok("schedbench report");
    assert_eq!(text.matches("not run").count(), 2, "{text}");
}

#[test]
fn a_wrong_file_is_refused_with_its_place_and_left_as_it_is() {
    let runs = |raw: &str| {
        format!(
            r#"{{"Runs":[{{"Label":"x","WorkerSets":[{{"Params":{{"Args":["burnwait","1","1"]}},"Count":1}}],"Completed":true,"Results":{{"Raw":[{raw}]}}}}]}}"#
        )
    };
    let out_of_range = runs(r#"{"Id":{"Set":0,"Id":7},"Now":1,"Kops":1,"MaxDelta":0,"Cputime":1}"#);
    let to_run = r#"{"Runs":[{"WorkerSets":[{"Params":{"Args":["burnwait","1","1"]},"Count":1}],"RuntimeSeconds":1},"#;
    let with_one_to_run = out_of_range.replacen("{\"Runs\":[", to_run, 1);
    let cases: &[(&str, &str, &str)] = &[
        ("plan", "{\"Input\": {\n  \"SimpleMatrix\": ]", "test.bench:2:19"),
        ("plan", "{\"Input\": {\"Simpl", "test.bench:1:"),
        ("plan", "[]", "test.bench:1:1"),
        ("plan", &TEMPLATE.replace("\"Workers\": [ \"A\" ]", "\"Workers\": [ \"Z\" ]"), "`Z`"),
        ("plan", &TEMPLATE.replace("[ 2 ]", "[ 0 ]"), "Count[0]"),
        ("plan", &TEMPLATE.replace("\"burnwait\"", "\"burn\""), "`burn` is not a kind of work"),
        ("report", &out_of_range, "7"),
        ("run", &out_of_range, "`Results.Raw[0]`: worker 0:7: its `Id`"),
        ("run", &with_one_to_run, "`Results.Raw[0]`: worker 0:7: its `Id`"),
        ("run", &runs(r#"{"Id":7}"#), "`Runs[0].Results.Raw[0].Id`"),
        ("plan", &out_of_range, "`Results.Raw[0]`: worker 0:7: its `Id`"),
    ];
    for (action, text, expected) in cases {
        let home = Home::new();
        home.write("test.bench", text);
        let output = home.ends(2, &["schedbench", action]);
        let errors = stderr(&output);
        assert!(errors.contains(expected) && errors.contains("hint: "), "{expected}: {errors}");
        assert_eq!(home.read("test.bench"), *text);
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn what_could_not_be_saved_is_not_measured() {
    let home = planned();
    let plan = home.read("test.bench");
    // This name fits, but the name of the temporary file does not.
    let name = "x".repeat(250);
    home.write(&name, &plan);
    let errors = home.says(3, format!("schedbench -f {name} --backend null run"));
    assert!(
        errors.contains("nothing was run") && errors.contains("hint: a shorter name"),
        "{errors}"
    );
    assert!(!errors.contains(" of 4] A baseline batch: 1 s"), "{errors}");
    assert_eq!(home.read(&name), plan);
}

/// The second of two runs waits for the machine, and then reads what the first one has saved.
#[test]
fn a_file_is_read_when_nobody_else_measures() {
    let home = planned();
    let state = home.at(".local/state/schedlab");
    std::fs::create_dir_all(&state).unwrap();
    let lock = std::fs::File::create(state.join("measuring.lock")).unwrap();
    lock.lock().unwrap();
    let mut command = home.command("schedbench run");
    let child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    // When it has opened the lock, it has read the file once.
    let opened = format!("/proc/{}/fd", child.id());
    let waits = || {
        let entries = std::fs::read_dir(&opened).unwrap().flatten();
        let mut links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.any(|link| link.ends_with("measuring.lock"))
    };
    while !waits() {
        std::thread::yield_now();
    }
    let ended = home.read("test.bench").replace("\"Completed\":false", "\"Completed\":true");
    home.write("test.bench", &ended);
    drop(lock);
    let output = done(child.wait_with_output().unwrap());
    assert!(stderr(&output).contains("every run is completed"), "{output:?}");
    assert_eq!(home.read("test.bench"), ended);
}

#[test]
fn a_template_is_not_written_over_results_or_other_files() {
    let home = planned();
    let plan = "schedbench -t sample.bench plan";
    assert_eq!(home.call(plan).status.code(), Some(0), "over a plan");
    home.write("test.bench", "");
    assert_eq!(home.call(plan).status.code(), Some(0), "over nothing");
    home.ok("schedbench --backend null run");
    let results = home.read("test.bench");
    for (text, expected) in [
        (results.as_str(), "test.bench is there already, with results of 2 runs"),
        ("[package]\n", "test.bench:1:"),
        ("{}", "test.bench is there already, and no .bench file"),
    ] {
        home.write("test.bench", text);
        let errors = home.says(2, plan);
        assert!(errors.contains(expected) && errors.contains("hint: "), "{errors}");
        assert_eq!(home.read("test.bench"), text);
    }
}

#[test]
fn json_of_something_else_is_neither_run_nor_shown() {
    let home = Home::new();
    home.write("other.json", "{\"name\":\"web\",\"Pool\":\"a\"}");
    for action in ["run", "report", "htmlreport"] {
        let said = home.says(2, format!("schedbench -f other.json --backend null {action}"));
        assert!(said.contains("other.json is no .bench file") && said.contains("hint: "), "{said}");
    }
    home.write("sample.bench", TEMPLATE);
    let unplanned = home.both(None, "schedbench -f sample.bench --backend null run");
    assert!(unplanned.contains("schedlab schedbench -f sample.bench plan"), "{unplanned}");
}

/// As in the original, each option holds for the actions after it. An option after all actions holds for all.
#[test]
fn files_and_verbosity_hold_for_the_actions_behind_them() {
    let home = Home::new();
    for name in ["a", "b", "test.bench"] {
        home.write(name, format!(r#"{{"Runs":[{{"Label":"of {name}"}}]}}"#));
    }
    let cases: [(&str, &[&str], usize); 5] = [
        ("-f a report -f b report", &["a", "b"], 0),
        ("-f a -f b report", &["b"], 0),
        ("report report -f a", &["a", "a"], 0),
        ("report -v 0", &["test.bench"], 0),
        ("-v 0 report -v 1 -f b report report", &["b"; 3], 2),
    ];
    for (arguments, expected, detailed) in cases {
        let text = home.ok(format!("schedbench {arguments}"));
        let labels = text.lines().filter_map(|line| line.strip_prefix("== RUN of "));
        let labels: Vec<_> = labels.filter_map(|label| label.strip_suffix(" ==")).collect();
        assert_eq!(labels, expected, "{arguments:?}");
        assert_eq!(text.matches("workerid").count(), detailed, "{arguments:?}");
    }
}
