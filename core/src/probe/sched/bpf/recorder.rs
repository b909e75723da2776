//! The flight recorder: a ring of lines for each CPU that the programs write, and the trace that
//! is made of it, at the end or while programs go on writing. Only [`Recorder::read`] touches the kernel.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use libbpf_rs::{Map, MapCore, MapFlags};

use crate::model::{
    Clocks, IDLE, Kernel, Left, Message, OTHER, Running, TaskScore, Trace, TraceEvent, TraceTask,
    TraceWhat, TracedTask, Waker, WorstWait,
};

use super::layout::{self, Cpu, Line};
use crate::probe::sched::error::BpfError;
use crate::probe::sched::turns::Turns;

/// Lines for a second, on each CPU: a busy one switches some 10,000 times, each with a wakeup.
const LINES_PER_SECOND: u64 = 25_000;
const MIN_SLOTS: u64 = 1 << 16;
const MAX_SLOTS: u64 = 1 << 21;
/// The largest size of all rings together.
const MAX_BYTES: u64 = 1 << 30;
/// Lines that one call reads.
const BATCH: u32 = 4096;

/// Number of lines that each CPU keeps for a trace of this length, a power of two; 0: no trace.
pub fn slots(trace_ns: u64, cpus: u32) -> u32 {
    if trace_ns == 0 {
        return 0;
    }
    let wanted = (u128::from(trace_ns) * u128::from(LINES_PER_SECOND)).div_ceil(1_000_000_000);
    let mut slots = (wanted.min(u128::from(MAX_SLOTS)) as u64).next_power_of_two().max(MIN_SLOTS);
    while slots > 1 && slots * u64::from(cpus) * size_of::<Line>() as u64 > MAX_BYTES {
        slots /= 2;
    }
    slots as u32
}

/// The period that was asked for, on the clock that runs on in suspend.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub began_ns: u64,
    pub ended_ns: u64,
    pub trace_ns: u64,
}

impl Window {
    fn begin_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.trace_ns).max(self.began_ns)
    }
}

#[derive(Default)]
struct Ring {
    /// Within the window.
    lines: Vec<Line>,
    /// The last switch before the window.
    before: Option<Line>,
    /// The time of the oldest line that is left, where older ones were written over.
    oldest_ns: Option<u64>,
}

/// The contents of the rings.
pub struct Recorder {
    slots: u32,
    cpus: u32,
    window: Window,
    rings: BTreeMap<u32, Ring>,
}

impl Recorder {
    pub fn new(slots: u32, cpus: u32, window: Window) -> Recorder {
        Recorder { slots, cpus, window, rings: BTreeMap::new() }
    }

