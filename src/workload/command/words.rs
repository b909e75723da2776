//! The words of a program, and what stands in their places. Pure.

use crate::model::{Params, Value};
use crate::workload::{Pool, WorkloadError, params};

use super::spec::{METRIC, SPEC};

/// Places that no parameter may have: the number of CPUs of the pool, a folder of the worker's own that
/// is removed afterwards, one that stays, and a port of 127.0.0.1 at which nobody listened.
pub const PLACES: [&str; 4] = ["cpus", "folder", "cache", "port"];

/// What each `{NAME}` stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places(Vec<(String, String)>);

impl Places {
    pub fn new(params: &Params, pool: &Pool) -> Places {
        let text = |value: &Value| match value.as_times() {
            Some(ratio) => pool.times(ratio).to_string(),
            None => value.to_string(),
        };
        let own = parameters(params).map(|(name, value)| (place_of(name), text(value)));
        Places(own.chain([(place_of("cpus"), pool.count().to_string())]).collect())
    }

    pub fn with(&self, name: &str, value: impl ToString) -> Places {
        let more = (place_of(name), value.to_string());
        Places(self.0.iter().cloned().chain([more]).collect())
    }

    /// A word with its places filled, from the left: what is put in is not looked at again.
    pub fn fill(&self, word: &str) -> String {
        let mut done = String::new();
        let mut rest = word;
        while let Some(at) = rest.find('{') {
            let (before, from) = rest.split_at(at);
            done.push_str(before);
            match self.0.iter().find(|(place, _)| from.starts_with(place)) {
                Some((place, value)) => {
                    done.push_str(value);
                    rest = &from[place.len()..];
                }
                None => {
                    done.push('{');
                    rest = &from[1..];
                }
            }
        }
        done + rest
    }
}

/// What stands for a parameter in a program's words.
pub fn place_of(parameter: &str) -> String {
    format!("{{{parameter}}}")
}

/// Those that are no field of the workload.
pub fn parameters(params: &Params) -> impl Iterator<Item = (&String, &Value)> {
    let own = |name: &str| name == METRIC || SPEC.params.iter().any(|field| field.name == name);
    params.iter().filter(move |(name, _)| !own(name))
}

/// Whether a word under any of these names has this place.
pub fn has_place(params: &Params, names: &[&'static str], place: &str) -> bool {
    let place = place_of(place);
    let words = names.iter().flat_map(|name| written(params, name).unwrap_or_default());
    words.into_iter().any(|word| word.contains(&place))
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
            ("-j{cpus}{{n}", "-j4{{cpus}"),
            ("{half}/{folder}", "2//tmp/{n}"),
            ("{other}{", "{other}{"),
            ("", ""),
        ];
        for (word, filled) in cases {
            assert_eq!(places.fill(word), filled);
        }
    }
}
