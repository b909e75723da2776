//! Runs on the nodes of a cluster. A fleet wraps a backend and is a backend itself: announced runs become job
//! arrays, and a run waits for its answer to appear in the folder that controller and nodes share. So the
//! order of runs, the stored data and resuming are the same as without a fleet.
//!
//! Answers stay on the disk until their turn: memory holds only the place of each one. See docs/fleet.md.

mod answers;
mod arrays;
mod batches;
mod book;
mod config;
mod error;
mod folder;
mod hosts;
mod journal;
mod shelf;
mod slurm;
mod task;
mod wire;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::model::{
    Advice, Calibration, Cell, Environment, GuestTime, Lab, Outcome, PlanEnd, RunEnd, RunSpec,
};

use super::contract::{Backend, GuestMachine, Mode, News, RunNews};
use super::error::BackendError;
use answers::{AnswerReader, Place};
use arrays::{Arrays, Files, Queued};
use book::{Book, Found};
use folder::JobFolder;
use journal::Journal;
use shelf::Shelf;
use slurm::{Slurm, one_line};
use wire::{Answer, ArrayJob, FORMAT, Line, Node, RunName, Subject};

pub use config::{FleetConfig, User};
pub use error::FleetError;
pub use folder::{default_folder, name_part};
pub use hosts::{Hosts, asked_of_host};
pub use journal::cancel_left;
pub use slurm::SlurmOptions;
pub use task::{TaskEnd, run_task};
pub use wire::Line as AnswerLine;

/// Interval between checks for an interruption.
const TICK: Duration = Duration::from_millis(100);
/// Interval between two scans for answers; a scan takes a small part of it.
const SCAN_INTERVAL: Duration = Duration::from_millis(300);
const MAX_SCAN_INTERVAL: Duration = Duration::from_secs(3);
const SCAN_PART: u32 = 20;
/// Interval between two lines about the progress.
const NEWS_INTERVAL: Duration = Duration::from_secs(10);

enum Waited {
    Answered(Answer),
    /// No task gives it.
    GivenUp {
        reason: String,
    },
    Interrupted,
}

pub struct Fleet {
    inner: Box<dyn Backend>,
    folder: JobFolder,
    job: ArrayJob,
    arrays: Arrays,
    reader: AnswerReader,
    /// The nodes by the position of their file.
    nodes: HashMap<usize, Node>,
    book: Book,
    shelf: Shelf,
    machines: Vec<Option<GuestMachine>>,
    /// The position of a spec's machine, by the digest of the spec.
    machine_of: HashMap<u128, usize>,
    next_scan: Instant,
    next_news: Instant,
    news: String,
    cpus: BTreeSet<String>,
    /// Answers of one run that are not equal.
    differing: Vec<String>,
    /// The next run, once it was asked for.
    asked: Option<RunName>,
    fault: Option<FleetError>,
    is_concluded: bool,
}

impl Fleet {
    /// Fails if nothing could be submitted. Cancels what a killed schedlab left of this plan.
    /// `backend` names the backend that the nodes use.
    pub fn new(
        inner: Box<dyn Backend>,
        config: FleetConfig,
        backend: String,
        lab: Lab,
        mode: Mode,
    ) -> Result<Fleet, FleetError> {
        let FleetConfig { id, state, folder, slurm, user } = config;
        let slurm = Slurm::find(slurm)?;
        let path = folder.join(folder::name_part(&id));
        let is_new = !path.exists();
        if is_new {
            Journal::open(&state, &id).begin(&path)?;
        }
        let folder = JobFolder::make(&path)?;
        let program = task::program_digest()?;
        let job = ArrayJob { format: FORMAT, backend, lab, mode, program };
        let arrays = Arrays::open(&state, &id, slurm, folder.clone(), user).inspect_err(|_| {
            // Nothing was submitted, so nobody uses it.
            if is_new {
                _ = std::fs::remove_dir_all(&folder.0);
                Journal::open(&state, &id).forget();
            }
        })?;
        let now = Instant::now();
        Ok(Fleet {
            inner,
            job,
            arrays,
            reader: AnswerReader::new(folder.clone()),
            shelf: Shelf::make(&folder.specs())?,
            folder,
            nodes: HashMap::new(),
            book: Book::default(),
            machines: Vec::new(),
            machine_of: HashMap::new(),
            next_scan: now,
            next_news: now + NEWS_INTERVAL,
            news: String::new(),
            cpus: BTreeSet::new(),
            differing: Vec::new(),
            asked: None,
            fault: None,
            is_concluded: false,
        })
    }

