//! Intervals of an effect: by sign flips or Student's t of pairs, by Welch's of two sides.
//!
//! Input: numbers on the scale of the comparison. Output: limits; `None` where too few numbers have
//! any. Pure. Method: docs/verdicts.md.

use statrs::distribution::{Binomial, DiscreteCDF};

use super::effect::{Interval, Ratio};
use super::estimate::{deviation, mean, quantile};
use super::inversion::flip_limits;

/// Two-sided confidence of every interval here.
pub(super) const CONFIDENCE: f64 = 0.95;

/// The ratio that log-ratios by round make. `None` without any.
pub fn ratio_from_logs(logs: &[(u32, f64)]) -> Option<Ratio> {
    let values: Vec<f64> = logs.iter().map(|(_, log)| *log).collect();
    let interval = paired_limits(&values, CONFIDENCE).map(|of| exponential(&of));
    Some(Ratio { ratio: mean(&values)?.exp(), interval, pairs: values.len() })
}

/// The interval of a mean, for one look. It misses the true mean with probability `share` times the usual one: as
/// much as one look may spend.
pub fn interval_of_mean(values: &[f64], share: f64) -> Option<Interval> {
    paired_limits(values, 1.0 - (1.0 - CONFIDENCE) * share)
}

/// Like [`interval_of_mean`], for a ratio. `logs`: log-ratios by round.
pub fn interval_of_look(logs: &[(u32, f64)], share: f64) -> Option<Interval> {
    let values: Vec<f64> = logs.iter().map(|(_, log)| *log).collect();
    interval_of_mean(&values, share).map(|of| exponential(&of))
}

/// The 95 % interval of a median, between two of the values: each lies above the median with
/// probability 1/2, whatever their distribution. `None` of fewer than six, and where one is not finite.
///
/// Source: Thompson, "On Confidence Ranges for the Median and Other Expectation Distributions for
/// Populations of Unknown Distribution Form", Annals of Mathematical Statistics 7, 1936.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    if !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let below = Binomial::new(0.5, sorted.len() as u64).ok()?;
    let is_rare = |count: &usize| below.cdf(*count as u64) <= (1.0 - CONFIDENCE) / 2.0;
    let outside = (0..sorted.len() / 2).take_while(is_rare).last()?;
    Some(Interval { low: sorted[outside], high: sorted[sorted.len() - 1 - outside] })
}

pub(super) fn exponential(interval: &Interval) -> Interval {
    Interval { low: interval.low.exp(), high: interval.high.exp() }
}

/// The centres that sign flips do not reject: the test and the interval are one thing. If there are too few sign
/// patterns for this confidence, and so for any verdict, it is Student's t interval (Student, "The Probable Error
/// of a Mean", Biometrika 6, 1908).
pub(super) fn paired_limits(values: &[f64], confidence: f64) -> Option<Interval> {
    if let Some(interval) = flip_limits(values, 1.0 - confidence) {
        return Some(interval);
    }
    let center = mean(values)?;
    let count = values.len() as f64;
    let half = quantile(count - 1.0, confidence)? * deviation(values, center) / count.sqrt();
    Some(Interval { low: center - half, high: center + half })
}

/// Welch's interval for the difference of the means of two sides. `None` where one has fewer than
/// two values.
///
/// Source: Welch, "The Generalization of 'Student's' Problem when Several Different Population
/// Variances are Involved", Biometrika 34, 1947; degrees of freedom by Satterthwaite, "An
/// Approximate Distribution of Estimates of Variance Components", Biometrics Bulletin 2, 1946.
pub(super) fn welch_limits(baseline: &[f64], variant: &[f64], confidence: f64) -> Option<Interval> {
    let sides = [baseline, variant];
    if sides.iter().any(|side| side.len() < 2) {
        return None;
    }
    let means = [mean(baseline)?, mean(variant)?];
    let center = means[1] - means[0];
    let errors = [0, 1].map(|at| deviation(sides[at], means[at]).powi(2) / sides[at].len() as f64);
    let square = errors[0] + errors[1];
    let half = if square > 0.0 {
        let parts =
            [0, 1].map(|at: usize| (errors[at] / square).powi(2) / (sides[at].len() as f64 - 1.0));
        quantile(1.0 / (parts[0] + parts[1]), confidence)? * square.sqrt()
    } else {
        0.0
    };
    Some(Interval { low: center - half, high: center + half })
}
