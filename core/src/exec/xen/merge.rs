//! Merges the results of all guests into that of one run: workers in the order of the guests, with the CPU time
//! that Xen counted. Pure.

use crate::model::{
    Direction, Disturbance, DisturbanceFact, DisturbanceKind, Metric, MetricKind, Reading,
    RunResult, SetResult, Statistic, Unit, Window, Work, WorkerResult, WorkerSet, WorkerWindow,
};
use crate::stats::Histogram;
use crate::workload::{self, Latency, Spec};

use crate::exec::{counted_work, set_result, under_way};

/// The metric of time that virtual CPUs waited for a CPU.
const READY: &str = "ready";

/// The measurements of one guest.
pub struct Part {
    /// The position of its worker set.
    pub set: usize,
    /// Virtual CPUs of the guest.
    pub cpus: u32,
    pub windows: Vec<Window>,
    pub result: RunResult,
}

/// The CPU time of each guest up to a moment.
pub struct Moment {
    pub at_ns: u64,
    pub cpu_ns: Vec<u64>,
}

/// `moments`: one more than windows.
pub fn merged(work: &Work, parts: Vec<Part>, moments: &[Moment]) -> (Vec<Window>, RunResult) {
    let windows = windows(work, &parts, moments);
    let mut sets = Vec::new();
    let (mut disturbances, mut counted) = (Vec::new(), Vec::new());
    for (position, set) in work.sets.iter().enumerate() {
        let own: Vec<usize> =
            (0..parts.len()).filter(|guest| parts[*guest].set == position).collect();
        let Some(known) = workload::find(&set.workload) else { continue };
        let (spec, latencies) = (known.spec(), known.histograms(&set.params));
        let all = || own.iter().map(|guest| (*guest, &parts[*guest].result));
        let workers: Vec<WorkerResult> =
            all().flat_map(|(guest, result)| workers(set, result, moments, guest)).collect();
        let results: Vec<&SetResult> =
            all().filter_map(|(_, result)| result.sets.first()).collect();
        let histograms: Vec<Histogram> =
            latencies.iter().map(|one| histogram(&results, one.name)).collect();
        let counting: Vec<bool> = workers
            .iter()
            .map(|worker| spec.roles.iter().any(|role| role.name == worker.role && role.counts))
            .collect();
        let before: usize = parts.iter().take_while(|part| part.set < position).map(width).sum();
        let rates: Vec<f64> =
            windows.iter().map(|window| rate(window, before, &counting)).collect();
        let mut result = set_result(set, spec, workers, &histograms, &rates);
        result.metrics.extend(own_metrics(&result.metrics, &results));
        result.metrics.push(ready(own.iter().map(|guest| &parts[*guest])));
        result.program = results.iter().find_map(|result| result.program.clone());
        sets.push(result);
        disturbances.extend(starved(&set.name, all().map(|(_, result)| result)));
        let guests = all().map(|(_, result)| result);
        disturbances.extend(under_way_in(&set.name, spec, &histograms, guests));
        counted.extend(all().any(|(_, result)| has_counted_work(result)).then(|| set.name.clone()));
    }
    disturbances.extend(counted_work(counted));
    let why = "it is that of the first domain, on a CPU of its own".to_string();
    let result = RunResult::new(0, sets, Reading::Unknown(why));
    (windows, RunResult { disturbances, ..result })
}

/// Workers of a guest.
fn width(part: &Part) -> usize {
    part.windows.first().map_or(0, |window| window.workers.len())
}

/// The time between two moments, and the CPU time of a guest in it.
fn between(first: &Moment, last: &Moment, guest: usize) -> (u64, u64) {
    let cpu_ns = last.cpu_ns[guest].saturating_sub(first.cpu_ns[guest]);
    (last.at_ns.saturating_sub(first.at_ns), cpu_ns)
}

/// The time in which operations were counted. A guest reads at a window's end once it has a CPU, and does nothing
/// before: the operations that it has counted by then belong to Xen's window, though its own seems shorter or
/// longer. A set with a phase had only a part of it.
fn wall(set: Option<&WorkerSet>, own_ns: u64, of_xen_ns: u64) -> u64 {
    let is_whole = set.is_some_and(|set| set.phase.is_none());
    if is_whole && own_ns > 0 { of_xen_ns } else { own_ns }
}

