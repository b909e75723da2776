//! Reads what the analysis needs of a plan: the values of its metrics, without histograms and windows;
//! of disturbances and knobs only what a reader of the values has to know.
//!
//! Rows hang on a run and are clustered by its number, and the runs of a plan mostly follow
//! each other. So a stretch of them is one pass over two tables in parallel. Kinds of metrics
//! are compared by their numbers, and reasons are kept once.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, Rows};

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
    SampledPlan, SampledPool, SampledRun, SampledValue, SampledVersion, SampledWorker,
    UnknownValue, Unmeasured, Work, place_of,
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
            samples.plan.issues.unmeasured = unmeasured(&stored, samples.plan.cells.len());
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
    /// The number of each of the plan's runs, ascending.
    numbers: Vec<i64>,
    /// The number of each of the plan's guests.
    guest_numbers: Vec<i64>,
    sets: Vec<Set>,
    /// Name to operation to position in `sets`.
    ids: HashMap<String, HashMap<String, usize>>,
    /// The sets of the run at hand; `None`: its values are no samples.
    present: Vec<Option<usize>>,
    kinds: Kinds,
    /// The last reason why each of the plan's metrics was unknown.
    reasons: Vec<Option<Arc<str>>>,
    roles: Vec<Arc<str>>,
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
}

impl Samples {
    /// Adds consecutive runs.
    fn read(&mut self, conn: &Connection, runs: &[CheckedRun]) -> Result<(), Fault> {
        let [Some(first), Some(last)] = [runs.first(), runs.last()] else { return Ok(()) };
        let between = (first.row.run, last.row.run);
        let begins = self.plan.runs.len();
        self.read_values(conn, runs, between)?;
        self.read_issues(conn, between)?;
        self.read_versions(conn, between)?;
        if self.plan.plan.measure.turns_ns.is_some() {
            self.read_switches(conn, between)?;
        }
        if self.plan.plan.placement.pool.is_some() {
            self.read_pools(conn, between)?;
        }
        if SampledPlan::has_solos(&self.plan.plan) {
            self.read_workers(conn, begins, between)?;
        }
        Ok(())
    }

    fn read_values(
        &mut self,
        conn: &Connection,
        runs: &[CheckedRun],
        between: (i64, i64),
    ) -> Result<(), Fault> {
        let (mut sets, mut metrics) = (conn.prepare_cached(SETS)?, conn.prepare_cached(METRICS)?);
        let mut sets = SetRows { rows: sets.query(between)?, ahead: None };
        let mut metrics = metrics.query(between)?;
        let mut runs = runs.iter();
        let (mut run, mut set) = (None, None);
        while let Some(row) = metrics.next()? {
            let (of_run, of_set) = (row.get(0)?, row.get(1)?);
            while run.is_none_or(|run| run < of_run)
                && let Some(next) = runs.next()
            {
                self.begin(conn, next, &mut sets)?;
                (run, set) = (Some(next.row.run), None);
            }
            if set.replace(of_set) != Some(of_set) {
                self.kinds.stamp += 1;
            }
            self.add(conn, of_set, row)?;
        }
        runs.try_for_each(|run| self.begin(conn, run, &mut sets))
    }

