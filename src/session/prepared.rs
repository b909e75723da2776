//! A job that is ready to run.

use crate::analysis;
use crate::backend::Backend;
use crate::engine::{self, CannotRun, Job};
use crate::model::{Cell, Judged, PlanStarted, Problem, clean};

use super::SessionError;
use super::backends::entry;
use super::request::{Purpose, Request};

/// A job, its backend, and the request that they were made for.
pub struct Prepared {
    pub request: Request,
    pub job: Job,
    pub backend: Box<dyn Backend>,
}

impl Prepared {
    /// The metrics that are judged while the plan runs: those of a test's expectations, else those asked for.
    pub fn judged(&self) -> Judged {
        let asked = &self.request.judged;
        match self.request.purpose {
            Purpose::Run | Purpose::Try => asked.clone(),
            Purpose::Test => {
                let expectations = &self.job.started.plan.expectations;
                asked.with_metrics(analysis::expected_metrics(expectations))
            }
        }
    }

    /// Fails where the backend cannot run the plan, or its variants cannot take turns. A test says nothing of what its
    /// plan expects where a kernel is missing.
    pub(super) fn check_backend(&self) -> Result<(), SessionError> {
        let PlanStarted { plan, cells, environment, .. } = &self.job.started;
        // The nodes of a fleet have kernels of their own.
        let needs_all = self.request.purpose == Purpose::Test && self.request.fleet.is_none();
        self.backend.prepare(cells, needs_all)?;
        if plan.measure.turns_ns.is_none() {
            return Ok(());
        }
        let check = |cell| engine::check(&*self.backend, cell, &environment.topology).ok();
        let cells = cells.iter().filter_map(check);
        let works = analysis::grouped(cells.map(|cell| (plan.work_of(cell.index), cell)));
        works.iter().try_for_each(|(_, cells)| Ok(self.backend.check_turns(cells)?))
    }

    /// Fails where a file that the plan names is not there. The nodes of a fleet may have it.
    pub fn check_files(&self) -> Result<(), SessionError> {
        self.refused().map(|_| ())
    }

    /// Cells that cannot run here, with their places; fails as [`Prepared::check_files`] does.
    fn refused(&self) -> Result<Vec<(CannotRun, String)>, SessionError> {
        let PlanStarted { cells, environment, .. } = &self.job.started;
        let check = |cell: &Cell| {
            let why = engine::check(&*self.backend, cell, &environment.topology).err()?;
            Some((why, cell.place()))
        };
        let refused: Vec<(CannotRun, String)> = cells.iter().filter_map(check).collect();
        for (why, place) in refused.iter().filter(|_| self.request.fleet.is_none()) {
            if let CannotRun::Wrong(Problem { message, hint }) = why {
                let message = clean(&format!("{place}: {message}"));
                return Err(SessionError::Usage(Problem { message, hint: hint.clone() }));
            }
        }
        Ok(refused)
    }

    /// Fails where a file that the plan names is not there, not one cell can run here, or not all can and each needs its
    /// verdict, before anything is stored.
    pub fn check_cells(&self) -> Result<(), SessionError> {
        let cells = &self.job.started.cells;
        // The nodes of a fleet may have more than this machine.
        let needs_all = self.request.needs_verdicts && self.request.fleet.is_none();
        let reasons = self.refused()?;
        let what = match reasons.len() {
            0 => return Ok(()),
            some if some < cells.len() && !needs_all => return Ok(()),
            all if all == cells.len() => "no run of the plan can be made here",
            _ => "not all runs of the plan can be made here, and --fail-on judges all",
        };
        let is_all = reasons.len() == cells.len();
        let reasons = analysis::grouped(reasons);
        let problems = || reasons.iter().map(|(why, places)| (why.problem(), places));
        // Places say nothing where one reason holds for all.
        let line = |why: Problem, places: &[String]| match reasons.len() {
            1 if is_all => why.message,
            _ => format!("{}: {}", places.join(", "), why.message),
        };
        let lines: Vec<String> = problems().map(|(why, places)| line(why, places)).collect();
        let lines = lines.join("; ");
        let text = format!("{what}: {lines}");
        let is_here = entry(&self.job.started.backend)?.capabilities.touches_machine;
        let in_lab = || is_here.then(|| "a plan of the lab runs there: --backend lab".to_string());
        let hint = problems().find_map(|(why, _)| why.hint).or_else(in_lab);
        Err(SessionError::Here(Problem { message: clean(&text), hint }))
    }
}

/// Rounds of a plan until it is decided that are done whatever its budget: the seeds of a lab, whose
/// answer then depends on the time only where they are not enough. And those without which nothing can be
/// said.
pub(super) fn set_rounds(job: &mut Job) -> Result<(), SessionError> {
    let has_seeds = entry(&job.started.backend)?.capabilities.guests;
    let plan = &job.started.plan;
    if plan.measure.until_decided && has_seeds {
        job.min_rounds = plan.lab.seeds.min(plan.measure.rounds);
    }
    job.needed_rounds = analysis::needed_rounds(plan);
    Ok(())
}
