//! Saved scoreboards: each is one row, stored in one transaction before it is printed.

use std::io::Write;

use rusqlite::limits::Limit;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use super::annotations::{self, Subject};
use super::check;
use super::column::{bits, json, lossy, numbered, parse_line, unsigned};
use super::connection::Store;
use super::damage::Damage;
use super::error::{Fault, StoreError};
use super::note::Annotations;
use super::open::MAX_FOREIGN_BYTES;
use super::program::{pack, unpack};
use super::seal;
use super::write::{Lock, atomically, free_number};
use crate::model::{MAX_LINE_BYTES, SavedScore, ScoreHead};

/// A row for each of a million tasks.
const MAX_BYTES: u64 = 4 << 30;

/// In the order in which they came.
pub(super) const ALL: &str = "SELECT score, id FROM score NOT INDEXED ORDER BY score";
/// Tables whose rows name a score by its number.
const TABLES: [&str; 4] = ["score", "score_digest", "score_tag", "score_note"];

const HEADS: &str = "
    SELECT id, title, started_unix_ns, hostname, kernel_release, source, wall_ns, score FROM score
    ORDER BY started_unix_ns DESC, score DESC";

/// A score in an export: one line, behind all plans.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Line {
    ScoreSaved {
        saved: Box<SavedScore>,
        #[serde(flatten)]
        annotations: Annotations,
    },
}

impl Store {
    pub fn save_score(&mut self, saved: &SavedScore) -> Result<(), StoreError> {
        let stored = atomically(&self.conn, Lock::Database, |conn| {
            let SavedScore { id, started_unix_ns, hostname, kernel_release, score } = saved;
            let packed = pack(&json(score)?).map_err(|why| Fault::Event(why.to_string()))?;
            let number = free_number(conn, "score", &TABLES)?;
            conn.execute(
                "INSERT INTO score
                 (id, title, started_unix_ns, hostname, kernel_release, source, wall_ns, json, score)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    id,
                    score.watched.title(),
                    bits(*started_unix_ns),
                    hostname,
                    kernel_release,
                    score.source,
                    bits(score.wall_ns),
                    packed,
                    number
                ],
            )?;
            seal::score(conn, number)
        });
        stored.map_err(|fault| fault.at(format!("store score `{}`", saved.id), &self.path))?;
        self.committed()
    }

    /// All scores, newest first.
    pub fn score_heads(&self) -> Result<Vec<ScoreHead>, StoreError> {
        let read = |conn: &Connection| {
            let mut select = conn.prepare_cached(HEADS)?;
            let mut rows = select.query([])?;
            let mut heads = Vec::new();
            while let Some(row) = rows.next()? {
                let (id, score): (String, i64) = (lossy(row, 0)?, row.get(7)?);
                if !self.is_sound(conn, &id, score)? {
                    continue;
                }
                heads.push(ScoreHead {
                    id,
                    title: row.get(1)?,
                    started_unix_ns: unsigned(row, 2)?,
                    hostname: row.get(3)?,
                    kernel_release: row.get(4)?,
                    source: row.get(5)?,
                    wall_ns: unsigned(row, 6)?,
                    tags: annotations::tags(conn, &Subject::Score(""), score)?,
                });
            }
            match seal::missing(conn, "score")? {
                0 => {}
                missing => self.report(Damage::Scores(missing)),
            }
            Ok(heads)
        };
        self.snapshot(read).map_err(|fault| fault.at("list the scores", &self.path))
    }

    pub fn score(&self, id: &str) -> Result<SavedScore, StoreError> {
        let read = |conn: &Connection| read(conn, self.score_number(conn, id)?);
        self.snapshot(read)
            .map_err(|fault| fault.within(id, format!("read score `{id}`"), &self.path))
    }

    pub(super) fn score_number(&self, conn: &Connection, id: &str) -> Result<i64, Fault> {
        conn.prepare_cached("SELECT score FROM score WHERE id = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?
            .ok_or_else(|| {
                let (id, path) = (id.to_string(), self.path.clone());
                StoreError::UnknownScore { id, path }.into()
            })
    }

    /// Reports a score that is damaged.
    fn is_sound(&self, conn: &Connection, id: &str, score: i64) -> Result<bool, Fault> {
        match seal::check_score(conn, score) {
            Err(fault) if fault.is_damage() => {
                self.report(Damage::Score { id: id.to_string() });
                Ok(false)
            }
            checked => checked.map(|()| true),
        }
    }

    /// Writes all scores, the oldest first.
    pub(super) fn export_scores(
        &self,
        conn: &Connection,
        out: &mut dyn Write,
    ) -> Result<(), Fault> {
        for (number, id) in numbered(conn, ALL)? {
            if !self.is_sound(conn, &id, number)? {
                continue;
            }
            let saved = Box::new(read(conn, number)?);
            let annotations = annotations::read(conn, &Subject::Score(""), number)?;
            let line = json(&Line::ScoreSaved { saved, annotations })?;
            writeln!(out, "{line}").map_err(StoreError::Output)?;
        }
        Ok(())
    }

    /// Adds a score that an export brought; `false`: it is there already.
    pub(super) fn import_score(&mut self, line: &Line) -> Result<bool, StoreError> {
        let Line::ScoreSaved { saved, annotations } = line;
        let id = saved.id.as_str();
        check::id(id)?;
        if self.score_number(&self.conn, id).is_ok() {
            if self.score(id)? == **saved {
                annotations::add_all(self, &Subject::Score(id), annotations)?;
                return Ok(false);
            }
            let (id, path) = (id.to_string(), self.path.clone());
            return Err(StoreError::ScoreStored { id, path });
        }
        self.save_score(saved)?;
        annotations::add_all(self, &Subject::Score(id), annotations)?;
        Ok(true)
    }
}

fn read(conn: &Connection, score: i64) -> Result<SavedScore, Fault> {
    seal::check_score(conn, score)?;
    let sql =
        "SELECT id, started_unix_ns, hostname, kernel_release, json FROM score WHERE score = ?1";
    let columns = |row: &Row<'_>| {
        let packed: Vec<u8> = row.get(4)?;
        Ok((row.get(0)?, unsigned(row, 1)?, row.get(2)?, row.get(3)?, packed))
    };
    let (id, started_unix_ns, hostname, kernel_release, packed): (String, _, _, _, _) =
        conn.prepare_cached(sql)?.query_row([score], columns)?;
    let damaged = |why: String| Fault::Damaged(format!("score `{id}`: {why}"));
    // No value of a store from elsewhere may be larger than a line of an export.
    let is_foreign = conn.limit(Limit::SQLITE_LIMIT_LENGTH)? == MAX_FOREIGN_BYTES;
    let max_bytes = if is_foreign { MAX_LINE_BYTES } else { MAX_BYTES };
    let text = unpack(&packed, max_bytes).map_err(|why| damaged(why.to_string()))?;
    let score = serde_json::from_str(&text).map_err(|why| damaged(why.to_string()))?;
    Ok(SavedScore { id, started_unix_ns, hostname, kernel_release, score })
}

/// The score in a line of an export; `None` where it is an event.
pub(super) fn parse(text: &str) -> Option<Line> {
    parse_line(text, "score_saved")
}
