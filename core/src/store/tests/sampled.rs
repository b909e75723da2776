//! Comparisons read the same values as the record has.

use proptest::prelude::*;

use super::sample;
use super::*;
use crate::model::{
    CpuSet, Direction, Disturbance, DisturbanceFact, DisturbanceKind, EnvironmentHead, Guest,
    GuestKernel, GuestTime, KnobReading, Metric, MetricKind, Outcome, PlanEnd, PlanHead,
    PlanStarted, Reading, RunCounts, RunKey, RunResult, SampledMetric, SampledPlan, SampledPool,
    SampledRun, SetResult, Unit, Unmeasured, Value, Variant, Work,
};

/// Each session of a stream, from one start of the plan to the next.
fn sessions(events: &[Event]) -> impl Iterator<Item = &[Event]> {
    events.chunk_by(|_, next| !matches!(next, Event::PlanStarted(_)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn samples_are_those_of_the_record(
        first in sample::any_plan("first"),
        second in sample::any_plan("second"),
    ) {
        let (_folder, mut store) = fresh();
        let (mut mine, mut other) = (sessions(&first), sessions(&second));
        // Runs of two plans that take turns lie in turns.
        loop {
            let turns = [mine.next(), other.next()];
            turns.iter().flatten().for_each(|session| apply_all(&mut store, session));
            if turns == [None, None] {
                break;
            }
        }
        for (id, events) in [("first", &first), ("second", &second)] {
            let sampled = store.sampled(id).unwrap();
            prop_assert_eq!(&sampled, &record::sampled(&store.record(id).unwrap()));
            prop_assert_eq!(&sampled, &record::sampled(&fold(events)));
        }
    }
}

fn metric(name: &str, value: f64) -> Metric {
    let kind = MetricKind::legacy("", name, Unit::Ns, Direction::LowerIsBetter);
    kind.reading(Reading::Known(value))
}

fn unknown(name: &str) -> Metric {
    Metric { value: Reading::Unknown("no schedstat".to_string()), ..metric(name, 0.0) }
}

fn set(name: &str, metrics: &[Metric]) -> SetResult {
    let Outcome::Done { result } = sample::outcome(RunKey { round: 0, cell: 0 }, 2) else {
        unreachable!("a sample is a run that was measured")
    };
    SetResult { name: name.to_string(), metrics: metrics.to_vec(), ..result.sets[0].clone() }
}

fn done(round: u32, cell: u32, sets: &[SetResult]) -> Event {
    let key = RunKey { round, cell };
    let Outcome::Done { mut result } = sample::outcome(key, 1) else {
        unreachable!("a sample is a run that was measured")
    };
    result.sets = sets.to_vec();
    Event::RunEnded { key, outcome: Outcome::Done { result } }
}

fn failed(round: u32, cell: u32) -> Event {
    let outcome = Outcome::Failed { reason: "killed".to_string() };
    Event::RunEnded { key: RunKey { round, cell }, outcome }
}

/// Round and cell, environment, and set, name and value of each sample.
type Sample<'a> = ((u32, u32), u32, Vec<(&'a str, &'a str, f64)>);

fn listed(sampled: &SampledPlan) -> Vec<Sample<'_>> {
    let value = |(at, value): &(u32, f64)| {
        let metric = &sampled.metrics[*at as usize];
        (&*metric.set, &*metric.kind.name, *value)
    };
    let run = |run: &SampledRun| {
        let values = run.values.iter().map(value).collect();
        ((run.key.round, run.key.cell), run.environment, values)
    };
    sampled.runs.iter().map(run).collect()
}

/// The samples of the events and, where they can be stored, of the store.
fn samples(events: &[Event], are_stored: bool) -> SampledPlan {
    let sampled = record::sampled(&fold(events));
    if are_stored {
        let (_folder, mut store) = fresh();
        apply_all(&mut store, events);
        assert_eq!(store.sampled("plan").unwrap(), sampled);
    }
    sampled
}

#[test]
fn what_is_known_of_foreground_sets_in_measured_runs_is_sampled() {
    let mut again = sample::started("plan", 2);
    again.environment = sample::environment("second");
    let events = [
        sample::start("plan", 2),
        done(0, 1, &[set("load", &[metric("p99", 1.0)]), set("web", &[metric("p99", 2.0)])]),
        failed(0, 0),
        Event::PlanStarted(Box::new(again)),
        done(1, 0, &[set("web", &[unknown("p99"), metric("rate", 3.0), metric("p99", 4.0)])]),
        done(1, 1, &[set("stranger", &[metric("p99", 5.0)])]),
        done(2, 1, &[]),
        done(2, 0, &[set("web", &[metric("rate", 6.0), metric("p99", 7.0)])]),
        Event::PlanEnded { reason: PlanEnd::Budget, calibration: None },
    ];
    let sampled = samples(&events, true);
    assert_eq!(
        listed(&sampled),
        [
            ((0, 1), 0, vec![("web", "p99", 2.0)]),
            // The first of two metrics of one name counts, and it is unknown.
            ((1, 0), 1, vec![("web", "rate", 3.0)]),
            ((1, 1), 1, vec![]),
            ((2, 1), 1, vec![]),
            ((2, 0), 1, vec![("web", "rate", 6.0), ("web", "p99", 7.0)]),
        ]
    );
    let hosts: Vec<&str> = sampled.environments.iter().map(|found| &*found.hostname).collect();
    assert_eq!((hosts, sampled.ended), (vec!["first", "second"], Some(PlanEnd::Budget)));
    assert_eq!((sampled.cells.len(), sampled.metrics.len()), (2, 2));
}

/// A run of the first cell whose result `change` has changed.
fn changed(round: u32, change: impl FnOnce(&mut RunResult)) -> Event {
    let mut event = done(round, 0, &[]);
    if let Event::RunEnded { outcome: Outcome::Done { result }, .. } = &mut event {
        change(result);
    }
    event
}

#[test]
fn a_plan_in_detail_counts_its_failures_and_disturbances_the_most_frequent_first() {
    use DisturbanceKind::{OutsideLoad, Steal};
    let disturbed = |round, kinds: &[DisturbanceKind]| {
        changed(round, |result| {
            let fact = |kind: &DisturbanceKind| DisturbanceFact::Text {
                kind: *kind,
                detail: String::new(),
            };
            let facts = kinds.iter().map(fact);
            result.disturbances = facts.map(|fact| Disturbance { share: None, fact }).collect();
        })
    };
    let failed = |round, reason: &str| Event::RunEnded {
        key: RunKey { round, cell: 0 },
        outcome: Outcome::Failed { reason: reason.to_string() },
    };
    let (_folder, mut store) = begun(1);
    let events = [
        disturbed(0, &[Steal, OutsideLoad]),
        disturbed(1, &[Steal]),
        failed(2, "it stalled"),
        failed(3, "it died"),
        failed(4, "it died"),
    ];
    apply_all(&mut store, &events);
    let detail = store.detail("plan").unwrap();
    assert_eq!(detail.disturbed, [(Steal, 2), (OutsideLoad, 1)]);
    let unmeasured = detail.unmeasured.iter();
    let counts = unmeasured.map(|of| (of.status.as_str(), of.reason.as_str(), of.runs));
    let expected = [("failed", "it died", 2), ("failed", "it stalled", 1)];
    assert_eq!(counts.collect::<Vec<_>>(), expected);
}

fn knob(knob: &str, asked: Value, got: Reading<Value>) -> KnobReading {
    KnobReading { knob: knob.to_string(), asked, got }
}

#[test]
fn issues_of_runs_are_sampled() {
    let text = |text: &str| Value::Text(text.to_string());
    let with = |round, knobs: &[KnobReading], disturbances: &[Disturbance]| {
        changed(round, |result| {
            result.knobs = knobs.to_vec();
            result.disturbances = disturbances.to_vec();
        })
    };
    let other = knob("policy", text("batch"), Reading::Known(text("other")));
    let same = knob("nice", Value::Int(5), Reading::Known(Value::Int(5)));
    let pool = knob("pool", text("bench"), Reading::Known(text("affinity")));
    let unread =
        knob("slice", Value::DurationNs(1_000_000), Reading::Unknown("ENOSYS".to_string()));
    let steal = Disturbance {
        share: Some(0.1),
        fact: DisturbanceFact::Steal { share: 0.1, worst_cpu: 2, worst_cpu_share: 0.3 },
    };
    let detail = "others ran".to_string();
    let load = DisturbanceFact::Text { kind: DisturbanceKind::OutsideLoad, detail };
    let load = Disturbance { share: None, fact: load };
    let skipped = Outcome::Skipped { reason: "needs root".to_string() };
    let events = [
        sample::start("plan", 2),
        failed(0, 0),
        with(1, &[same.clone(), pool, unread.clone()], &[]),
        with(2, &[same, other.clone()], &[load.clone(), steal.clone(), load.clone()]),
        Event::RunEnded { key: RunKey { round: 2, cell: 1 }, outcome: skipped },
        with(3, &[other.clone(), other.clone()], &[]),
    ];
    let sampled = samples(&events, true);
    let unmeasured = |found: &Unmeasured| (found.key.round, found.is_skipped, found.reason.clone());
    assert_eq!(
        sampled.unmeasured.iter().map(unmeasured).collect::<Vec<_>>(),
        [(0, false, "killed".to_string()), (2, true, "needs root".to_string())]
    );
    let [first, second, third] = sampled.runs.as_slice() else { panic!("{:?}", sampled.runs) };
    assert_eq!(second.disturbances, [load.clone(), steal, load]);
    assert!(first.disturbances.is_empty() && third.disturbances.is_empty());
    assert_eq!(first.mismatches, [unread]);
    assert_eq!((&second.mismatches, &third.mismatches), (&vec![other.clone()], &vec![other]));
    assert!(sampled.pools.is_empty(), "the plan names no pool");
}

#[test]
fn reasons_of_unknown_values_are_sampled() {
    let because = |name: &str, why: &str| {
        let kind = metric(name, 0.0).kind;
        kind.reading(Reading::Unknown(why.to_string()))
    };
    let events = [
        sample::start("plan", 2),
        done(0, 0, &[set("web", &[metric("p50", 1.0), because("p99", "no samples")])]),
        failed(1, 0),
        done(2, 0, &[set("web", &[because("p99", "no samples"), because("p50", "no time")])]),
        // The background and a second metric of a name give nothing, known or not.
        done(3, 0, &[set("load", &[because("p99", "x")])]),
        done(4, 0, &[set("web", &[metric("p99", 2.0), because("p99", "x")])]),
    ];
    let sampled = samples(&events, true);
    let reasons = |run: usize| -> Vec<(&str, &str)> {
        let unknown = sampled.runs[run].unknown.iter();
        let name = |metric: u32| sampled.metrics[metric as usize].kind.name.as_str();
        unknown.map(|(metric, reason)| (name(*metric), reason.as_str())).collect()
    };
    assert_eq!(reasons(0), [("p99", "no samples")]);
    assert_eq!(reasons(1), [("p99", "no samples"), ("p50", "no time")]);
    assert_eq!((reasons(2), reasons(3)), (vec![], vec![]));
    assert_eq!(sampled.runs[3].values.len(), 1);
}

#[test]
fn guests_are_sampled_each_once_whatever_the_backend_is_called() {
    let guest = |digest: &str, time| Guest {
        kernel: GuestKernel {
            release: Some("6.12.0".to_string()),
            version: None,
            digest: Some(digest.to_string()),
            scheduler: None,
        },
        time,
        capacity: Reading::Known(0.999),
        coarse_timers_ns: Some(4_000_000),
    };
    let exact = guest("a", GuestTime::Exact);
    let rebuilt = guest("b", GuestTime::Exact);
    let loose = guest("a", GuestTime::NotExact("out of step".to_string()));
    let with =
        |round, guest: Option<&Guest>| changed(round, |result| result.guest = guest.cloned());
    let events = [
        sample::start("plan", 2),
        with(0, Some(&exact)),
        failed(1, 0),
        with(2, Some(&rebuilt)),
        with(3, None),
        with(4, Some(&exact)),
        with(5, Some(&loose)),
    ];
    let sampled = samples(&events, true);
    let of_runs: Vec<Option<u32>> = sampled.runs.iter().map(|run| run.guest).collect();
    assert_eq!(of_runs, [Some(0), Some(1), None, Some(0), Some(2)]);
    assert_eq!(sampled.guests, [exact, rebuilt, loose]);
    let (_folder, mut store) = fresh();
    apply_all(&mut store, &events);
    assert_eq!(store.plan_heads().unwrap()[0].booted, ["6.12.0"]);
}

#[test]
fn what_switches_took_is_sampled_where_variants_take_turns() {
    let took = |ns| {
        let switch =
            knob(KnobReading::SWITCH, Value::DurationNs(0), Reading::Known(Value::DurationNs(ns)));
        changed(ns as u32, |result| result.knobs = vec![switch.clone()])
    };
    for (turns_ns, expected) in [(Some(10_000_000), vec![7, 8]), (None, Vec::new())] {
        let (_folder, mut store) = fresh();
        let mut started = sample::started("plan", 1);
        started.plan.measure.turns_ns = turns_ns;
        apply_all(&mut store, &[Event::PlanStarted(Box::new(started)), took(7), took(8)]);
        assert_eq!(store.sampled("plan").unwrap().switches_ns, expected);
    }
}

#[test]
fn what_a_pool_became_is_sampled() {
    let mut started = sample::started("plan", 1);
    started.plan.placement.pool = "bench".to_string().try_into().ok();
    started.cells[0].placement = started.plan.placement.clone();
    let text = |text: &str| Value::Text(text.to_string());
    let pool = |form: &str| knob("pool", text("bench"), Reading::Known(text(form)));
    let cpus = |cpus: &str| Some(cpus.parse::<CpuSet>().unwrap());
    let with = |round, form: &str, own: &str| {
        changed(round, |result| (result.knobs, result.pool_cpus) = (vec![pool(form)], cpus(own)))
    };
    let events = [
        Event::PlanStarted(Box::new(started)),
        with(0, "affinity", "0-1"),
        with(1, "cpuset v1", "0-1"),
        changed(2, |_| ()),
        with(3, "affinity", "0-1"),
    ];
    let sampled = samples(&events, true);
    let of_runs: Vec<Option<u32>> = sampled.runs.iter().map(|run| run.pool).collect();
    assert_eq!(of_runs, [Some(0), Some(1), None, Some(0)]);
    let expected = |form| SampledPool { reading: pool(form), cpus: cpus("0-1") };
    assert_eq!(sampled.pools, [expected("affinity"), expected("cpuset v1")]);
    let are_as_asked = sampled.runs.iter().all(|run| run.mismatches.is_empty());
    assert!(are_as_asked, "a pool is never as asked");
}

/// Two sets compete in the second work; the first has one of them alone.
#[test]
fn workers_are_sampled_where_a_set_competes_and_is_alone_elsewhere() {
    let plan = |with_solo: bool| {
        let mut started = sample::started("plan", 2);
        let alone = Work {
            sets: started.plan.works[1].sets[..1].to_vec(),
            ..started.plan.works[0].clone()
        };
        assert_eq!(alone.sets[0].count, 1);
        if with_solo {
            started.plan.works[0] = alone;
            started.cells[0].work = started.plan.works[0].clone();
        }
        let sets = |workers: usize, name: &str| {
            let Outcome::Done { result } = sample::outcome(RunKey { round: 0, cell: 0 }, workers)
            else {
                unreachable!("a sample is a run that was measured")
            };
            SetResult { name: name.to_string(), ..result.sets[0].clone() }
        };
        let events = [
            Event::PlanStarted(Box::new(started)),
            done(0, 0, &[sets(1, "web")]),
            failed(1, 0),
            done(0, 1, &[sets(2, "web"), sets(1, "load")]),
            // No set of the work.
            done(1, 1, &[sets(2, "web"), sets(1, "stranger")]),
        ];
        samples(&events, true)
    };
    let sampled = plan(true);
    let workers = |run: usize| -> Vec<(u16, &str, u64, u64, u64)> {
        let workers = sampled.runs[run].workers.iter();
        workers.map(|own| (own.set, &*own.role, own.ops, own.wall_ns, own.cpu_ns)).collect()
    };
    let worker = |set, ops: u64| (set, "worker", 1000 + ops, 5_000_000_000, 4_999_000_000);
    assert_eq!(workers(0), [worker(0, 0)]);
    assert_eq!(workers(1), [worker(0, 0), worker(0, 1), worker(1, 0)]);
    assert_eq!(workers(2), [worker(0, 0), worker(0, 1)]);
    let run = &sampled.runs[0];
    assert_eq!((run.started_unix_ns, run.measured_ns), (0, 5_000_000_000));
    assert!(plan(false).runs.iter().all(|run| run.workers.is_empty()));
}

#[test]
fn of_two_sets_of_one_name_the_first_counts() {
    let twice = [set("web", &[metric("p99", 1.0)]), set("web", &[metric("rate", 2.0)])];
    let sampled = samples(&[sample::start("plan", 1), done(0, 0, &twice)], true);
    assert_eq!(listed(&sampled), [((0, 0), 0, vec![("web", "p99", 1.0)])]);
}

#[test]
fn what_counts_something_else_under_the_same_names_is_another_metric() {
    let web = |value, ops: &str, unit| {
        let mut metric = metric("rate", value);
        metric.kind.unit = unit;
        SetResult { ops: ops.to_string(), ..set("web", &[metric]) }
    };
    let events = [
        sample::start("plan", 1),
        done(0, 0, &[web(1.0, "requests", Unit::PerS)]),
        done(1, 0, &[web(2.0, "rounds", Unit::PerS)]),
        done(2, 0, &[web(3.0, "requests", Unit::Ratio)]),
        done(3, 0, &[web(4.0, "requests", Unit::PerS)]),
    ];
    let sampled = samples(&events, true);
    let of = |metric: &SampledMetric| (metric.ops.clone(), metric.kind.unit);
    assert_eq!(
        sampled.metrics.iter().map(of).collect::<Vec<_>>(),
        [("requests", Unit::PerS), ("rounds", Unit::PerS), ("requests", Unit::Ratio)]
            .map(|(ops, unit)| (ops.to_string(), unit))
    );
    let values = sampled.runs.iter().flat_map(|run| &run.values);
    assert_eq!(values.map(|(metric, _)| *metric).collect::<Vec<_>>(), [0, 1, 2, 0]);
}

/// No store has two of them; a stream may.
#[test]
fn of_several_runs_of_one_cell_and_round_the_last_counts() {
    let web = |value| [set("web", &[metric("p99", value)])];
    let events = [
        sample::start("plan", 3),
        done(0, 0, &web(1.0)),
        done(0, 1, &web(2.0)),
        failed(0, 2),
        done(0, 0, &web(3.0)),
        failed(0, 1),
        done(0, 2, &web(4.0)),
        done(0, 7, &web(5.0)),
    ];
    let sampled = samples(&events, false);
    assert_eq!(
        listed(&sampled),
        [((0, 0), 0, vec![("web", "p99", 3.0)]), ((0, 2), 0, vec![("web", "p99", 4.0)])]
    );
}

#[test]
fn what_cannot_be_is_unknown() {
    let odd = [metric("a", f64::NAN), metric("b", -1.0), metric("c", 1.0)];
    let sampled = samples(&[sample::start("plan", 1), done(0, 0, &[set("web", &odd)])], false);
    assert_eq!(listed(&sampled), [((0, 0), 0, vec![("web", "c", 1.0)])]);

    let (_folder, mut store) = fresh();
    apply_all(&mut store, &[sample::start("plan", 1), done(0, 0, &[set("web", &odd[2..])])]);
    forget_digests(&store);
    for (stored, why) in [("9e999", "inf is not a finite number"), ("-value", "-1 is below 0")] {
        store.conn.execute(&format!("UPDATE metric SET value = {stored}"), []).unwrap();
        let sampled = store.sampled("plan").unwrap();
        assert_eq!(listed(&sampled), [((0, 0), 0, vec![])]);
        let unknown = &sampled.runs[0].unknown;
        assert!(unknown[0].1.starts_with(why), "{unknown:?}");
        assert_eq!(sampled, record::sampled(&store.record("plan").unwrap()));
        assert!(export(&store).contains(why), "{stored}");
        store.conn.execute("UPDATE metric SET value = 1", []).unwrap();
    }
}

#[test]
fn what_cannot_be_sampled_is_an_error() {
    let web = [set("web", &[metric("p99", 1.0)])];
    let cases = [
        ("UPDATE run SET environment = 7", "a run names an environment that is not stored"),
        ("DELETE FROM worker_set", "a run has no worker set 0"),
        ("UPDATE metric SET worker_set = -1", "a run has no worker set -1"),
        ("UPDATE metric SET metric_kind = 9", "a metric has the kind 9, which is not there"),
        ("UPDATE metric_kind SET unit = 'miles'", "unknown variant `miles`"),
    ];
    for (sql, why) in cases {
        let (_folder, mut store) = fresh();
        apply_all(&mut store, &[sample::start("plan", 1), done(0, 0, &web)]);
        store.conn.pragma_update(None, "foreign_keys", false).unwrap();
        store.conn.execute_batch(sql).unwrap();
        let is_noticed = store.sampled("plan").map(|sampled| (sampled.runs, reported(&store)));
        assert!(
            is_noticed.is_err()
                || is_noticed.is_ok_and(|(runs, damage)| runs.is_empty() && damage.len() == 1),
            "{sql}"
        );
        forget_digests(&store);
        let error = store.sampled("plan").unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{sql}: {error:?}");
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.to_string().contains("cannot read plan `plan`"), "{error}");
    }
    let (_folder, store) = fresh();
    assert!(matches!(store.sampled("x").unwrap_err(), StoreError::UnknownPlan { .. }));
}

