//! Why a run gives no result. The sentences are made here, and [`ExecError::reason`] makes of
//! them the one that a failed run keeps. Pure.

use std::borrow::Cow;
use std::error::Error;
use std::process::ExitStatus;

use crate::model::Advice;
use crate::model::{CpuSet, WIRE_VERSION, show_duration};
use crate::sys::child;
use crate::sys::fork::Ending;
use crate::variant::{Missing, UndoError};
use crate::workload::WorkloadError;

/// The error of another room.
type Source = Box<dyn Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("worker set `{set}`: there is no workload `{workload}`")]
    NoWorkload { set: String, workload: String },
    #[error("worker set `{set}`: {source}")]
    Workload { set: String, source: WorkloadError },
    /// The error of the worker that runs this.
    #[error(transparent)]
    Work(#[from] WorkloadError),
    #[error("cannot {action}: {source}")]
    System { action: &'static str, source: Source },
    #[error("cannot move to CPUs {cpus}: {source}")]
    Affinity { cpus: CpuSet, source: std::io::Error },
    /// Another room's refusal.
    #[error(transparent)]
    Refused(Source),
    #[error("CPUs {0} are offline or not allowed to this process")]
    CpusNotAllowed(CpuSet),
    #[error("CPUs {0} of the pool went offline in mid-run")]
    CpusOffline(CpuSet),
    /// `position`: from 1.
    #[error("worker {position} of {all} cannot start: {source}")]
    Start { position: usize, all: usize, source: std::io::Error },
    /// A thread that starts without room for its stacks would end the process.
    #[error("{threads} threads take {maps} mappings, and vm.max_map_count is {max}")]
    Mappings { threads: u64, maps: u64, max: u64 },
    #[error("only {arrived} of {all} workers were ready after {}", show_duration(*.limit_ns))]
    Arrival { arrived: u32, all: usize, limit_ns: u64 },
    /// `why`: the worker's text in its slot; `output`: the end of its program's output.
    #[error("{worker}: {why}{}", output.as_deref().map(last_lines).unwrap_or_default())]
    WorkerFailed { worker: String, why: String, output: Option<String> },
    #[error("{worker} (pid {pid}) {}", show_ending(*.ended))]
    WorkerProcess { worker: String, pid: i32, ended: Ending },
    #[error("worker {index} (tid {tid}) has ended")]
    WorkerGone { index: usize, tid: i32 },
    #[error("ended before the run did")]
    EndedEarly,
    /// The knob is of a variant that takes turns with others.
    #[error("variants cannot take turns: knob `{}`: {}", .0.knob, .0.message)]
    Switch(Missing),
    /// The knob is of a worker set or a cgroup.
    #[error(
        "the change at {} failed: knob `{}`: {}",
        show_duration(*.at_ns), .missing.knob, .missing.message
    )]
    Change { at_ns: u64, missing: Missing },
    #[error(
        "a switch to another variant took {}, and the washout of a block is {}",
        show_duration(*.took_ns),
        show_duration(*.washout_ns)
    )]
    SlowSwitch { took_ns: u64, washout_ns: u64 },
    #[error(
        "switches between variants cut {cut} of {of} operations of `{set}`, and these count for none"
    )]
    CutOperations { set: String, cut: u64, of: u64, block_ns: u64 },
    #[error("{worker} no longer has its variant's `{knob}`: something else has changed it")]
    KnobChanged { knob: &'static str, worker: String },
    #[error(
        "the system's base slice changed from {} to {} in mid-run: all threads without a slice of their own have it",
        show_duration(*.from_ns),
        show_duration(*.to_ns)
    )]
    BaseSliceChanged { from_ns: u64, to_ns: u64 },
    #[error("these variants cannot take turns")]
    NoTurns,
    #[error("a thread that was woken did not run within {}", show_duration(*.limit_ns))]
    NoWake { limit_ns: u64 },
    #[error("no run to execute: {0}")]
    NoSpec(#[source] Source),
    #[error("wire version {WIRE_VERSION} here, {0} asked for")]
    Wire(u32),
    #[error("a run and its windows must take some time")]
    NoTime,
    #[error("the runner sent what cannot be read: {0}")]
    Garbled(#[source] Source),
    #[error(
        "no result within {}, which are its warm-up, duration and grace: killed",
        show_duration(*.limit_ns)
    )]
    Limit { limit_ns: u64 },
    /// `what`: a program and the step that it has not done.
    #[error(
        "{worker}: {what} within {}, which are the run's warm-up, duration and \
         grace: killed{}",
        show_duration(*.limit_ns),
        output.as_deref().map(last_lines).unwrap_or_default()
    )]
    Hangs { worker: String, what: String, limit_ns: u64, output: Option<String> },
    /// A change to the machine is left.
    #[error(transparent)]
    Undo(UndoError),
    /// `status`: of one that has ended; else it closed its output.
    #[error("the runner died: {}{}", show_end(status), after_colon(.stderr))]
    RunnerDied { status: Option<ExitStatus>, stderr: String },
}

