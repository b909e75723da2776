//! Traces of two CPUs as plans, and orders that are replayed by workers that are as fast as it comes.

use std::collections::BTreeMap;

use super::*;
use crate::model::{Left, Message, TraceEvent, TraceTask, TraceWhat, Waker, duration_ns};
use crate::plan;

const MS: u64 = 1_000_000;
const ENDS_NS: u64 = 1_000 * MS;

fn task(tid: i32) -> TraceTask {
    TraceTask { tid, name: None }
}

fn traced(tid: i32, process: &str, name: &str) -> TracedTask {
    let [process, name] = [process, name].map(str::to_string);
    TracedTask { tid, pid: tid, name, process, kernel_thread: false }
}

/// Events at their times in microseconds. Whoever comes while the other CPUs have a thread runs on the next one.
fn trace(events: &[(u64, TraceWhat)]) -> Trace {
    let mut on_cpu: Vec<i32> = Vec::new();
    let event = |&(at_us, what): &(u64, TraceWhat)| {
        let mut cpu = 0;
        if let TraceWhat::Switch { from, to, .. } = what {
            let is_there = |tid: &i32| *tid == from.tid;
            cpu = on_cpu.iter().position(is_there).unwrap_or(on_cpu.len());
            on_cpu.resize(on_cpu.len().max(cpu + 1), 0);
            on_cpu[cpu] = to.tid;
        }
        TraceEvent { at_ns: at_us * 1_000, cpu: cpu as u32, what }
    };
    let events = events.iter().map(event).collect();
    Trace { from_ns: 0, to_ns: ENDS_NS, events, ..Trace::default() }
}

fn switch(from: i32, left: Left, to: i32) -> TraceWhat {
    TraceWhat::Switch { from: task(from), left, to: task(to), prio: 120 }
}

fn waking(by: Waker, tid: i32) -> TraceWhat {
    TraceWhat::Waking { by, task: task(tid), prio: 120, last_cpu: 0, is_sync: false }
}

fn capture(trace: &Trace, tasks: &[TracedTask], is_named: bool) -> Option<Captured> {
    capture_fitted(trace, tasks, is_named, Fit { cost_ns: 0, ..Fit::USUAL })
}

fn capture_fitted(
    trace: &Trace,
    tasks: &[TracedTask],
    is_named: bool,
    fit: Fit,
) -> Option<Captured> {
    let settings = BTreeMap::new();
    captured(&Asked { trace, tasks, settings: &settings, title: "t", is_named, fits: &[fit; 9] })
}

/// The steps of each set and its order, as the plan's parser reads them.
fn sets(text: &str) -> Vec<(u32, Vec<String>, String)> {
    let plan = plan::parse("p", text, None, Default::default()).expect(text);
    let set = |set: &crate::model::WorkerSet| {
        let word = |name: &str| set.params.get(name).map_or(String::new(), |of| of.to_string());
        let steps = word("steps").split(',').map(str::to_string).collect();
        (set.count, steps, word("order"))
    };
    plan.works[0].sets.iter().map(set).collect()
}

/// After each sleep of about 6 ms thread 1 is woken by its timer, works for 2 ms and wakes thread 2 halfway, which waits for
/// its CPU and works for 3 ms with a break of 1 ms.
fn pair() -> Trace {
    let mut events = Vec::new();
    for (number, begin_us) in (0..1_000_000).step_by(10_000).enumerate() {
        // Not a timer's period.
        let woken_us = begin_us + 1_000 * (number as u64 % 2);
        events.extend([
            (woken_us, waking(Waker::Interrupt, 1)),
            (woken_us + 100, switch(0, Left::Runnable, 1)),
            (woken_us + 1_100, waking(Waker::Task(1), 2)),
            (woken_us + 2_100, switch(1, Left::Sleeping, 2)),
            (woken_us + 4_100, switch(2, Left::Preempted, 9)),
            (woken_us + 5_100, switch(9, Left::Sleeping, 2)),
            (woken_us + 6_100, switch(2, Left::Uninterruptible, 0)),
        ]);
    }
    trace(&events)
}

#[test]
fn work_is_kept_and_waits_for_a_cpu_are_not() {
    let tasks = [traced(1, "app", "timer"), traced(2, "app", "app")];
    let captured = capture(&pair(), &tasks, true).unwrap();
    let [app, timer] = &captured.roles[..] else { panic!("{:?}", captured.roles) };
    assert_eq!((app.profile.name.as_str(), app.profile.cpus), ("app", 0.3));
    assert_eq!((timer.profile.name.as_str(), timer.profile.cpus), ("app-timer", 0.2));
    assert_eq!((app.profile.wakeups_per_s, app.profile.switches_per_s), (100.0, 200.0));
    assert_eq!(app.profile.bursts_ns, [3 * MS; 100]);
    let sets = sets(&captured.text);
    let expected = ["part a", "take app", "burn 3ms"];
    assert_eq!((&sets[0].1[..], sets[0].2.as_str()), (&expected.map(str::to_string)[..], "a*99"));
    // The first wakeup came from outside, before any sleep was seen.
    assert_eq!(sets[1].1[2..], ["burn 1ms", "post app", "burn 1ms"], "{}", captured.text);
    assert!(sets[1].1[1].starts_with("sleep "), "{}", captured.text);
    assert_eq!(sets[1].2, "a*99");
}

#[test]
fn a_fitted_plan_says_so_and_has_that_part_of_the_work() {
    let tasks = [traced(1, "app", "timer"), traced(2, "app", "app")];
    assert!(!capture(&pair(), &tasks, true).unwrap().text.contains("fitted"));
    let fit = Fit { cost_ns: 0, passes: 2.0, work: 1.5 };
    let captured = capture_fitted(&pair(), &tasks, true, fit).unwrap();
    let woken = captured.roles.iter().map(|role| role.profile.is_woken);
    assert_eq!(woken.collect::<Vec<_>>(), [true, false]);
    let comment = "100 % by app-timer; fitted: 2.00 passes for one, with 1.50 of its work in all\n";
    assert!(captured.text.contains(comment), "{}", captured.text);
    assert_eq!(sets(&captured.text)[0].1[2], "burn 2.25ms");
}

/// Thread 1 leaves a CPU to which it was not seen to come, 90 ms after it had left the one where it was.
#[test]
fn a_thread_that_moved_unseen_did_not_work_meanwhile() {
    let mut trace = trace(&[
        (0, switch(2, Left::Sleeping, 1)),
        (91_000, switch(1, Left::Sleeping, 2)),
        (92_000, switch(2, Left::Sleeping, 1)),
        (192_000, switch(1, Left::Sleeping, 2)),
    ]);
    trace.events[1].cpu = 1;
    let captured = capture(&trace, &[traced(1, "a", "a")], true).unwrap();
    assert_eq!(captured.roles[0].profile.cpus, 0.1, "{}", captured.text);
}

/// A recorder lost the switch with which thread 1 slept.
#[test]
fn a_thread_whose_end_is_missing_works_no_longer_than_it_was_seen() {
    let tasks = [traced(1, "app", "timer"), traced(2, "app", "app")];
    for lost in [50, 99] {
        let mut trace = pair();
        let sleeps = |event: &TraceEvent| matches!(event.what, TraceWhat::Switch { from, .. } if from.tid == 1);
        let at = trace.events.iter().enumerate().filter(|(_, event)| sleeps(event)).nth(lost);
        trace.events.remove(at.unwrap().0);
        let captured = capture(&trace, &tasks, true).unwrap();
        let timer = &captured.roles[1].profile;
        // Half of the work was seen, until it woke thread 2.
        assert_eq!((timer.cpus, timer.wakeups_per_s), (0.199, 100.0), "{lost}");
        assert_eq!(timer.bursts_ns, [2 * MS; 99]);
        assert_eq!(captured.roles[0].profile.wakeups_per_s, 100.0);
    }
}

