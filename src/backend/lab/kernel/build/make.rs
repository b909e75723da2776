//! Runs the kernel's `make`, in the folder of objects below the tree.
//!
//! Objects lie below the tree because names in a kernel are relative then: its bits do not depend
//! on the folder of the cache. Date, user and host are fixed for the same reason.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::super::KernelError;
use super::error::BuildError;
use super::message::message;
use super::run;

/// Below the tree.
pub const OBJECTS: &str = "objects";
pub const IMAGE: &str = "objects/arch/x86/boot/bzImage";
pub const CONFIG: &str = "objects/.config";
const FIXED: &[(&str, &str)] = &[
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 1970"),
    ("KBUILD_BUILD_USER", "schedlab"),
    ("KBUILD_BUILD_HOST", "lab"),
    ("KBUILD_BUILD_VERSION", "1"),
    ("KCONFIG_NOTIMESTAMP", "1"),
    // The kernel's name must not depend on a repository around the cache.
    ("GIT_DIR", "/dev/null"),
];
/// The log of the last build that failed.
const FAILED_LOG: &str = "failed.log";
const MAX_MESSAGES: usize = 50;
const MAX_LAST: usize = 8;

pub struct Make<'a> {
    pub tree: &'a Path,
    pub log: &'a Path,
    pub jobs: usize,
    pub stop: &'a AtomicBool,
}

impl Make<'_> {
    /// A configuration with what the file asks for, and as little more as possible.
    pub fn configure(&self, wanted: &Path, what: &str) -> Result<(), BuildError> {
        let mut command = self.command("allnoconfig");
        command.env("KCONFIG_ALLCONFIG", wanted);
        self.run(command, what, &mut || ())
    }

    /// `made` is called for each step.
    pub fn image(&self, what: &str, made: &mut dyn FnMut()) -> Result<(), BuildError> {
        self.run(self.command("bzImage"), what, made)
    }

    fn command(&self, target: &str) -> Command {
        let mut command = run::program("nice");
        command.envs(FIXED.iter().copied());
        command.args(["-n", "10", "make", "--no-print-directory", "-C"]).arg(self.tree);
        command.args([&format!("-j{}", self.jobs), &format!("O={OBJECTS}")]);
        // The configuration must not depend on this user's Rust compiler.
        command.args(["ARCH=x86_64", "LOCALVERSION=", "RUSTC=false", target]);
        command
    }

    fn run(&self, command: Command, what: &str, made: &mut dyn FnMut()) -> Result<(), BuildError> {
        let mut log = File::create(self.log).map_err(KernelError::io("write", self.log))?;
        let mut written = Ok(());
        let (mut messages, mut last) = (Vec::new(), Vec::new());
        let status = run::status(command, what, self.stop, &mut |line| {
            if written.is_ok() {
                written = writeln!(log, "{line}");
            }
            if is_step(line) {
                return made();
            }
            if messages.len() < MAX_MESSAGES {
                messages.extend(message(line));
            }
            last.push(line.to_string());
            if last.len() > MAX_LAST {
                last.remove(0);
            }
        })?;
        written.map_err(KernelError::io("write", self.log))?;
        if status.success() {
            return Ok(());
        }
        let (what, log) = (what.to_string(), self.kept_log());
        Err(BuildError::Compiler { what, messages, last, log })
    }

    /// A copy of the log where the next build does not move it away: next to the folders of builds.
    fn kept_log(&self) -> PathBuf {
        let builds = self.tree.ancestors().nth(2).map(|folder| folder.join(FAILED_LOG));
        let kept = builds.filter(|kept| std::fs::copy(self.log, kept).is_ok());
        kept.unwrap_or_else(|| self.log.to_path_buf())
    }
}

/// `  CC      kernel/fork.o`
fn is_step(line: &str) -> bool {
    line.strip_prefix("  ").is_some_and(|rest| {
        let word = rest.split_whitespace().next().unwrap_or("");
        word.starts_with(|c: char| c.is_ascii_uppercase())
            && word
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_and_not_taken_for_messages() {
        let steps = [
            "  CC      kernel/fork.o",
            "  AR      built-in.a",
            "  HOSTCC  scripts/x",
            "  VDSO2C  a",
        ];
        assert_eq!(steps.map(is_step), [true; 4]);
        assert!(!is_step("make: Nothing to be done") && !is_step("  12 | int x"));
    }
}
