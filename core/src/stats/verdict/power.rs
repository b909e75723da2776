//! How many rounds it takes: to show a difference, to prove SAME, to claim anything at all.
//!
//! Input: spread and difference of log-ratios. Output: rounds, up to a limit. Pure.
//! Source: power of Student's t test, at the level that Bonferroni leaves to one comparison
//! (the sign-flip test has nearly that power). Docs: docs/verdicts.md.

use std::cell::OnceCell;
use std::f64::consts::LN_2;

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// More rounds are not worth planning.
pub const MAX_ROUNDS: u32 = 1_000;

/// A total number of rounds, or that it is beyond [`MAX_ROUNDS`], which is larger than any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rounds {
    Number(u32),
    MoreThan(u32),
}

impl Rounds {
    /// Turns rounds with values of both sides into rounds that are made, where `pairs` of `made` rounds had both.
    pub fn of_made(self, pairs: u32, made: u32) -> Rounds {
        let Rounds::Number(needed) = self else { return self };
        let all = (u64::from(needed) * u64::from(made)).div_ceil(u64::from(pairs.max(1)));
        match u32::try_from(all) {
            Ok(all) if all <= MAX_ROUNDS => Rounds::Number(all.max(needed)),
            _ => Rounds::MoreThan(MAX_ROUNDS),
        }
    }
}

/// How much a comparison scatters: standard deviations of logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spread {
    /// The scatter of the log-ratios within rounds.
    Paired { sd_ln: f64 },
    /// The scatter of the runs of each side, if sides share no rounds. All numbers of rounds are then runs of each
    /// side.
    Sides { baseline_sd_ln: f64, variant_sd_ln: f64 },
}

impl Spread {
    /// The deviation of the difference of two runs.
    fn sd_ln(self) -> f64 {
        match self {
            Spread::Paired { sd_ln } => sd_ln,
            Spread::Sides { baseline_sd_ln, variant_sd_ln } => baseline_sd_ln.hypot(variant_sd_ln),
        }
    }
}

/// An experiment that is to be planned.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    pub spread: Spread,
    /// Comparisons of one variant, over all works and metrics.
    pub comparisons: usize,
    /// Variants without the baseline.
    pub variants: usize,
    /// Error rate of the whole table.
    pub alpha: f64,
    /// Probability with which an existing difference is to be shown.
    pub power: f64,
}

/// Rounds after which a true log-ratio of `difference_ln` is BETTER or WORSE with probability
/// `power`.
pub fn rounds_needed(experiment: &Experiment, difference_ln: f64) -> Rounds {
    search(|rounds| experiment.shows(rounds, difference_ln.abs()) >= experiment.power)
}

/// Rounds after which SAME is claimed with probability `power` where the true log-ratio is
/// `difference_ln`, and SAME means less than `margin_ln`.
pub fn rounds_for_same(experiment: &Experiment, difference_ln: f64, margin_ln: f64) -> Rounds {
    search(|rounds| experiment.shows_same(rounds, difference_ln, margin_ln) >= experiment.power)
}

/// The least rounds with which any claim is possible: two of the 2^n sign patterns are as extreme as can be. For
/// sides that share no rounds the least runs of either: their labels have at least as many patterns.
pub fn min_rounds(alpha: f64, variants: usize) -> u32 {
    let patterns = 2.0 * variants.max(1) as f64 / alpha;
    // Rounding must not add a round where it is a power of two.
    ((patterns.ln() / LN_2) - 1e-9).ceil().clamp(1.0, f64::from(MAX_ROUNDS)) as u32
}

impl Experiment {
    fn level(&self, rounds: u32) -> Level {
        let tests = self.comparisons.max(1) * self.variants.max(1);
        Level::new(rounds, self.alpha, tests)
    }

    fn shows(&self, rounds: u32, distance_ln: f64) -> f64 {
        self.level(rounds).shows(distance_ln, self.spread)
    }

    fn shows_same(&self, rounds: u32, difference_ln: f64, margin_ln: f64) -> f64 {
        self.level(rounds).shows_same(difference_ln, margin_ln, self.spread)
    }
}

/// The level that Bonferroni leaves to one comparison after this number of rounds. Made once for all comparisons of
/// a table: a quantile takes longer than all the rest.
pub(super) struct Level {
    pub rounds: u32,
    /// On one side. A difference has both tails of alpha, each side of SAME half of alpha: the
    /// same.
    tail: f64,
    can_show: bool,
    critical: OnceCell<f64>,
}

