//! Small traces of each tool, and broken ones.

use super::*;
use crate::compat::Whose;
use crate::model::{Left, Running, Trace, TraceEvent, TraceTask, TraceWhat, TracedTask, Waker};
use crate::report::score;

/// Thread 12 of process 11 is woken by its timer, works for 500 us, and wakes 20.
const PERF: &str = "\
            perf  900 [001]  10.000000: sched:sched_stat_runtime: comm=perf pid=900 runtime=1 [ns]
         swapper    0 [000]  10.000100: sched:sched_waking: comm=my app pid=12 prio=120 target_cpu=000
         swapper    0 [000]  10.000110: sched:sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=my app next_pid=12 next_prio=120
          my app   12 [000]  10.000610: sched:sched_waking: comm=b ==> c pid=20 prio=98 target_cpu=001
          my app   12 [000]  10.000620: sched:sched_switch: prev_comm=my app prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=b ==> c next_pid=20 next_prio=98
";
/// The same, as libtraceevent prints the fields, with flags.
const TRACE_CMD: &str = "\
cpus=2
          <idle>-0     [000] d.h2.    10.000100: sched_waking:         my app:12 [120] CPU:000
          <idle>-0     [000] d..2.    10.000110: sched_switch:         swapper/0:0 [120] R ==> my app:12 [120]
          my app-12    [000] d..3.    10.000610: sched_waking:         comm=b pid=20 prio=98 target_cpu=001
          my app-12    [000] d..2.    10.000620: sched_switch:         my app:12 [120] S ==> b:20 [98]
";
/// The same of the kernel's own file, with processes and nanoseconds, and an interrupt that hits thread 12.
const FTRACE: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 4/4   #P:2
#           TASK-PID     TGID    CPU#  |||||  TIMESTAMP  FUNCTION
          <idle>-0       (-------) [000] d.h2.  10.000100000: sched_waking: comm=my app pid=12 prio=120 target_cpu=000
          <idle>-0       (-------) [000] d..2.  10.000110000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=my app next_pid=12 next_prio=120
          my app-12      (     11) [000] d.h3.  10.000610000: sched_waking: comm=b pid=20 prio=98 target_cpu=001
          my app-12      (     11) [000] d..2.  10.000620000: sched_switch: prev_comm=my app prev_pid=12 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=20 next_prio=98
";

/// The fields of a thread that works from the begin, in place of those of the idle task.
const HOG: &str = "prev_comm=hog prev_pid=7 prev_prio=98";

fn task(tid: i32) -> TraceTask {
    TraceTask { tid, name: None }
}

fn events(by: Waker, left: Left) -> Vec<TraceEvent> {
    let waking = |by, tid, prio, last_cpu| TraceWhat::Waking {
        by,
        task: task(tid),
        prio,
        last_cpu,
        is_sync: false,
    };
    let switch =
        |from, left, to, prio| TraceWhat::Switch { from: task(from), left, to: task(to), prio };
    let all = [
        (100, waking(Waker::Interrupt, 12, 120, 0)),
        (110, switch(0, Left::Runnable, 12, 120)),
        (610, waking(by, 20, 98, 1)),
        (620, switch(12, left, 20, 98)),
    ];
    all.map(|(us, what)| TraceEvent { at_ns: 10_000_000_000 + us * 1_000, cpu: 0, what }).to_vec()
}

