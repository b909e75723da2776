//! One run on this machine: workers, barrier, windows, result.
//!
//! A run has a process of its own, the *runner*: a child of schedlab here, of the agent in a
//! lab guest. It takes one [`RunSpec`] and says [`RunnerMessage`] lines. Workers never need to
//! be asked to end: the runner reads their slots and exits, and the kernel ends them with
//! it, whatever they wait for. Policies that cannot be left (SCHED_IDLE) end with it too.

mod child;
mod group;
mod here;
mod live;
mod measure;
mod result;

use std::ffi::OsString;
use std::io::{self, BufRead, BufWriter, Write};

use crate::model::{RunSpec, RunnerMessage, WIRE_VERSION};
use crate::probe::Telemetry;
use crate::sys::{clock, fork, thread};

use group::WorkerGroup;
pub use here::{check_here, run_here};
pub use live::{Live, Look};
pub use result::set_result;

/// The hidden first argument by which the binary knows that it is to be a runner; the second
/// is the pid of the process that it must not outlive.
pub const RUNNER_ARGUMENT: &str = "__runner";

/// Becomes the runner of the schedlab process whose pid is given, and ends with it.
pub fn run_and_exit(parent: Option<OsString>) -> ! {
    if let Some(parent) = parent.and_then(|pid| pid.to_str()?.parse().ok()) {
        fork::die_with_parent(parent);
    }
    thread::set_name("schedlab-run");
    std::process::exit(runner(&mut std::io::stdin().lock(), &mut std::io::stdout()))
}

/// The runner's whole life: reads a spec, measures, says the result. The caller exits with
/// what is returned, which ends all workers.
fn runner(input: &mut dyn BufRead, output: &mut dyn Write) -> i32 {
    let mut output = BufWriter::new(output);
    let mut say = |message: RunnerMessage| -> Result<(), String> {
        serde_json::to_writer(&mut output, &message)
            .map_err(io::Error::from)
            .and_then(|()| output.write_all(b"\n"))
            .and_then(|()| output.flush())
            .map_err(|error| format!("the runner cannot answer: {error}"))
    };
    match read_spec(input).and_then(|spec| run(&spec, &mut say)) {
        Ok(()) => 0,
        Err(reason) => say(RunnerMessage::Failed { reason }).map_or(1, |()| 0),
    }
}

/// What ends a runner that has outlived its limit by [`LIMIT_SLACK_NS`].
pub const LIMIT_SIGNAL: i32 = thread::ALARM_SIGNAL;
/// Whoever gave the run is first to say that it took too long, if it still can.
const LIMIT_SLACK_NS: u64 = 2_000_000_000;

fn read_spec(input: &mut dyn BufRead) -> Result<RunSpec, String> {
    let mut line = String::new();
    input.read_line(&mut line).map_err(|error| format!("no run to execute: {error}"))?;
    let spec: RunSpec =
        serde_json::from_str(&line).map_err(|error| format!("no run to execute: {error}"))?;
    if spec.wire != WIRE_VERSION {
        return Err(format!("wire version {} here, {WIRE_VERSION} asked for", spec.wire));
    }
    if spec.window_ns == 0 || spec.duration_ns == 0 {
        return Err("a run and its windows must take some time".to_string());
    }
    Ok(spec)
}

/// Executes one run. `say` gets `Started`, the windows and `Done`.
fn run(
    spec: &RunSpec,
    say: &mut dyn FnMut(RunnerMessage) -> Result<(), String>,
) -> Result<(), String> {
    thread::end_process_after(spec.limit_ns.saturating_add(LIMIT_SLACK_NS));
    thread::become_ordinary().map_err(|error| format!("{error}\nhint: {}", error.hint()))?;
    let crew = WorkerGroup::assemble(&spec.cell, spec.seed)?;
    crew.await_arrival()?;
    let mut telemetry = Telemetry::open(&spec.probes, crew.members().len());
    let section = measure::Section::begin(&crew, spec);
    say(RunnerMessage::Started { wire: WIRE_VERSION, workers: crew.members().len() as u32 })?;
    let started_unix_ns = clock::unix_ns();
    let on_window = &mut |window| say(RunnerMessage::Window(window));
    let measured = section.measure(&crew, &mut telemetry, on_window)?;
    let result = result::assemble(spec, &crew, measured, &telemetry, started_unix_ns);
    crew.end_processes();
    say(RunnerMessage::Done(Box::new(result)))
}
