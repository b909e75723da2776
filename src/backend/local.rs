//! Runs on this machine, one schedlab at a time (see `exec::run_here`).

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::exec;
use crate::model::{Cell, Environment, RunEnd, RunSpec, Window};
use crate::sys::{self, Host, fork, thread};
use crate::variant::Journal;

use super::Backend;

/// How long another schedlab may take to let go of the machine.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// How often it is asked for the machine meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

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
            std::thread::sleep(POLL_INTERVAL);
        }
        match turn.try_lock() {
            Ok(()) => Ok(Local { host: Host::default(), journal, _turn: turn }),
            Err(TryLockError::WouldBlock) => Err("another schedlab is measuring on this machine, \
                and two would measure each other\nhint: wait for it: pgrep -a schedlab"
                .to_string()),
            Err(TryLockError::Error(error)) => Err(unwritable(error)),
        }
    }
}

impl Backend for Local {
    fn environment(&self) -> Environment {
        sys::environment(&self.host)
    }

    fn check(&self, cell: &Cell) -> Result<(), String> {
        exec::check_here(cell, &self.host).map_err(|error| error.reason())
    }

    fn run(
        &mut self,
        spec: &RunSpec,
        cancel: &AtomicBool,
        on_window: &mut dyn FnMut(Window),
    ) -> RunEnd {
        exec::run_here(spec, &self.host, &self.journal, cancel, on_window)
    }
}
