//! Typed values of plans, knobs and workload parameters, and the fields that take them.
//!
//! A [`Field`] says what may be written under one key; [`Kind::parse`] turns the text into a [`Value`], or returns
//! its fault. Command-line options, the plan parser, the JSON Schema, `schedlab list` and the docs all derive from
//! these tables. Pure. Units are part of the text: a bare number for a time is refused.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::clean;
use super::{CpuSet, MAX_POOL_NAME_BYTES, OutputMetric, PoolName};

/// A value as a plan or a command line wrote it, before it has a meaning.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Raw>),
}

/// A checked value. Durations are nanoseconds, sizes are bytes.
#[derive(Debug, Clone, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    Bool(bool),
    /// A count or a signed number without a unit (threads, a nice value).
    Int(i64),
    DurationNs(u64),
    Bytes(u64),
    /// Percent of something that the field names.
    Percent(f64),
    /// A factor of something that the field names.
    Times(f64),
    Text(String),
    Cpus(CpuSet),
    List(Vec<Value>),
    /// The metrics that are measured from a program's output.
    Outputs(Vec<OutputMetric>),
}

/// The word that [`Kind::CpusOrAuto`] takes in place of CPUs.
pub const AUTO: &str = "auto";

/// The word that [`Kind::DurationOrOff`] takes in place of a time.
pub const OFF: &str = "off";

/// The type of a field's value. Ranges are inclusive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Bool,
    Int {
        min: i64,
        max: i64,
    },
    Duration {
        min_ns: u64,
        max_ns: u64,
    },
    /// A time from a nanosecond on, or the word `off`, which is a text.
    DurationOrOff {
        max_ns: u64,
    },
    /// A time for which nanoseconds are too coarse: a [`Value::Int`] of picoseconds.
    Picoseconds {
        min_ps: u32,
        max_ps: u32,
    },
    Size {
        min_bytes: u64,
        max_bytes: u64,
    },
    Percent {
        min: f64,
        max: f64,
    },
    /// Above 0 and up to this: `2x`, `0.5x`.
    Times {
        max: f64,
    },
    Choice(&'static [&'static str]),
    Text,
    /// A text that may have several lines: a program gets it as it stands.
    Word,
    /// A [`PoolName`], kept as a text.
    PoolName,
    Cpus,
    /// CPUs, or the word `auto`, which is a text.
    CpusOrAuto,
    /// A non-empty list whose elements are all of one kind; a single element may stand without brackets.
    List(&'static Kind),
}

/// One key that a table of a plan, a knob or a workload takes.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    /// The default in a plan's words (`"5s"`, `4`); `None`: no default, see `about`.
    pub default: Option<&'static str>,
    pub about: &'static str,
}

impl Field {
    /// One without a default and a description, which `default` and `about` add.
    pub const fn new(name: &'static str, kind: Kind) -> Field {
        Field { name, kind, default: None, about: "" }
    }

    pub const fn about(self, about: &'static str) -> Field {
        Field { about, ..self }
    }

    pub const fn default(self, default: &'static str) -> Field {
        Field { default: Some(default), ..self }
    }

    /// The default as a checked value; a test walks every registry for defaults that misfit.
    pub fn default_value(&self) -> Option<Value> {
        let raw = match self.default? {
            "true" => Raw::Bool(true),
            "false" => Raw::Bool(false),
            text => text.parse().map_or_else(|_| Raw::Text(text.to_string()), Raw::Int),
        };
        self.kind.parse(&raw).ok()
    }
}

/// A table of fields, a row each: the key, the kind, the default if there is one, and what it is.
#[macro_export]
macro_rules! fields {
    ($($name:tt: $kind:expr $(, $default:expr)? => $about:expr;)+) => {
        &[$($crate::model::Field::new($name, $kind).about($about)$(.default($default))?),+]
    };
}

pub use fields;

/// Why a value does not fit its field, and a value that would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    pub message: String,
    pub hint: String,
}

/// The parameters of one worker set, by field name.
pub type Params = BTreeMap<String, Value>;

