//! The commit that changed a metric: a commit's values lie on the good or on the bad side of the half of the
//! way from good to bad, with a chance of error. Pure.

use std::fmt;

use crate::model::clean;
use crate::stats::{self, Count, Effect, NoEffect, Verdict};

use super::{Analysis, Family, Row, SetTable, WorkTable};

/// A step with a larger chance of error gets more seeds.
const MAX_ERROR: f64 = 0.005;
/// The looks of a step; the chance of error of the step is their sum.
pub const MAX_LOOKS: u32 = 3;
/// A commit with a larger chance of error after the last look is skipped.
const MAX_ERROR_IN_THE_END: f64 = 0.1;

/// The answer for a commit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Found {
    Good { error: f64 },
    Bad { error: f64 },
    Skipped,
}

impl Found {
    pub fn word(self) -> &'static str {
        match self {
            Found::Good { .. } => "good",
            Found::Bad { .. } => "bad",
            Found::Skipped => "skipped",
        }
    }

    pub fn error(self) -> Option<f64> {
        match self {
            Found::Good { error } | Found::Bad { error } => Some(error),
            Found::Skipped => None,
        }
    }
}

/// The metric that is not the same in good and bad commits.
pub struct Mark {
    /// The workload's name in the plan.
    pub workload: String,
    work: String,
    set: String,
    metric: String,
    /// Half of the way from good to bad, as a logarithm; `None` if good and bad have no ratio.
    half_log_ratio: Option<f64>,
    /// The same in the metric's unit, for commits without a ratio to good; `None` where it does
    /// not have the direction of the ratio.
    half_difference: Option<f64>,
    /// Whether bad commits lie above.
    pub is_above: bool,
}

/// A commit against the good one, on the scale of the comparison and as differences, by seed.
struct Compared {
    effect: Effect,
    /// `None` where a value has no logarithm: the comparison is one of differences.
    log_ratios: Option<Vec<f64>>,
    differences: Vec<f64>,
}

/// How a commit lies to the half of the way from good to bad.
#[derive(Debug, PartialEq)]
pub struct Side {
    /// Its change against the good commit.
    pub effect: Effect,
    pub is_above: bool,
    /// The chance that it lies on the other side.
    pub error: f64,
}

/// Why a commit is on neither side.
#[derive(Debug, PartialEq)]
pub enum NoSide {
    /// With the reason that a run gave for having no value, if one did.
    NotMeasured(Option<String>),
    NotCompared(NoEffect),
    /// A value has no logarithm, and differences do not have the direction of the ratio.
    OtherDirection,
    /// One seed alone has a value of both.
    OneSeed,
}

impl fmt::Display for NoSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoSide::NotMeasured(Some(reason)) => write!(f, "not measured: {}", clean(reason)),
            NoSide::NotMeasured(None) => {
                write!(f, "not measured: it does not boot, or its runs fail")
            }
            NoSide::NotCompared(why) => write!(f, "not compared: {why}"),
            NoSide::OtherDirection => write!(
                f,
                "not compared: a value has no logarithm, and differences go the other way"
            ),
            NoSide::OneSeed => write!(f, "not compared: one seed alone has a value of both"),
        }
    }
}

fn compared(row: &Row) -> Result<Compared, NoEffect> {
    let [good, other] = [0, 1].map(|side| row.cells.get(side).map_or(&[][..], |cell| &cell.values));
    if let Some(Err(why)) = row.cells.get(1).and_then(|cell| cell.judged).map(|own| own.effect) {
        return Err(why);
    }
    let effect = stats::paired_effect(good, other)?;
    let logs = stats::log_ratios(good, other);
    let log_ratios = logs.map(|logs| logs.into_iter().map(|(_, log)| log).collect());
    Ok(Compared { effect, log_ratios, differences: stats::differences(good, other) })
}

impl Compared {
    /// On the scale of the comparison.
    fn values(&self) -> &[f64] {
        self.log_ratios.as_ref().unwrap_or(&self.differences)
    }
}

