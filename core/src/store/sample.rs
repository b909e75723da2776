//! Reads what the analysis needs of a plan: the values of its metrics, without histograms and windows;
//! of disturbances and knobs only what a reader of the values has to know.
//!
//! Rows hang on a run and are clustered by its number, and the runs of a plan mostly follow
//! each other. So a stretch of them is one pass over each table. Kinds of metrics are compared by their numbers.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::column::{misfit, unsigned};
use super::connection::Store;
use super::digest::Part;
use super::error::{Fault, StoreError};
use super::facts::{self, disturbance, knob, pool_cpus};
use super::kind;
use super::read::{sessions, started};
use super::sound::CheckedRun;
use crate::model::{
    Environment, KnobReading, MetricKind, Plan, PlanStarted, Reading, RunKey, SampledMetric,
    SampledPlan, SampledPool, SampledRun, SampledVersion, SampledWorker, Unmeasured, Work,
    place_of,
};

const SETS: &str = "
    SELECT run, name, ops FROM worker_set WHERE run BETWEEN ?1 AND ?2 ORDER BY run, worker_set";
const METRICS: &str = "
    SELECT run, worker_set, metric_kind, value, unknown FROM metric WHERE run BETWEEN ?1 AND ?2
    ORDER BY run, worker_set, metric";
const WORKERS: &str = "
    SELECT worker.run, worker_set, name, role, worker.ops, wall_ns, cpu_ns
    FROM worker JOIN worker_set USING (run, worker_set)
    WHERE worker.run BETWEEN ?1 AND ?2 ORDER BY worker.run, worker";
const DISTURBANCES: &str = "
    SELECT run, share, json FROM disturbance WHERE run BETWEEN ?1 AND ?2 ORDER BY run, disturbance";
/// Readings that are equal have equal texts.
const MISMATCHES: &str = "
    SELECT run, knob, asked, got, unknown FROM knob_reading
    WHERE run BETWEEN ?1 AND ?2 AND got IS NOT asked ORDER BY run, knob_reading";
const SWITCHES: &str = "
    SELECT run, knob, asked, got, unknown FROM knob_reading
    WHERE run BETWEEN ?1 AND ?2 AND knob = ?3 ORDER BY run, knob_reading";
const POOLS: &str = "
    SELECT run, knob, asked, got, unknown, pool_cpus FROM knob_reading JOIN run USING (run)
    WHERE run BETWEEN ?1 AND ?2 AND knob = ?3 ORDER BY run, knob_reading";

const VERSIONS: &str = "
    SELECT run, name, version FROM program JOIN worker_set USING (run, worker_set)
    WHERE run BETWEEN ?1 AND ?2 AND version IS NOT NULL";

impl Store {
    /// Reads the values of plan `id`, many times as fast as an export reads all of it.
    pub fn sampled(&self, id: &str) -> Result<SampledPlan, StoreError> {
        self.snapshot_of(id, |conn, plan| {
            let started = started(conn, plan)?;
            let sessions = sessions(conn, plan)?;
            let ended = sessions.last().and_then(|session| session.ended);
            let environments: Vec<Environment> =
                sessions.into_iter().map(|session| session.environment).collect();
            let stored = self.checked_runs(conn, (plan, id), &parts(&started.plan))?;
            if stored.iter().any(|run| run.row.environment as usize >= environments.len()) {
                return Err(Fault::Damaged("a run names an environment that is not stored".into()));
            }
            let PlanStarted { id, backend, started_unix_ns, plan, cells, sharding, .. } = started;
            let none = SampledPlan::without_runs(&backend, plan, cells, environments);
            let plan = SampledPlan { id, started_unix_ns, sharding, ended, ..none };
            let mut samples = Samples { plan, ..Samples::default() };
            samples.plan.unmeasured = unmeasured(&stored, samples.plan.cells.len());
            let follow = |run: &CheckedRun, next: &CheckedRun| {
                next.row.run == run.row.run + 1 && run.is_damaged() == next.is_damaged()
            };
            for stretch in stored.chunk_by(follow).filter(|stretch| !stretch[0].is_damaged()) {
                samples.read(conn, stretch)?;
            }
            Ok(samples.plan)
        })
    }
}

