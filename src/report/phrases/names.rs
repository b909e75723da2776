//! Names of sides that fit a column and stay distinct. Pure.

use unicode_width::UnicodeWidthStr;

use crate::analysis::Side;
use crate::report::layout::cut;

/// Names of the sides, `plain`, at most `columns` wide all different. A `key=` that all
/// labels begin with is left out. A name that is too long loses what it shares with another one,
/// marked by `sign`; a name that two sides would still share ends in the side's number.
pub fn names(sides: &[Side], columns: usize, plain: fn(&str) -> String, sign: &str) -> Vec<String> {
    let labels: Vec<&str> = sides.iter().map(|side| side.label.as_str()).collect();
    let key = if columns == usize::MAX { 0 } else { common_key(&labels) };
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

/// A label of at most `columns`, without the whole parts of its beginning that others share.
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
    let others = labels.iter().filter(|other| **other != label);
    let mut shared: Vec<usize> = others.map(|other| shared_parts(label, other, plain)).collect();
    // What `slice=1ms` differs in is better read with its knob.
    let words = shared.iter().filter_map(|shared| label[..*shared].rfind(' ').map(|at| at + 1));
    shared.extend(words.collect::<Vec<_>>());
    shared.sort_unstable();
    // A shorter cut gains nothing.
    shared.retain(|shared| width(&label[..*shared]) > 2 * sign.width());
    let tails = shared.iter().map(|shared| format!("{sign}{}", &label[*shared..]));
    let tails: Vec<String> = tails.collect();
    let fits = tails.iter().find(|tail| width(tail) <= columns);
    let longest = || cut(tails.last().map_or(label, |tail| tail), columns, plain, sign);
    fits.cloned().unwrap_or_else(longest)
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
