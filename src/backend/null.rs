//! No machine: figures invented from plan and seed, at once. It makes exact tests of engine,
//! store and reports possible, and tries a plan without spending its time.
//!
//! Every throughput and latency is a fixed value per work times log-normal noise of 1 %,
//! drawn per run; `effects` multiplies the throughput of a variant. `faults` make chosen
//! runs fail. A worker's windows add up to its totals.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::exec;
use crate::model::{
    Cell, CpuSet, Environment, Outcome, Reading, RunEnd, RunResult, RunSpec, SetResult, Statistic,
    Topology, Turns, Unit, VariantResult, Window, WorkerResult, WorkerSet, WorkerWindow,
};
use crate::stats::{Histogram, late_to_early, nearest_rank};
use crate::workload::{self, Pool, Request, Spec};

use super::{Backend, BackendError, Capabilities, Entry, News, RunNews};

pub const ENTRY: Entry = Entry {
    name: "null",
    about: "no machine: invented figures that depend on plan and seed only",
    capabilities: Capabilities { invents_figures: true, ..Capabilities::NONE },
    make: |_| Ok(Box::new(Null::default())),
};

/// CPUs of the invented machine.
const CPUS: u32 = 2;
const SAMPLES: usize = 500;
/// The reason of what is not invented.
const NOWHERE: &str = "the null backend has no machine";
/// Added to the number of a stream of random numbers: windows have a stream of their own, so
/// that they neither change other figures nor resemble them.
const WINDOW_STREAM: u64 = 1 << 32;
/// As [`WINDOW_STREAM`], for the halves of blocks.
const HALVES_STREAM: u64 = 1 << 33;

#[derive(Debug, Clone, Default)]
pub struct Null {
    /// Factor on the throughput of the variant of this name.
    pub effects: BTreeMap<String, f64>,
    /// Runs of the cell of this index fail with this reason.
    pub faults: BTreeMap<u32, String>,
    /// Number of runs that the host ends, by the index of their cell.
    pub host_ends: BTreeMap<u32, u32>,
    /// The variant of this name is not supported, for this reason.
    pub missing: BTreeMap<String, String>,
}

impl Backend for Null {
    fn environment(&self) -> Environment {
        let all: CpuSet = (0..CPUS).collect();
        Environment {
            hostname: "null".to_string(),
            topology: Topology {
                online: all.clone(),
                allowed: all.clone(),
                llcs: vec![all.clone()],
                numa_nodes: vec![all],
                cores: (0..CPUS).map(|cpu| CpuSet::from_iter([cpu])).collect(),
            },
            kernel_release: "null".to_string(),
            kernel_version: "null".to_string(),
            cgroup_mode: "none".to_string(),
            ..Environment::unknown(NOWHERE)
        }
    }

    fn check(&self, cell: &Cell) -> Result<(), BackendError> {
        match self.missing.get(&cell.variant.name) {
            Some(reason) => Err(BackendError::Unsupported(reason.as_str().into())),
            None => Ok(()),
        }
    }

    fn run(&mut self, spec: &RunSpec, cancel: &AtomicBool, on_news: &mut News) -> RunEnd {
        if cancel.load(Relaxed) {
            return RunEnd::Interrupted;
        }
        if let Some(turns) = &spec.turns {
            return self.run_in_turns(spec, turns, cancel, on_news);
        }
        if let Some(reason) = self.faults.get(&spec.cell.index) {
            return RunEnd::Finished(Outcome::Failed { reason: reason.clone() });
        }
        let effect = self.effects.get(&spec.cell.variant.name).copied().unwrap_or(1.0);
        let mut rng = ChaCha8Rng::seed_from_u64(spec.seed);
        rng.set_stream(u64::from(spec.cell.index));
        let mut pace_rng = rng.clone();
        pace_rng.set_stream(u64::from(spec.cell.index) | WINDOW_STREAM);
        let sets = spec.cell.work.sets.iter();
        let invented = sets.map(|set| {
            let noise = noise(&mut rng);
            let pace = Pace::invent(spec, active(set, spec, effect * noise), &mut pace_rng);
            Ok((invent(set, spec, effect, noise, &pace, &mut rng)?, pace))
        });
        match invented.collect::<Result<Vec<(SetResult, Pace)>, Outcome>>() {
            Ok(invented) => {
                for (at, end_ns) in window_ends_ns(spec).enumerate() {
                    let window = window(&invented, at, spec.warmup_ns + end_ns, &mut pace_rng);
                    on_news(RunNews::Window(window));
                }
                if let Some(left @ 1..) = self.host_ends.get_mut(&spec.cell.index) {
                    *left -= 1;
                    return RunEnd::HostEnded { reason: "killed".to_string() };
                }
                let sets = invented.into_iter().map(|(set, _)| set).collect();
                RunEnd::Finished(Outcome::Done { result: Box::new(result(sets, spec)) })
            }
            Err(failed) => RunEnd::Finished(failed),
        }
    }
}

