//! Traces for the Perfetto UI, read back by a generic reader of protocol buffers.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use schedlab::model::{
    Clocks, Kernel, Left, Running, Trace, TraceEvent, TraceTask, TraceWhat, TracedTask, Waker,
};
use schedlab::report::score;

use crate::home::Home;
use crate::support::skip;

/// A message: the values of each field, in their order.
#[derive(Debug, Default, Clone)]
struct Message {
    numbers: BTreeMap<u64, Vec<u64>>,
    bytes: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl Message {
    fn read(mut from: &[u8]) -> Message {
        let mut message = Message::default();
        while !from.is_empty() {
            let key = varint(&mut from);
            match key & 7 {
                0 => message.numbers.entry(key >> 3).or_default().push(varint(&mut from)),
                2 => {
                    let size = varint(&mut from) as usize;
                    let (bytes, rest) = from.split_at(size);
                    message.bytes.entry(key >> 3).or_default().push(bytes.to_vec());
                    from = rest;
                }
                kind => panic!("encoding {kind} of field {}", key >> 3),
            }
        }
        message
    }

    fn number(&self, field: u64) -> Option<u64> {
        self.numbers.get(&field)?.first().copied()
    }

    fn signed(&self, field: u64) -> Option<i64> {
        self.number(field).map(|number| number as i64)
    }

    /// Fails if it is not UTF-8.
    fn text(&self, field: u64) -> String {
        String::from_utf8(self.bytes[&field][0].clone()).expect("text is UTF-8")
    }

    fn messages(&self, field: u64) -> Vec<Message> {
        let all = self.bytes.get(&field).into_iter().flatten();
        all.map(|bytes| Message::read(bytes)).collect()
    }
}

fn varint(from: &mut &[u8]) -> u64 {
    let mut value = 0;
    for place in 0..10 {
        let (byte, rest) = from.split_first().expect("a number ends");
        *from = rest;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than ten bytes");
}

/// The packets that have this field, each with its content.
fn packets(file: &[u8], field: u64) -> Vec<(Message, Message)> {
    let packets = Message::read(file).messages(1);
    let having = packets.into_iter().filter_map(|packet| {
        let content = packet.messages(field).into_iter().next()?;
        Some((packet, content))
    });
    having.collect()
}

/// Events by CPU, in the order of the file: time, current task, the field that names the kind, its message.
type Events = BTreeMap<u64, Vec<(u64, u64, u64, Message)>>;

fn events(file: &[u8]) -> Events {
    let mut events = Events::new();
    for (_, bundle) in packets(file, 1) {
        let of_cpu = events.entry(bundle.number(1).expect("a CPU")).or_default();
        for event in bundle.messages(2) {
            let (field, what) = event.bytes.iter().next().expect("an event");
            of_cpu.push((
                event.number(1).expect("a time"),
                event.number(2).expect("a task"),
                *field,
                Message::read(&what[0]),
            ));
        }
    }
    events
}

const SWITCH: u64 = 4;
const WAKING: u64 = 20;
const MIGRATE: u64 = 491;

fn task(tid: i32, name: u32) -> TraceTask {
    TraceTask { tid, name: (tid != 0).then_some(name) }
}

fn at(at_ns: u64, cpu: u32, what: TraceWhat) -> TraceEvent {
    TraceEvent { at_ns, cpu, what }
}

fn switch(from: TraceTask, left: Left, to: TraceTask, prio: u16) -> TraceWhat {
    TraceWhat::Switch { from, left, to, prio }
}

fn by_hand() -> Trace {
    let traced = |tid, pid, name: &str, process: &str, kernel_thread| TracedTask {
        tid,
        pid,
        name: name.into(),
        process: process.into(),
        kernel_thread,
    };
    let (main, other) = (task(70, 0), task(71, 1));
    Trace {
        from_ns: 1000,
        to_ns: 9000,
        clocks: Clocks { boot_ns: 9500, monotonic_ns: 5500, unix_ns: 1_700_000_000_000_000_000 },
        kernel: Kernel { release: "6.12.1-x".into(), version: "#1 SMP".into() },
        names: vec!["main".into(), "other".into()],
        tasks: vec![
            traced(70, 70, "main", "main", false),
            traced(71, 70, "renamed", "main", false),
            traced(15, 15, "kworker/0:1", "kworker/0:1", true),
        ],
        running: vec![Running { cpu: 1, task: main, prio: 120 }],
        messages: Vec::new(),
        events: vec![
            at(
                2000,
                0,
                TraceWhat::Waking {
                    by: Waker::Interrupt,
                    task: other,
                    prio: 49,
                    last_cpu: 1,
                    is_sync: false,
                },
            ),
            at(2100, 0, switch(task(0, 0), Left::Runnable, other, 49)),
            at(2200, 1, switch(main, Left::Preempted, task(15, 9), 100)),
            at(
                2300,
                0,
                TraceWhat::Waking {
                    by: Waker::Task(71),
                    task: main,
                    prio: 120,
                    last_cpu: 1,
                    is_sync: false,
                },
            ),
            at(2400, 0, TraceWhat::Migrate { task: main, prio: 120, from_cpu: 1, to_cpu: 0 }),
            at(2500, 0, switch(other, Left::Sleeping, main, 120)),
            at(2600, 1, switch(task(15, 9), Left::Idle, task(0, 0), 120)),
        ],
        recorder_bytes: 0,
        domains: Vec::new(),
    }
}

fn encoded(trace: &Trace) -> Vec<u8> {
    let mut file = Vec::new();
    score::perfetto(trace, &mut file).expect("memory takes it");
    file
}

/// Names of tasks that are switched to.
pub fn switched_to(file: &[u8]) -> BTreeSet<String> {
    let all = events(file).into_values().flatten();
    all.filter(|event| event.2 == SWITCH).map(|event| event.3.text(5)).collect()
}

#[test]
fn a_trace_by_hand_has_all_its_events_by_cpu_in_order() {
    let events = events(&encoded(&by_hand()));
    let order =
        |cpu| events[&cpu].iter().map(|event| (event.0, event.1, event.2)).collect::<Vec<_>>();
    assert_eq!(
        order(0),
        [
            (2000, 0, WAKING),
            (2100, 0, SWITCH),
            (2300, 71, WAKING),
            (2400, 70, MIGRATE),
            (2500, 71, SWITCH)
        ]
    );
    // The task that ran at the beginning comes first, from the idle task.
    assert_eq!(order(1), [(1000, 0, SWITCH), (2200, 70, SWITCH), (2600, 15, SWITCH)]);
    let said = |cpu: u64, at: usize| {
        let what = &events[&cpu][at].3;
        let numbers = [2, 3, 4, 6, 7].map(|field| what.signed(field));
        (what.text(1), what.text(5), numbers)
    };
    let all = |numbers: [i64; 5]| numbers.map(Some);
    assert_eq!(said(1, 0), ("swapper/1".into(), "main".into(), all([0, 120, 0, 70, 120])));
    let to_kernel = said(1, 1);
    assert_eq!(to_kernel, ("main".into(), "kworker/0:1".into(), all([70, 120, 0x100, 15, 100])));
    assert_eq!(said(1, 2).2, all([15, 100, 0x80, 0, 120]));
    assert_eq!(said(0, 4), ("other".into(), "main".into(), all([71, 49, 1, 70, 120])));
    let (waking, migrate) = (&events[&0][2].3, &events[&0][3].3);
    assert_eq!(
        (waking.text(1), waking.signed(2), waking.signed(5)),
        ("main".into(), Some(70), Some(1))
    );
    assert_eq!(
        (migrate.signed(2), migrate.signed(4), migrate.signed(5)),
        (Some(70), Some(1), Some(0))
    );
}

#[test]
fn processes_clocks_and_the_kernel_are_in_the_file() {
    let file = encoded(&by_hand());
    let (packet, tree) = packets(&file, 2).remove(0);
    assert_eq!(packet.number(8), Some(1000));
    let processes: Vec<_> =
        tree.messages(1).iter().map(|p| (p.number(1), p.number(2), p.text(3))).collect();
    assert_eq!(
        processes,
        [(Some(15), Some(2), "kworker/0:1".into()), (Some(70), Some(0), "main".to_string())]
    );
    let threads: Vec<_> =
        tree.messages(2).iter().map(|t| (t.number(1), t.text(2), t.number(3))).collect();
    assert_eq!(threads[1], (Some(71), "renamed".into(), Some(70)));
    let (_, snapshot) = packets(&file, 6).remove(0);
    let clocks: Vec<_> = snapshot.messages(1).iter().map(|c| (c.number(1), c.number(2))).collect();
    let expected = [(6, 9500), (3, 5500), (1, 1_700_000_000_000_000_000)];
    assert_eq!(clocks, expected.map(|(id, ns)| (Some(id), Some(ns))));
    assert_eq!(snapshot.number(2), Some(6));
    let (_, info) = packets(&file, 45).remove(0);
    let names = info.messages(1).remove(0);
    assert_eq!((names.text(1), names.text(3)), ("Linux".into(), "6.12.1-x".into()));
}

#[test]
fn many_events_are_in_many_packets_and_none_is_lost() {
    let mut trace = by_hand();
    let one = trace.events[0];
    trace.events =
        (0..2500).map(|n| TraceEvent { at_ns: 2000 + n, cpu: n as u32 % 2, ..one }).collect();
    trace.running.clear();
    let file = encoded(&trace);
    assert_eq!(packets(&file, 1).len(), 4);
    for (cpu, events) in events(&file) {
        let times: Vec<u64> = events.iter().map(|event| event.0).collect();
        let expected: Vec<u64> = (2000..4500).filter(|time| time % 2 == cpu).collect();
        assert_eq!(times, expected);
    }
}

#[test]
fn a_name_is_no_more_than_a_name() {
    let mut trace = by_hand();
    let hostile = "\u{1b}[2J\"\n\u{fffd}\u{202e}\0\u{7f}";
    trace.names[0] = hostile.into();
    trace.tasks[0].name = hostile.into();
    trace.tasks[0].process = hostile.into();
    trace.tasks[1].process = hostile.into();
    let file = encoded(&trace);
    let (_, tree) = packets(&file, 2).remove(0);
    assert_eq!(tree.messages(1)[1].text(3), hostile);
    assert_eq!(events(&file)[&0].len(), 5);
    assert_eq!(events(&file)[&0][4].3.text(5), hostile);
}

/// Two shells that pass a line back and forth, on one CPU and at one real-time priority: only a waiting shell
/// is woken, and none preempts the other.
const PING_PONG: &str = "
    mkfifo a b; exec 3<>a 4<>b
    (i=0; while [ $i -lt 200 ]; do read x <&3; echo x >&4; i=$((i+1)); done) &
    i=0; while [ $i -lt 200 ]; do echo x >&3; read x <&4; i=$((i+1)); done
    wait";

/// `None`: the programs cannot be loaded here.
fn traced(home: &Home, options: &[&str], command: &[&str]) -> Option<(Vec<u8>, String)> {
    let words = ["score", "--trace", "out.pftrace"];
    let said = home.says(0, &[&words, options, &["--"], command].concat());
    said.contains("source bpf").then(|| (std::fs::read(home.at("out.pftrace")).unwrap(), said))
}

/// `chrt` fails if real-time priorities are not allowed.
fn can_be_real_time() -> bool {
    Command::new("chrt").args(["-f", "50", "true"]).status().is_ok_and(|status| status.success())
}

#[test]
fn a_ping_pong_has_both_tasks_in_turn_and_a_waking_before_each_switch() {
    let home = Home::new();
    let command = ["chrt", "-f", "50", "taskset", "-c", "0", "sh", "-c", PING_PONG];
    let found = can_be_real_time().then(|| traced(&home, &[], &command)).flatten();
    let Some((file, said)) = found else {
        return skip("privilege to load BPF programs and to set real-time priorities");
    };
    assert!(said.contains("trace     "), "{said}");
    let events = &events(&file)[&0];
    // The two that are left sleeping most often.
    let mut slept: BTreeMap<i64, usize> = BTreeMap::new();
    for (_, _, _, switch) in events.iter().filter(|event| event.2 == SWITCH) {
        if switch.signed(4) == Some(1) {
            *slept.entry(switch.signed(2).unwrap()).or_default() += 1;
        }
    }
    let mut pair: Vec<(usize, i64)> = slept.iter().map(|(tid, count)| (*count, *tid)).collect();
    pair.sort_unstable();
    let (least, players) =
        (pair[pair.len() - 2].0, [pair[pair.len() - 1].1, pair[pair.len() - 2].1]);
    assert!(least >= 190, "{slept:?}");
    let mut turns = Vec::new();
    let mut asleep = BTreeSet::new();
    let mut wakings: BTreeMap<i64, usize> = BTreeMap::new();
    for (_, _, field, what) in events {
        let task = what.signed(2).unwrap();
        if *field == WAKING {
            *wakings.entry(task).or_default() += 1;
        } else if *field == SWITCH {
            if players.contains(&task) && what.signed(4) == Some(1) {
                turns.push(task);
                asleep.insert(task);
                wakings.remove(&task);
            }
            let to = what.signed(6).unwrap();
            if asleep.remove(&to) {
                assert_eq!(wakings.get(&to), Some(&1), "{to} came back");
            }
        }
    }
    // At the beginning and at the end, the shells also wait for other things.
    let turns = &turns[10..turns.len() - 10];
    assert!(turns.len() > 350, "{}", turns.len());
    assert!(turns.windows(2).all(|two| two[0] != two[1]), "{turns:?}");
    let woken_by = |task: i64, by: i64| {
        let is_so = |event: &&(u64, u64, u64, Message)| {
            (event.2, event.1 as i64, event.3.signed(2)) == (WAKING, by, Some(task))
        };
        events.iter().filter(is_so).count()
    };
    let [one, other] = players;
    assert!(woken_by(one, other) >= 190 && woken_by(other, one) >= 190);
    // One shell was made by the other, which counts like being woken by it.
    let first = |tid| {
        let of = |event: &&(u64, u64, u64, Message)| {
            event.3.signed(2) == Some(tid) || event.2 == SWITCH && event.3.signed(6) == Some(tid)
        };
        let event = events.iter().find(of).expect("an event");
        (event.2, event.1 as i64)
    };
    assert_ne!(first(one) == (WAKING, other), first(other) == (WAKING, one));
}

#[test]
fn a_trace_of_a_moment_holds_no_more_than_that_and_begins_with_what_ran() {
    let command = ["sh", "-c", "sleep 0.3"];
    let options = ["--light", "--trace-for", "50ms"];
    let is_whole = |said: &str| said.contains("events of 0.050 s");
    // A ping-pong of another test on one CPU fills a ring within 45 ms.
    let found = (0..60)
        .map(|_| traced(&Home::new(), &options, &command))
        .find(|found| found.as_ref().is_none_or(|(_, said)| is_whole(said)));
    let Some((file, _)) = found.expect("a whole trace") else {
        return skip("privilege to load BPF programs");
    };
    let (tree, _) = packets(&file, 2).remove(0);
    let from_ns = tree.number(8).expect("when the trace begins");
    let events = events(&file);
    let times = events.values().flatten().map(|event| event.0);
    assert!(times.clone().all(|ns| (from_ns..=from_ns + 50_000_000).contains(&ns)));
    // At the least, the CPU that `sh` ran on was switched before the trace began.
    assert!(times.clone().any(|ns| ns == from_ns));
    let wakings = events.values().flatten().filter(|event| event.2 == WAKING);
    assert!(wakings.count() > 0, "light telemetry with a trace has wakings too");
}
