//! Units of a population, each measured for itself: the range of a further one, and the units that differ from the
//! others.
//!
//! Input: a log-ratio of each unit, with its error from its own rounds. Output: an interval, positions. Pure.
//! Method and figures: docs/verdicts.md, "Over hosts".

use super::LEVEL;
use super::effect::Interval;
use super::estimate::{deviation, mean, quantile};
use super::interval::CONFIDENCE;

/// At most one unit in this number may differ.
const UNITS_FOR_ONE: usize = 4;
/// Log-ratios that are nearer to each other are one: rounding differs from nothing.
const TIE_LN: f64 = 1e-9;

/// The measurements of one unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw {
    pub mean_ln: f64,
    /// The standard error of that; `None`: one pair has no scatter.
    pub error_ln: Option<f64>,
    pub pairs: usize,
}

impl Draw {
    /// Makes one from log-ratios by round. `None` without any.
    pub fn from_logs(logs: &[(u32, f64)]) -> Option<Draw> {
        let logs: Vec<f64> = logs.iter().map(|(_, log)| *log).collect();
        let (mean_ln, pairs) = (mean(&logs)?, logs.len());
        let error_ln = (pairs > 1).then(|| deviation(&logs, mean_ln) / (pairs as f64).sqrt());
        Some(Draw { mean_ln, error_ln, pairs })
    }
}

/// The range in which the ratio of a further unit, measured alike, lies with a probability of 95 %. `None` below
/// two units.
///
/// Source: Student's t for one further value of a normal sample, whose variance about the mean of n others is s^2
/// (1 + 1/n).
pub fn further(units: &[Draw]) -> Option<Interval> {
    let (center, sd) = center(units)?;
    let count = units.len() as f64;
    let half = quantile(count - 1.0, CONFIDENCE)? * sd * (1.0 + 1.0 / count).sqrt();
    Some(Interval { low: (center - half).exp(), high: (center + half).exp() })
}

/// The units that differ from the others, ascending, where `tests` lists of units are looked through:
/// of 100 times that nothing differs but by normal scatter, at most 5 have any such unit.
///
/// One has to lie further from the others than these lie from each other, and further than its own
/// rounds scatter. The first is the generalised extreme studentised deviate: the furthest unit is
/// held against the others and left out, up to a quarter of them, so that two that differ do
/// not hide each other (Rosner, "Percentage Points for a Generalized ESD Many-Outlier Procedure",
/// Technometrics 25, 1983). The second is Student's t, over as many units.
pub fn differing(units: &[Draw], tests: usize) -> Vec<usize> {
    let level = LEVEL / tests.max(1) as f64;
    let mut others: Vec<usize> = (0..units.len()).collect();
    let (mut taken, mut outlying) = (Vec::new(), 0);
    for _ in 0..units.len() / UNITS_FOR_ONE {
        let own: Vec<Draw> = others.iter().map(|at| units[*at]).collect();
        let Some((center, sd)) = center(&own) else { break };
        let far = |unit: &Draw| (unit.mean_ln - center).abs();
        let furthest = (0..own.len()).max_by(|a, b| far(&own[*a]).total_cmp(&far(&own[*b])));
        let Some(place) = furthest else { break };
        taken.push(others.remove(place));
        let limit = largest_deviate(own.len(), level).unwrap_or(f64::INFINITY);
        if far(&own[place]) > limit * sd + TIE_LN {
            outlying = taken.len();
        }
    }
    others.extend(taken.drain(outlying..));
    let own: Vec<Draw> = others.iter().map(|at| units[*at]).collect();
    let is_beyond_noise = |at: &usize| {
        let (Some((center, sd)), Draw { mean_ln, error_ln: Some(error), pairs }) =
            (center(&own), units[*at])
        else {
            return false;
        };
        let error = error.hypot(sd / (own.len() as f64).sqrt());
        let limit = quantile(pairs as f64 - 1.0, 1.0 - level / units.len() as f64);
        limit.is_some_and(|limit| (mean_ln - center).abs() > limit * error)
    };
    taken.retain(is_beyond_noise);
    taken.sort_unstable();
    taken
}

/// Mean and standard deviation of the log-ratios; `None` below two.
fn center(units: &[Draw]) -> Option<(f64, f64)> {
    let logs: Vec<f64> = units.iter().map(|unit| unit.mean_ln).collect();
    let mean = mean(&logs).filter(|_| logs.len() > 1)?;
    Some((mean, deviation(&logs, mean)))
}

