//! `schedlab import`: the JSON of mmtests, from `extract-mmtests.pl --print-json` or
//! `compare-mmtests.pl --json-export`.
//!
//! Input: the text of the file. Output: its [`Results`], or what is wrong and where. Pure.
//!
//! Facts of the format: both scripts write the objects of their Perl modules. One object a test run,
//! `_TestName`, has `_ResultData`: by operation a list of iterations, each with `Values`. Of several
//! runs extract writes an array, and compare an object with `_ExtractModules`. `_PreferredVal` is
//! `Higher` or `Lower`, `_PlotYaxis` the label of the axis. Numbers may be texts, as Perl read them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::model::{CpuSet, Direction};
use crate::report::clean;

use super::CompatError;
use super::imported::{self, HINT, Results, System, UNKNOWN, WorkResults, name, number};
use super::schedbench;

/// The keys of which one is in each object.
const KEYS: [&str; 2] = ["_ResultData", "_ExtractModules"];

#[derive(Deserialize)]
struct Comparison {
    #[serde(rename = "_ExtractModules")]
    modules: Option<Vec<Module>>,
}

/// One test run.
#[derive(Deserialize)]
struct Module {
    #[serde(rename = "_ModuleName", default)]
    module: String,
    #[serde(rename = "_TestName", default)]
    test: String,
    #[serde(rename = "_PreferredVal")]
    preferred: Option<String>,
    #[serde(rename = "_PlotYaxis")]
    axis: Option<String>,
    /// In the order of the reports.
    #[serde(rename = "_GeneratedOperations", default)]
    order: Vec<Value>,
    #[serde(rename = "_ResultData")]
    data: BTreeMap<String, Vec<Option<Iteration>>>,
}

#[derive(Deserialize)]
struct Iteration {
    #[serde(rename = "Values", default)]
    values: Vec<Value>,
}

/// Whether these bytes begin as these scripts write, however broken they are from there on.
pub fn is_json(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"[") || schedbench::has_key(bytes, &KEYS)
}

/// `file`: its name, for messages; `now_unix_ns`: the file has no time.
pub fn read(text: &str, file: &str, now_unix_ns: u64) -> Result<Results, CompatError> {
    let modules = modules(text).map_err(|why| {
        let text = format!("{file}: no JSON of mmtests: {}", clean(&why.to_string()));
        CompatError::usage(text, HINT)
    })?;
    let mut results = Results {
        tool: "mmtests",
        title: "mmtests".to_string(),
        started_unix_ns: now_unix_ns,
        systems: Vec::new(),
        works: Vec::new(),
        left_out: BTreeMap::new(),
    };
    let mut scales = Vec::new();
    for (at, module) in modules.iter().enumerate() {
        let place = format!("{file}: test run {}", at + 1);
        let test = name(&format!("{place}: _TestName"), &module.test)?;
        let benchmark = name(&format!("{place}: _ModuleName"), benchmark(&module.module))?;
        if at == 0 {
            results.title = format!("mmtests {benchmark}");
        }
        let environment =
            imported::environment(UNKNOWN.to_string(), UNKNOWN.to_string(), CpuSet::default());
        results.systems.push(System { name: test, environment });
        let scale = module.axis.as_deref().filter(|axis| *axis != "UNKNOWN").unwrap_or_default();
        scales.push(name(&format!("{place}: _PlotYaxis"), scale)?);
        for operation in module.operations() {
            let place = format!("{place}: _ResultData");
            let work = name(&place, &format!("{benchmark} {operation}"))?;
            let values = module.values(&operation, &format!("{place}: `{work}`"))?;
            let known = results.works.iter().position(|known| known.name == work);
            let known = known.unwrap_or_else(|| {
                results.works.push(module.work(work, scales[at].clone(), &benchmark));
                results.works.len() - 1
            });
            let row = &mut results.works[known].values;
            row.resize(at, None);
            row.push(values);
        }
    }
    Ok(results)
}

fn modules(text: &str) -> serde_json::Result<Vec<Module>> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text);
    }
    match serde_json::from_str::<Comparison>(text)?.modules {
        Some(modules) => Ok(modules),
        None => Ok(vec![serde_json::from_str(text)?]),
    }
}

/// `ExtractShellpackhackbench` and `ExtractHackbench`: the module, then the benchmark.
fn benchmark(module: &str) -> &str {
    let name = module.strip_prefix("Extract").unwrap_or(module);
    let name = name.strip_prefix("Shellpack").unwrap_or(name);
    if name.trim().is_empty() { "benchmark" } else { name }
}

impl Module {
    fn operations(&self) -> Vec<String> {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut ordered: Vec<String> = self.order.iter().map(text).collect();
        ordered.retain(|operation| self.data.contains_key(operation));
        let others = self.data.keys().filter(|operation| !ordered.contains(operation));
        let others: Vec<String> = others.cloned().collect();
        ordered.into_iter().chain(others).collect()
    }

