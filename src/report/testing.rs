//! Records for tests: a plan by its variants and works, and runs by what they brought back.

use std::collections::BTreeMap;

use crate::model::*;

use super::{Format, Options};

pub fn render(format: &dyn Format, records: &[Record], options: Options) -> String {
    let mut out = Vec::new();
    format.render(records, &options, &mut out).expect("a Vec takes everything");
    String::from_utf8(out).expect("UTF-8")
}

#[derive(Clone)]
pub struct PlanBuilder {
    record: Record,
}

/// The result of one run of one foreground set.
pub struct RunBuilder {
    result: RunResult,
}

impl PlanBuilder {
    /// One work, `web threads=4`, of one set.
    pub fn new(rounds: u32, variants: &[&str]) -> Self {
        let plan = PlanBuilder::without_works(rounds, variants);
        plan.work("web", &[("threads", "4")], &[("web", "schbench", false)])
    }

    /// No work yet.
    pub fn without_works(rounds: u32, variants: &[&str]) -> Self {
        let variants = variants
            .iter()
            .map(|name| Variant { name: name.to_string(), knobs: BTreeMap::new() })
            .collect();
        let plan = Plan {
            title: "Does a shorter slice help a web-like load?".to_string(),
            measure: Measure {
                rounds,
                duration_ns: 5_000_000_000,
                warmup_ns: 1_000_000_000,
                window_ns: 1_000_000_000,
                seed: 1,
                budget_ns: None,
                grace_ns: 5_000_000_000,
                until_decided: false,
            },
            variants,
            works: Vec::new(),
            placement: Placement::default(),
            report_format: None,
            probes: Vec::new(),
            lab: Default::default(),
            aa: false,
        };
        let started = PlanStarted {
            schema: EVENT_SCHEMA,
            id: "20261121T012600-5a3f".to_string(),
            backend: "local".to_string(),
            started_unix_ns: 1_795_224_360_000_000_000,
            source: String::new(),
            plan,
            cells: Vec::new(),
            environment: environment(),
        };
        let mut builder = PlanBuilder { record: Record::new(started) };
        builder.record.ended = Some(PlanEnd::Complete);
        builder
    }

    /// Adds a work; sets are `(name, workload, background)`. The first call after
    /// [`PlanBuilder::new`] makes the second work.
    pub fn work(mut self, name: &str, axes: &[(&str, &str)], sets: &[(&str, &str, bool)]) -> Self {
        let set = |&(name, workload, background): &(&str, &str, bool)| WorkerSet {
            name: name.to_string(),
            workload: workload.to_string(),
            params: Params::from([
                ("operations".to_string(), Value::Int(5)),
                ("cache-footprint".to_string(), Value::Bytes(256 << 10)),
            ]),
            count: 2,
            kind: WorkerKind::Threads,
            background,
            knobs: BTreeMap::new(),
        };
        let axes = axes.iter().map(|(axis, point)| (axis.to_string(), point.to_string()));
        let work = Work {
            name: name.to_string(),
            axes: axes.collect(),
            sets: sets.iter().map(set).collect(),
        };
        let started = &mut self.record.started;
        for variant in &started.plan.variants {
            let index = started.cells.len() as u32;
            let (variant, work) = (variant.clone(), work.clone());
            started.cells.push(Cell { index, variant, work, placement: Placement::default() });
        }
        started.plan.works.push(work);
        self
    }

    /// Sets a parameter of all sets of a work; to be called before runs are added.
    pub fn param(self, work: usize, name: &str, value: Value) -> Self {
        self.change(work, |work| {
            for set in &mut work.sets {
                set.params.insert(name.to_string(), value.clone());
            }
        })
    }

    /// Sets how many workers the sets of a work have; to be called before runs are added.
    pub fn counts(self, work: usize, counts: &[u32]) -> Self {
        self.change(work, |work| {
            work.sets.iter_mut().zip(counts).for_each(|(set, &count)| set.count = count);
        })
    }

    /// Gives the set at `set` of a work knobs of its own; to be called before runs are added.
    pub fn own_knobs(self, work: usize, set: usize, knobs: &[(&str, Value)]) -> Self {
        self.change(work, |work| {
            let knobs = knobs.iter().map(|(knob, value)| (knob.to_string(), value.clone()));
            work.sets[set].knobs.extend(knobs);
        })
    }

