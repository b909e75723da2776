//! Events to store: one plan by hand, and any by proptest.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::model::*;

pub fn environment(hostname: &str) -> Environment {
    Environment {
        hostname: hostname.to_string(),
        cpu_model: Reading::Known("A CPU".to_string()),
        topology: Topology { online: CpuSet::from_iter(0..4), ..Topology::default() },
        memory_bytes: Reading::Known(1 << 33),
        kernel_release: "6.18.1".to_string(),
        kernel_version: "#1 SMP PREEMPT_DYNAMIC".to_string(),
        kernel_cmdline: Reading::Known("quiet".to_string()),
        boot_id: Reading::Known("b0".to_string()),
        cgroup_mode: "v2".to_string(),
        clock_source: Reading::Known("tsc".to_string()),
        smt: Reading::Known("off".to_string()),
        load_average: Reading::Known("0.00 0.01 0.05".to_string()),
        mitigations: BTreeMap::from([("meltdown".to_string(), "Not affected".to_string())]),
        tunables: BTreeMap::from([(
            "sched/base_slice_ns".to_string(),
            Reading::Unknown("EACCES".to_string()),
        )]),
        ..Environment::unknown("no such file")
    }
}

pub fn started(id: &str, cells: u32) -> PlanStarted {
    let works: Vec<Work> = (0..cells).map(work).collect();
    let variant = Variant { name: "default".to_string(), knobs: BTreeMap::new() };
    let cell = |work: &Work, index| Cell {
        index,
        variant: variant.clone(),
        work: work.clone(),
        placement: Placement::default(),
    };
    PlanStarted {
        schema: EVENT_SCHEMA,
        id: id.to_string(),
        backend: "null".to_string(),
        started_unix_ns: 1_700_000_000_000_000_000,
        source: "schema = 1\n".to_string(),
        cells: works.iter().zip(0..).map(|(work, index)| cell(work, index)).collect(),
        plan: Plan {
            title: "A plan".to_string(),
            measure: Measure {
                rounds: 10,
                duration_ns: 5_000_000_000,
                warmup_ns: 1_000_000_000,
                window_ns: 1_000_000_000,
                seed: u64::MAX,
                grace_ns: 10_000_000_000,
                ..Measure::default()
            },
            variants: vec![variant],
            works,
            report_format: Some("schbench".to_string()),
            ..Plan::default()
        },
        judged: Judged {
            metrics: vec!["wakeup_*".to_string()],
            margins: vec![(None, 0.01), (Some("web/throughput".to_string()), 0.005)],
            ..Judged::default()
        },
        sharding: None,
        environment: environment("first"),
    }
}

fn work(number: u32) -> Work {
    let set = WorkerSet {
        name: "web".to_string(),
        workload: "schbench".to_string(),
        params: BTreeMap::from([("share".to_string(), Value::Percent(0.1 + 0.2))]),
        count: number,
        knobs: BTreeMap::from([("nice".to_string(), Value::Int(5))]),
        ..Default::default()
    };
    let load = WorkerSet { name: "load".to_string(), background: true, ..set.clone() };
    let axes = vec![("threads".to_string(), number.to_string())];
    Work { name: "web".to_string(), axes, llcs: None, sets: vec![set, load], ..Default::default() }
}

pub fn start(id: &str, cells: u32) -> Event {
    Event::PlanStarted(Box::new(started(id, cells)))
}

