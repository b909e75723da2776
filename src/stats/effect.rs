//! How a variant differs from its baseline: a ratio with its interval, or a difference where a
//! value has no logarithm.
//!
//! Input: values by round, from the same rounds or from runs at different times. Output: the
//! effect, or the reason there is none; never a stand-in value. Pure. Method: docs/verdicts.md.

use std::fmt;

use serde::Serialize;

use super::estimate::{deviation, mean, quantile};
use super::inversion::flip_limits;
use super::sample::Samples;

/// Two-sided confidence of every interval here.
pub(super) const CONFIDENCE: f64 = 0.95;

/// With fewer pairs sign flips have no interval, nor a verdict that it could deny: theirs is Student's.
const MIN_FLIPPED: usize = 6;

/// A variant against its baseline: from rounds that have both, or from all runs of either.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Effect {
    Ratio(Ratio),
    /// Where a value is 0 or negative no ratio is defined: from never to often is no factor.
    Difference(MeanDifference),
}

/// A variant over its baseline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The geometric mean of the ratios within rounds; of sides that share no rounds the ratio
    /// of the geometric means.
    pub ratio: f64,
    /// 95 %, for this comparison alone. `None` for a single pair or run, which says nothing of
    /// the spread.
    pub interval: Option<Interval>,
    /// Of sides that share no rounds: the runs of the side that has fewer.
    pub pairs: usize,
}

/// A variant less its baseline, in the metric's own unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanDifference {
    /// The mean of the differences within rounds; of sides that share no rounds the difference
    /// of the means.
    pub difference: f64,
    /// As [`Ratio::interval`].
    pub interval: Option<Interval>,
    /// As [`Ratio::pairs`].
    pub pairs: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// The distance from no change that an effect has to exceed: as a ratio's distance from 1, or in
/// the metric's unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Floor {
    Ratio(f64),
    Difference(f64),
}

impl Effect {
    pub fn ratio(&self) -> Option<Ratio> {
        match self {
            Effect::Ratio(ratio) => Some(*ratio),
            Effect::Difference(_) => None,
        }
    }

    pub fn pairs(&self) -> usize {
        match self {
            Effect::Ratio(Ratio { pairs, .. }) => *pairs,
            Effect::Difference(MeanDifference { pairs, .. }) => *pairs,
        }
    }

    pub fn interval(&self) -> Option<Interval> {
        match self {
            Effect::Ratio(Ratio { interval, .. }) => *interval,
            Effect::Difference(MeanDifference { interval, .. }) => *interval,
        }
    }

    /// The value that means no change.
    fn neutral(&self) -> f64 {
        match self {
            Effect::Ratio(_) => 1.0,
            Effect::Difference(_) => 0.0,
        }
    }

    /// Whether the interval leaves "no change" out. Without an interval it does not.
    pub fn excludes_no_change(&self) -> bool {
        let neutral = self.neutral();
        self.interval().is_some_and(|of| of.low > neutral || of.high < neutral)
    }

    /// Whether the interval lies within a ratio's margin.
    pub fn is_within(&self, margin: f64) -> bool {
        let Effect::Ratio(Ratio { interval: Some(interval), .. }) = self else { return false };
        interval.low > 1.0 / (1.0 + margin) && interval.high < 1.0 + margin
    }

    /// How far from no change the interval goes: of a variant against itself what chance alone
    /// may show.
    pub fn floor(&self) -> Option<Floor> {
        let Interval { low, high } = self.interval()?;
        Some(match self {
            Effect::Ratio(_) => Floor::Ratio(high.max(1.0 / low) - 1.0),
            Effect::Difference(_) => Floor::Difference(high.max(-low)),
        })
    }

    /// How large it is next to others: the logarithm of a ratio. What a factor cannot express
    /// comes before all that it can.
    pub fn size(&self) -> f64 {
        match self {
            Effect::Ratio(ratio) => ratio.ratio.ln().abs(),
            Effect::Difference(_) => f64::INFINITY,
        }
    }
}

/// Why there is nothing to compare.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoEffect {
    /// No round has a value of both.
    NoPairs,
    /// Sides that share no rounds, and one has no value at all.
    NoRuns,
    /// A value is infinite or not a number. Leaving it out would favour one side, so the whole
    /// comparison is refused.
    NotFinite { round: u32, value: f64 },
}

