//! Both sides of a comparison on the scale on which they are compared.
//!
//! Input: values by round. Output: in order of rounds their logarithms, or the values themselves where one has no
//! logarithm, and the values at a look. Pure.
//!
//! Whether a value of either side has no logarithm is the same whatever sign a round or label a run has, so tests
//! that redraw these stay exact on either scale.

use std::collections::BTreeMap;

use super::effect::{Effect, Interval, MeanDifference, NoEffect, Ratio};
use super::estimate::{deviation, mean};
use super::interval::{CONFIDENCE, exponential, paired_limits, welch_limits};

pub(super) struct Samples {
    /// Values of the rounds before [`Samples::first_without_log`].
    logs: Sides,
    /// Values of all rounds, as parts of `unit`; empty where all values have logarithms.
    parts: Sides,
    first_without_log: Option<u32>,
    /// The largest value without its sign.
    unit: f64,
    /// The first round with a value that is infinite or not a number.
    not_finite: Option<(u32, f64)>,
}

/// Values in the order of rounds.
enum Sides {
    /// The variant's value less the baseline's.
    Paired(Vec<(u32, f64)>),
    /// The baseline's values and the variant's.
    Separate([Vec<(u32, f64)>; 2]),
}

/// The scale of the numbers in a [`Seen`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    Log,
    /// Values over the largest of them.
    Linear {
        unit: f64,
    },
}

/// The values at a look; never empty.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    pub values: Values<'a>,
    pub scale: Scale,
}

