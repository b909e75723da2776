//! Damage: content that differs from what was written is reported once, and left out of what is read.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use crate::model::{RunKey, quoted};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    /// Plans that are not there any more.
    Plans(u64),
    Plan {
        id: String,
    },
    Run {
        plan: String,
        round: u32,
        cell: u32,
        what: &'static str,
    },
    /// Runs of a plan that are not there any more, and those of them that are known, by round and cell.
    Runs {
        plan: String,
        gone: u64,
        known: Vec<RunKey>,
    },
    /// Scores that are not there any more.
    Scores(u64),
    Score {
        id: String,
    },
}

impl Damage {
    pub(super) fn of_run(plan: &str, key: RunKey, what: &'static str) -> Damage {
        Damage::Run { plan: plan.to_string(), round: key.round, cell: key.cell, what }
    }

    /// The plan or score that is damaged, or of which a run is.
    pub(super) fn id(&self) -> Option<&str> {
        match self {
            Damage::Plan { id } | Damage::Score { id } => Some(id),
            Damage::Run { plan, .. } | Damage::Runs { plan, .. } => Some(plan),
            Damage::Plans(_) | Damage::Scores(_) => None,
        }
    }

    /// The words of a command that helps, behind `schedlab`, and what comes then. `is_imported`: it came from another
    /// tool, and cannot be measured here.
    pub fn remedy(&self, is_imported: bool) -> Option<(String, &'static str)> {
        let id = quoted(self.id()?);
        let is_of_run = matches!(self, Damage::Run { .. } | Damage::Runs { .. });
        Some(match (is_imported, is_of_run) {
            (false, true) => (format!("run --resume {id}"), ""),
            (false, false) => (format!("rm {id}"), ", then measure or import it again"),
            (true, _) => (format!("rm {id}"), ", then import it again"),
        })
    }
}

/// A plan or score that is left out.
const DAMAGED: &str = "is not what was written";
/// The most runs that a message names.
const MAX_NAMED: usize = 8;

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Plans(1) => write!(out, "a plan that was stored is not there"),
            Damage::Plans(count) => write!(out, "{count} plans that were stored are not there"),
            Damage::Scores(1) => write!(out, "a score that was stored is not there"),
            Damage::Scores(count) => write!(out, "{count} scores that were stored are not there"),
            Damage::Plan { id } => {
                write!(out, "what is stored of plan `{id}` {DAMAGED}")
            }
            Damage::Run { plan, round, cell, what } => {
                write!(out, "round {round} of cell {cell} of plan `{plan}`: {}", why(what))
            }
            Damage::Runs { plan, gone, known } => {
                let (runs, are) = if *gone == 1 { ("run", "is") } else { ("runs", "are") };
                write!(out, "{gone} {runs} stored of plan `{plan}` {are} not there")?;
                let named = known.iter().take(MAX_NAMED).map(describe).collect::<Vec<_>>();
                let more = *gone - named.len() as u64;
                match (named.is_empty(), more) {
                    (true, _) => Ok(()),
                    (false, 0) => write!(out, ": {}", named.join(", ")),
                    (false, more) => write!(out, ": {}, and {more} more", named.join(", ")),
                }
            }
            Damage::Score { id } => {
                write!(out, "what is stored of score `{id}` {DAMAGED}")
            }
        }
    }
}

fn why(what: &str) -> String {
    format!("what is stored of its {what} is not what was written")
}

/// Why a run gave no values.
pub(super) fn reason(key: RunKey, what: &str) -> String {
    format!("the store is damaged: {}: {}", describe(&key), why(what))
}

/// Why a run is not there.
pub(super) fn reason_of_gone(key: RunKey) -> String {
    format!("the store is damaged: {} was stored and is not there", describe(&key))
}

fn describe(key: &RunKey) -> String {
    format!("round {} of cell {}", key.round, key.cell)
}

/// Takes damage, and whether it is of a plan that another tool measured.
type Sink = dyn Fn(&Damage, bool) + Send;

/// Where damage is reported, each once.
pub(super) struct Reporter {
    pub sink: Box<Sink>,
    pub reported: RefCell<BTreeSet<Damage>>,
}

impl Default for Reporter {
    fn default() -> Self {
        Reporter { sink: Box::new(|_, _| {}), reported: RefCell::default() }
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reported.fmt(out)
    }
}
