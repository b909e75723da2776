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
mod c_ray;
mod channels;
mod command;
mod contract;
mod deadline;
mod ebizzy;
mod error;
mod forkexec;
mod loopback;
mod messaging;
mod params;
mod pipe;
mod pool;
mod recorders;
mod schbench;
mod service_chain;
mod spin;
mod stream;
#[cfg(test)]
mod testing;
mod under_way;
mod wakeup;
mod worker;

use crate::model::{Cell, WorkerSet};
pub use burn::{Burner, Speed, Work as BurnWork};

pub use burnwait::{
    Item as BurnItem, MAX_KOPS as MAX_BURN_KOPS, MAX_WAIT_NS as MAX_BURN_WAIT_NS, QueueError,
    parse_queue as parse_burn_queue,
};
pub use command::{DISTRIBUTIONS, METRIC, PLACES, may_be_in_name, package};
pub use contract::{Latency, Load, Request, Role, Spec, WORK_TIME, Workload};
pub use error::WorkloadError;
pub use pool::Pool;
pub use recorders::Recorders;
pub use under_way::UnderWay;
pub use worker::{
    Burst, Control, MAX_COUNTERS, MAX_HISTOGRAMS, Measured, Opening, Slot, Worker, WorkerCounts,
};

/// Every workload, in the order of `schedlab list`.
pub fn registry() -> &'static [&'static dyn Workload] {
    &[
        &schbench::Schbench,
        &burnwait::Burnwait,
        &messaging::Messaging,
        &service_chain::ServiceChain,
        &pipe::Pipe,
        &loopback::Loopback,
        &deadline::Deadline,
        &forkexec::Forkexec,
        &spin::Spin,
        &c_ray::CRay,
        &ebizzy::Ebizzy,
        &stream::Stream,
        &command::Command,
        #[cfg(test)]
        &testing::Dummy,
    ]
}

/// Whether some work of a cell is given as a time.
pub fn is_timed(cell: &Cell) -> bool {
    let timed = |set: &WorkerSet| find(&set.workload).is_some_and(|of| of.is_timed(&set.params));
    cell.work.sets.iter().any(timed)
}

/// The workload of this name.
pub fn find(name: &str) -> Option<&'static dyn Workload> {
    registry().iter().copied().find(|workload| workload.spec().name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MetricKind;

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
            let made = group.load().metrics(&group.measured());
            let made: Vec<MetricKind> = made.into_iter().map(|metric| metric.kind).collect();
            assert_eq!(made, workload.metrics(&params));
        }
    }
}