    /// Queues a run, unless its answer is already known.
    fn queue(&mut self, spec: &RunSpec) -> Result<RunName, FleetError> {
        let (name, text) = RunName::from_spec(spec)?;
        if !self.book.announce(name) {
            return Ok(name);
        }
        let machine = match self.machine_of.get(&name.spec) {
            Some(known) => *known,
            None => match self.inner.guest_machine(&spec.cell) {
                Ok(machine) => self.machine(name, machine),
                Err(error) => {
                    self.book.fail(name, &error.reason().into());
                    return Ok(name);
                }
            },
        };
        self.shelf.put(name.spec, &text)?;
        // The answer may come from an earlier schedlab or from nodes with other parts.
        if let Some(found) = self.book.found(name)
            && !self.is_of_here(found.place.file, machine)
        {
            self.book.forget(name);
        }
        if self.book.found(name).is_none() {
            self.arrays.add(Queued { name, boot: machine });
        }
        Ok(name)
    }

    fn machine(&mut self, name: RunName, machine: Option<GuestMachine>) -> usize {
        let known = self.machines.iter().position(|known| *known == machine);
        let at = known.unwrap_or_else(|| {
            self.machines.push(machine);
            self.machines.len() - 1
        });
        self.machine_of.insert(name.spec, at);
        at
    }

    fn is_of_here(&self, file: usize, machine: usize) -> bool {
        let Some(node) = self.nodes.get(&file) else { return false };
        let digest =
            |machine: &Option<GuestMachine>| machine.as_ref().map(|made| made.digest.clone());
        node.program == self.job.program && digest(&node.machine) == digest(&self.machines[machine])
    }

    /// Waits for the answer of a run.
    fn wait_for(&mut self, spec: &RunSpec, cancel: &AtomicBool) -> Result<Waited, FleetError> {
        let name = self.asked.take().map_or_else(|| self.queue(spec), Ok)?;
        loop {
            if let Some(found) = self.book.take(name) {
                return self.answer(&found).map(Waited::Answered);
            }
            if let Some(reason) = self.book.failed(name) {
                // This is not the run's own fault, so it can be run another time.
                if !self.folder.answers().is_dir() {
                    return Err(FleetError::FolderGone { path: self.folder.0.clone() });
                }
                return Ok(Waited::GivenUp { reason: reason.to_string() });
            }
            if cancel.load(Relaxed) {
                return Ok(Waited::Interrupted);
            }
            let has_new = Instant::now() >= self.next_scan;
            if has_new {
                self.scan();
            }
            let files = Files { job: &self.job, machines: &self.machines, shelf: &self.shelf };
            self.arrays.submit(&files, cancel)?;
            if has_new {
                self.arrays.look(&mut self.book, &files, cancel);
                self.report();
            }
            if self.book.is_missing(name) {
                std::thread::sleep(TICK);
            }
        }
    }

    fn answer(&self, found: &Found) -> Result<Answer, FleetError> {
        let path = self.reader.path(found.place.file);
        let line = self.reader.read(&found.place).map_err(FleetError::io("read", &path))?;
        let answer = Line::parse(&line).and_then(|line| serde_json::from_slice(line.json).ok());
        let no_answer =
            || failed(format!("{} has no answer for it", one_line(&path.to_string_lossy())));
        Ok(answer.unwrap_or_else(no_answer))
    }

    /// Reads new lines of the tasks.
    fn scan(&mut self) {
        let began = Instant::now();
        let mut lines: Vec<(Place, Subject, String, Vec<u8>)> = Vec::new();
        let mut rubbish = Vec::new();
        let mut on_line = |place: Place, line: Line| {
            let json = if line.subject == Subject::Node { line.json.to_vec() } else { Vec::new() };
            lines.push((place, line.subject, line.sum.to_string(), json));
        };
        let read = self.reader.scan(&mut on_line, &mut |path| rubbish.push(path.to_path_buf()));
        for path in rubbish {
            let path = one_line(&path.to_string_lossy());
            self.arrays.user.warn(&format!(
                "warning: {path} has a line that cannot be read as an answer of a run: left out"
            ));
        }
        if let Err(error) = read {
            self.arrays
                .wait_for(&format!("cannot read {}: {error}", self.folder.answers().display()));
        }
        for (place, subject, sum, json) in lines {
            let copy = self.reader.copy(place.file);
            match subject {
                Subject::Run(name) => {
                    let found = Found::new(place, copy, &sum);
                    if let Some(before) = self.book.add(name, found.clone()) {
                        self.compare(&before, &found);
                    }
                }
                Subject::Node => {
                    if let Ok(node) = serde_json::from_slice::<Node>(&json) {
                        self.meet(place.file, node);
                    }
                }
            }
        }
        let pause = (began.elapsed() * SCAN_PART).clamp(SCAN_INTERVAL, MAX_SCAN_INTERVAL);
        self.next_scan = Instant::now() + pause;
    }

    /// A node that has begun a task.
    fn meet(&mut self, file: usize, node: Node) {
        if let Some(reason) = &node.refused {
            self.arrays.refuse(self.reader.copy(file), &node.name, reason);
        }
        let cpu = one_line(&node.cpu);
        if self.cpus.insert(cpu.clone()) && self.cpus.len() > 1 {
            let name = one_line(&node.name);
            self.arrays
                .user
                .warn(&format!("node {name} has another type of CPU than others: {cpu}"));
        }
        self.nodes.insert(file, node);
    }

