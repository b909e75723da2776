//! `schedlab watch`: waits for a CPU, live, of the machine, of processes, of a cgroup or of a
//! command.

mod columns;
mod data;
mod draw;
mod grid;
mod lines;
mod options;
mod row;
mod state;
mod table;
#[cfg(test)]
mod testing;
mod waits;

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::model::clean_path;
use crate::probe::sched::{self, Opened, Session, SessionConfig, SourceError};
use crate::report::{clean, score};
use crate::sys::replace::write_numbered;
use crate::sys::{self, child, clock, load, remedy};
use crate::variant::CommandEntry;

use super::screen::{Input, Palette, Screen};
use super::{Failure, catch_termination, terminal, tracing};
use options::about;
use state::{Action, Cost, State};

pub use options::WatchArgs;

/// How often ended tasks are taken over.
const POLL_NS: u64 = 250_000_000;
/// When the first reading is due.
const FIRST_NS: u64 = 200_000_000;
/// The pause after a reading, as a multiple of its CPU time.
const PAUSE_PER_COST: u64 = 50;
/// How long a command that was asked to end is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

pub fn run(args: &WatchArgs) -> Result<(), Failure> {
    let about = about(args)?;
    let stdout = io::stdout();
    if !terminal::redraws(&stdout) {
        let text = "watch needs a terminal on standard output";
        return Err(Failure::usage(text, "schedlab score --system --interval 1s"));
    }
    // Nobody has to press `t`: the usual file may be in a folder that cannot be written.
    if args.trace.as_os_str() != options::TRACE {
        tracing::begin(&args.trace).map(drop)?;
    }
    let output = Output::open(args)?;
    let asked = catch_termination()?;
    let mut screen = Screen::enter(&stdout).map_err(|error| {
        Failure::here(format!("cannot take the terminal: {error}"), "stty sane")
    })?;
    let mut state = State::new(about);
    let palette = Palette::of_terminal(&stdout);
    // Something is there at once, whatever it takes to open a source.
    draw(&mut screen, &mut state, palette)?;
    let opened = open(args, &state)?;
    state.begin(opened.source, &opened.missed);
    let mut view = View {
        screen,
        state,
        palette,
        asked,
        session: opened.session,
        trace: args.trace.clone(),
        meter: Meter::begin(),
        next_ns: 0,
    };
    let ended = view.watch(args, output);
    let View { screen, state, .. } = view;
    drop(screen);
    summary(&state, args, ended?)
}

fn open(args: &WatchArgs, state: &State) -> Result<Opened, Failure> {
    let config = SessionConfig {
        trace_ns: state.about.trace_ns,
        readings: true,
        totals: false,
        ..SessionConfig::default()
    };
    sched::open(&config, args.source.as_deref()).map_err(|missed| {
        let text = format!("nothing can be counted: {}", sched::reasons(&missed));
        Failure::here(text, "schedlab doctor")
    })
}

fn draw(screen: &mut Screen, state: &mut State, palette: Palette) -> io::Result<()> {
    screen.draw(|frame| {
        state.page = draw::page(frame.area());
        draw::draw(frame, state, palette);
    })
}

/// Where a command's output goes: not onto the view.
struct Output {
    out: Stdio,
    error: Stdio,
}

impl Output {
    fn open(args: &WatchArgs) -> Result<Output, Failure> {
        let Some(path) = &args.command_output else {
            return Ok(Output { out: Stdio::null(), error: Stdio::null() });
        };
        let cannot = |error: io::Error| {
            let shown = clean_path(path);
            let text = format!("--command-output: cannot write {shown}: {error}");
            Failure::here(text, remedy::write(path, &error))
        };
        let file = File::create(path).map_err(cannot)?;
        let again = file.try_clone().map_err(cannot)?;
        Ok(Output { out: Stdio::from(file), error: Stdio::from(again) })
    }
}

/// CPU time of this process between readings.
struct Meter {
    at_ns: u64,
    cpu_ns: u64,
}

impl Meter {
    fn begin() -> Meter {
        Meter { at_ns: clock::monotonic_ns(), cpu_ns: clock::own_process_cpu_ns() }
    }

    /// The share of one CPU since the last time.
    fn share(&mut self) -> f64 {
        let now = Meter::begin();
        let share = (now.cpu_ns - self.cpu_ns) as f64 / (now.at_ns - self.at_ns).max(1) as f64;
        *self = now;
        share
    }
}

/// Why the view ended.
enum Ended {
    /// With the process of the command, where it runs on although it was asked to end.
    Asked {
        left: Option<u32>,
    },
    Gone,
    Command(ExitStatus),
}

struct View {
    screen: Screen,
    state: State,
    palette: Palette,
    /// SIGINT, SIGTERM or SIGHUP came.
    asked: Arc<AtomicBool>,
    session: Box<dyn Session>,
    trace: PathBuf,
    meter: Meter,
    /// When the next reading is due.
    next_ns: u64,
}

