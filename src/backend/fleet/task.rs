//! A task of an array, on a node: makes the runs of its batch, and writes each answer down.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::backend::contract::{Backend, BackendConfig, Entry, RunNews};
use crate::backend::error::BackendError;
use crate::backend::lab::digest;
use crate::model::{Advice, MAX_LINE_BYTES, RunEnd, RunSpec, clean_path};
use crate::sys::{self, input, scratch};

use super::answers::{AnswerWriter, claim, subjects_in};
use super::error::FleetError;
use super::folder::{Copy, JobFolder};
use super::wire::{Answer, ArrayJob, Batch, FORMAT, Node, RunName, Subject, line};

/// Interval between two attempts to write to a full disk.
const RETRY: Duration = Duration::from_secs(1);

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEnd {
    Done,
    /// It was asked to end.
    Interrupted,
}

/// Executes the task that Slurm's variables name. `find` knows backends by name.
pub fn run_task(
    folder: &Path,
    array: u32,
    find: &dyn Fn(&str) -> Option<&'static Entry>,
    cancel: &AtomicBool,
) -> Result<TaskEnd, BackendError> {
    let folder = JobFolder(folder.to_path_buf());
    let copy = Copy {
        array,
        task: number_in("SLURM_ARRAY_TASK_ID")?,
        restart: number_in("SLURM_RESTART_COUNT").unwrap_or(0),
    };
    let job: ArrayJob = read(&folder.job(array))?;
    let batch: Batch = read(&folder.batch(array, copy.task))?;
    // Killed tasks leave folders on this node.
    scratch::remove_abandoned();
    let scratch = scratch::Folder::new(None)
        .map_err(|source| BackendError::State { folder: std::env::temp_dir(), source })?;
    let config = BackendConfig {
        state: Some(scratch.path()),
        lab: &job.lab,
        mode: job.mode,
        shared_cache: None,
    };
    let made = match (find(&job.backend), job.format) {
        (Some(entry), FORMAT) => (entry.make)(&config).map_err(|error| error.reason()),
        _ => Err("it was submitted by another version of schedlab".to_string()),
    };
    let (path, mut is_new) = (folder.answers(), true);
    let mut again = |error: &io::Error| is_to_wait(&mut is_new, error, &path, cancel);
    let copy = claim(&folder, copy, &mut again).map_err(FleetError::io("write to", &path))?;
    let mut writer =
        Writer { file: AnswerWriter::new(folder.answers_of(copy)), folder: &folder, cancel };
    let node = node_of(&job, &batch, &made)?;
    writer.write(Subject::Node, &node)?;
    let mut backend = match (made, node.refused) {
        (Ok(backend), None) => backend,
        (_, refused) => return Err(FleetError::Task(refused.unwrap_or_default()).into()),
    };
    let missing = missing(&folder, copy, &batch)?;
    backend.announce(missing.iter().map(|(_, spec)| spec.clone()).collect());
    for (name, spec) in missing {
        let mut windows = Vec::new();
        let mut on_news = |news| match news {
            RunNews::Window(window) => windows.push(window),
            RunNews::Again { .. } => windows.clear(),
            RunNews::Starved { .. }
            | RunNews::SlowBoot(_)
            | RunNews::NotSaved(_)
            | RunNews::ConsoleKept { .. }
            | RunNews::Covered(_) => {}
        };
        match backend.run_again_if_ended(&spec, cancel, &mut on_news) {
            RunEnd::Interrupted => return Ok(TaskEnd::Interrupted),
            // A run without an answer is submitted again.
            RunEnd::HostEnded { reason } => {
                _ = writeln!(io::stderr(), "the host ended a run: {reason}");
            }
            RunEnd::Finished(outcome) => {
                writer.write(Subject::Run(name), &Answer { windows, outcome })?;
            }
        }
    }
    Ok(TaskEnd::Done)
}

fn number_in(variable: &str) -> Result<u32, FleetError> {
    let value = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    value.ok_or_else(|| {
        FleetError::Task(format!("{variable} is not a number: this is for tasks of Slurm alone"))
    })
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, FleetError> {
    let text = input::read_file(path, MAX_LINE_BYTES).map_err(FleetError::io("read", path))?;
    Ok(serde_json::from_slice(&text)?)
}

/// This node, and whether its answers are what the controller's would be.
fn node_of(
    job: &ArrayJob,
    batch: &Batch,
    made: &Result<Box<dyn Backend>, String>,
) -> Result<Node, FleetError> {
    let program = program_digest()?;
    let machine = match (made, batch.specs.first()) {
        (Ok(backend), Some(spec)) => {
            backend.guest_machine(&spec.cell).map_err(|error| error.reason())
        }
        _ => Ok(None),
    };
    let refused = match (made, &machine, &batch.machine) {
        (Err(reason), ..) | (_, Err(reason), _) => Some(reason.clone()),
        _ if program != job.program => Some("another schedlab is in the shared folder".to_string()),
        (_, Ok(Some(own)), Some(asked)) => asked.difference(own),
        _ => None,
    };
    let cpu = sys::environment(&sys::Host::default()).cpu_model;
    Ok(Node {
        name: std::env::var("SLURMD_NODENAME").unwrap_or_default(),
        cpu: cpu.known().unwrap_or_else(|| "unknown".to_string()),
        program,
        machine: machine.unwrap_or(None),
        refused,
    })
}

/// The digest of this program.
pub fn program_digest() -> Result<String, FleetError> {
    let own = Path::new("/proc/self/exe");
    let bytes =
        input::read_file(own, input::MAX_PROGRAM_BYTES).map_err(FleetError::io("read", own))?;
    Ok(digest(&[&bytes]))
}

/// The runs that earlier copies of the task have not answered.
fn missing(
    folder: &JobFolder,
    copy: Copy,
    batch: &Batch,
) -> Result<Vec<(RunName, RunSpec)>, FleetError> {
    let mut answered = HashSet::new();
    for restart in 0..copy.restart {
        // A copy that wrote nothing has no file.
        answered
            .extend(subjects_in(&folder.answers_of(Copy { restart, ..copy })).unwrap_or_default());
    }
    let named = batch.run_specs().map(|spec| Ok((RunName::from_spec(&spec)?.0, spec)));
    let mut named = named.collect::<Result<Vec<_>, FleetError>>()?;
    named.retain(|(name, _)| !answered.contains(&Subject::Run(*name)));
    Ok(named)
}

/// Writes answers, and waits as long as the folder is full.
struct Writer<'a> {
    file: AnswerWriter,
    folder: &'a JobFolder,
    cancel: &'a AtomicBool,
}

impl Writer<'_> {
    fn write(&mut self, subject: Subject, what: &impl serde::Serialize) -> Result<(), FleetError> {
        let line = line(subject, what)?;
        let mut is_new = true;
        let (cancel, path) = (self.cancel, self.folder.answers());
        let mut again = |error: &io::Error| is_to_wait(&mut is_new, error, &path, cancel);
        self.file.append(&line, &mut again).map_err(FleetError::io("write to", &path))
    }
}

/// Waits a little after a failed write, and reports it once. False if nobody needs the answer any more.
fn is_to_wait(is_new: &mut bool, error: &io::Error, path: &Path, cancel: &AtomicBool) -> bool {
    if std::mem::take(is_new) {
        // The task's output may be on the same full disk, which must not end the run.
        _ = writeln!(io::stderr(), "waiting: cannot write to {}: {error}", clean_path(path));
    }
    std::thread::sleep(RETRY);
    // The plan has ended if its folder is gone.
    !cancel.load(Relaxed) && path.is_dir()
}