/// The time that Xen counted for a guest, shared among its workers in proportion to the guest's own counts.
fn shares(counted: &[u64], of_xen: u64) -> Vec<u64> {
    let all: u128 = counted.iter().map(|ns| u128::from(*ns)).sum();
    let share = |own: &u64| match all {
        0 => of_xen / counted.len().max(1) as u64,
        all => (u128::from(of_xen) * u128::from(*own) / all) as u64,
    };
    counted.iter().map(share).collect()
}

fn workers(
    set: &WorkerSet,
    result: &RunResult,
    moments: &[Moment],
    guest: usize,
) -> Vec<WorkerResult> {
    let whole = moments.first().zip(moments.last());
    let (wall_ns, of_xen) = whole.map_or((0, 0), |(first, last)| between(first, last, guest));
    let own: Vec<&WorkerResult> = result.sets.iter().flat_map(|set| &set.workers).collect();
    let counted: Vec<u64> = own.iter().map(|worker| worker.cpu_ns).collect();
    let shares = shares(&counted, of_xen);
    own.into_iter()
        .zip(shares)
        .map(|(own, cpu_ns)| {
            let wall_ns = wall(Some(set), own.wall_ns, wall_ns);
            WorkerResult { cpu_ns, wall_ns, ..own.clone() }
        })
        .collect()
}

/// Windows of all guests, as far as all have them.
fn windows(work: &Work, parts: &[Part], moments: &[Moment]) -> Vec<Window> {
    let count = parts.iter().map(|part| part.windows.len()).min().unwrap_or(0);
    let count = count.min(moments.len().saturating_sub(1));
    let of = |index: usize| {
        let of_guest = |(guest, part): (usize, &Part)| {
            let own = &part.windows[index].workers;
            let (wall_ns, of_xen) = between(&moments[index], &moments[index + 1], guest);
            let set = work.sets.get(part.set);
            let counted: Vec<u64> = own.iter().map(|worker| worker.cpu_ns).collect();
            let shares = shares(&counted, of_xen);
            let own = own.iter().zip(shares);
            own.map(|(own, cpu_ns)| {
                let wall_ns = wall(set, own.wall_ns, wall_ns);
                WorkerWindow { cpu_ns, wall_ns, ..*own }
            })
            .collect::<Vec<_>>()
        };
        let workers = parts.iter().enumerate().flat_map(of_guest).collect();
        Window { index: index as u32, workers }
    };
    (0..count).map(of).collect()
}

/// Operations per second of the counting workers from `first` on.
fn rate(window: &Window, first: usize, counting: &[bool]) -> f64 {
    let own = window.workers.iter().skip(first).zip(counting);
    let own = own.filter(|(worker, counts)| **counts && worker.wall_ns > 0);
    own.map(|(worker, _)| worker.ops as f64 * 1e9 / worker.wall_ns as f64).sum()
}

fn histogram(results: &[&SetResult], name: &str) -> Histogram {
    let all = results.iter().flat_map(|result| &result.histograms);
    let own = all.filter(|histogram| histogram.name == name);
    own.flat_map(|histogram| &histogram.counts).copied().collect()
}

/// The metrics of a workload beyond the standard ones: a guest's own where there is one guest.
fn own_metrics(standard: &[Metric], results: &[&SetResult]) -> Vec<Metric> {
    let Some(first) = results.first() else { return Vec::new() };
    let is_own = |metric: &&Metric| standard.iter().all(|known| known.kind != metric.kind);
    let merged = |metric: &Metric| match results.len() {
        1 => metric.clone(),
        _ => metric.kind.clone().reading(Reading::Unknown("each guest has its own".to_string())),
    };
    first.metrics.iter().filter(is_own).map(merged).collect()
}

