//! Kinds of metrics: each is stored once, and rows of `metric` refer to it by its number.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::column::{from_word, word};
use super::error::Fault;
use crate::model::{MetricKind, Statistic};

/// The columns of `metric_kind` that [`read`] reads.
pub(super) const COLUMNS: &str =
    "name, unit, direction, subject, statistic, quantile_ppm, importance";

/// The kind in a row that has [`COLUMNS`] from this one on.
pub(super) fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<MetricKind> {
    let statistic = match row.get(first + 5)? {
        Some(ppm) => Statistic::Quantile(ppm),
        None => from_word(row, first + 4)?,
    };
    Ok(MetricKind {
        name: row.get(first)?,
        unit: from_word(row, first + 1)?,
        direction: from_word(row, first + 2)?,
        subject: row.get(first + 3)?,
        statistic,
        importance: from_word(row, first + 6)?,
    })
}

/// The number of a kind, which is stored where it is not yet.
pub(super) fn number(conn: &Connection, kind: &MetricKind) -> Result<i64, Fault> {
    let MetricKind { name, unit, direction, subject, statistic, importance } = kind;
    let (statistic, ppm) = match statistic {
        Statistic::Quantile(ppm) => ("quantile".to_string(), Some(*ppm)),
        other => (word(other)?, None),
    };
    let (unit, direction, importance) = (word(unit)?, word(direction)?, word(importance)?);
    let columns = params![name, unit, direction, subject, statistic, ppm, importance];
    let found = conn
        .prepare_cached(
            "SELECT metric_kind FROM metric_kind
             WHERE name = ?1 AND unit = ?2 AND direction = ?3 AND subject IS ?4
               AND statistic = ?5 AND quantile_ppm IS ?6 AND importance = ?7",
        )?
        .query_row(columns, |row| row.get(0))
        .optional()?;
    if let Some(number) = found {
        return Ok(number);
    }
    conn.prepare_cached(&format!(
        "INSERT INTO metric_kind ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
    ))?
    .execute(columns)?;
    Ok(conn.last_insert_rowid())
}