impl Null {
    /// Each variant has the figures of a run of its own.
    fn run_in_turns(
        &mut self,
        spec: &RunSpec,
        turns: &Turns,
        cancel: &AtomicBool,
        on_news: &mut News,
    ) -> RunEnd {
        let variants = turns.variants.len() as u64;
        let mut all = result(Vec::new(), spec);
        let mut windows: BTreeMap<u32, Vec<WorkerWindow>> = BTreeMap::new();
        for (index, variant) in (spec.cell.index..).zip(&turns.variants) {
            let cell = Cell { index, variant: variant.clone(), ..spec.cell.clone() };
            let (duration_ns, window_ns) = (spec.duration_ns / variants, spec.window_ns / variants);
            let own = RunSpec { cell, duration_ns, window_ns, turns: None, ..spec.clone() };
            let ended = self.run(&own, cancel, &mut |news| match news {
                RunNews::Window(window) => {
                    windows.entry(window.index).or_default().extend(window.workers);
                }
                other => on_news(other),
            });
            let RunEnd::Finished(Outcome::Done { result }) = ended else { return ended };
            let RunResult { measured_ns, mut sets, knobs, disturbances, .. } = *result;
            let mut rng = ChaCha8Rng::seed_from_u64(spec.seed);
            rng.set_stream(u64::from(index) | HALVES_STREAM);
            for set in &mut sets {
                set.metrics.push(late_to_early().reading(Reading::Known(noise(&mut rng))));
            }
            all.in_turns.push(VariantResult { measured_ns, sets, knobs, disturbances });
        }
        for (index, workers) in windows {
            on_news(RunNews::Window(Window { index, workers }));
        }
        RunEnd::Finished(Outcome::Done { result: Box::new(all) })
    }
}

fn result(sets: Vec<SetResult>, spec: &RunSpec) -> RunResult {
    RunResult::new(spec.duration_ns, sets, Reading::Unknown(NOWHERE.to_string()))
}

/// Ends of the windows, from the start of the measured section; the last may be short.
fn window_ends_ns(spec: &RunSpec) -> impl Iterator<Item = u64> {
    let (window_ns, duration_ns) = (spec.window_ns.max(1), spec.duration_ns);
    (1..=duration_ns.div_ceil(window_ns)).map(move |n| (n * window_ns).min(duration_ns))
}

/// Operations per second of a worker that nothing slows down.
const OPS_PER_S: f64 = 1000.0;

/// When a set is active, from the start of the measured section. A burst ends with its operations.
fn active(set: &WorkerSet, spec: &RunSpec, factor: f64) -> Range<u64> {
    let Some(phase) = set.phase else { return 0..spec.duration_ns };
    let end_ns = phase.end_ns().unwrap_or(spec.duration_ns).min(spec.duration_ns);
    let burst_ns = |ops: u64| (ops as f64 * 1e9 / (OPS_PER_S * factor) + 2.0) as u64;
    let done_ns = phase.ops.map(|ops| phase.at_ns.saturating_add(burst_ns(ops)));
    phase.at_ns..done_ns.map_or(end_ns, |done_ns| done_ns.min(end_ns))
}

/// How the work of a set spreads over its windows.
struct Pace {
    windows: Vec<PaceWindow>,
}

struct PaceWindow {
    /// Time in which the set is active.
    wall_ns: u64,
    /// The share of all work that is done by its end: of the last one 1.
    done: f64,
}

impl Pace {
    fn invent(spec: &RunSpec, active: Range<u64>, rng: &mut ChaCha8Rng) -> Self {
        let (mut begin_ns, mut done) = (0, 0.0);
        let mut windows: Vec<PaceWindow> = window_ends_ns(spec)
            .map(|end_ns| {
                let until_ns = end_ns.min(active.end);
                let wall_ns = until_ns.saturating_sub(active.start.max(begin_ns));
                done += wall_ns as f64 * noise(rng);
                begin_ns = end_ns;
                PaceWindow { wall_ns, done }
            })
            .collect();
        windows.iter_mut().for_each(|window| window.done /= done);
        Pace { windows }
    }

