//! `schedlab run --and-lab`: one plan on this machine and in the lab, and both answers next to each other.

use std::sync::atomic::Ordering::Relaxed;

use crate::analysis::once;
use crate::model::{
    Direction, Importance, Judged, PlanHead, PlanStarted, Problem, SampledPlan, Work, clean,
    show_duration,
};
use crate::plan;
use crate::session::{
    self, LabRequest, MeasureRequest, PlanSource, Preparation, Prepared, Purpose, Request,
    SessionError, machine,
};
use crate::store::Store;

use super::fidelity::{self, Fidelity};
use super::gate::Gate;
use super::run::RunArgs;
use super::signals::catch_termination;
use super::{Failure, measuring, terminal};

/// The newest plan of a host.
const LAST: &str = "backend=local,last";

pub fn run(args: &RunArgs) -> Result<(), Failure> {
    fidelity::format(&args.output)?;
    if args.is_of_kernels() {
        let text = "findings and cases are of kernels, and say nothing of this machine";
        return Err(Failure::usage(text, "leave --and-lab out: they run in the lab"));
    }
    let request = args.request(args.plan_source()?, Purpose::Run);
    let stored = args.stored_source().map(|source| stored_plan(args, source)).transpose()?;
    let of_lab = lab_request(args, &request.plan, stored.as_ref())?;
    // Fails before anything is measured here, or said of this machine.
    let db = if args.dry_run { of_lab.db.clone() } else { of_lab.db.silent() };
    let dry = prepared(Request { dry_run: true, quiet: true, db, ..of_lab.clone() })?;
    dry.check_cells()?;
    // Rounds that are added to it begin it again.
    let is_whole = request.measure.rounds.is_none()
        && stored.as_ref().is_some_and(|(head, _)| !head.is_unfinished());
    let plan = match &stored {
        Some((head, _)) => PlanSource::Stored(Some(head.id.clone())),
        None => request.plan.clone(),
    };
    let host = Request { plan, lab: LabRequest::default(), ..request };
    if args.dry_run {
        measuring::dry_run(&prepared(host)?, &args.output)?;
        terminal::message("in the lab:");
        return measuring::dry_run(&dry, &args.output);
    }
    drop(dry);
    let stop = catch_termination()?;
    let id = match stored {
        Some((head, _)) if is_whole => head.id,
        _ => measure_here(args, prepared(host)?)?,
    };
    let lab = prepared(of_lab)?;
    // It measured the machine, for half a minute at most, to the end.
    if stop.load(Relaxed) {
        let again = args.db.command(&format!("run --resume {id} --and-lab"));
        let text = "interrupted; what was measured on this machine is stored";
        return Err(SessionError::Interrupted(Problem::new(text, again)).into());
    }
    let lab_id = measuring::run_silently(lab, &args.shown())?;
    if args.quiet && args.output.file().is_none() {
        return Ok(());
    }
    let store = args.db.open_read_only()?;
    let judged = judged(args, &store, &id)?;
    let sides = [format!("plan={id}"), format!("plan={lab_id}")];
    let both = Fidelity { sides: &sides, judged: &judged, output: &args.output, db: &args.db };
    both.run(&store, &store.plan_heads()?)
}

fn prepared(request: Request) -> Result<Prepared, Failure> {
    match session::prepare(request)? {
        Preparation::Ready(prepared) => Ok(*prepared),
        Preparation::Done(why) => Err(SessionError::Here(why.into()).into()),
    }
}

/// The plan of a host that goes on, or has ended.
fn stored_plan(args: &RunArgs, source: PlanSource) -> Result<(PlanHead, PlanStarted), Failure> {
    let named = match &source {
        PlanSource::Stored(Some(id)) => id,
        _ => LAST,
    };
    let store = args.db.open_read_only()?;
    let heads = store.plan_heads()?;
    let head = args.db.plan(named, &heads)?;
    if head.backend != SampledPlan::LOCAL {
        let text = format!("{} is not of this machine, but of `{}`", head.id, clean(&head.backend));
        return Err(Failure::usage(text, args.db.command("list runs backend=local")));
    }
    Ok((head.clone(), store.plan_started(&head.id)?))
}

/// The same plan in the lab: a stored one with the times that it had, on guests like this machine.
fn lab_request(
    args: &RunArgs,
    plan: &PlanSource,
    stored: Option<&(PlanHead, PlanStarted)>,
) -> Result<Request, Failure> {
    let source = match stored {
        Some((head, _)) => PlanSource::Named(format!("plan={}", head.id)),
        None => plan.clone(),
    };
    let mut request = args.request(source, Purpose::Run);
    if let Some((_, PlanStarted { plan, .. })) = stored {
        // One that was asked for has replaced those of works.
        let has_none = |work: &Work| work.duration_ns.or(work.lab_duration_ns).is_none();
        let is_asked = plan.works.iter().all(has_none);
        request.aa = plan.aa;
        request.measure = MeasureRequest {
            duration: is_asked.then(|| show_duration(plan.measure.duration_ns)),
            budget: plan.measure.budget_ns.map(show_duration),
            ..MeasureRequest::default()
        };
    }
    let text = session::plan_text(&request)?;
    let lab = plan::lab(&text.name, &text.text, None)?;
    let twin = lab.model.twin.is_none().then(|| machine::HERE.to_string());
    request.lab.machine = request.lab.machine.or(twin);
    request.backend = Some(SampledPlan::LAB.to_string());
    Ok(request)
}

/// Measures the plan on this machine, and returns its id. Its report is a text; other formats hold both.
fn measure_here(args: &RunArgs, prepared: Prepared) -> Result<String, Failure> {
    let (shown, id) = (args.shown(), prepared.job.started.id.clone());
    let is_text = shown.output.format_name() == "text" && shown.output.file().is_none();
    if is_text && !shown.quiet {
        measuring::run(prepared, &shown, &Gate::default())?
    } else {
        _ = measuring::run_silently(prepared, &shown)?
    }
    Ok(id)
}

/// The headline metrics by name, so that another command judges the same, unless others are asked for.
fn judged(args: &RunArgs, store: &Store, id: &str) -> Result<Judged, Failure> {
    let judged = args.judging.judged();
    if judged.names_metrics() {
        return Ok(judged);
    }
    let sampled = store.sampled(id)?;
    let kinds = sampled.metrics.iter().map(|metric| &metric.kind);
    let headline = kinds.filter(|kind| {
        kind.importance == Importance::Headline && kind.direction != Direction::Neutral
    });
    let mut names = Vec::new();
    headline.for_each(|kind| once(&mut names, kind.name.clone()));
    Ok(judged.with_metrics(names))
}
