//! Where values lie on an axis, and the round values that it names. Pure.

pub use super::round;

use crate::report::numbers::Scale;
use crate::report::phrases::joined;

use super::Tick;

/// The approximate number of grid lines.
const TICKS: f64 = 5.0;
/// The greatest over the least of values on a linear axis.
const MAX_LINEAR: f64 = 20.0;
/// A chart keeps this part of its height where it has the axis of another.
const MAX_FLATTENED: f64 = 4.0;
/// Labels have an exponent from here on, beyond so many decimals, and at most so many digits.
const MAX_IN_FULL: f64 = 1e9;
const MAX_DECIMALS: usize = 6;
const MAX_DIGITS: usize = 17;
/// Values nearer to each other, as a share of the greater, are one.
const ALIKE: f64 = 1e-9;
/// Behind the title of an axis that a chart next to it does not have.
pub const OWN_AXIS: &str = "own axis";

/// An axis: the values at its ends, and the places of these.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    values: [f64; 2],
    places: [f64; 2],
    is_log: bool,
}

impl Span {
    pub fn linear(values: [f64; 2], places: [f64; 2]) -> Span {
        Span { values, places, is_log: false }
    }

    /// Values are positive.
    pub fn log(values: [f64; 2], places: [f64; 2]) -> Span {
        Span { values, places, is_log: true }
    }

    /// The place of a value; one beyond the ends is moved to the end.
    pub fn place(&self, value: f64) -> f64 {
        let scaled =
            |value: f64| if self.is_log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let [from, to] = self.values.map(scaled);
        let share =
            if to > from { ((scaled(value) - from) / (to - from)).clamp(0.0, 1.0) } else { 0.5 };
        let share = if share.is_finite() { share } else { 0.5 };
        self.places[0] + share * (self.places[1] - self.places[0])
    }

    pub fn is_log(&self) -> bool {
        self.is_log
    }

    /// The title of the axis, which says where equal distances are no equal differences from 0 on.
    pub fn title(&self, of: &str) -> String {
        let [low, high] = self.values;
        let said = match self.is_log {
            true => "log scale",
            false if low <= 0.0 && high >= 0.0 => "",
            false => "not from 0",
        };
        joined([of.to_string(), said.to_string()], ", ")
    }

    pub fn ends(&self) -> [f64; 2] {
        self.values
    }

    pub fn holds(&self, value: f64) -> bool {
        (self.values[0]..=self.values[1]).contains(&value)
    }

    pub fn tick(&self, value: f64, label: String) -> Tick {
        Tick { at: round(self.place(value)), label }
    }
}

