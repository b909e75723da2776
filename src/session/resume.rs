//! A stored plan that goes on: which one is meant, whether it can, and the job of its missing runs.

use crate::engine::Job;
use crate::model::{Environment, PlanEnd, PlanStarted, SampledPlan, clean};
use crate::plan;
use crate::store::{Store, StoredRuns};

use super::backends::{self, entry};
use super::prepared::{Prepared, set_rounds};
use super::request::{PlanSource, Request};
use super::{Database, Notice, SessionError, fleet, shards};

/// The missing runs of the stored plan that the request names, with its original options.
pub(super) fn resume(mut request: Request) -> Result<Prepared, SessionError> {
    let more = request.measure.rounds.as_deref().map(added_rounds).transpose()?;
    let store = request.db.open()?;
    let id = stored_id(&request, &store)?;
    let mut stored = own_runs(&store, &id, &request.db)?;
    if let Some(shard) = request.shard {
        shards::part_of(&mut stored, shard, &store)?;
    }
    let StoredRuns { mut started, ended, runs, is_whole } = stored;
    drop(store);
    let rounds_done = runs.iter().map(|(key, _)| key.round + 1).max().unwrap_or(0);
    if is_whole || more.is_some() {
        check_end(&started, ended, more, &request.db)?;
    }
    if request.fleet.is_none() {
        fleet::leave(&id, &request.db)?;
    }
    if let Some(more) = more {
        started.plan = started.plan.extended(rounds_done, more);
    }
    check_clock(&request, &started)?;
    if started.cells != plan::cells(&started.plan) {
        let text = format!("the stored plan {id} does not fit its own cells");
        return Err(SessionError::usage(text, "schedlab run with the plan's file"));
    }
    let backend = backends::requested_backend(&request, &started.backend, &started.plan.lab, true)?;
    if backends::guest_lab(&*backend, &request.db).is_some_and(|lab| lab != started.plan.lab) {
        let text =
            format!("the plan {id} was begun with clocks that this QEMU cannot give its CPUs");
        return Err(SessionError::usage(text, "schedlab doctor --lab"));
    }
    // Work that is given as times stays what it was.
    let calibration = started.environment.calibration;
    let here = Environment { calibration, ..backend.environment() };
    check_machine(&request, &started, &here)?;
    started.environment = here;
    if entry(&started.backend)?.capabilities.own_kernels {
        started.environment.kernel_release = backends::guest_kernels(&started.plan);
    }
    let mut job = Job::resumed(started, runs);
    if !request.quiet {
        let (PlanStarted { id, plan, .. }, runs_done) = (&job.started, job.runs_done());
        request.db.notify(&Notice::Resumed { id, title: &plan.title, runs_done });
    }
    set_rounds(&mut job)?;
    if !job.started.plan.measure.ends.is_empty() {
        // The user asked for these rounds, however long they take and however often they are interrupted.
        job.budget = None;
    }
    request.judged = request.judged.or(&job.started.judged);
    let prepared = Prepared { request, job, backend };
    prepared.check_backend()?;
    prepared.check_files()?;
    Ok(prepared)
}

/// The id of the stored plan that the request names.
fn stored_id(request: &Request, store: &Store) -> Result<String, SessionError> {
    let db = &request.db;
    let named = match &request.plan {
        PlanSource::Stored(id) => id.as_deref(),
        PlanSource::Named(_) | PlanSource::Text(_) => None,
    };
    match (named, request.shard) {
        (_, Some(shard)) => {
            let heads = store.plan_heads()?;
            let named = named.map(|id| db.plan(id, &heads)).transpose()?;
            shards::stored_id(&heads, named, shard, db)
        }
        (Some(prefix), None) => Ok(db.plan(prefix, &store.plan_heads()?)?.id.clone()),
        (None, None) => newest_unfinished(store, request.measure.rounds.is_some(), db),
    }
}

/// The id of the newest plan, if it can go on, is to have more rounds, or the store has lost runs of it: an older one is
/// gone on with by its id alone.
fn newest_unfinished(store: &Store, adds: bool, db: &Database) -> Result<String, SessionError> {
    let heads = store.plan_heads()?;
    let mut own = heads.iter().filter(|head| head.backend != SampledPlan::IMPORTED);
    let text = match own.next() {
        Some(newest)
            if adds || newest.is_unfinished() || !store.stored_runs(&newest.id)?.is_whole =>
        {
            return Ok(newest.id.clone());
        }
        Some(newest) => {
            let (id, title) = (clean(&newest.id), clean(&newest.title));
            format!("nothing to resume: the newest plan, {id} ({title}), was not interrupted")
        }
        None => "nothing to resume: no plan is stored".to_string(),
    };
    let command = match own.find(|head| head.is_unfinished()) {
        Some(older) => format!("run --resume {}", clean(&older.id)),
        None => "list runs".to_string(),
    };
    Err(SessionError::usage(text, db.command(&command)))
}

