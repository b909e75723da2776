//! How a variant differs from its baseline: a ratio with its interval, or a difference where a
//! value has no logarithm.
//!
//! Plain data. Method: docs/verdicts.md.

use std::cmp::Ordering;

use serde::Serialize;

/// A variant against its baseline: from rounds that have both, or from all runs of either.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Effect {
    Ratio(Ratio),
    /// A value is 0 or negative, so no ratio is defined: from never to often is not a factor.
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
    /// For sides that share no rounds: the runs of the side that has fewer.
    pub pairs: usize,
}

/// A variant less its baseline, in the metric's own unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanDifference {
    /// The mean of the differences within rounds; of sides that share no rounds the difference
    /// of the means.
    pub difference: f64,
    /// See [`Ratio::interval`].
    pub interval: Option<Interval>,
    /// See [`Ratio::pairs`].
    pub pairs: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// A distance from no change: as a ratio's distance from 1 (0.1: between 1 / 1.1 and 1.1), or in the
/// metric's unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    Ratio(f64),
    Difference(f64),
}

impl Distance {
    pub fn value(self) -> f64 {
        let (Distance::Ratio(value) | Distance::Difference(value)) = self;
        value
    }

    /// The larger one; `None` where one is a ratio and one a difference.
    pub fn max(self, other: Distance) -> Option<Distance> {
        match (self, other) {
            (Distance::Ratio(one), Distance::Ratio(other)) => Some(Distance::Ratio(one.max(other))),
            (Distance::Difference(one), Distance::Difference(other)) => {
                Some(Distance::Difference(one.max(other)))
            }
            _ => None,
        }
    }
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

    /// The side of "no change" on which the whole interval lies. `Equal`: on neither, or there is no interval.
    pub fn side(&self) -> Ordering {
        let neutral = self.neutral();
        match self.interval() {
            Some(interval) if interval.low > neutral => Ordering::Greater,
            Some(interval) if interval.high < neutral => Ordering::Less,
            _ => Ordering::Equal,
        }
    }

    /// Whether the interval lies within a ratio's margin. A difference has no margin but 0.
    pub fn is_within(&self, margin: f64) -> bool {
        match (self, self.interval()) {
            (_, None) => false,
            (Effect::Ratio(_), Some(Interval { low, high })) => {
                low > 1.0 / (1.0 + margin) && high < 1.0 + margin
            }
            (Effect::Difference(_), Some(Interval { low, high })) => low == 0.0 && high == 0.0,
        }
    }

    /// The larger distance of the interval's ends from no change.
    pub fn reach(&self) -> Option<Distance> {
        let Interval { low, high } = self.interval()?;
        Some(match self {
            Effect::Ratio(_) => Distance::Ratio(high.max(1.0 / low) - 1.0),
            Effect::Difference(_) => Distance::Difference(high.max(-low)),
        })
    }

    /// Its size next to others: the logarithm of a ratio. An effect that has no factor comes before all that have
    /// one.
    pub fn size(&self) -> f64 {
        match self {
            Effect::Ratio(ratio) => ratio.ratio.ln().abs(),
            Effect::Difference(_) => f64::INFINITY,
        }
    }
}

/// Why there is nothing to compare.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum NoEffect {
    /// The two sides have no round in common.
    #[error("no round has a value of both")]
    NoPairs,
    /// Sides that share no rounds, and one has no value at all.
    #[error("one side has no value")]
    NoRuns,
    /// A value is infinite or not a number. Leaving it out would favour one side, so the whole
    /// comparison is refused.
    #[error("round {round} has {value}")]
    NotFinite { round: u32, value: f64 },
    /// Runs of each side, baseline first, without a value, and all of them: too many are without one,
    /// or too many more on one side. Runs that have a value may be those that went well.
    #[error(
        "no value in {} of {} runs, and of the baseline in {} of {}: the others may be those that went well",
        .lacking[1], .runs[1], .lacking[0], .runs[0]
    )]
    OftenUnknown { lacking: [u32; 2], runs: [u32; 2] },
}
