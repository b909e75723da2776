//! Runs on this machine, each in a runner process of its own (see `exec`).
//!
//! Order of a run: apply the variant's cgroup and machine knobs and make the pool (journalled),
//! start the runner, put it into its cgroups, begin to watch for disturbances, give it the run, collect
//! its words, kill what is left of its process group and wait until it is gone, end the watch,
//! undo the knobs.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::exec;
use crate::model::{
    Cell, CpuSet, Disturbance, DisturbanceKind, Environment, FromRunner, KnobReading,
    MemoryPlacement, Outcome, RunSpec, Window, show_duration,
};
use crate::probe::disturbance::{Own, Watch};
use crate::sys::{self, Host, clock, fork, signal, thread, topology};
use crate::variant::{self, Journal};

use super::{Backend, Ended};

/// How long another schedlab may take to let go of the machine.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// How often a cancelled plan is noticed while a run goes on.
const LOOK: Duration = Duration::from_millis(200);
/// A runner that has said its last word is given this long to exit.
const EXIT_LIMIT: Duration = Duration::from_secs(10);
/// What a run leaves is killed, and given this long to be gone: dead processes count against
/// the limits that the next run starts its workers under.
const GONE_LIMIT: Duration = Duration::from_secs(5);
/// How much of a runner's standard error is kept for the reason of a failure.
const STDERR_BYTES: u64 = 4096;

pub struct Local {
    host: Host,
    journal: Journal,
    /// Held as long as this backend lives.
    _turn: File,
}

impl Local {
    /// `state`: where the journal of changes to the machine lies. The calling thread, which
    /// takes what runners say, is served promptly from now on: among thousands of runnable
    /// workers a runner would else wait for seconds until somebody empties its pipe.
    pub fn new(state: &Path) -> Result<Local, String> {
        thread::serve_promptly();
        fork::adopt_orphans();
        let unwritable = |error: io::Error| format!("cannot write to {}: {error}", state.display());
        let journal = Journal::open(state).map_err(unwritable)?;
        let turn = File::create(state.join("measuring.lock")).map_err(unwritable)?;
        // A schedlab that was killed just now holds it until the last of it is gone.
        let deadline = Instant::now() + LOCK_PATIENCE;
        while Instant::now() < deadline && turn.try_lock().is_err() {
            std::thread::sleep(LOOK / 10);
        }
        match turn.try_lock() {
            Ok(()) => Ok(Local { host: Host::default(), journal, _turn: turn }),
            Err(TryLockError::WouldBlock) => Err("another schedlab is measuring on this machine, \
                and two would measure each other\nhint: wait for it: pgrep -a schedlab"
                .to_string()),
            Err(TryLockError::Error(error)) => Err(unwritable(error)),
        }
    }

    /// The CPUs of a run whose pool, if it has one, has been made.
    fn cpus(&self, spec: &RunSpec) -> CpuSet {
        let placement = &spec.cell.placement.cpus;
        placement.clone().unwrap_or_else(|| topology::affinity().unwrap_or_default())
    }
}

impl Backend for Local {
    fn environment(&self) -> Environment {
        sys::environment(&self.host)
    }

    fn check(&self, cell: &Cell) -> Result<(), String> {
        let pool = variant::find_pool(cell, &self.host)?;
        let in_cpuset = pool.as_ref().is_some_and(|pool| pool.is_cpuset());
        if let (Some(cpus), false) = (&cell.placement.cpus, in_cpuset) {
            let allowed = topology::affinity().map_err(|error| error.to_string())?;
            let missing = cpus.minus(&allowed);
            if !missing.is_empty() {
                return Err(format!("CPUs {missing} are offline or not allowed to this process"));
            }
        }
        if cell.placement.memory == MemoryPlacement::Interleave {
            let cpus = pool.map(|pool| pool.cpus).or_else(|| cell.placement.cpus.clone());
            let cpus = cpus.or_else(|| topology::affinity().ok()).unwrap_or_default();
            sys::can_interleave(topology::node_numbers(&self.host, &cpus))?;
        }
        variant::check(cell, &self.host).map_err(|missing| {
            let reasons: Vec<String> = missing.iter().map(|knob| knob.message.clone()).collect();
            reasons.join("; ")
        })
    }

