//! `command`: any program, executed again and again; each execution is timed from its start until
//! its end is collected.
//!
//! Nothing of it is read while it runs: its CPU time and its switches are what the kernel says
//! when it is collected.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use regex::{Regex, RegexBuilder};

use crate::model::{
    Direction, Field, Importance, Kind, Metric, MetricKind, MetricSpec, OutputMetric, Params,
    Reading, Statistic, Unit, Value, WorkerKind,
};
use crate::sys::command::{self, Executed};
use crate::sys::host::plain;
use crate::sys::process::Ending;
use crate::sys::{Output, clock};

use super::{Load, Measured, Request, Role, Spec, Worker, Workload, WorkloadError, params};

pub struct Command;

const WORDS: Kind = Kind::List(&Kind::Word);

const SPEC: Spec = Spec {
    name: "command",
    about: "any program, executed until the run's duration is over, but at least once",
    params: &[
        Field {
            name: "command",
            kind: WORDS,
            default: None,
            about: "the program and its arguments, which no shell reads; {NAME} is the parameter of \
                    this name",
        },
        Field {
            name: "prepare",
            kind: WORDS,
            default: None,
            about: "executed before each execution, and not timed",
        },
        Field {
            name: "cleanup",
            kind: WORDS,
            default: None,
            about: "executed after the last execution",
        },
        Field {
            name: "files",
            kind: WORDS,
            default: None,
            about: "in the lab: paths of what else it executes and reads, for guests to have, too",
        },
        Field {
            name: "failure",
            kind: WORDS,
            default: None,
            about: "regular expressions: an execution of which the output matches one has failed, \
                    whatever its exit status",
        },
        Field {
            name: "package",
            kind: Kind::Text,
            default: None,
            about: "what to install in Debian where the program is missing",
        },
        Field {
            name: "warmups",
            kind: Kind::Int { min: 0, max: 1_000_000 },
            default: Some("0"),
            about: "executions before the first that counts",
        },
        Field {
            name: "exit",
            kind: Kind::Int { min: 0, max: 255 },
            default: Some("0"),
            about: "the exit status of success: with another one the run is failed",
        },
    ],
    roles: &[Role { name: "command", counts: true }],
    ops: "executions",
    throughput: Importance::Explaining,
    runs_programs: true,
    histograms: &[],
    counters: &[],
    metrics: METRICS,
};

/// The parameter of what is measured of the output, a [`Value::Outputs`].
pub const METRIC: &str = "metric";
/// So much of the end of an output is searched for metrics.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// Where nothing is searched: for the reason of a failure.
const MAX_LAST_BYTES: usize = 4096;

/// The parameters that are programs with their arguments.
const PROGRAMS: [&str; 3] = ["command", "prepare", "cleanup"];

const METRICS: &[MetricSpec] = &[
    MetricSpec {
        importance: Importance::Headline,
        ..time(
            "time",
            Statistic::Mean,
            "of an execution, from its start until its end is collected",
        )
    },
    time("time_min", Statistic::Quantile(0), "of the shortest execution"),
    time("time_max", Statistic::Max, "of the longest execution"),
    time("user", Statistic::Mean, "CPU time of an execution in its own code"),
    time("system", Statistic::Mean, "CPU time of an execution in the kernel"),
    explaining("cpus", Unit::Cpus, Statistic::Count, "CPU time over time"),
    explaining(
        "voluntary_switches",
        Unit::PerS,
        Statistic::VoluntarySwitches,
        "of its tasks, while an execution goes on",
    ),
    explaining(
        "involuntary_switches",
        Unit::PerS,
        Statistic::InvoluntarySwitches,
        "of its tasks, while an execution goes on",
    ),
    explaining("executions", Unit::Count, Statistic::Count, "that were timed"),
];

const fn time(name: &'static str, statistic: Statistic, about: &'static str) -> MetricSpec {
    let spec = explaining(name, Unit::Ns, statistic, about);
    MetricSpec { direction: Direction::LowerIsBetter, ..spec }
}

const fn explaining(
    name: &'static str,
    unit: Unit,
    statistic: Statistic,
    about: &'static str,
) -> MetricSpec {
    let (direction, importance) = (Direction::Neutral, Importance::Explaining);
    MetricSpec { name, unit, direction, about, statistic, importance }
}

