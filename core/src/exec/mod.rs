//! One run on this machine: workers, barrier, windows, result.
//!
//! A run has a process of its own, the *runner*: a child of schedlab here, of the agent in a
//! lab guest. It takes one [`RunSpec`] and writes [`RunnerMessage`] lines. It never has to ask
//! workers to end: it reads their slots and exits, and the kernel ends them with it, whatever
//! they wait for. Policies that cannot be left (SCHED_IDLE) end with it too.

mod changes;
mod child;
mod error;
mod group;
mod here;
mod live;
mod measure;
mod offline;
mod phases;
mod result;
mod shuffle;
mod turns;
mod twin;
mod xen;

use std::ffi::OsString;
use std::io::{self, BufRead, BufWriter, Write};
use std::time::Duration;

use crate::model::{
    Advice, Calibration, CpuSet, RunModel, RunSpec, RunnerMessage, Turns, WIRE_VERSION,
};
pub use crate::probe::disturbance::Own;
use crate::probe::{Ahead, Telemetry};
use crate::sys::ports::Ports;
use crate::sys::{Host, balancing, burst, clock, fork, sched, signal, thread};
use crate::workload::{self, Speed};

use crate::model::MAX_LINE_BYTES;
use crate::sys::input;

pub use child::Runner;
pub use error::ExecError;
use group::{Limit, WorkerGroup};
pub use here::{check_here, run_here};
pub use live::{Live, Snapshot};
pub use result::{counted_work, set_result, under_way};
use turns::TurnSection;
pub use twin::measure_twin;
pub use xen::{BootedGuests, GuestChannel, XenError, check_guests, guest_sizes};

/// With this hidden first argument the binary is a runner; the second is the pid of the process
/// that it must not outlive.
pub const RUNNER_ARGUMENT: &str = "__runner";

/// Becomes the runner of the schedlab process whose pid is given, and ends with it. A further argument has the
/// names of probes that it opens before it waits for its run.
pub fn run_and_exit(mut arguments: impl Iterator<Item = OsString>) -> ! {
    signal::report_file_limit();
    let parent = arguments.next();
    if let Some(parent) = parent.and_then(|pid| pid.to_str()?.parse().ok()) {
        fork::die_with_parent(parent);
    }
    thread::set_name("schedlab-run");
    // A lab guest's agent has some.
    Ports::forgo();
    let probes = arguments.next().map(|probes| probes.to_string_lossy().into_owned());
    let ahead = probes.as_ref().map(|probes| Ahead::open(probes.split(',')));
    std::process::exit(runner(&mut std::io::stdin().lock(), &mut std::io::stdout(), ahead))
}

/// The runner's whole life: reads a spec, measures, writes the result. The caller exits with
/// the returned status, which ends all workers.
fn runner(input: &mut dyn BufRead, output: &mut dyn Write, ahead: Option<Ahead>) -> i32 {
    let mut output = BufWriter::new(output);
    let mut send = |message: RunnerMessage| {
        serde_json::to_writer(&mut output, &message)
            .map_err(io::Error::from)
            .and_then(|()| output.write_all(b"\n"))
            .and_then(|()| output.flush())
            .map_err(ExecError::system("answer"))
    };
    if ahead.is_some() && send(RunnerMessage::Waiting).is_err() {
        return 1;
    }
    let ahead = ahead.unwrap_or_default();
    match read_spec(input).and_then(|spec| run(&spec, ahead, &mut send)) {
        Ok(()) => 0,
        Err(error) => {
            let (reason, is_of_host) = (error.reason(), error.is_of_host());
            send(RunnerMessage::Failed { reason, is_of_host }).map_or(1, |()| 0)
        }
    }
}

/// Ends a runner that has outlived its limit by [`LIMIT_SLACK_NS`].
pub const LIMIT_SIGNAL: i32 = thread::ALARM_SIGNAL;
/// The runner reports first if something takes too long. After this time the process that gave the run does.
const REPORT_SLACK: Duration = Duration::from_secs(1);
/// After this further time the kernel ends it.
const LIMIT_SLACK_NS: u64 = 2_000_000_000;

fn read_spec(input: &mut dyn BufRead) -> Result<RunSpec, ExecError> {
    let line = input::lines(&mut *input, MAX_LINE_BYTES).next().transpose();
    let line = line.map_err(|error| ExecError::NoSpec(error.into()))?.unwrap_or_default();
    let spec: RunSpec =
        serde_json::from_str(&line).map_err(|error| ExecError::NoSpec(error.into()))?;
    if spec.wire != WIRE_VERSION {
        return Err(ExecError::Wire(spec.wire));
    }
    if spec.window_ns == 0 || spec.duration_ns == 0 {
        return Err(ExecError::NoTime);
    }
    Ok(spec)
}

