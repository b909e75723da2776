//! Paired sides: statistics under random sign flips.
//!
//! Input: log-ratios by block and round. Output: a [`Scheme`] for the step-down test. Pure: the
//! caller passes the seed. Method: docs/verdicts.md.
//!
//! Under "the variant changes nothing" the labels of a round may be swapped, which flips the
//! sign of its log-ratios, of all metrics of a block together. One draw therefore holds a sign
//! for each (block, round), and the statistic of every comparison is made anew from it.

use std::collections::BTreeMap;

use super::stepdown::{Draws, LANES, Lanes, NULLS, Null, ROUNDING, Scheme, add_products};
use crate::stats::inversion::MAX_SIGNS;

/// The log-ratios of one comparison.
pub(super) struct Series<'a> {
    pub block: usize,
    /// `(round, log-ratio)`, each round at most once.
    pub logs: &'a [(u32, f64)],
    /// The margin as a log-ratio, positive.
    pub margin_ln: f64,
}

/// The log-ratios, laid out so that a draw is a run of additions. A row is a comparison's
/// log-ratios by sign, 0 where its rounds lack it, or how many rounds it has under each sign.
pub(super) struct Flips {
    blocks: Vec<Block>,
    /// The tests of each comparison, by side.
    tests: Vec<[Test; 3]>,
    draws: Draws,
    /// One for each (block, round), a bit for each lane; a bit that is set flips.
    words: Vec<u64>,
    /// The signed sum of each row.
    sums: Vec<Lanes>,
}

struct Block {
    rounds: Vec<u32>,
    signs: usize,
    first_row: usize,
    rows: Vec<Vec<f64>>,
}

impl Flips {
    /// `draws` counts only where not all patterns are enumerated.
    pub(super) fn new(series: &[Series], draws: u32, seed: u64) -> Flips {
        let mut by_block: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, one) in series.iter().enumerate() {
            by_block.entry(one.block).or_default().push(at);
        }
        let (mut blocks, mut rows) = (Vec::new(), 0);
        let mut tests = vec![[Test::default(); 3]; series.len()];
        for members in by_block.values() {
            let mut rounds: Vec<u32> =
                members.iter().flat_map(|&at| series[at].logs.iter().map(|(r, _)| *r)).collect();
            rounds.sort_unstable();
            rounds.dedup();
            let signs = rounds.len().min(MAX_SIGNS);
            let mut block = Block { rounds, signs, first_row: rows, rows: Vec::new() };
            for &at in members {
                let (row, having) = block.add(series[at].logs);
                tests[at] = NULLS.map(|side| block.test(row, having, series[at].margin_ln, side));
            }
            rows += block.rows.len();
            blocks.push(block);
        }
        let bits: usize = blocks.iter().map(|block| block.signs).sum();
        let patterns = u32::try_from(bits).ok().and_then(|bits| 1u64.checked_shl(bits));
        let draws = Draws::new(patterns, draws, seed);
        Flips { blocks, tests, draws, words: vec![0; bits], sums: vec![[0.0; LANES]; rows] }
    }

    fn sum(&mut self) {
        let mut words = self.words.as_slice();
        self.sums.fill([0.0; LANES]);
        for block in &self.blocks {
            let sums = &mut self.sums[block.first_row..];
            let mut rows: Vec<_> = block.rows.iter().map(Vec::as_slice).zip(sums).collect();
            let own;
            (own, words) = words.split_at(block.signs);
            add_products(own, sign, &mut rows);
        }
    }
}

impl Scheme for Flips {
    fn observe(&mut self) {
        self.words.fill(0);
        self.sum();
    }

    fn draw(&mut self) -> Option<usize> {
        let patterns = self.draws.next()?;
        for (bit, word) in self.words.iter_mut().enumerate() {
            let of_all = || patterns.clone().zip(0..).map(|(one, lane)| (one >> bit & 1) << lane);
            *word = self.draws.word().unwrap_or_else(|| of_all().sum());
        }
        self.sum();
        Some((patterns.end - patterns.start) as usize)
    }

    fn statistic(&self, at: usize, side: Null, values: &mut Lanes) {
        let Test { row, having, scale, shift } = self.tests[at][side as usize];
        let lanes = values.iter_mut().zip(&self.sums[row]).zip(&self.sums[having]);
        for ((value, sum), having) in lanes {
            let turned = scale * sum + shift * having;
            *value = if side == Null::NoDifference { turned.abs() } else { turned };
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
    /// Adds a comparison; gives its row and the row of the rounds that it has.
    fn add(&mut self, logs: &[(u32, f64)]) -> (usize, usize) {
        let mut values = vec![0.0; self.signs];
        let mut having = vec![0.0; self.signs];
        for (round, log) in logs {
            if let Ok(place) = self.rounds.binary_search(round) {
                let sign = place * self.signs / self.rounds.len();
                values[sign] += *log;
                having[sign] += 1.0;
            }
        }
        self.rows.push(values);
        let row = self.first_row + self.rows.len() - 1;
        let known = self.rows.iter().position(|other| *other == having);
        let place = known.unwrap_or_else(|| {
            self.rows.push(having);
            self.rows.len() - 1
        });
        (row, self.first_row + place)
    }

    fn test(&self, row: usize, having: usize, margin_ln: f64, side: Null) -> Test {
        let (shift, turn) = side.shift_and_turn(margin_ln);
        let own = |row: usize| self.rows[row - self.first_row].iter();
        let shifted = own(row).zip(own(having)).map(|(log, having)| log - shift * having);
        let squares: f64 = shifted.map(|log| log.powi(2)).sum();
        // All zero: nothing speaks against the side, however the signs fall.
        let scale = if squares.sqrt() > ROUNDING { turn / squares.sqrt() } else { 0.0 };
        Test { row, having, scale, shift: -shift * scale }
    }
}

/// -1 for a bit that is set.
fn sign(bit: u64) -> f64 {
    f64::from_bits(1f64.to_bits() | bit << 63)
}

/// One statistic: the sum of the shifted log-ratios over the root of the sum of their squares.
///
/// The squares do not change with signs, so over the same rounds this grows with Student's t.
/// Its variance over all signs is 1, and n rounds cannot bring it above the root of n: a
/// comparison with few rounds cannot drown those with many, as its t could.
#[derive(Clone, Copy, Default)]
struct Test {
    row: usize,
    having: usize,
    scale: f64,
    shift: f64,
}
