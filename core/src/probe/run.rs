//! The probes of one run together.

use std::collections::BTreeMap;

use crate::model::{Disturbance, Metric, NamedHistogram};

use super::{Recording, Role, find};

/// Every probe that a plan names, opened for one run.
pub struct Telemetry(Vec<Box<dyn Recording>>);

impl Telemetry {
    /// Names that no probe has are left out: the plan's parser refuses them.
    pub fn open(probes: &[String], workers: &[i32]) -> Telemetry {
        let probes = probes.iter().filter_map(|name| find(name));
        Telemetry(probes.map(|probe| probe.open(workers)).collect())
    }

    pub fn begin(&mut self) {
        self.0.iter_mut().for_each(|recording| recording.begin());
    }

    pub fn poll(&mut self) {
        self.0.iter_mut().for_each(|recording| recording.poll());
    }

    pub fn end(&mut self) {
        self.0.iter_mut().for_each(|recording| recording.end());
    }

    /// Facts about their way of counting that a reader has to know.
    pub fn disturbances(&self) -> Vec<Disturbance> {
        self.0.iter().flat_map(|recording| recording.disturbances()).collect()
    }

    /// Metrics and histograms of one worker set; see [`Recording::measured`].
    pub fn measured(
        &self,
        roles: &[Role],
        names: &BTreeMap<&str, &str>,
    ) -> (Vec<Metric>, Vec<NamedHistogram>) {
        let (metrics, histograms): (Vec<_>, Vec<_>) =
            self.0.iter().map(|recording| recording.measured(roles, names)).unzip();
        (metrics.into_iter().flatten().collect(), histograms.into_iter().flatten().collect())
    }
}
