//! From the readings of a run to its result.

use std::collections::BTreeMap;

use crate::model::{
    ABOVE_WALL, CpuTimeOf, Disturbance, DisturbanceFact, KnobReading, MemoryPlacement,
    NamedHistogram, Reading, RunResult, RunSpec, SetChange, SetResult, Value, VariantResult,
    WorkerResult, WorkerSet, XEN_GUEST, are_above_wall, role_in_metrics,
};
use crate::probe::{Role, Telemetry};
use crate::stats::{self, Histogram, StandardInput, StandardLatency, StandardWorker};
use crate::sys::{Host, burst, policy_of};
use crate::variant;
use crate::workload::{self, MAX_COUNTERS, Spec, WorkerCounts};

use super::group::{Member, WorkerGroup};
use super::measure::{Measured, Sample, WorkerMeasured};

pub fn assemble(
    spec: &RunSpec,
    group: &WorkerGroup,
    measured: Measured,
    telemetry: &Telemetry,
    started_unix_ns: u64,
) -> RunResult {
    let (mut sets, mut disturbances) = variant_sets(&spec.cell.work.sets, group, &measured, None);
    add_telemetry(group, telemetry, &mut sets);
    disturbances.extend(made_up(spec));
    disturbances.extend(telemetry.disturbances());
    disturbances.extend(measured.changes.late());
    let mut knobs = read_knobs(spec, group);
    knobs.extend(measured.changes.readings());
    let own = RunResult::new(measured.section_ns, sets, Reading::Known(measured.overhead_cpu_ns));
    RunResult { started_unix_ns, disturbances, knobs, ..own }
}

/// The result of a run in which variants took turns.
pub fn assemble_in_turns(
    spec: &RunSpec,
    group: &WorkerGroup,
    in_turns: Vec<VariantResult>,
    overhead_cpu_ns: u64,
    started_unix_ns: u64,
) -> RunResult {
    RunResult {
        started_unix_ns,
        disturbances: made_up(spec).into_iter().collect(),
        knobs: read_knobs(spec, group),
        in_turns,
        ..RunResult::new(spec.duration_ns, Vec::new(), Reading::Known(overhead_cpu_ns))
    }
}

/// Work that is an amount, where the time of an instruction is made up.
fn made_up(spec: &RunSpec) -> Option<Disturbance> {
    let counted =
        if burst::is_possible() { workload::counted(&spec.cell.work) } else { Vec::new() };
    counted_work(counted)
}

/// All sets of a run, or of one variant of a run in turns.
pub fn variant_sets(
    sets: &[WorkerSet],
    group: &WorkerGroup,
    measured: &Measured,
    variant: Option<usize>,
) -> (Vec<SetResult>, Vec<Disturbance>) {
    let sets = sets
        .iter()
        .enumerate()
        .map(|(position, set)| measure_set(group, position, set, measured, variant));
    let (mut sets, under_way): (Vec<SetResult>, Vec<Vec<Disturbance>>) = sets.unzip();
    let above = leave_out_impossible(&mut sets, group.cpus().len());
    let disturbances = starved(group, &sets).into_iter().chain(above);
    let disturbances = disturbances.chain(under_way.into_iter().flatten()).collect();
    (sets, disturbances)
}

/// Adds the probes' metrics of each role of each set.
fn add_telemetry(group: &WorkerGroup, telemetry: &Telemetry, sets: &mut [SetResult]) {
    let specs = group.sets().iter().map(|set| set.spec);
    let roles = specs.flat_map(|spec| spec.roles.iter().map(move |role| (spec.name, role.name)));
    let threads: BTreeMap<&str, &str> =
        roles.map(|(workload, role)| (role, role_in_metrics(workload, role))).collect();
    for (position, set) in sets.iter_mut().enumerate() {
        let roles = group.sets()[position].spec.roles.iter().enumerate().map(|(at, role)| {
            let is_of = |member: &&Member| member.set == position && member.role == at;
            let tids = group.members().iter().filter(is_of).map(|member| member.slot.tid());
            Role { thread: role.name, tids: tids.collect() }
        });
        let roles: Vec<Role> = roles.filter(|role| !role.tids.is_empty()).collect();
        let (metrics, histograms) = telemetry.measured(&roles, &threads);
        set.metrics.extend(metrics);
        set.histograms.extend(histograms);
    }
}

