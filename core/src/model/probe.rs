//! A probe's description of itself. The plan's parser, its JSON Schema, `schedlab list probes` and the names that
//! `--metric` accepts follow from it. Plain data.

use super::{Direction, MetricKind, Statistic, Unit};

/// A probe as plans name it in `probes`.
#[derive(Debug)]
pub struct ProbeSpec {
    pub name: &'static str,
    /// One line: what it reports.
    pub about: &'static str,
    pub needs: &'static str,
    /// Metrics of each role of each worker set, of the CPUs and of the machine, in the order in which runs store
    /// them.
    pub metrics: &'static [ProbeMetric],
}

/// A metric of a role, of CPUs or of the machine. None of them is judged: they explain.
#[derive(Debug)]
pub struct ProbeMetric {
    pub name: &'static str,
    pub unit: Unit,
    pub about: &'static str,
    pub statistic: Statistic,
    /// The latency that it is of; `None`: it is of the role.
    pub latency: Option<&'static str>,
    pub scope: Scope,
}

/// The subjects for which a metric is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One for each role of the set: `ROLE_NAME`.
    Role,
    /// For each role, one by each role of the run, and one by all other tasks: `ROLE_NAME_OTHER`.
    Partner,
    /// One, of the workers' CPUs and whatever runs there: `cpus_NAME`. Each set of the run has it.
    Cpus,
    /// One, of the whole machine: `NAME`. Each set of the run has it.
    Machine,
}

/// The probes that count switches, the first one more than that.
pub const SCHED_PROBES: [&str; 2] = ["sched", "sched-light"];
/// The probe that keeps the scheduler's actions for [`crate::model::RunResult::trace`].
pub const TRACE_PROBE: &str = "sched-trace";
/// The subject of metrics that belong to no role.
const MACHINE: &str = "machine";
pub const CPUS: &str = "cpus";

/// The name for tasks that are not workers of this run, but preempted a role's workers or ran while they waited.
pub const OTHER_TASKS: &str = "others";
pub const VOLUNTARY: &str = "voluntary_switches";
pub const INVOLUNTARY: &str = "involuntary_switches";
pub const PREEMPTED_BY: &str = "preempted_by";
pub const WAITED_FOR: &str = "waited_for";

pub const QUEUE_WAIT: &str = "queue_wait";
pub const SLICE: &str = "slice";

impl ProbeSpec {
    /// Whether both report a metric of the same name, which a run could not keep twice.
    pub fn overlaps(&self, other: &ProbeSpec) -> bool {
        let is_others = |own: &ProbeMetric| other.metrics.iter().any(|of| of.name == own.name);
        self.metrics.iter().any(is_others)
    }

    /// All that it reports of `role`, of the CPUs and of the machine, in a run of these `partners`.
    pub fn metrics_of(&self, role: &str, partners: &[&str]) -> Vec<MetricKind> {
        let kinds = |metric: &ProbeMetric| match metric.scope {
            Scope::Role | Scope::Cpus | Scope::Machine => vec![metric.kind(role)],
            Scope::Partner => {
                let partners = partners.iter().chain([&OTHER_TASKS]);
                partners.map(|partner| metric.kind_by(role, partner)).collect()
            }
        };
        self.metrics.iter().flat_map(kinds).collect()
    }
}

impl ProbeMetric {
    /// A rate of events of a role.
    pub const fn rate(
        name: &'static str,
        about: &'static str,
        statistic: Statistic,
    ) -> ProbeMetric {
        let (unit, latency, scope) = (Unit::PerS, None, Scope::Role);
        ProbeMetric { name, unit, about, statistic, latency, scope }
    }

    /// A statistic of a latency.
    pub const fn time(
        name: &'static str,
        latency: &'static str,
        statistic: Statistic,
        about: &'static str,
    ) -> ProbeMetric {
        let (unit, latency, scope) = (Unit::Ns, Some(latency), Scope::Role);
        ProbeMetric { name, unit, about, statistic, latency, scope }
    }

    /// `role` is of no account to one of the CPUs or of the machine.
    pub fn kind(&self, role: &str) -> MetricKind {
        let ProbeMetric { name, unit, statistic, latency, scope, .. } = *self;
        let (name, subject) = match (scope, latency) {
            (Scope::Machine, _) => (name.to_string(), MACHINE.to_string()),
            (Scope::Cpus, _) => (format!("{CPUS}_{name}"), CPUS.to_string()),
            (_, None) => (format!("{role}_{name}"), role.to_string()),
            (_, Some(latency)) => (format!("{role}_{name}"), format!("{role}_{latency}")),
        };
        MetricKind::explaining(name, unit, Direction::Neutral, statistic).with_subject(subject)
    }

    /// The metric for one partner.
    pub fn kind_by(&self, role: &str, partner: &str) -> MetricKind {
        let kind = self.kind(role);
        MetricKind { name: format!("{}_{partner}", kind.name), ..kind }
    }
}

/// The other side of a metric called `name` that there is for each partner: the inverse of
/// [`ProbeMetric::kind_by`].
pub fn partner<'a>(kind: &'a MetricKind, name: &str) -> Option<&'a str> {
    let of_role = kind.name.strip_prefix(kind.subject.as_deref()?)?.strip_prefix('_')?;
    of_role.strip_prefix(name)?.strip_prefix('_')
}

/// The name of a workload's role in metrics: `schbench-worker` of schbench is called `worker`.
pub fn role_in_metrics<'a>(workload: &str, role: &'a str) -> &'a str {
    let rest = role.strip_prefix(workload).and_then(|rest| rest.strip_prefix('-'));
    rest.unwrap_or(role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_role() {
        let metric =
            |name, scope| ProbeMetric { scope, ..ProbeMetric::rate(name, "", Statistic::Count) };
        let metrics = vec![
            metric(VOLUNTARY, Scope::Role),
            metric("energy", Scope::Machine),
            metric("ipc", Scope::Cpus),
            metric(PREEMPTED_BY, Scope::Partner),
        ];
        let spec = ProbeSpec { name: "p", about: "", needs: "", metrics: metrics.leak() };
        let kinds = spec.metrics_of("worker", &["message", "worker"]);
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names[..3], ["worker_voluntary_switches", "energy", "cpus_ipc"]);
        assert_eq!(kinds[1].subject.as_deref(), Some(MACHINE));
        assert_eq!(kinds[2].subject.as_deref(), Some(CPUS));
        let by = ["message", "worker", "others"].map(|by| format!("worker_preempted_by_{by}"));
        assert_eq!(names[names.len() - 3..], by);
        assert_eq!(role_in_metrics("schbench", "schbench-worker"), "worker");
        assert_eq!(role_in_metrics("messaging", "sender"), "sender");
        assert_eq!(role_in_metrics("pipe", "pipeline"), "pipeline");
    }
}
