//! Invented sampled plans for tests: a plan by its variants and works, runs by their values; and
//! plans drawn at random.

use std::collections::BTreeMap;
use std::ops::Range;

use proptest::prelude::*;

use super::{Analysis, Question, Row, Selection, analyse, select};
use crate::model::*;
use crate::stats::{
    Distance, Effect, Excluded, Interval, Judged, MeanDifference, NoEffect, Ratio, Shape, Verdict,
};

/// Each run has these, times the factor that a test gives it.
const METRICS: [(&str, Unit, Direction, Statistic, f64); 5] = [
    ("throughput", Unit::OpsPerS, Direction::HigherIsBetter, Statistic::Rate, 1000.0),
    ("wakeup_p99", Unit::Ns, Direction::LowerIsBetter, Statistic::Quantile(990_000), 20_000.0),
    ("wakeup_max", Unit::Ns, Direction::LowerIsBetter, Statistic::Max, 90_000.0),
    ("wakeup_mean", Unit::Ns, Direction::LowerIsBetter, Statistic::Mean, 7_000.0),
    ("switches", Unit::PerS, Direction::Neutral, Statistic::Count, 50.0),
];

/// How the rounds of a test vary, in turn.
const NOISE: [f64; 5] = [1.0, 1.004, 0.997, 1.002, 0.995];

/// A metric of the set `web`: throughput and wakeup_p99 are headline metrics.
pub fn metric(name: &str, unit: Unit, direction: Direction, statistic: Statistic) -> SampledMetric {
    let kind = MetricKind::explaining(name, unit, direction, statistic);
    let kind = match name.split_once('_') {
        Some((subject, _)) => kind.with_subject(subject),
        None => kind,
    };
    let importance = if ["throughput", "wakeup_p99"].contains(&name) {
        Importance::Headline
    } else {
        Importance::Explaining
    };
    SampledMetric {
        set: "web".to_string(),
        ops: "requests".to_string(),
        kind: kind.with_importance(importance),
    }
}

/// Ten rounds of five seconds.
pub fn measure() -> Measure {
    Measure {
        rounds: 10,
        duration_ns: 5_000_000_000,
        warmup_ns: 1_000_000_000,
        window_ns: 1_000_000_000,
        seed: 1,
        grace_ns: 5_000_000_000,
        repeat_spoilt: true,
        ..Measure::default()
    }
}

/// One work, `web threads=4`, of one set, on one machine in one boot.
pub fn plan(id: &str, started_unix_ns: u64, variants: &[&str]) -> SampledPlan {
    let named = |name: &&str| Variant { name: name.to_string(), knobs: BTreeMap::new() };
    let metrics = METRICS.iter();
    let metrics = metrics
        .map(|(name, unit, direction, statistic, _)| metric(name, *unit, *direction, *statistic));
    let plan = Plan {
        title: "invented".to_string(),
        measure: measure(),
        variants: variants.iter().map(named).collect(),
        ..Plan::default()
    };
    let environments = vec![environment("6.12.0", "big", Some("boot-1"))];
    let plan = SampledPlan {
        id: id.to_string(),
        started_unix_ns,
        ended: Some(PlanEnd::Budget),
        metrics: metrics.collect(),
        ..SampledPlan::without_runs(SampledPlan::LOCAL, plan, Vec::new(), environments)
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
        ..Default::default()
    };
    let axes = vec![("threads".to_string(), threads.to_string())];
    let work =
        Work { name: name.to_string(), axes, llcs: None, sets: vec![set], ..Default::default() };
    for variant in &plan.plan.variants {
        let (index, placement) = (plan.cells.len() as u32, Placement::default());
        let (variant, work) = (variant.clone(), work.clone());
        plan.cells.push(Cell { index, variant, work, placement });
    }
    plan.plan.works.push(work);
    plan
}

pub fn environment(kernel: &str, machine: &str, boot: Option<&str>) -> Environment {
    let mut environment = Environment::unknown("invented");
    environment.hostname = machine.to_string();
    environment.kernel_release = kernel.to_string();
    environment.boot_id = boot.map_or(environment.boot_id, |boot| Reading::Known(boot.to_string()));
    environment
}

/// A run of the newest environment, without values and workers.
pub fn sampled_run(plan: &SampledPlan, key: RunKey) -> SampledRun {
    SampledRun {
        key,
        environment: plan.environments.len() as u32 - 1,
        started_unix_ns: plan.started_unix_ns,
        measured_ns: 5_000_000_000,
        ..SampledRun::default()
    }
}

