//! Load generators. One file each and one line in [`registry`]; help, `schedlab list`, the
//! plan parser, the JSON Schema and the docs derive from [`Spec`].
//!
//! A workload says what it takes and measures ([`Workload::spec`]), which workers a set has
//! ([`Workload::layout`], pure), and makes what they share ([`Workload::prepare`]). Each
//! worker then runs [`Load::work`] in a thread or process of its own: it allocates and
//! touches all it needs, passes the barrier by [`Worker::start`], and loops for ever or
//! while [`Worker::running`]. Nothing waits for workers to end: when the measured section is
//! over, the runner reads their slots and its process exits.

mod spin;
mod worker;

use crate::model::{Field, Metric, MetricSpec, Params, WorkerKind};

pub use worker::{Control, MAX_COUNTERS, MAX_HISTOGRAMS, Measured, Slot, Worker};

/// Every workload, in the order of `schedlab list`.
pub fn registry() -> &'static [&'static dyn Workload] {
    &[&spin::Spin]
}

/// The workload of this name.
pub fn find(name: &str) -> Option<&'static dyn Workload> {
    registry().iter().copied().find(|workload| workload.spec().name == name)
}

/// What a workload is, takes and measures.
pub struct Spec {
    pub name: &'static str,
    pub about: &'static str,
    pub params: &'static [Field],
    /// Roles of workers; [`Workload::layout`] gives each worker an index into this.
    pub roles: &'static [Role],
    /// What one operation is, in the plural: `requests`, `round trips`.
    pub ops: &'static str,
    /// Latency histograms, in the order of [`Worker::record`]'s index; at most
    /// [`worker::MAX_HISTOGRAMS`]. Each gives `NAME_p50`, `_p99`, `_p99.9` and `_max`.
    pub histograms: &'static [Latency],
    /// Counters beside operations, in the order of [`Worker::count`]'s index; at most
    /// [`worker::MAX_COUNTERS`].
    pub counters: &'static [&'static str],
    /// Metrics of its own, computed by [`Load::metrics`], beside the standard ones
    /// (throughput, latencies, fairness, CPUs used, switches).
    pub metrics: &'static [MetricSpec],
}

pub struct Role {
    /// Also the thread's name: at most 15 bytes.
    pub name: &'static str,
    /// Whether operations of this role count for throughput and fairness.
    pub counts: bool,
}

pub struct Latency {
    pub name: &'static str,
    pub about: &'static str,
}

/// What a worker set is made from.
pub struct Request<'a> {
    pub params: &'a Params,
    pub count: u32,
    pub kind: WorkerKind,
    /// CPUs of the placement, for parameters that default to "one per CPU".
    pub cpus: u32,
    pub seed: u64,
}

pub trait Workload: Sync {
    fn spec(&self) -> &'static Spec;

    /// The role of each worker of one set, in start order: an index into [`Spec::roles`].
    /// Pure. The error says which parameters do not go together.
    fn layout(&self, request: &Request) -> Result<Vec<usize>, String>;

    /// Makes what the workers of one set share, before any of them exists. Memory that
    /// process workers write to comes from [`crate::sys::shared`].
    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, String>;
}

/// One worker set, ready to run. Shared by its workers.
pub trait Load: Send + Sync {
    /// The body of worker `index` of the set. An error fails the run with its text.
    fn work(&self, index: usize, worker: &Worker) -> Result<(), String>;

    /// The values of [`Spec::metrics`], in that order.
    fn metrics(&self, _measured: &Measured) -> Vec<Metric> {
        Vec::new()
    }
}
