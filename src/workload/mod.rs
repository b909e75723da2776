//! Load generators. One file each and one line in [`registry`]; help, `schedlab list`, the
//! plan parser, the JSON Schema and the docs derive from [`Spec`].
//!
//! A workload describes its parameters and metrics ([`Workload::spec`]) and the workers of a set
//! ([`Workload::layout`], pure), and makes what they share ([`Workload::prepare`]). Each
//! worker then runs [`Load::work`] in a thread or process of its own: it allocates and
//! touches all it needs, passes the barrier by [`Worker::start`], and loops without end or
//! while [`Worker::running`]. Nothing waits for workers to end: when the measured section is
//! over, the runner reads their slots and its process exits.

mod burn;
mod burnwait;
mod channels;
mod deadline;
mod error;
mod forkexec;
mod messaging;
mod params;
mod pipe;
mod pool;
mod recorders;
mod schbench;
mod service_chain;
mod spin;
#[cfg(test)]
mod testing;
mod wakeup;
mod worker;

use crate::model::{CpuSet, Field, Importance, Metric, MetricSpec, Params, WorkerKind};
use crate::sys::futex::Scope;

pub use burnwait::{
    Item as BurnItem, MAX_KOPS as MAX_BURN_KOPS, MAX_WAIT_NS as MAX_BURN_WAIT_NS, QueueError,
    parse_queue as parse_burn_queue,
};
pub use error::WorkloadError;
pub use pool::Pool;
pub use recorders::Recorders;
pub use worker::{Control, MAX_COUNTERS, MAX_HISTOGRAMS, Measured, Slot, Worker, WorkerCounts};

/// Every workload, in the order of `schedlab list`.
pub fn registry() -> &'static [&'static dyn Workload] {
    &[
        &schbench::Schbench,
        &burnwait::Burnwait,
        &messaging::Messaging,
        &service_chain::ServiceChain,
        &pipe::Pipe,
        &deadline::Deadline,
        &forkexec::Forkexec,
        &spin::Spin,
        #[cfg(test)]
        &testing::Dummy,
    ]
}

/// The workload of this name.
pub fn find(name: &str) -> Option<&'static dyn Workload> {
    registry().iter().copied().find(|workload| workload.spec().name == name)
}

/// The description of a workload.
pub struct Spec {
    pub name: &'static str,
    pub about: &'static str,
    pub params: &'static [Field],
    /// Roles of workers; [`Workload::layout`] gives each worker an index into this.
    pub roles: &'static [Role],
    /// What one operation is, in the plural: `requests`, `round trips`.
    pub ops: &'static str,
    /// Of `throughput`: how many operations a second.
    pub throughput: Importance,
    /// Latency histograms, in the order of [`Worker::record`]'s index; at most
    /// [`worker::MAX_HISTOGRAMS`]. Each gives `NAME_p50`, `_p99`, `_p99.9` and `_max`.
    pub histograms: &'static [Latency],
    /// Counters of its own, in the order of [`Worker::count`]'s index; at most
    /// [`worker::MAX_COUNTERS`].
    pub counters: &'static [&'static str],
    /// Metrics of its own, computed by [`Load::metrics`], in addition to the standard ones
    /// (throughput, latencies, fairness, CPUs used, switches).
    pub metrics: &'static [MetricSpec],
}

/// Linux cannot have more tasks on 64 bits (PID_MAX_LIMIT).
const MAX_TASKS: u64 = 4 << 20;

pub struct Role {
    /// Also the thread's name: at most 15 bytes.
    pub name: &'static str,
    /// Whether operations of this role count for throughput and fairness.
    pub counts: bool,
}

pub struct Latency {
    pub name: &'static str,
    /// Of its 99th percentile; its other metrics explain.
    pub importance: Importance,
    pub about: &'static str,
}

/// The input for a worker set.
pub struct Request<'a> {
    pub params: &'a Params,
    pub count: u32,
    pub kind: WorkerKind,
    /// Where the workers may run.
    pub pool: &'a Pool,
    pub seed: u64,
}

impl Request<'_> {
    /// For the futexes that its workers share.
    fn scope(&self) -> Scope {
        match self.kind {
            WorkerKind::Threads => Scope::Private,
            WorkerKind::Processes => Scope::Shared,
        }
    }
}

pub trait Workload: Sync {
    fn spec(&self) -> &'static Spec;

    /// The role of each worker of one set, in start order: an index into [`Spec::roles`].
    /// Pure. The error says which parameters do not go together.
    fn layout(&self, request: &Request) -> Result<Vec<usize>, WorkloadError>;

    /// Makes what the workers of one set share, before any of them exists. Memory that
    /// process workers write to comes from [`crate::sys::shared`].
    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError>;

    /// What is measured with these parameters: the first ones of [`Spec::histograms`].
    fn histograms(&self, _params: &Params) -> &'static [Latency] {
        self.spec().histograms
    }

    /// Those of [`Spec::metrics`] that there are with these parameters.
    fn metrics(&self, _params: &Params) -> &'static [MetricSpec] {
        self.spec().metrics
    }
}

/// One worker set, ready to run. Shared by its workers.
pub trait Load: Send + Sync {
    /// The body of worker `index` of the set. An error fails the run with its text.
    fn work(&self, index: usize, worker: &Worker) -> Result<(), WorkloadError>;

    /// Where worker `index` of the set runs, if not on all of the pool. It is moved there
    /// before [`Load::work`], so that memory that it touches first is near.
    fn cpus(&self, _index: usize) -> Option<CpuSet> {
        None
    }

    /// The values of [`Workload::metrics`], in that order.
    fn metrics(&self, _measured: &Measured) -> Vec<Metric> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_described_and_its_defaults_fit() {
        for workload in registry() {
            let spec = workload.spec();
            assert!(!spec.about.is_empty() && !spec.ops.is_empty(), "{}", spec.name);
            assert!(spec.histograms.len() <= MAX_HISTOGRAMS, "{}", spec.name);
            assert!(spec.counters.len() <= MAX_COUNTERS, "{}", spec.name);
            assert!(spec.roles.iter().any(|role| role.counts), "{}", spec.name);
            assert!(spec.roles.iter().all(|role| role.name.len() <= 15), "{}", spec.name);
            for field in spec.params {
                let fits = field.default.is_none() || field.default_value().is_some();
                assert!(fits && !field.about.is_empty(), "{} {}", spec.name, field.name);
            }
            let same_name = registry().iter().filter(|other| other.spec().name == spec.name);
            assert_eq!(same_name.count(), 1, "{} is registered twice", spec.name);
            let params = testing::params(*workload, &[]);
            let roles = workload.layout(&testing::request(&params, 1)).expect(spec.name);
            assert!(roles.iter().all(|&role| role < spec.roles.len()), "{}", spec.name);
        }
    }

    #[test]
    fn every_workload_does_operations_with_its_defaults() {
        for workload in registry() {
            let params = testing::params(*workload, &[]);
            let group = testing::WorkerGroup::start(*workload, &params, 1);
            group.wait_until(workload.spec().name, |group| {
                group.slots().iter().map(Slot::ops).sum::<u64>() > 0
            });
            group.stop();
            let names: Vec<&str> = workload.metrics(&params).iter().map(|spec| spec.name).collect();
            let metrics = group.load().metrics(&group.measured());
            assert_eq!(metrics.iter().map(|m| m.kind.name.as_str()).collect::<Vec<_>>(), names);
        }
    }
}
