//! Numbers as people read them.

use proptest::prelude::*;

use super::*;
use crate::stats::Interval;

#[test]
fn values_in_the_scale_of_a_typical_one() {
    let cases: &[(Unit, f64, f64, &str)] = &[
        (Unit::Ns, 0.0, 0.0, "0 ns"),
        (Unit::Ns, 832.0, 832.0, "832 ns"),
        (Unit::Ns, 999.4, 999.4, "999 ns"),
        (Unit::Ns, 999.6, 999.6, "1.00 us"),
        (Unit::Ns, 9_020.0, 9_020.0, "9.02 us"),
        (Unit::Ns, 1_266_000.0, 755_400.0, "0.755 ms"),
        (Unit::Ns, 755_000.0, 12_449_000.0, "12449 us"),
        (Unit::Ns, 57_747_000_000.0, 57_747_000_000.0, "57.7 s"),
        (Unit::Ns, 1.8e19, 1.8e19, "1.80e10 s"),
        (Unit::OpsPerS, 4376.2, 4376.2, "4376 /s"),
        (Unit::OpsPerS, 41_664.0, 41_664.0, "41.66 k/s"),
        (Unit::OpsPerS, 1_234_567.0, 41_664.0, "0.04166 M/s"),
        (Unit::OpsPerS, 154.04, 154.04, "154.0 /s"),
        (Unit::PerS, 0.03, 0.03, "0.03000 /s"),
        (Unit::BytesPerS, 2.5e9, 2.5e9, "2.500 GB/s"),
        (Unit::Joules, 0.25, 0.25, "0.2500 J"),
        (Unit::Joules, 12_500.0, 12_500.0, "12.50 kJ"),
        (Unit::Count, 12.0, 12.0, "12 "),
        (Unit::Count, 12.0, 3.5, "3.500 "),
        (Unit::Ratio, 0.9985, 0.9985, "0.9985 "),
        (Unit::Cpus, 1.98, 1.98, "1.980 "),
        (Unit::Count, 1e300, 1e300, "1.00e288 T"),
    ];
    for (unit, typical, value, expected) in cases {
        let scale = Scale::for_values(*unit, Some(*typical));
        assert_eq!(format!("{} {}", scale.show(*value), scale.suffix), *expected);
    }
}

#[test]
fn what_is_not_there_has_no_unit() {
    let scale = Scale::for_values(Unit::PerS, Some(5.0));
    assert_eq!(
        (scale.with_suffix(None), scale.with_suffix(Some(5.0))),
        ("-".into(), "5.000 /s".into())
    );
}

#[test]
fn ratios() {
    let cases: &[(f64, &str)] = &[
        (1.0, "1.000"),
        (0.9785, "0.979"),
        (9.9996, "10.0"),
        (12.345, "12.3"),
        (999.6, ">999"),
        (0.0001, "<0.001"),
        (0.0, "<0.001"),
        (f64::INFINITY, ">999"),
    ];
    for (value, expected) in cases {
        assert_eq!(ratio(*value), *expected);
    }
}

fn change(ratio: f64, interval: Option<(f64, f64)>) -> String {
    let interval = interval.map(|(low, high)| Interval { low, high });
    Change::from_ratio(&Ratio { ratio, interval, pairs: 9 }).with_interval()
}

