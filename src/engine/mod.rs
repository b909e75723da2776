//! Runs a plan round by round and emits events. Never prints, never stores: sinks do. Time is
//! read only for the budget.
//!
//! A round is a pass over the works that are still wanted: those that are not decided and lack
//! clean rounds. A work's round holds all of its variants. A part of a plan has some of its rounds, or in the
//! lab runs of one boot after the other, some of which are a step.

mod check;
mod job;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::backend::{Backend, RunNews};
use crate::model::{Cell, Event, Outcome, Plan, PlanEnd, RunEnd, RunKey, RunSpec, WIRE_VERSION};

pub use check::{CannotRun, check};
pub use job::Job;

/// Number of runs that are announced together: specs are larger than the data that a backend keeps of them.
const ANNOUNCED_AT_ONCE: usize = 256;

/// Asked after each round, and when a plan is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    /// Only these count: of the next one some runs may be done already.
    pub rounds_done: u32,
    /// The plan is resumed: the works that earlier looks decided are needed, too.
    pub is_resumed: bool,
}

/// Answers a [`Poll`]: the positions of the works that are still open, or `None` where that is
/// not looked at now.
pub type OpenWorks<'a> = dyn FnMut(Poll) -> Option<BTreeSet<usize>> + 'a;

/// A sink gets this.
#[derive(Debug, Clone, Copy)]
pub enum Emitted<'a> {
    Event(&'a Event),
    /// No event follows soon: nothing may wait for others any longer.
    Pause,
    Host(&'a HostNews),
}

/// The host does this to runs.
#[derive(Debug, Clone, PartialEq)]
pub enum HostNews {
    /// The share of a CPU that a run gets, where that is little.
    Starved { share: f64 },
    /// A booted machine that could not be kept: the next plan boots it again.
    NotKept { reason: String },
    /// It ended a run.
    Ended { key: RunKey, reason: String, is_made_again: bool },
}

/// How a job has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnd {
    pub end: PlanEnd,
    /// A reason for each run that is missing, since the host ended it each time.
    pub host_ended: Vec<String>,
}

impl JobEnd {
    /// The end that is stored: a plan with missing runs can be resumed.
    pub fn stored(&self) -> PlanEnd {
        if self.host_ended.is_empty() { self.end } else { PlanEnd::Interrupted }
    }
}

type Emit<'a, E> = dyn FnMut(Emitted) -> Result<(), E> + 'a;

/// Executes the missing runs of a job. The first missing round runs even if the budget is spent, as do
/// [`Job::min_rounds`]; a further one begins only if it can end within it, judged by the slowest round so far.
/// `emit` gets every event as it happens, and a pause before anything that takes time; its error ends the plan at
/// once (a result that cannot be stored must not be followed by others). If all runs of the first round fail, it is
/// the last. A run that the host ends is made again once, and then left for another time.
pub fn execute<E>(
    mut job: Job,
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    emit: &mut Emit<E>,
    open_works: &mut OpenWorks,
) -> Result<JobEnd, E> {
    emit(Emitted::Event(&Event::PlanStarted(Box::new(job.started.clone()))))?;
    let has_timed_work = job.started.environment.calibration.is_some();
    let end = execute_rounds(&mut job, backend, cancel, emit, open_works)?;
    let may_calibrate = has_timed_work && end != PlanEnd::Interrupted;
    let calibration = may_calibrate.then(|| backend.calibrate()).flatten();
    let ended = JobEnd { end, host_ended: job.host_ended };
    emit(Emitted::Event(&Event::PlanEnded { reason: ended.stored(), calibration }))?;
    Ok(ended)
}

fn execute_rounds<E>(
    job: &mut Job,
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    emit: &mut Emit<E>,
    open_works: &mut OpenWorks,
) -> Result<PlanEnd, E> {
    let mut pace = Pace { started: Instant::now(), slowest_run: Duration::ZERO };
    let mut open: BTreeSet<usize> = (0..job.started.plan.works.len()).collect();
    // A part alone decides nothing.
    let is_part = job.part.is_some();
    let mut look = |poll| if is_part { None } else { open_works(poll) };
    let first = if job.started.plan.measure.until_decided { job.first_open_round() } else { 0 };
    let resumed = Poll { rounds_done: first, is_resumed: true };
    if let Some(still_open) = job.done.last().and_then(|_| look(resumed)) {
        open = still_open;
    }
    let announced = if backend.takes_all_rounds() { job.sure_steps() } else { first };
    for step in first..announced {
        announce(job, &job.missing(step, &open), backend);
    }
    for step in first.. {
        if job.wanted(step, &open).is_empty() {
            break;
        }
        let missing = job.missing(step, &open);
        if !missing.is_empty() {
            let is_owed = step < job.min_rounds;
            if !is_owed && !pace.leaves_time_for(missing.len(), job.budget) {
                return Ok(PlanEnd::Budget);
            }
            let round_started = Instant::now();
            let runs = missing.len();
            if step >= announced {
                announce(job, &missing, backend);
            }
            if !execute_round(job, missing, backend, cancel, emit)? {
                return Ok(PlanEnd::Interrupted);
            }
            if job.fails_from_the_first() {
                return Ok(PlanEnd::Complete);
            }
            // A look must not see a round with missing runs.
            if job.started.plan.measure.until_decided && !job.host_ended.is_empty() {
                return Ok(PlanEnd::Complete);
            }
            pace.slowest_run = pace.slowest_run.max(round_started.elapsed() / runs as u32);
        }
        if let Some(still_open) = look(Poll { rounds_done: step + 1, is_resumed: false }) {
            open = still_open;
        }
    }
    Ok(if open.is_empty() { PlanEnd::Decided } else { PlanEnd::Complete })
}

