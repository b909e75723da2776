//! Tests of the source `perf`: records and stories of events that are laid out here, and counts
//! against the kernel's own. The latter need the right to record.

use std::io::pipe;

use super::record::{Comm, What, padded};
use super::*;
use crate::model::{CpuSet, PairKind, TaskScore, Topology};
use crate::probe::sched::testing::{
    Actor, ONE, count, each_cpu_is_charged, has_real_time, long_wait_is_charged, on_one_cpu, pairs,
    strike, task, thief_is_charged,
};
use crate::sys::tracefs::{Field, TracefsError, Tracepoint};

fn tracepoint(id: u64, fields: &[(&str, usize, usize)]) -> Tracepoint {
    let common = [("common_type", 0, 2), ("common_flags", 2, 1)];
    let field = |&(name, offset, bytes): &(&str, usize, usize)| Field {
        name: name.to_string(),
        offset,
        bytes,
        signed: true,
    };
    Tracepoint { id, fields: common.iter().chain(fields).map(field).collect() }
}

/// Tracepoints that differ a little from those of any kernel.
fn tracepoints() -> [Tracepoint; 4] {
    let switch =
        [("prev_pid", 8, 4), ("prev_state", 16, 8), ("next_comm", 24, 16), ("next_pid", 40, 4)];
    [
        tracepoint(300, &switch),
        tracepoint(301, &[("pid", 12, 4)]),
        tracepoint(302, &[("pid", 8, 4)]),
        tracepoint(303, &[("pid", 16, 4), ("orig_cpu", 8, 4), ("dest_cpu", 12, 2)]),
    ]
}

/// A record with its header.
fn framed(kind: u32, body: &[u8]) -> Vec<u8> {
    let size = (8 + body.len()) as u16;
    [&kind.to_ne_bytes()[..], &[0, 0], &size.to_ne_bytes(), body].concat()
}

/// Process 70, task 71, at 9000 ns on CPU 3.
fn identity() -> Vec<u8> {
    let (pid, tid) = (70i32.to_ne_bytes(), 71i32.to_ne_bytes());
    [&pid[..], &tid, &9000u64.to_ne_bytes(), &3u64.to_ne_bytes()].concat()
}

fn sample(raw: &[u8]) -> Vec<u8> {
    let length = (raw.len() as u32).to_ne_bytes();
    framed(9, &[&identity()[..], &length, raw].concat())
}

/// The first words are the type and `common_flags`.
fn raw(kind: u16, flags: u8, bytes: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut raw = vec![0; bytes];
    raw[..2].copy_from_slice(&kind.to_ne_bytes());
    raw[2] = flags;
    fields.iter().for_each(|(at, field)| raw[*at..at + field.len()].copy_from_slice(field));
    raw
}

fn switch_raw() -> Vec<u8> {
    let fields: [(usize, &[u8]); 4] = [
        (8, &71i32.to_ne_bytes()),
        (16, &0x100u64.to_ne_bytes()),
        (24, b"next\0left"),
        (40, &5i32.to_ne_bytes()),
    ];
    raw(300, 0, 44, &fields)
}

fn with_identity(kind: u32, words: &[&[u8]]) -> Vec<u8> {
    framed(kind, &[words.concat(), identity()].concat())
}

fn decoded(bytes: &[u8]) -> (Vec<Event>, u64) {
    let layout = Layout::new(&tracepoints()).unwrap();
    let mut events = Vec::new();
    let unreadable = layout.decode(bytes, |event| events.push(event));
    (events, unreadable)
}

