//! Names of sides that fit a column and stay distinct. Pure.

use unicode_width::UnicodeWidthStr;

use crate::analysis::Side;
use crate::report::layout::{clean, cut};

/// Names of the sides, `plain`, at most `columns` wide all different. A `key=` that all
/// labels begin with is left out. A name that is too long loses what it shares with another one,
/// marked by `sign`; a name that two sides would still share ends in the side's number.
pub fn names(sides: &[Side], columns: usize, plain: fn(&str) -> String, sign: &str) -> Vec<String> {
    let labels: Vec<&str> = sides.iter().map(|side| side.label.as_str()).collect();
    of_labels(&labels, columns, plain, sign)
}

/// As [`names`], of clean texts.
pub fn distinct_names(texts: &[&str], columns: usize) -> Vec<String> {
    of_labels(texts, columns, clean, "…")
}

fn of_labels(
    labels: &[&str],
    columns: usize,
    plain: fn(&str) -> String,
    sign: &str,
) -> Vec<String> {
    let key = if columns == usize::MAX { 0 } else { common_key(labels) };
    let labels: Vec<&str> = labels.iter().map(|label| &label[key..]).collect();
    // Not plain before all is cut: no cut divides an escape.
    let short: Vec<String> =
        labels.iter().map(|label| shortened(label, &labels, columns, plain, sign)).collect();
    let names: Vec<String> = short.iter().map(|name| plain(name)).collect();
    let is_own = |names: &[String], at: usize| {
        !names[at].is_empty() && names.iter().filter(|other| **other == names[at]).count() == 1
    };
    let numbered = |at: usize| {
        let number = format!("#{}", at + 1);
        plain(&cut(&short[at], columns.saturating_sub(number.len()), plain, sign)) + &number
    };
    let name = |at| if is_own(&names, at) { names[at].clone() } else { numbered(at) };
    let numbered_names: Vec<String> = (0..names.len()).map(name).collect();
    match (0..numbered_names.len()).all(|at| is_own(&numbered_names, at)) {
        true => numbered_names,
        // A label that itself ends in a number.
        false => (0..names.len()).map(numbered).collect(),
    }
}

/// The length of `kernel=`, if all of several labels begin with that and none ends there.
fn common_key(labels: &[&str]) -> usize {
    let key = labels.first().and_then(|label| label.split_once('='));
    let key = key.map(|(key, _)| key).filter(|key| key.chars().all(|c| c.is_ascii_lowercase()));
    let Some(key) = key.filter(|key| !key.is_empty() && labels.len() > 1) else { return 0 };
    let key = format!("{key}=");
    let begins = |label: &&str| label.starts_with(&key) && label.len() > key.len();
    if labels.iter().all(begins) { key.len() } else { 0 }
}

/// A label of at most `columns` that fits no other: without the whole parts of its beginning that others
/// share, or without the words that most of them have, or without its middle.
fn shortened(
    label: &str,
    labels: &[&str],
    columns: usize,
    plain: fn(&str) -> String,
    sign: &str,
) -> String {
    let width = |text: &str| plain(text).width();
    if width(label) <= columns {
        return label.to_string();
    }
    let others: Vec<&str> = labels.iter().copied().filter(|other| *other != label).collect();
    let name = |parts: &[&str]| {
        Some(parts.join(sign)).filter(|name| width(name) <= columns && !is_of_any(parts, &others))
    };
    let mut shared: Vec<usize> =
        others.iter().map(|other| shared_parts(label, other, plain)).collect();
    // `slice=1ms` reads better with its knob than cut behind the `=`.
    let words = shared.iter().filter_map(|shared| label[..*shared].rfind(' ').map(|at| at + 1));
    shared.extend(words.collect::<Vec<_>>());
    shared.sort_unstable();
    // A shorter cut gains nothing.
    shared.retain(|shared| width(&label[..*shared]) > 2 * sign.width());
    let tail = shared.iter().find_map(|shared| name(&["", &label[*shared..]]));
    let few_words = || fewer_words(label, &others).iter().find_map(|parts| name(parts));
    let without_middle = || {
        let borders: Vec<usize> = label.char_indices().skip(1).map(|(at, _)| at).collect();
        let ends = borders.iter().take(columns).rev();
        let of = |end: &usize| {
            let starts = borders.iter().rev().take(columns).rev().filter(|start| *start > end);
            starts.map(|start| [&label[..*end], &label[*start..]]).find_map(|parts| name(&parts))
        };
        // The longest end wins between equally long ones.
        ends.filter_map(of).max_by_key(|name| width(name))
    };
    let longest = || match shared.last() {
        Some(shared) => cut(&format!("{sign}{}", &label[*shared..]), columns, plain, sign),
        None => cut(label, columns, plain, sign),
    };
    tail.or_else(few_words).or_else(without_middle).unwrap_or_else(longest)
}

