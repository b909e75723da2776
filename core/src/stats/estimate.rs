//! Estimators of one sample.
//!
//! Input: plain numbers, one per run. Output: the estimate, or `None` where it is not defined;
//! never a stand-in value. Pure. Method: docs/method.md.

use statrs::distribution::{ChiSquared, ContinuousCDF, StudentsT};

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
    // The mean of equal values may be another number by its rounding.
    let are_equal = values.iter().all(|value| *value == values[0]);
    let deviation = || if are_equal { 0.0 } else { deviation(values, mean) };
    (values.len() >= 2).then(|| deviation() / mean)
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

/// The limit that a standard deviation stays below with probability `confidence`, given a sum of squares about
/// means with `freedom` degrees of freedom. `None` without any.
///
/// Source: squares of normal values over their variance are distributed as chi-square.
pub fn deviation_at_most(squares: f64, freedom: usize, confidence: f64) -> Option<f64> {
    let chi_squared = ChiSquared::new(freedom as f64).ok()?;
    Some((squares / chi_squared.inverse_cdf(1.0 - confidence)).sqrt())
}

/// The limit that Student's t stays below in absolute value with probability `confidence`.
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
    // Equal values leave no doubt, unless they lie on the threshold itself.
    let chance = match (distance, error) {
        (0.0, _) => 0.5,
        (_, 0.0) => 0.0,
        (distance, error) => StudentsT::new(0.0, 1.0, freedom).ok()?.sf(distance / error),
    };
    Some((mean > threshold, chance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn estimators_of_small_samples() {
        type Row = (&'static [f64], Option<f64>, Option<f64>, Option<f64>);
        let rates = [1.0, 3.0, 3.0];
        assert!(near(harmonic_mean(&rates), Some(9.0 / 5.0)), "{:?}", harmonic_mean(&rates));
        for without in [&[][..], &[2.0, 0.0], &[2.0, -2.0], &[2.0, f64::NAN], &[f64::INFINITY]] {
            assert_eq!(harmonic_mean(without), None, "{without:?}");
        }
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
        assert_eq!(cv(&[0.1; 7]), Some(0.0), "their mean is another number");
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
    fn the_quantile_agrees_with_printed_tables() {
        for (freedom, expected) in
            [(1.0, 12.7062), (2.0, 4.3027), (4.0, 2.7764), (9.0, 2.2622), (999.0, 1.9623)]
        {
            let got = quantile(freedom, 0.95).unwrap();
            assert!((got - expected).abs() < 1e-4, "{freedom}: {got}");
        }
    }

    proptest! {
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
