//! The probe `sched`: how the scheduler treats tasks and CPUs.
//!
//! [`SOURCES`] lists the ways to find out, the best first. If one cannot be opened, for lack of a privilege or of
//! something in the kernel, its error is kept and the next is tried. A [`Session`] counts between
//! [`Session::begin`] and [`Session::end`].

#[cfg(feature = "bpf")]
mod bpf;
#[cfg(feature = "bpf")]
mod buckets;
pub mod cost;
mod domains;
mod error;
mod family;
mod procfs;
mod roles;
mod scoreboard;
mod session;
mod since;
#[cfg(test)]
pub mod testing;
#[cfg(feature = "bpf")]
mod turns;

pub use domains::Domains;
pub use error::{CostError, DomainsError, SourceError};
pub use family::watch_families;
pub use roles::{SCHED, SCHED_LIGHT, SCHED_TRACE};
pub use scoreboard::Scoreboard;
pub use session::{Counted, Level, Session, SessionConfig};

use crate::model::MissedSource;

/// One way to see how the scheduler treats tasks.
pub struct Source {
    pub name: &'static str,
    open: fn(&SessionConfig) -> Result<Box<dyn Session>, SourceError>,
}

/// All sources, best first.
pub const SOURCES: &[Source] = &[
    #[cfg(feature = "bpf")]
    Source { name: "bpf", open: bpf::open },
    Source { name: "procfs", open: procfs::open },
];

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

/// Sources that could not be opened, each with its reason on one line.
fn described(missed: &Missed) -> Vec<MissedSource> {
    let described = |(source, error): &(&str, SourceError)| MissedSource {
        source: source.to_string(),
        why: error.to_string(),
    };
    missed.iter().map(described).collect()
}

/// One line of reasons for all of them.
pub fn reasons(missed: &Missed) -> String {
    let reasons = described(missed).into_iter().map(|one| format!("{}: {}", one.source, one.why));
    reasons.collect::<Vec<_>>().join("; ")
}