    fn change(mut self, work: usize, change: impl Fn(&mut Work)) -> Self {
        let started = &mut self.record.started;
        let per_work = started.plan.variants.len();
        let cells = started.cells[work * per_work..][..per_work].iter_mut();
        cells.map(|cell| &mut cell.work).for_each(&change);
        change(&mut started.plan.works[work]);
        self
    }

    /// Gives all works these CPUs; to be called after they are added.
    pub fn placed(mut self, cpus: &str) -> Self {
        let placement =
            Placement { cpus: Some(cpus.parse().expect("CPUs")), ..Placement::default() };
        let started = &mut self.record.started;
        started.cells.iter_mut().for_each(|cell| cell.placement = placement.clone());
        started.plan.placement = placement;
        self
    }

    pub fn set_knob(&mut self, variant: &str, knob: &str, value: Value) {
        let started = &mut self.record.started;
        let cells = started.cells.iter_mut().map(|cell| &mut cell.variant);
        for found in started.plan.variants.iter_mut().chain(cells) {
            if found.name == variant {
                found.knobs.insert(knob.to_string(), value.clone());
            }
        }
    }

    /// As a plan of the lab, whose default kernel is debian:6.18.
    pub fn in_the_lab(mut self) -> Self {
        self.record.started.backend = SampledPlan::LAB.to_string();
        self.record.started.environment.kernel_release = "of each variant".to_string();
        self.record.environments = vec![self.record.started.environment.clone()];
        self
    }

    /// A measured run in the first work.
    pub fn done(&mut self, round: u32, variant: &str, fill: impl Fn(RunBuilder) -> RunBuilder) {
        self.done_in(0, round, variant, fill);
    }

    pub fn done_in(
        &mut self,
        work: usize,
        round: u32,
        variant: &str,
        fill: impl Fn(RunBuilder) -> RunBuilder,
    ) {
        let sets = &self.record.started.plan.works[work].sets;
        let result = RunResult {
            started_unix_ns: self.record.started.started_unix_ns + u64::from(round) * 1_000_000_000,
            measured_ns: 5_000_000_000,
            sets: sets.iter().map(empty_set).collect(),
            knobs: Vec::new(),
            disturbances: Vec::new(),
            guest: None,
            pool_cpus: None,
            overhead_cpu_ns: Reading::Known(1_000_000),
        };
        let result = Box::new(fill(RunBuilder { result }).result);
        self.end(work, round, variant, Outcome::Done { result });
    }

    pub fn failed(&mut self, round: u32, variant: &str, reason: &str) {
        self.end(0, round, variant, Outcome::Failed { reason: reason.to_string() });
    }

    pub fn skipped(&mut self, round: u32, variant: &str, reason: &str) {
        self.skipped_in(0, round, variant, reason);
    }

    pub fn skipped_in(&mut self, work: usize, round: u32, variant: &str, reason: &str) {
        self.end(work, round, variant, Outcome::Skipped { reason: reason.to_string() });
    }

    fn end(&mut self, work: usize, round: u32, variant: &str, outcome: Outcome) {
        let started = &self.record.started;
        let work = &started.plan.works[work];
        let found = |cell: &&Cell| cell.variant.name == variant && cell.work == *work;
        let cell = started.cells.iter().find(found).expect(variant).index;
        self.record.runs.push(RecordedRun { key: RunKey { round, cell }, environment: 0, outcome });
    }

    /// Puts `text` in place of every other text of the plan and the machine.
    pub fn retold(mut self, text: &str) -> Self {
        let started = &mut self.record.started;
        let environment = &mut self.record.environments[0];
        environment.cpu_model = Reading::Known(text.to_string());
        environment.virtualisation = Reading::Unknown(text.to_string());
        for told in [
            &mut started.plan.title,
            &mut started.id,
            &mut started.backend,
            &mut environment.kernel_release,
            &mut environment.kernel_version,
        ] {
            *told = text.to_string();
        }
        for variant in &mut started.plan.variants {
            variant.knobs.insert(text.to_string(), Value::Text(text.to_string()));
        }
        started.environment = environment.clone();
        self
    }

    pub fn ended(mut self, ended: Option<PlanEnd>) -> Self {
        self.record.ended = ended;
        self
    }

    pub fn record(self) -> Record {
        self.record
    }
}

