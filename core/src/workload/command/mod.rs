//! `command`: any program, executed again and again; each execution is timed from its start until its end is
//! collected. Files, a server and its data are set up before the first execution.
//!
//! Nothing of it is read while it runs: its CPU time and its switches are the kernel's counts when it is collected.

mod patterns;
mod program;
mod server;
mod spec;
mod sums;
mod words;

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::model::{
    Importance, Metric, MetricKind, OutputMetric, Params, ProgramRecord, Reading, Value,
    WorkerKind, clean,
};
use crate::sys::command::Server;
use crate::sys::scratch::Folder;
use crate::sys::{self, Output, clock, lock};

use super::{Load, Measured, Pool, Request, Spec, Worker, Workload, WorkloadError, params};
use patterns::Patterns;
pub use patterns::place as check_output;
pub use program::{DISTRIBUTIONS, package};
use program::{Program, Ready, Surroundings, check_need, with_package};
use server::Readiness;
pub use spec::METRIC;
use spec::{METRICS, SPEC};
use sums::Sums;
pub use words::{PLACES, may_be_in_name};
use words::{Places, has_place, parameters, place_of, unknown_place, written};

pub struct Command;

/// Bytes of the end of an output that are searched for metrics.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// Bytes of the end that are kept with the results, for all workers of a set together.
const MAX_KEPT_BYTES: usize = 64 << 10;
/// Bytes of the end that the reason of a failure shows.
const MAX_LAST_BYTES: usize = 4096;
const MAX_VERSION_CHARS: usize = 200;

/// The parameters that are programs with their arguments.
const PROGRAMS: [&str; 7] = ["command", "setup", "server", "fill", "prepare", "cleanup", "version"];

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
        Surroundings::new(request.params).map(|_| vec![0; request.count as usize])
    }

    fn metrics(&self, params: &Params) -> Vec<MetricKind> {
        kinds(params.get(METRIC).map_or(&[], Value::as_outputs))
    }

    fn programs(&self, params: &Params) -> Result<Vec<(&'static str, PathBuf)>, WorkloadError> {
        files(params, &Places::new(params, &Pool::default()))
            .map_err(|error| with_package(error, params))
    }

    fn prepare(&self, request: &Request) -> Result<Box<dyn Load>, WorkloadError> {
        let params = request.params;
        let workers = request.count as usize;
        let patterns = Patterns::new(params)?;
        let places = Places::new(params, request.pool);
        // A wrong name fails before anything has started.
        files(params, &places)?;
        let searched = if patterns.is_empty() { MAX_KEPT_BYTES } else { MAX_OUTPUT_BYTES };
        let outputs = |kept: usize| {
            let outputs = (0..workers).map(|_| Output::new(kept).map(Arc::new));
            let outputs = outputs.collect::<Result<_, _>>();
            outputs.map_err(|source| WorkloadError::system("make a pipe for output", source))
        };
        let of = |name| Program::from_param(params, name);
        Ok(Box::new(Programs {
            command: of("command")?.ok_or(WorkloadError::Unset("command"))?,
            setup: of("setup")?,
            server: of("server")?,
            ready: params::text(params, "ready").ok().map(str::to_string),
            fill: of("fill")?,
            prepare: of("prepare")?,
            cleanup: of("cleanup")?,
            version: of("version")?,
            around: Surroundings::new(params)?,
            has_folder: has_place(params, &WITH_PLACES, "folder"),
            has_cache: has_place(params, &WITH_PLACES, "cache"),
            has_port: has_place(params, &WITH_PLACES, "port"),
            places,
            warmups: params::int(params, "warmups")?,
            exit: params::int(params, "exit")? as i32,
            sums: (0..workers).map(|_| Mutex::new(Sums::none(patterns.metrics.len()))).collect(),
            patterns,
            outputs: outputs(searched)?,
            others: outputs(MAX_KEPT_BYTES)?,
            seen_version: Mutex::default(),
            executing: (0..workers).map(|_| Mutex::default()).collect(),
        }))
    }
}

/// Parameters in which places may stand; the last one is `ready`, unless it is a regular expression.
const WITH_PLACES: [&str; 9] =
    ["command", "setup", "server", "fill", "prepare", "cleanup", "version", "environment", "ready"];

