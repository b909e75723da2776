//! The workload run by a group: requests, locks, arrivals.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::super::testing::{SetMemory, WorkerGroup, params};
use super::spec::{DROPPED, REQUEST, RESPONSE, SETTLED, WAKEUP};
use super::*;
use crate::model::{Raw, WorkerKind};
use crate::sys::{Host, load};
use crate::workload::Pool;

type Given<'a> = &'a [(&'a str, Raw)];

/// The least work, so that a test is about the hand-over.
fn given(extra: Given) -> Params {
    let small = [
        ("operations", Raw::Int(1)),
        ("threads", Raw::Int(2)),
        ("cache-footprint", text("1KiB")),
        ("sleep", text("10us")),
    ];
    let all: Vec<(&str, Raw)> = [extra, &small].concat();
    params(&Schbench, &all)
}

fn text(text: &str) -> Raw {
    Raw::Text(text.to_string())
}

fn request<'a>(params: &'a Params, count: u32, pool: &'a Pool) -> Request<'a> {
    Request { params, count, kind: WorkerKind::Threads, pool, seed: 1, speed: Speed::default() }
}

/// CPUs 0 and 1 and no more.
fn two() -> Pool {
    Pool::first(2)
}

#[test]
fn sets_are_copies_of_message_threads_each_with_its_workers() {
    let cases: &[(Given, u32, u32, &[usize])] = &[
        (&[], 1, 2, &[0, 1, 1]),
        (&[("message-threads", Raw::Int(2))], 1, 3, &[0, 1, 1, 0, 1, 1]),
        (&[("message-threads", Raw::Int(4))], 1, 2, &[0, 1, 0, 1, 0, 1, 0, 1]),
        (&[("threads", Raw::Int(1))], 3, 8, &[0, 1, 0, 1, 0, 1]),
        (&[("threads", Raw::Int(1)), ("rps", Raw::Int(9))], 2, 8, &[0, 1, 0, 1]),
        (&[("auto-rps", text("50%"))], 2, 2, &[0, 1, 1, 2, 0, 1, 1, 2]),
        (&[("pipe", text("64B"))], 1, 2, &[0, 1, 1]),
    ];
    for (given, count, cpus, expected) in cases {
        let (params, pool) = (params(&Schbench, given), Pool::first(*cpus));
        let request = request(&params, *count, &pool);
        assert_eq!(Schbench.layout(&request).unwrap(), *expected, "{given:?}");
        let shape = Shape::from_request(&request).unwrap();
        let places: BTreeSet<Place> = shape.places().collect();
        assert_eq!(places.len(), expected.len(), "each has a place of its own");
        let (mut copies, mut groups) = (0, 0);
        for place in places {
            match place {
                Place::Worker { copy, group, seat } => {
                    assert!(copy < shape.copies && group < shape.groups && seat < shape.threads);
                }
                Place::Message { copy, group } => {
                    (copies, groups) = (copies.max(copy + 1), groups.max(group + 1));
                }
                Place::Governor { copy } => assert!(copy < shape.copies),
            }
        }
        assert_eq!((copies, groups), (shape.copies, shape.groups), "{given:?}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let pipe = ("pipe", text("64B"));
    let auto = ("auto-rps", text("50%"));
    let cases: &[(Given, u32, &str)] = &[
        (&[("arrivals", text("poisson"))], 1, "needs a rate"),
        (&[pipe.clone(), ("arrivals", text("poisson"))], 1, "needs a rate"),
        (&[("rps", Raw::Int(1)), ("message-threads", Raw::Int(2))], 1, "without a request"),
        (&[("rps", Raw::Int(1)), ("message-threads", Raw::Int(2)), auto.clone()], 1, "rps = 1"),
        (&[("threads", Raw::Int(65_536))], 3, "make 196611 workers"),
        (&[], u32::MAX, "more than the 131072"),
        (&[pipe.clone(), ("rps", Raw::Int(1))], 1, "rps does not go with it"),
        (&[pipe.clone(), auto], 1, "auto-rps does not go with it"),
        (&[pipe.clone(), ("calibrate", Raw::Bool(true))], 1, "calibrate does not go with it"),
        (&[pipe, ("split", text("50%"))], 1, "split does not go with it"),
    ];
    for (given, count, expected) in cases {
        let params = params(&Schbench, given);
        let why = Schbench.layout(&request(&params, *count, &two())).unwrap_err().to_string();
        assert!(why.contains(expected), "{why}");
    }
}

fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

/// The CPUs of message threads and workers, one after the other as `message:workers`.
fn pinned(given: Given, count: u32, pool: &Pool) -> Result<String, WorkloadError> {
    let params = params(&Schbench, given);
    let request = request(&params, count, pool);
    Schbench.layout(&request)?;
    let load = Schbench.prepare(&request)?;
    let shape = Shape::from_request(&request)?;
    let shown = |index: usize| load.cpus(index).map_or("all".to_string(), |cpus| cpus.to_string());
    let mut groups: Vec<String> = Vec::new();
    for (index, place) in shape.places().enumerate() {
        match place {
            Place::Message { .. } => groups.push(shown(index)),
            Place::Worker { seat: 0, .. } => {
                groups.last_mut().unwrap().push_str(&format!(":{}", shown(index)));
            }
            Place::Worker { .. } => {
                let own = groups.last().unwrap().rsplit(':').next().unwrap();
                assert_eq!(own, shown(index), "the workers of one message thread");
            }
            Place::Governor { .. } => assert_eq!(load.cpus(index), None),
        }
    }
    Ok(groups.join(" "))
}

#[test]
fn message_threads_and_workers_stay_where_the_plan_says() {
    let (auto, list) = (|name| (name, text("auto")), |name, cpus| (name, text(cpus)));
    let (message, worker) = ("message-cpus", "worker-cpus");
    let three = ("message-threads", Raw::Int(3));
    let numa = ("numa", Raw::Bool(true));
    let cases: &[(Given, u32, Result<&str, &str>)] = &[
        (&[], 1, Ok("all:all")),
        (&[list(message, "2,5"), three.clone()], 1, Ok("2:all 5:all 2:all")),
        (&[list(worker, "4-7")], 1, Ok("4-7:4-7")),
        (&[list(message, "3"), list(worker, "2-3")], 2, Ok("3:2-3 3:2-3")),
        (&[auto(message)], 1, Ok("2:3-7")),
        (&[auto(worker), three.clone()], 1, Ok("2:5-7 3:5-7 4:5-7")),
        (&[auto(message), auto(worker)], 2, Ok("2:4-7 3:4-7")),
        (&[auto(message), list(worker, "2-3"), three.clone()], 1, Ok("2:2-3 3:2-3 4:2-3")),
        (&[list(message, "5,7"), auto(worker)], 1, Ok("5:2-4,6")),
        (&[auto(message), ("auto-rps", text("50%"))], 1, Ok("2:3-7")),
        (&[list(message, "2-7"), auto(worker)], 1, Err("take CPUs 2-7, and the pool has CPUs 2-7")),
        (&[auto(message), ("message-threads", Raw::Int(6))], 1, Err("none is left for the work")),
        (&[list(message, "1-2,9")], 1, Err("message-cpus = `1-2,9` needs CPUs 1,9")),
        (
            &[list(worker, "8")],
            1,
            Err("worker-cpus = `8` needs CPUs 8, which are not among those of the pool, 2-7"),
        ),
        (&[("numa", Raw::Bool(true))], 1, Ok("2-3:2-3 4-7:4-7")),
        (&[numa.clone(), three.clone()], 1, Ok("2-3:2-3 4-7:4-7 2-3:2-3")),
        (&[numa.clone(), ("message-threads", Raw::Int(1))], 1, Err("2 NUMA nodes (CPUs 2-3; 4-7)")),
        (&[numa.clone(), list(worker, "2")], 1, Err("worker-cpus = 2 does not go with it")),
        (&[numa, auto(message)], 1, Err("message-cpus = auto does not go with it")),
    ];
    let pool = Pool::new(cpus("2-7"), &[cpus("0-3"), cpus("4-9")]);
    for (given, count, expected) in cases {
        let got = pinned(given, *count, &pool);
        let fits = match (&got, expected) {
            (Err(why), Err(part)) => why.to_string().contains(part) && why.place().is_some(),
            (Ok(got), Ok(expected)) => got == expected,
            _ => false,
        };
        assert!(fits, "{given:?}: {got:?}, not {expected:?}");
    }
}

#[test]
fn what_depends_on_a_machine_is_not_refused_before_it_is_known() {
    for name in ["message-cpus", "worker-cpus"] {
        let unknown = Pool::default();
        assert_eq!(pinned(&[(name, text("auto"))], 1, &unknown).unwrap(), "all:all");
        assert!(pinned(&[(name, text("5")), ("threads", Raw::Int(1))], 1, &unknown).is_ok());
    }
    assert_eq!(pinned(&[("numa", Raw::Bool(true))], 1, &Pool::default()).unwrap(), "all:all");
}

#[test]
fn nodes_share_the_cpus_of_the_pool_as_workers() {
    let pool = Pool::new(cpus("0-6"), &[cpus("0-2"), cpus("3-6")]);
    let params = params(&Schbench, &[("numa", Raw::Bool(true))]);
    let shape = Shape::from_request(&request(&params, 1, &pool)).unwrap();
    assert_eq!((shape.groups, shape.threads), (2, 4), "7 CPUs by 2 nodes, rounded up");
}

#[test]
fn a_governor_begins_with_the_rate_or_with_ten_or_one_a_message_thread() {
    for (rps, groups, expected) in [(0, 1, 10), (0, 12, 12), (7, 2, 7)] {
        let given = [
            ("auto-rps", text("50%")),
            ("rps", Raw::Int(rps)),
            ("message-threads", Raw::Int(groups)),
        ];
        let params = params(&Schbench, &given);
        assert_eq!(
            Shape::from_request(&request(&params, 1, &two())).unwrap().first_rps(),
            expected
        );
    }
}

#[test]
fn each_mode_lists_what_it_measures() {
    let cases: &[(Given, &str, &str)] = &[
        (&[], "wakeup request", "rps_p20 rps_p50 rps_p90"),
        (&[("calibrate", Raw::Bool(true))], "wakeup request", "rps_p20 rps_p50 rps_p90"),
        (&[("rps", Raw::Int(9))], "wakeup request response", "rps_p20 rps_p50 rps_p90 dropped"),
        (
            &[("auto-rps", text("50%"))],
            "wakeup request response",
            "rps_p20 rps_p50 rps_p90 dropped rps_goal",
        ),
        (&[("pipe", text("64B"))], "wakeup", ""),
    ];
    for (given, histograms, metrics) in cases {
        let params = params(&Schbench, given);
        let names = Schbench.histograms(&params).iter().map(|latency| latency.name);
        assert_eq!(names.collect::<Vec<_>>().join(" "), *histograms, "{given:?}");
        let kinds = Schbench.metrics(&params);
        let names = kinds.iter().map(|metric| metric.name.as_str());
        assert_eq!(names.collect::<Vec<_>>().join(" "), *metrics, "{given:?}");
        let load = Schbench.prepare(&request(&params, 1, &two())).unwrap();
        let made = load.metrics(&measured(&[1.0]));
        let made: Vec<&str> = made.iter().map(|metric| metric.kind.name.as_str()).collect();
        assert_eq!(made.join(" "), *metrics, "{given:?}");
    }
}

fn measured(window_ops_per_s: &[f64]) -> Measured {
    let mut counters = [0; crate::workload::MAX_COUNTERS];
    counters[DROPPED] = 30;
    Measured {
        measured_ns: 10_000_000_000,
        window_ops_per_s: window_ops_per_s.to_vec(),
        counters,
        ..Measured::default()
    }
}

#[test]
fn requests_per_second_are_nearest_ranks_over_windows() {
    let params = params(&Schbench, &[("auto-rps", text("50%")), ("rps", Raw::Int(30))]);
    let load = Schbench.prepare(&request(&params, 2, &two())).unwrap();
    let values = |windows: &[f64]| -> Vec<Option<f64>> {
        load.metrics(&measured(windows)).into_iter().map(|metric| metric.value.known()).collect()
    };
    let (dropped, goal) = (Some(3.0), Some(60.0)); // a second; of both copies
    let counting = |count: i32| values(&(1..=count).rev().map(f64::from).collect::<Vec<_>>());
    assert_eq!(counting(30), [Some(6.0), Some(15.0), Some(27.0), dropped, goal]);
    // There is no quantile with too few values beyond it.
    assert_eq!(counting(29), [Some(6.0), Some(15.0), None, dropped, goal]);
    assert_eq!(counting(6), [None, Some(3.0), None, dropped, goal]);
    for few in [5, 1, 0] {
        assert_eq!(counting(few), [None, None, None, dropped, goal]);
    }
}

#[test]
fn a_split_gives_the_sizes_and_operations_of_schbench() {
    // Share that is private, footprint in KiB, operations: widths and operations of both.
    let cases = [
        ("50%", 256, 5, (73, 2), (73, 3)),
        ("30%", 100, 10, (35, 3), (54, 7)),
        ("100%", 256, 5, (104, 5), (0, 0)),
        ("0%", 256, 5, (0, 0), (104, 5)),
        ("33%", 10, 2, (11, 0), (16, 2)),
    ];
    for (split, kib, operations, own, shared) in cases {
        let footprint = ("cache-footprint", text(&format!("{kib}KiB")));
        let given = [("split", text(split)), footprint, ("operations", Raw::Int(operations))];
        let rules = Rules::from_params(&params(&Schbench, &given)).unwrap();
        assert_eq!((rules.own_width, rules.own_operations), own, "{split} of {kib}");
        assert_eq!((rules.shared_width, rules.shared_operations), shared, "{split} of {kib}");
    }
}

#[test]
fn calibrating_takes_no_lock() {
    for (calibrate, no_locking, expected) in
        [(false, false, true), (false, true, false), (true, false, false)]
    {
        let given = [("calibrate", Raw::Bool(calibrate)), ("no-locking", Raw::Bool(no_locking))];
        let params = params(&Schbench, &given);
        assert_eq!(Rules::from_params(&params).unwrap().locking, expected);
    }
}

fn woken(group: &WorkerGroup) -> bool {
    group.measured().histograms[WAKEUP].total() > 0
}

/// Runs until every worker has done some requests, in every mode that the parameters give.
#[test]
fn every_worker_is_served_in_every_mode() {
    let modes: &[Given] = &[
        &[],
        &[("message-threads", Raw::Int(2))],
        &[("no-locking", Raw::Bool(true)), ("split", text("50%"))],
        &[("calibrate", Raw::Bool(true))],
        &[("sleep", text("0s")), ("operations", Raw::Int(0))],
        &[("rps", Raw::Int(2_000))],
        &[("rps", Raw::Int(2_000)), ("arrivals", text("uniform"))],
        &[
            ("rps", Raw::Int(2_000)),
            ("arrivals", text("poisson")),
            ("message-threads", Raw::Int(2)),
        ],
        &[("auto-rps", text("50%")), ("rps", Raw::Int(2_000))],
        &[("pipe", text("5000B")), ("message-threads", Raw::Int(2))],
    ];
    for mode in modes {
        let params = given(mode);
        let group = WorkerGroup::start(&Schbench, &params, 2);
        let roles = Schbench.layout(&request(&params, 2, &two())).unwrap();
        let served = |group: &WorkerGroup| {
            let workers = group.slots().iter().zip(&roles).filter(|(_, role)| **role == WORKER);
            workers.map(|(slot, _)| slot.ops()).min() >= Some(20)
        };
        group.wait_until(&format!("20 requests of each worker, {mode:?}"), served);
        // The first burst may be queued before a worker reads its queue: no wake-up until the next.
        group.wait_until(&format!("a wake-up, {mode:?}"), woken);
        group.stop();
        let idle = group.slots().iter().zip(&roles).filter(|(_, role)| **role != WORKER);
        assert_eq!(idle.map(|(slot, _)| slot.ops()).sum::<u64>(), 0, "messages are no requests");
        let measured = group.measured();
        for (histogram, latency) in measured.histograms.iter().zip(Schbench.histograms(&params)) {
            assert!(histogram.total() >= 1, "{} of {mode:?}", latency.name);
        }
    }
}

#[test]
fn a_request_includes_its_sleep_but_when_calibrating() {
    for (calibrate, at_least) in [(false, true), (true, false)] {
        let params = given(&[
            ("calibrate", Raw::Bool(calibrate)),
            ("operations", Raw::Int(0)),
            ("sleep", text("20ms")),
        ]);
        let group = WorkerGroup::start(&Schbench, &params, 1);
        group.wait_until("two requests", |group| {
            group.slots().iter().map(Slot::ops).sum::<u64>() >= 2
        });
        group.stop();
        // Sleeps are never short; without one, the fastest of some is not preempted for 20 ms.
        let fastest_ns = group.measured().histograms[REQUEST].min_ns().unwrap();
        assert_eq!(fastest_ns >= 20_000_000, at_least, "{fastest_ns} ns");
    }
}

#[test]
fn at_a_rate_that_is_too_high_requests_are_dropped_and_counted() {
    let params = given(&[("rps", Raw::Int(1_000_000)), ("sleep", text("1ms"))]);
    let group = WorkerGroup::start(&Schbench, &params, 1);
    group.wait_until("drops", |group| group.measured().counters[DROPPED] > 0);
    group.stop();
}

#[test]
fn a_response_is_counted_from_the_intended_arrival() {
    // Bursts of 20, one at a time: the last waits for the sleeps of the others.
    let params = given(&[
        ("rps", Raw::Int(20)),
        ("threads", Raw::Int(1)),
        ("operations", Raw::Int(0)),
        ("sleep", text("1ms")),
    ]);
    let group = WorkerGroup::start(&Schbench, &params, 1);
    group.wait_until("a burst", |group| group.measured().histograms[RESPONSE].total() >= 20);
    group.stop();
    let measured = group.measured();
    assert!(measured.histograms[RESPONSE].max_ns() >= Some(20_000_000));
    let fastest = |index: usize| measured.histograms[index].min_ns();
    assert!(fastest(RESPONSE) >= fastest(REQUEST), "a request is part of its response");
}

/// Requests that a second cannot take are dropped at its end. Otherwise, with a pause after each
/// of them, the next second would begin after 100 s.
#[test]
fn seconds_begin_on_time_at_a_rate_that_is_too_high() {
    for arrivals in ["burst", "poisson"] {
        let params = given(&[
            ("rps", Raw::Int(1_000_000)),
            ("sleep", text("5ms")),
            ("arrivals", text(arrivals)),
        ]);
        let group = WorkerGroup::start(&Schbench, &params, 1);
        group.wait_until("most of two seconds' requests dropped", |group| {
            group.measured().counters[DROPPED] > 1_800_000
        });
        group.stop();
    }
}

fn goal(group: &WorkerGroup) -> f64 {
    let metrics = group.load().metrics(&group.measured());
    let goal = metrics.into_iter().find(|metric| metric.kind.name == "rps_goal");
    goal.and_then(|metric| metric.value.known()).expect("a goal")
}

#[test]
fn a_governor_lowers_a_rate_that_keeps_the_cpus_too_busy() {
    let params = given(&[("auto-rps", text("0.1%")), ("rps", Raw::Int(100_000))]);
    let group = WorkerGroup::start(&Schbench, &params, 1);
    group.wait_until("a lower rate", |group| goal(group) < 100_000.0);
    group.stop();
}

/// The idle time of all CPUs since boot.
fn idle_ns() -> u64 {
    let times = load::cpu_times(&Host::default()).known().expect("/proc/stat");
    times.values().map(|cpu| cpu.idle_ns).sum()
}

/// For so long no CPU is idle only where other load takes all of their time.
const NEVER_IDLE: Duration = Duration::from_secs(5);

/// A burst of more than the queues take does not stop it: the CPUs may be idle all the same.
#[test]
fn a_governor_raises_a_rate_that_leaves_cpus_idle_though_requests_are_dropped() {
    let params =
        given(&[("auto-rps", text("100%")), ("rps", Raw::Int(1_000)), ("sleep", text("5ms"))]);
    let (started, idle_at_start_ns) = (Instant::now(), idle_ns());
    let group = WorkerGroup::start(&Schbench, &params, 1);
    // The rate rises for any idle time, however short, in a second of the governor's.
    let is_never_idle = || started.elapsed() > NEVER_IDLE && idle_ns() == idle_at_start_ns;
    group.wait_until("a higher rate", |group| {
        group.measured().counters[DROPPED] > 0 && goal(group) > 1_000.0 || is_never_idle()
    });
    group.stop();
    if is_never_idle() {
        println!("skipped: a_governor_raises_a_rate needs hardware: a CPU that is idle at times");
    }
}

#[test]
fn the_lock_of_its_cpu_is_held_during_the_math_unless_it_is_not_wanted() {
    for wanted in [true, false] {
        let params = given(&[
            ("no-locking", Raw::Bool(!wanted)),
            ("cache-footprint", text("64KiB")),
            ("operations", Raw::Int(2_000)),
            ("sleep", text("0s")),
        ]);
        let rules = Rules::from_params(&params).unwrap();
        let locks = rules.locking.then(|| CpuLocks::new(false).unwrap());
        let worker = SetMemory::new(1, 2).worker(0);
        let own = Matrices::private(rules.own_width).unwrap();
        let mut job = Job {
            rules: &rules,
            own,
            shared: Matrices::private(0).unwrap(),
            locks: locks.as_ref(),
            timed: None,
        };
        let held = || locks.as_ref().map_or(0, |locks| locks.held().len());
        let seen = std::thread::scope(|threads| {
            let request = threads.spawn(|| job.request(&worker));
            let mut seen = 0;
            while !request.is_finished() {
                seen = seen.max(held());
            }
            seen
        });
        assert_eq!((seen, held()), (usize::from(wanted), 0), "during and after");
    }
}

#[test]
fn a_target_that_was_hit_is_counted_once() {
    // However busy the machine is, 90 to 100 % is a hit, and with spinning workers it is.
    let params = given(&[
        ("auto-rps", text("95%")),
        ("rps", Raw::Int(2_000)),
        ("sleep", text("0s")),
        ("threads", Raw::Int(4)),
        ("cache-footprint", text("64KiB")),
        ("operations", Raw::Int(200)),
    ]);
    let group = WorkerGroup::start(&Schbench, &params, 1);
    group.wait_until("a hit", |group| group.measured().counters[SETTLED] > 0);
    group.stop();
    assert_eq!(group.measured().counters[SETTLED], 1);
}

#[test]
fn processes_share_turns_requests_locks_matrices_and_buffers() {
    let modes: [Given; 4] = [
        &[("split", text("50%"))],
        &[("rps", Raw::Int(2_000)), ("arrivals", text("uniform"))],
        &[("rps", Raw::Int(2_000)), ("auto-rps", text("50%"))],
        &[("pipe", text("64B"))],
    ];
    for mode in modes {
        let params = given(mode);
        let group = WorkerGroup::start_as(&Schbench, &params, 1, WorkerKind::Processes);
        group.wait_until(&format!("20 requests of each process, {mode:?}"), |group| {
            group.slots().iter().skip(1).take(2).all(|slot| slot.ops() >= 20)
        });
        group.wait_until(&format!("a wake-up, {mode:?}"), woken);
        group.stop();
    }
}

#[test]
fn requests_that_sleep_for_an_hour_are_under_way() {
    let group = WorkerGroup::start(&Schbench, &given(&[("sleep", text("1h"))]), 3);
    let totals = |group: &WorkerGroup| {
        let ages = group.under_way();
        [WAKEUP, REQUEST].map(|histogram| ages[histogram].total())
    };
    group.wait_until("requests of all workers", |group| totals(group) == [0, 6]);
    assert_eq!(group.measured().histograms[REQUEST].total(), 0);
}

#[test]
fn a_wakeup_is_under_way_from_the_post_until_the_worker_runs_and_queued_requests_from_their_arrival()
 {
    let params = given(&[("rps", Raw::Int(9))]);
    let pool = two();
    let request = request(&params, 1, &pool);
    let shape = Shape::from_request(&request).unwrap();
    let rules = Rules::from_params(&params).unwrap();
    let copies = vec![Instance::new(&shape, &rules, (Scope::Private, false)).unwrap()];
    let (arrivals, pins) = (Pattern::Burst, Pins::choose(&params, &pool, &shape).unwrap());
    let speed = Speed::default();
    let running = Running { shape, pins, rules, arrivals, scope: Scope::Private, copies, speed };
    let memory = SetMemory::opened(3, 3, 1);
    let worker = memory.worker(1);
    let oldest_ns = || {
        let ages = memory.under_way(&running, 1_000);
        (ages[WAKEUP].max_ns(), ages[RESPONSE].max_ns(), ages[RESPONSE].total())
    };
    let Group { seats, inboxes, .. } = &running.copies[0].groups[0];
    worker.begin(WAKEUP, 500);
    assert_eq!(oldest_ns(), (None, None, 0), "nobody woke it");
    [550, 700].iter().for_each(|arrived_ns| assert!(inboxes[0].push(*arrived_ns)));
    seats[0].post_at(600, Scope::Private);
    assert_eq!(oldest_ns(), (Some(400), Some(450), 2));
    worker.record(WAKEUP, 650, 50);
    worker.add_ops(1);
    assert_eq!(oldest_ns(), (None, Some(300), 1), "one is done");
}

/// If they did not, the drop-in for schbench would not end.
#[test]
fn workers_that_wait_end_once_they_are_released() {
    for extra in [vec![], vec![("rps", Raw::Int(1_000))], vec![("pipe", text("64B"))]] {
        let group = WorkerGroup::start(&Schbench, &given(&extra), 2);
        let workers = || [1, 2, 4, 5].into_iter();
        group.wait_until("operations", |group| {
            workers().all(|index| group.slots()[index].ops() > 0)
        });
        group.stop();
        group.wait_until("the end of all workers", |group| {
            group.load().release();
            workers().all(|index| group.slots()[index].has_ended())
        });
        assert_eq!(group.under_way()[WAKEUP].total(), 0);
    }
}