impl fmt::Display for NoEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoEffect::NoPairs => write!(f, "no round has a value of both"),
            NoEffect::NoRuns => write!(f, "one side has no value"),
            NoEffect::NotFinite { round, value } => write!(f, "round {round} has {value}"),
        }
    }
}

/// `variant` against `baseline`, both `(round, value)`, each round at most once, over the rounds
/// that have both: a geometric mean of ratios, or a mean of differences.
///
/// What drifts from round to round multiplies both values of a pair and cancels.
pub fn paired_effect(baseline: &[(u32, f64)], variant: &[(u32, f64)]) -> Result<Effect, NoEffect> {
    Samples::paired(baseline, variant).before(u32::MAX).map(|seen| seen.effect())
}

/// As [`paired_effect`], of sides that were measured at different times: the ratio of geometric
/// means, or the difference of means, with Welch's interval.
///
/// Nothing cancels: drift between the two times is in it.
pub fn unpaired_effect(
    baseline: &[(u32, f64)],
    variant: &[(u32, f64)],
) -> Result<Effect, NoEffect> {
    Samples::sides(baseline, variant).before(u32::MAX).map(|seen| seen.effect())
}

/// The ratio that log-ratios by round make. `None` without any.
pub fn ratio_from_logs(logs: &[(u32, f64)]) -> Option<Ratio> {
    let values: Vec<f64> = logs.iter().map(|(_, log)| *log).collect();
    let interval = paired_limits(&values, CONFIDENCE).map(|of| exponential(&of));
    Some(Ratio { ratio: mean(&values)?.exp(), interval, pairs: values.len() })
}

/// The interval of a ratio that misses the true one with probability `share` times that of its
/// own: as much as one look may spend. `logs`: log-ratios by round.
pub fn interval_of_look(logs: &[(u32, f64)], share: f64) -> Option<Interval> {
    let values: Vec<f64> = logs.iter().map(|(_, log)| *log).collect();
    paired_limits(&values, 1.0 - (1.0 - CONFIDENCE) * share).map(|of| exponential(&of))
}

pub(super) fn exponential(interval: &Interval) -> Interval {
    Interval { low: interval.low.exp(), high: interval.high.exp() }
}

/// The centres that sign flips do not reject: the test and the interval are one thing. Of few
/// pairs Student's t interval (Student, "The Probable Error of a Mean", Biometrika 6, 1908).
pub(super) fn paired_limits(values: &[f64], confidence: f64) -> Option<Interval> {
    if values.len() >= MIN_FLIPPED {
        return flip_limits(values, 1.0 - confidence);
    }
    let center = mean(values)?;
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
    let half =
        quantile(freedom, confidence)? * deviation(values, center) / (values.len() as f64).sqrt();
    Some(Interval { low: center - half, high: center + half })
}

/// Welch's interval for the difference of the means of two sides. `None` where one has fewer than
/// two values.
///
/// Source: Welch, "The Generalization of 'Student's' Problem when Several Different Population
/// Variances are Involved", Biometrika 34, 1947; degrees of freedom by Satterthwaite, "An
/// Approximate Distribution of Estimates of Variance Components", Biometrics Bulletin 2, 1946.
pub(super) fn welch_limits(baseline: &[f64], variant: &[f64]) -> Option<Interval> {
    let sides = [baseline, variant];
    if sides.iter().any(|side| side.len() < 2) {
        return None;
    }
    let means = [mean(baseline)?, mean(variant)?];
    let center = means[1] - means[0];
    let errors = [0, 1].map(|at| deviation(sides[at], means[at]).powi(2) / sides[at].len() as f64);
    let square = errors[0] + errors[1];
    let half = if square > 0.0 {
        let parts =
            [0, 1].map(|at: usize| (errors[at] / square).powi(2) / (sides[at].len() as f64 - 1.0));
        quantile(1.0 / (parts[0] + parts[1]), CONFIDENCE)? * square.sqrt()
    } else {
        0.0
    };
    Some(Interval { low: center - half, high: center + half })
}

#[cfg(test)]
mod tests;
