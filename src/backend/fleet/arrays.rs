//! The arrays of a plan: submits runs, follows Slurm's tasks, and repeats or gives up runs whose task has
//! ended without them.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::backend::contract::GuestMachine;

use super::batches::{Nodes, split};
use super::book::Book;
use super::config::User;
use super::error::FleetError;
use super::folder::{Copy, JobFolder, name_part, put};
use super::journal::Journal;
use super::shelf::Shelf;
use super::slurm::{Slurm, Submission, Task, in_brackets, one_line};
use super::wire::{ArrayJob, Batch, RunName};
use crate::sys::input;

/// The first interval between two questions to Slurm; it doubles each time, up to a maximum.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);
pub const MAX_LOOK_INTERVAL: Duration = Duration::from_secs(15);
/// Answers of a task may appear this long after its end.
const GONE_PATIENCE: Duration = Duration::from_secs(3);
/// Submissions of a batch without a new answer before it is given up.
const MAX_ATTEMPTS: u32 = 3;
/// The same if its task does not even begin.
const MAX_LAUNCHES: u32 = 6;
/// The first interval between two attempts at something that may work later.
const RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(15);
/// Attempts to cancel an array.
const CANCELLATIONS: u32 = 3;
/// Bytes of a task's output that the reason of a failed run quotes.
const OUTPUT_BYTES: u64 = 2000;

/// A run that waits to be submitted.
#[derive(Debug, Clone, Copy)]
pub struct Queued {
    pub name: RunName,
    /// Runs with the same number share a boot.
    pub boot: usize,
}

/// The runs of one task.
struct Part {
    runs: Vec<RunName>,
    boot: usize,
    /// Submissions that brought no answer.
    attempts: u32,
    /// Attempts whose task did not begin.
    launches: u32,
}

impl Part {
    /// How long to wait after the end of a task before it is submitted again. The cause that keeps tasks from
    /// beginning, such as a full folder, may last a while.
    fn patience(&self) -> Duration {
        GONE_PATIENCE * (1 << self.launches.min(4))
    }

    fn is_given_up(&self) -> bool {
        self.attempts - self.launches >= MAX_ATTEMPTS || self.launches >= MAX_LAUNCHES
    }

    /// The part of the runs that a task has left. An answer shows that tasks work, so attempts count anew.
    fn left(self, runs: Vec<RunName>, began: bool) -> Part {
        let (attempts, launches) = if runs.len() < self.runs.len() {
            (0, 0)
        } else {
            (self.attempts + 1, self.launches + u32::from(!began))
        };
        Part { runs, attempts, launches, ..self }
    }
}

/// A part that was submitted.
struct Submitted {
    part: Part,
    array: u32,
    task: u32,
    is_running: bool,
    /// Why it is not running.
    reason: String,
    /// Since when Slurm has not listed it.
    gone: Option<Instant>,
}

impl Submitted {
    /// Whether it is gone for so long that no answer of it will come.
    fn is_over(&self, now: Instant) -> bool {
        self.gone.is_some_and(|since| now.duration_since(since) >= self.part.patience())
    }
}

pub struct Arrays {
    slurm: Slurm,
    folder: JobFolder,
    journal: Journal,
    pub user: User,
    /// The begin of the names of jobs.
    prefix: String,
    queued: Vec<Queued>,
    submitted: Vec<Submitted>,
    next_array: u32,
    nodes: Option<Nodes>,
    /// Nodes that refused a task, and why the copies did.
    excluded: BTreeSet<String>,
    refusals: HashMap<(u32, u32), String>,
    next_look: Instant,
    interval: Duration,
    warned: Option<String>,
}

impl Arrays {
    pub fn open(
        state: &Path,
        plan: &str,
        slurm: Slurm,
        folder: JobFolder,
        user: User,
    ) -> Result<Arrays, FleetError> {
        let mut journal = Journal::open(state, plan);
        if !journal.names.is_empty() {
            user.warn(&format!(
                "cancelling what is left of {}",
                one_line(&journal.names.join(", "))
            ));
            journal.cancel(&slurm)?;
        }
        let next_array = (1..).find(|array| !folder.array(*array).exists()).unwrap_or(u32::MAX);
        let arrays = Arrays {
            slurm,
            folder,
            journal,
            user,
            prefix: format!("schedlab-{}", name_part(plan)),
            queued: Vec::new(),
            submitted: Vec::new(),
            next_array,
            nodes: None,
            excluded: BTreeSet::new(),
            refusals: HashMap::new(),
            next_look: Instant::now(),
            interval: LOOK_INTERVAL,
            warned: None,
        };
        if let Err(error) = arrays.slurm.check(&arrays.submission(next_array, 1))
            && !matches!(&error, FleetError::Refused { words } if may_be_down(words))
        {
            return Err(error);
        }
        Ok(arrays)
    }

