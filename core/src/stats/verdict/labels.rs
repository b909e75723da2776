//! Unpaired sides: statistics under random permutations of labels.
//!
//! Input: logarithms of both sides by block and round. Output: a [`Scheme`] for the step-down
//! test. Pure: the caller passes the seed. Method: docs/verdicts.md.
//!
//! Under "the variant changes nothing" all runs of a block are exchangeable, so any of them may be
//! called the variant's, as many as it has, in all metrics of the block together. The statistic
//! is Welch's t, by its p-value, made anew from each draw: exact where runs are exchangeable, and right for many
//! runs where the variances differ. Sources: Janssen, "Studentized Permutation Tests for
//! Non-i.i.d. Hypotheses and the Generalized Behrens-Fisher Problem", Statistics and Probability
//! Letters 36, 1997; Chung and Romano, "Exact and Asymptotically Robust Permutation Tests",
//! Annals of Statistics 41, 2013.

use std::collections::BTreeMap;

use super::stepdown::{
    Draws, LANES, Lanes, MAX_ENUMERATED, NULLS, Null, ROUNDING, Scheme, add_products,
};
use crate::stats::estimate::mean;

/// Runs beyond this number on a side change labels in groups that follow one another, all of
/// one size: a subgroup of all permutations, and the test is as exact.
pub(super) const MAX_UNITS: usize = 256;
/// But no side has fewer groups than this because the other has many runs.
const MIN_UNITS: usize = 32;
/// The largest number of units whose patterns fit a word.
const MAX_OF_A_WORD: usize = 63;

/// The logarithms of one comparison.
pub(super) struct Series<'a> {
    pub block: usize,
    /// The baseline's and the variant's: `(round, logarithm)`, each round at most once.
    pub logs: [&'a [(u32, f64)]; 2],
    /// The margin as a log-ratio, positive.
    pub margin_ln: f64,
}

pub(super) struct Labels {
    blocks: Vec<Block>,
    places: Vec<Place>,
    draws: Draws,
    /// The sums of each row over runs that are labelled the variant's.
    sums: Vec<BySide>,
    /// The weights for each row that counts runs.
    weights: Vec<Weights>,
}

/// A sum over runs that were measured on the baseline, and one over those of the variant.
type BySide = [Lanes; 2];

/// A comparison's rows of values and of their squares, the row that counts its runs, and its tests by side.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    having: usize,
    weights: usize,
    tests: [Test; 3],
}

/// The runs of one pair of cells.
struct Block {
    runs: [Runs; 2],
    /// One for each unit, the baseline's first: a lane's bit says that the variant has it.
    words: Vec<u64>,
    /// The units, in an order that each draw shuffles further.
    order: Vec<usize>,
    /// All patterns, where they are gone through.
    patterns: Vec<u64>,
    first_row: usize,
    rows: Vec<Row>,
    /// Rows of counts, each with the place of its weights.
    counts: Vec<(usize, usize)>,
}

/// The number of units of each side that may change sides, and the number of runs of a unit.
pub(super) fn units_of(runs: [usize; 2]) -> ([usize; 2], usize) {
    let (fewer, more) = (runs[0].min(runs[1]), runs[0].max(runs[1]));
    let size = more.div_ceil(MAX_UNITS).min(fewer / MIN_UNITS).max(1);
    (runs.map(|runs| runs / size), size)
}

/// The runs of one side: units of `size` runs each may change sides, the rest stays.
struct Runs {
    rounds: Vec<u32>,
    size: usize,
}

/// Something of each run, by unit.
#[derive(Clone, PartialEq)]
struct Row {
    units: Vec<f64>,
    /// The sums of the runs that stay, by side.
    rest: [f64; 2],
}

impl Labels {
    /// `draws` counts only where not all patterns are enumerated.
    pub(super) fn new(series: &[Series], draws: u32, seed: u64) -> Labels {
        let mut by_block: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, one) in series.iter().enumerate() {
            by_block.entry(one.block).or_default().push(at);
        }
        let none = Place { row: 0, having: 0, weights: 0, tests: [Test::default(); 3] };
        let mut places = vec![none; series.len()];
        let (mut blocks, mut rows, mut weights) = (Vec::new(), 0, 0);
        for members in by_block.values() {
            let mut block = Block::new(series, members, rows);
            for &at in members {
                places[at] = block.add(&series[at], &mut weights);
            }
            rows += block.rows.len();
            blocks.push(block);
        }
        let mut counts = blocks.iter().map(Block::count_patterns);
        let all = counts.try_fold(1u64, |all, count| all.checked_mul(count?));
        let all = all.filter(|count| *count <= MAX_ENUMERATED);
        if all.is_some() {
            blocks.iter_mut().for_each(Block::enumerate);
        }
        let draws = Draws::new(all, draws, seed);
        let sums = vec![[[0.0; LANES]; 2]; rows];
        Labels { blocks, places, draws, sums, weights: vec![Weights::default(); weights] }
    }

    fn sum(&mut self) {
        for block in &self.blocks {
            let sums = &mut self.sums[block.first_row..block.first_row + block.rows.len()];
            block.sum(sums);
            for (row, weights) in &block.counts {
                let total = block.rows[*row].total();
                self.weights[*weights].set(&sums[*row], total);
            }
        }
    }
}

