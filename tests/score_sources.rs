//! Sources of `schedlab score` other than BPF: `perf`, and without privileges `procfs` and how it is
//! fallen back to.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::skip;
use crate::support::{schedlab, stderr};

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
        let mut words: Vec<String> = match is_root {
            true => ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"].to_vec(),
            false => vec!["env"],
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
    let output = run(&[], 7);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(output.stdout, b"said\n");
    let shown = stderr(&output);
    assert!(shown.contains("source procfs"), "{shown}");
    assert!(shown.contains("no source perf: "), "{shown}");
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

/// Two shells play ping-pong, all on one CPU. The first stays uncollected, as its parent becomes a `sleep`:
/// then its counts are final, and a reader on that CPU reads them after its last switch.
const PLAYERS: &str = r#"
mkfifo ping pong
(exec 3>ping 4<pong; i=0
 while [ $i -lt 300 ]; do echo ball >&3; read -r ball <&4; i=$((i + 1)); done) &
echo $! >player.new && mv player.new player
(exec 4<ping 3>pong; while read -r ball <&4; do echo ball >&3; done) &
exec sleep 60
"#;

/// The status of a process once it is a zombie.
fn final_status(pid: &str, cpu: &str) -> String {
    loop {
        let path = format!("/proc/{pid}/status");
        let read = Command::new("taskset").args(["-c", cpu, "cat", &path]).output().unwrap();
        assert!(read.status.success(), "{read:?}");
        let status = String::from_utf8(read.stdout).unwrap();
        if status.contains("State:\tZ") {
            return status;
        }
    }
}

#[test]
fn perf_counts_switches_as_the_kernel_does() {
    let test = "perf_counts_switches_as_the_kernel_does";
    let home = tempfile::tempdir().unwrap();
    let (_, tried) = score(home.path(), &["--source", "perf"], &["true"]);
    if tried["source"].is_null() {
        let why = tried["missed"][0][1].as_str().unwrap();
        let is_denied = why.contains("EACCES") || why.contains("EPERM");
        return skip(test, &format!("{}: {why}", if is_denied { "privilege" } else { "kernel" }));
    }
    let allowed = schedlab::sys::topology::affinity().unwrap();
    let cpu = allowed.iter().next().unwrap().to_string();
    let file = home.path().join("score.json");
    let mut running = schedlab(
        home.path(),
        &["score", "--source", "perf", "--format", "json", "--output", file.to_str().unwrap()],
    )
    .args(["--", "taskset", "-c", &cpu, "sh", "-c", PLAYERS])
    .current_dir(home.path())
    .spawn()
    .unwrap();
    let player = loop {
        match std::fs::read_to_string(home.path().join("player")) {
            Ok(pid) => break pid.trim().to_string(),
            Err(_) => assert_eq!(running.try_wait().unwrap(), None),
        }
    };
    let status = final_status(&player, &cpu);
    // The score passes the signal on to the command, which is `sleep` by now.
    let stopped = Command::new("kill").arg(running.id().to_string()).status().unwrap();
    assert!(stopped.success());
    assert_eq!(running.wait().unwrap().code(), Some(128 + 15));
    let text = std::fs::read_to_string(file).unwrap();
    let score: Value = serde_json::from_str(&text).unwrap();
    let tasks = score["tasks"].as_array().unwrap();
    let pid: i64 = player.parse().unwrap();
    let task = tasks.iter().find(|task| task["tid"] == pid).unwrap();
    let of_status = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.rsplit('\t').next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(score["source"], "perf");
    assert_eq!((&task["watched"], &task["ended"]), (&Value::Bool(true), &Value::Bool(true)));
    assert_eq!(task["voluntary"], of_status("voluntary_ctxt_switches"), "{task} {status}");
    assert_eq!(task["involuntary"], of_status("nonvoluntary_ctxt_switches"), "{task} {status}");
    // Each throw ends with a switch: the player sleeps, or the one that it woke takes the CPU.
    let switches = ["voluntary", "involuntary"].map(|key| task[key].as_u64().unwrap());
    assert!(switches.iter().sum::<u64>() >= 300, "{task}");
    assert_eq!(
        score["lost"].as_array().map(|lost| lost
            .iter()
            .any(|why| { why.as_str().is_some_and(|why| why.contains("without room")) })),
        Some(false),
        "{}",
        score["lost"]
    );
}
