//! sched_ext schedulers: those of our own, embedded, files of BPF, and any program that attaches one.
//!
//! The scheduler in force is read from /sys/kernel/sched_ext, below the root of the [`Host`]. Attaching
//! and detaching change the machine; nothing outlives the process: the kernel detaches a scheduler
//! that was loaded here with its last descriptor, and a program gets SIGINT when the thread that started it ends.

mod error;
#[cfg(feature = "bpf")]
mod loaded;
mod scheduler;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::sys::companion::Companion;
use crate::sys::{Host, input};

pub use error::SchedulerError;
use scheduler::{BTF, EVENTS, OPS, REJECTED, STATE};
pub use scheduler::{Counted, Exit, OWN, Scheduler};

/// How often a state that is waited for is read.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How long a scheduler may take. In a lab the time is the guest's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub attach: Duration,
    pub detach: Duration,
}

impl Default for Limits {
    /// Under a virtual clock some programs need 45 s until theirs is attached.
    fn default() -> Self {
        Limits { attach: Duration::from_secs(60), detach: Duration::from_secs(30) }
    }
}

/// Whether a scheduler could be attached, as far as is known without trying. Of the kernel's files
/// only those below `host` are read; the program's file is this process's own.
pub fn check(scheduler: &Scheduler, host: &Host) -> Result<(), SchedulerError> {
    check_file(scheduler)?;
    let state = state(host)?;
    if state != "disabled" {
        let ops = host.read(OPS).unwrap_or("a scheduler without a name".to_string());
        return Err(SchedulerError::Another { state, ops });
    }
    if !may_load(host) {
        return Err(SchedulerError::NotPermitted);
    }
    match scheduler {
        Scheduler::Own(_) | Scheduler::Object(_) if cfg!(not(feature = "bpf")) => {
            Err(SchedulerError::NotBuilt(scheduler.clone()))
        }
        Scheduler::Own(_) | Scheduler::Object(_) if !host.path(BTF).exists() => {
            Err(SchedulerError::NoBtf)
        }
        _ => Ok(()),
    }
}

/// Whether the file of a scheduler is there, and is one as its name says.
pub fn check_file(scheduler: &Scheduler) -> Result<(), SchedulerError> {
    let is_one = match scheduler {
        Scheduler::Own(_) => return Ok(()),
        Scheduler::Object(path) => input::open_file(path, input::MAX_OWN_FILE_BYTES).map(|_| true),
        Scheduler::Program { path, .. } => fs::metadata(path)
            .map(|found| found.is_file() && found.permissions().mode() & 0o111 != 0),
    };
    let path = scheduler.path().unwrap_or(Path::new(""));
    match is_one {
        Ok(true) => Ok(()),
        Ok(false) => Err(SchedulerError::NotExecutable(path.to_path_buf())),
        Err(source) => Err(SchedulerError::no_file(path, source)),
    }
}

/// The state of sched_ext.
fn state(host: &Host) -> Result<String, SchedulerError> {
    let state = host.text(STATE).map_err(SchedulerError::NoSchedExt)?;
    Ok(state.trim().to_string())
}

/// Whether this process has the capabilities, as far as its status shows them.
fn may_load(host: &Host) -> bool {
    const SYS_ADMIN: u64 = 1 << 21;
    const PERFMON_AND_BPF: u64 = 1 << 38 | 1 << 39;
    let capabilities = host.capabilities().known();
    capabilities.is_none_or(|has| has & SYS_ADMIN != 0 || has & PERFMON_AND_BPF == PERFMON_AND_BPF)
}

/// The object that holds the scheduler in place.
enum Held {
    #[cfg(feature = "bpf")]
    Loaded(loaded::Loaded),
    Program(Companion),
}

/// A scheduler in force, until it is detached, dropped or ejected.
pub struct Attached {
    host: Host,
    scheduler: Scheduler,
    ops: String,
    rejected_before: Option<u64>,
    limits: Limits,
    held: Held,
    /// It was asked to go.
    is_gone: bool,
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attached({}, {})", self.scheduler, self.ops)
    }
}

/// Attaches a scheduler and waits until it is in force.
pub fn attach(
    scheduler: &Scheduler,
    host: &Host,
    limits: Limits,
) -> Result<Attached, SchedulerError> {
    check(scheduler, host)?;
    let rejected_before = rejected(host);
    let held = match scheduler {
        #[cfg(feature = "bpf")]
        Scheduler::Own(_) | Scheduler::Object(_) => {
            Held::Loaded(loaded::Loaded::attach(scheduler)?)
        }
        #[cfg(not(feature = "bpf"))]
        Scheduler::Own(_) | Scheduler::Object(_) => {
            return Err(SchedulerError::NotBuilt(scheduler.clone()));
        }
        Scheduler::Program { path, words } => {
            Held::Program(Companion::start(path, words).map_err(|source| {
                SchedulerError::NotStarted { scheduler: scheduler.clone(), source }
            })?)
        }
    };
    let (host, scheduler) = (host.clone(), scheduler.clone());
    let mut attached = Attached {
        host,
        scheduler,
        ops: String::new(),
        rejected_before,
        limits,
        held,
        is_gone: false,
    };
    let enabled = attached.await_enabled();
    match enabled {
        Ok(ops) => {
            attached.ops = ops;
            Ok(attached)
        }
        Err(cause) => {
            let output = attached.output();
            let left = attached.let_go().err().map(Box::new);
            Err(SchedulerError::NotAttached { cause: Box::new(cause), output, left })
        }
    }
}