/// A pool that became these CPUs.
pub fn pool(cpus: &str) -> SampledPool {
    let text = |text: &str| Value::Text(text.to_string());
    let (asked, got) = (text("bench"), Reading::Known(text("cpuset v2")));
    let reading = KnobReading { knob: KnobReading::POOL.to_string(), asked, got };
    SampledPool { reading, cpus: cpus.parse().ok() }
}

/// Adds a run of the cell, with all metrics times `factor`.
pub fn run(plan: &mut SampledPlan, round: u32, cell: u32, factor: f64) {
    let metrics: Vec<(&str, f64)> =
        METRICS.iter().map(|(name, .., value)| (*name, value * factor)).collect();
    run_of(plan, round, cell, &metrics);
}

/// As [`run`], with these values alone.
pub fn run_of(plan: &mut SampledPlan, round: u32, cell: u32, metrics: &[(&str, f64)]) {
    let values = metrics.iter().map(|(name, value)| (place(plan, name), *value)).collect();
    let run = sampled_run(plan, RunKey { round, cell });
    plan.runs.push(SampledRun { values, ..run });
}

fn place(plan: &SampledPlan, metric: &str) -> u32 {
    let at = plan.metrics.iter().position(|known| known.kind.name == metric);
    at.expect("a metric of the plan") as u32
}

/// Runs of all cells in these rounds; those of a variant are as many times the baseline's as
/// `factors` says at its position.
pub fn rounds(mut plan: SampledPlan, rounds: Range<u32>, factors: &[f64]) -> SampledPlan {
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

/// Ten rounds of `default` and `batch`.
pub fn tens(factor: f64) -> SampledPlan {
    rounds(plan("p1", 1, &["default", "batch"]), 0..10, &[1.0, factor])
}

/// A run that gave no values.
pub fn lose(plan: &mut SampledPlan, round: u32, cell: u32, is_skipped: bool, reason: &str) {
    let (environment, reason) = (plan.environments.len() as u32 - 1, reason.to_string());
    let key = RunKey { round, cell };
    plan.unmeasured.push(Unmeasured { key, environment, is_skipped, reason });
}

/// The last run has no value of this metric.
pub fn unknown(plan: &mut SampledPlan, metric: &str, reason: &str) {
    let unknown = (place(plan, metric), reason.to_string());
    plan.runs.last_mut().expect("a run").unknown.push(unknown);
}

/// The run at this position was disturbed.
pub fn disturb(plan: &mut SampledPlan, at: usize, kind: DisturbanceKind, share: Option<f64>) {
    let detail = format!("{kind:?} of {share:?}");
    let fact = DisturbanceFact::Text { kind, detail };
    plan.runs[at].disturbances.push(Disturbance { share, fact });
}

/// The run at this position read the knob back as `got`.
pub fn mismatch(plan: &mut SampledPlan, at: usize, knob: &str, asked: &str, got: &str) {
    let text = |text: &str| Value::Text(text.to_string());
    let (knob, asked, got) = (knob.to_string(), text(asked), Reading::Known(text(got)));
    plan.runs[at].mismatches.push(KnobReading { knob, asked, got });
}

/// The heads of plans, newest first, as a store gives them.
pub fn heads(plans: &[SampledPlan]) -> Vec<PlanHead> {
    let head = |plan: &SampledPlan| PlanHead {
        id: plan.id.clone(),
        backend: plan.backend.clone(),
        started_unix_ns: plan.started_unix_ns,
        ended: plan.ended,
        environments: plan
            .environments
            .iter()
            .map(|environment| EnvironmentHead {
                hostname: environment.hostname.clone(),
                kernel_release: environment.kernel_release.clone(),
                boot_id: environment.boot_id.clone(),
            })
            .collect(),
        booted: plan.guests.iter().filter_map(|guest| guest.kernel.release.clone()).collect(),
        variants: plan.plan.variants.iter().map(|variant| variant.name.clone()).collect(),
        aa: plan.plan.aa,
        runs: RunCounts { done: 1, ..RunCounts::default() },
        ..PlanHead::default()
    };
    plans.iter().rev().map(head).collect()
}

/// The question that a user asks by these words; `plans` are oldest first.
pub fn asked(plans: &[SampledPlan], sides: &[&str]) -> Question {
    let sides: Vec<String> = sides.iter().map(|side| side.to_string()).collect();
    Question::new(select(&sides, &heads(plans), 0).unwrap(), "schedlab compare".to_string())
}

pub fn analysed(plans: &[SampledPlan], sides: &[&str]) -> Analysis {
    analyse(plans, &[], &asked(plans, sides))
}

/// All variants of one plan, as `run` and `report` ask.
pub fn of_variants(plan: &SampledPlan) -> Question {
    let variants = plan.plan.variants.iter();
    let sides = variants.map(|variant| Selection::of_variant(&plan.id, &variant.name)).collect();
    Question::new(sides, format!("schedlab compare plan={}", plan.id))
}

/// The first row of this metric.
pub fn row<'a>(analysis: &'a Analysis, metric: &str) -> &'a Row {
    let mut rows = analysis.rows().map(|(.., row)| row);
    rows.find(|row| row.kind.name == metric).expect(metric)
}

