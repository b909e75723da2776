//! Runs on this machine, one schedlab at a time (see `exec::run_here`).

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::exec;
use crate::model::{Advice, Calibration, Cell, Environment, Outcome, Problem, RunEnd, RunSpec};
use crate::sys::{self, Host, fork, thread};
use crate::variant::scx::{self, Scheduler};
use crate::variant::{self, Journal, Missing};

use super::{Backend, BackendError, Capabilities, Entry, News, RunNews};

pub const ENTRY: Entry = Entry {
    name: "local",
    about: "this machine, its kernel, its noise",
    capabilities: Capabilities { touches_machine: true, ..Capabilities::NONE },
    make: |config| Ok(Box::new(Local::new(config.state)?)),
};

/// How long to wait for another schedlab that is ending.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub struct Local {
    host: Host,
    /// `None`: no run will be made.
    runs: Option<Runs>,
}

struct Runs {
    journal: Journal,
    /// Locked as long as this backend lives.
    _lock: File,
}

impl Local {
    /// `state`: the folder of the journal of changes to the machine. The calling thread, which
    /// reads what runners report, gets a high priority: among thousands of runnable workers a
    /// runner would otherwise wait for seconds until its pipe is read.
    pub fn new(state: Option<&Path>) -> Result<Local, BackendError> {
        Ok(Local { host: Host::default(), runs: state.map(Runs::new).transpose()? })
    }
}

impl Runs {
    fn new(state: &Path) -> Result<Runs, BackendError> {
        thread::serve_promptly();
        fork::adopt_orphans();
        let unwritable =
            |source: io::Error| BackendError::State { folder: state.to_path_buf(), source };
        let journal = Journal::open(state).map_err(unwritable)?;
        let lock = File::create(state.join("measuring.lock")).map_err(unwritable)?;
        // A schedlab that was just killed holds the lock until its last process is gone.
        let deadline = Instant::now() + LOCK_PATIENCE;
        while Instant::now() < deadline && lock.try_lock().is_err() {
            std::thread::sleep(POLL_INTERVAL);
        }
        match lock.try_lock() {
            Ok(()) => Ok(Runs { journal, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(BackendError::Busy),
            Err(TryLockError::Error(error)) => Err(unwritable(error)),
        }
    }
}

impl Backend for Local {
    fn environment(&self) -> Environment {
        sys::environment(&self.host)
    }

    fn calibrate(&self) -> Option<Calibration> {
        Some(exec::calibrate())
    }

    fn check(&self, cell: &Cell) -> Result<(), BackendError> {
        cell.variant
            .scx()
            .and_then(Scheduler::parse)
            .map_or(Ok(()), |own| scx::check_file(&own))?;
        if !cell.work.offline.is_empty() {
            let reason = format!(
                "CPUs {} would be taken off for everybody: that is done in the lab alone",
                cell.work.offline_cpus()
            );
            let hint = "in the lab, whose guests are plans' own: --backend lab".to_string();
            return Err(BackendError::Unsupported(Problem::new(reason, hint)));
        }
        exec::check_here(cell, &self.host)
            .map_err(|error| BackendError::Unsupported(error.problem()))
    }

    fn check_turns(&self, cells: &[Cell]) -> Result<(), BackendError> {
        variant::check_turns(cells).map_err(|Missing { knob, message, hint }| {
            let reason = format!("variants cannot take turns: {knob}: {message}");
            BackendError::Unsupported(Problem::new(reason, hint))
        })
    }

    fn run(&mut self, spec: &RunSpec, cancel: &AtomicBool, on_news: &mut News) -> RunEnd {
        match &self.runs {
            Some(Runs { journal, .. }) => {
                let on_window = &mut |window| on_news(RunNews::Window(window));
                exec::run_here(
                    spec,
                    None,
                    &exec::Own::family(),
                    &self.host,
                    journal,
                    cancel,
                    on_window,
                )
            }
            None => {
                let reason = "this backend was opened for checks alone".to_string();
                RunEnd::Finished(Outcome::Failed { reason })
            }
        }
    }
}
