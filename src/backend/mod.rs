//! Where runs happen. One file each and one line in [`registry`].

#[cfg(test)]
mod dummy;
mod error;
pub mod lab;
mod local;
mod null;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::model::{Cell, Environment, RunEnd, RunSpec, Window};

pub use error::BackendError;
pub use lab::Lab;
pub use local::Local;
pub use null::Null;

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
}

/// What a backend is made from.
pub struct BackendConfig<'a> {
    /// The folder of the journal of changes to the machine, and of other state.
    pub state: &'a Path,
    pub lab: &'a crate::model::Lab,
    pub mode: Mode,
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
    const NONE: Capabilities = Capabilities {
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

pub fn registry() -> &'static [Entry] {
    &[
        local::ENTRY,
        lab::ENTRY,
        null::ENTRY,
        #[cfg(test)]
        dummy::ENTRY,
    ]
}

pub fn find(name: &str) -> Option<&'static Entry> {
    registry().iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::lab::tests::spec;
    use super::*;
    use crate::model::{Lab as LabTable, Outcome, Value};

    /// Through the registry alone, as the command line does it.
    #[test]
    fn a_backend_that_is_registered_runs_cells() {
        let state = tempfile::tempdir().unwrap();
        let lab = LabTable { cpus: 3, ..LabTable::default() };
        let config = BackendConfig { state: state.path(), lab: &lab, mode: Mode::default() };
        let entry = find("dummy").expect("an entry");
        let mut backend = (entry.make)(&config).unwrap();
        let cpus = backend.environment().tunables["cpus"].clone();
        assert_eq!(cpus.known().as_deref(), Some("3"), "it was made from the config");
        let mut spec = spec("v", 1);
        backend.prepare(std::slice::from_ref(&spec.cell)).unwrap();
        backend.check(&spec.cell).unwrap();
        let end = backend.run(&spec, &AtomicBool::new(false), &mut |_| ());
        let RunEnd::Finished(Outcome::Failed { reason }) = end else { panic!("{end:?}") };
        assert_eq!(reason, "dummy: v");
        spec.cell.variant.knobs.insert("nice".to_string(), Value::Int(1));
        assert_eq!(backend.check(&spec.cell).unwrap_err().reason(), "no knobs here");
    }

    #[test]
    fn names_are_unique_and_only_this_machine_is_changed() {
        for (at, entry) in registry().iter().enumerate() {
            assert!(std::ptr::eq(find(entry.name).unwrap(), &registry()[at]), "{}", entry.name);
            let Capabilities { virtual_time, own_kernels, guests, .. } = entry.capabilities;
            assert!(guests || !(virtual_time || own_kernels), "{}", entry.name);
        }
        let touching = registry().iter().filter(|entry| entry.capabilities.touches_machine);
        assert_eq!(touching.map(|entry| entry.name).collect::<Vec<_>>(), ["local"]);
    }
}
