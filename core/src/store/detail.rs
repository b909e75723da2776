//! One stored plan for a person to read: what was planned, where, and how its runs ended.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::de::value::Error as WordError;

use super::annotations::{self, Subject};
use super::column::parse_word;
use super::connection::Store;
use super::digest::Part;
use super::error::{Fault, StoreError};
use super::note::Annotations;
use super::read::{self, Session};
use super::sound::CheckedRun;
use crate::model::{DisturbanceKind, PlanStarted};

#[derive(Debug, Clone, PartialEq)]
pub struct PlanDetail {
    /// As it was first started.
    pub started: PlanStarted,
    /// At each start and resumption, in order; never empty.
    pub sessions: Vec<Session>,
    /// When the last measured run ended.
    pub measured_until_unix_ns: Option<u64>,
    /// Runs without a result; the most frequent first.
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

const DISTURBED: &str = "SELECT DISTINCT kind FROM disturbance WHERE run = ?1";

impl Store {
    pub fn detail(&self, id: &str) -> Result<PlanDetail, StoreError> {
        self.snapshot_of(id, |conn, plan| {
            let started = read::started(conn, plan)?;
            let runs = self.checked_runs(conn, (plan, id), &[Part::Disturbances])?;
            let done = runs.iter().filter(|run| run.is_done());
            let ends = done.map(|run| {
                let (started, measured) = (run.row.started_unix_ns, run.row.measured_ns);
                (started.unwrap_or_default() as u64)
                    .saturating_add(measured.unwrap_or_default() as u64)
            });
            Ok(PlanDetail {
                started,
                measured_until_unix_ns: ends.max(),
                sessions: read::sessions(conn, plan)?,
                unmeasured: unmeasured(&runs),
                disturbed: disturbed(conn, &runs)?,
                annotations: annotations::read(conn, &Subject::Plan(id), plan)?,
            })
        })
    }
}

fn unmeasured(runs: &[CheckedRun]) -> Vec<Unmeasured> {
    let mut groups: Vec<Unmeasured> = Vec::new();
    for run in runs.iter().filter(|run| !run.is_done()) {
        let status = if run.is_skipped() { "skipped" } else { "failed" }.to_string();
        let reason = run.reason().unwrap_or_default();
        match groups.iter_mut().find(|own| (&own.status, &own.reason) == (&status, &reason)) {
            Some(own) => own.runs += 1,
            None => groups.push(Unmeasured { status, reason, runs: 1 }),
        }
    }
    groups.sort_by_key(|group| Reverse(group.runs));
    groups
}

fn disturbed(conn: &Connection, runs: &[CheckedRun]) -> Result<Vec<(DisturbanceKind, u64)>, Fault> {
    let mut select = conn.prepare_cached(DISTURBED)?;
    // Equally many stand in the order of their words.
    let mut words: BTreeMap<String, u64> = BTreeMap::new();
    for run in runs.iter().filter(|run| !run.is_damaged()) {
        let mut rows = select.query([run.row.run])?;
        while let Some(row) = rows.next()? {
            *words.entry(row.get(0)?).or_default() += 1;
        }
    }
    let kind = |(word, runs): (String, u64)| Ok((parse_word(&word)?, runs));
    let kinds = words.into_iter().map(kind).collect::<Result<_, WordError>>();
    let mut kinds: Vec<(DisturbanceKind, u64)> =
        kinds.map_err(|why| Fault::Damaged(why.to_string()))?;
    kinds.sort_by_key(|(_, runs)| Reverse(*runs));
    Ok(kinds)
}
