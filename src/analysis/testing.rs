//! Invented sampled plans for tests: a plan by its variants and works, runs by their values.

use std::collections::BTreeMap;

use crate::model::*;

/// Each run has these, times the factor that a test gives it: unit, direction, value.
const METRICS: [(&str, Unit, Direction, f64); 4] = [
    ("throughput", Unit::OpsPerS, Direction::HigherIsBetter, 1000.0),
    ("wakeup_p99", Unit::Ns, Direction::LowerIsBetter, 20_000.0),
    ("wakeup_max", Unit::Ns, Direction::LowerIsBetter, 90_000.0),
    ("switches", Unit::PerS, Direction::Neutral, 50.0),
];

/// How the rounds of a test vary, in turn.
const NOISE: [f64; 5] = [1.0, 1.004, 0.997, 1.002, 0.995];

/// One work, `web threads=4`, of one set, on one machine in one boot.
pub fn plan(id: &str, started_unix_ns: u64, variants: &[&str]) -> SampledPlan {
    let named = |name: &&str| Variant { name: name.to_string(), knobs: BTreeMap::new() };
    let metric = |&(name, unit, direction, _): &(&str, Unit, Direction, f64)| SampledMetric {
        set: "web".to_string(),
        ops: "requests".to_string(),
        kind: MetricKind::legacy("schbench", name, unit, direction),
    };
    let plan = SampledPlan {
        id: id.to_string(),
        backend: "local".to_string(),
        started_unix_ns,
        plan: Plan {
            title: "invented".to_string(),
            measure: Measure {
                rounds: 10,
                duration_ns: 5_000_000_000,
                warmup_ns: 1_000_000_000,
                window_ns: 1_000_000_000,
                seed: 1,
                budget_ns: None,
                grace_ns: 5_000_000_000,
                until_decided: false,
            },
            variants: variants.iter().map(named).collect(),
            works: Vec::new(),
            placement: Placement::default(),
            report_format: None,
            probes: Vec::new(),
            lab: Default::default(),
            aa: false,
        },
        cells: Vec::new(),
        environments: vec![environment("6.12.0", "big", Some("boot-1"))],
        ended: Some(PlanEnd::Complete),
        metrics: METRICS.iter().map(metric).collect(),
        runs: Vec::new(),
        guests: Vec::new(),
        values: Vec::new(),
        issues: RunIssues::default(),
    };
    work(plan, "web", 4)
}

/// The plan with a further work of one set `web`.
pub fn work(mut plan: SampledPlan, name: &str, threads: u32) -> SampledPlan {
    let set = WorkerSet {
        name: "web".to_string(),
        workload: "schbench".to_string(),
        params: Params::from([("operations".to_string(), Value::Int(5))]),
        count: threads,
        kind: WorkerKind::Threads,
        background: false,
        knobs: BTreeMap::new(),
    };
    let axes = vec![("threads".to_string(), threads.to_string())];
    let work = Work { name: name.to_string(), axes, sets: vec![set] };
    for variant in &plan.plan.variants {
        let (index, placement) = (plan.cells.len() as u32, Placement::default());
        let (variant, work) = (variant.clone(), work.clone());
        plan.cells.push(Cell { index, variant, work, placement });
    }
    plan.plan.works.push(work);
    plan
}

pub fn environment(kernel: &str, machine: &str, boot: Option<&str>) -> Environment {
    let unknown = || Reading::Unknown("invented".to_string());
    Environment {
        hostname: machine.to_string(),
        cpu_model: unknown(),
        topology: Topology::default(),
        memory_bytes: Reading::Unknown("invented".to_string()),
        kernel_release: kernel.to_string(),
        kernel_version: String::new(),
        kernel_cmdline: unknown(),
        boot_id: boot.map_or_else(unknown, |boot| Reading::Known(boot.to_string())),
        virtualisation: unknown(),
        cgroup_mode: String::new(),
        clock_source: unknown(),
        smt: unknown(),
        governor: unknown(),
        turbo: unknown(),
        load_average: unknown(),
        mitigations: BTreeMap::new(),
        tunables: BTreeMap::new(),
    }
}

/// Adds a run of the cell in the newest environment, with all metrics times `factor`.
pub fn run(plan: &mut SampledPlan, round: u32, cell: u32, factor: f64) {
    let metrics: Vec<(&str, f64)> =
        METRICS.iter().map(|(name, _, _, value)| (*name, value * factor)).collect();
    run_of(plan, round, cell, &metrics);
}

/// As [`run`], with these values alone.
pub fn run_of(plan: &mut SampledPlan, round: u32, cell: u32, metrics: &[(&str, f64)]) {
    plan.runs.push(SampledRun {
        key: RunKey { round, cell },
        environment: plan.environments.len() as u32 - 1,
        first_value: plan.values.len() as u32,
        guest: None,
    });
    for (name, value) in metrics {
        let metric = plan.metrics.iter().position(|metric| metric.kind.name == *name);
        let metric = metric.expect("a metric of METRICS") as u32;
        plan.values.push(SampledValue { metric, value: *value });
    }
}

/// Runs of all cells in these rounds; those of a variant are as many times the baseline's as
/// `factors` says at its position.
pub fn rounds(mut plan: SampledPlan, rounds: std::ops::Range<u32>, factors: &[f64]) -> SampledPlan {
    let variants = plan.plan.variants.len();
    for round in rounds {
        for cell in 0..plan.cells.len() {
            // Ratios vary as well, less than their verdicts take.
            let wobble = 1.0 + 0.0002 * f64::from((round + cell as u32) % 3);
            let noise = NOISE[round as usize % NOISE.len()] * wobble;
            run(&mut plan, round, cell as u32, factors[cell % variants] * noise);
        }
    }
    plan
}
