//! Traits and plain data of a workload: its description, the request for it, and a worker set ready to run.

use std::path::PathBuf;

use crate::model::{
    CpuSet, Field, Importance, Kind, Metric, MetricKind, MetricSpec, Params, ProgramRecord,
    WorkerKind,
};
use crate::sys::futex::Scope;

use super::burn::Speed;
use super::error::WorkloadError;
use super::pool::Pool;
use super::things::Things;
use super::under_way::UnderWay;
use super::worker::{Measured, Slot, Worker};

/// Work as a time: shorter work is lost in the cost of beginning and ending it.
pub const WORK_TIME: Kind = Kind::Duration { min_ns: 1_000, max_ns: 3_600_000_000_000 };

/// The description of a workload.
pub struct Spec {
    pub name: &'static str,
    pub about: &'static str,
    pub params: &'static [Field],
    /// Roles of workers; [`Workload::layout`] gives each worker an index into this.
    pub roles: &'static [Role],
    /// The name of its operations, in the plural: `requests`, `round trips`.
    pub ops: &'static str,
    /// The importance of `throughput`, the operations per second.
    pub throughput: Importance,
    /// Its workers start programs and wait for them. A run lasts until each has finished
    /// ([`super::Worker::finish`]), the metrics are its own alone, and its table takes
    /// `parameters`.
    pub runs_programs: bool,
    /// Latency histograms, in the order of [`Worker::record`]'s index; at most
    /// [`super::MAX_HISTOGRAMS`]. Each gives `NAME_p50`, `_p99`, `_p99.9` and `_max`.
    pub histograms: &'static [Latency],
    /// Counters of its own, in the order of [`Worker::count`]'s index; at most
    /// [`super::MAX_COUNTERS`].
    pub counters: &'static [&'static str],
    /// Metrics of its own, computed by [`Load::metrics`], in addition to the standard ones
    /// (throughput, latencies, fairness, CPUs used, switches).
    pub metrics: &'static [MetricSpec],
}

impl Spec {
    /// The values of the fields that many workloads do not use. A workload replaces the empty name, the roles
    /// and the other texts.
    pub const PLAIN: Spec = Spec {
        name: "",
        about: "",
        params: &[],
        roles: &[],
        ops: "",
        throughput: Importance::Headline,
        runs_programs: false,
        histograms: &[],
        counters: &[],
        metrics: &[],
    };
}

/// Linux cannot have more tasks on 64 bits (PID_MAX_LIMIT).
pub(super) const MAX_TASKS: u64 = 4 << 20;

pub struct Role {
    /// Also the thread's name: at most 15 bytes.
    pub name: &'static str,
    /// Whether operations of this role count for throughput and fairness.
    pub counts: bool,
}

pub struct Latency {
    pub name: &'static str,
    /// The importance of its 99th percentile; its other metrics explain.
    pub importance: Importance,
    pub about: &'static str,
}

impl Latency {
    pub const fn headline(name: &'static str, about: &'static str) -> Latency {
        Latency { name, importance: Importance::Headline, about }
    }

    pub const fn explaining(name: &'static str, about: &'static str) -> Latency {
        Latency { name, importance: Importance::Explaining, about }
    }
}

/// The input for a worker set.
pub struct Request<'a> {
    pub params: &'a Params,
    pub count: u32,
    pub kind: WorkerKind,
    /// The CPUs on which the workers may run.
    pub pool: &'a Pool,
    pub seed: u64,
    pub speed: Speed,
}

impl Request<'_> {
    /// The scope of the futexes that its workers share.
    pub(super) fn scope(&self) -> Scope {
        match self.kind {
            WorkerKind::Threads | WorkerKind::Guests => Scope::Private,
            WorkerKind::Processes | WorkerKind::GuestsOrProcesses => Scope::Shared,
        }
    }

    /// The largest number of operations a second, where each of `sources` has one at a time, which takes a CPU for
    /// `work_ns` and none for `wait_ns`. `None`: no limit is known.
    pub(super) fn max_per_s(&self, sources: u64, work_ns: u64, wait_ns: u64) -> Option<f64> {
        let per_s = |count: f64, ns: u64| (ns > 0).then(|| count * 1e9 / ns as f64);
        let by_time = per_s(sources as f64, work_ns.saturating_add(wait_ns))?;
        let by_cpus = per_s(f64::from(self.pool.count()), work_ns);
        Some(by_cpus.map_or(by_time, |by_cpus| by_time.min(by_cpus)))
    }
}

