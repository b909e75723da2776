//! Finds numbers in the output of each execution, and failures that it hides. Pure.

use regex::{Regex, RegexBuilder};

use crate::model::{OutputMetric, OutputPlace, Params, Value};
use crate::workload::WorkloadError;

use super::spec::METRIC;
use super::words::written;

/// The patterns for the output of each execution.
pub struct Patterns {
    pub metrics: Vec<(OutputMetric, Place)>,
    failures: Vec<Regex>,
}

/// The place of a number.
pub enum Place {
    Pattern(Regex),
    /// In the last JSON document of the output that has it.
    Json(String),
}

/// `param`: the key that it stands under.
pub fn regex(param: &'static str, pattern: &str) -> Result<Regex, WorkloadError> {
    let wrong = |problem: String| WorkloadError::Param {
        param,
        value: pattern.to_string(),
        problem,
        hint: "a sign that stands for itself has a backslash before it, in single quotes: '\\('",
    };
    if pattern.is_empty() {
        return Err(wrong("is empty, and would match everything".to_string()));
    }
    let built = RegexBuilder::new(pattern).multi_line(true).build();
    built.map_err(|error| {
        // The crate draws the pattern over several lines; the last one says why.
        let text = error.to_string();
        let why = text.lines().last().unwrap_or_default();
        wrong(format!("is not a regular expression: {}", why.trim_start_matches("error: ")))
    })
}

/// The place of a number, checked.
pub fn place(of: &OutputPlace) -> Result<Place, WorkloadError> {
    match of {
        OutputPlace::Pattern(pattern) => regex("pattern", pattern).map(Place::Pattern),
        OutputPlace::Json(path) if is_pointer(path) => Ok(Place::Json(path.clone())),
        OutputPlace::Json(path) => Err(WorkloadError::Param {
            param: "json",
            value: path.clone(),
            problem: "is not a path into JSON".to_string(),
            hint: "a path begins with `/`, and so does each of its steps, in which `~1` is a `/` and `~0` a `~`: \
                   json = \"/jobs/0/rate\"",
        }),
    }
}

/// RFC 6901: after a tilde stands 0 or 1.
fn is_pointer(path: &str) -> bool {
    path.starts_with('/') && path.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']))
}

impl Patterns {
    pub fn new(params: &Params) -> Result<Patterns, WorkloadError> {
        let metrics = params.get(METRIC).map_or(&[][..], Value::as_outputs).iter();
        let metrics = metrics.map(|metric| Ok((metric.clone(), place(&metric.place)?)));
        let failures = written(params, "failure").unwrap_or_default();
        Ok(Patterns {
            metrics: metrics.collect::<Result<_, WorkloadError>>()?,
            failures: failures.iter().map(|of| regex("failure", of)).collect::<Result<_, _>>()?,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty() && self.failures.is_empty()
    }

    /// The values of an execution.
    pub fn read(&self, output: &str) -> Result<Vec<f64>, WorkloadError> {
        if let Some(found) = self.failures.iter().find_map(|failure| failure.find(output)) {
            return Err(WorkloadError::Reported(found.as_str().to_string()));
        }
        self.metrics.iter().map(|(metric, place)| place.value(metric, output)).collect()
    }
}

impl Place {
    fn value(&self, metric: &OutputMetric, output: &str) -> Result<f64, WorkloadError> {
        let no_value = |count: usize, printed: &str| WorkloadError::NoValue {
            metric: metric.name.clone(),
            count,
            printed: printed.to_string(),
        };
        let (printed, count) = match self {
            Place::Pattern(regex) => {
                let mut matches = regex.captures_iter(output);
                let (first, more) = (matches.next(), matches.count());
                let printed = first.and_then(|found| Some(found.get(1).or(found.get(0))?.as_str()));
                let count = if printed.is_some() { 1 + more } else { 0 };
                (printed.map(str::to_string), count)
            }
            Place::Json(path) => {
                let (metric, path) = (metric.name.clone(), path.clone());
                let printed = at_path(output, &path);
                (Some(printed.ok_or(WorkloadError::NoJson { metric, path })?), 1)
            }
        };
        match (printed, count) {
            (Some(printed), 1) => metric.value(&printed).ok_or_else(|| no_value(1, &printed)),
            (_, count) => Err(no_value(count, "")),
        }
    }
}

/// The value at this path (RFC 6901) of the last JSON document that begins a line and has it, as it is printed.
fn at_path(output: &str, path: &str) -> Option<String> {
    let mut found = None;
    let mut at = 0;
    while let Some(next) = output[at..].find(['{', '[']) {
        let start = at + next;
        at = start + 1;
        if start > 0 && !output[..start].ends_with('\n') {
            continue;
        }
        let mut documents = serde_json::Deserializer::from_str(&output[start..]).into_iter();
        if let Some(Ok(document)) = documents.next() {
            let document: serde_json::Value = document;
            found = document.pointer(path).cloned().or(found);
            at = start + documents.byte_offset();
        }
    }
    match found? {
        serde_json::Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_into_the_last_document_that_has_it() {
        let output =
            "log {x}\n{broken\n[\n {\"a/b\": [1, {\"rate\": 2.5e3}], \"t\": \"81K\"}\n]\nend\n";
        assert_eq!(at_path(output, "/0/a~1b/1/rate").as_deref(), Some("2500.0"));
        assert_eq!(at_path(output, "/0/t").as_deref(), Some("81K"));
        assert_eq!(at_path(output, "/1"), None);
        let lines = "{\"rate\": 1}\n{\"rate\": 2}\nx {\"rate\": 3}\n{\"end\": {\n\"rate\": 4}}\n";
        assert_eq!(at_path(lines, "/rate").as_deref(), Some("2"));
        assert_eq!(at_path(lines, "/end/rate").as_deref(), Some("4"));
        let flood = "[".repeat(1000) + &"[\n".repeat(10_000) + "\n{\"a\": 1}";
        assert_eq!(at_path(&flood, "/a").as_deref(), Some("1"));
        assert_eq!(at_path("nothing", "/1"), None);
        assert_eq!(at_path("", ""), None);
    }
}