#[test]
fn records_of_every_kind_are_decoded() {
    let n = |value: i32| value.to_ne_bytes();
    let waking = |flags| sample(&raw(301, flags, 16, &[(12, &n(8))]));
    let migrated: [(usize, &[u8]); 3] = [(16, &n(8)), (8, &n(1)), (12, &[2, 0])];
    let mut comm: Comm = *b"next\0left\0\0\0\0\0\0\0";
    comm[9..].fill(0);
    let woken = |by_interrupt| What::Waking { tid: 8, by_interrupt };
    let cases = [
        (sample(&switch_raw()), What::Switch { prev: 71, state: 0x100, next: 5, comm: Some(comm) }),
        (waking(0), woken(false)),
        // Interrupts off, a pending reschedule, bottom halves off: still the task.
        (waking(0x01 | 0x04 | 0x80), woken(false)),
        (waking(0x08), woken(true)),
        (waking(0x10), woken(true)),
        (waking(0x40), woken(true)),
        (sample(&raw(302, 0, 12, &[(8, &n(8))])), What::New { tid: 8 }),
        (sample(&raw(303, 0, 20, &migrated)), What::Migrate { tid: 8, from: 1, to: 2 }),
        (sample(&[0; 4]), What::Runs),
        (
            with_identity(7, &[&n(80), &n(70), &n(81), &n(71), &[0; 8]]),
            What::Fork { pid: 80, tid: 81, parent_pid: 70, parent_tid: 71 },
        ),
        (with_identity(4, &[&n(80), &n(70), &n(81), &n(71), &[0; 8]]), What::Exit { tid: 81 }),
        (
            with_identity(3, &[&n(80), &n(81), b"new\0\0\0\0\0"]),
            What::Renamed { tid: 81, comm: padded(b"new") },
        ),
        (with_identity(2, &[&[0; 8], &77u64.to_ne_bytes()]), What::Lost { count: 77 }),
    ];
    for (bytes, what) in &cases {
        let expected = Event { at_ns: 9000, cpu: 3, pid: 70, tid: 71, what: *what };
        assert_eq!(decoded(bytes), (vec![expected], 0), "{what:?}");
    }
    let all: Vec<u8> = cases.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
    assert_eq!(decoded(&all).0.len(), cases.len());
}

#[test]
fn what_cannot_be_read_is_counted_and_stops_nothing_that_can() {
    let good = sample(&switch_raw());
    let cases = [
        ("of an unknown kind", with_identity(99, &[]), 1, 1),
        ("of an unknown tracepoint", sample(&raw(999, 0, 44, &[])), 1, 1),
        ("a field beyond the end", sample(&raw(300, 0, 20, &[])), 1, 1),
        ("too short for who and when", framed(9, &[0; 16]), 1, 1),
        ("longer than it says", framed(9, &[identity(), vec![200, 0, 0, 0]].concat()), 1, 1),
        ("no size: nothing behind it is found", vec![9, 0, 0, 0, 0, 0, 0, 0], 0, 1),
    ];
    for (name, bad, events, unreadable) in cases {
        let (seen, count) = decoded(&[bad, good.clone()].concat());
        assert_eq!((seen.len(), count), (events, unreadable), "{name}");
    }
    let mut cut = sample(&switch_raw());
    cut.truncate(cut.len() - 1);
    assert_eq!(decoded(&cut), (vec![], 1));
}

#[test]
fn a_tracepoint_that_lacks_a_field_is_refused_by_name_and_names_may_lack() {
    let mut without = tracepoints();
    without[0].fields.retain(|field| field.name != "prev_state");
    let why = Layout::new(&without).unwrap_err().to_string();
    assert!(why.contains("sched_switch") && why.contains("`prev_state`"), "{why}");
    let mut nameless = tracepoints();
    nameless[0].fields.retain(|field| field.name != "next_comm");
    let layout = Layout::new(&nameless).unwrap();
    let mut seen = None;
    layout.decode(&sample(&switch_raw()), |event| seen = Some(event.what));
    assert_eq!(seen, Some(What::Switch { prev: 71, state: 0x100, next: 5, comm: None }));
}

#[test]
fn events_of_all_cpus_are_one_line_until_the_horizon() {
    let at = |at_ns, cpu| Event { at_ns, cpu, pid: 0, tid: 0, what: What::Runs };
    let mut queues = [
        VecDeque::from([at(1, 0), at(5, 0), at(6, 0)]),
        VecDeque::new(),
        VecDeque::from([at(2, 2), at(3, 2), at(9, 2)]),
    ];
    let mut seen = Vec::new();
    merge(&mut queues, 6, |event| seen.push((event.at_ns, event.cpu)));
    assert_eq!(seen, [(1, 0), (2, 2), (3, 2), (5, 0), (6, 0)]);
    assert_eq!(queues.map(|queue| queue.len()), [0, 0, 1]);
}

/// CPUs 0 and 1 share a cache, 2 and 3 another, 4 is on a second node.
fn topology() -> Topology {
    let set = |cpus: &[u32]| cpus.iter().copied().collect::<CpuSet>();
    Topology {
        online: set(&[0, 1, 2, 3, 4]),
        allowed: set(&[0]),
        llcs: vec![set(&[0, 1]), set(&[2, 3]), set(&[4])],
        numa_nodes: vec![set(&[0, 1, 2, 3]), set(&[4])],
        cores: Vec::new(),
    }
}

/// Counting from 1000 ns; tasks 10 `ten` and 20 `twenty`, processes of their own.
fn fold(max_tasks: usize) -> Fold {
    let wanted = Wanted { full: true, max_tasks, ..Wanted::default() };
    let mut fold = Fold::new(wanted, &topology());
    fold.meet(10, 10, b"ten", false, None);
    fold.meet(20, 20, b"twenty", false, None);
    fold.begin(1000);
    fold
}