    /// Takes over the map's lines, except for those that programs write meanwhile: `after` returns how far they are
    /// by then.
    pub fn read(
        &mut self,
        map: &Map,
        cpus: &[Cpu],
        after: impl FnOnce() -> Result<Vec<Cpu>, BpfError>,
    ) -> Result<(), BpfError> {
        let heads = |cpus: &[Cpu]| cpus.iter().map(|cpu| cpu.trace_head).collect::<Vec<u64>>();
        let batch = map
            .lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY)
            .map_err(BpfError::map("traces"))?;
        let read = |(key, line): (Vec<u8>, Vec<u8>)| {
            (bytemuck::pod_read_unaligned(&key), bytemuck::pod_read_unaligned(&line))
        };
        let lines: Vec<(u32, Line)> = batch.map(read).collect();
        let (before, after) = (heads(cpus), heads(&after()?));
        for (at, line) in lines {
            if !self.is_written_over(at, &before, &after) {
                self.take(at, line, &before);
            }
        }
        Ok(())
    }

    /// Whether a line came after `before` and until `after`, or is on its way.
    fn is_written_over(&self, at: u32, before: &[u64], after: &[u64]) -> bool {
        let (cpu, slot) = ((at / self.slots) as usize, u64::from(at % self.slots));
        let (Some(before), Some(after)) = (before.get(cpu), after.get(cpu)) else { return false };
        // The first line from `before` on that this slot takes.
        let next = before
            + (slot + u64::from(self.slots) - before % u64::from(self.slots))
                % u64::from(self.slots);
        next < *after
    }

    /// Takes over one line, where something was written there.
    fn take(&mut self, at: u32, line: Line, heads: &[u64]) {
        let (cpu, slot) = (at / self.slots, u64::from(at % self.slots));
        let head = heads.get(cpu as usize).copied().unwrap_or(0);
        if slot >= head || line.kind == 0 {
            return;
        }
        let from_ns = self.window.begin_ns();
        let ring = self.rings.entry(cpu).or_default();
        if head > u64::from(self.slots) {
            ring.oldest_ns = Some(ring.oldest_ns.map_or(line.at_ns, |ns| ns.min(line.at_ns)));
        }
        if line.at_ns > self.window.ended_ns {
            // Written before the programs heard of the end.
        } else if line.at_ns >= from_ns {
            ring.lines.push(line);
        } else if line.kind == layout::TRACE_SWITCH
            && ring.before.is_none_or(|before| before.at_ns <= line.at_ns)
        {
            ring.before = Some(line);
        }
    }

    /// The trace, and a sentence where it does not go back as far as was asked for. It
    /// begins where all CPUs have their lines: where one lacks them, others would show tasks
    /// that nobody woke.
    pub fn finish(
        self,
        tasks: Vec<TracedTask>,
        names: &BTreeMap<u32, String>,
        clocks: Clocks,
        kernel: Kernel,
    ) -> (Trace, Option<String>) {
        let asked_ns = self.window.begin_ns();
        let full = self.rings.iter().filter_map(|(cpu, ring)| Some((ring.oldest_ns?, *cpu)));
        let (from_ns, full) = match full.max() {
            Some((oldest_ns, cpu)) if oldest_ns > asked_ns => (oldest_ns, Some(cpu)),
            _ => (asked_ns, None),
        };
        let to_ns = self.window.ended_ns.max(from_ns);
        let lost = full.map(|cpu| {
            let [goes, asked] = [from_ns, asked_ns].map(|ns| (to_ns - ns.min(to_ns)) as f64 / 1e9);
            format!(
                "the trace goes back {goes:.3} s in place of {asked:.3} s: CPU {cpu} had more \
                 events than the {} that each keeps",
                self.slots
            )
        });
        let recorder_bytes =
            u64::from(self.slots) * u64::from(self.cpus) * size_of::<Line>() as u64;
        let words = Words::new(names);
        let mut trace = Trace {
            from_ns,
            to_ns,
            clocks,
            kernel,
            names: words.names.clone(),
            recorder_bytes,
            ..Trace::default()
        };
        for (cpu, ring) in self.rings {
            add_ring(&mut trace, &words, cpu, ring);
        }
        trace.events.sort_by_key(|event| event.at_ns);
        trace.messages.sort_by_key(|message| message.received_ns);
        trace.tasks = named(&trace, tasks);
        (trace, lost)
    }
}

fn add_ring(trace: &mut Trace, words: &Words, cpu: u32, ring: Ring) {
    let mut before = ring.before;
    for line in ring.lines {
        if line.at_ns >= trace.from_ns {
            let event = words.what(&line).map(|what| TraceEvent { at_ns: line.at_ns, cpu, what });
            trace.events.extend(event);
            trace.messages.extend(message(&line));
        } else if line.kind == layout::TRACE_SWITCH
            && before.is_none_or(|before| before.at_ns <= line.at_ns)
        {
            before = Some(line);
        }
    }
    trace.running.extend(before.map(|line| Running {
        cpu,
        task: words.task(line.other, line.other_name),
        prio: line.prio,
    }));
}

fn message(line: &Line) -> Option<Message> {
    (line.kind == layout::TRACE_RECEIVED).then(|| Message {
        sent_ns: line.at_ns.saturating_sub(u64::from(line.info)),
        received_ns: line.at_ns,
        by: line.other,
        to: line.pid,
    })
}

/// Numbers of names, and where the names are in the trace.
struct Words {
    names: Vec<String>,
    at: HashMap<u32, u32>,
}

impl Words {
    fn new(names: &BTreeMap<u32, String>) -> Words {
        let at = names.keys().zip(0..).map(|(number, at)| (*number, at)).collect();
        Words { names: names.values().cloned().collect(), at }
    }

    fn task(&self, tid: i32, number: u32) -> TraceTask {
        let is_tasks = tid != 0 && number >= layout::FIRST_NAME;
        TraceTask { tid, name: is_tasks.then(|| self.at.get(&number).copied()).flatten() }
    }

