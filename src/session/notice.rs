//! Notices: a session lets its caller know these facts outside of errors and events. The caller makes the words.

use crate::analysis::Selection;
use crate::backend::CacheReport;
use crate::model::PlanHead;
use crate::store::Damage;
use crate::variant::Restored;

pub enum Notice<'a> {
    /// A store is damaged; `remedy` is a command that may help, with its explanation.
    Damaged { damage: &'a Damage, remedy: Option<String> },
    /// `last`, `all` or a variant alone passes over plans.
    PassedOver { side: &'a Selection, heads: &'a [PlanHead] },
    /// A selection of plans names a variant, and takes the plan with all of them.
    WholePlan { selected: &'a str },
    /// Something that a killed process left was undone.
    Undone(&'a Leftover),
    /// This machine is measured for `machine = "twin"`, which takes half a minute; or would be, after a dry run.
    MeasuringMachine { dry_run: bool },
    /// Other programs kept so many CPUs busy while a machine was measured.
    OtherLoad { cpus: f64 },
    /// All virtual CPUs share one clock.
    SharedClock { instruction_ns: f64, why: &'a str },
    /// A stored plan goes on.
    Resumed { id: &'a str, title: &'a str, runs_done: u64 },
    /// A plan that goes on was begun on another machine.
    OtherMachine { id: &'a str, begun_on: &'a str },
    /// The use of a shared cache has ended; with `is_quiet` only faults matter.
    Cache { report: &'a CacheReport, is_quiet: bool },
    /// A line of a fleet, escaped.
    Fleet(&'a str),
}

/// Something that a killed process left, and that was undone.
pub enum Leftover {
    Change(Restored),
    /// A process, which was ended.
    Process {
        name: String,
        pid: i32,
    },
}