    /// Reports a problem that may go away, but only once.
    pub fn wait_for(&mut self, text: &str) {
        if self.warned.as_deref() != Some(text) {
            self.user.warn(&format!("warning: {text}; waiting"));
            self.warned = Some(text.to_string());
        }
    }

    fn works_again(&mut self) {
        if self.warned.take().is_some() {
            self.user.warn("it works again");
        }
    }

    pub fn add(&mut self, run: Queued) {
        self.queued.push(run);
    }

    /// `3 tasks run, 4 wait (Resources)`.
    pub fn progress(&self) -> String {
        let there = self.submitted.iter().filter(|one| one.gone.is_none());
        let (running, waiting): (Vec<_>, Vec<_>) = there.partition(|one| one.is_running);
        let why = in_brackets(waiting.iter().map(|one| one.reason.as_str()));
        format!("{} tasks run, {} wait{why}", running.len(), waiting.len())
    }

    fn name(&self, array: u32) -> String {
        format!("{}.{array}", self.prefix)
    }

    /// Submits what is queued.
    pub fn submit(&mut self, files: &Files, cancel: &AtomicBool) -> Result<(), FleetError> {
        if self.queued.is_empty() {
            return Ok(());
        }
        let nodes = *self.nodes.get_or_insert_with(|| self.slurm.nodes());
        let queued = std::mem::take(&mut self.queued);
        let boots: Vec<usize> = queued.iter().map(|run| run.boot).collect();
        let has_boots = files.machines.iter().any(Option::is_some);
        let part = |positions: &Vec<usize>| Part {
            runs: positions.iter().map(|at| queued[*at].name).collect(),
            boot: positions.first().map_or(0, |at| boots[*at]),
            attempts: 0,
            launches: 0,
        };
        let mut parts: Vec<Part> = split(&boots, has_boots, nodes).iter().map(part).collect();
        let largest = parts.iter().map(|part| part.runs.len()).max().unwrap_or(0);
        self.user.inform(&format!(
            "slurm: {} runs in {} tasks of up to {largest}, for {} nodes of {} CPUs",
            queued.len(),
            parts.len(),
            nodes.count,
            nodes.cpus
        ));
        while !parts.is_empty() {
            let rest = parts.split_off(parts.len().min(nodes.max_tasks));
            self.submit_array(parts, files, cancel)?;
            parts = rest;
        }
        Ok(())
    }

    /// Writes the files of an array and submits it.
    fn submit_array(
        &mut self,
        parts: Vec<Part>,
        files: &Files,
        cancel: &AtomicBool,
    ) -> Result<(), FleetError> {
        let array = self.next_array;
        self.next_array += 1;
        let (folder, name) = (self.folder.clone(), self.name(array));
        self.patiently(cancel, &mut |_| files.write(&folder, array, &parts))?;
        self.patiently(cancel, &mut |arrays| arrays.journal.add(&name))?;
        let tasks = parts.len();
        let mut tried = false;
        self.patiently(cancel, &mut |arrays| {
            // If Slurm's answer was lost, the submission may still have been accepted.
            let is_there = tried && !arrays.slurm.tasks(std::slice::from_ref(&name))?.is_empty();
            tried = true;
            if is_there { Ok(()) } else { arrays.slurm.submit(&arrays.submission(array, tasks)) }
        })?;
        let submitted = |(task, part)| Submitted {
            part,
            array,
            task,
            is_running: false,
            reason: String::new(),
            gone: None,
        };
        self.submitted.extend((0..).zip(parts).map(submitted));
        self.interval = LOOK_INTERVAL;
        self.next_look = Instant::now() + self.interval;
        Ok(())
    }

    fn submission(&self, array: u32, tasks: usize) -> Submission {
        Submission {
            name: self.name(array),
            tasks,
            output: self.folder.output_of(array, "%a"),
            script: self.folder.script(),
            arguments: vec![
                self.folder.0.clone().into(),
                "fleet-task".into(),
                array.to_string().into(),
            ],
            exclude: self.excluded.clone(),
            host: None,
        }
    }

