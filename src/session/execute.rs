//! A prepared plan is measured: each result is stored as it arrives, looks are made, and the end is judged.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::mem;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::analysis::{self, Analysis, Question, Selection, Tested};
use crate::backend::{Backend, BackendError};
use crate::engine::{self, Emitted, HostNews, Job, JobEnd, Poll};
use crate::model::{Advice, Event, Outcome, PlanEnd, PlanStarted, RunKey, SampledPlan, clean};
use crate::report::numbers::counted;
use crate::stats::Schedule;
use crate::store::{JoinedPlan, Note, Store, StoreError};
use crate::sys::clock;

use super::prepared::Prepared;
use super::request::{Purpose, Request};
use super::{
    Problem, SessionError, expectations, fleet, metrics, running, shards, shared_cache, sides,
};

/// The caller's ear: it hears how a plan goes on. Each method may be left out.
pub trait Listener {
    /// Before the first run. An error ends the session: nothing has run.
    fn begin(&mut self, _: &Job) -> Result<(), SessionError> {
        Ok(())
    }

    /// An event that is stored; an error ends the plan.
    fn event(&mut self, _: &Event) -> Result<(), SessionError> {
        Ok(())
    }

    fn host(&mut self, _: &HostNews) {}

    /// Whether ratios are wanted after this round: they take time from the plan.
    fn wants_ratios(&self) -> bool {
        false
    }

    /// Ratios so far, and the verdicts of a look after `look` rounds; `took`: the time to compute them.
    fn ratios(&mut self, _: &Analysis, _look: Option<u32>, _took: Duration) {}

    /// After the last run, or an error: nothing more is heard.
    fn end(&mut self) {}
}

impl Listener for () {}

/// A plan that has ended, with its store.
pub struct Finished {
    pub request: Request,
    pub started: PlanStarted,
    pub store: Store,
    pub plan: SampledPlan,
    pub end: JobEnd,
    /// Runs that this session has measured.
    pub measured: usize,
    /// The end of the backend, whose errors no outcome of a run shows.
    concluded: Result<(), BackendError>,
}

/// Runs the job and stores what it gives. What the caller needs to hear of the results is in the
/// [`Finished`] plan, whose [`Finished::check`] comes last.
pub fn execute(
    prepared: Prepared,
    cancel: &AtomicBool,
    listener: &mut dyn Listener,
) -> Result<Finished, SessionError> {
    let judged = prepared.judged();
    let Prepared { mut request, job, backend } = prepared;
    request.judged = judged;
    let mut store = request.db.open()?;
    let started = job.started.clone();
    check_question(&request, Some(&store), &started)?;
    let _running = running::hold(&started.id)?;
    let mut backend = fleet::over(&request, backend, &job)?;
    listener.begin(&job)?;
    let (cell, listener) = (RefCell::new(&mut store), RefCell::new(listener));
    let mut measured = 0;
    let end = engine::execute(
        job,
        &mut *backend,
        cancel,
        &mut |emitted: Emitted| {
            match emitted {
                Emitted::Event(event) => {
                    cell.borrow_mut().apply_in_group(event)?;
                    listener.borrow_mut().event(event)?;
                    measured += usize::from(is_done(event));
                }
                Emitted::Host(news) => {
                    listener.borrow_mut().host(news);
                    cell.borrow_mut().settle()?;
                }
                Emitted::Pause => cell.borrow_mut().settle()?,
                // The reason of the failure names it.
                Emitted::Console(_) | Emitted::Covered(_) => {}
            }
            Ok::<(), SessionError>(())
        },
        &mut |poll| {
            open_works(&request, &started, &cell.borrow(), &mut **listener.borrow_mut(), poll)
        },
    );
    listener.into_inner().end();
    let end = end.map_err(|error| explain_full_disk(&request, &store, &started, error))?;
    let concluded = conclude(&request, &mut *backend, end.stored(), &mut store, &started.id)?;
    let plan = store.sampled(&started.id)?;
    Ok(Finished { request, started, store, plan, end, measured, concluded })
}

fn is_done(event: &Event) -> bool {
    matches!(event, Event::RunEnded { outcome: Outcome::Done { .. }, .. })
}

/// Ends the backend; an alarm is also a note of the plan.
fn conclude(
    request: &Request,
    backend: &mut dyn Backend,
    end: PlanEnd,
    store: &mut Store,
    id: &str,
) -> Result<Result<(), BackendError>, SessionError> {
    shared_cache::end(backend, store, id, request)?;
    let concluded = backend.conclude(end);
    if let Some(text) = concluded.as_ref().err().and_then(fleet::alarm) {
        store.add_note(id, &Note { written_unix_ns: clock::unix_ns(), text })?;
    }
    Ok(concluded)
}

/// A full disk leaves a plan that can go on once there is room.
fn explain_full_disk(
    request: &Request,
    store: &Store,
    started: &PlanStarted,
    error: SessionError,
) -> SessionError {
    match error {
        SessionError::Store(error @ StoreError::Full { .. })
            if store.plan_started(&started.id).is_ok() =>
        {
            let command = request.resume_command(&started.id, &started.judged);
            SessionError::here(
                error.to_string(),
                format!("{}; then: {command}", error.hint().unwrap_or_default()),
            )
        }
        other => other,
    }
}

