//! Numbers for the eye: scales, significant digits, ratios as changes in percent. Pure.

use std::fmt::Display;

use crate::analysis::Row;
use crate::model::Unit;
use crate::stats::{Effect, Interval, MeanDifference, Ratio};

/// How a column shows its values: all in one unit, so that rows compare at a glance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    factor: f64,
    digits: usize,
    /// Whether whole numbers show as such.
    whole: bool,
    /// `us`, `k/s`; empty for plain numbers.
    pub suffix: &'static str,
}

/// From which value on, and the suffix then.
const TIMES: &[(f64, &str)] = &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
const RATES: &[(f64, &str)] =
    &[(1e12, "T/s"), (1e9, "G/s"), (1e6, "M/s"), (1e4, "k/s"), (0.0, "/s")];
const BYTES: &[(f64, &str)] =
    &[(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (0.0, "B/s")];
const ENERGIES: &[(f64, &str)] = &[(1e6, "MJ"), (1e3, "kJ"), (0.0, "J")];
const COUNTS: &[(f64, &str)] = &[(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"), (0.0, "")];

impl Scale {
    /// The scale in which `typical` is easy to read. Latencies have three digits, which is
    /// what a histogram bucket (0.8 %) supports.
    pub fn for_values(unit: Unit, typical: Option<f64>) -> Scale {
        let (steps, digits) = match unit {
            Unit::Ns => (TIMES, 3),
            Unit::OpsPerS | Unit::PerS => (RATES, 4),
            Unit::BytesPerS => (BYTES, 4),
            Unit::Joules => (ENERGIES, 4),
            Unit::Count => (COUNTS, 4),
            Unit::Cpus | Unit::Ratio => (&[(0.0, "")][..], 4),
        };
        let typical = typical.unwrap_or(0.0).abs();
        // 999.7 us would show as 1000 us: half of the last digit counts as the next step.
        let reaches = |from: f64| typical * (1.0 + 0.5 * 0.1f64.powi(digits as i32)) >= from;
        let found = steps.iter().find(|(from, _)| reaches(*from));
        let &(from, suffix) = found.unwrap_or(&steps[steps.len() - 1]);
        // Thousands begin at ten of them: 4380 reads more easily than 4.380 k.
        let factor = if from == 1e4 { 1e3 } else { from.max(1.0) };
        Scale { factor, digits, whole: unit == Unit::Count, suffix }
    }

    /// One scale for all values of a row: that of the first that has a size.
    pub fn of_row(row: &Row) -> Scale {
        let medians = row.cells.iter().filter_map(|cell| cell.median);
        Scale::for_values(row.kind.unit, medians.into_iter().find(|median| *median != 0.0))
    }

    /// `52.7 us`; a dash has no unit.
    pub fn with_suffix(&self, value: Option<f64>) -> String {
        let suffix = value.map_or("", |_| self.suffix);
        format!("{} {suffix}", self.show_known(value)).trim_end().to_string()
    }

    /// A time in the unit in which it is easy to read: `52.7 us`.
    pub fn time(ns: f64) -> String {
        Scale::for_values(Unit::Ns, Some(ns)).with_suffix(Some(ns))
    }

    pub fn show_known(&self, value: Option<f64>) -> String {
        value.map_or("-".to_string(), |value| self.show(value))
    }

    /// A value in this scale's unit.
    pub fn scaled(&self, value: f64) -> f64 {
        value / self.factor
    }

    pub fn show(&self, value: f64) -> String {
        let scaled = self.scaled(value);
        if self.whole && scaled.fract() == 0.0 && scaled.abs() < 1e9 {
            return format!("{scaled:.0}");
        }
        significant(scaled, self.digits)
    }
}

/// `digits` significant digits, whole numbers in full; beyond a dozen columns with an exponent.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    let magnitude = value.abs();
    if !(1e-6..1e9).contains(&magnitude) {
        return format!("{value:.2e}");
    }
    let decimals = |magnitude: f64| (digits as i32 - 1 - magnitude.log10().floor() as i32).max(0);
    let shown = format!("{value:.*}", decimals(magnitude) as usize);
    // 9.996 with three digits rounds up to 10.00, which has one too many.
    let rounded = shown.parse::<f64>().map_or(magnitude, f64::abs);
    format!("{value:.*}", decimals(rounded.max(magnitude)) as usize)
}

/// A ratio with three decimals, or as many digits from 10 on.
pub fn ratio(ratio: f64) -> String {
    match ratio {
        r if r < 0.0005 => "<0.001".to_string(),
        r if r < 9.9995 => format!("{r:.3}"),
        r if r < MAX_FACTOR => significant(r, 3),
        _ => ">999".to_string(),
    }
}

/// An effect as a reader takes it in: the change in percent, a factor where that says more, or a
/// difference in the metric's unit.
pub struct Change {
    /// `-9.1 %`, `13.1x`, `+13.7 ms`.
    pub change: String,
    /// `+-1.1`, `50..96`; `?` where it says nothing: it is too wide, or there is one pair and no interval.
    pub interval: String,
}

/// Above this ratio, or below its inverse, a factor says more than a percentage.
pub const FACTOR_FROM: f64 = 4.0;
/// An interval whose ends differ by a larger factor says nothing: two or three values have such.
const MAX_SPAN: f64 = 100.0;
/// The digits of a larger ratio do not matter.
const MAX_FACTOR: f64 = 999.5;

impl Change {
    pub fn from_ratio(ratio: &Ratio) -> Change {
        let Ratio { ratio, interval, .. } = *ratio;
        let is_factor = ratio >= FACTOR_FROM;
        let interval = interval.map(|Interval { low, high }| match is_factor {
            _ if high > MAX_SPAN * low => nothing(),
            true => format!("{}..{}", factor(low), factor(high)),
            false => percent_interval(ratio, low, high),
        });
        if is_factor {
            return Change { change: factor(ratio), interval: interval.unwrap_or_else(nothing) };
        }
        let percent = 100.0 * (ratio - 1.0);
        let change = format!("{} %", signed(percent, decimals(percent)));
        Change { change, interval: interval.unwrap_or_else(nothing) }
    }

    pub fn from_effect(effect: &Effect, unit: Unit) -> Change {
        match effect {
            Effect::Ratio(ratio) => Change::from_ratio(ratio),
            Effect::Difference(difference) => Change::from_difference(difference, unit),
        }
    }

    /// Three digits of the largest of the difference and its limits; two where they come late.
    fn from_difference(effect: &MeanDifference, unit: Unit) -> Change {
        let MeanDifference { difference, interval, .. } = *effect;
        let limits = interval.map_or([difference; 2], |of| [of.low, of.high]);
        let largest = limits.into_iter().chain([difference]).map(f64::abs).fold(0.0, f64::max);
        let scale = Scale::for_values(unit, Some(largest));
        let [value, low, high] = [difference, limits[0], limits[1]].map(|of| of / scale.factor);
        let digits =
            if largest > 0.0 { (largest / scale.factor).log10().floor() as i32 } else { 0 };
        let decimals = if digits < -1 { 1 - digits } else { 2 - digits }.clamp(0, 6) as usize;
        let change = format!("{} {}", signed(value, decimals), scale.suffix).trim_end().to_string();
        let half = (high - low) / 2.0;
        let off_middle = (high + low - 2.0 * value).abs();
        let interval = interval.map(|_| {
            if off_middle <= 0.15 * half + 0.1f64.powi(decimals as i32) {
                format!("+-{}", signed(half, decimals).trim_start_matches('+'))
            } else {
                format!("{}..{}", signed(low, decimals), signed(high, decimals))
            }
        });
        Change { change, interval: interval.unwrap_or_else(nothing) }
    }

    /// As a range of ratios is written, however small it is: `0.97x 0.91x..1.03x`.
    pub fn times(ratio: &Ratio) -> Change {
        let interval = ratio.interval.map(|of| (factor(of.low), factor(of.high)));
        let interval = interval.map(|(low, high)| format!("{low}..{high}"));
        Change { change: factor(ratio.ratio), interval: interval.unwrap_or_else(nothing) }
    }

    /// `-9.1 % +-1.1`.
    pub fn with_interval(&self) -> String {
        format!("{} {}", self.change, self.interval).trim_end().to_string()
    }
}

/// In place of an interval that says nothing.
fn nothing() -> String {
    "?".to_string()
}

fn factor(ratio: f64) -> String {
    if ratio < MAX_FACTOR { format!("{}x", significant(ratio, 3)) } else { ">999x".to_string() }
}

/// One decimal below 10 %, none above, and where almost nothing is left, the first digit of what is: `-99.97`.
fn decimals(percent: f64) -> usize {
    let left = 100.0 + percent;
    if left > 0.0 && left < 1.95 {
        return (-(left.log10() + 1e-9).floor()).clamp(1.0, 4.0) as usize;
    }
    usize::from(percent.abs() < 9.95)
}

fn signed(percent: f64, decimals: usize) -> String {
    let shown = format!("{percent:+.decimals$}");
    if shown.trim_start_matches(['+', '-']).chars().all(|c| c == '0' || c == '.') {
        "0".to_string()
    } else {
        shown
    }
}

/// Half the width where the ratio lies in the middle, else both limits.
fn percent_interval(ratio: f64, low: f64, high: f64) -> String {
    let [below, above] = [ratio - low, high - ratio].map(|part| 100.0 * part);
    let middle = (below + above) / 2.0;
    if middle < 9.95 && (below - above).abs() <= 0.15 * middle + 0.1 {
        let decimals = decimals(100.0 * (ratio - 1.0)).max(1);
        return format!("+-{middle:.decimals$}");
    }
    let [low, high] = [low, high].map(|limit| 100.0 * (limit - 1.0));
    let decimals = decimals(low).min(decimals(high));
    format!("{}..{}", signed(low, decimals), signed(high, decimals))
}

/// `2026-11-22 05:19`, in UTC.
pub fn moment(unix_ns: u64) -> String {
    let moment = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    moment.strftime("%Y-%m-%d %H:%M").to_string()
}

/// `1 run`, `12 runs`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, one: &str) -> String {
    format!("{count} {one}{}", if count == N::from(1) { "" } else { "s" })
}

/// `2 %`, `0.5 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", (share * 1e6).round() / 1e4)
}

#[cfg(test)]
mod tests;
