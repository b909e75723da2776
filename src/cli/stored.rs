//! When a stored plan was started, and how it ended.

use crate::model::{PlanEnd, PlanHead};
use crate::sys;

use super::running;

/// `2026-11-22 05:19`, in UTC.
pub fn moment(unix_ns: u64) -> String {
    let moment = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    moment.strftime("%Y-%m-%d %H:%M").to_string()
}

/// How the plan ended, in a word.
pub fn end(head: &PlanHead) -> String {
    let is_running = || sys::state_dir().is_ok_and(|state| running::is_running(&state, &head.id));
    let word = match head.ended {
        Some(PlanEnd::Complete) if head.runs.done == 0 => "unmeasured",
        Some(PlanEnd::Complete) => "complete",
        Some(PlanEnd::Decided) => "decided",
        Some(PlanEnd::Budget) => "budget",
        Some(PlanEnd::Interrupted) if is_running() => "running",
        Some(PlanEnd::Interrupted) => "interrupted",
        None if is_running() => "running",
        None => "killed",
    };
    word.to_string()
}
