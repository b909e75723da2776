//! A knob as a table has it: where it acts, its actions, and why it cannot be had.

use crate::model::{Advice, Field, Problem, Value, clean};
use crate::sys::Host;

use super::error::SettingError;
use super::scx::Scheduler;
use super::setting::{CgroupSetting, TaskSetting, XenSetting};
use super::target::Wanted;

/// The place where a knob acts, and when its effect ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Each worker thread sets it on itself; it dies with the thread. Never set in the
    /// controller: SCHED_IDLE cannot be left again without privileges.
    Task,
    /// A cgroup made for the run, in which the runner is put.
    Cgroup,
    /// A setting of the whole machine, put back after the run.
    Machine,
    /// The machine's boot parameters, where each run has a machine of its own.
    Boot,
    /// The pool of Xen that the run's guests are in.
    Hypervisor,
    /// Each guest of Xen that is a worker.
    Guest,
}

/// An action that a knob asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Task(TaskSetting),
    Cgroup(CgroupSetting),
    Machine(Wanted),
    Boot,
    Xen(XenSetting),
    /// The one scheduler of the machine, in place of the kernel's own.
    Scheduler(Scheduler),
}

/// Why a knob cannot be had here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub knob: String,
    /// The problem, its place, and the errno's name with its likely cause.
    pub message: String,
    pub hint: String,
}

impl Missing {
    pub fn from_error(knob: &str, error: impl Into<SettingError>) -> Missing {
        let error = error.into();
        let Problem { message, hint } = error.problem();
        Missing { knob: knob.to_string(), message, hint: hint.unwrap_or_default() }
    }
}

/// One knob: an entry of a table.
pub struct Knob {
    pub field: Field,
    wants: Wants,
    /// Whether another thread can change it on a running worker, so that variants which differ in it can take turns.
    pub is_live: bool,
}

/// The place where a knob acts, and how its value becomes actions; `None`: the value does not fit. The functions
/// change nothing. They may read files, because kernels of different ages keep a setting in different places.
pub enum Wants {
    Task(fn(&Value) -> Option<TaskSetting>),
    Cgroup(fn(&Value) -> Option<CgroupSetting>),
    Machine(fn(&Value, &Host) -> Option<Vec<Wanted>>),
    Scheduler,
    /// Whether a text will do.
    Boot(fn(&str) -> bool),
    Xen(Scope, fn(&Value) -> Option<XenSetting>),
}

/// The values of the knob `scx`, for hints.
pub const SCHEDULER_FORM: &str = "write \"fifo\" or \"vtime\", one made for tests (\"bad\", \"lossy\", \"stray\", \
     \"haughty\"), or a path, as \"./scx_bpfland\" or \"./mine.bpf.o\"";

/// A table of knobs, a row each: the key, the kind of value, what it is, what is to be done for a value, and `live` if
/// it changes on a running thread.
macro_rules! knobs {
    ($($name:tt: $kind:expr => $about:expr, $wants:expr $(, $live:ident)?;)+) => {
        [$(Knob::new($crate::model::Field::new($name, $kind).about($about), $wants)$(.$live())?),+]
    };
}
pub(super) use knobs;

impl Knob {
    pub const fn new(field: Field, wants: Wants) -> Knob {
        Knob { field, wants, is_live: false }
    }

    pub const fn live(self) -> Knob {
        Knob { is_live: true, ..self }
    }

    pub fn scope(&self) -> Scope {
        match self.wants {
            Wants::Task(_) => Scope::Task,
            Wants::Cgroup(_) => Scope::Cgroup,
            Wants::Machine(_) | Wants::Scheduler => Scope::Machine,
            Wants::Boot(_) => Scope::Boot,
            Wants::Xen(scope, _) => scope,
        }
    }

    /// The actions for `value` on this machine.
    pub fn actions(&self, value: &Value, host: &Host) -> Result<Vec<Action>, Missing> {
        let text = value.as_text();
        let one = match self.wants {
            Wants::Machine(wanted) => {
                let all = wanted(value, host).ok_or_else(|| self.misfit(value))?;
                return Ok(all.into_iter().map(Action::Machine).collect());
            }
            Wants::Task(setting) => setting(value).map(Action::Task),
            Wants::Cgroup(setting) => setting(value).map(Action::Cgroup),
            Wants::Scheduler => text.and_then(Scheduler::parse).map(Action::Scheduler),
            Wants::Boot(fits) => text.filter(|text| fits(text)).map(|_| Action::Boot),
            Wants::Xen(_, setting) => setting(value).map(Action::Xen),
        };
        Ok(vec![one.ok_or_else(|| self.misfit(value))?])
    }

    fn misfit(&self, value: &Value) -> Missing {
        let Field { name, kind, .. } = self.field;
        let hint = match self.wants {
            Wants::Scheduler => SCHEDULER_FORM.to_string(),
            _ => format!("write {}", kind.example()),
        };
        let message = format!("`{}` does not fit `{name}`", clean(&value.to_string()));
        Missing { knob: name.to_string(), message, hint }
    }
}
