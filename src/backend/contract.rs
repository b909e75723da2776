//! The trait `Backend`, with the capabilities of a backend and its configuration. Traits and plain data.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::model::{
    Calibration, Cell, Coverage, Environment, Lab, PlanEnd, RunEnd, RunSpec, SharedCache, Window,
};

use serde::{Deserialize, Serialize};

use super::cache_report::CacheReport;
use super::error::BackendError;

/// One place where runs can happen.
pub trait Backend {
    /// The machine on which the runs will be made.
    fn environment(&self) -> Environment;

    /// Whether the cells of a plan can be run at all, before anything runs: an error here ends
    /// the plan. A cell that others can do without is skipped, by [`Backend::check`]. `needs_all`: none of their
    /// kernels can be done without.
    fn prepare(&self, _cells: &[Cell], _needs_all: bool) -> Result<(), BackendError> {
        Ok(())
    }

    /// Returns an error if the cell cannot run here; changes nothing.
    fn check(&self, cell: &Cell) -> Result<(), BackendError>;

    /// Returns an error if the variants of a work, a cell each, cannot take turns here; changes nothing.
    fn check_turns(&self, _cells: &[Cell]) -> Result<(), BackendError> {
        Ok(())
    }

    /// The machine of its guests. If it is less than what was asked for, also why.
    fn guests(&self) -> Option<(Lab, Option<String>)> {
        None
    }

    /// The speed of the machine, for runs whose work is given as times. `None` if each run measures it itself.
    fn calibrate(&self) -> Option<Calibration> {
        None
    }

    /// Describes the machine of a cell's guests, if the backend has guests. Takes a while.
    fn guest_machine(&self, _cell: &Cell) -> Result<Option<GuestMachine>, BackendError> {
        Ok(None)
    }

    /// The engine announces whole rounds that will certainly be run until so many runs are ahead; 0: one round at a
    /// time.
    fn runs_ahead(&self) -> usize {
        0
    }

    /// Announces the next runs, in this order. A backend whose runs do not disturb each other
    /// may start them.
    fn announce(&mut self, _specs: Vec<RunSpec>) {}

    /// Whether the answer of the next run is already known, so that [`Backend::run`] does not wait.
    fn has_answer(&mut self, _spec: &RunSpec) -> bool {
        false
    }

    /// The number of results so far that were known from earlier plans.
    fn looked_up(&self) -> usize {
        0
    }

    /// Executes one run. Passes windows on as they close, and polls `cancel`.
    fn run(&mut self, spec: &RunSpec, cancel: &AtomicBool, on_news: &mut News) -> RunEnd;

    /// Calls [`Backend::run`], and once more if the host ended the run.
    fn run_again_if_ended(
        &mut self,
        spec: &RunSpec,
        cancel: &AtomicBool,
        on_news: &mut News,
    ) -> RunEnd {
        match self.run(spec, cancel, on_news) {
            RunEnd::HostEnded { .. } if cancel.load(Relaxed) => RunEnd::Interrupted,
            RunEnd::HostEnded { reason } => {
                on_news(RunNews::Again { reason });
                self.run(spec, cancel, on_news)
            }
            ended => ended,
        }
    }

    /// Ends the use of a cache that several users share, at the end of a plan.
    fn end_shared_cache(&mut self) -> Option<CacheReport> {
        None
    }

    /// Releases what the backend holds on other machines, after the last run. Returns an error that no run's
    /// outcome reports.
    fn conclude(&mut self, _end: PlanEnd) -> Result<(), BackendError> {
        Ok(())
    }
}

/// The receiver of a run's news.
pub type News<'a> = dyn FnMut(RunNews) + 'a;

/// Why a booted machine or a result is of no use to another plan.
#[derive(Debug, Clone, PartialEq)]
pub enum NotSaved {
    /// It could not be kept: the next plan boots it again.
    NotKept(String),
    /// This file of one is damaged: it is made again.
    Damaged(PathBuf),
    /// One cannot be taken: it is made again.
    Unreadable(String),
    /// A result could not be kept: the next plan makes the run again.
    NoResult(String),
    /// The code that a run executed could not be kept: the next hunt makes the run again.
    NoCoverage(String),
}

