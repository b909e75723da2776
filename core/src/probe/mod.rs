//! Telemetry: disturbances of a run from outside, checks of this machine, and the probes that a plan may name.
//! Probes read; they change nothing.
//!
//! A probe is a file with a [`Probe`] and a line in [`registry`]; `schedlab list probes`, the plan parser, its JSON
//! Schema and the metrics of a run derive from its [`ProbeSpec`].

pub mod checkup;
mod contract;
mod counters;
pub mod disturbance;
mod run;
pub mod sched;

use std::sync::LazyLock;

use crate::model::ProbeSpec;

pub use contract::{MAX_WORKERS_AHEAD, Measured, Probe, Recording, Role};
pub use run::{Ahead, Telemetry};

/// Every probe, in the order of `schedlab list probes`.
pub fn registry() -> &'static [&'static dyn Probe] {
    REGISTRY
}

static REGISTRY: &[&dyn Probe] = &[
    &sched::SCHED,
    &sched::SCHED_LIGHT,
    &sched::SCHED_TRACE,
    &counters::COUNTERS,
    &counters::COUNTERS_BY_ROLE,
];

/// The description of every probe that a plan can name, in the order of [`registry`]: of those that measure something.
pub fn specs() -> &'static [&'static ProbeSpec] {
    static SPECS: LazyLock<Vec<&'static ProbeSpec>> = LazyLock::new(|| {
        let all = registry().iter().map(|probe| probe.spec());
        all.filter(|spec| !spec.metrics.is_empty()).collect()
    });
    &SPECS
}

pub fn find(name: &str) -> Option<&'static dyn Probe> {
    registry().iter().copied().find(|probe| probe.spec().name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_is_described_once_and_its_metrics_are_those_of_its_spec() {
        for spec in specs() {
            assert_eq!(specs().iter().filter(|other| other.name == spec.name).count(), 1);
            for text in [spec.about, spec.needs] {
                assert!(!text.is_empty() && !text.contains('\n'), "{}", spec.name);
            }
            assert!(find(spec.name).is_some_and(|probe| probe.spec().name == spec.name));
        }
    }
}
