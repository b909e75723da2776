//! Tags and notes that people write about stored plans and scores; tags also select these.
//!
//! In an export both are one line after the events of their plan, and a part of a score's line.

use std::io::Write;

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::column::{bits, json, parse_line, rows, unsigned};
use super::connection::Store;
use super::error::{Fault, StoreError};
use super::note::{Annotations, Note, check_note, check_tag};
use super::seal;
use super::write::{Lock, atomically};

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

/// The annotated plan or score, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject<'a> {
    Plan(&'a str),
    Score(&'a str),
}

impl<'a> From<&'a str> for Subject<'a> {
    fn from(plan: &'a str) -> Self {
        Subject::Plan(plan)
    }
}

impl Subject<'_> {
    /// The tables of tags and of notes, and the column by which both name the subject.
    fn tables(&self) -> (&'static str, &'static str, &'static str) {
        match self {
            Subject::Plan(_) => ("tag", "note", "plan"),
            Subject::Score(_) => ("score_tag", "score_note", "score"),
        }
    }

    fn check(&self, conn: &Connection, number: i64) -> Result<(), Fault> {
        match self {
            Subject::Plan(_) => seal::check_plan(conn, number),
            Subject::Score(_) => seal::check_score(conn, number),
        }
    }

    fn seal(&self, conn: &Connection, number: i64) -> Result<(), Fault> {
        match self {
            Subject::Plan(_) => seal::plan(conn, number),
            Subject::Score(_) => seal::score(conn, number),
        }
    }

    fn id(&self) -> &str {
        match self {
            Subject::Plan(id) | Subject::Score(id) => id,
        }
    }

    fn describe(&self) -> String {
        match self {
            Subject::Plan(id) => format!("plan `{id}`"),
            Subject::Score(id) => format!("score `{id}`"),
        }
    }
}

impl Store {
    /// Reads the tags and notes of a plan or a score.
    pub fn annotations<'a>(&self, of: impl Into<Subject<'a>>) -> Result<Annotations, StoreError> {
        let of = of.into();
        self.annotate(of, "read the notes of", |_, number| {
            self.snapshot(|conn| {
                of.check(conn, number)?;
                read(conn, &of, number)
            })
        })
    }

    /// Gives it a tag; false where it has it already.
    pub fn tag<'a>(&mut self, of: impl Into<Subject<'a>>, name: &str) -> Result<bool, StoreError> {
        let of = of.into();
        self.change(of, "tag", |conn, number| {
            check_tag(name).map_err(Fault::Event)?;
            let sql = format!("INSERT OR IGNORE INTO {} VALUES (?1, ?2)", of.tables().0);
            Ok(conn.execute(&sql, params![number, name])? > 0)
        })
    }

    /// Takes a tag from it; false where it does not have it.
    pub fn untag<'a>(
        &mut self,
        of: impl Into<Subject<'a>>,
        name: &str,
    ) -> Result<bool, StoreError> {
        let of = of.into();
        self.change(of, "untag", |conn, number| {
            let (table, _, column) = of.tables();
            let sql = format!("DELETE FROM {table} WHERE {column} = ?1 AND name = ?2");
            Ok(conn.execute(&sql, params![number, name])? > 0)
        })
    }

    pub fn add_note<'a>(
        &mut self,
        of: impl Into<Subject<'a>>,
        note: &Note,
    ) -> Result<(), StoreError> {
        let of = of.into();
        self.change(of, "write a note about", |conn, number| {
            check_note(&note.text).map_err(Fault::Event)?;
            let (_, table, column) = of.tables();
            let sql = format!(
                "INSERT INTO {table} ({column}, written_unix_ns, text) VALUES (?1, ?2, ?3)"
            );
            conn.execute(&sql, params![number, bits(note.written_unix_ns), note.text])?;
            Ok(())
        })
    }

    /// Returns how many there were.
    pub fn remove_notes<'a>(&mut self, of: impl Into<Subject<'a>>) -> Result<usize, StoreError> {
        let of = of.into();
        self.change(of, "remove the notes of", |conn, number| {
            let (_, table, column) = of.tables();
            Ok(conn.execute(&format!("DELETE FROM {table} WHERE {column} = ?1"), [number])?)
        })
    }

    fn change<T>(
        &mut self,
        of: Subject<'_>,
        action: &str,
        act: impl Fn(&Connection, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let changed = self.annotate(of, action, |conn, number| {
            atomically(conn, Lock::Database, |conn| {
                of.check(conn, number)?;
                let changed = act(conn, number)?;
                of.seal(conn, number)?;
                Ok(changed)
            })
        })?;
        self.committed()?;
        Ok(changed)
    }

    fn annotate<T>(
        &self,
        of: Subject<'_>,
        action: &str,
        act: impl Fn(&Connection, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let number = match of {
            Subject::Plan(id) => self.plan_number(&self.conn, id),
            Subject::Score(id) => self.score_number(&self.conn, id),
        };
        let done = number.and_then(|number| act(&self.conn, number));
        done.map_err(|fault| {
            fault.within(of.id(), format!("{action} {}", of.describe()), &self.path)
        })
    }
}

/// Checked, as it comes from outside: all of it or nothing. What is written about it already stays, and comes once.
pub(super) fn add_all(
    store: &mut Store,
    of: &Subject<'_>,
    annotations: &Annotations,
) -> Result<(), StoreError> {
    for name in &annotations.tags {
        check_tag(name).map_err(StoreError::Unsound)?;
    }
    for note in &annotations.notes {
        check_note(&note.text).map_err(StoreError::Unsound)?;
    }
    let known = store.annotations(*of)?.notes;
    for name in &annotations.tags {
        store.tag(*of, name)?;
    }
    let mut new = annotations.notes.iter().filter(|note| !known.contains(note));
    new.try_for_each(|note| store.add_note(*of, note))
}

pub(super) fn tags(conn: &Connection, of: &Subject<'_>, number: i64) -> Result<Vec<String>, Fault> {
    let (table, _, column) = of.tables();
    let sql = format!("SELECT name FROM {table} WHERE {column} = ?1 ORDER BY name");
    rows(conn, &sql, [number], |row| row.get(0))
}

pub(super) fn read(conn: &Connection, of: &Subject<'_>, number: i64) -> Result<Annotations, Fault> {
    let (_, table, column) = of.tables();
    let sql =
        format!("SELECT written_unix_ns, text FROM {table} WHERE {column} = ?1 ORDER BY note");
    let notes = rows(conn, &sql, [number], |row| {
        Ok(Note { written_unix_ns: unsigned(row, 0)?, text: row.get(1)? })
    })?;
    Ok(Annotations { tags: tags(conn, of, number)?, notes })
}

/// Writes the line of a plan; nothing where nothing is written about it.
pub(super) fn export(
    conn: &Connection,
    plan: i64,
    id: &str,
    out: &mut dyn Write,
) -> Result<(), Fault> {
    let annotations = read(conn, &Subject::Plan(id), plan)?;
    if annotations == Annotations::default() {
        return Ok(());
    }
    let line = json(&Line::PlanAnnotated { id: id.to_string(), annotations })?;
    Ok(writeln!(out, "{line}").map_err(StoreError::Output)?)
}

/// The annotations in a line of an export; `None` where it is an event.
pub(super) fn parse(text: &str) -> Option<Line> {
    parse_line(text, "plan_annotated")
}
