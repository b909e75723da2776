//! `schedlab import`: the JSON of mmtests, from `extract-mmtests.pl --print-json` or
//! `compare-mmtests.pl --json-export`.
//!
//! Input: the text of the file. Output: its [`Results`], or what is wrong and where. Pure.
//!
//! Facts of the format: both scripts write the objects of their Perl modules. One object a test run,
//! `_TestName`, has `_ResultData`: by operation a list of iterations, each with `Values`. For several runs,
//! extract writes an array, and compare an object with `_ExtractModules`. Numbers may be texts, as Perl read
//! them. An operation is a metric with its factors behind it, as `RPS-99th-4`.
//!
//! `_PreferredVal` and `_PlotYaxis` are written once for all operations of a module, and are right for all of
//! them only if these are alike or `--sub-heading` chose one metric. `Higher` is written only if a module
//! says so; `Lower` is the default, for throughputs, too. So the metrics of mixed modules have a table here,
//! and another `Lower` counts only if the axis is a time or counts failures.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::model::{CpuSet, Direction, json_nodes};
use crate::report::clean;

use super::CompatError;
use super::imported::{
    self, HINT, Results, System, UNKNOWN, WorkResults, check_size, conversion, cut, name, number,
};
use super::schedbench;

pub const TOOL: &str = "mmtests";

/// Maximum number of JSON values in a file.
const MAX_NODES: usize = 1_000_000;
const HIGHER: Direction = Direction::HigherIsBetter;
const LOWER: Direction = Direction::LowerIsBetter;
const NEUTRAL: Direction = Direction::Neutral;

/// Beginnings of benchmarks, the metrics of these, their scale, and which direction is better: as mmtests
/// describes the metric, and if it says nothing, by its unit. A row without a benchmark is for all. The first
/// row that fits counts.
const METRICS: &[(&str, &str, &str, Direction)] = &[
    ("dbench tbench", "tput", "MB/s", HIGHER),
    ("dbench tbench", "loadfile op latency", "ms", LOWER),
    ("schbench", "rps", "requests/s", HIGHER),
    ("schbench", "wakeup request", "us", LOWER),
    ("redis-memtier memtier", "ops/sec hits/sec misses/sec", "ops/s", HIGHER),
    ("redis-memtier memtier", "kb/sec", "KB/s", HIGHER),
    ("redis-memtier memtier", "latency", "ms", LOWER),
    ("redis", "rps", "KiloOperations/sec", HIGHER),
    ("redis", "latmin latavg lat95 lat99 latmax", "us", LOWER),
    ("cyclictest", "minlat avglat maxlat", "us", LOWER),
    ("cyclictest", "overflow overflows", "", LOWER),
    ("pmqtest", "min avg max", "us", LOWER),
    ("futexbench", "hash lock-pi", "ops/s", HIGHER),
    ("futexbench", "wait", "KiloOperations/sec", HIGHER),
    ("futexbench", "requeue wake", "ms", LOWER),
    ("perfnuma", "threadspeed totalspeed", "GB/s", HIGHER),
    ("perfnuma", "converged", "s", LOWER),
    ("perffutexwake perfpipe perfsyscall", "wake-latency usecs-op usecs/syscall", "us", LOWER),
    ("simoop", "work/sec", "ops/s", HIGHER),
    // The module says `Higher`, though nobody wants more stalls.
    ("simoop", "stall/sec stalls/sec vmscanwrite/sec", "ops/s", NEUTRAL),
    ("simoop", "p50 p90 p95 p99 max final", "us", LOWER),
    ("netperf", "loss", "Megabits/second", LOWER),
    ("saladfork", "local_v_total", "Percentage", NEUTRAL),
    ("saladfork rtmigration libmicro", "local remote task mean95", "us", LOWER),
    ("thpc", "fault", "us", LOWER),
    ("thpc", "huge local locality", "Percentage", HIGHER),
    ("thpc", "remote uncertain", "Percentage", NEUTRAL),
    ("sysbenchcpu", "events/sec", "events/s", HIGHER),
    ("pedsort", "jobs/core", "jobs/hour/core", HIGHER),
    ("fio bonnie", "latency", "us", LOWER),
    ("stutterp apachebench easywave", "latency mean_latency exectime", "ms", LOWER),
    ("", "elapsed elapsd elspd elsp user system syst sys time", "s", LOWER),
    ("", "latency lat50 lat90 lat95 lat99 latavg latmin latmax", "Latency", LOWER),
    ("", "tput rps ops/sec txn/sec", "", HIGHER),
];

/// Each object has one of these keys.
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
    /// The operations in the order of the reports.
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

/// The values of an operation in one test run, or why there are none.
type Measured = Result<Vec<f64>, String>;