fn event(at_ns: u64, cpu: u32, tid: i32, what: What) -> Event {
    Event { at_ns, cpu, pid: tid, tid, what }
}

fn switch(at_ns: u64, cpu: u32, prev: i32, state: u64, next: i32) -> Event {
    event(at_ns, cpu, prev, What::Switch { prev, state, next, comm: None })
}

fn waking(at_ns: u64, by: i32, tid: i32) -> Event {
    event(at_ns, 0, by, What::Waking { tid, by_interrupt: false })
}

fn fork(at_ns: u64, parent: i32, pid: i32, tid: i32) -> Event {
    let what = What::Fork { pid, tid, parent_pid: parent, parent_tid: parent };
    event(at_ns, 0, parent, what)
}

fn fold_all(fold: &mut Fold, events: &[Event], ended_ns: u64) -> Counted {
    events.iter().for_each(|event| fold.event(event));
    fold.finish(ended_ns)
}

const SLEEPS: u64 = 1;
const PREEMPTED: u64 = 0x100;
const ZOMBIE: u64 = 0x20;

/// Run, waits (count, sum), voluntary, involuntary, wakeups.
fn numbers(task: &TaskScore) -> (u64, (u64, u64), u64, u64, u64) {
    let wait = task.wait.as_ref().unwrap();
    let (voluntary, involuntary) = (task.voluntary.unwrap(), task.involuntary.unwrap());
    let run_ns = task.run_ns.unwrap();
    (run_ns, (wait.count, wait.total_ns), voluntary, involuntary, task.wakeups.unwrap())
}

#[test]
fn a_story_of_two_tasks_is_reported_in_numbers() {
    let events = [
        // 10 has run since before, 20 wakes up and takes its CPU, sleeps, and 10 goes on.
        waking(1200, 10, 20),
        switch(1300, 0, 10, PREEMPTED, 20),
        switch(1800, 0, 20, SLEEPS, 10),
        event(1900, 0, 10, What::Waking { tid: 20, by_interrupt: true }),
        // It goes of itself: no task has preempted it.
        switch(2000, 0, 10, SLEEPS, 20),
        switch(2100, 0, 20, SLEEPS, 0),
        waking(2300, 0, 10),
        switch(2400, 0, 0, 0, 10),
    ];
    let counted = fold_all(&mut fold(9), &events, 3000);
    assert_eq!(numbers(task(&counted, 10)), (300 + 200 + 600, (2, 500 + 100), 1, 1, 1));
    assert_eq!(numbers(task(&counted, 20)), (500 + 100, (2, 100 + 100), 2, 0, 2));
    assert_eq!(task(&counted, 10).slice.as_ref().unwrap().count, 2, "the last goes on");
    assert_eq!(task(&counted, 10).cpus, Some(vec![(0, 1100)]));
    let pair = |kind, name: &str| {
        let found = pairs(&counted, kind, name).into_iter();
        found.map(|pair| (pair.by.clone(), pair.count, pair.lost_ns)).collect::<Vec<_>>()
    };
    let by = |by: &str, count, ran_ns| (by.to_string(), count, ran_ns);
    // The wait also counts time in which the CPU was idle.
    let delays = [by("(idle)", 0, Some(100)), by("twenty", 1, Some(500))];
    assert_eq!(pair(PairKind::Delayed, "ten"), delays);
    assert_eq!(pair(PairKind::Delayed, "twenty"), [by("ten", 0, Some(200))]);
    assert_eq!(pair(PairKind::Woke, "twenty"), [by("(interrupt)", 1, None), by("ten", 1, None)]);
    assert_eq!(pair(PairKind::Woke, "ten"), [by("(idle)", 1, None)]);
    assert_eq!(counted.wall_ns, 2000);
    let cpu = &counted.cpus[0];
    assert_eq!((cpu.switches, cpu.idle_entries, cpu.busy_ns), (Some(5), Some(1), Some(1700)));
    assert_eq!(counted.cpus[1].busy_ns, None, "nothing was seen of it");
    assert_eq!(counted.lost, Vec::<String>::new());
}