#[test]
fn all_roles_of_a_plan_have_one_rate() {
    let tasks = [traced(1, "app", "timer"), traced(2, "app", "app")];
    let text = capture(&pair(), &tasks, true).unwrap().text;
    let asked = text.replace("[[workload]]\n", "[[workload]]\nrate = [\"1x\", \"2x\"]\n");
    let works = |text: &str| plan::parse("p", text, None, Default::default()).expect(text).works;
    let labels: Vec<String> = works(&asked).iter().map(|work| work.label()).collect();
    assert!(labels[1].ends_with(" rate=2x") && labels.len() == 2, "{labels:?}");
    let sleep_ns = |work: &crate::model::Work| {
        let script = crate::workload::step_script(&work.sets[1].params).unwrap();
        script.steps().next().unwrap().shortest_ns()
    };
    let [once, twice] = &works(&asked)[..] else { panic!("{asked}") };
    assert_eq!((sleep_ns(once), sleep_ns(twice)), (sleep_ns(&works(&text)[0]), sleep_ns(once) / 2));
}

/// Thread 1 is woken once by a timer, and thread 2 is born and works three times; then both sleep to the end.
#[test]
fn what_was_seen_once_comes_once() {
    let events = [
        (200_000, waking(Waker::Interrupt, 1)),
        (200_000, switch(0, Left::Runnable, 1)),
        (203_000, switch(1, Left::Sleeping, 0)),
        (300_000, waking(Waker::Task(9), 2)),
        (300_000, switch(0, Left::Runnable, 2)),
        (301_000, switch(2, Left::Sleeping, 0)),
        (401_000, waking(Waker::Interrupt, 2)),
        (401_000, switch(0, Left::Runnable, 2)),
        (403_000, switch(2, Left::Sleeping, 0)),
        (505_000, waking(Waker::Interrupt, 2)),
        (505_000, switch(0, Left::Runnable, 2)),
        (509_000, switch(2, Left::Sleeping, 0)),
    ];
    let tasks = [traced(1, "app", "once"), traced(2, "app", "thrice")];
    let sets =
        |events: &[(u64, TraceWhat)]| sets(&capture(&trace(events), &tasks, true).unwrap().text);
    let seen = sets(&events);
    let own = |at: usize| (seen[at].1.join(", "), seen[at].2.as_str());
    assert_eq!(own(1), ("part a, sleep 997ms, part b, burn 3ms".to_string(), "b a"));
    let thrice = "part a, sleep 100ms|102ms, burn 2ms|4ms, part b, sleep 791ms, part c, burn 1ms";
    assert_eq!(own(0), (thrice.to_string(), "c a*2 b"));
}

/// Thread 1 works for 100 us 2,000 times, 3 for 10 us once, and 4 for 1 us ten times.
#[test]
fn threads_that_hardly_do_anything_have_no_role() {
    let works = |tid: i32, at_us: u64, work_us: u64| {
        [
            (at_us, waking(Waker::Interrupt, tid)),
            (at_us, switch(0, Left::Runnable, tid)),
            (at_us + work_us, switch(tid, Left::Sleeping, 0)),
        ]
    };
    let mut events: Vec<_> = (0..2_000).flat_map(|at| works(1, at * 500, 100)).collect();
    events.extend(works(3, 200, 10));
    events.extend((0..10).flat_map(|at| works(4, 300 + at * 500, 1)));
    events.sort_by_key(|(at_us, _)| *at_us);
    let tasks = [traced(1, "app", "app"), traced(3, "sh", "sh"), traced(4, "tick", "tick")];
    let captured = capture(&trace(&events), &tasks, true).unwrap();
    let names: Vec<&str> = captured.roles.iter().map(|role| &*role.profile.name).collect();
    assert_eq!(names, ["app", "tick"]);
    assert!(
        captured.text.contains("\n# Kinds of threads that are left out, since they did least: 1\n")
    );
    let all = capture(&pair(), &[traced(1, "app", "timer"), traced(2, "app", "app")], true);
    assert!(!all.unwrap().text.contains("left out"));
}

#[test]
fn who_is_mostly_woken_by_writing_reads() {
    let mut trace = pair();
    let mut wakeups = 0;
    for event in &mut trace.events {
        if let TraceWhat::Waking { by: Waker::Task(_), is_sync, .. } = &mut event.what {
            wakeups += 1;
            *is_sync = wakeups % 3 > 0;
        }
    }
    let tasks = [traced(1, "app", "timer"), traced(2, "app", "app")];
    let sets = sets(&capture(&trace, &tasks, true).unwrap().text);
    assert_eq!((sets[0].1[1].as_str(), sets[1].1[3].as_str()), ("read app", "write app"));
}

/// Thread 1 of [`pair`] sends two more messages to thread 2 while that one works, which has them after 1 ms and after 2 ms of
/// work.
#[test]
fn messages_that_wake_nobody_are_passes_of_their_own() {
    let mut trace = pair();
    let all = capture(&trace, &[traced(1, "app", "timer"), traced(2, "app", "app")], true);
    for event in &trace.events {
        if let TraceWhat::Waking { by: Waker::Task(1), .. } = event.what {
            let message = |sent_us: u64, received_us: u64| Message {
                sent_ns: event.at_ns + sent_us * 1_000,
                received_ns: event.at_ns + received_us * 1_000,
                by: 1,
                to: 2,
            };
            trace.messages.extend([message(500, 2_000), message(400, 4_000)]);
            // From nobody who is captured.
            trace.messages.push(Message { by: 9, ..message(300, 4_500) });
        }
    }
    let tasks = [traced(1, "app", "timer"), traced(2, "app", "app")];
    let captured = capture(&trace, &tasks, true).unwrap();
    let [(_, app, order), (_, timer, _)] = &sets(&captured.text)[..] else { panic!() };
    let text = &captured.text;
    // The first messages are from a pass that is not in the order.
    let steps = ["part a", "read app", "burn 1ms", "part b", "burn 1ms"];
    assert_eq!(app[..], steps.map(str::to_string), "{text}");
    assert_eq!(order, "b*2 a*297", "{text}");
    let posts = [
        "burn 1ms",
        "write app",
        "burn 400us",
        "write app",
        "burn 100us",
        "write app",
        "burn 500us",
    ];
    assert_eq!(timer[2..], posts.map(str::to_string), "{text}");
    // The load is the same.
    let profiles = |own: Captured| own.roles.into_iter().map(|role| role.profile);
    assert!(profiles(captured).eq(profiles(all.unwrap())));
}

/// Thread 1 works for 1 ms every 10 ms, wakes threads 2 and 3, and sends to each of them so many messages more, which they
/// have after each 500 us of their work.
fn fellows(messages: u64) -> Trace {
    let (mut events, mut sent) = (Vec::new(), Vec::new());
    for begin_us in (0..1_000_000).step_by(10_000) {
        let work_us = 500 * (messages + 1);
        let [second_us, third_us] = [1_000, 1_000 + work_us].map(|after_us| begin_us + after_us);
        events.extend([
            (begin_us, waking(Waker::Interrupt, 1)),
            (begin_us, switch(0, Left::Runnable, 1)),
            (begin_us + 200, waking(Waker::Task(1), 2)),
            (begin_us + 400, waking(Waker::Task(1), 3)),
            (second_us, switch(1, Left::Sleeping, 2)),
            (third_us, switch(2, Left::Sleeping, 3)),
            (third_us + work_us, switch(3, Left::Sleeping, 0)),
        ]);
        for (to, first_us) in [(2, second_us), (3, third_us)] {
            sent.extend((1..=messages).map(|number| Message {
                sent_ns: (begin_us + 600) * 1_000 + number,
                received_ns: (first_us + 500 * number) * 1_000,
                by: 1,
                to,
            }));
        }
    }
    Trace { messages: sent, ..trace(&events) }
}

#[test]
fn each_of_few_threads_that_messages_wait_for_is_a_role() {
    let tasks = [traced(1, "app", "app"), traced(2, "pool", "pool"), traced(3, "pool", "pool")];
    let read = |messages: u64, all: usize| {
        let mut trace = fellows(messages);
        trace.messages.truncate(all);
        sets(&capture(&trace, &tasks, true).unwrap().text)
    };
    let own = |(count, steps, order): &(u32, Vec<String>, String)| {
        (*count, steps.join(", "), order.clone())
    };
    let queued = |name: &str| {
        let steps = format!("part a, read {name}, burn 500us, part b, burn 500us");
        (1, steps, "b*2 a*297".to_string())
    };
    let two = read(2, usize::MAX);
    assert_eq!(own(&two[0]), queued("pool"));
    assert_eq!(own(&two[1]), queued("pool-2"));
    let posts = "write pool, burn 200us, write pool-2, burn 200us, write pool, write pool-2, \
                 write pool, write pool-2, burn 400us";
    assert!(own(&two[2]).1.ends_with(posts), "{two:?}");
    let none = read(0, 0);
    let shared = "part a, take pool, burn 500us".to_string();
    assert_eq!(own(&none[1]), (2, shared, "a*198".to_string()));
    // One for ten wakeups, of which there are 200.
    assert_eq!([19, 20].map(|all| read(2, all).len()), [2, 3]);
}