impl Scheme for Labels {
    fn observe(&mut self) {
        for block in &mut self.blocks {
            let below = block.runs[0].units();
            block.words[..below].fill(0);
            block.words[below..].fill(u64::MAX);
        }
        self.sum();
    }

    fn draw(&mut self) -> Option<usize> {
        let patterns = self.draws.next()?;
        let mut lower = 1;
        for block in &mut self.blocks {
            if block.patterns.is_empty() {
                block.shuffle(&mut self.draws);
                continue;
            }
            let count = block.patterns.len() as u64;
            block.words.fill(0);
            for (number, lane) in patterns.clone().zip(0..) {
                let pattern = block.patterns[(number / lower % count) as usize];
                for (unit, word) in block.words.iter_mut().enumerate() {
                    *word |= (pattern >> unit & 1) << lane;
                }
            }
            lower *= count;
        }
        self.sum();
        Some((patterns.end - patterns.start) as usize)
    }

    fn statistic(&self, at: usize, side: Null, values: &mut Lanes) {
        let place = &self.places[at];
        let [below, above] = &self.sums[place.row];
        let [squares_below, squares_above] = &self.sums[place.row + 1];
        let having = &self.sums[place.having][1];
        let weights = &self.weights[place.weights];
        let test = &place.tests[side as usize];
        for (lane, value) in values.iter_mut().enumerate() {
            let sum = below[lane] + above[lane] - test.shift * having[lane];
            let squares = squares_below[lane] + squares_above[lane]
                - test.shift * (2.0 * above[lane] - test.shift * having[lane]);
            let statistic = test.statistic(sum, squares, weights, lane);
            *value = if side == Null::NoDifference { statistic.abs() } else { statistic };
        }
    }

    fn p_value(&self, reached: u64) -> f64 {
        self.draws.p_value(reached)
    }

    fn stop(&mut self) {
        self.draws.stop();
    }
}

impl Block {
    fn new(series: &[Series], members: &[usize], first_row: usize) -> Block {
        let rounds = [0, 1].map(|side| {
            let logs = members.iter().flat_map(|&at| series[at].logs[side]);
            let mut rounds: Vec<u32> = logs.map(|(round, _)| *round).collect();
            rounds.sort_unstable();
            rounds.dedup();
            rounds
        });
        let (_, size) = units_of(rounds.each_ref().map(Vec::len));
        let runs = rounds.map(|rounds| Runs { rounds, size });
        let units = runs[0].units() + runs[1].units();
        Block {
            runs,
            words: vec![0; units],
            order: (0..units).collect(),
            patterns: Vec::new(),
            first_row,
            rows: Vec::new(),
            counts: Vec::new(),
        }
    }

    /// Adds a comparison; `weights`: how many rows of counts there are so far.
    fn add(&mut self, series: &Series, weights: &mut usize) -> Place {
        let logs = centered(series.logs);
        let row = self.first_row + self.rows.len();
        let values = self.row(&logs, |log| log);
        let squares = self.row(&logs, |log| log * log);
        self.rows.extend([values, squares]);
        let having = self.row(&logs, |_| 1.0);
        let known = self.counts.iter().find(|(row, _)| self.rows[*row] == having).copied();
        let (count, place) = known.unwrap_or_else(|| {
            self.rows.push(having);
            self.counts.push((self.rows.len() - 1, *weights));
            *weights += 1;
            (self.rows.len() - 1, *weights - 1)
        });
        let tests = NULLS.map(|side| Test::new(&logs, series.margin_ln, side));
        Place { row, having: self.first_row + count, weights: place, tests }
    }

