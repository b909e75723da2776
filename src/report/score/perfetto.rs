//! A trace as the file that the Perfetto UI opens. Pure.
//!
//! The file is one protocol buffer, `perfetto.protos.Trace`: packets, of which each is written
//! when it is complete. Only what is used of the messages is here, as numbers of their fields in
//! Perfetto's public definition (protos/perfetto/trace); those never change their meaning. The
//! encoding takes fewer lines than the messages would as types of a protocol buffer library.
//!
//! Events are those of ftrace, on the clock that Perfetto assumes for them, so that run slices, thread
//! states and wakeup arrows are made by the UI as of a kernel's own trace. How the UI reads the
//! state in which a task was left depends on the kernel's release, which is in the file too.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use crate::model::protobuf::Message;
use crate::model::{Left, Trace, TraceEvent, TraceTask, TraceWhat, Waker};

/// Events of a CPU in one packet.
const BUNDLE: usize = 1000;

/// `perfetto.protos.BuiltinClock`.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
const BOOTTIME: u64 = 6;

/// Parent of all kernel threads; the UI groups them by it.
const KTHREADD: i32 = 2;
/// Idle tasks have none that matters; this is what the kernel shows for them.
const IDLE_PRIO: u16 = 120;

pub fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    packet(6, &clock_snapshot(trace), None, out)?;
    packet(45, &system_info(trace), None, out)?;
    packet(2, &process_tree(trace), Some(trace.from_ns), out)?;
    let mut events = Events::new(trace);
    let mut bundles: BTreeMap<u32, (usize, Message)> = BTreeMap::new();
    let first = trace.running.iter().map(|running| TraceEvent {
        at_ns: trace.from_ns,
        cpu: running.cpu,
        what: TraceWhat::Switch {
            from: TraceTask { tid: 0, name: None },
            left: Left::Runnable,
            to: running.task,
            prio: running.prio,
        },
    });
    for event in first.chain(trace.events.iter().copied()) {
        let (count, bundle) = bundles.entry(event.cpu).or_insert_with(|| {
            let mut bundle = Message::default();
            bundle.number(1, u64::from(event.cpu));
            (0, bundle)
        });
        bundle.message(2, &events.encode(&event));
        *count += 1;
        if *count == BUNDLE {
            packet(1, bundle, None, out)?;
            bundles.remove(&event.cpu);
        }
    }
    for (_, bundle) in bundles.values() {
        packet(1, bundle, None, out)?;
    }
    Ok(())
}

/// `TracePacket` with one field of data, as an element of `Trace.packet`.
fn packet(field: u64, data: &Message, at_ns: Option<u64>, out: &mut dyn Write) -> io::Result<()> {
    let mut packet = Message::default();
    packet.message(field, data);
    if let Some(at_ns) = at_ns {
        packet.number(8, at_ns);
    }
    // trusted_packet_sequence_id: all are of one writer.
    packet.number(10, 1);
    let mut whole = Message::default();
    whole.message(1, &packet);
    out.write_all(&whole.0)
}

/// `ClockSnapshot`, and that all times are of BOOTTIME.
fn clock_snapshot(trace: &Trace) -> Message {
    let mut snapshot = Message::default();
    let clocks = trace.clocks;
    for (id, ns) in
        [(BOOTTIME, clocks.boot_ns), (MONOTONIC, clocks.monotonic_ns), (REALTIME, clocks.unix_ns)]
    {
        let mut clock = Message::default();
        clock.number(1, id).number(2, ns);
        snapshot.message(1, &clock);
    }
    snapshot.number(2, BOOTTIME);
    snapshot
}

/// `SystemInfo` with its `Utsname`.
fn system_info(trace: &Trace) -> Message {
    let mut names = Message::default();
    names.text(1, "Linux").text(2, &trace.kernel.version).text(3, &trace.kernel.release);
    names.text(4, std::env::consts::ARCH);
    let mut info = Message::default();
    info.message(1, &names);
    info
}