impl Kind {
    pub fn parse(&self, raw: &Raw) -> Result<Value, ValueError> {
        match (self, raw) {
            (Kind::Bool, Raw::Bool(value)) => Ok(Value::Bool(*value)),
            (Kind::Int { min, max }, Raw::Int(value)) => {
                in_range(*value, *min, *max, &|n| n.to_string()).map(Value::Int)
            }
            (Kind::Duration { min_ns, max_ns }, Raw::Text(text)) => {
                in_range_as_written(text, duration_ns(text)?, (*min_ns, *max_ns), &show_duration)
                    .map(Value::DurationNs)
            }
            (Kind::DurationOrOff { .. }, Raw::Text(text)) if text == OFF => {
                Ok(Value::Text(text.clone()))
            }
            (Kind::DurationOrOff { max_ns }, Raw::Text(text)) => {
                in_range_as_written(text, duration_ns(text)?, (1, *max_ns), &show_duration)
                    .map(Value::DurationNs)
            }
            (Kind::Picoseconds { min_ps, max_ps }, Raw::Text(text)) => {
                in_range(picoseconds(text)?, (*min_ps).into(), (*max_ps).into(), &show_ps)
                    .map(|ps| Value::Int(ps as i64))
            }
            (Kind::Size { min_bytes, max_bytes }, Raw::Text(text)) => {
                in_range_as_written(text, size_bytes(text)?, (*min_bytes, *max_bytes), &show_bytes)
                    .map(Value::Bytes)
            }
            (Kind::Percent { min, max }, Raw::Text(text)) => {
                in_range(percent(text)?, *min, *max, &|p| format!("{p}%")).map(Value::Percent)
            }
            (Kind::Times { max }, Raw::Text(text)) => {
                in_range(self.times(text)?, f64::MIN_POSITIVE, *max, &|ratio| format!("{ratio}x"))
                    .map_err(|misfit| ValueError { hint: self.example(), ..misfit })
                    .map(Value::Times)
            }
            (Kind::Choice(words), Raw::Text(text)) => choice(words, text).map(Value::Text),
            (Kind::Text | Kind::Word, Raw::Text(text)) => Ok(Value::Text(text.clone())),
            (Kind::PoolName, Raw::Text(text)) => text
                .parse::<PoolName>()
                .map(|name| Value::Text(name.into()))
                .map_err(|why| ValueError::new(why.to_string(), self.example())),
            (Kind::CpusOrAuto, Raw::Text(text)) if text == AUTO => Ok(Value::Text(text.clone())),
            (Kind::Cpus | Kind::CpusOrAuto, Raw::Text(text)) => {
                text.parse::<CpuSet>().map(Value::Cpus).map_err(|why| ValueError {
                    message: why.to_string(),
                    hint: match self {
                        Kind::Cpus => "write CPUs as the kernel does: \"0-3,8\"".to_string(),
                        _ => self.example(),
                    },
                })
            }
            (Kind::List(kind), Raw::List(items)) => {
                if items.is_empty() {
                    return Err(ValueError::new("the list is empty", self.example()));
                }
                items.iter().map(|item| kind.parse(item)).collect::<Result<_, _>>().map(Value::List)
            }
            (Kind::List(kind), single) => kind.parse(single).map(|value| Value::List(vec![value])),
            (_, raw) => Err(self.wrong_type(raw)),
        }
    }

    /// The values that may be written, in words and with an example, for hints and help.
    pub fn example(&self) -> String {
        match self {
            Kind::Bool => "true or false".to_string(),
            Kind::Int { min, max } => match (*min, *max) {
                (i64::MIN, i64::MAX) => "a whole number".to_string(),
                (min, i64::MAX) => format!("a whole number from {min}"),
                (min, max) => format!("a whole number from {min} to {max}"),
            },
            Kind::Duration { min_ns, max_ns } => format!(
                "a time with its unit (ns, us, ms, s, min, h), from \"{}\" to \"{}\"",
                show_duration(*min_ns),
                show_duration(*max_ns)
            ),
            Kind::DurationOrOff { max_ns } => format!(
                "\"off\", or a time with its unit, from \"1ns\" to \"{}\"",
                show_duration(*max_ns)
            ),
            Kind::Picoseconds { min_ps, max_ps } => format!(
                "a time in ps or ns, from \"{}\" to \"{}\"",
                show_ps((*min_ps).into()),
                show_ps((*max_ps).into())
            ),
            Kind::Size { min_bytes, max_bytes } => format!(
                "a size with its unit (B, KiB, MiB, GiB), from \"{}\" to \"{}\"",
                show_bytes(*min_bytes),
                show_bytes(*max_bytes)
            ),
            Kind::Percent { min, max } => format!("a percentage, from \"{min}%\" to \"{max}%\""),
            Kind::Times { max } => {
                format!("a ratio with its x, above \"0x\" and up to \"{max}x\": \"2x\", \"0.5x\"")
            }
            Kind::Choice(words) => format!("one of {}", quoted(words)),
            Kind::Text | Kind::Word => "a text in quotes".to_string(),
            Kind::PoolName => format!(
                "1 to {MAX_POOL_NAME_BYTES} of A-Z a-z 0-9 _ . - in quotes, not beginning with a \
                 dot, no `..`"
            ),
            Kind::Cpus => "a list of CPUs: \"0-3,8\"".to_string(),
            Kind::CpusOrAuto => "a list of CPUs, or \"auto\": \"0-3,8\"".to_string(),
            Kind::List(kind) => format!("a list, each {}", kind.example()),
        }
    }

