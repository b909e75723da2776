//! The knobs, by scope. Each is one entry: its field, and the actions for a value of it. A knob has no
//! default, because a setting that a variant does not name is left alone. Pure.

mod boot;
mod cgroup;
mod machine;
mod scheduler;
mod task;
mod units;
mod xen;

use super::contract::Knob;

pub use boot::are_kernel_args;
pub use machine::{feature, sysctl};
pub use xen::{is_ratelimit, is_timeslice};

/// Every knob, in the order of `schedlab list knobs`; also the order of application.
pub fn all() -> impl Iterator<Item = &'static Knob> + Clone {
    let tables: [&'static [Knob]; 6] = [
        &boot::KNOBS,
        &task::KNOBS,
        &cgroup::KNOBS,
        &machine::KNOBS,
        &scheduler::KNOBS,
        &xen::KNOBS,
    ];
    tables.into_iter().flatten()
}