/// Whether these bytes begin like the output of these scripts, even if the rest is broken.
pub fn is_json(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"[") || schedbench::has_key(bytes, &KEYS)
}

/// `file`: its name, for messages; `now_unix_ns`: the file has no time.
pub fn read(text: &str, file: &str, now_unix_ns: u64) -> Result<Results, CompatError> {
    if json_nodes(text.as_bytes()) > MAX_NODES {
        let text = format!("{file}: it has more than {MAX_NODES} values");
        return Err(CompatError::usage(text, "import a part of it: fewer test runs or benchmarks"));
    }
    let modules = modules(text).map_err(|why| {
        let text = format!("{file}: no JSON of mmtests: {}", clean(&why.to_string()));
        CompatError::usage(text, HINT)
    })?;
    let mut results = Results {
        tool: TOOL,
        title: "mmtests".to_string(),
        started_unix_ns: now_unix_ns,
        systems: Vec::new(),
        works: Vec::new(),
        left_out: BTreeMap::new(),
    };
    let mut known = BTreeMap::new();
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
        check_size(file, results.works.len().max(1), results.systems.len())?;
        let axis = module.axis.as_deref().filter(|axis| *axis != "UNKNOWN").unwrap_or_default();
        let axis = name(&format!("{place}: _PlotYaxis"), axis)?;
        for operation in module.operations() {
            let place = format!("{place}: _ResultData");
            let work = name(&place, &format!("{benchmark} {operation}"))?;
            let place = format!("{place}: `{work}`");
            let values = module.values(&operation, &place)?;
            let (scale, direction) = module.judged(&benchmark, &operation, &axis);
            let work = module.work(work, scale, direction, &benchmark);
            add(&mut results, &mut known, work, values, &place)?;
            check_size(file, results.works.len(), results.systems.len())?;
        }
    }
    Ok(results)
}