    /// True where a list written in a plan is one value and not an axis.
    pub fn takes_list(&self) -> bool {
        matches!(self, Kind::List(_))
    }

    /// A decimal number and an x; the sign is an error of range.
    fn times(&self, text: &str) -> Result<f64, ValueError> {
        let refuse =
            |why: &str| ValueError::new(format!("`{}` {why}", clean(text)), self.example());
        let number = text.trim().strip_suffix('x').ok_or_else(|| refuse("has no x"))?;
        let digits = number.strip_prefix('-').unwrap_or(number);
        let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        number.parse::<f64>().ok().filter(|_| plain).ok_or_else(|| refuse("is not a number"))
    }

    fn wrong_type(&self, raw: &Raw) -> ValueError {
        // The first unit with which it would be taken.
        let with = |units: &[&str], n: &i64| {
            let texts = units.iter().map(|unit| format!("{n}{unit}"));
            let mut taken = texts.filter(|text| self.parse(&Raw::Text(text.clone())).is_ok());
            taken.next().map(|text| format!("\"{text}\""))
        };
        let unit = match (self, raw) {
            (Kind::Duration { .. } | Kind::DurationOrOff { .. }, Raw::Int(n)) => {
                with(&["ms", "us", "ns", "s"], n)
            }
            (Kind::Picoseconds { .. }, Raw::Int(n)) => with(&["ns", "ps"], n),
            (Kind::Size { .. }, Raw::Int(n)) => with(&["KiB", "MiB", "GiB", "B"], n),
            (Kind::Percent { .. }, Raw::Int(n)) => with(&["%"], n),
            (Kind::Times { .. }, Raw::Int(n)) if *n > 0 => Some(format!("\"{n}x\"")),
            _ => None,
        };
        match unit {
            Some(with_unit) => ValueError::new(
                format!("{raw} has no unit"),
                format!("write it with its unit, such as {with_unit}"),
            ),
            None => ValueError::new(format!("{raw} does not fit here"), self.example()),
        }
    }
}

impl ValueError {
    /// The error for a name that no table has.
    pub fn unknown(name: &str) -> Self {
        ValueError::new(format!("`{}` is not known here", clean(name)), "schedlab --help")
    }

    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        ValueError { message: message.into(), hint: hint.into() }
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raw::Bool(value) => write!(f, "`{value}`"),
            Raw::Int(value) => write!(f, "`{value}`"),
            Raw::Float(value) => write!(f, "`{value}`"),
            Raw::Text(value) => write!(f, "`{}`", clean(value)),
            Raw::List(_) => write!(f, "a list"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::DurationNs(ns) => write!(f, "{}", show_duration(*ns)),
            Value::Bytes(bytes) => write!(f, "{}", show_bytes(*bytes)),
            Value::Percent(percent) => write!(f, "{percent}%"),
            Value::Times(ratio) => write!(f, "{ratio}x"),
            Value::Text(text) => write!(f, "{text}"),
            Value::Cpus(cpus) => write!(f, "{cpus}"),
            Value::Outputs(metrics) => {
                let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
                write!(f, "{}", names.join(","))
            }
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(Value::to_string).collect();
                write!(f, "{}", items.join(","))
            }
        }
    }
}

/// Typed look-ups for code that declared the field itself: a missing or mistyped entry is
/// an error of that code, and a test walks every registry for it.
impl Value {
    pub fn as_int(&self) -> Option<i64> {
        if let Value::Int(value) = self { Some(*value) } else { None }
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self { Some(*value) } else { None }
    }

    pub fn as_duration_ns(&self) -> Option<u64> {
        if let Value::DurationNs(value) = self { Some(*value) } else { None }
    }

