//! Runs the programs of a build: in the locale C, with only the necessary part of the user's environment, and
//! ends them when the build must stop.

use std::process::{Command, ExitStatus};
use std::sync::atomic::AtomicBool;

use super::error::BuildError;
use crate::sys;

/// Variables of the user's environment that a program gets.
const KEPT: &[&str] = &["PATH", "HOME", "TMPDIR"];
const MAX_LINES: usize = 20;
/// Words of the line that is worth showing; the last line of `tar` and git says less.
const REASONS: &[&str] = &["No space left on device", "fatal: ", "error: "];

/// A program with only our variables and the kept ones.
pub fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env_clear().env("LC_ALL", "C");
    command.envs(KEPT.iter().filter_map(|key| Some((key, std::env::var_os(key)?))));
    command
}

/// Runs a program and returns its status; `line` gets its output.
pub fn status(
    command: Command,
    action: &str,
    stop: &AtomicBool,
    line: &mut dyn FnMut(&str),
) -> Result<ExitStatus, BuildError> {
    let failed = failed(&command, action);
    let ended = sys::tool::run(command, stop, line).map_err(|error| failed(error.to_string()))?;
    ended.ok_or(BuildError::Interrupted)
}

/// Runs a program and returns its output, if it succeeds.
pub fn output(command: Command, action: &str, stop: &AtomicBool) -> Result<String, BuildError> {
    let failed = failed(&command, action);
    let (mut text, mut last) = (String::new(), Vec::new());
    let status = status(command, action, stop, &mut |line| {
        text.push_str(line);
        text.push('\n');
        last.push(line.to_string());
        if last.len() > MAX_LINES {
            last.remove(0);
        }
    })?;
    if status.success() { Ok(text) } else { Err(failed(reason(&last))) }
}

fn reason(lines: &[String]) -> String {
    let mut found =
        REASONS.iter().filter_map(|words| lines.iter().find(|line| line.contains(words)));
    let last = || lines.iter().rfind(|line| !line.is_empty());
    found.next().or_else(last).cloned().unwrap_or_default()
}

/// The error of a program, for a reason.
fn failed(command: &Command, action: &str) -> impl FnOnce(String) -> BuildError + use<> {
    let (action, program) = (action.to_string(), command.get_program().to_string_lossy().into());
    move |why| BuildError::Program { action, program, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_lines_the_reason_is_shown() {
        let cases: &[(&[&str], &str)] = &[
            (
                &["tar: a: Cannot write: No space left on device", "tar: Exiting"],
                "tar: a: Cannot write: No space left on device",
            ),
            (
                &["fatal: dubious ownership", "To add:", "", "\tgit config"],
                "fatal: dubious ownership",
            ),
            (&["one", "two", ""], "two"),
            (&[], ""),
        ];
        for (lines, expected) in cases {
            let lines: Vec<String> = lines.iter().map(|line| line.to_string()).collect();
            assert_eq!(reason(&lines), *expected);
        }
    }
}
