//! Whether what a plan claims of its variants holds: by its verdicts, and by the intervals of ratios, or of
//! differences where values are 0.
//!
//! Input: an analysis that judges the metrics of the expectations, as [`metrics`] names them. Pure.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::model::{Claim, Direction, Expectation, Plan, Unit, words};
use crate::stats::{
    Effect, Excluded, Interval, Judged, Look, MAX_ROUNDS, Rounds, Verdict, differences,
    interval_of_look, interval_of_mean, log_ratios, min_rounds,
};

use super::judge::often_unknown;
use super::{Analysis, Cell, Note, Pairing, Row, takes_metric};

words! {
    #[derive(PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Outcome {
        Holds = "HOLDS",
        /// The rounds do not decide, or there is no value.
        Open = "OPEN",
        Fails = "FAILS",
    }
}

words! {
    /// The outcome of a finding.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FindingOutcome {
        /// All that is expected holds.
        Reproduced = "REPRODUCED",
        /// One expectation fails.
        Contradicted = "CONTRADICTED",
        Open = "OPEN",
        /// Virtual time cannot show it.
        NotModelled = "NOT MODELLED",
    }
}

impl FindingOutcome {
    pub fn from_tested(tested: &[Tested]) -> FindingOutcome {
        match tested.iter().map(|tested| tested.outcome).max() {
            Some(Outcome::Holds) => FindingOutcome::Reproduced,
            Some(Outcome::Fails) => FindingOutcome::Contradicted,
            Some(Outcome::Open) | None => FindingOutcome::Open,
        }
    }
}

/// An expectation with what was measured of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tested {
    pub expectation: Expectation,
    /// The worst outcome over its metrics; open without any.
    pub outcome: Outcome,
    /// Every metric that the pattern names.
    pub metrics: Vec<TestedMetric>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TestedMetric {
    pub work: String,
    pub set: String,
    pub metric: String,
    pub unit: Unit,
    /// A counter without a better direction is judged as if less of it were better.
    pub direction: Direction,
    pub outcome: Outcome,
    #[serde(rename = "ratio")]
    pub effect: Option<Effect>,
    pub judged: Option<Judged>,
    /// Below which a change of it is SAME.
    #[serde(skip)]
    pub margin: f64,
    /// All values are zero on both sides: there is no ratio, and they are the same.
    pub is_all_zero: bool,
    /// The total number of rounds that may decide an open outcome.
    pub rounds: Option<Rounds>,
}

/// The patterns of the metrics that have to be judged, each once.
pub fn metrics(expectations: &[Expectation]) -> Vec<String> {
    let mut patterns: Vec<String> = Vec::new();
    for expectation in expectations {
        if !patterns.contains(&expectation.metric) {
            patterns.push(expectation.metric.clone());
        }
    }
    patterns
}

/// In the order of the expectations. The sides of the analysis are the variants.
pub fn test(analysis: &Analysis, expectations: &[Expectation]) -> Vec<Tested> {
    let tested = expectations.iter().map(|expectation| {
        let side = analysis.sides.iter().position(|side| side.label == expectation.variant);
        let Expectation { metric, claim, .. } = expectation;
        // `*` leaves out counters where the claim needs a better direction.
        let fits = |(work, set, row): &super::Place| {
            takes_metric(metric, (&work.label, work.is_solo_run), &set.name, &row.kind.name)
                && claim.is_of(row.kind.direction)
        };
        let of_side = |side: usize| {
            analysis.rows().filter(fits).map(move |place| {
                let (work, set, row) = place;
                let outcome = match has_only_failures(analysis, side, &work.label) {
                    true => Outcome::Fails,
                    false => outcome(analysis, row, side, *claim),
                };
                TestedMetric {
                    work: work.label.clone(),
                    set: set.name.clone(),
                    metric: row.kind.name.clone(),
                    unit: row.kind.unit,
                    direction: row.kind.direction,
                    outcome,
                    effect: analysis.effect(row, side),
                    judged: row.cells[side].judged,
                    margin: analysis.method.margin_of(place),
                    is_all_zero: is_all_zero(row, side),
                    rounds: rounds(analysis, row, side, *claim)
                        .filter(|_| outcome == Outcome::Open),
                }
            })
        };
        let metrics: Vec<TestedMetric> = side.into_iter().flat_map(of_side).collect();
        let worst = metrics.iter().map(|metric| metric.outcome).max();
        let outcome = worst.unwrap_or(Outcome::Open);
        Tested { expectation: expectation.clone(), outcome, metrics }
    });
    tested.collect()
}

/// Whether each run of a variant failed and the baseline's did not: a machine that lacks something skips runs, and a host that
/// ends them leaves them out, so this is what the variant does.
fn has_only_failures(analysis: &Analysis, side: usize, work: &str) -> bool {
    let fails = |side: usize| {
        let label = &analysis.sides[side].label;
        let is_it = |note: &Note| matches!(note, Note::Failed { side, work: of_work, runs, of, .. } if side == label && of_work == work && runs == of);
        analysis.notes.iter().any(is_it)
    };
    fails(side) && !fails(0)
}

