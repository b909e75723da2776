//! What people write about stored plans: tags, by which plans are selected, and notes.
//!
//! In an export both are one line after the events of their plan.

use std::collections::BTreeSet;
use std::io::Write;

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::check::Unsound;
use super::column::{bits, unsigned};
use super::connection::Store;
use super::error::{Fault, StoreError};
use super::note::{Annotations, Note, check_note, check_tag};

/// The line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Line {
    PlanAnnotated {
        id: String,
        #[serde(flatten)]
        annotations: Annotations,
    },
}

impl Store {
    /// What is written about plan `id`.
    pub fn annotations(&self, id: &str) -> Result<Annotations, StoreError> {
        let read = || read(&self.conn, self.plan_number(&self.conn, id)?);
        read().map_err(|fault| fault.at(format!("read the notes of plan `{id}`"), &self.path))
    }

    /// Gives a plan a tag; false where it has it already.
    pub fn tag(&mut self, id: &str, name: &str) -> Result<bool, StoreError> {
        self.annotate(id, "tag", |conn, plan| {
            check_tag(name).map_err(|why| Fault::Event(why.to_string()))?;
            conn.execute("INSERT OR IGNORE INTO tag VALUES (?1, ?2)", params![plan, name])
                .map(|count| count > 0)
                .map_err(Fault::from)
        })
    }

    /// Takes a tag from a plan; false where it does not have it.
    pub fn untag(&mut self, id: &str, name: &str) -> Result<bool, StoreError> {
        self.annotate(id, "untag", |conn, plan| {
            let count =
                conn.execute("DELETE FROM tag WHERE plan = ?1 AND name = ?2", params![plan, name])?;
            Ok(count > 0)
        })
    }

    pub fn add_note(&mut self, id: &str, note: &Note) -> Result<(), StoreError> {
        self.annotate(id, "write a note about", |conn, plan| insert_note(conn, plan, note))
    }

    /// Returns how many there were.
    pub fn remove_notes(&mut self, id: &str) -> Result<usize, StoreError> {
        self.annotate(id, "remove the notes of", |conn, plan| {
            Ok(conn.execute("DELETE FROM note WHERE plan = ?1", [plan])?)
        })
    }

    /// Adds what an export says about a plan that it brought, one of `begun`.
    pub(super) fn import_annotations(
        &mut self,
        line: &Line,
        begun: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let Line::PlanAnnotated { id, annotations } = line;
        if !begun.contains(id) {
            let shown = id.escape_default().to_string();
            return Err(Unsound::NotStarted { shown }.into());
        }
        for name in &annotations.tags {
            check_tag(name).map_err(Unsound::from)?;
        }
        for note in &annotations.notes {
            check_note(&note.text).map_err(Unsound::from)?;
        }
        for name in &annotations.tags {
            self.tag(id, name)?;
        }
        annotations.notes.iter().try_for_each(|note| self.add_note(id, note))
    }

    fn annotate<T>(
        &self,
        id: &str,
        action: &str,
        write: impl Fn(&Connection, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let done = self.plan_number(&self.conn, id).and_then(|plan| write(&self.conn, plan));
        done.map_err(|fault| fault.at(format!("{action} plan `{id}`"), &self.path))
    }
}

fn insert_note(conn: &Connection, plan: i64, note: &Note) -> Result<(), Fault> {
    check_note(&note.text).map_err(|why| Fault::Event(why.to_string()))?;
    conn.execute(
        "INSERT INTO note (plan, written_unix_ns, text) VALUES (?1, ?2, ?3)",
        params![plan, bits(note.written_unix_ns), note.text],
    )?;
    Ok(())
}

pub(super) fn tags(conn: &Connection, plan: i64) -> Result<Vec<String>, Fault> {
    let mut select = conn.prepare_cached("SELECT name FROM tag WHERE plan = ?1 ORDER BY name")?;
    Ok(select.query_map([plan], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

pub(super) fn read(conn: &Connection, plan: i64) -> Result<Annotations, Fault> {
    let sql = "SELECT written_unix_ns, text FROM note WHERE plan = ?1 ORDER BY note";
    let mut select = conn.prepare_cached(sql)?;
    let note = |row: &rusqlite::Row<'_>| {
        Ok(Note { written_unix_ns: unsigned(row, 0)?, text: row.get(1)? })
    };
    let notes = select.query_map([plan], note)?.collect::<Result<_, _>>()?;
    Ok(Annotations { tags: tags(conn, plan)?, notes })
}

/// Writes the line of a plan; nothing where nothing is written about it.
pub(super) fn export(
    conn: &Connection,
    plan: i64,
    id: &str,
    out: &mut dyn Write,
) -> Result<(), Fault> {
    let annotations = read(conn, plan)?;
    if annotations == Annotations::default() {
        return Ok(());
    }
    let line = Line::PlanAnnotated { id: id.to_string(), annotations };
    let line = serde_json::to_string(&line).map_err(|why| Fault::Event(why.to_string()))?;
    writeln!(out, "{line}").map_err(|why| StoreError::Output(why).into())
}

/// The annotations in a line of an export; `None` where it is an event.
pub(super) fn parse(text: &str) -> Option<Line> {
    // Runs are long lines: only one that may be an annotation is parsed for it.
    text.get(..text.len().min(64))
        .is_some_and(|head| head.contains("\"plan_annotated\""))
        .then(|| serde_json::from_str(text).ok())
        .flatten()
}