/// The memory policy of the first worker, and the task knobs that read back on the first worker of
/// a set: the variant's on a set without knobs of its own, and all knobs of each other set, as
/// `SET: knob`. Those of a set that changes in mid-run are as after its last change.
fn read_knobs(spec: &RunSpec, group: &WorkerGroup) -> Vec<KnobReading> {
    let read = |position: usize| {
        let member = group.members().iter().find(|member| member.set == position);
        let before = &*group.sets()[position].knobs;
        let changes = &spec.cell.work.sets[position].changes;
        let last = SetChange::knobs_after(changes, before.clone()).last();
        let knobs = last.as_ref().unwrap_or(before);
        member.map_or(Vec::new(), |member| variant::read_task(knobs, member.slot.tid()))
    };
    let sets = &spec.cell.work.sets;
    let memory = spec.cell.placement.memory;
    let first = group.members().first().filter(|_| memory == MemoryPlacement::Interleave);
    let memory = first.map(|member| {
        let tid = member.slot.tid();
        let pid = if member.pid > 0 { member.pid } else { std::process::id() as i32 };
        let got = policy_of(&Host::default(), pid, tid);
        let asked = Value::Text(memory.word().to_string());
        KnobReading { knob: "memory".to_string(), asked, got: got.map(Value::Text) }
    });
    let is_plain = |set: &WorkerSet| set.knobs.is_empty() && set.changes.is_empty();
    let plain = sets.iter().position(is_plain);
    let mut readings: Vec<KnobReading> = memory.into_iter().collect();
    readings.extend(plain.map_or(Vec::new(), read));
    for (position, set) in sets.iter().enumerate().filter(|(_, set)| !is_plain(set)) {
        readings.extend(read(position).into_iter().map(|reading| KnobReading {
            knob: format!("{}: {}", set.name, reading.knob),
            ..reading
        }));
    }
    readings
}

fn measure_set(
    group: &WorkerGroup,
    position: usize,
    set: &WorkerSet,
    measured: &Measured,
    variant: Option<usize>,
) -> (SetResult, Vec<Disturbance>) {
    let prepared = &group.sets()[position];
    let own = || group.members().iter().zip(&measured.workers).filter(|(m, _)| m.set == position);
    let recorders = variant.map_or(&prepared.recorders, |at| &prepared.variant_recorders[at]);
    let ended = recorders.all_merged();
    let is_part = std::env::var_os(XEN_GUEST).is_some();
    let (histograms, mut lacking) =
        with_under_way(&set.name, prepared.spec, &ended, &measured.under_way[position], is_part);
    if variant.is_some() {
        let variants = prepared.variant_recorders.len() as u64;
        let all = ended.iter().zip(prepared.recorders.all_merged()).zip(prepared.spec.histograms);
        lacking.extend(all.filter_map(|((ended, cut), latency)| {
            cut_by_switches(&set.name, latency.name, ended, &cut, variants)
        }));
    }
    let mut counters = [0; MAX_COUNTERS];
    for (_, worker) in own() {
        counters.iter_mut().zip(worker.total.counters).for_each(|(sum, own)| *sum += own);
    }
    let workers = own().map(|(member, worker)| worker_result(group, member, worker)).collect();
    let windows: Vec<f64> = measured.windows.iter().filter_map(|sets| sets[position]).collect();
    let mut result = set_result(set, prepared.spec, workers, &histograms, &windows);
    let active_ns = match set.phase {
        None => measured.section_ns,
        Some(_) => own().map(|(_, worker)| worker.total.at_ns).max().unwrap_or(0),
    };
    if active_ns == 0 {
        let own = workload::find(&set.workload).map(|own| own.metrics(&set.params));
        let never = || Reading::Unknown(NEVER_BEGAN.to_string());
        result.metrics.extend(own.into_iter().flatten().map(|kind| kind.reading(never())));
    } else {
        result.metrics.extend(prepared.load.metrics(&workload::Measured {
            measured_ns: active_ns,
            gaps: measured.gaps,
            ops: own().map(|(_, worker)| worker.total.ops).sum(),
            window_ops_per_s: windows,
            counters,
            histograms: ended,
            workers: own().map(|(_, worker)| worker_counts(worker)).collect(),
        }));
    }
    result.program = group.sets()[position].load.record();
    (result, lacking)
}