fn is_all_zero(row: &Row, side: usize) -> bool {
    [&row.cells[0], &row.cells[side]].iter().all(|cell| cell.is_all_zero())
}

/// Whether zeros on both sides say nothing: two throughputs of 0 are not the same, as nothing was done.
fn nothing_was_done(row: &Row) -> bool {
    row.kind.direction == Direction::HigherIsBetter
}

/// As many as any verdict takes.
fn rounds_of_zeros(analysis: &Analysis) -> u32 {
    min_rounds(analysis.method.alpha, analysis.sides.len().saturating_sub(1))
}

fn has_rounds_of_zeros(analysis: &Analysis, cells: [&Cell; 2]) -> bool {
    cells.iter().all(|cell| cell.values.len() >= rounds_of_zeros(analysis) as usize)
}

/// How many rounds in all may decide what is open: of a verdict its own estimate; of a range those after
/// which the interval, which shrinks with their root, would leave the nearest limit.
fn rounds(analysis: &Analysis, row: &Row, side: usize, claim: Claim) -> Option<Rounds> {
    if is_all_zero(row, side) {
        if nothing_was_done(row) {
            return None;
        }
        let needed = Rounds::Number(rounds_of_zeros(analysis));
        return (!has_rounds_of_zeros(analysis, [&row.cells[0], &row.cells[side]]))
            .then_some(needed);
    }
    let Claim::Ratio { .. } = claim else {
        return match row.cells[side].judged?.verdict {
            Verdict::Inconclusive { rounds, .. } => Some(rounds),
            _ => None,
        };
    };
    let (effect, range) = (analysis.effect(row, side)?, claim.range()?);
    let Some(interval) = effect.interval() else { return Some(Rounds::MoreThan(1)) };
    // How many times as long as its distance from the nearest end half of the interval is.
    let lengths = match effect.ratio() {
        Some(ratio) => {
            let half_ln = (interval.high / interval.low).ln() / 2.0;
            [range.0, range.1].map(|end| half_ln / (ratio.ratio / end).ln().abs()).to_vec()
        }
        None => {
            let cells = [&row.cells[0], &row.cells[side]].map(|cell| cell.values.as_slice());
            let found = contrasts(cells, 1.0, range).filter_map(|(interval, _)| interval);
            found.map(|of| ((of.high - of.low) / (of.high + of.low)).abs()).collect()
        }
    };
    let pairs = effect.pairs() as u32;
    let needed = (f64::from(pairs) * lengths.into_iter().fold(0.0, f64::max).powi(2)).ceil();
    let needed = match needed.max(f64::from(pairs + 1)) {
        needed if needed <= f64::from(MAX_ROUNDS) => Rounds::Number(needed as u32),
        _ => Rounds::MoreThan(MAX_ROUNDS),
    };
    let is_counted =
        analysis.method.pairing == Pairing::WithinRounds && analysis.method.looks.is_none();
    let [pairs, made] = row.rounds(side);
    Some(if is_counted { needed.of_made(pairs, made) } else { needed })
}

fn outcome(analysis: &Analysis, row: &Row, side: usize, claim: Claim) -> Outcome {
    let says_nothing = is_all_zero(row, side) && nothing_was_done(row);
    if says_nothing || often_unknown(row, side).is_some() {
        return Outcome::Open;
    }
    if let Some(range) = claim.range() {
        let cells = [&row.cells[0], &row.cells[side]];
        return match (&analysis.method.looks, analysis.ratio(row, side)) {
            // Both are the same; what else they are of each other nobody knows.
            _ if is_all_zero(row, side) => {
                let is_same = (range.0..=range.1).contains(&1.0);
                if is_same && has_rounds_of_zeros(analysis, cells) {
                    Outcome::Holds
                } else {
                    Outcome::Open
                }
            }
            (Some(looks), _) => within_at_looks(looks, cells, range),
            (None, Some(ratio)) => within(ratio.interval, range),
            (None, None) => within_rounds(cells.map(|cell| cell.values.as_slice()), 1.0, range),
        };
    }
    let cell = &row.cells[side];
    let verdict = match cell.judged.map(|judged| judged.verdict) {
        _ if is_all_zero(row, side) => {
            let is_same = has_rounds_of_zeros(analysis, [&row.cells[0], cell]);
            is_same.then_some(Verdict::Same)
        }
        verdict => verdict,
    };
    let Some(verdict) = verdict else { return Outcome::Open };
    let excluded = cell.judged.map(|judged| judged.excluded).unwrap_or_default();
    let [holds, fails] = verdicts(claim, row.kind.direction);
    match verdict {
        verdict if holds.contains(&verdict) => Outcome::Holds,
        verdict if fails.contains(&verdict) => Outcome::Fails,
        _ if is_excluded(claim, row.kind.direction, excluded) => Outcome::Holds,
        _ => Outcome::Open,
    }
}