#[test]
fn heads_say_what_plans_are_chosen_by() {
    let (_folder, mut store) = fresh();
    let variants = ["eevdf", "batch"]
        .map(|name| Variant { name: name.to_string(), knobs: Default::default() });
    let mut plan = sample::started("old", 2);
    let cells = plan.cells.clone();
    let pairs = cells.iter().flat_map(|cell| variants.iter().map(move |own| (cell, own)));
    plan.cells = pairs
        .zip(0..)
        .map(|((cell, own), index)| crate::model::Cell {
            index,
            variant: own.clone(),
            ..cell.clone()
        })
        .collect();
    plan.plan.variants = variants.to_vec();
    let mut again = PlanStarted { environment: sample::environment("second"), ..plan.clone() };
    again.environment.boot_id = Reading::Unknown("EACCES".to_string());
    again.environment.kernel_release = "6.12.0".to_string();
    let events = [
        Event::PlanStarted(Box::new(plan.clone())),
        Event::PlanEnded { reason: PlanEnd::Interrupted, calibration: None },
    ];
    apply_all(&mut store, &events);
    apply_all(&mut store, &[Event::PlanStarted(Box::new(again))]);
    let mut new = sample::started("new", 1);
    new.started_unix_ns += 1;
    let events = [
        Event::PlanStarted(Box::new(new.clone())),
        Event::PlanEnded { reason: PlanEnd::Complete, calibration: None },
    ];
    apply_all(&mut store, &events);

    let boot = |hostname: &str, kernel: &str, boot_id| EnvironmentHead {
        hostname: hostname.to_string(),
        kernel_release: kernel.to_string(),
        boot_id,
    };
    let first = || boot("first", "6.18.1", Reading::Known("b0".to_string()));
    let second = boot("second", "6.12.0", Reading::Unknown("EACCES".to_string()));
    let head = |started: &PlanStarted, ended, environments, variants: &[&str]| PlanHead {
        runs: RunCounts {
            total: u64::from(started.plan.measure.rounds) * started.cells.len() as u64,
            cells: started.cells.len() as u64,
            ..RunCounts::default()
        },
        id: started.id.clone(),
        title: "A plan".to_string(),
        backend: "null".to_string(),
        started_unix_ns: started.started_unix_ns,
        ended,
        environments,
        variants: variants.iter().map(|name| name.to_string()).collect(),
        ..PlanHead::default()
    };
    let expected = [
        head(&new, Some(PlanEnd::Complete), vec![first()], &["default"]),
        head(&plan, None, vec![first(), second], &["eevdf", "batch"]),
    ];
    assert_eq!(store.plan_heads().unwrap(), expected);

    store.conn.pragma_update(None, "foreign_keys", false).unwrap();
    store.conn.execute("DELETE FROM environment", []).unwrap();
    assert_eq!(store.plan_heads().unwrap(), []);
    let damaged = ["new", "old"].map(|id| Damage::Plan { id: id.to_string() });
    assert_eq!(reported(&store), damaged);
}