    pub fn as_bytes(&self) -> Option<u64> {
        if let Value::Bytes(value) = self { Some(*value) } else { None }
    }

    pub fn as_percent(&self) -> Option<f64> {
        if let Value::Percent(value) = self { Some(*value) } else { None }
    }

    pub fn as_times(&self) -> Option<f64> {
        if let Value::Times(value) = self { Some(*value) } else { None }
    }

    pub fn as_text(&self) -> Option<&str> {
        if let Value::Text(value) = self { Some(value) } else { None }
    }

    pub fn as_cpus(&self) -> Option<&CpuSet> {
        if let Value::Cpus(value) = self { Some(value) } else { None }
    }

    /// Empty for any other value.
    pub fn as_outputs(&self) -> &[OutputMetric] {
        if let Value::Outputs(value) = self { value } else { &[] }
    }

    pub fn as_list(&self) -> Option<&[Value]> {
        if let Value::List(value) = self { Some(value) } else { None }
    }
}

fn in_range<T: PartialOrd + Copy>(
    value: T,
    min: T,
    max: T,
    show: &dyn Fn(T) -> String,
) -> Result<T, ValueError> {
    if value >= min && value <= max {
        return Ok(value);
    }
    let side = if value < min { "below the least" } else { "above the most" };
    Err(ValueError::new(
        format!("{} is {side} that is accepted", show(value)),
        format!("from {} to {}", show(min), show(max)),
    ))
}

/// As [`in_range`]; a value out of it is shown as it was written.
fn in_range_as_written(
    text: &str,
    value: u64,
    (min, max): (u64, u64),
    show: &dyn Fn(u64) -> String,
) -> Result<u64, ValueError> {
    let written = |n| if n == value { clean(text.trim()) } else { show(n) };
    in_range(value, min, max, &written)
}

/// Parses `250us`, `1.5s`, `20min`: a decimal number and one of ns, us, ms, s, min, h.
pub fn duration_ns(text: &str) -> Result<u64, ValueError> {
    let units = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", NS_PER_S),
        ("min", 60 * NS_PER_S),
        ("h", 3600 * NS_PER_S),
    ];
    scaled(
        text,
        &units,
        "a time with its unit (ns, us, ms, s, min, h): \"250us\", \"1.5s\", \"20min\"",
    )
}

fn picoseconds(text: &str) -> Result<u64, ValueError> {
    scaled(text, &[("ps", 1), ("ns", 1_000)], "a time with its unit: \"0.5ns\", \"250ps\"")
}

fn show_ps(ps: u64) -> String {
    format!("{}ns", ps as f64 / 1e3)
}

/// Parses `256KiB`, `4096B`: a decimal number and one of B, KiB, MiB, GiB.
pub fn size_bytes(text: &str) -> Result<u64, ValueError> {
    let units = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    scaled(text, &units, "a size with its unit (B, KiB, MiB, GiB): \"64B\", \"256KiB\", \"2MiB\"")
}

const NS_PER_S: u64 = 1_000_000_000;