/// Whether the margin's other end is shown to be out of reach: a test of one side, for what is not
/// worse than that, whether it is the same or better.
fn is_excluded(claim: Claim, direction: Direction, excluded: Excluded) -> bool {
    let is_more_better = direction == Direction::HigherIsBetter;
    match claim {
        Claim::NotWorse if is_more_better => excluded.below,
        Claim::NotWorse => excluded.above,
        Claim::NotBetter if is_more_better => excluded.above,
        Claim::NotBetter => excluded.below,
        _ => false,
    }
}

/// The verdicts with which a claim holds, and those with which it fails. A counter without a better
/// direction is judged as if less of it were better.
fn verdicts(claim: Claim, direction: Direction) -> [&'static [Verdict]; 2] {
    use Verdict::{Better, Same, Worse};
    let is_more_better = direction == Direction::HigherIsBetter;
    match claim {
        Claim::Better => [&[Better], &[Worse, Same]],
        Claim::Worse => [&[Worse], &[Better, Same]],
        Claim::Same => [&[Same], &[Better, Worse]],
        Claim::NotBetter => [&[Worse, Same], &[Better]],
        Claim::NotWorse => [&[Better, Same], &[Worse]],
        Claim::More if is_more_better => [&[Better], &[Worse, Same]],
        Claim::Less if !is_more_better => [&[Better], &[Worse, Same]],
        Claim::More | Claim::Less => [&[Worse], &[Better, Same]],
        Claim::Ratio { .. } => [&[], &[]],
    }
}

/// By the whole interval: one end inside and one outside is open.
fn within(interval: Option<Interval>, (from, to): (f64, f64)) -> Outcome {
    match interval {
        Some(interval) if interval.low >= from && interval.high <= to => Outcome::Holds,
        Some(interval) if interval.high < from || interval.low > to => Outcome::Fails,
        _ => Outcome::Open,
    }
}

/// Values by round.
type Rows = [(u32, f64)];

/// The outcome for sides that have a ratio, or none since values are 0.
fn within_rounds(sides: [&Rows; 2], share: f64, range: (f64, f64)) -> Outcome {
    match log_ratios(sides[0], sides[1]) {
        Some(pairs) => within(interval_of_look(&pairs, share), range),
        None => contrasts(sides, share, range)
            .map(|(interval, sides)| within(interval, sides))
            .max()
            .unwrap_or(Outcome::Open),
    }
}

/// The variant less so many times the baseline as either end of a range says: a ratio is at least 0.9 where
/// this mean, of 0.9, is at least 0. Each has its interval, and the range in which it is to lie.
fn contrasts(
    [baseline, variant]: [&Rows; 2],
    share: f64,
    (from, to): (f64, f64),
) -> impl Iterator<Item = (Option<Interval>, (f64, f64))> {
    let contrast = move |ratio: f64| {
        let scaled: Vec<_> =
            baseline.iter().map(|(round, value)| (*round, ratio * value)).collect();
        interval_of_mean(&differences(&scaled, variant), share)
    };
    let ends = [(from, (0.0, f64::INFINITY)), (to, (f64::NEG_INFINITY, 0.0))];
    let ends = ends.into_iter().filter(|(ratio, _)| ratio.is_finite());
    ends.map(move |(ratio, wanted)| (contrast(ratio), wanted))
}

/// As verdicts are: each look has an interval that spends its share, and what one decided stays. A work
/// that stopped is not looked at again, as when it did was chosen by its values.
fn within_at_looks(looks: &[Look], cells: [&Cell; 2], range: (f64, f64)) -> Outcome {
    let [baseline, variant] = cells.map(|cell| &cell.values);
    let mut before = 0;
    for look in looks {
        let seen = [baseline, variant].map(|values| {
            let seen = values.iter().filter(|(round, _)| *round < look.rounds);
            seen.copied().collect::<Vec<_>>()
        });
        let both = seen[1].iter().filter(|(round, _)| seen[0].iter().any(|(own, _)| own == round));
        let has_stopped = both.map(|(round, _)| *round).max().is_none_or(|last| last < before);
        before = look.rounds;
        if has_stopped {
            continue;
        }
        match within_rounds([&seen[0], &seen[1]], look.share, range) {
            Outcome::Open => {}
            decided => return decided,
        }
    }
    Outcome::Open
}

/// The positions in the plan of works of which more rounds may decide an expectation.
pub fn undecided_works(
    analysis: &Analysis,
    plan: &Plan,
    expectations: &[Expectation],
) -> BTreeSet<usize> {
    let tested = test(analysis, expectations);
    let metrics = tested.iter().flat_map(|tested| &tested.metrics);
    let open = metrics.filter(|of| of.rounds.is_some());
    let labels: BTreeSet<&str> = open.map(|metric| metric.work.as_str()).collect();
    let works = plan.works.iter().enumerate();
    works.filter(|(_, work)| labels.contains(work.label().as_str())).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests;
