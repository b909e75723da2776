//! Step-down max-T: adjusted p-values of a whole table from statistics under redrawn labels.
//!
//! Input: a [`Scheme`], which redraws the labels and computes the statistics. Output: for each
//! comparison and side the adjusted p-value. Pure: the caller passes the seed. Method:
//! docs/verdicts.md.
//!
//! Source: Westfall and Young, *Resampling-Based Multiple Testing* (1993), algorithm 2.8, with
//! the randomisation test of Fisher (1935) and Pitman (1937) in place of resampling.

use std::ops::Range;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Draws that are computed together: the bits of one word.
pub(super) const LANES: usize = 64;
/// Up to this many patterns of labels all are counted, and nothing is drawn.
pub(super) const MAX_ENUMERATED: u64 = 1 << 14;
/// Statistics closer than this are one and the same: rounding may not break a tie.
const TIE: f64 = 1e-9;
/// Logarithms that scatter by less than this say nothing: the scatter may be rounding.
pub(super) const ROUNDING: f64 = 1e-9;

pub(super) type Lanes = [f64; LANES];

/// The hypothesis that a test speaks against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Null {
    /// "No difference", both ways.
    NoDifference,
    /// "At least the margin above".
    TooHigh,
    /// "At least the margin below".
    TooLow,
}

pub(super) const NULLS: [Null; 3] = [Null::NoDifference, Null::TooHigh, Null::TooLow];

impl Null {
    /// The shift of a variant's logarithms, and the sign that makes a large statistic speak against the side.
    pub(super) fn shift_and_turn(self, margin_ln: f64) -> (f64, f64) {
        match self {
            Null::NoDifference => (0.0, 1.0),
            Null::TooHigh => (margin_ln, -1.0),
            Null::TooLow => (-margin_ln, 1.0),
        }
    }
}

/// Redraws labels, and computes the statistics that they give.
pub(super) trait Scheme {
    /// The labels as they were measured, in every lane.
    fn observe(&mut self);
    /// Draws the next labels, a lane each; returns how many lanes count, `None` at the end.
    fn draw(&mut self) -> Option<usize>;
    /// The statistic of a comparison in each lane; a large one speaks against the side.
    fn statistic(&self, at: usize, side: Null, values: &mut Lanes);
    /// The p-value from all draws, if no other reaches it.
    fn p_value(&self, reached: u64) -> f64;
    /// Draws no more: p-values come from the draws so far. Does nothing where patterns are enumerated.
    fn stop(&mut self);
}

/// The limit for p-values, and the least draws before drawing may end early.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    pub alpha: f64,
    /// By side: the factor of a p-value.
    pub times: [f64; 3],
    /// The least number of draws, so that p-values do not become coarse.
    pub min_draws: u64,
}

impl Limit {
    /// A limit that takes all draws, and rejects nothing.
    #[cfg(test)]
    pub(super) const NONE: Limit = Limit { alpha: 0.0, times: [1.0; 3], min_draws: u64::MAX };

    /// The p-value that is reported, in multiples that make all sides comparable.
    pub(super) fn scaled(&self, side: usize, p_value: f64) -> f64 {
        (p_value * self.times[side]).min(1.0)
    }

    pub(super) fn rejects(&self, side: usize, p_value: f64) -> bool {
        self.scaled(side, p_value) <= self.alpha
    }
}

/// A comparison's part in a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Not a member.
    Out,
    /// It keeps its place among the others, but is not tested itself.
    Counted,
    Tested,
}

/// Adjusted p-values, by side and then by comparison; `None` where a comparison is not tested.
///
/// Draws end early where further ones cannot change what is rejected: where on no side even the most significant
/// test would be, if none of the draws to come reached it. Its p-value from fewer draws is then above the limit as
/// well (it is as valid: Besag and Clifford, "Sequential Monte Carlo p-values", Biometrika 78, 1991).
pub(super) fn adjusted<S: Scheme>(
    mut scheme: S,
    parts: [&[Part]; 3],
    limit: &Limit,
) -> [Vec<Option<f64>>; 3] {
    scheme.observe();
    let mut families = [0, 1, 2].map(|side| Family::new(&scheme, NULLS[side], parts[side]));
    let mut done = 0;
    while let Some(lanes) = scheme.draw() {
        for family in &mut families {
            family.count(&scheme, lanes);
        }
        done += lanes as u64;
        let may_reject = |(side, family): (usize, &Family)| {
            let first = family.members.last();
            first.is_some_and(|one| limit.rejects(side, scheme.p_value(one.reached)))
        };
        if done >= limit.min_draws && !families.iter().enumerate().any(may_reject) {
            scheme.stop();
        }
    }
    [0, 1, 2].map(|side| families[side].p_values(parts[side], &scheme))
}