    fn active_ns(&self) -> u64 {
        self.windows.iter().map(|window| window.wall_ns).sum()
    }

    /// The part of a worker's `total` in the window at `at`; the windows add up to the total.
    fn part(&self, total: u64, at: usize) -> u64 {
        let until = |at: usize| (total as f64 * self.windows[at].done) as u64;
        until(at) - at.checked_sub(1).map_or(0, until)
    }

    /// The set's operations per second in each window in which it is active.
    fn ops_per_s(&self, workers: &[WorkerResult]) -> Vec<f64> {
        let windows = self.windows.iter().enumerate().filter(|(_, window)| window.wall_ns > 0);
        let rate = |(at, window): (usize, &PaceWindow)| {
            let ops: u64 = workers.iter().map(|worker| self.part(worker.ops, at)).sum();
            ops as f64 * 1e9 / window.wall_ns as f64
        };
        windows.map(rate).collect()
    }
}

fn invent(
    set: &WorkerSet,
    spec: &RunSpec,
    effect: f64,
    noise: f64,
    pace: &Pace,
    rng: &mut ChaCha8Rng,
) -> Result<SetResult, Outcome> {
    let failed = |reason: String| Outcome::Failed { reason };
    let workload = workload::find(&set.workload)
        .ok_or_else(|| failed(format!("there is no workload `{}`", set.workload)))?;
    let cpus = spec.cell.placement.cpus.clone().unwrap_or((0..CPUS).collect());
    let (params, pool) = (&set.params, Pool::new(cpus, &[]));
    let request = Request {
        params,
        count: set.max_count(),
        kind: set.kind,
        pool: &pool,
        seed: spec.seed,
        speed: Default::default(),
    };
    let described = workload.spec();
    let (active_ns, most) = (pace.active_ns(), set.phase.and_then(|phase| phase.ops));
    let workers: Vec<WorkerResult> = workload
        .layout(&request)
        .map_err(|error| failed(error.to_string()))?
        .into_iter()
        .map(|role| invent_worker(described, role, active_ns, effect * noise))
        .map(|worker| WorkerResult { ops: worker.ops.min(most.unwrap_or(u64::MAX)), ..worker })
        .collect();
    let histograms: Vec<Histogram> =
        workload.histograms(params).iter().map(|_| invent_histogram(rng, noise)).collect();
    let mut windows = pace.ops_per_s(&workers);
    let mut result = exec::set_result(set, described, workers, &histograms, &windows);
    windows.sort_by(f64::total_cmp);
    let ops = result.workers.iter().map(|worker| worker.ops).sum::<u64>();
    let ops_per_s = ops as f64 * 1e9 / active_ns as f64;
    for metric in workload.metrics(params) {
        let value = match (metric.unit, metric.statistic) {
            (Unit::OpsPerS, Statistic::Quantile(ppm)) => {
                nearest_rank(&windows, ppm / 1000).unwrap_or(ops_per_s)
            }
            (Unit::OpsPerS, _) => ops_per_s,
            _ => noise,
        };
        result.metrics.push(metric.reading(Reading::Known(value)));
    }
    Ok(result)
}

fn invent_worker(described: &Spec, role: usize, duration_ns: u64, factor: f64) -> WorkerResult {
    let role = &described.roles[role];
    let per_s = if role.counts { OPS_PER_S * factor } else { 0.0 };
    WorkerResult {
        role: role.name.to_string(),
        tid: 0,
        ops: (per_s * duration_ns as f64 / 1e9) as u64,
        wall_ns: duration_ns,
        cpu_ns: duration_ns / 2,
        counted_wall_ns: duration_ns,
        voluntary_switches: Reading::Known(100),
        involuntary_switches: Reading::Known(10),
        migrations: Reading::Unknown(NOWHERE.to_string()),
        run_queue_wait_ns: Reading::Unknown(NOWHERE.to_string()),
    }
}

fn invent_histogram(rng: &mut ChaCha8Rng, factor: f64) -> Histogram {
    (0..SAMPLES).map(|_| (latency_ns(factor, rng), 1)).collect()
}

fn latency_ns(factor: f64, rng: &mut ChaCha8Rng) -> u64 {
    (10_000.0 * factor * noise(rng).powi(50)) as u64
}

/// Log-normal with a sigma of 1 %, by the sum of twelve uniforms.
fn noise(rng: &mut ChaCha8Rng) -> f64 {
    let sum: f64 = (0..12).map(|_| rng.random::<f64>()).sum();
    ((sum - 6.0) * 0.01).exp()
}

