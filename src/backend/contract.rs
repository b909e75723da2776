//! What a backend is, what it can do and what it is made from. Traits and plain data.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::model::{Calibration, Cell, Environment, Lab, RunEnd, RunSpec, SharedCache, Window};

use super::cache_report::CacheReport;
use super::error::BackendError;

/// One place where runs can happen.
pub trait Backend {
    /// The machine as the runs will find it.
    fn environment(&self) -> Environment;

    /// Whether the cells of a plan can be run at all, before anything runs: an error here ends
    /// the plan. A cell that others can do without is skipped, by [`Backend::check`].
    fn prepare(&self, _cells: &[Cell]) -> Result<(), BackendError> {
        Ok(())
    }

    /// Why the cell cannot run here; changes nothing.
    fn check(&self, cell: &Cell) -> Result<(), BackendError>;

    /// The machine of its guests, which may be less than what was asked for, and why it is.
    fn guests(&self) -> Option<(Lab, Option<String>)> {
        None
    }

    /// How fast the machine works, for runs whose work is given as times. `None`: each run measures
    /// that for itself.
    fn calibrate(&self) -> Option<Calibration> {
        None
    }

    /// Announces the next runs, in this order. A backend whose runs do not disturb each other
    /// may start them.
    fn announce(&mut self, _specs: Vec<RunSpec>) {}

    /// Executes one run. Passes windows on as they close, and polls `cancel`.
    fn run(
        &mut self,
        spec: &RunSpec,
        cancel: &AtomicBool,
        on_window: &mut dyn FnMut(Window),
    ) -> RunEnd;

    /// Ends the use of a cache that several users share, at the end of a plan.
    fn end_shared_cache(&mut self) -> Option<CacheReport> {
        None
    }
}

/// What a backend is made from.
pub struct BackendConfig<'a> {
    /// The folder of the journal of changes to the machine, and of other state.
    pub state: &'a Path,
    pub lab: &'a Lab,
    pub mode: Mode,
    /// Answers that several users share.
    pub shared_cache: Option<&'a SharedCache>,
}

/// How a backend with guests makes runs; others ignore it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mode {
    /// By the host's clock: nothing is exact, and KVM is used where it works.
    pub realtime: bool,
    /// Makes each run twice, and fails it where the two differ.
    pub verify: bool,
    /// Makes runs again whose results are cached.
    pub again: bool,
}

/// What a backend can do. Code outside asks for a capability, never for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Runs last by instructions, not by the host's clock, unless [`Mode::realtime`] is set.
    pub virtual_time: bool,
    /// Variants may name the kernel that they run on.
    pub own_kernels: bool,
    /// A run is a guest of its own, on the machine that a plan's `[lab]` describes.
    pub guests: bool,
    /// It changes this machine: first undo what a killed process left changed.
    pub touches_machine: bool,
    /// Its figures are invented: nothing follows from them.
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