impl Attached {
    /// The state and the scheduler in its place; `None`: it is in force itself.
    pub fn in_its_place(&self) -> Option<String> {
        let state = self.host.read(STATE).unwrap_or_default();
        let ops = self.host.read(OPS).unwrap_or_default();
        let as_asked = state.trim() == "enabled" && ops.trim() == self.ops;
        (!as_asked).then(|| format!("{} {}", state.trim(), ops.trim()).trim().to_string())
    }

    /// Whether it is still in force; the error says what happened to it.
    pub fn check(&mut self) -> Result<(), SchedulerError> {
        let state = state(&self.host)?;
        let ops = self.host.read(OPS).unwrap_or_default();
        let ended = self.ended();
        let what = match (state.as_str(), ended) {
            (_, Some(how)) => format!("the program ended by itself ({how})"),
            ("enabled", None) if ops.trim() == self.ops => return Ok(()),
            ("enabled", None) => format!("{} is in force in its place", ops.trim()),
            (state, None) => format!("sched_ext is {state}"),
        };
        let name = format!("{} ({})", self.scheduler, self.ops);
        let (exit, output) = (self.exit().map(Box::new), self.output());
        Err(SchedulerError::DidNotLast { name, what, exit, output })
    }

    /// Detaches it and waits until the kernel's own scheduler is back. Returns the kernel's counts.
    pub fn detach(mut self) -> Result<Counted, SchedulerError> {
        let mut counted = self.counted();
        self.let_go()?;
        counted.exit = self.exit();
        Ok(counted)
    }

    fn await_enabled(&mut self) -> Result<String, SchedulerError> {
        let deadline = Instant::now() + self.limits.attach;
        loop {
            let state = state(&self.host)?;
            let ops = self.host.read(OPS).unwrap_or_default().trim().to_string();
            if state == "enabled" && !ops.is_empty() {
                return Ok(ops);
            }
            if let Some(how) = self.ended() {
                return Err(SchedulerError::EndedEarly { scheduler: self.scheduler.clone(), how });
            }
            // The kernel has enabled what is loaded, or thrown it out, when it returns from attaching it.
            #[cfg(feature = "bpf")]
            if state == "disabled" && matches!(self.held, Held::Loaded(_)) {
                let (scheduler, exit) = (self.scheduler.clone(), self.exit().map(Box::new));
                return Err(SchedulerError::ThrownOut { scheduler, exit });
            }
            if Instant::now() > deadline {
                let (scheduler, limit) = (self.scheduler.clone(), self.limits.attach);
                return Err(SchedulerError::Late { scheduler, limit, state });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Has it detached; a program that does not heed SIGINT is killed.
    fn let_go(&mut self) -> Result<(), SchedulerError> {
        self.is_gone = true;
        match &mut self.held {
            #[cfg(feature = "bpf")]
            Held::Loaded(loaded) => loaded.detach(),
            Held::Program(program) => {
                program.interrupt();
                let deadline = Instant::now() + self.limits.detach;
                while program.ended().is_none() && Instant::now() < deadline {
                    std::thread::sleep(POLL_INTERVAL);
                }
                if program.ended().is_none() {
                    program.kill();
                }
            }
        }
        await_disabled(&self.host, self.limits.detach)
    }

    fn counted(&self) -> Counted {
        let now = rejected(&self.host);
        let since = |now: u64| now.saturating_sub(self.rejected_before.unwrap_or(0));
        let events = self.host.read(EVENTS).ok().map(|text| events(&text));
        Counted { ops: self.ops.clone(), events, rejected: now.map(since), exit: None }
    }

    /// How the program ended, if it did.
    fn ended(&mut self) -> Option<String> {
        match &mut self.held {
            #[cfg(feature = "bpf")]
            Held::Loaded(_) => None,
            Held::Program(program) => program.ended().map(|status| status.to_string()),
        }
    }

    fn exit(&self) -> Option<Exit> {
        match &self.held {
            #[cfg(feature = "bpf")]
            Held::Loaded(loaded) => loaded.exit(),
            Held::Program(_) => None,
        }
    }

    /// The last line that the program wrote.
    fn output(&mut self) -> String {
        match &mut self.held {
            #[cfg(feature = "bpf")]
            Held::Loaded(_) => String::new(),
            Held::Program(program) => program.output(),
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.is_gone {
            // Nothing is left that could report it.
            _ = self.let_go();
        }
    }
}

/// Whether a sched_ext scheduler is in force, or on its way.
pub fn is_any_in_force(host: &Host) -> bool {
    state(host).is_ok_and(|state| state != "disabled")
}

/// Waits until no sched_ext scheduler is in force.
pub fn await_disabled(host: &Host, patience: Duration) -> Result<(), SchedulerError> {
    let deadline = Instant::now() + patience;
    loop {
        let state = state(host)?;
        if state == "disabled" {
            return Ok(());
        }
        if Instant::now() > deadline {
            let ops = host.read(OPS).unwrap_or_default();
            return Err(SchedulerError::Still { state, ops, after: patience });
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn rejected(host: &Host) -> Option<u64> {
    host.read(REJECTED).ok()?.trim().parse().ok()
}

/// Lines of a name and a count; zeros are left out.
fn events(text: &str) -> Vec<(String, u64)> {
    let count = |line: &str| {
        let (name, count) = line.split_once(char::is_whitespace)?;
        Some((name.to_string(), count.trim().parse().ok()?))
    };
    text.lines().filter_map(count).filter(|(_, count)| *count > 0).collect()
}