/// Thread 1 wakes thread 2 and sends to it once more, which thread 2 has after half of its work. At these times it wakes
/// threads 3 and 4.
#[test]
fn posts_of_a_stretch_of_several_messages_are_shared_and_come_no_later() {
    let passes = |posts_us: [u64; 2]| {
        let (mut events, mut messages) = (Vec::new(), Vec::new());
        for begin_us in (0..1_000_000).step_by(10_000) {
            events.extend([
                (begin_us, waking(Waker::Interrupt, 1)),
                (begin_us, switch(0, Left::Runnable, 1)),
                (begin_us + 100, waking(Waker::Task(1), 2)),
                (begin_us + 1_000, switch(1, Left::Sleeping, 2)),
                (begin_us + posts_us[0], waking(Waker::Task(2), 3)),
                (begin_us + posts_us[1], waking(Waker::Task(2), 4)),
                (begin_us + 2_000, switch(2, Left::Sleeping, 3)),
                (begin_us + 2_100, switch(3, Left::Sleeping, 4)),
                (begin_us + 2_200, switch(4, Left::Sleeping, 0)),
            ]);
            let [sent_ns, received_ns] = [200, 1_500].map(|at_us| (begin_us + at_us) * 1_000);
            messages.push(Message { sent_ns, received_ns, by: 1, to: 2 });
        }
        let tasks = ["a", "b", "c", "d"];
        let tasks: Vec<_> = (1..).zip(tasks).map(|(tid, name)| traced(tid, name, name)).collect();
        let text = capture(&Trace { messages, ..trace(&events) }, &tasks, true).unwrap().text;
        let all: Vec<String> =
            sets(&text).into_iter().map(|(_, steps, _)| steps.join(" ")).collect();
        let parts = all.iter().flat_map(|steps| steps.split("part ")).map(|part| part.trim());
        let mut own: Vec<String> = parts
            .filter_map(|part| part.split_once(' ').map(|(_, steps)| steps.to_string()))
            .filter(|steps| steps.starts_with("take b"))
            .collect();
        own.sort();
        own
    };
    let shared = ["take b burn 500us post c", "take b burn 500us post d"];
    assert_eq!(passes([1_600, 1_800]), shared, "it reads both before it answers");
    let early = ["take b burn 500us", "take b burn 500us post c post d"];
    assert_eq!(passes([1_100, 1_200]), early);
}

/// A hundred clients that a timer wakes 30 times each. Each time they wake two of three servers, which do nothing else, and
/// sometimes one or three: so they wake others 1.7 to 2.3 times as often as they are woken.
fn clients() -> Trace {
    let mut events = Vec::new();
    for pass in 0..3_000_u64 {
        let (client, round, at_us) = ((pass % 100) as i32 + 1, pass / 100, pass * 300);
        let (more, is_less) = ((client % 19 - 9).unsigned_abs() as u64, client % 19 < 9);
        let posts = match round < more {
            true if is_less => 1,
            true => 3,
            false => 2,
        };
        events.push((at_us, waking(Waker::Interrupt, client)));
        events.push((at_us, switch(0, Left::Runnable, client)));
        let servers = (0..posts).map(|number| 201 + number);
        events.extend(
            servers.clone().map(|server| (at_us + 50, waking(Waker::Task(client), server))),
        );
        let mut from = client;
        for (number, server) in servers.enumerate() {
            events.push((at_us + 100 + 20 * number as u64, switch(from, Left::Sleeping, server)));
            from = server;
        }
        events.push((at_us + 200, switch(from, Left::Sleeping, 0)));
    }
    trace(&events)
}

#[test]
fn equals_are_one_role_and_senders_and_receivers_of_one_name_are_two() {
    for servers in ["server", "client"] {
        let named = |(tids, name): (std::ops::RangeInclusive<i32>, &str)| {
            tids.map(|tid| traced(tid, "app", name)).collect::<Vec<_>>()
        };
        let tasks = [(1..=100, "client"), (201..=203, servers)].map(named).concat();
        let captured = capture(&clients(), &tasks, true).unwrap();
        let mut threads: Vec<u32> = captured.roles.iter().map(|role| role.threads).collect();
        threads.sort_unstable();
        assert_eq!(threads, [3, 100], "{servers}");
    }
}

#[test]
fn even_wakeups_from_outside_are_a_timer() {
    let mut events = Vec::new();
    for begin_us in (0..1_000_000).step_by(4_000) {
        events.push((begin_us, waking(Waker::Interrupt, 1)));
        events.push((begin_us + 30, switch(0, Left::Runnable, 1)));
        // Work that varies does not matter.
        events.push((begin_us + 30 + begin_us % 1_700, switch(1, Left::Sleeping, 0)));
    }
    let captured = capture(&trace(&events), &[traced(1, "a", "a")], false).unwrap();
    assert_eq!(sets(&captured.text)[0].1[1], "timer 4ms", "{}", captured.text);
    // Another thread made it, and a namesake has such a timer, too.
    let mut other: Vec<(u64, TraceWhat)> = Vec::new();
    for begin_us in (1_000..1_000_000).step_by(4_000) {
        other.extend([
            (begin_us, waking(Waker::Interrupt, 2)),
            (begin_us, switch(0, Left::Runnable, 2)),
            (begin_us + 100, switch(2, Left::Sleeping, 0)),
        ]);
    }
    let born = [
        (0, switch(0, Left::Runnable, 3)),
        (1, waking(Waker::Task(3), 1)),
        (2, switch(0, Left::Runnable, 1)),
        (3, waking(Waker::Task(3), 2)),
        (4, switch(0, Left::Runnable, 2)),
        (10, switch(1, Left::Sleeping, 0)),
        (20, switch(2, Left::Sleeping, 0)),
        (30, switch(3, Left::Sleeping, 0)),
    ];
    let all = events.iter().filter(|(at_us, _)| *at_us >= 4_000).chain(&other).chain(&born);
    let mut all: Vec<(u64, TraceWhat)> = all.copied().collect();
    all.sort_by_key(|(at_us, _)| *at_us);
    let tasks = [(1, "a"), (2, "a"), (3, "main")].map(|(tid, name)| traced(tid, "a", name));
    let captured = capture(&trace(&all), &tasks, true).unwrap();
    let of_two: Vec<_> = sets(&captured.text).into_iter().filter(|set| set.0 == 2).collect();
    let [(2, steps, _)] = &of_two[..] else { panic!("{}", captured.text) };
    assert!(steps.contains(&"timer 4ms".to_string()), "{}", captured.text);
    // One that has another period has none in common with it.
    let seldom = other.iter().filter(|(at_us, _)| at_us % 48_000 < 4_000);
    let mut all: Vec<(u64, TraceWhat)> = events.iter().chain(seldom).copied().collect();
    all.sort_by_key(|(at_us, _)| *at_us);
    let captured = capture(&trace(&all), &tasks[..2], true).unwrap();
    assert!(!captured.text.contains("timer 4ms"), "{}", captured.text);
    assert_eq!(captured.roles.len(), 1);
    // Its last period is a twenty-fifth of the time.
    events.retain(|(at_us, _)| at_us % 40_000 < 4_000);
    let captured = capture(&trace(&events), &[traced(1, "a", "a")], false).unwrap();
    let set = &sets(&captured.text)[0];
    assert_eq!((set.1[1].as_str(), set.2.as_str()), ("timer 40ms", "a*24"), "{}", captured.text);
}

