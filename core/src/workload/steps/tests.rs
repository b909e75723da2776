//! Steps by a clock that a test moves, to the nanosecond, and workers that meet, as threads and as processes.

use std::cell::{Cell, RefCell};

use super::player::{Machine, PASS, WAKEUP};
use super::*;
use crate::model::{Raw, WorkerKind};
use crate::stats::Histogram;
use crate::sys::futex::Scope;
use crate::workload::testing::{SetMemory, WorkerGroup, params, request};
use crate::workload::{Pool, Slot};

const MS: u64 = 1_000_000;
const HOUR: u64 = 3_600_000 * MS;

/// When each step began and ended, and its kind.
type Log = RefCell<Vec<(u64, u64, &'static str)>>;

/// A CPU that does nothing else, but for the time that is stolen from it.
#[derive(Default)]
struct Virtual<'a> {
    now_ns: Cell<u64>,
    /// Added to burns, the first one first.
    stolen_ns: RefCell<Vec<u64>>,
    log: Option<&'a Log>,
}

impl Virtual<'_> {
    fn until(&self, end_ns: u64, what: &'static str) {
        let begun_ns = self.now_ns.replace(end_ns);
        self.log.unwrap().borrow_mut().push((begun_ns, end_ns, what));
    }
}

impl Machine for Virtual<'_> {
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn sleep_until(&mut self, due_ns: u64) {
        self.until(due_ns, "sleep");
    }

    fn burn(&mut self, ns: u64) {
        let mut stolen_ns = self.stolen_ns.borrow_mut();
        let stolen_ns = if stolen_ns.is_empty() { 0 } else { stolen_ns.remove(0) };
        self.until(self.now_ns() + ns + stolen_ns, "burn");
    }

    fn burn_until(&mut self, end_ns: u64) {
        self.until(end_ns.max(self.now_ns()), "spin");
    }
}

