//! Plans of the lab whose runs are read as they end. Nothing of them is stored.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::backend::Backend;
use crate::engine::{self, Emitted, HostNews, Job};
use crate::model::{
    Cell, Coverage, Event, Outcome, Plan, PlanEnd, PlanStarted, SampledPlan, TRACE_PROBE, Window,
    clean,
};

use super::prepare::prepare_new;
use super::prepared::Prepared;
use super::{LabRequest, MeasureRequest, PlanSource, PlanText, Request, SessionError};

/// One ended run.
pub struct WatchedRun<'a> {
    pub plan: &'a Plan,
    pub cell: &'a Cell,
    pub windows: &'a [Window],
    pub outcome: &'a Outcome,
    /// The lab's own copy of the console of a guest in which the run failed.
    pub console: Option<&'a Path>,
    /// The code of kernel/sched that its guest executed, where that was asked for and is known.
    pub coverage: Option<&'a Coverage>,
}

#[derive(Clone)]
pub struct WatchRequest {
    pub text: PlanText,
    /// Its kernel is in place of the plan's own, as `seeds`.
    pub lab: LabRequest,
    pub seeds: Option<u32>,
    /// Each result has a trace, where the kernel can be traced.
    pub traced: bool,
}

/// Runs plans in the lab, one after the other: those that want the same machine go on from one that is ready.
pub struct Watcher {
    kept: Option<Box<dyn Backend>>,
    on_host: OnHost,
}

/// Gets news of the host and of slow guests, with the plan that runs.
pub type OnHost = fn(&HostNews, &PlanStarted);

impl Watcher {
    pub fn new(on_host: OnHost) -> Watcher {
        Watcher { kept: None, on_host }
    }

    pub fn watch(
        &mut self,
        request: WatchRequest,
        cancel: &AtomicBool,
        on_run: &mut dyn FnMut(WatchedRun),
    ) -> Result<PlanEnd, SessionError> {
        if cancel.load(Relaxed) {
            return Ok(PlanEnd::Interrupted);
        }
        let mut prepared = prepare_new(in_lab(request.clone()), self.kept.take())?;
        if request.traced {
            prepared.job.started.plan.probes.push(TRACE_PROBE.to_string());
        }
        let Prepared { job, mut backend, .. } = prepared;
        let end = execute(job, &mut *backend, cancel, self.on_host, on_run)?;
        backend.conclude(end)?;
        // Runs of an interrupted plan may wait in it.
        self.kept = Some(backend).filter(|_| end == PlanEnd::Complete);
        Ok(end)
    }
}

fn in_lab(request: WatchRequest) -> Request {
    let WatchRequest { text, lab, seeds, .. } = request;
    Request {
        plan: PlanSource::Text(text),
        backend: Some(SampledPlan::LAB.to_string()),
        lab,
        measure: MeasureRequest {
            rounds: seeds.map(|seeds| seeds.to_string()),
            ..MeasureRequest::default()
        },
        ..Request::default()
    }
}

fn execute(
    job: Job,
    backend: &mut dyn Backend,
    cancel: &AtomicBool,
    on_host: OnHost,
    on_run: &mut dyn FnMut(WatchedRun),
) -> Result<PlanEnd, SessionError> {
    let started = job.started.clone();
    let PlanStarted { plan, cells, .. } = &started;
    let (mut windows, mut console, mut coverage) = (Vec::new(), None, None);
    let end = engine::execute(
        job,
        backend,
        cancel,
        &mut |emitted: Emitted| {
            match emitted {
                Emitted::Event(Event::RunStarted { .. }) => {
                    windows.clear();
                    (console, coverage) = (None, None);
                }
                Emitted::Host(news) => on_host(news, &started),
                Emitted::Console(path) => console = Some(path.to_path_buf()),
                Emitted::Covered(own) => coverage = Some(own.clone()),
                Emitted::Event(Event::Window { window, .. }) => windows.push(window.clone()),
                Emitted::Event(Event::RunEnded { key, outcome }) => on_run(WatchedRun {
                    plan,
                    cell: &cells[key.cell as usize],
                    windows: &windows,
                    outcome,
                    console: console.as_deref(),
                    coverage: coverage.as_ref(),
                }),
                _ => {}
            }
            Ok::<(), SessionError>(())
        },
        &mut |_| None,
    )?;
    match end.host_ended.first() {
        None => Ok(end.end),
        Some(reason) => {
            Err(SessionError::Here(format!("a run has no result: {}", clean(reason)).into()))
        }
    }
}
