//! Tests of the source `bpf`: its layouts against the compiled programs, and its counts against
//! the kernel's own. The latter need the right to load programs.

use libbpf_rs::HasSize;
use std::io::Write;
use std::mem::offset_of;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use super::*;
use crate::model::{PairKind, TaskScore, Times, TraceEvent, TraceWhat, Waker};
use crate::probe::sched::testing::{
    Actor, Kernel, ONE, await_sleep, count, each_cpu_is_charged,
    early_wait_counts_from_the_beginning, has_real_time, long_wait_is_charged, on_one_cpu, pairs,
    ping_pong, task, thief_is_charged,
};
use crate::sys::{cgroup, mounts, sched as policy};

const PING_PONG: [&str; 2] = ["bpf-ping", "bpf-pong"];

fn btf() -> Btf<'static> {
    Btf::from_raw("sched", PROGRAMS).unwrap().unwrap()
}

/// Offset of each field and the size of a struct of the programs.
fn of_the_programs(name: &str) -> (Vec<(String, usize)>, usize) {
    let btf = btf();
    let found: types::Struct = btf.type_by_name(name).unwrap();
    let members = found.iter().map(|member| {
        let libbpf_rs::btf::types::MemberAttr::Normal { offset } = member.attr else { panic!() };
        (member.name.unwrap().to_string_lossy().into_owned(), offset as usize / 8)
    });
    let size = found.size();
    (members.collect(), size)
}

macro_rules! same_layout {
    ($name:literal, $type:ty, $($field:ident),+) => {
        let (members, size) = of_the_programs($name);
        let own = vec![$((stringify!($field).to_string(), offset_of!($type, $field))),+];
        assert_eq!(members, own, $name);
        assert_eq!(size, size_of::<$type>(), $name);
    };
}

#[test]
fn layouts_are_those_of_the_programs() {
    same_layout!(
        "task",
        Task,
        run_seen,
        delay_seen,
        voluntary_seen,
        involuntary_seen,
        run_ns,
        wait_ns,
        wait_max_ns,
        slice_max_ns,
        waits,
        slices,
        voluntary,
        involuntary,
        wakeups,
        run_here_ns,
        run_read,
        delay_charged,
        cgroup,
        cpu,
        name,
        flags,
        number,
        migrations,
        pid,
        tgid,
        comm,
        woken_by,
        delayed_by,
        wait,
        slice
    );
    same_layout!("waker", layout::Waker, name, count);
    same_layout!("partner", layout::Partner, name, count, ns);
}

#[test]
fn the_layout_of_a_cpu_is_that_of_the_programs() {
    same_layout!(
        "cpu",
        Cpu,
        switches,
        idle_entries,
        idle_ns,
        idle_since,
        untracked,
        other_run_ns,
        other_voluntary,
        other_involuntary,
        other_since,
        name,
        interrupts,
        trace_head,
        watched,
        worst_slice_us,
        worst_ns,
        worst_at,
        worst_pid,
        worst_name,
        worst_prev_pid,
        worst_prev_name,
        softirq,
        message,
        address,
        lengths
    );
}

#[test]
fn layouts_other_than_of_tasks_and_cpus_are_those_of_the_programs() {
    same_layout!(
        "settings",
        Settings,
        full,
        events_only,
        trace_slots,
        max_tasks,
        max_names,
        senders,
        llc_of,
        node_of
    );
    same_layout!(
        "control",
        Control,
        counting,
        walk_to,
        watch_pid,
        watch_children_of,
        only_watched,
        clock_wanted,
        began_ns
    );
    same_layout!("holder_sum", layout::HolderSum, name, unused, ns);
    let past = of_the_programs("past").0;
    let own = [("turns", offset_of!(Past, turns)), ("pid", offset_of!(Past, pid))];
    let worst =
        [("worst_count", offset_of!(Past, worst_count)), ("worst", offset_of!(Past, worst))];
    let own = own.iter().chain(&worst).map(|(name, offset)| (name.to_string(), *offset));
    assert_eq!(past[..4], own.collect::<Vec<_>>());
    assert_eq!(past[4].1, size_of::<Past>());
    same_layout!("pair", layout::Pair, name, by, kind);
    same_layout!("pair_sum", layout::PairSum, count, ns);
    same_layout!("stay", layout::Stay, number, cpu);
    let (members, size) = of_the_programs("counters");
    let cpus = members.iter().find(|(name, _)| name == "cpus").unwrap().1;
    assert_eq!((cpus, size), (size_of::<Counters>(), cpus + MAX_CPUS * size_of::<Cpu>()));
}

