//! When a stored plan was started, how far it went, and how it ended.

use crate::model::{Cut, PlanEnd, PlanHead};
pub use crate::report::numbers::moment;
use crate::sys;

use super::running;

/// How far a plan went, as reports count it.
pub struct Rounds {
    /// `3/9`: those that were begun, of those that the plan asks for.
    pub begun: String,
    /// What is counted: rounds or runs.
    pub noun: &'static str,
    /// Rounds that were made in place of spoilt ones.
    pub repeated: u64,
}

pub fn rounds(head: &PlanHead) -> Rounds {
    let (rounds, asked) = (head.runs.rounds, head.runs.total / head.runs.cells.max(1));
    let begun = match head.ended {
        // Such a part has some rounds of some cells.
        _ if is_of_boots(head) => {
            let begun = format!("{}/{}", head.runs.done, head.runs.total);
            return Rounds { begun, noun: "runs", repeated: 0 };
        }
        _ if head.runs.done == 0 => format!("0/{asked}"),
        // No more are wanted than were made.
        Some(PlanEnd::Decided) => {
            return Rounds { begun: rounds.to_string(), noun: "rounds", repeated: 0 };
        }
        _ => format!("{}/{asked}", rounds.min(asked)),
    };
    Rounds { begun, noun: "rounds", repeated: rounds.saturating_sub(asked) }
}

fn is_of_boots(head: &PlanHead) -> bool {
    head.sharding.as_ref().is_some_and(|own| own.part.is_some() && own.cut == Cut::Boots)
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