/// All that one worker does, with its slot and its histograms of wakeups and passes.
struct Played {
    log: Vec<(u64, u64, &'static str)>,
    ended: bool,
    slot: &'static Slot,
    passes: Histogram,
    wakeups: Histogram,
    chains: Histogram,
}

fn play(steps: &[&str], loops: Option<u64>, delay_ns: u64, stolen_ns: &[u64]) -> Played {
    play_among(&Things::default(), MS, steps, loops, delay_ns, stolen_ns)
}

/// From this moment on, with things that others use, too.
fn play_among(
    all: &Things,
    from_ns: u64,
    steps: &[&str],
    loops: Option<u64>,
    delay_ns: u64,
    stolen_ns: &[u64],
) -> Played {
    play_by(all, from_ns, steps, stolen_ns, |player, _| {
        player.begin(from_ns, delay_ns);
        player.play(loops).unwrap()
    })
}

/// As the test plays it, with the worker's slot.
fn play_by(
    all: &Things,
    from_ns: u64,
    steps: &[&str],
    stolen_ns: &[u64],
    by: impl FnOnce(&mut Player<Virtual>, &Slot) -> bool,
) -> Played {
    let log = Log::default();
    let script = language::Script::read(steps).unwrap();
    let ends_chains = script.ends_chains(Course::default());
    let memory = SetMemory::opened(1, if ends_chains { 3 } else { 2 }, 0);
    let SetMemory { slots, recorders, .. } = memory;
    let worker = memory.worker(0);
    let how = Use { scope: Scope::Private, inherits: false };
    let things: Vec<&Thing> =
        script.things.iter().map(|(sort, name)| all.named(*sort, name, how).unwrap()).collect();
    let pool = Pool::first(2);
    let cgroups = open_cgroups(&script, all).unwrap();
    let parts = Parts {
        script: &script,
        things: &things,
        how,
        pool: &pool.cpus,
        cgroups: &cgroups,
        memory_bytes: 1 << 10,
        ends_chains,
    };
    let machine = Virtual {
        now_ns: Cell::new(from_ns),
        stolen_ns: RefCell::new(stolen_ns.to_vec()),
        log: Some(&log),
    };
    let mut player = Player::new(machine, &worker, &parts).unwrap();
    let ended = by(&mut player, &slots[0]);
    drop(player);
    Played {
        log: log.into_inner(),
        ended,
        slot: &slots[0],
        passes: recorders.merged(PASS),
        wakeups: recorders.merged(WAKEUP),
        chains: if ends_chains { recorders.merged(CHAIN) } else { Histogram::default() },
    }
}

/// In milliseconds from the worker's start: the moments at which it began to burn.
fn burns_ms(played: &Played) -> Vec<u64> {
    let burns = played.log.iter().filter(|(.., what)| *what == "burn");
    burns.map(|(begun_ns, ..)| (begun_ns - MS) / MS).collect()
}

#[test]
fn a_timer_keeps_the_period_and_a_sleep_adds_to_it() {
    let timed = play(&["burn 5ms", "timer 19ms"], Some(4), 0, &[0, 7 * MS]);
    assert_eq!(burns_ms(&timed), [0, 19, 38, 57], "a preempted burn moves nothing");
    let slept = play(&["burn 5ms", "sleep 10ms"], Some(4), 0, &[0, 7 * MS]);
    assert_eq!(burns_ms(&slept), [0, 15, 37, 52]);
    assert!(timed.ended && slept.ended);
    assert_eq!((timed.slot.ops(), timed.slot.counters()[..2].to_vec()), (4, vec![4, 0]));
    assert_eq!((timed.passes.total(), timed.passes.max_ns()), (4, Some(19 * MS)));
    assert_eq!((timed.wakeups.total(), timed.wakeups.max_ns()), (4, Some(0)));
}

#[test]
fn a_missed_timer_counts_from_then_on_unless_it_is_absolute() {
    // The third burn takes 40 ms in place of 10.
    let stolen = [0, 0, 30 * MS];
    let relative = play(&["burn 10ms", "timer t 20ms"], Some(6), 0, &stolen);
    assert_eq!(burns_ms(&relative), [0, 20, 40, 80, 100, 120]);
    assert_eq!(relative.slot.counters(), [6, 1, 5 * 10 * MS, 20 * MS, 90 * MS - 30 * MS]);
    let absolute = play(&["burn 10ms", "timer t 20ms absolute"], Some(6), 0, &stolen);
    assert_eq!(burns_ms(&absolute), [0, 20, 40, 80, 90, 100]);
    assert_eq!(absolute.slot.counters()[..4], [6, 3, 30 * MS, 30 * MS], "at 60, 80 and 100");
}

#[test]
fn a_timer_that_expired_in_a_rest_counts_from_its_end_and_no_chain_goes_on_over_it() {
    let all = Things::default();
    let steps = ["burn 5ms", "post s", "timer 20ms"];
    let played = play_by(&all, MS, &steps, &[], |player, slot| {
        player.begin(MS, 0);
        let mut rested = |ended_ms: u64| {
            let begun_ns = player.machine.now_ns();
            slot.rest_between(begun_ns, ended_ms * MS);
            player.machine.now_ns.set(ended_ms * MS);
            // `play` has left the chain at its end; between two passes a worker still has it.
            player.begin_chain(begun_ns);
            player.play(Some(2)).unwrap()
        };
        // The second one has no expiry in it.
        rested(3_001) && rested(3_042)
    });
    assert_eq!(burns_ms(&played), [3_000, 3_020, 3_041, 3_060]);
    assert_eq!(played.slot.counters()[..4], [4, 0, (15 + 15 + 14 + 15) * MS, 0]);
    let how = Use { scope: Scope::Private, inherits: false };
    let posts = all.named(Sort::Semaphore, "s", how).unwrap();
    let mut chains = [0; 4].map(|_| posts.take(how).chain_ns);
    chains.iter_mut().for_each(|begun_ns| *begun_ns /= MS);
    assert_eq!(chains, [0, 3_021, 0, 3_061]);
}

#[test]
fn phases_repeat_and_share_a_timer_by_its_name() {
    let steps = ["phase 2", "burn 1ms", "timer a 30ms", "phase 3", "burn 4ms", "timer a 30ms"];
    let played = play(&steps, Some(2), 0, &[]);
    let lengths: Vec<u64> = played
        .log
        .iter()
        .filter(|(.., what)| *what == "burn")
        .map(|(begun_ns, end_ns, _)| (end_ns - begun_ns) / MS)
        .collect();
    assert_eq!(lengths, [1, 1, 4, 4, 4, 1, 1, 4, 4, 4]);
    assert_eq!(burns_ms(&played), (0..10).map(|n| 30 * n).collect::<Vec<_>>());
    assert_eq!(played.slot.ops(), 10);
    let two = play(&["burn 1ms", "timer a 30ms", "burn 1ms", "timer b 10ms"], Some(2), 0, &[]);
    assert_eq!(burns_ms(&two), [0, 30, 31, 60], "b expired at 10 and counts from 31");
}

#[test]
fn a_chain_lasts_from_its_timer_to_the_last_one_who_is_woken() {
    let all = Things::default();
    let play =
        |from_ns, steps: &[&str], loops| play_among(&all, from_ns, steps, Some(loops), 0, &[]);
    // Due at 6, 11 and 17, where the last two are missed.
    let first = play(MS, &["timer 5ms", "burn 1ms", "post s", "post u", "spin 5ms"], 3);
    assert_eq!((first.slot.counters()[1], first.chains.total()), (2, 0));
    let middle = play(30 * MS, &["take s", "burn 1ms", "write t"], 3);
    assert_eq!((middle.chains.total(), middle.slot.begun().count()), (0, 0));
    // It comes at 50, 52 and 54, and is not woken by whoever posts in no chain.
    let last = play(50 * MS, &["read t", "burn 2ms"], 3);
    let ended = |played: &Played| (played.chains.min_ns(), played.chains.max_ns());
    assert_eq!((last.chains.total(), ended(&last)), (3, (Some(37 * MS), Some(44 * MS))));
    let other = play(100 * MS, &["take u", "sleep 1ms", "post v"], 1);
    assert_eq!(ended(&other), (Some(94 * MS), Some(94 * MS)), "each branch has an end");
    play(200 * MS, &["burn 1ms", "post w"], 1);
    assert_eq!(play(210 * MS, &["take w"], 1).chains.total(), 0);
    let pending = |name| {
        let how = Use { scope: Scope::Private, inherits: false };
        all.named(Sort::Semaphore, name, how).unwrap().pending_chains().collect::<Vec<_>>()
    };
    assert_eq!(
        (pending("u"), pending("v"), pending("s")),
        (vec![17 * MS, 11 * MS], vec![101 * MS], vec![])
    );
}

#[test]
fn chains_end_where_a_worker_waits_again_and_woke_nobody() {
    let plain = Course::default();
    let forked = Course { is_forked: true, ..plain };
    let delayed = Course { is_delayed: true, ..plain };
    let looped = Course { has_loops: true, ..plain };
    let both = Course { is_forked: true, ..delayed };
    let cases: &[(&[&str], Course, bool)] = &[
        (&["burn 1ms", "timer 5ms", "post s"], plain, false),
        (&["take s", "burn 1ms"], plain, true),
        (&["take s", "burn 1ms", "post t"], plain, false),
        (&["take s", "take t", "post u"], plain, true),
        (&["burn 1ms", "post t", "take s"], plain, false),
        (&["sleep 1ms", "post t", "take s"], plain, true),
        (&["part a", "take s", "post t", "part b", "read t"], plain, true),
        (&["part a", "take s", "post t", "part b", "sleep 1ms"], plain, false),
        (&["burn 1ms"], forked, true),
        (&["fork f"], forked, false),
        (&["fork f"], delayed, false),
        (&["fork f"], both, true),
        (&["burn 1ms", "post t", "take s"], looped, true),
        (&["take s", "post t"], looped, false),
    ];
    for (steps, course, ends) in cases {
        let script = language::Script::read(steps).unwrap();
        assert_eq!(script.ends_chains(*course), *ends, "{steps:?}, {course:?}");
    }
    let has_chains = |more: &[(&str, Raw)]| {
        let params = steps_params(&["post t", "take s"], more);
        let load = Steps.prepare(&request(&params, 1)).unwrap();
        let names = load.metrics(&Measured::default()).into_iter().map(|metric| metric.kind.name);
        (Steps.histograms(&params).len() > CHAIN, names.collect::<Vec<_>>() == ["chains"])
    };
    let (fork, delay) = (Raw::Text("f".to_string()), Raw::Text("1ms".to_string()));
    assert_eq!(has_chains(&[]), (false, false));
    assert_eq!(has_chains(&[("delay", delay.clone())]), (false, false));
    assert_eq!(has_chains(&[("loops", Raw::Int(2))]), (true, true));
    assert_eq!(has_chains(&[("forked", fork), ("delay", delay)]), (true, true));
}

#[test]
fn a_post_that_nobody_takes_counts_at_one_set_at_which_chains_end() {
    let things = Things::default();
    let how = Use { scope: Scope::Private, inherits: false };
    let load = |steps: &[&str]| {
        let load = Steps.prepare(&request(&steps_params(steps, &[]), 1)).unwrap();
        load.meet(&things).unwrap();
        load
    };
    let goes_on = load(&["take s", "post t"]);
    let takers = [load(&["take s", "burn 1ms"]), load(&["take s", "take u"])];
    for name in ["s", "u"] {
        things.named(Sort::Semaphore, name, how).unwrap().post(how, 5, 5);
    }
    let memory = SetMemory::new(2, 3);
    let pending = |load: &dyn Load| memory.under_way(load, 100)[CHAIN].total();
    assert_eq!((pending(&*goes_on), takers.each_ref().map(|load| pending(&**load))), (0, [1, 1]));
}

#[test]
fn a_set_has_the_metrics_that_its_steps_can_have() {
    let names = |steps: &[&str]| {
        let params = steps_params(steps, &[]);
        let own = Steps.metrics(&params).into_iter().map(|kind| kind.name).collect::<Vec<_>>();
        (Steps.histograms(&params).len(), own.join(" "))
    };
    assert_eq!(names(&["spin 1ms", "timer 5ms"]), (2, "miss_ratio slack c_duration".to_string()));
    assert_eq!(names(&["take s", "yield"]), (3, "chains".to_string()));
    let params = steps_params(&["take s", "burn 1ms", "timer 5ms"], &[]);
    let load = Steps.prepare(&request(&params, 1)).unwrap();
    let ended: Histogram = [(MS, 8)].into_iter().collect();
    let measured = |counters| Measured {
        measured_ns: 2_000 * MS,
        ops: 10,
        counters,
        histograms: vec![Histogram::default(), Histogram::default(), ended.clone()],
        ..Measured::default()
    };
    let values = |counters| {
        let metrics = load.metrics(&measured(counters)).into_iter();
        metrics.map(|metric| metric.value.known()).collect::<Vec<_>>()
    };
    let late = values([4, 1, MS, 3 * MS, 10 * MS]);
    assert_eq!(late, [Some(0.25), Some(-0.5e6), Some(1e6), Some(4.0)]);
    assert_eq!(values([0; 5])[..2], [None, None]);
}

#[test]
fn times_of_nothing_and_of_hours_are_exact_and_a_delay_comes_first() {
    let played = play(
        &["burn 0s", "sleep 0s", "spin 2ms", "burn 2h", "sleep 20h", "timer 24h"],
        Some(1),
        5 * MS,
        &[],
    );
    let begin = 6 * MS;
    let expected = [
        (MS, begin, "sleep"),
        (begin, begin, "burn"),
        (begin, begin + 2 * MS, "spin"),
        (begin + 2 * MS, begin + 2 * MS + 2 * HOUR, "burn"),
        (begin + 2 * MS + 2 * HOUR, begin + 2 * MS + 22 * HOUR, "sleep"),
        (begin + 2 * MS + 22 * HOUR, begin + 24 * HOUR, "sleep"),
    ];
    assert_eq!(played.log, expected, "the timer counts from the end of the delay");
    let at_once = play(&["timer 0s", "burn 1ms"], Some(2), 0, &[]);
    assert_eq!(burns_ms(&at_once), [0, 1]);
    assert_eq!(at_once.slot.counters()[..2], [2, 2]);
}

fn steps_params(steps: &[&str], more: &[(&str, Raw)]) -> Params {
    let list = steps.iter().map(|text| Raw::Text(text.to_string())).collect();
    params(&Steps, &[&[("steps", Raw::List(list))], more].concat())
}

const KINDS: [WorkerKind; 2] = [WorkerKind::Threads, WorkerKind::Processes];

/// Groups that share their things, of these steps each.
fn groups(sets: &[(u32, Params)], kind: WorkerKind) -> Vec<WorkerGroup> {
    let things = Things::default();
    let start = |(count, params): &(u32, Params)| {
        WorkerGroup::start_among(&Steps, params, *count, kind, &things)
    };
    sets.iter().map(start).collect()
}

#[test]
fn each_post_is_taken_once() {
    for (kind, [post, take]) in KINDS
        .into_iter()
        .flat_map(|kind| [["post s", "take s"], ["write s", "read s"]].map(|words| (kind, words)))
    {
        let given = steps_params(&[post], &[("loops", Raw::Int(200))]);
        let taker = steps_params(&[take], &[]);
        let groups = groups(&[(3, taker), (2, given)], kind);
        groups[0].wait_until("all posts", |group| ops(group) == 400);
        assert_eq!(ops(&groups[1]), 400);
        assert!(groups[1].slots().iter().all(Slot::has_finished), "its loops are done");
    }
}

#[test]
fn readers_of_a_pipe_have_their_own_or_are_refused() {
    let meet = |count: u32| {
        let things = Things::default();
        let load = Steps.prepare(&request(&steps_params(&["read s"], &[]), count)).unwrap();
        load.meet(&things).map(|()| {
            let how = Use { scope: Scope::Private, inherits: false };
            let thing = things.named(Sort::Pipe, "s", how).unwrap();
            std::iter::from_fn(|| thing.take_pipe()).count()
        })
    };
    assert_eq!(meet(3).unwrap(), 3);
    let error = meet(MAX_READERS as u32 + 1).unwrap_err().to_string();
    assert!(error.contains("more than 1024 workers read `s`"), "{error}");
}

fn ops(group: &WorkerGroup) -> u64 {
    group.slots().iter().map(Slot::ops).sum()
}

#[test]
fn a_resume_wakes_all_and_a_barrier_holds_all() {
    for kind in KINDS {
        let meeting = steps_params(&["barrier b 4"], &[]);
        let group = WorkerGroup::start_as(&Steps, &meeting, 4, kind);
        group.wait_until("meetings", |group| group.slots().iter().all(|slot| slot.ops() > 100));
        let asleep = steps_params(&["suspend a"], &[]);
        let waker = steps_params(&["resume a"], &[]);
        let groups = groups(&[(2, asleep), (1, waker)], kind);
        let both = |group: &WorkerGroup| group.slots().iter().all(|slot| slot.ops() >= 20);
        groups[0].wait_until("wakeups of both", both);
        let wakeups = &groups[0].measured().histograms[WAKEUP];
        assert!(wakeups.total() > 0 && wakeups.max_ns() < Some(60_000_000_000));
    }
}

#[test]
fn workers_share_an_order_and_those_that_take_do_what_comes_next() {
    let order = |text: &str| [("order", Raw::Text(text.to_string()))];
    let takes = ["part a", "take s", "post t", "part b", "take u", "post t 2"];
    for kind in KINDS {
        // Three of four entries are woken by `s`, and together they post five times for four that are taken.
        let woken = steps_params(&takes, &order("a*3 b"));
        let wakes = steps_params(
            &["part a", "post s", "part b", "post u", "part c", "take t"],
            &order("a*3 b c*5"),
        );
        let groups = groups(&[(2, woken), (6, wakes)], kind);
        groups[0].wait_until("rounds", |group| ops(group) > 4 * 50);
        groups[1].wait_until("rounds", |group| ops(group) > 9 * 50);
    }
}

#[test]
fn orders_and_what_excludes_them_are_refused() {
    let refused = |steps: &[&str], more: &[(&str, Raw)]| {
        let error = Steps.layout(&request(&steps_params(steps, more), 1)).unwrap_err();
        error.to_string()
    };
    let order = ("order", Raw::Text("a".to_string()));
    assert!(refused(&["part a", "yield"], &[]).contains("has no place in an order"));
    let loops = [order, ("loops", Raw::Int(3))];
    assert!(refused(&["part a", "yield"], &loops).contains("exclude each other"));
}

#[test]
fn drawn_times_come_equally_often_and_share_a_draw_within_a_pass() {
    let played = play(&["burn 1ms|3ms", "burn 10ms|30ms", "sleep 1ms|5ms"], Some(1_000), 0, &[]);
    let of = |at: usize| -> Vec<u64> {
        let every = played.log.iter().skip(at).step_by(3);
        every.map(|(begun_ns, end_ns, _)| (end_ns - begun_ns) / MS).collect()
    };
    let [first, second, sleeps] = [0, 1, 2].map(of);
    assert!(first.iter().zip(&second).all(|(one, other)| 10 * one == *other));
    let count = |all: &[u64], ms| all.iter().filter(|of| **of == ms).count();
    for (all, ms) in [(&first, 1), (&sleeps, 1)] {
        assert!((495..=505).contains(&count(all, ms)), "{ms} ms: {}", count(all, ms));
    }
    let both = first.iter().zip(&sleeps).filter(|pair| *pair == (&1, &1)).count();
    assert!((240..=260).contains(&both), "{both}");
}

#[test]
fn a_condition_is_waited_for_with_its_lock() {
    let waits = ["lock m", "wait c m", "burn 1us", "unlock m"];
    let signals = ["lock m", "signal c", "unlock m"];
    for (kind, inherit) in KINDS.into_iter().zip([true, false]) {
        let inherit = [("inherit", Raw::Bool(inherit))];
        let sets = [(2, steps_params(&waits, &inherit)), (1, steps_params(&signals, &inherit))];
        let groups = groups(&sets, kind);
        let both = |group: &WorkerGroup| group.slots().iter().all(|slot| slot.ops() >= 20);
        groups[0].wait_until("signals for both", both);
    }
}

#[test]
fn a_fork_starts_a_worker_that_sleeps_and_fails_where_none_does() {
    let forked = [("forked", Raw::Text("f".to_string())), ("loops", Raw::Int(3))];
    let helper = steps_params(&["burn 1us"], &forked);
    let forks = steps_params(&["fork f"], &[("loops", Raw::Int(2))]);
    let both = groups(&[(2, helper.clone()), (1, forks)], WorkerKind::Threads);
    both[0].wait_until("both forks", |group| ops(group) == 6);
    let endless = steps_params(&["take never"], &forked[..1]);
    let many = steps_params(&["fork f"], &[]);
    let both = groups(&[(2, endless), (1, many)], WorkerKind::Threads);
    let slot = &both[1].slots()[0];
    while slot.failure().is_none() {
        std::thread::yield_now();
    }
    assert_eq!(
        (slot.ops(), slot.failure().unwrap()),
        (2, "no worker of the fork `f` is free".into())
    );
}

#[test]
fn a_lock_that_is_misused_fails_its_worker() {
    for (steps, expected) in [
        (&["unlock m"][..], "a worker unlocks `m`, which it does not have"),
        (&["lock m"], "a worker locks `m`, which it has"),
        (&["wait c m"], "a worker unlocks `m`, which it does not have"),
    ] {
        let group = WorkerGroup::start(&Steps, &steps_params(steps, &[]), 1);
        while group.slots()[0].failure().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(group.slots()[0].failure().unwrap(), expected);
    }
}

#[test]
fn all_other_steps_are_done_on_this_machine() {
    let steps = [
        "cpus all",
        "yield",
        "memory 10KiB",
        "output 10KiB",
        "policy batch 3",
        "priority 5",
        "policy other 5",
        "spin 1us",
        "sleep 1us",
        "shared-timer t 1us",
        "burn 1us",
    ];
    let small = [("memory", Raw::Text("4KiB".to_string()))];
    let group = WorkerGroup::start(&Steps, &steps_params(&steps, &small), 2);
    group.wait_until("passes", |group| group.slots().iter().all(|slot| slot.ops() >= 3));
    group.stop();
    let metrics = group.load().metrics(&group.measured());
    assert_eq!(metrics.len(), 3);
    assert!(metrics.iter().all(|metric| metric.value.as_ref().known().is_some()));
}

#[test]
fn cpus_outside_the_pool_and_wrong_names_are_refused() {
    let refused = |steps: &[&str], more: &[(&str, Raw)]| {
        let params = steps_params(steps, more);
        let error = Steps.layout(&request(&params, 1)).unwrap_err();
        (error.place().unwrap().0.to_string(), error.to_string())
    };
    let (place, error) = refused(&["cpus 1-2"], &[]);
    assert_eq!((place.as_str(), error.contains("moves to CPUs 2")), ("steps", true), "{error}");
    let (place, _) = refused(&["yield"], &[("forked", Raw::Text("a b".to_string()))]);
    assert_eq!(place, "forked");
}

#[test]
fn workers_may_rest_that_wait_for_no_other_one() {
    for (steps, expected) in [
        (&["burn 1ms", "yield", "sleep 1ms", "timer 10ms", "post s"][..], true),
        (&["lock m", "burn 1ms", "unlock m", "burn 1ms"], true),
        (&["phase 2", "lock m", "burn 1ms", "phase 2", "unlock m", "burn 1ms"], false),
        (&["burn 1ms", "lock m"], false),
        (&["burn 1ms", "barrier b 2"], false),
        (&["burn 1ms", "take s"], false),
        (&["burn 1ms", "suspend p"], false),
        (&["burn 1ms", "timer 10ms absolute"], false),
        (&["lock m", "wait c m", "unlock m"], false),
        (&["burn 1ms", "fork f"], false),
    ] {
        let list = steps.iter().map(|step| Raw::Text(step.to_string())).collect();
        let given = [("steps", Raw::List(list))];
        assert_eq!(Steps.can_rest(&params(&Steps, &given)), expected, "{steps:?}");
    }
    let forked = [("forked", Raw::Text("f".to_string()))];
    assert!(!Steps.can_rest(&params(&Steps, &forked)));
}

#[test]
fn a_step_writes_the_files_of_its_cgroup_and_of_the_one_around_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = |path: &str| {
        let folder = folder.path().join(path);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("cgroup.threads"), "").unwrap();
        folder.join("cgroup.threads")
    };
    let [run, deep, other] = ["", "a/b", "c"].map(file);
    let made = [("a/b", &deep), ("c", &other)];
    let made = made.map(|(path, file)| (path.parse().unwrap(), vec![file.clone()]));
    let things = Things::with_cgroups(made.into_iter().collect());
    let steps = ["cgroup a/b", "burn 1ms", "cgroup /", "phase 2", "cgroup a/b", "burn 1ms"];
    assert!(play_among(&things, MS, &steps, Some(1), 0, &[]).ended);
    let entered = [&run, &deep, &other].map(|file| std::fs::read_to_string(file).unwrap());
    assert_eq!(entered, ["0", "000", ""]);

    let script = |steps: &[&str]| language::Script::read(steps).unwrap();
    let missing = open_cgroups(&script(&["cgroup none"]), &things).unwrap_err();
    assert!(missing.to_string().contains("nobody made the cgroup none"), "{missing}");
    // Where the run has no cgroup there is none to go back to.
    let none = open_cgroups(&script(&["cgroup /"]), &Things::default()).unwrap();
    assert!(none.iter().all(Vec::is_empty) && none.len() == 1);
    std::fs::remove_file(&deep).unwrap();
    let gone = open_cgroups(&script(&["cgroup a/b"]), &things).unwrap_err();
    assert!(gone.to_string().contains("open the cgroup a/b"), "{gone}");
}
