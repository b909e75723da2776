//! The interval that sign flips give: the centres that their test does not reject.
//!
//! Input: values that scatter around a centre, symmetrically. Output: its limits. Pure, and
//! seeded by a constant: the same values always have the same interval.
//!
//! Moved by a centre, the signs of n values fall in 2^n equally likely ways. A flip of the values
//! in a set S reaches the observed sum where the mean of S does not exceed the centre. So the
//! one-sided p-value of a centre is the share of sets whose mean does not exceed it (the empty
//! set counts), and the limits are ranks among the means of all sets. Source: Hartigan, "Using
//! Subsample Values as Typical Values", Journal of the American Statistical Association 64, 1969;
//! Maritz, "A Note on Exact Robust Confidence Intervals for Location", Biometrika 66, 1979.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::effect::Interval;

/// Up to this number of values all sets are gone through.
const MAX_ENUMERATED: usize = 12;
/// The least number of drawn sets: limits are then good to some 2 % of half the width.
const MIN_DRAWN: usize = 1 << 12;
/// Number of drawn sets that lie beyond a limit, unless that takes more than [`MAX_DRAWN`].
const RANK: f64 = 100.0;
/// With fewer sets beyond it a limit would be chance.
const MIN_RANK: f64 = 10.0;
/// More are never drawn.
const MAX_DRAWN: usize = 1 << 15;
/// The largest number of signs. More values are flipped in groups that follow one another, here and in the test: a
/// subgroup of all flips, which is as exact and loses next to no power.
pub(super) const MAX_SIGNS: usize = 256;
/// Parts whose sums are looked up together: the bits of a byte.
const CHUNK: usize = 8;

/// A value, or some that are flipped together: their sum and number.
type Part = (f64, f64);

/// Limits that miss the centre with probability `error` at most, half of it on either side.
/// `None` where the signs of so few values fall in too few ways, or where too many would have to be drawn.
pub(super) fn flip_limits(values: &[f64], error: f64) -> Option<Interval> {
    let parts = grouped(values);
    let (mut means, all): (Vec<f64>, usize) = match parts.len() {
        0..=MAX_ENUMERATED => {
            let sums = sums(&parts);
            (sums[1..].iter().map(|(sum, count)| sum / count).collect(), sums.len())
        }
        _ => {
            let drawn = number_of_draws(error)?;
            (drawn_means(&parts, drawn), drawn + 1)
        }
    };
    // Half a set more allows for rounding; a rank of 0 is the empty set, which has no limit.
    let rank = (error / 2.0 * all as f64 + 1e-9).floor() as usize;
    let last = means.len().checked_sub(rank).filter(|_| rank > 0)?;
    let low = *means.select_nth_unstable_by(rank - 1, f64::total_cmp).1;
    let high = *means.select_nth_unstable_by(last, f64::total_cmp).1;
    Some(Interval { low, high })
}

/// How many sets to draw; `None` where even the most are too few.
fn number_of_draws(error: f64) -> Option<usize> {
    let wanted = (2.0 * RANK / error).ceil() as usize;
    let are_enough = error / 2.0 * MAX_DRAWN as f64 >= MIN_RANK;
    are_enough.then_some(wanted.clamp(MIN_DRAWN, MAX_DRAWN))
}

fn grouped(values: &[f64]) -> Vec<Part> {
    let count = values.len().min(MAX_SIGNS);
    let mut parts = vec![(0.0, 0.0); count];
    for (at, value) in values.iter().enumerate() {
        let part = &mut parts[at * count / values.len()];
        *part = (part.0 + value, part.1 + 1.0);
    }
    parts
}

/// Draws means. A draw takes a byte of random bits for each chunk of parts, and looks up their sum.
fn drawn_means(parts: &[Part], count: usize) -> Vec<f64> {
    let chunks: Vec<Vec<Part>> = parts.chunks(CHUNK).map(sums).collect();
    let mut rng = ChaCha8Rng::from_seed([0; 32]);
    let mut means = Vec::with_capacity(count);
    while means.len() < count {
        let (mut sum, mut number) = (0.0, 0.0);
        for eight in chunks.chunks(8) {
            let mut word = rng.next_u64();
            for chunk in eight {
                let part = chunk[word as usize & (chunk.len() - 1)];
                (sum, number) = (sum + part.0, number + part.1);
                word >>= CHUNK;
            }
        }
        // The empty set has no mean; it is counted already.
        means.extend((number > 0.0).then(|| sum / number));
    }
    means
}

/// The sum of each set, the empty one first.
fn sums(parts: &[Part]) -> Vec<Part> {
    let mut sums: Vec<Part> = vec![(0.0, 0.0); 1 << parts.len()];
    for set in 1..sums.len() {
        let (rest, part) = (sums[set & (set - 1)], parts[set.trailing_zeros() as usize]);
        sums[set] = (rest.0 + part.0, rest.1 + part.1);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::simulate::Random;

    #[test]
    fn rarer_errors_take_more_draws_up_to_a_limit() {
        let cases = [
            (0.1, Some(MIN_DRAWN)),
            (0.04, Some(5_000)),
            (0.01, Some(20_000)),
            (0.001, Some(MAX_DRAWN)),
            (0.000_6, None),
        ];
        for (error, expected) in cases {
            assert_eq!(number_of_draws(error), expected, "{error}");
        }
        assert_eq!(drawn_means(&[(1.0, 1.0), (2.0, 1.0)], 100).len(), 100);
    }

    #[test]
    fn limits_from_drawn_sets_come_near_to_those_from_all() {
        let mut random = Random::new(5);
        let values: Vec<f64> = (0..14).map(|_| random.normal()).collect();
        let mut means: Vec<f64> =
            sums(&grouped(&values))[1..].iter().map(|(sum, count)| sum / count).collect();
        means.sort_by(f64::total_cmp);
        for error in [0.01, 0.05, 0.3] {
            let rank = (error / 2.0 * (1 << 14) as f64) as usize;
            let (low, high) = (means[rank - 1], means[means.len() - rank]);
            let drawn = flip_limits(&values, error).unwrap();
            let most = 0.05 * (high - low);
            assert!((drawn.low - low).abs() < most, "{error}: {drawn:?} {low}");
            assert!((drawn.high - high).abs() < most, "{error}: {drawn:?} {high}");
        }
        assert_eq!(flip_limits(&values, 0.000_6), None);
    }
}