    /// Without values yet.
    fn work(&self, name: String, scale: String, benchmark: &str) -> WorkResults {
        let direction = match self.preferred.as_deref() {
            Some("Higher") => Direction::HigherIsBetter,
            _ => Direction::LowerIsBetter,
        };
        let config = format!("configs/config-{}", benchmark.to_lowercase());
        let command = ["./run-mmtests.sh", "--config", &config, "schedlab"];
        let (command, pattern) = (command.map(str::to_string).to_vec(), None);
        WorkResults { name, scale, direction, command, pattern, values: Vec::new() }
    }

    /// The mean of each iteration; of a lone one its samples.
    fn values(
        &self,
        operation: &str,
        place: &str,
    ) -> Result<Option<Result<Vec<f64>, String>>, CompatError> {
        let iterations = self.data.get(operation).into_iter().flatten().flatten();
        let iterations = iterations.map(|iteration| {
            let values = iteration.values.iter().map(|value| match value {
                Value::Number(number) => {
                    number.as_f64().ok_or(()).or_else(|()| number_of(place, value))
                }
                _ => number_of(place, value),
            });
            values.collect::<Result<Vec<f64>, _>>()
        });
        let mut iterations: Vec<Vec<f64>> = iterations.collect::<Result<_, _>>()?;
        iterations.retain(|values| !values.is_empty());
        Ok(match iterations.as_slice() {
            [] => None,
            [lone] => Some(Ok(lone.clone())),
            several => {
                let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
                Some(Ok(several.iter().map(mean).collect()))
            }
        })
    }
}

fn number_of(place: &str, value: &Value) -> Result<f64, CompatError> {
    number(place, value.as_str().unwrap_or(&value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::Whose;

    #[test]
    fn test_runs_are_systems_and_iterations_are_values() {
        let one = r#"{"_ModuleName":"ExtractShellpackhackbench-pipes","_TestName":"6.5",
            "_PlotYaxis":"Time (seconds)","_GeneratedOperations":["4",1],"_ResultData":
            {"1":[{"Values":["1.5\n",2]}],"4":[{"Values":["1","3"]},null,{"Values":[5]}],"9":[]}}"#;
        let other = r#"{"_ModuleName":"ExtractHackbench-pipes","_TestName":"6.6",
            "_PreferredVal":"Higher","_PlotYaxis":"UNKNOWN","_ResultData":{"4":[{"Values":[7]}]}}"#;
        let other = other.replace("ExtractHackbench", "Extracthackbench");
        let forms = [
            format!("[{one},{other}]"),
            format!(r#"{{"_ExtractModules":[{one},{other}],"_ResultData":{{}}}}"#),
        ];
        for text in forms {
            assert!(is_json(text.as_bytes()), "{text}");
            let results = read(&text, "f", 5).unwrap();
            let systems: Vec<&str> =
                results.systems.iter().map(|system| system.name.as_str()).collect();
            assert_eq!((systems, results.started_unix_ns), (vec!["6.5", "6.6"], 5));
            let found: Vec<_> = results
                .works
                .iter()
                .map(|work| (work.name.as_str(), work.scale.as_str(), work.values.clone()))
                .collect();
            let time = "Time (seconds)";
            let samples = vec![Some(Ok(vec![1.5, 2.0]))];
            let means = vec![Some(Ok(vec![2.0, 5.0])), Some(Ok(vec![7.0]))];
            assert_eq!(found[0], ("hackbench-pipes 4", time, means));
            assert_eq!(found[1], ("hackbench-pipes 1", time, samples));
            assert_eq!(results.works[0].direction, Direction::LowerIsBetter);
        }
        let lone = read(&other, "f", 5).unwrap();
        assert_eq!(
            (lone.works[0].direction, lone.works[0].scale.as_str()),
            (Direction::HigherIsBetter, "")
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let cases = [
            ("[1]", "f: no JSON of mmtests: invalid type: integer `1`"),
            (r#"{"_ResultData":{"a":[{"Values":[1,"#, "f: no JSON of mmtests: EOF"),
            (
                r#"{"_TestName":"t","_ResultData":{"a":[{"Values":["x"]}]}}"#,
                "f: test run 1: _ResultData: `benchmark a`: `x` is no number",
            ),
            (r#"{"_ResultData":{"a":[{"Values":[null]}]}}"#, "`null` is no number"),
            (r#"{"_TestName":"\u001b[2J","_ResultData":{}}"#, "_TestName: `\\u{1b}[2J` holds"),
        ];
        for (text, expected) in cases {
            let error = read(text, "f", 0).map(|_| ()).unwrap_err().text(Whose::User);
            assert!(error.contains(expected) && error.contains("\nhint: "), "{error}");
        }
        assert!(!is_json(b"{\"event\":1}") && !is_json(b"{\"Input\":{}}") && !is_json(b""));
    }
}
