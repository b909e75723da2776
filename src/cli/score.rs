//! `schedlab score`: any command, process or the whole machine under scheduler telemetry.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use clap::Args;

use crate::model::{Score, TaskScore, Watched, duration_ns, show_duration};
use crate::probe::sched::{self, Level, Scoreboard, SessionConfig};
use crate::report::score::{self, By, Layout};
use crate::report::{Options, clean};
use crate::session::{Problem, SessionError, unknown_name};
use crate::sys::child::{self, Foreground};
use crate::sys::replace::NewFile;
use crate::sys::{
    self, Host,
    cgroup::{self, NotKnown},
    clock, load, process, signal,
};
use crate::variant::CommandEntry;

use super::intervals::Intervals;
use super::offering::{FOLDINGS, folding};
use super::score_saved::SaveArgs;
use super::text_or_json::Format;
use super::tracing::{TraceArgs, TraceFile};
use super::{Failure, catch_termination, score_cost, terminal};
use crate::model::quoted;

/// How often the session is polled and the command's end is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A command that has not ended so long after Ctrl-C may ignore it.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Args)]
pub struct ScoreArgs {
    /// A process that runs already, with all that descends from it; may be repeated
    #[arg(long, value_name = "PID", conflicts_with_all = ["system", "command"])]
    pid: Vec<i32>,
    /// All tasks of the machine
    #[arg(long, conflicts_with = "command")]
    system: bool,
    /// How long to count: 10s. With a command: at most
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Switch counts and waits alone, which costs less
    #[arg(long)]
    light: bool,
    /// This source and no other
    #[arg(long, value_name = "NAME", value_parser = known_source)]
    source: Option<String>,
    /// Fold tasks by
    #[arg(long, default_value = "name", value_parser = folding(&FOLDINGS))]
    by: By,
    /// A line for each interval while it counts: 1s. With --format json one object each
    #[arg(long, value_name = "TIME")]
    interval: Option<String>,
    /// Also a histogram of waits; twice: one for each row
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    save: SaveArgs,
    /// Rows and pairs to show
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// text, or json: everything, for programs
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Where the scoreboard goes: to this file. Else behind a command to standard error, without
    /// one to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Tasks that are distinguished at one time
    #[arg(long, value_name = "N", default_value_t = SessionConfig::default().max_tasks, value_parser = clap::value_parser!(u32).range(1..))]
    max_tasks: u32,
    /// Measure what the telemetry costs here, with a ping-pong, and do nothing else
    #[arg(long, conflicts_with_all = ["system", "pid", "command"])]
    cost: bool,
    #[command(flatten)]
    tracing: TraceArgs,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn known_source(name: &str) -> Result<String, Problem> {
    let mut names = sched::SOURCES.iter().map(|source| source.name);
    if names.clone().any(|known| known == name) {
        Ok(name.to_string())
    } else {
        Err(unknown_name("source", name, &mut names, ""))
    }
}

/// Measures a scoreboard; the process ends as the command ended.
pub fn run(args: &ScoreArgs) -> Result<(), Failure> {
    if args.cost {
        return score_cost::print(args.source.as_deref());
    }
    let period_ns = time("--duration", &args.duration)?;
    let interval_ns = time("--interval", &args.interval)?;
    if args.output.is_some() && args.output == args.tracing.trace {
        let text = "--output and --trace name one file";
        return Err(Failure::usage(text, "give the trace a name of its own"));
    }
    let watched = watched(args)?;
    let place = args.save.place()?;
    let output = args.output.as_ref().map(|path| Output::open(path, args)).transpose()?;
    let trace = args.tracing.open()?;
    let config = SessionConfig {
        level: if args.light { Level::Light } else { Level::Full },
        max_tasks: args.max_tasks,
        trace_ns: trace.as_ref().map_or(0, |trace| trace.trace_ns),
        readings: interval_ns.is_some(),
        ..SessionConfig::default()
    };
    let level = config.level;
    let mut telemetry = Telemetry::open(&config, args.source.as_deref());
    if let Some(every_ns) = interval_ns {
        let out = match (&output, &args.output) {
            (Some(Output::Live(file)), Some(path)) => {
                Box::new(file.try_clone().map_err(|error| SessionError::unwritten(path, &error))?)
            }
            _ => standard(args),
        };
        let is_all = watched == Watched::System;
        let json = args.format == Format::Json;
        telemetry.intervals = Some(Intervals::new(every_ns, json, is_all, out));
    }
    let ended = count(&watched, period_ns, &mut telemetry)?.wait()?;
    let traced = trace.map_or(Ok(()), |file| telemetry.write_trace(file));
    let mut score = telemetry.board.score(watched);
    score.cost = score_cost::of_score(&score, level);
    let counted = match score.source {
        None => Err(Failure::here("nothing was counted; the reasons are above", "schedlab doctor")),
        Some(_) => traced,
    };
    // It is kept before it is printed: who closes the pipe does not lose it.
    let kept = match place.filter(|_| score.source.is_some()) {
        Some(place) => place.keep(&score).map(Some),
        None => Ok(None),
    };
    let written = write(args, &score, output);
    let kept = kept.map(|said| said.iter().for_each(|said| terminal::message(said)));
    ended.then(written.and(kept), counted)
}

fn watched(args: &ScoreArgs) -> Result<Watched, Failure> {
    let watched = match () {
        () if args.system => Watched::System,
        () if !args.pid.is_empty() => Watched::Processes(args.pid.clone()),
        () if !args.command.is_empty() => Watched::Command(args.command.clone()),
        () => {
            let text = "nothing to watch: a command, --pid or --system";
            let save = args.save.tag().map(|tag| format!("--save {} ", quoted(tag)));
            let hint = format!("schedlab score {}-- make", save.unwrap_or_default());
            return Err(Failure::usage(text, hint));
        }
    };
    check_pids(&args.pid)?;
    Ok(watched)
}

/// Whether these processes are there.
pub fn check_pids(pids: &[i32]) -> Result<(), Failure> {
    match pids.iter().find(|pid| !process::exists(**pid)) {
        Some(gone) => Err(Failure::usage(format!("there is no process {gone}"), "pgrep -a NAME")),
        None => Ok(()),
    }
}

/// The cgroup's path, if it is there. `hint`: a command that lists cgroups.
pub fn known_cgroup(path: &str, hint: &str) -> Result<String, Failure> {
    if path.is_empty() {
        let text = "--cgroup has no path, and would be all tasks of the machine";
        return Err(Failure::usage(text, "--cgroup / is all of them"));
    }
    cgroup::known_path(&Host::default(), path).map_err(|why| match why {
        NotKnown::Absent => Failure::usage(format!("there is no cgroup {}", clean(path)), hint),
        NotKnown::V1 => {
            let text = format!(
                "{} is a cgroup of version 1: only those of version 2 are read",
                clean(path)
            );
            Failure::usage(text, "that of a process: grep ^0:: /proc/PID/cgroup")
        }
    })
}

/// Whether a task is of this cgroup or of one below it.
pub fn is_in_cgroup(task: &TaskScore, path: &str) -> bool {
    let own = task.cgroup.as_deref();
    let rest = own.and_then(|own| own.strip_prefix(path.trim_end_matches('/')));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Counts until what is watched has ended, or the time.
pub fn count(
    watched: &Watched,
    period_ns: Option<u64>,
    telemetry: &mut Telemetry,
) -> Result<Ended, Failure> {
    Ok(match watched {
        Watched::Command(words) => command(words, period_ns, telemetry)?,
        Watched::Processes(pids) => {
            telemetry.board.with(|session| sched::watch_families(session, pids));
            let any = || pids.iter().any(|pid| load::is_alive(*pid));
            watch(period_ns, telemetry, any)?;
            if !any() {
                let text = "no process of --pid was left: counting ended with the last";
                telemetry.board.counted.lost.push(text.to_string());
            }
            Ended::Watched
        }
        Watched::System => {
            watch(period_ns, telemetry, || true)?;
            Ended::Watched
        }
    })
}

/// Where the scoreboard goes without `--output`.
fn standard(args: &ScoreArgs) -> Box<dyn Write> {
    if args.command.is_empty() { Box::new(io::stdout()) } else { Box::new(io::stderr()) }
}

/// A time above zero.
pub fn time(option: &str, text: &Option<String>) -> Result<Option<u64>, Failure> {
    match text.as_ref().map(|text| any_time(option, text)).transpose()? {
        Some(0) => {
            Err(Failure::usage(format!("{option}: no time at all"), format!("{option} 10s")))
        }
        ns => Ok(ns),
    }
}

pub fn any_time(option: &str, text: &str) -> Result<u64, Failure> {
    Ok(duration_ns(text).map_err(|wrong| SessionError::option(option, wrong))?)
}

/// The file of `--output`.
enum Output {
    /// Lines of intervals come before the scoreboard, for who reads along.
    Live(File),
    Whole(NewFile),
}

impl Output {
    fn open(path: &Path, args: &ScoreArgs) -> Result<Output, Failure> {
        let opened = if args.interval.is_some() {
            File::create(path).map(Output::Live)
        } else {
            NewFile::begin(path).map(Output::Whole)
        };
        Ok(opened.map_err(|error| SessionError::unwritten(path, &error))?)
    }
}

/// The scoreboard with its lines of intervals.
pub struct Telemetry {
    pub board: Scoreboard,
    intervals: Option<Intervals>,
}

impl Telemetry {
    pub fn open(config: &SessionConfig, only: Option<&str>) -> Telemetry {
        Telemetry { board: Scoreboard::open(config, only), intervals: None }
    }

    fn begin(&mut self) {
        self.board.begin();
        self.intervals.iter_mut().for_each(Intervals::begin);
    }

    fn poll(&mut self) {
        if self.intervals.as_ref().is_some_and(Intervals::is_due) {
            self.read();
        } else {
            self.board.with(|session| session.poll());
        }
    }

    /// Reads the counts since the last interval, and prints them as a line.
    fn read(&mut self) {
        let read = self.board.with(|session| session.reading());
        if let (Some(counted), Some(intervals)) = (read, &mut self.intervals) {
            intervals.line(&counted);
        }
    }

    fn end(&mut self) {
        if self.intervals.as_ref().is_some_and(Intervals::has_rest) {
            self.read();
        }
        self.board.end();
    }

    fn write_trace(&mut self, file: TraceFile) -> Result<(), Failure> {
        let trace = self.board.counted.trace.take();
        file.write(trace.as_ref(), self.board.source())
    }
}

/// The end of what was watched.
pub enum Ended {
    Watched,
    Command(ExitStatus),
    /// The time is over, and the command goes on.
    Running(Foreground, Option<CommandEntry>),
}

impl Ended {
    /// Waits for a command that goes on.
    pub fn wait(self) -> io::Result<Ended> {
        let Ended::Running(mut running, _known) = self else { return Ok(self) };
        terminal::message("the time of --for is over: waiting for the end of the command");
        Ok(Ended::Command(running.wait()?))
    }

    /// The end of the whole: of a command its exit code, whatever could be counted; but a command that
    /// succeeded does not hide that the scoreboard could not be written.
    pub fn then(
        self,
        written: Result<(), Failure>,
        counted: Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Ended::Command(status) = self else { return written.and(counted) };
        match (child::exit_code(status), written) {
            (0, Err(why)) => Err(why),
            (0, Ok(())) if counted.is_ok() => Ok(()),
            (code, written) => {
                let why = written.and(counted).err().map(Box::new);
                Err(Failure::Command { code, why })
            }
        }
    }
}

/// As a shell exits where it cannot run a command.
pub fn not_started(command: &str, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    let command = clean(command);
    let text = format!("cannot run `{command}`: {error}");
    let why = Failure::usage(text, format!("command -v {command}"));
    Failure::Command { code, why: Some(Box::new(why)) }
}

/// Runs a command to its end, or for the time.
fn command(
    words: &[String],
    period_ns: Option<u64>,
    telemetry: &mut Telemetry,
) -> Result<Ended, Failure> {
    // Where there is no folder for it, only the command itself ends with us.
    let known = sys::state_dir().ok().and_then(|state| CommandEntry::begin(&state).ok());
    telemetry.board.with(|session| session.watch_children());
    telemetry.begin();
    let mut running = Foreground::start(words).map_err(|error| not_started(&words[0], &error))?;
    let pid = running.pid();
    telemetry.board.with(|session| session.watch(pid));
    let until_ns = period_ns.map(|period_ns| clock::monotonic_ns().saturating_add(period_ns));
    // Most commands end by the signal that asks this program to end.
    let mut patience = Some(PATIENCE);
    loop {
        // Its last numbers are read before it is collected.
        if running.has_ended()? {
            telemetry.end();
            return Ok(Ended::Command(running.wait()?));
        }
        if signal::is_asked_to_end() {
            let has_left = |left: Duration| left.checked_sub(POLL_INTERVAL);
            if patience.is_some_and(|left| has_left(left).is_none()) {
                terminal::message(
                    "waiting for the end of the command; a second signal ends this program at once",
                );
            }
            patience = patience.and_then(has_left);
        }
        if until_ns.is_some_and(|until_ns| clock::monotonic_ns() >= until_ns) {
            telemetry.end();
            return Ok(Ended::Running(running, known));
        }
        std::thread::sleep(POLL_INTERVAL);
        telemetry.poll();
    }
}

/// Counts as long as `goes_on`, at most for the time, or until a signal comes.
fn watch(
    period_ns: Option<u64>,
    telemetry: &mut Telemetry,
    goes_on: impl Fn() -> bool,
) -> Result<(), Failure> {
    let asked = catch_termination()?;
    let until =
        period_ns.map_or("until Ctrl-C".to_string(), |ns| format!("for {}", show_duration(ns)));
    terminal::message(&format!("counting {until}"));
    telemetry.begin();
    let until_ns = period_ns.map(|period_ns| clock::monotonic_ns().saturating_add(period_ns));
    let is_asked = || asked.load(std::sync::atomic::Ordering::SeqCst);
    let is_over = || until_ns.is_some_and(|until_ns| clock::monotonic_ns() >= until_ns);
    while goes_on() && !is_asked() && !is_over() && telemetry.board.is_counting() {
        std::thread::sleep(POLL_INTERVAL);
        telemetry.poll();
    }
    telemetry.end();
    Ok(())
}

fn write(args: &ScoreArgs, score: &Score, output: Option<Output>) -> Result<(), Failure> {
    let to_stdout = args.command.is_empty();
    let color = match () {
        () if output.is_some() => false,
        () if to_stdout => terminal::color(&io::stdout()),
        () => terminal::color(&io::stderr()) && io::stderr().is_terminal(),
    };
    let render = |out: &mut dyn Write| render(args, score, color, out);
    let written = match output {
        Some(Output::Whole(mut file)) => render(&mut file).and_then(|()| file.finish()),
        Some(Output::Live(file)) => render(&mut BufWriter::new(file)),
        None => render(&mut BufWriter::new(standard(args))),
    };
    written.map_err(|error| match &args.output {
        Some(path) => SessionError::unwritten(path, &error).into(),
        None => Failure::from(error),
    })
}

fn render(args: &ScoreArgs, score: &Score, color: bool, out: &mut dyn Write) -> io::Result<()> {
    if args.format == Format::Json {
        score::json(score, out)?;
    } else {
        let options = Options { width: terminal::width(), color, verbose: args.verbose };
        score::text(score, &Layout { by: args.by, top: args.top as usize }, &options, out)?;
    }
    out.flush()
}