/// A waker on another CPU may come before its task has gone, or so that it does not go at all.
#[test]
fn who_is_woken_while_it_goes_waits_from_when_it_has_gone() {
    let early = [
        switch(1100, 0, 0, 0, 10),
        waking(1200, 20, 10),
        switch(1300, 0, 10, SLEEPS, 0),
        switch(1450, 0, 0, 0, 10),
    ];
    let counted = fold_all(&mut fold(9), &early, 2000);
    assert_eq!(task(&counted, 10).wait.as_ref().unwrap().total_ns, 150);
    let stays = [
        switch(1100, 0, 0, 0, 10),
        waking(1200, 20, 10),
        switch(1300, 0, 10, SLEEPS, 0),
        waking(1900, 20, 10),
        switch(1950, 0, 0, 0, 10),
    ];
    let counted = fold_all(&mut fold(9), &stays, 2000);
    assert_eq!(task(&counted, 10).wait.as_ref().unwrap().total_ns, 50);
    // Since when it waits is unknown: no sample, rather than one of 0.
    let unknown = [switch(1100, 0, 0, 0, 10)];
    let counted = fold_all(&mut fold(9), &unknown, 2000);
    assert_eq!(numbers(task(&counted, 10)), (900, (0, 0), 0, 0, 0));
}

#[test]
fn what_was_before_counting_is_known_and_not_counted() {
    let events = [
        switch(500, 0, 20, SLEEPS, 10),
        waking(700, 10, 20),
        event(800, 0, 10, What::Migrate { tid: 20, from: 0, to: 1 }),
        switch(1400, 0, 10, PREEMPTED, 20),
    ];
    let counted = fold_all(&mut fold(9), &events, 1500);
    assert_eq!(numbers(task(&counted, 10)), (400, (0, 0), 0, 1, 0));
    assert_eq!(numbers(task(&counted, 20)), (100, (1, 700), 0, 0, 0));
    assert_eq!(task(&counted, 20).migrations.unwrap().total, 0);
    assert_eq!(counted.cpus[0].switches, Some(1));
}

#[test]
fn migrations_differ_by_what_cpus_share() {
    let to = |to| event(1100, 0, 10, What::Migrate { tid: 10, from: 0, to });
    let events = [to(1), to(2), to(3), to(4), switch(1200, 0, 10, SLEEPS, 0)];
    let counted = fold_all(&mut fold(9), &events, 1500);
    let migrations = task(&counted, 10).migrations.unwrap();
    let by = migrations.by_distance.unwrap();
    let distances = (by.within_llc, by.across_llc, by.across_node);
    assert_eq!((migrations.total, distances), (4, (1, 2, 1)));
}

#[test]
fn children_are_watched_with_all_that_they_make_and_end() {
    let mut fold = fold(9);
    fold.wanted.children_of = Some(10);
    let events = [
        fork(1100, 10, 10, 11), // A thread of its own is no child.
        fork(1110, 10, 30, 30),
        fork(1120, 30, 30, 31),
        fork(1125, 30, 32, 32),
        fork(1130, 20, 40, 40),
        event(1140, 0, 30, What::Renamed { tid: 30, comm: padded(b"child") }),
        event(1150, 0, 31, What::New { tid: 31 }),
        switch(1200, 0, 0, 0, 11),
        switch(1300, 0, 11, SLEEPS, 30),
        switch(1400, 0, 30, ZOMBIE, 32),
        switch(1450, 0, 32, ZOMBIE, 31),
        switch(1500, 0, 31, SLEEPS, 40),
        // Its number is used again, for another one.
        fork(1600, 20, 32, 32),
        switch(1700, 0, 40, SLEEPS, 32),
    ];
    let counted = fold_all(&mut fold, &events, 2000);
    let is = |task: &TaskScore| {
        (task.tid, task.pid, task.name.clone(), task.watched, task.ended, task.process.clone())
    };
    let rows: Vec<_> = counted.tasks.iter().map(is).collect();
    let row = |tid, pid, name: &str, watched, ended, process: &str| {
        (tid, pid, name.to_string(), watched, ended, process.to_string())
    };
    assert_eq!(
        rows,
        [
            row(11, 10, "ten", false, false, "ten"),
            row(30, 30, "child", true, true, "child"),
            row(31, 30, "ten", true, false, "child"),
            row(32, 32, "ten", true, true, "ten"),
            row(32, 32, "twenty", false, false, "twenty"),
            row(40, 40, "twenty", false, false, "twenty"),
        ]
    );
    assert_eq!(task(&counted, 31).wait.as_ref().unwrap().total_ns, 300, "since it was made");
}