/// A session, or why this test cannot run here.
fn session(config: &SessionConfig, test: &str) -> Option<Bpf> {
    match start(config) {
        Ok(session) => Some(session),
        Err(SourceError::Bpf(
            error @ (BpfError::NotPermitted { .. }
            | BpfError::RefusedToRoot { .. }
            | BpfError::NoBtf { .. }
            | BpfError::NoEvents
            | BpfError::NoTaskStorage),
        )) => {
            println!("skipped: {test} needs privilege or kernel support for BPF: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn counts_are_the_kernels_own_and_who_woke_whom_is_known() {
    let _one = ONE.lock();
    let test = "counts_are_the_kernels_own_and_who_woke_whom_is_known";
    let Some(mut session) = session(&SessionConfig::default(), test) else { return };
    const TIMES: u32 = 500;
    let actors = ping_pong(PING_PONG, TIMES);
    let (counted, kernel) = count(&mut session, &actors);
    for (actor, kernel) in actors.iter().zip(&kernel) {
        let task = task(&counted, actor.tid);
        assert_eq!(Kernel::from_task(task), *kernel, "{}", task.name);
        let wait = task.wait.as_ref().unwrap();
        assert_eq!(wait.count, wait.buckets.iter().map(|bucket| bucket.count).sum::<u64>());
        // It rested before and after: it came as often as it went, but for switches that the
        // tracepoint does not show (seen on one virtual machine, whose task iterator leaves out the
        // threads of process 1; why is not known).
        assert!(wait.count <= kernel.voluntary + kernel.involuntary, "{wait:?} {kernel:?}");
        assert!(wait.count >= u64::from(TIMES), "{wait:?}");
        let by_cpu: u64 = task.cpus.as_ref().unwrap().iter().map(|(_, ns)| ns).sum();
        assert_eq!(by_cpu, kernel.run_ns);
        let woken: u64 =
            pairs(&counted, PairKind::Woke, &task.name).iter().map(|pair| pair.count).sum();
        assert_eq!(woken, task.wakeups.unwrap());
        assert!(!task.ended && !task.kernel_thread && task.pid == std::process::id() as i32);
    }
    // A task that is awake already needs no waking, but not both can always be.
    let woke = |by: &str, name: &str| {
        pairs(&counted, PairKind::Woke, name).iter().any(|pair| pair.by == by && pair.count > 0)
    };
    assert!(woke("bpf-ping", "bpf-pong") || woke("bpf-pong", "bpf-ping"), "{:?}", counted.pairs);
    for actor in actors {
        drop(actor.go);
        actor.thread.join().unwrap();
    }
}

#[test]
fn the_path_of_a_cgroup_that_goes_away_is_known() {
    let _one = ONE.lock();
    let test = "the_path_of_a_cgroup_that_goes_away_is_known";
    let Some(mut session) = session(&SessionConfig::default(), test) else { return };
    let host = Host::default();
    let mounts = mounts::mounts(&host).known().unwrap();
    let path = format!("/schedlab-test-{}", std::process::id());
    let tree = mounts.iter().find(|mount| mount.filesystem == mounts::CGROUP_V2);
    let folder = tree.map(|tree| tree.point.join(&path[1..]));
    let Some(folder) = folder.filter(|folder| std::fs::create_dir(folder).is_ok()) else {
        println!("skipped: {test} needs privilege to make a cgroup of version 2");
        return;
    };
    let mut shell = std::process::Command::new("sh");
    let mut shell = shell.args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap();
    std::fs::write(folder.join("cgroup.procs"), shell.id().to_string()).unwrap();
    session.begin().unwrap();
    drop(shell.stdin.take());
    shell.wait().unwrap();
    cgroup::end(&host, &folder).unwrap();
    let counted = session.end().unwrap();
    assert_eq!(task(&counted, shell.id() as i32).cgroup.as_ref(), Some(&path));
}

/// The wakers of a reader of 20 bytes, each written while it sleeps, and whether the trace says that they wrote.
fn wakers(
    level: Level,
    mut to: impl Write + Send + 'static,
    mut from: impl Read + Send + 'static,
) -> Vec<(Waker, bool)> {
    const TIMES: u32 = 20;
    let test = "a_trace_says_who_wakes_by_writing";
    let config = SessionConfig { level, trace_ns: 2_000_000_000, ..SessionConfig::default() };
    let Some(mut session) = session(&config, test) else { return Vec::new() };
    let reads = Arc::new(AtomicU32::new(0));
    let begun = reads.clone();
    let reader = Actor::new("bpf-reader", move || {
        for _ in 0..TIMES {
            begun.fetch_add(1, SeqCst);
            from.read_exact(&mut [0]).unwrap();
        }
    });
    let read_by = reader.tid;
    let writer = Actor::new("bpf-writer", move || {
        for written in 0..TIMES {
            while reads.load(SeqCst) == written {
                std::thread::yield_now();
            }
            await_sleep(read_by);
            to.write_all(&[1]).unwrap();
        }
    });
    wakers_in(&mut session, [reader, writer])
}

/// The wakers of the first actor, 0 for the second, and whether the trace says that they wrote.
fn wakers_in(session: &mut Bpf, actors: [Actor; 2]) -> Vec<(Waker, bool)> {
    let [woken, other] = [0, 1].map(|at: usize| actors[at].tid);
    let (counted, kernel) = count(session, &actors);
    for (actor, kernel) in actors.iter().zip(kernel) {
        let task = task(&counted, actor.tid);
        assert_eq!([task.run_ns, task.voluntary], [kernel.run_ns, kernel.voluntary].map(Some));
    }
    let wakeup = |event: &TraceEvent| match event.what {
        TraceWhat::Waking { by, task, is_sync, .. } if task.tid == woken => {
            let by = if by == Waker::Task(other) { Waker::Task(0) } else { by };
            Some((by, is_sync))
        }
        _ => None,
    };
    counted.trace.unwrap().events.iter().filter_map(wakeup).collect()
}

#[test]
fn a_trace_says_who_wakes_by_writing() {
    let _one = ONE.lock();
    let by_writing = (Waker::Task(0), true);
    let (from, to) = std::io::pipe().unwrap();
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_nodelay(true).unwrap();
    let (server, _) = listener.accept().unwrap();
    let seen = [
        wakers(Level::Full, to, from),
        wakers(Level::Events, near, far),
        wakers(Level::Events, client, server),
    ];
    for seen in seen {
        // The first one may find it at work; ksoftirqd may take a packet over.
        let own = seen.iter().filter(|wakeup| **wakeup == by_writing).count();
        assert!(seen.is_empty() || own >= 10, "{seen:?}");
    }
}

#[test]
fn a_timer_that_interrupts_a_write_and_a_futex_write_nothing() {
    let _one = ONE.lock();
    let test = "a_timer_that_interrupts_a_write_and_a_futex_write_nothing";
    let config =
        SessionConfig { level: Level::Events, trace_ns: 2_000_000_000, ..SessionConfig::default() };
    let Some(mut timed) = session(&config, test) else { return };
    let slept = Arc::new(AtomicBool::new(false));
    let done = slept.clone();
    let sleeper = Actor::new("bpf-sleeper", move || {
        on_one_cpu();
        (0..50).for_each(|_| std::thread::sleep(Duration::from_micros(200)));
        done.store(true, SeqCst);
    });
    let writer = Actor::new("bpf-writer", move || {
        on_one_cpu();
        let mut nowhere = std::fs::File::create("/dev/null").unwrap();
        while !slept.load(SeqCst) {
            nowhere.write_all(&[1]).unwrap();
        }
    });
    let seen = wakers_in(&mut timed, [sleeper, writer]);
    let by_timer = seen.iter().filter(|wakeup| **wakeup == (Waker::Interrupt, false)).count();
    assert!(by_timer >= 40 && seen.iter().all(|(_, is_sync)| !is_sync), "{seen:?}");
    let (to, from) = std::sync::mpsc::channel();
    let reader = Actor::new("bpf-reader", move || assert!(from.iter().eq(0..20)));
    let writer = Actor::new("bpf-writer", move || (0..20).for_each(|at| to.send(at).unwrap()));
    drop(timed);
    let Some(mut session) = session(&config, test) else { return };
    let seen = wakers_in(&mut session, [reader, writer]);
    assert!(!seen.is_empty() && seen.iter().all(|(_, is_sync)| !is_sync), "{seen:?}");
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
    let actors = [Actor::new("bpf-spin-a", spin), Actor::new("bpf-spin-b", spin)];
    let (counted, kernel) = count(&mut session, &actors);
    for (actor, kernel) in actors.iter().zip(&kernel) {
        let task = task(&counted, actor.tid);
        assert_eq!(Kernel::from_task(task), *kernel, "{}", task.name);
        let by = pairs(&counted, PairKind::Delayed, &task.name);
        let times: u64 = by.iter().map(|pair| pair.count).sum();
        let came = task.wait.as_ref().unwrap().count;
        // Some machines hide switches.
        let may_be = came - kernel.voluntary..=kernel.involuntary;
        assert!(may_be.contains(&times), "{may_be:?}: {by:?}: {kernel:?}");
        let lost_ns: u64 = by.iter().filter_map(|pair| pair.lost_ns).sum();
        assert!(lost_ns <= kernel.wait_ns, "{lost_ns} of {}", kernel.wait_ns);
        let slice = task.slice.as_ref().unwrap();
        assert!(slice.max_ns.unwrap() <= kernel.run_ns && slice.count > 0);
    }
    let of_b = pairs(&counted, PairKind::Delayed, "bpf-spin-b");
    assert!(of_b.iter().any(|pair| pair.by == "bpf-spin-a"), "{of_b:?}");
    actors.into_iter().for_each(|actor| drop(actor.go));
}

/// A scenario with tasks under SCHED_FIFO.
fn play(scenario: fn(&mut dyn Session), config: &SessionConfig, test: &str) {
    let _one = ONE.lock();
    let Some(mut session) = session(config, test) else { return };
    if has_real_time(test) {
        scenario(&mut session);
    }
}

#[test]
fn a_thief_is_charged_and_not_who_woke_it() {
    let test = "a_thief_is_charged_and_not_who_woke_it";
    for trace_ns in [0, 1_000_000_000] {
        let config = SessionConfig { trace_ns, ..SessionConfig::default() };
        play(thief_is_charged, &config, test);
    }
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
fn of_a_wait_that_began_before_counting_the_rest_counts() {
    let test = "of_a_wait_that_began_before_counting_the_rest_counts";
    play(early_wait_counts_from_the_beginning, &SessionConfig::default(), test);
}

/// A task that runs when counting begins has time in the kernel that is not counted yet: up to a tick.
#[test]
fn tasks_have_no_time_from_before_or_after_counting() {
    const TIMES: usize = 10;
    const TOLERANCE_NS: u64 = 200_000;
    let _one = ONE.lock();
    let test = "tasks_have_no_time_from_before_or_after_counting";
    let counted = || -> Vec<(u64, u64)> {
        let sessions = (0..TIMES).map_while(|_| session(&SessionConfig::default(), test));
        let counted = sessions.map(|mut session| {
            session.begin().unwrap();
            let counted = session.end().unwrap();
            let ran_ns = counted.tasks.iter().filter_map(|task| task.run_ns).sum();
            (ran_ns, counted.wall_ns * counted.cpus.len() as u64)
        });
        counted.collect()
    };
    let is_over = AtomicBool::new(false);
    let counted = std::thread::scope(|threads| {
        for _ in online() {
            threads.spawn(|| {
                while !is_over.load(SeqCst) {
                    std::hint::spin_loop()
                }
            });
        }
        let counted = threads.spawn(counted).join();
        is_over.store(true, SeqCst);
        counted.unwrap()
    });
    assert!(counted.iter().all(|(ran_ns, _)| *ran_ns > 0), "{counted:?}");
    // Others may take the CPU between the first count and the reading of the clock, but not each time.
    let excess_ns = counted.iter().map(|(ran_ns, wall_ns)| ran_ns.saturating_sub(*wall_ns)).min();
    assert!(excess_ns <= Some(TOLERANCE_NS), "{counted:?}");
}

const STORM: usize = 1500;

/// Threads that end one after the other. Polls in between as a run does, since other tests' tasks
/// end too and fill the ring.
fn storm(session: &mut Bpf) -> Vec<i32> {
    let one = |number| {
        let thread = std::thread::Builder::new().name("bpf-storm".to_string());
        let tid = thread.spawn(policy::own_tid).unwrap().join().unwrap();
        if number % 100 == 0 {
            session.poll().unwrap();
        }
        tid
    };
    (0..STORM).map(one).collect()
}

/// Until the threads were switched away from for the last time. `join` returns before that.
fn await_end(session: &mut Bpf, tids: &[i32]) {
    let started = std::time::Instant::now();
    let mut left = tids.to_vec();
    while !left.is_empty() && started.elapsed().as_secs() < 60 {
        session.poll().unwrap();
        left.retain(|tid| !session.fold.borrow().has_ended(*tid));
        std::thread::yield_now();
    }
}

#[test]
fn tasks_that_end_are_all_there() {
    let _one = ONE.lock();
    let test = "tasks_that_end_are_all_there";
    let Some(mut session) = session(&SessionConfig::default(), test) else { return };
    session.begin().unwrap();
    let tids = storm(&mut session);
    await_end(&mut session, &tids);
    let counted = session.end().unwrap();
    let ended = counted.tasks.iter().filter(|task| task.name == "bpf-storm" && task.ended);
    assert_eq!(ended.count(), STORM, "{:?}", counted.lost);
}

#[test]
fn what_has_no_room_is_reported() {
    let _one = ONE.lock();
    let config = SessionConfig { max_tasks: 1, ..SessionConfig::default() };
    let Some(mut session) = session(&config, "what_has_no_room_is_reported") else { return };
    session.begin().unwrap();
    storm(&mut session);
    let counted = session.end().unwrap();
    assert!(counted.lost.iter().any(|text| text.starts_with("tasks without room")), "{counted:?}");
    assert!(counted.lost.iter().any(|text| text.starts_with("switches to tasks without")));
}

#[test]
fn light_telemetry_counts_switches_and_waits_alone() {
    let _one = ONE.lock();
    let test = "light_telemetry_counts_switches_and_waits_alone";
    let config = SessionConfig { level: Level::Light, ..SessionConfig::default() };
    let Some(mut session) = session(&config, test) else { return };
    let actors = ping_pong(PING_PONG, 100);
    let (counted, kernel) = count(&mut session, &actors);
    for (actor, kernel) in actors.iter().zip(&kernel) {
        let task = task(&counted, actor.tid);
        assert_eq!(Kernel::from_task(task), *kernel, "{}", task.name);
        assert_eq!((&task.slice, task.wakeups, task.migrations), (&None, None, None));
    }
    assert_eq!(counted.pairs, None);
    actors.into_iter().for_each(|actor| drop(actor.go));
}

#[test]
fn readings_add_up_to_what_is_counted_in_all() {
    const TIMES: u32 = 400;
    let _one = ONE.lock();
    let test = "readings_add_up_to_what_is_counted_in_all";
    let config = SessionConfig { readings: true, ..SessionConfig::default() };
    let Some(mut session) = session(&config, test) else { return };
    let actors = [PING_PONG; 2].map(|names| ping_pong(names, TIMES));
    let actors: Vec<Actor> = actors.into_iter().flatten().collect();
    session.begin().unwrap();
    let mut readings = Vec::new();
    for pair in actors.chunks(2) {
        pair.iter().for_each(|actor| actor.go.send(()).unwrap());
        // While they act, too.
        readings.push(session.reading().unwrap());
        pair.iter().for_each(Actor::rest);
        let thread = std::thread::Builder::new().name("bpf-short".to_string());
        let short = thread.spawn(policy::own_tid).unwrap().join().unwrap();
        await_end(&mut session, &[short]);
        readings.push(session.reading().unwrap());
    }
    let all = session.end().unwrap();
    for actor in &actors {
        let total = task(&all, actor.tid);
        let parts: Vec<&TaskScore> =
            readings.iter().flat_map(|read| &read.tasks).filter(|t| t.tid == actor.tid).collect();
        let sum =
            |of: fn(&TaskScore) -> Option<u64>| parts.iter().filter_map(|t| of(t)).sum::<u64>();
        assert_eq!(sum(|task| task.run_ns), total.run_ns.unwrap(), "{parts:?}");
        assert_eq!(sum(|task| task.voluntary), total.voluntary.unwrap());
        assert_eq!(sum(|task| task.wakeups), total.wakeups.unwrap());
        let waits = |of: fn(&Times) -> u64| {
            parts.iter().filter_map(|task| task.wait.as_ref().map(of)).sum::<u64>()
        };
        let wait = total.wait.as_ref().unwrap();
        assert_eq!(waits(|wait| wait.count), wait.count);
        assert_eq!(waits(|wait| wait.buckets.iter().map(|b| b.count).sum()), wait.count);
        let max = parts.iter().filter_map(|task| task.wait.as_ref()?.max_ns).max();
        assert_eq!(max, wait.max_ns, "maxima begin anew at each reading, not in the whole");
    }
    let ended = |counted: &Counted| counted.tasks.iter().filter(|t| t.name == "bpf-short").count();
    assert_eq!(readings.iter().map(ended).collect::<Vec<_>>(), [0, 1, 0, 1]);
    assert_eq!(ended(&all), 2);
    let wall_ns: u64 = readings.iter().map(|read| read.wall_ns).sum();
    assert!(wall_ns > 0 && wall_ns <= all.wall_ns);
    actors.into_iter().for_each(|actor| drop(actor.go));
}

#[test]
fn without_totals_what_has_ended_is_in_readings_alone() {
    let _one = ONE.lock();
    let config = SessionConfig { readings: true, totals: false, ..SessionConfig::default() };
    let test = "without_totals_what_has_ended_is_in_readings_alone";
    let Some(mut session) = session(&config, test) else { return };
    session.begin().unwrap();
    storm(&mut session);
    let mut ended = 0;
    let started = std::time::Instant::now();
    while ended < STORM && started.elapsed().as_secs() < 60 {
        let read = session.reading().unwrap();
        ended += read.tasks.iter().filter(|task| task.name == "bpf-storm" && task.ended).count();
    }
    assert_eq!(ended, STORM);
    assert!(session.fold.borrow().kept() < STORM / 2, "it does not grow");
    let counted = session.end().unwrap();
    assert!(counted.tasks.iter().all(|task| task.name != "bpf-storm"));
}

/// The messages that the second of two actors sent to the first one, which receives each 20 times only when it is there.
#[test]
fn sends_to_a_reader_that_is_awake_are_in_the_trace() {
    const TIMES: u32 = 20;
    let _one = ONE.lock();
    let config =
        SessionConfig { level: Level::Events, trace_ns: 2_000_000_000, ..SessionConfig::default() };
    let test = "sends_to_a_reader_that_is_awake_are_in_the_trace";
    let Some(mut session) = session(&config, test) else { return };
    if session.unseen_messages().is_some() {
        return eprintln!("skipped: {test} needs kernel 6.3");
    }
    let (mut near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
    let (mut from, mut to) = std::io::pipe().unwrap();
    let [sent, received] = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
    let (seen_sent, seen_received) = (sent.clone(), received.clone());
    let reader = Actor::new("bpf-reader", move || {
        for number in 0..TIMES {
            while seen_sent.load(SeqCst) == number {
                std::hint::spin_loop();
            }
            far.read_exact(&mut [0]).unwrap();
            received.fetch_add(1, SeqCst);
        }
        // The last one finds it asleep.
        from.read_exact(&mut [0]).unwrap();
        far.read_exact(&mut [0]).unwrap();
    });
    let (read_by, write_to) = (reader.tid, reader.tid);
    let writer = Actor::new("bpf-writer", move || {
        for number in 0..TIMES {
            near.write_all(&[1]).unwrap();
            sent.fetch_add(1, SeqCst);
            while seen_received.load(SeqCst) == number {
                std::hint::spin_loop();
            }
        }
        to.write_all(&[1]).unwrap();
        await_sleep(read_by);
        near.write_all(&[1]).unwrap();
    });
    let written_by = writer.tid;
    let (counted, _) = count(&mut session, &[reader, writer]);
    let messages = counted.trace.unwrap().messages;
    let own = messages.iter().filter(|message| message.by == written_by && message.to == write_to);
    let own: Vec<_> = own.collect();
    // The last one may find the reader on its way to its sleep.
    assert!((TIMES as usize..TIMES as usize + 2).contains(&own.len()), "{messages:?}");
    assert!(own.iter().all(|message| message.sent_ns < message.received_ns), "{messages:?}");
}
