//! Whether the metrics that `--metric` and `--margin` name are there.
//!
//! Input: patterns, cells of plans, metrics that stored runs have. What runs will have is
//! foreseen from their workloads. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::analysis::{metric_matches, takes_metric};
use crate::model::{
    Cell, MARGIN, MetricKind, Plan, ProbeSpec, SampledMetric, Work, WorkerSet, clean, mistyped,
    role_in_metrics, solo_names,
};
use crate::report::first_of;
use crate::stats::{Histogram, StandardInput, StandardLatency, late_to_early, standard_metrics};
use crate::{probe, workload};

use super::SessionError;

/// Metrics that a message names.
const MAX_NAMED: usize = 6;

/// A metric, and where it stands.
pub struct Place {
    pub work: String,
    is_solo_run: bool,
    pub set: String,
    pub kind: MetricKind,
}

impl Place {
    fn is_of(&self, pattern: &str) -> bool {
        metric_matches(pattern, &self.work, &self.set, &self.kind.name)
    }

    /// Whether the pattern takes the metric into the headline family.
    pub fn is_taken_by(&self, pattern: &str) -> bool {
        takes_metric(pattern, (&self.work, self.is_solo_run), &self.set, &self.kind.name)
    }
}

/// Ways to measure that add metrics to those of workloads.
#[derive(Clone, Copy, Default)]
pub struct Added<'a> {
    pub probes: &'a [String],
    pub takes_turns: bool,
}

impl<'a> Added<'a> {
    pub fn by(plan: &'a Plan) -> Added<'a> {
        Added { probes: &plan.probes, takes_turns: plan.measure.turns_ns.is_some() }
    }
}

/// The metrics of the foreground sets of these cells, each once: those that runs measured so have, and those
/// that `stored` ones had. `by_variant`: names of works include the variant.
pub fn places<'a>(
    cells: &'a [Cell],
    added: Added<'a>,
    stored: &'a [SampledMetric],
    by_variant: bool,
) -> impl Iterator<Item = Place> + 'a {
    let solo_runs: HashSet<String> = solo_names(cells.iter().map(|cell| &cell.work)).collect();
    let mut of_sets: HashMap<&str, Vec<&MetricKind>> = HashMap::new();
    for metric in stored {
        of_sets.entry(&metric.set).or_default().push(&metric.kind);
    }
    let mut seen = HashSet::new();
    let works = cells.iter().filter_map(move |cell| {
        let variant = by_variant.then(|| format!(" [{}]", cell.variant.name));
        let label = cell.work.label() + &variant.unwrap_or_default();
        // Other variants of a work have the same metrics.
        seen.insert(label.clone()).then_some((label, cell))
    });
    works.flat_map(move |(work, cell)| {
        let is_solo_run = solo_runs.contains(&cell.work.name);
        let partners = partners(&cell.work);
        let mut places = Vec::new();
        for set in cell.work.sets.iter().filter(|set| !set.background) {
            let stored = of_sets.get(set.name.as_str()).into_iter().flatten().copied().cloned();
            let kinds = foreseen(set).into_iter().chain(probed(set, added.probes, &partners));
            let kinds = kinds.chain(added.takes_turns.then(late_to_early)).chain(stored);
            places.extend(kinds.map(|kind| {
                let (work, set) = (work.clone(), set.name.clone());
                Place { work, is_solo_run, set, kind }
            }));
        }
        places
    })
}

/// The roles of all sets, as metrics call them.
fn partners(work: &Work) -> Vec<&'static str> {
    work.sets.iter().flat_map(roles).collect()
}

fn roles(set: &WorkerSet) -> Vec<&'static str> {
    let spec = workload::find(&set.workload).map(|workload| workload.spec());
    let roles =
        spec.map(|spec| spec.roles.iter().map(|role| role_in_metrics(spec.name, role.name)));
    roles.into_iter().flatten().collect()
}

/// The metrics of this set that the probes measure.
fn probed(set: &WorkerSet, probes: &[String], partners: &[&str]) -> Vec<MetricKind> {
    let probes = probes.iter().filter_map(|name| probe::find(name));
    let probes: Vec<&ProbeSpec> = probes.map(|probe| probe.spec()).collect();
    let roles = roles(set).into_iter();
    roles
        .flat_map(|role| probes.iter().flat_map(move |probe| probe.metrics_of(role, partners)))
        .collect()
}

