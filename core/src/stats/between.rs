//! How much plans differ from each other, beyond the differences between runs.
//!
//! Input: for two sides that were not measured in the same rounds, the values of each, plan by plan. Output: how
//! far from no change their effect may lie though nothing differs. Pure.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::LEVEL;
use super::effect::Distance;

/// With fewer the spread between plans is a guess.
const MIN_FREEDOMS: usize = 2;

/// The smallest difference that counts, where there are enough plans to show how much they differ. Runs of one plan
/// share whatever changed since the last: heat, layout of memory, a boot. The limit is that of Student's t for the
/// difference of the two sides' means of plan means, at the level that is left for each of `verdicts`. Means are of
/// logarithms where all values have one. `None`: too few plans, or a plan without values.
pub fn floor_between(sides: [&[Vec<f64>]; 2], verdicts: usize) -> Option<Distance> {
    let all = || sides.into_iter().flatten().flatten();
    if !all().all(|value| value.is_finite()) {
        return None;
    }
    if all().all(|value| *value > 0.0) {
        return Some(Distance::Ratio(limit(sides, verdicts, f64::ln)?.exp() - 1.0));
    }
    Some(Distance::Difference(limit(sides, verdicts, |value| value)?))
}

/// How far two means of plan means may differ on a scale.
fn limit(sides: [&[Vec<f64>]; 2], verdicts: usize, scale: fn(f64) -> f64) -> Option<f64> {
    let mut squares = 0.0;
    let mut weights = 0.0;
    let mut plans = 0;
    for side in sides {
        let means: Vec<f64> =
            side.iter().map(|plan| mean_on(plan, scale)).collect::<Option<_>>()?;
        let count = means.len() as f64;
        let mean = means.iter().sum::<f64>() / count;
        squares += means.iter().map(|own| (own - mean).powi(2)).sum::<f64>();
        weights += 1.0 / count;
        plans += means.len();
    }
    let freedoms = plans.checked_sub(2).filter(|freedoms| *freedoms >= MIN_FREEDOMS)? as f64;
    let student = StudentsT::new(0.0, 1.0, freedoms).ok()?;
    let limit = student.inverse_cdf(1.0 - LEVEL / 2.0 / verdicts.max(1) as f64);
    Some(limit * (squares / freedoms * weights).sqrt())
}

fn mean_on(values: &[f64], scale: fn(f64) -> f64) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| scale(*value)).sum();
    (!values.is_empty()).then(|| sum / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::simulate::Random;

    #[test]
    fn the_floor_is_students_limit_of_plan_means() {
        let e = std::f64::consts::E;
        // Means of logarithms 0, 0.1, 0.2 and 0.1: squares 0.02, two degrees of freedom.
        let one: Vec<Vec<f64>> = [0.0f64, 0.1, 0.2].map(|log| vec![log.exp(); 4]).to_vec();
        let other = vec![vec![e.powf(0.1)]];
        // t of 2 degrees at 0.98 is 4.849; sqrt(0.01 * (1/3 + 1)) is 0.11547.
        let floor = ratio(floor_between([&one, &other], 1));
        assert!((floor - ((4.8487f64 * 0.115_470_1).exp() - 1.0)).abs() < 1e-3, "{floor}");
        assert!(ratio(floor_between([&one, &other], 20)) > floor, "more verdicts, less level each");
        assert_eq!(floor_between([&one[..2], &other], 1), None, "one degree of freedom");
        assert_eq!(floor_between([&one, &[vec![f64::NAN]]], 1), None, "not a number");
        assert_eq!(floor_between([&one, &[vec![]]], 1), None, "no value");
        // Means 0, 0.1, 0.2 and 0.1, with a value that has no logarithm.
        let counts = [0.0f64, 0.1, 0.2].map(|mean| vec![mean; 4]);
        let Some(Distance::Difference(floor)) = floor_between([&counts, &[vec![0.1]]], 1) else {
            panic!("no floor of differences");
        };
        assert!((floor - 4.8487f64 * 0.115_470_1).abs() < 1e-3, "{floor}");
    }

    fn ratio(floor: Option<Distance>) -> f64 {
        match floor {
            Some(Distance::Ratio(floor)) => floor,
            other => panic!("{other:?}"),
        }
    }

    /// Among equal sides whose plans differ by as much as their runs, few exceed the floor.
    #[test]
    fn equal_sides_of_several_plans_stay_below_it() {
        let mut random = Random::new(7);
        let mut plan = || -> Vec<f64> {
            let own = 0.01 * random.normal();
            (0..9).map(|_| (own + 0.01 * random.normal()).exp()).collect()
        };
        for (one, other) in [(1, 10), (3, 3), (5, 2)] {
            let mut above = 0;
            for _ in 0..1000 {
                let sides =
                    [one, other].map(|count| (0..count).map(|_| plan()).collect::<Vec<Vec<f64>>>());
                let mean = |side: &[Vec<f64>]| {
                    side.iter().map(|values| mean_on(values, f64::ln).unwrap()).sum::<f64>()
                        / side.len() as f64
                };
                let floor = ratio(floor_between([&sides[0], &sides[1]], 1));
                let differs = (mean(&sides[0]) - mean(&sides[1])).abs().exp() - 1.0;
                above += usize::from(differs > floor);
            }
            // 4 % of 1,000, give or take three standard errors.
            assert!((20..=60).contains(&above), "{one} against {other}: {above}");
        }
    }
}