/// A plan of ten rounds on debian:6.1 and debian:6.12.
pub fn lab(id: &str, started_unix_ns: u64) -> SampledPlan {
    let mut plan = plan(id, started_unix_ns, &["old", "new"]);
    plan.backend = SampledPlan::LAB.to_string();
    for (variant, kernel) in plan.plan.variants.iter_mut().zip(["debian:6.1", "debian:6.12"]) {
        variant.knobs.insert("kernel".to_string(), Value::Text(kernel.to_string()));
    }
    let variants = plan.plan.variants.clone();
    plan.cells.iter_mut().zip(variants).for_each(|(cell, variant)| cell.variant = variant);
    plan.environments[0].kernel_release = "debian:6.1, debian:6.12".to_string();
    plan.environments[0].hostname = "lab".to_string();
    let mut plan = rounds(plan, 0..10, &[1.0, 1.1]);
    plan.guests = vec![guest("6.1.0-56", "a1"), guest("6.12.0", "b1")];
    plan.runs.iter_mut().for_each(|run| run.guest = Some(run.key.cell));
    plan
}

/// An exact guest; what is empty is not known.
pub fn guest(release: &str, digest: &str) -> Guest {
    let known = |text: &str| (!text.is_empty()).then(|| text.to_string());
    let kernel = GuestKernel {
        release: known(release),
        version: None,
        digest: known(digest),
        scheduler: None,
    };
    let capacity = Reading::Known(1.0);
    Guest { kernel, time: GuestTime::Exact, capacity, coarse_timers_ns: None }
}