/// CPUs that the guests of a set were ready to use and had not: virtual CPUs that could run and did not (Xen's
/// runstates `runnable` and `offline`), as each guest's kernel reads them from Xen.
fn ready<'a>(parts: impl Iterator<Item = &'a Part>) -> Metric {
    let of_guest = |part: &Part| {
        let shares = part.result.disturbances.iter().filter_map(|found| match found.fact {
            DisturbanceFact::Steal { share, .. } => Some(share),
            _ => None,
        });
        shares.sum::<f64>() * f64::from(part.cpus)
    };
    let kind = MetricKind::explaining(READY, Unit::Cpus, Direction::Neutral, Statistic::Count);
    kind.reading(Reading::Known(parts.map(of_guest).sum()))
}

/// Workers that did nothing. All other disturbances that a guest sees from outside, as stolen time, are being
/// measured.
fn starved<'a>(set: &str, results: impl Iterator<Item = &'a RunResult>) -> Option<Disturbance> {
    let facts =
        results.flat_map(|result| &result.disturbances).filter_map(|found| match &found.fact {
            DisturbanceFact::StarvedWorkers { idle, workers, .. } => Some((*idle, *workers)),
            _ => None,
        });
    let (idle, workers) = facts.fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
    let fact = DisturbanceFact::StarvedWorkers { set: set.to_string(), idle, workers };
    (idle > 0).then_some(Disturbance { share: None, fact })
}

fn has_counted_work(result: &RunResult) -> bool {
    let is_counted = |found: &Disturbance| found.kind() == DisturbanceKind::CountedWork;
    result.disturbances.iter().any(is_counted)
}