    fn begin(
        &mut self,
        conn: &Connection,
        run: &CheckedRun,
        sets: &mut SetRows<'_>,
    ) -> Result<(), Fault> {
        let row = &run.row;
        self.present.clear();
        while let Some(set) = sets.next_of(row.run, self)? {
            let name = &self.sets[set].name;
            let is_second =
                self.present.iter().flatten().any(|&before| self.sets[before].name == *name);
            let work = self.work_of(run);
            let is_sample = work.is_some_and(|work| SampledPlan::takes(work, name)) && !is_second;
            self.present.push(is_sample.then_some(set));
        }
        if self.work_of(run).is_some() {
            let (Some(started), Some(measured)) = (row.started_unix_ns, row.measured_ns) else {
                return Err(Fault::Damaged("a run has no time".to_string()));
            };
            self.numbers.push(row.run);
            let guest = row.guest.map(|number| self.guest(conn, number)).transpose()?;
            self.plan.runs.push(SampledRun {
                key: row.key,
                environment: row.environment,
                first_value: count(self.plan.values.len())?,
                first_worker: count(self.plan.workers.len())?,
                guest,
                pool: None,
                started_unix_ns: started as u64,
                measured_ns: measured as u64,
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

    /// Reads the issues of consecutive runs, which have been read.
    fn read_issues(&mut self, conn: &Connection, between: (i64, i64)) -> Result<(), Fault> {
        let mut select = conn.prepare_cached(DISTURBANCES)?;
        let mut rows = select.query(between)?;
        while let Some(row) = rows.next()? {
            let Ok(run) = self.numbers.binary_search(&row.get(0)?) else { continue };
            self.plan.issues.disturbed.push((count(run)?, disturbance(row, 1)?));
        }
        let mut select = conn.prepare_cached(MISMATCHES)?;
        let mut rows = select.query(between)?;
        while let Some(row) = rows.next()? {
            let Ok(run) = self.numbers.binary_search(&row.get(0)?) else { continue };
            let reading = knob(row, 1)?;
            if reading.is_mismatch() {
                self.plan.issues.add_mismatch(count(run)?, reading);
            }
        }
        Ok(())
    }

    /// Reads the times of switches of consecutive runs in turns, which have been read.
    fn read_switches(&mut self, conn: &Connection, between: (i64, i64)) -> Result<(), Fault> {
        let mut select = conn.prepare_cached(SWITCHES)?;
        let mut rows = select.query((between.0, between.1, KnobReading::SWITCH))?;
        while let Some(row) = rows.next()? {
            self.plan.issues.switches_ns.extend(knob(row, 1)?.switch_ns());
        }
        Ok(())
    }

    /// Reads the versions that programs of consecutive runs, which have been read, print.
    fn read_versions(&mut self, conn: &Connection, between: (i64, i64)) -> Result<(), Fault> {
        let mut select = conn.prepare_cached(VERSIONS)?;
        let mut rows = select.query(between)?;
        while let Some(row) = rows.next()? {
            let Ok(run) = self.numbers.binary_search(&row.get(0)?) else { continue };
            let cell = self.plan.runs[run].key.cell;
            let own = SampledVersion { cell, set: row.get(1)?, version: row.get(2)? };
            let versions = &mut self.plan.versions;
            if let Err(place) = versions.binary_search(&own) {
                versions.insert(place, own);
            }
        }
        Ok(())
    }

    /// The pools of consecutive runs, which have been read.
    fn read_pools(&mut self, conn: &Connection, between: (i64, i64)) -> Result<(), Fault> {
        let mut select = conn.prepare_cached(POOLS)?;
        let mut rows = select.query((between.0, between.1, KnobReading::POOL))?;
        while let Some(row) = rows.next()? {
            let Ok(run) = self.numbers.binary_search(&row.get(0)?) else { continue };
            if self.plan.runs[run].pool.is_none() {
                let (reading, cpus) = (knob(row, 1)?, row.get::<_, Option<String>>(5)?);
                let cpus = cpus.as_deref().map(pool_cpus).transpose()?;
                self.plan.runs[run].pool =
                    Some(place_of(&mut self.plan.pools, SampledPool { reading, cpus }));
            }
        }
        Ok(())
    }

    /// The workers of consecutive runs, of which the first is at `begins`.
    fn read_workers(
        &mut self,
        conn: &Connection,
        begins: usize,
        between: (i64, i64),
    ) -> Result<(), Fault> {
        let mut select = conn.prepare_cached(WORKERS)?;
        let mut rows = select.query(between)?;
        let mut row = rows.next()?;
        for run in begins..self.plan.runs.len() {
            self.plan.runs[run].first_worker = count(self.plan.workers.len())?;
            let cell = &self.plan.cells[self.plan.runs[run].key.cell as usize];
            while let Some(own) = row
                && let of = own.get::<_, i64>(0)?
                && of <= self.numbers[run]
            {
                let at = own.get::<_, u16>(1)?;
                let set = SampledWorker::set_of(&cell.work, at.into(), text(own, 2)?);
                if let Some(set) = set.filter(|_| of == self.numbers[run]) {
                    let role = interned(&mut self.roles, text(own, 3)?);
                    let [ops, wall_ns, cpu_ns] =
                        [unsigned(own, 4)?, unsigned(own, 5)?, unsigned(own, 6)?];
                    self.plan.workers.push(SampledWorker { set, role, ops, wall_ns, cpu_ns });
                }
                row = rows.next()?;
            }
        }
        Ok(())
    }

    /// A row of [`METRICS`].
    fn add(&mut self, conn: &Connection, number: i64, row: &Row<'_>) -> Result<(), Fault> {
        let present = usize::try_from(number).ok().and_then(|number| self.present.get(number));
        let Some(present) = present else {
            return Err(Fault::Damaged(format!("a run has no worker set {number}")));
        };
        let Some(set) = *present else { return Ok(()) };
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
                self.reasons.push(None);
                *set.metrics[at].insert(metric)
            }
        };
        match value {
            Some(Reading::Known(value)) => self.plan.values.push(SampledValue { metric, value }),
            Some(Reading::Unknown(why)) => self.add_unknown(metric, &why)?,
            None => self.add_unknown(metric, text(row, 4)?)?,
        }
        Ok(())
    }

    /// Adds an unknown value to the last run.
    fn add_unknown(&mut self, metric: u32, reason: &str) -> Result<(), Fault> {
        let run = count(self.plan.runs.len() - 1)?;
        let last = &mut self.reasons[metric as usize];
        let reason = match last {
            Some(last) if **last == *reason => Arc::clone(last),
            _ => Arc::clone(last.insert(reason.into())),
        };
        self.plan.issues.unknown.push(UnknownValue { run, metric, reason });
        Ok(())
    }

    /// The position in `sets`.
    fn set(&mut self, name: &str, ops: &str) -> usize {
        if let Some(&set) = self.ids.get(name).and_then(|by_ops| by_ops.get(ops)) {
            return set;
        }
        let set = self.sets.len();
        self.ids.entry(name.to_string()).or_default().insert(ops.to_string(), set);
        let (name, ops) = (name.to_string(), ops.to_string());
        self.sets.push(Set { name, ops, metrics: Vec::new() });
        set
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

/// Rows of [`SETS`].
struct SetRows<'s> {
    rows: Rows<'s>,
    /// Read already: the number of its run and its position in [`Samples::sets`].
    ahead: Option<(i64, usize)>,
}

impl SetRows<'_> {
    /// The next set of this run; rows of runs before it are passed over.
    fn next_of(&mut self, run: i64, samples: &mut Samples) -> Result<Option<usize>, Fault> {
        loop {
            let (of_run, set) = match self.ahead.take() {
                Some(ahead) => ahead,
                None => match self.rows.next()? {
                    Some(row) => (row.get(0)?, samples.set(text(row, 1)?, text(row, 2)?)),
                    None => return Ok(None),
                },
            };
            if of_run == run {
                return Ok(Some(set));
            }
            if of_run > run {
                self.ahead = Some((of_run, set));
                return Ok(None);
            }
        }
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