/// Measures how fast this machine works, on one of its CPUs.
pub fn calibrate() -> Calibration {
    let before = sched::affinity(0).unwrap_or_default();
    let one: CpuSet = before.iter().last().into_iter().collect();
    // If it cannot be pinned, it is measured wherever it runs.
    _ = sched::set_affinity(0, &one);
    let (Speed { kop_ps, .. }, spread) = Speed::measure(false);
    _ = sched::set_affinity(0, &before);
    Calibration { kop_ps, spread }
}

/// The speed from whoever gave the run, else the speed measured here.
fn speed(spec: &RunSpec) -> Speed {
    let (executed, RunModel { migration, stretch, .. }) = (spec.executed, spec.model);
    let speed = match spec.kop_ps {
        Some(kop_ps) => Speed { kop_ps, ..Speed::default() },
        None if !workload::is_timed(&spec.cell) => Speed::default(),
        None if !executed && burst::is_possible() => Speed::default(),
        // In virtual time all work is executed here, and samples are alike.
        None => Speed::measure(executed).0,
    };
    Speed { executed, migration, stretch, seed: spec.seed, ..speed }
}

/// Executes one run. `send` gets `Started`, the windows and `Done`.
fn run(
    spec: &RunSpec,
    ahead: Ahead,
    send: &mut dyn FnMut(RunnerMessage) -> Result<(), ExecError>,
) -> Result<(), ExecError> {
    thread::end_process_after(spec.limit_ns.saturating_add(LIMIT_SLACK_NS));
    let limit = Limit::from_now(spec.limit_ns);
    thread::become_ordinary().map_err(ExecError::refused)?;
    if let Some(slack_ns) = spec.model.timer_slack_ns {
        // Workers inherit it.
        sched::set_own_timer_slack_ns(slack_ns.into())
            .map_err(ExecError::system("set the timer slack"))?;
    }
    let is_in_lab = burst::is_possible();
    if is_in_lab && shuffle::is_due(spec) {
        shuffle::shuffle(spec.seed)?;
    }
    let variants = spec.turns.as_ref().map_or(0, |turns| turns.variants.len());
    let speed = speed(spec);
    let group = WorkerGroup::assemble(&spec.cell, &spec.cgroups.joins, spec.seed, speed, variants)?;
    group.await_arrival(limit)?;
    if is_in_lab {
        balancing::forget_longest_searches(&Host::default());
    }
    if let Some(turns) = &spec.turns {
        return run_in_turns(spec, turns, &group, send);
    }
    let workers: Vec<i32> = group.members().iter().map(|member| member.slot.tid()).collect();
    let mut telemetry = Telemetry::open(&spec.probes, &workers, ahead);
    let section = measure::Section::begin(&group, spec, limit)?;
    send(RunnerMessage::Started { wire: WIRE_VERSION, workers: group.members().len() as u32 })?;
    // The windows stay as planned, however late this process gets a CPU.
    let start_ns = spec.start_unix_ns.map_or_else(clock::monotonic_ns, clock::monotonic_at);
    clock::sleep_until(start_ns);
    let started_unix_ns = clock::unix_ns();
    let on_window = &mut |window| send(RunnerMessage::Window(window));
    let measured = section.measure(&group, start_ns, &mut telemetry, on_window)?;
    let mut result = result::assemble(spec, &group, measured, &telemetry, started_unix_ns);
    result.trace = telemetry.take_trace().map(Box::new);
    group.end_processes();
    send(RunnerMessage::Done(Box::new(result)))
}

/// Executes one run in which variants take turns. It has no telemetry, which could not be divided.
fn run_in_turns(
    spec: &RunSpec,
    turns: &Turns,
    group: &WorkerGroup,
    send: &mut dyn FnMut(RunnerMessage) -> Result<(), ExecError>,
) -> Result<(), ExecError> {
    let section = TurnSection::begin(group, spec, turns)?;
    send(RunnerMessage::Started { wire: WIRE_VERSION, workers: group.members().len() as u32 })?;
    let started_unix_ns = clock::unix_ns();
    let on_window = &mut |window| send(RunnerMessage::Window(window));
    let measured = section.measure(clock::monotonic_ns(), on_window)?;
    let overhead_cpu_ns = measured.overhead_cpu_ns;
    let in_turns = measured.results(spec, group);
    let result = result::assemble_in_turns(spec, group, in_turns, overhead_cpu_ns, started_unix_ns);
    group.end_processes();
    send(RunnerMessage::Done(Box::new(result)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_says_that_it_waits_only_if_it_was_started_ahead() {
        let said = |ahead| {
            let mut output = Vec::new();
            assert_eq!(runner(&mut &b"no run\n"[..], &mut output, ahead), 0);
            let lines = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            lines.map(|line| serde_json::from_slice(line).unwrap()).collect::<Vec<RunnerMessage>>()
        };
        let waited = said(Some(Ahead::default()));
        assert!(matches!(waited[..], [RunnerMessage::Waiting, RunnerMessage::Failed { .. }]));
        assert!(matches!(said(None)[..], [RunnerMessage::Failed { .. }]));
    }
}