fn text(text: &str) -> ForeignTrace {
    read(text.as_bytes()).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

#[test]
fn texts_of_all_tools_are_the_same_events() {
    let perf = text(PERF);
    assert_eq!(perf.trace.events, events(Waker::Task(12), Left::Sleeping));
    assert!(!perf.knows_interrupts && !perf.is_cut_off);
    let names: Vec<&str> = perf.trace.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["my app", "b ==> c"]);
    let trace_cmd = text(TRACE_CMD);
    assert_eq!(trace_cmd.trace.events, events(Waker::Task(12), Left::Sleeping));
    assert!(trace_cmd.knows_interrupts);
    let ftrace = text(FTRACE);
    assert_eq!(ftrace.trace.events, events(Waker::Interrupt, Left::Preempted));
    assert_eq!((ftrace.trace.from_ns, ftrace.trace.to_ns), (10_000_100_000, 10_000_620_000));
    let [own, other] = &ftrace.trace.tasks[..] else { panic!("{:?}", ftrace.trace.tasks) };
    assert_eq!((own.tid, own.pid, own.process.as_str()), (12, 11, "my app"));
    assert_eq!((other.tid, other.pid, other.process.as_str()), (20, 20, "b"));
    assert_eq!(text(&PERF.replace("my app   12", "my app 11/12")).trace.tasks[0].pid, 11);
    assert!(text(&FTRACE.replace("my app", "kworker/0:1")).trace.tasks[0].kernel_thread);
    let older = FTRACE.replace(" target_cpu", " success=1 target_cpu").replace('\n', "\r\n");
    assert_eq!(text(&older).trace.events, ftrace.trace.events);
    let born = PERF.replacen("sched_waking", "sched_wakeup_new", 1).replacen("=98", "=-1", 1);
    let deadline = text(&born);
    assert_eq!(deadline.trace.events.len(), 4, "SCHED_DEADLINE has priority -1");
    assert!(deadline.has_deadline && !perf.has_deadline);
    let first = text(&PERF.replace("prio=98", "prio=0"));
    assert!(!first.has_deadline, "SCHED_FIFO 99 has priority 0");
}

#[test]
fn whoever_the_first_switch_of_a_cpu_leaves_ran_from_the_begin() {
    assert_eq!(text(PERF).trace.running, [], "the idle task");
    let hog = PERF.replace("prev_comm=swapper/0 prev_pid=0 prev_prio=120", HOG);
    let expected = Running { cpu: 0, task: task(7), prio: 98 };
    assert_eq!(text(&hog).trace.running, [expected]);
    assert_eq!(text(&hog).trace.tasks[0].name, "hog");
    let mut trace = own();
    let expected = Running { cpu: 1, task: task(20), prio: 98 };
    trace.running = vec![expected];
    assert_eq!(read(&perfetto(&trace)).unwrap().trace.running, [], "it has a switch of its own");
    trace.running = Vec::new();
    assert_eq!(read(&perfetto(&trace)).unwrap().trace.running, [expected]);
}

#[test]
fn a_trace_whose_switches_do_not_fit_together_is_refused() {
    let switch = |us: u64, from: u32, to: u32| {
        format!(
            "  a {from} [000]  11.{us:06}: sched:sched_switch: prev_comm=a prev_pid={from} prev_prio=120 prev_state=S ==> \
             next_comm=a next_pid={to} next_prio=120\n"
        )
    };
    let trace = |fitting: u64| {
        let pairs = (0..fitting).map(|at| switch(at, 20 + (at % 2) as u32, 21 - (at % 2) as u32));
        // Another CPU has a row of its own.
        let other = switch(900_000, 40, 0).replace("[000]", "[001]");
        PERF.to_string() + &pairs.collect::<String>() + &other + &switch(900_001, 30, 0)
    };
    let error = read(trace(10).as_bytes()).unwrap_err();
    let expected = "1 of 14 switches do not fit the one before on their CPU; at 11.900001000 CPU 0 leaves thread 30, \
                    and had gone to thread 20";
    assert!(error.message.ends_with(expected), "{error}");
    assert!(error.hint.contains("all CPUs"), "{error}");
    let few = text(&trace(16));
    assert_eq!((few.gaps, few.trace.events.len()), (0.05, 22));
    assert!(read(trace(14).as_bytes()).is_err(), "one of 18");
    assert_eq!(text(PERF).gaps, 0.0);
}

#[test]
fn names_are_no_longer_than_those_of_the_kernel() {
    let long = format!("a{}", "ü".repeat(30));
    let cut = format!("a{}", "ü".repeat(7));
    assert_eq!(text(&PERF.replace("my app", &long)).trace.tasks[0].name, cut);
}

#[test]
fn a_line_that_is_too_long_is_no_event() {
    let (event, _) = PERF.split_once("sched_stat").unwrap();
    let brackets = format!("{event}{}\n", "[".repeat(100_000));
    let long = PERF.replacen("         swapper", &" ".repeat(5_000), 1);
    assert_eq!(
        text(&(brackets + &long)).trace.events,
        events(Waker::Task(12), Left::Sleeping)[1..]
    );
}

