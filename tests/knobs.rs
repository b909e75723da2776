//! Knobs of worker sets: real processes, an effect that no noise hides.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::home::Home;
use crate::support::{joined, metric, outcomes, skip};

/// Two spinning sets on one CPU, for half a second; the second with these knobs.
fn plan(variant: &str, sets: [&str; 2]) -> String {
    let [first, second] = sets;
    format!(
        "schema = 1\n[measure]\nrounds = 1\nwarmup = \"100ms\"\nduration = \"500ms\"\n\
         [placement]\ncpus = \"0\"\n[[variant]]\nname = \"v\"\n{variant}\n\
         [[workload]]\nname = \"two\"\n\
         [[workload.set]]\nuse = \"spin\"\nname = \"first\"\n{first}\n\
         [[workload.set]]\nuse = \"spin\"\nname = \"second\"\nworkers = \"processes\"\n{second}\n"
    )
}

/// The outcome of this plan's first run, which must have been measured.
fn run(text: &str) -> Value {
    let run = run_or_skipped(text);
    assert_eq!(run["status"], "done", "{run}");
    run
}

/// Ten times as long, where a busy machine gave the first set no CPU in half a second.
fn run_or_skipped(text: &str) -> Value {
    let run = first_run(text);
    if run["status"] == "done" && throughput(&run, 0) == 0.0 {
        return first_run(&text.replace("\"500ms\"", "\"5s\""));
    }
    run
}

fn first_run(text: &str) -> Value {
    let home = Home::with_plan(text);
    let output = home.call("run ./plan.toml");
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    outcomes(home.path(), "last").swap_remove(0)
}

fn throughput(run: &Value, set: usize) -> f64 {
    metric(run, set, "throughput")
}

fn readings(run: &Value) -> Vec<String> {
    let readings = run["result"]["knobs"].as_array().unwrap().iter();
    let line = |r: &Value| format!("{} {} {}", r["knob"].as_str().unwrap(), r["asked"], r["got"]);
    readings.map(line).collect()
}