/// The results of `workers` workers in one run: a function of the key.
pub fn outcome(key: RunKey, workers: usize) -> Outcome {
    let seed = u64::from(key.round) * 1000 + u64::from(key.cell);
    let unknown = || Reading::Unknown("no schedstat".to_string());
    let worker = |number: usize| WorkerResult {
        role: "worker".to_string(),
        tid: number as i32,
        ops: 1000 + seed + number as u64,
        wall_ns: 5_000_000_000,
        cpu_ns: 4_999_000_000,
        counted_wall_ns: 6_000_000_000,
        voluntary_switches: Reading::Known(7),
        involuntary_switches: Reading::Known(0),
        migrations: unknown(),
        run_queue_wait_ns: unknown(),
    };
    let kind = MetricKind {
        name: "throughput".to_string(),
        unit: Unit::OpsPerS,
        direction: Direction::HigherIsBetter,
        subject: None,
        statistic: Statistic::Rate,
        importance: Importance::Headline,
    };
    let metric = kind.reading(Reading::Known(seed as f64 / 3.0));
    let counts = vec![(seed, 1), (1_000_003 + seed, 40), (9_000_001 + seed, 1)];
    let set = SetResult {
        name: "web".to_string(),
        workload: "schbench".to_string(),
        ops: "requests".to_string(),
        metrics: vec![metric],
        histograms: vec![NamedHistogram { name: "wakeup".to_string(), counts }],
        workers: (0..workers).map(worker).collect(),
        ..SetResult::default()
    };
    let result = RunResult::new(5_000_000_000, vec![set], Reading::Known(1));
    let result = RunResult { started_unix_ns: seed, ..result };
    Outcome::Done { result: Box::new(result) }
}

pub fn window(index: u32, workers: usize) -> Window {
    let worker = WorkerWindow {
        end_at_ns: u64::from(index + 1) * 1_000_000_000,
        wall_ns: 1_000_000_000,
        ops: 100,
        cpu_ns: 999_000_000,
        peak_ns: 12_345,
    };
    Window { index, workers: vec![worker; workers] }
}

/// The events of one run.
pub fn run(key: RunKey, windows: u32, workers: usize) -> Vec<Event> {
    let mut events = vec![Event::RunStarted { key }];
    events.extend((0..windows).map(|index| Event::Window { key, window: window(index, workers) }));
    events.push(Event::RunEnded { key, outcome: outcome(key, workers) });
    events
}

