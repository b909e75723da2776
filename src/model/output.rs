//! Numbers that a program prints: where they stand in its output, and what they are. Pure.

use serde::{Deserialize, Serialize};

use super::{Direction, Importance, MetricKind, Statistic, Unit};

/// A metric of a worker set whose workers run programs.
#[derive(Debug, Clone, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct OutputMetric {
    pub name: String,
    /// A regular expression of which `^` and `$` are ends of lines. Its first group, else all of it,
    /// is the number; it matches once in the output of an execution.
    pub pattern: String,
    pub unit: Unit,
    /// A printed number times this is one of `unit`.
    pub scale: f64,
    pub direction: Direction,
    pub importance: Importance,
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

    /// A number as programs print it: `1234.5`, `5,678`, `81K`, in `unit`.
    pub fn value(&self, printed: &str) -> Option<f64> {
        let printed = printed.trim();
        let (digits, times) = match printed.strip_suffix(['K', 'k']) {
            Some(digits) => (digits, 1e3),
            None => printed.strip_suffix('M').map_or((printed, 1.0), |digits| (digits, 1e6)),
        };
        let number: f64 = without_groups(digits)?.parse().ok()?;
        let value = number * times * self.scale;
        value.is_finite().then_some(value)
    }
}

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
            let (name, pattern) = ("x".to_string(), "x".to_string());
            let (direction, importance) = (Direction::Neutral, Importance::Headline);
            OutputMetric { name, pattern, unit: *unit, scale: *scale, direction, importance }
        };
        let cases: &[(&str, &str, Option<f64>)] = &[
            ("ms", "1.5", Some(1.5e6)),
            ("1/s", " 81K ", Some(81e3)),
            ("M/s", "5,678", Some(5_678e6)),
            ("count", "1,234,567.5", Some(1_234_567.5)),
            ("count", "1,23", None),
            ("count", "1234,567", None),
            ("count", "1.5,000", None),
            ("MiB/s", "2", Some(2_097_152.0)),
            ("%", "12.5", Some(0.125)),
            ("count", "3M", Some(3e6)),
            ("count", "", None),
            ("count", "three", None),
            ("count", "inf", None),
            ("count", "NaN", None),
        ];
        for (unit, printed, expected) in cases {
            assert_eq!(metric(unit).value(printed), *expected, "{unit} {printed}");
        }
    }
}
