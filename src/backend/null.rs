//! No machine: figures invented from plan and seed, at once. Engine, store and reports are
//! tested exactly with it, and a plan can be tried without spending its time.
//!
//! Every throughput and latency is a fixed value per work times log-normal noise of 1 %,
//! drawn per run; `effects` multiplies the throughput of a variant. `faults` make chosen
//! runs fail.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::exec;
use crate::model::{
    Cell, CpuSet, Environment, Outcome, Reading, RunResult, RunSpec, SetResult, Topology, Unit,
    Window, WorkerResult, WorkerSet, WorkerWindow,
};
use crate::stats::Histogram;
use crate::workload::{self, Pool, Request, Spec};

use super::{Backend, Ended};

/// CPUs that the invented machine has.
const CPUS: u32 = 2;
const SAMPLES: usize = 500;

#[derive(Debug, Clone, Default)]
pub struct Null {
    /// Factor on the throughput of the variant of this name.
    pub effects: BTreeMap<String, f64>,
    /// Runs of the cell of this index fail with this reason.
    pub faults: BTreeMap<u32, String>,
    /// The variant of this name cannot be had, for this reason.
    pub missing: BTreeMap<String, String>,
}

impl Backend for Null {
    fn environment(&self) -> Environment {
        let nowhere = || Reading::Unknown("the null backend has no machine".to_string());
        let all: CpuSet = (0..CPUS).collect();
        Environment {
            hostname: "null".to_string(),
            cpu_model: nowhere(),
            topology: Topology {
                online: all.clone(),
                allowed: all.clone(),
                llcs: vec![all.clone()],
                numa_nodes: vec![all],
                cores: (0..CPUS).map(|cpu| CpuSet::from_iter([cpu])).collect(),
            },
            memory_bytes: Reading::Unknown("the null backend has no machine".to_string()),
            kernel_release: "null".to_string(),
            kernel_version: "null".to_string(),
            kernel_cmdline: nowhere(),
            boot_id: nowhere(),
            virtualisation: nowhere(),
            cgroup_mode: "none".to_string(),
            clock_source: nowhere(),
            smt: nowhere(),
            governor: nowhere(),
            turbo: nowhere(),
            load_average: nowhere(),
            mitigations: BTreeMap::new(),
            tunables: BTreeMap::new(),
        }
    }

    fn check(&self, cell: &Cell) -> Result<(), String> {
        self.missing.get(&cell.variant.name).map_or(Ok(()), |reason| Err(reason.clone()))
    }

    fn run(
        &mut self,
        spec: &RunSpec,
        cancel: &AtomicBool,
        on_window: &mut dyn FnMut(Window),
    ) -> Ended {
        if cancel.load(Relaxed) {
            return Ended::Interrupted;
        }
        if let Some(reason) = self.faults.get(&spec.cell.index) {
            return Ended::With(Outcome::Failed { reason: reason.clone() });
        }
        let effect = self.effects.get(&spec.cell.variant.name).copied().unwrap_or(1.0);
        let mut rng = ChaCha8Rng::seed_from_u64(spec.seed);
        rng.set_stream(u64::from(spec.cell.index));
        let sets: Result<Vec<SetResult>, String> =
            spec.cell.work.sets.iter().map(|set| invent(set, spec, effect, &mut rng)).collect();
        match sets {
            Ok(sets) => {
                on_window(invent_window(&sets, spec));
                Ended::With(Outcome::Done { result: Box::new(result(sets, spec)) })
            }
            Err(reason) => Ended::With(Outcome::Failed { reason }),
        }
    }
}

fn result(sets: Vec<SetResult>, spec: &RunSpec) -> RunResult {
    RunResult {
        started_unix_ns: 0,
        measured_ns: spec.duration_ns,
        sets,
        knobs: Vec::new(),
        disturbances: Vec::new(),
        overhead_cpu_ns: Reading::Unknown("the null backend has no machine".to_string()),
    }
}

fn invent(
    set: &WorkerSet,
    spec: &RunSpec,
    effect: f64,
    rng: &mut ChaCha8Rng,
) -> Result<SetResult, String> {
    let workload =
        workload::find(&set.workload).ok_or(format!("there is no workload `{}`", set.workload))?;
    let cpus = spec.cell.placement.cpus.clone().unwrap_or((0..CPUS).collect());
    let (params, pool) = (&set.params, Pool::new(cpus, &[]));
    let request =
        Request { params, count: set.count, kind: set.kind, pool: &pool, seed: spec.seed };
    let described = workload.spec();
    let noise = noise(rng);
    let workers: Vec<WorkerResult> = workload
        .layout(&request)?
        .into_iter()
        .map(|role| invent_worker(described, role, spec.duration_ns, effect * noise))
        .collect();
    let histograms: Vec<Histogram> =
        workload.histograms(params).iter().map(|_| invent_histogram(rng, noise)).collect();
    let mut result = exec::set_result(set, described, workers, &histograms, &[]);
    let ops = result.workers.iter().map(|worker| worker.ops).sum::<u64>();
    let ops_per_s = ops as f64 * 1e9 / spec.duration_ns as f64;
    for metric in workload.metrics(params) {
        let value = if metric.unit == Unit::OpsPerS { ops_per_s } else { noise };
        result.metrics.push(metric.reading(Reading::Known(value)));
    }
    Ok(result)
}

fn invent_worker(described: &Spec, role: usize, duration_ns: u64, factor: f64) -> WorkerResult {
    let role = &described.roles[role];
    let per_s = if role.counts { 1000.0 * factor } else { 0.0 };
    WorkerResult {
        role: role.name.to_string(),
        tid: 0,
        ops: (per_s * duration_ns as f64 / 1e9) as u64,
        wall_ns: duration_ns,
        cpu_ns: duration_ns / 2,
        counted_wall_ns: duration_ns,
        voluntary_switches: Reading::Known(100),
        involuntary_switches: Reading::Known(10),
        migrations: Reading::Unknown("the null backend has no machine".to_string()),
        run_queue_wait_ns: Reading::Unknown("the null backend has no machine".to_string()),
    }
}

fn invent_histogram(rng: &mut ChaCha8Rng, factor: f64) -> Histogram {
    let mut histogram = Histogram::default();
    for _ in 0..SAMPLES {
        histogram.add((10_000.0 * factor * noise(rng).powi(50)) as u64, 1);
    }
    histogram
}

/// Log-normal with a sigma of 1 %, by the sum of twelve uniforms.
fn noise(rng: &mut ChaCha8Rng) -> f64 {
    let sum: f64 = (0..12).map(|_| rng.random::<f64>()).sum();
    ((sum - 6.0) * 0.01).exp()
}

fn invent_window(sets: &[SetResult], spec: &RunSpec) -> Window {
    let workers = sets.iter().flat_map(|set| &set.workers).map(|worker| WorkerWindow {
        end_at_ns: spec.warmup_ns + spec.duration_ns,
        wall_ns: worker.wall_ns,
        ops: worker.ops,
        cpu_ns: worker.cpu_ns,
        peak_ns: 0,
    });
    Window { index: 0, workers: workers.collect() }
}
