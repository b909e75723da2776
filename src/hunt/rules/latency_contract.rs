//! Latency contract: a task that woke waits for long although all that want its CPUs are of a lower class, or sleep for
//! two thirds of the time. Source: `wakeup_preempt` of kernel/sched/core.c, by which a task of a higher class takes the CPU at
//! once, and `check_preempt_wakeup_fair` of fair.c, by which a fair task takes it from one under SCHED_IDLE. Tolerance: 100 ms,
//! twice what the throttling of real-time tasks or the deadline server takes in a second, for each task of its own
//! class or above that may have its CPUs. Not judged: tasks next to more of these than it has CPUs, or to one that
//! runs for longer. A scheduler of sched_ext owes SCHED_IDLE nothing.

use crate::hunt::contract::{Judgement, Rule};
use crate::hunt::seen::{Seen, Task, ns, seconds};

const BOUND_NS: f64 = 1e8;
/// One that runs for one part in so many of the time, or less, sleeps.
const MOSTLY: u64 = 3;

pub struct LatencyContract;

/// Whether `own` takes the CPU from the other one when it wakes.
fn goes_before(seen: &Seen, own: &Task, other: &Task) -> bool {
    let [rank, other_rank] = [own, other].map(|task| task.priority.priority().rank);
    // In a cgroup its weight decides.
    let is_outside = own.cgroup.is_none() && other.cgroup.is_none();
    rank > other_rank
        || rank == other_rank
            && is_outside
            && !seen.is_sched_ext
            && !own.priority.is_idle()
            && other.priority.is_idle()
}

fn bound_ns(seen: &Seen, task: usize) -> Option<f64> {
    let own = &seen.tasks[task];
    let competes = |other: &&Task| other.cpus.iter().any(|cpu| own.cpus.contains(cpu));
    let equals = seen.tasks.iter().filter(competes).filter(|other| !goes_before(seen, own, other));
    let equals: Vec<&Task> = equals.collect();
    let wall_ns = ns(&seen.windows);
    let sleeps =
        |other: &Task| other.has_wakeups && other.run_cpu_ns.saturating_mul(MOSTLY) <= wall_ns;
    let all_sleep = equals.iter().all(|other| std::ptr::eq(*other, own) || sleeps(other));
    (all_sleep && equals.len() <= own.cpus.len()).then_some(BOUND_NS * equals.len() as f64)
}

impl Rule for LatencyContract {
    fn name(&self) -> &'static str {
        "latency contract"
    }

    fn judge(&self, seen: &Seen) -> Option<Judgement> {
        let of_task = |task: usize| {
            let bound_ns = bound_ns(seen, task)?;
            Some(Judgement::from_wait(task, seen.longest_wakeup_ns(task)?, bound_ns))
        };
        let judged =
            (0..seen.tasks.len()).filter(|task| seen.tasks[*task].has_wakeups).filter_map(of_task);
        Judgement::worst(judged)
    }

    fn explain(&self, seen: &Seen, found: &Judgement) -> String {
        let (time, tasks) = (seconds(found.to_ns - found.from_ns), seen.describe(&found.tasks));
        format!(
            "{tasks} wakes and waits for {time} next to tasks of lower classes; at most {:.1} s follow from the others",
            found.figure
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::testing::{seen, with_policy};

    /// The distance of a task that woke and waited for 150 ms, next to others on two CPUs.
    fn distance(policies: [&str; 3], change: impl Fn(&mut Seen)) -> Option<f64> {
        let sets = [("woken", "0-1", 1), ("other", "0-1", 1), ("elsewhere", "1", 1)];
        let mut seen = seen(2, &sets, &[[60, 70, 70]; 10]);
        for (set, policy) in policies.iter().enumerate() {
            seen = with_policy(seen, set, policy);
        }
        (seen.tasks[0].never_sleeps, seen.tasks[0].has_wakeups) = (false, true);
        seen.windows[4].readings[0].peak_ns = 150_000_000;
        change(&mut seen);
        let found = LatencyContract.judge(&seen)?;
        assert_eq!((found.from_ns, found.to_ns), (350_000_000, 500_000_000));
        Some(found.distance)
    }

    #[test]
    fn a_task_that_woke_waits_for_no_lower_class() {
        let as_is = |_: &mut Seen| ();
        assert_eq!(distance(["fifo", "other", "idle"], as_is), Some(1.5));
        assert_eq!(distance(["other", "idle", "idle"], as_is), Some(1.5));
        assert_eq!(distance(["other", "idle", "other"], as_is), None, "an equal never sleeps");
        assert_eq!(distance(["idle", "idle", "idle"], as_is), None);
        assert_eq!(distance(["fifo", "fifo", "other"], as_is), None);
        let sleeps = |seen: &mut Seen| {
            (seen.tasks[1].never_sleeps, seen.tasks[1].has_wakeups) = (false, true);
            seen.tasks[1].run_cpu_ns = 300_000_000;
        };
        let naps = |seen: &mut Seen| {
            sleeps(seen);
            seen.tasks[1].run_cpu_ns = 900_000_000;
        };
        assert_eq!(distance(["fifo", "fifo", "other"], naps), None, "it sleeps at times");
        let sched_ext = |seen: &mut Seen| seen.is_sched_ext = true;
        assert_eq!(distance(["other", "idle", "idle"], sched_ext), None);
        assert_eq!(distance(["fifo", "other", "idle"], sched_ext), Some(1.5));
        assert_eq!(distance(["fifo", "fifo", "other"], sleeps), Some(0.75), "two bounds");
        let pinned = |seen: &mut Seen| {
            sleeps(seen);
            seen.tasks[0].cpus = "1".parse().unwrap();
        };
        assert_eq!(distance(["fifo", "fifo", "other"], pinned), None, "two for one CPU");
        let grouped = |seen: &mut Seen| seen.tasks[1].cgroup = Some(0);
        assert_eq!(distance(["other", "idle", "idle"], grouped), None, "weights decide");
    }
}
