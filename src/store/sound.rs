//! The runs of a plan, each compared with its digests before anything of it is read: one that is damaged is
//! reported, counts as failed, and the others are as good as before.

use rusqlite::Connection;

use super::connection::Store;
use super::damage::{Damage, reason};
use super::digest::Part;
use super::error::Fault;
use super::run::{self, RunRow};
use super::seal;
use crate::model::RunKey;

pub(super) struct CheckedRun {
    pub row: RunRow,
    /// The name of a part that is not what was stored.
    damaged: Option<&'static str>,
}

impl CheckedRun {
    pub fn is_damaged(&self) -> bool {
        self.damaged.is_some()
    }

    pub fn is_done(&self) -> bool {
        !self.is_damaged() && self.row.status == "done"
    }

    pub fn is_skipped(&self) -> bool {
        !self.is_damaged() && self.row.status == "skipped"
    }

    /// Why it gave no values.
    pub fn reason(&self) -> Option<String> {
        match self.damaged {
            Some(what) => Some(reason(self.row.key, what)),
            None => self.row.reason.clone(),
        }
    }
}

impl Store {
    /// In the order in which they ended. Only these parts of runs are compared, so only they may be read.
    pub(super) fn checked_runs(
        &self,
        conn: &Connection,
        (plan, id): (i64, &str),
        parts: &[Part],
    ) -> Result<Vec<CheckedRun>, Fault> {
        let (mut all, mut guests) = (seal::Runs::default(), seal::Guests::default());
        let mut runs: Vec<CheckedRun> = Vec::new();
        run::each(conn, plan, |row| {
            all.add(&row);
            let damaged = (!guests.is_whole(conn, &row)?).then_some(seal::ROW);
            runs.push(CheckedRun { row, damaged });
            Ok(())
        })?;
        // A damaged one may have lost its digests, and is reported by itself.
        if !runs.iter().any(CheckedRun::is_damaged) {
            all.check(conn, plan)?;
        }
        let mut kinds = seal::Kinds::default();
        for stretch in runs.chunk_by_mut(|run, next| next.row.run == run.row.run + 1) {
            check(conn, parts, stretch, &mut kinds)?;
        }
        for CheckedRun { row, damaged } in &runs {
            let damage = damaged.map(|what| Damage::of_run(id, row.key, what));
            damage.into_iter().for_each(|damage| self.reporter.report(damage));
        }
        Ok(runs)
    }

    /// The number of a run, of which these parts are what was stored; a damaged one is reported.
    pub(super) fn sound_run(
        &self,
        conn: &Connection,
        (plan, id): (i64, &str),
        key: RunKey,
        parts: &[Part],
    ) -> Result<Option<i64>, Fault> {
        let Some(row) = run::of_plan(conn, plan, key)? else { return Ok(None) };
        match seal::damage(conn, &row, parts)? {
            None => Ok(Some(row.run)),
            Some(what) => {
                self.reporter.report(Damage::of_run(id, key, what));
                Ok(None)
            }
        }
    }
}

/// Compares parts of runs whose numbers follow each other.
fn check(
    conn: &Connection,
    parts: &[Part],
    runs: &mut [CheckedRun],
    kinds: &mut seal::Kinds,
) -> Result<(), Fault> {
    let [Some(first), Some(last)] = [runs.first(), runs.last()] else { return Ok(()) };
    let between = (first.row.run, last.row.run);
    let mut found = Vec::new();
    for &part in parts {
        found.clear();
        found.resize(runs.len(), seal::digest_without_rows());
        seal::each(conn, part, between, kinds, |run, digest| {
            found[(run - between.0) as usize] = digest;
        })?;
        for (run, found) in runs.iter_mut().zip(&found) {
            if run.row.digests.is_some_and(|digests| digests.part(part) != *found) {
                run.damaged.get_or_insert(part.describe());
            }
        }
    }
    Ok(())
}