#[test]
fn an_event_without_a_time_that_is_understood_is_refused() {
    let times =
        ["10,000620", "-332205", "nan.000620", "99999999999999999999.000620", "10000620000"];
    for time in times {
        for (trace, line, event) in [
            (PERF, 5, "sched_switch"),
            (&PERF.replace("000610", "000620"), 4, "wakeup"),
            (TRACE_CMD, 5, "sched_switch"),
            (FTRACE, 8, "sched_switch"),
        ] {
            let old = if trace == FTRACE { "10.000620000" } else { "10.000620" };
            let text = trace.replace(old, time);
            let wrong = read(text.as_bytes()).expect_err(&text).text(Whose::User);
            let expected = format!("line {line}: a {event} whose task, CPU or time is not");
            assert!(wrong.contains(&expected) && wrong.contains("mono"), "{time}: {wrong}");
        }
    }
    let more =
        "# event sched_switch: on\nsched_switch 1\n a 1 [000] 11,0: sched:sched_stat_wait: x\n";
    assert_eq!(text(&(PERF.to_string() + more)).trace.events, text(PERF).trace.events);
}

#[test]
fn names_with_brackets_and_words_of_fields_are_names() {
    let evil = TRACE_CMD.replace("my app", "a [1] b:7 [3]");
    assert_eq!(text(&evil).trace.events, text(TRACE_CMD).trace.events);
    let evil = PERF.replace("my app", "x pid=5 prio=6");
    let read = text(&evil);
    assert_eq!(read.trace.events, text(PERF).trace.events);
    assert_eq!(read.trace.tasks[0].name, "x pid=5 prio=6");
}

#[test]
fn a_first_line_without_its_beginning_is_left_out() {
    let all = events(Waker::Task(12), Left::Sleeping);
    let (_, from) = PERF.split_once("sched_wak").unwrap();
    let cut = format!("10.000: sched:sched_wak{from}");
    assert_eq!(text(&cut).trace.events.len(), all.len() - 1, "{cut}");
    // Where no line is better, the first one is the fault.
    let none = cut.replace('[', "(");
    let wrong = read(none.as_bytes()).expect_err(&none).text(Whose::User);
    assert!(wrong.contains("line 1: a wakeup whose task, CPU or time is not"), "{wrong}");
}

#[test]
fn a_last_line_without_its_end_is_left_out() {
    let cut = text(&PERF[..PERF.len() - 2]);
    assert!(cut.is_cut_off);
    assert_eq!(cut.trace.events, events(Waker::Task(12), Left::Sleeping)[..3]);
}

#[test]
fn what_is_not_a_whole_trace_is_refused() {
    let lines: Vec<&str> = PERF.lines().collect();
    let only = |word: &str| -> String {
        lines.iter().filter(|line| line.contains(word)).map(|line| format!("{line}\n")).collect()
    };
    let turned: String = lines.iter().rev().map(|line| format!("{line}\n")).collect();
    let born =
        only("sched_switch") + &only("sched_waking").replace("sched_waking", "sched_wakeup_new");
    let mut born: Vec<&str> = born.lines().collect();
    // By their times, which stand behind the CPU.
    born.sort_by_key(|line| line.split_once(']').map(|(_, time)| time));
    let cases: [(String, &str); 16] = [
        (String::new(), "no sched_switch in it"),
        ("hello\n\u{1b}[2J\n".into(), "no sched_switch in it"),
        ("a\0b".into(), "neither text nor a trace of Perfetto"),
        (only("sched_switch"), "no wakeups (sched_waking)"),
        (
            only("sched_switch") + " a 1 [000]",
            "sched_waking), so it does not show who wakes whom; it ends within",
        ),
        (only("sched_waking"), "no switches (sched_switch)"),
        (born.join("\n") + "\n", "no wakeups (sched_waking)"),
        (PERF.replace("10.000620", "90000.000620"), "longer than 24 h"),
        (turned, "line 2: its time is before that of the line above"),
        (PERF.to_string() + "CPU:1 [LOST 3 EVENTS]\n", "line 6: events were lost"),
        (PERF.to_string() + "CPU:1 [3 EVENTS DROPPED]\n", "line 6: events were lost"),
        (PERF.to_string() + "CPU:1 [EVENTS DROPPED]\n", "line 6: events were lost"),
        (
            PERF.to_string() + " a 1 [000] 11.0: PERF_RECORD_LOST lost 3\n",
            "line 6: events were lost",
        ),
        (FTRACE.replace("4/4", "4/9"), "line 3: the buffer did not hold all events"),
        (PERF.replace("next_prio=98", "next_prio=x\u{1b}"), "line 5: a sched_switch that is not"),
        (PERF.replace("target_cpu=001", "target_cpu="), "line 4: a wakeup that is not"),
    ];
    for (text, expected) in cases {
        let wrong = read(text.as_bytes()).expect_err(&text).text(Whose::User);
        assert!(wrong.contains(expected) && !wrong.contains('\u{1b}'), "{wrong:?}");
    }
}

