//! The child process of one run, as the process that gives it the run sees it.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::model::{Advice, Outcome, RunEnd, RunSpec, RunnerMessage, Window};
use crate::sys::{fork, process, scratch, thread};

use super::{ExecError, LIMIT_SIGNAL, REPORT_SLACK, RUNNER_ARGUMENT};
use crate::model::MAX_LINE_BYTES;
use crate::sys::input;

/// How often a cancelled plan is noticed while a run goes on.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// After its last message a runner is given this long to exit.
const EXIT_LIMIT: Duration = Duration::from_secs(10);
/// Processes that a run leaves are killed and given this long to be gone: dead ones count against
/// the limits under which the next run starts its workers.
const GONE_LIMIT: Duration = Duration::from_secs(5);
/// How much of a runner's standard error is kept for the reason of a failure.
const STDERR_BYTES: usize = 4096;

pub fn failed(error: &ExecError) -> RunEnd {
    not_done(error.reason(), error.is_of_host())
}

fn not_done(reason: String, is_of_host: bool) -> RunEnd {
    if is_of_host {
        RunEnd::HostEnded { reason }
    } else {
        RunEnd::Finished(Outcome::Failed { reason })
    }
}

/// The child process of one run.
pub struct Runner {
    child: Child,
    /// Until it has its run.
    stdin: Option<ChildStdin>,
    messages: Receiver<Result<RunnerMessage, ExecError>>,
    stderr: Option<JoinHandle<String>>,
    /// Children that this process had before.
    others: Vec<i32>,
    /// Nothing is left of it, and its number may be another's.
    gone: bool,
}

impl Runner {
    /// Starts a process that opens these probes and waits for a run with them, and waits until it does.
    pub fn ahead(probes: &[String]) -> Option<Runner> {
        let runner = Runner::spawn(Some(&probes.join(","))).ok()?;
        matches!(runner.messages.recv(), Ok(Ok(RunnerMessage::Waiting))).then_some(runner)
    }

    /// Starts the process.
    pub fn start() -> Result<Runner, ExecError> {
        Runner::spawn(None)
    }

    fn spawn(probes: Option<&str>) -> Result<Runner, ExecError> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("schedlab").arg(RUNNER_ARGUMENT).arg(std::process::id().to_string());
        command.args(probes);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        static ABANDONED: Once = Once::new();
        ABANDONED.call_once(|| _ = scratch::remove_abandoned());
        let others = process::children();
        let mut child = command.spawn().map_err(ExecError::system("start the runner"))?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(ExecError::system("start the runner")("it has no pipes"));
        };
        let messages = listen(stdout);
        let stderr = std::thread::spawn(move || {
            let kept = Mutex::new(Vec::new());
            input::keep_end(stderr, STDERR_BYTES, &kept);
            String::from_utf8_lossy(&kept.into_inner().unwrap_or_default()).into_owned()
        });
        let (stdin, stderr) = (Some(stdin), Some(stderr));
        Ok(Runner { child, stdin, messages, stderr, others, gone: false })
    }

    /// Lets `adopt` place the process, and gives it its run.
    pub fn give(
        &mut self,
        spec: &RunSpec,
        adopt: impl FnOnce(i32) -> io::Result<()>,
    ) -> Result<(), ExecError> {
        adopt(self.pid()).map_err(ExecError::system("put the runner into its cgroup"))?;
        let give = "give the runner its run";
        let mut line = serde_json::to_vec(spec).map_err(ExecError::system(give))?;
        line.push(b'\n');
        let stdin = self.stdin.take();
        stdin.map_or(Ok(()), |mut stdin| stdin.write_all(&line)).map_err(ExecError::system(give))
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Takes the runner's messages until the last one, its death, the limit or a cancel.
    pub fn attend(
        &mut self,
        spec: &RunSpec,
        cancel: &AtomicBool,
        on_started: &mut dyn FnMut(),
        on_window: &mut dyn FnMut(Window),
    ) -> RunEnd {
        let deadline = Instant::now() + Duration::from_nanos(spec.limit_ns) + REPORT_SLACK;
        loop {
            if cancel.load(Relaxed) {
                return RunEnd::Interrupted;
            }
            match self.messages.recv_timeout(POLL_INTERVAL) {
                Ok(Ok(RunnerMessage::Waiting)) => {}
                Ok(Ok(RunnerMessage::Started { .. })) => on_started(),
                Ok(Ok(RunnerMessage::Window(window))) => on_window(window),
                Ok(Ok(RunnerMessage::Done(result))) => {
                    return RunEnd::Finished(Outcome::Done { result });
                }
                Ok(Ok(RunnerMessage::Failed { reason, is_of_host })) => {
                    return not_done(reason, is_of_host);
                }
                Ok(Err(garbled)) => return failed(&garbled),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return failed(&self.death(spec)),
            }
            if Instant::now() > deadline {
                return failed(&ExecError::Limit { limit_ns: spec.limit_ns });
            }
        }
    }

    /// How a runner without a last message has ended.
    fn death(&mut self, spec: &RunSpec) -> ExecError {
        let status = thread::give_way(|| self.wait_exit());
        if status.is_some_and(|status| status.signal() == Some(LIMIT_SIGNAL)) {
            return ExecError::Limit { limit_ns: spec.limit_ns };
        }
        let stderr = self.stderr.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        ExecError::RunnerDied { status, stderr: stderr.trim().to_string() }
    }

    fn wait_exit(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + EXIT_LIMIT;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }

    /// Leaves no process of the run behind.
    pub fn end(&mut self) {
        if self.gone {
            return;
        }
        let group = self.child.id() as i32;
        fork::kill_group(group);
        // To collect a process the kernel removes it from /proc, and spins while its last threads
        // still remove themselves.
        thread::give_way(|| {
            // The group is dead or dying; a failure means that the child is collected already.
            _ = self.child.wait();
            // Worker processes may be dying still; this ends those that the kernel does not end in time.
            fork::await_end_of_group(group, GONE_LIMIT);
            // Processes that left the group have come to this process, if it adopts orphans.
            process::end_children(&self.others, GONE_LIMIT);
        });
        scratch::remove_of(group);
        self.gone = true;
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.end();
    }
}

/// Parses the runner's lines in a thread of its own, so that waiting for them can time out.
fn listen(stdout: impl Read + Send + 'static) -> Receiver<Result<RunnerMessage, ExecError>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        thread::serve_promptly();
        for line in input::lines(BufReader::new(stdout), MAX_LINE_BYTES) {
            let message = line
                .and_then(|line| Ok(serde_json::from_str(&line)?))
                .map_err(|error| ExecError::Garbled(error.into()));
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    receiver
}