pub trait Workload: Sync {
    fn spec(&self) -> &'static Spec;

    /// The role of each worker of one set, in start order: an index into [`Spec::roles`].
    /// Pure. The error says which parameters do not go together.
    fn layout(&self, request: &Request) -> Result<Vec<usize>, WorkloadError> {
        Ok(vec![0; request.count as usize])
    }

    /// Makes the things that the workers of one set share, before any of them exists. Memory that process workers
    /// write to comes from [`crate::sys::shared`].
    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError>;

    /// The files that its workers execute, each with its parameter.
    fn programs(&self, _params: &Params) -> Result<Vec<(&'static str, PathBuf)>, WorkloadError> {
        Ok(Vec::new())
    }

    /// Whether a set with these parameters may have more or fewer workers in mid-run: none of them waits for another
    /// one that may rest.
    fn can_rest(&self, _params: &Params) -> bool {
        false
    }

    /// Whether work is given as a time, for which the machine's speed must be known.
    fn is_timed(&self, _params: &Params) -> bool {
        false
    }

    /// Whether work is executed that could be given as a time.
    fn is_executed(&self, params: &Params) -> bool {
        self.is_counted(params)
    }

    /// Whether work is given as an amount of operations, which take another time on each machine.
    fn is_counted(&self, _params: &Params) -> bool {
        false
    }

    /// The name of operations with these parameters, in the plural.
    fn ops(&self, _params: &Params) -> &'static str {
        self.spec().ops
    }

    /// The importance of `throughput` with these parameters.
    fn throughput(&self, _params: &Params) -> Importance {
        self.spec().throughput
    }

    /// The latencies that are measured with these parameters: the first ones of [`Spec::histograms`].
    fn histograms(&self, _params: &Params) -> &'static [Latency] {
        self.spec().histograms
    }

    /// How many samples a second each of its latencies can have at most; `None`: its parameters set no
    /// limit.
    fn max_samples_per_s(&self, _request: &Request) -> Option<f64> {
        None
    }

    /// The metrics of [`Spec::metrics`] that exist with these parameters, and others that these name.
    fn metrics(&self, _params: &Params) -> Vec<MetricKind> {
        self.spec().metrics.iter().map(MetricSpec::kind).collect()
    }
}

/// One worker set, ready to run. Shared by its workers.
pub trait Load: Send + Sync {
    /// The body of worker `index` of the set. An error fails the run with its text.
    fn work(&self, index: usize, worker: &Worker) -> Result<(), WorkloadError>;

    /// Finds what its workers share with those of other sets, before any of them exists.
    fn meet(&self, _things: &Things) -> Result<(), WorkloadError> {
        Ok(())
    }

    /// Whether a worker that gets all the CPU it wants may do no operation in a run.
    fn may_do_nothing(&self) -> bool {
        false
    }

    /// The CPUs of worker `index` of the set, if it may not use all of the pool. It is moved there before
    /// [`Load::work`], so that memory that it touches first is near.
    fn cpus(&self, _index: usize) -> Option<CpuSet> {
        None
    }

    /// Called in the runner once all workers exist: threads that serve them begin.
    fn serve(&self) -> Result<(), WorkloadError> {
        Ok(())
    }

    /// The last that programs of worker `index` wrote, for the reason of a failure.
    fn last_output(&self, _index: usize) -> Option<String> {
        None
    }

    /// The program that worker `index` waits for, and the step that it has not done yet.
    fn waits_for(&self, _index: usize) -> Option<String> {
        None
    }

    /// The record of the programs that it ran.
    fn record(&self) -> Option<ProgramRecord> {
        None
    }

    /// Adds the latencies of worker `index` that have begun and not ended: those that it noted, unless others begin
    /// some of them. Called in the runner at the end, while workers may still run.
    fn under_way(&self, _index: usize, slot: &Slot, found: &mut UnderWay) {
        slot.begun().for_each(|(histogram, begun_ns)| found.add(histogram, begun_ns));
    }

    /// Workers were asked to stop: wakes those that sleep until another one has work for them.
    fn release(&self) {}

    /// The values of [`Workload::metrics`], in that order.
    fn metrics(&self, _measured: &Measured) -> Vec<Metric> {
        Vec::new()
    }
}
