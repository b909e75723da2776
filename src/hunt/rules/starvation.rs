//! Starvation: a task that never sleeps has no CPU time for longer than all that compete with it take to have theirs.
//! Source: EEVDF's lag bound (Stoica and Abdel-Wahab, *Earliest Eligible Virtual Deadline First*, TR-95-22, 1995) and
//! CFS's latency period: a task waits for about a slice of each other, in proportion to weights. Tolerance: eight
//! times that with slices of 3 ms, and at least 500 ms. Not judged: tasks next to any of a higher class.

use crate::hunt::contract::{Judgement, Rule};
use crate::hunt::seen::{Seen, ns, seconds};

const SLICE_NS: f64 = 3e6;
const TIMES: f64 = 8.0;
const MIN_BOUND_NS: f64 = 5e8;
/// A task that has less of a window than one in so many has nothing.
const PART: u64 = 1000;

pub struct Starvation;

fn bound_ns(seen: &Seen, task: usize) -> f64 {
    let own = &seen.tasks[task];
    let competes = |cpu: &u32| own.cpus.contains(*cpu);
    let others = seen.tasks.iter().filter(|other| other.cpus.iter().any(|cpu| competes(&cpu)));
    let weights: f64 = others.map(|other| other.weight).sum();
    (TIMES * SLICE_NS * weights / own.weight).max(MIN_BOUND_NS)
}

impl Rule for Starvation {
    fn name(&self) -> &'static str {
        "starvation"
    }

    fn judge(&self, seen: &Seen) -> Option<Judgement> {
        let rank = |task: usize| seen.tasks[task].priority.priority().rank;
        let highest = (0..seen.tasks.len()).map(rank).max()?;
        let of_task = |task: usize| {
            let bad = seen.longest(|window| {
                window.is_whole(task)
                    && window.readings[task].cpu_ns.saturating_mul(PART) < window.wall_ns()
            });
            let (first, last) = (bad.first()?, bad.last()?);
            let bound_ns = bound_ns(seen, task);
            Some(Judgement {
                distance: ns(bad) as f64 / bound_ns,
                from_ns: first.from_ns,
                to_ns: last.to_ns,
                tasks: vec![task],
                figure: bound_ns / 1e9,
            })
        };
        // Real-time tasks of one rank wait for each other without an end.
        let judged = (0..seen.tasks.len())
            .filter(|task| highest == 0 && seen.tasks[*task].never_sleeps)
            .filter_map(of_task);
        judged.max_by(|left, right| left.distance.total_cmp(&right.distance))
    }

    fn explain(&self, seen: &Seen, found: &Judgement) -> String {
        let (time, tasks) = (seconds(found.to_ns - found.from_ns), seen.describe(&found.tasks));
        format!(
            "{tasks} has no CPU time for {time}; at most {:.1} s follow from weights",
            found.figure
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::testing::{seen, with_nice, with_policy};

    #[test]
    fn a_task_without_time_starves_unless_its_weight_explains_it() {
        let sets = [("a", "0", 1), ("b", "0", 1)];
        let make = |starved: usize| {
            let windows: Vec<[u64; 2]> =
                (0..10).map(|at| if at < starved { [100, 0] } else { [50, 50] }).collect();
            seen(1, &sets, &windows)
        };
        let judge = |seen: Seen| Starvation.judge(&seen);
        assert_eq!(judge(make(0)), None);
        assert_eq!(judge(make(4)).map(|found| found.is_broken()), Some(false));
        let found = judge(make(5)).unwrap();
        assert_eq!((found.tasks, found.from_ns, found.to_ns), (vec![1], 0, 500_000_000));
        assert!(found.distance >= 1.0);
        assert!(!judge(with_nice(make(10), 0, -20)).unwrap().is_broken(), "88761 to 1024");
        assert_eq!(judge(with_policy(make(10), 0, "fifo")), None);
    }
}