    fn run(
        &mut self,
        spec: &RunSpec,
        cancel: &AtomicBool,
        on_window: &mut dyn FnMut(Window),
    ) -> Ended {
        let _changes = changes(&spec.cell).then(signal::Changes::begin);
        let applied = match variant::apply(&spec.cell, &self.host, &self.journal) {
            Ok(applied) => applied,
            Err(error) => return failed(error.to_string()),
        };
        let mut knobs = applied.readings();
        let mut spec = spec.clone();
        if let Some(cpus) = applied.pool_cpus() {
            // Workers take all of them, whatever affinity schedlab was started with.
            spec.cell.placement.cpus = Some(cpus.clone());
        }
        let (spec, pool) = (&spec, self.cpus(&spec));
        let mut lost = CpuSet::default();
        let mut on_window = |window| {
            if let Some(online) = topology::online(&self.host).known() {
                lost = lost.iter().chain(pool.minus(&online).iter()).collect();
            }
            on_window(window);
        };
        let own = Own { pids: BTreeSet::from([std::process::id() as i32]) };
        let watch = Watch::begin(&self.host, &pool, own);
        let (self_before_ns, family_before_ns) = (own_cpu_ns(), clock::family_cpu_ns());
        let ended = match Runner::start(spec, |pid| applied.adopt(pid)) {
            Ok(mut runner) => {
                let ended = runner.attend(spec, cancel, &mut on_window);
                runner.end();
                ended
            }
            Err(reason) => failed(reason),
        };
        let used = Used {
            overhead_ns: own_cpu_ns() - self_before_ns,
            family_ns: clock::family_cpu_ns() - family_before_ns,
        };
        let ended = match ended {
            Ended::With(_) if !lost.is_empty() => {
                failed(format!("CPUs {lost} of the pool went offline in mid-run"))
            }
            ended => finish(ended, watch, &mut knobs, &used),
        };
        match applied.undo() {
            Ok(()) => ended,
            Err(error) => failed(format!("{error}; hint: schedlab restore")),
        }
    }
}

/// Whether a run of the cell may change what outlives it.
fn changes(cell: &Cell) -> bool {
    !cell.variant.knobs.is_empty() || cell.placement.pool.is_some()
}

/// CPU time of a run.
struct Used {
    /// Of schedlab itself: windows, events, the store.
    overhead_ns: u64,
    /// Of schedlab, the runner and all its workers, start to end.
    family_ns: u64,
}

/// Adds what was seen from outside the runner to its result, or to why there is none.
fn finish(ended: Ended, watch: Watch, knobs: &mut Vec<KnobReading>, used: &Used) -> Ended {
    let disturbances = watch.end(used.family_ns);
    match ended {
        Ended::Interrupted => Ended::Interrupted,
        Ended::With(Outcome::Done { mut result }) => {
            let is_loss = |found: &&Disturbance| {
                found.kind == DisturbanceKind::CpuHotplug && found.share.is_some()
            };
            if let Some(loss) = disturbances.iter().find(is_loss) {
                return failed(loss.detail.clone());
            }
            result.disturbances.extend(disturbances);
            result.knobs.append(knobs);
            let measurer = result.overhead_cpu_ns;
            result.overhead_cpu_ns = measurer.map(|measurer_ns| measurer_ns + used.overhead_ns);
            Ended::With(Outcome::Done { result })
        }
        Ended::With(Outcome::Failed { mut reason }) => {
            for disturbance in disturbances {
                reason.push_str(&format!("; beside it: {}", disturbance.detail));
            }
            failed(reason)
        }
        Ended::With(skipped) => Ended::With(skipped),
    }
}

fn own_cpu_ns() -> u64 {
    clock::process_cpu_ns(std::process::id() as i32).unwrap_or(0)
}

fn over_limit(spec: &RunSpec) -> String {
    format!("no result within {}: killed", show_duration(spec.limit_ns))
}

