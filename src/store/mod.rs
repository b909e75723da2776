//! Results in SQLite: each run in one transaction as it ends, so that what comes after can
//! lose nothing.
//!
//! A [`Store`] is a sink of the engine's events ([`Store::apply`]) and a source of records
//! for reports: folding the events of a plan and loading it from the store give equal
//! [`crate::model::Record`]s. Windows wait in a temporary table, a file of this connection
//! alone, until their run ends; memory does not grow with a run, and no lock is held on the
//! database while one is measured. docs/formats.md describes the format.

mod annotations;
mod check;
mod column;
mod detail;
mod error;
mod hdr;
mod heads;
mod kind;
mod migrate;
mod open;
mod read;
mod remove;
mod sample;
mod stream;
#[cfg(test)]
mod tests;
mod write;

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use rusqlite::Connection;

pub use annotations::{AnnotationError, Annotations, Note, check_note, check_tag};
pub use detail::{PlanDetail, Unmeasured};
pub use error::StoreError;
pub use read::Session;
pub use stream::Imported;

/// More than all the statements of this module.
const STATEMENTS: usize = 64;

/// One connection to one database.
#[derive(Debug)]
pub struct Store {
    conn: Connection,
    path: PathBuf,
    /// The plan whose events are being applied.
    current: Option<write::Current>,
}

impl Store {
    /// Opens for measuring, with the folders and the file made where they are missing and
    /// an older format brought up to date.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        Store::over(open::for_writing(path)?)
    }

    /// Opens what is there, for reports. An older format is brought up to date, nothing else is
    /// changed.
    pub fn open_read_only(path: &Path) -> Result<Store, StoreError> {
        Store::over(open::for_reading(path)?)
    }

    fn over((conn, path): (Connection, PathBuf)) -> Result<Store, StoreError> {
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        let store = Store { conn, path, current: None };
        store.prepare_staging()?;
        Ok(store)
    }

    /// Absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// `$XDG_DATA_HOME/schedlab/schedlab.db`, or the same below `~/.local/share`.
pub fn default_path() -> Result<PathBuf, StoreError> {
    let base = Xdg::new().map_err(|why| StoreError::NoHome { why: why.to_string() })?;
    Ok(base.data_dir().join("schedlab").join("schedlab.db"))
}