    /// `None`: it is no event.
    fn what(&self, line: &Line) -> Option<TraceWhat> {
        let prio = line.prio;
        Some(match line.kind {
            layout::TRACE_SWITCH => TraceWhat::Switch {
                from: self.task(line.pid, line.name),
                left: left(line.info),
                to: self.task(line.other, line.other_name),
                prio,
            },
            layout::TRACE_WAKING => TraceWhat::Waking {
                by: match line.name {
                    layout::INTERRUPT_NAME => Waker::Interrupt,
                    _ => Waker::Task(line.pid),
                },
                task: self.task(line.other, line.other_name),
                prio,
                last_cpu: line.info & !layout::SYNC,
                is_sync: line.info & layout::SYNC != 0,
            },
            layout::TRACE_MIGRATE => TraceWhat::Migrate {
                task: self.task(line.pid, line.name),
                prio,
                from_cpu: line.other as u32,
                to_cpu: line.info,
            },
            _ => return None,
        })
    }
}

/// From the kernel's bits. Some are set together; the first that fits says most.
fn left(info: u32) -> Left {
    if info & layout::PREEMPTED != 0 {
        return Left::Preempted;
    }
    // Uninterruptible that counts for no load.
    let is_idle = info & 0x402 == 0x402;
    let states = [
        (0x80, Left::Dead),
        (0x40, Left::Parked),
        (0x08, Left::Traced),
        (0x04, Left::Stopped),
        (0x02, if is_idle { Left::Idle } else { Left::Uninterruptible }),
        (0x01, Left::Sleeping),
        // Waits for a sleeping spin lock, or frozen.
        (0x9000, Left::Uninterruptible),
    ];
    let state = states.into_iter().find(|(bits, _)| info & bits != 0);
    state.map_or(Left::Runnable, |(_, left)| left)
}

/// Fills in the tasks that had the CPU during a wait that ended at `to_ns`, as far back as the trace goes: the CPU
/// in whose run queue the waiting task was at each moment. A wait that began before the trace keeps the kernel's own
/// record where that covers more.
pub fn meanwhile(trace: &Trace, wait: &mut WorstWait, to_ns: u64) {
    let from_ns = to_ns.saturating_sub(wait.wait_ns);
    let mut turns = Turns::default();
    let mut since_ns = from_ns;
    for event in trace.events.iter().filter(|event| (from_ns..=to_ns).contains(&event.at_ns)) {
        if let TraceWhat::Migrate { task, from_cpu, .. } = event.what
            && task.tid == wait.tid
        {
            turns_on(trace, from_cpu, (since_ns, event.at_ns), wait.tid, &mut turns);
            since_ns = event.at_ns;
        }
    }
    turns_on(trace, wait.cpu, (since_ns, to_ns), wait.tid, &mut turns);
    let (known_ns, turns) = turns.finish();
    if known_ns + wait.tolerance_ns() >= wait.known_ns {
        (wait.known_ns, wait.meanwhile) = (known_ns, turns);
    }
}

/// Turns of a CPU in a piece of a wait of `tid`.
fn turns_on(trace: &Trace, cpu: u32, (from_ns, to_ns): (u64, u64), tid: i32, turns: &mut Turns) {
    let mut add = |task: TraceTask, since_ns: u64, until_ns: u64| {
        let tid = (task.tid != 0).then_some(task.tid);
        let unnamed = if tid.is_none() { IDLE } else { OTHER };
        let name = trace.name(task).unwrap_or(unnamed).to_string();
        turns.add(tid, name, until_ns.saturating_sub(since_ns.max(from_ns)));
    };
    let first = trace.running.iter().find(|running| running.cpu == cpu);
    let mut runs = first.map(|running| (running.task, trace.from_ns));
    for event in trace.events.iter().filter(|event| event.cpu == cpu && event.at_ns <= to_ns) {
        let TraceWhat::Switch { to, .. } = event.what else { continue };
        if let Some((task, since_ns)) = runs.replace((to, event.at_ns)) {
            add(task, since_ns, event.at_ns);
        }
    }
    // The task that waited comes at the end, up to the time between two readings of clocks.
    if let Some((task, since_ns)) = runs.filter(|(task, _)| task.tid != tid) {
        add(task, since_ns, to_ns);
    }
}

