//! A plan of the lab whose runs are read as they end. Nothing of it is stored.

use std::sync::atomic::AtomicBool;

use crate::engine::{self, Emitted};
use crate::model::{
    Cell, Event, Outcome, Plan, PlanEnd, PlanStarted, SampledPlan, TRACE_PROBE, Window,
};

use super::prepare::{Preparation, prepare};
use super::{LabRequest, MeasureRequest, PlanSource, PlanText, Request, SessionError};

/// One ended run.
pub struct WatchedRun<'a> {
    pub plan: &'a Plan,
    pub cell: &'a Cell,
    pub round: u32,
    pub windows: &'a [Window],
    pub outcome: &'a Outcome,
}

#[derive(Clone)]
pub struct WatchRequest<'a> {
    pub text: PlanText,
    /// In place of the plan's own, as `seeds`.
    pub kernel: Option<&'a str>,
    pub seeds: Option<u32>,
    /// Each result has a trace, where the kernel can be traced.
    pub traced: bool,
}

/// Runs a plan in the lab.
pub fn watch(
    request: WatchRequest,
    cancel: &AtomicBool,
    on_run: &mut dyn FnMut(WatchedRun),
) -> Result<PlanEnd, SessionError> {
    let WatchRequest { text, kernel, seeds, traced } = request;
    let request = Request {
        plan: PlanSource::Text(text),
        backend: Some(SampledPlan::LAB.to_string()),
        lab: LabRequest { kernel: kernel.map(str::to_string), ..LabRequest::default() },
        measure: MeasureRequest {
            rounds: seeds.map(|seeds| seeds.to_string()),
            ..MeasureRequest::default()
        },
        ..Request::default()
    };
    let Preparation::Ready(prepared) = prepare(request)? else { return Ok(PlanEnd::Complete) };
    let mut backend = prepared.backend;
    let mut job = prepared.job;
    job.started.plan.probes.extend(traced.then(|| TRACE_PROBE.to_string()));
    let PlanStarted { plan, cells, .. } = job.started.clone();
    let mut windows = Vec::new();
    let end = engine::execute(
        job,
        &mut *backend,
        cancel,
        &mut |emitted: Emitted| {
            match emitted {
                Emitted::Event(Event::RunStarted { .. }) => windows.clear(),
                Emitted::Event(Event::Window { window, .. }) => windows.push(window.clone()),
                Emitted::Event(Event::RunEnded { key, outcome }) => on_run(WatchedRun {
                    plan: &plan,
                    cell: &cells[key.cell as usize],
                    round: key.round,
                    windows: &windows,
                    outcome,
                }),
                _ => {}
            }
            Ok::<(), SessionError>(())
        },
        &mut |_| None,
    )?;
    backend.conclude(end.end)?;
    Ok(end.end)
}