/// Returns [`Store::stored_runs`], or an error if the plan cannot be measured here.
fn own_runs(store: &Store, id: &str, db: &Database) -> Result<StoredRuns, SessionError> {
    let found = store.stored_runs(id)?;
    if found.started.backend != SampledPlan::IMPORTED {
        return Ok(found);
    }
    let text = format!("another tool measured {id}, and what it lacks cannot be measured here");
    let again = format!("{}, then import it again", db.command(&format!("rm {id}")));
    Err(SessionError::usage(text, again))
}

fn check_clock(request: &Request, started: &PlanStarted) -> Result<(), SessionError> {
    let (asked, id, is_real) = (request.lab.mode, &started.id, started.plan.lab.realtime);
    let (option, clock) = match is_real {
        true if asked.verify => ("--verify", "real"),
        false if asked.realtime => ("--realtime", "virtual"),
        _ => return Ok(()),
    };
    let text = format!("the plan {id} was begun in {clock} time, and {option} does not fit it");
    Err(SessionError::usage(text, request.db.command(&format!("run --resume {id}"))))
}

/// Runs of two machines under one plan are what a user asks for by its id alone.
fn check_machine(
    request: &Request,
    begun: &PlanStarted,
    here: &Environment,
) -> Result<(), SessionError> {
    let (id, begun_on) = (&begun.id, &begun.environment.hostname);
    if *begun_on == here.hostname {
        return Ok(());
    }
    if matches!(request.plan, PlanSource::Stored(None)) {
        let (id, begun_on) = (clean(id), clean(begun_on));
        let text = format!("the last interrupted plan, {id}, was begun on machine {begun_on}");
        let again = request.db.command(&format!("run --resume {id}"));
        return Err(SessionError::usage(text, format!("to go on with it on this one: {again}")));
    }
    request.db.notify(&Notice::OtherMachine { id, begun_on });
    Ok(())
}

/// `+20`: 20 rounds more.
fn added_rounds(text: &str) -> Result<u32, SessionError> {
    let number = text.strip_prefix('+').and_then(|number| number.parse().ok());
    number.filter(|more| (1..=plan::MAX_DECIDING_ROUNDS).contains(more)).ok_or_else(|| {
        let (shown, max) = (clean(text), plan::MAX_DECIDING_ROUNDS);
        let text = format!("--rounds {shown}: with --resume it says how many to add, 1 to {max}");
        SessionError::usage(text, "--rounds +20")
    })
}

/// An interrupted plan can be resumed. After an end rounds may be added where its look left part of
/// the error rate to spend: a plan of fixed rounds has spent it all, as has one by the early
/// rule, and a further look would come on top of it.
fn check_end(
    started: &PlanStarted,
    ended: Option<PlanEnd>,
    more: Option<u32>,
    db: &Database,
) -> Result<(), SessionError> {
    let (measure, id) = (&started.plan.measure, clean(&started.id));
    let can_add = measure.leaves_a_look();
    let why = match (ended, more) {
        (None | Some(PlanEnd::Interrupted), None) => return Ok(()),
        (None | Some(PlanEnd::Interrupted), Some(_)) => {
            let text = format!("{id} was interrupted: finish it before rounds are added");
            return Err(SessionError::usage(text, db.command(&format!("run --resume {id}"))));
        }
        (Some(PlanEnd::Complete | PlanEnd::Budget), Some(_)) if can_add => return Ok(()),
        (Some(PlanEnd::Complete | PlanEnd::Budget), None) if !measure.until_decided => {
            return Ok(());
        }
        (Some(PlanEnd::Decided), _) => "all of it is decided",
        (Some(PlanEnd::Budget), _) => "its budget is used up",
        (Some(PlanEnd::Complete), _) => "all of its rounds are done",
    };
    if can_add && ended != Some(PlanEnd::Decided) {
        let hint = db.command(&format!("run --resume {id} --rounds +20"));
        return Err(SessionError::usage(format!("{id} cannot go on: {why}"), hint));
    }
    let text = format!("{id} cannot go on: {why}, and no further look at its verdicts is left");
    Err(SessionError::usage(text, "run the plan again, --until-decided with a larger --budget"))
}
