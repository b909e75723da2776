//! The probe `sched`: what the scheduler does to tasks and CPUs.
//!
//! A [`Source`] is a way to find out, [`SOURCES`] lists them, the best first. Opening one may fail
//! for want of privileges or of something in the kernel; the reason is told, and the next is
//! tried. A [`Session`] counts between [`Session::begin`] and [`Session::end`].

#[cfg(feature = "bpf")]
mod bpf;
mod buckets;
pub mod cost;
mod domains;
mod family;
mod perf;
mod procfs;
#[cfg(test)]
mod testing;

use crate::model::{CpuScore, PairScore, TaskScore, Trace};

pub use domains::Domains;
pub use family::watch_families;

/// One way to see what the scheduler does.
pub struct Source {
    pub name: &'static str,
    pub about: &'static str,
    open: fn(&Ask) -> Result<Box<dyn Session>, String>,
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

/// What is wanted of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    pub level: Level,
    /// How far back a trace is to go; 0: no trace.
    pub trace_ns: u64,
    /// Tasks that are told apart at one time.
    pub max_tasks: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Switch counts, run times and waits.
    Light,
    /// Also slices, wakeups, migrations, who wakes and who preempts whom.
    Full,
}

impl Default for Ask {
    fn default() -> Self {
        Ask { level: Level::Full, trace_ns: 0, max_tasks: 1 << 14 }
    }
}

/// Counting.
pub trait Session {
    /// A process that runs already and all its tasks are among the watched ones, and what they
    /// make from now on.
    fn watch(&mut self, pid: i32) -> Result<(), String>;

    /// Children that this process makes from now on are watched, with all their descendants.
    fn watch_children(&mut self) -> Result<(), String>;

    /// Counts from now on.
    fn begin(&mut self) -> Result<(), String>;

    /// To be called some ten times a second: takes over what would otherwise be lost.
    fn look(&mut self) -> Result<(), String>;

    /// Counts no longer. What was counted since `begin`.
    fn end(&mut self) -> Result<Counted, String>;
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
    /// What was lost, a sentence each.
    pub lost: Vec<String>,
}

/// A session, and why better ones could not be had.
pub struct Opened {
    pub source: &'static str,
    pub session: Box<dyn Session>,
    pub missed: Vec<(&'static str, String)>,
}

/// Opens the best source that can be had, or the one that is named. Fails with the reasons of
/// all that were tried.
pub fn open(ask: &Ask, only: Option<&str>) -> Result<Opened, Vec<(&'static str, String)>> {
    let mut missed = Vec::new();
    for source in SOURCES.iter().filter(|source| only.is_none_or(|only| only == source.name)) {
        match (source.open)(ask) {
            Ok(session) => return Ok(Opened { source: source.name, session, missed }),
            Err(why) => missed.push((source.name, why)),
        }
    }
    Err(missed)
}
