//! A plan from its request to a job and the backend that is ready for it. Nothing is stored and nothing runs.

use crate::backend::Backend;
use crate::engine::Job;
use crate::model::{Cell, EVENT_SCHEMA, Environment, Lab, LookRule, Plan, PlanStarted, Raw, clean};
use crate::plan;
use crate::sys::clock;
use crate::workload;

use super::backends::{self, entry};
use super::execute::check_question;
use super::metrics::Added;
use super::prepared::{Prepared, set_rounds};
use super::request::{MeasureRequest, PlanSource, Request};
use super::shards::{self, PartState};
use super::{PlanText, SessionError, expectations, known, load, metrics, resume, running};

/// In the lab, where a user waits for an answer as for a test: until decided, unless the plan or the user say more.
const LAB_BUDGET_NS: u64 = 120_000_000_000;

pub enum Preparation {
    Ready(Box<Prepared>),
    /// There is nothing to run, because of this.
    Done(String),
}

/// Checks all of the request, and makes its backend ready. A part of a plan that was begun before goes on.
pub fn prepare(request: Request) -> Result<Preparation, SessionError> {
    if matches!(request.plan, PlanSource::Stored(_)) {
        let prepared = resume::resume(request)?;
        let job = &prepared.job;
        let shard = prepared.request.shard.filter(|_| job.runs_done() >= job.total_runs());
        return Ok(match shard {
            None => Preparation::Ready(Box::new(prepared)),
            Some(shard) => Preparation::Done(format!("part {shard} lacks nothing: nothing is run")),
        });
    }
    let prepared = prepare_new(request, None)?;
    if prepared.request.dry_run {
        return Ok(Preparation::Ready(Box::new(prepared)));
    }
    match shards::state(&prepared.request.db, &prepared.job.started)? {
        PartState::New => Ok(Preparation::Ready(Box::new(prepared))),
        PartState::Done(why) => Ok(Preparation::Done(why)),
        PartState::Begun(id) => {
            // The backend holds the machine.
            drop(prepared.backend);
            let plan = PlanSource::Stored(Some(id));
            let prepared = resume::resume(Request { plan, ..prepared.request })?;
            Ok(Preparation::Ready(Box::new(prepared)))
        }
    }
}

/// The plan's text at the scale that is asked for.
pub fn plan_text(request: &Request) -> Result<PlanText, SessionError> {
    let found = match &request.plan {
        PlanSource::Text(text) => text.clone(),
        PlanSource::Named(named) => load::load_or_stored(named, &request.db)?,
        PlanSource::Stored(_) => {
            return Err(SessionError::usage(
                "the plan goes on as it was stored",
                "schedlab show ID prints its text",
            ));
        }
    };
    let Some(scale) = &request.scale else { return Ok(found) };
    // Another text with other lines, which `--print` shows.
    let name = format!("{}, scale {}", found.name, clean(scale));
    Ok(PlanText { text: plan::scaled(&found.text, scale)?, name, ..found })
}

/// The plan as it would be measured. Fails where it or what is asked of it is wrong. Its kernels need not be there.
pub fn check(request: &Request) -> Result<Plan, SessionError> {
    let Planned { plan, cells, .. } = planned(request, &plan_text(request)?, false, None)?;
    metrics::check(request.judged.patterns(), || {
        metrics::places(&cells, Added::by(&plan), &[], false)
    })?;
    Ok(plan)
}

/// A plan for this machine.
struct Planned {
    backend: Box<dyn Backend>,
    environment: Environment,
    plan: Plan,
    cells: Vec<Cell>,
}

/// `kept`: a lab that has run plans before.
fn planned(
    request: &Request,
    text: &PlanText,
    will_run: bool,
    kept: Option<Box<dyn Backend>>,
) -> Result<Planned, SessionError> {
    planned_as_written(request, text, will_run, kept).map_err(|error| text.placed(error))
}

fn planned_as_written(
    request: &Request,
    text: &PlanText,
    will_run: bool,
    kept: Option<Box<dyn Backend>>,
) -> Result<Planned, SessionError> {
    let lab = backends::requested_lab(request, text)?;
    let backend = match kept.filter(|kept| has_guests_of(&**kept, &lab)) {
        Some(kept) => kept,
        None => backends::requested_backend(request, request.backend(), &lab, will_run)?,
    };
    let mut environment = backend.environment();
    let mut plan = plan::parse(&text.name, &text.text, Some(&environment.topology), known())?;
    let capabilities = entry(request.backend())?.capabilities;
    if capabilities.guests {
        backends::check_kernel(request.lab.kernel.as_deref(), &plan)?;
        let seeds = lab.seeds;
        plan.lab = backend.guests().map_or(lab, |(own, _)| Lab { seeds, ..own });
        set_seeds(&mut plan, &request.measure);
        let is_fixed = request.measure.rounds.is_some();
        if request.measure.until_decided || plan.measure.until_decided && !is_fixed {
            plan.measure.budget_ns.get_or_insert(LAB_BUDGET_NS);
        }
        plan.has_lab_durations = !plan.lab.realtime;
    }
    if capabilities.own_kernels {
        environment.kernel_release = backends::guest_kernels(&plan);
    }
    override_measure(&mut plan, &request.measure)?;
    for probe in &request.probes {
        plan::add_probe(&mut plan, probe, known())
            .map_err(|wrong| SessionError::option("--probe", wrong))?;
    }
    if request.aa {
        double_baseline(&mut plan);
    }
    let cells = plan::cells(&plan);
    expectations::check(&plan, &cells, &request.judged, text)?;
    Ok(Planned { backend, environment, plan, cells })
}