/// The metrics that a run of this set has without probes, known or not; none if the workload does not exist.
fn foreseen(set: &WorkerSet) -> Vec<MetricKind> {
    let Some(workload) = workload::find(&set.workload) else { return Vec::new() };
    let empty = Histogram::default();
    let latencies = workload.histograms(&set.params).iter().map(|latency| StandardLatency {
        name: latency.name,
        histogram: &empty,
        importance: latency.importance,
    });
    let standard = standard_metrics(&StandardInput {
        throughput: workload.spec().throughput,
        workers: Vec::new(),
        latencies: latencies.collect(),
        window_ops_per_s: &[],
        burst_ops: set.phase.and_then(|phase| phase.ops),
    });
    let standard = if workload.spec().runs_programs { Vec::new() } else { standard };
    let own = workload.metrics(&set.params);
    standard.into_iter().map(|metric| metric.kind).chain(own).collect()
}

/// Fails with the first pattern, and the option that it was given to, that names none of them.
pub fn check<'a, I: Iterator<Item = Place>>(
    patterns: impl Iterator<Item = (&'static str, &'a str)>,
    places: impl Fn() -> I,
) -> Result<(), SessionError> {
    for (option, pattern) in patterns {
        // A margin holds for metrics that explain, too.
        let is_named = |at: Place| match option {
            MARGIN => at.is_of(pattern),
            _ => at.is_taken_by(pattern),
        };
        if !places().any(is_named) {
            let shown = clean(pattern);
            let text = format!("{option}: `{shown}` names no metric of what is compared");
            let hint = if pattern.contains(',') {
                format!("repeat {option} for each metric")
            } else {
                hint(pattern, places())
            };
            return Err(SessionError::usage(text, hint));
        }
    }
    Ok(())
}

