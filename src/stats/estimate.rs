//! Estimators of one sample, and the ratio of two variants, paired by round or not.
//!
//! Input: plain numbers, one per run. Output: the estimate, or `None` (a reason, for
//! ratios) where it is not defined; never a stand-in value. Pure. Method: docs/method.md.

use std::collections::BTreeMap;
use std::fmt;

use statrs::distribution::{ChiSquared, ContinuousCDF, StudentsT};

/// Two-sided confidence of every interval here.
pub(super) const CONFIDENCE: f64 = 0.95;

/// The arithmetic mean. `None` without values or where one is not finite.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let count = values.len() as f64;
    Some(values.iter().map(|value| value / count).sum())
}

/// The harmonic mean: of rates of the same work. `None` without values or where one is not
/// positive and finite.
pub fn harmonic_mean(values: &[f64]) -> Option<f64> {
    if !values.iter().all(|value| value.is_finite() && *value > 0.0) {
        return None;
    }
    let inverses: Vec<f64> = values.iter().map(|value| 1.0 / value).collect();
    mean(&inverses).map(|inverse| 1.0 / inverse)
}

/// The middle value, or the mean of the two in the middle. `None` as for [`mean`].
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut values = values.to_vec();
    let is_odd = values.len() % 2 == 1;
    let half = values.len() / 2;
    let (below, upper, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    let lower = below.iter().copied().max_by(f64::total_cmp).filter(|_| !is_odd);
    Some(lower.map_or(*upper, |lower| lower / 2.0 + *upper / 2.0))
}

/// The smallest of ascending values that at least `permille` thousandths of them do not exceed.
/// `None` without values.
pub fn nearest_rank(sorted: &[f64], permille: u32) -> Option<f64> {
    let rank = (sorted.len() as u64 * u64::from(permille)).div_ceil(1000);
    sorted.get(rank.max(1) as usize - 1).copied()
}

/// The coefficient of variation: sample standard deviation (divisor n - 1) over the mean.
/// `None` below two values, or where the mean is not positive.
pub fn cv(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean > 0.0)?;
    (values.len() >= 2).then(|| deviation(values, mean) / mean)
}

/// Sample standard deviation around a mean that is known; at least two values.
pub(super) fn deviation(values: &[f64], mean: f64) -> f64 {
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

/// Jain's fairness index, `(sum x)^2 / (n * sum x^2)`: 1 where all have the same, 1/n where
/// one has everything. `None` without values, with a negative one, or where all are 0.
///
/// Source: Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and Discrimination for
/// Resource Allocation in Shared Computer Systems", DEC-TR-301, 1984.
pub fn jain(shares: &[f64]) -> Option<f64> {
    if !shares.iter().all(|share| share.is_finite() && *share >= 0.0) {
        return None;
    }
    let largest = shares.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return None;
    }
    // Relative to the largest, so that squares neither overflow nor vanish.
    let sum: f64 = shares.iter().map(|share| share / largest).sum();
    let squares: f64 = shares.iter().map(|share| (share / largest).powi(2)).sum();
    Some((sum * sum / (shares.len() as f64 * squares)).min(1.0))
}

/// A variant over its baseline: from rounds that have both, or from all runs of either.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Ratio {
    /// The geometric mean of the ratios within rounds; of sides that share no rounds the ratio
    /// of the geometric means.
    pub ratio: f64,
    /// 95 %, for this comparison alone. `None` for a single pair or run, which says nothing of
    /// the spread.
    pub interval: Option<Interval>,
    /// Of sides that share no rounds: the runs of the side that has fewer.
    pub pairs: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// How far from 1 it goes, as a ratio's distance: of a variant against itself what chance
    /// alone may show.
    pub fn floor(&self) -> f64 {
        self.high.max(1.0 / self.low) - 1.0
    }
}

/// What a standard deviation does not exceed with probability `confidence`, from so many squares
/// about means with `freedom` degrees of freedom. `None` without any.
///
/// Source: squares of normal values over their variance are distributed as chi-square.
pub fn deviation_at_most(squares: f64, freedom: usize, confidence: f64) -> Option<f64> {
    let chi_squared = ChiSquared::new(freedom as f64).ok()?;
    Some((squares / chi_squared.inverse_cdf(1.0 - confidence)).sqrt())
}

