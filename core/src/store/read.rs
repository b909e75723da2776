//! Tables into plans and outcomes, exactly as the events had them.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension, Row};

use super::column::{from_json, from_word, reading, rows, unless_null, unsigned};
use super::connection::Store;
use super::damage::reason;
use super::digest::Part;
use super::error::{Fault, StoreError};
use super::facts::{disturbance, guest, knobs, pool_cpus};
use super::run::RunRow;
use super::{hdr, kind, program, seal};
use crate::model::{
    Disturbance, Environment, Metric, NamedHistogram, Outcome, PlanEnd, PlanStarted, ProgramRecord,
    Reading, RunKey, RunResult, SetResult, Sharding, WorkerResult, WorkerWindow, is_spoilt,
};

/// A plan, and which of its runs are there.
pub struct StoredRuns {
    pub started: PlanStarted,
    /// `None`: still running, or the process was killed.
    pub ended: Option<PlanEnd>,
    /// In the order in which they ended, each with whether load from outside spoilt it.
    pub runs: Vec<(RunKey, bool)>,
    /// All that were stored are there.
    pub is_whole: bool,
}

impl Store {
    /// Reads the runs of plan `id` that are as they were stored, without their results.
    pub fn stored_runs(&self, id: &str) -> Result<StoredRuns, StoreError> {
        self.snapshot_of(id, |conn, plan| {
            let started = started(conn, plan)?;
            let ended = sessions(conn, plan)?.last().and_then(|session| session.ended);
            let all = self.checked_runs(conn, (plan, id), &Part::ALL)?;
            let there = all.iter().filter(|run| run.is_there());
            let runs = there.map(|run| {
                let found = disturbances(conn, run.row.run)?;
                let is_spoilt = is_spoilt(found.iter().map(|found| (found.kind(), found.share)));
                Ok((run.row.key, is_spoilt))
            });
            let runs = runs.collect::<Result<Vec<_>, Fault>>()?;
            let is_whole = runs.len() == all.len();
            Ok(StoredRuns { started, ended, runs, is_whole })
        })
    }

    /// How plan `id` was begun.
    pub fn plan_started(&self, id: &str) -> Result<PlanStarted, StoreError> {
        self.snapshot_of(id, started)
    }

    /// The runs of plan `id` that need not be run again: those that are there as they were stored.
    pub fn finished_runs(&self, id: &str) -> Result<BTreeSet<RunKey>, StoreError> {
        Ok(self.stored_runs(id)?.runs.into_iter().map(|(key, _)| key).collect())
    }

    pub(super) fn plan_number(&self, conn: &Connection, id: &str) -> Result<i64, Fault> {
        // The index may say otherwise than the table.
        conn.prepare_cached(
            "SELECT found.plan FROM plan JOIN plan AS found ON found.plan = +plan.plan
             WHERE plan.id = ?1 AND +found.id = ?1",
        )?
        .query_row([id], |row| row.get(0))
        .optional()?
        .ok_or_else(|| {
            let (id, path) = (id.to_string(), self.path.clone());
            StoreError::UnknownPlan { id, path }.into()
        })
    }
}

pub(super) fn ended(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<PlanEnd>> {
    unless_null(row, column, from_word)
}

/// A start of the plan or a resumption.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub started_unix_ns: u64,
    pub environment: Environment,
    pub ended: Option<PlanEnd>,
}

/// In order; never empty.
pub(super) fn sessions(conn: &Connection, plan: i64) -> Result<Vec<Session>, Fault> {
    let sql =
        "SELECT started_unix_ns, json, ended FROM environment WHERE plan = ?1 ORDER BY environment";
    let sessions: Vec<Session> = rows(conn, sql, [plan], |row| {
        Ok(Session {
            started_unix_ns: unsigned(row, 0)?,
            environment: from_json(row, 1)?,
            ended: ended(row, 2)?,
        })
    })?;
    if sessions.is_empty() {
        return Err(Fault::Damaged("a plan has no environment".to_string()));
    }
    Ok(sessions)
}