impl View {
    fn watch(&mut self, args: &WatchArgs, output: Output) -> Result<Ended, Failure> {
        if !args.command.is_empty() {
            self.session.watch_children().map_err(failed)?;
        }
        self.session.begin().map_err(failed)?;
        sched::watch_families(self.session.as_mut(), &args.pid).map_err(failed)?;
        self.meter = Meter::begin();
        // Something to look at comes soon.
        self.next_ns = clock::monotonic_ns() + self.state.about.interval_ns.min(FIRST_NS);
        let Some(name) = args.command.first() else {
            let is_gone =
                || !args.pid.is_empty() && !args.pid.iter().any(|pid| load::is_alive(*pid));
            return Ok(if self.run(|| Ok(is_gone()))? {
                Ended::Gone
            } else {
                Ended::Asked { left: None }
            });
        };
        if args.command_output.is_none() {
            let text = format!("what {name} prints is discarded: --command-output FILE keeps it");
            self.state.message.get_or_insert(text);
        }
        let mut command = Command::new(name);
        command
            .args(&args.command[1..])
            .stdin(Stdio::null())
            .stdout(output.out)
            .stderr(output.error);
        child::own(&mut command);
        let _known = sys::state_dir().ok().and_then(|state| CommandEntry::begin(&state).ok());
        let mut running =
            command.spawn().map_err(|error| super::score::not_started(name, &error))?;
        let watched = self.session.watch(running.id() as i32).map_err(failed);
        let ended = watched.and_then(|()| self.run(|| child::has_ended(&running)));
        match ended {
            Ok(true) => Ok(Ended::Command(running.wait()?)),
            other => {
                let left = child::end_within(&mut running, PATIENCE);
                other.map(|_| Ended::Asked { left })
            }
        }
    }

    /// Until a key, a signal or `is_over` ends it. Whether it was the last.
    fn run(&mut self, is_over: impl Fn() -> io::Result<bool>) -> Result<bool, Failure> {
        // Pictures of /proc are taken with the readings alone.
        let polls = self.state.source.as_deref() != Some("procfs");
        loop {
            if self.asked.load(SeqCst) {
                return self.take().map(|()| false);
            }
            let is_over = is_over()?;
            let now_ns = clock::monotonic_ns();
            if now_ns >= self.next_ns || is_over {
                self.read()?;
            } else if polls {
                self.session.poll().map_err(failed)?;
            }
            if is_over {
                return Ok(true);
            }
            let left_ns = self.next_ns.saturating_sub(now_ns);
            let wait_ns = if polls { left_ns.min(POLL_NS) } else { left_ns };
            match self.screen.next(Duration::from_nanos(wait_ns))? {
                Some(Input::Key(key)) => match self.state.key(key) {
                    Some(Action::Quit) => return self.take().map(|()| false),
                    Some(Action::Trace) => {
                        self.state.message = Some(self.write_trace());
                        self.draw()?;
                    }
                    None => self.draw()?,
                },
                Some(Input::Redraw) => self.draw()?,
                Some(Input::Closed) => return Ok(false),
                Some(Input::Signal) | None => {}
            }
        }
    }

    fn read(&mut self) -> Result<(), Failure> {
        let before_ns = clock::own_process_cpu_ns();
        self.take()?;
        self.draw()?;
        self.plan_next(clock::own_process_cpu_ns() - before_ns);
        Ok(())
    }

    /// A reading into the figures, also the last one, which is not drawn any more.
    fn take(&mut self) -> Result<(), Failure> {
        let counted = self.session.reading().map_err(failed)?;
        let switches: Option<u64> = counted.cpus.iter().map(|cpu| cpu.switches).sum();
        let switches_per_ns = switches.map(|count| count as f64 / counted.wall_ns.max(1) as f64);
        let programs = self.session.switch_ns().zip(switches_per_ns).map(|(ns, rate)| ns * rate);
        self.state.add(counted);
        self.state.cost = Cost { own: Some(self.meter.share()), programs };
        Ok(())
    }

    fn plan_next(&mut self, cost_ns: u64) {
        let interval_ns = self.state.about.interval_ns;
        let period_ns = interval_ns.max(cost_ns.saturating_mul(PAUSE_PER_COST));
        self.next_ns = clock::monotonic_ns() + period_ns.saturating_sub(cost_ns);
    }

    fn draw(&mut self) -> io::Result<()> {
        draw(&mut self.screen, &mut self.state, self.palette)
    }

    /// Writes the trace and returns a message about it.
    fn write_trace(&mut self) -> String {
        // Tasks that have just begun are then known.
        if let Err(failure) = self.read() {
            return format!("no trace: {failure}");
        }
        let trace = match self.session.trace() {
            Ok(Some(trace)) => trace,
            Ok(None) if self.state.about.trace_ns == 0 => return "no trace: --trace-for 5s".into(),
            Ok(None) => {
                let source = self.state.source.as_deref().unwrap_or("no source");
                return format!("no trace: the source {source} has none");
            }
            Err(error) => return format!("no trace: {error}"),
        };
        match write_numbered(&self.trace, |out| score::perfetto(&trace, out)) {
            Ok(path) => {
                let seconds = (trace.to_ns - trace.from_ns) as f64 / 1e9;
                let events = trace.events.len();
                format!("trace: {}: {events} events of {seconds:.1} s", path.display())
            }
            Err(error) => format!("no trace: cannot write {}: {error}", self.trace.display()),
        }
    }
}

fn failed(error: SourceError) -> Failure {
    Failure::here(format!("counting failed: {error}"), "schedlab doctor")
}

/// Prints the summary that stays on the terminal when the view is gone.
fn summary(state: &State, args: &WatchArgs, ended: Ended) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", draw::summary(state))?;
    match ended {
        Ended::Asked { left } => {
            let left =
                left.map(|pid| format!("warning: process {pid} was asked to end and runs on"));
            left.iter().for_each(|text| terminal::message(text));
            Ok(())
        }
        Ended::Gone => {
            writeln!(out, "no process of --pid is left")?;
            Ok(())
        }
        Ended::Command(status) => {
            let name = args.command.first().map(|name| clean(name)).unwrap_or_default();
            let failed = !status.success() && args.command_output.is_none();
            let hint = if failed { "; --command-output FILE keeps what it prints" } else { "" };
            writeln!(out, "{name}: {status}{hint}")?;
            match child::exit_code(status) {
                0 => Ok(()),
                code => Err(Failure::Command { code, why: None }),
            }
        }
    }
}