/// The hint for a pattern that names nothing: the metrics that exist.
pub fn hint(pattern: &str, places: impl Iterator<Item = Place>) -> String {
    let mut seen = BTreeSet::new();
    let mut known = Vec::new();
    for Place { work, set, kind, .. } in places {
        let metric = kind.name;
        let names = match pattern.matches('/').count() {
            0 => vec![metric],
            1 => vec![format!("{work}/{metric}"), format!("{set}/{metric}")],
            _ => vec![format!("{work}/{set}/{metric}")],
        };
        known.extend(names.into_iter().filter(|name| seen.insert(name.clone())));
    }
    let near = mistyped(pattern, known.iter().map(String::as_str));
    let near = near.map_or(String::new(), |near| format!("did you mean `{}`? ", clean(near)));
    let known: Vec<String> = known.iter().map(|name| clean(name)).collect();
    let some = first_of(&known, MAX_NAMED);
    format!("{near}there are {some}: schedlab list workloads NAME")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Backend, Null};
    use crate::model::{Outcome, RunEnd, RunSpec};
    use crate::plan;
    use std::sync::atomic::AtomicBool;

    const PLAN: &str = "schema = 1\ntitle = \"t\"\n[measure]\nduration = \"1s\"\n[[variant]]\n\
        name = \"a\"\n[[workload]]\nname = \"web\"\nuse = \"schbench\"\nthreads = [2, 4]\n\
        [[workload]]\nname = \"mix\"\n[[workload.background]]\nname = \"load\"\nuse = \"spin\"\n\
        [[workload.set]]\nname = \"fore\"\nuse = \"spin\"\n";

    fn cells(text: &str) -> Vec<Cell> {
        plan::cells(
            &plan::parse("test.toml", text, None, crate::session::known())
                .expect("the plan is right"),
        )
    }

    fn fault(patterns: &[&str], by_variant: bool) -> Option<String> {
        fault_with(&[], patterns, by_variant)
    }

    fn fault_with(probes: &[&str], patterns: &[&str], by_variant: bool) -> Option<String> {
        let probes: Vec<String> = probes.iter().map(|name| name.to_string()).collect();
        let cells = cells(PLAN);
        let stored = SampledMetric {
            set: "fore".to_string(),
            ops: String::new(),
            kind: crate::model::MetricKind::explaining(
                "of_old",
                crate::model::Unit::Count,
                crate::model::Direction::Neutral,
                crate::model::Statistic::Count,
            ),
        };
        let stored = [stored];
        let patterns = patterns.iter().map(|pattern| ("--metric", *pattern));
        let added = Added { probes: &probes, takes_turns: false };
        let done = check(patterns, || places(&cells, added, &stored, by_variant));
        done.err().map(|failure| failure.to_string())
    }

    #[test]
    fn a_plan_in_turns_has_a_metric_more() {
        let cells = cells(PLAN);
        let named = |takes_turns| {
            let added = Added { takes_turns, ..Added::default() };
            check([("--metric", "late_to_early")].into_iter(), || places(&cells, added, &[], false))
        };
        assert!(named(true).is_ok());
        assert!(named(false).is_err());
    }

    #[test]
    fn patterns_that_name_nothing_are_reported_with_what_there_is() {
        for pattern in ["throughput", "web/wakeup_*", "schbench/request_p99", "of_old", "*"] {
            assert_eq!(fault(&[pattern], false), None, "{pattern}");
        }
        let cases: &[(&[&str], &str)] = &[
            (
                &["thoughput"],
                "--metric: `thoughput` names no metric of what is compared\nhint: did you mean `throughput`? there are throughput, ",
            ),
            (&["throughput", "nonesuch"], "`nonesuch` names no metric"),
            (&["mix/load/throughput"], "hint: did you mean `mix/fore/throughput`?"),
            (&["wbe/throughput"], "hint: did you mean `"),
            (&["mix/of_new"], "there are web threads=2/throughput, schbench/throughput, "),
            (&["throughput,fairness"], "hint: repeat --metric for each metric"),
            (&["\u{1b}"], "`\\u{1b}` names"),
            (&["web threads=2 [a]/throughput"], "names no metric"),
        ];
        for (patterns, expected) in cases {
            let fault = fault(patterns, false).expect("it names nothing");
            assert!(fault.contains(expected), "{patterns:?}: {fault}");
        }
        assert_eq!(fault(&["web threads=2 [a]/throughput", "web/throughput"], true), None);
    }

    /// A report takes no others into the headline family, and a table without rows answers nothing.
    #[test]
    fn a_metric_of_a_solo_run_is_named_as_such() {
        let mixed = PLAN.replace("name = \"mix\"\n", "name = \"mix\"\nsolo = true\n");
        let cells = cells(&mixed);
        let names = |option, pattern| {
            let places = || places(&cells, Added::default(), &[], false);
            check([(option, pattern)].into_iter(), places).is_ok()
        };
        let cases = [
            ("mix/throughput", [true, true]),
            ("mix solo fore/throughput", [true, true]),
            ("mix solo fore/fore/*", [true, true]),
            ("*fore/fore/throughput", [false, true]),
        ];
        for (pattern, expected) in cases {
            assert_eq!(["--metric", MARGIN].map(|of| names(of, pattern)), expected, "{pattern}");
        }
    }

    #[test]
    fn metrics_of_probes_are_foreseen_by_role() {
        for pattern in [
            "worker_voluntary_switches",
            "msg_queue_wait_p99",
            "schbench/worker_preempted_by_msg",
            "mix/fore/spin_preempted_by_others",
            "*involuntary_switches",
        ] {
            assert_eq!(fault_with(&["sched"], &[pattern], false), None, "{pattern}");
        }
        for (probe, pattern) in [
            ("counters", "cpus_ipc"),
            ("counters", "energy_package"),
            ("counters-by-role", "mix/fore/spin_cache_mpki"),
        ] {
            assert_eq!(fault_with(&[probe, "sched"], &[pattern], false), None, "{pattern}");
        }
        let role = "worker_voluntary_switches";
        assert!(fault(&[role], false).is_some(), "there is no probe");
        for pattern in ["sender_voluntary_switches", "worker_preempted_by_sender", "load_*"] {
            assert!(fault_with(&["sched"], &[pattern], false).is_some(), "{pattern}");
        }
        assert_eq!(fault_with(&["sched-light"], &[role], false), None);
        let more = fault_with(&["sched-light"], &["worker_wakeups"], false);
        assert!(more.is_some(), "that is of `sched`");
        let hint = fault_with(&["sched"], &["worker_volontary_switches"], false).unwrap();
        assert!(hint.contains("did you mean `worker_voluntary_switches`?"), "{hint}");
    }

    /// Else a metric that runs have would be refused before they were made.
    #[test]
    fn every_metric_that_runs_have_is_foreseen() {
        for workload in workload::registry() {
            let name = workload.spec().name;
            let needed = if workload.spec().runs_programs { "command = \"true\"" } else { "" };
            let text = format!(
                "schema = 1\ntitle = \"t\"\n[measure]\nduration = \"1s\"\n[[variant]]\n\
                 name = \"a\"\n[[workload]]\nuse = \"{name}\"\n{needed}"
            );
            for cell in cells(&text) {
                let spec = RunSpec {
                    duration_ns: 1_000_000_000,
                    window_ns: 250_000_000,
                    limit_ns: 9_000_000_000,
                    seed: 1,
                    ..RunSpec::new(cell.clone())
                };
                let cancel = AtomicBool::new(false);
                let ended = Null::default().run(&spec, &cancel, &mut |_| ());
                let RunEnd::Finished(Outcome::Done { result }) = ended else { panic!("{name}") };
                for set in &result.sets {
                    let own = cell.work.sets.iter().find(|own| own.name == set.name).unwrap();
                    let mut kinds = foreseen(own);
                    let mut made: Vec<MetricKind> =
                        set.metrics.iter().map(|metric| metric.kind.clone()).collect();
                    kinds.sort();
                    made.sort();
                    assert_eq!(kinds, made, "{name}");
                }
            }
        }
    }
}
