//! Bandwidth: a cgroup has its `max`, no more and no less. Source: Documentation/scheduler/sched-bwc.rst: a quota for
//! each period of 100 ms, handed to CPUs in slices of 5 ms. Tolerance: above, one period, and a slice for each CPU;
//! below, half of what its tasks could have, over at least half a second, where the CPUs that they may use have the
//! time and no other task of theirs comes or goes. Judged are cgroups whose tasks are there all the time
//! or never, and never sleep, and that have no limit above or below theirs.

use crate::hunt::contract::{Judgement, Rule};
use crate::hunt::flow::max_flow;
use crate::hunt::seen::{Seen, SeenWindow, ns, seconds};

const PERIOD_NS: u64 = 100_000_000;
const SLICE_NS: u64 = 5_000_000;
const MIN_NS: u64 = 500_000_000;
/// It has this part of what it could have.
const PART: f64 = 0.5;

pub struct Bandwidth;

/// A limited cgroup over a whole part of a run.
struct Limited {
    tasks: Vec<usize>,
    limit: f64,
    used_ns: u64,
    /// The time that its tasks could have by their CPUs and its limit.
    possible_ns: u64,
    /// The CPUs that its tasks may use had at least so much time left.
    left_ns: u64,
    /// Tasks for these CPUs are there all the time or never.
    is_steady: bool,
}

fn limited(seen: &Seen, cgroup: usize) -> Option<Limited> {
    let limit = seen.cgroups[cgroup].max;
    let is_within = |own: usize| seen.with_above(own).any(|above| above == cgroup);
    let is_limited_above_or_below = (0..seen.cgroups.len()).any(|other| {
        let is_near = is_within(other) || seen.with_above(cgroup).any(|above| above == other);
        other != cgroup && is_near && seen.cgroups[other].max.is_finite()
    });
    let is_gone = |task: usize| seen.windows.iter().all(|own| own.readings[task].wall_ns == 0);
    let is_own = |task: &usize| seen.tasks[*task].cgroup.is_some_and(is_within) && !is_gone(*task);
    let tasks: Vec<usize> = (0..seen.tasks.len()).filter(is_own).collect();
    let is_there = |task: &usize| {
        seen.tasks[*task].is_limited && seen.windows.iter().all(|window| window.is_whole(*task))
    };
    let is_judged = limit.is_finite() && !is_limited_above_or_below && !tasks.is_empty();
    if !is_judged || !tasks.iter().all(is_there) {
        return None;
    }
    let time_ns = ns(&seen.windows);
    let used_ns = |task: usize| -> u64 {
        seen.windows.iter().map(|window| window.readings[task].cpu_ns).sum()
    };
    let is_reached = |cpu: &u32| tasks.iter().any(|task| seen.tasks[*task].cpus.contains(*cpu));
    let reach: Vec<u32> = seen.cpus.iter().copied().filter(is_reached).collect();
    let can_run_there =
        |task: &usize| reach.iter().any(|cpu| seen.tasks[*task].cpus.contains(*cpu));
    let there: Vec<usize> = (0..seen.tasks.len()).filter(can_run_there).collect();
    let is_steady = |task: &usize| {
        let mut windows = seen.windows.iter();
        let is_there = |window: &SeenWindow| window.is_whole(*task);
        windows.clone().all(is_there) || windows.all(|own| own.readings[*task].wall_ns == 0)
    };
    let there_ns: u64 = there.iter().copied().map(used_ns).sum();
    let wanted = tasks.iter().map(|task| (time_ns, &seen.tasks[*task].cpus));
    let reachable_ns = max_flow(wanted, &seen.cpus, time_ns);
    Some(Limited {
        used_ns: tasks.iter().copied().map(used_ns).sum(),
        possible_ns: reachable_ns.min((limit * time_ns as f64) as u64),
        left_ns: (time_ns * reach.len() as u64).saturating_sub(there_ns),
        // Children come and go.
        is_steady: there.iter().all(|task| is_steady(task) && !seen.tasks[*task].forks),
        limit,
        tasks,
    })
}

impl Limited {
    /// How much it had of the most that it may have, and how little of what it could have: 1 is the bound.
    fn distances(&self, time_ns: u64, cpus: usize) -> [f64; 2] {
        let bound_ns = self.limit * (time_ns + PERIOD_NS) as f64 + (SLICE_NS * cpus as u64) as f64;
        let lacks_ns = self.possible_ns.saturating_sub(self.used_ns);
        let is_judged = self.is_steady && time_ns >= MIN_NS && self.left_ns >= lacks_ns;
        let below = lacks_ns as f64 / (self.possible_ns.max(1) as f64 * (1.0 - PART));
        // Near the upper bound is where every busy cgroup is: only what lies above it counts.
        let above = Some(self.used_ns as f64 / bound_ns).filter(|above| *above >= 1.0);
        [above.unwrap_or(0.0), if is_judged { below } else { 0.0 }]
    }
}

