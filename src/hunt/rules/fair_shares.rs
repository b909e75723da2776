//! Fair shares: over the last second of a part of a run no task has less than a third of what it is entitled to, by
//! weights, classes, affinity and cgroups: max-min shares (docs/method.md, "Fairness between sets"). Source:
//! proportional shares are what nice values and cpu.weight promise (sched(7), cgroup-v2.rst). Tolerance: a factor of 3,
//! as the balancer evens loads of CPUs out, not shares of tasks, and more where some task has less than its share in
//! every placement in which none moves; entitlements below a twentieth of a CPU are not judged. A task that sleeps
//! wants what it got, and one that forks a CPU with its child. Not judged: real-time tasks, which take turns in no way,
//! tasks that yield, tasks next to real-time ones with several CPUs, and a second in which tasks come or go.

use crate::analysis::SchedPriority;
use crate::hunt::contract::{Judgement, Rule};
use crate::hunt::placement::{Placed, evenness};
use crate::hunt::seen::{Seen, SeenWindow, ns, seconds};
use crate::model::Reading;
use crate::stats::{self, CompetingSet, Competitor};

const LAST_NS: u64 = 1_000_000_000;
/// The first window may begin within that second; a part of a run that is shorter is not judged.
const MIN_NS: u64 = 800_000_000;
const BOUND: f64 = 3.0;
const MIN_ENTITLED: f64 = 0.05;
/// In place of nothing, so that a factor can be had.
const MIN_GOT: f64 = 0.001;

pub struct FairShares;

/// CPUs that each task had in the windows, and `None` for those that were not there; `None` as a whole: some
/// came or went.
fn shares(seen: &Seen, windows: &[SeenWindow]) -> Option<Vec<Option<f64>>> {
    let share = |task: usize| {
        let is_gone = windows.iter().all(|window| window.readings[task].wall_ns == 0);
        if is_gone {
            return Some(None);
        }
        let cpu_ns: u64 = windows.iter().map(|window| window.readings[task].cpu_ns).sum();
        let is_there = windows.iter().all(|window| window.is_whole(task));
        is_there.then(|| Some(cpu_ns as f64 / ns(windows) as f64))
    };
    (0..seen.tasks.len()).map(share).collect()
}

/// The sets that are there, each with its position and its tasks.
fn competing(seen: &Seen, got: &[Option<f64>]) -> Vec<(Vec<usize>, CompetingSet)> {
    let sets = (0..seen.work.sets.len()).filter_map(|set| {
        let tasks: Vec<usize> = (0..seen.tasks.len())
            .filter(|task| seen.tasks[*task].set == set && got[*task].is_some())
            .collect();
        let first = &seen.tasks[*tasks.first()?];
        let worker = |task: &usize| {
            let got = got[*task].unwrap_or_default();
            let task = &seen.tasks[*task];
            // A child that nobody sees wants what its parent lacks.
            let want = if task.never_sleeps || task.forks { 1.0 } else { got };
            Competitor { want: Reading::Known(want), got: Reading::Known(got), rate: unknown() }
        };
        let set = CompetingSet {
            cpus: Reading::Known(first.cpus.clone()),
            priority: first.priority.priority(),
            cgroup: first.cgroup,
            workers: tasks.iter().map(worker).collect(),
            rate: unknown(),
            solo_rate: unknown(),
            is_want_measured: true,
        };
        Some((tasks, set))
    });
    sets.collect()
}