/// How long rounds take.
struct Pace {
    started: Instant,
    /// The mean of its round, so that runs at the same time count once.
    slowest_run: Duration,
}

impl Pace {
    fn leaves_time_for(&self, runs: usize, budget: Option<Duration>) -> bool {
        let needed = self.slowest_run.saturating_mul(runs as u32);
        let fits = budget.is_none_or(|budget| self.started.elapsed() + needed <= budget);
        fits || self.slowest_run.is_zero()
    }
}

fn announce(job: &Job, missing: &[RunKey], backend: &mut dyn Backend) {
    let machine = &job.started.environment.topology;
    for missing in missing.chunks(ANNOUNCED_AT_ONCE) {
        let cells = missing.iter().map(|key| (key, &job.started.cells[key.cell as usize]));
        let specs = cells.filter_map(|(key, cell)| {
            let cell = check(backend, cell, machine).ok()?;
            Some(order_run(cell, *key, &job.started.plan, job.kop_ps()))
        });
        let specs = specs.collect();
        backend.announce(specs);
    }
}

/// The missing runs of a round; `false` if it was interrupted.
fn execute_round<E>(
    job: &mut Job,
    missing: Vec<RunKey>,
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    emit: &mut Emit<E>,
) -> Result<bool, E> {
    for key in missing {
        match execute_run(job, key, backend, cancel, emit)? {
            Executed::Ended { is_spoilt } => job.add(key, is_spoilt),
            Executed::HostEnded { reason } => job.miss(key, reason),
            Executed::Interrupted => return Ok(false),
        }
    }
    emit(Emitted::Pause)?;
    Ok(true)
}

/// A run came to this.
enum Executed {
    Ended { is_spoilt: bool },
    HostEnded { reason: String },
    Interrupted,
}

fn execute_run<E>(
    job: &mut Job,
    key: RunKey,
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    emit: &mut Emit<E>,
) -> Result<Executed, E> {
    if cancel.load(Relaxed) {
        return Ok(Executed::Interrupted);
    }
    let cell = &job.started.cells[key.cell as usize];
    let cell = match check(backend, cell, &job.started.environment.topology) {
        Ok(cell) => cell,
        Err(reason) => {
            let reason = reason.to_string();
            emit(Emitted::Event(&Event::RunEnded { key, outcome: Outcome::Skipped { reason } }))?;
            return Ok(Executed::Ended { is_spoilt: false });
        }
    };
    emit(Emitted::Event(&Event::RunStarted { key }))?;
    let mut emitted = Ok(());
    let spec = order_run(cell, key, &job.started.plan, job.kop_ps());
    if !backend.has_answer(&spec) {
        emit(Emitted::Pause)?;
    }
    let ended = backend.run_again_if_ended(&spec, cancel, &mut |news| {
        if emitted.is_ok() {
            emitted = emit_news(key, news, emit);
        }
    });
    emitted?;
    match ended {
        RunEnd::Interrupted => Ok(Executed::Interrupted),
        RunEnd::HostEnded { reason } => {
            let news = HostNews::Ended { key, reason: reason.clone(), is_made_again: false };
            emit(Emitted::Host(&news))?;
            Ok(Executed::HostEnded { reason })
        }
        RunEnd::Finished(outcome) => {
            let is_spoilt = outcome.is_spoilt();
            job.count_failure(&outcome);
            emit(Emitted::Event(&Event::RunEnded { key, outcome }))?;
            // Only a fleet may have the next answer by now.
            if !backend.takes_all_rounds() {
                emit(Emitted::Pause)?;
            }
            Ok(Executed::Ended { is_spoilt })
        }
    }
}

fn emit_news<E>(key: RunKey, news: RunNews, emit: &mut Emit<E>) -> Result<(), E> {
    match news {
        RunNews::Window(window) => emit(Emitted::Event(&Event::Window { key, window })),
        RunNews::Starved { share } => emit(Emitted::Host(&HostNews::Starved { share })),
        RunNews::NotKept { reason } => emit(Emitted::Host(&HostNews::NotKept { reason })),
        RunNews::Again { reason } => {
            emit(Emitted::Host(&HostNews::Ended { key, reason, is_made_again: true }))?;
            emit(Emitted::Event(&Event::RunStarted { key }))
        }
    }
}

/// The seed depends on plan and round alone: in one round all variants draw the same.
fn order_run(cell: Cell, key: RunKey, plan: &Plan, kop_ps: Option<u64>) -> RunSpec {
    let measure = &plan.measure;
    let section_ns = measure.warmup_ns.saturating_add(measure.duration_ns);
    RunSpec {
        wire: WIRE_VERSION,
        cell,
        warmup_ns: measure.warmup_ns,
        duration_ns: measure.duration_ns,
        window_ns: measure.window_ns,
        limit_ns: section_ns.saturating_add(measure.grace_ns),
        seed: measure.seed_of(key.round),
        probes: plan.probes.clone(),
        kop_ps,
        executed: plan.lab.executed,
        model: Default::default(),
        start_unix_ns: None,
        cgroups: Default::default(),
    }
}

#[cfg(test)]
mod tests;