/// A file may say anything: thread 1 goes on after its end, and so there is one thread at a time as it seems.
#[test]
fn wakeups_that_are_seen_late_are_no_timer() {
    let mut events = vec![(0, switch(0, Left::Runnable, 1)), (1, switch(1, Left::Dead, 2))];
    for at_us in (10..1_000).step_by(30) {
        events.extend([
            (at_us, waking(Waker::Interrupt, 2)),
            (at_us + 1, switch(2, Left::Sleeping, 0)),
            (at_us + 5, waking(Waker::Interrupt, 1)),
            (at_us + 6, switch(0, Left::Runnable, 1)),
            (at_us + 8, switch(1, Left::Sleeping, 2)),
        ]);
    }
    let tasks = [traced(1, "a", "a"), traced(2, "a", "a")];
    let captured = capture(&trace(&events), &tasks, false).unwrap();
    assert_eq!(captured.roles[0].threads, 1);
}

#[test]
fn priorities_are_policies_and_nice_values() {
    let cases = [
        (0, "policy = \"fifo\", priority = 98"),
        (1, "policy = \"fifo\", priority = 98"),
        (98, "policy = \"fifo\", priority = 1"),
        (110, "nice = -10, timer-slack = \"1ns\""),
        (120, "timer-slack = \"1ns\""),
        // SCHED_DEADLINE.
        (u16::MAX, "timer-slack = \"1ns\""),
    ];
    for (own, expected) in cases {
        let mut trace = pair();
        for event in &mut trace.events {
            if let TraceWhat::Switch { prio, .. } = &mut event.what {
                *prio = own;
            }
        }
        let Captured { text, .. } = capture(&trace, &[traced(1, "a", "a")], false).unwrap();
        assert!(text.contains(&format!("knobs = {{ {expected} }}\n")), "{own}: {text}");
        sets(&text);
    }
}

#[test]
fn a_priority_that_a_thread_has_for_a_while_is_not_its_own() {
    let mut trace = pair();
    let comes =
        |event: &&mut TraceEvent| matches!(event.what, TraceWhat::Switch { to, .. } if to.tid == 1);
    for event in trace.events.iter_mut().filter(comes).skip(60) {
        let TraceWhat::Switch { prio, .. } = &mut event.what else { continue };
        *prio = 49;
    }
    let Captured { text, .. } = capture(&trace, &[traced(1, "a", "a")], false).unwrap();
    assert!(!text.contains("fifo"), "{text}");
}

#[test]
fn the_settings_of_a_thread_that_ended_are_those_of_its_namesakes() {
    let batch = Settings { policy: Some("batch"), ..Settings::default() };
    let tasks = [traced(1, "a", "a"), traced(2, "a", "a"), traced(3, "a", "a")];
    let policies = |known: &[(i32, Settings)]| {
        let known = known.iter().cloned().collect();
        let all = settings::with_namesakes(&tasks, &known);
        all.into_iter().map(|own| own.policy).collect::<Vec<_>>()
    };
    let all = [Some("batch"); 3];
    assert_eq!(policies(&[(2, batch.clone())]), all);
    assert_eq!(policies(&[(2, batch.clone()), (3, batch.clone())]), all);
    assert_eq!(policies(&[(2, batch), (3, Settings::default())]), [None, Some("batch"), None]);
}

#[test]
fn names_are_left_out_unless_they_are_asked_for() {
    let tasks = [traced(1, "secret", "word"), traced(2, "secret", "other")];
    let Captured { text, .. } = capture(&pair(), &tasks, false).unwrap();
    assert!(!text.contains("secret") && !text.contains("word"), "{text}");
    assert!(text.contains("name = \"role-1\"") && text.contains("post role-1"), "{text}");
    let evil = [traced(1, "a\"]\n[x]", "\u{1b}[2J"), traced(2, "\u{1b}", "\u{1b}")];
    let Captured { text, roles, .. } = capture(&pair(), &evil, true).unwrap();
    assert!(!text.contains('\u{1b}'), "{text:?}");
    assert_eq!(sets(&text).len(), 2);
    assert!(roles.iter().all(|role| role.profile.name.len() <= MAX_NAME));
}

#[test]
fn threads_alike_are_one_role_and_those_that_never_sleep_only_work() {
    let mut events = vec![(0, switch(0, Left::Runnable, 3))];
    for at_us in (1..1_000).map(|n| 1_000 * n) {
        let (from, to) = if at_us / 1_000 % 2 == 1 { (3, 4) } else { (4, 3) };
        events.push((at_us, switch(from, Left::Preempted, to)));
    }
    let tasks = [traced(3, "hog", "hog"), traced(4, "hog", "hog"), traced(5, "idle", "idle")];
    let captured = capture(&trace(&events), &tasks, true).unwrap();
    let [role] = &captured.roles[..] else { panic!("{:?}", captured.roles) };
    assert_eq!((role.threads, role.profile.cpus), (2, 1.0));
    assert_eq!(sets(&captured.text), [(2, vec!["burn 10ms".to_string()], String::new())]);
    assert_eq!(capture(&trace(&[]), &tasks, true), None);
}

/// Thread 1 works from the begin and wakes thread 2 every 10 ms, which works for 3 ms. It is preempted once, and at the end
/// it is left as the case says.
fn never_slept(begin: TraceWhat, end: Left) -> Trace {
    let mut events = vec![(0, begin), (0, switch(0, Left::Runnable, 1))];
    for at_us in (10_000..1_000_000).step_by(10_000) {
        let mut other = [
            (at_us, waking(Waker::Task(1), 2)),
            (at_us, switch(0, Left::Runnable, 2)),
            (at_us + 3_000, switch(2, Left::Sleeping, 0)),
        ]
        .to_vec();
        if at_us == 500_000 {
            other.insert(2, (at_us + 1_000, switch(1, Left::Preempted, 9)));
            other.insert(3, (at_us + 1_000, switch(9, Left::Sleeping, 1)));
        }
        events.extend(other);
    }
    events.push((999_000, switch(1, end, 0)));
    trace(&events)
}

#[test]
fn who_never_sleeps_wakes_others_all_the_same() {
    let born = waking(Waker::Interrupt, 1);
    let none = switch(9, Left::Sleeping, 0);
    let tasks = [traced(1, "app", "busy"), traced(2, "app", "cons")];
    for (begin, end) in [
        (born, Left::Dead),
        (born, Left::Preempted),
        (born, Left::Sleeping),
        (none, Left::Dead),
        (none, Left::Preempted),
        (none, Left::Sleeping),
    ] {
        let captured = capture(&never_slept(begin, end), &tasks, true).unwrap();
        let text = &captured.text;
        let [(_, busy, order), (_, cons, _)] = &sets(text)[..] else { panic!("{text}") };
        let expected =
            ["part a", "burn 10ms", "post app-cons", "part b", "burn 9ms"].map(str::to_string);
        assert_eq!((&busy[..], order.as_str()), (&expected[..], "a*99 b"), "{text}");
        assert_eq!(cons[..], ["part a", "take app-cons", "burn 3ms"].map(str::to_string), "{text}");
        assert!(text.contains("100 % by app-busy"), "{text}");
        let [busy, _] = &captured.roles[..] else { panic!("{text}") };
        assert_eq!(busy.profile.cpus, 0.999);
    }
}

/// After its only sleep thread 1 works to the end of the trace, or to its own.
#[test]
fn a_long_stretch_after_a_sleep_is_cut_too() {
    for (end, is_many) in [(Left::Preempted, false), (Left::Dead, true), (Left::Sleeping, true)] {
        let mut trace = never_slept(switch(1, Left::Sleeping, 0), end);
        if !is_many {
            trace.events.retain(|event| !(130 * MS..990 * MS).contains(&event.at_ns));
        }
        let tasks = [traced(1, "app", "busy"), traced(2, "app", "cons")];
        let captured = capture(&trace, &tasks, true).unwrap();
        let [(_, busy, order), (_, cons, _)] = &sets(&captured.text)[..] else { panic!() };
        let text = &captured.text;
        assert!(busy.len() < 12 && busy.contains(&"post app-cons".to_string()), "{text}");
        // From 130 to 990 ms nobody is woken.
        let is_as_seen =
            if is_many { order.starts_with("b a*") } else { order == "c b*11 a*86 b a" };
        assert!(is_as_seen, "{text}");
        assert_eq!(cons[1], "take app-cons", "{text}");
        assert!(!text.contains("never slept"), "{text}");
        let bursts = if end == Left::Preempted { vec![] } else { vec![999 * MS] };
        let [busy, _] = &captured.roles[..] else { panic!("{text}") };
        assert_eq!(busy.profile.bursts_ns, bursts, "{text}");
    }
}

