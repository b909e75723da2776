//! The events and the tasks of a trace while it is read. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::compat::CompatError;
use crate::model::{Running, Trace, TraceEvent, TraceTask, TraceWhat, TracedTask};
use crate::workload;

pub const MAX_EVENTS: usize = 4_000_000;
pub const RECORD: &str =
    "sudo perf sched record -- sleep 10 && sudo perf sched script --show-lost-events > trace.txt";
/// The priority of SCHED_DEADLINE, which is -1, as a recording has it.
pub const DEADLINE_PRIO: u16 = u16::MAX;
/// A trace is of no use if a larger part of the switches do not fit together. Some machines hide a few.
const MAX_GAPS: f64 = 0.05;
const RECORD_AGAIN: &str = "record all threads of all CPUs, without a filter; if that was so, with another recorder: sudo trace-cmd \
     record -b 16384 -e sched_switch -e sched_waking -e sched_wakeup_new sleep 10 && trace-cmd report > trace.txt";
/// Nice 0.
const USUAL_PRIO: u16 = 120;
/// The kernel has no longer names of threads.
const MAX_NAME_BYTES: usize = 16;
/// Beginnings of the names of kernel threads, whose kind a trace does not show.
const KERNEL_THREADS: &[&str] = &[
    "kworker/",
    "ksoftirqd/",
    "migration/",
    "rcu_",
    "rcuop/",
    "rcuog/",
    "rcuos/",
    "rcub/",
    "cpuhp/",
    "idle_inject/",
    "irq/",
    "irq_work/",
    "kswapd",
    "kcompactd",
    "khugepaged",
    "kthreadd",
    "kdevtmpfs",
    "jbd2/",
    "ktimers/",
    "watchdog/",
    "kauditd",
    "ksmd",
    "oom_reaper",
    "writeback",
    "scsi_eh_",
    "xfsaild/",
];

/// All that a file shows.
#[derive(Debug, Default, PartialEq)]
pub struct ForeignTrace {
    /// With its tasks, in the order of their numbers.
    pub trace: Trace,
    /// Whether it says which wakeups came from interrupts.
    pub knows_interrupts: bool,
    /// Whether its last line or packet has no end, and is left out.
    pub is_cut_off: bool,
    /// Whether a task was of SCHED_DEADLINE.
    pub has_deadline: bool,
    /// The part of the switches that leave another task than the one that their CPU went to before.
    pub gaps: f64,
}

#[derive(Default)]
pub struct Seen {
    pub events: Vec<TraceEvent>,
    /// Whether a wakeup is one by sched_waking: the first wakeups of new tasks alone show little.
    pub has_waking: bool,
    tasks: BTreeMap<i32, TracedTask>,
    /// The first priority of each task.
    prios: BTreeMap<i32, u16>,
}

/// The kernel's priority.
pub fn priority(prio: i32) -> u16 {
    u16::try_from(prio).unwrap_or(DEADLINE_PRIO)
}

impl Seen {
    /// Notes the task with its last name, and its priority where that is known.
    pub fn task(&mut self, tid: i32, name: &str, prio: Option<u16>) -> TraceTask {
        if tid > 0 {
            let name = beginning(name);
            prio.into_iter().for_each(|prio| _ = self.prios.entry(tid).or_insert(prio));
            let new = || TracedTask { tid, pid: tid, ..TracedTask::default() };
            let task = self.tasks.entry(tid).or_insert_with(new);
            if task.name != name && !name.is_empty() {
                task.name = name.to_string();
            }
        }
        TraceTask { tid, name: None }
    }

    /// Notes the process of a task that has been named.
    pub fn process(&mut self, tid: i32, pid: i32) {
        self.tasks.entry(tid).and_modify(|task| task.pid = pid);
    }

    pub fn kernel_thread(&mut self, tid: i32) {
        self.tasks.entry(tid).and_modify(|task| task.kernel_thread = true);
    }

