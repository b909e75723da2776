//! Comparisons, and the judgements on them. Plain data.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::power::Rounds;
use crate::model::Direction;
use crate::stats::effect::{Distance, Effect, NoEffect};

/// The level that verdicts are held against. The claim is 5 %: the rest is kept for deviations that exchangeability
/// does not cover (a start order that matters, variances that differ in few runs), and so that a simulation of the
/// claim does not lie above it every other time.
pub const LEVEL: f64 = 0.04;

/// One metric of one worker set: the variant against the baseline.
#[derive(Debug, Clone, Copy)]
pub struct Comparison<'a> {
    /// The number of its pair of cells. Metrics of the same runs have the same number.
    pub block: usize,
    /// Whether both sides were measured in the same shuffled rounds; else they share none, and round numbers only
    /// distinguish the runs of a side. If one comparison of a call is not paired, all count as not paired.
    pub paired: bool,
    /// `(round, value)`, each round at most once.
    pub baseline: &'a [(u32, f64)],
    /// The variant's `(round, value)`, likewise.
    pub variant: &'a [(u32, f64)],
    /// [`Direction::Neutral`] is not judged.
    pub direction: Direction,
    /// SAME means a ratio between 1 / (1 + margin) and 1 + margin; positive. Values that are compared by their
    /// difference are never SAME: no margin in the metric's unit is known.
    pub margin: f64,
    /// The smallest effect that this machine's own A/A resolves; `None`: not known. A smaller one
    /// is never BETTER or WORSE. It does not hold for an effect on the other scale.
    pub floor: Option<Distance>,
}

/// The comparisons of one variant are judged together: one table, one error rate.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// The number of variants without the baseline, including those of other tables of the report.
    pub variants: usize,
    /// The error rate: of false BETTER or WORSE, and again of false SAME. [`LEVEL`].
    pub alpha: f64,
    /// Patterns of labels to draw where there are too many to go through all.
    pub draws: u32,
    pub seed: u64,
}

impl Family {
    pub fn new(variants: usize, seed: u64) -> Family {
        Family { variants, alpha: LEVEL, draws: 20_000, seed }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Better,
    Worse,
    /// Within the margin, whether there is a difference or not.
    Same,
    Inconclusive {
        why: Why,
        /// All rounds that it would take, including those that are done: an estimate. For sides that share no
        /// rounds: runs of each.
        rounds: Rounds,
    },
    /// Has no part in the table's verdicts.
    Unjudged(Unjudged),
}

/// Why the data do not decide.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Any data of so few rounds would be undecided: it takes at least this many. For sides that share no rounds:
    /// runs of each.
    TooFewRounds { least: u32 },
    /// Alone it would be a difference: its interval excludes 1. With this many comparisons it may be chance.
    OnlyAlone,
    /// Alone it would be the same: its interval lies within the margin.
    SameOnlyAlone,
    /// There may well be a difference, but it is no larger than [`Comparison::floor`]. The rounds
    /// that it would take are those to SAME.
    BelowFloor { floor: Distance },
    /// The test showed it, at this look or an earlier one, but the interval over all rounds denies
    /// it: it holds 1, or goes beyond the margin.
    Denied,
    /// The interval holds 1, and more than the margin.
    Noise,
}

/// The ratios that were excluded: SAME needs both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Excluded {
    /// Ratios at or above 1 + margin.
    pub above: bool,
    /// Ratios at or below 1 / (1 + margin).
    pub below: bool,
}

/// Why there is no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unjudged {
    #[serde(rename = "no_ratio")]
    NoEffect(NoEffect),
    /// More is neither better nor worse.
    Neutral,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Judged {
    /// From all rounds, with the interval of this comparison alone. None where a round came later
    /// than the verdict with a value that cannot be compared; the verdict stays.
    #[serde(rename = "ratio", serialize_with = "effect_or_reason")]
    pub effect: Result<Effect, NoEffect>,
    pub verdict: Verdict,
    /// Adjusted for the whole table and all variants; to be held against alpha, or the share of it that the look had.
    /// It comes from the last look that tested it: a difference that was shown is not tested again.
    pub p_difference: Option<f64>,
    /// Like `p_difference`, for SAME.
    pub p_same: Option<f64>,
    /// The largest effect that an undecided comparison may have, at the error rate that all bounds of the table and
    /// of all variants share. `None`: decided, or too few rounds.
    pub bound: Option<Distance>,
    /// The sides of the margin that were excluded, each with half of the error rate of SAME.
    #[serde(skip)]
    pub excluded: Excluded,
    /// After how many rounds the verdict fell: those of the look, or all. `None` while there is
    /// none.
    pub decided_at: Option<u32>,
}

impl Judged {
    /// No verdict, and no figure that could be taken for one.
    pub fn without_effect(why: NoEffect) -> Judged {
        Judged {
            effect: Err(why),
            verdict: Verdict::Unjudged(Unjudged::NoEffect(why)),
            p_difference: None,
            p_same: None,
            bound: None,
            excluded: Excluded::default(),
            decided_at: None,
        }
    }
}

/// `{"ratio": 1.02, ...}`, `{"difference": 0.3, ...}`, or `{"none": "no_pairs"}`.
fn effect_or_reason<S: Serializer>(
    effect: &Result<Effect, NoEffect>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match effect {
        Ok(effect) => effect.serialize(serializer),
        Err(none) => {
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry("none", none)?;
            map.end()
        }
    }
}
