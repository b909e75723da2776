//! A QEMU whose guest is ready for its run, and that makes copies of itself (`preload/copies.c`): a copy begins within
//! milliseconds, with the guest's code translated. It does what a guest of the same state does that is started by
//! itself, to the bit: whoever gets no copy starts one.

use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel, sync_channel};
use std::time::Duration;

use crate::model::MAX_LINE_BYTES;
use crate::sys::{fork, input, lock};

use super::files::{GuestFiles, above};
use super::patience::Meter;

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// It ends when it is dropped, and its copies with it.
pub struct Template {
    child: Child,
    requests: Mutex<Requests>,
    _files: GuestFiles,
    /// The memory of its guest, and of the files that QEMU holds for it.
    pub memory_bytes: u64,
}

/// Copies are asked for one after the other.
struct Requests {
    stdin: ChildStdin,
    copies: Receiver<Option<Copy>>,
}

/// The process of a copy.
pub struct Copy {
    pub pid: u32,
    ends: Receiver<ExitStatus>,
    status: Option<ExitStatus>,
}

impl Template {
    /// Starts QEMU with this command. `None`: it cannot be started. `files` are those of its guest.
    pub fn start(mut command: Command, files: GuestFiles, memory_bytes: u64) -> Option<Template> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let (sender, receiver) = sync_channel(1);
        let (copied, copies) = channel();
        // QEMU ends with the thread that starts it.
        std::thread::spawn(move || {
            let started = command.spawn().ok().and_then(|mut child| {
                let pipes = child.stdin.take().zip(child.stdout.take());
                pipes.map(|(stdin, stdout)| (child, stdin, stdout))
            });
            let Some((child, stdin, stdout)) = started else { return };
            if sender.send((child, stdin)).is_ok() {
                pass_on(stdout, &copied);
            }
        });
        let (child, stdin) = receiver.recv().ok()?;
        let requests = Mutex::new(Requests { stdin, copies });
        Some(Template { child, requests, _files: files, memory_bytes })
    }

    /// A copy with files of its own in `folder`. The first one is there when the guest is ready. `None`: there are no
    /// more copies, or it takes more than `patience`.
    pub fn copy(&self, folder: &Path, patience: Duration, cancel: &AtomicBool) -> Option<Copy> {
        let mut requests = lock(&self.requests);
        let mut request = above(folder).as_os_str().as_bytes().to_vec();
        request.push(0);
        requests.stdin.write_all(&request).ok()?;
        let mut meter = Meter::new(self.child.id(), POLL_INTERVAL);
        loop {
            match requests.copies.recv_timeout(POLL_INTERVAL) {
                Ok(copy) => return copy,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => _ = meter.poll(),
            }
            if cancel.load(Relaxed) || meter.used() > patience || meter.is_without_cpu() {
                // An answer that came later would be taken for that to the next request.
                fork::kill_group(self.child.id() as i32);
                return None;
            }
        }
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        fork::kill_group(self.child.id() as i32);
        _ = self.child.wait();
    }
}

impl Copy {
    /// How it has ended; `None`: it runs.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = match self.ends.try_recv() {
                Ok(status) => Some(status),
                // The template was killed, and with it the copy.
                Err(TryRecvError::Disconnected) => Some(ExitStatus::from_raw(libc::SIGKILL)),
                Err(TryRecvError::Empty) => None,
            };
        }
        self.status
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if self.try_wait().is_none() {
            fork::kill_group(self.pid as i32);
            _ = self.ends.recv();
        }
    }
}

/// Passes on what a template says, until it ends.
fn pass_on(stdout: ChildStdout, copied: &Sender<Option<Copy>>) {
    let mut running: HashMap<u32, Sender<ExitStatus>> = HashMap::new();
    for line in input::lines(BufReader::new(stdout), MAX_LINE_BYTES).map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["copy", pid] => {
                let copy = pid.parse().ok().map(|pid| {
                    let (sender, ends) = channel();
                    running.insert(pid, sender);
                    Copy { pid, ends, status: None }
                });
                if copied.send(copy).is_err() {
                    return;
                }
            }
            ["end", pid, status] => {
                let ended = pid.parse().ok().and_then(|pid: u32| running.remove(&pid));
                if let (Some(ended), Ok(status)) = (ended, status.parse()) {
                    _ = ended.send(ExitStatus::from_raw(status));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A shell in QEMU's place: requests have five bytes, and its copies numbers that no process has.
    fn template(script: &str) -> (tempfile::TempDir, Template) {
        let dir = tempfile::tempdir().unwrap();
        let files = GuestFiles::make(dir.path(), 1, &[]).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0);
        (dir, Template::start(command, files, 0).unwrap())
    }

    fn copy(template: &Template, patience: Duration, is_cancelled: bool) -> Option<Copy> {
        template.copy(Path::new("/lab/1"), patience, &AtomicBool::new(is_cancelled))
    }

    fn end(mut copy: Copy) -> ExitStatus {
        loop {
            match copy.try_wait() {
                Some(status) => return status,
                None => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn copies_are_made_one_after_the_other_and_each_has_its_end() {
        let script = "head -c 5 | tr '\\0' x >&2; echo copy 5000071; head -c 5 >/dev/null; echo copy 5000072
            echo end 5000072 8448; head -c 5 >/dev/null; echo copy -1; echo end 5000071 9; exec sleep 60";
        let (_dir, template) = template(script);
        let [first, second, third] = [(); 3].map(|()| copy(&template, PATIENCE, false));
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!(
            (first.pid, second.pid, third.is_none()),
            (5_000_071, 5_000_072, true),
            "it could not fork"
        );
        assert_eq!(end(second).code(), Some(33));
        assert_eq!(end(first).signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn without_an_answer_there_are_no_copies() {
        let silent = "exec sleep 60";
        let none = |script, patience, is_cancelled| {
            let (_dir, template) = template(script);
            copy(&template, patience, is_cancelled).is_none()
                && copy(&template, PATIENCE, false).is_none()
        };
        assert!(none("exit 9", PATIENCE, false), "it has ended");
        assert!(none(silent, Duration::from_millis(10), false), "it takes too long");
        assert!(none(silent, PATIENCE, true), "nobody waits any more");
    }

    #[test]
    fn a_template_that_ends_takes_its_copies_with_it() {
        let (_dir, template) = template("head -c 5 >/dev/null; echo copy 5000071");
        let copy = copy(&template, PATIENCE, false).unwrap();
        assert_eq!(end(copy).signal(), Some(libc::SIGKILL));
    }
}