/// Why there is no ratio.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoRatio {
    /// No round has a value of both.
    NoPairs,
    /// Sides that share no rounds, and one has no value at all.
    NoRuns,
    /// A value has no logarithm. Leaving it out would favour one side, so the whole ratio is
    /// refused.
    NotPositive { round: u32, value: f64 },
}

impl fmt::Display for NoRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoRatio::NoPairs => write!(f, "no round has a value of both"),
            NoRatio::NoRuns => write!(f, "one side has no value"),
            NoRatio::NotPositive { round, value } => {
                write!(f, "a ratio needs positive values, and round {round} has {value}")
            }
        }
    }
}

/// The ratio of `variant` to `baseline`, both `(round, value)`, each round at most once:
/// the mean of `ln(variant / baseline)` over the rounds that have both, with Student's t
/// interval, taken back through `exp`.
///
/// What drifts from round to round multiplies both values of a pair and cancels.
/// Source: the paired t interval (Student, "The Probable Error of a Mean", Biometrika 6,
/// 1908) on logarithms, hence a geometric mean and limits that lie symmetrically in ratio.
pub fn paired_ratio(baseline: &[(u32, f64)], variant: &[(u32, f64)]) -> Result<Ratio, NoRatio> {
    let pairs = log_ratios(baseline, variant)?;
    ratio_of(&pairs).ok_or(NoRatio::NoPairs)
}

/// `(round, ln(variant / baseline))` of the rounds that have both, in the order of `variant`;
/// at least one.
pub fn log_ratios(
    baseline: &[(u32, f64)],
    variant: &[(u32, f64)],
) -> Result<Vec<(u32, f64)>, NoRatio> {
    let baseline: BTreeMap<u32, f64> = baseline.iter().copied().collect();
    let mut pairs = Vec::new();
    for &(round, above) in variant {
        let Some(&below) = baseline.get(&round) else { continue };
        for value in [below, above] {
            if !(value.is_finite() && value > 0.0) {
                return Err(NoRatio::NotPositive { round, value });
            }
        }
        pairs.push((round, above.ln() - below.ln()));
    }
    if pairs.is_empty() { Err(NoRatio::NoPairs) } else { Ok(pairs) }
}

/// What [`paired_ratio`] says of log-ratios that are made. `None` without any.
pub fn ratio_of(pairs: &[(u32, f64)]) -> Option<Ratio> {
    let logs: Vec<f64> = pairs.iter().map(|(_, log)| *log).collect();
    let interval = interval_of(pairs, CONFIDENCE);
    Some(Ratio { ratio: mean(&logs)?.exp(), interval, pairs: logs.len() })
}

/// The interval of [`paired_ratio`] that misses the true ratio with probability `share` times that of
/// its own: what one look may spend. `pairs`: log-ratios by round.
pub fn interval_of_look(pairs: &[(u32, f64)], share: f64) -> Option<Interval> {
    interval_of(pairs, 1.0 - (1.0 - CONFIDENCE) * share)
}

fn interval_of(pairs: &[(u32, f64)], confidence: f64) -> Option<Interval> {
    let logs: Vec<f64> = pairs.iter().map(|(_, log)| *log).collect();
    let center = mean(&logs)?;
    let half = half_width(&logs, center, confidence)?;
    Some(Interval { low: (center - half).exp(), high: (center + half).exp() })
}

/// Half the width of Student's t interval for the mean; `None` below two values.
fn half_width(values: &[f64], mean: f64, confidence: f64) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
    Some(quantile(freedom, confidence)? * deviation(values, mean) / (values.len() as f64).sqrt())
}

/// What Student's t stays below in absolute value with probability `confidence`.
pub(super) fn quantile(freedom: f64, confidence: f64) -> Option<f64> {
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(student.inverse_cdf(0.5 + confidence / 2.0))
}