impl Rule for Bandwidth {
    fn name(&self) -> &'static str {
        "bandwidth"
    }

    fn judge(&self, seen: &Seen) -> Option<Judgement> {
        let (from_ns, to_ns) = (seen.windows.first()?.from_ns, seen.windows.last()?.to_ns);
        let judged = (0..seen.cgroups.len()).filter_map(|cgroup| {
            let own = limited(seen, cgroup)?;
            let distance = own.distances(to_ns - from_ns, seen.cpus.len()).into_iter();
            Some(Judgement {
                distance: distance.fold(0.0, f64::max),
                from_ns,
                to_ns,
                figure: own.used_ns as f64 / (to_ns - from_ns) as f64,
                tasks: own.tasks,
            })
        });
        Judgement::worst(judged)
    }

    fn explain(&self, seen: &Seen, found: &Judgement) -> String {
        let time = seconds(found.to_ns - found.from_ns);
        let cgroup = found.tasks.first().and_then(|task| seen.tasks[*task].cgroup);
        let limit = cgroup.map_or(f64::INFINITY, |own| seen.limit(own));
        format!(
            "for {time} {} have {:.2} CPUs, and their cgroup may have {limit:.2}",
            seen.describe(&found.tasks),
            found.figure
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::testing::{cell, parts};
    use crate::model::{Cgroup, Value};

    fn judge(ms: [u64; 3]) -> Option<Judgement> {
        Bandwidth.judge(&limited(&[ms; 20]))
    }

    /// Two tasks in a cgroup that may have half of a CPU, next to one.
    fn limited(ms: &[[u64; 3]]) -> Seen {
        let mut cell = cell(&[("limited", "0-1", 2), ("other", "0-1", 1)]);
        let path: crate::model::CgroupPath = "half".parse().unwrap();
        cell.work.sets[0].cgroup = Some(path.clone());
        let knobs = [("cgroup-max".to_string(), Value::Percent(50.0))].into();
        cell.work.cgroups = vec![Cgroup { path, knobs, cpus: None, changes: Vec::new() }];
        parts(2, &cell, ms).swap_remove(0)
    }

    #[test]
    fn a_limit_is_kept_and_no_less_is_given() {
        let is_broken = |ms| judge(ms).map(|found| found.is_broken());
        assert_eq!(is_broken([25, 25, 100]), Some(false));
        assert_eq!(is_broken([26, 26, 100]), Some(false), "a period and slices more");
        assert_eq!(is_broken([30, 30, 100]), Some(true));
        assert_eq!(is_broken([10, 20, 100]), Some(false));
        assert_eq!(is_broken([12, 12, 100]), Some(true), "less, and a CPU idles");
        let found = judge([30, 30, 100]).unwrap();
        assert_eq!((found.tasks, found.figure), (vec![0, 1], 0.6));
        assert_eq!(judge([25, 25, 100]).unwrap().distance, 0.0, "healthy: nothing to look for");
    }

    #[test]
    fn a_task_that_rests_has_no_part_of_the_limit() {
        let mut seen = limited(&[[0, 30, 100]; 20]);
        assert!(!Bandwidth.judge(&seen).unwrap().is_broken());
        seen.windows.iter_mut().for_each(|own| own.readings[1].cpu_ns = 70_000_000);
        let rests = |seen: &mut Seen, from: usize| {
            seen.windows[from..].iter_mut().for_each(|own| own.readings[0].wall_ns = 0);
        };
        rests(&mut seen, 5);
        assert_eq!(Bandwidth.judge(&seen), None, "it came or went");
        rests(&mut seen, 0);
        let found = Bandwidth.judge(&seen).unwrap();
        assert_eq!((found.is_broken(), found.tasks), (true, vec![1]));
    }

    #[test]
    fn children_of_a_task_may_have_had_the_time() {
        let mut seen = limited(&[[12, 12, 60]; 20]);
        assert!(Bandwidth.judge(&seen).unwrap().is_broken());
        seen.tasks[2].forks = true;
        assert!(!Bandwidth.judge(&seen).unwrap().is_broken());
    }

    #[test]
    fn a_task_that_goes_may_have_had_the_time_until_then() {
        // By weight the cgroup had nothing until then.
        let mut seen = limited(&[[[0, 0, 100]; 12].as_slice(), &[[25, 25, 0]; 8]].concat());
        assert!(Bandwidth.judge(&seen).unwrap().is_broken(), "next to a task that is there");
        seen.windows[12..].iter_mut().for_each(|window| window.readings[2].wall_ns = 0);
        assert!(!Bandwidth.judge(&seen).unwrap().is_broken());
    }
}
