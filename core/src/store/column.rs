//! Between the words of the model and SQLite's columns. Pure.

use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, Params, Row};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::IntoDeserializer;
use serde::de::value::Error as WordError;
use thiserror::Error;

use super::error::Fault;
use crate::model::Reading;

/// SQLite's integers are signed: the bits are kept, so that every u64 comes back; values
/// of 2^63 and more, which no measured time or count reaches, look negative in SQL.
pub(super) fn bits(value: u64) -> i64 {
    value as i64
}

/// The u64 of [`bits`].
pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|value| value as u64)
}

/// JSON of a value that the model can express.
pub(super) fn json<T: Serialize>(value: &T) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|why| Fault::Event(why.to_string()))
}

pub(super) fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str().map_err(|why| misfit(column, why))?;
    serde_json::from_str(text).map_err(|why| misfit(column, why))
}

/// The value in a column that may be NULL, which `read` reads.
pub(super) fn unless_null<T>(
    row: &Row<'_>,
    column: usize,
    read: impl FnOnce(&Row<'_>, usize) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => read(row, column).map(Some),
    }
}

/// A line of an export that names this event near its begin. Runs are long lines: only one that may be meant is
/// parsed.
pub(super) fn parse_line<T: DeserializeOwned>(text: &str, event: &str) -> Option<T> {
    let head = text.get(..text.len().min(64))?;
    head.contains(&format!("\"{event}\"")).then(|| serde_json::from_str(text).ok())?
}

/// A unit, a direction or a kind as the one word that JSON has for it.
pub(super) fn word<T: Serialize>(value: T) -> Result<String, Fault> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        other => Err(Fault::Event(format!("{other:?} is not one word"))),
    }
}

pub(super) fn from_word<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let word = row.get_ref(column)?.as_str().map_err(|why| misfit(column, why))?;
    parse_word(word).map_err(|why| misfit(column, why))
}

pub(super) fn parse_word<T: DeserializeOwned>(word: &str) -> Result<T, WordError> {
    T::deserialize(word.into_deserializer())
}

/// Text for people, also of what is none: it is damaged, and still has to be named.
pub(super) fn lossy(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Null => String::new(),
    })
}

/// The rows that `sql` gives, each as `read` makes it.
pub(super) fn rows<T, C: FromIterator<T>>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<C, Fault> {
    let mut select = conn.prepare_cached(sql)?;
    Ok(select.query_map(params, read)?.collect::<Result<C, _>>()?)
}

/// Numbers and ids of plans or scores that `sql` gives.
pub(super) fn numbered(conn: &Connection, sql: &str) -> Result<Vec<(i64, String)>, Fault> {
    rows(conn, sql, [], |row| Ok((row.get(0)?, lossy(row, 1)?)))
}

/// A reading as two columns, of which one is NULL: what is known, and why it is not.
pub(super) fn halves<T>(reading: &Reading<T>) -> (Option<&T>, Option<&str>) {
    match reading {
        Reading::Known(value) => (Some(value), None),
        Reading::Unknown(why) => (None, Some(why)),
    }
}

pub(super) fn reading<T>(
    known: Option<T>,
    unknown: Option<String>,
) -> rusqlite::Result<Reading<T>> {
    match (known, unknown) {
        (Some(value), None) => Ok(Reading::Known(value)),
        (None, Some(why)) => Ok(Reading::Unknown(why)),
        _ => Err(misfit(0, NoReading)),
    }
}

/// A reading in two columns, the first of which is JSON.
pub(super) fn reading_of_json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Reading<T>> {
    reading(unless_null(row, column, from_json)?, row.get(column + 1)?)
}

/// Content that this program never writes: reported as damage.
pub(super) fn misfit(
    column: usize,
    why: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(why))
}

#[derive(Debug, Error)]
#[error("a reading must have either a value or a reason")]
struct NoReading;