/// A boot that takes long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowBoot {
    /// By the host's clock.
    pub elapsed: Duration,
    /// The CPU time that it has got, and gets at most until the first process.
    pub used: Duration,
    pub limit: Duration,
}

/// A run reports this while it lasts.
#[derive(Debug)]
pub enum RunNews {
    Window(Window),
    /// The host gives the run only this small share of a CPU. The run continues.
    Starved {
        share: f64,
    },
    /// A guest's kernel has not started its first process yet.
    SlowBoot(SlowBoot),
    /// A booted machine or a result is of no use to another plan.
    NotSaved(NotSaved),
    /// The console of the guest in which the run failed, all of it.
    ConsoleKept {
        path: PathBuf,
    },
    /// The code of kernel/sched that the guest executed, where [`Mode::covers`] is set and it is known.
    Covered(Coverage),
    /// The host ended the run, and it begins again: its windows so far do not count.
    Again {
        reason: String,
    },
}

/// Everything that an exact answer depends on, except the run's spec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestMachine {
    pub digest: String,
    /// Parts for people to read, each by its name and version.
    pub parts: Vec<(String, String)>,
}

impl GuestMachine {
    /// Describes the parts that differ, such as `QEMU: 10.0.2 here, 11.1.3 there`.
    pub fn difference(&self, there: &GuestMachine) -> Option<String> {
        if self.digest == there.digest {
            return None;
        }
        let parts = self.parts.iter().zip(&there.parts).filter(|(own, other)| own != other);
        let texts: Vec<String> = parts
            .map(|((what, own), (_, other))| format!("{what}: {own} here, {other} there"))
            .collect();
        Some(if texts.is_empty() {
            "its guests are made from other parts".to_string()
        } else {
            texts.join("; ")
        })
    }
}

/// The configuration of a backend.
pub struct BackendConfig<'a> {
    /// The folder of the journal of changes to the machine, and of other state. `None`: no run will be
    /// made, so nothing is written for the user and nothing is locked.
    pub state: Option<&'a Path>,
    pub lab: &'a Lab,
    pub mode: Mode,
    /// Answers that several users share.
    pub shared_cache: Option<&'a SharedCache>,
}

/// How a backend with guests makes runs; others ignore it.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Mode {
    /// Guests run by the host's clock: nothing is exact, and KVM is used if it works.
    pub realtime: bool,
    /// Makes each run twice, and fails it where the two differ.
    pub verify: bool,
    /// Makes runs again whose results are cached.
    pub again: bool,
    /// Says for each run which code of kernel/sched its guest executed.
    #[serde(default)]
    pub covers: bool,
}

/// The capabilities of a backend. Other code asks for a capability, never for a backend's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Runs last by instructions, not by the host's clock, unless [`Mode::realtime`] is set.
    pub virtual_time: bool,
    /// Variants may name the kernel that they run on.
    pub own_kernels: bool,
    /// Each run is a guest on the machine that a plan's `[lab]` describes.
    pub guests: bool,
    /// It changes this machine: first undo what a killed process left changed.
    pub touches_machine: bool,
    /// Its figures are invented and prove nothing.
    pub invents_figures: bool,
}

impl Capabilities {
    /// A backend that only runs cells.
    pub(super) const NONE: Capabilities = Capabilities {
        virtual_time: false,
        own_kernels: false,
        guests: false,
        touches_machine: false,
        invents_figures: false,
    };
}

/// A backend as `schedlab list backends` shows it.
pub struct Entry {
    pub name: &'static str,
    pub about: &'static str,
    pub capabilities: Capabilities,
    pub make: fn(&BackendConfig) -> Result<Box<dyn Backend>, BackendError>,
}