fn empty_set(set: &WorkerSet) -> SetResult {
    let ops = match set.workload.as_str() {
        "schbench" => "requests",
        "pipe" => "round trips",
        _ => "batches",
    };
    let worker = |tid| WorkerResult {
        role: "worker".to_string(),
        tid,
        ops: 100,
        wall_ns: 5_000_000_000,
        cpu_ns: 4_000_000_000,
        counted_wall_ns: 0,
        voluntary_switches: Reading::Known(10),
        involuntary_switches: Reading::Known(10),
        migrations: Reading::Known(1),
        run_queue_wait_ns: Reading::Known(1_000_000),
    };
    SetResult {
        name: set.name.clone(),
        workload: set.workload.clone(),
        ops: ops.to_string(),
        background: set.background,
        metrics: Vec::new(),
        histograms: Vec::new(),
        workers: (1..=8).map(worker).collect(),
    }
}

impl RunBuilder {
    /// What the first set counts, in place of what its workload does.
    pub fn ops(mut self, ops: &str) -> Self {
        self.result.sets[0].ops = ops.to_string();
        self
    }

    /// A metric of the first set, with the unit and direction that its name implies.
    pub fn metric(self, name: &str, value: f64) -> Self {
        self.reading(name, Reading::Known(value))
    }

    pub fn unknown(self, name: &str, why: &str) -> Self {
        self.reading(name, Reading::Unknown(why.to_string()))
    }

    pub fn reading(self, name: &str, value: Reading<f64>) -> Self {
        self.reading_in(0, name, value)
    }

    pub fn reading_in(mut self, set: usize, name: &str, value: Reading<f64>) -> Self {
        let (unit, direction) = match name {
            "throughput" => (Unit::OpsPerS, Direction::HigherIsBetter),
            "fairness" => (Unit::Ratio, Direction::HigherIsBetter),
            "cpus" => (Unit::Cpus, Direction::Neutral),
            "migrations" => (Unit::PerS, Direction::Neutral),
            name if name.ends_with("_switches") => (Unit::PerS, Direction::Neutral),
            name if name.starts_with("rps_") => (Unit::OpsPerS, Direction::HigherIsBetter),
            "misses" => (Unit::Count, Direction::LowerIsBetter),
            _ => (Unit::Ns, Direction::LowerIsBetter),
        };
        let set = &mut self.result.sets[set];
        let kind = MetricKind::legacy(&set.workload, name, unit, direction);
        set.metrics.push(kind.reading(value));
        self
    }

    /// The workers of a set, each by the CPUs it used and its operations per second, and the
    /// throughput that comes to.
    pub fn workers(mut self, set: usize, workers: &[(f64, f64)]) -> Self {
        let found = &mut self.result.sets[set];
        let like = found.workers[0].clone();
        let seconds = like.wall_ns as f64 / 1e9;
        let worker = |&(cpus, ops_per_s): &(f64, f64)| WorkerResult {
            ops: (ops_per_s * seconds) as u64,
            cpu_ns: (cpus * seconds * 1e9).round() as u64,
            ..like.clone()
        };
        found.workers = workers.iter().map(worker).collect();
        let throughput = workers.iter().map(|(_, ops_per_s)| ops_per_s).sum();
        self.reading_in(set, "throughput", Reading::Known(throughput))
    }

    /// The role of the first worker of a set.
    pub fn role(mut self, set: usize, role: &str) -> Self {
        self.result.sets[set].workers[0].role = role.to_string();
        self
    }

    pub fn disturbed(mut self, kind: DisturbanceKind, detail: &str) -> Self {
        let fact = DisturbanceFact::Text { kind, detail: detail.to_string() };
        self.result.disturbances.push(Disturbance { share: None, fact });
        self
    }

    /// A disturbance that took `share` of the pool.
    pub fn took(mut self, kind: DisturbanceKind, share: f64) -> Self {
        let detail = format!("{:.0} % of the pool", 100.0 * share);
        let fact = DisturbanceFact::Text { kind, detail };
        self.result.disturbances.push(Disturbance { share: Some(share), fact });
        self
    }

    pub fn knob(mut self, knob: &str, asked: &str, got: Reading<String>) -> Self {
        let (knob, asked) = (knob.to_string(), Value::Text(asked.to_string()));
        self.result.knobs.push(KnobReading { knob, asked, got: got.map(Value::Text) });
        self
    }
}

impl RunBuilder {
    /// As told by a guest with this kernel, whose time was exact unless `not` says why not.
    pub fn guest(mut self, release: &str, digest: &str, not: Option<&str>) -> Self {
        let known = |text: &str| Some(text.to_string());
        self.result.guest = Some(Guest {
            kernel: GuestKernel { release: known(release), version: None, digest: known(digest) },
            time: not.map_or(GuestTime::Exact, |why| GuestTime::NotExact(why.to_string())),
            capacity: Reading::Known(0.999),
            coarse_timers_ns: None,
        });
        self
    }
}

