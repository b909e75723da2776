//! `schedlab export --format parquet`.

use crate::cli::{Failure, terminal};
use crate::model::clean_path;
use crate::report::numbers::counted;
use crate::session::{Problem, SessionError, unknown_name};
use crate::store::{PARQUET_TABLES, ParquetTarget, Store, StoreError};

use std::path::PathBuf;

pub fn parse_table(name: &str) -> Result<&'static str, Problem> {
    let mut tables = PARQUET_TABLES.iter().map(|table| table.name);
    let names = tables.clone();
    tables.find(|table| *table == name).ok_or_else(|| unknown_name("table", name, names, ""))
}

pub fn write(
    store: &Store,
    selected: Option<&[String]>,
    folder: PathBuf,
    overwrite: bool,
    with: Vec<&'static str>,
) -> Result<(), Failure> {
    let target = ParquetTarget { folder, overwrite, with };
    let written = store.export_parquet(selected, &target).map_err(|error| match error {
        StoreError::Io { path, source, .. } => SessionError::unwritten(&path, &source),
        other => other.into(),
    })?;
    let folder = clean_path(&target.folder);
    let (plans, rows) = (counted(written.plans, "plan"), counted(written.rows, "row"));
    terminal::message(&format!("{plans}, {rows}, in {folder}: schedlab help parquet"));
    Ok(())
}