fn reading<T: Clone + std::fmt::Debug>(
    known: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Reading<T>> {
    prop_oneof![known.prop_map(Reading::Known), any::<String>().prop_map(Reading::Unknown)]
}

/// Mostly one of these, so that it comes again.
fn any_name(names: &'static [&str]) -> impl Strategy<Value = String> {
    prop_oneof![4 => select(names).prop_map(str::to_string), 1 => any::<String>()]
}

fn any_kind() -> impl Strategy<Value = MetricKind> {
    let units = [
        Unit::Ns,
        Unit::OpsPerS,
        Unit::BytesPerS,
        Unit::PerS,
        Unit::Cpus,
        Unit::Ratio,
        Unit::Joules,
        Unit::Count,
    ];
    let directions = [Direction::HigherIsBetter, Direction::LowerIsBetter, Direction::Neutral];
    let statistics = [
        Statistic::Rate,
        Statistic::Mean,
        Statistic::Max,
        Statistic::Quantile(0),
        Statistic::Quantile(u32::MAX),
        Statistic::Share,
        Statistic::Variation,
        Statistic::VoluntarySwitches,
        Statistic::InvoluntarySwitches,
        Statistic::Count,
    ];
    (
        any_name(&["throughput", "cpu", "p99"]),
        select(units.to_vec()),
        select(directions.to_vec()),
        option::of(any_name(&["wakeup", ""])),
        select(statistics.to_vec()),
        select(vec![Importance::Headline, Importance::Explaining]),
    )
        .prop_map(|(name, unit, direction, subject, statistic, importance)| MetricKind {
            name,
            unit,
            direction,
            subject,
            statistic,
            importance,
        })
}

fn any_metric() -> impl Strategy<Value = Metric> {
    // SQLite keeps no sign of a zero, which compares equal.
    let finite = any::<f64>()
        .prop_filter("finite", |value| value.is_finite())
        .prop_map(|value| if value == 0.0 { 0.0 } else { value });
    (any_kind(), reading(finite)).prop_map(|(kind, value)| {
        let value = value.and_then(|value| kind.possible(value));
        kind.reading(value)
    })
}

fn any_histogram() -> impl Strategy<Value = NamedHistogram> {
    (any::<String>(), btree_map(any::<u64>(), 1u64..1 << 40, 0..20))
        .prop_map(|(name, counts)| NamedHistogram { name, counts: counts.into_iter().collect() })
}

fn any_worker() -> impl Strategy<Value = WorkerResult> {
    let readings = (
        reading(any::<u64>()),
        reading(any::<u64>()),
        reading(any::<u64>()),
        reading(any::<u64>()),
    );
    (any::<String>(), any::<i32>(), any::<[u64; 4]>(), readings).prop_map(
        |(
            role,
            tid,
            [ops, wall_ns, cpu_ns, counted_wall_ns],
            (voluntary, involuntary, migrations, wait),
        )| {
            WorkerResult {
                role,
                tid,
                ops,
                wall_ns,
                cpu_ns,
                counted_wall_ns,
                voluntary_switches: voluntary,
                involuntary_switches: involuntary,
                migrations,
                run_queue_wait_ns: wait,
            }
        },
    )
}

fn any_set() -> impl Strategy<Value = SetResult> {
    (
        (any_name(&["web", "load"]), any::<String>(), any_name(&["requests", "rounds"])),
        any::<bool>(),
        vec(any_metric(), 0..4),
        vec(any_histogram(), 0..3),
        vec(any_worker(), 0..4),
        any::<Option<(Option<String>, String)>>(),
    )
        .prop_map(
            |((name, workload, ops), background, metrics, histograms, workers, program)| {
                let program = program.map(|(version, output)| ProgramRecord { version, output });
                SetResult { name, workload, ops, background, metrics, histograms, workers, program }
            },
        )
}

/// Each metric of a set once, as runs have them.
fn distinct(mut sets: Vec<SetResult>) -> Vec<SetResult> {
    let mut seen = std::collections::BTreeSet::new();
    for SetResult { name, metrics, .. } in &mut sets {
        metrics.retain(|metric| seen.insert((name.clone(), metric.kind.name.clone())));
    }
    sets
}

fn any_cpus() -> impl Strategy<Value = CpuSet> {
    proptest::collection::btree_set(0..100u32, 0..4).prop_map(CpuSet::from_iter)
}

fn any_interference() -> impl Strategy<Value = Interference> {
    (any::<String>(), any::<i32>(), any::<[bool; 2]>(), any::<u64>(), 0.0..9.0).prop_map(
        |(who, pid, [is_kernel_thread, with_children], cpu_ns, cpu_share)| Interference {
            who,
            pid,
            is_kernel_thread,
            with_children,
            cpu_ns,
            cpu_share,
        },
    )
}

fn any_load() -> impl Strategy<Value = DisturbanceFact> {
    let share = || option::of(0.0..1.0);
    let others = (any::<u32>(), any::<u64>(), 0.0..9.0);
    let others = others.prop_map(|(processes, cpu_ns, cpu_share)| OtherProcesses {
        processes,
        cpu_ns,
        cpu_share,
    });
    (share(), vec(any_interference(), 0..3), option::of(others), share()).prop_map(
        |(named_share, interferences, others, unnamed_share)| DisturbanceFact::OutsideLoad {
            named_share,
            interferences,
            others,
            unnamed_share,
        },
    )
}

fn any_throttling() -> impl Strategy<Value = DisturbanceFact> {
    let part = prop_oneof![
        any::<u32>().prop_map(ThrottledPart::Core),
        any::<u32>().prop_map(ThrottledPart::Package),
        any::<String>().prop_map(ThrottledPart::Cgroup),
    ];
    let one = (part, any::<u64>()).prop_map(|(part, events)| Throttled { part, events });
    vec(one, 0..3).prop_map(|parts| DisturbanceFact::Throttling { parts })
}

fn any_frequency_change() -> impl Strategy<Value = DisturbanceFact> {
    let change = (any::<[String; 3]>(), any_cpus()).prop_map(|([setting, before, after], cpus)| {
        SettingChange { setting, cpus, before, after }
    });
    vec(change, 0..3).prop_map(|changes| DisturbanceFact::FrequencyChange { changes })
}

fn any_kind_of_disturbance() -> impl Strategy<Value = DisturbanceKind> {
    select(vec![
        DisturbanceKind::Steal,
        DisturbanceKind::OutsideLoad,
        DisturbanceKind::Throttling,
        DisturbanceKind::FrequencyChange,
        DisturbanceKind::ClockSourceChange,
        DisturbanceKind::ClockStep,
        DisturbanceKind::CpuHotplug,
        DisturbanceKind::StarvedWorkers,
        DisturbanceKind::UnderWay,
        DisturbanceKind::Cut,
        DisturbanceKind::CountedWork,
        DisturbanceKind::LateChange,
        DisturbanceKind::LateBlocks,
    ])
}

fn any_disturbance() -> impl Strategy<Value = Disturbance> {
    let fact = prop_oneof![
        (0.0..1.0, any::<u32>(), 0.0..1.0).prop_map(|(share, worst_cpu, worst_cpu_share)| {
            DisturbanceFact::Steal { share, worst_cpu, worst_cpu_share }
        }),
        any_load(),
        any_throttling(),
        any_frequency_change(),
        any::<[String; 2]>()
            .prop_map(|[before, after]| DisturbanceFact::ClockSourceChange { before, after }),
        any::<[i64; 2]>().prop_map(|[stepped_ns, suspended_ns]| DisturbanceFact::ClockStep {
            stepped_ns,
            suspended_ns
        }),
        (any::<u32>(), any_cpus(), any_cpus(), any_cpus()).prop_map(
            |(pool_cpus, lost_from_pool, lost_elsewhere, came)| DisturbanceFact::CpuHotplug {
                pool_cpus,
                lost_from_pool,
                lost_elsewhere,
                came
            }
        ),
        (any::<String>(), any::<[u32; 2]>()).prop_map(|(set, [idle, workers])| {
            DisturbanceFact::StarvedWorkers { set, idle, workers }
        }),
        (any::<[String; 2]>(), any::<[u64; 3]>(), vec(any::<String>(), 0..3)).prop_map(
            |([set, latency], [under_way, of, oldest_ns], bounds)| {
                let ages = Vec::new();
                DisturbanceFact::UnderWay { set, latency, under_way, of, oldest_ns, bounds, ages }
            }
        ),
        (
            (any::<String>(), option::of(any::<String>())),
            any::<[u64; 3]>(),
            vec(any::<String>(), 0..3)
        )
            .prop_map(|((set, latency), [cut, of, longest_ns], bounds)| {
                DisturbanceFact::Cut { set, latency, cut, of, longest_ns, bounds }
            }),
        vec(any::<String>(), 0..3).prop_map(|sets| DisturbanceFact::CountedWork { sets }),
        (any::<u64>(), option::of(any::<u64>()))
            .prop_map(|(at_ns, late_ns)| DisturbanceFact::LateChange { at_ns, late_ns }),
        any::<[u64; 3]>().prop_map(|[shorter, left_out, of]| DisturbanceFact::LateBlocks {
            shorter,
            left_out,
            of
        }),
        (any_kind_of_disturbance(), any::<String>())
            .prop_map(|(kind, detail)| DisturbanceFact::Text { kind, detail }),
    ];
    (option::of(0.0..1.0), fact).prop_map(|(share, fact)| Disturbance { share, fact })
}

fn any_value() -> impl Strategy<Value = Value> {
    let simple = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<u64>().prop_map(Value::DurationNs),
        any::<u64>().prop_map(Value::Bytes),
        (0.0..100.0).prop_map(Value::Percent),
        (0.0..9.0).prop_map(Value::Times),
        any::<String>().prop_map(Value::Text),
        any_cpus().prop_map(Value::Cpus),
    ];
    simple.prop_recursive(1, 4, 3, |simple| vec(simple, 1..3).prop_map(Value::List))
}

