//! Where an export goes, and its version.

use std::path::PathBuf;

/// The version of the tables, in the metadata of each file under [`VERSION_KEY`].
pub const VERSION: u32 = 1;
pub const VERSION_KEY: &str = "schedlab.parquet.version";

/// Where an export goes, and how much of it.
#[derive(Debug, Clone)]
pub struct ParquetTarget {
    pub folder: PathBuf,
    /// Plans that are there are replaced.
    pub overwrite: bool,
    /// The names of tables that are written only where they are asked for.
    pub with: Vec<&'static str>,
}
