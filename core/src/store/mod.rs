//! Results in SQLite: each run in one transaction as it ends, so that what comes after can
//! lose nothing.
//!
//! A [`Store`] is a sink of the engine's events ([`Store::apply`]), a source of values for
//! reports ([`Store::sampled`]), and gives all events back ([`Store::export`]). Windows wait in a temporary table, a file of this connection
//! alone, until their run ends; memory does not grow with a run, and no lock is held on the
//! database while one is measured. docs/formats.md describes the format.

mod annotations;
mod check;
mod column;
mod connection;
mod damage;
mod detail;
mod digest;
mod error;
mod facts;
mod files;
mod hdr;
mod heads;
mod import;
mod join;
mod kind;
mod migrate;
mod note;
mod open;
#[cfg(feature = "parquet")]
mod parquet;
mod picture;
mod place;
mod program;
mod read;
mod remove;
mod rescue;
mod run;
mod sample;
mod score;
mod seal;
mod sound;
mod stream;
#[cfg(test)]
mod tests;
mod windows;
mod write;

use std::path::PathBuf;

pub use annotations::Subject;
pub use connection::Store;
pub use damage::Damage;
pub use detail::{PlanDetail, Unmeasured};
pub use error::StoreError;
pub use import::{Content, Imported, Source};
pub use join::{JoinedPlan, Place};
pub use note::{Annotations, Note, check_note, check_tag};
#[cfg(feature = "parquet")]
pub use parquet::{ParquetExport, ParquetTarget, TABLES as PARQUET_TABLES};
pub use place::{Kept, Loss};
pub use program::KeptOutput;
pub use read::{Session, StoredRuns};
pub use remove::Damaged;

/// `$XDG_DATA_HOME/schedlab/schedlab.db`, or the same below `~/.local/share`.
pub fn default_path() -> Result<PathBuf, StoreError> {
    place::default_path().map_err(|why| StoreError::NoHome { why: why.to_string() })
}