fn failed(reason: String) -> Ended {
    Ended::With(Outcome::Failed { reason })
}

/// The child process of one run.
struct Runner {
    child: Child,
    words: Receiver<Result<FromRunner, String>>,
    stderr: Option<JoinHandle<String>>,
    /// Nothing is left of it, and its number may be another's.
    gone: bool,
}

impl Runner {
    /// Starts the process, lets `adopt` place it, and gives it the run.
    fn start(spec: &RunSpec, adopt: impl FnOnce(i32) -> io::Result<()>) -> Result<Runner, String> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("schedlab").arg(exec::RUNNER_ARGUMENT).arg(std::process::id().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        let mut child =
            command.spawn().map_err(|error| format!("the runner cannot start: {error}"))?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err("the runner has no pipes".to_string());
        };
        let words = listen(stdout);
        let stderr = std::thread::spawn(move || keep_end(stderr));
        let pid = child.id() as i32;
        let runner = Runner { child, words, stderr: Some(stderr), gone: false };
        adopt(pid).map_err(|error| format!("the runner's cgroup: {error}"))?;
        let mut line = serde_json::to_vec(spec).map_err(|error| error.to_string())?;
        line.push(b'\n');
        stdin.write_all(&line).map_err(|error| format!("the runner takes no run: {error}"))?;
        Ok(runner)
    }

    /// Collects what the runner says until its last word, its death, the limit or a cancel.
    fn attend(
        &mut self,
        spec: &RunSpec,
        cancel: &AtomicBool,
        on_window: &mut dyn FnMut(Window),
    ) -> Ended {
        let deadline = Instant::now() + Duration::from_nanos(spec.limit_ns);
        loop {
            if cancel.load(Relaxed) {
                return Ended::Interrupted;
            }
            match self.words.recv_timeout(LOOK) {
                Ok(Ok(FromRunner::Started { .. })) => {}
                Ok(Ok(FromRunner::Window(window))) => on_window(window),
                Ok(Ok(FromRunner::Done(result))) => return Ended::With(Outcome::Done { result }),
                Ok(Ok(FromRunner::Failed { reason })) => return failed(reason),
                Ok(Err(garbled)) => return failed(format!("the runner's words: {garbled}")),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return failed(self.death(spec)),
            }
            if Instant::now() > deadline {
                return failed(over_limit(spec));
            }
        }
    }

    /// How a runner that said no last word has ended.
    fn death(&mut self, spec: &RunSpec) -> String {
        let status = self.wait_exit();
        if status.is_some_and(|status| status.signal() == Some(exec::LIMIT_SIGNAL)) {
            return over_limit(spec);
        }
        let status = status.map_or("closed its output".to_string(), |status| status.to_string());
        let stderr = self.stderr.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        match stderr.trim() {
            "" => format!("the runner died: {status}"),
            said => format!("the runner died: {status}: {said}"),
        }
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
    fn end(&mut self) {
        if self.gone {
            return;
        }
        let group = self.child.id() as i32;
        fork::kill_group(group);
        // The group is dead or dying; a failure here means that the child is collected already.
        _ = self.child.wait();
        // Worker processes may be dying still; what the kernel does not end in time, it ends.
        fork::await_end_of_group(group, GONE_LIMIT);
        self.gone = true;
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.end();
    }
}

/// Parses the runner's lines in a thread of its own, so that waiting for them can time out.
fn listen(stdout: impl Read + Send + 'static) -> Receiver<Result<FromRunner, String>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        thread::serve_promptly();
        for line in BufReader::new(stdout).lines() {
            let word = line
                .map_err(|error| error.to_string())
                .and_then(|line| serde_json::from_str(&line).map_err(|error| error.to_string()));
            if sender.send(word).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Reads a stream to its end and keeps the last bytes.
fn keep_end(mut stream: impl Read) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut chunk = [0; 1024];
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        kept.extend_from_slice(&chunk[..count]);
        let excess = kept.len().saturating_sub(STDERR_BYTES as usize);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