/// Thread 1 wakes threads 2 to 4 in an order of its own in each stretch.
#[test]
fn stretches_of_many_posts_are_cut_where_a_plan_would_lose_who_wakes() {
    let posted = |posts: u64| {
        let (mut events, mut random) = (Vec::new(), Random { state: 7, ..Random::default() });
        for begin_us in (0..1_000_000).step_by(10_000) {
            events.push((begin_us, waking(Waker::Interrupt, 1)));
            events.push((begin_us, switch(0, Left::Runnable, 1)));
            for post in 0..posts {
                let (at_us, woken) = (begin_us + 20 * (post + 1), 2 + random.below(3) as i32);
                events.extend([
                    (at_us, waking(Waker::Task(1), woken)),
                    (at_us, switch(1, Left::Preempted, woken)),
                    (at_us + 10, switch(woken, Left::Sleeping, 1)),
                ]);
            }
            events.push((begin_us + 9_000, switch(1, Left::Sleeping, 0)));
        }
        let tasks = [(1, "a"), (2, "b"), (3, "c"), (4, "d")];
        let tasks = tasks.map(|(tid, name)| traced(tid, name, name));
        let text = capture(&trace(&events), &tasks, true).unwrap().text;
        let sets = sets(&text);
        let takes = |(_, steps, _): &&(u32, Vec<String>, String)| steps.concat().contains("take");
        assert_eq!(sets.iter().filter(takes).count(), 3, "{text}");
        let posts = |step: &&String| step.starts_with("post");
        sets.iter().map(|(_, steps, _)| steps.iter().filter(posts).count()).max().unwrap()
    };
    assert_eq!(posted(20), 1_980, "each stretch that was seen whole, as it was");
    assert!(posted(400) <= 9, "pieces of one post each");
}

/// Thread 1 sleeps for 200 ms and then works to the end of the trace; thread 2 works from its begin and then sleeps.
#[test]
fn who_works_to_the_end_or_from_the_begin_works_in_the_plan() {
    let trace = trace(&[
        (1_000, switch(1, Left::Sleeping, 2)),
        (201_000, waking(Waker::Interrupt, 1)),
        (301_000, switch(2, Left::Sleeping, 1)),
    ]);
    let tasks = [traced(1, "app", "late"), traced(2, "app", "soon")];
    let captured = capture(&trace, &tasks, true).unwrap();
    let burnt_ms = |(_, steps, order): &(u32, Vec<String>, String)| -> f64 {
        // By the name of its part.
        let mut ms = BTreeMap::new();
        let mut part = "";
        for step in steps {
            match step.split_once(' ') {
                Some(("part", name)) => part = name,
                Some(("burn", time)) => {
                    let each: Vec<u64> =
                        time.split('|').map(|time| duration_ns(time).unwrap()).collect();
                    let mean_ns = each.iter().sum::<u64>() as f64 / each.len() as f64;
                    *ms.entry(part).or_insert(0.0) += mean_ns / MS as f64;
                }
                _ => {}
            }
        }
        let each = |word: &str| {
            let (name, times) = word.split_once('*').unwrap_or((word, "1"));
            ms.get(name).copied().unwrap_or_default() * times.parse::<f64>().unwrap()
        };
        order.split(' ').map(each).sum()
    };
    let sets = sets(&captured.text);
    let burnt: Vec<f64> = sets.iter().map(burnt_ms).collect();
    assert!((burnt[0] - 699.0).abs() < 7.0 && (burnt[1] - 300.0).abs() < 3.0, "{}", captured.text);
    assert!(sets[0].1.contains(&"sleep 200ms".to_string()), "{}", captured.text);
    assert!(captured.roles.iter().all(|role| role.kept > 0.99), "{:?}", captured.roles);
}

/// Thread 1 is born in the trace, works next to thread 9 without a sleep, and ends.
#[test]
fn who_is_seen_from_birth_to_death_works_in_the_plan() {
    let steps = |dead_us: u64| {
        let trace = trace(&[
            (1_000, waking(Waker::Task(99), 1)),
            (1_000, switch(0, Left::Runnable, 1)),
            (101_000, switch(1, Left::Preempted, 9)),
            (dead_us - 100_000, switch(9, Left::Preempted, 1)),
            (dead_us, switch(1, Left::Dead, 0)),
        ]);
        let captured = capture(&trace, &[traced(1, "app", "app")], true).unwrap();
        assert!(
            captured.text.contains("0.200 CPUs, 1.0 wakeups/s: never slept"),
            "{}",
            captured.text
        );
        sets(&captured.text).remove(0).1
    };
    assert_eq!(steps(999_000), ["burn 10ms"], "it waited for its CPU and never slept");
    assert_eq!(steps(501_000), ["part a", "sleep 500ms", "part b", "burn 200ms"], "it rests, too");
}

/// The same thread, which has slept since before the trace: nobody is born in an interrupt.
#[test]
fn who_is_woken_by_an_interrupt_has_slept() {
    let trace = trace(&[
        (1_000, waking(Waker::Interrupt, 1)),
        (1_000, switch(0, Left::Runnable, 1)),
        (201_000, switch(1, Left::Dead, 0)),
    ]);
    let captured = capture(&trace, &[traced(1, "app", "app")], true).unwrap();
    assert!(captured.text.contains("0.200 CPUs, 1.0 wakeups/s\n"), "{}", captured.text);
    let (_, steps, order) = sets(&captured.text).remove(0);
    assert_eq!(steps, ["part a", "burn 10ms", "part b", "sleep 800ms"]);
    assert_eq!(order, "a*20 b");
}

/// A stretch of work that is shorter than a twentieth, of which the begin was not seen, is not in the plan.
#[test]
fn a_role_says_how_much_of_its_work_is_in_the_plan() {
    let trace = trace(&[
        (0, switch(0, Left::Runnable, 1)),
        (40_000, switch(1, Left::Sleeping, 0)),
        (200_000, waking(Waker::Interrupt, 1)),
        (200_000, switch(0, Left::Runnable, 1)),
        (210_000, switch(1, Left::Sleeping, 0)),
    ]);
    let captured = capture(&trace, &[traced(1, "app", "app")], true).unwrap();
    assert_eq!(captured.roles[0].kept, 0.2);
    assert!(captured.text.contains("; 20 % of its CPU time is in the plan"), "{}", captured.text);
}

/// Thread 6 makes thread 1, which works until this time. Its four namesakes sleep, and their passes are in the order.
fn one_that_works(for_us: u64) -> Captured {
    let mut events = vec![
        (500, waking(Waker::Task(99), 6)),
        (500, switch(0, Left::Runnable, 6)),
        (900, waking(Waker::Task(6), 1)),
        (1_000, switch(6, Left::Sleeping, 1)),
    ];
    for begin_us in (2_000..for_us).step_by(1_000) {
        let tid = 2 + (begin_us / 1_000 % 4) as i32;
        events.extend([
            (begin_us, waking(Waker::Interrupt, tid)),
            (begin_us, switch(1, Left::Preempted, tid)),
            (begin_us + 100, switch(tid, Left::Sleeping, 1)),
        ]);
    }
    events.push((for_us, switch(1, Left::Dead, 0)));
    for begin_us in (for_us + 1_000..999_000).step_by(1_000) {
        let tid = 2 + (begin_us / 1_000 % 4) as i32;
        events.extend([
            (begin_us, waking(Waker::Interrupt, tid)),
            (begin_us, switch(0, Left::Runnable, tid)),
            (begin_us + 100, switch(tid, Left::Sleeping, 0)),
        ]);
    }
    events.extend([
        (999_500, waking(Waker::Interrupt, 6)),
        (999_500, switch(0, Left::Runnable, 6)),
        (999_600, switch(6, Left::Dead, 0)),
    ]);
    let worker = |tid| TracedTask { pid: 6, ..traced(tid, "app", "worker") };
    let tasks: Vec<TracedTask> = (1..=5).map(worker).chain([traced(6, "app", "app")]).collect();
    capture(&trace(&events), &tasks, true).unwrap()
}

