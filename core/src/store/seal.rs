//! Digests of runs, plans and scores: written with them, and compared when they are read.
//!
//! A run has one of its row and one of its rows in each table that hangs on it ([`Part`]), computed from what
//! SQLite gives back. A plan has one of all else that is stored of it, and the sum of its runs' own, whatever
//! their order: so runs that are gone, or are another plan's, are missed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::LazyLock;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};

use super::digest::{Digest, Digests, Part};
use super::error::Fault;
use super::kind;
use super::run::{self, RunRow};

/// The rows of each part, with the run first. Metrics have the number of their kind behind it.
static ROWS: LazyLock<[String; Part::ALL.len()]> = LazyLock::new(|| {
    Part::ALL.map(|part| {
        let (table, key, columns) = table(part);
        format!(
            "SELECT run, {columns} FROM {table} WHERE run BETWEEN ?1 AND ?2 ORDER BY run, {key}"
        )
    })
});

/// The table of a part, its key behind the run, and its columns.
fn table(part: Part) -> (&'static str, &'static str, &'static str) {
    match part {
        Part::Sets => {
            ("worker_set", "worker_set", "worker_set, name, workload, ops, background")
        }
        Part::Metrics => {
            ("metric", "worker_set, metric", "metric_kind, worker_set, metric, value, unknown")
        }
        Part::Histograms => (
            "histogram",
            "worker_set, histogram",
            "worker_set, histogram, name, samples, min_ns, max_ns, hdr, exact",
        ),
        Part::Workers => (
            "worker",
            "worker",
            "worker, worker_set, role, tid, ops, wall_ns, cpu_ns, counted_wall_ns, voluntary_switches,
             involuntary_switches, migrations, run_queue_wait_ns, unknown",
        ),
        Part::Windows => (
            "worker_window",
            "window_index, worker",
            "window_index, worker, end_at_ns, wall_ns, ops, cpu_ns, peak_ns",
        ),
        Part::Knobs => ("knob_reading", "knob_reading", "knob_reading, knob, asked, got, unknown"),
        Part::Disturbances => ("disturbance", "disturbance", "disturbance, kind, share, json"),
        Part::Programs => ("program", "worker_set", "worker_set, version, output"),
    }
}

/// The digests of kinds of metrics, by their numbers: rows name these, and mean what they say.
#[derive(Default)]
pub(super) struct Kinds(HashMap<i64, u64>);

impl Kinds {
    fn digest(&mut self, conn: &Connection, number: i64) -> Result<u64, Fault> {
        if let Some(known) = self.0.get(&number) {
            return Ok(*known);
        }
        let sql = format!("SELECT {} FROM metric_kind WHERE metric_kind = ?1", kind::COLUMNS);
        let mut select = conn.prepare_cached(&sql)?;
        let (columns, mut digest) = (select.column_count(), Digest::default());
        let mut rows = select.query([number])?;
        if let Some(row) = rows.next()? {
            digest.add_columns(row, 0, columns)?;
        }
        let digest = digest.take();
        self.0.insert(number, digest);
        Ok(digest)
    }
}

/// Calls `see` with the digest of this part of each run from the first to the last of `between` that has any.
pub(super) fn each(
    conn: &Connection,
    part: Part,
    between: (i64, i64),
    kinds: &mut Kinds,
    mut see: impl FnMut(i64, u64),
) -> Result<(), Fault> {
    let mut select = conn.prepare_cached(&ROWS[part as usize])?;
    let columns = select.column_count();
    let mut rows = select.query(between)?;
    let (mut digest, mut of) = (Digest::default(), None);
    while let Some(row) = rows.next()? {
        let run: i64 = row.get(0)?;
        if let Some(before) = of.replace(run).filter(|before| *before != run) {
            see(before, digest.take());
        }
        let mut first = 1;
        if part == Part::Metrics {
            digest.add_number(kinds.digest(conn, row.get(1)?)?);
            first = 2;
        }
        digest.add_columns(row, first, columns)?;
    }
    of.into_iter().for_each(|run| see(run, digest.take()));
    Ok(())
}

/// The digest of a part without rows.
pub(super) fn digest_without_rows() -> u64 {
    Digest::default().take()
}

fn part_digest(conn: &Connection, part: Part, run: i64) -> Result<u64, Fault> {
    let mut found = digest_without_rows();
    each(conn, part, (run, run), &mut Kinds::default(), |_, digest| found = digest)?;
    Ok(found)
}

/// The digest of a run's row, in whatever plan and session it stands, and of its parts' digests. `guest` is the
/// text of its guest.
pub(super) fn row_digest(row: &RunRow, guest: Option<&str>, digests: &Digests) -> u64 {
    let mut digest = Digest::default();
    digest.add_integer(Some(row.key.round.into()));
    digest.add_integer(Some(row.key.cell.into()));
    digest.add_text(Some(&row.status));
    digest.add_text(row.reason.as_deref());
    digest.add_integer(row.started_unix_ns);
    digest.add_integer(row.measured_ns);
    digest.add_integer(row.overhead_cpu_ns);
    digest.add_text(row.overhead_unknown.as_deref());
    digest.add_text(guest);
    digest.add_text(row.pool_cpus.as_deref());
    digests.parts().for_each(|part| digest.add_number(part));
    digest.take()
}

