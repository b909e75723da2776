//! Counts of threads of this process against the kernel's own, and readings of made-up counts.

use super::super::sched::testing::{Actor, await_sleep, ping_pong};
use super::*;
use crate::sys::testing::Tree;

/// The page faults of a task of this process, small and large.
fn faults(tid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
    let rest: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    // Fields 10 and 12; the state, which is the first here, is field 3.
    [rest[7], rest[9]].iter().map(|field| field.parse::<u64>().unwrap()).sum()
}

/// Counts while actors act; `None`, and said so, where this is not allowed.
fn counting(probe: &'static Counters, test: &str, actors: &[Actor]) -> Option<Counting> {
    let tids: Vec<i32> = actors.iter().map(|actor| actor.tid).collect();
    tids.iter().for_each(|tid| await_sleep(*tid));
    let mut counting = Counting::open(probe, &Host::default(), &tids);
    if let Reading::Unknown(why) = &counting.events[0] {
        println!("skipped: {test} needs privilege: {why}");
        return None;
    }
    counting.begin();
    actors.iter().for_each(|actor| actor.go.send(()).unwrap());
    actors.iter().for_each(Actor::rest);
    counting.end();
    Some(counting)
}

fn total(counting: &Counting, what: Countable, tid: i32) -> u64 {
    counting.total(what, Of(Some(&BTreeSet::from([tid])))).known().unwrap() as u64
}

#[test]
fn switches_and_faults_of_a_worker_are_those_of_the_kernel() {
    let actors = ping_pong(["one", "other"], 50);
    let before = actors.each_ref().map(|actor| (actor.kernel(), faults(actor.tid)));
    let test = "switches_and_faults_of_a_worker_are_those_of_the_kernel";
    let Some(counting) = counting(&COUNTERS_BY_ROLE, test, &actors) else { return };
    for (actor, (kernel, faults_before)) in actors.iter().zip(before) {
        let since = actor.kernel().since(&kernel);
        let switches = since.voluntary + since.involuntary;
        assert!(switches >= 50);
        assert_eq!(total(&counting, Countable::CONTEXT_SWITCHES, actor.tid), switches);
        let faults = faults(actor.tid) - faults_before;
        assert_eq!(total(&counting, Countable::PAGE_FAULTS, actor.tid), faults);
    }
    let known =
        |metric| counting.reading(metric, Of(Some(&BTreeSet::from([actors[0].tid])))).known();
    let per_s = total(&counting, Countable::CONTEXT_SWITCHES, actors[0].tid) as f64 * 1e9;
    assert_eq!(known("context_switches"), Some(per_s / counting.wall_ns as f64));
    let nobody = counting.reading("context_switches", Of(Some(&BTreeSet::new())));
    assert_eq!(nobody, Reading::Known(0.0));
}

#[test]
fn what_a_worker_starts_is_counted_with_it() {
    let programs = || {
        for _ in 0..3 {
            assert!(std::process::Command::new("true").status().unwrap().success());
        }
    };
    let actors = [Actor::new("starts", programs)];
    await_sleep(actors[0].tid);
    let before = faults(actors[0].tid);
    let test = "what_a_worker_starts_is_counted_with_it";
    let Some(counting) = counting(&COUNTERS_BY_ROLE, test, &actors) else { return };
    let own = faults(actors[0].tid) - before;
    let counted = total(&counting, Countable::PAGE_FAULTS, actors[0].tid);
    // A program is mapped and read, its stack written.
    assert!(counted >= own + 3 * 20, "{counted} with {own} of its own");
}

/// Other tasks run on the same CPUs.
#[test]
fn on_cpus_all_is_counted_that_runs_there() {
    let actors = ping_pong(["one", "other"], 50);
    let before = actors.each_ref().map(Actor::kernel);
    let test = "on_cpus_all_is_counted_that_runs_there";
    let Some(counting) = counting(&COUNTERS, test, &actors) else { return };
    let since = actors.iter().zip(before).map(|(actor, before)| actor.kernel().since(&before));
    let own: u64 = since.map(|since| since.voluntary + since.involuntary).sum();
    let all = counting.total(Countable::CONTEXT_SWITCHES, Of(None)).known().unwrap();
    assert!(own >= 100 && all >= own as f64, "{all} with {own} of the workers");
    let of_one = Of(Some(&BTreeSet::from([actors[0].tid])));
    assert_eq!(
        counting.count(Countable::CONTEXT_SWITCHES, of_one),
        Reading::Known(Count::default())
    );
}

/// A value of the hardware that is known is not zero.
#[test]
fn each_metric_is_known_or_says_why() {
    for probe in [&COUNTERS, &COUNTERS_BY_ROLE] {
        let busy = || _ = std::hint::black_box((0..100_000u64).sum::<u64>());
        let actors = [Actor::new("busy", busy)];
        let test = "each_metric_is_known_or_says_why";
        let Some(counting) = counting(probe, test, &actors) else { return };
        let role = Role { thread: "spin-worker", tids: BTreeSet::from([actors[0].tid]) };
        let names = BTreeMap::from([("spin-worker", "worker")]);
        let (metrics, _) = counting.measured(&[role], &names);
        let kinds: Vec<_> = metrics.iter().map(|metric| metric.kind.clone()).collect();
        assert_eq!(kinds, probe.spec.metrics_of("worker", &["worker"]));
        for Metric { kind, value } in metrics {
            let is_never_zero = ["_cycles", "_instructions", "_ipc", "_counted_share"]
                .iter()
                .any(|end| kind.name.ends_with(end));
            match value {
                Reading::Known(0.0) => assert!(!is_never_zero, "{kind:?}"),
                Reading::Known(value) => assert!(value.is_finite() && value > 0.0, "{kind:?}"),
                Reading::Unknown(why) => assert!(!why.is_empty(), "{kind:?}"),
            }
        }
    }
}

