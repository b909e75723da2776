//! A session counts what the scheduler does, with any source: its parameters and its counts.

use crate::model::{CpuScore, PairScore, TaskScore, Trace, WorstWait};

use super::error::SourceError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A trace alone, with the sends that wake nobody where the kernel shows them: of tasks no more is known than the
    /// kernel's own sums.
    Events,
    /// Switch counts, run times and waits.
    Light,
    /// Also slices, wakeups, migrations, who wakes whom and who ran while whom waited.
    Full,
}

/// The parameters of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    pub level: Level,
    /// How far back a trace is to go; 0: no trace.
    pub trace_ns: u64,
    /// The kernel measures in the first second how long the programs run, as with readings. That takes time, too.
    pub timed: bool,
    /// The largest number of tasks that are distinguished at one time.
    pub max_tasks: u32,
    /// There will be readings: ended tasks are kept until the next one.
    pub readings: bool,
    /// Ended tasks are kept until the end. Without it a session may go on without bounds.
    pub totals: bool,
}

impl Default for SessionConfig {
    fn default() -> Self {
        SessionConfig {
            level: Level::Full,
            trace_ns: 0,
            timed: false,
            max_tasks: 1 << 14,
            readings: false,
            totals: true,
        }
    }
}

/// Counting.
pub trait Session {
    /// Watches a process that runs already: all its tasks, and those that they start from now on.
    fn watch(&mut self, pid: i32) -> Result<(), SourceError>;

    /// Watches the children that this process starts from now on, with all their descendants.
    fn watch_children(&mut self) -> Result<(), SourceError>;

    /// Counts from now on.
    fn begin(&mut self) -> Result<(), SourceError>;

    /// Takes over data that would otherwise be lost; to be called some ten times a second.
    fn poll(&mut self) -> Result<(), SourceError>;

    /// The counts since the last reading, or since `begin`; counting goes on. Only for sessions with
    /// [`SessionConfig::readings`]. The cost grows with the number of tasks that did something.
    fn reading(&mut self) -> Result<Counted, SourceError>;

    /// The last seconds, event by event, as far back as [`SessionConfig::trace_ns`]; counting goes on.
    /// Tasks that ran since the last reading may lack their process. `None`: the source has none.
    fn trace(&mut self) -> Result<Option<Trace>, SourceError> {
        Ok(None)
    }

    /// The time that the source adds to a switch in the kernel, including all its work at other moments; measured
    /// in the first second of readings. `None`: not known.
    fn switch_ns(&self) -> Option<f64> {
        None
    }

    /// Stops counting, and returns the counts since `begin`.
    fn end(&mut self) -> Result<Counted, SourceError>;
}

/// The counts of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counted {
    pub wall_ns: u64,
    /// Only tasks that something happened to.
    pub tasks: Vec<TaskScore>,
    pub cpus: Vec<CpuScore>,
    /// `None`: the source does not see who does it.
    pub pairs: Option<Vec<PairScore>>,
    /// The longest wait of watched tasks since `begin`, where the source sees it.
    pub worst: Option<WorstWait>,
    /// The trace, if one was asked for and the source has one.
    pub trace: Option<Trace>,
    /// Tasks that there was no room for, from the begin or at their end.
    pub lost_tasks: u64,
    /// Events that were not counted, a sentence each.
    pub lost: Vec<String>,
}