/// A number without the zeros at its end: `10.0` is `10`.
pub fn short(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// Ticks of an axis in the unit of a scale, with as many digits as distinguish them.
pub fn labels(ticks: &[f64], scale: &Scale) -> Vec<String> {
    let values: Vec<f64> = ticks.iter().map(|tick| scale.scaled(*tick)).collect();
    let gaps = values.windows(2).map(|two| (two[1] - two[0]).abs());
    let nearest = gaps.fold(f64::MAX, f64::min);
    let is_long = values.iter().any(|value| value.abs() >= MAX_IN_FULL);
    let written = |digits: usize| -> Vec<String> {
        let one = |value: &f64| match value {
            0.0 => "0".to_string(),
            value if is_long || digits > MAX_DECIMALS => format!("{value:.digits$e}"),
            value => short(&format!("{value:.digits$}")).to_string(),
        };
        values.iter().map(one).collect()
    };
    let is_near = |(label, value): (&String, &f64)| {
        let error = label.parse().map_or(f64::MAX, |shown: f64| (shown - value).abs());
        error <= 0.01 * nearest.min(value.abs())
    };
    let is_exact = |labels: &Vec<String>| labels.iter().zip(&values).all(is_near);
    (0..MAX_DIGITS).map(written).find(is_exact).unwrap_or_else(|| written(MAX_DIGITS))
}

/// A tick of an axis without a unit; a value of many digits with an exponent.
pub fn label(value: f64, decimals: usize) -> String {
    if value.abs() < 1e7 { format!("{value:.decimals$}") } else { format!("{value:.2e}") }
}

/// Round values from at most `from` to at least `to`, and how many decimals they need.
pub fn linear_ticks(from: f64, to: f64) -> (Vec<f64>, usize) {
    if !(to - from).is_finite() || to <= from {
        return (vec![0.0, 1.0], 0);
    }
    let rough = (to - from) / TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    let step = steps.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(steps[3]);
    let [first, last] = [(from / step + 1e-9).floor(), (to / step - 1e-9).ceil()];
    let count = (last - first).clamp(1.0, 50.0) as u32;
    let ticks = (0..=count).map(|at| (first + f64::from(at)) * step);
    (ticks.collect(), (-step.log10().floor()).clamp(0.0, 9.0) as usize)
}

/// An axis of values in these places: its span, and the values that it names. Values that spread over
/// more than a decade have a logarithmic one; it begins at 0 where that is not far.
pub fn axis(low: f64, high: f64, places: [f64; 2]) -> (Span, Vec<f64>) {
    if low > 0.0 && high / low > MAX_LINEAR {
        let ends = [low / 1.1, high * 1.1];
        return (Span::log(ends, places), log_ticks(ends[0], ends[1]));
    }
    let size = low.abs().max(high.abs());
    let room = match high - low {
        spread if spread > size * ALIKE => spread * 0.08,
        _ => size.max(f64::MIN_POSITIVE) * 0.1,
    };
    let from = match low {
        low if low < 0.0 => low - room,
        low if low < high / 2.0 => 0.0,
        low => (low - room).max(0.0),
    };
    let (ticks, _) = linear_ticks(from, high + room);
    (Span::linear([ticks[0], ticks[ticks.len() - 1]], places), ticks)
}

/// The end of the one axis that charts next to each other have, so that they compare. `None`: it would leave
/// one of them, whose own ends these are, without height.
pub fn common_end(ends: impl Iterator<Item = f64>) -> Option<f64> {
    let [low, high] = extent(ends.filter(|end| *end > 0.0)).unwrap_or_default();
    (low * MAX_FLATTENED >= high).then_some(high)
}

/// The least and the greatest; `None` without a finite value.
pub fn extent(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let ends = |[low, high]: [f64; 2], value: f64| [low.min(value), high.max(value)];
    values
        .filter(|value| value.is_finite())
        .map(|value| [value; 2])
        .reduce(|ends_of, [v, _]| ends(ends_of, v))
}

/// Values of the form 1, 2 or 5 times a power of ten between the two; powers alone where these are
/// many, and equal steps where only one of them is there or none.
pub fn log_ticks(from: f64, to: f64) -> Vec<f64> {
    let decades = (to / from).log10();
    let digits: &[f64] = if decades > 4.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = from.log10().floor() as i32..=to.log10().ceil() as i32;
    let values = powers.flat_map(|power| digits.iter().map(move |of| of * 10f64.powi(power)));
    let is_within = |value: &f64| (from * 0.999..=to * 1.001).contains(value);
    let values: Vec<f64> = values.filter(is_within).collect();
    match values.len() {
        0 | 1 => linear_ticks(from, to).0.into_iter().filter(is_within).collect(),
        _ => values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Unit;

    #[test]
    fn ticks_are_round_and_hold_the_values() {
        let cases: &[(f64, f64, &[f64], usize)] = &[
            (0.0, 10.0, &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0], 0),
            (0.0, 0.93, &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0], 1),
            (97.0, 103.0, &[96.0, 98.0, 100.0, 102.0, 104.0], 0),
            (1.0, 1.0, &[0.0, 1.0], 0),
            (f64::NAN, 1.0, &[0.0, 1.0], 0),
        ];
        for (from, to, expected, digits) in cases {
            let (ticks, decimals) = linear_ticks(*from, *to);
            assert_eq!(ticks.len(), expected.len(), "{ticks:?}");
            assert!(ticks.iter().zip(*expected).all(|(a, b)| (a - b).abs() < 1e-9), "{ticks:?}");
            assert_eq!(decimals, *digits);
        }
        assert_eq!(log_ticks(900.0, 11_000.0), [1000.0, 2000.0, 5000.0, 10_000.0]);
        assert_eq!(log_ticks(1.0, 1e6).len(), 7);
    }

    proptest::proptest! {
        #[test]
        fn ticks_reach_what_they_must_in_few_round_steps(most in 1e-9f64..1e12) {
            let (ticks, _) = linear_ticks(0.0, most);
            let (step, end) = (ticks[1] - ticks[0], ticks[ticks.len() - 1]);
            proptest::prop_assert!(end >= most * (1.0 - 1e-6) && end - step < most);
            proptest::prop_assert!((2..=11).contains(&ticks.len()), "{:?}", ticks);
        }
    }

    #[test]
    fn labels_have_the_digits_of_their_step() {
        let times = Scale::for_values(Unit::Ns, Some(356e3));
        let ticks = [355.0, 355.5, 356.0, 356.5].map(|us| us * 1e3);
        assert_eq!(labels(&ticks, &times), ["355", "355.5", "356", "356.5"]);
        let plain = Scale::for_values(Unit::Ratio, None);
        assert_eq!(labels(&[0.0, 1e10, 2e10], &plain), ["0", "1e10", "2e10"]);
        assert_eq!(labels(&[0.1, 1.0, 1000.0], &plain), ["0.1", "1", "1000"]);
    }

    proptest::proptest! {
        /// Whatever is drawn: from equal values to many decades.
        #[test]
        fn an_axis_has_two_labels_at_least_and_none_twice(
            digits in -9f64..12.0, spread in -12f64..7.0, is_below in proptest::bool::ANY,
        ) {
            let low = 10f64.powf(digits) * if is_below { -1.0 } else { 1.0 };
            let high = low + low.abs() * 10f64.powf(spread);
            for unit in [Unit::Ns, Unit::OpsPerS, Unit::Count, Unit::Ratio] {
                let (span, ticks) = axis(low, high, [0.0, 1.0]);
                proptest::prop_assert!(span.holds(low) && span.holds(high), "{:?}", span);
                let labels = labels(&ticks, &Scale::for_values(unit, Some(high)));
                let once: std::collections::BTreeSet<&String> = labels.iter().collect();
                proptest::prop_assert!(labels.len() >= 2 && once.len() == labels.len(), "{:?}", labels);
            }
        }
    }

    #[test]
    fn a_log_axis_has_equal_ratios_at_equal_distances() {
        let span = Span::log([1.0, 100.0], [0.0, 200.0]);
        assert_eq!(
            [1.0, 10.0, 100.0, 1000.0].map(|value| round(span.place(value))),
            [0.0, 100.0, 200.0, 200.0]
        );
        assert!(!span.holds(1000.0));
    }

    #[test]
    fn titles_say_what_an_axis_is_and_one_axis_flattens_no_chart() {
        let titles = [[0.0, 9.0], [-2.0, 9.0], [5.0, 9.0]]
            .map(|ends| Span::linear(ends, [0.0, 1.0]).title("us"));
        assert_eq!(titles, ["us", "us", "us, not from 0"]);
        assert_eq!(Span::log([1.0, 9.0], [0.0, 1.0]).title(""), "log scale");
        let cases: [(&[f64], Option<f64>); 4] = [
            (&[1.0, 4.0], Some(4.0)),
            (&[1.0, 0.0, 5.0], None),
            (&[0.0, 3.0], Some(3.0)),
            (&[], Some(0.0)),
        ];
        for (ends, expected) in cases {
            assert_eq!(common_end(ends.iter().copied()), expected, "{ends:?}");
        }
    }
}