#[test]
fn a_thread_that_works_from_its_birth_to_its_end_is_a_role_among_namesakes_that_sleep() {
    let captured = one_that_works(998_000);
    let threads: Vec<u32> = captured.roles.iter().map(|role| role.threads).collect();
    assert_eq!(threads, [1, 4, 1], "{}", captured.text);
    assert!((captured.roles[0].profile.cpus - 0.897).abs() < 0.001, "{:?}", captured.roles);
    assert!(captured.roles[..2].iter().all(|role| role.kept > 0.98), "{:?}", captured.roles);
    let busy = &sets(&captured.text)[0];
    assert!(busy.1.iter().any(|step| step.starts_with("burn 10ms")), "{busy:?}");
    // 36 ms of work are less than a twentieth, and 30 % of that of all.
    let captured = one_that_works(41_000);
    assert_eq!(captured.roles.iter().map(|role| role.threads).collect::<Vec<_>>(), [5, 1]);
    let kept = captured.roles[0].kept;
    assert!((0.72..0.75).contains(&kept), "{kept}: {}", captured.text);
}

/// Two threads each wake each other once in a period, until so much of the time is over. Each thread has its name.
fn loop_until(until_us: u64, period_us: u64, names: &[&str]) -> Captured {
    let tids: Vec<i32> = (1..).take(names.len()).collect();
    let mut events = Vec::new();
    for pair in tids.chunks(2) {
        let (one, other) = (pair[0], pair[1]);
        events.push((0, switch(0, Left::Runnable, one)));
        for at_us in (period_us / 2..until_us).step_by(period_us as usize) {
            events.extend([
                (at_us, waking(Waker::Task(one), other)),
                (at_us + 1, switch(one, Left::Sleeping, other)),
                (at_us + period_us / 2, waking(Waker::Task(other), one)),
                (at_us + period_us / 2 + 1, switch(other, Left::Sleeping, one)),
            ]);
        }
        events.push((until_us, switch(one, Left::Dead, 0)));
    }
    events.sort_by_key(|(at_us, _)| *at_us);
    let tasks: Vec<TracedTask> =
        tids.iter().zip(names).map(|(tid, name)| traced(*tid, "app", name)).collect();
    capture(&trace(&events), &tasks, true).unwrap()
}

#[test]
fn one_of_those_who_wake_each_other_rests_where_they_paused() {
    let rests = |captured: &Captured| {
        let parts = sets_by_part(&captured.text).into_iter().map(|(_, parts, order)| {
            let rests =
                |part: &&String| parts[*part].len() == 1 && parts[*part][0].starts_with("sleep ");
            order.iter().filter(rests).map(|part| parts[part][0].clone()).collect::<Vec<_>>()
        });
        parts.flatten().collect::<Vec<_>>()
    };
    let paused = |captured: &Captured| {
        captured.roles.iter().map(|role| (100.0 * role.paused).round()).collect::<Vec<_>>()
    };
    let whole = loop_until(1_000_000, 2_000, &["a", "b"]);
    assert_eq!((rests(&whole), paused(&whole)), (vec![], vec![0.0; 2]));
    let rest = "sleep 700ms".to_string();
    let cases = [(&["a", "b"][..], 1), (&["a", "b", "c", "d"], 2), (&["a", "a"], 2)];
    for (names, expected) in cases {
        let part = loop_until(300_000, 2_000, names);
        assert_eq!(rests(&part), vec![rest.clone(); expected], "{names:?}: {}", part.text);
        assert_eq!(paused(&part), vec![0.0; part.roles.len()], "{names:?}");
        assert!((0..9).all(|seed| replays(&part.text, seed)), "{names:?}: {}", part.text);
    }
    // The order of more than 60,000 passes has a part of the time, and no rest.
    let many = loop_until(700_000, 8, &["a", "b"]);
    assert_eq!((rests(&many), paused(&many)), (vec![], vec![30.0; 2]));
}

/// Thread 3 is the namesake of thread 1, and wakes nobody.
#[test]
fn busy_threads_of_which_one_wakes_others_are_two_roles() {
    let mut trace = never_slept(switch(9, Left::Sleeping, 0), Left::Preempted);
    trace.events.insert(0, TraceEvent { at_ns: 0, cpu: 9, what: switch(0, Left::Runnable, 3) });
    let tasks = [traced(1, "app", "busy"), traced(2, "app", "cons"), traced(3, "app", "busy")];
    let captured = capture(&trace, &tasks, true).unwrap();
    let sets = sets(&captured.text);
    let posting = sets.iter().filter(|(_, steps, _)| steps.contains(&"post app-cons".to_string()));
    assert_eq!(posting.map(|(count, _, _)| *count).collect::<Vec<_>>(), [1], "{}", captured.text);
    assert!(sets.contains(&(1, vec!["burn 10ms".to_string()], String::new())), "{}", captured.text);
}

/// Thread 1 of [`pair`] wakes thread 2 as often as it is woken, and that one wakes nobody.
#[test]
fn threads_of_one_name_of_which_some_wake_the_others_are_two_roles() {
    let tasks = [1, 2].map(|tid| traced(tid, "app", "same"));
    let captured = capture(&pair(), &tasks, false).unwrap();
    let text = &captured.text;
    let [(1, first, _), (1, second, _)] = &sets(text)[..] else { panic!("{text}") };
    let has = |steps: &[String], word: &str| steps.iter().any(|step| step.starts_with(word));
    assert!(has(first, "take role-1") && !has(first, "post"), "{text}");
    assert!(has(second, "post role-1") && !has(second, "take"), "{text}");
    // One that is woken once does not show what it does.
    let mut events = pair();
    let once = [
        (999_000, waking(Waker::Interrupt, 3)),
        (999_010, switch(0, Left::Runnable, 3)),
        (999_020, switch(3, Left::Sleeping, 0)),
    ];
    events.events.extend(trace(&once).events);
    let tasks = [1, 2, 3].map(|tid| traced(tid, "app", "same"));
    let captured = capture(&events, &tasks, false).unwrap();
    let mut threads: Vec<u32> = captured.roles.iter().map(|role| role.threads).collect();
    threads.sort_unstable();
    assert_eq!(threads, [1, 2], "{}", captured.text);
}

/// Thread 1 wakes thread 2 in the middle of a second, and does not sleep.
#[test]
fn a_busy_thread_that_seldom_wakes_another_works_in_short_pieces() {
    let mut trace = never_slept(switch(9, Left::Sleeping, 0), Left::Preempted);
    trace.events.retain(|event| {
        event.at_ns == 0 || event.at_ns >= 999 * MS || (500 * MS..510 * MS).contains(&event.at_ns)
    });
    let tasks = [traced(1, "app", "busy"), traced(2, "app", "cons")];
    let captured = capture(&trace, &tasks, true).unwrap();
    let sets = sets(&captured.text);
    let (_, steps, order) = &sets[0];
    assert_eq!(order, "a*49 b a*49", "{}", captured.text);
    let last = ["part b", "burn 10ms", "post app-cons"].map(str::to_string);
    assert!(steps[1].starts_with("burn 10ms|10ms") && steps.ends_with(&last), "{steps:?}");
    assert_eq!(captured.roles[0].profile.cpus, 0.999);

    // It still works when the trace ends.
    trace.events.retain(|event| event.at_ns < 999 * MS);
    let captured = capture(&trace, &tasks, true).unwrap();
    assert_eq!(self::sets(&captured.text)[0].2, "a*49 b a*50", "{}", captured.text);
    // In a long trace its pieces are longer.
    trace.to_ns = 86_400 * ENDS_NS;
    let captured = capture(&trace, &tasks, true).unwrap();
    let (_, steps, order) = &self::sets(&captured.text)[0];
    assert!(steps[1].starts_with("burn 86.4s|86.4s"), "{steps:?}");
    assert_eq!(order, "b a*999");
}

