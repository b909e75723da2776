//! One stored plan for a person to read: what was planned, where, and how its runs ended.

use rusqlite::Connection;

use super::annotations::{self, Subject};
use super::column::{from_word, unsigned};
use super::connection::Store;
use super::error::{Fault, StoreError};
use super::note::Annotations;
use super::read::{self, Session};
use crate::model::{DisturbanceKind, PlanStarted};

#[derive(Debug, Clone, PartialEq)]
pub struct PlanDetail {
    /// As it was first started.
    pub started: PlanStarted,
    /// At each start and resumption, in order; never empty.
    pub sessions: Vec<Session>,
    /// When the last measured run ended.
    pub measured_until_unix_ns: Option<u64>,
    /// Of runs that have no result; the most frequent first.
    pub unmeasured: Vec<Unmeasured>,
    /// Runs that each kind disturbed, the most frequent first.
    pub disturbed: Vec<(DisturbanceKind, u64)>,
    pub annotations: Annotations,
}

/// Runs that failed or were skipped for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmeasured {
    /// `failed` or `skipped`.
    pub status: String,
    pub reason: String,
    pub runs: u64,
}

const MEASURED_UNTIL: &str = "SELECT max(started_unix_ns + measured_ns) FROM run WHERE plan = ?1";
const UNMEASURED: &str = "
    SELECT status, reason, count(*) FROM run WHERE plan = ?1 AND status <> 'done'
    GROUP BY status, reason ORDER BY count(*) DESC, min(run)";
const DISTURBED: &str = "
    SELECT kind, count(DISTINCT run) FROM disturbance JOIN run USING (run) WHERE plan = ?1
    GROUP BY kind ORDER BY count(DISTINCT run) DESC, kind";

impl Store {
    pub fn detail(&self, id: &str) -> Result<PlanDetail, StoreError> {
        let read = || -> Result<_, Fault> {
            let snapshot = self.conn.unchecked_transaction()?;
            let plan = self.plan_number(&snapshot, id)?;
            let until: Option<i64> =
                snapshot.query_row(MEASURED_UNTIL, [plan], |row| row.get(0))?;
            Ok(PlanDetail {
                started: read::started(&snapshot, plan)?,
                sessions: read::sessions(&snapshot, plan)?,
                measured_until_unix_ns: until.map(|until| until as u64),
                unmeasured: unmeasured(&snapshot, plan)?,
                disturbed: disturbed(&snapshot, plan)?,
                annotations: annotations::read(&snapshot, &Subject::Plan(id), plan)?,
            })
        };
        read().map_err(|fault| fault.at(format!("read plan `{id}`"), &self.path))
    }
}

fn unmeasured(conn: &Connection, plan: i64) -> Result<Vec<Unmeasured>, Fault> {
    let mut select = conn.prepare_cached(UNMEASURED)?;
    let rows = select.query_map([plan], |row| {
        Ok(Unmeasured { status: row.get(0)?, reason: row.get(1)?, runs: unsigned(row, 2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn disturbed(conn: &Connection, plan: i64) -> Result<Vec<(DisturbanceKind, u64)>, Fault> {
    let mut select = conn.prepare_cached(DISTURBED)?;
    let rows = select.query_map([plan], |row| Ok((from_word(row, 0)?, unsigned(row, 1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