#[test]
fn a_process_met_before_its_own_event_stays_watched_and_so_does_one_that_calls_exec() {
    let mut fold = fold(9);
    fold.meet(30, 30, b"met", false, None);
    fold.watch(30);
    fold.wanted.children_of = Some(20);
    let events = [
        fork(900, 10, 30, 30),
        fork(1000, 20, 40, 40),
        fork(1100, 40, 40, 41),
        switch(1150, 0, 0, 0, 30),
        switch(1200, 0, 30, SLEEPS, 40),
        switch(1300, 0, 40, ZOMBIE, 41),
        // Now it is 40.
        switch(1400, 0, 40, SLEEPS, 0),
    ];
    let counted = fold_all(&mut fold, &events, 2000);
    let is_watched = |task: &TaskScore| (task.tid, task.watched);
    let rows: Vec<(i32, bool)> = counted.tasks.iter().map(is_watched).collect();
    assert_eq!(rows, [(30, true), (40, true), (40, true)]);
}

#[test]
fn tasks_without_room_and_those_that_end_by_the_thousand_are_reported() {
    let mut full = fold(2);
    let events = [
        fork(1100, 10, 30, 30),
        switch(1200, 0, 10, PREEMPTED, 30),
        switch(1300, 0, 30, SLEEPS, 10),
        waking(1400, 30, 20),
    ];
    let counted = fold_all(&mut full, &events, 2000);
    assert_eq!(counted.tasks.len(), 2);
    assert_eq!(pairs(&counted, PairKind::Delayed, "ten")[0].by, "(other)");
    assert_eq!(pairs(&counted, PairKind::Woke, "twenty")[0].by, "(other)");
    assert!(
        counted.lost[0].starts_with("tasks without room") && counted.lost[0].ends_with(": 1"),
        "{:?}",
        counted.lost
    );
    assert!(counted.lost[1].starts_with("switches to tasks"), "{:?}", counted.lost);
    let mut many = fold(3);
    let life = |at_ns| {
        [fork(at_ns, 10, 30, 30), switch(at_ns, 0, 0, 0, 30), switch(at_ns + 5, 0, 30, ZOMBIE, 0)]
    };
    let events: Vec<Event> = (0..10).flat_map(|number| life(1100 + 10 * number)).collect();
    let counted = fold_all(&mut many, &events, 2000);
    let ended: Vec<&TaskScore> = counted.tasks.iter().filter(|task| task.ended).collect();
    assert_eq!(ended.len(), 4, "three by themselves, and the others in one");
    assert_eq!(ended.iter().map(|task| task.run_ns.unwrap()).sum::<u64>(), 50);
    assert_eq!(ended.iter().map(|task| task.voluntary.unwrap()).sum::<u64>(), 10);
    assert!(
        counted.lost[0].starts_with("ended tasks") && counted.lost[0].ends_with(": 7"),
        "{:?}",
        counted.lost
    );
}

#[test]
fn a_loss_is_reported_and_nothing_is_made_up_around_it() {
    let events = [
        switch(1100, 0, 0, 0, 10),
        event(1500, 0, 20, What::Lost { count: 9 }),
        switch(1600, 0, 20, SLEEPS, 10),
        switch(1700, 0, 10, SLEEPS, 0),
    ];
    let counted = fold_all(&mut fold(9), &events, 2000);
    assert_eq!(numbers(task(&counted, 10)), (100, (0, 0), 1, 0, 0));
    assert_eq!(numbers(task(&counted, 20)), (0, (0, 0), 1, 0, 0));
    assert_eq!(counted.cpus[0].busy_ns, None, "not known any more");
    assert!(
        counted.lost[0].starts_with("events without room") && counted.lost[0].ends_with(": 9"),
        "{:?}",
        counted.lost
    );
    // A switch is missing without a record: the task that leaves is not the one that ran before.
    let events = [switch(1100, 0, 0, 0, 10), switch(1600, 0, 20, SLEEPS, 0)];
    let counted = fold_all(&mut fold(9), &events, 2000);
    assert_eq!(numbers(task(&counted, 20)), (0, (0, 0), 1, 0, 0));
    assert_eq!(counted.cpus[0].busy_ns, Some(500), "a task ran, if not known which");
    assert!(
        counted.lost[0].starts_with("switches that the tracepoint did not show"),
        "{:?}",
        counted.lost
    );
    let events = [switch(1100, 0, 10, SLEEPS, 0), switch(1600, 0, 20, SLEEPS, 0)];
    assert_eq!(fold_all(&mut fold(9), &events, 2000).cpus[0].busy_ns, None);
}

#[test]
fn a_task_that_is_never_switched_is_seen_by_the_clock() {
    let events = [event(1400, 2, 10, What::Runs), event(1500, 3, 0, What::Runs)];
    let counted = fold_all(&mut fold(9), &events, 2000);
    assert_eq!(task(&counted, 10).cpus, Some(vec![(2, 1000)]));
    let busy: Vec<_> = counted.cpus.iter().map(|cpu| cpu.busy_ns).collect();
    assert_eq!(busy, [None, None, Some(1000), Some(0), None]);
}