    /// Two answers of one run have different digests: exact answers must be equal.
    fn compare(&mut self, before: &Found, after: &Found) {
        let exact = |found: &Found| {
            let answer = self.answer(found).ok()?;
            let Outcome::Done { result } = &answer.outcome else { return None };
            let is_exact = result.guest.as_ref().is_none_or(|guest| guest.time == GuestTime::Exact);
            is_exact.then_some(answer)
        };
        if let (Some(first), Some(second)) = (exact(before), exact(after))
            && first != second
        {
            let place = |found: &Found| {
                let file = found.place.file;
                let node = self.nodes.get(&file).map_or("?", |node| node.name.as_str());
                format!(
                    "{} (node {})",
                    one_line(&self.reader.path(file).to_string_lossy()),
                    one_line(node)
                )
            };
            let text = format!("{} and {}", place(before), place(after));
            self.arrays.user.warn(&format!("ALARM: different answers for one run: {text}"));
            if !self.differing.contains(&text) {
                self.differing.push(text);
            }
        }
    }

    /// Reports the progress now and then, if it has changed.
    fn report(&mut self) {
        if Instant::now() < self.next_news {
            return;
        }
        self.next_news = Instant::now() + NEWS_INTERVAL;
        let news = format!("slurm: {}; {} answered", self.arrays.progress(), self.book.progress());
        if news != self.news {
            self.arrays.user.inform(&news);
            self.news = news;
        }
    }
}

fn failed(reason: String) -> Answer {
    Answer { windows: Vec::new(), outcome: Outcome::Failed { reason } }
}

impl Backend for Fleet {
    fn environment(&self) -> Environment {
        self.inner.environment()
    }

    fn prepare(&self, cells: &[Cell], needs_all: bool) -> Result<(), BackendError> {
        self.inner.prepare(cells, needs_all)
    }

    fn check(&self, cell: &Cell) -> Result<(), BackendError> {
        self.inner.check(cell)
    }

    fn guests(&self) -> Option<(Lab, Option<String>)> {
        self.inner.guests()
    }

    fn calibrate(&self) -> Option<Calibration> {
        self.inner.calibrate()
    }

    fn guest_machine(&self, cell: &Cell) -> Result<Option<GuestMachine>, BackendError> {
        self.inner.guest_machine(cell)
    }

    fn runs_ahead(&self) -> usize {
        usize::MAX
    }

    fn announce(&mut self, specs: Vec<RunSpec>) {
        // The first announcement also collects the answers that an interrupted schedlab left.
        if self.nodes.is_empty() {
            self.scan();
        }
        for spec in &specs {
            if let Err(error) = self.queue(spec) {
                self.fault.get_or_insert(error);
            }
        }
    }

    fn has_answer(&mut self, spec: &RunSpec) -> bool {
        // `run` reports a fault.
        self.asked = self.queue(spec).ok();
        self.asked.is_some_and(|name| !self.book.is_missing(name))
    }

    fn run(&mut self, spec: &RunSpec, cancel: &AtomicBool, on_news: &mut News) -> RunEnd {
        let answer = match self.fault {
            Some(_) => Ok(Waited::Interrupted),
            None => self.wait_for(spec, cancel),
        };
        match answer {
            Ok(Waited::Answered(Answer { windows, outcome })) => {
                windows.into_iter().map(RunNews::Window).for_each(on_news);
                return RunEnd::Finished(outcome);
            }
            Ok(Waited::GivenUp { reason }) => return RunEnd::HostEnded { reason },
            Ok(Waited::Interrupted) => {}
            // An error after an interruption is not a fault.
            Err(_) if cancel.load(Relaxed) => {}
            Err(error) => _ = self.fault.get_or_insert(error),
        }
        self.arrays.cancel();
        RunEnd::Interrupted
    }

    /// The tasks run it again themselves.
    fn run_again_if_ended(
        &mut self,
        spec: &RunSpec,
        cancel: &AtomicBool,
        on_news: &mut News,
    ) -> RunEnd {
        self.run(spec, cancel, on_news)
    }

    fn conclude(&mut self, end: PlanEnd) -> Result<(), BackendError> {
        self.is_concluded = true;
        self.scan();
        self.arrays.cancel();
        if let Some(fault) = self.fault.take() {
            return Err(fault.into());
        }
        if !self.differing.is_empty() {
            let (pairs, folder) = (std::mem::take(&mut self.differing), self.folder.0.clone());
            return Err(FleetError::Differ { pairs, folder }.into());
        }
        if end != PlanEnd::Interrupted {
            // The folder stays if a second copy of a task still writes into it.
            _ = std::fs::remove_dir_all(&self.folder.0);
        }
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if !self.is_concluded {
            self.arrays.cancel();
        }
    }
}
