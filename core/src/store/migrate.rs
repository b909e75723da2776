//! Migrations, which are only ever added to: SQL, and what SQL alone cannot say.

use rusqlite::{Connection, params};

use super::column::{from_word, rows};
use super::error::Fault;
use super::facts::{guest_number, insert_knobs, knobs};
use super::kind;
use crate::model::{Guest, MetricKind, legacy_pool_cpus};

pub(super) struct Migration {
    pub name: &'static str,
    pub sql: &'static str,
    /// Runs after `sql`, in the same transaction.
    then: fn(&Connection) -> Result<(), Fault>,
}

impl Migration {
    pub(super) fn apply(&self, conn: &Connection) -> Result<(), Fault> {
        conn.execute_batch(self.sql)?;
        (self.then)(conn)
    }
}

/// The SQL of a file of `migrations/`.
macro_rules! migration {
    ($name:literal, $then:expr) => {
        Migration { name: $name, sql: include_str!(concat!("migrations/", $name)), then: $then }
    };
}

/// Append-only: the position, from 1, is the format's number.
pub(super) const MIGRATIONS: &[Migration] = &[
    migration!("0001_first.sql", |_| Ok(())),
    migration!("0002_typed_facts.sql", type_facts),
    migration!("0003_annotations.sql", |_| Ok(())),
    migration!("0004_judged.sql", |_| Ok(())),
    migration!("0005_programs.sql", |_| Ok(())),
    migration!("0006_scores.sql", |_| Ok(())),
    migration!("0007_parts.sql", |_| Ok(())),
    migration!("0008_digests.sql", |_| Ok(())),
];

pub(super) fn known_format() -> i64 {
    MIGRATIONS.len() as i64
}

fn type_facts(conn: &Connection) -> Result<(), Fault> {
    give_metrics_kinds(conn)?;
    take_guests_from_knobs(conn)?;
    take_pools_from_knobs(conn)
}

fn give_metrics_kinds(conn: &Connection) -> Result<(), Fault> {
    conn.execute_batch(
        "CREATE TEMP TABLE legacy_kind (
             workload TEXT, name TEXT, unit TEXT, direction TEXT, metric_kind INTEGER,
             PRIMARY KEY (workload, name, unit, direction)
         ) WITHOUT ROWID",
    )?;
    let mut select = conn.prepare(
        "SELECT DISTINCT s.workload, m.name, m.unit, m.direction
         FROM metric_1 m JOIN worker_set s USING (run, worker_set) ORDER BY 1, 2, 3, 4",
    )?;
    let mut rows = select.query([])?;
    let mut insert = conn.prepare("INSERT INTO temp.legacy_kind VALUES (?1, ?2, ?3, ?4, ?5)")?;
    while let Some(row) = rows.next()? {
        let (workload, name): (String, String) = (row.get(0)?, row.get(1)?);
        let (unit, direction) = (from_word(row, 2)?, from_word(row, 3)?);
        let number = kind::number(conn, &MetricKind::legacy(&workload, &name, unit, direction))?;
        let (unit, direction): (String, String) = (row.get(2)?, row.get(3)?);
        insert.execute(params![workload, name, unit, direction, number])?;
    }
    conn.execute_batch(
        "INSERT INTO metric
         SELECT m.run, m.worker_set, m.metric, l.metric_kind, m.value, m.unknown
         FROM metric_1 m JOIN worker_set s USING (run, worker_set)
         JOIN temp.legacy_kind l ON (l.workload, l.name, l.unit, l.direction)
                                  = (s.workload, m.name, m.unit, m.direction)
         ORDER BY m.run, m.worker_set, m.metric;
         DROP TABLE temp.legacy_kind;
         DROP TABLE metric_1",
    )?;
    Ok(())
}

fn take_guests_from_knobs(conn: &Connection) -> Result<(), Fault> {
    for run in runs_with_knob(conn, "kernel-digest")? {
        let mut knobs = knobs(conn, run)?;
        let Some(guest) = Guest::take_legacy(&mut knobs) else { continue };
        conn.prepare_cached("UPDATE run SET guest = ?2 WHERE run = ?1")?
            .execute(params![run, guest_number(conn, &guest)?])?;
        conn.prepare_cached("DELETE FROM knob_reading WHERE run = ?1")?.execute([run])?;
        insert_knobs(conn, run, &knobs)?;
    }
    Ok(())
}

fn take_pools_from_knobs(conn: &Connection) -> Result<(), Fault> {
    for run in runs_with_knob(conn, "pool")? {
        let cpus = legacy_pool_cpus(&knobs(conn, run)?);
        conn.prepare_cached("UPDATE run SET pool_cpus = ?2 WHERE run = ?1")?
            .execute(params![run, cpus.map(|cpus| cpus.to_string())])?;
    }
    Ok(())
}

fn runs_with_knob(conn: &Connection, knob: &str) -> Result<Vec<i64>, Fault> {
    rows(conn, "SELECT run FROM knob_reading WHERE knob = ?1 ORDER BY run", [knob], |row| {
        row.get(0)
    })
}