/// The parts that are read of a run.
fn parts(plan: &Plan) -> Vec<Part> {
    let always = [Part::Sets, Part::Metrics, Part::Knobs, Part::Disturbances, Part::Programs];
    let workers = SampledPlan::has_solos(plan).then_some(Part::Workers);
    always.into_iter().chain(workers).collect()
}

/// Runs that gave no values, and why.
fn unmeasured(runs: &[CheckedRun], cells: usize) -> Vec<Unmeasured> {
    // A damaged one may name any cell: it is reported with one that there is.
    let last = (cells as u32).saturating_sub(1);
    let unmeasured = runs.iter().filter(|run| !run.is_done()).map(|run| Unmeasured {
        key: RunKey { cell: run.row.key.cell.min(last), ..run.row.key },
        environment: run.row.environment,
        is_skipped: run.is_skipped(),
        reason: run.reason().unwrap_or_default(),
    });
    unmeasured.collect()
}

/// A plan with the rows read so far, and the names known so far.
#[derive(Default)]
struct Samples {
    plan: SampledPlan,
    /// Each of the plan's runs, ascending by number.
    rows: Vec<RunRows>,
    /// The number of each of the plan's guests.
    guest_numbers: Vec<i64>,
    sets: Vec<Set>,
    kinds: Kinds,
    roles: Vec<Arc<str>>,
}

/// A run by which rows name it.
struct RunRows {
    number: i64,
    /// By the number of a set, its position in [`Samples::sets`]; `None`: its values are no samples.
    sets: Vec<Option<usize>>,
}

/// Worker sets of one name that count the same operation.
struct Set {
    name: String,
    ops: String,
    /// By the number of a kind, its position in [`SampledPlan::metrics`].
    metrics: Vec<Option<u32>>,
}

/// Kinds of metrics by their number.
#[derive(Default)]
struct Kinds {
    known: Vec<Option<(MetricKind, usize)>>,
    names: HashMap<String, usize>,
    /// By name: the set of a run that last had it. Of several in one, the first counts.
    seen: Vec<u64>,
    /// Counts the sets of all runs.
    stamp: u64,
    /// The run and the number of the last of these sets.
    last: Option<(usize, i64)>,
}

impl Samples {
    /// Adds consecutive runs.
    fn read(&mut self, conn: &Connection, runs: &[CheckedRun]) -> Result<(), Fault> {
        let [Some(first), Some(last)] = [runs.first(), runs.last()] else { return Ok(()) };
        let between = (first.row.run, last.row.run);
        self.begin(conn, runs, between)?;
        self.each(conn, METRICS, between, |own, run, row| own.add(conn, run, row))?;
        self.each(conn, DISTURBANCES, between, |own, run, row| {
            own.plan.runs[run].disturbances.push(disturbance(row, 1)?);
            Ok(())
        })?;
        self.each(conn, MISMATCHES, between, |own, run, row| {
            let reading = knob(row, 1)?;
            if reading.is_mismatch() {
                place_of(&mut own.plan.runs[run].mismatches, reading);
            }
            Ok(())
        })?;
        self.each(conn, VERSIONS, between, Samples::add_version)?;
        if self.plan.plan.measure.turns_ns.is_some() {
            let switches = (between.0, between.1, KnobReading::SWITCH);
            self.each(conn, SWITCHES, switches, |own, _, row| {
                own.plan.switches_ns.extend(knob(row, 1)?.switch_ns());
                Ok(())
            })?;
        }
        if self.plan.plan.placement.pool.is_some() {
            let pools = (between.0, between.1, KnobReading::POOL);
            self.each(conn, POOLS, pools, Samples::add_pool)?;
        }
        if SampledPlan::has_solos(&self.plan.plan) {
            self.each(conn, WORKERS, between, Samples::add_worker)?;
        }
        Ok(())
    }

    /// Gives `add` each row and the position of its run; the first column is the run's number. Rows of runs without
    /// values are passed over.
    fn each(
        &mut self,
        conn: &Connection,
        sql: &str,
        params: impl Params,
        mut add: impl FnMut(&mut Samples, usize, &Row<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut select = conn.prepare_cached(sql)?;
        let mut rows = select.query(params)?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            if let Ok(run) = self.rows.binary_search_by_key(&number, |run| run.number) {
                add(self, run, row)?;
            }
        }
        Ok(())
    }