/// How even the shares of these tasks can be if none moves; each has the CPUs that it is entitled to.
fn evenness_of(seen: &Seen, judged: &[(usize, f64)], got: &[Option<f64>]) -> f64 {
    /// A real-time task that never sleeps leaves so much to others.
    const LEFT: f64 = 0.05;
    let takes = |cpu: u32| {
        let mut tasks = seen.tasks.iter().zip(got);
        tasks.any(|(task, got)| {
            let is_there = got.is_some() && task.never_sleeps && task.cpus.contains(cpu);
            is_there && task.priority.priority().rank > 0
        })
    };
    let capacities = seen.cpus.iter().map(|cpu| (*cpu, if takes(*cpu) { LEFT } else { 1.0 }));
    let weights = seen.weights(|task| got[task].is_some() && seen.tasks[task].never_sleeps);
    let placed = judged.iter().map(|(task, entitled)| Placed {
        weight: weights[*task],
        cpus: &seen.tasks[*task].cpus,
        entitled: *entitled,
    });
    evenness(&placed.collect::<Vec<_>>(), &capacities.collect::<Vec<_>>())
}

fn unknown() -> Reading<f64> {
    Reading::Unknown("no rule needs it".to_string())
}

impl Rule for FairShares {
    fn name(&self) -> &'static str {
        "fair shares"
    }

    fn judge(&self, seen: &Seen) -> Option<Judgement> {
        if seen.has_free_real_time() {
            return None;
        }
        let to_ns = seen.windows.last()?.to_ns;
        let begin = seen.windows.iter().position(|own| own.from_ns + LAST_NS >= to_ns)?;
        let windows = Some(&seen.windows[begin..]).filter(|windows| ns(windows) >= MIN_NS)?;
        let got = shares(seen, windows)?;
        let (tasks, sets): (Vec<_>, Vec<_>) = competing(seen, &got).into_iter().unzip();
        let fairness = stats::fairness(&sets, &seen.cgroups);
        let factors = tasks.iter().zip(&fairness.sets).flat_map(|(tasks, share)| {
            let entitled = share.entitled.clone().known().filter(|own| *own >= MIN_ENTITLED);
            // Real-time tasks of one priority need not share: sched(7), SCHED_FIFO.
            let judged = tasks.iter().filter(|task| {
                let task = &seen.tasks[**task];
                task.never_sleeps
                    && !task.yields
                    && matches!(task.priority, SchedPriority::Fair { .. })
            });
            judged.filter_map(move |task| Some((*task, entitled?)))
        });
        let judged: Vec<(usize, f64)> = factors.collect();
        let factors = judged
            .iter()
            .map(|(task, entitled)| (*task, entitled / got[*task].unwrap_or(0.0).max(MIN_GOT)));
        let (task, factor) = factors.max_by(|left, right| left.1.total_cmp(&right.1))?;
        Some(Judgement {
            distance: factor / BOUND * evenness_of(seen, &judged, &got),
            from_ns: windows[0].from_ns,
            to_ns,
            tasks: vec![task],
            figure: factor,
        })
    }

    fn silence_is_far(&self) -> bool {
        false
    }

    fn explain(&self, seen: &Seen, found: &Judgement) -> String {
        format!(
            "over the last {} {} has 1/{:.1} of the CPU time that it is entitled to",
            seconds(found.to_ns - found.from_ns),
            seen.describe(&found.tasks),
            found.figure
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_yields_gives_its_share_away() {
        let distance = |yields: bool| {
            let mut seen =
                crate::hunt::testing::seen(1, &[("a", "0", 1), ("b", "0", 1)], &[[95, 5]; 20]);
            seen.tasks[1].yields = yields;
            FairShares.judge(&seen).map_or(0.0, |found| found.distance)
        };
        assert!(distance(false) >= 1.0 && distance(true) < 1.0);
    }
    use crate::hunt::testing::{cell, parts, seen, with_nice, with_policy};
    use crate::model::{Cgroup, CgroupPath, Value};

    #[test]
    fn a_task_with_a_small_part_of_its_share_is_found() {
        let sets = [("a", "0-1", 2), ("b", "0-1", 2)];
        let judge = |ms: [u64; 4]| {
            let found = FairShares.judge(&seen(2, &sets, &[ms; 20])).unwrap();
            (found.is_broken(), found.tasks)
        };
        assert!(!judge([50, 50, 50, 50]).0);
        assert!(!judge([70, 70, 40, 20]).0, "the balancer evens out loads of CPUs");
        assert_eq!(judge([80, 60, 45, 15]), (true, vec![3]));
    }

    #[test]
    fn children_of_a_task_may_have_its_share() {
        let judge = |forks: bool| {
            let mut seen = seen(1, &[("spins", "0", 1), ("forks", "0", 3)], &[[24, 8, 8, 8]; 20]);
            for task in &mut seen.tasks[1..] {
                (task.never_sleeps, task.forks) = (false, forks);
            }
            FairShares.judge(&seen).unwrap().is_broken()
        };
        assert!(judge(false), "it has 24 of 76 ms that the others leave");
        assert!(!judge(true), "it has a quarter, next to three with a child each");
    }

    #[test]
    fn a_share_that_no_placement_gives_is_not_asked_for() {
        // Three heavy tasks have a CPU each, and one light task of three is next to one of them.
        let sets = [("heavy", "0-3", 3), ("light", "0-1", 1), ("others", "2-3", 2)];
        let seen = with_nice(seen(4, &sets, &[[90, 100, 100, 9, 50, 50]; 20]), 0, -10);
        let found = FairShares.judge(&seen).unwrap();
        assert!(found.figure > 3.0 && !found.is_broken(), "{found:?}");
    }

    #[test]
    fn tasks_of_a_cgroup_that_are_gone_take_nothing_of_its_weight() {
        let mut cell = cell(&[("own", "0", 1), ("gone", "0", 3), ("other", "0", 1)]);
        let path: CgroupPath = "group".parse().unwrap();
        cell.work.sets[..2].iter_mut().for_each(|set| set.cgroup = Some(path.clone()));
        let knobs = [("cgroup-weight".to_string(), Value::Int(100))].into();
        cell.work.cgroups = vec![Cgroup { path, knobs, cpus: None, changes: Vec::new() }];
        let mut seen = parts(1, &cell, &[[10, 0, 0, 0, 90]; 20]).swap_remove(0);
        for window in &mut seen.windows {
            window.readings[1..4].iter_mut().for_each(|reading| reading.wall_ns = 0);
        }
        let found = FairShares.judge(&seen).unwrap();
        assert!((4.9..5.1).contains(&found.figure), "half of a CPU: {found:?}");
        assert!(found.is_broken(), "there is one placement, and it gives each its share");
    }

    #[test]
    fn weights_and_affinity_make_the_share() {
        // Nice 5 has the weight 335 against 1024.
        let sets = [("a", "0", 1), ("b", "0", 1)];
        let seen = with_nice(seen(1, &sets, &[[75, 25]; 20]), 1, 5);
        let found = FairShares.judge(&seen).unwrap();
        assert!((0.9..1.1).contains(&found.figure), "{}", found.figure);
        let real_time =
            with_policy(crate::hunt::testing::seen(1, &sets, &[[100, 0]; 20]), 0, "fifo");
        assert_eq!(FairShares.judge(&with_policy(real_time, 1, "fifo")), None);
        let next_to = |cpus: &str| {
            let sets = [("real-time", cpus, 1), ("one", "0", 1), ("two", "0", 1)];
            let seen = crate::hunt::testing::seen(2, &sets, &[[100, 98, 2]; 20]);
            FairShares.judge(&with_policy(seen, 0, "fifo")).map(|found| found.is_broken())
        };
        assert_eq!((next_to("0-1"), next_to("1")), (None, Some(true)));
    }

    #[test]
    fn a_second_in_which_tasks_go_is_not_judged() {
        let mut seen = seen(1, &[("a", "0", 2)], &[[90, 10]; 20]);
        assert!(FairShares.judge(&seen).unwrap().is_broken());
        seen.windows[15].readings[0].wall_ns /= 2;
        assert_eq!(FairShares.judge(&seen), None);
    }
}