/// A machine whose threads wait for each other and for timers as numbers at random say, and send to each other while they
/// are awake.
#[derive(Default)]
struct Random {
    state: u64,
    events: Vec<(u64, TraceWhat)>,
    messages: Vec<Message>,
}

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) % bound
    }

    /// Each thread has a CPU of its own. Those that sleep are woken by another one, or by a timer.
    fn trace(mut self, threads: i32) -> Trace {
        let mut asleep: Vec<i32> = Vec::new();
        let mut awake: Vec<i32> = (1..=threads).collect();
        for tid in 1..=threads {
            self.events.push((0, switch(0, Left::Runnable, tid)));
        }
        let mut sent: Option<Message> = None;
        for at_us in 1..1_500 {
            let pick = self.below(100) as usize;
            if let Some(sent) = sent.take().filter(|sent| awake.contains(&sent.to)) {
                self.messages.push(Message { received_ns: at_us * 1_000 - 1, ..sent });
            }
            if let [by, .., to] = awake[..]
                && pick.is_multiple_of(3)
            {
                sent = Some(Message { by, to, sent_ns: at_us * 1_000 - 2, received_ns: 0 });
            }
            let woken = (!asleep.is_empty() && pick < 55).then(|| {
                let at = self.below(asleep.len() as u64) as usize;
                asleep.remove(at)
            });
            if let Some(tid) = woken {
                let waker = match awake.get(pick % awake.len().max(1)) {
                    Some(waker) if pick > 5 => Waker::Task(*waker),
                    _ => Waker::Interrupt,
                };
                self.events.push((at_us, waking(waker, tid)));
                self.events.push((at_us, switch(0, Left::Runnable, tid)));
                awake.push(tid);
            } else if !awake.is_empty() {
                let at = self.below(awake.len() as u64) as usize;
                let tid = awake.remove(at);
                self.events.push((at_us, switch(tid, Left::Sleeping, 0)));
                asleep.push(tid);
            }
        }
        // In the shorter time a first stretch is long, and is cut.
        let ends_ns = if threads % 2 == 0 { ENDS_NS } else { 1_500_000 };
        Trace { to_ns: ends_ns, messages: self.messages, ..trace(&self.events) }
    }
}

/// A set: its workers, its parts by name, and its order.
type Set = (u32, BTreeMap<String, Vec<String>>, Vec<String>);

fn sets_by_part(text: &str) -> Vec<Set> {
    let entry = |word: &str| {
        let (name, times) = word.split_once('*').unwrap_or((word, "1"));
        vec![name.to_string(); times.parse().unwrap()]
    };
    let set = |(count, steps, order): (u32, Vec<String>, String)| {
        let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut part = String::new();
        for step in steps {
            match step.strip_prefix("part ") {
                Some(name) => part = name.to_string(),
                None => parts.entry(part.clone()).or_default().push(step),
            }
        }
        (count, parts, order.split_whitespace().flat_map(entry).collect())
    };
    sets(text).into_iter().map(set).collect()
}

/// Replays the orders of all sets, whichever worker comes first, so many entries of each set. Whether nobody is stuck.
fn replays(text: &str, seed: u64) -> bool {
    let sets = sets_by_part(text);
    let queue_of = |set: usize, part: &String| sets[set].1[part][0].strip_prefix("take ");
    let mut lists: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for (set, (.., order)) in sets.iter().enumerate() {
        let queues = order.iter().filter_map(|part| Some((queue_of(set, part)?, part)));
        queues.for_each(|(queue, part)| lists.entry(queue).or_default().push(part));
    }
    let mut posts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    let mut next = vec![0; sets.len()];
    // For each worker what it waits for.
    let mut workers: Vec<(usize, Option<&str>)> = Vec::new();
    for (set, (count, ..)) in sets.iter().enumerate() {
        workers.extend(vec![(set, None); *count as usize]);
    }
    let mut random = Random { state: seed, ..Random::default() };
    let goal = |next: &[usize]| next.iter().zip(&sets).all(|(next, set)| *next >= 2 * set.2.len());
    while !goal(&next) {
        let can_go = |(_, waits): &&(usize, Option<&str>)| {
            waits.is_none_or(|queue| posts.get(queue).copied().unwrap_or(0) > 0)
        };
        let ready = workers.iter().filter(can_go).count();
        if ready == 0 {
            return false;
        }
        let pick = random.below(ready as u64) as usize;
        let chosen = workers.iter().enumerate().filter(|(_, worker)| can_go(worker)).nth(pick);
        let (at, &(set, waits)) = chosen.unwrap();
        let (_, parts, order) = &sets[set];
        let part = match waits {
            None => {
                let part = &order[next[set] % order.len()];
                next[set] += 1;
                if let Some(queue) = queue_of(set, part) {
                    workers[at].1 = Some(queue);
                    continue;
                }
                part
            }
            Some(queue) => {
                *posts.get_mut(queue).unwrap() -= 1;
                let own = &lists[queue];
                let number = taken.entry(queue).or_default();
                *number += 1;
                own[(*number - 1) % own.len()]
            }
        };
        workers[at].1 = None;
        for step in &parts[part] {
            let words: Vec<&str> = step.split(' ').collect();
            if let ["post", queue, ref times @ ..] = words[..] {
                let times = times.first().map_or(1, |times| times.parse().unwrap());
                *posts.entry(queue).or_default() += times;
            }
        }
    }
    true
}

/// With as many workers as there were threads, what was seen can always happen again, however fast each of them is.
#[test]
fn nobody_waits_for_a_wakeup_that_does_not_come() {
    for seed in 0..20 {
        let threads = 2 + (seed % 11) as i32;
        let machine = Random { state: seed * 7_919 + 1, ..Random::default() };
        let trace = machine.trace(threads);
        // One role, or one of each thread, or some of both.
        let name = |tid: i32| if seed % 3 == 0 { "a".into() } else { format!("r{}", tid % 3) };
        let tasks: Vec<TracedTask> =
            (1..=threads).map(|tid| traced(tid, &name(tid), &name(tid))).collect();
        let text = capture(&trace, &tasks, true).unwrap().text;
        let text = text.replace("\"read ", "\"take ").replace("\"write ", "\"post ");
        assert!(text.contains("take "), "{text}");
        for replay in 0..5 {
            assert!(replays(&text, replay), "seed {seed}: {text}");
        }
    }
}

#[test]
fn a_distribution_keeps_its_mean_and_parts_are_few() {
    let many: Vec<u64> = (1..=1_600).map(|n| n * 1_000).collect();
    let parts = parts::means(many.clone());
    let mean = parts.iter().sum::<u64>() / parts.len() as u64;
    assert!((799_000..802_000).contains(&mean), "{mean}");
    let distance = likeness::kolmogorov_smirnov(&many, &parts).unwrap();
    assert!(distance < 0.06, "{distance}");
    assert_eq!([98_700, 1_230, 999, 7_900_000].map(time), ["98.7us", "1.23us", "999ns", "7.9ms"]);
    assert_eq!([0, 25, 26, 701, 702].map(part_name), ["a", "z", "aa", "zz", "aaa"]);
    assert_eq!(order_text(&[0, 0, 0, 1, 0]), "a*3 b a");
}

#[test]
fn likeness_is_the_least_where_a_role_does_nothing() {
    let one = [1, 2, 3, 4];
    let cases: [(&[u64], &[u64], Option<f64>); 4] = [
        (&one, &one, Some(0.0)),
        (&one, &[5, 6], Some(1.0)),
        (&one, &[1, 2, 9, 9], Some(0.5)),
        (&one, &[], None),
    ];
    for (load, replay, expected) in cases {
        assert_eq!(likeness::kolmogorov_smirnov(load, replay), expected, "{load:?} {replay:?}");
    }
    let load = Profile {
        name: "a".to_string(),
        is_woken: false,
        cpus: 0.5,
        switches_per_s: 100.0,
        wakeups_per_s: 50.0,
        bursts_ns: one.to_vec(),
        waits_ns: one.to_vec(),
    };
    let likeness = |replay: Profile| score(&[Likeness::new(load.clone(), replay)]);
    assert_eq!(likeness(load.clone()), 1.0);
    assert_eq!(likeness(Profile::default()), 0.0);
    assert_eq!(likeness(Profile { cpus: 0.25, ..load.clone() }), 0.9);

    let role = |load: &Profile, replay: &Profile| Likeness::new(load.clone(), replay.clone());
    let alone = [role(&load, &Profile::default())];
    assert_eq!(worst_role(&alone), None);
    let small = Profile { cpus: 0.001, wakeups_per_s: 0.1, ..load.clone() };
    let half = Profile { cpus: 0.25, ..load.clone() };
    let roles = [role(&load, &load), role(&load, &half), role(&small, &Profile::default())];
    assert_eq!(worst_role(&roles), Some(&roles[1]), "the third does next to nothing");
}