#[test]
fn a_ratio_is_a_change_in_percent_or_a_factor() {
    type Case = (f64, Option<(f64, f64)>, &'static str);
    let cases: &[Case] = &[
        (1.0, None, "0 % ?"),
        (0.9999, None, "0 % ?"),
        (1.0, Some((1.0, 1.0)), "0 % +-0.0"),
        (0.909, Some((0.898, 0.92)), "-9.1 % +-1.1"),
        (1.0994, None, "+9.9 % ?"),
        (1.0996, None, "+10 % ?"),
        (0.02, None, "-98 % ?"),
        (1.71, Some((1.5, 1.96)), "+71 % +50..+96"),
        (1.086, Some((0.97, 1.22)), "+8.6 % -3..+22"),
        (1.01, Some((0.75, 1.36)), "+1.0 % -25..+36"),
        (3.99, None, "+299 % ?"),
        (13.1, Some((11.8, 14.5)), "13.1x 11.8x..14.5x"),
        (4.0, None, "4.00x ?"),
        (999.0, None, "999x ?"),
        (999.0, Some((998.0, 2e3)), "999x 998x..>999x"),
        // These intervals come from two or three values.
        (5.78, Some((3.0, 2e3)), "5.78x ?"),
        (0.99, Some((1e-4, 6.7e5)), "-1.0 % ?"),
        (1e5, None, ">999x ?"),
        (0.001, Some((0.0006, 0.002)), "-99.9 % +-0.1"),
        (0.00142, Some((0.00112, 0.00424)), "-99.9 % -99.9..-99.6"),
        (0.000012, None, "-99.999 % ?"),
    ];
    for (ratio, interval, expected) in cases {
        assert_eq!(change(*ratio, *interval), *expected);
    }
}

#[test]
fn a_difference_is_in_the_unit_of_its_metric() {
    type Case = (Unit, f64, Option<(f64, f64)>, &'static str);
    let cases: &[Case] = &[
        (Unit::Ratio, 0.7924, Some((0.78, 0.805)), "+0.792 +-0.013"),
        (Unit::Ratio, -0.004, Some((-0.009, -0.001)), "-0.0040 -0.0090..-0.0010"),
        (Unit::Ns, 13_658_556.0, Some((13.2e6, 14.1e6)), "+13.7 ms +-0.5"),
        (Unit::Ns, -200.0, None, "-200 ns ?"),
        (Unit::OpsPerS, -97.0, Some((-97.0, -97.0)), "-97.0 /s +-0"),
        (Unit::Count, 0.0, Some((-1.0, 1.0)), "0 +-1.00"),
        (Unit::Count, 0.0, Some((0.0, 0.0)), "0 +-0"),
    ];
    for (unit, difference, interval, expected) in cases {
        let interval = interval.map(|(low, high)| Interval { low, high });
        let effect =
            Effect::Difference(MeanDifference { difference: *difference, interval, pairs: 8 });
        assert_eq!(Change::from_effect(&effect, *unit).with_interval(), *expected);
    }
}

#[test]
fn a_row_that_begins_with_zero_has_the_scale_of_what_has_a_size() {
    let cell = |value| crate::report::testing::values(value, 0.0);
    let row = crate::report::testing::row(
        "tolerance",
        Unit::Ns,
        crate::report::testing::LOWER,
        vec![cell(0.0), cell(13_658_556.0)],
    );
    let scale = Scale::of_row(&row);
    assert_eq!(
        [0.0, 13_658_556.0].map(|value| scale.with_suffix(Some(value))),
        ["0 ms", "13.7 ms"]
    );
}

#[test]
fn counts_and_percentages() {
    assert_eq!([0, 1, 2].map(|runs| counted(runs, "run")), ["0 runs", "1 run", "2 runs"]);
    let cases: &[(f64, &str)] = &[(0.02, "2 %"), (0.005, "0.5 %"), (0.07, "7 %"), (1.0, "100 %")];
    for (share, expected) in cases {
        assert_eq!(percent(*share), *expected);
    }
}

proptest! {
    #[test]
    fn numbers_stay_short_and_near(value in proptest::num::f64::NORMAL) {
        let shown = significant(value, 4);
        prop_assert!(shown.len() <= 11, "{}", shown);
        let back: f64 = shown.parse().unwrap();
        prop_assert!((back - value).abs() <= 0.006 * value.abs(), "{} {}", value, shown);
    }

    /// The sign never contradicts the ratio, and the shown interval holds the shown change.
    #[test]
    fn a_change_is_short_and_of_the_ratio_s_sign(
        ln in -7.0..7.0f64,
        below in 0.0001..0.5f64,
        above in 0.0001..0.5f64,
    ) {
        let ratio = ln.exp();
        let interval = Some(Interval { low: ratio * (-below).exp(), high: ratio * above.exp() });
        let Change { change, interval } = Change::from_ratio(&Ratio { ratio, interval, pairs: 9 });
        prop_assert!(change.len() <= 8, "{}", change);
        prop_assert!(interval.len() <= 15, "{}", interval);
        prop_assert!(!interval.is_empty());
        match change.strip_suffix('x') {
            Some(factor) => {
                let factor: f64 = factor.trim_start_matches('>').parse().unwrap();
                prop_assert!((factor / ratio - 1.0).abs() < 0.05 || ratio > 999.0);
            }
            None => {
                let percent: f64 = change.strip_suffix(" %").unwrap().parse().unwrap();
                prop_assert!((percent - 100.0 * (ratio - 1.0)).abs() <= 0.51);
                prop_assert!(percent == 0.0 || (percent > 0.0) == (ratio > 1.0));
            }
        }
    }
}
