//! The events and the tasks of a trace while it is read. Pure.

use std::collections::BTreeMap;

use crate::compat::CompatError;
use crate::model::{Trace, TraceEvent, TraceTask, TraceWhat, TracedTask};

pub const MAX_EVENTS: usize = 4_000_000;
pub const RECORD: &str = "sudo perf sched record -- sleep 10 && sudo perf sched script > trace.txt";
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
}

#[derive(Default)]
pub struct Seen {
    pub events: Vec<TraceEvent>,
    tasks: BTreeMap<i32, TracedTask>,
}

impl Seen {
    /// Notes the task with its last name.
    pub fn task(&mut self, tid: i32, name: &str) -> TraceTask {
        if tid > 0 {
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
        let Seen { events, tasks } = self;
        let is_wakeup = |event: &&TraceEvent| matches!(event.what, TraceWhat::Waking { .. });
        let wakeups = events.iter().filter(is_wakeup).count();
        let missing = match (events.first(), events.last()) {
            (Some(_), _) if wakeups == 0 => {
                "the trace has no wakeups (sched_waking), so it does not show who wakes whom"
            }
            (Some(_), _) if wakeups == events.len() => {
                "the trace has no switches (sched_switch), so it does not show who works"
            }
            (Some(first), Some(last)) => {
                let (from_ns, to_ns) = (first.at_ns, last.at_ns);
                let tasks = with_processes(tasks);
                let trace = Trace { from_ns, to_ns, tasks, events, ..Trace::default() };
                return Ok(ForeignTrace { trace, knows_interrupts, is_cut_off });
            }
            _ => "the file has no sched_switch in it",
        };
        Err(CompatError::usage(missing, RECORD))
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