    /// Tries an action that may fail for a while: Slurm may not answer, the folder may be full.
    fn patiently(
        &mut self,
        cancel: &AtomicBool,
        what: &mut dyn FnMut(&mut Arrays) -> Result<(), FleetError>,
    ) -> Result<(), FleetError> {
        let mut pause = RETRY;
        loop {
            match what(self) {
                Ok(()) => {
                    self.works_again();
                    return Ok(());
                }
                Err(error @ (FleetError::Silent { .. } | FleetError::Io { .. }))
                    if !cancel.load(Relaxed) =>
                {
                    self.wait_for(&one_line(&error.to_string()));
                }
                Err(error) => return Err(error),
            }
            let until = Instant::now() + pause;
            while Instant::now() < until && !cancel.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(100));
            }
            pause = (pause * 2).min(MAX_RETRY);
        }
    }

    /// A node on which a task cannot be made.
    pub fn refuse(&mut self, copy: Copy, node: &str, reason: &str) {
        let reason = format!("node {} refuses: {}", one_line(node), one_line(reason));
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !node.is_empty() && node.chars().all(is_name) && self.excluded.insert(node.to_string()) {
            self.user.warn(&format!("{reason}; it gets no more tasks"));
        }
        self.refusals.insert((copy.array, copy.task), reason);
    }

    /// Asks Slurm for its tasks now and then. Runs whose tasks have ended without them are submitted again,
    /// and fail after the last attempt.
    pub fn look(&mut self, book: &mut Book, files: &Files, cancel: &AtomicBool) {
        if self.submitted.is_empty() || Instant::now() < self.next_look {
            return;
        }
        let arrays: BTreeSet<u32> = self.submitted.iter().map(|one| one.array).collect();
        let names: Vec<String> = arrays.into_iter().map(|array| self.name(array)).collect();
        match self.slurm.tasks(&names) {
            Ok(tasks) => {
                self.works_again();
                self.note(&tasks);
                self.end_gone(book, files, cancel);
            }
            Err(error) => self.wait_for(&error.to_string()),
        }
        self.interval = if self.submitted.iter().any(|one| one.gone.is_some()) {
            LOOK_INTERVAL
        } else {
            (self.interval * 2).min(MAX_LOOK_INTERVAL)
        };
        self.next_look = Instant::now() + self.interval;
    }

    fn note(&mut self, tasks: &[Task]) {
        let there: HashMap<(&str, u32), &Task> =
            tasks.iter().map(|task| ((task.name.as_str(), task.number), task)).collect();
        let prefix = self.prefix.clone();
        for one in &mut self.submitted {
            let name = format!("{prefix}.{}", one.array);
            let found = there.get(&(name.as_str(), one.task)).filter(|task| !task.is_held);
            one.is_running = found.is_some_and(|task| task.is_running);
            one.reason = found.map_or(String::new(), |task| task.reason.clone());
            one.gone = match found {
                Some(_) => None,
                None => one.gone.or_else(|| Some(Instant::now())),
            };
        }
    }

    fn end_gone(&mut self, book: &mut Book, files: &Files, cancel: &AtomicBool) {
        let now = Instant::now();
        let (gone, there): (Vec<Submitted>, _) =
            std::mem::take(&mut self.submitted).into_iter().partition(|one| one.is_over(now));
        self.submitted = there;
        let (mut again, mut reasons) = (Vec::new(), BTreeSet::new());
        for Submitted { part, array, task, .. } in gone {
            let missing = part.runs.iter().copied().filter(|name| book.is_missing(*name));
            let runs: Vec<RunName> = missing.collect();
            if runs.is_empty() {
                continue;
            }
            let part = part.left(runs, self.began(array, task));
            let reason = self.reason(array, task);
            if part.is_given_up() {
                let text = format!("{} tasks have ended without this run: {reason}", part.attempts);
                let text: Arc<str> = text.into();
                part.runs.iter().for_each(|name| book.fail(*name, &text));
            } else {
                again.push(part);
                reasons.insert(reason);
            }
        }
        if let Some(reason) = reasons.first() {
            self.submit_again(again, reason, book, files, cancel);
        }
    }

    fn submit_again(
        &mut self,
        parts: Vec<Part>,
        reason: &str,
        book: &mut Book,
        files: &Files,
        cancel: &AtomicBool,
    ) {
        let runs: Vec<RunName> = parts.iter().flat_map(|part| part.runs.clone()).collect();
        self.user.warn(&format!(
            "warning: {} tasks have ended without {} of their runs, which are submitted again: {reason}",
            parts.len(),
            runs.len()
        ));
        if let Err(error) = self.submit_array(parts, files, cancel)
            && !cancel.load(Relaxed)
        {
            let text: Arc<str> = format!("{reason}; and again: {error}").into();
            runs.iter().for_each(|name| book.fail(*name, &text));
        }
    }

    /// Why a task ended, as far as is known.
    fn reason(&self, array: u32, task: u32) -> String {
        if let Some(refusal) = self.refusals.get(&(array, task)) {
            return refusal.clone();
        }
        let (name, output) = (self.name(array), self.output(array, task));
        if output.trim().is_empty() {
            let folder = one_line(&self.folder.0.to_string_lossy());
            format!("task {task} of {name} wrote nothing: is {folder} there on its node?")
        } else {
            format!("task {task} of {name}: {}", one_line(&output))
        }
    }

    /// The end of a task's standard output and error.
    fn output(&self, array: u32, task: u32) -> String {
        end_of(&self.folder.output_of(array, &task.to_string())).unwrap_or_default()
    }

    /// Whether a task has left anything.
    fn began(&self, array: u32, task: u32) -> bool {
        let first = self.folder.answers_of(Copy { array, restart: 0, task });
        !self.output(array, task).trim().is_empty() || first.exists()
    }

    /// Cancels everything that has not ended.
    pub fn cancel(&mut self) {
        self.queued.clear();
        for left in (0..CANCELLATIONS).rev() {
            match self.journal.cancel(&self.slurm) {
                Ok(()) => return,
                Err(_) if left > 0 => std::thread::sleep(RETRY),
                Err(error) => {
                    let names = self.journal.names.join(", ");
                    self.user.warn(&format!(
                        "warning: {names} could not be cancelled: {error}\nhint: schedlab restore"
                    ));
                }
            }
        }
    }
}