/// `ProcessTree`: each process once, and each task with its process.
fn process_tree(trace: &Trace) -> Message {
    let mut tree = Message::default();
    let processes: BTreeMap<i32, _> = trace.tasks.iter().map(|task| (task.pid, task)).collect();
    for (pid, task) in processes {
        let mut process = Message::default();
        let parent = if task.kernel_thread && pid != KTHREADD { KTHREADD } else { 0 };
        process.signed(1, i64::from(pid)).signed(2, i64::from(parent)).text(3, &task.process);
        process.number(8, u64::from(task.kernel_thread)).number(9, 1);
        tree.message(1, &process);
    }
    for task in &trace.tasks {
        let mut thread = Message::default();
        thread.signed(1, i64::from(task.tid)).text(2, &task.name).signed(3, i64::from(task.pid));
        tree.message(2, &thread);
    }
    tree
}

/// Makes `FtraceEvent`s, in the order of time.
struct Events<'a> {
    trace: &'a Trace,
    by_tid: HashMap<i32, &'a str>,
    /// Priorities of the tasks that have been switched to, by tid.
    prios: HashMap<i32, u16>,
}

impl<'a> Events<'a> {
    fn new(trace: &'a Trace) -> Events<'a> {
        let by_tid = trace.tasks.iter().map(|task| (task.tid, task.name.as_str())).collect();
        Events { trace, by_tid, prios: HashMap::new() }
    }

    /// The task's name at that time, or else its last one.
    fn name(&self, task: TraceTask, cpu: u32) -> String {
        let known = self.trace.name(task).or_else(|| self.by_tid.get(&task.tid).copied());
        match (task.tid, known) {
            (0, _) => format!("swapper/{cpu}"),
            (_, name) => name.unwrap_or_default().to_string(),
        }
    }

    fn encode(&mut self, event: &TraceEvent) -> Message {
        let (field, current, what) = match event.what {
            TraceWhat::Switch { from, left, to, prio } => {
                (4, from.tid, self.switch(event.cpu, from, left, to, prio))
            }
            TraceWhat::Waking { by, task, prio, last_cpu, .. } => {
                // The idle task stands for an interrupt: the UI draws no arrow from it.
                let current = if let Waker::Task(tid) = by { tid } else { 0 };
                let mut waking = self.task_fields(task, prio, event.cpu);
                waking.signed(4, 1).signed(5, i64::from(last_cpu));
                (20, current, waking)
            }
            TraceWhat::Migrate { task, prio, from_cpu, to_cpu } => {
                let mut migrate = self.task_fields(task, prio, event.cpu);
                migrate.signed(4, i64::from(from_cpu)).signed(5, i64::from(to_cpu));
                (491, task.tid, migrate)
            }
        };
        let mut message = Message::default();
        // The task is unsigned here.
        message.number(1, event.at_ns).number(2, u64::from(current as u32)).message(field, &what);
        message
    }

    /// `SchedSwitchFtraceEvent`.
    fn switch(
        &mut self,
        cpu: u32,
        from: TraceTask,
        left: Left,
        to: TraceTask,
        prio: u16,
    ) -> Message {
        let mut switch = Message::default();
        switch.text(1, &self.name(from, cpu)).signed(2, i64::from(from.tid));
        match self.prios.get(&from.tid) {
            _ if from.tid == 0 => _ = switch.signed(3, i64::from(IDLE_PRIO)),
            Some(prio) => _ = switch.signed(3, i64::from(*prio)),
            None => {}
        }
        switch.signed(4, state(left)).text(5, &self.name(to, cpu));
        switch.signed(6, i64::from(to.tid)).signed(7, i64::from(prio));
        self.prios.insert(to.tid, prio);
        switch
    }

    /// The fields that `SchedWakingFtraceEvent` and `SchedMigrateTaskFtraceEvent` share.
    fn task_fields(&self, task: TraceTask, prio: u16, cpu: u32) -> Message {
        let mut message = Message::default();
        message.text(1, &self.name(task, cpu)).signed(2, i64::from(task.tid));
        message.signed(3, i64::from(prio));
        message
    }
}

/// The previous state, as `sched_switch` of ftrace encodes it since kernel 4.14.
fn state(left: Left) -> i64 {
    match left {
        Left::Runnable => 0,
        Left::Sleeping => 0x01,
        Left::Uninterruptible => 0x02,
        Left::Stopped => 0x04,
        Left::Traced => 0x08,
        Left::Dead => 0x10,
        Left::Parked => 0x40,
        Left::Idle => 0x80,
        Left::Preempted => 0x100,
    }
}
