//! One worker set in threads of this process, read while it runs: for front ends that report
//! second by second and may not know when the run ends.
//!
//! No runner, no knobs, nothing stored: policy, nice and affinity are those that the process
//! was started with, and the caller ends the process when it has seen enough.

use crate::model::{Cell, Metric, Placement, Reading, Variant, Work, WorkerSet};
use crate::stats::Histogram;
use crate::sys::task::TaskReader;
use crate::sys::{Host, clock, thread};
use crate::workload::{MAX_COUNTERS, Measured, Opening, Speed, WorkerCounts};

use super::ExecError;
use super::group::{Limit, WorkerGroup};

/// How often workers are looked at that have something to end.
const FINISH_POLL_NS: u64 = 2_000_000;

pub struct Live {
    group: WorkerGroup,
    tasks: TaskReader,
    started_ns: u64,
    /// The histograms when they were last zeroed.
    zeroed: Vec<Histogram>,
}

/// The counts at one moment.
pub struct Snapshot {
    /// The time since the workers began.
    pub at_ns: u64,
    /// The operations of all workers, since they began.
    pub ops: u64,
    /// The workload's counters since workers began, by their index.
    pub counters: [u64; MAX_COUNTERS],
    workers: Vec<WorkerCounts>,
}

impl Live {
    /// Makes the workers and lets them begin. The calling thread, which measures, is served
    /// promptly from then on.
    pub fn start(set: WorkerSet, placement: Placement, seed: u64) -> Result<Live, ExecError> {
        let variant = Variant { name: "as found".to_string(), knobs: Default::default() };
        let work = Work { name: set.name.clone(), sets: vec![set], ..Default::default() };
        let cell = Cell { index: 0, variant, work, placement };
        let group = WorkerGroup::assemble(&cell, &Default::default(), seed, Speed::default(), 0)?;
        group.await_arrival(Limit::NONE)?;
        thread::serve_promptly();
        let zeroed = group.sets()[0].recorders.all_merged();
        let started_ns = clock::monotonic_ns();
        group.sets()[0].control.open(&Opening::endless(started_ns));
        Ok(Live { group, tasks: TaskReader::new(Host::default()), started_ns, zeroed })
    }

    /// The start on the monotonic clock.
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// Reads all counts. Fails if a worker has failed.
    pub fn poll(&self) -> Result<Snapshot, ExecError> {
        self.group.check()?;
        let (counters, workers) = ([0; MAX_COUNTERS], Vec::new());
        let mut snapshot = Snapshot { at_ns: 0, ops: 0, counters, workers };
        for member in self.group.members() {
            let (ops, counters) = (member.slot.ops(), member.slot.counters());
            snapshot.ops += ops;
            snapshot.counters.iter_mut().zip(counters).for_each(|(sum, own)| *sum += own);
            let wall_ns = clock::monotonic_ns() - self.started_ns;
            snapshot.workers.push(WorkerCounts { wall_ns, ops, counters });
        }
        snapshot.at_ns = clock::monotonic_ns() - self.started_ns;
        Ok(snapshot)
    }

    /// One of the workload's counters, by its name.
    pub fn counter(&self, snapshot: &Snapshot, name: &str) -> Option<u64> {
        let counters = self.group.sets()[0].spec.counters;
        counters.iter().position(|counter| *counter == name).map(|index| snapshot.counters[index])
    }

    /// Since they were last zeroed, by the workload's order and names.
    pub fn histograms(&self) -> Vec<(&'static str, Histogram)> {
        let set = &self.group.sets()[0];
        let periods = set.recorders.all_merged().into_iter().zip(&self.zeroed);
        let periods = periods.map(|(now, zeroed)| now.since(zeroed));
        set.spec.histograms.iter().map(|latency| latency.name).zip(periods).collect()
    }

    /// Samples from now on are a new period.
    pub fn zero(&mut self) {
        let recorders = self.group.sets()[0].recorders;
        self.zeroed = recorders.all_merged();
        recorders.forget_extremes();
    }

    /// The workload's own metrics, from everything up to now; there are no windows here.
    pub fn metrics(&self, snapshot: &Snapshot) -> Vec<Metric> {
        self.group.sets()[0].load.metrics(&Measured {
            measured_ns: snapshot.at_ns,
            gaps: 0,
            ops: snapshot.ops,
            window_ops_per_s: Vec::new(),
            counters: snapshot.counters,
            histograms: self.histograms().into_iter().map(|(_, histogram)| histogram).collect(),
            workers: snapshot.workers.clone(),
        })
    }

