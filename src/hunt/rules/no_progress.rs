//! No progress: virtual time passes, tasks want CPUs, and none runs. Source: any scheduler that is work-conserving.
//! Tolerance: 300 ms, in which all tasks together have less than a hundredth of a CPU.

use crate::hunt::contract::{Judgement, Rule};
use crate::hunt::seen::{Seen, seconds};

const BOUND_NS: u64 = 300_000_000;
const MIN_PART: u64 = 100;

pub struct NoProgress;

impl Rule for NoProgress {
    fn name(&self) -> &'static str {
        "no progress"
    }

    fn judge(&self, seen: &Seen) -> Option<Judgement> {
        let bad = seen.longest(|window| {
            seen.runnable(window).next().is_some()
                && window.used_ns().saturating_mul(MIN_PART) < window.wall_ns()
        });
        Judgement::from_windows(seen, bad, BOUND_NS, |_| 0)
    }

    fn explain(&self, seen: &Seen, found: &Judgement) -> String {
        let time = seconds(found.to_ns - found.from_ns);
        format!("for {time} no task runs, though {} want a CPU", seen.describe(&found.tasks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::testing::seen;

    #[test]
    fn a_machine_that_stands_still_makes_no_progress() {
        let none = [0u64; 2];
        let some = [100, 100];
        let distance = |windows: &[[u64; 2]]| {
            NoProgress.judge(&seen(2, &[("a", "0-1", 2)], windows)).map(|found| found.distance)
        };
        assert_eq!(distance(&[some, some]), None);
        assert_eq!(distance(&[none, none, none]), Some(1.0));
        assert!(distance(&[none, none, some, none]).unwrap() < 1.0);
    }
}
