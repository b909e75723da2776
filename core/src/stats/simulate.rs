//! Made-up experiments with known truth, for tests and `make bench`.
//!
//! Input: a setting and a seed. Output: values by round. Pure.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// How values scatter, before the spread is applied: each near deviation 1 in the logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Noise {
    Normal,
    /// Skewed: a log-normal of shape 1, less its mean, over its deviation.
    LogNormal,
    /// Student's t with 3 degrees of freedom.
    HeavyTailed,
    /// Three of ten runs lie six within-mode deviations higher.
    Bimodal,
}

#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub rounds: u32,
    /// Works: pairs of cells.
    pub blocks: usize,
    pub metrics_per_block: usize,
    pub noise: Noise,
    /// Coefficient of variation of a run.
    pub cv: f64,
    /// How many times as much the variants scatter as the baseline.
    pub spread: f64,
    /// Part of the variance that all metrics of a run share.
    pub common: f64,
    /// Drift from one round to the next, in units of `cv`: linear, and the step of a random walk.
    pub drift: f64,
    /// The same from one run to the next within a round.
    pub drift_within: f64,
    /// True log-ratio, and of how many metrics; the others have none.
    pub effect_ln: f64,
    pub moved: usize,
}

impl Setting {
    /// Forty metrics of four works that all come from one distribution, on a machine that
    /// drifts from round to round by much more than the noise, and within rounds, too.
    pub fn same(rounds: u32, noise: Noise, common: f64) -> Setting {
        Setting {
            rounds,
            blocks: 4,
            metrics_per_block: 10,
            noise,
            cv: 0.02,
            spread: 1.0,
            common,
            drift: 8.0,
            drift_within: 0.2,
            effect_ln: 0.0,
            moved: 0,
        }
    }

    /// Like [`Setting::same`], on a machine that never drifts: the only one on which sides measured at different
    /// times may be simulated.
    pub fn steady(rounds: u32, noise: Noise) -> Setting {
        Setting { drift: 0.0, drift_within: 0.0, ..Setting::same(rounds, noise, 0.0) }
    }

    /// `metrics` of one work, `moved` of them by `ratio`, with normal noise.
    pub fn moved(rounds: u32, metrics: usize, moved: usize, ratio: f64) -> Setting {
        Setting {
            blocks: 1,
            metrics_per_block: metrics,
            drift_within: 0.0,
            effect_ln: ratio.ln(),
            moved,
            ..Setting::same(rounds, Noise::Normal, 0.0)
        }
    }
}

/// One metric of one work: `(round, value)` of each variant, the baseline first.
pub struct Simulated {
    pub block: usize,
    pub variants: Vec<Vec<(u32, f64)>>,
}

/// An experiment of `variants` variants, the baseline included; all but it have the effect.
pub fn experiment(setting: &Setting, variants: usize, random: &mut Random) -> Vec<Simulated> {
    let metrics = setting.blocks * setting.metrics_per_block;
    let mut table: Vec<Simulated> = (0..metrics)
        .map(|at| Simulated {
            block: at / setting.metrics_per_block,
            variants: vec![Vec::new(); variants],
        })
        .collect();
    let mut drift = 0.0;
    for round in 0..setting.rounds {
        let mut cells: Vec<usize> = (0..setting.blocks * variants).collect();
        random.shuffle(&mut cells);
        let mut within = 0.0;
        for cell in &cells {
            let (block, variant) = (cell / variants, cell % variants);
            within += setting.drift_within * (1.0 + random.normal());
            let shared = random.noise(setting.noise);
            let first = block * setting.metrics_per_block;
            for (at, metric) in (first..).zip(&mut table[first..first + setting.metrics_per_block])
            {
                let own = random.noise(setting.noise);
                let spread = if variant > 0 { setting.spread } else { 1.0 };
                let noise = setting.common.sqrt() * shared + (1.0 - setting.common).sqrt() * own;
                let is_moved = variant > 0 && at < setting.moved;
                let effect = if is_moved { setting.effect_ln } else { 0.0 };
                let log = effect + setting.cv * (spread * noise + drift + within);
                metric.variants[variant].push((round, 1000.0 * log.exp()));
            }
        }
        drift += setting.drift * (1.0 + random.normal());
    }
    table
}

/// Random numbers of a seed.
pub struct Random(ChaCha8Rng);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A draw from the open interval (0, 1).
    pub fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Box and Muller, 1958.
    pub fn normal(&mut self) -> f64 {
        let (length, turn) = (self.uniform(), self.uniform());
        (-2.0 * length.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
    }

    pub fn noise(&mut self, noise: Noise) -> f64 {
        let normal = self.normal();
        match noise {
            Noise::Normal => normal,
            Noise::LogNormal => {
                let e = std::f64::consts::E;
                (normal.exp() - e.sqrt()) / (e * (e - 1.0)).sqrt()
            }
            Noise::HeavyTailed => {
                let squares: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
                normal / squares.sqrt()
            }
            Noise::Bimodal => {
                let mode = if self.uniform() < 0.3 { 6.0 } else { 0.0 };
                (normal + mode - 1.8) / (1.0f64 + 36.0 * 0.21).sqrt()
            }
        }
    }

    pub fn shuffle(&mut self, order: &mut [usize]) {
        for last in (1..order.len()).rev() {
            order.swap(last, (self.uniform() * (last as f64 + 1.0)) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_the_mean_0_and_the_deviation_1() {
        const DRAWN: usize = 100_000;
        for noise in [Noise::Normal, Noise::LogNormal, Noise::HeavyTailed, Noise::Bimodal] {
            let mut random = Random::new(1);
            let drawn: Vec<f64> = (0..DRAWN).map(|_| random.noise(noise)).collect();
            let mean = drawn.iter().sum::<f64>() / DRAWN as f64;
            let square = drawn.iter().map(|value| value * value).sum::<f64>() / DRAWN as f64;
            assert!(mean.abs() < 0.02, "{noise:?}: {mean}");
            assert!((square.sqrt() - 1.0).abs() < 0.1, "{noise:?}: {square}");
        }
    }

    #[test]
    fn a_machine_drifts_from_round_to_round() {
        let quiet = Setting {
            blocks: 1,
            metrics_per_block: 1,
            drift_within: 0.0,
            ..Setting::same(200, Noise::Normal, 0.0)
        };
        let rise = |setting: &Setting| {
            let table = experiment(setting, 1, &mut Random::new(2));
            let values = &table[0].variants[0];
            (values[199].1 / values[0].1).ln() / setting.cv
        };
        // Steps of mean and deviation 8: 199 of them are 1,592, give or take 113.
        let drifted = rise(&quiet);
        assert!((1_250.0..1_930.0).contains(&drifted), "{drifted}");
        let still = rise(&Setting { drift: 0.0, ..quiet });
        assert!(still.abs() < 6.0, "{still}");
    }
}