fn any_knob() -> impl Strategy<Value = KnobReading> {
    (any_name(&["nice", "slice", "pool"]), any_value(), option::of(reading(any_value()))).prop_map(
        |(knob, asked, got)| {
            let got = got.unwrap_or(Reading::Known(asked.clone()));
            KnobReading { knob, asked, got }
        },
    )
}

fn any_guest() -> impl Strategy<Value = Guest> {
    let kernel = any::<[Option<String>; 3]>().prop_map(|[release, version, digest]| GuestKernel {
        release,
        version,
        digest,
        scheduler: None,
    });
    let time = prop_oneof![
        Just(GuestTime::Exact),
        Just(GuestTime::Real),
        any::<String>().prop_map(GuestTime::NotExact)
    ];
    (kernel, time, reading(0.0..2.0), any::<Option<u64>>()).prop_map(
        |(kernel, time, capacity, coarse_timers_ns)| Guest {
            kernel,
            time,
            capacity,
            coarse_timers_ns,
        },
    )
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    let done = (
        any::<[u64; 2]>(),
        vec(any_set(), 1..3).prop_map(distinct),
        vec(any_knob(), 0..3),
        vec(any_disturbance(), 0..3),
        (option::of(any_guest()), option::of(any_cpus()), reading(any::<u64>())),
    )
        .prop_map(|([started_unix_ns, measured_ns], sets, knobs, disturbances, others)| {
            let (guest, pool_cpus, overhead_cpu_ns) = others;
            let result = RunResult {
                started_unix_ns,
                measured_ns,
                sets,
                knobs,
                disturbances,
                guest,
                pool_cpus,
                overhead_cpu_ns,
                in_turns: Vec::new(),
                trace: None,
            };
            Outcome::Done { result: Box::new(result) }
        });
    prop_oneof![
        3 => done,
        1 => any::<String>().prop_map(|reason| Outcome::Failed { reason }),
        1 => any::<String>().prop_map(|reason| Outcome::Skipped { reason }),
    ]
}

