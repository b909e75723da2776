//! `schedlab score` with bad input: nothing is lost in silence, and no name breaks anything.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::support::skip;
use crate::support::{done, ended, schedlab, stderr, stdout};

const NEEDS: &str = "privilege to load BPF programs";

/// The status, and the scoreboard as json.
fn json(home: &Path, options: &[&str], command: &[&str]) -> (Output, Value) {
    let file = home.join("score.json");
    let mut words = vec!["score", "--format", "json", "--output", file.to_str().unwrap()];
    words.extend(options);
    words.push("--");
    words.extend(command);
    let output = schedlab(home, &words).output().unwrap();
    (output, serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap())
}

fn lost(score: &Value, what: &str) -> bool {
    let mut lost = score["lost"].as_array().unwrap().iter();
    lost.any(|text| text.as_str().unwrap().contains(what))
}

#[test]
fn what_cannot_run_and_what_a_signal_ends_exits_as_in_a_shell() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("plain"), "no program").unwrap();
    let cases: &[(&[&str], i32)] = &[
        (&["./nonesuch"], 127),
        (&["./plain"], 126),
        (&["/"], 126),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["sh", "-c", "kill -KILL $$"], 128 + 9),
        (&["sh", "-c", "exit 200"], 200),
    ];
    for source in [&[][..], &["--source", "procfs"]] {
        for (command, code) in cases {
            let words = [&["score"], source, &["--"], command].concat();
            let output = schedlab(home.path(), &words).output().unwrap();
            assert_eq!(output.status.code(), Some(*code), "{command:?}: {output:?}");
            let (is_refused, shown) = (matches!(code, 126 | 127), stderr(&output));
            assert_eq!(shown.contains("cannot run"), is_refused, "{command:?}: {output:?}");
            assert_eq!(shown.contains("score of"), !is_refused, "{command:?}: {output:?}");
        }
    }
}

#[test]
fn children_that_are_left_behind_are_reported_and_not_waited_for() {
    let home = tempfile::tempdir().unwrap();
    // The child reads from a pipe that nobody writes to until the test has seen the scoreboard. It holds none
    // of the command's pipes.
    let command = ["sh", "-c", "mkfifo gate; sh -c 'read x' <>gate >gate 2>&1 & echo $!"];
    let mut words = vec!["score", "--"];
    words.extend(command);
    let mut running = schedlab(home.path(), &words);
    let output = running.stderr(Stdio::piped()).output().unwrap();
    let pid = String::from_utf8(output.stdout.clone()).unwrap().trim().to_string();
    let is_alive = Path::new(&format!("/proc/{pid}")).exists();
    std::fs::write(home.path().join("gate"), "go\n").unwrap();
    assert!(output.status.success() && is_alive, "{output:?}");
    let shown = stderr(&output);
    assert!(shown.contains("left      ") && shown.contains(&format!("({pid})")), "{pid}: {shown}");
}