/// The window at `at`. A worker's largest delay in it is drawn like its set's latencies, and
/// does not exceed the largest of these.
fn window(sets: &[(SetResult, Pace)], at: usize, end_at_ns: u64, rng: &mut ChaCha8Rng) -> Window {
    let mut workers = Vec::new();
    for (set, pace) in sets {
        let samples = set.histograms.iter().filter_map(|histogram| histogram.counts.last());
        let longest_ns = samples.map(|(value_ns, _)| *value_ns).max().unwrap_or(0);
        let wall_ns = pace.windows[at].wall_ns;
        workers.extend(set.workers.iter().map(|worker| WorkerWindow {
            end_at_ns,
            wall_ns,
            ops: pace.part(worker.ops, at),
            cpu_ns: pace.part(worker.cpu_ns, at),
            peak_ns: latency_ns(1.0, rng).min(if wall_ns > 0 { longest_ns } else { 0 }),
        }));
    }
    Window { index: at as u32, workers }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Params, Phase, Placement, Variant, Work};

    const MS: u64 = 1_000_000;

    /// `schbench`, some of whose workers count nothing, and two of `spin`, which has no
    /// latencies.
    fn spec(duration_ns: u64, window_ns: u64) -> RunSpec {
        let set = |workload: &str| {
            let fields = workload::find(workload).unwrap().spec().params;
            let params: Params = fields
                .iter()
                .filter_map(|field| Some((field.name.to_string(), field.default_value()?)))
                .collect();
            WorkerSet {
                name: workload.to_string(),
                workload: workload.to_string(),
                params,
                count: 2,
                ..Default::default()
            }
        };
        let sets = vec![set("schbench"), set("spin")];
        RunSpec {
            warmup_ns: 100 * MS,
            duration_ns,
            window_ns,
            limit_ns: u64::MAX,
            seed: 7,
            ..RunSpec::new(Cell {
                index: 3,
                variant: Variant { name: "v".to_string(), knobs: BTreeMap::new() },
                work: Work { name: "w".to_string(), sets, ..Default::default() },
                placement: Placement::default(),
            })
        }
    }

    fn run(spec: &RunSpec) -> (RunResult, Vec<Window>) {
        let mut windows = Vec::new();
        let cancel = AtomicBool::new(false);
        let mut on_news = |news| match news {
            RunNews::Window(window) => windows.push(window),
            other => panic!("{other:?}"),
        };
        match Null::default().run(spec, &cancel, &mut on_news) {
            RunEnd::Finished(Outcome::Done { result }) => (*result, windows),
            other => panic!("{other:?}"),
        }
    }

    fn value(set: &SetResult, name: &str) -> f64 {
        let metric = set.metrics.iter().find(|metric| metric.kind.name == name).unwrap();
        metric.value.clone().known().unwrap_or_else(|| panic!("{name}: {:?}", metric.value))
    }

    #[test]
    fn windows_add_up_to_the_totals_of_the_run() {
        for (duration_ns, window_ns, expected) in [
            (1000 * MS, 250 * MS, vec![250, 500, 750, 1000]),
            (1000 * MS, 300 * MS, vec![300, 600, 900, 1000]),
            (1000 * MS, 1000 * MS, vec![1000]),
            (1000 * MS, 9000 * MS, vec![1000]),
        ] {
            let spec = spec(duration_ns, window_ns);
            let (result, windows) = run(&spec);
            let indices: Vec<u32> = windows.iter().map(|window| window.index).collect();
            assert_eq!(indices, (0..expected.len() as u32).collect::<Vec<_>>());
            let workers: Vec<&WorkerResult> =
                result.sets.iter().flat_map(|set| &set.workers).collect();
            assert!(workers.iter().any(|worker| worker.ops == 0), "a role that does not count");
            for (at, worker) in workers.iter().enumerate() {
                let own: Vec<WorkerWindow> =
                    windows.iter().map(|window| window.workers[at]).collect();
                let ends: Vec<u64> = own.iter().map(|window| window.end_at_ns / MS - 100).collect();
                assert_eq!(ends, expected);
                let sum = |part: fn(&WorkerWindow) -> u64| own.iter().map(part).sum::<u64>();
                let sums = (sum(|own| own.ops), sum(|own| own.cpu_ns), sum(|own| own.wall_ns));
                assert_eq!(sums, (worker.ops, worker.cpu_ns, worker.wall_ns));
                assert!(own.iter().all(|window| window.cpu_ns <= window.wall_ns));
            }
        }
    }

    #[test]
    fn metrics_over_windows_are_those_of_the_windows_passed() {
        let (result, windows) = run(&spec(1000 * MS, 150 * MS));
        let mut from = 0;
        for set in &result.sets {
            let own = from..from + set.workers.len();
            from = own.end;
            let mut rates: Vec<f64> = windows
                .iter()
                .map(|window| {
                    let workers = &window.workers[own.clone()];
                    let ops: u64 = workers.iter().map(|worker| worker.ops).sum();
                    ops as f64 * 1e9 / workers[0].wall_ns as f64
                })
                .collect();
            let cv = crate::stats::cv(&rates).unwrap();
            assert!((0.001..0.05).contains(&cv), "{cv}");
            assert_eq!(value(set, "window_cv"), cv);
            rates.sort_by(f64::total_cmp);
            if set.workload == "schbench" {
                // With seven rates, the ranks are the 2nd, 4th and 7th.
                let ranks = ["rps_p20", "rps_p50", "rps_p90"].map(|name| value(set, name));
                assert_eq!(ranks, [rates[1], rates[3], rates[6]]);
            }
            let peaks = windows.iter().flat_map(|window| &window.workers[own.clone()]);
            let peak_ns = peaks.map(|worker| worker.peak_ns).max().unwrap();
            let max_ns = set.histograms.iter().filter_map(|found| found.counts.last());
            let max_ns = max_ns.map(|(value_ns, _)| *value_ns).max().unwrap_or(0);
            assert!(peak_ns <= max_ns, "{peak_ns} of {max_ns}");
            assert_eq!(peak_ns > 0, set.workload == "schbench");
        }
        assert_eq!(from, windows[0].workers.len());
    }

    #[test]
    fn a_set_with_a_phase_has_nothing_in_the_windows_around_it() {
        let mut spec = spec(1000 * MS, 250 * MS);
        let phase = |at_ms: u64, for_ms: Option<u64>, ops| {
            Some(Phase { at_ns: at_ms * MS, for_ns: for_ms.map(|ms| ms * MS), ops })
        };
        let walls = |windows: &[Window]| -> Vec<u64> {
            windows.iter().map(|window| window.workers.last().unwrap().wall_ns / MS).collect()
        };
        let unphased = run(&spec).0.sets.remove(0);
        spec.cell.work.sets[1].phase = phase(300, Some(200), None);
        let (result, windows) = run(&spec);
        assert_eq!(walls(&windows), [0, 200, 0, 0]);
        let (phased, worker) = (&result.sets[1], &result.sets[1].workers[0]);
        let ops: Vec<u64> =
            windows.iter().map(|window| window.workers.last().unwrap().ops).collect();
        assert_eq!((ops[0], ops[1], worker.wall_ns), (0, worker.ops, 200 * MS));
        assert_eq!((ops[2], ops[3]), (0, 0));
        let rate = 2.0 * worker.ops as f64 * 5.0;
        assert!((value(phased, "throughput") - rate).abs() < 1e-6, "by its own time");
        assert_eq!(result.sets[0], unphased, "the others do not change");

        spec.cell.work.sets[1].phase = phase(300, None, Some(100));
        let (result, windows) = run(&spec);
        let burst = &result.sets[1];
        assert_eq!(burst.workers[0].ops, 100);
        assert!(walls(&windows)[3] == 0, "it takes some 100 ms");
        assert_eq!(value(burst, "time"), burst.workers[0].wall_ns as f64);
        spec.cell.work.sets[1].phase = phase(300, None, Some(100_000));
        let (result, _) = run(&spec);
        let time = &result.sets[1].metrics[0];
        assert!(time.kind.name == "time" && time.value.clone().known().is_none(), "{time:?}");
    }

    #[test]
    fn the_same_spec_gives_the_same_windows_and_another_seed_others() {
        let spec = spec(1000 * MS, 100 * MS);
        let other = RunSpec { seed: 8, ..spec.clone() };
        assert_eq!(run(&spec), run(&spec));
        assert_ne!(run(&spec).1, run(&other).1);
        // The length of windows does not change the other figures.
        let coarse = RunSpec { window_ns: 500 * MS, ..spec.clone() };
        for (fine, coarse) in run(&spec).0.sets.iter().zip(&run(&coarse).0.sets) {
            assert_eq!(fine.workers, coarse.workers);
            assert_eq!(fine.histograms, coarse.histograms);
        }
    }
}