/// The trace as this program writes it for Perfetto.
fn perfetto(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    score::perfetto(trace, &mut bytes).unwrap();
    bytes
}

fn own() -> Trace {
    let tasks = [(12, 11, "my app"), (11, 11, "main"), (20, 20, "b"), (30, 30, "kworker")];
    let tasks = tasks.map(|(tid, pid, name)| TracedTask {
        tid,
        pid,
        name: name.to_string(),
        process: if pid == 11 { "main".to_string() } else { name.to_string() },
        kernel_thread: tid == 30,
    });
    let mut all = events(Waker::Task(12), Left::Sleeping);
    let lefts = [
        Left::Preempted,
        Left::Runnable,
        Left::Sleeping,
        Left::Uninterruptible,
        Left::Idle,
        Left::Parked,
        Left::Stopped,
        Left::Traced,
        Left::Dead,
    ];
    all.extend(lefts.into_iter().zip(1..).map(|(left, ms)| TraceEvent {
        at_ns: 10_000_000_000 + ms * 1_000_000,
        cpu: 1,
        what: TraceWhat::Switch { from: task(20), left, to: task(20), prio: 98 },
    }));
    all.push(TraceEvent {
        at_ns: 10_020_000_000,
        cpu: 1,
        what: TraceWhat::Switch { from: task(20), left: Left::Sleeping, to: task(30), prio: 120 },
    });
    Trace { tasks: tasks.to_vec(), events: all, ..Trace::default() }
}

#[test]
fn a_trace_for_perfetto_is_read_back() {
    let trace = own();
    let bytes = perfetto(&trace);
    let read_back = read(&bytes).unwrap();
    assert_eq!(read_back.trace.events, trace.events);
    let [app, b, worker] = &read_back.trace.tasks[..] else {
        panic!("{:?}", read_back.trace.tasks)
    };
    assert_eq!((app.pid, app.name.as_str(), b.pid, b.kernel_thread), (11, "my app", 20, false));
    assert!(worker.kernel_thread, "by its parent, not by its name");
    let cut = read(&bytes[..bytes.len() - 3]).unwrap();
    assert!(cut.is_cut_off && cut.trace.events.len() < trace.events.len() && !read_back.is_cut_off);
    for length in 1..bytes.len() {
        _ = read(&bytes[..length]);
    }
}

#[test]
fn a_trace_for_perfetto_shows_interrupts_where_they_hit_somebody() {
    let mut trace = own();
    assert!(!read(&perfetto(&trace)).unwrap().knows_interrupts, "the idle task of an idle CPU");
    let TraceWhat::Waking { by, .. } = &mut trace.events[2].what else { panic!() };
    *by = Waker::Interrupt;
    let read_back = read(&perfetto(&trace)).unwrap();
    assert!(read_back.knows_interrupts);
    assert_eq!(read_back.trace.events, trace.events);
    // First wakeups alone.
    let mut bytes = perfetto(&trace);
    while let Some(at) = bytes.windows(2).position(|key| key == [0xa2, 0x01]) {
        bytes[at..at + 2].copy_from_slice(&[0x92, 0x07]);
    }
    let wrong = read(&bytes).unwrap_err().text(Whose::User);
    assert!(wrong.contains("no wakeups (sched_waking)"), "{wrong}");
}

/// A field with this number, below 16.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut begin = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        begin.push(length as u8 | 0x80);
        length >>= 7;
    }
    begin.push(length as u8);
    [&begin, bytes].concat()
}