/// A shell with a child that runs already; the numbers of both.
fn family() -> (Child, i32) {
    let mut parent = Command::new("sh")
        .args([
            "-c",
            "sh -c 'echo $$; read x; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done'; :",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (parent, line.trim().parse().unwrap())
}

#[test]
fn a_process_that_ends_early_ends_the_score_and_its_living_children_are_watched() {
    let home = tempfile::tempdir().unwrap();
    let (mut parent, child) = family();
    let pid = parent.id().to_string();
    let mut score =
        schedlab(home.path(), &["score", "--pid", &pid, "--duration", "10min", "--format", "json"]);
    let mut score = score.stdout(Stdio::piped()).spawn().unwrap();
    // The score catches signals right before it counts.
    let status = format!("/proc/{}/status", score.id());
    let counts = || {
        let status = std::fs::read_to_string(&status).unwrap();
        let line = status.lines().find(|line| line.starts_with("SigCgt:")).unwrap();
        let caught = u64::from_str_radix(line.trim_start_matches("SigCgt:").trim(), 16).unwrap();
        caught & (1 << (15 - 1)) != 0
    };
    while !counts() {
        assert!(score.try_wait().unwrap().is_none(), "it ended before it counted");
        std::thread::yield_now();
    }
    drop(parent.stdin.take());
    // Collect the parent only after the score: a zombie is not a process to watch.
    let output = score.wait_with_output().unwrap();
    parent.wait().unwrap();
    let score: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success() && lost(&score, "no process of --pid was left"), "{score}");
    let of_child = |task: &&Value| task["tid"] == child && task["watched"] == true;
    assert!(score["tasks"].as_array().unwrap().iter().any(|task| of_child(&task)), "{score}");
}

#[test]
fn a_process_that_is_not_there_is_refused() {
    let home = tempfile::tempdir().unwrap();
    for pid in ["2147483647", "0"] {
        let output = ended(schedlab(home.path(), &["score", "--pid", pid]), 2);
        assert!(stderr(&output).contains("there is no process"), "{}", stderr(&output));
    }
}

#[test]
fn tasks_without_room_are_counted_as_other() {
    let home = tempfile::tempdir().unwrap();
    let command =
        ["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; (exit 1); exit 4"];
    let (output, score) = json(home.path(), &["--max-tasks", "1"], &command);
    assert_eq!(output.status.code(), Some(4));
    if score["source"] != "bpf" {
        return skip(NEEDS);
    }
    assert!(lost(&score, "tasks without room (score has --max-tasks)"), "{score}");
    let tasks = score["tasks"].as_array().unwrap();
    let other = tasks.iter().find(|task| task["name"] == "(other)").expect("a task for the others");
    assert!(other["run_ns"].as_u64() > Some(1_000_000), "{other}");
    let went = other["voluntary"].as_u64().unwrap() + other["involuntary"].as_u64().unwrap();
    assert!(other["watched"] == true && went > 0, "{other}");
    assert!(!other["cpus"].as_array().unwrap().is_empty(), "{other}");
}

/// Escape sequences, a tab, a newline, a pipe, quotes, and bytes that are not UTF-8.
const HOSTILE: &str = r#"printf '\033[2J\t\n|\377"' >/proc/$$/comm; (exit 0); :"#;

#[test]
fn names_break_neither_text_nor_json_nor_a_trace() {
    let home = tempfile::tempdir().unwrap();
    let command = ["sh", "-c", HOSTILE];
    let is_hostile = |task: &Value| task["name"].as_str().unwrap().starts_with("\u{1b}[2J\t\n|");
    for source in [&[][..], &["--source", "procfs"]] {
        let (output, score) = json(home.path(), source, &command);
        assert!(output.status.success(), "{output:?}");
        assert!(score["tasks"].as_array().unwrap().iter().any(is_hostile), "{score}");
        for by in ["name", "process", "cgroup", "task"] {
            let mut words = vec!["score", "--by", by, "--trace", "t.pftrace"];
            words.extend(source);
            words.extend(["--", command[0], command[1], command[2]]);
            let output = schedlab(home.path(), &words).output().unwrap();
            let shown = stderr(&output);
            assert!(output.status.success(), "{shown}");
            let is_clean = |c: char| c == '\n' || !c.is_control();
            assert!(shown.chars().all(is_clean), "{shown:?}");
            // The line of the trace has its file's name in it, whole.
            let mut lines = shown.lines().filter(|line| !line.starts_with("trace "));
            assert!(lines.all(|line| line.chars().count() <= 80), "{shown}");
        }
    }
}

#[test]
fn pairs_have_a_watched_side_or_are_folded() {
    let home = tempfile::tempdir().unwrap();
    let (_, score) = json(home.path(), &[], &["sh", "-c", "echo | cat; echo | cat"]);
    let Some(pairs) = score["pairs"].as_array() else {
        return skip(NEEDS);
    };
    let tasks = score["tasks"].as_array().unwrap().iter();
    let watched: Vec<&str> = tasks
        .filter(|task| task["watched"] == true)
        .map(|task| task["name"].as_str().unwrap())
        .collect();
    // A process first has our name: it is forked before it becomes the command.
    let known = |name: &Value| {
        let name = name.as_str().unwrap();
        watched.contains(&name) || name == "schedlab" || name == "(unwatched)"
    };
    assert!(!pairs.is_empty());
    for pair in pairs {
        assert!(known(&pair["by"]) || known(&pair["name"]), "{pair}: {watched:?}");
    }
}

/// A schedlab that is killed before the end leaves both files unchanged.
#[test]
fn files_keep_what_they_hold_until_the_scoreboard_is_whole() {
    let home = tempfile::tempdir().unwrap();
    let (board, trace) = (home.path().join("board"), home.path().join("trace"));
    std::fs::write(&board, "old board").unwrap();
    std::fs::write(&trace, "old trace").unwrap();
    let args = ["score", "--source", "procfs", "-o", "board", "--trace", "trace", "--", "cat"];
    let output = done(schedlab(home.path(), &args).args(["board", "trace"]));
    assert_eq!(stdout(&output), "old boardold trace", "while it counts");
    assert!(std::fs::read_to_string(&board).unwrap().contains("procfs"), "{output:?}");
    // The source `procfs` has no trace.
    assert!(stderr(&output).contains("trace is not written"), "{output:?}");
    assert_eq!(std::fs::read_to_string(&trace).unwrap(), "old trace");
    let mut names = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.all(|name| !name.to_string_lossy().contains(".tmp")));
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let home = tempfile::tempdir().unwrap();
    let args = ["score", "--source", "procfs", "-o", "/dev/full", "--system", "--duration", "50ms"];
    let output = ended(schedlab(home.path(), &args), 3);
    assert!(stderr(&output).contains("cannot write /dev/full"), "{output:?}");
    for (command, code) in [("true", 3), ("false", 1)] {
        let args = ["score", "--source", "procfs", "-o", "/dev/full", "--", command];
        let output = schedlab(home.path(), &args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(stderr(&output).contains("cannot write /dev/full"), "{output:?}");
    }
    let nowhere = ["score", "-o", "no/folder/x", "--", "true"];
    let output = ended(schedlab(home.path(), &nowhere), 3);
    assert!(
        stderr(&output).contains("\nhint: its folder must be there: mkdir -p no/folder\n"),
        "{output:?}"
    );
}
