//! Verdicts: which differences of a table are real, which are too small to matter, and which
//! the rounds do not decide.
//!
//! Input: values by round of one variant and the baseline, for each comparison of the table; from
//! the same rounds, or from runs at different times.
//! Output: for each its ratio, verdict and p-values. The error rate is that of the whole table.
//! Pure: the caller passes the seed. Method and figures: docs/verdicts.md.

mod flips;
mod judged;
mod labels;
mod power;
mod schedule;
mod state;
mod stepdown;
#[cfg(test)]
mod tests;

pub use judged::{Comparison, Excluded, Family, Judged, LEVEL, Unjudged, Verdict, Why};
pub use power::{
    Experiment, MAX_ROUNDS, Rounds, Spread, min_rounds, rounds_for_same, rounds_needed,
};
pub use schedule::{Look, Schedule};

use crate::model::LookRule;
use state::{Progress, State, Table};

/// The verdicts of one look at all data, whose number of rounds was fixed beforehand.
pub fn judge(comparisons: &[Comparison], family: &Family) -> Vec<Judged> {
    let table = Table::new(comparisons);
    let mut state = State::new(comparisons.len());
    state.look(&table, family, Look { rounds: u32::MAX, share: 1.0 }, false);
    state.judged(&table, family, None)
}

/// The verdicts after `rounds_done` rounds, numbered from 0, from looks on a schedule. Each look is repeated on the
/// data that it had then, so the same data always give the same verdicts, and the decisions of earlier looks stay.
/// `has_ended`: measuring has ended, and not because all was decided.
///
/// Rounds are passes over the works that were still measured: a block may have stopped earlier than others, and may
/// lack rounds that do not count.
pub fn replay(
    comparisons: &[Comparison],
    family: &Family,
    schedule: &Schedule,
    rounds_done: u32,
    has_ended: bool,
) -> Vec<Judged> {
    let table = Table::new(comparisons);
    let mut state = State::new(comparisons.len());
    let may_stop = schedule.rule != LookRule::Early;
    for look in schedule.looks_at(rounds_done, has_ended) {
        state.look(&table, family, look, may_stop);
    }
    state.judged(&table, family, Some(Progress { schedule, rounds_done, has_ended }))
}
