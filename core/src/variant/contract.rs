//! Traits and plain data of a knob: where it acts, its actions, and why it cannot be had.

use crate::model::{Advice, Field, Problem, Value};
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

pub trait Knob: Sync {
    fn field(&self) -> Field;

    fn scope(&self) -> Scope;

    /// Whether another thread can change it on a running worker, so that variants which differ in it can take turns.
    fn is_live(&self) -> bool {
        false
    }

    /// The actions for `value` on this machine, whose files may be read to choose between the places where kernels
    /// of different ages keep a setting. Changes nothing.
    fn actions(&self, value: &Value, host: &Host) -> Result<Vec<Action>, Missing>;
}