/// A session, or why this test cannot run here.
fn session(config: &SessionConfig, test: &str) -> Option<Box<dyn Session>> {
    match open(config) {
        Ok(session) => Some(session),
        Err(SourceError::PidNamespace | SourceError::Tracefs(TracefsError::NotMounted)) => {
            println!("skipped: {test} needs kernel support for tracepoints");
            None
        }
        Err(error) => {
            let why = error.to_string();
            let is = |names: &[&str]| names.iter().any(|name| why.contains(name));
            assert!(is(&["EACCES", "EPERM", "ENOENT"]), "{why}");
            println!("skipped: {test} needs privilege to record perf events: {why}");
            None
        }
    }
}

#[test]
fn counts_are_the_kernels_own_and_who_woke_whom_is_known() {
    let _one = ONE.lock();
    let test = "counts_are_the_kernels_own_and_who_woke_whom_is_known";
    for level in [Level::Full, Level::Light] {
        let config = SessionConfig { level, ..SessionConfig::default() };
        let Some(mut session) = session(&config, test) else { return };
        const TIMES: u32 = 500;
        let ((ping_out, ping_in), (pong_out, pong_in)) = (pipe().unwrap(), pipe().unwrap());
        let actors = [
            Actor::new("perf-ping", move || strike(ping_in, pong_out, TIMES, true)),
            Actor::new("perf-pong", move || strike(pong_in, ping_out, TIMES, false)),
        ];
        let (counted, kernel) = count(&mut *session, &actors);
        let is_whole = |lost: &String| !lost.contains("without room") && !lost.contains("read");
        assert!(counted.lost.iter().all(is_whole), "{:?}", counted.lost);
        for (actor, kernel) in actors.iter().zip(&kernel) {
            let task = task(&counted, actor.tid);
            let switches = (task.voluntary.unwrap(), task.involuntary.unwrap());
            assert_eq!(switches, (kernel.voluntary, kernel.involuntary), "{}", task.name);
            let wait = task.wait.as_ref().unwrap();
            assert_eq!(wait.count, wait.buckets.iter().map(|bucket| bucket.count).sum::<u64>());
            assert!(wait.count <= kernel.voluntary + kernel.involuntary, "{wait:?} {kernel:?}");
            assert!(wait.count >= u64::from(TIMES), "{wait:?}");
            let run_ns = task.run_ns.unwrap();
            assert!(run_ns > 0 && run_ns < counted.wall_ns);
            assert_eq!(task.cpus.iter().flatten().map(|(_, ns)| ns).sum::<u64>(), run_ns);
            assert!(!task.ended && !task.kernel_thread && task.pid == std::process::id() as i32);
            assert_eq!(task.slice.is_some(), level == Level::Full);
            let woken: u64 =
                pairs(&counted, PairKind::Woke, &task.name).iter().map(|pair| pair.count).sum();
            assert_eq!(woken, task.wakeups.unwrap_or(0));
        }
        let woke = |by: &str, name: &str| {
            let found = pairs(&counted, PairKind::Woke, name);
            found.iter().any(|pair| pair.by == by && pair.count > 0)
        };
        let either = woke("perf-ping", "perf-pong") || woke("perf-pong", "perf-ping");
        assert_eq!(either, level == Level::Full, "{:?}", counted.pairs);
        assert_eq!(counted.pairs.is_some(), level == Level::Full);
        actors.into_iter().for_each(|actor| drop(actor.go));
    }
}

#[test]
fn each_preemption_has_its_preemptor_and_what_it_cost() {
    let _one = ONE.lock();
    let test = "each_preemption_has_its_preemptor_and_what_it_cost";
    let Some(mut session) = session(&SessionConfig::default(), test) else { return };
    let spin = || {
        on_one_cpu();
        let start_ns = clock::own_thread_cpu_ns();
        while clock::own_thread_cpu_ns() - start_ns < 60_000_000 {}
    };
    let actors = [Actor::new("perf-spin-a", spin), Actor::new("perf-spin-b", spin)];
    let (counted, kernel) = count(&mut *session, &actors);
    for (actor, kernel) in actors.iter().zip(&kernel) {
        let task = task(&counted, actor.tid);
        assert_eq!(task.involuntary, Some(kernel.involuntary), "{}", task.name);
        let by = pairs(&counted, PairKind::Delayed, &task.name);
        let times: u64 = by.iter().map(|pair| pair.count).sum();
        // It came after each, but for switches that the tracepoint does not show; after those that it
        // made by itself it came at most once each, and not after one that counting ended with.
        let came = task.wait.as_ref().unwrap().count;
        let may_be = came - kernel.voluntary..=kernel.involuntary;
        assert!(may_be.contains(&times), "{may_be:?}: {by:?}: {kernel:?}");
        let lost_ns: u64 = by.iter().filter_map(|pair| pair.lost_ns).sum();
        assert_eq!(lost_ns, task.wait.as_ref().unwrap().total_ns, "somebody ran: {by:?}");
        assert!(task.run_ns > Some(0));
    }
    let of_b = pairs(&counted, PairKind::Delayed, "perf-spin-b");
    assert!(of_b.iter().any(|pair| pair.by == "perf-spin-a"), "{of_b:?}");
    actors.into_iter().for_each(|actor| drop(actor.go));
}

