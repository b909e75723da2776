//! What was measured of a comparison: log-ratios by round, or the logarithms of either side.
//!
//! Input: values by round. Output: logarithms in order of rounds, and what a look sees of them.
//! Pure.

use super::flips::MAX_SIGNS;
use super::judged::{Comparison, Family};
use super::labels;
use super::power::{self, Spread};

use crate::stats::estimate::{
    NoRatio, Ratio, deviation, log_ratios, logs_of, mean, ratio_of, ratio_of_sides,
};

/// Additions that the statistics of one comparison are worth, where labels are permuted.
const ADDITIONS_OF_WELCH: usize = 100;

/// Of the rounds before the first that has a value without a logarithm.
pub(super) struct Logs {
    of: Of,
    /// That round, and why it is refused.
    refused: Option<(u32, NoRatio)>,
}

/// In order of rounds.
enum Of {
    Paired(Vec<(u32, f64)>),
    Sides([Vec<(u32, f64)>; 2]),
}

/// What a look sees; never empty.
#[derive(Clone, Copy)]
pub(super) enum Seen<'a> {
    Paired(&'a [(u32, f64)]),
    /// Of the baseline and of the variant.
    Sides([&'a [(u32, f64)]; 2]),
}

impl Logs {
    pub(super) fn new(one: &Comparison, is_paired: bool) -> Logs {
        if is_paired {
            let (logs, refused) =
                up_to_refused(one.variant, |variant| log_ratios(one.baseline, variant));
            return Logs { of: Of::Paired(logs), refused };
        }
        let [(baseline, below), (variant, above)] =
            [one.baseline, one.variant].map(|side| up_to_refused(side, logs_of));
        let refused = below.into_iter().chain(above).min_by_key(|(round, _)| *round);
        Logs { of: Of::Sides([baseline, variant]), refused }
    }

    /// Of rounds below `rounds`; an error where a side has none, or one that is refused. What
    /// comes later changes nothing: a look always sees the same.
    pub(super) fn before(&self, rounds: u32) -> Result<Seen<'_>, NoRatio> {
        fn cut(logs: &[(u32, f64)], rounds: u32) -> &[(u32, f64)] {
            &logs[..logs.partition_point(|(round, _)| *round < rounds)]
        }
        if let Some((_, why)) = self.refused.filter(|(round, _)| *round < rounds) {
            return Err(why);
        }
        match &self.of {
            Of::Paired(logs) => match cut(logs, rounds) {
                [] => Err(NoRatio::NoPairs),
                seen => Ok(Seen::Paired(seen)),
            },
            Of::Sides(sides) => match sides.each_ref().map(|logs| cut(logs, rounds)) {
                [[], _] | [_, []] => Err(NoRatio::NoRuns),
                seen => Ok(Seen::Sides(seen)),
            },
        }
    }
}

type UpToRefused = (Vec<(u32, f64)>, Option<(u32, NoRatio)>);

/// Logarithms of `values` in order of rounds, up to the first round that is refused, and that.
fn up_to_refused(
    values: &[(u32, f64)],
    logs: impl Fn(&[(u32, f64)]) -> Result<Vec<(u32, f64)>, NoRatio>,
) -> UpToRefused {
    let mut values = values.to_vec();
    values.sort_unstable_by_key(|(round, _)| *round);
    match logs(&values) {
        Ok(all) => (all, None),
        Err(why @ NoRatio::NotPositive { round, .. }) => {
            let before = values.partition_point(|(other, _)| *other < round);
            // No value is left, or none of both: a look says so by itself.
            (logs(&values[..before]).unwrap_or_default(), Some((round, why)))
        }
        Err(_) => (Vec::new(), None),
    }
}

impl Seen<'_> {
    pub(super) fn ratio(&self) -> Option<Ratio> {
        match self {
            Seen::Paired(logs) => ratio_of(logs),
            Seen::Sides([baseline, variant]) => ratio_of_sides(baseline, variant),
        }
    }

    /// The logarithm of the ratio.
    pub(super) fn center_ln(&self) -> f64 {
        let center = |logs: &[(u32, f64)]| mean(&values(logs)).unwrap_or(0.0);
        match self {
            Seen::Paired(logs) => center(logs),
            Seen::Sides([baseline, variant]) => center(variant) - center(baseline),
        }
    }

    /// `None` where a side has fewer than two values.
    pub(super) fn spread(&self) -> Option<Spread> {
        let sd_ln = |logs: &[(u32, f64)]| {
            let values = values(logs);
            mean(&values).filter(|_| values.len() >= 2).map(|mean| deviation(&values, mean))
        };
        Some(match self {
            Seen::Paired(logs) => Spread::Paired { sd_ln: sd_ln(logs)? },
            Seen::Sides([baseline, variant]) => {
                let (baseline_sd_ln, variant_sd_ln) = (sd_ln(baseline)?, sd_ln(variant)?);
                Spread::Sides { baseline_sd_ln, variant_sd_ln }
            }
        })
    }

    /// Rounds; of sides that share none the runs of the one that has fewer.
    pub(super) fn rounds(&self) -> u32 {
        let count = match self {
            Seen::Paired(logs) => logs.len(),
            Seen::Sides(sides) => sides[0].len().min(sides[1].len()),
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The number after that of the last round.
    pub(super) fn end(&self) -> u32 {
        let end = |logs: &[(u32, f64)]| logs.last().map_or(0, |(round, _)| round.saturating_add(1));
        match self {
            Seen::Paired(logs) => end(logs),
            Seen::Sides([baseline, variant]) => end(baseline).max(end(variant)),
        }
    }

    /// The least rounds with which any claim is possible, if these are fewer.
    pub(super) fn too_few(&self, alpha: f64, family: &Family) -> Option<u32> {
        let least = power::min_rounds(alpha, family.variants);
        (self.rounds() < least).then_some(least)
    }

    /// What a draw costs.
    pub(super) fn additions(&self) -> usize {
        match self {
            Seen::Paired(logs) => logs.len().min(MAX_SIGNS),
            Seen::Sides(sides) => {
                let (units, _) = labels::units_of(sides.map(<[_]>::len));
                let pairs = sides[0].len().min(sides[1].len()).min(MAX_SIGNS);
                2 * (units[0] + units[1]) + ADDITIONS_OF_WELCH + pairs
            }
        }
    }
}

/// Sides that share no rounds as pairs, as many as the smaller has runs: runs that follow one
/// another are a group, as near to one size as can be, and stand for their mean. The differences
/// of variant and baseline, by group.
pub(super) fn folded([baseline, variant]: [&[(u32, f64)]; 2]) -> Vec<(u32, f64)> {
    let groups = baseline.len().min(variant.len());
    let center = |logs: &[(u32, f64)], group: usize| {
        let (from, to) = (group * logs.len() / groups, (group + 1) * logs.len() / groups);
        mean(&values(&logs[from..to])).unwrap_or(0.0)
    };
    let difference = |group| center(variant, group) - center(baseline, group);
    (0u32..).zip((0..groups).map(difference)).collect()
}

fn values(logs: &[(u32, f64)]) -> Vec<f64> {
    logs.iter().map(|(_, log)| *log).collect()
}