/// Whether a lab's guests are the machines that this plan asks for.
fn has_guests_of(kept: &dyn Backend, lab: &Lab) -> bool {
    kept.guests().is_some_and(|(own, _)| Lab { seeds: lab.seeds, ..own } == *lab)
}

/// Fails where what is asked is wrong, before the machine is waited for, which another run may hold.
fn check_asked(request: &Request, text: &PlanText) -> Result<(), SessionError> {
    let Planned { environment, plan, cells, .. } = planned(request, text, false, None)?;
    let started = begin_plan(request, text, (environment, plan, cells));
    // The plans of --against are looked up later: a store that cannot be read, or lacks some, has its words once.
    if request.against.is_some() { Ok(()) } else { check_question(request, None, &started) }
}

fn begin_plan(
    request: &Request,
    text: &PlanText,
    (environment, plan, cells): (Environment, Plan, Vec<Cell>),
) -> PlanStarted {
    let started_unix_ns = clock::unix_ns();
    PlanStarted {
        schema: EVENT_SCHEMA,
        id: running::execution_id(started_unix_ns),
        backend: request.backend().to_string(),
        started_unix_ns,
        source: text.text.clone(),
        plan,
        cells,
        judged: request.judged.clone(),
        sharding: None,
        environment,
    }
}

/// A plan that was not begun. A `kept` lab serves it if its guests are the plan's.
pub(super) fn prepare_new(
    request: Request,
    kept: Option<Box<dyn Backend>>,
) -> Result<Prepared, SessionError> {
    let text = plan_text(&request)?;
    if !request.dry_run && entry(request.backend())?.capabilities.touches_machine {
        check_asked(&request, &text)?;
    }
    let Planned { backend, mut environment, plan, cells } =
        planned(&request, &text, !request.dry_run, kept)?;
    backends::guest_lab(&*backend, &request.db);
    if let Some(find) = request.find_programs {
        find(&cells)?;
    }
    if !request.dry_run && cells.iter().any(workload::is_timed) {
        environment.calibration = backend.calibrate();
    }
    let mut started = begin_plan(&request, &text, (environment, plan, cells));
    if let Some(shard) = request.shard {
        shards::divide(&mut started, shard, entry(request.backend())?.capabilities.guests)?;
    }
    let mut job = Job::new(started);
    set_rounds(&mut job)?;
    let prepared = Prepared { request, job, backend };
    prepared.check_backend()?;
    if !prepared.request.dry_run {
        prepared.check_cells()?;
    }
    Ok(prepared)
}

/// In the lab rounds are seeds.
pub fn set_seeds(plan: &mut Plan, asked: &MeasureRequest) {
    let measure = &mut plan.measure;
    if !measure.until_decided {
        measure.rounds = plan.lab.seeds;
    } else if asked.rounds.is_some() {
        // It is that of rounds that are not fixed.
        measure.budget_ns = None;
    }
}

/// Applies the request to the plan, within the plan format's own limits.
pub(super) fn override_measure(
    plan: &mut Plan,
    asked: &MeasureRequest,
) -> Result<(), SessionError> {
    let given = [
        ("rounds", asked.rounds.as_deref().map(raw_rounds)),
        ("duration", asked.duration.clone().map(Raw::Text)),
        ("seed", asked.seed.map(Raw::Int)),
        ("budget", asked.budget.clone().map(Raw::Text)),
    ];
    for (name, raw) in given {
        let Some(raw) = raw else { continue };
        plan::set_measure(plan, name, &raw)
            .map_err(|wrong| SessionError::option(&format!("--{name}"), wrong))?;
    }
    if asked.rounds.is_some() {
        plan.measure.until_decided = false;
    }
    if asked.until_decided {
        plan.measure.until_decided = true;
        plan.measure.looks = LookRule::Even;
        let rounds = plan::MAX_DECIDING_ROUNDS.min(plan::max_rounds(plan));
        plan::set_measure(plan, "rounds", &Raw::Int(i64::from(rounds)))
            .map_err(|wrong| SessionError::option("--until-decided", wrong))?;
    }
    if plan.measure.until_decided && plan.measure.budget_ns.is_none() {
        let text = "`until-decided` needs a budget: some differences are never decided";
        let of_plan = "budget = \"20min\" in [measure]";
        let hint = if asked.until_decided { "--budget 20min" } else { of_plan };
        return Err(SessionError::usage(text, hint));
    }
    Ok(())
}

/// Keeps text that is not a number: the error shows it as it was written.
fn raw_rounds(text: &str) -> Raw {
    if text.starts_with('+') {
        Raw::Text(text.to_string())
    } else {
        text.parse().map_or_else(|_| Raw::Text(text.to_string()), Raw::Int)
    }
}

/// The baseline twice, under two names.
fn double_baseline(plan: &mut Plan) {
    plan.variants.truncate(1);
    let mut again = plan.variants[0].clone();
    again.name.push_str("-again");
    plan.variants.push(again);
    // Nothing is claimed of a variant against itself.
    plan.expectations.clear();
    plan.aa = true;
}