impl Level {
    pub(super) fn new(rounds: u32, alpha: f64, tests: usize) -> Level {
        let tail = alpha / tests as f64 / 2.0;
        let can_show = rounds >= min_rounds(alpha, tests).max(2);
        Level { rounds, tail, can_show, critical: OnceCell::new() }
    }

    /// The probability of any verdict, if the truth is as given: of SAME where there is a margin, and
    /// of BETTER or WORSE where it `may_differ`.
    pub(super) fn decides(
        &self,
        mean_ln: f64,
        margin_ln: Option<f64>,
        spread: Spread,
        may_differ: bool,
    ) -> f64 {
        let same = margin_ln.map_or(0.0, |margin_ln| self.shows_same(mean_ln, margin_ln, spread));
        if may_differ { self.shows(mean_ln.abs(), spread).max(same) } else { same }
    }

    /// Both sides have to be excluded; neither fails more often than it does alone.
    fn shows_same(&self, difference_ln: f64, margin_ln: f64, spread: Spread) -> f64 {
        let (near, far) = (margin_ln - difference_ln.abs(), margin_ln + difference_ln.abs());
        self.shows(near, spread) + self.shows(far, spread) - 1.0
    }

    /// The probability to exclude, on one side, a value that lies `distance_ln` from the truth.
    fn shows(&self, distance_ln: f64, spread: Spread) -> f64 {
        // A distance that is not a number shows as little as a negative one.
        if !self.can_show || distance_ln.is_nan() || distance_ln <= 0.0 {
            return 0.0;
        }
        let sd_ln = spread.sd_ln();
        if sd_ln == 0.0 {
            return 1.0;
        }
        // Two sides have no more degrees of freedom: the flips of their folded pairs have to agree.
        let freedom = f64::from(self.rounds) - 1.0;
        let shift = distance_ln * f64::from(self.rounds).sqrt() / sd_ln;
        let critical = *self.critical.get_or_init(|| quantile(self.tail, freedom));
        exceeds(critical, freedom, shift)
    }
}

/// The least rounds that are enough: more rounds are never worse.
fn search(enough: impl Fn(u32) -> bool) -> Rounds {
    if !enough(MAX_ROUNDS) {
        return Rounds::MoreThan(MAX_ROUNDS);
    }
    let (mut too_few, mut enough_at) = (1, MAX_ROUNDS);
    while enough_at - too_few > 1 {
        let middle = (too_few + enough_at) / 2;
        if enough(middle) { enough_at = middle } else { too_few = middle }
    }
    Rounds::Number(enough_at)
}

/// The limit that Student's t exceeds with probability `tail`.
fn quantile(tail: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |student| -student.inverse_cdf(tail))
}