    /// Adds those runs that were measured, without rows that hang on them.
    fn begin(
        &mut self,
        conn: &Connection,
        runs: &[CheckedRun],
        between: (i64, i64),
    ) -> Result<(), Fault> {
        let mut select = conn.prepare_cached(SETS)?;
        let mut rows = select.query(between)?;
        let mut sets: Vec<(i64, usize)> = Vec::new();
        while let Some(row) = rows.next()? {
            sets.push((row.get(0)?, self.set(text(row, 1)?, text(row, 2)?)));
        }
        for run in runs {
            let row = &run.row;
            let Some(work) = self.work_of(run) else { continue };
            let begins = sets.partition_point(|(of, _)| *of < row.run);
            let mut present: Vec<Option<usize>> = Vec::new();
            for &(_, set) in sets[begins..].iter().take_while(|(of, _)| *of == row.run) {
                let name = &self.sets[set].name;
                let is_second = present.iter().flatten().any(|&own| self.sets[own].name == *name);
                let is_sample = SampledPlan::takes(work, name) && !is_second;
                present.push(is_sample.then_some(set));
            }
            let (Some(started), Some(measured)) = (row.started_unix_ns, row.measured_ns) else {
                return Err(Fault::Damaged("a run has no time".to_string()));
            };
            self.rows.push(RunRows { number: row.run, sets: present });
            let guest = row.guest.map(|number| self.guest(conn, number)).transpose()?;
            self.plan.runs.push(SampledRun {
                key: row.key,
                environment: row.environment,
                guest,
                started_unix_ns: started as u64,
                measured_ns: measured as u64,
                ..SampledRun::default()
            });
        }
        Ok(())
    }

    /// The work of a run that was measured.
    fn work_of(&self, run: &CheckedRun) -> Option<&Work> {
        let cell = self.plan.cells.get(run.row.key.cell as usize);
        cell.filter(|_| run.is_done()).map(|cell| &cell.work)
    }

    /// The position in the plan's `guests`.
    fn guest(&mut self, conn: &Connection, number: i64) -> Result<u32, Fault> {
        if let Some(known) = self.guest_numbers.iter().position(|known| *known == number) {
            return count(known);
        }
        self.plan.guests.push(facts::guest(conn, number)?);
        self.guest_numbers.push(number);
        count(self.plan.guests.len() - 1)
    }

    /// A row of [`VERSIONS`].
    fn add_version(&mut self, run: usize, row: &Row<'_>) -> Result<(), Fault> {
        let cell = self.plan.runs[run].key.cell;
        let own = SampledVersion { cell, set: row.get(1)?, version: row.get(2)? };
        let versions = &mut self.plan.versions;
        if let Err(place) = versions.binary_search(&own) {
            versions.insert(place, own);
        }
        Ok(())
    }

    /// A row of [`POOLS`]: the first of a run counts.
    fn add_pool(&mut self, run: usize, row: &Row<'_>) -> Result<(), Fault> {
        if self.plan.runs[run].pool.is_none() {
            let (reading, cpus) = (knob(row, 1)?, row.get::<_, Option<String>>(5)?);
            let cpus = cpus.as_deref().map(pool_cpus).transpose()?;
            self.plan.runs[run].pool =
                Some(place_of(&mut self.plan.pools, SampledPool { reading, cpus }));
        }
        Ok(())
    }

    /// A row of [`WORKERS`].
    fn add_worker(&mut self, run: usize, row: &Row<'_>) -> Result<(), Fault> {
        let run = &mut self.plan.runs[run];
        let work = &self.plan.cells[run.key.cell as usize].work;
        let at: u16 = row.get(1)?;
        if let Some(set) = SampledWorker::set_of(work, at.into(), text(row, 2)?) {
            let role = interned(&mut self.roles, text(row, 3)?);
            let [ops, wall_ns, cpu_ns] = [unsigned(row, 4)?, unsigned(row, 5)?, unsigned(row, 6)?];
            run.workers.push(SampledWorker { set, role, ops, wall_ns, cpu_ns });
        }
        Ok(())
    }