/// The works with a comparison that the looks so far have not decided, after rounds of a look.
/// Reports the verdicts, and the ratios after other rounds.
fn open_works(
    request: &Request,
    started: &PlanStarted,
    store: &Store,
    listener: &mut dyn Listener,
    poll: Poll,
) -> Option<BTreeSet<usize>> {
    let measure = &started.plan.measure;
    let may_look = poll.is_resumed || Schedule::from_measure(measure).is_look(poll.rounds_done);
    let look = (measure.until_decided && may_look).then_some(poll.rounds_done);
    if look.is_none() && !listener.wants_ratios() {
        return None;
    }
    let begun = Instant::now();
    let during = Some((poll.rounds_done, look.is_none()));
    // An unreadable store decides nothing: the rounds go on, and the end reports the fault.
    let analysis = analyse_variants(request, store, started, during, false).ok()?;
    listener.ratios(&analysis, look, begun.elapsed());
    // Nothing to judge is nothing decided.
    let is_judged = look.is_some() && analysis.method.headline_verdicts > 0;
    let plan = &started.plan;
    is_judged.then(|| match request.purpose {
        Purpose::Test => analysis::undecided_works(&analysis, plan, &plan.expectations),
        Purpose::Run | Purpose::Try => analysis::open_works(&analysis, plan),
    })
}

/// `during`: of a plan that runs, the rounds that count, and whether ratios alone are asked for.
fn analyse_variants(
    request: &Request,
    store: &Store,
    started: &PlanStarted,
    during: Option<(u32, bool)>,
    explaining: bool,
) -> Result<Analysis, SessionError> {
    let variants = started.plan.variants.iter();
    let variants: Vec<Selection> =
        variants.map(|variant| Selection::of_variant(&started.id, &variant.name)).collect();
    let command = sides::plan_command(&started.id, variants.len()) + &request.analysis_words();
    let plans = sides::sampled(store, &variants)?;
    let question = sides::question(&request.judged, variants, command, explaining, &request.db);
    let (rounds_done, ratios_alone) = during.unzip();
    let ratios_alone = ratios_alone.unwrap_or_default();
    sides::analyse(store, &plans, Question { rounds_done, ratios_alone, ..question })
}

/// Whether there will be something to answer: it is too late to ask after the night.
/// `store`: `None` where there is none yet.
pub fn check_question(
    request: &Request,
    store: Option<&Store>,
    started: &PlanStarted,
) -> Result<(), SessionError> {
    if let Some(against) = &request.against {
        others(request, store, started, against)?;
    }
    let by_variant = request.against.is_some();
    metrics::check(request.judged.patterns(), || {
        metrics::places(&started.cells, metrics::Added::by(&started.plan), &[], by_variant)
    })?;
    let is_lone = started.plan.variants.len() < 2;
    let wants = match () {
        () if !is_lone => return Ok(()),
        () if started.plan.measure.until_decided => "--until-decided",
        () if request.against.is_none() && request.needs_verdicts => "--fail-on",
        () => return Ok(()),
    };
    Err(SessionError::usage(
        format!("the plan has one variant alone: there will be no verdict for {wants}"),
        "a plan with a [[variant]] more, or --aa, or --against last:10",
    ))
}

/// The plans that --against names, without this one.
fn others(
    request: &Request,
    store: Option<&Store>,
    started: &PlanStarted,
    against: &str,
) -> Result<Vec<Selection>, SessionError> {
    let mut others = store.map(Store::plan_heads).transpose()?.unwrap_or_default();
    let is_first = others.is_empty();
    others.retain(|head| head.id != started.id);
    if others.is_empty() && !is_first {
        let text = "--against: no other plan is stored than this one";
        return Err(SessionError::usage(text, request.db.command("list runs")));
    }
    request.db.select("--against: ", &[against.to_string()], &others)
}

impl Finished {
    /// Whether it is a part of a plan, which gives no answer alone.
    pub fn is_part(&self) -> bool {
        shards::own_shard(&self.started).is_some()
    }

    /// All that the plan's verdicts stand in; `explaining`: with every metric.
    pub fn analyses(&self, explaining: bool) -> Result<Vec<Analysis>, SessionError> {
        let Finished { request, store, started, .. } = self;
        let mut analysis = analyse_variants(request, store, started, None, explaining)?;
        if let ([plan], Some(took)) = (&mut analysis.plans[..], self.end.took) {
            let is_here = plan.lab.is_some() && request.fleet.is_none();
            plan.simulated_ns = is_here.then_some(took.as_nanos() as u64);
        }
        if analysis.sides.iter().all(|side| side.runs == 0) {
            // It will not be stored.
            analysis.command.clear();
        }
        let mut analyses = vec![analysis];
        if let Some(against) = &request.against {
            analyses.push(self.analyse_against(against, explaining)?);
        }
        Ok(analyses)
    }