fn guest(conn: &Connection, row: &RunRow) -> Result<Option<String>, Fault> {
    let Some(number) = row.guest else { return Ok(None) };
    let mut select = conn.prepare_cached("SELECT json FROM guest WHERE guest = ?1")?;
    Ok(select.query_row([number], |row| row.get(0)).optional()?)
}

/// The texts of guests by their numbers: many runs have one.
#[derive(Default)]
pub(super) struct Guests(HashMap<i64, Option<String>>);

impl Guests {
    /// Whether the row of a run is what was stored.
    pub fn is_whole(&mut self, conn: &Connection, row: &RunRow) -> Result<bool, Fault> {
        let Some(digests) = &row.digests else { return Ok(true) };
        let text = match row.guest {
            None => &None,
            Some(number) => match self.0.entry(number) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(guest(conn, row)?),
            },
        };
        Ok(row_digest(row, text.as_deref(), digests) == digests.run)
    }
}

/// Names the first of these parts of a run that is not what was stored. A run without digests passes.
pub(super) fn damage(
    conn: &Connection,
    row: &RunRow,
    parts: &[Part],
) -> Result<Option<&'static str>, Fault> {
    let Some(digests) = &row.digests else { return Ok(None) };
    if row_digest(row, guest(conn, row)?.as_deref(), digests) != digests.run {
        return Ok(Some(ROW));
    }
    for part in parts {
        if part_digest(conn, *part, row.run)? != digests.part(*part) {
            return Ok(Some(part.word()));
        }
    }
    Ok(None)
}

/// The name of damage outside of all parts.
pub(super) const ROW: &str = "row";

/// Computes the digests of a run that was stored just now; `is_again`: in place of one that was damaged or gone.
pub(super) fn run(conn: &Connection, plan: i64, run: i64, is_again: bool) -> Result<(), Fault> {
    let row = run::numbered(conn, run)?;
    let mut digests = Digests::default();
    for part in Part::ALL {
        digests.set(part, part_digest(conn, part, run)?);
    }
    digests.run = row_digest(&row, guest(conn, &row)?.as_deref(), &digests);
    conn.prepare_cached("UPDATE run SET digests = ?2 WHERE run = ?1")?
        .execute(params![run, digests.to_bytes()])?;
    let Some((count, sum)) = stored_runs(conn, plan)? else { return Ok(()) };
    let (count, sum) = if is_again {
        (count, Runs::of_plan(conn, plan)?.sum)
    } else {
        (count + 1, (sum as u64).wrapping_add(in_session(&digests, row.environment)))
    };
    conn.prepare_cached("UPDATE plan_digest SET runs = ?2, digest = ?3 WHERE plan = ?1")?
        .execute(params![plan, count, sum as i64])?;
    Ok(())
}

/// The number that a run adds to the sum of its plan.
fn in_session(digests: &Digests, session: u32) -> u64 {
    let mut digest = Digest::default();
    digest.add_number(digests.run);
    digest.add_number(session.into());
    digest.take()
}

/// The runs of a plan, as they are read.
#[derive(Default)]
pub(super) struct Runs {
    pub count: i64,
    sum: u64,
    /// One is from before there were digests.
    are_older: bool,
}

impl Runs {
    fn of_plan(conn: &Connection, plan: i64) -> Result<Runs, Fault> {
        let mut runs = Runs::default();
        run::each(conn, plan, |row| {
            runs.add(&row);
            Ok(())
        })?;
        Ok(runs)
    }

    pub fn add(&mut self, row: &RunRow) {
        self.count += 1;
        let own = row.digests.as_ref().map(|digests| in_session(digests, row.environment));
        self.are_older |= own.is_none();
        self.sum = self.sum.wrapping_add(own.unwrap_or_default());
    }

    /// Fails where there are others than were stored. One whose row is damaged may have lost its digests, and is
    /// reported by itself; those that are gone are counted by [`gone`].
    pub fn check(&self, conn: &Connection, plan: i64, are_whole: bool) -> Result<(), Fault> {
        match stored_runs(conn, plan)? {
            Some((count, sum)) if count == self.count && are_whole && sum != self.sum as i64 => {
                Err(other_runs())
            }
            _ => Ok(()),
        }
    }
}

/// How many runs of a plan are gone where so many are there. Fails where these are more than were stored, and
/// where they may be there, but an index or a page of the file is broken: whoever wrote them again would have them
/// twice.
pub(super) fn gone(conn: &Connection, plan: i64, there: u64) -> Result<u64, Fault> {
    let Some((count, _)) = stored_runs(conn, plan)? else { return Ok(0) };
    let gone = (count as u64).checked_sub(there).ok_or_else(other_runs)?;
    if gone > 0 {
        let said: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if said != "ok" {
            let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            return Err(
                rusqlite::Error::SqliteFailure(corrupt, Some(said.replace('\n', " "))).into()
            );
        }
    }
    Ok(gone)
}

