//! Traits of a probe, and of a probe in one run.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Disturbance, Metric, NamedHistogram, ProbeSpec, Trace};

/// More workers than most runs have: their counts take memory before it is known how many come.
pub const MAX_WORKERS_AHEAD: u32 = 1 << 13;

/// A source of telemetry during runs.
pub trait Probe: Sync {
    fn spec(&self) -> &ProbeSpec;

    /// Opens it for a run of these workers (tasks), which wait at the barrier. A probe that cannot be opened gives
    /// metrics that are unknown and say why.
    fn open(&'static self, workers: &[i32]) -> Box<dyn Recording>;

    /// Opens it for a run of at most [`MAX_WORKERS_AHEAD`] workers that are not there yet; `None`: it cannot be.
    fn open_ahead(&'static self) -> Option<Box<dyn Recording>> {
        None
    }
}

/// A probe in one run. The first three are called in the measured section.
pub trait Recording {
    fn begin(&mut self);

    /// Called at the end of each window.
    fn poll(&mut self);

    fn end(&mut self);

    /// Facts about its way of counting that a reader has to know.
    fn disturbances(&self) -> Vec<Disturbance> {
        Vec::new()
    }

    /// The actions of the scheduler one by one, once: a probe that records them has them after the end.
    fn take_trace(&mut self) -> Option<Trace> {
        None
    }

    /// Metrics and histograms of one worker set; the names of both begin with the role's, except for metrics of the
    /// machine. `names` has the roles of all sets: the name of their threads, and the role's name in metrics.
    fn measured(&self, roles: &[Role], names: &BTreeMap<&str, &str>) -> Measured;
}

/// The metrics and histograms of a worker set.
pub type Measured = (Vec<Metric>, Vec<NamedHistogram>);

/// One role of one set: the name of its threads, and their tasks.
pub struct Role<'a> {
    pub thread: &'a str,
    pub tids: BTreeSet<i32>,
}