/// A test of a submission fails also where all nodes are down for now: the submission itself decides.
fn may_be_down(words: &str) -> bool {
    let lower = words.to_lowercase();
    ["configuration is not available", "nodes are busy"].iter().any(|text| lower.contains(text))
}

/// The contents for the files of an array.
pub struct Files<'a> {
    pub job: &'a ArrayJob,
    pub machines: &'a [Option<GuestMachine>],
    pub shelf: &'a Shelf,
}

impl Files<'_> {
    fn write(&self, folder: &JobFolder, array: u32, parts: &[Part]) -> Result<(), FleetError> {
        let path = folder.array(array);
        fs::create_dir_all(&path).map_err(FleetError::io("make the folder", &path))?;
        put(&folder.job(array), &serde_json::to_vec(self.job)?)?;
        for (task, part) in (0..).zip(parts) {
            let mut positions: HashMap<u128, usize> = HashMap::new();
            let (mut specs, mut runs) = (Vec::new(), Vec::with_capacity(part.runs.len()));
            for name in &part.runs {
                let next = positions.len();
                let at = *positions.entry(name.spec).or_insert(next);
                if at == next {
                    specs.push(self.shelf.get(name.spec).map_err(FleetError::io("read", &path))?);
                }
                runs.push((at, name.seed));
            }
            let machine = self.machines.get(part.boot).and_then(Option::as_ref);
            put(&folder.batch(array, task), &Batch::text(machine, &specs, &runs)?)?;
        }
        Ok(())
    }
}

pub(super) fn end_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(OUTPUT_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let bytes = input::read_start(file, OUTPUT_BYTES)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(runs: u64) -> Part {
        let runs = (0..runs).map(|seed| RunName { spec: 1, seed }).collect();
        Part { runs, boot: 0, attempts: 0, launches: 0 }
    }

    #[test]
    fn a_part_is_given_up_after_attempts_in_a_row_that_brought_nothing() {
        let again = |part: Part, began| {
            let runs = part.runs.clone();
            part.left(runs, began)
        };
        let attempts = |began: bool| {
            let mut part = part(2);
            let mut attempts = 0;
            while !part.is_given_up() {
                part = again(part, began);
                attempts += 1;
            }
            assert_eq!(part.attempts, attempts);
            attempts
        };
        assert_eq!((attempts(true), attempts(false)), (MAX_ATTEMPTS, MAX_LAUNCHES));
        let twice = again(again(part(2), true), false);
        assert_eq!((twice.attempts, twice.launches), (2, 1));
        // One of its runs came.
        let left = twice.left(part(1).runs, true);
        assert_eq!((left.runs.len(), left.attempts, left.launches), (1, 0, 0));
    }

    #[test]
    fn a_task_that_did_not_begin_is_submitted_again_after_a_longer_time() {
        let now = Instant::now();
        let submitted = |launches, gone| Submitted {
            part: Part { launches, ..part(1) },
            array: 1,
            task: 0,
            is_running: false,
            reason: String::new(),
            gone,
        };
        assert!(!submitted(0, None).is_over(now + Duration::from_secs(9999)), "it is listed");
        for (launches, patience_s) in [(0, 3), (1, 6), (4, 48), (5, 48)] {
            let gone = submitted(launches, Some(now));
            let after = |ms| gone.is_over(now + Duration::from_millis(ms));
            assert!(!after(1000 * patience_s - 1) && after(1000 * patience_s), "{launches}");
        }
    }
}
