//! The run: workers at work, read once a second, and printed as schbench prints it.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::exec::{Live, Snapshot};
use crate::model::{Placement, Reading, WorkerKind, WorkerSet};
use crate::probe::disturbance::{Own, Watch};
use crate::report::disturbance;
use crate::sys::replace::NewFile;
use crate::sys::{Host, clock, environment, remedy, scheduler, signal, topology};
use crate::workload::{self, Pool, Request, Speed};

use super::super::CompatError;
use super::agenda::{Agenda, Duties, MIN_SAMPLE_NS};
use super::json::{self, Header};
use super::{Closing, Delays, Figures, Machine, RunConfig, SchbenchArgs, text};
use crate::model::clean;

const NS_PER_S: u64 = 1_000_000_000;
/// For the arrivals of `--arrivals poisson`.
const SEED: u64 = 1;
/// Roles of the workload's threads.
const MESSAGE: &str = "schbench-msg";
const WORKER: &str = "schbench-worker";

/// The end of a run that could be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The run ended after its time, or by a signal if it had no limit.
    Done,
    /// A signal ended the run before its time. The figures so far were printed.
    Interrupted,
}

/// Runs what the arguments ask for and prints it: text to stderr, JSON to its target if any. Worker threads
/// still exist afterwards: the caller ends the process.
pub fn run(args: SchbenchArgs, cmdline: String) -> Result<End, CompatError> {
    let host = Host::default();
    let machine = machine(&host)?;
    let config = args.config(&machine)?;
    check(&config, &machine)?;
    let json = config.json.as_deref().map(JsonOutput::open).transpose()?;
    let interrupted = signal::catch_termination()
        .map_err(|error| here(format!("cannot catch signals: {error}")))?;
    config.notes.iter().for_each(|note| print(|out| writeln!(out, "{note}")));
    let watch = Watch::begin(&host, &machine.allowed, Own::family());
    let own_cpu_ns = clock::family_cpu_ns();
    let mut session = Session::start(&config)?;
    session.attend(&interrupted)?;
    let (end, figures, closing) = session.close(&interrupted);
    let found = watch.end(clock::family_cpu_ns() - own_cpu_ns);
    let disturbances: Vec<String> = found.iter().map(|found| disturbance(&found.fact)).collect();
    // Print these before schbench's own lines: programs that read its last line still find it last.
    disturbances.iter().for_each(|why| print(|out| writeln!(out, "disturbed: {why}")));
    print(|out| text::summary(out, &figures, &closing));
    if let Some(json) = json {
        json.write(&header(&host, &config, cmdline), &figures, &closing, &disturbances)?;
    }
    Ok(end)
}

fn machine(host: &Host) -> Result<Machine, CompatError> {
    let allowed =
        topology::affinity().map_err(|error| here(format!("sched_getaffinity: {error}")))?;
    let online = topology::online(host).known().map_or(allowed.len(), |online| online.len());
    let nodes = topology::numa_nodes(host, &allowed).len().max(1);
    Ok(Machine { allowed, online, nodes })
}

/// Checks that the workload accepts all parameters together.
fn check(config: &RunConfig, machine: &Machine) -> Result<(), CompatError> {
    let workload = workload::find("schbench").ok_or_else(|| here("no such workload"))?;
    let pool = Pool::new(machine.allowed.clone(), &[]);
    let (params, kind) = (&config.params, WorkerKind::Threads);
    let fits = workload.layout(&Request {
        params,
        count: 1,
        kind,
        pool: &pool,
        seed: SEED,
        speed: Speed::default(),
    });
    fits.map(|_| ()).map_err(|why| CompatError::usage(why.to_string(), "schedlab schbench --help"))
}

fn header(host: &Host, config: &RunConfig, cmdline: String) -> Header {
    let system = environment::Identity::here();
    Header {
        release: system.kernel_release,
        jobname: config.jobname.clone(),
        hostname: system.hostname,
        sched_ext: scheduler::sched_ext(host).unwrap_or_else(|| "disabled".to_string()),
        cmdline,
        unix_s: clock::unix_ns() / NS_PER_S,
    }
}

/// Writes to stderr in one write. If it is closed or full, nobody can be informed.
fn print(render: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    let mut text = Vec::new();
    _ = render(&mut text).and_then(|()| io::stderr().write_all(&text));
}

/// A run under way.
struct Session<'a> {
    config: &'a RunConfig,
    live: Live,
    last: Snapshot,
    /// Requests per second, one entry for each second since the figures were last zeroed.
    rps: Vec<f64>,
}