/// The probability that noncentral t exceeds `critical`, by the normal approximation that is
/// good where power is planned: Abramowitz and Stegun, *Handbook of Mathematical Functions*,
/// 26.7.10.
fn exceeds(critical: f64, freedom: f64, shift: f64) -> f64 {
    let center = critical * (1.0 - 1.0 / (4.0 * freedom));
    let spread = (1.0 + critical * critical / (2.0 * freedom)).sqrt();
    Normal::standard().cdf((shift - center) / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(power: f64) -> Experiment {
        let spread = Spread::Paired { sd_ln: 1.0 };
        Experiment { spread, comparisons: 1, variants: 1, alpha: 0.05, power }
    }

    #[test]
    fn rounds_without_a_pair_have_to_be_made_too() {
        let of_made = |needed, pairs, made| Rounds::Number(needed).of_made(pairs, made);
        assert_eq!(of_made(10, 8, 8), Rounds::Number(10));
        assert_eq!(of_made(10, 5, 8), Rounds::Number(16));
        assert_eq!(of_made(10, 3, 8), Rounds::Number(27), "rounded up");
        assert_eq!(of_made(10, 0, 8), Rounds::Number(80));
        assert_eq!(of_made(MAX_ROUNDS, 7, 8), Rounds::MoreThan(MAX_ROUNDS));
        assert_eq!(Rounds::MoreThan(MAX_ROUNDS).of_made(8, 8), Rounds::MoreThan(MAX_ROUNDS));
    }

    #[test]
    fn rounds_agree_with_printed_power_tables() {
        // Cohen, Statistical Power Analysis: paired t, two-sided 0.05.
        let cases = [(0.5, 0.8, 34), (0.5, 0.95, 54), (1.0, 0.8, 10), (1.0, 0.95, 16)];
        for (difference, power, rounds) in cases {
            for sign in [1.0, -1.0] {
                let got = rounds_needed(&experiment(power), sign * difference);
                assert_eq!(got, Rounds::Number(rounds), "{difference} {power}");
            }
        }
    }

    #[test]
    fn runs_of_two_sides_are_a_little_more_than_printed_power_tables_say() {
        // Cohen, table 2.4.1: two groups of n, two-sided 0.05, d in deviations of a run. He has
        // 2 (n - 1) degrees of freedom, flips of folded pairs n - 1.
        let two = |sds: [f64; 2], power| Experiment {
            spread: Spread::Sides { baseline_sd_ln: sds[0], variant_sd_ln: sds[1] },
            ..experiment(power)
        };
        for (difference, power, runs) in [(0.5, 0.8, 64), (0.8, 0.8, 26), (0.8, 0.95, 42)] {
            let got = rounds_needed(&two([1.0, 1.0], power), difference);
            let Rounds::Number(got) = got else { panic!("{difference} {power}: {got:?}") };
            assert!((runs + 1..=runs + 2).contains(&got), "{difference} {power}: {got}");
        }
        // If one side does not scatter, the other is alone, as pairs are.
        let alone = two([0.0, 1.0], 0.8);
        assert_eq!(rounds_needed(&alone, 0.5), rounds_needed(&experiment(0.8), 0.5));
        let constant = two([0.0, 0.0], 0.8);
        assert_eq!(rounds_needed(&constant, 0.5), Rounds::Number(6));
    }

    #[test]
    fn labels_of_two_sides_fall_in_no_fewer_ways_than_signs() {
        for fewer in 1..40u32 {
            for more in fewer..60 {
                let ways = (1..=fewer)
                    .fold(1.0, |ways, chosen| ways * f64::from(more + chosen) / f64::from(chosen));
                // With equal numbers two labellings are as extreme as can be, else one.
                let signs = 2f64.powi(fewer as i32);
                assert!(ways * (1.0 + 1e-9) >= signs, "{fewer} {more}: {ways} {signs}");
            }
        }
    }

    #[test]
    fn the_least_rounds_have_enough_patterns() {
        let cases = [(0.05, 1, 6), (0.05, 2, 7), (0.05, 40, 11), (0.0625, 1, 5), (0.025, 1, 7)];
        for (alpha, variants, rounds) in cases {
            assert_eq!(min_rounds(alpha, variants), rounds, "{alpha} {variants}");
        }
    }

    #[test]
    fn more_comparisons_variants_noise_or_nearness_take_more_rounds() {
        let number = |rounds| match rounds {
            Rounds::Number(rounds) => rounds,
            Rounds::MoreThan(rounds) => rounds + 1,
        };
        let base = experiment(0.95);
        let of = |experiment| number(rounds_needed(&experiment, 0.7));
        let few = of(base);
        assert!(of(Experiment { comparisons: 40, ..base }) > few);
        assert!(of(Experiment { variants: 3, ..base }) > few);
        assert!(of(Experiment { spread: Spread::Paired { sd_ln: 2.0 }, ..base }) > few);
        assert_eq!(rounds_needed(&base, 0.01), Rounds::MoreThan(MAX_ROUNDS));
        assert_eq!(rounds_needed(&base, f64::NAN), Rounds::MoreThan(MAX_ROUNDS));
        let still = Spread::Paired { sd_ln: 0.0 };
        assert_eq!(of(Experiment { spread: still, comparisons: 40, ..base }), 11);
        let at_the_margin = rounds_for_same(&Experiment { spread: still, ..base }, 0.7, 0.7);
        assert_eq!(at_the_margin, Rounds::MoreThan(MAX_ROUNDS));
        let same = |difference| number(rounds_for_same(&base, difference, 0.7));
        assert!(same(0.0) > few && same(0.3) > same(0.0), "{} {}", same(0.0), same(0.3));
        assert_eq!(rounds_for_same(&base, -0.7, 0.7), Rounds::MoreThan(MAX_ROUNDS));
    }
}