#[derive(Clone, Copy)]
pub(super) enum Values<'a> {
    Paired(&'a [(u32, f64)]),
    /// The baseline's values and the variant's.
    Separate([&'a [(u32, f64)]; 2]),
}

impl Samples {
    /// The rounds that both sides have.
    pub(super) fn paired(baseline: &[(u32, f64)], variant: &[(u32, f64)]) -> Samples {
        let both = pairs(baseline, variant);
        let all = || both.iter().flat_map(|(round, pair)| pair.map(|value| (*round, value)));
        let on = |scale: fn(f64, f64) -> f64, unit: f64, end: u32| {
            let seen = both.iter().take_while(|(round, _)| *round < end);
            let pairs = seen
                .map(|(round, [below, above])| (*round, scale(*above, unit) - scale(*below, unit)));
            Sides::Paired(pairs.collect())
        };
        Samples::new(all, on)
    }

    /// All runs of either side.
    pub(super) fn sides(baseline: &[(u32, f64)], variant: &[(u32, f64)]) -> Samples {
        let sides = [baseline, variant].map(|side| {
            let mut side = side.to_vec();
            side.sort_unstable_by_key(|(round, _)| *round);
            side
        });
        let all = || sides.iter().flatten().copied();
        let on = |scale: fn(f64, f64) -> f64, unit: f64, end: u32| {
            let one = |side: &Vec<(u32, f64)>| {
                let seen = side.iter().take_while(|(round, _)| *round < end);
                seen.map(|(round, value)| (*round, scale(*value, unit))).collect()
            };
            Sides::Separate(sides.each_ref().map(one))
        };
        Samples::new(all, on)
    }

    fn new<I: Iterator<Item = (u32, f64)>>(
        all: impl Fn() -> I,
        on: impl Fn(fn(f64, f64) -> f64, f64, u32) -> Sides,
    ) -> Samples {
        let earliest = |is: fn(f64) -> bool| {
            all().filter(|(_, value)| is(*value)).min_by_key(|(round, _)| *round)
        };
        let not_finite = earliest(|value| !value.is_finite());
        let first_without_log = earliest(|value| value <= 0.0).map(|(round, _)| round);
        let end = not_finite.map_or(u32::MAX, |(round, _)| round);
        let before = all().filter(|(round, _)| *round < end);
        let unit = before.map(|(_, value)| value.abs()).fold(0.0, f64::max);
        let unit = if unit > 0.0 { unit } else { 1.0 };
        let log: fn(f64, f64) -> f64 = |value, _| value.ln();
        let part: fn(f64, f64) -> f64 = |value, unit| value / unit;
        Samples {
            logs: on(log, unit, first_without_log.unwrap_or(u32::MAX).min(end)),
            parts: on(part, unit, if first_without_log.is_some() { end } else { 0 }),
            first_without_log,
            unit,
            not_finite,
        }
    }

    /// The values of rounds below `rounds`; an error where a side has none, or one that is refused. Later rounds
    /// change nothing: a look always sees the same.
    pub(super) fn before(&self, rounds: u32) -> Result<Seen<'_>, NoEffect> {
        fn cut(values: &[(u32, f64)], rounds: u32) -> &[(u32, f64)] {
            &values[..values.partition_point(|(round, _)| *round < rounds)]
        }
        if let Some((round, value)) = self.not_finite.filter(|(round, _)| *round < rounds) {
            return Err(NoEffect::NotFinite { round, value });
        }
        let (sides, scale) = match self.first_without_log {
            Some(first) if first < rounds => (&self.parts, Scale::Linear { unit: self.unit }),
            _ => (&self.logs, Scale::Log),
        };
        let values = match sides {
            Sides::Paired(values) => match cut(values, rounds) {
                [] => return Err(NoEffect::NoPairs),
                seen => Values::Paired(seen),
            },
            Sides::Separate(sides) => match sides.each_ref().map(|values| cut(values, rounds)) {
                [[], _] | [_, []] => return Err(NoEffect::NoRuns),
                seen => Values::Separate(seen),
            },
        };
        Ok(Seen { values, scale })
    }
}

impl Seen<'_> {
    pub(super) fn is_log(&self) -> bool {
        self.scale == Scale::Log
    }

    pub(super) fn effect(&self) -> Effect {
        self.effect_with(CONFIDENCE)
    }

    /// The effect with an interval of this confidence.
    pub(super) fn effect_with(&self, confidence: f64) -> Effect {
        let (interval, pairs) = match self.values {
            Values::Paired(values) => (paired_limits(&numbers(values), confidence), values.len()),
            Values::Separate([baseline, variant]) => {
                let [below, above] = [baseline, variant].map(numbers);
                let interval = welch_limits(&below, &above, confidence);
                (interval, baseline.len().min(variant.len()))
            }
        };
        let center = self.center();
        match self.scale {
            Scale::Log => {
                let interval = interval.map(|of| exponential(&of));
                Effect::Ratio(Ratio { ratio: center.exp(), interval, pairs })
            }
            Scale::Linear { unit } => {
                let interval =
                    interval.map(|of| Interval { low: of.low * unit, high: of.high * unit });
                Effect::Difference(MeanDifference { difference: center * unit, interval, pairs })
            }
        }
    }

    /// The mean on the scale: the logarithm of a ratio, or a difference over the unit.
    pub(super) fn center(&self) -> f64 {
        let center = |values: &[(u32, f64)]| mean(&numbers(values)).unwrap_or(0.0);
        match self.values {
            Values::Paired(values) => center(values),
            Values::Separate([baseline, variant]) => center(variant) - center(baseline),
        }
    }

    /// Standard deviations of pairs, or of each side. `None` where a side has fewer than two values.
    pub(super) fn deviations(&self) -> Option<Vec<f64>> {
        let one = |values: &[(u32, f64)]| {
            let values = numbers(values);
            mean(&values).filter(|_| values.len() >= 2).map(|mean| deviation(&values, mean))
        };
        match self.values {
            Values::Paired(values) => Some(vec![one(values)?]),
            Values::Separate([baseline, variant]) => Some(vec![one(baseline)?, one(variant)?]),
        }
    }

    /// Whether both sides have the same value in each round that they share.
    pub(super) fn is_equal(&self) -> bool {
        matches!(self.values, Values::Paired(values) if values.iter().all(|(_, of)| *of == 0.0))
    }

    /// The number of rounds; for sides that share none, the runs of the side that has fewer.
    pub(super) fn rounds(&self) -> u32 {
        let count = match self.values {
            Values::Paired(values) => values.len(),
            Values::Separate(sides) => sides[0].len().min(sides[1].len()),
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The number after that of the last round.
    pub(super) fn end(&self) -> u32 {
        let end =
            |values: &[(u32, f64)]| values.last().map_or(0, |(round, _)| round.saturating_add(1));
        match self.values {
            Values::Paired(values) => end(values),
            Values::Separate([baseline, variant]) => end(baseline).max(end(variant)),
        }
    }
}

/// The effect of `variant` against `baseline`, both `(round, value)`, each round at most once, over the rounds that
/// have both: a geometric mean of ratios, or a mean of differences.
///
/// A drift from round to round multiplies both values of a pair and cancels.
pub fn paired_effect(baseline: &[(u32, f64)], variant: &[(u32, f64)]) -> Result<Effect, NoEffect> {
    paired_effect_with(baseline, variant, CONFIDENCE)
}

/// [`paired_effect`] with an interval of this confidence.
pub fn paired_effect_with(
    baseline: &[(u32, f64)],
    variant: &[(u32, f64)],
    confidence: f64,
) -> Result<Effect, NoEffect> {
    Samples::paired(baseline, variant).before(u32::MAX).map(|seen| seen.effect_with(confidence))
}

/// Like [`paired_effect`], for sides that were measured at different times: the ratio of geometric means, or the
/// difference of means, with Welch's interval.
///
/// Nothing cancels: drift between the two times is in it.
pub fn unpaired_effect(
    baseline: &[(u32, f64)],
    variant: &[(u32, f64)],
) -> Result<Effect, NoEffect> {
    Samples::sides(baseline, variant).before(u32::MAX).map(|seen| seen.effect())
}

/// `(round, ln(variant / baseline))` of the rounds that have both, in order. `None` without such a
/// round, or where a value has no logarithm.
pub fn log_ratios(baseline: &[(u32, f64)], variant: &[(u32, f64)]) -> Option<Vec<(u32, f64)>> {
    match Samples::paired(baseline, variant).before(u32::MAX).ok()? {
        Seen { values: Values::Paired(logs), scale: Scale::Log } => Some(logs.to_vec()),
        _ => None,
    }
}

/// Like [`log_ratios`], for any values: the variant's less the baseline's, in the metric's unit.
pub fn differences(baseline: &[(u32, f64)], variant: &[(u32, f64)]) -> Vec<f64> {
    pairs(baseline, variant).into_iter().map(|(_, [below, above])| above - below).collect()
}

/// The values of the rounds that both sides have, in order.
fn pairs(baseline: &[(u32, f64)], variant: &[(u32, f64)]) -> Vec<(u32, [f64; 2])> {
    let below: BTreeMap<u32, f64> = baseline.iter().copied().collect();
    let both = variant.iter().filter_map(|(round, above)| {
        let below = below.get(round)?;
        Some((*round, [*below, *above]))
    });
    let mut both: Vec<(u32, [f64; 2])> = both.collect();
    both.sort_unstable_by_key(|(round, _)| *round);
    both
}

/// Sides that share no rounds as pairs, as many as the smaller has runs: runs that follow one
/// another are a group, as near to one size as can be, and stand for their mean. The differences
/// of variant and baseline, by group.
pub(super) fn folded([baseline, variant]: [&[(u32, f64)]; 2]) -> Vec<(u32, f64)> {
    let groups = baseline.len().min(variant.len());
    let center = |values: &[(u32, f64)], group: usize| {
        let (from, to) = (group * values.len() / groups, (group + 1) * values.len() / groups);
        mean(&numbers(&values[from..to])).unwrap_or(0.0)
    };
    let difference = |group| center(variant, group) - center(baseline, group);
    (0u32..).zip((0..groups).map(difference)).collect()
}

pub(super) fn numbers(values: &[(u32, f64)]) -> Vec<f64> {
    values.iter().map(|(_, value)| *value).collect()
}

#[cfg(test)]
mod tests;