    /// How long a worker of this role waited on a runqueue each time it got a CPU, by the
    /// kernel's count since it began: the mean of the workers' means.
    pub fn run_queue_wait_ns(&mut self, role: &str) -> Reading<u64> {
        let roles = self.group.sets()[0].spec.roles;
        let own = self.group.members().iter().filter(|member| roles[member.role].name == role);
        let pid = std::process::id() as i32;
        let means_ns: Reading<Vec<u64>> =
            own.map(|member| self.tasks.mean_wait_ns(pid, member.slot.tid())).collect();
        means_ns.and_then(|all_ns| {
            let mean_ns = all_ns.iter().sum::<u64>().checked_div(all_ns.len() as u64);
            Reading::from_option(mean_ns, format!("there is no worker of role `{role}`"))
        })
    }

    /// How many workers have this role.
    pub fn workers(&self, role: &str) -> usize {
        let roles = self.group.sets()[0].spec.roles;
        self.group.members().iter().filter(|member| roles[member.role].name == role).count()
    }

    /// Asks workers to stop and waits until those whose operations count have ended what they had
    /// begun, or until `is_enough`, which is asked after each signal. The counts grow until then.
    pub fn finish(&self, is_enough: impl Fn() -> bool) {
        self.group.stop();
        let (set, members) = (&self.group.sets()[0], self.group.members());
        let counting = members.iter().filter(|member| set.counts(member));
        while !is_enough() && !counting.clone().all(|member| member.slot.has_ended()) {
            set.load.release();
            clock::sleep_until_or_signal(clock::monotonic_ns() + FINISH_POLL_NS);
        }
    }

    /// The ages of latencies that have begun and not ended, in the workload's order, with their names.
    pub fn under_way(&self) -> Vec<(&'static str, Histogram)> {
        let names = self.group.sets()[0].spec.histograms.iter().map(|latency| latency.name);
        names.zip(self.group.under_way(0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::model::Raw;
    use crate::workload;

    fn set() -> WorkerSet {
        let fields = workload::find("schbench").unwrap().spec().params;
        let mut params = crate::model::Params::new();
        for field in fields {
            let value = match field.name {
                "threads" => Some(field.kind.parse(&Raw::Int(2)).unwrap()),
                "rps" => Some(field.kind.parse(&Raw::Int(100_000)).unwrap()),
                "cache-footprint" => Some(field.kind.parse(&Raw::Text("1KiB".into())).unwrap()),
                _ => field.default_value(),
            };
            params.extend(value.map(|value| (field.name.to_string(), value)));
        }
        WorkerSet {
            name: "set".to_string(),
            workload: "schbench".to_string(),
            params,
            count: 1,
            ..Default::default()
        }
    }

    /// This thread runs before all others: it has to sleep between two polls.
    fn wait_until(live: &Live, what: &str, condition: impl Fn(&Live) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !condition(live) {
            live.poll().unwrap();
            assert!(Instant::now() < deadline, "waited a minute for {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn requests(live: &Live) -> u64 {
        let histograms = live.histograms();
        histograms.iter().find(|(name, _)| *name == "request").unwrap().1.total()
    }

    #[test]
    fn a_set_is_polled_while_it_runs_and_a_new_period_begins_with_nothing() {
        let mut live = Live::start(set(), Placement::default(), 1).unwrap();
        wait_until(&live, "requests", |live| requests(live) >= 100);
        let before = live.poll().unwrap();
        live.zero();
        let left = requests(&live);
        assert!(left < 50, "{left} right after zeroing");
        wait_until(&live, "new requests", |live| requests(live) >= 20);
        let after = live.poll().unwrap();
        assert!(after.ops >= before.ops + 20 && after.at_ns > before.at_ns, "ops go on");
        wait_until(&live, "a drop", |live| {
            live.counter(&live.poll().unwrap(), "dropped").is_some_and(|dropped| dropped > 0)
        });
        assert_eq!(live.counter(&after, "nonesuch"), None);
        assert_eq!((live.workers("schbench-msg"), live.workers("schbench-worker")), (1, 2));
        assert!(matches!(live.run_queue_wait_ns("nonesuch"), Reading::Unknown(_)));
        live.finish(|| false);
    }
}