/// Whether the mean of these values lies above `threshold`, and the chance that the true mean lies on
/// the other side: Student's one-sided t test. `None` below two values.
pub fn side_of(values: &[f64], threshold: f64) -> Option<(bool, f64)> {
    let mean = mean(values)?;
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
    let error = deviation(values, mean) / (values.len() as f64).sqrt();
    let distance = (mean - threshold).abs();
    // Values that are all the same leave no doubt, but for one on the threshold itself.
    let chance = match (distance, error) {
        (0.0, _) => 0.5,
        (_, 0.0) => 0.0,
        (distance, error) => StudentsT::new(0.0, 1.0, freedom).ok()?.sf(distance / error),
    };
    Some((mean > threshold, chance))
}

/// The ratio of `variant` to `baseline`, both `(round, value)`, which were measured at different
/// times: the difference of the mean logarithms with Welch's interval, taken back through `exp`.
///
/// Nothing cancels: drift between the two times is in the ratio.
/// Source: Welch, "The Generalization of 'Student's' Problem when Several Different Population
/// Variances are Involved", Biometrika 34, 1947; degrees of freedom by Satterthwaite, "An
/// Approximate Distribution of Estimates of Variance Components", Biometrics Bulletin 2, 1946.
pub fn unpaired_ratio(baseline: &[(u32, f64)], variant: &[(u32, f64)]) -> Result<Ratio, NoRatio> {
    let sides = [logs_of(baseline)?, logs_of(variant)?];
    ratio_of_sides(&sides[0], &sides[1]).ok_or(NoRatio::NoRuns)
}

/// `(round, ln(value))` of one side, in the same order; at least one.
pub(super) fn logs_of(values: &[(u32, f64)]) -> Result<Vec<(u32, f64)>, NoRatio> {
    if values.is_empty() {
        return Err(NoRatio::NoRuns);
    }
    let logs = values.iter().map(|&(round, value)| match value.is_finite() && value > 0.0 {
        true => Ok((round, value.ln())),
        false => Err(NoRatio::NotPositive { round, value }),
    });
    logs.collect()
}

/// What [`unpaired_ratio`] says of logarithms that are made. `None` where a side has none.
pub(super) fn ratio_of_sides(baseline: &[(u32, f64)], variant: &[(u32, f64)]) -> Option<Ratio> {
    let logs = [baseline, variant].map(|side| side.iter().map(|one| one.1).collect::<Vec<f64>>());
    let [below, above] = [mean(&logs[0])?, mean(&logs[1])?];
    let center = above - below;
    let pairs = baseline.len().min(variant.len());
    let squares = [(&logs[0], below), (&logs[1], above)]
        .map(|(logs, mean)| deviation(logs, mean).powi(2) / logs.len() as f64);
    let half = if pairs < 2 { None } else { welch_half_width(squares, [&logs[0], &logs[1]]) };
    let interval =
        half.map(|half| Interval { low: (center - half).exp(), high: (center + half).exp() });
    Some(Ratio { ratio: center.exp(), interval, pairs })
}

