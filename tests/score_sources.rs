//! `schedlab score` without BPF: the source `procfs`, which is the one without privileges.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{ended, schedlab, stderr};

/// The status, and the scoreboard.
fn score(home: &Path, options: &[&str], command: &[&str]) -> (Output, Value) {
    let file = home.join("score.json");
    let mut arguments = vec!["score", "--format", "json", "--output", file.to_str().unwrap()];
    arguments.extend(options);
    arguments.push("--");
    arguments.extend(command);
    let output = schedlab(home, &arguments).output().unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    (output, serde_json::from_str(&text).unwrap())
}

fn tasks<'a>(score: &'a Value, name: &str) -> Vec<&'a Value> {
    let tasks = score["tasks"].as_array().unwrap().iter();
    tasks.filter(|task| task["name"] == name && task["watched"] == true).collect()
}

/// The numbers come from the zombie, so no command is too short to be seen.
#[test]
fn a_command_is_read_after_its_end_and_before_it_is_collected() {
    let home = tempfile::tempdir().unwrap();
    let (output, score) = score(home.path(), &["--source", "procfs"], &["sh", "-c", "exit 3"]);
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
    let home = tempfile::tempdir().unwrap();
    let arguments = ["score", "--source", "nonesuch", "--", "true"];
    let output = schedlab(home.path(), &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("procfs"), "{}", stderr(&output));
}

/// As root, the test drops its privileges; the program is copied to a folder that everybody can read.
#[test]
fn without_privileges_the_command_runs_and_the_better_source_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let program = home.path().join("schedlab");
    let set_up = Command::new("/bin/sh")
        .args(["-c", "cp \"$1\" \"$2/schedlab\" && chmod 777 \"$2\" \"$2/schedlab\"", "sh"])
        .args([env!("CARGO_BIN_EXE_schedlab").as_ref(), home.path()])
        .status();
    assert!(set_up.unwrap().success());
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let words = |options: &[&str], code: i32| {
        let mut words: Vec<String> = if is_root {
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"].to_vec()
        } else {
            vec!["env"]
        }
        .iter()
        .map(|word| word.to_string())
        .collect();
        words.push(program.to_str().unwrap().to_string());
        words.push("score".to_string());
        words.extend(options.iter().map(|option| option.to_string()));
        words.extend(["--", "sh", "-c"].map(str::to_string));
        words.push(format!("echo said; exit {code}"));
        words
    };
    let run = |options: &[&str], code| {
        let words = words(options, code);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("HOME", home.path()).current_dir(home.path());
        command.output().unwrap()
    };
    let output = ended(run(&[], 7), 7);
    assert_eq!(output.stdout, b"said\n");
    let shown = stderr(&output);
    assert!(shown.contains("source procfs"), "{shown}");
    if !cfg!(feature = "bpf") {
        return;
    }
    assert!(shown.contains("no source bpf: "), "{shown}");
    for code in [0, 7] {
        let output = run(&["--source", "bpf"], code);
        assert_eq!(output.status.code(), Some(code), "the command runs all the same: {output:?}");
        assert!(stderr(&output).contains("no source of telemetry"), "{}", stderr(&output));
    }
}