const MAX_LAST_LINES: usize = 5;
const MAX_LAST_CHARS: usize = 500;

/// The end of an output in a sentence.
fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let lines = lines[lines.len().saturating_sub(MAX_LAST_LINES)..].join(" | ");
    let excess = lines.chars().count().saturating_sub(MAX_LAST_CHARS);
    let lines: String = lines.chars().skip(excess).collect();
    format!("; its output ended: {lines}")
}

fn show_ending(ended: Ending) -> String {
    match ended {
        Ending::Exited(code) => format!("exited with {code}"),
        Ending::Killed(signal) | Ending::Stopped(signal) => {
            format!("was killed by signal {signal}")
        }
    }
}

fn show_end(status: &Option<ExitStatus>) -> String {
    status.map_or("closed its output".to_string(), |status| status.to_string())
}

fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

impl ExecError {
    /// A conversion for `map_err`.
    pub fn system<E: Into<Source>>(action: &'static str) -> impl Fn(E) -> ExecError {
        move |error| ExecError::System { action, source: error.into() }
    }

    pub fn refused(error: impl Into<Source>) -> ExecError {
        ExecError::Refused(error.into())
    }

    /// Whether somebody on this host, or its kernel for want of memory, ended a part of the run.
    pub fn is_of_host(&self) -> bool {
        match self {
            ExecError::WorkerProcess { ended, .. } => *ended == Ending::Killed(libc::SIGKILL),
            ExecError::RunnerDied { status, .. } => {
                status.is_some_and(child::is_ended_from_outside)
            }
            _ => false,
        }
    }
}

impl Advice for ExecError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        let hint: Option<&str> = match self {
            ExecError::Workload { source, .. } | ExecError::Work(source) => return source.hint(),
            ExecError::Start { .. } => Some(
                "limits are ulimit -u, /proc/sys/kernel/threads-max, vm.max_map_count (some 5 a \
                 thread) and pids.max of the cgroup",
            ),
            ExecError::Mappings { maps, .. } => {
                return Some(format!("sysctl vm.max_map_count={maps}, or fewer workers").into());
            }
            ExecError::NoWake { .. } => Some("let nothing else use these CPUs: schedlab doctor"),
            ExecError::Limit { .. } | ExecError::Hangs { .. } => {
                Some("[measure] has grace = \"30s\" unless the plan says otherwise")
            }
            ExecError::Switch(missing) | ExecError::Change { missing, .. } => Some(&missing.hint),
            ExecError::SlowSwitch { .. } => Some("longer `turns`, or fewer workers"),
            ExecError::CutOperations { block_ns, .. } => {
                let [block, both] = [*block_ns, 2 * block_ns].map(show_duration);
                return Some(
                    format!(
                        "a fifth of a block has to be longer than an operation with its waits: \
                         turns = \"{block}\" and duration = \"{both}\" or more, or no `turns`"
                    )
                    .into(),
                );
            }
            ExecError::KnobChanged { .. } => Some("measure this workload without `turns`"),
            ExecError::BaseSliceChanged { .. } => {
                Some("measure again while nothing writes /sys/kernel/debug/sched/base_slice_ns")
            }
            ExecError::Undo(error) => return error.hint(),
            _ => None,
        };
        hint.map(Cow::from)
    }
}
