//! The activity of watched tasks in one interval, in one line. Pure.

use serde::Serialize;

use crate::model::{CpuScore, TaskScore, Times};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Interval {
    /// When it ended, since counting began.
    pub at_ns: u64,
    pub wall_ns: u64,
    /// Waits for a CPU that ended in it. `None`, as everywhere here: not counted by the source.
    pub waits: Option<u64>,
    pub wait_ns: Option<u64>,
    pub wait_p50_ns: Option<u64>,
    pub wait_p99_ns: Option<u64>,
    pub wait_max_ns: Option<u64>,
    /// Tasks that wait at its end, and the one that has been waiting longest.
    pub waiting: u64,
    pub waiting_max_ns: Option<u64>,
    pub switches: Option<u64>,
    /// How many CPUs it used, in the mean.
    pub cpus: Option<f64>,
}

/// `is_all`: every task is watched; then what the CPUs count is what they used.
pub fn interval(
    at_ns: u64,
    wall_ns: u64,
    tasks: &[TaskScore],
    cpus: &[CpuScore],
    is_all: bool,
) -> Interval {
    let watched: Vec<&TaskScore> = tasks.iter().filter(|task| is_all || task.watched).collect();
    let mut waits = Times::default();
    let known = watched.iter().filter_map(|task| task.wait.as_ref());
    known.for_each(|wait| waits.merge(wait));
    // Some task ran in any case: where there is none, nothing was read.
    let is_read = !is_all || !tasks.is_empty();
    // Tasks that share a row for lack of room have no waits.
    let is_known = is_read && watched.iter().all(|task| task.wait.is_some() || task.tid == 0);
    let of_waits = |value: Option<u64>| value.filter(|_| is_known);
    let waiting = || watched.iter().filter_map(|task| task.waiting_ns);
    let sum = |of: fn(&TaskScore) -> Option<u64>| {
        watched.iter().map(|task| of(task)).sum::<Option<u64>>()
    };
    let busy_ns = if is_all {
        cpus.iter().map(|cpu| cpu.busy_ns).sum::<Option<u64>>()
    } else {
        sum(|task| task.run_ns)
    };
    Interval {
        at_ns,
        wall_ns,
        waits: of_waits(Some(waits.count)),
        wait_ns: of_waits(Some(waits.total_ns)),
        wait_p50_ns: of_waits(waits.quantile_ns(0.5)),
        wait_p99_ns: of_waits(waits.quantile_ns(0.99)),
        wait_max_ns: of_waits(waits.max_ns),
        waiting: waiting().count() as u64,
        waiting_max_ns: waiting().max(),
        switches: sum(|task| Some(task.voluntary? + task.involuntary?)).filter(|_| is_read),
        cpus: busy_ns.map(|ns| ns as f64 / wall_ns.max(1) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Bucket;

    #[test]
    fn an_interval_is_of_what_is_watched() {
        let bucket = |low_ns, count| Bucket { low_ns, high_ns: low_ns + 100, count };
        let task = |watched, run_ns, buckets: Vec<Bucket>| TaskScore {
            tid: 7,
            watched,
            run_ns: Some(run_ns),
            voluntary: Some(4),
            involuntary: Some(1),
            wait: Some(Times {
                count: buckets.iter().map(|bucket| bucket.count).sum(),
                total_ns: 1000,
                max_ns: Some(5000 + run_ns),
                buckets,
            }),
            ..TaskScore::default()
        };
        let waits = TaskScore { waiting_ns: Some(77), ..task(true, 100, vec![bucket(1000, 2)]) };
        let tasks = [task(true, 300, vec![bucket(1000, 98)]), waits, task(false, 50, vec![])];
        let cpu = CpuScore { busy_ns: Some(900), ..CpuScore::default() };
        let of = |is_all| interval(7000, 1000, &tasks, std::slice::from_ref(&cpu), is_all);
        let expected = Interval {
            at_ns: 7000,
            wall_ns: 1000,
            waits: Some(100),
            wait_ns: Some(2000),
            wait_p50_ns: Some(1050),
            wait_p99_ns: Some(1099),
            wait_max_ns: Some(5300),
            waiting: 1,
            waiting_max_ns: Some(77),
            switches: Some(10),
            cpus: Some(0.4),
        };
        assert_eq!(of(false), expected);
        assert_eq!((of(true).switches, of(true).cpus), (Some(15), Some(0.9)));
        let other = TaskScore { voluntary: Some(1), involuntary: Some(1), ..TaskScore::default() };
        assert_eq!(interval(1, 1, &[other], &[], true).waits, Some(0), "tasks without room");
        let unread = interval(1, 1, &[], &[], true);
        assert_eq!((unread.waits, unread.switches), (None, None), "unknown, not 0");
        let nothing = interval(1, 0, &[], &[], false);
        assert_eq!((nothing.waits, nothing.wait_p50_ns, nothing.cpus), (Some(0), None, Some(0.0)));
    }
}