/// A decimal number times its unit, in exact integer arithmetic: a result that is not a whole number of the
/// smallest unit, or overflows, is refused.
fn scaled(text: &str, units: &[(&str, u64)], hint: &str) -> Result<u64, ValueError> {
    let refuse = |why: &str| ValueError::new(format!("`{}` {why}", clean(text)), hint);
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
    if trimmed.starts_with('-') {
        return Err(refuse("is negative"));
    }
    if number.is_empty() {
        return Err(refuse("does not begin with a number"));
    }
    if unit.is_empty() {
        return Err(refuse("has no unit"));
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(refuse(&format!("has an unknown unit, `{}`", clean(unit))));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || number.ends_with('.') || fraction.len() > 18 {
        return Err(refuse("is not a number that is understood"));
    }
    let digits: u128 =
        format!("{whole}{fraction}").parse().map_err(|_| refuse("is not a number"))?;
    let scale = 10u128.pow(fraction.len() as u32);
    let product = digits.checked_mul(u128::from(*factor)).ok_or_else(|| refuse("is too large"))?;
    if product % scale != 0 {
        return Err(refuse("is finer than the smallest unit"));
    }
    u64::try_from(product / scale).map_err(|_| refuse("is too large"))
}

fn percent(text: &str) -> Result<f64, ValueError> {
    let hint = "a percentage: \"80%\"";
    let refuse = |why: &str| ValueError::new(format!("`{}` {why}", clean(text)), hint);
    let number = text.trim().strip_suffix('%').ok_or_else(|| refuse("has no %"))?;
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-');
    number.trim().parse::<f64>().ok().filter(|_| plain).ok_or_else(|| refuse("is not a number"))
}

fn choice(words: &[&str], text: &str) -> Result<String, ValueError> {
    if words.contains(&text) {
        return Ok(text.to_string());
    }
    Err(ValueError::new(
        format!("`{}` is not known here", clean(text)),
        format!("one of {}", quoted(words)),
    ))
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

/// The shortest exact form: 1500000 is `1500us`, 2000000000 is `2s`.
pub fn show_duration(ns: u64) -> String {
    let units = [
        ("h", 3600 * NS_PER_S),
        ("min", 60 * NS_PER_S),
        ("s", NS_PER_S),
        ("ms", 1_000_000),
        ("us", 1_000),
    ];
    exact(ns, &units, "ns")
}

/// `once`, `3 times`.
pub fn times(count: u64) -> String {
    if count == 1 { "once".to_string() } else { format!("{count} times") }
}

/// The nearest time that is no shorter, in two digits as a person writes one: 2501250us is 2600ms.
pub fn rounded_up(ns: u64) -> u64 {
    let step = step_of_two_digits(ns);
    ns.div_ceil(step).saturating_mul(step)
}

/// As [`rounded_up`], no longer.
pub fn rounded_down(ns: u64) -> u64 {
    ns - ns % step_of_two_digits(ns)
}

fn step_of_two_digits(ns: u64) -> u64 {
    10u64.pow(ns.max(1).ilog10().saturating_sub(1))
}

pub fn show_bytes(bytes: u64) -> String {
    exact(bytes, &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)], "B")
}