impl Session<'_> {
    fn start(config: &RunConfig) -> Result<Session<'_>, CompatError> {
        let set = WorkerSet {
            name: "schbench".to_string(),
            workload: "schbench".to_string(),
            params: config.params.clone(),
            count: 1,
            ..Default::default()
        };
        let live = Live::start(set, Placement::default(), SEED).map_err(here)?;
        let last = live.poll().map_err(here)?;
        Ok(Session { config, live, last, rps: Vec::new() })
    }

    /// Polls every second until the time is over or a signal comes.
    fn attend(&mut self, interrupted: &AtomicBool) -> Result<(), CompatError> {
        let mut agenda = Agenda::new(self.config);
        loop {
            let second = agenda.next(self.last.at_ns);
            let deadline_ns = self.live.started_ns() + second * NS_PER_S;
            while !clock::sleep_until_or_signal(deadline_ns) && !interrupted.load(Relaxed) {}
            let snapshot = self.live.poll().map_err(here)?;
            let before = std::mem::replace(&mut self.last, snapshot);
            if interrupted.load(Relaxed) {
                return Ok(());
            }
            let second = self.last.at_ns / NS_PER_S;
            let settled = self.live.counter(&self.last, "settled").is_some_and(|hits| hits > 0);
            let mut duties = agenda.at(second, settled);
            duties.samples &= self.last.at_ns - before.at_ns >= MIN_SAMPLE_NS;
            self.perform(&duties, second, rate(&before, &self.last));
            if duties.ends {
                return Ok(());
            }
        }
    }

    fn perform(&mut self, duties: &Duties, second: u64, rate: f64) {
        if duties.ends_warmup {
            print(|out| writeln!(out, "warmup done, zeroing stats"));
            self.zero();
        }
        if duties.samples {
            self.rps.push(rate);
        }
        if duties.reports {
            let (figures, delays) = (self.figures(), self.delays());
            print(|out| text::interval(out, &figures, second, &delays, rate));
        }
        if duties.zeroes {
            self.zero();
        }
    }

    fn zero(&mut self) {
        self.live.zero();
        self.rps.clear();
    }

    fn figures(&self) -> Figures {
        let mut figures = Figures { rps: self.rps.clone(), ..Figures::default() };
        figures.add_all(self.live.histograms());
        figures
    }

    fn delays(&mut self) -> Reading<Delays> {
        let message = self.live.run_queue_wait_ns(MESSAGE);
        let both = message.zip(self.live.run_queue_wait_ns(WORKER));
        both.map(|(message_ns, worker_ns)| Delays { message_ns, worker_ns })
    }

    /// Stops the workers. The latencies include requests that have begun: workers end them, as in schbench.
    /// After a signal they are not waited for and count with their age. Rates are those of the last poll.
    fn close(&mut self, interrupted: &AtomicBool) -> (End, Figures, Closing) {
        self.live.finish(|| interrupted.load(Relaxed));
        let is_limited = self.config.runtime_s.is_some();
        let end =
            if interrupted.load(Relaxed) && is_limited { End::Interrupted } else { End::Done };
        let mut figures = self.figures();
        let under_way = figures.add_all(self.live.under_way());
        let seconds = self.last.at_ns as f64 / NS_PER_S as f64;
        let rps = self.last.ops as f64 / seconds;
        let metrics = self.live.metrics(&self.last);
        let goal = metrics.into_iter().find(|metric| metric.kind.name == "rps_goal");
        let asked_s = self.config.runtime_s.filter(|_| end == End::Done);
        let has_rate = figures.response.is_some();
        let closing = Closing {
            seconds: asked_s.unwrap_or(seconds as u64),
            average_rps: rps,
            mode: self.config.mode,
            goal: goal.and_then(|goal| goal.value.known()).map(|goal| goal as u64),
            dropped: self.live.counter(&self.last, "dropped").filter(|_| has_rate),
            under_way,
            delays: self.delays(),
            worker_ops_per_s: rps / self.live.workers(WORKER) as f64,
        };
        (end, figures, closing)
    }
}

fn here(why: impl Display) -> CompatError {
    CompatError::here(why.to_string(), "schedlab doctor")
}

/// Operations per second between two polls.
fn rate(before: &Snapshot, after: &Snapshot) -> f64 {
    (after.ops - before.ops) as f64 * 1e9 / (after.at_ns - before.at_ns) as f64
}

/// The target of JSON, opened before the run, so that an error comes before it. A file keeps its content
/// until the run has ended.
struct JsonOutput<'a> {
    path: &'a Path,
    /// `None`: stdout.
    file: Option<NewFile>,
}

impl JsonOutput<'_> {
    fn open(path: &Path) -> Result<JsonOutput<'_>, CompatError> {
        if path == Path::new("-") {
            return Ok(JsonOutput { path: Path::new(STDOUT), file: None });
        }
        let file = NewFile::begin(path).map_err(|error| unwritable(path, &error))?;
        Ok(JsonOutput { path, file: Some(file) })
    }

    fn write(
        self,
        header: &Header,
        figures: &Figures,
        closing: &Closing,
        disturbances: &[String],
    ) -> Result<(), CompatError> {
        let mut text = Vec::new();
        json::write(&mut text, header, figures, closing, disturbances)
            .map_err(|error| unwritable(Path::new(STDOUT), &error))?;
        let written = match self.file {
            None => match io::stdout().write_all(&text) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
                // The reader went away.
                _ => io::stdout().flush().or(Ok(())),
            },
            Some(mut file) => file.write_all(&text).and_then(|()| file.finish()),
        };
        written.map_err(|error| unwritable(self.path, &error))
    }
}

const STDOUT: &str = "stdout";

fn unwritable(path: &Path, error: &io::Error) -> CompatError {
    let shown = path.display().to_string();
    CompatError::here(
        format!("cannot write JSON to {}: {error}", clean(&shown)),
        if path == Path::new(STDOUT) {
            "--json FILE".to_string()
        } else {
            format!("{}; or --json - for stdout", remedy::write(path, error))
        },
    )
}
