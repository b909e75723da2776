//! `schedlab score` without BPF: the source `procfs`, which is the one without privileges.

use serde_json::Value;

use crate::home::Home;
use crate::score_inputs::json;
use crate::support::{ended, stderr};

fn tasks<'a>(score: &'a Value, name: &str) -> Vec<&'a Value> {
    let tasks = score["tasks"].as_array().unwrap().iter();
    tasks.filter(|task| task["name"] == name && task["watched"] == true).collect()
}

/// The numbers come from the zombie, so no command is too short to be seen.
#[test]
fn a_command_is_read_after_its_end_and_before_it_is_collected() {
    let home = Home::new();
    let (output, score) = json(&home, &["--source", "procfs"], &["sh", "-c", "exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(score["source"], "procfs");
    let tasks = tasks(&score, "sh");
    assert_eq!((tasks.len(), &tasks[0]["ended"]), (1, &Value::Bool(true)), "{score}");
    assert!(tasks[0]["run_ns"].as_u64() > Some(0), "{}", tasks[0]);
    for uncounted in ["slice", "wakeups", "cpus"] {
        assert_eq!(tasks[0][uncounted], Value::Null, "{uncounted}");
    }
    assert_eq!(score["pairs"], Value::Null, "unknown, not none");
    assert_eq!(score["missed"], serde_json::json!([]));
    let lost = score["lost"].as_array().unwrap();
    assert!(lost[0].as_str().unwrap().contains("between two readings"), "{lost:?}");
    let shown = lost.iter().any(|why| why.as_str().unwrap().contains("load balancing"));
    assert_eq!(score["domains"].is_null(), shown, "{score}");
}

#[test]
fn sources_that_are_not_there_are_refused_by_name() {
    let home = Home::new();
    let said = home.says(2, "score --source nonesuch -- true");
    assert!(said.contains("procfs"), "{said}");
}

#[test]
fn without_privileges_the_command_runs_and_the_better_source_is_reported() {
    let home = Home::new();
    let run = |options: &[&str], code: i32| {
        let script = format!("echo said; exit {code}");
        let mut command = home.unprivileged();
        command.arg("score").args(options).args(["--", "sh", "-c", &script]);
        ended(command, code)
    };
    let output = run(&[], 7);
    assert_eq!(output.stdout, b"said\n");
    let shown = stderr(&output);
    assert!(shown.contains("source procfs"), "{shown}");
    if !cfg!(feature = "bpf") {
        return;
    }
    assert!(shown.contains("no source bpf: "), "{shown}");
    for code in [0, 7] {
        // The command runs all the same.
        let output = run(&["--source", "bpf"], code);
        assert!(stderr(&output).contains("no source of telemetry"), "{}", stderr(&output));
    }
}