/// A scenario with tasks under SCHED_FIFO.
fn play(scenario: fn(&mut dyn Session), config: &SessionConfig, test: &str) {
    let _one = ONE.lock();
    let Some(mut session) = session(config, test) else { return };
    if has_real_time(test) {
        scenario(&mut *session);
    }
}

#[test]
fn a_thief_is_charged_and_not_who_woke_it() {
    let test = "a_thief_is_charged_and_not_who_woke_it";
    play(thief_is_charged, &SessionConfig::default(), test);
}

#[test]
fn a_wait_of_thousands_of_turns_is_charged() {
    let test = "a_wait_of_thousands_of_turns_is_charged";
    play(long_wait_is_charged, &SessionConfig::default(), test);
}

#[test]
fn each_cpu_that_a_task_waited_for_is_charged_also_of_a_wait_that_lasts() {
    let test = "each_cpu_that_a_task_waited_for_is_charged_also_of_a_wait_that_lasts";
    let config = SessionConfig { readings: true, ..SessionConfig::default() };
    play(each_cpu_is_charged, &config, test);
}

#[test]
fn tasks_that_end_are_all_there() {
    let _one = ONE.lock();
    let test = "tasks_that_end_are_all_there";
    let Some(mut session) = session(&SessionConfig::default(), test) else { return };
    const THREADS: usize = 1000;
    session.begin().unwrap();
    for _ in 0..THREADS {
        let thread = std::thread::Builder::new().name("perf-storm".to_string());
        thread.spawn(|| ()).unwrap().join().unwrap();
    }
    let counted = session.end().unwrap();
    let named = counted.tasks.iter().filter(|task| task.name == "perf-storm" && task.ended);
    let own = named.filter(|task| task.pid == std::process::id() as i32);
    assert_eq!(own.count(), THREADS, "{:?}", counted.lost);
}

/// Ten waits for CPU 0 from 1300 on, has it from 1700 on; twenty has it until then, with one interruption.
fn story() -> [Event; 7] {
    [
        switch(1100, 0, 0, 0, 10),
        switch(1200, 0, 10, SLEEPS, 20),
        waking(1300, 20, 10),
        switch(1500, 0, 20, PREEMPTED, 30),
        switch(1550, 0, 30, SLEEPS, 20),
        switch(1700, 0, 20, PREEMPTED, 10),
        switch(1900, 0, 10, SLEEPS, 20),
    ]
}

/// The tasks that ran while `name` waited, and for how long.
fn delays(counted: &Counted, name: &str) -> Vec<(String, u64, u64)> {
    let found = pairs(counted, PairKind::Delayed, name).into_iter();
    found.map(|pair| (pair.by.clone(), pair.count, pair.lost_ns.unwrap())).collect()
}

fn delay(by: &str, count: u64, ran_ns: u64) -> (String, u64, u64) {
    (by.to_string(), count, ran_ns)
}

/// Twenty, a bell, wakes 30, a thief, which keeps the CPU that ten waits for.
#[test]
fn a_wait_is_charged_to_those_who_ran_meanwhile_not_to_who_took_the_cpu() {
    let mut fold = fold(9);
    fold.meet(30, 30, b"thief", false, None);
    let events = [
        switch(1100, 0, 0, 0, 10),
        waking(1200, 10, 20),
        switch(1201, 0, 10, PREEMPTED, 20),
        waking(1203, 20, 30),
        switch(1204, 0, 20, SLEEPS, 30),
        switch(1900, 0, 30, SLEEPS, 10),
    ];
    let counted = fold_all(&mut fold, &events, 2000);
    assert_eq!(delays(&counted, "ten"), [delay("thief", 0, 696), delay("twenty", 1, 3)]);
    assert_eq!(delays(&counted, "thief"), [delay("twenty", 0, 1)], "a wait after a wakeup");
    assert_eq!(delays(&counted, "twenty"), [delay("ten", 0, 1)]);
}