fn other_runs() -> Fault {
    Fault::Damaged("its runs are not those that were stored".to_string())
}

/// The number of runs and the sum of their digests; `None`: the plan is from before there were any.
fn stored_runs(conn: &Connection, plan: i64) -> Result<Option<(i64, i64)>, Fault> {
    Ok(conn
        .prepare_cached("SELECT runs, digest FROM plan_digest WHERE plan = ?1")?
        .query_row([plan], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?)
}

const PLAN: [&str; 5] = [
    "SELECT id, event_schema, title, backend, started_unix_ns, runs_total, source, json, judged, sharding
     FROM plan WHERE plan = ?1",
    "SELECT environment, started_unix_ns, ended, hostname, cpu_model, kernel_release, kernel_version,
            boot_id, virtualisation, json
     FROM environment WHERE plan = ?1 ORDER BY environment",
    "SELECT cell, variant, work, json FROM cell WHERE plan = ?1 ORDER BY cell",
    "SELECT name FROM tag WHERE plan = ?1 ORDER BY name",
    "SELECT written_unix_ns, text FROM note WHERE plan = ?1 ORDER BY note",
];
const SCORE: [&str; 3] = [
    "SELECT id, title, started_unix_ns, hostname, kernel_release, source, wall_ns, json
     FROM score WHERE score = ?1",
    "SELECT name FROM score_tag WHERE score = ?1 ORDER BY name",
    "SELECT written_unix_ns, text FROM score_note WHERE score = ?1 ORDER BY note",
];

fn rows_digest(conn: &Connection, tables: &[&str], number: i64) -> Result<u64, Fault> {
    let mut digest = Digest::default();
    for sql in tables {
        let mut select = conn.prepare_cached(sql)?;
        let columns = select.column_count();
        let mut rows = select.query([number])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            digest.add_columns(row, 0, columns)?;
            count += 1;
        }
        digest.add(ValueRef::Integer(count));
    }
    Ok(digest.take())
}

/// Computes again the digest of all that is stored of a plan but its runs. One from before there were digests gets
/// none: who measures it may be as old, and stores its runs without any.
pub(super) fn plan(conn: &Connection, plan: i64) -> Result<(), Fault> {
    conn.prepare_cached("UPDATE plan_digest SET record = ?2 WHERE plan = ?1")?
        .execute(params![plan, rows_digest(conn, &PLAN, plan)? as i64])?;
    Ok(())
}

/// Computes the first digest of a plan, with that of its runs: a new one has none, and where parts were joined they
/// came from other plans. One with runs from before there were digests gets none.
pub(super) fn whole(conn: &Connection, plan: i64) -> Result<(), Fault> {
    let runs = Runs::of_plan(conn, plan)?;
    if runs.are_older {
        return Ok(());
    }
    let record = rows_digest(conn, &PLAN, plan)? as i64;
    conn.prepare_cached("INSERT OR REPLACE INTO plan_digest VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![plan, record, runs.count, runs.sum as i64])?;
    Ok(())
}

/// Computes that of a score.
pub(super) fn score(conn: &Connection, score: i64) -> Result<(), Fault> {
    conn.prepare_cached("INSERT OR REPLACE INTO score_digest (score, record) VALUES (?1, ?2)")?
        .execute(params![score, rows_digest(conn, &SCORE, score)? as i64])?;
    Ok(())
}

/// Fails where what is stored of a plan but its runs is not what was stored.
pub(super) fn check_plan(conn: &Connection, plan: i64) -> Result<(), Fault> {
    let stored = "SELECT record FROM plan_digest WHERE plan = ?1";
    check(conn, stored, &PLAN, plan)
}

/// How many plans, or scores, are gone but for their digest.
pub(super) fn missing(conn: &Connection, table: &str) -> Result<u64, Fault> {
    let sql = format!("SELECT count(*) FROM {}", of_missing(table));
    Ok(conn.prepare_cached(&sql)?.query_row([], |row| row.get::<_, i64>(0))? as u64)
}

/// Removes the digests of plans, or scores, that are gone; returns how many.
pub(super) fn forget_missing(conn: &Connection, table: &str) -> Result<u64, Fault> {
    Ok(conn.execute(&format!("DELETE FROM {}", of_missing(table)), [])? as u64)
}

fn of_missing(table: &str) -> String {
    format!("{table}_digest WHERE {table} NOT IN (SELECT {table} FROM {table} NOT INDEXED)")
}

pub(super) fn check_score(conn: &Connection, score: i64) -> Result<(), Fault> {
    let stored = "SELECT record FROM score_digest WHERE score = ?1";
    check(conn, stored, &SCORE, score)
}

fn check(conn: &Connection, stored: &str, tables: &[&str], number: i64) -> Result<(), Fault> {
    let stored: Option<i64> =
        conn.prepare_cached(stored)?.query_row([number], |row| row.get(0)).optional()?;
    match stored {
        Some(stored) if stored != rows_digest(conn, tables, number)? as i64 => {
            Err(Fault::Damaged("what is stored of it is not what was written".to_string()))
        }
        _ => Ok(()),
    }
}
