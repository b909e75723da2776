//! What comparisons read is what the record says.

use proptest::prelude::*;

use super::sample;
use super::*;
use crate::model::{
    Direction, Disturbance, DisturbanceKind, EnvironmentHead, Guest, GuestTime, KnobReading,
    Metric, MetricKind, Outcome, PlanEnd, PlanHead, PlanStarted, Reading, RunKey, SampledMetric,
    SampledPlan, SampledValue, SetResult, Unit, Unmeasured, Variant,
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
            prop_assert_eq!(&sampled, &SampledPlan::of(&store.record(id).unwrap()));
            prop_assert_eq!(&sampled, &SampledPlan::of(&fold(events)));
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
type Told<'a> = ((u32, u32), u32, Vec<(&'a str, &'a str, f64)>);

fn told(sampled: &SampledPlan) -> Vec<Told<'_>> {
    let value = |found: &SampledValue| {
        let metric = &sampled.metrics[found.metric as usize];
        (&*metric.set, &*metric.kind.name, found.value)
    };
    let runs = sampled.runs.iter().enumerate();
    runs.map(|(at, run)| {
        let values = sampled.values_of(at).iter().map(value).collect();
        ((run.key.round, run.key.cell), run.environment, values)
    })
    .collect()
}

/// The samples of the events and, where they can be stored, of the store.
fn samples(events: &[Event], are_stored: bool) -> SampledPlan {
    let sampled = SampledPlan::of(&fold(events));
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
        Event::PlanEnded { reason: PlanEnd::Budget },
    ];
    let sampled = samples(&events, true);
    assert_eq!(
        told(&sampled),
        [
            ((0, 1), 0, vec![("web", "p99", 2.0)]),
            // Of two metrics of one name the first counts, and it is unknown.
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

#[test]
fn what_is_odd_about_runs_is_sampled() {
    let with = |round, knobs: &[(&str, &str, Reading<String>)], kinds: &[DisturbanceKind]| {
        let mut event = done(round, 0, &[]);
        if let Event::RunEnded { outcome: Outcome::Done { result }, .. } = &mut event {
            let reading = |(knob, asked, got): &(&str, &str, Reading<String>)| KnobReading {
                knob: knob.to_string(),
                asked: asked.to_string(),
                got: got.clone(),
            };
            result.knobs = knobs.iter().map(reading).collect();
            let disturbance = |&kind| Disturbance { kind, share: None, detail: String::new() };
            result.disturbances = kinds.iter().map(disturbance).collect();
        }
        event
    };
    let known = |got: &str| Reading::Known(got.to_string());
    let other = ("policy", "batch", known("other"));
    let fine = ("nice", "5", known("5"));
    let pool = ("pool", "bench", known("affinity"));
    let unread = ("slice", "1ms", Reading::Unknown("ENOSYS".to_string()));
    let (steal, load) = (DisturbanceKind::Steal, DisturbanceKind::OutsideLoad);
    let skipped = Outcome::Skipped { reason: "needs root".to_string() };
    let events = [
        sample::start("plan", 2),
        failed(0, 0),
        with(1, &[fine.clone(), pool, unread], &[]),
        with(2, &[fine, other.clone()], &[load, steal, load]),
        Event::RunEnded { key: RunKey { round: 2, cell: 1 }, outcome: skipped },
        with(3, &[other.clone(), other], &[]),
    ];
    let troubles = samples(&events, true).troubles;
    let lost = |found: &Unmeasured| (found.key.round, found.is_skipped, found.reason.clone());
    assert_eq!(
        troubles.unmeasured.iter().map(lost).collect::<Vec<_>>(),
        [(0, false, "killed".to_string()), (2, true, "needs root".to_string())]
    );
    // The second and the third of the runs that were measured.
    assert_eq!(troubles.disturbed, [(1, steal), (1, load)]);
    assert_eq!((troubles.untaken.as_slice(), troubles.knobs.len()), (&[(1, 0), (2, 0)][..], 1));
    assert_eq!((&*troubles.knobs[0].knob, &*troubles.knobs[0].got), ("policy", "other"));
}

#[test]
fn the_guests_of_runs_in_the_lab_are_sampled() {
    let known = |got: &str| Reading::Known(got.to_string());
    let with = |round, knobs: &[(&str, Reading<String>)]| {
        let mut event = done(round, 0, &[set("web", &[metric("p99", 1.0)])]);
        if let Event::RunEnded { outcome: Outcome::Done { result }, .. } = &mut event {
            let reading = |(knob, got): &(&str, Reading<String>)| KnobReading {
                knob: knob.to_string(),
                asked: "exact".to_string(),
                got: got.clone(),
            };
            result.knobs = knobs.iter().map(reading).collect();
        }
        event
    };
    let exact = [("nice", known("5")), ("kernel", known("6.12.0")), ("time", known("exact"))];
    let rebuilt = [&exact[..], &[("kernel-digest", known("0123456789ab"))]].concat();
    let loose = [("time", Reading::Unknown("out of step".to_string())), exact[1].clone()];
    let runs = || [with(0, &exact), failed(1, 0), with(2, &rebuilt), with(3, &[]), with(4, &exact)];
    let of = |backend: &str| {
        let mut started = sample::started("plan", 2);
        started.backend = backend.to_string();
        let start = Event::PlanStarted(Box::new(started));
        samples(&[&[start][..], &runs(), &[with(5, &loose)]].concat(), true)
    };
    let lab = of("lab");
    let guests: Vec<Option<u32>> = lab.runs.iter().map(|run| run.guest).collect();
    assert_eq!(guests, [Some(0), Some(1), Some(2), Some(0), Some(3)]);
    let told = |guest: &Guest| (guest.kernel.to_string(), guest.time.clone());
    let not_exact = GuestTime::NotExact("out of step".to_string());
    assert_eq!(
        lab.guests.iter().map(told).collect::<Vec<_>>(),
        [
            ("6.12.0".to_string(), GuestTime::Exact),
            ("6.12.0 (digest 0123456789ab)".to_string(), GuestTime::Exact),
            ("unknown".to_string(), GuestTime::Real),
            ("6.12.0".to_string(), not_exact),
        ]
    );
    let local = of("local");
    assert!(local.guests.is_empty() && local.runs.iter().all(|run| run.guest.is_none()));
}

#[test]
fn of_two_sets_of_one_name_the_first_counts() {
    let twice = [set("web", &[metric("p99", 1.0)]), set("web", &[metric("rate", 2.0)])];
    let sampled = samples(&[sample::start("plan", 1), done(0, 0, &twice)], true);
    assert_eq!(told(&sampled), [((0, 0), 0, vec![("web", "p99", 1.0)])]);
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
    assert_eq!(sampled.values.iter().map(|found| found.metric).collect::<Vec<_>>(), [0, 1, 2, 0]);
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
        told(&sampled),
        [((0, 0), 0, vec![("web", "p99", 3.0)]), ((0, 2), 0, vec![("web", "p99", 4.0)])]
    );
}

#[test]
fn what_is_not_finite_is_unknown() {
    let odd = [metric("a", f64::NAN), metric("b", f64::INFINITY), metric("c", 1.0)];
    let sampled = samples(&[sample::start("plan", 1), done(0, 0, &[set("web", &odd)])], false);
    assert_eq!(told(&sampled), [((0, 0), 0, vec![("web", "c", 1.0)])]);

    let (_folder, mut store) = fresh();
    apply_all(&mut store, &[sample::start("plan", 1), done(0, 0, &[set("web", &odd[2..])])]);
    store.conn.execute("UPDATE metric SET value = 9e999", []).unwrap();
    assert_eq!(told(&store.sampled("plan").unwrap()), [((0, 0), 0, vec![])]);
}

#[test]
fn what_cannot_be_sampled_is_told() {
    let web = [set("web", &[metric("p99", 1.0)])];
    let cases = [
        ("UPDATE run SET environment = 7", "a run names an environment that is not stored"),
        ("DELETE FROM worker_set", "a run has no worker set 0"),
        ("UPDATE metric SET worker_set = -1", "a run has no worker set -1"),
        ("UPDATE metric SET unit = 'miles'", "unknown variant `miles`"),
    ];
    for (sql, why) in cases {
        let (_folder, mut store) = fresh();
        apply_all(&mut store, &[sample::start("plan", 1), done(0, 0, &web)]);
        store.conn.pragma_update(None, "foreign_keys", false).unwrap();
        store.conn.execute_batch(sql).unwrap();
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
        Event::PlanEnded { reason: PlanEnd::Interrupted },
    ];
    apply_all(&mut store, &events);
    apply_all(&mut store, &[Event::PlanStarted(Box::new(again))]);
    let mut new = sample::started("new", 1);
    new.started_unix_ns += 1;
    let events =
        [Event::PlanStarted(Box::new(new.clone())), Event::PlanEnded { reason: PlanEnd::Complete }];
    apply_all(&mut store, &events);

    let boot = |hostname: &str, kernel: &str, boot_id| EnvironmentHead {
        hostname: hostname.to_string(),
        kernel_release: kernel.to_string(),
        boot_id,
    };
    let first = || boot("first", "6.18.1", Reading::Known("b0".to_string()));
    let second = boot("second", "6.12.0", Reading::Unknown("EACCES".to_string()));
    let head = |started: &PlanStarted, ended, environments, variants: &[&str]| PlanHead {
        id: started.id.clone(),
        title: "A plan".to_string(),
        backend: "null".to_string(),
        started_unix_ns: started.started_unix_ns,
        ended,
        environments,
        variants: variants.iter().map(|name| name.to_string()).collect(),
        aa: false,
    };
    let expected = [
        head(&new, Some(PlanEnd::Complete), vec![first()], &["default"]),
        head(&plan, None, vec![first(), second], &["eevdf", "batch"]),
    ];
    assert_eq!(store.plan_heads().unwrap(), expected);

    store.conn.pragma_update(None, "foreign_keys", false).unwrap();
    store.conn.execute("DELETE FROM environment", []).unwrap();
    let error = store.plan_heads().unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
}