fn files(params: &Params, places: &Places) -> Result<Vec<(&'static str, PathBuf)>, WorkloadError> {
    let folders = written(params, "folders").unwrap_or_default();
    for need in written(params, "needs").unwrap_or_default() {
        check_need(&places.fill(&need), &folders)?;
    }
    let mut files = Vec::new();
    for name in PROGRAMS {
        let program = Program::from_param(params, name)?;
        let file = program.map(|program| program.file(places, &folders)).transpose()?;
        files.extend(file.flatten().map(|path| (name, path)));
    }
    Ok(files)
}

/// The metrics that a plan names, then those that every command has.
fn kinds(outputs: &[OutputMetric]) -> Vec<MetricKind> {
    let mut all: Vec<MetricKind> = outputs.iter().map(OutputMetric::kind).collect();
    let has_headline = all.iter().any(|kind| kind.importance == Importance::Headline);
    all.extend(METRICS.iter().map(|spec| {
        if has_headline { spec.kind().with_importance(Importance::Explaining) } else { spec.kind() }
    }));
    all
}

/// Checks that there is a command, and that parameters that need others have them. A parameter that changes nothing
/// is a typing error.
fn check(params: &Params) -> Result<(), WorkloadError> {
    let conflict = |param: &str, problem: &str, hint: &str| {
        Err(WorkloadError::conflict(problem.to_string(), hint.to_string()).at(param))
    };
    if !params.contains_key("command") {
        return conflict("command", "it has no `command`", "command = [\"make\", \"-j4\"]");
    }
    match (params.contains_key("server"), params::text(params, "ready")) {
        (true, Ok(ready)) => {
            let places = Places::new(params, &Pool::default()).with("port", u16::MAX);
            let places = places.with("folder", "/").with("cache", "/");
            Readiness::parse(ready, &places)?;
        }
        (true, Err(_)) => {
            return conflict("server", "its server has no `ready`", "ready = \"tcp:{port}\"");
        }
        (false, Ok(_)) => {
            return conflict("ready", "it has `ready` and no `server`", "leave `ready` out");
        }
        (false, Err(_)) => {}
    }
    let has_words = params::text(params, "ready").is_ok_and(|ready| ready.starts_with("output:"));
    let with_places = &WITH_PLACES[..WITH_PLACES.len() - usize::from(has_words)];
    if let Some((of, name, meant)) = unknown_place(params, with_places) {
        let place = place_of(&name);
        let problem = format!("{place} in its `{of}` is neither a place nor a parameter");
        let hint = format!("{meant} Braces that stay are written {{{place}");
        return Err(WorkloadError::conflict(problem, hint).at(&of));
    }
    for (name, _) in parameters(params) {
        if !has_place(params, &WITH_PLACES, name) {
            let shown = clean(name);
            let problem = format!("no word of its programs has the parameter `{shown}`");
            let hint = format!("write {} where its value belongs", place_of(&shown));
            return Err(WorkloadError::conflict(problem, hint).at(name));
        }
    }
    Ok(())
}

struct Programs {
    command: Program,
    setup: Option<Program>,
    server: Option<Program>,
    ready: Option<String>,
    fill: Option<Program>,
    prepare: Option<Program>,
    cleanup: Option<Program>,
    version: Option<Program>,
    around: Surroundings,
    /// The places that all workers share.
    places: Places,
    has_folder: bool,
    has_cache: bool,
    has_port: bool,
    warmups: u64,
    /// The exit status that means success.
    exit: i32,
    /// One for each worker, like `outputs` and `others`. Nobody waits for a lock while an execution is timed.
    sums: Vec<Mutex<Sums>>,
    patterns: Patterns,
    /// Outputs of the command, and of programs that are executed before each execution.
    outputs: Vec<Arc<Output>>,
    /// Outputs of the server, and of programs that are executed once.
    others: Vec<Arc<Output>>,
    seen_version: Mutex<Option<String>>,
    /// The parameter of the program that each worker executes.
    executing: Vec<Mutex<Option<&'static str>>>,
}

/// The server and the folder that one worker's programs have to themselves. The server is ended before its folder
/// goes.
struct Site {
    places: Places,
    server: Option<Server>,
    folder: Option<Folder>,
}

impl Site {
    /// Checks that it still runs.
    fn check_server(&mut self) -> Result<(), WorkloadError> {
        match self.server.as_mut().and_then(Server::ended) {
            Some(ending) => Err(WorkloadError::ServerEnded { ending, was_ready: true }),
            None => Ok(()),
        }
    }

    fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(Folder::path)
    }
}

impl Programs {
    fn begin(&self, index: usize, program: &Program) {
        *lock(&self.executing[index]) = Some(program.param);
    }

    fn ready(&self, program: &Program, site: &Site) -> Result<Ready, WorkloadError> {
        program.ready(&site.places, &self.around, site.folder())
    }

    /// Sets up everything before the first execution.
    fn site(&self, index: usize) -> Result<Site, WorkloadError> {
        let mut site = Site { places: self.places.clone(), server: None, folder: None };
        if self.has_folder || self.around.in_own_folder {
            let folder = Folder::new(self.around.user()).map_err(|source| {
                let action = format!("make a folder in {}", std::env::temp_dir().display());
                WorkloadError::system(action, source)
            })?;
            site.places = site.places.with("folder", folder.path().display());
            site.folder = Some(folder);
        }
        if self.has_cache {
            site.places = site.places.with("cache", cache()?.display());
        }
        if self.has_port {
            site.places = site.places.with("port", free_port()?);
        }
        let output = &*self.others[index];
        if let Some(version) = self.version.as_ref().filter(|_| index == 0) {
            self.begin(index, version);
            let mut version = self.ready(version, &site)?;
            let failed = version.execute(output, 0).err().map(|why| format!("({why})"));
            let output = output.end();
            let line = output.lines().map(str::trim).find(|line| !line.is_empty());
            let line = line.map(|line| line.chars().take(MAX_VERSION_CHARS).collect());
            let said: Vec<String> = line.into_iter().chain(failed).collect();
            let said = if said.is_empty() { "(nothing)".to_string() } else { said.join(" ") };
            *lock(&self.seen_version) = Some(said);
        }
        let once = |program: &Option<Program>, site: &Site| match program {
            Some(program) => {
                self.begin(index, program);
                self.ready(program, site)?.execute(output, 0).map(|_| ())
            }
            None => Ok(()),
        };
        once(&self.setup, &site)?;
        if let (Some(server), Some(ready)) = (&self.server, &self.ready) {
            let ready = Readiness::parse(ready, &site.places)?;
            ready.check_absence(output)?;
            output.forget();
            self.begin(index, server);
            let mut started = self.ready(server, &site)?.serve(output)?;
            ready.wait(&mut started, output)?;
            site.server = Some(started);
        }
        once(&self.fill, &site)?;
        Ok(site)
    }

    fn repeat(&self, index: usize, site: &Site, worker: &Worker) -> Result<(), WorkloadError> {
        let output = &*self.outputs[index];
        let mut command = self.ready(&self.command, site)?;
        let mut before = self.prepare.as_ref().map(|of| self.ready(of, site)).transpose()?;
        let mut prepare = || -> Result<(), WorkloadError> {
            if let (Some(program), Some(ready)) = (&self.prepare, &mut before) {
                self.begin(index, program);
                ready.execute(output, 0)?;
            }
            self.begin(index, &self.command);
            Ok(())
        };
        for _ in 0..self.warmups {
            prepare()?;
            command.execute(output, self.exit)?;
        }
        prepare()?;
        *lock(&self.executing[index]) = None;
        worker.start();
        self.begin(index, &self.command);
        clock::sleep_until(worker.measure_from_ns());
        loop {
            output.forget();
            let executed = command.execute(output, self.exit)?;
            let values = if self.patterns.is_empty() {
                Vec::new()
            } else {
                self.patterns.read(&output.end())?
            };
            lock(&self.sums[index]).add(&Sums::from_execution(&executed, values));
            worker.add_ops(1);
            if clock::monotonic_ns() >= worker.repeat_until_ns() || !worker.running() {
                return Ok(());
            }
            prepare()?;
        }
    }

    fn clean_up(&self, index: usize, site: &Site, has_failed: bool) -> Result<(), WorkloadError> {
        let Some(cleanup) = &self.cleanup else { return Ok(()) };
        self.begin(index, cleanup);
        let mut cleanup = self.ready(cleanup, site)?;
        if !has_failed {
            return cleanup.execute(&*self.others[index], 0).map(|_| ());
        }
        // The end of the output must stay that of the failed program.
        let null = File::options().write(true).open("/dev/null");
        let null = null.map_err(|why| WorkloadError::system("open /dev/null", why))?;
        cleanup.execute(&null, 0).map(|_| ())
    }
}