pub fn environment() -> Environment {
    let known = |text: &str| Reading::Known(text.to_string());
    Environment {
        hostname: "bench".to_string(),
        cpu_model: known("Intel(R) Xeon(R) Platinum 8488C"),
        topology: Topology {
            online: "0-1".parse().expect("CPUs"),
            allowed: "0-1".parse().expect("CPUs"),
            ..Topology::default()
        },
        memory_bytes: Reading::Known(24 << 30),
        kernel_release: "6.18.5-cloud-amd64".to_string(),
        kernel_version: "#1 SMP PREEMPT_DYNAMIC Debian 6.18.5-1".to_string(),
        kernel_cmdline: known("quiet"),
        boot_id: known("6f1c"),
        virtualisation: known("kvm"),
        cgroup_mode: "v2".to_string(),
        clock_source: known("tsc"),
        smt: known("off"),
        governor: Reading::Unknown("no cpufreq here".to_string()),
        turbo: Reading::Unknown("no cpufreq here".to_string()),
        load_average: known("0.10 0.05 0.01"),
        mitigations: BTreeMap::new(),
        tunables: BTreeMap::new(),
    }
}

/// A run of `schbench` or `pipe` whose numbers follow from round and factor.
fn typical(run: RunBuilder, round: u32, factor: f64) -> RunBuilder {
    // Drift of all, and a little that is the run's own.
    let drift = 1.0 + 0.03 * f64::from(round % 3);
    let own = 1.0 + 0.01 * f64::from((round * 7 + (factor * 10.0) as u32) % 5);
    let latency = factor * own / drift;
    run.metric("throughput", 4376.0 * drift / (0.9 + 0.1 * latency))
        .metric("wakeup_p50", 9_020.0 * own)
        .metric("wakeup_p99", 1_266_000.0 * latency)
        .metric("wakeup_p99.9", 4_712_000.0 * latency)
        .metric("wakeup_max", 12_449_000.0 * latency)
        .metric("wakeup_mean", 42_000.0 * latency)
        .metric("request_p50", 11_440_000.0 * own)
        .metric("request_p99", 22_304_000.0 * own)
        .metric("request_p99.9", 26_336_000.0 * own)
        .metric("request_max", 57_747_000.0 * own)
        .metric("request_mean", 12_000_000.0 * own)
        .metric("fairness", 0.998 / own.powf(0.1))
        .metric("cpus", 1.98)
        .metric("voluntary_switches", 8_900.0)
        .metric("involuntary_switches", 310.0)
        .metric("migrations", 12.0)
}

/// Ten rounds of three variants and two works, nothing wrong.
pub fn ordinary() -> PlanBuilder {
    let sets = [("a", "pipe", false), ("b", "burnwait", false), ("hog", "spin", true)];
    let mut plan = PlanBuilder::new(10, &["default", "slice-100us", "batch"]).work(
        "mix",
        &[("count", "2"), ("via", "futex")],
        &sets,
    );
    plan.set_knob("slice-100us", "slice", Value::DurationNs(100_000));
    plan.set_knob("batch", "policy", Value::Text("batch".to_string()));
    for round in 0..10 {
        for (variant, factor) in [("default", 1.0), ("slice-100us", 0.6), ("batch", 1.4)] {
            plan.done(round, variant, |run| typical(run, round, factor));
            plan.done_in(1, round, variant, |run| {
                let rate = 31_250.0 * (1.0 + 0.01 * f64::from(round % 4));
                run.metric("throughput", rate / factor.sqrt())
                    .metric("latency_p50", 14_200.0 * factor)
                    .metric("latency_p99", 31_000.0)
                    .metric("latency_p99.9", 905_000.0)
                    .unknown("fairness", "one worker: nothing to share")
                    .reading_in(1, "throughput", Reading::Known(297_265.0))
                    .reading_in(1, "fairness", Reading::Known(0.9871))
                    .reading_in(2, "throughput", Reading::Known(5.0))
            });
        }
    }
    plan
}