/// Weights 1024 and 36: 28 to 1.
#[test]
fn a_nice_set_yields_to_one_that_is_not() {
    let run = run(&plan("", ["", "knobs = { nice = 15 }"]));
    let (first, second) = (throughput(&run, 0), throughput(&run, 1));
    assert!(first > 5.0 * second, "nice 0 did {first}, nice 15 did {second}");
    assert_eq!(readings(&run), [r#"second: nice {"int":15} {"known":{"int":15}}"#]);
}

/// Half a second, of which the first twentieth is before the change.
#[test]
fn a_set_that_becomes_nice_yields_from_then_on() {
    let change = "[[workload.set.change]]\nat = \"25ms\"\nknobs = { nice = 15 }";
    let text = plan("", ["", change]);
    let run = run(&text);
    let (first, second) = (throughput(&run, 0), throughput(&run, 1));
    assert!(first > 4.0 * second, "nice 0 did {first}, and what became nice 15 did {second}");
    let readings = readings(&run);
    assert_eq!(readings[0], r#"second: nice {"int":15} {"known":{"int":15}}"#);
    assert!(readings[1].starts_with("change at 25ms "), "{readings:?}");
    let home = Home::with_plan(text);
    let dry = home.ok("run ./plan.toml --dry-run");
    assert!(dry.contains("two: at 25ms second nice 15\n"), "{dry}");
}

/// A set without knobs has the variant's; a set's own knobs override them.
#[test]
fn a_sets_knobs_replace_the_variants() {
    let run = run(&plan("policy = \"batch\"\nnice = 15", ["knobs = { nice = 0 }", ""]));
    let (first, second) = (throughput(&run, 0), throughput(&run, 1));
    assert!(first > 5.0 * second, "nice 0 did {first}, nice 15 did {second}");
    assert_eq!(
        readings(&run),
        [
            r#"policy {"text":"batch"} {"known":{"text":"batch"}}"#,
            r#"nice {"int":15} {"known":{"int":15}}"#,
            r#"first: policy {"text":"batch"} {"known":{"text":"batch"}}"#,
            r#"first: nice {"int":0} {"known":{"int":0}}"#,
        ]
    );
}

/// Weights of 1000 and 10; each worker is where its set's cgroup is, and no cgroup is left.
#[test]
fn sets_in_cgroups_have_their_weights() {
    let cgroups = "[cgroup.web]\nweight = 1000\n[cgroup.batch]\nweight = 10\n[cgroup.batch.low]\n\
                   cpus = \"0\"\n";
    let plan = plan("", ["cgroup = \"web\"", "cgroup = \"batch/low\""]);
    let run = run_or_skipped(&format!("{plan}{cgroups}"));
    if run["status"] == "skipped" {
        return skip(&format!("privilege to make cgroups: {}", run["reason"]));
    }
    let (web, batch) = (throughput(&run, 0), throughput(&run, 1));
    assert!(web > 10.0 * batch, "a weight of 1000 did {web}, one of 10 did {batch}");
    assert_eq!(
        readings(&run),
        [
            r#"cgroup batch: weight {"int":10} {"known":{"int":10}}"#,
            r#"cgroup batch/low: cpus {"cpus":"0"} {"known":{"cpus":"0"}}"#,
            r#"cgroup web: weight {"int":1000} {"known":{"int":1000}}"#,
        ]
    );
}

/// The cgroups in which the threads of this name are now, each from the run's own on.
fn cgroups_of_threads(name: &str) -> BTreeSet<String> {
    let tasks = || std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let tasks = tasks().filter_map(|process| std::fs::read_dir(process.path().join("task")).ok());
    let read = |task: &Path, file: &str| std::fs::read_to_string(task.join(file)).ok();
    let own = tasks.flatten().flatten().map(|task| task.path()).filter_map(|task| {
        let is_it = read(&task, "comm")?.trim_end() == name;
        is_it.then(|| read(&task, "cgroup"))?
    });
    let paths = own.flat_map(|text| {
        // Other hierarchies have no cgroup of the run.
        let line = |line: &str| line.rsplit_once("/schedlab-").map(|(_, own)| own.to_string());
        text.lines().filter_map(line).collect::<Vec<_>>()
    });
    paths.map(|own| own.split_once('/').map_or("/", |(_, path)| path).to_string()).collect()
}

/// Another thread sees it in the cgroup and in that of the run.
#[test]
fn a_step_moves_its_thread_to_a_cgroup_and_back() {
    let home = Home::with_plan(
        "schema = 1\n[measure]\nrounds = 1\nwarmup = \"0s\"\nduration = \"1s\"\n[[workload]]\n\
         name = \"moves\"\n[[workload.set]]\nname = \"itinerant\"\nuse = \"steps\"\n\
         steps = [\"cgroup tg1/tg11\", \"sleep 50ms\", \"cgroup /\", \"sleep 50ms\", \"cgroup tg2\", \"sleep 50ms\"]\n\
         [cgroup.tg1.tg11]\n[cgroup.tg2]\n",
    );
    let mut running = home.command("run ./plan.toml");
    let mut running = running.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut seen = BTreeSet::new();
    while running.try_wait().unwrap().is_none() {
        seen.extend(cgroups_of_threads("itinerant"));
    }
    let run = outcomes(home.path(), "last").swap_remove(0);
    if run["status"] == "skipped" {
        return skip(&format!("privilege to make cgroups: {}", run["reason"]));
    }
    assert_eq!(run["status"], "done", "{run}");
    assert_eq!(seen.iter().collect::<Vec<_>>(), ["/", "tg1/tg11", "tg2"]);
}

#[test]
fn what_one_set_cannot_have_skips_the_cell_with_its_reason() {
    let text = plan("", ["", "knobs = { affinity = \"60000\" }"]);
    let text = text.replace("[placement]\ncpus = \"0\"\n", "");
    let home = Home::with_plan(text);
    let said = joined(&home.says(3, "run ./plan.toml"));
    assert!(said.contains("worker set `second`: CPUs 60000 were refused"), "{said}");
}
