//! The probe `sched`: what the scheduler does to tasks and CPUs.
//!
//! [`SOURCES`] lists the ways to find out, the best first. Where one cannot be opened, for lack of a
//! privilege or of something in the kernel, its error is kept and the next is tried. A [`Session`]
//! counts between [`Session::begin`] and [`Session::end`].

#[cfg(feature = "bpf")]
mod bpf;
mod buckets;
pub mod cost;
mod domains;
mod error;
mod family;
mod perf;
mod procfs;
mod roles;
#[cfg(test)]
mod testing;

use std::collections::BTreeMap;

use crate::model::{CpuScore, PairScore, Reading, TaskScore, Trace};
use crate::sys::Host;
use crate::sys::load::{self, Process};

pub use domains::Domains;
pub use error::{CostError, DomainsError, SourceError};
pub use family::watch_families;
pub use roles::{SCHED, SCHED_LIGHT};

/// One way to see what the scheduler does.
pub struct Source {
    pub name: &'static str,
    pub about: &'static str,
    open: fn(&SessionConfig) -> Result<Box<dyn Session>, SourceError>,
}

/// What there is, best first.
pub const SOURCES: &[Source] = &[
    #[cfg(feature = "bpf")]
    Source {
        name: "bpf",
        about: "programs in the kernel that count at every switch, wakeup and migration",
        open: bpf::open,
    },
    Source {
        name: "perf",
        about: "a record of every switch, wakeup and migration, counted by schedlab",
        open: perf::open,
    },
    Source { name: "procfs", about: "pictures of /proc, one every 100 ms", open: procfs::open },
];

/// What a session is to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    pub level: Level,
    /// How far back a trace is to go; 0: no trace.
    pub trace_ns: u64,
    /// How many tasks are distinguished at one time.
    pub max_tasks: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Switch counts, run times and waits.
    Light,
    /// Also slices, wakeups, migrations, who wakes and who preempts whom.
    Full,
}

impl Default for SessionConfig {
    fn default() -> Self {
        SessionConfig { level: Level::Full, trace_ns: 0, max_tasks: 1 << 14 }
    }
}

/// Counting.
pub trait Session {
    /// Watches a process that runs already: all its tasks, and what they start from now on.
    fn watch(&mut self, pid: i32) -> Result<(), SourceError>;

    /// Watches the children that this process starts from now on, with all their descendants.
    fn watch_children(&mut self) -> Result<(), SourceError>;

    /// Counts from now on.
    fn begin(&mut self) -> Result<(), SourceError>;

    /// Takes over what would otherwise be lost; to be called some ten times a second.
    fn poll(&mut self) -> Result<(), SourceError>;

    /// Stops counting, and returns what was counted since `begin`.
    fn end(&mut self) -> Result<Counted, SourceError>;
}

/// What a session has counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counted {
    pub wall_ns: u64,
    /// Only tasks that something happened to.
    pub tasks: Vec<TaskScore>,
    pub cpus: Vec<CpuScore>,
    /// `None`: the source does not see who does it.
    pub pairs: Option<Vec<PairScore>>,
    /// Where one was asked for and the source has one.
    pub trace: Option<Trace>,
    /// What was not counted, a sentence each.
    pub lost: Vec<String>,
}

/// A session, and why better ones could not be opened.
pub struct Opened {
    pub source: &'static str,
    pub session: Box<dyn Session>,
    pub missed: Missed,
}

/// Sources that could not be opened.
pub type Missed = Vec<(&'static str, SourceError)>;

/// Opens the best source that can be opened, or the one that is named. Fails with the errors of
/// all that were tried.
pub fn open(config: &SessionConfig, only: Option<&str>) -> Result<Opened, Missed> {
    let mut missed = Vec::new();
    for source in SOURCES.iter().filter(|source| only.is_none_or(|only| only == source.name)) {
        match (source.open)(config) {
            Ok(session) => return Ok(Opened { source: source.name, session, missed }),
            Err(error) => missed.push((source.name, error)),
        }
    }
    Err(missed)
}

/// One line about sources that could not be opened.
pub fn reasons(missed: &Missed) -> String {
    let reason = |(source, error): &(&str, SourceError)| format!("{source}: {}", error.describe());
    missed.iter().map(reason).collect::<Vec<_>>().join("; ")
}

fn processes(host: &Host) -> Result<BTreeMap<i32, Process>, SourceError> {
    match load::processes(host) {
        Reading::Known(processes) => Ok(processes),
        Reading::Unknown(why) => Err(SourceError::Processes(why)),
    }
}
