//! Starvation: a task that never sleeps has no CPU time, or one that woke waits for it, for longer than all that compete
//! with it take to have theirs.
//! Source: EEVDF's lag bound (Stoica and Abdel-Wahab, *Earliest Eligible Virtual Deadline First*, TR-95-22, 1995) and
//! CFS's latency period: a task waits for about a slice of each other, in proportion to weights. Tolerance: eight
//! times that with slices of 3 ms, or the longest that one of them asks for, and at least 500 ms. Not judged: tasks
//! next to any of a higher class.

use std::collections::BTreeSet;

use crate::hunt::contract::{Judgement, Rule};
use crate::hunt::seen::{SLICE_NS, Seen, Task, seconds};

const TIMES: f64 = 8.0;
const MIN_BOUND_NS: f64 = 5e8;
/// A task that has less of a window than one in so many has nothing.
const PART: u64 = 1000;

pub struct Starvation;

/// Weights of the others are upper bounds: a cgroup may give all of its own to one task, since others of it end or
/// sleep.
fn bound_ns(seen: &Seen, task: usize) -> f64 {
    let own = &seen.tasks[task];
    let competes = |other: &Task| other.cpus.iter().any(|cpu| own.cpus.contains(cpu));
    let mut outermost = BTreeSet::new();
    let mut weights = 0.0;
    for other in seen.tasks.iter().filter(|other| competes(other)) {
        match other.cgroup.and_then(|cgroup| seen.with_above(cgroup).last()) {
            None => weights += other.weight,
            Some(cgroup) if outermost.insert(cgroup) => weights += seen.cgroups[cgroup].weight,
            Some(_) => {}
        }
    }
    let slices = seen.tasks.iter().filter(|other| competes(other)).map(|other| other.slice_ns);
    let slice_ns = slices.max().unwrap_or(SLICE_NS).max(SLICE_NS) as f64;
    (TIMES * slice_ns * weights / own.weight).max(MIN_BOUND_NS)
}

/// The longest time without CPU time of a task that never sleeps.
fn longest_ns(seen: &Seen, task: usize) -> Option<(u64, u64)> {
    let bad = seen.longest(|window| {
        window.is_whole(task)
            && window.readings[task].cpu_ns.saturating_mul(PART) < window.wall_ns()
    });
    Some((bad.first()?.from_ns, bad.last()?.to_ns))
}

impl Rule for Starvation {
    fn name(&self) -> &'static str {
        "starvation"
    }

    fn judge(&self, seen: &Seen) -> Option<Judgement> {
        let rank = |task: usize| seen.tasks[task].priority.priority().rank;
        let highest = (0..seen.tasks.len()).map(rank).max()?;
        let of_task = |task: usize| {
            let own = &seen.tasks[task];
            let waited = match () {
                () if own.never_sleeps => longest_ns(seen, task)?,
                () if own.has_wakeups => seen.longest_wakeup_ns(task)?,
                () => return None,
            };
            Some(Judgement::from_wait(task, waited, bound_ns(seen, task)))
        };
        // Real-time tasks of one rank wait for each other without an end.
        let judged = (0..seen.tasks.len()).filter(|_| highest == 0).filter_map(of_task);
        Judgement::worst(judged)
    }

    fn explain(&self, seen: &Seen, found: &Judgement) -> String {
        let (time, tasks) = (seconds(found.to_ns - found.from_ns), seen.describe(&found.tasks));
        let woke = found.tasks.iter().any(|task| seen.tasks[*task].has_wakeups);
        let what = if woke { "wakes and waits for" } else { "has no CPU time for" };
        format!("{tasks} {what} {time}; at most {:.1} s follow from weights", found.figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::testing::{cell, parts, seen, with_nice, with_policy};
    use crate::model::{Cgroup, CgroupPath, Value};

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
        let mut long = make(5);
        long.tasks[0].slice_ns = 40_000_000;
        assert!(!judge(long).unwrap().is_broken(), "eight slices of 40 ms of both");
        assert_eq!(judge(with_policy(make(10), 0, "fifo")), None);
    }

    #[test]
    fn a_cgroup_may_give_its_weight_to_one_of_its_tasks() {
        let mut cell = cell(&[("light", "0", 1), ("stays", "0", 1), ("goes", "1", 2)]);
        cell.work.sets[0].knobs.insert("nice".to_string(), Value::Int(5));
        cell.work.sets[1].knobs.insert("nice".to_string(), Value::Int(10));
        let path: CgroupPath = "heavy".parse().unwrap();
        cell.work.sets[1..].iter_mut().for_each(|set| set.cgroup = Some(path.clone()));
        let knobs = [("cgroup-weight".to_string(), Value::Int(10_000))].into();
        cell.work.cgroups = vec![Cgroup { path, knobs, cpus: None, changes: Vec::new() }];
        let seen = parts(2, &cell, &[[0, 100, 0, 0]; 10]).swap_remove(0);
        assert!((7.3e9..7.5e9).contains(&bound_ns(&seen, 0)), "{}", bound_ns(&seen, 0));
    }

    #[test]
    fn a_task_that_woke_starves_unless_it_waited_before() {
        let make = |window: usize, peak_ms: u64| {
            let mut seen = seen(1, &[("a", "0", 1), ("b", "0", 1)], &[[60, 40]; 10]);
            (seen.tasks[1].never_sleeps, seen.tasks[1].has_wakeups) = (false, true);
            seen.windows[window].readings[1].peak_ns = peak_ms * 1_000_000;
            seen
        };
        let seen = make(6, 550);
        let found = Starvation.judge(&seen).unwrap();
        assert_eq!((found.from_ns, found.to_ns), (150_000_000, 700_000_000));
        assert!(found.is_broken());
        assert!(
            Starvation
                .explain(&seen, &found)
                .contains("1 task of set `b` on CPU 0 wakes and waits for 0.6 s")
        );
        assert!(!Starvation.judge(&make(6, 450)).unwrap().is_broken());
        assert_eq!(Starvation.judge(&make(4, 550)), None, "from before this part of the run");
        let mut limited = make(6, 550);
        limited.tasks[1].has_wakeups = false;
        assert_eq!(Starvation.judge(&limited), None);
    }
}