/// The metric whose change is the clearest, of those with a verdict BETTER or WORSE, where it stands, and its
/// change from good to bad.
pub fn clearest_change(
    analysis: &Analysis,
) -> Option<(Mark, (&WorkTable, &SetTable, &Row), Effect)> {
    let mut best: Option<(f64, f64, _)> = None;
    for (work, set, row) in analysis.rows_of(Family::Headline) {
        let verdict = row.cells.get(1).and_then(|cell| cell.judged).map(|judged| judged.verdict);
        if !matches!(verdict, Some(Verdict::Better | Verdict::Worse)) {
            continue;
        }
        let Ok(compared) = compared(row) else { continue };
        let Some((is_above, error)) = stats::side_of(compared.values(), 0.0) else { continue };
        let size = compared.effect.size();
        let is_clearer = best
            .as_ref()
            .is_none_or(|(other, size_of_other, _)| (error, -size) < (*other, -size_of_other));
        if is_clearer {
            let half = |values: &[f64]| stats::mean(values).map(|mean| mean / 2.0);
            let mark = Mark {
                work: work.label.clone(),
                workload: work.name.clone(),
                set: set.name.clone(),
                metric: row.kind.name.clone(),
                half_log_ratio: compared.log_ratios.as_deref().and_then(half),
                half_difference: half(&compared.differences)
                    .filter(|half| (*half > 0.0) == is_above),
                is_above,
            };
            best = Some((error, size, (mark, (work, set, row), compared.effect)));
        }
    }
    best.map(|(.., found)| found)
}

impl Mark {
    /// The side of a commit in an analysis of good and commit.
    pub fn side(&self, analysis: &Analysis) -> Result<Side, NoSide> {
        let mut rows = analysis.rows();
        let row = rows.find(|(work, set, row)| {
            work.label == self.work && set.name == self.set && row.kind.name == self.metric
        });
        let (.., row) = row.ok_or(NoSide::NotMeasured(None))?;
        let compared = compared(row).map_err(|why| match why {
            NoEffect::NoPairs | NoEffect::NoRuns => not_measured(row),
            NoEffect::NotFinite { .. } | NoEffect::OftenUnknown { .. } => NoSide::NotCompared(why),
        })?;
        let (values, half) = match (&compared.log_ratios, self.half_log_ratio) {
            (Some(log_ratios), Some(half)) => (log_ratios, Some(half)),
            _ => (&compared.differences, self.half_difference),
        };
        let half = half.ok_or(NoSide::OtherDirection)?;
        let (is_above, error) = stats::side_of(values, half).ok_or(NoSide::OneSeed)?;
        Ok(Side { effect: compared.effect, is_above, error })
    }
}

impl Mark {
    /// The answer after the look of this number, from 1, at the same seeds and more; `None`: more seeds may decide.
    pub fn answer(&self, side: &Side, look: u32) -> Option<Found> {
        answer(side.is_above == self.is_above, side.error, look)
    }
}

/// The answer for a commit that is bad or good with this chance of error, after the look of this number, from 1.
fn answer(is_bad: bool, error: f64, look: u32) -> Option<Found> {
    // Each look may be wrong.
    let error = (error * f64::from(MAX_LOOKS)).min(1.0);
    let is_last = look >= MAX_LOOKS;
    if error > MAX_ERROR && (!is_last || error > MAX_ERROR_IN_THE_END) {
        return is_last.then_some(Found::Skipped);
    }
    Some(if is_bad { Found::Bad { error } } else { Found::Good { error } })
}

/// A case that holds more often on one of two ends than on the other.
pub struct CaseMark {
    pub good: Count,
    pub bad: Count,
}

impl CaseMark {
    /// Whether the ends differ, as [`CaseMark::answer`]: bad if they do.
    pub fn differs(&self, look: u32) -> Option<Found> {
        answer(true, self.chance(self.good, self.bad), look)
    }

    /// A commit goes with the end from which its count differs less clearly. The chance of error is that it is as the
    /// other one.
    pub fn answer(&self, commit: Count, look: u32) -> Option<Found> {
        let (as_good, as_bad) = (self.chance(self.good, commit), self.chance(commit, self.bad));
        answer(as_good < as_bad, as_good.min(as_bad), look)
    }

    /// Whether it holds more often in bad commits.
    pub fn is_above(&self) -> bool {
        let CaseMark { good, bad } = *self;
        let parts = [(good, bad), (bad, good)];
        let [good, bad] = parts.map(|(own, other)| u64::from(own.held) * u64::from(other.runs));
        bad > good
    }