/// Latencies of a set that had not ended, where they make metrics of all guests together lower
/// bounds.
fn under_way_in<'a>(
    set: &str,
    spec: &Spec,
    histograms: &[Histogram],
    results: impl Iterator<Item = &'a RunResult> + Clone,
) -> Vec<Disturbance> {
    let of_latency = |(known, counted): (&Latency, &Histogram)| {
        let found = results.clone().flat_map(|result| &result.disturbances);
        let ages = found.filter_map(|found| match &found.fact {
            DisturbanceFact::UnderWay { latency, ages, .. } => {
                (latency == known.name).then_some(ages)
            }
            _ => None,
        });
        let merged: Histogram = ages.flatten().copied().collect();
        under_way(set, known.name, &counted.since(&merged), &merged, false)
    };
    spec.histograms.iter().zip(histograms).filter_map(of_latency).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::worker_result;
    use crate::model::{Phase, WorkerKind};

    fn set(name: &str, count: u32) -> WorkerSet {
        WorkerSet {
            name: name.to_string(),
            workload: "spin".to_string(),
            count,
            kind: WorkerKind::Guests,
            ..Default::default()
        }
    }

    /// One worker that did `ops` operations in each of two seconds.
    fn part(set: &WorkerSet, position: usize, ops: u64) -> Part {
        let spec = workload::find("spin").unwrap().spec();
        let worker = worker_result(2 * ops, 2_000_000_000, 2_000_000_000);
        let worker = WorkerResult { role: spec.roles[0].name.to_string(), ..worker };
        let window = |index: u32| {
            let end_at_ns = u64::from(index + 1) * 1_000_000_000;
            let worker = WorkerWindow {
                end_at_ns,
                wall_ns: 1_000_000_000,
                ops,
                cpu_ns: 1_000_000_000,
                peak_ns: 0,
            };
            Window { index, workers: vec![worker] }
        };
        let sets = vec![set_result(set, spec, vec![worker], &[], &[])];
        let result = RunResult::new(2_000_000_000, sets, Reading::Known(0));
        Part { set: position, cpus: 1, windows: vec![window(0), window(1)], result }
    }

    #[test]
    fn cpu_time_is_what_xen_counted() {
        let sets = vec![set("light", 1), set("heavy", 2)];
        let parts = vec![part(&sets[0], 0, 100), part(&sets[1], 1, 200), part(&sets[1], 1, 300)];
        // The guests' own windows have a second.
        const WINDOW_NS: u64 = 500_000_000;
        let read = [vec![5, 5, 5], vec![105, 405, 505], vec![305, 805, 1005]];
        let moment = |(at_ns, cpu_ns)| Moment { at_ns, cpu_ns };
        let moments: Vec<Moment> =
            (7..).step_by(WINDOW_NS as usize).zip(read).map(moment).collect();
        let work = Work { sets, ..Default::default() };
        let (windows, result) = merged(&work, parts, &moments);
        assert!(windows.iter().flat_map(|own| &own.workers).all(|own| own.wall_ns == WINDOW_NS));
        let of_window =
            |index: usize| windows[index].workers.iter().map(|own| own.cpu_ns).collect::<Vec<_>>();
        assert_eq!((of_window(0), of_window(1)), (vec![100, 400, 500], vec![200, 400, 500]));
        let workers = |set: usize| {
            let own = &result.sets[set].workers;
            own.iter().map(|own| (own.ops, own.cpu_ns)).collect::<Vec<_>>()
        };
        assert_eq!((workers(0), workers(1)), (vec![(200, 300)], vec![(400, 800), (600, 1000)]));
        let throughput = |set: usize| {
            let metrics = &result.sets[set].metrics;
            let found = metrics.iter().find(|metric| metric.kind.name == "throughput");
            found.unwrap().value.clone()
        };
        assert_eq!((throughput(0), throughput(1)), (Reading::Known(200.0), Reading::Known(1000.0)));
    }

    #[test]
    fn latencies_under_way_make_bounds_of_what_all_guests_have_together() {
        const MS: u64 = 1_000_000;
        let spec = workload::find("schbench").unwrap().spec();
        let latency = spec.histograms[0].name;
        let histogram = |samples: &[(u64, u64)]| samples.iter().copied().collect::<Histogram>();
        // A guest has too few for a p99, and its maximum and mean are not those of the younger one.
        let ended = &[(MS, 98), (3 * MS, 1)];
        let ages = histogram(&[(MS / 2, 1)]);
        let guest = || {
            let mut result = part(&set("s", 1), 0, 1).result;
            let reported = under_way("in the guest", latency, &histogram(ended), &ages, true);
            result.disturbances.extend(reported);
            result
        };
        let bounds = |guests: usize| {
            let results: Vec<RunResult> = (0..guests).map(|_| guest()).collect();
            let times = guests as u64;
            let counted = histogram(&[(MS / 2, times), (MS, 98 * times), (3 * MS, times)]);
            let found = under_way_in("s", spec, &[counted], results.iter());
            found.into_iter().map(|found| found.fact).collect::<Vec<_>>()
        };
        assert_eq!(bounds(1), []);
        let together = DisturbanceFact::UnderWay {
            set: "s".to_string(),
            latency: latency.to_string(),
            under_way: 10,
            of: 1000,
            oldest_ns: MS / 2,
            bounds: vec![format!("{latency}_p99")],
            ages: Vec::new(),
        };
        assert_eq!(bounds(10), [together]);
    }

    #[test]
    fn work_in_operations_is_reported_once_with_all_of_its_sets() {
        let sets = ["a", "b", "c"].map(|name| set(name, 2));
        let parts = [(0, true), (0, true), (1, false), (2, true)].map(|(position, is_counted)| {
            let mut part = part(&sets[position], position, 1);
            let own = is_counted.then(|| sets[position].name.clone());
            part.result.disturbances.extend(counted_work(own.into_iter().collect()));
            part
        });
        let work = Work { sets: sets.to_vec(), ..Default::default() };
        let (_, result) = merged(&work, parts.into(), &[]);
        let sets = vec!["a".to_string(), "c".to_string()];
        let fact = DisturbanceFact::CountedWork { sets };
        assert_eq!(result.disturbances, [Disturbance { share: None, fact }]);
    }

    #[test]
    fn a_set_with_a_phase_and_one_that_was_not_active_keep_their_own_time() {
        let whole = set("s", 1);
        let phased = WorkerSet { phase: Some(Phase::default()), ..set("s", 1) };
        assert_eq!(wall(Some(&whole), 900, 1000), 1000);
        assert_eq!(wall(Some(&whole), 0, 1000), 0);
        assert_eq!(wall(Some(&phased), 900, 1000), 900);
        assert_eq!(wall(None, 900, 1000), 900);
    }

    #[test]
    fn workers_of_one_guest_share_what_it_had() {
        assert_eq!(shares(&[30, 10], 20), [15, 5]);
        assert_eq!(shares(&[0, 0], 20), [10, 10]);
        assert_eq!(shares(&[], 20), [0; 0]);
    }
}
