//! What a probe says of itself: the plan's parser, its JSON Schema, `schedlab list probes` and what
//! `--metric` may name follow from it. Plain data.

use super::{Direction, MetricKind, Statistic, Unit};

/// A probe as plans name it in `probes`.
#[derive(Debug)]
pub struct ProbeSpec {
    pub name: &'static str,
    /// One line: what it reports.
    pub about: &'static str,
    pub needs: &'static str,
    /// Of each role of each worker set, in the order in which runs store them.
    pub metrics: &'static [ProbeMetric],
}

/// A metric of a role: `ROLE_NAME`. None of them is judged: they explain.
#[derive(Debug)]
pub struct ProbeMetric {
    pub name: &'static str,
    pub unit: Unit,
    pub about: &'static str,
    pub statistic: Statistic,
    /// The latency that it is of; `None`: it is of the role.
    pub latency: Option<&'static str>,
    /// One for each role of the run, and one for all other tasks: `NAME_OTHER`.
    pub by_partner: bool,
}

/// What a role's workers were preempted by that are no workers of this run.
pub const OTHER_TASKS: &str = "others";
pub const VOLUNTARY: &str = "voluntary_switches";
pub const INVOLUNTARY: &str = "involuntary_switches";
pub const PREEMPTED_BY: &str = "preempted_by";

pub const QUEUE_WAIT: &str = "queue_wait";
pub const SLICE: &str = "slice";

impl ProbeSpec {
    /// Whether both report a metric of the same name, which a run could not keep twice.
    pub fn overlaps(&self, other: &ProbeSpec) -> bool {
        let is_others = |own: &ProbeMetric| other.metrics.iter().any(|of| of.name == own.name);
        self.metrics.iter().any(is_others)
    }

    /// All that it reports of `role`, in a run of these `partners`.
    pub fn metrics_of(&self, role: &str, partners: &[&str]) -> Vec<MetricKind> {
        let kinds = |metric: &ProbeMetric| match metric.by_partner {
            false => vec![metric.kind(role)],
            true => {
                let partners = partners.iter().chain([&OTHER_TASKS]);
                partners.map(|partner| metric.kind_by(role, partner)).collect()
            }
        };
        self.metrics.iter().flat_map(kinds).collect()
    }
}

impl ProbeMetric {
    /// A rate of what happens to a role.
    pub const fn rate(
        name: &'static str,
        about: &'static str,
        statistic: Statistic,
    ) -> ProbeMetric {
        ProbeMetric { name, unit: Unit::PerS, about, statistic, latency: None, by_partner: false }
    }

    /// A statistic of a latency.
    pub const fn time(
        name: &'static str,
        latency: &'static str,
        statistic: Statistic,
        about: &'static str,
    ) -> ProbeMetric {
        let latency = Some(latency);
        ProbeMetric { name, unit: Unit::Ns, about, statistic, latency, by_partner: false }
    }
    pub fn kind(&self, role: &str) -> MetricKind {
        let ProbeMetric { name, unit, statistic, latency, .. } = *self;
        let name = format!("{role}_{name}");
        let subject = latency.map_or(role.to_string(), |latency| format!("{role}_{latency}"));
        MetricKind::explaining(name, unit, Direction::Neutral, statistic).of(subject)
    }

    /// One that there is for each partner.
    pub fn kind_by(&self, role: &str, partner: &str) -> MetricKind {
        let kind = self.kind(role);
        MetricKind { name: format!("{}_{partner}", kind.name), ..kind }
    }
}

/// What names of metrics call a role of a workload: `schbench-worker` of schbench is the
/// `worker` there.
pub fn role_in_metrics<'a>(workload: &str, role: &'a str) -> &'a str {
    let rest = role.strip_prefix(workload).and_then(|rest| rest.strip_prefix('-'));
    rest.unwrap_or(role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_role() {
        let metric = |name, by_partner| ProbeMetric {
            by_partner,
            ..ProbeMetric::rate(name, "", Statistic::Count)
        };
        let metrics = vec![metric(VOLUNTARY, false), metric(PREEMPTED_BY, true)];
        let spec = ProbeSpec { name: "p", about: "", needs: "", metrics: metrics.leak() };
        let kinds = spec.metrics_of("worker", &["message", "worker"]);
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names[0], "worker_voluntary_switches");
        let by = ["message", "worker", "others"].map(|by| format!("worker_preempted_by_{by}"));
        assert_eq!(names[names.len() - 3..], by);
        assert_eq!(role_in_metrics("schbench", "schbench-worker"), "worker");
        assert_eq!(role_in_metrics("messaging", "sender"), "sender");
        assert_eq!(role_in_metrics("pipe", "pipeline"), "pipeline");
    }
}
