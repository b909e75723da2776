//! Rows of facts about a run, each as it is read and written: knob readings, pools, guests and
//! disturbances.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::column::{from_json, halves, json, parse_word, reading_of_json, rows};
use super::error::Fault;
use crate::model::{CpuSet, Disturbance, Guest, KnobReading};

pub(super) fn knobs(conn: &Connection, run: i64) -> Result<Vec<KnobReading>, Fault> {
    let sql =
        "SELECT knob, asked, got, unknown FROM knob_reading WHERE run = ?1 ORDER BY knob_reading";
    rows(conn, sql, [run], |row| knob(row, 0))
}

/// The columns knob, asked, got and unknown from this one on.
pub(super) fn knob(row: &Row<'_>, first: usize) -> rusqlite::Result<KnobReading> {
    Ok(KnobReading {
        knob: row.get(first)?,
        asked: from_json(row, first + 1)?,
        got: reading_of_json(row, first + 2)?,
    })
}

pub(super) fn insert_knobs(
    conn: &Connection,
    run: i64,
    knobs: &[KnobReading],
) -> Result<(), Fault> {
    let mut insert =
        conn.prepare_cached("INSERT INTO knob_reading VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for (number, knob) in knobs.iter().enumerate() {
        let (got, unknown) = halves(&knob.got);
        let (asked, got) = (json(&knob.asked)?, got.map(json).transpose()?);
        insert.execute(params![run, number as i64, knob.knob, asked, got, unknown])?;
    }
    Ok(())
}

pub(super) fn guest(conn: &Connection, number: i64) -> Result<Guest, Fault> {
    let mut select = conn.prepare_cached("SELECT json FROM guest WHERE guest = ?1")?;
    Ok(select.query_row([number], |row| from_json(row, 0))?)
}

/// The number of a guest, which is stored where it is not yet.
pub(super) fn guest_number(conn: &Connection, guest: &Guest) -> Result<i64, Fault> {
    let guest = json(guest)?;
    let found = conn
        .prepare_cached("SELECT guest FROM guest WHERE json = ?1")?
        .query_row([&guest], |row| row.get(0))
        .optional()?;
    if let Some(number) = found {
        return Ok(number);
    }
    conn.prepare_cached("INSERT INTO guest (json) VALUES (?1)")?.execute([&guest])?;
    Ok(conn.last_insert_rowid())
}

pub(super) fn pool_cpus(text: &str) -> Result<CpuSet, Fault> {
    parse_word(text).map_err(|why| Fault::Damaged(format!("a pool of CPUs: {why}")))
}

/// The columns share and json from this one on.
pub(super) fn disturbance(row: &Row<'_>, first: usize) -> rusqlite::Result<Disturbance> {
    Ok(Disturbance { share: row.get(first)?, fact: from_json(row, first + 1)? })
}