/// The folder of files that programs keep from run to run.
fn cache() -> Result<PathBuf, WorkloadError> {
    let system = |source| WorkloadError::system("make a folder that stays", source);
    let folder = sys::cache_dir().map_err(|why| system(std::io::Error::other(why)))?;
    let folder = folder.join("programs");
    std::fs::create_dir_all(&folder).map_err(system)?;
    Ok(folder)
}

/// A port of 127.0.0.1 at which nobody listens.
fn free_port() -> Result<u16, WorkloadError> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
    port.map(|address| address.port())
        .map_err(|source| WorkloadError::system("find a free port of 127.0.0.1", source))
}

/// The end of a text, at most `max` bytes.
fn end_of(text: &str, max: usize) -> &str {
    let mut from = text.len().saturating_sub(max);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

impl Load for Programs {
    fn work(&self, index: usize, worker: &Worker) -> Result<(), WorkloadError> {
        let mut site = self.site(index)?;
        let repeated = self.repeat(index, &site, worker).and_then(|()| site.check_server());
        let cleaned = self.clean_up(index, &site, repeated.is_err());
        repeated.and(cleaned)?;
        drop(site);
        worker.finish();
        Ok(())
    }

    fn serve(&self) -> Result<(), WorkloadError> {
        let served = self.outputs.iter().chain(&self.others).try_for_each(Output::serve);
        served.map_err(|source| WorkloadError::system("read what programs write", source))
    }

    fn last_output(&self, index: usize) -> Option<String> {
        let mut outputs = [&self.outputs[index], &self.others[index]];
        if !matches!(*lock(&self.executing[index]), Some("command" | "prepare")) {
            outputs.reverse();
        }
        let mut ends = outputs.into_iter().map(|output| output.end());
        let end = ends.find(|end| !end.trim().is_empty())?;
        Some(end_of(&end, MAX_LAST_BYTES).to_string())
    }

    fn waits_for(&self, index: usize) -> Option<String> {
        let param = (*lock(&self.executing[index]))?;
        let programs = [&self.setup, &self.server, &self.fill, &self.prepare, &self.cleanup];
        let programs = programs.into_iter().chain([&self.version]).flatten();
        let mut programs = programs.chain([&self.command]);
        let name = programs.find(|program| program.param == param)?.name();
        let what = if param == "server" { "is not ready" } else { "has not ended" };
        Some(format!("{param} `{}` {what}", clean(&self.places.fill(name))))
    }

    fn record(&self) -> Option<ProgramRecord> {
        let max = MAX_KEPT_BYTES / self.outputs.len().max(1);
        let ends = self.outputs.iter().map(|output| end_of(&output.end(), max).to_string());
        Some(ProgramRecord { version: lock(&self.seen_version).clone(), output: ends.collect() })
    }

    fn metrics(&self, _measured: &Measured) -> Vec<Metric> {
        let mut all = Sums::none(self.patterns.metrics.len());
        (0..self.sums.len()).for_each(|index| all.add(&lock(&self.sums[index])));
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
    use crate::model::Advice;
    use crate::model::{Direction, OutputPlace, Raw, Unit};
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
        let why = refused.or_else(|| Command.prepare(&request).err()).expect("an error");
        format!("{why}\nhint: {}", why.hint().unwrap_or_default())
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
            (&[("command", &["ls -l"])], "hint: its words are separate: "),
            (&[("command", &["./x 300"])], "hint: its words are separate: "),
            (&[("command", &["true"]), ("prepare", &["/etc/passwd"])], "prepare = `/etc/passwd`"),
        ];
        for (pairs, expected) in cases {
            let why = refused(&given(pairs));
            assert!(why.contains(expected), "{why}");
        }
        let mut params = given(&[("command", &["true", "{jobs}"])]);
        params.insert("job".to_string(), Value::Int(1));
        let why = refused(&params);
        assert!(why.starts_with("{jobs} in its `command` is neither a place nor a parameter"));
        params.insert("jobs".to_string(), Value::Int(1));
        assert!(refused(&params).contains("no word of its programs"), "{}", refused(&params));
    }

    fn rate(pattern: &str) -> OutputMetric {
        OutputMetric {
            name: "rate".to_string(),
            place: OutputPlace::Pattern(pattern.to_string()),
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
            ("rate=\u{1b}x", Err("metric `rate` is not a number: `\\u{1b}x`")),
            ("rate=", Err("is not a number")),
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
}
