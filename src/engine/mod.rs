//! Runs a plan round by round and emits events. Never prints, never stores: sinks do. Time is
//! read only for the budget.
//!
//! A round is a pass over the works that are still wanted: those that are not decided and lack
//! clean rounds. A work's round holds all of its variants. A part of a plan has some of its rounds, or in the
//! lab runs of one boot after the other, some of which are a step.

mod check;
mod job;
#[cfg(test)]
pub mod testing;
mod turns;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::backend::{Backend, NotSaved, RunNews, SlowBoot};
use crate::model::{Cell, Coverage, Event, Outcome, PlanEnd, RunEnd, RunKey, RunSpec, Window};

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
    /// The console of the guest in which the run failed that ends next.
    Console(&'a Path),
    /// The code that the guest of the run executed that ends next.
    Covered(&'a Coverage),
}

/// The host does this to runs, or a guest that is slow.
#[derive(Debug, Clone, PartialEq)]
pub enum HostNews {
    /// The share of a CPU that a run gets, where that is little.
    Starved {
        share: f64,
    },
    SlowBoot(SlowBoot),
    /// A booted machine is of no use to another plan.
    NotSaved(NotSaved),
    /// It ended a run.
    Ended {
        key: RunKey,
        reason: String,
        is_made_again: bool,
    },
}

/// How a job has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEnd {
    pub end: PlanEnd,
    /// A reason for each run that is missing, since the host ended it each time.
    pub host_ended: Vec<String>,
    /// The host's time for all of the plan's runs; `None` where some results were known before.
    pub took: Option<Duration>,
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
    let (runs_before, looked_up) = (job.runs_done(), backend.looked_up());
    let started = Instant::now();
    let end = execute_rounds(&mut job, backend, cancel, emit, open_works)?;
    let may_calibrate = has_timed_work && end != PlanEnd::Interrupted;
    let calibration = may_calibrate.then(|| backend.calibrate()).flatten();
    let made_all = runs_before == 0 && backend.looked_up() == looked_up;
    let took = made_all.then(|| started.elapsed());
    let ended = JobEnd { end, host_ended: job.host_ended, took };
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
    // The next round to announce, and the number of runs that are announced and not done.
    let (mut next, mut ahead) = (first, 0);
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
            while next <= step || next < job.sure_steps() && ahead < backend.runs_ahead() {
                let runs = job.missing(next, &open);
                announce(job, &runs, backend);
                ahead += runs.len();
                next += 1;
            }
            ahead = ahead.saturating_sub(runs);
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
            pace.add(round_started.elapsed(), runs);
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
    /// A round of so many runs that has ended.
    fn add(&mut self, round: Duration, runs: usize) {
        self.slowest_run = self.slowest_run.max(round / runs as u32);
    }

    fn leaves_time_for(&self, runs: usize, budget: Option<Duration>) -> bool {
        let needed = self.slowest_run.saturating_mul(runs as u32);
        let fits = budget.is_none_or(|budget| self.started.elapsed() + needed <= budget);
        fits || self.slowest_run.is_zero()
    }
}

fn announce(job: &Job, missing: &[RunKey], backend: &mut dyn Backend) {
    let plan = &job.started.plan;
    for groups in turns::groups(plan, missing).chunks(ANNOUNCED_AT_ONCE) {
        let spec = |keys: &Vec<RunKey>| {
            let cells = checked(job, backend, keys[0]);
            let cells = cells.into_iter().filter_map(|(_, cell)| cell.ok()).collect();
            turns::order(cells, keys[0].round, plan, job.kop_ps())
        };
        let specs = groups.iter().filter_map(spec).collect();
        backend.announce(specs);
    }
}

/// The runs that are made with this one, each with its cell, or why it cannot run.
fn checked(
    job: &Job,
    backend: &dyn Backend,
    key: RunKey,
) -> Vec<(RunKey, Result<Cell, CannotRun>)> {
    let started = &job.started;
    let check = |key: RunKey| {
        let cell = &started.cells[key.cell as usize];
        (key, check(backend, cell, &started.environment.topology))
    };
    turns::together(&started.plan, key).into_iter().map(check).collect()
}

