//! The knob `scx`: a sched_ext scheduler in place of the kernel's own.

use crate::model::{Field, Kind, Value};
use crate::sys::Host;
use crate::variant::scx::Scheduler;
use crate::variant::{Action, Knob, Missing, Scope};

use super::{field, misfit};

pub struct SchedulerKnob {
    field: Field,
}

impl Knob for SchedulerKnob {
    fn field(&self) -> Field {
        self.field
    }

    fn scope(&self) -> Scope {
        Scope::Machine
    }

    fn actions(&self, value: &Value, _: &Host) -> Result<Vec<Action>, Missing> {
        let text = value.as_text().ok_or_else(|| misfit(&self.field, value))?;
        let scheduler = Scheduler::parse(text).ok_or_else(|| Missing {
            hint: SCHEDULER_FORM.to_string(),
            ..misfit(&self.field, value)
        })?;
        Ok(vec![Action::Scheduler(scheduler)])
    }
}

/// The accepted values, for hints.
pub const SCHEDULER_FORM: &str =
    "write \"fifo\", \"vtime\", \"bad\" or a path, as \"./scx_bpfland\"";

pub static SCX: SchedulerKnob = SchedulerKnob {
    field: field(
        "scx",
        Kind::Text,
        "sched_ext scheduler: fifo, vtime, bad (our own), or the path of a program (Linux 6.12)",
    ),
};