    /// The trace, if it shows who works and who wakes whom.
    pub fn finish(
        self,
        knows_interrupts: bool,
        is_cut_off: bool,
    ) -> Result<ForeignTrace, CompatError> {
        let Seen { events, has_waking, tasks, prios } = self;
        let is_wakeup = |event: &&TraceEvent| matches!(event.what, TraceWhat::Waking { .. });
        let wakeups = events.iter().filter(is_wakeup).count();
        let gaps = Gaps::count(&events);
        if let Some(refusal) = gaps.refusal() {
            return Err(CompatError::usage(refusal, RECORD_AGAIN));
        }
        let missing = match (events.first(), events.last()) {
            (Some(_), _) if !has_waking => {
                "the trace has no wakeups (sched_waking), so it does not show who wakes whom"
            }
            (Some(_), _) if wakeups == events.len() => {
                "the trace has no switches (sched_switch), so it does not show who works"
            }
            (Some(first), Some(last)) if last.at_ns - first.at_ns > workload::MAX_STEP_TIME_NS => {
                "the trace is longer than 24 h, or a time in it is wrong"
            }
            (Some(first), Some(last)) => {
                let (from_ns, to_ns) = (first.at_ns, last.at_ns);
                let (running, tasks) = (running(&events, &prios), with_processes(tasks));
                let has_deadline = events.iter().any(is_of_deadline);
                let trace = Trace { from_ns, to_ns, tasks, running, events, ..Trace::default() };
                let gaps = gaps.part();
                return Ok(ForeignTrace {
                    trace,
                    knows_interrupts,
                    is_cut_off,
                    has_deadline,
                    gaps,
                });
            }
            _ => "the file has no sched_switch in it",
        };
        let end =
            if is_cut_off { "; it ends within a line or a packet, which is left out" } else { "" };
        Err(CompatError::usage(format!("{missing}{end}"), RECORD))
    }
}

/// Switches between which events are missing.
#[derive(Default)]
struct Gaps {
    switches: usize,
    gaps: usize,
    first: Option<Gap>,
}

struct Gap {
    at_ns: u64,
    cpu: u32,
    /// The thread that the CPU leaves.
    from: i32,
    /// The thread that it went to before.
    before: i32,
}

impl Gaps {
    fn count(events: &[TraceEvent]) -> Gaps {
        let mut gaps = Gaps::default();
        let mut running: BTreeMap<u32, i32> = BTreeMap::new();
        for &TraceEvent { at_ns, cpu, what } in events {
            let TraceWhat::Switch { from, to, .. } = what else { continue };
            gaps.switches += 1;
            let before = running.insert(cpu, to.tid);
            if let Some(before) = before.filter(|before| *before != from.tid) {
                gaps.gaps += 1;
                gaps.first.get_or_insert(Gap { at_ns, cpu, from: from.tid, before });
            }
        }
        gaps
    }

    fn part(&self) -> f64 {
        self.gaps as f64 / self.switches.max(1) as f64
    }

    /// Why the trace is refused, where it has too many.
    fn refusal(&self) -> Option<String> {
        let Gap { at_ns, cpu, from, before } = self.first.as_ref()?;
        let Gaps { switches, gaps, .. } = self;
        let (seconds, ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        (self.part() > MAX_GAPS).then(|| {
            format!(
                "events are missing: {gaps} of {switches} switches do not fit the one before on their CPU; at \
                 {seconds}.{ns:09} CPU {cpu} leaves thread {from}, and had gone to thread {before}"
            )
        })
    }
}

fn beginning(name: &str) -> &str {
    let mut end = name.len().min(MAX_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// The tasks that the first switch of each CPU leaves: they were there from the begin.
fn running(events: &[TraceEvent], prios: &BTreeMap<i32, u16>) -> Vec<Running> {
    let mut seen = BTreeSet::new();
    let first = |event: &TraceEvent| match event.what {
        TraceWhat::Switch { from, .. } if seen.insert(event.cpu) && from.tid > 0 => {
            let prio = prios.get(&from.tid).copied().unwrap_or(USUAL_PRIO);
            Some(Running { cpu: event.cpu, task: from, prio })
        }
        _ => None,
    };
    events.iter().filter_map(first).collect()
}

fn is_of_deadline(event: &TraceEvent) -> bool {
    match event.what {
        TraceWhat::Switch { prio, .. } | TraceWhat::Waking { prio, .. } => prio == DEADLINE_PRIO,
        TraceWhat::Migrate { .. } => false,
    }
}

fn with_processes(tasks: BTreeMap<i32, TracedTask>) -> Vec<TracedTask> {
    let names: BTreeMap<i32, String> =
        tasks.iter().map(|(tid, task)| (*tid, task.name.clone())).collect();
    let with_process = |mut task: TracedTask| {
        task.process = names.get(&task.pid).unwrap_or(&task.name).clone();
        let is_kernel = |begin: &&str| task.name.starts_with(*begin);
        task.kernel_thread |= KERNEL_THREADS.iter().any(is_kernel);
        task
    };
    tasks.into_values().map(with_process).collect()
}
