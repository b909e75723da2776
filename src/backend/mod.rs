//! Where runs happen. One file each and one line in [`registry`].

pub mod lab;
mod local;
mod null;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::model::{Cell, Environment, RunEnd, RunSpec, Window};

pub use lab::Lab;
pub use local::Local;
pub use null::Null;

/// One place where runs can happen.
pub trait Backend {
    /// The machine as the runs will find it.
    fn environment(&self) -> Environment;

    /// Why the cell cannot run here; changes nothing.
    fn check(&self, cell: &Cell) -> Result<(), String>;

    /// Tells of runs that will be asked for, in this order. A backend whose runs do not disturb
    /// each other may begin them.
    fn announce(&mut self, _specs: Vec<RunSpec>) {}

    /// Executes one run. Windows are given away as they close. `cancel` is looked at often.
    fn run(
        &mut self,
        spec: &RunSpec,
        cancel: &AtomicBool,
        on_window: &mut dyn FnMut(Window),
    ) -> RunEnd;
}

/// What a backend is made from.
pub struct Ask<'a> {
    /// Where the journal of changes to the machine lies, and other state.
    pub state: &'a Path,
    pub lab: &'a crate::model::Lab,
    pub mode: Mode,
}

/// How the lab answers; other backends know one way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mode {
    /// By the host's clock: nothing is exact, and KVM is used where it works.
    pub realtime: bool,
    /// Each run is asked for twice, and fails where the answers differ.
    pub verify: bool,
    /// Asks again what was answered before.
    pub again: bool,
}

/// A backend as `schedlab list backends` tells it.
pub struct Entry {
    pub name: &'static str,
    pub about: &'static str,
    /// Whether what an earlier, killed process left changed must be undone first.
    pub touches_machine: bool,
    /// Whether its guests are made as a plan's `[lab]` says.
    pub is_lab: bool,
    pub make: fn(&Ask) -> Result<Box<dyn Backend>, String>,
}

pub fn registry() -> &'static [Entry] {
    &[
        Entry {
            name: "local",
            about: "this machine, its kernel, its noise",
            touches_machine: true,
            is_lab: false,
            make: |ask| Ok(Box::new(Local::new(ask.state)?)),
        },
        Entry {
            name: "lab",
            about: "real kernels in QEMU under virtual time: the same to the last bit",
            touches_machine: false,
            is_lab: true,
            make: |ask| Ok(Box::new(Lab::new(ask)?)),
        },
        Entry {
            name: "null",
            about: "no machine: invented figures that depend on plan and seed only",
            touches_machine: false,
            is_lab: false,
            make: |_| Ok(Box::new(Null::default())),
        },
    ]
}
