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
mod lanes;
mod loopback;
mod messaging;
mod params;
mod pipe;
mod pool;
mod queue;
mod recorders;
mod rest;
mod schbench;
mod service_chain;
mod spin;
mod steps;
mod stream;
#[cfg(test)]
pub mod testing;
mod things;
mod under_way;
mod wakeup;
mod worker;

use crate::model::{Cell, Work, WorkerSet};
pub use burn::{Burner, Speed, Work as BurnWork};
pub use command::{DISTRIBUTIONS, METRIC, PLACES, check_output, may_be_in_name, package};
pub use contract::{Latency, Load, Request, Role, Spec, WORK_TIME, Workload};
pub use error::WorkloadError;
pub use lanes::{Lanes, MAX_COUNTERS, MAX_LANES, Turn};
pub use pool::Pool;
pub use queue::{
    Item as BurnItem, MAX_KOPS as MAX_BURN_KOPS, MAX_WAIT_NS as MAX_BURN_WAIT_NS, QueueError,
    parse_queue as parse_burn_queue,
};
pub use recorders::Recorders;
pub use steps::{
    DELAY, MAX_STEP_NAME_BYTES, MAX_STEP_TIME_NS, MAX_STEP_TIMES, MAX_STEPS, NAME as STEPS,
    Phase as StepPhase, RATE, RUN_CGROUP, Script as StepScript, Step, TimerPlace,
    Times as StepTimes, is_step_name, script as step_script,
};
pub use things::{MAX_READERS, Things};
pub use under_way::UnderWay;
pub use worker::{Burst, Control, MAX_HISTOGRAMS, Measured, Opening, Slot, Worker, WorkerCounts};

/// Every workload, in the order of `schedlab list`.
pub fn registry() -> &'static [&'static dyn Workload] {
    &[
        &schbench::Schbench,
        &burnwait::Burnwait,
        &steps::Steps,
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
    ]
}

/// Whether some work of a cell is given as a time.
pub fn is_timed(cell: &Cell) -> bool {
    let timed = |set: &WorkerSet| find(&set.workload).is_some_and(|of| of.is_timed(&set.params));
    cell.work.sets.iter().any(timed)
}

/// Sets of a work whose own work is given as an amount of operations.
pub fn counted(work: &Work) -> Vec<String> {
    sets(work, |workload, set| workload.is_counted(&set.params))
}

/// Sets of a work whose work is executed and could be given as a time.
pub fn executed(work: &Work) -> Vec<String> {
    sets(work, |workload, set| workload.is_executed(&set.params))
}

fn sets(work: &Work, has: impl Fn(&dyn Workload, &WorkerSet) -> bool) -> Vec<String> {
    let has = |set: &&WorkerSet| find(&set.workload).is_some_and(|workload| has(workload, set));
    work.sets.iter().filter(has).map(|set| set.name.clone()).collect()
}

/// The workload of this name.
pub fn find(name: &str) -> Option<&'static dyn Workload> {
    registry().iter().copied().find(|workload| workload.spec().name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MetricKind, Raw};

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
    fn work_that_is_an_amount_of_operations_is_another_load_in_the_lab() {
        let kops = |kops| Raw::Int(kops);
        let text = |text: &str| Raw::Text(text.to_string());
        let queue = |work: &str| Raw::List(vec![text(work), text("wait 1ms")]);
        type Case<'a> = (&'a str, &'a [(&'a str, Raw)], bool);
        let cases: &[Case] = &[
            ("burnwait", &[("queue", queue("burn 70"))], true),
            ("burnwait", &[("queue", queue("burn 70us"))], false),
            ("schbench", &[], true),
            ("schbench", &[("operations", kops(0))], false),
            ("schbench", &[("request", text("500us"))], false),
            ("schbench", &[("pipe", text("4KiB"))], false),
            ("service-chain", &[], true),
            ("service-chain", &[("front", text("20us"))], true),
            ("service-chain", &[("front-kops", kops(0)), ("hop", text("20us"))], false),
            ("deadline", &[("burn", kops(4))], true),
            ("deadline", &[("work", text("1ms"))], false),
            ("messaging", &[], false),
            ("pipe", &[], false),
            ("spin", &[], false),
        ];
        for (name, given, expected) in cases {
            let params = testing::params(find(name).unwrap(), given);
            let set = |name: &str, workload: &str| WorkerSet {
                name: name.to_string(),
                workload: workload.to_string(),
                params: params.clone(),
                ..Default::default()
            };
            let work =
                Work { sets: vec![set("own", name), set("idle", "pipe")], ..Default::default() };
            let names = counted(&work);
            assert_eq!(names == ["own"], *expected, "{name} {given:?}: {names:?}");
        }
    }

    #[test]
    fn every_workload_does_operations_with_its_defaults() {
        for workload in registry() {
            let params = testing::params(*workload, &[]);
            let group = testing::WorkerGroup::start(*workload, &params, 1);
            // A job that misses its deadline on a busy machine is counted, but is no operation.
            let works = |slot: &Slot| slot.ops() > 0 || slot.counters().iter().any(|one| *one > 0);
            group.wait_until(workload.spec().name, |group| group.slots().iter().any(works));
            group.stop();
            let made = group.load().metrics(&group.measured());
            let made: Vec<MetricKind> = made.into_iter().map(|metric| metric.kind).collect();
            assert_eq!(made, workload.metrics(&params));
        }
    }
}
