//! Accounting: a task has no more CPU time than time passed, and all together no more than the CPUs have. Source: one
//! CPU runs one task at a time. Over the whole run, since a task's CPU time and its wall time are read one after the
//! other. Tolerance: 1 %, and 20 ms, which is five ticks at 250 Hz.

use crate::hunt::contract::{Judgement, Rule};
use crate::hunt::seen::{Seen, ns};

const SLACK_NS: u64 = 20_000_000;

pub struct Accounting;

/// How much of what there can be was counted: 1 is the bound.
fn over(counted_ns: u64, had_ns: u64) -> f64 {
    counted_ns as f64 / (had_ns + had_ns / 100 + SLACK_NS) as f64
}

impl Rule for Accounting {
    fn name(&self) -> &'static str {
        "accounting"
    }

    fn judge(&self, seen: &Seen) -> Option<Judgement> {
        let (first, last) = (seen.windows.first()?, seen.windows.last()?);
        let sum = |task: usize| {
            let readings = seen.windows.iter().map(|window| window.readings[task]);
            readings.fold((0, 0), |(cpu, wall), own| (cpu + own.cpu_ns, wall + own.wall_ns))
        };
        let sums: Vec<(u64, u64)> = (0..seen.tasks.len()).map(sum).collect();
        let single =
            sums.iter().enumerate().map(|(task, (cpu, wall))| (over(*cpu, *wall), vec![task]));
        let all: u64 = sums.iter().map(|(cpu, _)| cpu).sum();
        let together = over(all, ns(&seen.windows).saturating_mul(seen.cpus.len() as u64));
        let together = (together, (0..seen.tasks.len()).collect());
        // Near the bound is where every busy task is: only what lies above it counts.
        let above = single.chain([together]).filter(|(over, _)| *over > 1.0);
        let (distance, tasks) = above.max_by(|left, right| left.0.total_cmp(&right.0))?;
        Some(Judgement {
            distance,
            from_ns: first.from_ns,
            to_ns: last.to_ns,
            tasks,
            figure: distance,
        })
    }

    fn explain(&self, seen: &Seen, found: &Judgement) -> String {
        let tasks = seen.describe(&found.tasks);
        format!(
            "the kernel counts {:.2} times the CPU time that there can be: {tasks}",
            found.figure
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::testing::seen;

    #[test]
    fn more_cpu_time_than_there_was_is_found_of_one_task_and_of_all() {
        let sets = [("a", "0-1", 1), ("b", "0-1", 2)];
        let judge = |ms: [u64; 3]| Accounting.judge(&seen(2, &sets, &[ms; 20]));
        assert_eq!(judge([100, 50, 50]), None);
        assert_eq!(judge([100, 51, 51]), None, "within the tolerance");
        assert_eq!(judge([120, 20, 20]).map(|found| found.tasks), Some(vec![0]));
        assert_eq!(judge([90, 90, 90]).map(|found| found.tasks), Some(vec![0, 1, 2]));
    }
}
