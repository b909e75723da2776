//! A light list of what is stored, to choose plans by: runs are counted, not read.

use rusqlite::Connection;

use super::Store;
use super::annotations::{self, Subject};
use super::column::{reading, unsigned};
use super::error::{Fault, StoreError};
use super::read::{ended, sharding};
use crate::model::{EnvironmentHead, PlanEnd, PlanHead, RunCounts};

const PLANS: &str = "
    SELECT plan, id, title, backend, started_unix_ns, coalesce(json ->> '$.aa', 0), runs_total,
           (SELECT count(*) FROM cell WHERE cell.plan = plan.plan), sharding
    FROM plan ORDER BY started_unix_ns DESC, plan DESC";
const STATUSES: &str = "SELECT status, count(*) FROM run WHERE plan = ?1 GROUP BY status";
const ROUNDS: &str = "SELECT count(DISTINCT round) FROM run WHERE plan = ?1";
/// The reason why a boot is unknown stands in the JSON alone.
const ENVIRONMENTS: &str = "
    SELECT hostname, kernel_release, boot_id, iif(boot_id IS NULL, json ->> '$.boot_id.unknown', NULL),
           ended
    FROM environment WHERE plan = ?1 ORDER BY environment";
const VARIANTS: &str = "SELECT variant FROM cell WHERE plan = ?1 ORDER BY cell";

impl Store {
    /// All plans, newest first.
    pub fn plan_heads(&self) -> Result<Vec<PlanHead>, StoreError> {
        let read = || -> Result<_, Fault> {
            let snapshot = self.conn.unchecked_transaction()?;
            let mut select = snapshot.prepare_cached(PLANS)?;
            let mut rows = select.query([])?;
            let mut heads = Vec::new();
            while let Some(row) = rows.next()? {
                let plan = row.get(0)?;
                let (environments, ended) = environments(&snapshot, plan)?;
                heads.push(PlanHead {
                    id: row.get(1)?,
                    title: row.get(2)?,
                    backend: row.get(3)?,
                    started_unix_ns: unsigned(row, 4)?,
                    ended,
                    environments,
                    variants: variants(&snapshot, plan)?,
                    aa: row.get(5)?,
                    sharding: sharding(row, 8)?,
                    runs: counts(&snapshot, plan, unsigned(row, 6)?, unsigned(row, 7)?)?,
                    tags: annotations::tags(&snapshot, &Subject::Plan(""), plan)?,
                });
            }
            Ok(heads)
        };
        read().map_err(|fault| fault.at("list the plans", &self.path))
    }
}

fn counts(conn: &Connection, plan: i64, total: u64, cells: u64) -> Result<RunCounts, Fault> {
    let rounds = conn.prepare_cached(ROUNDS)?.query_one([plan], |row| unsigned(row, 0))?;
    let mut counts = RunCounts { total, cells, rounds, ..RunCounts::default() };
    let mut select = conn.prepare_cached(STATUSES)?;
    let mut rows = select.query([plan])?;
    while let Some(row) = rows.next()? {
        let status: String = row.get(0)?;
        let count = match status.as_str() {
            "done" => &mut counts.done,
            "failed" => &mut counts.failed,
            "skipped" => &mut counts.skipped,
            _ => return Err(Fault::Damaged(format!("a run has the status `{status}`"))),
        };
        *count = unsigned(row, 1)?;
    }
    Ok(counts)
}

/// And how the last session ended.
fn environments(
    conn: &Connection,
    plan: i64,
) -> Result<(Vec<EnvironmentHead>, Option<PlanEnd>), Fault> {
    let mut select = conn.prepare_cached(ENVIRONMENTS)?;
    let mut rows = select.query([plan])?;
    let (mut heads, mut last) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        heads.push(EnvironmentHead {
            hostname: row.get(0)?,
            kernel_release: row.get(1)?,
            boot_id: reading(row.get(2)?, row.get(3)?)?,
        });
        last = ended(row, 4)?;
    }
    match heads.is_empty() {
        true => Err(Fault::Damaged("a plan has no environment".to_string())),
        false => Ok((heads, last)),
    }
}

/// Cells are works times variants, the variants fastest: they are all there when the first
/// comes again.
fn variants(conn: &Connection, plan: i64) -> Result<Vec<String>, Fault> {
    let mut select = conn.prepare_cached(VARIANTS)?;
    let mut rows = select.query([plan])?;
    let mut names: Vec<String> = Vec::new();
    while let Some(row) = rows.next()? {
        let name = row.get(0)?;
        if names.first() == Some(&name) {
            break;
        }
        names.push(name);
    }
    Ok(names)
}
