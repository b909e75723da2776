//! `schedlab score` with bad input: nothing is lost in silence, and no name breaks anything.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::home::Home;
use crate::support::{catches_term, done, skip, stderr, stdout};

const NEEDS: &str = "privilege to load BPF programs";

/// The status, and the scoreboard as json.
pub fn json(home: &Home, options: &[&str], command: &[&str]) -> (Output, Value) {
    let words = ["score", "--format", "json", "--output", "score.json"];
    let output = home.call(&[&words, options, &["--"], command].concat());
    (output, home.document("score.json"))
}

fn lost(score: &Value, what: &str) -> bool {
    let mut lost = score["lost"].as_array().unwrap().iter();
    lost.any(|text| text.as_str().unwrap().contains(what))
}

#[test]
fn what_cannot_run_and_what_a_signal_ends_exits_as_in_a_shell() {
    let home = Home::new();
    home.write("plain", "no program");
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
            let (is_refused, said) = (matches!(code, 126 | 127), home.says(*code, &words));
            assert_eq!(said.contains("cannot run"), is_refused, "{command:?}: {said}");
            assert_eq!(said.contains("score of"), !is_refused, "{command:?}: {said}");
        }
    }
}

#[test]
fn children_that_are_left_behind_are_reported_and_not_waited_for() {
    let home = Home::new();
    // The child reads from a pipe that nobody writes to until the test has seen the scoreboard. It holds none
    // of the command's pipes.
    let command = "mkfifo gate; sh -c 'read x' <>gate >gate 2>&1 & echo $!";
    let output = home.call(&["score", "--", "sh", "-c", command]);
    let pid = stdout(&output).trim().to_string();
    let is_alive = Path::new(&format!("/proc/{pid}")).exists();
    home.write("gate", "go\n");
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
    let home = Home::new();
    let (mut parent, child) = family();
    let pid = parent.id().to_string();
    let mut score =
        home.command(&["score", "--pid", &pid, "--duration", "10min", "--format", "json"]);
    let mut score = score.stdout(Stdio::piped()).spawn().unwrap();
    // The score catches signals right before it counts.
    while !catches_term(score.id()) {
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
    let home = Home::new();
    for pid in ["2147483647", "0"] {
        let said = home.says(2, &["score", "--pid", pid]);
        assert!(said.contains("there is no process"), "{said}");
    }
}

#[test]
fn tasks_without_room_are_counted_as_other() {
    let home = Home::new();
    let command =
        ["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; (exit 1); exit 4"];
    let (output, score) = json(&home, &["--max-tasks", "1"], &command);
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
    let home = Home::new();
    let command = ["sh", "-c", HOSTILE];
    let is_hostile = |task: &Value| task["name"].as_str().unwrap().starts_with("\u{1b}[2J\t\n|");
    for source in [&[][..], &["--source", "procfs"]] {
        let (output, score) = json(&home, source, &command);
        assert!(output.status.success(), "{output:?}");
        assert!(score["tasks"].as_array().unwrap().iter().any(is_hostile), "{score}");
        for by in ["name", "process", "cgroup", "task"] {
            let words = ["score", "--by", by, "--trace", "t.pftrace"];
            let shown = home.says(0, &[&words, source, &["--"], &command].concat());
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
    let home = Home::new();
    let (_, score) = json(&home, &[], &["sh", "-c", "echo | cat; echo | cat"]);
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
    let home = Home::new();
    let (board, trace) = (home.at("board"), home.at("trace"));
    std::fs::write(&board, "old board").unwrap();
    std::fs::write(&trace, "old trace").unwrap();
    let args = ["score", "--source", "procfs", "-o", "board", "--trace", "trace", "--", "cat"];
    let output = done(home.command(&args).args(["board", "trace"]));
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
    let home = Home::new();
    let args = ["score", "--source", "procfs", "-o", "/dev/full", "--system", "--duration", "50ms"];
    let said = home.says(3, &args);
    assert!(said.contains("cannot write /dev/full"), "{said}");
    for (command, code) in [("true", 3), ("false", 1)] {
        let args = ["score", "--source", "procfs", "-o", "/dev/full", "--", command];
        let said = home.says(code, &args);
        assert!(said.contains("cannot write /dev/full"), "{said}");
    }
    let nowhere = ["score", "-o", "no/folder/x", "--", "true"];
    let said = home.says(3, &nowhere);
    assert!(said.contains("\nhint: its folder must be there: mkdir -p no/folder\n"), "{said}");
}
