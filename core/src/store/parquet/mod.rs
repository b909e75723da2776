//! Exports stored plans as Parquet files, for programs that read many results at once: a folder for each plan, a
//! file
//! for each table.
//!
//! Rows are read and written in stretches, so memory does not grow with a plan. docs/parquet.md has the columns, and a
//! test holds it to [`TABLES`].

mod folder;
mod rows;
mod table;
mod target;

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;

use super::Store;
use super::check;
use super::digest::Part;
use super::error::{Fault, StoreError};
use rows::{Rows, Source};
use table::Table;

pub use target::ParquetTarget;

/// Counts of written plans and rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ParquetExport {
    pub plans: u64,
    pub rows: u64,
}

/// A table: its name is that of its file.
pub struct TableSpec {
    pub name: &'static str,
    pub about: &'static str,
    /// Large, and not everybody's: written where it is asked for.
    pub on_request: bool,
    /// Its columns after those that all tables have, as Parquet's schemas are written.
    columns: &'static str,
    /// The parts that are read of a run.
    parts: &'static [Part],
    write: fn(&mut Rows, &Source, &Connection) -> Result<(), Fault>,
}

pub const TABLES: &[TableSpec] = &[
    TableSpec {
        name: "runs",
        about: "a row per run that ended",
        on_request: false,
        columns: rows::RUNS,
        parts: &[Part::Disturbances],
        write: rows::runs,
    },
    TableSpec {
        name: "metrics",
        about: "a row per run, worker set and metric",
        on_request: false,
        columns: rows::METRICS,
        parts: &[Part::Sets, Part::Metrics],
        write: |rows, source, conn| rows.copy(source, conn, rows::SELECT_METRICS),
    },
    TableSpec {
        name: "histograms",
        about: "a row per run, worker set, latency and value",
        on_request: true,
        columns: rows::HISTOGRAMS,
        parts: &[Part::Sets, Part::Histograms],
        write: rows::histograms,
    },
    TableSpec {
        name: "windows",
        about: "a row per run, window and worker",
        on_request: true,
        columns: rows::WINDOWS,
        parts: &[Part::Sets, Part::Workers, Part::Windows],
        write: |rows, source, conn| rows.copy(source, conn, rows::SELECT_WINDOWS),
    },
];

impl TableSpec {
    /// The table's schema, as Parquet's own texts are.
    pub fn schema(&self) -> String {
        format!("message {} {{{}{}}}", self.name, rows::OF_A_RUN, self.columns)
    }
}

impl Store {
    /// Writes plan `id`, or all plans, below the target's folder: each plan is there as a whole, or not at all.
    pub fn export_parquet(
        &self,
        selected: Option<&[String]>,
        target: &ParquetTarget,
    ) -> Result<ParquetExport, StoreError> {
        let export = || -> Result<_, Fault> {
            let snapshot = self.conn.unchecked_transaction()?;
            let plans = self.chosen(&snapshot, selected)?;
            for (_, id) in &plans {
                check::id(id)?;
            }
            folder::check(&plans, target)?;
            let mut written = ParquetExport::default();
            for (plan, id) in &plans {
                let runs = self.checked_runs(&snapshot, (*plan, id), &parts(target))?;
                let source = Source::read(&snapshot, *plan, runs)?;
                let rows = folder::write(id, target, &mut |folder| {
                    write_tables(&snapshot, &source, folder, &target.with)
                })?;
                written.plans += 1;
                written.rows += rows;
            }
            Ok(written)
        };
        export().map_err(|fault| fault.at("export", &self.path))
    }
}

/// The tables that are written.
fn asked<'w>(with: &'w [&str]) -> impl Iterator<Item = &'static TableSpec> + use<'w> {
    TABLES.iter().filter(|table| !table.on_request || with.contains(&table.name))
}

/// The parts that these tables read of a run.
fn parts(target: &ParquetTarget) -> Vec<Part> {
    let parts: BTreeSet<Part> =
        asked(&target.with).flat_map(|table| table.parts).copied().collect();
    parts.into_iter().collect()
}

/// All tables of a plan into files of a folder; how many rows there are.
fn write_tables(
    conn: &Connection,
    source: &Source,
    folder: &Path,
    with: &[&str],
) -> Result<u64, Fault> {
    let mut written = 0;
    for spec in asked(with) {
        let mut rows = Rows::new(Table::create(folder, spec.name, &spec.schema())?);
        (spec.write)(&mut rows, source, conn)?;
        written += rows.close()?;
    }
    Ok(written)
}
