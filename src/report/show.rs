//! Text that fits and numbers for the eye. Pure.
//!
//! Every name and reason in a record may come from outside (a plan that was sent, a
//! database, a guest), so [`clean`] stands between it and the terminal.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthStr;

use crate::model::{MemoryPlacement, Placement, Unit, Value};

/// `text` without anything that a terminal acts on or that hides what is there: control
/// characters (so escape sequences too), direction overrides, invisible and joining
/// characters. Each shows as its Rust escape.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || invisible(c) {
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
    }
    clean
}

/// A reason, clean, in one sentence with the hint that some carry on a line of its own.
pub fn reason(text: &str) -> String {
    clean(&text.replace("\nhint: ", "; hint: "))
}

/// A name from outside for a table: clean, and at most `columns` wide.
pub fn shortened(text: &str, columns: usize) -> String {
    truncate(&clean(text), columns)
}

/// `pool bench, CPUs 0-1, memory interleave`; empty where the plan says nothing of it.
pub fn placement(placement: &Placement) -> String {
    let pool = placement.pool.as_ref().map(|pool| format!("pool {pool}"));
    let cpus = placement.cpus.as_ref().map(|cpus| format!("CPUs {cpus}"));
    let memory = Some(placement.memory).filter(|memory| *memory != MemoryPlacement::Kernel);
    let memory = memory.map(|memory| format!("memory {}", memory.word()));
    let said: Vec<String> = [pool, cpus, memory].into_iter().flatten().collect();
    said.join(", ")
}

/// `nice 5, policy batch`, not yet clean; empty without knobs.
pub fn knobs(knobs: &BTreeMap<String, Value>) -> String {
    let knobs: Vec<String> = knobs.iter().map(|(knob, value)| format!("{knob} {value}")).collect();
    knobs.join(", ")
}

/// Characters of Unicode's Default_Ignorable_Code_Point and format (Cf) sets, and the line
/// and paragraph separators.
fn invisible(c: char) -> bool {
    matches!(u32::from(c),
        0x00ad | 0x034f | 0x0600..=0x0605 | 0x061c | 0x06dd | 0x070f | 0x0890..=0x0891 | 0x08e2
        | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f
        | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0
        | 0xfff0..=0xfffb | 0x110bd | 0x110cd | 0x13430..=0x1343f | 0x1bca0..=0x1bca3
        | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff)
}

/// At most `columns` wide, with `…` where something is missing.
pub fn truncate(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_string();
    }
    let (head, _) = split_at_width(text, columns.saturating_sub(1));
    if columns == 0 { String::new() } else { format!("{head}…") }
}

/// The longest head that is at most `columns` wide, and the rest.
fn split_at_width(text: &str, columns: usize) -> (&str, &str) {
    let mut end = 0;
    for (at, c) in text.char_indices() {
        let next = at + c.len_utf8();
        if text[..next].width() > columns {
            break;
        }
        end = next;
    }
    text.split_at(end)
}

/// Lines of at most `columns`, broken at spaces and, where a word is longer, inside it.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut word = word;
        let last = lines.len() - 1;
        let line = &mut lines[last];
        let gap = usize::from(!line.is_empty());
        if line.width() + gap + word.width() <= columns {
            line.extend(std::iter::repeat_n(' ', gap));
            line.push_str(word);
            continue;
        }
        if gap == 1 {
            lines.push(String::new());
        }
        while word.width() > columns {
            let (head, rest) = split_at_width(word, columns.max(2));
            let last = lines.len() - 1;
            lines[last] = head.to_string();
            lines.push(String::new());
            word = rest;
        }
        let last = lines.len() - 1;
        lines[last] = word.to_string();
    }
    lines
}

/// `1, 3-5`: ascending rounds, as the record counts them.
pub fn rounds(rounds: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &round in rounds {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(round) => *last = round,
            _ => parts.push((round, round)),
        }
    }
    let show = |&(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    let parts: Vec<String> = parts.iter().map(show).collect();
    let word = if rounds.len() == 1 { "round" } else { "rounds" };
    format!("{word} {}", parts.join(", "))
}

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

const TIMES: &[(f64, &str)] = &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
const RATES: &[(f64, &str)] =
    &[(1e12, "T/s"), (1e9, "G/s"), (1e6, "M/s"), (1e4, "k/s"), (0.0, "/s")];
