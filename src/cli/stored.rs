//! When a stored plan was started, what was measured of it, and how it ended.

use crate::model::{PlanEnd, PlanHead, RunCounts};
use crate::report::numbers::counted;
pub use crate::report::numbers::moment;
use crate::sys;

use super::running;

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

/// The rounds that were begun, of those that the plan asks for, and its runs without a result: `4 rounds and
/// 4 repeated, 1 run failed`.
pub fn rounds(head: &PlanHead) -> String {
    let RunCounts { done, failed, skipped, total, cells, rounds } = head.runs;
    let asked = total / cells.max(1);
    let all = |rounds: u64| counted(rounds as usize, "round");
    let begun = match head.ended {
        // Such a part has some rounds of some cells.
        _ if head.is_of_boots() => format!("{done} of {}", counted(total as usize, "run")),
        // No more are wanted than were made.
        Some(PlanEnd::Decided) => all(rounds),
        // They replace rounds that load from outside spoilt.
        _ if rounds > asked => format!("{} and {} repeated", all(asked), rounds - asked),
        _ if rounds == asked => all(asked),
        _ => format!("{rounds} of {}", all(asked)),
    };
    let without = [(failed, "failed"), (skipped, "skipped")];
    let without = without.into_iter().filter(|(runs, _)| *runs > 0);
    let without = without.map(|(runs, how)| format!("{} {how}", counted(runs as usize, "run")));
    [begun].into_iter().chain(without).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_that_replace_others_are_not_of_those_asked_for() {
        let counts = |done, failed, rounds| RunCounts {
            done,
            failed,
            total: 8,
            cells: 2,
            rounds,
            ..RunCounts::default()
        };
        let cases = [
            (counts(8, 0, 4), Some(PlanEnd::Complete), "4 rounds"),
            (counts(16, 0, 8), Some(PlanEnd::Complete), "4 rounds and 4 repeated"),
            (counts(5, 0, 3), Some(PlanEnd::Interrupted), "3 of 4 rounds"),
            (counts(2, 0, 1), Some(PlanEnd::Decided), "1 round"),
            (counts(5, 3, 4), Some(PlanEnd::Complete), "4 rounds, 3 runs failed"),
            (counts(0, 0, 0), None, "0 of 4 rounds"),
        ];
        for (runs, ended, expected) in cases {
            let head = PlanHead {
                id: "p".to_string(),
                title: String::new(),
                backend: "null".to_string(),
                started_unix_ns: 0,
                ended,
                environments: Vec::new(),
                variants: Vec::new(),
                aa: false,
                sharding: None,
                runs,
                tags: Vec::new(),
            };
            assert_eq!(rounds(&head), expected);
        }
    }
}