/// Latencies of a set that have ended and those that have not, with the age that they had; and
/// where the latter make metrics lower bounds.
fn with_under_way(
    set: &str,
    spec: &Spec,
    ended: &[Histogram],
    ages: &[Histogram],
    is_part: bool,
) -> (Vec<Histogram>, Vec<Disturbance>) {
    let mut found = Vec::new();
    let all = ended.iter().zip(ages).zip(spec.histograms);
    let all = all.map(|((ended, ages), latency)| {
        found.extend(under_way(set, latency.name, ended, ages, is_part));
        let mut counted = ended.clone();
        counted.add_all(ages);
        counted
    });
    (all.collect(), found)
}

/// Latencies that have not ended, where they make metrics lower bounds. A part of a run always reports them: all
/// parts together may have quantiles that a single part lacks.
pub fn under_way(
    set: &str,
    latency: &str,
    ended: &Histogram,
    ages: &Histogram,
    is_part: bool,
) -> Option<Disturbance> {
    let bounds = stats::lower_bounds(ended, ages);
    let is_reported = !bounds.is_empty() || is_part && ages.total() > 0;
    is_reported.then(|| {
        let fact = DisturbanceFact::UnderWay {
            set: set.to_string(),
            latency: latency.to_string(),
            under_way: ages.total(),
            of: ended.total() + ages.total(),
            oldest_ns: ages.max_ns().unwrap_or(0),
            bounds: bounds.iter().map(|suffix| format!("{latency}_{suffix}")).collect(),
            ages: if is_part { ages.sparse() } else { Vec::new() },
        };
        Disturbance { share: None, fact }
    })
}

/// The variant's share of the latencies that switches cut, where it would make metrics longer.
fn cut_by_switches(
    set: &str,
    latency: &str,
    ended: &Histogram,
    cut: &Histogram,
    variants: u64,
) -> Option<Disturbance> {
    // The longest first, so that few of different lengths count, too.
    let mut rest = 0;
    let share = |(ns, count): (u64, u64)| {
        rest += count;
        let own = rest / variants;
        rest %= variants;
        (ns, own)
    };
    let own: Histogram = cut.sparse().into_iter().rev().map(share).collect();
    let bounds = stats::bounds_without(ended, &own);
    (!bounds.is_empty()).then(|| {
        let fact = DisturbanceFact::Cut {
            set: set.to_string(),
            latency: Some(latency.to_string()),
            cut: own.total(),
            of: ended.total() + own.total(),
            longest_ns: own.max_ns().unwrap_or(0),
            bounds: bounds.iter().map(|suffix| format!("{latency}_{suffix}")).collect(),
        };
        Disturbance { share: None, fact }
    })
}

/// Names sets whose work is an amount of operations, if there are any.
pub fn counted_work(sets: Vec<String>) -> Option<Disturbance> {
    (!sets.is_empty())
        .then_some(Disturbance { share: None, fact: DisturbanceFact::CountedWork { sets } })
}

/// The reason of a set whose phase was still to come when the run ended.
const NEVER_BEGAN: &str = "the run ended before the phase of its set began";

fn worker_counts(worker: &WorkerMeasured) -> WorkerCounts {
    let Sample { ops, counters, .. } = worker.total;
    WorkerCounts { wall_ns: worker.total.at_ns, ops, counters }
}