const BYTES: &[(f64, &str)] =
    &[(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (0.0, "B/s")];
const COUNTS: &[(f64, &str)] = &[(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"), (0.0, "")];

impl Scale {
    /// The scale in which `typical` is easy to read. Latencies have three digits, which is
    /// what a histogram bucket (0.8 %) supports.
    pub fn of(unit: Unit, typical: Option<f64>) -> Scale {
        let (steps, digits) = match unit {
            Unit::Ns => (TIMES, 3),
            Unit::OpsPerS | Unit::PerS => (RATES, 4),
            Unit::BytesPerS => (BYTES, 4),
            Unit::Count => (COUNTS, 4),
            Unit::Cpus | Unit::Ratio => (&[(0.0, "")][..], 4),
        };
        let typical = typical.unwrap_or(0.0).abs();
        // 999.7 us would show as 1000 us: half of the last digit counts as the next step.
        let reaches = |from: f64| typical * (1.0 + 0.5 * 0.1f64.powi(digits as i32)) >= from;
        let found = steps.iter().find(|(from, _)| reaches(*from));
        let &(from, suffix) = found.unwrap_or(&steps[steps.len() - 1]);
        let factor = match suffix.chars().next() {
            _ if unit == Unit::Ns => from,
            Some('T') => 1e12,
            Some('G') => 1e9,
            Some('M') => 1e6,
            Some('k') => 1e3,
            _ => 1.0,
        };
        Scale { factor, digits, whole: unit == Unit::Count, suffix }
    }

    pub fn show(&self, value: f64) -> String {
        let scaled = value / self.factor;
        if self.whole && scaled.fract() == 0.0 && scaled.abs() < 1e9 {
            return format!("{scaled:.0}");
        }
        significant(scaled, self.digits)
    }
}

/// `digits` significant digits and no exponent, whole numbers in full; what is beyond a
/// dozen columns gets an exponent.
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
        r if r < 999.5 => significant(r, 3),
        _ => ">999".to_string(),
    }
}

/// What is counted and by how many, so that the scale's prefix is the only one shown:
/// 5,400,000 kops a second are 5.4 G/s of ops.
pub fn operations(ops: &str) -> (&str, f64) {
    match ops {
        "kops" => ("ops", 1e3),
        _ => (ops, 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_that_a_terminal_acts_on_survives() {
        let cases: &[(&str, &str)] = &[
            ("slice-100us", "slice-100us"),
            ("a b µs 漢字", "a b µs 漢字"),
            ("\x1b[31mred\x1b[0m", "\\u{1b}[31mred\\u{1b}[0m"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\u{202e}evil", "\\u{202e}evil"),
            ("zero\u{200b}width", "zero\\u{200b}width"),
            ("\u{2028}", "\\u{2028}"),
            ("e\u{301}", "e\u{301}"),
        ];
        for (text, expected) in cases {
            assert_eq!(clean(text), *expected);
        }
    }

    #[test]
    fn a_reason_carries_its_hint_in_the_same_sentence() {
        let cases: &[(&str, &str)] = &[
            ("it died", "it died"),
            ("no files\nhint: ulimit -n 9", "no files; hint: ulimit -n 9"),
            ("a\nb\nhint: c\n", "a\\nb; hint: c\\n"),
        ];
        for (text, expected) in cases {
            assert_eq!(reason(text), *expected);
        }
        assert_eq!(shortened("\x1b[2Jlong", 9), "\\u{1b}[2…");
    }

    #[test]
    fn truncated_text_says_so_and_keeps_wide_characters_whole() {
        let cases: &[(&str, usize, &str)] = &[
            ("abcdef", 6, "abcdef"),
            ("abcdef", 5, "abcd…"),
            ("漢字漢字", 8, "漢字漢字"),
            ("漢字漢字", 7, "漢字漢…"),
            ("漢字漢字", 6, "漢字…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ];
        for (text, columns, expected) in cases {
            assert_eq!(truncate(text, *columns), *expected, "{text} {columns}");
        }
    }

    #[test]
    fn wrapping() {
        let cases: &[(&str, usize, &[&str])] = &[
            ("", 10, &[""]),
            ("one two three", 7, &["one two", "three"]),
            ("one two three", 13, &["one two three"]),
            ("a bcdefghij k", 4, &["a", "bcde", "fghi", "j k"]),
            ("漢字漢字", 5, &["漢字", "漢字"]),
        ];
        for (text, columns, expected) in cases {
            assert_eq!(wrap(text, *columns), *expected, "{text} {columns}");
        }
    }

    #[test]
    fn round_lists() {
        let cases: &[(&[u32], &str)] = &[
            (&[3], "round 3"),
            (&[1, 2], "rounds 1, 2"),
            (&[0, 1, 2, 5, 7, 8], "rounds 0-2, 5, 7, 8"),
            (&[u32::MAX], "round 4294967295"),
        ];
        for (list, expected) in cases {
            assert_eq!(rounds(list), *expected);
        }
    }

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
            (Unit::Count, 12.0, 12.0, "12 "),
            (Unit::Count, 12.0, 3.5, "3.500 "),
            (Unit::Ratio, 0.9985, 0.9985, "0.9985 "),
            (Unit::Cpus, 1.98, 1.98, "1.980 "),
            (Unit::Count, 1e300, 1e300, "1.00e288 T"),
        ];
        for (unit, typical, value, expected) in cases {
            let scale = Scale::of(*unit, Some(*typical));
            assert_eq!(format!("{} {}", scale.show(*value), scale.suffix), *expected);
        }
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

    proptest! {
        #[test]
        fn lines_and_heads_fit(text in "\\PC{0,80}", columns in 2usize..60) {
            let clean = clean(&text);
            prop_assert!(truncate(&clean, columns).width() <= columns);
            for line in wrap(&clean, columns) {
                prop_assert!(line.width() <= columns, "{:?}", line);
            }
        }

        #[test]
        fn numbers_stay_short_and_near(value in proptest::num::f64::NORMAL) {
            let shown = significant(value, 4);
            prop_assert!(shown.len() <= 11, "{}", shown);
            let back: f64 = shown.parse().unwrap();
            prop_assert!((back - value).abs() <= 0.006 * value.abs(), "{} {}", value, shown);
        }
    }
}
