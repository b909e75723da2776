//! Helpers of all integration tests: the checkout, the program, waiting, and loud skips.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

/// The checkout that is under test.
pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Says that a test does not run here, past the capture of the test harness. `.ci/run`
/// collects these lines and refuses what a package could have given.
pub fn skip(needs: &str) {
    // The test harness names the thread of a test by the path of the test.
    let thread = std::thread::current();
    let test = thread.name().and_then(|path| path.rsplit("::").next()).expect("a test's thread");
    let mut line = std::io::stderr().lock();
    writeln!(line, "skipped: {test} needs {needs}").expect("stderr");
}

/// The binary with a separate home: it neither reads nor writes the user's files.
pub fn schedlab(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    let (columns, words): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|word| word.starts_with("COLUMNS="));
    command.args(words).env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin");
    columns.iter().for_each(|columns| _ = command.env("COLUMNS", &columns["COLUMNS=".len()..]));
    command.env("TERM", "dumb").current_dir(home);
    command
}

/// The program that is tested: that of this build, or another one that `SCHEDLAB_TESTED` names.
fn program() -> std::ffi::OsString {
    std::env::var_os("SCHEDLAB_TESTED").unwrap_or_else(|| env!("CARGO_BIN_EXE_schedlab").into())
}

/// How often a test of faults does its part: `SCHEDLAB_CAMPAIGN` times, else `short` times
/// (docs/reliability.md).
pub fn campaign(short: u32) -> u32 {
    let asked = std::env::var("SCHEDLAB_CAMPAIGN").ok();
    asked.map_or(short, |times| times.parse().expect("SCHEDLAB_CAMPAIGN is a number"))
}

/// Writes a program for sh.
pub fn write_script(path: &Path, body: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A script of sh that may mount, and sees its mounts alone. `$0` and what follows are the words of `command`.
pub fn with_mounts(script: &str, command: &Command) -> Command {
    let mut confined = Command::new("unshare");
    confined.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    confined.arg(command.get_program()).args(command.get_args()).env_clear();
    confined.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        confined.current_dir(folder);
    }
    confined
}

/// The output of a command that has to succeed.
pub fn done(called: impl Called) -> Output {
    ended(called, 0)
}

/// The output of a command that has to end with this code.
pub fn ended(called: impl Called, code: i32) -> Output {
    let output = called.answer();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    output
}

/// A command, or what it has answered.
pub trait Called {
    fn answer(self) -> Output;
}

impl Called for Command {
    fn answer(mut self) -> Output {
        self.output().unwrap()
    }
}

impl Called for &mut Command {
    fn answer(self) -> Output {
        self.output().unwrap()
    }
}

impl Called for Output {
    fn answer(self) -> Output {
        self
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Joins words with one space, independent of line breaks.
pub fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The outcomes of a stored plan's runs, in their order, from `schedlab export`.
pub fn outcomes(home: &Path, plan: &str) -> Vec<Value> {
    let text = stdout(&done(schedlab(home, &["export", plan])));
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ended = events.filter(|event| event["event"] == "run_ended");
    ended.map(|mut event| event["outcome"].take()).collect()
}

/// The ids of the plans in the lines of `schedlab export`.
pub fn plan_ids(export: &str) -> Vec<String> {
    let started = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["id"].as_str().map(str::to_string)
    };
    export.lines().filter_map(started).collect()
}

/// A metric of one worker set in a run's outcome.
pub fn metric(outcome: &Value, set: usize, name: &str) -> f64 {
    let metrics = outcome["result"]["sets"][set]["metrics"].as_array().expect("metrics");
    let found = metrics.iter().find(|metric| metric["name"] == name).expect(name);
    found["value"]["known"].as_f64().unwrap_or_else(|| panic!("{found}"))
}

/// Polls until the result is `Some`; panics with `what` after a minute. A minute of polls: a machine that stood
/// still meanwhile, as virtual ones do, has not waited.
pub fn wait_for<T>(what: &str, poll: impl Fn() -> Option<T>) -> T {
    const PAUSE: Duration = Duration::from_millis(5);
    for _ in 0..60_000 / PAUSE.as_millis() {
        if let Some(found) = poll() {
            return found;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("waited a minute for {what}");
}

pub fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill {name} {pid}");
}

/// Whether a process has an action of its own for SIGTERM.
pub fn catches_term(pid: u32) -> bool {
    const SIGTERM: u64 = 15;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1 << (SIGTERM - 1)) != 0)
}

pub fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_none_or(|state| state == "Z")
}

pub fn assert_gone(pid: u32) {
    wait_for("the process to be gone", || is_gone(pid).then_some(()));
}
