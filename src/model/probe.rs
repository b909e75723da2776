//! The probes that a plan may name, and what each adds to its runs: one table, from which the
//! plan's parser, its JSON Schema, `schedlab list probes`, what runs store and what `--metric` may
//! name follow. Plain data.

use super::Unit;

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
    /// One for each role of the run, and one for all other tasks: `NAME_OTHER`.
    pub by_partner: bool,
}

/// What a role's workers were preempted by that are no workers of this run.
pub const OTHER_TASKS: &str = "others";
pub const VOLUNTARY: &str = "voluntary_switches";
pub const INVOLUNTARY: &str = "involuntary_switches";
pub const PREEMPTED_BY: &str = "preempted_by";

const fn of(name: &'static str, unit: Unit, about: &'static str) -> ProbeMetric {
    ProbeMetric { name, unit, about, by_partner: false }
}

const SWITCHED_AWAY: ProbeMetric = of(VOLUNTARY, Unit::PerS, "its workers gave up their CPU");
const SWITCHED_OUT: ProbeMetric = of(INVOLUNTARY, Unit::PerS, "its workers lost their CPU");
const WAIT_P50: ProbeMetric = of("queue_wait_p50", Unit::Ns, "waits for a CPU, the median");
const WAIT_P99: ProbeMetric = of("queue_wait_p99", Unit::Ns, "their 99th percentile");
const WAIT_MEAN: ProbeMetric = of("queue_wait_mean", Unit::Ns, "their mean");
const WAIT_MAX: ProbeMetric = of("queue_wait_max", Unit::Ns, "the longest");

const NEEDS: &str =
    "nothing; all of it with root and BTF; with perf's tracepoints most, else what /proc tells";

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
            of("wakeups", Unit::PerS, "its workers were woken"),
            of("migrations", Unit::PerS, "its workers were moved to another CPU"),
            of("slice_p50", Unit::Ns, "time on a CPU at a time, the median"),
            of("slice_p99", Unit::Ns, "its 99th percentile"),
            ProbeMetric {
                name: PREEMPTED_BY,
                unit: Unit::PerS,
                about: "its workers lost their CPU to this role",
                by_partner: true,
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

    /// Names of all that it gives of `role`, in a run of these `partners`.
    pub fn metrics_of(&self, role: &str, partners: &[&str]) -> Vec<String> {
        let mut names = Vec::new();
        for metric in self.metrics {
            let name = format!("{role}_{}", metric.name);
            if !metric.by_partner {
                names.push(name);
                continue;
            }
            let partners = partners.iter().chain([&OTHER_TASKS]);
            names.extend(partners.map(|partner| format!("{name}_{partner}")));
        }
        names
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
        let names = PROBES[0].metrics_of("worker", &["message", "worker"]);
        assert_eq!(names[0], "worker_voluntary_switches");
        let by = ["message", "worker", "others"].map(|by| format!("worker_preempted_by_{by}"));
        assert_eq!(names[names.len() - 3..], by);
        assert_eq!(role_in_metrics("schbench", "schbench-worker"), "worker");
        assert_eq!(role_in_metrics("messaging", "sender"), "sender");
        assert_eq!(role_in_metrics("pipe", "pipeline"), "pipeline");
    }
}