/// A worker set's standard metrics and histograms, which are the first of its workload's. Pure.
pub fn set_result(
    set: &WorkerSet,
    spec: &Spec,
    workers: Vec<WorkerResult>,
    histograms: &[Histogram],
    window_ops_per_s: &[f64],
) -> SetResult {
    let measured = || spec.histograms.iter().zip(histograms);
    let own = workload::find(&set.workload);
    let ops = own.map_or(spec.ops, |own| own.ops(&set.params));
    let throughput = own.map_or(spec.throughput, |own| own.throughput(&set.params));
    let latencies = measured().map(|(latency, histogram)| StandardLatency {
        name: latency.name,
        histogram,
        importance: latency.importance,
    });
    let standard = StandardInput {
        throughput,
        workers: workers
            .iter()
            .map(|result| StandardWorker { counts: counts(spec, &result.role), result })
            .collect(),
        latencies: latencies.collect(),
        window_ops_per_s,
        burst_ops: set.phase.and_then(|phase| phase.ops),
    };
    SetResult {
        name: set.name.clone(),
        workload: set.workload.clone(),
        ops: ops.to_string(),
        background: set.background,
        metrics: if spec.runs_programs { Vec::new() } else { stats::standard_metrics(&standard) },
        histograms: measured()
            .map(|(latency, histogram)| NamedHistogram {
                name: latency.name.to_string(),
                counts: histogram.sparse(),
            })
            .collect(),
        workers,
        program: None,
    }
}

fn counts(spec: &Spec, role: &str) -> bool {
    spec.roles.iter().any(|known| known.name == role && known.counts)
}

fn worker_result(group: &WorkerGroup, member: &Member, worker: &WorkerMeasured) -> WorkerResult {
    let (before, after) = &worker.tasks;
    WorkerResult {
        role: group.sets()[member.set].spec.roles[member.role].name.to_string(),
        tid: member.slot.tid(),
        ops: worker.total.ops,
        wall_ns: worker.total.at_ns,
        cpu_ns: worker.total.cpu_ns,
        counted_wall_ns: worker.tasks_wall_ns,
        voluntary_switches: since(&before.voluntary_switches, &after.voluntary_switches),
        involuntary_switches: since(&before.involuntary_switches, &after.involuntary_switches),
        migrations: since(&before.migrations, &after.migrations),
        run_queue_wait_ns: since(&before.run_queue_wait_ns, &after.run_queue_wait_ns),
    }
}

fn since(before: &Reading<u64>, after: &Reading<u64>) -> Reading<u64> {
    before.as_ref().zip(after.as_ref()).map(|(before, after)| after.saturating_sub(*before))
}

/// CPU time of the workers that cannot be, which becomes unknown in all sets: if one count is wrong, all may be.
fn leave_out_impossible(sets: &mut [SetResult], cpus: usize) -> Option<Disturbance> {
    let workers = || sets.iter().flat_map(|set| &set.workers);
    let times = workers().map(|worker| (worker.cpu_ns, worker.wall_ns));
    if !are_above_wall(times, Some(cpus)) {
        return None;
    }
    let cpu_ns: u64 = workers().map(|worker| worker.cpu_ns).sum();
    let wall_ns = workers().map(|worker| worker.wall_ns).max().unwrap_or(0);
    let counted_cpus = cpu_ns as f64 / wall_ns.max(1) as f64;
    let metrics = sets.iter_mut().flat_map(|set| &mut set.metrics);
    for metric in metrics.filter(|metric| metric.kind.name == stats::CPUS) {
        metric.value = Reading::Unknown(ABOVE_WALL.to_string());
    }
    let (of, cpus) = (CpuTimeOf::Workers, cpus as u32);
    let fact = DisturbanceFact::CpuTimeAboveWall { of, counted_cpus, cpus };
    Some(Disturbance { share: None, fact })
}