/// The limit that the largest of `count` deviations from the mean, in standard deviations, exceeds with probability
/// `level`.
fn largest_deviate(count: usize, level: f64) -> Option<f64> {
    let (count, freedom) = (count as f64, count as f64 - 2.0);
    let student = quantile(freedom, 1.0 - level / count)?;
    Some((count - 1.0) * student / ((freedom + student * student) * count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::simulate::{Noise, Random};

    fn unit(mean_ln: f64) -> Draw {
        Draw { mean_ln, error_ln: Some(0.001), pairs: 10 }
    }

    #[test]
    fn a_unit_is_the_mean_of_its_rounds() {
        let one = Draw::from_logs(&[(0, 0.1), (3, 0.3)]).unwrap();
        assert!((one.mean_ln - 0.2).abs() < 1e-12 && one.pairs == 2, "{one:?}");
        // Deviation 0.1 times the root of 2, over the root of 2.
        assert!((one.error_ln.unwrap() - 0.1).abs() < 1e-12, "{one:?}");
        assert_eq!(Draw::from_logs(&[(0, 0.1)]).unwrap().error_ln, None);
        assert_eq!(Draw::from_logs(&[]), None);
    }

    #[test]
    fn a_further_unit_lies_where_students_t_says() {
        // Mean 0, deviation 0.1, three units: t of 2 degrees at 0.975 is 4.3027.
        let units = [-0.1, 0.0, 0.1].map(unit);
        let interval = further(&units).unwrap();
        let half = 4.302_653 * 0.1 * (4.0f64 / 3.0).sqrt();
        assert!((interval.high.ln() - half).abs() < 1e-4, "{interval:?}");
        assert!((interval.low * interval.high - 1.0).abs() < 1e-9, "{interval:?}");
        assert_eq!(further(&units[..1]), None);
    }

    #[test]
    fn limits_agree_with_printed_tables() {
        // Grubbs, two-sided 0.05: 2.290 of 10 values, 2.709 of 20 (NIST, e-Handbook, 1.3.5.17.1).
        for (count, printed) in [(10, 2.290), (20, 2.709)] {
            let limit = largest_deviate(count, 0.05).unwrap();
            assert!((limit - printed).abs() < 0.001, "{count}: {limit}");
        }
        assert_eq!(largest_deviate(2, 0.05), None);
    }

    /// Twelve units within a percent of each other, far from no change.
    fn alike() -> Vec<Draw> {
        let places = [0.3, -0.5, 0.1, 0.9, -0.8, 0.0, 0.6, -0.2, -0.6, 0.4, 0.2, -0.4];
        places.map(|place| unit(1.0 + 0.01 * place)).to_vec()
    }

    #[test]
    fn what_lies_far_from_the_others_differs_and_two_do_not_hide_each_other() {
        assert_eq!(differing(&alike(), 1), Vec::<usize>::new());
        let mut one = alike();
        one[7].mean_ln = 0.95;
        assert_eq!(differing(&one, 20), [7]);
        let mut two = one.clone();
        two[2].mean_ln = 0.94;
        assert_eq!(differing(&two, 20), [2, 7]);
        // A unit whose own rounds scatter as far, or which has only one, shows nothing.
        one[7].error_ln = Some(0.1);
        assert_eq!(differing(&one, 20), Vec::<usize>::new());
        // A rare error of a mean of two rounds is many times as far: one degree of freedom.
        (one[7].error_ln, one[7].pairs) = (Some(0.001), 2);
        assert_eq!(differing(&one, 20), Vec::<usize>::new());
        one[7].error_ln = None;
        assert_eq!(differing(&one, 20), Vec::<usize>::new());
        // Equal up to rounding.
        let mut equal = vec![unit(0.1); 8];
        equal[0].mean_ln += 1e-16;
        assert_eq!(differing(&equal, 1), Vec::<usize>::new());
        assert_eq!(differing(&[unit(0.0), unit(1.0), unit(0.0)], 1), Vec::<usize>::new());
    }

    /// If units differ by normal scatter alone, few lists have one that is named.
    #[test]
    fn few_lists_of_equal_units_have_one_that_differs() {
        let mut random = Random::new(3);
        for count in [4, 8, 20] {
            let named = (0..1000).filter(|_| {
                let mut own = |sd: f64| sd * random.noise(Noise::Normal);
                let units: Vec<Draw> = (0..count).map(|_| unit(own(0.02))).collect();
                !differing(&units, 1).is_empty()
            });
            // 4 % of 1,000, and three standard errors.
            let named = named.count();
            assert!(named <= 60, "{count} units: {named}");
        }
    }
}