    /// This plan's runs against others that are stored.
    fn analyse_against(&self, against: &str, explaining: bool) -> Result<Analysis, SessionError> {
        let Finished { request, store, started, .. } = self;
        let mut compared = others(request, Some(store), started, against)?;
        compared.push(Selection::of_plan(&started.id));
        let command = sides::command(&compared, true, &store.plan_heads()?);
        let command = command + &request.analysis_words();
        let plans = sides::sampled(store, &compared)?;
        let question = sides::question(&request.judged, compared, command, explaining, &request.db);
        sides::analyse(store, &plans, Question { against: true, ..question })
    }

    /// Whether the plan's expectations are met.
    pub fn expectations(&self) -> Result<(Vec<Tested>, Analysis), SessionError> {
        let Finished { request, store, plan, .. } = self;
        let heads = store.plan_heads()?;
        let head = request.db.plan(&plan.id, &heads)?;
        expectations::test(store, head, &request.judged, &request.db)
    }

    /// Joins this part with the others if they are here.
    pub fn join(&mut self) -> Result<Option<JoinedPlan>, SessionError> {
        let Some((sharding, _)) = shards::own_shard(&self.started) else { return Ok(None) };
        Ok(self.store.join_stored(sharding)?)
    }

    /// Fails where there is nothing to judge, or not all that was asked for. A plan of which nothing was measured
    /// does not stay in the store.
    pub fn check(&mut self) -> Result<(), SessionError> {
        mem::replace(&mut self.concluded, Ok(()))?;
        self.store.check_whole()?;
        let id = &self.plan.id;
        let resume = || self.request.resume_command(id, &self.started.judged);
        if self.end.end == PlanEnd::Interrupted {
            let is_kept = !self.request.db.is_temporary();
            let text =
                if is_kept { "interrupted; what was measured is stored" } else { "interrupted" };
            return Err(SessionError::Interrupted(Problem::new(text, resume())));
        }
        if let Some(first) = self.end.host_ended.first() {
            let missing = match self.end.host_ended.len() {
                1 => "1 run is missing".to_string(),
                runs => format!("{runs} runs are missing"),
            };
            let text = format!("{missing}, tried again in vain; the first: {}", clean(first));
            return Err(SessionError::Missing(Problem::new(text, resume())));
        }
        let all = self.plan.runs.len() + self.plan.unmeasured.len();
        let lost = all.saturating_sub(self.store.finished_runs(id)?.len());
        if lost > 0 {
            let runs = counted(lost, "run");
            let text = format!(
                "{runs} that had been stored are damaged or gone: something else wrote to the store"
            );
            return Err(SessionError::Missing(Problem::new(text, resume())));
        }
        if !self.plan.runs.is_empty() {
            return Ok(());
        }
        self.store.remove(id)?;
        Err(self.nothing_measured())
    }

    fn nothing_measured(&self) -> SessionError {
        let Finished { request, plan, .. } = self;
        let has_report = !request.quiet && request.purpose == Purpose::Run;
        let why = match plan.unmeasured.first() {
            Some(first) if !has_report => first.reason.clone(),
            _ => "the report says why".to_string(),
        };
        let runs = plan.unmeasured.len();
        let message = match runs < plan.cells.len() * plan.plan.measure.rounds as usize {
            // The engine makes no further ones.
            true => {
                format!("all {runs} runs so far failed, so the plan ends and nothing is stored")
            }
            false => "no run could be measured, so nothing is stored".to_string(),
        };
        let message = format!("{message}: {}", clean(&why));
        let is_finding = plan.plan.finding.is_some() && plan.backend == SampledPlan::LOCAL;
        let hint = is_finding
            .then(|| "findings are of kernels, and run in the lab: --backend lab".to_string());
        SessionError::Here(Problem { message, hint })
    }

    /// Fails where runs are missing and the request is strict.
    pub fn check_strict(&self) -> Result<(), SessionError> {
        let Finished { request, plan, .. } = self;
        let missing = plan.unmeasured.len();
        if request.strict && missing > 0 {
            let all = plan.runs.len() + missing;
            let text = format!("{missing} of {all} runs were not measured (--strict)");
            return Err(SessionError::here(
                text,
                request.db.command(&format!("report {}", plan.id)),
            ));
        }
        Ok(())
    }

    /// Fails where each run of a work and a variant failed: nothing can be compared. A machine that lacks something skips
    /// runs, which is no failure.
    pub fn check_variants(&self) -> Result<(), SessionError> {
        let Finished { request, plan, .. } = self;
        for cell in &plan.cells {
            let is_own = |key: &RunKey| key.cell == cell.index;
            let mut others = plan.unmeasured.iter().filter(|run| is_own(&run.key)).peekable();
            let Some(first) = others.peek().copied() else { continue };
            let has_value = plan.runs.iter().any(|run| is_own(&run.key));
            if !has_value && others.all(|run| !run.is_skipped) {
                let message =
                    clean(&format!("{}: each run failed: {}", cell.place(), first.reason));
                let command = request.db.command(&format!("report {}", plan.id));
                return Err(SessionError::here(message, command));
            }
        }
        Ok(())
    }
}
