//! The effect of verdicts on the exit code: `--fail-on`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use crate::analysis::{Analysis, Cell, Difference, Family, Note, Place, Row};
use crate::model::Direction;
use crate::report::{clean, first_between, gaps, metric};
use crate::stats::{Unjudged, Verdict, Why};

use super::{Failure, help};
use crate::session::{Problem, SessionError};

/// The most names of each kind in a message.
const MAX_NAMED: usize = 5;

#[derive(Args, Clone, Default)]
pub struct Gate {
    /// regression: exit with 1 where a metric is WORSE, 3 where one is not judged. bisect, for
    /// `git bisect run`: 0 good, 1 bad (WORSE), 125 not decided or not measured
    #[arg(help_heading = help::VERDICTS, long, value_name = "WHAT", value_enum, hide_possible_values = true)]
    fail_on: Option<FailOn>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum FailOn {
    Regression,
    Bisect,
}

/// Whether the words of a command line ask for the exit codes of a bisection, or did before.
pub fn is_bisecting(mut words: impl Iterator<Item = OsString>) -> bool {
    let is_try = words.nth(1).is_some_and(|command| command == "try");
    // `try` bisects by itself.
    !is_try
        && words
            .any(|word| ["bisect", "--fail-on=bisect", "--bisect"].iter().any(|own| word == *own))
}

impl Gate {
    /// Whether the exit code is to say what the verdicts say.
    pub fn is_asked(&self) -> bool {
        self.fail_on.is_some()
    }

    fn bisects(&self) -> bool {
        self.fail_on == Some(FailOn::Bisect)
    }

    /// Turns the verdicts of all of these into an exit code. A regression anywhere goes
    /// first: it is known, even if other verdicts are not.
    pub fn judge(&self, analyses: &[Analysis]) -> Result<(), Failure> {
        if !self.is_asked() {
            return Ok(());
        }
        let with_verdict = |is: fn(&Verdict) -> bool| -> Vec<String> {
            let is = |_: &Row, _, cell: &Cell| cell.judged.is_some_and(|of| is(&of.verdict));
            analyses.iter().flat_map(|analysis| named(analysis, is)).collect()
        };
        let worse = with_verdict(|verdict| matches!(verdict, Verdict::Worse));
        if !worse.is_empty() {
            let (is, list) = (if worse.len() == 1 { "is" } else { "are" }, listed(&worse, ", "));
            return Err(Failure::Regression(format!("regression: {list} {is} WORSE")));
        }
        let mut missing: Vec<String> = analyses.iter().flat_map(gaps).collect();
        let with_gaps = analyses.iter().find(|analysis| !gaps(analysis).is_empty());
        if missing.is_empty() {
            let without =
                with_verdict(|verdict| matches!(verdict, Verdict::Unjudged(Unjudged::NoEffect(_))));
            missing.extend(without.into_iter().map(|place| format!("{place} cannot be compared")));
        }
        if !missing.is_empty() {
            let text = format!("not all could be judged: {}", listed(&missing, "; "));
            let more = with_gaps.map(|own| format!("{} -v says more; ", own.command));
            let hint = more.unwrap_or_default() + "to judge something else: --metric NAME";
            return Err(Failure::here(text, hint));
        }
        analyses.iter().try_for_each(any_verdict)?;
        let is_unjudged = |row: &Row, side, _: &Cell| row.lacks_verdict(side);
        let without: Vec<String> =
            analyses.iter().flat_map(|analysis| named(analysis, is_unjudged)).collect();
        if !without.is_empty() {
            let text = format!("not judged: {}", listed(&without, ", "));
            return Err(Failure::here(text, "--metric with what is to be judged"));
        }
        analyses.iter().try_for_each(enough_rounds)?;
        let open = with_verdict(|verdict| matches!(verdict, Verdict::Inconclusive { .. }));
        if self.bisects() && !open.is_empty() {
            let text = format!("not decided: {}", listed(&open, ", "));
            let problem = Problem::new(text, "more --rounds, a wider --margin, or --metric");
            return Err(Failure::Bisect { code: 125, text: problem.to_string() });
        }
        Ok(())
    }

    /// Does the work. In a bisection no failure may be taken for a bad commit. (A panic is not: `git bisect run` ends at
    /// its 134.)
    pub fn translate(&self, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        if !self.bisects() {
            return work();
        }
        match work() {
            Err(Failure::Session(error)) if !matches!(error, SessionError::Interrupted(_)) => {
                let code = if error.is_usage() { 255 } else { 125 };
                Err(Failure::Bisect { code, text: error.to_string() })
            }
            done => done,
        }
    }
}

/// Fails where no data of so few rounds could decide: such a gate would pass whatever is measured.
fn enough_rounds(analysis: &Analysis) -> Result<(), Failure> {
    let verdicts = judged(analysis).flat_map(|(.., row)| &row.cells).filter_map(Cell::verdict);
    let least = verdicts.filter_map(|verdict| match verdict {
        Verdict::Inconclusive { why: Why::TooFewRounds { least }, .. } => Some(least),
        _ => None,
    });
    match least.max() {
        None => Ok(()),
        Some(least) => Err(Failure::here(
            format!("too few rounds that count for any verdict: it takes at least {least}"),
            format!("--rounds {least}, or more"),
        )),
    }
}

/// Fails without a single verdict: a gate must not pass on nothing.
fn any_verdict(analysis: &Analysis) -> Result<(), Failure> {
    let mut verdicts = judged(analysis).flat_map(|(.., row)| &row.cells).filter_map(Cell::verdict);
    if verdicts.any(|verdict| !matches!(verdict, Verdict::Unjudged(_))) {
        return Ok(());
    }
    if is_shown(analysis) {
        let text = "what was compared explains, and has no verdicts";
        return Err(Failure::here(text, "--metric throughput as well"));
    }
    let is_other_place = |note: &Note| {
        let Note::NotSameWork { why, .. } = note else { return false };
        matches!(why, Difference::Backend(..) | Difference::Guests)
    };
    let hint = if analysis.notes.iter().any(is_other_place) {
        format!("{} --mixed", analysis.command)
    } else {
        format!("schedlab list runs{}", analysis.store)
    };
    Err(Failure::here("nothing of it can be compared; the reasons are above", hint))
}

/// Fails where there is nothing to see.
pub fn anything(analysis: &Analysis) -> Result<(), Failure> {
    if is_shown(analysis) { Ok(()) } else { any_verdict(analysis) }
}

/// Whether there are rows of what explains, which need no verdict.
fn is_shown(analysis: &Analysis) -> bool {
    analysis.rows().any(|(.., row)| row.kind.direction == Direction::Neutral)
}

fn named(analysis: &Analysis, is: impl Fn(&Row, usize, &Cell) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for place in judged(analysis) {
        for (at, (side, cell)) in analysis.sides.iter().zip(&place.2.cells).enumerate() {
            if is(place.2, at, cell) {
                found.push(format!("{} of {}", metric(place), clean(&side.label)));
            }
        }
    }
    found
}

fn listed(names: &[String], between: &str) -> String {
    first_between(names, MAX_NAMED, between)
}

/// Rows whose verdicts a gate goes by.
fn judged(analysis: &Analysis) -> impl Iterator<Item = Place<'_>> {
    let rows = analysis.rows_of(Family::Headline);
    rows.filter(|(.., row)| row.kind.direction != Direction::Neutral)
}

#[cfg(test)]
mod tests;