impl Workload for Command {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn layout(&self, request: &Request) -> Result<Vec<usize>, WorkloadError> {
        if request.kind == WorkerKind::Processes {
            let hint = "leave `workers` out".to_string();
            return Err(WorkloadError::conflict("its programs are processes anyway".into(), hint));
        }
        check(request.params)?;
        Patterns::new(request.params)?;
        Ok(vec![0; request.count as usize])
    }

    fn metrics(&self, params: &Params) -> Vec<MetricKind> {
        kinds(params.get(METRIC).map_or(&[], Value::as_outputs))
    }

    fn programs(&self, params: &Params) -> Result<Vec<(&'static str, PathBuf)>, WorkloadError> {
        let given = PROGRAMS.into_iter().filter(|name| params.contains_key(*name));
        let file = |name| Ok((name, file(name, &words(params, name)?)?));
        given.map(|name| file(name).map_err(|error| with_package(error, params))).collect()
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        let params = request.params;
        let optional = |name: &'static str| {
            let is_given = params.contains_key(name);
            is_given.then(|| Program::new(params, name)).transpose()
        };
        let workers = request.count as usize;
        let patterns = Patterns::new(params)?;
        let kept = if patterns.is_empty() { MAX_LAST_BYTES } else { MAX_OUTPUT_BYTES };
        let outputs = (0..workers).map(|_| Output::new(kept).map(Arc::new));
        Ok(Box::new(Programs {
            command: Program::new(params, "command")?,
            prepare: optional("prepare")?,
            cleanup: optional("cleanup")?,
            warmups: params::int(params, "warmups")?,
            exit: params::int(params, "exit")? as i32,
            sums: (0..workers).map(|_| Mutex::new(Sums::none(patterns.metrics.len()))).collect(),
            patterns,
            outputs: outputs
                .collect::<Result<_, _>>()
                .map_err(|source| WorkloadError::system("make a pipe for output", source))?,
        }))
    }
}

/// The metrics that a plan names, then those that every command has.
fn kinds(outputs: &[OutputMetric]) -> Vec<MetricKind> {
    let mut all: Vec<MetricKind> = outputs.iter().map(OutputMetric::kind).collect();
    let has_headline = all.iter().any(|kind| kind.importance == Importance::Headline);
    all.extend(METRICS.iter().map(|spec| match has_headline {
        true => spec.kind().with_importance(Importance::Explaining),
        false => spec.kind(),
    }));
    all
}

/// What is looked for in the output of each execution.
struct Patterns {
    metrics: Vec<(OutputMetric, Regex)>,
    failures: Vec<Regex>,
}

impl Patterns {
    fn new(params: &Params) -> Result<Patterns, WorkloadError> {
        let regex = |pattern: &str| {
            if pattern.is_empty() {
                return Err(WorkloadError::Pattern("an empty pattern matches everything".into()));
            }
            let built = RegexBuilder::new(pattern).multi_line(true).build();
            built.map_err(|error| WorkloadError::Pattern(error.to_string()))
        };
        let metrics = params.get(METRIC).map_or(&[][..], Value::as_outputs).iter();
        let metrics = metrics.map(|metric| Ok((metric.clone(), regex(&metric.pattern)?)));
        let failures = written(params, "failure").unwrap_or_default();
        Ok(Patterns {
            metrics: metrics.collect::<Result<_, WorkloadError>>()?,
            failures: failures.iter().map(|of| regex(of)).collect::<Result<_, _>>()?,
        })
    }

    fn is_empty(&self) -> bool {
        self.metrics.is_empty() && self.failures.is_empty()
    }

    /// The values of an execution.
    fn read(&self, output: &str) -> Result<Vec<f64>, WorkloadError> {
        if let Some(found) = self.failures.iter().find_map(|failure| failure.find(output)) {
            return Err(WorkloadError::Reported(found.as_str().to_string()));
        }
        let value = |(metric, regex): &(OutputMetric, Regex)| {
            let mut matches = regex.captures_iter(output);
            let (first, more) = (matches.next(), matches.count());
            let printed = first.and_then(|found| Some(found.get(1).or(found.get(0))?.as_str()));
            let no_value = |count: usize, printed: &str| WorkloadError::NoValue {
                metric: metric.name.clone(),
                count,
                printed: printed.to_string(),
            };
            match (printed, more) {
                (Some(printed), 0) => metric.value(printed).ok_or_else(|| no_value(1, printed)),
                (None, _) => Err(no_value(0, "")),
                (Some(_), more) => Err(no_value(more + 1, "")),
            }
        };
        self.metrics.iter().map(value).collect()
    }
}