/// Whether one of the labels has these parts in this order, the first at its beginning and the last at its
/// end.
fn is_of_any(parts: &[&str], labels: &[&str]) -> bool {
    let [first, middle @ .., last] = parts else { return false };
    labels.iter().any(|label| {
        let rest = label.strip_prefix(first).and_then(|rest| rest.strip_suffix(last));
        let after = |rest: &'_ str, part: &&str| rest.find(*part).map(|at| at + part.len());
        let found = middle.iter().try_fold(rest, |rest, part| {
            let rest = rest?;
            Some(after(rest, part).map(|at| &rest[at..]))
        });
        found.flatten().is_some()
    })
}

/// The parts of a label that are left when its words go one by one, first those that most others have too,
/// and of these the one nearest to the middle.
fn fewer_words<'l>(label: &'l str, others: &[&str]) -> Vec<Vec<&'l str>> {
    let words = words(label);
    let count = |(start, end): &(usize, usize)| {
        let word = &label[*start..*end];
        others
            .iter()
            .filter(|other| self::words(other).iter().any(|of| other[of.0..of.1] == *word))
            .count()
    };
    let counts: Vec<usize> = words.iter().map(count).collect();
    let from_middle = |at: usize| {
        let alike: Vec<usize> = (0..words.len()).filter(|of| counts[*of] == counts[at]).collect();
        let own = alike.iter().position(|of| *of == at).unwrap_or_default();
        (2 * own + 1).abs_diff(alike.len())
    };
    let mut order: Vec<usize> = (0..words.len()).rev().collect();
    order.sort_by_key(|at| (std::cmp::Reverse(counts[*at]), from_middle(*at)));
    let most = words.len().saturating_sub(1);
    let without = (1..=most).map(|gone| {
        let gone = &order[..gone];
        let mut parts: Vec<(usize, usize)> = Vec::new();
        for (at, (start, end)) in words.iter().enumerate() {
            // Text around all words goes with the first and the last.
            let start = if at == 0 { &0 } else { start };
            let end = if at == most { &label.len() } else { end };
            match parts.last_mut() {
                _ if gone.contains(&at) => {}
                // Text between two words that stay is kept.
                Some(last) if !gone.contains(&(at - 1)) => last.1 = *end,
                _ => parts.push((*start, *end)),
            }
        }
        let mut parts: Vec<&str> =
            parts.into_iter().map(|(start, end)| &label[start..end]).collect();
        if gone.contains(&0) {
            parts.insert(0, "");
        }
        if gone.contains(&most) {
            parts.push("");
        }
        parts
    });
    without.collect()
}

/// Where the words of a label are. A number keeps its points: `6.12`.
fn words(label: &str) -> Vec<(usize, usize)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '.';
    let mut words: Vec<(usize, usize)> = Vec::new();
    for (at, c) in label.char_indices().filter(|(_, c)| is_word(*c)) {
        match words.last_mut() {
            Some(last) if last.1 == at => last.1 = at + c.len_utf8(),
            _ => words.push((at, at + c.len_utf8())),
        }
    }
    words
}

/// The length of the beginning that a text shares with another, up to the end of a word.
fn shared_parts(text: &str, other: &str, plain: fn(&str) -> String) -> usize {
    let shown = |c: char| plain(c.encode_utf8(&mut [0; 4]));
    let pairs = text.char_indices().zip(other.chars());
    let same = pairs.take_while(|((_, a), b)| shown(*a) == shown(*b));
    let ends =
        same.filter(|((_, c), _)| !c.is_alphanumeric()).map(|((at, c), _)| at + c.len_utf8());
    ends.filter(|end| *end < text.len()).last().unwrap_or(0)
}