/// The tasks that the events name.
fn named(trace: &Trace, tasks: Vec<TracedTask>) -> Vec<TracedTask> {
    let mut tids: BTreeSet<i32> = trace.running.iter().map(|running| running.task.tid).collect();
    for event in &trace.events {
        match event.what {
            TraceWhat::Switch { from, to, .. } => tids.extend([from.tid, to.tid]),
            TraceWhat::Waking { by, task, .. } => {
                tids.insert(task.tid);
                tids.extend(if let Waker::Task(tid) = by { Some(tid) } else { None });
            }
            TraceWhat::Migrate { task, .. } => _ = tids.insert(task.tid),
        }
    }
    tasks.into_iter().filter(|task| tids.contains(&task.tid)).collect()
}

/// The part of a task's score that a trace keeps.
pub fn traced(task: &TaskScore) -> TracedTask {
    TracedTask {
        tid: task.tid,
        pid: task.pid,
        name: task.name.clone(),
        process: task.process.clone(),
        kernel_thread: task.kernel_thread,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Turn;

    const SLOTS: u32 = 4;

    fn window() -> Window {
        Window { began_ns: 100, ended_ns: 1000, trace_ns: 500 }
    }

    /// From `pid` to `other`, with their numbers as names.
    fn switch(at_ns: u64, pid: i32, other: i32) -> Line {
        let number = |pid: i32| if pid == 0 { layout::IDLE_NAME } else { pid as u32 };
        let (name, other_name) = (number(pid), number(other));
        Line { at_ns, pid, other, info: 1, kind: layout::TRACE_SWITCH, prio: 120, name, other_name }
    }

    fn finish(recorder: Recorder) -> (Trace, Option<String>) {
        let names = BTreeMap::from([(7, "seven".to_string()), (9, "nine".to_string())]);
        let task = |tid| TaskScore { tid, pid: 7, name: "last".into(), ..TaskScore::default() };
        let tasks = [task(7), task(8)].iter().map(traced).collect();
        recorder.finish(tasks, &names, Clocks::default(), Kernel::default())
    }

    /// The trace of two CPUs with these lines, and their numbers when they were read.
    fn trace_of(lines: [[Line; 4]; 2], heads: [u64; 2]) -> (Trace, Option<String>) {
        let mut recorder = Recorder::new(SLOTS, 2, window());
        for (at, line) in lines.iter().flatten().enumerate() {
            recorder.take(at as u32, *line, &heads);
        }
        finish(recorder)
    }

    fn times(trace: &Trace) -> Vec<(u64, u32)> {
        trace.events.iter().map(|event| (event.at_ns, event.cpu)).collect()
    }

    #[test]
    fn lines_of_all_cpus_are_in_order_and_what_ran_before_is_kept() {
        // CPU 0 has not written its last line yet, and the last one of CPU 1 came after the end.
        let heads = [3, 4];
        let lines = [
            [switch(200, 0, 7), switch(400, 7, 9), switch(900, 9, 7), switch(950, 7, 9)],
            [switch(300, 7, 0), switch(600, 0, 7), switch(501, 7, 0), switch(1001, 0, 7)],
        ];
        let (trace, lost) = trace_of(lines, heads);
        assert_eq!((trace.from_ns, trace.to_ns, lost), (500, 1000, None));
        assert_eq!(times(&trace), [(501, 1), (600, 1), (900, 0)]);
        let ran: Vec<(u32, i32)> = trace.running.iter().map(|r| (r.cpu, r.task.tid)).collect();
        assert_eq!(ran, [(0, 9), (1, 0)]);
        assert_eq!(trace.name(trace.running[0].task), Some("nine"));
        assert_eq!(trace.name(trace.running[1].task), None);
        assert_eq!(trace.tasks.iter().map(|task| task.tid).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn who_had_the_cpu_during_a_wait_is_known_as_far_back_as_the_trace() {
        let lines = [
            [switch(0, 0, 0); 4],
            [switch(450, 0, 9), switch(510, 9, 7), switch(700, 7, 9), switch(801, 9, 5)],
        ];
        let (trace, _) = trace_of(lines, [0, 4]);
        let wait = |wait_ns, known_ns| {
            let turn = Turn { tid: Some(9), name: "kept".to_string(), run_ns: known_ns };
            let mut wait = WorstWait {
                wait_ns,
                at_ns: 0,
                cpu: 1,
                tid: 5,
                name: String::new(),
                before: turn.clone(),
                meanwhile: Some(vec![turn]),
                known_ns,
            };
            meanwhile(&trace, &mut wait, 800);
            let turns = wait.meanwhile.unwrap_or_default();
            let turns = turns.into_iter().map(|turn| (turn.name, turn.run_ns));
            (wait.known_ns, turns.collect::<Vec<_>>())
        };
        let ran = |name: &str, ns| (name.to_string(), ns);
        assert_eq!(wait(200, 0), (200, vec![ran("seven", 100), ran("nine", 100)]));
        // The trace begins at 500.
        assert_eq!(wait(400, 303), (300, vec![ran("seven", 190), ran("nine", 110)]));
        assert_eq!(wait(400, 305), (305, vec![ran("kept", 305)]));
    }

    #[test]
    fn lines_that_are_written_while_they_are_read_are_left_out() {
        let recorder = Recorder::new(SLOTS, 1, window());
        let over = |before, after| {
            (0..SLOTS).filter(|at| recorder.is_written_over(*at, &[before], &[after])).collect()
        };
        let cases: [(u64, u64, &[u32]); 5] =
            [(0, 0, &[]), (2, 3, &[2]), (7, 9, &[0, 3]), (8, 8, &[]), (5, 99, &[0, 1, 2, 3])];
        for (before, after, expected) in cases {
            let over: Vec<u32> = over(before, after);
            assert_eq!(over, expected, "{before} to {after}");
        }
    }

    #[test]
    fn where_a_ring_is_full_the_trace_begins_later_on_all_cpus_and_says_so() {
        let heads = [7, 2];
        let lines = [
            [switch(840, 9, 7), switch(850, 7, 9), switch(860, 9, 7), switch(830, 7, 9)],
            [switch(510, 0, 7), switch(835, 7, 0), switch(0, 0, 0), switch(0, 0, 0)],
        ];
        let (trace, lost) = trace_of(lines, heads);
        assert_eq!(trace.from_ns, 830);
        assert_eq!(times(&trace), [(830, 0), (835, 1), (840, 0), (850, 0), (860, 0)]);
        assert_eq!(trace.running.len(), 1);
        assert_eq!((trace.running[0].cpu, trace.running[0].task.tid), (1, 7));
        let lost = lost.expect("it is reported");
        assert!(lost.contains("0.000 s in place of 0.000 s: CPU 0"), "{lost}");
    }

    #[test]
    fn a_full_ring_that_goes_back_far_enough_loses_nothing() {
        let mut recorder = Recorder::new(SLOTS, 1, window());
        let lines = [switch(840, 9, 7), switch(450, 7, 9), switch(490, 9, 7), switch(830, 7, 9)];
        for (at, line) in lines.iter().enumerate() {
            recorder.take(at as u32, *line, &[9]);
        }
        let (trace, lost) = finish(recorder);
        assert_eq!((times(&trace), lost), (vec![(830, 0), (840, 0)], None));
        assert_eq!(trace.running[0].task.tid, 7);
    }

    #[test]
    fn ways_to_be_left() {
        let cases = [
            (0, Left::Runnable),
            (1, Left::Sleeping),
            (2, Left::Uninterruptible),
            (0x102, Left::Uninterruptible),
            (0x402, Left::Idle),
            (0x2001, Left::Sleeping),
            (0x104, Left::Stopped),
            (0x108, Left::Traced),
            (0x40, Left::Parked),
            (0x80, Left::Dead),
            (0x1000, Left::Uninterruptible),
            (0x8000, Left::Uninterruptible),
            (1 << 31, Left::Preempted),
            (1 << 31 | 1, Left::Preempted),
        ];
        for (info, expected) in cases {
            assert_eq!(left(info), expected, "{info:#x}");
        }
    }

    #[test]
    fn rings_grow_with_the_time_within_bounds_of_each_and_of_all() {
        let s = 1_000_000_000;
        let cases = [
            ((0, 2), 0),
            ((1, 2), 1 << 16),
            ((2 * s, 2), 1 << 16),
            ((10 * s, 2), 1 << 18),
            ((u64::MAX, 2), 1 << 21),
            ((10 * s, 256), 1 << 17),
            ((10 * s, 1024), 1 << 15),
        ];
        for ((ns, cpus), expected) in cases {
            assert_eq!(slots(ns, cpus), expected, "{ns} ns on {cpus} CPUs");
        }
    }
}