/// A packet of CPU 0 with something in its bundle.
fn bundle(number: u8, bytes: &[u8]) -> Vec<u8> {
    field(1, &field(1, &[&[8, 0][..], &field(number, bytes)].concat()))
}

/// A packet of CPU 0 with compact arrays: 12 is woken by an interrupt, comes, wakes 20 and sleeps.
fn compact(flags: &[u8]) -> Vec<u8> {
    let arrays: [(u8, &[u8]); 12] = [
        (5, b"my app"),
        (5, b"b"),
        (1, &[110, 120]),
        (2, &[0, 1]),
        (3, &[12, 20]),
        (4, &[120, 98]),
        (6, &[0, 1]),
        (7, &[100, 110]),
        (8, &[12, 20]),
        (9, &[0, 1]),
        (10, &[120, 98]),
        (11, &[0, 1]),
    ];
    let mut sched: Vec<u8> =
        arrays.iter().flat_map(|(number, bytes)| field(*number, bytes)).collect();
    sched.extend(field(12, flags));
    bundle(4, &sched)
}

#[test]
fn compact_arrays_of_perfetto_are_the_same_events() {
    let read_back = read(&compact(&[0x09, 0x01])).unwrap();
    let mut expected = events(Waker::Task(12), Left::Sleeping);
    for (event, at_ns) in expected.iter_mut().zip([100, 110, 210, 230]) {
        event.at_ns = at_ns;
    }
    let TraceWhat::Switch { from, .. } = &mut expected[1].what else { panic!() };
    // The first switch of a CPU does not say whom it leaves.
    *from = TraceTask { tid: i32::MIN, name: None };
    assert_eq!(read_back.trace.events, expected);
    assert!(read_back.knows_interrupts);
    let softirq = read(&compact(&[0x09, 0x11])).unwrap().trace.events[2].what;
    assert!(matches!(softirq, TraceWhat::Waking { by: Waker::Interrupt, .. }), "{softirq:?}");
}

#[test]
fn files_that_are_no_whole_trace_of_perfetto_are_refused() {
    let lost = field(1, &field(1, &[8, 0, 24, 1]));
    let compressed = field(1, &[&[0x92, 3][..], &[1, 0]].concat());
    let switch = field(4, &[&field(1, b"a")[..], &[16, 1, 48, 2]].concat());
    let names = [field(5, b"").repeat(70_000), vec![8, 9, 16, 0, 24, 12, 32, 120]].concat();
    // 65,537 of them, as a varint.
    let named = |last: &[u8]| bundle(4, &[&names[..], &[48], last].concat());
    let cases: [(Vec<u8>, &str); 9] = [
        (bundle(2, &switch), "a packet of the file is broken"),
        (bundle(4, &field(1, &vec![0; 4_000_001])), "more than 4 million"),
        (named(&[0x81, 0x80, 0x04]), "a packet of the file is broken"),
        (named(&[0x81, 0x7f]), "no wakeups (sched_waking)"),
        (vec![0; 9], "neither text nor a trace of Perfetto"),
        (lost, "events were lost"),
        (compressed, "packets are compressed"),
        (field(1, &[80, 0]), "no sched_switch in it"),
        (field(1, &[10, 200, 0]), "a packet of the file is broken"),
    ];
    for (bytes, expected) in cases {
        let wrong = read(&bytes).unwrap_err().text(Whose::User);
        assert!(wrong.contains(expected), "{bytes:?}: {wrong}");
    }
    let wrong = read(&[0x1f, 0x8b, 8, 0]).unwrap_err().text(Whose::User);
    assert!(wrong.contains("packed with gzip\nhint: unpack it"), "{wrong}");
}

#[test]
fn a_name_with_an_arrow_in_it_is_a_name() {
    for (text, to) in [(PERF, "next_comm=my app"), (FTRACE, "==> my app:12")] {
        let other = to.replace("my app", "a ==> b");
        let text = text.replace(to, &other).replace("my app", "a ==> b");
        let read = read(text.as_bytes()).unwrap();
        let task = read.trace.tasks.iter().find(|task| task.tid == 12).unwrap();
        assert_eq!(task.name, "a ==> b", "{text}");
    }
}