/// What stands for a parameter in a program's words.
fn place_of(parameter: &str) -> String {
    format!("{{{parameter}}}")
}

/// Those that are no field of the workload.
fn parameters(params: &Params) -> impl Iterator<Item = (&String, &Value)> {
    let own = |name: &str| name == METRIC || SPEC.params.iter().any(|field| field.name == name);
    params.iter().filter(move |(name, _)| !own(name))
}

/// That there is a command. A parameter that changes nothing is a typing error.
fn check(params: &Params) -> Result<(), WorkloadError> {
    if !params.contains_key("command") {
        let hint = "command = [\"make\", \"-j4\"]".to_string();
        return Err(WorkloadError::conflict("it has no `command`".to_string(), hint));
    }
    let all = PROGRAMS.into_iter().filter_map(|name| written(params, name).ok());
    let all: Vec<String> = all.flatten().collect();
    for (name, _) in parameters(params) {
        let place = place_of(name);
        if !all.iter().any(|word| word.contains(&place)) {
            let name = name.escape_default();
            return Err(WorkloadError::conflict(
                format!("no word of `command`, `prepare` or `cleanup` has the parameter `{name}`"),
                format!("write {{{name}}} where its value belongs"),
            ));
        }
    }
    Ok(())
}

fn written(params: &Params, name: &'static str) -> Result<Vec<String>, WorkloadError> {
    let words = params::value(params, name, Value::as_list)?.iter();
    let words = words.map(|word| word.as_text().map(str::to_string));
    words.collect::<Option<_>>().ok_or(WorkloadError::Unset(name))
}

/// The words under this name, each `{NAME}` replaced by the parameter of this name.
fn words(params: &Params, name: &'static str) -> Result<Vec<String>, WorkloadError> {
    let mut words = written(params, name)?;
    let values: Vec<(String, String)> =
        parameters(params).map(|(name, value)| (place_of(name), value.to_string())).collect();
    words.iter_mut().for_each(|word| *word = replaced(word, &values));
    Ok(words)
}