    fn row(&self, logs: &[Vec<(u32, f64)>; 2], what: fn(f64) -> f64) -> Row {
        let mut row = Row { units: vec![0.0; self.words.len()], rest: [0.0; 2] };
        let firsts = [0, self.runs[0].units()];
        for side in [0, 1] {
            for (round, log) in &logs[side] {
                match self.runs[side].unit_of(*round) {
                    Some(unit) => row.units[firsts[side] + unit] += what(*log),
                    None => row.rest[side] += what(*log),
                }
            }
        }
        row
    }

    /// In how many ways the labels may fall; `None`: more than can be gone through.
    fn count_patterns(&self) -> Option<u64> {
        let units = [self.runs[0].units() as u64, self.runs[1].units() as u64];
        let (all, fewer) = (units[0] + units[1], units[0].min(units[1]));
        let count = (0..fewer).try_fold(1u64, |count, done| {
            Some(count.checked_mul(all - done)? / (done + 1))
                .filter(|count| *count <= MAX_ENUMERATED)
        })?;
        (self.words.len() <= MAX_OF_A_WORD).then_some(count)
    }

    /// All words with as many bits as the variant has units, in order (Gosper, HAKMEM 175, 1972).
    fn enumerate(&mut self) {
        let (all, above) = (self.words.len(), self.runs[1].units());
        let mut pattern = (1u64 << above) - 1;
        while pattern >> all == 0 {
            self.patterns.push(pattern);
            if pattern == 0 {
                break;
            }
            let lowest = pattern & pattern.wrapping_neg();
            let carried = pattern + lowest;
            pattern = (carried ^ pattern) >> 2 >> lowest.trailing_zeros() | carried;
        }
    }

    /// For each lane as many units as the variant has, all choices equally likely.
    fn shuffle(&mut self, draws: &mut Draws) {
        let (below, above) = (self.runs[0].units(), self.runs[1].units());
        let count = self.order.len();
        self.words.fill(0);
        for lane in 0..LANES {
            for place in 0..below.min(above) {
                let left = (count - place) as u128;
                let word = u128::from(draws.word().unwrap_or(0));
                let other = place + ((word * left) >> 64) as usize;
                self.order.swap(place, other);
                self.words[self.order[place]] |= 1 << lane;
            }
        }
        // The smaller side was chosen.
        if below < above {
            self.words.iter_mut().for_each(|word| *word = !*word);
        }
    }

    fn sum(&self, sums: &mut [BySide]) {
        for (row, sum) in self.rows.iter().zip(&mut *sums) {
            *sum = [[0.0; LANES], [row.rest[1]; LANES]];
        }
        let below = self.runs[0].units();
        for (side, units) in [0..below, below..self.words.len()].into_iter().enumerate() {
            let rows = self.rows.iter().zip(&mut *sums);
            let mut rows: Vec<_> =
                rows.map(|(row, sum)| (&row.units[units.clone()], &mut sum[side])).collect();
            add_products(&self.words[units], one, &mut rows);
        }
    }
}

impl Runs {
    fn units(&self) -> usize {
        self.rounds.len() / self.size
    }

    fn unit_of(&self, round: u32) -> Option<usize> {
        let place = self.rounds.binary_search(&round).ok()?;
        Some(place / self.size).filter(|unit| *unit < self.units())
    }
}

impl Row {
    fn total(&self) -> f64 {
        self.units.iter().chain(&self.rest).sum()
    }
}

/// Subtracts their mean: squares of values far from 0 would drown the scatter. All equal values become 0 and
/// nothing else.
fn centered(logs: [&[(u32, f64)]; 2]) -> [Vec<(u32, f64)>; 2] {
    let all = || logs.into_iter().flatten().map(|(_, log)| *log);
    let first = all().next().unwrap_or(0.0);
    let center = mean(&all().map(|log| log - first).collect::<Vec<f64>>()).unwrap_or(0.0);
    logs.map(|side| side.iter().map(|(round, log)| (*round, log - first - center)).collect())
}

/// 1 for a bit that is set, else 0.
fn one(bit: u64) -> f64 {
    f64::from_bits(bit.wrapping_neg() & 1f64.to_bits())
}

/// Weights that follow from the number of runs of each label in each lane: 1 / n, 1 / (n (n - 1)) and 1 / (n - 1).
/// All 0 where a label has fewer than two: the statistic is then 0, as nothing is known of the spread.
#[derive(Clone)]
struct Weights {
    means: BySide,
    variances: BySide,
    freedoms: BySide,
}

impl Default for Weights {
    fn default() -> Weights {
        let none = [[0.0; LANES]; 2];
        Weights { means: none, variances: none, freedoms: none }
    }
}

