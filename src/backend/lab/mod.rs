//! Real kernels in QEMU under virtual time: each run is a guest of its own, a copy of a machine
//! that was booted once and stopped when it was quiet.
//!
//! Guests cannot disturb each other, so as many run at once as the host has CPUs: announced runs
//! are started in order, and [`Backend::run`] waits for its own. An exact run is not made again.
//! How a guest is made: docs/lab.md.

mod answers;
mod asked;
pub mod checkup;
mod console;
mod emulator;
mod error;
mod failed;
mod files;
mod first_domain;
mod guest;
mod guests;
mod initrd;
pub mod kept;
pub mod kernel;
mod machine;
mod memory;
mod patience;
mod preload;
mod qmp;
mod rehearsal;
mod results;
mod run_queue;
mod saved;
#[cfg_attr(not(feature = "cache"), path = "shared_absent.rs")]
mod shared;
mod template;
mod trial;
mod xen_image;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::model::{self, Cell, Environment, Outcome, RunEnd, RunSpec};

use super::{
    Backend, BackendConfig, BackendError, CacheReport, Capabilities, Entry, GuestMachine, News,
    RunNews,
};
use error::GuestError;
use guest::GuestOutput;
use guests::{GuestManager, Measured};
use run_queue::RunQueue;

pub use error::LabError;
pub use guest::parse as parse_guest_output;
#[cfg(feature = "fleet")]
pub(super) use results::digest;
#[cfg(feature = "cache")]
pub use shared::{decode as decode_cache_entry, unpack as unpack_answer};

pub const ENTRY: Entry = Entry {
    name: "lab",
    about: "real kernels in QEMU under virtual time: the same to the last bit",
    capabilities: Capabilities {
        virtual_time: true,
        own_kernels: true,
        guests: true,
        ..Capabilities::NONE
    },
    make: |config| Ok(Box::new(Lab::new(config)?)),
};

/// So many runs wait for each CPU of the host.
const RUNS_AHEAD_PER_CPU: usize = 4;

pub struct Lab {
    guests: Arc<GuestManager>,
    queue: RunQueue,
}

impl Lab {
    pub fn new(config: &BackendConfig) -> Result<Lab, LabError> {
        let guests = Arc::new(GuestManager::open(config)?);
        let manager = Arc::clone(&guests);
        let queue = RunQueue::start(Box::new(move |spec, cancel| manager.measure(spec, cancel)));
        Ok(Lab { guests, queue })
    }
}

impl Backend for Lab {
    fn environment(&self) -> Environment {
        asked::environment(
            self.guests.lab(),
            self.guests.time(),
            self.guests.emulator(),
            self.guests.no_clocks(),
        )
    }

    fn guests(&self) -> Option<(model::Lab, Option<String>)> {
        let why = self.guests.no_clocks().map(|why| why.to_string());
        Some((self.guests.lab().clone(), why))
    }

    fn prepare(&self, cells: &[Cell], needs_all: bool) -> Result<(), BackendError> {
        Ok(self.guests.check_kernels(cells, needs_all)?)
    }

    fn check(&self, cell: &Cell) -> Result<(), BackendError> {
        Ok(self.guests.check(cell)?)
    }

    fn guest_machine(&self, cell: &Cell) -> Result<Option<GuestMachine>, BackendError> {
        Ok(Some(self.guests.guest_machine(cell)?))
    }

    /// So the end of a round leaves no CPU idle.
    fn runs_ahead(&self) -> usize {
        RUNS_AHEAD_PER_CPU * std::thread::available_parallelism().map_or(1, usize::from)
    }

    fn announce(&mut self, specs: Vec<RunSpec>) {
        self.queue.add(specs);
    }

    fn looked_up(&self) -> usize {
        self.guests.looked_up()
    }

    fn run(&mut self, spec: &RunSpec, cancel: &AtomicBool, on_news: &mut News) -> RunEnd {
        let guests = &self.guests;
        let on_poll = &mut || {
            if let Some(share) = guests.slow().share.take() {
                on_news(RunNews::Starved { share });
            }
            guests.slow().boot.take().into_iter().for_each(|boot| on_news(RunNews::SlowBoot(boot)));
            guests.take_not_saved().into_iter().for_each(|why| on_news(RunNews::NotSaved(why)));
        };
        let Measured { output, asked } = match self.queue.wait(spec, cancel, on_poll) {
            Ok(measured) => measured,
            Err(GuestError::Cancelled) => return RunEnd::Interrupted,
            Err(error) if error.is_of_host() => {
                return RunEnd::HostEnded { reason: error.to_string() };
            }
            Err(error) => {
                if let Some(path) = error.console() {
                    on_news(RunNews::ConsoleKept { path: path.to_path_buf() });
                }
                return RunEnd::Finished(Outcome::Failed { reason: error.to_string() });
            }
        };
        let GuestOutput { facts, windows, outcome, console, coverage, .. } = output;
        coverage.into_iter().map(RunNews::Covered).for_each(&mut *on_news);
        console.into_iter().for_each(|path| on_news(RunNews::ConsoleKept { path }));
        windows.into_iter().map(RunNews::Window).for_each(on_news);
        RunEnd::Finished(match (outcome, facts) {
            (Outcome::Done { mut result }, Some(facts)) => {
                result.guest = Some(asked::of_guest(&asked, &facts));
                Outcome::Done { result }
            }
            (outcome, _) => outcome,
        })
    }

    fn end_shared_cache(&mut self) -> Option<CacheReport> {
        self.guests.end_shared_cache()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::{Placement, Variant, Work};

    /// A run of a variant of this name with this seed.
    pub fn spec(variant: &str, seed: u64) -> RunSpec {
        RunSpec {
            warmup_ns: 1_000_000_000,
            duration_ns: 2_000_000_000,
            window_ns: 500_000_000,
            limit_ns: 33_000_000_000,
            seed,
            ..RunSpec::new(Cell {
                index: 3,
                variant: Variant { name: variant.to_string(), knobs: Default::default() },
                work: Work { name: "w".to_string(), sets: Vec::new(), ..Default::default() },
                placement: Placement::default(),
            })
        }
    }
}
