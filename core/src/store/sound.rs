//! The runs of a plan, each compared with its digests before anything of it is read: one that is damaged or gone is
//! reported, counts as failed, and the others are as good as before.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::connection::Store;
use super::damage::{Damage, reason, reason_of_gone};
use super::digest::Part;
use super::error::Fault;
use super::read::{sessions, started};
use super::run::{self, RunRow};
use super::seal;
use crate::model::{PlanStarted, RunKey};

pub(super) struct CheckedRun {
    pub row: RunRow,
    /// The name of a part that is not what was stored.
    damaged: Option<&'static str>,
}

impl CheckedRun {
    pub fn is_damaged(&self) -> bool {
        self.damaged.is_some()
    }

    /// Whether it is as it was stored.
    pub fn is_there(&self) -> bool {
        !self.is_damaged() && !self.row.is_gone()
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
        let mut guests = seal::Guests::default();
        let mut runs: Vec<CheckedRun> = Vec::new();
        self.each_run(conn, (plan, id), |row| {
            let is_whole = guests.is_whole(conn, &row)?;
            runs.push(CheckedRun { row, damaged: (!is_whole).then_some(seal::ROW) });
            Ok(is_whole)
        })?;
        let mut kinds = seal::Kinds::default();
        for stretch in runs.chunk_by_mut(|run, next| next.row.run == run.row.run + 1) {
            check(conn, parts, stretch, &mut kinds)?;
        }
        for CheckedRun { row, damaged } in &runs {
            let damage = damaged.map(|what| Damage::of_run(id, row.key, what));
            damage.into_iter().for_each(|damage| self.report(damage));
        }
        Ok(runs)
    }

    /// Calls `see` with each run of a plan in the order in which they ended, and then with those that are gone, as
    /// failed ones of the last session. `see` returns whether the row is what was stored.
    pub(super) fn each_run(
        &self,
        conn: &Connection,
        (plan, id): (i64, &str),
        mut see: impl FnMut(RunRow) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let (mut all, mut are_whole) = (seal::Runs::default(), true);
        run::each(conn, plan, |row| {
            all.add(&row);
            are_whole &= see(row)?;
            Ok(())
        })?;
        all.check(conn, plan, are_whole)?;
        let gone = self.report_gone(conn, (plan, id), all.count as u64)?;
        if !gone.is_empty() {
            let last = sessions(conn, plan)?.len() as u32 - 1;
            for key in gone {
                see(RunRow::gone(key, last, reason_of_gone(key)))?;
            }
        }
        Ok(())
    }

    /// As [`gone_runs`], which are reported.
    pub(super) fn report_gone(
        &self,
        conn: &Connection,
        (plan, id): (i64, &str),
        there: u64,
    ) -> Result<Vec<RunKey>, Fault> {
        let (gone, known) = gone_runs(conn, plan, there)?;
        if gone > 0 {
            let damage = Damage::Runs { plan: id.to_string(), gone, known: known.clone() };
            self.report(damage);
        }
        Ok(known)
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
                self.report(Damage::of_run(id, key, what));
                Ok(None)
            }
        }
    }
}

/// How many runs of a plan are gone where so many are there, and those that are known: the plan asks for them, and
/// they are not there.
pub(super) fn gone_runs(
    conn: &Connection,
    plan: i64,
    there: u64,
) -> Result<(u64, Vec<RunKey>), Fault> {
    match seal::gone(conn, plan, there)? {
        0 => Ok((0, Vec::new())),
        gone => {
            let known = absent(&started(conn, plan)?, &run::keys(conn, plan)?, gone as usize);
            Ok((gone, known))
        }
    }
}

/// Missing runs that the plan asks for, `count` of them: first those before the last run of their cell, since rounds
/// follow each other.
fn absent(started: &PlanStarted, there: &BTreeSet<RunKey>, count: usize) -> Vec<RunKey> {
    let part =
        started.sharding.as_ref().and_then(|own| Some((own.part?, own.division(&started.plan))));
    let is_own = |key: &RunKey| {
        part.as_ref().is_none_or(|(part, division)| division.part_of(*key) == Some(*part))
    };
    let cells = started.cells.len() as u32;
    let mut ends = vec![0; started.cells.len()];
    for key in there {
        if let Some(end) = ends.get_mut(key.cell as usize) {
            *end = key.round.max(*end);
        }
    }
    let last = ends.iter().copied().max().unwrap_or_default();
    let asked = started.plan.measure.rounds.max(last.saturating_add(1));
    let keys = (0..asked).flat_map(|round| (0..cells).map(move |cell| RunKey { round, cell }));
    let absent = || keys.clone().filter(|key| is_own(key) && !there.contains(key));
    let is_before_the_end = |key: &RunKey| key.round < ends[key.cell as usize];
    let before_the_end = absent().filter(is_before_the_end);
    let others = absent().filter(|key| !is_before_the_end(key));
    let mut chosen: Vec<RunKey> = before_the_end.chain(others).take(count).collect();
    chosen.sort();
    chosen
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
                run.damaged.get_or_insert(part.word());
            }
        }
    }
    Ok(())
}