/// The event that first started the plan.
pub(super) fn started(conn: &Connection, plan: i64) -> Result<PlanStarted, Fault> {
    seal::check_plan(conn, plan)?;
    let cells = "SELECT json FROM cell WHERE plan = ?1 ORDER BY cell";
    let cells = rows(conn, cells, [plan], |row| from_json(row, 0))?;
    let mut select = conn.prepare_cached(
        "SELECT event_schema, id, backend, plan.started_unix_ns, source, plan.json,
                environment.json, judged, sharding
         FROM plan JOIN environment USING (plan) WHERE plan = ?1 AND environment = 0",
    )?;
    let started = select.query_row([plan], |row| {
        Ok(PlanStarted {
            schema: row.get(0)?,
            id: row.get(1)?,
            backend: row.get(2)?,
            started_unix_ns: unsigned(row, 3)?,
            source: row.get(4)?,
            plan: from_json(row, 5)?,
            cells,
            // The calibration at the end belongs to the session, not to the start.
            environment: Environment { calibration_at_end: None, ..from_json(row, 6)? },
            judged: unless_null(row, 7, from_json)?.unwrap_or_default(),
            sharding: sharding(row, 8)?,
        })
    })?;
    Ok(started)
}

pub(super) fn sharding(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Sharding>> {
    unless_null(row, column, from_json)
}

/// Returns the outcome of a run that is as it was stored; else the run counts as failed, and `damaged` is called.
pub(super) fn checked(
    conn: &Connection,
    row: RunRow,
    damaged: impl FnOnce(RunKey, &'static str),
) -> Result<Outcome, Fault> {
    match seal::damage(conn, &row, &Part::ALL)? {
        None => outcome(conn, row),
        Some(what) => {
            damaged(row.key, what);
            Ok(Outcome::Failed { reason: reason(row.key, what) })
        }
    }
}

pub(super) fn outcome(conn: &Connection, row: RunRow) -> Result<Outcome, Fault> {
    let RunRow { run, status, reason, started_unix_ns, measured_ns, .. } = row;
    match (status.as_str(), reason, started_unix_ns, measured_ns) {
        ("failed", Some(reason), ..) => Ok(Outcome::Failed { reason }),
        ("skipped", Some(reason), ..) => Ok(Outcome::Skipped { reason }),
        ("done", None, Some(started_unix_ns), Some(measured_ns)) => {
            let overhead_cpu_ns = row.overhead_cpu_ns.map(|value| value as u64);
            let result = RunResult {
                started_unix_ns: started_unix_ns as u64,
                measured_ns: measured_ns as u64,
                sets: sets(conn, run)?,
                knobs: knobs(conn, run)?,
                disturbances: disturbances(conn, run)?,
                guest: row.guest.map(|number| guest(conn, number)).transpose()?,
                pool_cpus: row.pool_cpus.as_deref().map(pool_cpus).transpose()?,
                overhead_cpu_ns: reading(overhead_cpu_ns, row.overhead_unknown)?,
                in_turns: Vec::new(),
                trace: None,
            };
            Ok(Outcome::Done { result: Box::new(result) })
        }
        _ => Err(Fault::Damaged(format!("run {run} has the status `{status}` and not its fields"))),
    }
}

fn sets(conn: &Connection, run: i64) -> Result<Vec<SetResult>, Fault> {
    let mut sets: Vec<SetResult> = rows(
        conn,
        "SELECT name, workload, ops, background FROM worker_set WHERE run = ?1 ORDER BY worker_set",
        [run],
        |row| {
            Ok(SetResult {
                name: row.get(0)?,
                workload: row.get(1)?,
                ops: row.get(2)?,
                background: row.get(3)?,
                ..SetResult::default()
            })
        },
    )?;
    let programs: Vec<(i64, Option<String>, Vec<u8>)> = rows(
        conn,
        "SELECT worker_set, version, output FROM program WHERE run = ?1",
        [run],
        |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, Vec<u8>>(2)?)),
    )?;
    for (set, version, output) in programs {
        let output = program::unpack(&output, program::MAX_BYTES)
            .map_err(|why| Fault::Damaged(format!("output of a program of run {run}: {why}")))?;
        set_of(&mut sets, set)?.program = Some(ProgramRecord { version, output });
    }
    let metrics: Vec<(i64, Metric)> = rows(
        conn,
        &format!(
            "SELECT worker_set, value, unknown, {} FROM metric JOIN metric_kind USING (metric_kind)
             WHERE run = ?1 ORDER BY worker_set, metric",
            kind::COLUMNS
        ),
        [run],
        |row| Ok((row.get(0)?, metric(row)?)),
    )?;
    for (set, metric) in metrics {
        set_of(&mut sets, set)?.metrics.push(metric);
    }
    let histograms: Vec<(i64, String, Counts)> = rows(
        conn,
        "SELECT worker_set, name, hdr, exact, samples FROM histogram WHERE run = ?1
         ORDER BY worker_set, histogram",
        [run],
        |row| Ok((row.get(0)?, row.get(1)?, counts(row, 2)?)),
    )?;
    for (set, name, counts) in histograms {
        let counts = counts
            .map_err(|why| Fault::Damaged(format!("histogram `{name}` of run {run}: {why}")))?;
        set_of(&mut sets, set)?.histograms.push(NamedHistogram { name, counts });
    }
    let workers: Vec<(i64, WorkerResult)> = rows(
        conn,
        "SELECT worker_set, role, tid, ops, wall_ns, cpu_ns, counted_wall_ns,
                voluntary_switches, involuntary_switches, migrations, run_queue_wait_ns, unknown
         FROM worker WHERE run = ?1 ORDER BY worker",
        [run],
        |row| Ok((row.get(0)?, worker(row)?)),
    )?;
    for (set, worker) in workers {
        set_of(&mut sets, set)?.workers.push(worker);
    }
    Ok(sets)
}