/// Adds what the newest test run has of one operation. `known`: works by name.
fn add(
    results: &mut Results,
    known: &mut BTreeMap<String, usize>,
    work: WorkResults,
    values: Option<Measured>,
    place: &str,
) -> Result<(), CompatError> {
    let at = results.systems.len() - 1;
    let (scale, direction) = (work.scale.clone(), work.direction);
    let number = *known.entry(work.name.clone()).or_insert(results.works.len());
    if number == results.works.len() {
        results.works.push(work);
    }
    let row = &mut results.works[number];
    if row.values.len() > at {
        let text = format!("{place}: two operations have this name, but for white space");
        return Err(CompatError::usage(text, HINT));
    }
    if row.direction != direction {
        row.direction = NEUTRAL;
    }
    row.values.resize(at, None);
    row.values.push(match (values, conversion(&scale, &row.scale)) {
        (Some(Ok(values)), Some(factor)) => {
            Some(Ok(values.iter().map(|value| value * factor).collect()))
        }
        (Some(Ok(_)), None) => {
            let [own, first] = [&scale, &row.scale].map(|scale| match scale.as_str() {
                "" => "unknown".to_string(),
                scale => format!("`{}`", cut(scale, 60)),
            });
            let why = format!("its unit is {own}, and {first} in an earlier test run");
            *results.left_out.entry(why.clone()).or_default() += 1;
            Some(Err(why))
        }
        (values, _) => values,
    });
    Ok(())
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

/// The scale and direction of the operation's metric, which its factors follow.
fn metric(benchmark: &str, operation: &str) -> Option<(&'static str, Direction)> {
    let [benchmark, operation] = [benchmark, operation].map(str::to_lowercase);
    let is_of = |metric: &str| {
        operation.strip_prefix(metric).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let fits = |(benchmarks, metrics, ..): &&(&str, &str, &str, Direction)| {
        (benchmarks.is_empty() || benchmarks.split(' ').any(|one| benchmark.starts_with(one)))
            && metrics.split(' ').any(is_of)
    };
    METRICS.iter().find(fits).map(|(.., scale, direction)| (*scale, *direction))
}

/// Whether less is better on an axis with this label, for every unit.
fn is_cost(axis: &str) -> bool {
    let axis = axis.to_lowercase();
    axis.starts_with("time (") || axis == "failures"
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
        let mut seen = BTreeSet::new();
        ordered.retain(|name| self.data.contains_key(name) && seen.insert(name.clone()));
        let others = self.data.keys().filter(|operation| !seen.contains(*operation));
        let others: Vec<String> = others.cloned().collect();
        ordered.into_iter().chain(others).collect()
    }

    /// The scale of an operation, and which direction is better: from its metric if that is known, else from
    /// the whole module if that is credible, else unknown.
    fn judged(&self, benchmark: &str, operation: &str, axis: &str) -> (String, Direction) {
        let of_axis = if is_cost(axis) { Some(LOWER) } else { imported::direction_of(axis) };
        if let Some((scale, direction)) = metric(benchmark, operation) {
            let scale = if of_axis == Some(direction) { axis } else { scale };
            return (scale.to_string(), direction);
        }
        match (self.preferred.as_deref(), of_axis) {
            (Some("Higher"), None | Some(HIGHER)) => (axis.to_string(), HIGHER),
            (Some("Lower") | None, Some(LOWER)) => (axis.to_string(), LOWER),
            _ => (String::new(), NEUTRAL),
        }
    }

    /// Adds a work without values.
    fn work(
        &self,
        name: String,
        scale: String,
        direction: Direction,
        benchmark: &str,
    ) -> WorkResults {
        let config = format!("configs/config-{}", benchmark.to_lowercase());
        let command = ["./run-mmtests.sh", "--config", &config, "schedlab"];
        let (command, pattern) = (command.map(str::to_string).to_vec(), None);
        WorkResults { name, scale, direction, command, pattern, values: Vec::new() }
    }

    /// The mean of each iteration; of a lone one its samples.
    fn values(&self, operation: &str, place: &str) -> Result<Option<Measured>, CompatError> {
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
        let same = other.replace("Higher", "Lower").replace("UNKNOWN", "Time (seconds)");
        let forms = [
            format!("[{one},{same}]"),
            format!(r#"{{"_ExtractModules":[{one},{same}],"_ResultData":{{}}}}"#),
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
        assert_eq!((lone.works[0].direction, lone.works[0].scale.as_str()), (HIGHER, ""));
        let both = read(&format!("[{one},{other}]"), "f", 5).unwrap();
        assert_eq!(both.works[0].direction, NEUTRAL, "the runs contradict each other");
    }

    #[test]
    fn each_test_run_has_a_unit_of_its_own() {
        let run = |axis: &str, value: u32| {
            format!(
                r#"{{"_ModuleName":"ExtractHackbench","_TestName":"t","_PreferredVal":"Lower",
                "_PlotYaxis":"{axis}","_ResultData":{{"4":[{{"Values":[{value}]}}]}}}}"#
            )
        };
        let (ms, s) = ("Time (milliseconds)", "Time (seconds)");
        let known = |value| Some(Ok(vec![value]));
        let unlike = Some(Err(format!("its unit is `Failures`, and `{s}` in an earlier test run")));
        let cases = [
            ([s, ms], [1, 1000], [known(1.0), known(1.0)], LOWER),
            ([ms, s], [1500, 2], [known(1500.0), known(2000.0)], LOWER),
            ([s, "seconds"], [1, 2], [known(1.0), known(2.0)], LOWER),
            ([s, "Failures"], [1, 2], [known(1.0), unlike], LOWER),
        ];
        for (axes, values, expected, direction) in cases {
            let text = format!("[{},{}]", run(axes[0], values[0]), run(axes[1], values[1]));
            let results = read(&text, "f", 5).unwrap();
            let [work] = results.works.as_slice() else { panic!("one work: {axes:?}") };
            assert_eq!((work.scale.as_str(), &work.values[..]), (axes[0], &expected[..]));
            assert_eq!(work.direction, direction, "{axes:?}");
            let left_out = expected.iter().flatten().filter(|values| values.is_err()).count();
            assert_eq!(results.left_out.values().sum::<usize>(), left_out, "{axes:?}");
        }
    }

    #[test]
    fn the_order_names_an_operation_once_and_the_works_have_a_limit() {
        let text = r#"{"_TestName":"t","_GeneratedOperations":["4",4],
            "_ResultData":{"4":[{"Values":[1]}]}}"#;
        assert_eq!(read(text, "f", 0).unwrap().works.len(), 1);
        let operations: Vec<String> = (0..100_001).map(|at| format!(r#""{at}":[]"#)).collect();
        let text = format!(r#"{{"_TestName":"t","_ResultData":{{{}}}}}"#, operations.join(","));
        let error = read(&text, "f", 0).map(|_| ()).unwrap_err().text(Whose::User);
        assert!(error.starts_with("f: it has 100001 works or more"), "{error}");
    }

    #[test]
    fn direction_and_scale_are_those_of_the_operation() {
        let cases = [
            // Written once for all operations of the module, wrong for the second of each.
            ("Shellpackschbench", "Lower", "Latency", "Wakeup-99th-4", "us", LOWER),
            ("Shellpackschbench", "Lower", "Latency", "RPS-50th-4", "requests/s", HIGHER),
            ("Shellpacktbench", "Lower", "UNKNOWN", "loadfile-4", "ms", LOWER),
            ("Shellpacktbench", "Lower", "UNKNOWN", "tput-4", "MB/s", HIGHER),
            ("Shellpackdbench4", "Lower", "Latency", "op-Close-4", "ms", LOWER),
            ("Shellpackdbench4", "Lower", "Latency", "tput-4", "MB/s", HIGHER),
            ("Shellpackdbench4", "Lower", "Latency", "lat99-4", "Latency", LOWER),
            ("Shellpackredis-memtier", "Lower", "Latency", "latency-8", "ms", LOWER),
            ("Shellpackredis-memtier", "Lower", "Latency", "ops/sec-8", "ops/s", HIGHER),
            ("Shellpackredis", "Lower", "Interrupts", "RPS-1", "KiloOperations/sec", HIGHER),
            ("Shellpackfutexbench", "Lower", "UNKNOWN", "lock-pi-2", "ops/s", HIGHER),
            ("Perfnuma", "", "Time (seconds)", "totalspeed-5", "GB/s", HIGHER),
            ("Perfnuma", "", "Time (seconds)", "converged-5", "Time (seconds)", LOWER),
            ("Netperfudp", "Higher", "Megabits/second", "loss-64", "Megabits/second", LOWER),
            ("Netperfudp", "Higher", "Megabits/second", "send-64", "Megabits/second", HIGHER),
            // The module says it, and its axis agrees.
            ("Hackbench", "", "Time (seconds)", "4", "Time (seconds)", LOWER),
            ("Pagealloc", "Lower", "Time (cpu cycles)", "a-odr0-1", "Time (cpu cycles)", LOWER),
            ("Xfstests", "Lower", "Failures", "generic", "Failures", LOWER),
            ("Trunc", "", "Time (milliseconds)", "elapsed", "Time (milliseconds)", LOWER),
            ("Shellpackunixbenchd", "Higher", "Ops/iteration", "getpid-4", "Ops/iteration", HIGHER),
            ("Shellpackkernbench", "Lower", "UNKNOWN", "System-2", "s", LOWER),
            // Nobody says it, or two contradict each other.
            ("Shellpackours", "Lower", "UNKNOWN", "count-1", "", NEUTRAL),
            ("Shellpackours", "Lower", "Latency", "count-1", "", NEUTRAL),
            ("Shellpackours", "Lower", "MB/sec", "count-1", "", NEUTRAL),
            ("Shellpackours", "Higher", "Time (seconds)", "count-1", "", NEUTRAL),
            ("Shellpacksimoop", "Higher", "Latency", "stalls/sec-1", "ops/s", NEUTRAL),
        ];
        for (module, preferred, axis, operation, scale, direction) in cases {
            let preferred = match preferred {
                "" => String::new(),
                word => format!(r#""_PreferredVal":"{word}","#),
            };
            let text = format!(
                r#"{{"_ModuleName":"Extract{module}","_TestName":"t",{preferred}"_PlotYaxis":"{axis}",
                "_ResultData":{{"{operation}":[{{"Values":[1]}}]}}}}"#
            );
            let results = read(&text, "f", 5).unwrap();
            let found = &results.works[0];
            let place = format!("{module} {operation}");
            assert_eq!((found.scale.as_str(), found.direction), (scale, direction), "{place}");
        }
        for (benchmark, _, scale, direction) in METRICS {
            let of_scale = imported::direction_of(scale).unwrap_or(*direction);
            let fits = of_scale == *direction || *direction == NEUTRAL || benchmark == &"netperf";
            assert!(fits, "{benchmark} {scale}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let cases = [
            ("[1]", "f: no JSON of mmtests: invalid type: integer `1`"),
            (r#"{"_ResultData":{"a":[{"Values":[1,"#, "f: no JSON of mmtests: EOF"),
            (
                r#"{"_TestName":"t","_ResultData":{"a":[{"Values":["x"]}]}}"#,
                "f: test run 1: _ResultData: `benchmark a`: `x` is not a number",
            ),
            (r#"{"_ResultData":{"a":[{"Values":[null]}]}}"#, "`null` is not a number"),
            (
                r#"{"_ResultData":{"x y":[{"Values":[1]}],"x  y":[{"Values":[2]}]}}"#,
                "f: test run 1: _ResultData: `benchmark x y`: two operations have this name",
            ),
            (r#"{"_TestName":"\u001b[2J","_ResultData":{}}"#, "_TestName: `\\u{1b}[2J` holds"),
        ];
        for (text, expected) in cases {
            let error = read(text, "f", 0).map(|_| ()).unwrap_err().text(Whose::User);
            assert!(error.contains(expected) && error.contains("\nhint: "), "{error}");
        }
        assert!(!is_json(b"{\"event\":1}") && !is_json(b"{\"Input\":{}}") && !is_json(b""));
    }
}