/// Ten is preempted on CPU 0 and moved to CPU 1, where it waits on; 40 still waits at the end.
#[test]
fn each_piece_of_a_wait_is_charged_to_those_of_its_own_cpu() {
    let mut fold = fold(9);
    fold.meet(30, 30, b"there", false, None);
    fold.meet(40, 40, b"late", false, None);
    let events = [
        switch(1050, 1, 0, 0, 30),
        switch(1100, 0, 0, 0, 10),
        switch(1200, 0, 10, PREEMPTED, 20),
        event(1500, 1, 30, What::Migrate { tid: 10, from: 0, to: 1 }),
        switch(1800, 1, 30, PREEMPTED, 10),
        event(1850, 0, 20, What::Migrate { tid: 40, from: 1, to: 0 }),
        event(1860, 0, 20, What::New { tid: 40 }),
    ];
    let counted = fold_all(&mut fold, &events, 2000);
    assert_eq!(delays(&counted, "ten"), [delay("there", 0, 300), delay("twenty", 1, 300)]);
    assert_eq!(delays(&counted, "late"), [delay("twenty", 0, 140)]);
    assert_eq!(task(&counted, 40).waiting_ns, Some(140));
    let worst = counted.worst.expect("ten waited");
    assert_eq!((worst.wait_ns, worst.known_ns), (600, 300), "what is known of the last CPU");
    let turns: Vec<_> = worst.meanwhile.iter().flatten().map(|turn| turn.name.as_str()).collect();
    assert_eq!(turns, ["there"]);
}

#[test]
fn what_is_not_known_of_a_wait_is_charged_to_nobody() {
    let lost = event(1600, 0, 0, What::Lost { count: 1 });
    let events = [
        switch(1100, 0, 0, 0, 10),
        waking(1200, 10, 20),
        lost,
        switch(1700, 0, 10, SLEEPS, 30),
        switch(1750, 0, 30, SLEEPS, 20),
    ];
    let counted = fold_all(&mut fold(9), &events, 2000);
    let unnamed = delays(&counted, "twenty").into_iter().find(|delay| delay.0 == "(other)");
    assert_eq!(unnamed, Some(delay("(other)", 0, 500)));
}

#[test]
fn the_longest_wait_is_known_with_who_ran_meanwhile() {
    let counted = fold_all(&mut fold(9), &story(), 3000);
    let worst = counted.worst.expect("there were waits");
    assert_eq!((worst.wait_ns, worst.at_ns, worst.cpu, worst.tid), (400, 700, 0, 10));
    assert_eq!((worst.name.as_str(), worst.known_ns), ("ten", 400));
    assert_eq!((worst.before.tid, worst.before.run_ns), (20, 150));
    let turns = worst.meanwhile.unwrap();
    let turns: Vec<(i32, u64)> = turns.iter().map(|turn| (turn.tid, turn.run_ns)).collect();
    assert_eq!(turns, [(20, 350), (30, 50)]);

    let mut only = fold(9);
    only.watch(20);
    let counted = fold_all(&mut only, &story(), 3000);
    let worst = counted.worst.expect("twenty waited");
    assert_eq!((worst.tid, worst.wait_ns), (20, 200), "of what is watched");
}

#[test]
fn what_a_reading_takes_is_still_there_at_the_end() {
    let whole = fold_all(&mut fold(9), &story(), 3000);
    let mut fold = fold(9);
    fold.wanted.readings = true;
    let mut since = Since::default();
    let mut readings = Vec::new();
    for (events, at_ns) in [(&story()[..3], 1400), (&story()[3..], 2500)] {
        events.iter().for_each(|event| fold.event(event));
        let (gone, so_far) = fold.so_far(at_ns);
        readings.push(since.step(gone, so_far));
    }
    assert_eq!(fold.finish(3000), whole);
    let [first, second] = &readings[..] else { panic!("{readings:?}") };
    assert_eq!((first.wall_ns, second.wall_ns), (400, 1100));
    let waiting: Vec<_> = [10, 20].map(|tid| task(first, tid).waiting_ns).into();
    assert_eq!(waiting, [Some(100), None]);
    assert_eq!([first, second].map(|read| task(read, 20).run_ns), [Some(200), Some(850)]);
    let wait = task(second, 10).wait.as_ref().unwrap();
    assert_eq!((wait.count, wait.max_ns), (1, Some(400)));
    let busy: Vec<_> = [first, second].map(|read| read.cpus[0].busy_ns).into();
    assert_eq!(busy, [Some(300), Some(1100)], "from the first switch on");
}