fn set_of(sets: &mut [SetResult], number: i64) -> Result<&mut SetResult, Fault> {
    usize::try_from(number)
        .ok()
        .and_then(|number| sets.get_mut(number))
        .ok_or_else(|| Fault::Damaged(format!("a run has no worker set {number}")))
}

fn metric(row: &Row<'_>) -> rusqlite::Result<Metric> {
    let (kind, value) = (kind::read(row, 3)?, reading(row.get(1)?, row.get(2)?)?);
    let value = value.and_then(|value| kind.possible(value));
    Ok(kind.reading(value))
}

/// Ascending values and how often each came, or why the bytes have none.
type Counts = Result<Vec<(u64, u64)>, String>;

/// The counts of a histogram, or why they are none: `hdr`, `exact` and `samples` are columns from
/// `first` on.
pub(super) fn counts(row: &Row<'_>, first: usize) -> rusqlite::Result<Counts> {
    let exact: Option<Vec<_>> = unless_null(row, first + 1, from_json)?;
    let bytes: Vec<u8> = row.get(first)?;
    Ok(hdr::decode(&bytes, &exact.unwrap_or_default(), unsigned(row, first + 2)?))
}

fn worker(row: &Row<'_>) -> rusqlite::Result<WorkerResult> {
    let unknown: Option<BTreeMap<String, String>> = unless_null(row, 11, from_json)?;
    let mut unknown = unknown.unwrap_or_default();
    let mut known = |column: usize, name: &str| -> rusqlite::Result<Reading<u64>> {
        let value: Option<i64> = row.get(column)?;
        reading(value.map(|value| value as u64), unknown.remove(name))
    };
    Ok(WorkerResult {
        role: row.get(1)?,
        tid: row.get(2)?,
        ops: unsigned(row, 3)?,
        wall_ns: unsigned(row, 4)?,
        cpu_ns: unsigned(row, 5)?,
        counted_wall_ns: unsigned(row, 6)?,
        voluntary_switches: known(7, "voluntary_switches")?,
        involuntary_switches: known(8, "involuntary_switches")?,
        migrations: known(9, "migrations")?,
        run_queue_wait_ns: known(10, "run_queue_wait_ns")?,
    })
}

/// The times and counts of a window, in columns from `first` on.
pub(super) fn worker_window(row: &Row<'_>, first: usize) -> rusqlite::Result<WorkerWindow> {
    Ok(WorkerWindow {
        end_at_ns: unsigned(row, first)?,
        wall_ns: unsigned(row, first + 1)?,
        ops: unsigned(row, first + 2)?,
        cpu_ns: unsigned(row, first + 3)?,
        peak_ns: unsigned(row, first + 4)?,
    })
}

fn disturbances(conn: &Connection, run: i64) -> Result<Vec<Disturbance>, Fault> {
    rows(
        conn,
        "SELECT share, json FROM disturbance WHERE run = ?1 ORDER BY disturbance",
        [run],
        |row| disturbance(row, 0),
    )
}
