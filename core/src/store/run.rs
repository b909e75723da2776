//! Rows of runs, as they are stored.

use std::collections::BTreeSet;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use super::column::rows;
use super::digest::Digests;
use super::error::Fault;
use crate::model::RunKey;

#[derive(Default)]
pub(super) struct RunRow {
    pub run: i64,
    pub key: RunKey,
    /// The session that measured it.
    pub environment: u32,
    pub status: String,
    pub reason: Option<String>,
    pub started_unix_ns: Option<i64>,
    pub measured_ns: Option<i64>,
    pub overhead_cpu_ns: Option<i64>,
    pub overhead_unknown: Option<String>,
    pub guest: Option<i64>,
    pub pool_cpus: Option<String>,
    /// `None`: it was stored before there were any.
    pub digests: Option<Digests>,
}

/// No run has this number.
const GONE: i64 = i64::MIN;

impl RunRow {
    /// Stands for a run that was stored and is gone: it has failed, and no table has anything of it.
    pub fn gone(key: RunKey, environment: u32, reason: String) -> RunRow {
        RunRow {
            run: GONE,
            key,
            environment,
            status: "failed".to_string(),
            reason: Some(reason),
            ..RunRow::default()
        }
    }

    pub fn is_gone(&self) -> bool {
        self.run == GONE
    }
}

/// In a plan with a digest every run has digests; a run that has lost them matches none.
const RUN: &str = "
    SELECT run, round, cell, environment, status, reason, started_unix_ns, measured_ns,
           overhead_cpu_ns, overhead_unknown, guest, pool_cpus,
           coalesce(digests, (SELECT x'' FROM plan_digest WHERE plan_digest.plan = run.plan))
    FROM run";

/// Calls `see` with each run of the plan in the order in which they ended.
pub(super) fn each(
    conn: &Connection,
    plan: i64,
    mut see: impl FnMut(RunRow) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut select = conn.prepare_cached(&format!("{RUN} WHERE plan = ?1 ORDER BY run"))?;
    let mut rows = select.query([plan])?;
    while let Some(row) = rows.next()? {
        see(read(row)?)?;
    }
    Ok(())
}

pub(super) fn keys(conn: &Connection, plan: i64) -> Result<BTreeSet<RunKey>, Fault> {
    rows(conn, "SELECT round, cell FROM run WHERE plan = ?1", [plan], |row| {
        Ok(RunKey { round: row.get(0)?, cell: row.get(1)? })
    })
}

/// The run of this number, which is there.
pub(super) fn numbered(conn: &Connection, number: i64) -> Result<RunRow, Fault> {
    Ok(conn.prepare_cached(&format!("{RUN} WHERE run = ?1"))?.query_row([number], read)?)
}

pub(super) fn of_plan(conn: &Connection, plan: i64, key: RunKey) -> Result<Option<RunRow>, Fault> {
    let sql = format!("{RUN} WHERE plan = ?1 AND round = ?2 AND cell = ?3");
    let mut select = conn.prepare_cached(&sql)?;
    Ok(select.query_row((plan, key.round, key.cell), read).optional()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        run: row.get(0)?,
        key: RunKey { round: row.get(1)?, cell: row.get(2)? },
        environment: row.get(3)?,
        status: text(row, 4)?.unwrap_or_default(),
        reason: text(row, 5)?,
        started_unix_ns: row.get(6)?,
        measured_ns: row.get(7)?,
        overhead_cpu_ns: row.get(8)?,
        overhead_unknown: text(row, 9)?,
        guest: row.get(10)?,
        pool_cpus: text(row, 11)?,
        digests: match row.get_ref(12)? {
            ValueRef::Null => None,
            // Another type matches no run.
            other => Some(other.as_blob().map(Digests::from_bytes).unwrap_or_default()),
        },
    })
}

/// Also what is none: its digest says so.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Null => None,
        _ => row.get(column)?,
    })
}