    /// A row of [`METRICS`].
    fn add(&mut self, conn: &Connection, run: usize, row: &Row<'_>) -> Result<(), Fault> {
        let number: i64 = row.get(1)?;
        let sets = &self.rows[run].sets;
        let Some(present) = usize::try_from(number).ok().and_then(|number| sets.get(number)) else {
            return Err(Fault::Damaged(format!("a run has no worker set {number}")));
        };
        let Some(set) = *present else { return Ok(()) };
        if self.kinds.last.replace((run, number)) != Some((run, number)) {
            self.kinds.stamp += 1;
        }
        let Some((kind, at)) = self.kinds.first_of(conn, row.get(2)?)? else { return Ok(()) };
        let value = row.get::<_, Option<f64>>(3)?.map(|value| kind.possible(value));
        let set = &mut self.sets[set];
        if set.metrics.len() <= at {
            set.metrics.resize(at + 1, None);
        }
        let metric = match set.metrics[at] {
            Some(metric) => metric,
            None => {
                let metric = count(self.plan.metrics.len())?;
                let (name, ops) = (set.name.clone(), set.ops.clone());
                self.plan.metrics.push(SampledMetric { set: name, ops, kind: kind.clone() });
                *set.metrics[at].insert(metric)
            }
        };
        let run = &mut self.plan.runs[run];
        let reason = match value {
            Some(Reading::Known(value)) => {
                run.values.push((metric, value));
                return Ok(());
            }
            Some(Reading::Unknown(why)) => why,
            None => text(row, 4)?.to_string(),
        };
        run.unknown.push((metric, reason));
        Ok(())
    }

    /// The position in `sets`.
    fn set(&mut self, name: &str, ops: &str) -> usize {
        let known = self.sets.iter().position(|own| own.name == name && own.ops == ops);
        known.unwrap_or_else(|| {
            let (name, ops) = (name.to_string(), ops.to_string());
            self.sets.push(Set { name, ops, metrics: Vec::new() });
            self.sets.len() - 1
        })
    }
}

impl Kinds {
    /// The kind of this number and its position in a set's list; `None` where the set has had a
    /// metric of its name.
    fn first_of(
        &mut self,
        conn: &Connection,
        number: i64,
    ) -> Result<Option<(&MetricKind, usize)>, Fault> {
        let wrong =
            || Fault::Damaged(format!("a metric has the kind {number}, which is not there"));
        let at = usize::try_from(number).map_err(|_| wrong())?;
        if self.known.get(at).is_none_or(Option::is_none) {
            let sql = format!("SELECT {} FROM metric_kind WHERE metric_kind = ?1", kind::COLUMNS);
            let mut select = conn.prepare_cached(&sql)?;
            let kind = select.query_row([number], |row| kind::read(row, 0)).optional()?;
            let kind = kind.ok_or_else(wrong)?;
            let next = self.names.len();
            let name = *self.names.entry(kind.name.clone()).or_insert(next);
            self.seen.resize(self.names.len(), 0);
            if self.known.len() <= at {
                self.known.resize(at + 1, None);
            }
            self.known[at] = Some((kind, name));
        }
        let Some((kind, name)) = &self.known[at] else { return Ok(None) };
        let is_first = std::mem::replace(&mut self.seen[*name], self.stamp) != self.stamp;
        Ok(is_first.then_some((kind, at)))
    }
}

fn interned(known: &mut Vec<Arc<str>>, text: &str) -> Arc<str> {
    match known.iter().find(|known| ***known == *text) {
        Some(known) => Arc::clone(known),
        None => {
            known.push(text.into());
            Arc::clone(&known[known.len() - 1])
        }
    }
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r str> {
    row.get_ref(column)?.as_str().map_err(|why| misfit(column, why))
}

fn count(length: usize) -> Result<u32, Fault> {
    u32::try_from(length).map_err(|_| Fault::Damaged(format!("a plan has {length} values")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_known_is_kept_once() {
        let mut known = Vec::new();
        let [one, other, again] = ["a", "b", "a"].map(|text| interned(&mut known, text));
        assert_eq!((&*one, &*other, known.len()), ("a", "b", 2));
        assert!(Arc::ptr_eq(&one, &again));
    }
}