#[test]
fn every_metric_has_a_source() {
    for probe in [&COUNTERS, &COUNTERS_BY_ROLE] {
        let metrics = probe.spec.metrics.iter();
        let of = |scope| {
            let own = metrics.clone().filter(move |own| own.scope == scope);
            own.map(|own| own.name).collect::<Vec<_>>()
        };
        let rates = RATES.iter().map(|(name, _)| *name);
        let sources = rates.chain(QUOTIENTS.iter().map(|of| of.metric)).chain([COUNTED_SHARE]);
        assert_eq!(of(probe.scope), sources.collect::<Vec<_>>());
        let domains = DOMAINS.iter().map(|domain| domain.metric);
        assert_eq!(of(Scope::Machine), domains.collect::<Vec<_>>());
    }
    let counted = |what: Countable| RATES.iter().any(|(_, own)| *own == what);
    assert!(QUOTIENTS.iter().all(|own| counted(own.of) && counted(own.other)));
}

#[test]
fn counts_are_scaled_to_the_whole_time_and_unknown_where_there_was_none() {
    let count = |value, enabled_ns, running_ns| Count { value, enabled_ns, running_ns };
    let why = |what, count: Count| match events::total(what, &count) {
        Reading::Unknown(why) => why,
        known => panic!("{known:?}"),
    };
    let misses = Countable::CACHE_MISSES;
    assert_eq!(events::total(misses, &count(30, 900, 300)), Reading::Known(90.0));
    assert_eq!(events::total(misses, &count(0, 900, 900)), Reading::Known(0.0));
    assert_eq!(events::total(misses, &count(0, 0, 0)), Reading::Known(0.0), "nothing ran");
    assert!(why(misses, count(0, 900, 0)).contains("no counter free"));
    assert!(why(Countable::CYCLES, count(0, 900, 900)).contains("counts nothing"));
    let (before, after) = (count(10, 100, 50), count(40, 1_000, 350));
    assert_eq!(after.since(&before), count(30, 900, 300));
}

/// A worker with counts that a test makes up.
fn made_up(counts: &[(Countable, Count)]) -> Counting {
    let event = |(_, what): &(&str, Countable)| match counts.iter().find(|(own, _)| own == what) {
        Some((_, count)) => Reading::Known(Event::from_counts(&[(Place::Task(1), *count)])),
        None => Reading::Unknown("no".to_string()),
    };
    let events = RATES.iter().map(event).collect();
    let (meters, wall_ns) = (Vec::new(), 2_000_000_000);
    Counting { probe: &COUNTERS_BY_ROLE, events, meters, began_ns: 0, wall_ns }
}

#[test]
fn quotients_are_of_what_was_extrapolated_and_the_share_is_the_least() {
    let count = |value, running_ns| Count { value, enabled_ns: 1_000, running_ns };
    let counting = made_up(&[
        (Countable::CYCLES, count(4_000, 1_000)),
        (Countable::INSTRUCTIONS, count(1_000, 500)),
        (Countable::CACHE_MISSES, count(5, 250)),
        (Countable::PAGE_FAULTS, count(8, 1_000)),
    ]);
    let one = BTreeSet::from([1]);
    let cases = [
        ("cycles", Some(2_000.0)),
        ("instructions", Some(1_000.0)),
        ("page_faults", Some(4.0)),
        ("ipc", Some(0.5)),
        ("cache_mpki", Some(10.0)),
        ("branch_mpki", None),
        ("branches", None),
        (COUNTED_SHARE, Some(0.25)),
    ];
    for (metric, expected) in cases {
        assert_eq!(counting.reading(metric, Of(Some(&one))).known(), expected, "{metric}");
    }
    let none = counting.reading("ipc", Of(Some(&BTreeSet::new())));
    assert_eq!(none, Reading::Unknown(NOTHING_RAN.to_string()));
}

#[test]
fn cpus_of_several_kinds_are_counted_by_a_unit_each() {
    // Two workers: one on CPUs of both kinds, one on the first.
    let count = |value, enabled_ns, running_ns| Count { value, enabled_ns, running_ns };
    let [one, other] = [Place::Task(1), Place::Task(2)];
    let event = Event::from_counts(&[
        (one, count(60, 900, 600)),
        (one, count(30, 900, 300)),
        (other, count(10, 100, 100)),
        (other, count(0, 100, 0)),
    ]);
    assert_eq!(event.count(|place| place == one), count(90, 900, 900));
    assert_eq!(event.count(|_| true), count(100, 1_000, 1_000));
    let units = "/sys/bus/event_source/devices";
    let tree = Tree::with_files(&[
        (format!("{units}/cpu/type"), "4\n"),
        (format!("{units}/msr/type"), "10\n"),
        (format!("{units}/uncore_imc_0/cpumask"), "0\n"),
    ]);
    assert_eq!(cpu_units(&tree.host()), [4]);
    let tree = Tree::with_files(&[
        (format!("{units}/cpu_core/type"), "4\n"),
        (format!("{units}/cpu_core/cpus"), "0-7\n"),
        (format!("{units}/cpu_atom/type"), "10\n"),
        (format!("{units}/cpu_atom/cpus"), "8-15\n"),
        (format!("{units}/software/type"), "1\n"),
    ]);
    assert_eq!(cpu_units(&tree.host()), [4, 10]);
    assert!(cpu_units(&Tree::with_files(&[("/etc/nothing", "")]).host()).is_empty());
}
