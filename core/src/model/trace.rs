//! A trace: the scheduler's actions in the last seconds, event by event. No I/O.
//!
//! Times are nanoseconds of CLOCK_BOOTTIME, as in the kernel's own traces.

use serde::{Deserialize, Serialize};

use super::DomainScore;

/// A recording of a period, complete for all CPUs from its beginning to its end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Trace {
    pub from_ns: u64,
    pub to_ns: u64,
    pub clocks: Clocks,
    pub kernel: Kernel,
    /// The names into which [`TraceTask::name`] is an index.
    pub names: Vec<String>,
    /// The tasks that the events name, as far as they are known.
    pub tasks: Vec<TracedTask>,
    /// The task that each CPU ran at the beginning, where that is known.
    pub running: Vec<Running>,
    /// Events in the order of their times.
    pub events: Vec<TraceEvent>,
    /// Sends that woke nobody, in the order in which they were received; recorded only for those who ask for them.
    #[serde(default)]
    pub messages: Vec<Message>,
    /// The kernel memory that the recorder used.
    pub recorder_bytes: u64,
    /// Load balancing while the work ran, of which the trace may have only the end; none where the kernel did not count it.
    #[serde(default)]
    pub domains: Vec<DomainScore>,
}

/// The clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Clocks {
    pub boot_ns: u64,
    pub monotonic_ns: u64,
    pub unix_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kernel {
    pub release: String,
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TracedTask {
    pub tid: i32,
    pub pid: i32,
    pub name: String,
    /// The process's name: that of its first thread.
    pub process: String,
    pub kernel_thread: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub cpu: u32,
    pub task: TraceTask,
    pub prio: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEvent {
    pub at_ns: u64,
    /// The CPU where it happened.
    pub cpu: u32,
    pub what: TraceWhat,
}

/// Priorities are the kernel's: below 100 real-time, 120 is nice 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceWhat {
    Switch {
        from: TraceTask,
        left: Left,
        to: TraceTask,
        prio: u16,
    },
    /// A task is woken, or its parent has just made it. `last_cpu`: its CPU until now.
    Waking {
        by: Waker,
        task: TraceTask,
        prio: u16,
        last_cpu: u32,
        /// Whether it was woken by a write or a send, as through a pipe or a socket, whose wakers the kernel takes to be about to
        /// sleep; `false` also where that is not known.
        #[serde(default)]
        is_sync: bool,
    },
    Migrate {
        task: TraceTask,
        prio: u16,
        from_cpu: u32,
        to_cpu: u32,
    },
}

/// A send to a socket whose reader was awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub sent_ns: u64,
    pub received_ns: u64,
    /// The tasks that sent it and received it.
    pub by: i32,
    pub to: i32,
}

/// A task in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceTask {
    /// 0: the CPU's idle task.
    pub tid: i32,
    /// Its name at that time, in [`Trace::names`]; `None`: not known.
    pub name: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waker {
    /// The interrupted task has no part in it.
    Interrupt,
    Task(i32),
}

/// How a task was left that no longer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Left {
    /// It could go on: the CPU was taken from it in the kernel.
    Preempted,
    /// It could go on: it yielded, or the CPU was taken from it in user space.
    Runnable,
    Sleeping,
    Uninterruptible,
    /// Uninterruptible, but no load: how kernel threads wait for work.
    Idle,
    Parked,
    Stopped,
    Traced,
    Dead,
}

impl Trace {
    pub fn name(&self, task: TraceTask) -> Option<&str> {
        self.names.get(task.name? as usize).map(String::as_str)
    }
}
