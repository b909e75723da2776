//! When a stored plan was started, and how it ended.

use crate::model::{PlanEnd, PlanHead};
pub use crate::report::numbers::moment;
use crate::{session, sys};

/// How the plan ended, in a word.
pub fn end(head: &PlanHead) -> String {
    let is_running =
        || sys::state_dir().is_ok_and(|state| session::running::is_running(&state, &head.id));
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