/// Two sets beside each other and a background on four CPUs, with solo runs but for the
/// background and the last round. Variant `greedy` gives `b` what is `a`'s.
pub fn competing() -> PlanBuilder {
    let (a, b, hog) = (("a", "pipe", false), ("b", "burnwait", false), ("hog", "spin", true));
    let mut plan = PlanBuilder::without_works(3, &["default", "greedy"])
        .work("mix solo a", &[], &[a])
        .work("mix solo b", &[], &[b])
        .work("mix", &[("load", "2x")], &[a, b, hog])
        .counts(0, &[1])
        .counts(1, &[1])
        .counts(2, &[4, 2, 1])
        .placed("0-3");
    for round in 0..3 {
        // Of four CPUs 2 are wanted by `a`, and the three others want 1 each: 2/3 are their due.
        for (variant, a, b) in [("default", 0.5, 2.0 / 3.0), ("greedy", 0.3, 0.9)] {
            if round < 2 {
                plan.done_in(0, round, variant, |run| run.workers(0, &[(0.5, 100.0)]));
                plan.done_in(1, round, variant, |run| run.workers(0, &[(1.0, 20.0)]));
            }
            plan.done_in(2, round, variant, |run| {
                run.workers(0, &[(a, 200.0 * a); 4])
                    .workers(1, &[(b, 22.0 * b), (b, 18.0 * b)])
                    .workers(2, &[(2.0 / 3.0, 5.0)])
            });
        }
    }
    plan
}

/// Everything that can go wrong short of malice: skips, failures, unknown values,
/// disturbances, knobs taken otherwise, an interruption.
pub fn troubled() -> PlanBuilder {
    let variants = ["default", "slice-50us", "batch", "fifo"];
    let mut plan = PlanBuilder::new(4, &variants).work("solo", &[], &[("solo", "spin", false)]);
    plan.set_knob("slice-50us", "slice", Value::DurationNs(50_000));
    plan.set_knob("fifo", "policy", Value::Text("fifo".to_string()));
    let eperm = "policy fifo: sched_setattr: EPERM, not permitted (needs CAP_SYS_NICE)";
    for round in 0..3 {
        plan.skipped(round, "fifo", eperm);
        plan.skipped_in(1, round, "fifo", eperm);
        plan.skipped_in(1, round, "batch", "batch cannot be had together with this cgroup");
        plan.done(round, "default", |run| {
            let run = typical(run, round, 1.0);
            let steal = format!("{}.1 % of the measured time was stolen", round + 1);
            if round == 1 { run } else { run.disturbed(DisturbanceKind::Steal, &steal) }
        });
        plan.done(round, "slice-50us", |run| {
            let took = Reading::Known("100us".to_string());
            let run = typical(run, round, 0.7).knob("slice", "50us", took);
            match round {
                2 => run.disturbed(DisturbanceKind::OutsideLoad, "others used 0.8 CPUs (cc1)"),
                _ => run,
            }
        });
        match round {
            0 => plan.done(round, "batch", |run| {
                run.metric("throughput", 4000.0)
                    .unknown("wakeup_p99", "no samples in the measured section")
            }),
            _ => plan.failed(round, "batch", "worker 3 (tid 4711) died: SIGSEGV"),
        }
        for variant in ["default", "slice-50us"] {
            plan.done_in(1, round, variant, |run| {
                let misses = if round == 0 { 0.0 } else { 3.0 };
                run.metric("throughput", 118.25).metric("misses", misses)
            });
        }
    }
    plan.done(3, "default", |run| typical(run, 3, 1.0));
    plan.ended(Some(PlanEnd::Interrupted))
}

/// A plan in which everything that is a text is `hostile`.
pub fn hostile(hostile: &str) -> PlanBuilder {
    let second = format!("{hostile}2");
    let mut plan = PlanBuilder::new(2, &[hostile, &second, "gone"])
        .work(
            hostile,
            &[(hostile, hostile)],
            &[(hostile, hostile, false), (hostile, hostile, true)],
        )
        .retold(hostile);
    for round in 0..2 {
        for variant in [hostile, &second] {
            let fill = |run: RunBuilder| {
                run.metric(hostile, 17.5)
                    .metric("throughput", 3e12)
                    .unknown("wakeup_p50", hostile)
                    .disturbed(DisturbanceKind::Steal, hostile)
                    .knob(hostile, hostile, Reading::Known("else".to_string()))
                    .knob(hostile, "b", Reading::Unknown(hostile.to_string()))
            };
            plan.done(round, variant, fill);
            plan.done_in(1, round, variant, fill);
        }
        plan.failed(round, "gone", hostile);
        plan.skipped_in(1, round, "gone", hostile);
    }
    plan
}