fn exact(value: u64, units: &[(&str, u64)], smallest: &str) -> String {
    for (unit, factor) in units {
        if value >= *factor && value.is_multiple_of(*factor) {
            return format!("{}{unit}", value / factor);
        }
    }
    format!("{value}{smallest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_times_have_two_digits() {
        for (ns, up, down) in [
            (2_501_250_000, "2600ms", "2500ms"),
            (2_500_000_000, "2500ms", "2500ms"),
            (999_999_999, "1s", "990ms"),
            (60_000_000_001, "61s", "1min"),
            (7, "7ns", "7ns"),
            (0, "0ns", "0ns"),
        ] {
            let shown = [rounded_up(ns), rounded_down(ns)].map(show_duration);
            assert_eq!(shown, [up, down], "{ns}");
        }
    }

    #[test]
    fn durations_need_a_unit_and_stay_exact() {
        let cases: &[(&str, Option<u64>)] = &[
            ("250us", Some(250_000)),
            ("1.5s", Some(1_500_000_000)),
            ("20min", Some(1_200_000_000_000)),
            ("0.1ms", Some(100_000)),
            ("5 s", Some(5_000_000_000)),
            ("0s", Some(0)),
            ("3", None),
            ("", None),
            ("s", None),
            ("1.s", None),
            (".5s", None),
            ("1.2.3s", None),
            ("0.5ns", None),
            ("-1s", None),
            ("1e3s", None),
            ("5S", None),
            ("18446744073709551615s", None),
            ("999999999999999999999999999999999999999999h", None),
        ];
        for (text, expected) in cases {
            assert_eq!(duration_ns(text).ok(), *expected, "{text}");
        }
    }

    #[test]
    fn a_wrong_duration_is_shown_as_it_was_written_with_what_is_accepted() {
        let kind = Kind::Duration { min_ns: NS_PER_S, max_ns: 60 * NS_PER_S };
        for (text, message) in [
            ("0s", "0s is below the least that is accepted"),
            (" 0.5 s", "0.5 s is below the least that is accepted"),
            ("1h", "1h is above the most that is accepted"),
            ("-3s", "`-3s` is negative"),
            ("0", "`0` has no unit"),
            ("5sec", "`5sec` has an unknown unit, `sec`"),
            ("1.s", "`1.s` is not a number that is understood"),
            ("off", "`off` does not begin with a number"),
        ] {
            let wrong = kind.parse(&Raw::Text(text.to_string())).unwrap_err();
            assert_eq!(wrong.message, message);
            let accepted = ["from 1s to 1min", "with its unit (ns, us, ms, s, min, h)"];
            assert!(accepted.iter().any(|part| wrong.hint.contains(part)), "{text}: {wrong:?}");
        }
    }

    #[test]
    fn sizes_and_percentages() {
        assert_eq!(size_bytes("256KiB").ok(), Some(262_144));
        assert_eq!(size_bytes("256KB").ok(), None);
        assert_eq!(size_bytes("256").ok(), None);
        assert_eq!(percent("80%").ok(), Some(80.0));
        for wrong in ["80", "%", "nan%", "inf%", "1e2%", "--1%"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn cpus_or_auto_takes_a_list_or_the_one_word() {
        let parse = |text: &str| Kind::CpusOrAuto.parse(&Raw::Text(text.to_string()));
        assert_eq!(parse("auto"), Ok(Value::Text(AUTO.to_string())));
        assert_eq!(parse("0-1,3"), Ok(Value::Cpus(CpuSet::from_iter([0, 1, 3]))));
        for wrong in ["", "Auto", "auto,1", "3-1"] {
            let misfit = parse(wrong).unwrap_err();
            assert!(misfit.hint.contains("\"auto\""), "{wrong}: {misfit:?}");
        }
        let misfit = Kind::CpusOrAuto.parse(&Raw::Int(5)).unwrap_err();
        assert_eq!(misfit.hint, Kind::CpusOrAuto.example());
        let misfit = Kind::Cpus.parse(&Raw::Text(AUTO.to_string())).unwrap_err();
        assert_eq!(misfit.hint, "write CPUs as the kernel does: \"0-3,8\"");
    }

    #[test]
    fn off_is_a_word_and_not_a_time() {
        let kind = Kind::DurationOrOff { max_ns: 1_000_000 };
        let parse = |text: &str| kind.parse(&Raw::Text(text.to_string()));
        assert_eq!(parse("off"), Ok(Value::Text("off".to_string())));
        assert_eq!(parse("12us"), Ok(Value::DurationNs(12_000)));
        for wrong in ["0ns", "2ms", "on", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let hint = kind.parse(&Raw::Int(5)).unwrap_err().hint;
        assert!(hint.contains("5us"), "{hint}");
    }

    #[test]
    fn a_bare_number_is_refused_with_its_unit() {
        let kind = Kind::Duration { min_ns: 1, max_ns: u64::MAX };
        let misfit = kind.parse(&Raw::Int(5)).unwrap_err();
        assert_eq!(misfit.message, "`5` has no unit");
        assert!(misfit.hint.contains("\"5ms\""));
        let hint = |kind: Kind, n| kind.parse(&Raw::Int(n)).unwrap_err().hint;
        let short = || Kind::Duration { min_ns: 1, max_ns: 16 };
        assert_eq!(hint(short(), 2), "write it with its unit, such as \"2ns\"");
        assert_eq!(hint(short(), 20), short().example(), "with no unit is it taken");
        let large = Kind::Size { min_bytes: 64 << 20, max_bytes: 1 << 40 };
        assert_eq!(hint(large, 512), "write it with its unit, such as \"512MiB\"");
        let share = || Kind::Percent { min: 0.0, max: 100.0 };
        assert_eq!(hint(share(), 5), "write it with its unit, such as \"5%\"");
        assert_eq!(hint(share(), 512), share().example(), "uclamp as the kernel counts it");
    }

    #[test]
    fn ranges_are_inclusive() {
        let kind = Kind::Int { min: -20, max: 19 };
        assert!(kind.parse(&Raw::Int(-20)).is_ok());
        assert!(kind.parse(&Raw::Int(19)).is_ok());
        assert_eq!(
            kind.parse(&Raw::Int(20)).unwrap_err().message,
            "20 is above the most that is accepted"
        );
        assert_eq!(
            kind.parse(&Raw::Int(-21)).unwrap_err().message,
            "-21 is below the least that is accepted"
        );
    }

    #[test]
    fn shown_durations_read_back() {
        for ns in [0, 1, 999, 1_000, 1_500_000, 60 * NS_PER_S, 3_600 * NS_PER_S, u64::MAX] {
            assert_eq!(duration_ns(&show_duration(ns)), Ok(ns));
        }
        for bytes in [0, 1, 1024, 3 << 20, u64::MAX] {
            assert_eq!(size_bytes(&show_bytes(bytes)), Ok(bytes));
        }
    }
}
