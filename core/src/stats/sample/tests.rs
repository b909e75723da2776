//! Ratios, differences and their intervals by hand, and how often intervals hold the truth.

use std::cmp::Ordering;

use super::*;
use crate::stats::effect::Distance;
use crate::stats::interval::{interval_of_look, ratio_from_logs};
use crate::stats::simulate::{Noise, Random};
use proptest::prelude::*;
use statrs::distribution::{ContinuousCDF, StudentsT};

type Side<'a> = &'a [(u32, f64)];

fn is_near(got: f64, expected: f64) -> bool {
    (got - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

fn paired_ratio(baseline: Side, variant: Side) -> Ratio {
    paired_effect(baseline, variant).unwrap().ratio().unwrap()
}

fn side(values: &[f64]) -> Vec<(u32, f64)> {
    (0..).zip(values.iter().copied()).collect()
}

#[test]
fn a_ratio_by_hand() {
    // ln ratios: 0, ln 2, ln 4; mean ln 2, deviation ln 2; t(0.975, 2) = 4.302653.
    let baseline = [(0, 1.0), (1, 10.0), (2, 100.0), (7, 5.0)];
    let variant = [(2, 400.0), (0, 1.0), (1, 20.0), (8, 5.0)];
    let ratio = paired_ratio(&baseline, &variant);
    let half = 4.302_652_729_911_275 * 2f64.ln() / 3f64.sqrt();
    let interval = ratio.interval.unwrap();
    assert_eq!(ratio.pairs, 3);
    assert!(is_near(ratio.ratio, 2.0), "{ratio:?}");
    assert!((interval.low.ln() - (2f64.ln() - half)).abs() < 1e-6, "{ratio:?}");
    assert!((interval.high.ln() - (2f64.ln() + half)).abs() < 1e-6, "{ratio:?}");
}

#[test]
fn a_distance_has_its_number_and_the_larger_of_one_kind() {
    let (ratio, difference) = (Distance::Ratio, Distance::Difference);
    assert_eq!((ratio(0.1).value(), difference(-3.0).value()), (0.1, -3.0));
    assert_eq!(ratio(0.1).max(ratio(0.2)), Some(ratio(0.2)));
    assert_eq!(difference(3.0).max(difference(2.0)), Some(difference(3.0)));
    assert_eq!(ratio(0.1).max(difference(0.2)), None);
}

#[test]
fn two_values_deviate_and_one_does_not() {
    let samples = Samples::paired(&side(&[1.0, 1.0]), &side(&[1.0, std::f64::consts::E]));
    let deviations = samples.before(2).unwrap().deviations().unwrap();
    assert!(deviations.len() == 1 && is_near(deviations[0], 0.5f64.sqrt()), "{deviations:?}");
    assert_eq!(samples.before(1).unwrap().deviations(), None);
}

#[test]
fn differences_stand_in_the_order_of_rounds() {
    let (baseline, variant) = ([(0, 1.0), (3, 3.0), (1, 10.0)], [(1, 12.0), (2, 9.0), (0, 2.0)]);
    assert_eq!(differences(&baseline, &variant), [1.0, 2.0]);
}

#[test]
fn an_interval_that_touches_no_change_is_on_neither_side() {
    let side = |low, high| {
        let interval = Some(Interval { low, high });
        let ratio = Effect::Ratio(Ratio { ratio: 1.0, interval, pairs: 9 });
        (ratio.side(), ratio.is_within(1.0))
    };
    assert_eq!(side(1.0, 1.5), (Ordering::Equal, true));
    assert_eq!(side(0.6, 1.0), (Ordering::Equal, true));
    assert_eq!(
        (side(1.01, 2.0), side(0.5, 0.99)),
        ((Ordering::Greater, false), (Ordering::Less, false))
    );
}

#[test]
fn the_limits_of_flips_by_hand() {
    // Six values: of 64 sets one may lie outside on each side, so all values are inside.
    let six = [3.0, -1.0, 2.0, 7.0, 5.0, 4.0];
    let Interval { low, high } = paired_limits(&six, 0.95).unwrap();
    assert_eq!((low, high), (-1.0, 7.0));
    // Seven: three of 128.
    let seven = [3.0, -1.0, 2.0, 7.0, 5.0, 4.0, 6.0];
    let mut means: Vec<f64> = (1u32..128)
        .map(|set| {
            let own = (0..7).filter(|at| set >> at & 1 == 1).map(|at| seven[at as usize]);
            own.clone().sum::<f64>() / own.count() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let limits = paired_limits(&seven, 0.95).unwrap();
    assert!(is_near(limits.low, means[2]) && is_near(limits.high, means[124]), "{limits:?}");
    // Six values have too few signs for an error of 1 %: Student's t, 4.0321 of 5 degrees.
    let Interval { low, high } = paired_limits(&six, 0.99).unwrap();
    let half = 4.0321 * deviation(&six, mean(&six).unwrap()) / 6f64.sqrt();
    assert!(((high - low) / 2.0 - half).abs() < 1e-3, "{low} {high} {half}");
}

#[test]
fn drawn_sets_come_near_to_all_of_them() {
    // Twelve values are gone through; with one more of the mean they are drawn.
    let mut random = Random::new(4);
    let mut values: Vec<f64> = (0..12).map(|_| random.normal()).collect();
    let all = paired_limits(&values, 0.95).unwrap();
    values.push(mean(&values).unwrap());
    let drawn = paired_limits(&values, 0.95).unwrap();
    let half = (all.high - all.low) / 2.0;
    let off = (all.low - drawn.low).abs().max((all.high - drawn.high).abs());
    assert!(off < 0.15 * half && off > 0.0, "{all:?} {drawn:?}");
    assert_eq!(paired_limits(&values, 0.95), Some(drawn), "not the same again");
}

#[test]
fn a_value_without_logarithm_makes_it_a_difference() {
    let never = side(&[0.0; 8]);
    let often = side(&[0.79, 0.80, 0.78, 0.79, 0.80, 0.78, 0.79, 0.79]);
    let Effect::Difference(found) = paired_effect(&never, &often).unwrap() else {
        panic!("a ratio to 0");
    };
    assert!(is_near(found.difference, 0.79), "{found:?}");
    let interval = found.interval.unwrap();
    assert!(interval.low > 0.78 && interval.high < 0.80, "{found:?}");
    // In the unit of the metric, however large, and the other way round as well.
    let late = side(&[13e6; 8]);
    let back = paired_effect(&late, &never).unwrap();
    let Effect::Difference(MeanDifference { difference, .. }) = back else { panic!("{back:?}") };
    assert!(is_near(difference, -13e6), "{difference}");
    assert!(back.side() == Ordering::Less && back.size() == f64::INFINITY);
    // Rounds that only one side has decide nothing.
    let longer = side(&[1.0, 2.0, 0.0]);
    assert!(paired_effect(&side(&[1.0, 2.0]), &longer).unwrap().ratio().is_some());
    let unpaired = unpaired_effect(&side(&[1.0, 2.0]), &longer).unwrap();
    let Effect::Difference(MeanDifference { difference, pairs, .. }) = unpaired else {
        panic!("{unpaired:?}");
    };
    assert!(is_near(difference, -0.5) && pairs == 2, "{unpaired:?}");
}

#[test]
fn without_an_effect_there_is_a_reason() {
    let cases: &[(Side, Side, &str)] = &[
        (&[], &[], "no round has a value of both"),
        (&[(0, 1.0)], &[(1, 1.0)], "no round has a value of both"),
        (&[(3, 1.0)], &[(3, f64::NAN)], "round 3 has NaN"),
        (&[(3, 0.0), (4, 1.0)], &[(3, 1.0), (4, f64::INFINITY)], "round 4 has inf"),
    ];
    for (baseline, variant, why) in cases {
        let got = paired_effect(baseline, variant).unwrap_err();
        assert_eq!(got.to_string(), *why, "{baseline:?} {variant:?}");
    }
    let nothing = unpaired_effect(&[(0, 2.0)], &[]).unwrap_err();
    assert_eq!(nothing.to_string(), "one side has no value");
}

#[test]
fn an_unpaired_ratio_by_hand() {
    // Logs 0, ln 2, ln 4 against ln 16 and ln 64: means ln 2 and ln 32, squared errors
    // (ln 2)^2 / 3 and (ln 4)^2 / 4; 16 / (1/2 + 9) = 1.68 degrees of freedom. The order and
    // the rounds do not matter.
    let effect = unpaired_effect(&[(5, 2.0), (0, 1.0), (9, 4.0)], &[(0, 64.0), (1, 16.0)]).unwrap();
    let student = StudentsT::new(0.0, 1.0, 16.0 / 9.5).unwrap();
    let half = student.inverse_cdf(0.975) * 2f64.ln() * (4.0f64 / 3.0).sqrt();
    let interval = effect.interval().unwrap();
    assert_eq!(effect.pairs(), 2);
    assert!(is_near(effect.ratio().unwrap().ratio, 16.0), "{effect:?}");
    assert!((interval.low.ln() - (16f64.ln() - half)).abs() < 1e-6, "{effect:?}");
    assert!((interval.high.ln() - (16f64.ln() + half)).abs() < 1e-6, "{effect:?}");
}

#[test]
fn sides_without_spread_have_what_can_be_known() {
    let constant = unpaired_effect(&[(0, 2.0), (1, 2.0)], &[(0, 3.0), (1, 3.0)]).unwrap();
    let (ratio, interval) = (constant.ratio().unwrap().ratio, constant.interval().unwrap());
    assert_eq!((interval.low, interval.high), (ratio, ratio));
    let single = unpaired_effect(&[(0, 2.0), (1, 4.0)], &[(7, 3.0)]).unwrap();
    assert_eq!((single.interval(), single.pairs()), (None, 1));
    let pair = paired_ratio(&[(0, 2.0)], &[(0, 3.0)]);
    assert_eq!((pair.interval, pair.pairs), (None, 1));
    assert!(is_near(pair.ratio, 1.5));
}

#[test]
fn a_look_has_a_wider_interval_than_a_ratio_alone() {
    let pairs: Vec<(u32, f64)> = (0..10).map(|round| (round, f64::from(round % 3))).collect();
    let whole = ratio_from_logs(&pairs).unwrap().interval.unwrap();
    assert_eq!(interval_of_look(&pairs, 1.0), Some(whole));
    let look = interval_of_look(&pairs, 0.1).unwrap();
    assert!(look.low < whole.low && look.high > whole.high, "{look:?} {whole:?}");
    assert_eq!(interval_of_look(&pairs[..1], 0.1), None);
}

#[test]
fn an_interval_reaches_as_far_as_its_further_end() {
    let ratio = |low, high| {
        Effect::Ratio(Ratio { ratio: 1.0, interval: Some(Interval { low, high }), pairs: 8 })
    };
    for (low, high, floor) in [(0.9, 1.05, 1.0 / 0.9 - 1.0), (0.99, 1.05, 0.05), (1.0, 1.0, 0.0)] {
        let Some(Distance::Ratio(got)) = ratio(low, high).reach() else { panic!("{low} {high}") };
        assert!((got - floor).abs() < 1e-12, "{low} {high}");
    }
    let interval = Some(Interval { low: -3.0, high: 2.0 });
    let difference = Effect::Difference(MeanDifference { difference: 0.0, interval, pairs: 8 });
    assert_eq!(difference.reach(), Some(Distance::Difference(3.0)));
}

#[test]
fn ninety_five_of_a_hundred_intervals_hold_the_truth() {
    let mut random = Random::new(1);
    for (rounds, true_ratio, spread) in
        [(2u32, 0.9, 0.1), (5, 1.0, 0.02), (6, 1.1, 0.1), (10, 1.3, 0.3), (15, 1.0, 0.1)]
    {
        let trials = 1500;
        let held = (0..trials).filter(|_| {
            let mut pair = |round: u32| {
                // Drift that both share, larger than any effect.
                let drift = (3.0 * random.normal()).exp();
                let noise = (spread * random.noise(Noise::Normal)).exp();
                ((round, 1000.0 * drift), (round, 1000.0 * drift * true_ratio * noise))
            };
            let (baseline, variant): (Vec<_>, Vec<_>) = (0..rounds).map(&mut pair).unzip();
            let interval = paired_ratio(&baseline, &variant).interval.unwrap();
            interval.low <= true_ratio && true_ratio <= interval.high
        });
        // Three standard errors; of few signs intervals are a little too wide.
        let coverage = held.count() as f64 / f64::from(trials);
        assert!((0.933..0.985).contains(&coverage), "{rounds} rounds: {coverage}");
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
        let there = paired_ratio(&side(|p| p.0), &side(|p| p.1));
        let back = paired_ratio(&side(|p| p.1), &side(|p| p.0));
        let (a, b) = (there.interval.unwrap(), back.interval.unwrap());
        prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
        prop_assert!((a.low.ln() + b.high.ln()).abs() < 1e-6);
        prop_assert!(a.low <= there.ratio * (1.0 + 1e-9) && there.ratio <= a.high * (1.0 + 1e-9));
    }
}

#[test]
fn the_interval_of_a_median_has_binomial_ranks() {
    // Conover, "Practical Nonparametric Statistics", table A3: the ranks that leave at most 2.5 % outside.
    let cases = [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (20, 6, 15), (100, 40, 61)];
    for (count, low, high) in cases {
        let values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
        let interval = crate::stats::median_interval(&values);
        assert_eq!(
            interval,
            Some(Interval { low: f64::from(low), high: f64::from(high) }),
            "{count}"
        );
    }
    assert_eq!(crate::stats::median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
    assert_eq!(crate::stats::median_interval(&[f64::NAN; 9]), None);
    assert_eq!(crate::stats::median_interval(&[]), None);
}
