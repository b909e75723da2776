//! The words of a program, and the texts that replace places in them. Pure.

use crate::model::{Params, Value, mistyped};
use crate::workload::{Pool, WorkloadError, params};

use super::spec::{METRIC, SPEC};

/// Places that no parameter may have: the number of CPUs of the pool, a folder of the worker's own that
/// is removed afterwards, one that stays, and a port of 127.0.0.1 at which nobody listened.
pub const PLACES: [&str; 4] = ["cpus", "folder", "cache", "port"];

/// The replacement of each `{NAME}`, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places(Vec<(String, String)>);

impl Places {
    pub fn new(params: &Params, pool: &Pool) -> Places {
        let text = |value: &Value| match value.as_times() {
            Some(ratio) => pool.times(ratio).to_string(),
            None => value.to_string(),
        };
        let own = parameters(params).map(|(name, value)| (name.clone(), text(value)));
        Places(own.chain([("cpus".to_string(), pool.count().to_string())]).collect())
    }

    pub fn with(&self, name: &str, value: impl ToString) -> Places {
        let more = (name.to_string(), value.to_string());
        Places(self.0.iter().cloned().chain([more]).collect())
    }

    /// A word with its places filled, from the left: a filled-in text is not searched again.
    pub fn fill(&self, word: &str) -> String {
        let value = |name: &str| self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value);
        let text = |piece| match piece {
            Piece::Text(text) => text,
            Piece::Place { name, written, .. } => value(name).map_or(written, String::as_str),
        };
        pieces(word).map(text).collect()
    }
}

/// A part of a word.
enum Piece<'w> {
    Text(&'w str),
    /// `written`: with its braces. `after_dollar`: as shells write variables.
    Place {
        name: &'w str,
        written: &'w str,
        after_dollar: bool,
    },
}

/// `{name}` is a place, `{{name}` the text `{name}`; other braces are text.
fn pieces(word: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (done, rest) = word.split_at(at);
        if let Some((name, written)) = braced(rest) {
            at += written.len();
            return Some(Piece::Place { name, written, after_dollar: done.ends_with('$') });
        }
        if let Some((_, text)) = rest.strip_prefix('{').and_then(braced) {
            at += 1 + text.len();
            return Some(Piece::Text(text));
        }
        let first = rest.chars().next()?.len_utf8();
        let end = rest[first..].find('{').map_or(rest.len(), |next| first + next);
        at += end;
        Some(Piece::Text(&rest[..end]))
    })
}

/// The name in braces that a text begins with, and both together.
fn braced(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('{')?;
    let (name, _) = inner.split_once('}')?;
    let is_name = !name.is_empty() && name.chars().all(may_be_in_name);
    is_name.then(|| (name, &text[..name.len() + 2]))
}

/// Whether a character may be in the name of a parameter.
pub fn may_be_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

/// The first place in a word under any of these names that has no value, with that name and a guess at the intended
/// one. Variables of shells do not count, nor do places that begin with a digit, as in regular expressions.
pub fn unknown_place(params: &Params, names: &[&'static str]) -> Option<(String, String, String)> {
    let own: Vec<&str> = parameters(params).map(|(name, _)| name.as_str()).collect();
    let known = || own.iter().copied().chain(PLACES);
    let is_unknown = |piece: Piece| match piece {
        Piece::Place { name, after_dollar: false, .. } => {
            let is_word = name.starts_with(|first: char| first.is_ascii_alphabetic());
            (is_word && known().all(|own| own != name)).then(|| name.to_string())
        }
        _ => None,
    };
    let words = names.iter().flat_map(|of| {
        written(params, of).unwrap_or_default().into_iter().map(move |word| (of, word))
    });
    let mut found = words.filter_map(|(of, word)| Some((of, pieces(&word).find_map(is_unknown)?)));
    let (of, name) = found.next()?;
    let meant = match mistyped(&name, known()) {
        Some(near) => format!("did you mean {}?", place_of(near)),
        None => format!("there are {}.", known().map(place_of).collect::<Vec<_>>().join(", ")),
    };
    Some((of.to_string(), name, meant))
}

/// The form of a parameter in a program's words: `{NAME}`.
pub fn place_of(parameter: &str) -> String {
    format!("{{{parameter}}}")
}

/// Parameters that are not fields of the workload.
pub fn parameters(params: &Params) -> impl Iterator<Item = (&String, &Value)> {
    let own = |name: &str| name == METRIC || SPEC.params.iter().any(|field| field.name == name);
    params.iter().filter(move |(name, _)| !own(name))
}

/// Whether a word under any of these names has this place.
pub fn has_place(params: &Params, names: &[&'static str], place: &str) -> bool {
    let mut words = names.iter().flat_map(|name| written(params, name).unwrap_or_default());
    words.any(|word| {
        pieces(&word).any(|piece| matches!(piece, Piece::Place { name, .. } if name == place))
    })
}

/// A list of texts, or one text.
pub fn written(params: &Params, name: &'static str) -> Result<Vec<String>, WorkloadError> {
    let value = params::value(params, name, Some)?;
    if let Some(text) = value.as_text() {
        return Ok(vec![text.to_string()]);
    }
    let words = value.as_list().ok_or(WorkloadError::Unset(name))?.iter();
    let words = words.map(|word| word.as_text().map(str::to_string));
    words.collect::<Option<_>>().ok_or(WorkloadError::Unset(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CpuSet;

    #[test]
    fn places_are_filled_once_and_from_the_left() {
        let pool = Pool::new("0-3".parse::<CpuSet>().unwrap(), &[]);
        let mut params = Params::new();
        params.insert("n".to_string(), Value::Text("{cpus}".to_string()));
        params.insert("half".to_string(), Value::Times(0.5));
        let places = Places::new(&params, &pool).with("folder", "/tmp/{n}");
        let cases = [
            ("-j{cpus}{{n}", "-j4{n}"),
            ("{{{n}", "{{n}"),
            ("{{a b}{{", "{{a b}{{"),
            ("${n}{}ü{n", "${cpus}{}ü{n"),
            ("{half}/{folder}", "2//tmp/{n}"),
            ("{other}{", "{other}{"),
            ("", ""),
        ];
        for (word, filled) in cases {
            assert_eq!(places.fill(word), filled);
        }
    }

    #[test]
    fn a_place_that_nobody_fills_is_found() {
        let words = |command: &str| {
            let mut params = Params::new();
            params.insert("clients".to_string(), Value::Int(1));
            params.insert("command".to_string(), Value::Text(command.to_string()));
            unknown_place(&params, &["command"])
        };
        let known = [
            "{clients}{cpus}",
            "${HOME}",
            "a{3}",
            "{}",
            "{ print $1 }",
            "{\"a\":{\"b\":1}}",
            "{{print}",
            "{a,b}",
            "f() {x;}",
        ];
        for word in known {
            assert_eq!(words(word), None, "{word}");
        }
        for (word, name, meant) in [
            ("-c{cleints}", "cleints", "did you mean {clients}?"),
            ("$({print})", "print", "there are {clients}, {cpus}, {folder}, {cache}, {port}."),
        ] {
            let found = ("command".to_string(), name.to_string(), meant.to_string());
            assert_eq!(words(word), Some(found), "{word}");
        }
    }
}
