//! Where runs happen. One file each and one line in [`registry`].

mod local;
mod null;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::model::{Cell, Ended, Environment, RunSpec, Window};

pub use local::Local;
pub use null::Null;

/// One place where runs can happen.
pub trait Backend {
    /// The machine as the runs will find it.
    fn environment(&self) -> Environment;

    /// Why the cell cannot run here; changes nothing.
    fn check(&self, cell: &Cell) -> Result<(), String>;

    /// Executes one run. Windows are given away as they close. `cancel` is looked at often.
    fn run(
        &mut self,
        spec: &RunSpec,
        cancel: &AtomicBool,
        on_window: &mut dyn FnMut(Window),
    ) -> Ended;
}

/// A backend as `schedlab list backends` tells it.
pub struct Entry {
    pub name: &'static str,
    pub about: &'static str,
    /// Whether what an earlier, killed process left changed must be undone first.
    pub touches_machine: bool,
    /// Takes the folder of the journal of changes to the machine.
    pub make: fn(&Path) -> Result<Box<dyn Backend>, String>,
}

pub fn registry() -> &'static [Entry] {
    &[
        Entry {
            name: "local",
            about: "this machine, its kernel, its noise",
            touches_machine: true,
            make: |state| Ok(Box::new(Local::new(state)?)),
        },
        Entry {
            name: "null",
            about: "no machine: invented figures that depend on plan and seed only",
            touches_machine: false,
            make: |_| Ok(Box::new(Null::default())),
        },
    ]
}