/// Workers that were there to do operations and did none: the scheduler (or a knob) never
/// gave them enough CPU. This is a finding, not an error.
fn starved(group: &WorkerGroup, sets: &[SetResult]) -> Vec<Disturbance> {
    let mut found = Vec::new();
    for (set, prepared) in sets.iter().zip(group.sets()) {
        if prepared.load.may_do_nothing() {
            continue;
        }
        let expected = set.workers.iter().filter(|worker| worker.wall_ns > 0);
        let expected = expected.filter(|worker| counts(prepared.spec, &worker.role));
        let (all, idle) = expected
            .fold((0, 0), |(all, idle), worker| (all + 1, idle + u32::from(worker.ops == 0)));
        if idle > 0 {
            let fact =
                DisturbanceFact::StarvedWorkers { set: set.name.clone(), idle, workers: all };
            found.push(Disturbance { share: None, fact });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::changes::Changed;
    use super::super::group::testing::{spinning, waiting};
    use super::*;
    use crate::model::testing::worker_result;
    use crate::model::{Importance, MetricKind};
    use crate::sys::task::TaskReader;

    /// The kinds of the metrics that a set of this workload has with its defaults.
    fn kinds(workload: &dyn workload::Workload) -> Vec<MetricKind> {
        let spec = workload.spec();
        let set = WorkerSet {
            name: "s".to_string(),
            workload: spec.name.to_string(),
            count: 1,
            ..Default::default()
        };
        let histograms = vec![Histogram::default(); spec.histograms.len()];
        let standard = set_result(&set, spec, Vec::new(), &histograms, &[]).metrics;
        let own = spec.metrics.iter().map(|metric| metric.kind());
        standard.into_iter().map(|metric| metric.kind).chain(own).collect()
    }

    #[test]
    fn every_workload_has_one_to_four_headline_metrics_and_each_name_once() {
        for workload in workload::registry() {
            let (name, kinds) = (workload.spec().name, kinds(*workload));
            let headlines = kinds.iter().filter(|kind| kind.importance == Importance::Headline);
            assert!((1..=4).contains(&headlines.count()), "{name}");
            for kind in &kinds {
                let same = kinds.iter().filter(|other| other.name == kind.name);
                assert_eq!(same.count(), 1, "{name}: {}", kind.name);
            }
        }
    }

    #[test]
    fn latencies_under_way_are_reported_where_a_metric_is_a_bound_and_always_of_a_part() {
        const MS: u64 = 1_000_000;
        let histogram = |samples: &[(u64, u64)]| samples.iter().copied().collect::<Histogram>();
        let reported = |ended: &[(u64, u64)], ages: &[(u64, u64)], is_part| {
            let found = under_way("web", "request", &histogram(ended), &histogram(ages), is_part)?;
            let DisturbanceFact::UnderWay { under_way, of, oldest_ns, bounds, ages, .. } =
                found.fact
            else {
                panic!("{found:?}")
            };
            Some((under_way, of, oldest_ns, bounds.join(" "), ages))
        };
        // No quantile has enough samples, and maximum and mean contain the ages.
        let bounds = "request_max request_mean".to_string();
        let few = reported(&[(MS, 2)], &[(900 * MS, 3)], false);
        assert_eq!(few, Some((3, 5, 900 * MS, bounds, Vec::new())));
        let many: &[(u64, u64)] = &[(MS, 98), (3 * MS, 1)];
        assert_eq!(reported(many, &[(MS / 2, 1)], false), None);
        let part = reported(many, &[(MS / 2, 1)], true);
        assert_eq!(part, Some((1, 100, MS / 2, String::new(), vec![(MS / 2, 1)])));
        assert_eq!(reported(many, &[], true), None);
    }

    #[test]
    fn latencies_that_switches_cut_are_reported_where_a_metric_would_be_longer() {
        const MS: u64 = 1_000_000;
        let histogram = |samples: &[(u64, u64)]| samples.iter().copied().collect::<Histogram>();
        let reported = |ended: &[(u64, u64)], cut: &[(u64, u64)]| {
            let found = cut_by_switches("web", "wakeup", &histogram(ended), &histogram(cut), 2)?;
            let DisturbanceFact::Cut { cut, of, longest_ns, bounds, .. } = found.fact else {
                panic!("{found:?}")
            };
            Some((cut, of, longest_ns, bounds.join(" ")))
        };
        let ended: &[(u64, u64)] = &[(MS, 960), (40 * MS, 5)];
        assert_eq!(reported(ended, &[]), None);
        assert_eq!(reported(ended, &[(MS, 100)]), None, "they would change nothing");
        assert_eq!(reported(ended, &[(70 * MS, 1)]), None, "less than one of each variant");
        let one_each = [(60 * MS, 1), (70 * MS, 1), (80 * MS, 1)];
        assert_eq!(reported(ended, &one_each).unwrap().0, 1, "of two variants");
        let longer = "wakeup_p99 wakeup_max wakeup_mean".to_string();
        assert_eq!(reported(ended, &[(70 * MS, 20)]), Some((10, 975, 70 * MS, longer)));
    }

    #[test]
    fn cpu_time_above_wall_time_is_reported_and_computed_into_nothing() {
        let worker = |cpu_ms: u64| worker_result(1, 10_000_000_000, cpu_ms * 1_000_000);
        let spec = workload::find("spin").unwrap().spec();
        let set =
            WorkerSet { name: "s".to_string(), workload: "spin".to_string(), ..Default::default() };
        let sets = |cpu_ms: &[&[u64]]| -> Vec<SetResult> {
            let of = |own: &&[u64]| {
                let workers = own.iter().map(|cpu_ms| worker(*cpu_ms)).collect();
                set_result(&set, spec, workers, &[], &[])
            };
            cpu_ms.iter().map(of).collect()
        };
        let cpus = |set: &SetResult| {
            let own = set.metrics.iter().find(|metric| metric.kind.name == stats::CPUS).unwrap();
            own.value.clone()
        };
        let mut possible = sets(&[&[5_000], &[10_000, 10_000]]);
        assert_eq!(leave_out_impossible(&mut possible, 3), None);
        assert_eq!(cpus(&possible[1]), Reading::Known(2.0));
        // Each worker had less than a CPU, but all together more than there were.
        let mut twice = sets(&[&[10_000; 4], &[10_000; 4]]);
        assert_eq!(cpus(&twice[0]), Reading::Known(4.0));
        let fact = leave_out_impossible(&mut twice, 4).unwrap().fact;
        let of = CpuTimeOf::Workers;
        assert_eq!(fact, DisturbanceFact::CpuTimeAboveWall { of, counted_cpus: 8.0, cpus: 4 });
        assert_eq!(cpus(&twice[0]), cpus(&twice[1]));
        assert_eq!(cpus(&twice[1]), Reading::Unknown(ABOVE_WALL.to_string()));
        let one = &sets(&[&[19_000, 5_000]])[0];
        assert!(matches!(cpus(one), Reading::Unknown(why) if why.contains(ABOVE_WALL)));
    }

    #[test]
    fn workers_with_more_cpu_time_than_there_was_are_reported() {
        const SECTION_NS: u64 = 1_000_000_000;
        let cell = spinning(WorkerSet { count: 1, ..Default::default() });
        let group = waiting(&cell, &BTreeMap::new());
        let is_reported = |cpu_ns| {
            let slot = group.members()[0].slot;
            let pid = std::process::id() as i32;
            let stats = || TaskReader::new(Host::default()).stats(pid, slot.tid());
            let total = Sample { at_ns: SECTION_NS, ops: 1, cpu_ns, ..Default::default() };
            let tasks = (stats(), stats());
            let measured = Measured {
                workers: vec![WorkerMeasured { total, tasks, tasks_wall_ns: SECTION_NS }],
                windows: Vec::new(),
                under_way: vec![Vec::new()],
                changes: Changed::default(),
                section_ns: SECTION_NS,
                gaps: 0,
                overhead_cpu_ns: 0,
            };
            let (_, found) = variant_sets(&cell.work.sets, &group, &measured, None);
            let is_it =
                |fact: &DisturbanceFact| matches!(fact, DisturbanceFact::CpuTimeAboveWall { .. });
            found.iter().any(|found| is_it(&found.fact))
        };
        assert_eq!([SECTION_NS, 9 * SECTION_NS].map(is_reported), [false, true]);
        group.stop();
    }

    /// If they had not, an old store could not be compared with a new one.
    #[test]
    fn metrics_of_format_1_have_the_kind_that_they_have_today() {
        let of_format_1 = [
            "schbench",
            "burnwait",
            "messaging",
            "service-chain",
            "pipe",
            "deadline",
            "forkexec",
            "spin",
        ];
        for name in of_format_1 {
            for kind in kinds(workload::find(name).expect(name)) {
                let legacy = MetricKind::legacy(name, &kind.name, kind.unit, kind.direction);
                assert_eq!(legacy, kind, "{name}");
            }
        }
    }
}