#[test]
fn a_fit_makes_up_for_the_wakeups_and_the_work_that_a_replay_lacks() {
    let profile = |is_woken, cpus, wakeups_per_s, bursts: usize| Profile {
        is_woken,
        cpus,
        wakeups_per_s,
        bursts_ns: vec![(1e7 * cpus) as u64; bursts],
        ..Profile::default()
    };
    // Two that wake each other, one with a timer, one of which little was seen, and one that never sleeps.
    let load = [
        profile(true, 1.0, 3_000.0, 300),
        profile(true, 0.5, 1_000.0, 300),
        profile(false, 0.0010, 10.0, 300),
        profile(false, 0.2, 10.0, 10),
        profile(false, 0.2, 0.0, 300),
    ];
    let after = |fits: &[Fit], replay: [Profile; 5], is_first| {
        let rows = load.iter().cloned().zip(replay);
        let rows: Vec<Likeness> = rows.map(|(load, replay)| Likeness::new(load, replay)).collect();
        Fit::after(fits, &rows, is_first)
    };
    let replay = [
        profile(true, 0.5, 1_500.0, 300),
        profile(true, 1.0, 500.0, 300),
        profile(false, 0.0011, 10.0, 300),
        profile(false, 0.1, 10.0, 10),
        profile(false, 0.1, 0.0, 300),
    ];
    let usual = [Fit::USUAL; 5];
    let fit = |passes, work| Fit { passes, work, ..Fit::USUAL };
    let first = after(&usual, replay.clone(), true);
    let cost = Fit { cost_ns: 2_500, ..Fit::USUAL };
    assert_eq!(first[..4], [fit(2.0, 2.0), fit(2.0, 0.5), cost, fit(1.0, 2.0)]);
    let second = after(&first, replay, false);
    assert_eq!(second[..2], [fit(4.0, 4.0), fit(4.0, 0.25)]);
    assert_eq!(second[3], fit(1.0, 4.0));
    assert!((second[2].work - 1.0 / 1.1).abs() < 1e-9 && second[2].cost_ns == 2_500);
    assert_eq!((second[4].passes, second[4].work), (1.0, 1.0));
    // A replay that shows nothing changes nothing, and no factor grows without end.
    assert_eq!(after(&usual, [(); 5].map(|()| Profile::default()), true), usual);
    let little = after(&usual, [(); 5].map(|()| profile(true, 0.001, 1.0, 300)), false);
    assert_eq!(little[0], fit(32.0, 10.0));

    assert_eq!(fit(2.0, 1.5).work_ns(100_000, false), 75_000 - 1_500);
    assert_eq!(fit(2.0, 1.5).work_ns(100_000, true), 75_000 - 300);
    assert_eq!(fit(2.0, 1.0).work_ns(2_000, false), 0);
}

/// Timers wake threads 1 and 2 of one name in turn, which are set alike or not.
#[test]
fn threads_that_are_set_otherwise_are_roles_of_their_own() {
    let trace = |prios: [u16; 2]| {
        let works = |at_us: u64| {
            let tid = 1 + (at_us / 1_000 % 2) as i32;
            let begin = [waking(Waker::Interrupt, tid), switch(0, Left::Runnable, tid)];
            [(at_us, begin[0]), (at_us, begin[1]), (at_us + 500, switch(tid, Left::Sleeping, 0))]
        };
        let mut trace = trace(&(0..100_000).step_by(1_000).flat_map(works).collect::<Vec<_>>());
        for event in &mut trace.events {
            if let TraceWhat::Switch { to, prio, .. } = &mut event.what {
                *prio = if to.tid == 1 { prios[0] } else { prios[1] };
            }
        }
        trace
    };
    let tasks = [traced(1, "app", "app"), traced(2, "app", "app")];
    let on =
        |cpu: u32| Settings { affinity: Some([cpu].into_iter().collect()), ..Settings::default() };
    let batch = Settings { policy: Some("batch"), ..Settings::default() };
    let slice = Settings { slice_ns: Some(MS), ..Settings::default() };
    let plain = Settings::default;
    let (here, there) = ("affinity = \"0\"", "affinity = \"1\"");
    type Case<'a> = ([Settings; 2], [u16; 2], &'a [&'a str], usize);
    let cases: [Case; 6] = [
        ([on(0), on(0)], [120, 120], &[here], 1),
        ([on(0), on(1)], [120, 120], &[here, there], 2),
        ([batch, plain()], [120, 120], &["policy = \"batch\""], 2),
        ([slice, plain()], [120, 120], &["slice = \"1ms\""], 2),
        ([plain(), plain()], [120, 139], &["nice = 19"], 2),
        ([plain(), plain()], [49, 120], &["policy = \"fifo\", priority = 50"], 2),
    ];
    for ([one, other], prios, expected, roles) in cases {
        let settings = BTreeMap::from([(1, one), (2, other)]);
        let trace = trace(prios);
        let (is_named, fits) = (true, &[][..]);
        let asked =
            Asked { trace: &trace, tasks: &tasks, settings: &settings, title: "t", is_named, fits };
        let captured = captured(&asked).unwrap();
        assert_eq!(captured.roles.len(), roles, "{}", captured.text);
        for knob in expected {
            assert!(captured.text.contains(knob), "{knob}: {}", captured.text);
        }
    }
}

/// Each of 400 threads has a name of its own and works twice for a millisecond; some of them work for longer.
#[test]
fn the_work_of_threads_without_a_role_is_known() {
    let mut events = Vec::new();
    for (at, tid) in (1..=400).chain(1..=400).enumerate() {
        let at_us = 1_200 * at as u64;
        let end_us = at_us + if tid <= 256 { 1_100 } else { 1_000 };
        let begin = [waking(Waker::Interrupt, tid), switch(0, Left::Runnable, tid)];
        events.extend([
            (at_us, begin[0]),
            (at_us, begin[1]),
            (end_us, switch(tid, Left::Sleeping, 0)),
        ]);
    }
    let tasks: Vec<TracedTask> =
        (1..=400).map(|tid| traced(tid, "app", &format!("pool-{tid}"))).collect();
    let captured = capture(&trace(&events), &tasks, false).unwrap();
    assert_eq!(captured.roles.len(), MAX_SETS);
    assert!((captured.left_out_cpus - 0.288).abs() < 1e-9, "{}", captured.left_out_cpus);
    let few = capture(&trace(&events), &tasks[..200], false).unwrap();
    assert_eq!(few.left_out_cpus, 0.0);
}

/// Thread 1 makes a thread each 10 ms, which works for 3 ms and ends.
#[test]
fn threads_that_work_once_are_said_to_be_woken_by_who_makes_them() {
    let mut events = vec![(0, switch(0, Left::Runnable, 1))];
    for number in 0..90 {
        let (at_us, tid) = (10_000 * number + 1_000, 10 + number as i32);
        events.extend([
            (at_us, waking(Waker::Task(1), tid)),
            (at_us + 10, switch(0, Left::Runnable, tid)),
            (at_us + 500, switch(1, Left::Sleeping, 0)),
            (at_us + 3_010, switch(tid, Left::Dead, 0)),
            (at_us + 8_000, waking(Waker::Interrupt, 1)),
            (at_us + 8_000, switch(0, Left::Runnable, 1)),
        ]);
    }
    let mut tasks = vec![traced(1, "app", "par")];
    tasks.extend((10..100).map(|tid| TracedTask { pid: 1, ..traced(tid, "app", "child") }));
    let Captured { text, .. } = capture(&trace(&events), &tasks, true).unwrap();
    assert!(text.contains("90.0 wakeups/s: 99 % by app-par, 1 % by timers and others\n"), "{text}");
    assert!(!text.contains("never slept"), "{text}");
}

#[test]
fn roles_have_the_name_of_their_process_where_a_thread_can_have_both() {
    let mut names: Vec<String> = Vec::new();
    let roles = [
        ("app", "pool"),
        ("app", "pool"),
        ("app", "app"),
        ("postgres", "checkpointer"),
        ("postgres", "checkpointer"),
        ("--", "--"),
        ("", ""),
    ];
    for (process, name) in roles {
        names.push(role_name(process, name, &names));
    }
    let expected =
        ["app-pool", "app-pool-2", "app", "checkpointer", "checkpointer-2", "role", "role-2"];
    assert_eq!(names, expected);
}