/// A word with its places filled, from the left: what is put in is not looked at again.
fn replaced(word: &str, values: &[(String, String)]) -> String {
    let mut done = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        done.push_str(before);
        match values.iter().find(|(place, _)| from.starts_with(place)) {
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

/// The file of a program; `param`: what its words are the value of.
fn file(param: &'static str, words: &[String]) -> Result<PathBuf, WorkloadError> {
    let name = words.first().map_or("", String::as_str);
    command::find(name).map_err(|source| WorkloadError::Param {
        param,
        value: name.to_string(),
        problem: format!("cannot be executed: {}", plain(&source)),
        hint: "give the path of a program, or the name of one in a folder of PATH",
    })
}

/// With the package to be installed, if one is named.
fn with_package(error: WorkloadError, params: &Params) -> WorkloadError {
    let is_name = |name: &&str| {
        let is_fit = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        name.chars().all(is_fit) && !name.starts_with('-')
    };
    match params.get("package").and_then(Value::as_text).filter(is_name) {
        Some(package) => {
            WorkloadError::conflict(error.to_string(), format!("apt-get install {package}"))
        }
        None => error,
    }
}

/// One of the programs of a set.
#[derive(Clone)]
struct Program {
    /// The name of its parameter.
    param: &'static str,
    words: Vec<String>,
}

impl Program {
    /// Checked now, so that a wrong name fails before anything has started.
    fn new(params: &Params, param: &'static str) -> Result<Program, WorkloadError> {
        let program = Program { param, words: words(params, param)? };
        program.ready().map(|_| program)
    }

    fn ready(&self) -> Result<Ready, WorkloadError> {
        let name = self.words.first().cloned().unwrap_or_default();
        let path = file(self.param, &self.words)?;
        let command = command::Command::new(&path, &self.words);
        let param = self.param;
        command
            .map(|command| Ready { param, name, command })
            .map_err(|source| WorkloadError::system(format!("prepare `{}`", self.param), source))
    }
}

/// A program that a worker is about to execute.
struct Ready {
    param: &'static str,
    name: String,
    command: command::Command,
}

impl Ready {
    /// An error for another exit status than `exit`.
    fn execute(&mut self, output: impl AsFd, exit: i32) -> Result<Executed, WorkloadError> {
        let name = &self.name;
        let executed = self
            .command
            .execute(output)
            .map_err(|source| WorkloadError::system(format!("execute `{name}`"), source))?;
        match executed.ending {
            Ending::Exited(status) if status == exit => Ok(executed),
            ending => {
                let (param, name) = (self.param, name.clone());
                Err(WorkloadError::Program { param, name, ending, exit })
            }
        }
    }
}

/// Of a worker's executions.
#[derive(Default)]
struct Sums {
    executions: u64,
    wall_ns: u64,
    /// Of the shortest and of the longest.
    min_ns: u64,
    max_ns: u64,
    user_ns: u64,
    system_ns: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    /// Of what is measured of the output.
    values: Vec<f64>,
}

impl Sums {
    /// Of no execution, with so many metrics of the output.
    fn none(values: usize) -> Sums {
        Sums { min_ns: u64::MAX, values: vec![0.0; values], ..Sums::default() }
    }

    fn of(executed: &Executed, values: Vec<f64>) -> Sums {
        let Executed { ending: _, wall_ns, user_ns, system_ns, .. } = *executed;
        let Executed { voluntary_switches, involuntary_switches, .. } = *executed;
        let (min_ns, max_ns) = (wall_ns, wall_ns);
        Sums {
            executions: 1,
            wall_ns,
            min_ns,
            max_ns,
            user_ns,
            system_ns,
            voluntary_switches,
            involuntary_switches,
            values,
        }
    }

    fn add(&mut self, other: &Sums) {
        self.executions += other.executions;
        self.wall_ns += other.wall_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.values.iter_mut().zip(&other.values).for_each(|(sum, value)| *sum += value);
    }

    /// In the order of [`kinds`].
    fn readings(&self) -> Vec<f64> {
        let of_one = |sum: u64| sum as f64 / self.executions as f64;
        let per_s = |count: u64| count as f64 * 1e9 / self.wall_ns as f64;
        let own = self.values.iter().map(|sum| sum / self.executions as f64);
        own.chain([
            of_one(self.wall_ns),
            self.min_ns as f64,
            self.max_ns as f64,
            of_one(self.user_ns),
            of_one(self.system_ns),
            (self.user_ns + self.system_ns) as f64 / self.wall_ns as f64,
            per_s(self.voluntary_switches),
            per_s(self.involuntary_switches),
            self.executions as f64,
        ])
        .collect()
    }
}

struct Programs {
    command: Program,
    prepare: Option<Program>,
    cleanup: Option<Program>,
    warmups: u64,
    /// Of success.
    exit: i32,
    /// By worker, as `outputs`. Nobody waits for a lock while an execution is timed.
    sums: Vec<Mutex<Sums>>,
    patterns: Patterns,
    outputs: Vec<Arc<Output>>,
}

impl Programs {
    fn sums(&self, index: usize) -> MutexGuard<'_, Sums> {
        self.sums[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn repeat(&self, index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let output = &*self.outputs[index];
        let mut command = self.command.ready()?;
        let mut before = self.prepare.as_ref().map(Program::ready).transpose()?;
        let mut prepare = || match &mut before {
            Some(program) => program.execute(output, 0).map(|_| ()),
            None => Ok(()),
        };
        for _ in 0..self.warmups {
            prepare()?;
            command.execute(output, self.exit)?;
        }
        prepare()?;
        worker.start();
        clock::sleep_until(worker.measure_from_ns());
        loop {
            if !self.patterns.is_empty() {
                output.forget();
            }
            let executed = command.execute(output, self.exit)?;
            let values = match self.patterns.is_empty() {
                true => Vec::new(),
                false => self.patterns.read(&output.end())?,
            };
            self.sums(index).add(&Sums::of(&executed, values));
            worker.add_ops(1);
            if clock::monotonic_ns() >= worker.repeat_until_ns() || !worker.running() {
                return Ok(());
            }
            prepare()?;
        }
    }
}

impl Load for Programs {
    fn work(&self, index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let repeated = self.repeat(index, worker);
        let cleaned = match (&self.cleanup, &repeated) {
            (None, _) => Ok(()),
            (Some(cleanup), Ok(())) => {
                cleanup.ready()?.execute(&*self.outputs[index], 0).map(|_| ())
            }
            // The end of the output is that of what failed.
            (Some(cleanup), Err(_)) => {
                let null = File::options().write(true).open("/dev/null");
                let null = null.map_err(|why| WorkloadError::system("open /dev/null", why))?;
                cleanup.ready()?.execute(&null, 0).map(|_| ())
            }
        };
        repeated.and(cleaned)?;
        worker.finish();
        Ok(())
    }

    fn serve(&self) -> Result<(), WorkloadError> {
        let served = self.outputs.iter().try_for_each(Output::serve);
        served.map_err(|source| WorkloadError::system("read what programs write", source))
    }

    fn last_output(&self, index: usize) -> Option<String> {
        Some(self.outputs[index].end()).filter(|end| !end.trim().is_empty())
    }

    fn metrics(&self, _measured: &Measured) -> Vec<Metric> {
        let mut all = Sums::none(self.patterns.metrics.len());
        (0..self.sums.len()).for_each(|index| all.add(&self.sums(index)));
        let outputs: Vec<OutputMetric> =
            self.patterns.metrics.iter().map(|(metric, _)| metric.clone()).collect();
        let reading = |value: f64| match all.executions {
            0 => Reading::Unknown("no execution has ended".to_string()),
            _ => Reading::Known(value),
        };
        let values = kinds(&outputs).into_iter().zip(all.readings());
        values.map(|(kind, value)| kind.reading(reading(value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Raw;
    use crate::workload::testing::{WorkerGroup, params, request};

    fn given(pairs: &[(&str, &[&str])]) -> Params {
        let raw = |words: &[&str]| {
            Raw::List(words.iter().map(|word| Raw::Text(word.to_string())).collect())
        };
        let pairs: Vec<(&str, Raw)> = pairs.iter().map(|(name, all)| (*name, raw(all))).collect();
        params(&Command, &pairs)
    }

    fn refused(params: &Params) -> String {
        let request = request(params, 1);
        let refused = Command.layout(&request).err();
        refused.or_else(|| Command.prepare(&request).err()).expect("an error").to_string()
    }

    #[test]
    fn executions_are_timed_one_by_one_and_all_that_comes_before_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log").display().to_string();
        let say = |what: &str| format!("echo {what} >> {log}");
        let mut params = given(&[
            ("command", &["sh", "-c", &say("c{n}")]),
            ("prepare", &["sh", "-c", &say("p")]),
            ("cleanup", &["sh", "-c", &say("end")]),
        ]);
        params.insert("warmups".to_string(), Value::Int(1));
        params.insert("n".to_string(), Value::Int(7));
        let group = WorkerGroup::start(&Command, &params, 1);
        group.wait_until("two executions", |group| group.slots()[0].ops() >= 2);
        group.stop();
        group.wait_until("the end", |group| group.slots()[0].has_finished());
        let lines = std::fs::read_to_string(&log).unwrap();
        let count = |what: &str| lines.lines().filter(|line| *line == what).count() as u64;
        let executions = group.slots()[0].ops();
        assert_eq!((count("c7"), count("p"), count("end")), (executions + 1, executions + 1, 1));
        let metrics = group.load().metrics(&group.measured());
        let value = |name: &str| {
            let metric = metrics.iter().find(|metric| metric.kind.name == name).unwrap();
            metric.value.clone().known().unwrap()
        };
        assert_eq!(value("executions"), executions as f64);
        assert!(value("time_min") > 0.0 && value("time_min") <= value("time"));
        assert!(value("time") <= value("time_max"));
        assert!(value("voluntary_switches") + value("involuntary_switches") > 0.0);
    }

    #[test]
    fn what_cannot_run_is_refused_before_the_start() {
        type Words = (&'static str, &'static [&'static str]);
        let cases: &[(&[Words], &str)] = &[
            (
                &[("command", &["no-such-program"])],
                "command = `no-such-program` cannot be executed",
            ),
            (&[("command", &[""])], "cannot be executed"),
            (&[("command", &["true"]), ("prepare", &["/etc/passwd"])], "prepare = `/etc/passwd`"),
        ];
        for (pairs, expected) in cases {
            let why = refused(&given(pairs));
            assert!(why.contains(expected), "{why}");
        }
        let mut params = given(&[("command", &["true", "{jobs}"])]);
        params.insert("job".to_string(), Value::Int(1));
        assert!(refused(&params).contains("no word of `command`"), "{}", refused(&params));
    }

    fn rate(pattern: &str) -> OutputMetric {
        OutputMetric {
            name: "rate".to_string(),
            pattern: pattern.to_string(),
            unit: Unit::OpsPerS,
            scale: 1e3,
            direction: Direction::HigherIsBetter,
            importance: Importance::Headline,
        }
    }

    #[test]
    fn a_metric_of_the_output_is_the_mean_of_the_executions_and_judged_in_place_of_their_time() {
        let script = "echo before; echo \"Rate: 1.5 K\"";
        let mut params = given(&[("command", &["sh", "-c", script]), ("failure", &["^ERROR"])]);
        params.insert(METRIC.to_string(), Value::Outputs(vec![rate(r"^Rate: (\S+) K$")]));
        let group = WorkerGroup::start(&Command, &params, 2);
        group.wait_until("an execution each", |group| {
            group.slots().iter().all(|slot| slot.ops() >= 1)
        });
        let metrics = group.load().metrics(&group.measured());
        group.stop();
        assert_eq!(metrics[0].kind, rate("").kind());
        assert_eq!(metrics[0].value, Reading::Known(1_500.0));
        let time = metrics.iter().find(|metric| metric.kind.name == "time").unwrap();
        assert_eq!(time.kind.importance, Importance::Explaining);
        let kinds: Vec<MetricKind> = metrics.into_iter().map(|metric| metric.kind).collect();
        assert_eq!(kinds, Command.metrics(&params));
    }

    #[test]
    fn an_output_without_one_number_or_with_a_failure_fails() {
        let mut params = given(&[("failure", &["FAILED TO START", "^ERROR.*"])]);
        params.insert(METRIC.to_string(), Value::Outputs(vec![rate(r"^rate=(\S*)")]));
        let patterns = Patterns::new(&params).unwrap();
        let cases: &[(&str, Result<f64, &str>)] = &[
            ("a\nrate=2\nb", Ok(2_000.0)),
            ("rate=2K", Ok(2e6)),
            ("", Err("metric `rate` matches nothing")),
            ("the rate=2", Err("metric `rate` matches nothing")),
            ("rate=1\nrate=2", Err("metric `rate` matches 2 times")),
            ("rate=\u{1b}x", Err("metric `rate` is no number: `\\u{1b}x`")),
            ("rate=", Err("is no number")),
            ("rate=2\nERROR: no", Err("reported a failure: ERROR: no")),
            ("FAILED TO START", Err("reported a failure: FAILED TO START")),
        ];
        for (output, expected) in cases {
            match (patterns.read(output), expected) {
                (Ok(values), Ok(expected)) => assert_eq!(values, [*expected], "{output}"),
                (Err(why), Err(expected)) => {
                    assert!(why.to_string().contains(expected), "{output}: {why}");
                }
                (got, _) => panic!("{output}: {:?}", got.map_err(|why| why.to_string())),
            }
        }
    }

    #[test]
    fn a_failure_names_the_program_and_its_end() {
        for (script, exit, expected) in [
            ("exit 3", 0, "command `sh` failed with exit status 3"),
            ("exit 0", 3, "command `sh` ended with exit status 0, not 3"),
            ("kill -9 $$", 0, "command `sh` was killed by signal 9"),
            ("kill -TTIN $$", 0, "command `sh` was stopped by signal 21: it wants the terminal"),
        ] {
            let program = Program {
                param: "command",
                words: ["sh", "-c", script].map(str::to_string).to_vec(),
            };
            let output = Output::new(4096).unwrap();
            let why = program.ready().unwrap().execute(&output, exit).unwrap_err();
            assert_eq!(why.to_string(), expected);
        }
    }
}
