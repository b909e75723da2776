//! The store as a connection to its database. What is read and written stands in files of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rusqlite::Connection;

use super::damage::{Damage, Reporter};
use super::error::{Fault, StoreError};
use super::open;
use super::place::Place;
use crate::model::{RunKey, SampledPlan};

const STAGING: &str = "
    CREATE TEMP TABLE staged (
        round INTEGER, cell INTEGER, window_index INTEGER, worker INTEGER,
        end_at_ns INTEGER, wall_ns INTEGER, ops INTEGER, cpu_ns INTEGER, peak_ns INTEGER,
        PRIMARY KEY (round, cell, window_index, worker)
    ) WITHOUT ROWID";

/// More than all the statements of the store.
const STATEMENTS: usize = 64;

/// One connection to one database.
#[derive(Debug)]
pub struct Store {
    pub(super) conn: Connection,
    pub(super) path: PathBuf,
    /// The plan whose events are being applied.
    pub(super) current: Option<Current>,
    /// A plan was begun to be measured.
    pub(super) measured: bool,
    /// Since when a transaction waits for further runs.
    pub(super) group: Option<Instant>,
    /// `None`: it is only read.
    pub(super) place: Option<Place>,
    pub(super) reporter: Reporter,
}

impl Drop for Store {
    fn drop(&mut self) {
        // A caller that must know has settled it.
        _ = self.settle();
    }
}

impl Store {
    /// Opens for measuring, with the folders and the file made where they are missing and
    /// an older format brought up to date.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let mut store = Store::over(open::for_writing(path)?)?;
        store.place = Some(place_of(&store.path)?);
        Ok(store)
    }

    /// Opens what is there, for reports. An older format is brought up to date, nothing else is
    /// changed.
    pub fn open_read_only(path: &Path) -> Result<Store, StoreError> {
        Store::over(open::for_reading(path)?)?.only_read()
    }

    /// Opens a database from elsewhere, to take what it has: nothing of it is changed, and nothing that is
    /// not a table of ours is in it.
    pub fn open_foreign(path: &Path) -> Result<Store, StoreError> {
        Store::over(open::for_import(path)?)?.only_read()
    }

    /// The connection may be one that could write: it has to remove the journal that reading makes.
    fn only_read(self) -> Result<Store, StoreError> {
        let refused = self.conn.pragma_update(None, "query_only", true);
        refused.map_err(|error| Fault::from(error).at("open", &self.path))?;
        Ok(self)
    }

    /// `sink` gets, once each, what is left out of what is read because it is damaged, and whether another tool
    /// measured that.
    pub fn report_damage_to(&mut self, sink: impl Fn(&Damage, bool) + Send + 'static) {
        self.reporter.sink = Box::new(sink);
    }

    /// Whether something was left out of what was read because it is damaged.
    pub fn has_damage(&self) -> bool {
        !self.reporter.reported.borrow().is_empty()
    }

    pub(super) fn report(&self, damage: Damage) {
        if !self.reporter.reported.borrow().contains(&damage) {
            let is_imported = damage.id().is_some_and(|id| {
                let sql = "SELECT 1 FROM plan NOT INDEXED WHERE id = ?1 AND backend = ?2";
                let select = self.conn.prepare_cached(sql);
                select.is_ok_and(|mut of| of.exists([id, SampledPlan::IMPORTED]).unwrap_or(false))
            });
            (self.reporter.sink)(&damage, is_imported);
            self.reporter.reported.borrow_mut().insert(damage);
        }
    }

    fn over((conn, path): (Connection, PathBuf)) -> Result<Store, StoreError> {
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        let reporter = Reporter::default();
        let (current, measured, group, place) = (None, false, None, None);
        let store = Store { conn, path, current, measured, group, place, reporter };
        store.prepare_staging()?;
        Ok(store)
    }

    /// Calls `read`, and all that it reads is of one moment, whatever others store meanwhile.
    pub(super) fn snapshot<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        // A transaction that goes on is one moment already.
        let begin = || self.conn.unchecked_transaction();
        let _snapshot = self.conn.is_autocommit().then(begin).transpose()?;
        read(&self.conn)
    }

    /// As [`Store::snapshot`], of plan `id`: `read` also gets its number.
    pub(super) fn snapshot_of<T>(
        &self,
        id: &str,
        read: impl FnOnce(&Connection, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.snapshot(|conn| read(conn, self.plan_number(conn, id)?))
            .map_err(|fault| fault.within(id, format!("read plan `{id}`"), &self.path))
    }

    fn prepare_staging(&self) -> Result<(), StoreError> {
        self.conn.execute_batch(STAGING).map_err(|error| Fault::from(error).at("open", &self.path))
    }

    /// Absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The plan whose events are being applied.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) plan: i64,
    pub(super) id: String,
    /// The environment in which its runs are measured now.
    pub(super) environment: i64,
    pub(super) cells: u32,
    /// Runs that were stored before and are gone.
    pub(super) gone: BTreeSet<RunKey>,
}

pub(super) fn place_of(path: &Path) -> Result<Place, StoreError> {
    Place::find(path).map_err(StoreError::io("find the database", path))
}