    /// The chance that two counts differ so much in the direction from good to bad, where both are alike.
    fn chance(&self, from: Count, to: Count) -> f64 {
        if self.is_above() {
            stats::chance_of_more(to, from)
        } else {
            stats::chance_of_more(from, to)
        }
    }
}

fn not_measured(row: &Row) -> NoSide {
    let mut reasons = row.cells.iter().rev().flat_map(|cell| &cell.unknown);
    NoSide::NotMeasured(reasons.next().map(|(_, reason)| reason.clone()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{analysed, lose, plan, run_of, unknown};
    use super::*;
    use crate::model::SampledPlan;

    const GOOD: &str = "good";
    const COMMIT: &str = "commit";

    /// The metric `wakeup_p99` of the good and of another commit in ten seeds: by seed.
    fn measured(values: impl Fn(u32) -> [f64; 2]) -> SampledPlan {
        let mut plan = plan("p1", 1, &[GOOD, COMMIT]);
        for round in 0..10 {
            for (cell, value) in (0..).zip(values(round)) {
                run_of(&mut plan, round, cell, &[("wakeup_p99", value)]);
            }
        }
        plan
    }

    fn analysis(plan: SampledPlan) -> Analysis {
        analysed(&[plan], &[GOOD, COMMIT])
    }

    fn mark_of(values: impl Fn(u32) -> [f64; 2]) -> Mark {
        clearest_change(&analysis(measured(values))).expect("a change").0
    }

    /// Whether a commit is bad, if that is known.
    fn is_bad(mark: &Mark, values: impl Fn(u32) -> [f64; 2]) -> Option<bool> {
        let side = mark.side(&analysis(measured(values))).unwrap();
        mark.answer(&side, 1).map(|found| matches!(found, Found::Bad { .. }))
    }

    /// Never more than one part in fifty.
    fn noise(seed: u32) -> f64 {
        1.0 + 0.005 * f64::from(seed * 7 % 5)
    }

    #[test]
    fn from_never_to_often_is_a_mark_and_commits_lie_on_either_side_of_its_half() {
        let mark = mark_of(|seed| [0.0, 800.0 * noise(seed)]);
        assert!(mark.is_above && mark.half_log_ratio.is_none());
        assert!(mark.half_difference.is_some_and(|half| (400.0..410.0).contains(&half)));
        assert_eq!(is_bad(&mark, |_| [0.0, 0.0]), Some(false));
        assert_eq!(is_bad(&mark, |seed| [0.0, 300.0 * noise(seed)]), Some(false));
        assert_eq!(is_bad(&mark, |seed| [0.0, 500.0 * noise(seed)]), Some(true));
        assert_eq!(is_bad(&mark, |seed| [0.0, 100.0 + 150.0 * f64::from(seed % 5)]), None);
        // More seeds than the mark had may have no 0 left.
        assert_eq!(is_bad(&mark, |seed| [1.0, 700.0 * noise(seed)]), Some(true));
        // From often to never.
        let mark = mark_of(|seed| [800.0 * noise(seed), 0.0]);
        assert!(!mark.is_above);
        assert_eq!(is_bad(&mark, |seed| [800.0 * noise(seed), 700.0]), Some(false));
        assert_eq!(is_bad(&mark, |seed| [800.0 * noise(seed), 100.0]), Some(true));
    }

    #[test]
    fn a_commit_with_a_zero_is_compared_with_a_ratio_by_its_differences() {
        let mark = mark_of(|seed| [100.0, 200.0 * noise(seed)]);
        assert!(mark.half_log_ratio.is_some());
        let with_zero = |value: f64| {
            move |seed: u32| match seed {
                3 => [100.0, 0.0],
                _ => [100.0, value * noise(seed)],
            }
        };
        assert_eq!(is_bad(&mark, with_zero(100.0)), Some(false));
        assert_eq!(is_bad(&mark, with_zero(400.0)), Some(true));
        // Half of the way is a factor where there are ratios: 141, not 150.
        assert_eq!(is_bad(&mark, |seed| [100.0, 145.0 * noise(seed)]), Some(true));
    }

    #[test]
    fn a_step_that_is_not_sure_gets_more_seeds_and_is_skipped_in_the_end() {
        let mark = mark_of(|seed| [100.0, 200.0 * noise(seed)]);
        let plan = || analysis(measured(|seed| [100.0, 190.0 * noise(seed)]));
        let side = |is_above, error| Side { is_above, error, ..mark.side(&plan()).unwrap() };
        let answer = |error, look| mark.answer(&side(true, error), look);
        let bad = |error| Some(Found::Bad { error });
        // The chances of three looks add up.
        assert_eq!([1, 2, 3].map(|look| answer(0.001, look)), [bad(0.003); 3]);
        assert_eq!([1, 2, 3].map(|look| answer(0.002, look)), [None, None, bad(0.006)]);
        assert_eq!(answer(0.03, 3), bad(0.09));
        assert_eq!([2, 3].map(|look| answer(0.04, look)), [None, Some(Found::Skipped)]);
        assert_eq!(answer(0.5, 3), Some(Found::Skipped));
        let words = [Found::Good { error: 0.0 }, Found::Bad { error: 0.0 }, Found::Skipped];
        assert_eq!(words.map(Found::word), ["good", "bad", "skipped"]);
        let good = mark.answer(&side(false, 0.001), 1);
        assert_eq!(good, Some(Found::Good { error: 0.003 }));
    }

    #[test]
    fn a_commit_has_a_case_as_often_as_one_of_the_ends() {
        let count = |held, runs| Count { held, runs };
        let mark = |good, bad| CaseMark { good: count(good, 8), bad: count(bad, 8) };
        // (good, bad, commit): whether it is bad, as far as one look shows it.
        for (good, bad, commit, is_bad) in [
            (0, 8, 8, Some(true)),
            (0, 8, 0, Some(false)),
            (0, 8, 4, None),
            (0, 8, 7, Some(true)),
            (8, 0, 0, Some(true)),
            (8, 0, 8, Some(false)),
            (8, 0, 1, Some(true)),
            (1, 4, 4, None),
        ] {
            let found = mark(good, bad).answer(count(commit, 8), 1);
            let found = found.map(|found| matches!(found, Found::Bad { .. }));
            assert_eq!(found, is_bad, "{good} {bad} {commit}");
        }
        assert!(mark(0, 8).differs(1).is_some() && mark(8, 0).differs(1).is_some());
        assert_eq!(
            [1, 2, 3].map(|look| mark(0, 3).differs(look)),
            [None, None, Some(Found::Skipped)]
        );
        assert!(mark(0, 8).is_above() && !mark(8, 0).is_above() && !mark(4, 4).is_above());
        // Half of 16 runs are more sure than half of 8.
        let more = CaseMark { good: count(0, 16), bad: count(8, 16) };
        assert_eq!((mark(0, 4).differs(1), more.differs(2).is_some()), (None, true));
    }

    #[test]
    fn a_commit_that_cannot_be_compared_says_why() {
        let mark = mark_of(|seed| [100.0, 200.0 * noise(seed)]);
        let why = |plan| mark.side(&analysis(plan)).unwrap_err().to_string();
        let infinite = measured(|seed| [100.0, if seed == 3 { f64::INFINITY } else { 100.0 }]);
        assert_eq!(why(infinite), "not compared: round 3 has inf");
        let good_alone = |other: fn(&mut SampledPlan, u32)| {
            let mut plan = plan("p1", 1, &[GOOD, COMMIT]);
            for round in 0..10 {
                run_of(&mut plan, round, 0, &[("wakeup_p99", 100.0)]);
                other(&mut plan, round);
            }
            plan
        };
        let lost = good_alone(|plan, round| lose(plan, round, 1, false, "it does not boot"));
        assert_eq!(why(lost), NoSide::NotMeasured(None).to_string());
        let few = good_alone(|plan, round| {
            run_of(plan, round, 1, &[]);
            unknown(plan, "wakeup_p99", "12 samples");
        });
        assert_eq!(why(few), "not measured: 12 samples");
    }

    #[test]
    fn a_commit_that_often_lacks_the_metric_is_neither_good_nor_bad() {
        let mark = mark_of(|seed| [100.0 * noise(seed), 200.0 * noise(seed)]);
        let mut plan = measured(|seed| [100.0 * noise(seed), 200.0 * noise(seed)]);
        plan.runs
            .iter_mut()
            .filter(|run| run.key.cell == 1)
            .take(3)
            .for_each(|run| run.values.clear());
        let why = NoEffect::OftenUnknown { lacking: [0, 3], runs: [10, 10] };
        assert_eq!(mark.side(&analysis(plan)).err(), Some(NoSide::NotCompared(why)));
    }
}
