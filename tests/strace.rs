//! System calls of commands that write: which there are, and a fault at one of them.

use std::collections::BTreeMap;
use std::fmt;
use std::process::{Command, Output, Stdio};

use crate::support::{skip, stderr};
use crate::writers::{Home, Trial};

const LOG: &str = "tmp/strace.log";

/// A system call of a thread: its name, and how many of this name the thread had made until then.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    pub name: String,
    number: u32,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.number)
    }
}

/// Whether processes can be traced here; else the test is skipped.
pub fn works() -> bool {
    match Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output() {
        Err(_) => skip("strace: sh scripts/need.sh test"),
        Ok(tried) if !tried.status.success() => skip("privilege to trace a process"),
        Ok(_) => return true,
    }
    false
}

/// The calls with these names that a command makes, each once. Writes of a command that runs programs may be those of a
/// program: they are left out.
pub fn calls(trial: &Trial, names: &[&str]) -> Vec<Call> {
    let (home, _) = trial.home();
    let is_own = |name: &&str| !(trial.writer.runs && *name == "write");
    let names: Vec<&str> = names.iter().copied().filter(is_own).collect();
    // An architecture may lack some.
    let traced_names: Vec<String> = names.iter().map(|name| format!("?{name}")).collect();
    let (output, log) = traced(trial, &home, &[&format!("trace={}", traced_names.join(","))]);
    assert!(output.status.success(), "{}: {}", trial.writer.name, stderr(&output));
    // A kill before it is removed again would leave it.
    assert!(!log.contains("/etilqs_"), "{}: a file of SQLite", trial.writer.name);
    let mut numbers: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let made = log.lines().filter_map(|line| {
        let (thread, rest) = line.split_once(' ')?;
        let (name, _) = rest.trim_start().split_once('(')?;
        names.contains(&name).then(|| {
            let number = numbers.entry((thread, name)).or_default();
            *number += 1;
            Call { name: name.to_string(), number: *number }
        })
    });
    let mut calls: Vec<Call> = made.collect();
    calls.sort();
    calls.dedup();
    calls
}

/// Runs a command with a fault, as strace has it, at a call. Returns its end, and what strace saw of such calls.
pub fn inject(
    trial: &Trial,
    home: &Home,
    Call { name, number }: &Call,
    fault: &str,
) -> (Output, String) {
    let inject = format!("inject={name}:{fault}:when={number}");
    traced(trial, home, &[&format!("trace={name}"), &inject])
}

fn traced(trial: &Trial, home: &Home, expressions: &[&str]) -> (Output, String) {
    let plain = trial.command(home);
    let mut command = Command::new("strace");
    // Quicker, but it loses signals.
    if !expressions.iter().any(|expression| expression.contains(":signal=")) {
        command.arg("--seccomp-bpf");
    }
    command.args(["-f", "-qq", "-o"]).arg(home.at(LOG));
    expressions.iter().for_each(|expression| _ = command.args(["-e", expression]));
    command.arg(plain.get_program()).args(plain.get_args()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.current_dir(trial.folder(home)).stdin(Stdio::null()).output().unwrap();
    let log = std::fs::read_to_string(home.at(LOG)).unwrap();
    std::fs::remove_file(home.at(LOG)).unwrap();
    (output, log)
}
