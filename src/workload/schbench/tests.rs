//! The workload run by a crew: requests, locks, arrivals.

use super::super::testing::{Crew, params};
use super::*;
use crate::model::Raw;
use crate::workload::{Pool, Slot};

type Given<'a> = &'a [(&'a str, Raw)];

/// As little work as there can be, so that a test is about the hand-over.
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
    Request { params, count, kind: WorkerKind::Threads, pool, seed: 1 }
}

#[test]
fn sets_are_copies_of_message_threads_each_with_its_workers() {
    let cases: &[(Given, u32, u32, &[usize])] = &[
        (&[], 1, 2, &[0, 1, 1]),
        (&[("message-threads", Raw::Int(2))], 1, 3, &[0, 1, 1, 0, 1, 1]),
        (&[("message-threads", Raw::Int(4))], 1, 2, &[0, 1, 0, 1, 0, 1, 0, 1]),
        (&[("threads", Raw::Int(1))], 3, 8, &[0, 1, 0, 1, 0, 1]),
    ];
    for (given, count, cpus, expected) in cases {
        let params = params(&Schbench, given);
        let pool = Pool::first(*cpus);
        let request = request(&params, *count, &pool);
        assert_eq!(Schbench.layout(&request).unwrap(), *expected, "{given:?}");
        let shape = Shape::of(&request).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for (index, &role) in expected.iter().enumerate() {
            let (copy, group, seat) = shape.place(index);
            assert!(copy < shape.copies && group < shape.groups && seat < Some(shape.threads));
            assert_eq!(seat.is_none(), role == MESSAGE);
            assert!(seen.insert((copy, group, seat)), "worker {index} has a place of its own");
        }
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let cases: &[(Given, u32, &str)] = &[
        (&[("arrivals", text("poisson"))], 1, "needs a rate"),
        (&[("rps", Raw::Int(1)), ("message-threads", Raw::Int(2))], 1, "without a request"),
        (&[("threads", Raw::Int(65_536))], 3, "make 196611 workers"),
        (&[], u32::MAX, "at most 131072"),
    ];
    for (given, count, expected) in cases {
        let params = params(&Schbench, given);
        let why = Schbench.layout(&request(&params, *count, &Pool::first(2))).unwrap_err();
        assert!(why.contains(expected), "{why}");
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
        let rules = Rules::of(&params(&Schbench, &given)).unwrap();
        assert_eq!((rules.own_width, rules.own_operations), own, "{split} of {kib}");
        assert_eq!((rules.shared_width, rules.shared_operations), shared, "{split} of {kib}");
    }
}

#[test]
fn calibrating_takes_no_lock() {
    for (calibrate, locking, expected) in
        [(false, true, true), (false, false, false), (true, true, false)]
    {
        let given = [("calibrate", Raw::Bool(calibrate)), ("no-locking", Raw::Bool(!locking))];
        let params = params(&Schbench, &given);
        assert_eq!(Rules::of(&params).unwrap().locking, expected);
    }
}

fn woken(crew: &Crew) -> bool {
    crew.measured().histograms[WAKEUP].total() > 0
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
    ];
    for mode in modes {
        let params = given(mode);
        let crew = Crew::start(&Schbench, &params, 2);
        let roles = Schbench.layout(&request(&params, 2, &Pool::first(2))).unwrap();
        let served = |crew: &Crew| {
            let workers = crew.slots().iter().zip(&roles).filter(|(_, role)| **role == WORKER);
            workers.map(|(slot, _)| slot.ops()).min() >= Some(20)
        };
        crew.wait_until(&format!("20 requests of each worker, {mode:?}"), served);
        // The first burst may be queued before a worker first looks: no wake-up until the next.
        crew.wait_until(&format!("a wake-up, {mode:?}"), woken);
        crew.stop();
        let idle = crew.slots().iter().zip(&roles).filter(|(_, role)| **role == MESSAGE);
        assert_eq!(idle.map(|(slot, _)| slot.ops()).sum::<u64>(), 0, "messages are no requests");
        let measured = crew.measured();
        assert!(measured.histograms[REQUEST].total() >= 20, "{mode:?}");
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
        let crew = Crew::start(&Schbench, &params, 1);
        crew.wait_until("two requests", |crew| {
            crew.slots().iter().map(Slot::ops).sum::<u64>() >= 2
        });
        crew.stop();
        // Sleeps are never short; without one, the fastest of some is not preempted for 20 ms.
        let fastest_ns = crew.measured().histograms[REQUEST].min_ns().unwrap();
        assert_eq!(fastest_ns >= 20_000_000, at_least, "{fastest_ns} ns");
    }
}

#[test]
fn at_a_rate_that_is_too_high_requests_are_dropped_and_counted() {
    let params = given(&[("rps", Raw::Int(1_000_000)), ("sleep", text("1ms"))]);
    let crew = Crew::start(&Schbench, &params, 1);
    crew.wait_until("drops", |crew| crew.measured().counters[DROPPED] > 0);
    crew.stop();
}

#[test]
fn processes_share_turns_requests_locks_and_matrices() {
    let modes: [Given; 2] =
        [&[("split", text("50%"))], &[("rps", Raw::Int(2_000)), ("arrivals", text("uniform"))]];
    for mode in modes {
        let params = given(mode);
        let crew = Crew::start_as(&Schbench, &params, 1, WorkerKind::Processes);
        crew.wait_until(&format!("20 requests of each process, {mode:?}"), |crew| {
            crew.slots().iter().skip(1).all(|slot| slot.ops() >= 20)
        });
        crew.wait_until(&format!("a wake-up, {mode:?}"), woken);
        crew.stop();
    }
}
