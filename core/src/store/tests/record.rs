//! The record and the samples of a plan as its events alone give them, which a store has to read back.

use std::collections::{HashMap, HashSet};

use super::super::damage::Damage;
use super::super::error::{Fault, StoreError};
use super::super::read::{checked, sessions, started};
use super::super::run::RunRow;
use super::super::{Store, seal};
use crate::model::{
    Environment, Event, KnobReading, Outcome, PlanEnd, PlanStarted, Reading, RunKey, RunResult,
    SampledMetric, SampledPlan, SampledPool, SampledRun, SampledVersion, SampledWorker, SetResult,
    Unmeasured, Work, place_of,
};

/// One execution of a plan with all of its results, but for windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The plan's first start.
    pub started: PlanStarted,
    /// The machine at each start and resumption, in order; never empty.
    pub environments: Vec<Environment>,
    /// Runs in the order in which they ended.
    pub runs: Vec<RecordedRun>,
    pub ended: Option<PlanEnd>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRun {
    pub key: RunKey,
    pub environment: u32,
    pub outcome: Outcome,
}

impl Store {
    /// Reads all of plan `id` as an export does.
    pub fn record(&self, id: &str) -> Result<Record, StoreError> {
        let read = || -> Result<_, Fault> {
            let snapshot = self.conn.unchecked_transaction()?;
            let plan = self.plan_number(&snapshot, id)?;
            let started = started(&snapshot, plan)?;
            let sessions = sessions(&snapshot, plan)?;
            let ended = sessions.last().and_then(|session| session.ended);
            let environments = sessions.into_iter().map(|session| session.environment).collect();
            let mut runs = Vec::new();
            self.each_run(&snapshot, (plan, id), |run| {
                let RunRow { key, environment, .. } = run;
                let mut is_whole = true;
                let outcome = checked(&snapshot, run, |key, what| {
                    is_whole = what != seal::ROW;
                    self.report(Damage::of_run(id, key, what));
                })?;
                runs.push(RecordedRun { key, environment, outcome });
                Ok(is_whole)
            })?;
            Ok(Record { started, environments, runs, ended })
        };
        read().map_err(|fault| fault.within(id, format!("read plan `{id}`"), &self.path))
    }
}

/// The record of the events of one plan.
pub fn fold(events: &[Event]) -> Record {
    let Some((Event::PlanStarted(first), rest)) = events.split_first() else {
        panic!("a stream begins with a plan")
    };
    let started = (**first).clone();
    let environments = vec![started.environment.clone()];
    let mut record = Record { started, environments, runs: Vec::new(), ended: None };
    rest.iter().for_each(|event| apply(&mut record, event));
    record
}

fn apply(record: &mut Record, event: &Event) {
    match event {
        Event::PlanStarted(again) => {
            record.environments.push(again.environment.clone());
            record.ended = None;
        }
        Event::RunStarted { .. } | Event::Window { .. } => {}
        Event::RunEnded { key, outcome } => record.runs.push(RecordedRun {
            key: *key,
            environment: record.environments.len() as u32 - 1,
            outcome: outcome.clone(),
        }),
        Event::PlanEnded { reason, calibration } => {
            record.ended = Some(*reason);
            if let (Some(session), Some(_)) = (record.environments.last_mut(), calibration) {
                session.calibration_at_end = *calibration;
            }
        }
    }
}

/// Returns what [`Store::sampled`] has to read: an implementation of its own, from all of the record.
pub fn sampled(record: &Record) -> SampledPlan {
    let started = &record.started;
    let (plan, cells) = (started.plan.clone(), started.cells.clone());
    let environments = record.environments.clone();
    let mut sampled = SampledPlan {
        id: started.id.clone(),
        started_unix_ns: started.started_unix_ns,
        sharding: started.sharding.clone(),
        ended: record.ended,
        ..SampledPlan::without_runs(&started.backend, plan, cells, environments)
    };
    let last: HashMap<RunKey, usize> =
        record.runs.iter().enumerate().map(|(at, run)| (run.key, at)).collect();
    let works: HashMap<u32, &Work> =
        started.cells.iter().map(|cell| (cell.index, &cell.work)).collect();
    let has_solos = SampledPlan::has_solos(&started.plan);
    let mut found = HashMap::new();
    for (at, run) in record.runs.iter().enumerate() {
        let Some(work) = works.get(&run.key.cell) else { continue };
        if last.get(&run.key) != Some(&at) {
            continue;
        }
        let Outcome::Done { result } = &run.outcome else {
            sampled.unmeasured.extend(unmeasured(run));
            continue;
        };
        add_run(&mut sampled, run.key, run.environment, result);
        add_values(&mut sampled, work, &result.sets, &mut found);
        sampled.versions.extend(result.sets.iter().filter_map(|set| {
            let version = set.program.as_ref()?.version.clone()?;
            Some(SampledVersion { cell: run.key.cell, set: set.name.clone(), version })
        }));
        if has_solos {
            add_workers(&mut sampled, work, &result.sets);
        }
    }
    sampled.versions.sort();
    sampled.versions.dedup();
    sampled
}

