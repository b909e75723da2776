//! Damage: content that differs from what was written is reported once, and left out of what is read.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use crate::model::RunKey;

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
}

/// A plan or score that is left out, and a way out.
const DAMAGED: &str = "is not what was written; `schedlab rm` removes it";

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
    format!("the store is damaged: round {} of cell {}: {}", key.round, key.cell, why(what))
}

/// Where damage is reported, each once.
#[derive(Debug)]
pub(super) struct Reporter {
    pub sink: fn(&Damage),
    pub reported: RefCell<BTreeSet<Damage>>,
}

impl Default for Reporter {
    fn default() -> Self {
        Reporter { sink: |_| {}, reported: RefCell::default() }
    }
}

impl Reporter {
    pub fn report(&self, damage: Damage) {
        if !self.reported.borrow().contains(&damage) {
            (self.sink)(&damage);
            self.reported.borrow_mut().insert(damage);
        }
    }
}