fn any_window(index: u32) -> impl Strategy<Value = Window> {
    vec(any::<[u64; 5]>(), 1..4).prop_map(move |workers| Window {
        index,
        workers: workers
            .into_iter()
            .map(|[end_at_ns, wall_ns, ops, cpu_ns, peak_ns]| WorkerWindow {
                end_at_ns,
                wall_ns,
                ops,
                cpu_ns,
                peak_ns,
            })
            .collect(),
    })
}

fn any_run(key: RunKey) -> impl Strategy<Value = Vec<Event>> {
    let windows = (0..3u32).prop_flat_map(|count| (0..count).map(any_window).collect::<Vec<_>>());
    (windows, any_outcome()).prop_map(move |(windows, outcome)| {
        let windows = windows.into_iter().map(|window| Event::Window { key, window });
        let mut events = vec![Event::RunStarted { key }];
        events.extend(windows);
        events.push(Event::RunEnded { key, outcome });
        events
    })
}

/// A plan with a pool.
fn pooled(id: &str, cells: u32) -> PlanStarted {
    let mut started = started(id, cells);
    started.plan.placement.pool = "bench".to_string().try_into().ok();
    started.cells.iter_mut().for_each(|cell| cell.placement = started.plan.placement.clone());
    started
}

/// A plan that is killed, interrupted, resumed elsewhere and ended, as its events.
pub fn any_plan(id: &'static str) -> impl Strategy<Value = Vec<Event>> {
    const CELLS: u32 = 3;
    let session = move |round: u32| {
        let cells: Vec<u32> = (0..CELLS).collect();
        let runs = proptest::sample::subsequence(cells, 0..=CELLS as usize)
            .prop_shuffle()
            .prop_flat_map(move |cells| {
                let run = |cell| any_run(RunKey { round, cell });
                cells.into_iter().map(run).collect::<Vec<_>>()
            });
        let ends = [PlanEnd::Complete, PlanEnd::Budget, PlanEnd::Interrupted];
        let calibration = (1..u64::MAX).prop_map(|kop_ps| Calibration { kop_ps, spread: 0.25 });
        let end = (select(ends.to_vec()), option::of(calibration))
            .prop_map(|(reason, calibration)| Event::PlanEnded { reason, calibration });
        (any::<String>(), any::<u64>(), runs, option::of(end)).prop_map(
            move |(hostname, started_unix_ns, runs, end)| {
                let environment = environment(&hostname);
                let started = PlanStarted { started_unix_ns, environment, ..pooled(id, CELLS) };
                let mut events = vec![Event::PlanStarted(Box::new(started))];
                events.extend(runs.into_iter().flatten());
                events.extend(end);
                events
            },
        )
    };
    (1..4u32)
        .prop_flat_map(move |sessions| (0..sessions).map(session).collect::<Vec<_>>())
        .prop_map(|sessions| sessions.into_iter().flatten().collect())
}