impl Weights {
    fn set(&mut self, labelled: &BySide, total: f64) {
        for (lane, (from_below, from_above)) in labelled[0].iter().zip(&labelled[1]).enumerate() {
            let above = from_below + from_above;
            let below = total - above;
            let is_known = above > 1.5 && below > 1.5;
            for (side, count) in [below, above].into_iter().enumerate() {
                self.means[side][lane] = if is_known { 1.0 / count } else { 0.0 };
                let freedom = if is_known { 1.0 / (count - 1.0) } else { 0.0 };
                self.freedoms[side][lane] = freedom;
                self.variances[side][lane] = freedom * self.means[side][lane];
            }
        }
    }
}

/// One statistic: Welch's t, as the normal deviate that is as far out as it is among values of Student's t with
/// Satterthwaite's degrees of freedom, those of the draw.
///
/// Bare t is right for many runs only. Where the fewer runs scatter more it has a longer tail than under permuted
/// labels, and a large table looks far out in the tail. It also lets few runs drown many. The deviate has one scale
/// for all: as if Welch's p-values were compared. Source: z = (8 f + 1) / (8 f + 3) sqrt(f ln(1 + t^2 / f)),
/// Wallace, "Bounds on Normal Approximations to Student's and the Chi-Square Distributions", Annals of Mathematical
/// Statistics 30, 1959.
#[derive(Clone, Copy, Default)]
struct Test {
    shift: f64,
    /// 1 or -1; 0 where all shifted values are equal: nothing speaks against the side.
    turn: f64,
    /// The sum over all runs, shifted.
    total: f64,
    total_squares: f64,
    /// Squares of a side that are less than this part of all are rounding.
    min_squares: f64,
}

/// A side's smallest part of all squares around the mean; less is rounding.
const MIN_SQUARES: f64 = 1e-12;

impl Test {
    fn new(logs: &[Vec<(u32, f64)>; 2], margin_ln: f64, side: Null) -> Test {
        let (shift, turn) = side.shift_and_turn(margin_ln);
        let above = logs[1].iter().map(|(_, log)| log - shift);
        let shifted: Vec<f64> = logs[0].iter().map(|(_, log)| *log).chain(above).collect();
        let center = mean(&shifted).unwrap_or(0.0);
        let is_spread = shifted.iter().any(|log| (log - center).abs() > ROUNDING);
        let around: f64 = shifted.iter().map(|log| (log - center).powi(2)).sum();
        Test {
            shift,
            turn: if is_spread { turn } else { 0.0 },
            total: shifted.iter().sum(),
            total_squares: shifted.iter().map(|log| log * log).sum(),
            min_squares: MIN_SQUARES * around,
        }
    }

    /// The statistic from the sums over runs that are labelled the variant's.
    fn statistic(&self, sum: f64, squares: f64, weights: &Weights, lane: usize) -> f64 {
        let (rest, rest_squares) = (self.total - sum, self.total_squares - squares);
        let [below, above] = [rest * weights.means[0][lane], sum * weights.means[1][lane]];
        let around = |squares: f64| {
            if squares > self.min_squares { squares } else { self.min_squares }
        };
        let a = around(rest_squares - rest * below) * weights.variances[0][lane];
        let b = around(squares - sum * above) * weights.variances[1][lane];
        let variance = a + b;
        let freedom = variance * variance
            / (a * a * weights.freedoms[0][lane] + b * b * weights.freedoms[1][lane]);
        let difference = above - below;
        let square = difference * difference / variance;
        let scale = (8.0 * freedom + 1.0) / (8.0 * freedom + 3.0);
        let deviate = scale * (freedom * (square / freedom).ln_1p()).sqrt();
        if variance > 0.0 { self.turn * deviate.copysign(difference) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_beyond_whole_units_stay() {
        let runs = Runs { rounds: (10..20).collect(), size: 3 };
        assert_eq!(runs.units(), 3);
        let units = [9, 10, 12, 13, 18, 19, 20].map(|round| runs.unit_of(round));
        assert_eq!(units, [None, Some(0), Some(0), Some(1), Some(2), None, None]);
    }

    #[test]
    fn both_sides_lose_one_mean() {
        let sides: [&[(u32, f64)]; 2] = [&[(0, 8.0), (2, 9.0)], &[(1, 7.0), (2, 12.0)]];
        assert_eq!(centered(sides), [[(0, -1.0), (2, 0.0)], [(1, -2.0), (2, 3.0)]]);
        assert_eq!(centered([&[(0, 0.1); 3], &[]]), [vec![(0, 0.0); 3], Vec::new()]);
    }
}
