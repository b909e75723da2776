//! A light list of what is stored, to choose plans by: runs are counted, not read.

use rusqlite::Connection;

use super::Store;
use super::annotations::{self, Subject};
use super::column::{reading, rows, unsigned};
use super::error::{Fault, StoreError};
use super::read::{ended, sharding};
use crate::model::{EnvironmentHead, PlanEnd, PlanHead, RunCounts};

const PLANS: &str =
    "SELECT plan, id FROM plan NOT INDEXED ORDER BY started_unix_ns DESC, plan DESC";
const PLAN: &str = "
    SELECT title, backend, started_unix_ns, coalesce(json ->> '$.aa', 0), runs_total, sharding,
           (SELECT count(*) FROM cell WHERE cell.plan = plan.plan)
    FROM plan WHERE plan = ?1";
const STATUSES: &str = "SELECT status, count(*) FROM run WHERE plan = ?1 GROUP BY status";
const ROUNDS: &str = "SELECT count(DISTINCT round), count(*) FROM run WHERE plan = ?1";
/// The reason why a boot is unknown stands in the JSON alone.
const ENVIRONMENTS: &str = "
    SELECT hostname, kernel_release, boot_id, iif(boot_id IS NULL, json ->> '$.boot_id.unknown', NULL),
           ended
    FROM environment WHERE plan = ?1 ORDER BY environment";
/// A fact that is no JSON is reported where the run is read.
const BOOTED: &str = "
    SELECT DISTINCT iif(json_valid(json), json ->> '$.kernel.release', NULL) AS booted
    FROM guest WHERE guest IN (SELECT guest FROM run WHERE plan = ?1) AND booted IS NOT NULL
    ORDER BY guest";
const VARIANTS: &str = "SELECT variant FROM cell WHERE plan = ?1 ORDER BY cell";

impl Store {
    /// All plans, newest first, but for those that are damaged.
    pub fn plan_heads(&self) -> Result<Vec<PlanHead>, StoreError> {
        let read = |conn: &Connection| {
            let mut heads = Vec::new();
            for (plan, id) in self.sound_plans(conn, PLANS)? {
                heads.extend(self.unless_damaged(&id, self.head(conn, plan, &id))?);
            }
            Ok(heads)
        };
        self.snapshot(read).map_err(|fault| fault.at("list the plans", &self.path))
    }

    fn head(&self, conn: &Connection, plan: i64, id: &str) -> Result<PlanHead, Fault> {
        let (environments, ended) = environments(conn, plan)?;
        let mut select = conn.prepare_cached(PLAN)?;
        let mut rows = select.query([plan])?;
        let row = rows.next()?.ok_or_else(|| Fault::Damaged("a plan is gone".to_string()))?;
        let mut runs = counts(conn, plan, unsigned(row, 4)?, unsigned(row, 6)?)?;
        let (rounds, there) = rounds(conn, plan)?;
        runs.rounds = rounds;
        // Each question has an index of its own, and one of them may be broken.
        let there = there.min(runs.done + runs.failed + runs.skipped);
        runs.failed += self.report_gone(conn, (plan, id), there)?.len() as u64;
        Ok(PlanHead {
            id: id.to_string(),
            title: row.get(0)?,
            backend: row.get(1)?,
            started_unix_ns: unsigned(row, 2)?,
            ended,
            environments,
            booted: booted(conn, plan)?,
            variants: variants(conn, plan)?,
            aa: row.get(3)?,
            sharding: sharding(row, 5)?,
            runs,
            tags: annotations::tags(conn, &Subject::Plan(""), plan)?,
        })
    }
}

fn counts(conn: &Connection, plan: i64, total: u64, cells: u64) -> Result<RunCounts, Fault> {
    let mut counts = RunCounts { total, cells, ..RunCounts::default() };
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

/// Rounds that were begun, and all their runs.
fn rounds(conn: &Connection, plan: i64) -> Result<(u64, u64), Fault> {
    let mut select = conn.prepare_cached(ROUNDS)?;
    Ok(select.query_one([plan], |row| Ok((unsigned(row, 0)?, unsigned(row, 1)?)))?)
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
    if heads.is_empty() {
        Err(Fault::Damaged("a plan has no environment".to_string()))
    } else {
        Ok((heads, last))
    }
}

fn booted(conn: &Connection, plan: i64) -> Result<Vec<String>, Fault> {
    rows(conn, BOOTED, [plan], |row| row.get(0))
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
