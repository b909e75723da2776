//! The probes that a plan may name, and what each adds to its runs: one table, from which the
//! plan's parser, its JSON Schema, `schedlab list probes`, what runs store and what `--metric` may
//! name follow. Plain data.

use super::{Direction, MetricKind, Statistic, Unit};

/// What a plan may name in `probes`.
pub struct Probe {
    pub name: &'static str,
    /// One line: what it gives.
    pub about: &'static str,
    pub needs: &'static str,
    /// Of each role of each worker set, in the order in which runs store them.
    pub metrics: &'static [ProbeMetric],
}

/// A metric of a role: `ROLE_NAME`. None of them is judged: they explain.
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

const fn rate(name: &'static str, about: &'static str, statistic: Statistic) -> ProbeMetric {
    ProbeMetric { name, unit: Unit::PerS, about, statistic, latency: None, by_partner: false }
}

const fn time(
    name: &'static str,
    latency: &'static str,
    statistic: Statistic,
    about: &'static str,
) -> ProbeMetric {
    let latency = Some(latency);
    ProbeMetric { name, unit: Unit::Ns, about, statistic, latency, by_partner: false }
}

pub const QUEUE_WAIT: &str = "queue_wait";
pub const SLICE: &str = "slice";
const MEDIAN: Statistic = Statistic::Quantile(500_000);
const P99: Statistic = Statistic::Quantile(990_000);

const SWITCHED_AWAY: ProbeMetric =
    rate(VOLUNTARY, "its workers gave up their CPU", Statistic::VoluntarySwitches);
const SWITCHED_OUT: ProbeMetric =
    rate(INVOLUNTARY, "its workers lost their CPU", Statistic::InvoluntarySwitches);
const WAIT_P50: ProbeMetric =
    time("queue_wait_p50", QUEUE_WAIT, MEDIAN, "waits for a CPU, the median");
const WAIT_P99: ProbeMetric = time("queue_wait_p99", QUEUE_WAIT, P99, "their 99th percentile");
const WAIT_MEAN: ProbeMetric = time("queue_wait_mean", QUEUE_WAIT, Statistic::Mean, "their mean");
const WAIT_MAX: ProbeMetric = time("queue_wait_max", QUEUE_WAIT, Statistic::Max, "the longest");

const NEEDS: &str =
    "nothing; all of it with root and BTF; with perf's tracepoints most, else what /proc has";

/// Every probe, that of most plans first.
pub const PROBES: &[Probe] = &[
    Probe {
        name: "sched",
        about: "of each role: switches, waits for a CPU, wakeups, migrations, slices, who preempted it",
        needs: NEEDS,
        metrics: &[
            SWITCHED_AWAY,
            SWITCHED_OUT,
            WAIT_P50,
            WAIT_P99,
            WAIT_MEAN,
            WAIT_MAX,
            rate("wakeups", "its workers were woken", Statistic::Count),
            rate("migrations", "its workers were moved to another CPU", Statistic::Count),
            time("slice_p50", SLICE, MEDIAN, "time on a CPU at a time, the median"),
            time("slice_p99", SLICE, P99, "its 99th percentile"),
            ProbeMetric {
                by_partner: true,
                ..rate(PREEMPTED_BY, "its workers lost their CPU to this role", Statistic::Count)
            },
        ],
    },
    Probe {
        name: "sched-light",
        about: "of each role: switches and waits for a CPU, at less cost",
        needs: NEEDS,
        metrics: &[SWITCHED_AWAY, SWITCHED_OUT, WAIT_P50, WAIT_P99, WAIT_MEAN, WAIT_MAX],
    },
];

impl Probe {
    pub fn named(name: &str) -> Option<&'static Probe> {
        PROBES.iter().find(|probe| probe.name == name)
    }

    pub fn names() -> Vec<&'static str> {
        PROBES.iter().map(|probe| probe.name).collect()
    }

    /// All that it gives of `role`, in a run of these `partners`.
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

/// How a role of a workload is called in names of metrics: `schbench-worker` of schbench is the
/// `worker` there.
pub fn role_in_metrics<'a>(workload: &str, role: &'a str) -> &'a str {
    let rest = role.strip_prefix(workload).and_then(|rest| rest.strip_prefix('-'));
    rest.unwrap_or(role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_is_named_once_described_and_counts_switches() {
        for probe in PROBES {
            assert_eq!(PROBES.iter().filter(|other| other.name == probe.name).count(), 1);
            for text in [probe.about, probe.needs] {
                assert!(!text.is_empty() && !text.contains('\n'), "{}", probe.name);
            }
            for name in [VOLUNTARY, INVOLUNTARY] {
                assert!(probe.metrics.iter().any(|metric| metric.name == name), "{}", probe.name);
            }
        }
    }

    #[test]
    fn names_of_a_role() {
        let kinds = PROBES[0].metrics_of("worker", &["message", "worker"]);
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
        assert_eq!(names[0], "worker_voluntary_switches");
        let by = ["message", "worker", "others"].map(|by| format!("worker_preempted_by_{by}"));
        assert_eq!(names[names.len() - 3..], by);
        assert_eq!(role_in_metrics("schbench", "schbench-worker"), "worker");
        assert_eq!(role_in_metrics("messaging", "sender"), "sender");
        assert_eq!(role_in_metrics("pipe", "pipeline"), "pipeline");
    }
}
