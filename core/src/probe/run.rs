//! The probes of one run together.

use std::collections::BTreeMap;

use crate::model::{Disturbance, Trace};

use super::{MAX_WORKERS_AHEAD, Measured, Probe, Recording, Role, find};

/// Every probe that a plan names, opened for one run.
pub struct Telemetry(Vec<Box<dyn Recording>>);

/// Probes that were opened before the workers of their run were there, by name.
#[derive(Default)]
pub struct Ahead(BTreeMap<String, Box<dyn Recording>>);

impl Ahead {
    /// Those that can be.
    pub fn open<'a>(probes: impl Iterator<Item = &'a str>) -> Ahead {
        let open = |name: &str| Some((name.to_string(), find(name)?.open_ahead()?));
        Ahead(probes.filter_map(open).collect())
    }

    /// None of them if there is no room for so many workers.
    fn for_workers(self, workers: usize) -> Ahead {
        if workers > MAX_WORKERS_AHEAD as usize { Ahead::default() } else { self }
    }
}

impl Telemetry {
    /// Names that no probe has are left out: the plan's parser refuses them.
    pub fn open(probes: &[String], workers: &[i32], ahead: Ahead) -> Telemetry {
        let Ahead(mut ahead) = ahead.for_workers(workers.len());
        let probes = probes.iter().filter_map(|name| find(name));
        let open = |probe: &'static dyn Probe| {
            ahead.remove(probe.spec().name).unwrap_or_else(|| probe.open(workers))
        };
        Telemetry(probes.map(open).collect())
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

    pub fn take_trace(&mut self) -> Option<Trace> {
        self.0.iter_mut().find_map(|recording| recording.take_trace())
    }

    /// Metrics and histograms of one worker set; see [`Recording::measured`].
    pub fn measured(&self, roles: &[Role], names: &BTreeMap<&str, &str>) -> Measured {
        let (metrics, histograms): (Vec<_>, Vec<_>) =
            self.0.iter().map(|recording| recording.measured(roles, names)).unzip();
        (metrics.into_iter().flatten().collect(), histograms.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DisturbanceFact;

    /// It has a disturbance by which a test knows it.
    struct Fake;

    impl Recording for Fake {
        fn begin(&mut self) {}
        fn poll(&mut self) {}
        fn end(&mut self) {}

        fn disturbances(&self) -> Vec<Disturbance> {
            let fact = DisturbanceFact::ProbeSource {
                probe: "fake".to_string(),
                source: String::new(),
                missed: Vec::new(),
            };
            vec![Disturbance { share: None, fact }]
        }

        fn measured(&self, _: &[Role], _: &BTreeMap<&str, &str>) -> Measured {
            Default::default()
        }
    }

    fn ahead(probe: &str) -> Ahead {
        let opened: Box<dyn Recording> = Box::new(Fake);
        Ahead(BTreeMap::from([(probe.to_string(), opened)]))
    }

    #[test]
    fn a_probe_that_was_opened_ahead_is_used_unless_the_run_has_too_many_workers() {
        let is_used = |probe: &str| {
            let workers = [std::process::id() as i32];
            let telemetry = Telemetry::open(&["counters".to_string()], &workers, ahead(probe));
            telemetry.disturbances().iter().any(|seen| {
                matches!(&seen.fact, DisturbanceFact::ProbeSource { probe, .. } if probe == "fake")
            })
        };
        assert!(is_used("counters") && !is_used("sched"), "the run does not ask for it");
        let left = |workers| ahead("sched").for_workers(workers).0.len();
        let most = MAX_WORKERS_AHEAD as usize;
        assert_eq!((left(0), left(most), left(most + 1)), (1, 1, 0));
    }
}
