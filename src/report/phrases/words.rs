//! Words and lists: names, places, times and commands as people read them. Pure.

use crate::analysis::{Place, SetTable, WorkTable, grouped};
use crate::model::show_duration;

use super::super::layout::clean;
use super::super::numbers::significant;

/// The longest list of names that is shown in full.
pub const MAX_NAMED: usize = 4;

pub fn list(word: &str, names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| clean(name)).collect();
    match names.as_slice() {
        [] => format!("{word} unknown"),
        [one] => format!("{word} {one}"),
        many => format!("{word}s {}", first_of(many, MAX_NAMED)),
    }
}

/// `a, b and 3 more`: at most `most` of them by name.
pub fn first_of(names: &[String], most: usize) -> String {
    first_between(names, most, ", ")
}

/// As [`first_of`], with this between them.
pub fn first_between(names: &[String], most: usize, between: &str) -> String {
    match names.split_at_checked(most) {
        Some((first, more @ [_, ..])) => format!("{} and {} more", first.join(between), more.len()),
        _ => names.join(between),
    }
}

/// `a, b (batch)`: each name once, with its sides unless these are `all` that there may be.
pub fn with_sides(cells: Vec<(String, &str)>, all: usize) -> Vec<String> {
    let shown = grouped(cells).into_iter().map(|(name, sides)| {
        if sides.len() == all { name } else { format!("{name} ({})", sides.join(", ")) }
    });
    shown.collect()
}

/// A p-value with two digits.
pub fn p_value(p: Option<f64>) -> String {
    match p {
        None => "-".to_string(),
        Some(p) if p < 0.00001 => "<0.00001".to_string(),
        Some(p) => significant(p, 2),
    }
}

/// `a, b and c`; of a long list the first ones and a count.
pub fn listed(names: &[impl AsRef<str>]) -> String {
    let shown: Vec<String> = names.iter().map(|name| clean(name.as_ref())).collect();
    match shown.as_slice() {
        many if many.len() > MAX_NAMED + 1 => first_of(many, MAX_NAMED),
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        few => few.concat(),
    }
}

/// `web threads=4`, with the set where the work has several: `pair left`.
pub fn place(work: &WorkTable, set: &SetTable) -> String {
    place_of(work, &set.name)
}

/// A metric with its place: `web threads=4 throughput`.
pub fn metric((work, set, row): Place) -> String {
    format!("{} {}", place(work, set), clean(&row.kind.name))
}

/// As [`place`], of a set that is known by its name.
pub fn place_of(work: &WorkTable, set: &str) -> String {
    match work.sets.as_slice() {
        [_] => clean(&work.label),
        _ => clean(&format!("{} {set}", work.label)),
    }
}

/// `1 min 38 s`, `3 h 2 min`, `450 ms`.
pub fn time(ns: u64) -> String {
    let seconds = (ns + 500_000_000) / 1_000_000_000;
    match seconds {
        0 => show_duration(ns / 1_000_000 * 1_000_000),
        1..60 => format!("{seconds} s"),
        60..3600 if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ if seconds % 3600 < 60 => format!("{} h", seconds / 3600),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `98 s`, `14 min`, `3 h 2 min`: of what is an estimate.
pub fn rough_time(ns: u64) -> String {
    match (ns + 500_000_000) / 1_000_000_000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7170 => format!("{} min", (seconds + 30) / 60),
        seconds if (seconds + 30) % 3600 < 60 => format!("{} h", (seconds + 30) / 3600),
        seconds => format!("{} h {} min", (seconds + 30) / 3600, (seconds + 30) % 3600 / 60),
    }
}

/// Joins the parts that are not empty.
pub fn joined(parts: impl IntoIterator<Item = String>, between: &str) -> String {
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(between)
}