/// Half the width of Welch's interval for a difference of means, from the squared standard
/// error of each.
fn welch_half_width(squares: [f64; 2], sides: [&[f64]; 2]) -> Option<f64> {
    let square: f64 = squares.iter().sum();
    if square == 0.0 {
        return Some(0.0);
    }
    let parts = squares.iter().zip(sides);
    let parts = parts.map(|(one, side)| (one / square).powi(2) / (side.len() as f64 - 1.0));
    Some(quantile(1.0 / parts.sum::<f64>(), CONFIDENCE)? * square.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};
    use statrs::distribution::Normal;

    fn near(got: Option<f64>, expected: Option<f64>) -> bool {
        match (got, expected) {
            (Some(got), Some(expected)) => (got - expected).abs() <= 1e-9 * expected.abs(),
            (got, expected) => got == expected,
        }
    }

    #[test]
    fn the_side_of_a_threshold_has_the_chance_of_a_one_sided_t_test() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        // t = 2 / sqrt(0.5) with 4 degrees of freedom.
        let (is_above, chance) = side_of(&values, 1.0).unwrap();
        assert!(is_above && (chance - 0.0237).abs() < 1e-4, "{chance}");
        let (is_above, same) = side_of(&values, 5.0).unwrap();
        assert!(!is_above && (same - chance).abs() < 1e-12, "{same}");
        assert_eq!(side_of(&values, 3.0), Some((false, 0.5)));
        assert_eq!(side_of(&[2.0, 2.0], 1.0), Some((true, 0.0)));
        assert_eq!(side_of(&[2.0], 1.0), None);
    }

    #[test]
    fn a_deviation_has_the_limit_of_printed_tables() {
        // Chi-square exceeds 0.554 with 0.99, 2.343 with 0.80 (5 degrees), 0.0642 (1 degree).
        for (freedom, confidence, chi) in [(5, 0.99, 0.5543), (5, 0.8, 2.3425), (1, 0.8, 0.0642)] {
            let got = deviation_at_most(4.0, freedom, confidence).unwrap();
            assert!((got - (4.0f64 / chi).sqrt()).abs() < 1e-2, "{freedom} {got}");
        }
        assert_eq!(deviation_at_most(4.0, 0, 0.8), None);
        assert_eq!(deviation_at_most(0.0, 5, 0.8), Some(0.0));
    }

    #[test]
    fn a_floor_is_how_far_an_interval_goes_on_either_side() {
        for (low, high, floor) in
            [(0.9, 1.05, 1.0 / 0.9 - 1.0), (0.99, 1.05, 0.05), (1.0, 1.0, 0.0)]
        {
            assert!((Interval { low, high }.floor() - floor).abs() < 1e-12, "{low} {high}");
        }
    }

    #[test]
    fn estimators_of_small_samples() {
        type Row = (&'static [f64], Option<f64>, Option<f64>, Option<f64>);
        // values, mean, median, cv
        let cases: &[Row] = &[
            (&[], None, None, None),
            (&[5.0], Some(5.0), Some(5.0), None),
            (&[3.0, 1.0], Some(2.0), Some(2.0), Some(std::f64::consts::FRAC_1_SQRT_2)),
            (&[1.0, 2.0, 9.0], Some(4.0), Some(2.0), Some(19f64.sqrt() / 4.0)),
            (&[4.0, 4.0, 4.0, 4.0], Some(4.0), Some(4.0), Some(0.0)),
            (&[0.0, 0.0], Some(0.0), Some(0.0), None),
            (&[-1.0, -3.0], Some(-2.0), Some(-2.0), None),
            (&[1.0, f64::NAN], None, None, None),
            (&[1.0, f64::INFINITY], None, None, None),
            (&[f64::MAX, f64::MAX], Some(f64::MAX), Some(f64::MAX), Some(0.0)),
        ];
        for (values, expected_mean, expected_median, expected_cv) in cases {
            assert!(near(mean(values), *expected_mean), "mean {values:?}");
            assert!(near(median(values), *expected_median), "median {values:?}");
            assert!(near(cv(values), *expected_cv), "cv {values:?} {:?}", cv(values));
        }
    }

    #[test]
    fn jain_of_known_shares() {
        let cases: &[(&[f64], Option<f64>)] = &[
            (&[], None),
            (&[0.0, 0.0], None),
            (&[1.0, -1.0], None),
            (&[1.0, f64::NAN], None),
            (&[7.0], Some(1.0)),
            (&[3.0, 3.0, 3.0], Some(1.0)),
            (&[1.0, 0.0, 0.0, 0.0], Some(0.25)),
            (&[1.0, 2.0, 3.0], Some(36.0 / 42.0)),
            (&[1e200, 2e200, 3e200], Some(36.0 / 42.0)),
            (&[1e-200, 2e-200, 3e-200], Some(36.0 / 42.0)),
        ];
        for (shares, expected) in cases {
            assert!(near(jain(shares), *expected), "{shares:?}: {:?}", jain(shares));
        }
    }

    #[test]
    fn a_ratio_by_hand() {
        // ln ratios: 0, ln 2, ln 4; mean ln 2, deviation ln 2; t(0.975, 2) = 4.302653.
        let baseline = [(0, 1.0), (1, 10.0), (2, 100.0), (7, 5.0)];
        let variant = [(2, 400.0), (0, 1.0), (1, 20.0), (8, 5.0)];
        let ratio = paired_ratio(&baseline, &variant).unwrap();
        let half = 4.302_652_729_911_275 * 2f64.ln() / 3f64.sqrt();
        let interval = ratio.interval.unwrap();
        assert_eq!(ratio.pairs, 3);
        assert!(near(Some(ratio.ratio), Some(2.0)), "{ratio:?}");
        assert!((interval.low.ln() - (2f64.ln() - half)).abs() < 1e-6, "{ratio:?}");
        assert!((interval.high.ln() - (2f64.ln() + half)).abs() < 1e-6, "{ratio:?}");
    }

    #[test]
    fn what_has_no_ratio_says_why() {
        type Side = &'static [(u32, f64)];
        let cases: &[(Side, Side, &str)] = &[
            (&[], &[], "no round has a value of both"),
            (&[(0, 1.0)], &[(1, 1.0)], "no round has a value of both"),
            (&[(3, 0.0)], &[(3, 1.0)], "a ratio needs positive values, and round 3 has 0"),
            (&[(3, 1.0)], &[(3, -2.0)], "a ratio needs positive values, and round 3 has -2"),
            (&[(3, 1.0)], &[(3, f64::NAN)], "a ratio needs positive values, and round 3 has NaN"),
        ];
        for (baseline, variant, why) in cases {
            let got = paired_ratio(baseline, variant).unwrap_err();
            assert_eq!(got.to_string(), *why, "{baseline:?} {variant:?}");
        }
    }

    #[test]
    fn an_unpaired_ratio_by_hand() {
        // Logs 0, ln 2, ln 4 against ln 16 and ln 64: means ln 2 and ln 32, squared errors
        // (ln 2)^2 / 3 and (ln 4)^2 / 4; 16 / (1/2 + 9) = 1.68 degrees of freedom. The order and
        // the rounds do not matter.
        let ratio =
            unpaired_ratio(&[(5, 2.0), (0, 1.0), (9, 4.0)], &[(0, 64.0), (1, 16.0)]).unwrap();
        let student = StudentsT::new(0.0, 1.0, 16.0 / 9.5).unwrap();
        let half = student.inverse_cdf(0.975) * 2f64.ln() * (4.0f64 / 3.0).sqrt();
        let interval = ratio.interval.unwrap();
        assert_eq!(ratio.pairs, 2);
        assert!(near(Some(ratio.ratio), Some(16.0)), "{ratio:?}");
        assert!((interval.low.ln() - (16f64.ln() - half)).abs() < 1e-6, "{ratio:?}");
        assert!((interval.high.ln() - (16f64.ln() + half)).abs() < 1e-6, "{ratio:?}");
    }

    #[test]
    fn sides_without_spread_or_values_have_what_can_be_known() {
        let constant = unpaired_ratio(&[(0, 2.0), (1, 2.0)], &[(0, 3.0), (1, 3.0)]).unwrap();
        let interval = constant.interval.unwrap();
        assert_eq!((interval.low, interval.high), (constant.ratio, constant.ratio));
        let single = unpaired_ratio(&[(0, 2.0), (1, 4.0)], &[(7, 3.0)]).unwrap();
        assert_eq!((single.interval, single.pairs), (None, 1));
        let nothing = unpaired_ratio(&[(0, 2.0)], &[]).unwrap_err();
        assert_eq!(
            (nothing, nothing.to_string().as_str()),
            (NoRatio::NoRuns, "one side has no value")
        );
        let zero = unpaired_ratio(&[(0, 2.0), (3, 0.0)], &[(0, 1.0)]).unwrap_err();
        assert_eq!(zero, NoRatio::NotPositive { round: 3, value: 0.0 });
    }

    #[test]
    fn a_look_has_a_wider_interval_than_a_ratio_alone() {
        let pairs: Vec<(u32, f64)> = (0..10).map(|round| (round, f64::from(round % 3))).collect();
        let whole = ratio_of(&pairs).unwrap().interval;
        assert_eq!(interval_of_look(&pairs, 1.0), whole);
        // Student's t with 9 degrees of freedom: 3.690 against 2.262 (0.5 % and 5 %).
        let half = |interval: Option<Interval>| interval.map(|of| (of.high / of.low).ln() / 2.0);
        let times = half(interval_of_look(&pairs, 0.1)).unwrap() / half(whole).unwrap();
        assert!((times - 3.6897 / 2.2622).abs() < 1e-3, "{times}");
        assert_eq!(interval_of_look(&pairs[..1], 0.1), None);
    }

    #[test]
    fn one_pair_gives_a_ratio_without_an_interval() {
        let ratio = paired_ratio(&[(0, 2.0)], &[(0, 3.0)]).unwrap();
        assert_eq!((ratio.interval, ratio.pairs), (None, 1));
        assert!(near(Some(ratio.ratio), Some(1.5)));
    }

    #[test]
    fn the_quantile_agrees_with_printed_tables() {
        // t(0.975, n - 1) from n values of deviation 1 and any mean.
        for (freedom, quantile) in
            [(1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (29, 2.0452), (999, 1.9623)]
        {
            let count = freedom + 1;
            let mut values: Vec<f64> =
                (0..count).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
            if count % 2 == 1 {
                values[0] = 0.0;
            }
            let scale = deviation(&values, mean(&values).unwrap());
            let half = half_width(&values, mean(&values).unwrap(), CONFIDENCE).unwrap();
            let got = half / scale * f64::from(count).sqrt();
            assert!((got - quantile).abs() < 1e-4, "{freedom}: {got}");
        }
    }

    /// A uniform draw from the open interval (0, 1).
    fn uniform(rng: &mut ChaCha8Rng) -> f64 {
        ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    #[test]
    fn ninety_five_of_a_hundred_intervals_hold_the_true_ratio() {
        let normal = Normal::new(0.0, 1.0).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for (rounds, true_ratio, spread) in [(2u32, 0.9, 0.1), (5, 1.0, 0.02), (10, 1.3, 0.3)] {
            let trials = 4000;
            let held = (0..trials)
                .filter(|_| {
                    let mut pair = |round: u32| {
                        // Drift that both share, larger than any effect.
                        let drift = (3.0 * normal.inverse_cdf(uniform(&mut rng))).exp();
                        let noise = (spread * normal.inverse_cdf(uniform(&mut rng))).exp();
                        ((round, 1000.0 * drift), (round, 1000.0 * drift * true_ratio * noise))
                    };
                    let (baseline, variant): (Vec<_>, Vec<_>) = (0..rounds).map(&mut pair).unzip();
                    let interval = paired_ratio(&baseline, &variant).unwrap().interval.unwrap();
                    interval.low <= true_ratio && true_ratio <= interval.high
                })
                .count();
            let coverage = held as f64 / f64::from(trials);
            assert!((coverage - 0.95).abs() < 0.015, "{rounds} rounds: {coverage}");
        }
    }

    proptest! {
        #[test]
        fn swapping_the_sides_inverts_the_ratio(
            values in proptest::collection::vec((1e-6f64..1e9, 1e-6f64..1e9), 2..20),
        ) {
            let side = |pick: fn(&(f64, f64)) -> f64| -> Vec<(u32, f64)> {
                values.iter().enumerate().map(|(i, pair)| (i as u32, pick(pair))).collect()
            };
            let there = paired_ratio(&side(|p| p.0), &side(|p| p.1)).unwrap();
            let back = paired_ratio(&side(|p| p.1), &side(|p| p.0)).unwrap();
            let (a, b) = (there.interval.unwrap(), back.interval.unwrap());
            prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
            prop_assert!((a.low.ln() + b.high.ln()).abs() < 1e-6);
            prop_assert!(a.low <= there.ratio && there.ratio <= a.high);
        }

        #[test]
        fn jain_lies_between_one_nth_and_one(
            shares in proptest::collection::vec(0.0f64..1e12, 1..50),
        ) {
            if let Some(index) = jain(&shares) {
                let least = 1.0 / shares.len() as f64;
                prop_assert!(index >= least * (1.0 - 1e-9) && index <= 1.0, "{}", index);
            }
        }
    }
}
