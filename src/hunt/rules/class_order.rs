//! Class order: a task of a lower class runs while one of a higher class waits for that CPU. Source: sched(7), and
//! `__pick_next_task` of kernel/sched/core.c, which asks the classes in their order; push_rt_task and pull_rt_task of
//! kernel/sched/rt.c move a waiting real-time task at once. Tolerance: a quarter of a CPU for 500 ms; the 5 % that the
//! deadline server or the throttling gives to fair tasks is less.

use crate::hunt::contract::{Judgement, Rule};
use crate::hunt::flow::max_flow;
use crate::hunt::seen::{Seen, SeenWindow, seconds};

const BOUND_NS: u64 = 500_000_000;
/// The part of a CPU that is missed.
const PART: u64 = 4;

pub struct ClassOrder;

/// The CPU time that the tasks of this rank and above lack in a window, next to lower ones that have as much.
fn lacking_ns(seen: &Seen, window: &SeenWindow, rank: u32) -> u64 {
    let rank_of = |task: usize| seen.tasks[task].priority.priority().rank;
    let high: Vec<usize> = seen.runnable(window).filter(|task| rank_of(*task) >= rank).collect();
    let wanted = high.iter().map(|task| (window.wall_ns(), &seen.tasks[*task].cpus));
    let possible_ns = max_flow(wanted, &seen.cpus, window.wall_ns());
    let had_ns: u64 = high.iter().map(|task| window.readings[*task].cpu_ns).sum();
    let reached = |cpu: u32| high.iter().any(|task| seen.tasks[*task].cpus.contains(cpu));
    // A lower task whose CPUs are all reached can only have had time that a higher one wanted.
    let low = (0..seen.tasks.len())
        .filter(|task| rank_of(*task) < rank && seen.tasks[*task].cpus.iter().all(reached));
    let low_ns: u64 = low.map(|task| window.readings[task].cpu_ns).sum();
    possible_ns.saturating_sub(had_ns).min(low_ns)
}

impl Rule for ClassOrder {
    fn name(&self) -> &'static str {
        "class order"
    }

    fn judge(&self, seen: &Seen) -> Option<Judgement> {
        let mut ranks: Vec<u32> =
            seen.tasks.iter().map(|task| task.priority.priority().rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let of_rank = |rank: &u32| {
            let lacking_ns = |window: &SeenWindow| lacking_ns(seen, window, *rank);
            let bad = seen.longest(|window| lacking_ns(window) * PART >= window.wall_ns());
            let mut found = Judgement::from_windows(seen, bad, BOUND_NS, lacking_ns)?;
            found.tasks.retain(|task| seen.tasks[*task].priority.priority().rank >= *rank);
            Some(found)
        };
        Judgement::worst(ranks.iter().skip(1).filter_map(of_rank))
    }

    fn explain(&self, seen: &Seen, found: &Judgement) -> String {
        let time = seconds(found.to_ns - found.from_ns);
        let (tasks, lacking) = (seen.describe(&found.tasks), found.figure);
        format!("for {time} tasks of a lower class run while {tasks} lack {lacking:.2} CPUs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::testing::{seen, with_policy};

    #[test]
    fn a_fair_task_that_runs_in_place_of_a_real_time_one_is_found() {
        let sets = [("high", "0", 1), ("low", "0", 1)];
        let distance = |high: u64, low: u64| {
            let seen = with_policy(seen(1, &sets, &[[high, low]; 10]), 0, "fifo");
            ClassOrder.judge(&seen).map(|found| (found.distance, found.tasks))
        };
        assert_eq!(distance(95, 5), None, "the deadline server's share");
        assert_eq!(distance(50, 50), Some((2.0, vec![0])));
        assert_eq!(distance(50, 0), None, "no lower task has it");
        let elsewhere = [("high", "0", 1), ("low", "1", 1)];
        let seen = with_policy(seen(2, &elsewhere, &[[10, 100]; 10]), 0, "fifo");
        assert_eq!(ClassOrder.judge(&seen), None, "the lower one runs on a CPU of its own");
    }
}
