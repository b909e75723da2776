//! `command`: any program, executed again and again; each execution is timed from its start until
//! its end is collected.
//!
//! Nothing of it is read while it runs: its CPU time and its switches are what the kernel says
//! when it is collected.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytemuck::Zeroable;

use crate::model::{
    Direction, Field, Importance, Kind, Metric, MetricSpec, Params, Reading, Statistic, Unit, Value,
};
use crate::sys::command::{self, Executed};
use crate::sys::host::plain;
use crate::sys::process::Ending;
use crate::sys::{Output, clock, shared};

use super::{Load, Measured, Request, Role, Spec, Worker, Workload, WorkloadError, params};

pub struct Command;

const WORDS: Kind = Kind::List(&Kind::Text);

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
        check(request.params)?;
        Ok(vec![0; request.count as usize])
    }

    fn programs(&self, params: &Params) -> Result<Vec<(&'static str, PathBuf)>, WorkloadError> {
        let given = PROGRAMS.into_iter().filter(|name| params.contains_key(*name));
        given.map(|name| Ok((name, file(name, &words(params, name)?)?))).collect()
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        let params = request.params;
        let optional = |name: &'static str| {
            let is_given = params.contains_key(name);
            is_given.then(|| Program::new(params, name)).transpose()
        };
        let workers = request.count as usize;
        let outputs = (0..workers).map(|_| Output::new().map(Arc::new));
        let memory = |source| WorkloadError::system("allocate memory for counts", source);
        Ok(Box::new(Programs {
            command: Program::new(params, "command")?,
            prepare: optional("prepare")?,
            cleanup: optional("cleanup")?,
            warmups: params::int(params, "warmups")?,
            exit: params::int(params, "exit")? as i32,
            sums: shared::leak_slice(workers).map_err(memory)?,
            outputs: outputs
                .collect::<Result<_, _>>()
                .map_err(|source| WorkloadError::system("make a pipe for output", source))?,
        }))
    }
}

/// What stands for a parameter in a program's words.
fn place_of(parameter: &str) -> String {
    format!("{{{parameter}}}")
}

/// Those that are no field of the workload.
fn parameters(params: &Params) -> impl Iterator<Item = (&String, &Value)> {
    let own = |name: &str| SPEC.params.iter().any(|field| field.name == name);
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
    for (name, value) in parameters(params) {
        let (place, value) = (place_of(name), value.to_string());
        words.iter_mut().for_each(|word| *word = word.replace(&place, &value));
    }
    Ok(words)
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
        command
            .map(|command| Ready { name, command })
            .map_err(|source| WorkloadError::system(format!("prepare `{}`", self.param), source))
    }
}

/// A program that a worker is about to execute.
struct Ready {
    name: String,
    command: command::Command,
}

impl Ready {
    /// An error for another exit status than `exit`.
    fn execute(&mut self, output: &Output, exit: i32) -> Result<Executed, WorkloadError> {
        let name = &self.name;
        let executed = self
            .command
            .execute(output)
            .map_err(|source| WorkloadError::system(format!("execute `{name}`"), source))?;
        match executed.ending {
            Ending::Exited(status) if status == exit => Ok(executed),
            ending => Err(WorkloadError::Program { name: name.clone(), ending, exit }),
        }
    }
}

/// Of a worker's executions. In memory that its process shares with the runner.
#[derive(Zeroable)]
#[repr(C, align(128))]
struct Sums {
    executions: AtomicU64,
    wall_ns: AtomicU64,
    /// Of the shortest and of the longest.
    min_ns: AtomicU64,
    max_ns: AtomicU64,
    user_ns: AtomicU64,
    system_ns: AtomicU64,
    voluntary_switches: AtomicU64,
    involuntary_switches: AtomicU64,
}

impl Sums {
    fn add(&self, executed: &Executed) {
        let is_first = self.executions.fetch_add(1, Relaxed) == 0;
        for (sum, own) in [
            (&self.wall_ns, executed.wall_ns),
            (&self.user_ns, executed.user_ns),
            (&self.system_ns, executed.system_ns),
            (&self.voluntary_switches, executed.voluntary_switches),
            (&self.involuntary_switches, executed.involuntary_switches),
        ] {
            sum.fetch_add(own, Relaxed);
        }
        let shortest_ns = if is_first { u64::MAX } else { self.min_ns.load(Relaxed) };
        self.min_ns.store(shortest_ns.min(executed.wall_ns), Relaxed);
        self.max_ns.fetch_max(executed.wall_ns, Relaxed);
    }
}

struct Programs {
    command: Program,
    prepare: Option<Program>,
    cleanup: Option<Program>,
    warmups: u64,
    /// Of success.
    exit: i32,
    /// By worker, as `outputs`.
    sums: &'static [Sums],
    outputs: Vec<Arc<Output>>,
}

impl Programs {
    fn repeat(&self, index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let (output, sums) = (&*self.outputs[index], &self.sums[index]);
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
            sums.add(&command.execute(output, self.exit)?);
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
        let cleaned = match &self.cleanup {
            Some(cleanup) => cleanup.ready()?.execute(&self.outputs[index], 0).map(|_| ()),
            None => Ok(()),
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
        Some(self.outputs[index].end()).filter(|end| !end.is_empty())
    }

    fn metrics(&self, _measured: &Measured) -> Vec<Metric> {
        let sum = |of: fn(&Sums) -> &AtomicU64| {
            self.sums.iter().map(|sums| of(sums).load(Relaxed)).sum::<u64>() as f64
        };
        let ends = |of: fn(&Sums) -> &AtomicU64| {
            let done = self.sums.iter().filter(|sums| sums.executions.load(Relaxed) > 0);
            done.map(move |sums| of(sums).load(Relaxed) as f64)
        };
        let executions = sum(|sums| &sums.executions);
        let wall_ns = sum(|sums| &sums.wall_ns);
        let (user_ns, system_ns) = (sum(|sums| &sums.user_ns), sum(|sums| &sums.system_ns));
        let values = [
            wall_ns / executions,
            ends(|sums| &sums.min_ns).fold(f64::INFINITY, f64::min),
            ends(|sums| &sums.max_ns).fold(0.0, f64::max),
            user_ns / executions,
            system_ns / executions,
            (user_ns + system_ns) / wall_ns,
            sum(|sums| &sums.voluntary_switches) * 1e9 / wall_ns,
            sum(|sums| &sums.involuntary_switches) * 1e9 / wall_ns,
            executions,
        ];
        let values = METRICS.iter().zip(values);
        let reading = |value: f64| match executions > 0.0 {
            true => Reading::Known(value),
            false => Reading::Unknown("no execution has ended".to_string()),
        };
        values.map(|(metric, value)| metric.reading(reading(value))).collect()
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

    #[test]
    fn a_failure_names_the_program_and_its_end() {
        for (script, exit, expected) in [
            ("exit 3", 0, "`sh` failed with exit status 3"),
            ("exit 0", 3, "`sh` ended with exit status 0, not 3"),
            ("kill -9 $$", 0, "`sh` was killed by signal 9"),
        ] {
            let program = Program {
                param: "command",
                words: ["sh", "-c", script].map(str::to_string).to_vec(),
            };
            let output = Output::new().unwrap();
            let why = program.ready().unwrap().execute(&output, exit).unwrap_err();
            assert_eq!(why.to_string(), expected);
        }
    }
}
