//! A program that runs during the runs and is ended by a signal, as one that loads a scheduler. Its output is kept,
//! for the reason if it fails.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::input;
use super::lock;

/// How much of its output is kept.
const OUTPUT_BYTES: usize = 2048;
/// How long the last words of one that has ended may be on their way.
const LAST_WORDS_LIMIT: Duration = Duration::from_secs(1);

/// Killed and collected when dropped, if it lives still.
#[derive(Debug)]
pub struct Companion {
    child: Child,
    output: Arc<Mutex<Vec<u8>>>,
    listener: JoinHandle<()>,
}

impl Companion {
    /// Starts it in a process group of its own, so that Ctrl-C reaches it only through us. When
    /// the calling thread ends, however that happens, it gets SIGINT.
    pub fn start<W: AsRef<OsStr>>(program: &Path, words: &[W]) -> io::Result<Companion> {
        let (reader, writer) = io::pipe()?;
        let parent = std::process::id() as i32;
        let mut command = Command::new(program);
        command.args(words).process_group(0).stdin(Stdio::null());
        command.stdout(writer.try_clone()?).stderr(writer);
        // SAFETY: only async-signal-safe calls without memory arguments are made.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGINT);
                // It may have been blocked or ignored where schedlab was started.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                if libc::getppid() == parent {
                    Ok(())
                } else {
                    Err(io::ErrorKind::Interrupted.into())
                }
            })
        };
        let child = command.spawn()?;
        let output = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&output);
        let listener = std::thread::spawn(move || input::keep_end(reader, OUTPUT_BYTES, &shared));
        Ok(Companion { child, output, listener })
    }

    /// How it ended, `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Asks it to end.
    pub fn interrupt(&mut self) {
        if self.ended().is_none() {
            // SAFETY: no memory is passed; it is not collected yet, so the pid is its.
            unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        }
    }

    /// Ends and collects it.
    pub fn kill(&mut self) {
        // Both fail only where it has ended and is collected.
        _ = self.child.kill();
        _ = self.child.wait();
    }

    /// The end of its output so far; once it has ended, of its whole output.
    pub fn output(&mut self) -> String {
        let deadline = Instant::now() + LAST_WORDS_LIMIT;
        let has_ended = self.ended().is_some();
        // Programs that it has started may hold the pipe open for longer.
        while has_ended && !self.listener.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let output = lock(&self.output);
        on_one_line(&String::from_utf8_lossy(&output))
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The text for a reason: lines with ` / ` between them, without colour codes of terminals.
fn on_one_line(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, command)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        // A control sequence ends with its first letter.
        let end = command.find(|c: char| ('@'..='~').contains(&c));
        rest = end.map_or("", |end| &command[end + 1..]);
    }
    plain.push_str(rest);
    let lines = plain.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_one_line_without_colours() {
        let cases = [
            ("no BTF here\n", "no BTF here"),
            ("07:00 \u{1b}[0m\u{1b}[34m[INFO] \u{1b}[0mone\r\n\ntwo\n", "07:00 [INFO] one / two"),
            ("cut \u{1b}[1;3", "cut"),
            ("", ""),
        ];
        for (output, line) in cases {
            assert_eq!(on_one_line(output), line, "{output:?}");
        }
    }
}