fn add_run(plan: &mut SampledPlan, key: RunKey, environment: u32, result: &RunResult) {
    let mut mismatches = Vec::new();
    for reading in result.knobs.iter().filter(|reading| reading.is_mismatch()) {
        if !mismatches.contains(reading) {
            mismatches.push(reading.clone());
        }
    }
    plan.switches_ns.extend(result.knobs.iter().filter_map(KnobReading::switch_ns));
    let guest = result.guest.clone().map(|guest| place_of(&mut plan.guests, guest));
    let mut knobs = result.knobs.iter().filter(|_| plan.plan.placement.pool.is_some());
    let pool = knobs.find(|reading| reading.knob == KnobReading::POOL).cloned();
    let pool = pool.map(|reading| {
        place_of(&mut plan.pools, SampledPool { reading, cpus: result.pool_cpus.clone() })
    });
    plan.runs.push(SampledRun {
        key,
        environment,
        guest,
        pool,
        started_unix_ns: result.started_unix_ns,
        measured_ns: result.measured_ns,
        disturbances: result.disturbances.clone(),
        mismatches,
        ..SampledRun::default()
    });
}

/// Adds the values of the last run. If sets, or metrics of a set, have the same name, the first counts. `found`
/// has the position of each metric.
fn add_values(
    plan: &mut SampledPlan,
    work: &Work,
    sets: &[SetResult],
    found: &mut HashMap<SampledMetric, u32>,
) {
    let run = plan.runs.last_mut().expect("a run");
    let mut names = HashSet::new();
    for set in sets {
        if !SampledPlan::takes(work, &set.name) || !names.insert(&set.name) {
            continue;
        }
        let mut names = HashSet::new();
        for metric in set.metrics.iter().filter(|metric| names.insert(&metric.kind.name)) {
            let sampled = SampledMetric {
                set: set.name.clone(),
                ops: set.ops.clone(),
                kind: metric.kind.clone(),
            };
            let metrics = &mut plan.metrics;
            let at = *found.entry(sampled).or_insert_with_key(|metric| {
                metrics.push(metric.clone());
                metrics.len() as u32 - 1
            });
            match metric.value.clone().and_then(|value| metric.kind.possible(value)) {
                Reading::Known(value) => run.values.push((at, value)),
                Reading::Unknown(reason) => run.unknown.push((at, reason)),
            }
        }
    }
}

fn add_workers(plan: &mut SampledPlan, work: &Work, sets: &[SetResult]) {
    let run = plan.runs.last_mut().expect("a run");
    for (at, set) in sets.iter().enumerate() {
        let Some(position) = SampledWorker::set_of(work, at, &set.name) else { continue };
        run.workers.extend(set.workers.iter().map(|worker| SampledWorker {
            set: position,
            role: worker.role.as_str().into(),
            ops: worker.ops,
            wall_ns: worker.wall_ns,
            cpu_ns: worker.cpu_ns,
        }));
    }
}

/// `None` of a run that was measured.
fn unmeasured(run: &RecordedRun) -> Option<Unmeasured> {
    let (is_skipped, reason) = match &run.outcome {
        Outcome::Done { .. } => return None,
        Outcome::Failed { reason } => (false, reason.clone()),
        Outcome::Skipped { reason } => (true, reason.clone()),
    };
    Some(Unmeasured { key: run.key, environment: run.environment, is_skipped, reason })
}