/// Drawn numbers: SplitMix64.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// One time in `times`.
    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Between 0 and 1.
    fn share(&mut self) -> f64 {
        self.below(1 << 20) as f64 / f64::from(1 << 20)
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// Plans of one to four variants: some worse, better and the same, some noisy; with runs that
/// failed or were skipped, values that are unknown or 0, disturbances and knobs that did not take.
pub fn any_plan() -> impl Strategy<Value = SampledPlan> {
    any::<u64>().prop_map(|seed| drawn(&mut Draw(seed)))
}

fn drawn(draw: &mut Draw) -> SampledPlan {
    const NAMES: [&str; 4] = ["default", "batch", "slice-100us", "nice"];
    let variants = 1 + draw.below(4) as usize;
    let mut plan = plan("p1", 1, &NAMES[..variants]);
    for (name, threads) in [("chat", 2), ("mail", 8)] {
        plan = if draw.once_in(2) { work(plan, name, threads) } else { plan };
    }
    plan.plan.measure.until_decided = draw.once_in(3);
    plan.ended = draw.pick(&[None, Some(PlanEnd::Complete), Some(PlanEnd::Decided)]);
    if draw.once_in(3) {
        plan.plan.probes = vec!["sched".to_string()];
        for name in ["worker_voluntary_switches", "worker_involuntary_switches"] {
            let statistic = if name.contains("_in") {
                Statistic::InvoluntarySwitches
            } else {
                Statistic::VoluntarySwitches
            };
            plan.metrics.push(metric(name, Unit::PerS, Direction::Neutral, statistic));
        }
    }
    let names: Vec<String> = plan.metrics.iter().map(|metric| metric.kind.name.clone()).collect();
    let scales: Vec<f64> = names.iter().map(|_| 10f64.powf(1.0 + 8.0 * draw.share())).collect();
    // By cell and metric: the effect of the variant, and its noise.
    let effects: Vec<Vec<(f64, f64)>> = (0..plan.cells.len())
        .map(|_| {
            let effect = |draw: &mut Draw| match draw.below(3) {
                0 => 1.0,
                1 => 0.5 + draw.share(),
                _ => draw.pick(&[0.01, 0.9, 1.005, 1.3, 7.0]),
            };
            names.iter().map(|_| (effect(draw), draw.pick(&[0.0, 0.001, 0.02, 0.4]))).collect()
        })
        .collect();
    let is_gone: Vec<bool> = plan.cells.iter().map(|_| draw.once_in(12)).collect();
    for round in 0..draw.pick(&[0, 1, 3, 8, 8, 10, 12]) {
        for cell in 0..plan.cells.len() as u32 {
            match is_gone[cell as usize] {
                true => lose(&mut plan, round, cell, true, "needs sched_ext"),
                false if draw.once_in(40) => lose(&mut plan, round, cell, false, "hung task"),
                false => {
                    drawn_run(&mut plan, (round, cell), &scales, &effects[cell as usize], draw)
                }
            }
        }
    }
    plan
}

fn drawn_run(
    plan: &mut SampledPlan,
    (round, cell): (u32, u32),
    scales: &[f64],
    effects: &[(f64, f64)],
    draw: &mut Draw,
) {
    let at = plan.runs.len();
    let mut run = sampled_run(plan, RunKey { round, cell });
    for (metric, ((effect, noise), scale)) in (0..).zip(effects.iter().zip(scales)) {
        match draw.below(60) {
            0 => run.unknown.push((metric, "no sample".to_string())),
            1 => run.values.push((metric, 0.0)),
            _ => run.values.push((metric, scale * effect * (1.0 + noise * draw.share()))),
        }
    }
    plan.runs.push(run);
    if draw.once_in(10) {
        let share = Some(draw.share()).filter(|share| *share > 0.2);
        disturb(plan, at, DisturbanceKind::Steal, share);
    }
    if draw.once_in(20) {
        mismatch(plan, at, "policy", "batch", "other");
    }
}

/// Cells of invented tables.
impl super::Cell {
    pub fn shaped(mut self, shape: Shape) -> Self {
        self.shapes.push(shape);
        self
    }

    pub fn unknown(mut self, round: u32, reason: &str) -> Self {
        self.unknown.push((round, reason.to_string()));
        self
    }

    pub fn judged(mut self, verdict: Verdict, ratio: f64, low: f64, high: f64) -> Self {
        let decided = matches!(verdict, Verdict::Better | Verdict::Worse | Verdict::Same);
        let pairs = self.values.len();
        self.judged = Some(Judged {
            effect: Ok(Effect::Ratio(Ratio {
                ratio,
                interval: Some(Interval { low, high }),
                pairs,
            })),
            verdict,
            p_difference: Some(if decided { 0.00123 } else { 0.18 }),
            p_same: Some(if verdict == Verdict::Same { 0.0024 } else { 1.0 }),
            bound: None,
            excluded: Excluded::default(),
            decided_at: decided.then_some(10),
        });
        self
    }

    /// Gives an undecided cell a bound.
    pub fn bounded(mut self, bound: f64) -> Self {
        let judged = self.judged.as_mut().expect("a verdict");
        judged.bound = Some(Distance::Ratio(bound));
        self
    }

    /// As [`Self::judged`], with only one pair.
    pub fn single(self, verdict: Verdict, ratio: f64) -> Self {
        let mut cell = self.judged(verdict, ratio, 0.0, 0.0);
        let judged = cell.judged.as_mut().expect("just set");
        judged.effect = Ok(Effect::Ratio(Ratio { ratio, interval: None, pairs: 1 }));
        (judged.p_difference, judged.p_same) = (None, None);
        cell
    }

    /// As [`Self::judged`], by a difference.
    pub fn differing(self, verdict: Verdict, difference: f64, low: f64, high: f64) -> Self {
        let mut cell = self.judged(verdict, 1.0, 1.0, 1.0);
        let judged = cell.judged.as_mut().expect("just set");
        let (interval, pairs) = (Some(Interval { low, high }), cell.values.len());
        judged.effect = Ok(Effect::Difference(MeanDifference { difference, interval, pairs }));
        judged.p_same = None;
        cell
    }

    pub fn not_compared(mut self, why: NoEffect) -> Self {
        self.judged = Some(Judged::without_effect(why));
        self
    }
}