/// One side's tests, the least significant first.
struct Family {
    side: Null,
    members: Vec<Member>,
}

struct Member {
    at: usize,
    /// The observed statistic, less the largest rounding error.
    least: f64,
    /// Draws in which this test or a less significant one reaches it.
    reached: u64,
}

impl Family {
    fn new<S: Scheme>(observed: &S, side: Null, parts: &[Part]) -> Family {
        let mut values = [0.0; LANES];
        let members = parts.iter().enumerate().filter(|(_, part)| **part != Part::Out);
        let mut members: Vec<Member> = members
            .map(|(at, part)| {
                observed.statistic(at, side, &mut values);
                // A comparison that is only counted stands below all that are tested.
                let is_tested = *part == Part::Tested;
                let least = if is_tested { values[0] - TIE } else { f64::NEG_INFINITY };
                Member { at, least, reached: 0 }
            })
            .collect();
        members.sort_by(|a, b| a.least.total_cmp(&b.least));
        Family { side, members }
    }

    fn count<S: Scheme>(&mut self, drawn: &S, lanes: usize) {
        let (mut largest, mut values) = ([f64::NEG_INFINITY; LANES], [0.0; LANES]);
        for Member { at, least, reached } in &mut self.members {
            drawn.statistic(*at, self.side, &mut values);
            for (largest, value) in largest.iter_mut().zip(&values) {
                *largest = if value > largest { *value } else { *largest };
            }
            *reached += largest[..lanes].iter().map(|value| u64::from(value >= least)).sum::<u64>();
        }
    }

    /// From the most significant on no p-value is below the one before it.
    fn p_values<S: Scheme>(&self, parts: &[Part], scheme: &S) -> Vec<Option<f64>> {
        let mut p_values = vec![None; parts.len()];
        let mut least = 0.0f64;
        let is_tested = |member: &&Member| parts[member.at] == Part::Tested;
        for member in self.members.iter().rev().filter(is_tested) {
            least = least.max(scheme.p_value(member.reached));
            p_values[member.at] = Some(least);
        }
        p_values
    }
}

/// Lanes whose sums stay in registers while all values of a row are added.
const STRIDE: usize = 16;

/// Adds to the sum of each row its values, each times the `factor` of the bit that its word has for the lane. The order
/// of the additions is that of the values.
pub(super) fn add_products(
    words: &[u64],
    factor: fn(u64) -> f64,
    rows: &mut [(&[f64], &mut Lanes)],
) {
    let mut factors = vec![[0.0; STRIDE]; words.len()];
    for first in (0..LANES).step_by(STRIDE) {
        for (factors, word) in factors.iter_mut().zip(words) {
            *factors = std::array::from_fn(|lane| factor(word >> (first + lane) & 1));
        }
        for (values, sums) in &mut *rows {
            let sums = &mut sums[first..first + STRIDE];
            let mut added: [f64; STRIDE] = std::array::from_fn(|lane| sums[lane]);
            for (value, factors) in values.iter().zip(&factors) {
                for (added, factor) in added.iter_mut().zip(factors) {
                    *added += factor * value;
                }
            }
            sums.copy_from_slice(&added);
        }
    }
}

/// The patterns of labels that are gone through: all in order, or some that are drawn.
pub(super) struct Draws {
    total: u64,
    done: u64,
    rng: Option<ChaCha8Rng>,
}

impl Draws {
    /// All patterns where they are few (`None`: too many to count), else `draws` of them.
    pub(super) fn new(patterns: Option<u64>, draws: u32, seed: u64) -> Draws {
        if let Some(total) = patterns.filter(|count| *count <= MAX_ENUMERATED) {
            return Draws { total, done: 0, rng: None };
        }
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Draws { total: u64::from(draws), done: 0, rng: Some(ChaCha8Rng::from_seed(key)) }
    }

    /// The numbers of the next patterns, one a lane; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Range<u64>> {
        let first = self.done;
        self.done = self.total.min(first + LANES as u64);
        (first < self.done).then_some(first..self.done)
    }

    /// A random word, where patterns are drawn.
    pub(super) fn word(&mut self) -> Option<u64> {
        self.rng.as_mut().map(Rng::next_u64)
    }

    /// Ends drawing: no patterns follow those drawn so far.
    pub(super) fn stop(&mut self) {
        if self.rng.is_some() {
            self.total = self.done;
        }
    }

    /// Enumerated patterns hold the one that was measured; among drawn ones it is added, which
    /// keeps the test exact however few there are (Phipson and Smyth, 2010).
    pub(super) fn p_value(&self, reached: u64) -> f64 {
        match self.rng {
            None => reached as f64 / self.total as f64,
            Some(_) => (reached + 1) as f64 / (self.total + 1) as f64,
        }
    }
}
