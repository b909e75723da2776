//! The knobs, by scope. Each is one entry: its field, and the actions for a value of it. Pure.

mod boot;
mod cgroup;
mod machine;
mod scheduler;
mod task;
mod xen;

use crate::model::{Field, Kind, Value};

use super::Missing;
use crate::model::clean;

pub use boot::{GUEST_KERNEL, KERNEL, KERNEL_ARGS, XEN, XEN_ARGS, are_kernel_args};
pub use cgroup::{CGROUP_IDLE, CGROUP_MAX, CGROUP_WEIGHT};
pub use machine::{
    AUTOGROUP, BASE_SLICE, FEATURES, MIGRATION_COST, NR_MIGRATE, PREEMPT, SYSCTL, feature, sysctl,
};
pub use scheduler::{SCHEDULER_FORM, SCX};
pub use task::{
    AFFINITY, DEADLINE, NICE, PERIOD, POLICY, PRIORITY, RUNTIME, SLICE, TIMER_SLACK, UCLAMP_MAX,
    UCLAMP_MIN,
};
pub use xen::{
    GUEST_CPUS, GUEST_MEMORY, XEN_AFFINITY, XEN_CAP, XEN_RATELIMIT, XEN_SCHEDULER,
    XEN_SOFT_AFFINITY, XEN_TIMESLICE, XEN_WEIGHT, is_ratelimit, is_timeslice,
};

/// Knobs have no defaults: a setting that a variant does not name is left alone.
const fn field(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field { name, kind, default: None, about }
}

pub(super) fn misfit(field: &Field, value: &Value) -> Missing {
    Missing {
        knob: field.name.to_string(),
        message: format!("`{}` does not fit `{}`", clean(&value.to_string()), field.name),
        hint: format!("write {}", field.kind.example()),
    }
}

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