/// The missing runs of a round; `false` if it was interrupted.
fn execute_round<E>(
    job: &mut Job,
    missing: Vec<RunKey>,
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    emit: &mut Emit<E>,
) -> Result<bool, E> {
    for keys in turns::groups(&job.started.plan, &missing) {
        if cancel.load(Relaxed) {
            return Ok(false);
        }
        let mut cells = Vec::new();
        for (key, cell) in checked(job, backend, keys[0]) {
            match cell {
                Ok(cell) => cells.push((key, cell)),
                Err(reason) if keys.contains(&key) => {
                    let outcome = Outcome::Skipped { reason: reason.to_string() };
                    emit(Emitted::Event(&Event::RunEnded { key, outcome }))?;
                    job.add(key, false);
                }
                Err(_) => {}
            }
        }
        // Some that are made together may have their results already.
        let run: Vec<RunKey> = cells.iter().map(|(key, _)| *key).collect();
        let wanted = |key: &RunKey| keys.contains(key);
        if !run.iter().any(wanted) {
            continue;
        }
        let cells = cells.into_iter().map(|(_, cell)| cell).collect();
        let Some(spec) = turns::order(cells, keys[0].round, &job.started.plan, job.kop_ps()) else {
            continue;
        };
        match execute_run(job, &spec, &run, &wanted, backend, cancel, emit)? {
            Executed::Ended => {}
            Executed::HostEnded { reason } => {
                keys.iter()
                    .filter(|key| run.contains(key))
                    .for_each(|key| job.miss(*key, reason.clone()));
            }
            Executed::Interrupted => return Ok(false),
        }
    }
    emit(Emitted::Pause)?;
    Ok(true)
}

/// A run came to this.
enum Executed {
    Ended,
    HostEnded { reason: String },
    Interrupted,
}

/// Executes a run of one variant or, in turns, of all in `run`. Emits it as a run of its own for each that is
/// `wanted`, the first while it lasts and the others after it.
fn execute_run<E>(
    job: &mut Job,
    spec: &RunSpec,
    run: &[RunKey],
    wanted: &dyn Fn(&RunKey) -> bool,
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    emit: &mut Emit<E>,
) -> Result<Executed, E> {
    let first = run.iter().position(wanted).unwrap_or(0);
    let key = run[first];
    emit(Emitted::Event(&Event::RunStarted { key }))?;
    let mut emitted = Ok(());
    if !backend.has_answer(spec) {
        emit(Emitted::Pause)?;
    }
    let mut later: Vec<Vec<Window>> = vec![Vec::new(); run.len()];
    let ended = backend.run_again_if_ended(spec, cancel, &mut |news| {
        if emitted.is_ok() {
            emitted = emit_news(key, first, news, &mut later, emit);
        }
    });
    emitted?;
    let outcome = match ended {
        RunEnd::Interrupted => return Ok(Executed::Interrupted),
        RunEnd::HostEnded { reason } => {
            let news = HostNews::Ended { key, reason: reason.clone(), is_made_again: false };
            emit(Emitted::Host(&news))?;
            return Ok(Executed::HostEnded { reason });
        }
        RunEnd::Finished(outcome) => outcome,
    };
    job.count_failure(&outcome);
    let outcomes = turns::divided_outcome(outcome, run.len()).into_iter().zip(later);
    for (&key, (outcome, windows)) in run.iter().zip(outcomes).filter(|(key, _)| wanted(key)) {
        if key != run[first] {
            emit(Emitted::Event(&Event::RunStarted { key }))?;
        }
        for window in windows {
            emit(Emitted::Event(&Event::Window { key, window }))?;
        }
        job.add(key, outcome.is_spoilt());
        emit(Emitted::Event(&Event::RunEnded { key, outcome }))?;
    }
    // The next answer of a backend that makes several runs at once may be there.
    if backend.runs_ahead() == 0 {
        emit(Emitted::Pause)?;
    }
    Ok(Executed::Ended)
}

/// Emits the windows of the first variant, and keeps those of the others for `later`.
fn emit_news<E>(
    key: RunKey,
    first: usize,
    news: RunNews,
    later: &mut [Vec<Window>],
    emit: &mut Emit<E>,
) -> Result<(), E> {
    match news {
        RunNews::Window(window) => {
            let windows = turns::divided_window(window, later.len());
            for (variant, window) in windows.into_iter().enumerate().take(later.len()) {
                if variant == first {
                    emit(Emitted::Event(&Event::Window { key, window }))?;
                } else {
                    later[variant].push(window);
                }
            }
            Ok(())
        }
        RunNews::Starved { share } => emit(Emitted::Host(&HostNews::Starved { share })),
        RunNews::SlowBoot(boot) => emit(Emitted::Host(&HostNews::SlowBoot(boot))),
        RunNews::NotSaved(why) => emit(Emitted::Host(&HostNews::NotSaved(why))),
        RunNews::ConsoleKept { path } => emit(Emitted::Console(&path)),
        RunNews::Covered(coverage) => emit(Emitted::Covered(&coverage)),
        RunNews::Again { reason } => {
            later.iter_mut().for_each(Vec::clear);
            emit(Emitted::Host(&HostNews::Ended { key, reason, is_made_again: true }))?;
            emit(Emitted::Event(&Event::RunStarted { key }))
        }
    }
}

#[cfg(test)]
mod tests;
