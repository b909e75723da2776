//! Numbers that a program prints: their places in its output, and their meaning. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Direction, Importance, MetricKind, Statistic, Unit};

/// A metric of a worker set whose workers run programs.
#[derive(Debug, Clone, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct OutputMetric {
    pub name: String,
    #[serde(flatten)]
    pub place: OutputPlace,
    pub unit: Unit,
    /// A printed number times this is one of `unit`.
    pub scale: f64,
    pub direction: Direction,
    pub importance: Importance,
}

/// The place of a number in the output of an execution.
#[derive(Debug, Clone, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputPlace {
    /// A regular expression in which `^` and `$` match at ends of lines. Its first group, else all of it, is the
    /// number; it matches once.
    Pattern(String),
    /// A path (RFC 6901) into the last JSON document that begins a line and has it.
    Json(String),
}

impl fmt::Display for OutputPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputPlace::Pattern(pattern) => f.write_str(pattern),
            OutputPlace::Json(path) => write!(f, "json {path}"),
        }
    }
}

/// The units that a plan may name, each with ours and with the scale.
pub const OUTPUT_UNITS: &[(&str, Unit, f64)] = &[
    ("ns", Unit::Ns, 1.0),
    ("us", Unit::Ns, 1e3),
    ("ms", Unit::Ns, 1e6),
    ("s", Unit::Ns, 1e9),
    ("1/s", Unit::OpsPerS, 1.0),
    ("K/s", Unit::OpsPerS, 1e3),
    ("M/s", Unit::OpsPerS, 1e6),
    ("B/s", Unit::BytesPerS, 1.0),
    ("KB/s", Unit::BytesPerS, 1e3),
    ("MB/s", Unit::BytesPerS, 1e6),
    ("GB/s", Unit::BytesPerS, 1e9),
    ("bit/s", Unit::BytesPerS, 0.125),
    ("Mbit/s", Unit::BytesPerS, 125e3),
    ("Gbit/s", Unit::BytesPerS, 125e6),
    ("KiB/s", Unit::BytesPerS, 1024.0),
    ("MiB/s", Unit::BytesPerS, 1_048_576.0),
    ("GiB/s", Unit::BytesPerS, 1_073_741_824.0),
    ("%", Unit::Ratio, 0.01),
    ("count", Unit::Count, 1.0),
];

impl OutputMetric {
    pub fn kind(&self) -> MetricKind {
        let OutputMetric { name, unit, direction, importance, .. } = self;
        let statistic = match unit {
            Unit::OpsPerS | Unit::BytesPerS => Statistic::Rate,
            Unit::Ns => Statistic::Mean,
            _ => Statistic::Count,
        };
        MetricKind::explaining(name, *unit, *direction, statistic).with_importance(*importance)
    }

    /// A number as programs print it: `1234.5`, `5,678`, `81K`, in `unit`, or with a unit of its own of
    /// that kind, `1.5ms`, `5%`.
    pub fn value(&self, printed: &str) -> Option<f64> {
        let printed = printed.trim();
        let units = OUTPUT_UNITS.iter().filter(|(_, unit, _)| *unit == self.unit);
        let with_unit = units
            .filter_map(|(word, _, scale)| Some((printed.strip_suffix(word)?, *scale)))
            .min_by_key(|(digits, _)| digits.len());
        let (digits, scale) = with_unit.unwrap_or_else(|| {
            let times = [("K", 1e3), ("k", 1e3), ("M", 1e6)];
            let found = times.iter().find_map(|(end, of)| Some((printed.strip_suffix(end)?, of)));
            found.map_or((printed, self.scale), |(digits, of)| (digits, of * self.scale))
        });
        let number: f64 = without_groups(digits.trim_end())?.parse().ok()?;
        let value = number * scale;
        (value.abs() <= MAX_VALUE).then_some(value)
    }
}

/// Sums of executions stay finite.
const MAX_VALUE: f64 = 1e100;

/// Without the commas that part thousands. `None`: a comma stands elsewhere, as in `1,5`.
fn without_groups(digits: &str) -> Option<String> {
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut groups = whole.split(',');
    let first = groups.next()?;
    let groups: Vec<&str> = groups.collect();
    let first_digits = first.trim_start_matches(['-', '+']).len();
    let is_grouped = (1..=3).contains(&first_digits) && groups.iter().all(|of| of.len() == 3);
    (groups.is_empty() || is_grouped).then(|| format!("{first}{}{rest}", groups.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_numbers_have_their_unit() {
        let metric = |unit: &str| {
            let (_, unit, scale) = OUTPUT_UNITS.iter().find(|(word, ..)| *word == unit).unwrap();
            let (name, place) = ("x".to_string(), OutputPlace::Json("/x".to_string()));
            let (direction, importance) = (Direction::Neutral, Importance::Headline);
            OutputMetric { name, place, unit: *unit, scale: *scale, direction, importance }
        };
        let cases: &[(&str, &str, Option<f64>)] = &[
            ("ms", "1.5", Some(1.5e6)),
            ("1/s", " 81K ", Some(81e3)),
            ("us", "1.5ms", Some(1.5e6)),
            ("ms", "20 us", Some(20e3)),
            ("ms", "3s", Some(3e9)),
            ("count", "3s", None),
            ("Mbit/s", "8", Some(1e6)),
            ("M/s", "5,678", Some(5_678e6)),
            ("count", "1,234,567.5", Some(1_234_567.5)),
            ("count", "1,23", None),
            ("count", "1234,567", None),
            ("count", "1.5,000", None),
            ("MiB/s", "2", Some(2_097_152.0)),
            ("%", "12.5", Some(0.125)),
            ("%", "5%", Some(0.05)),
            ("%", "12.5 %", Some(0.125)),
            ("MiB/s", "2 GB/s", Some(2e9)),
            ("count", "5%", None),
            ("count", "3M", Some(3e6)),
            ("count", "", None),
            ("count", "three", None),
            ("count", "inf", None),
            ("count", "NaN", None),
            ("count", "1e200", None),
        ];
        for (unit, printed, expected) in cases {
            assert_eq!(metric(unit).value(printed), *expected, "{unit} {printed}");
        }
    }
}
