//! `schedlab export --format parquet` of a build without the feature `parquet`.

use std::path::PathBuf;

use crate::cli::Failure;
use crate::model::MissingFeature;
use crate::store::Store;

pub fn parse_table(_: &str) -> Result<&'static str, MissingFeature> {
    Err(MissingFeature("parquet"))
}

pub fn write(
    _: &Store,
    _: Option<&[String]>,
    _: PathBuf,
    _: bool,
    _: Vec<&'static str>,
) -> Result<(), Failure> {
    Err(MissingFeature("parquet").into())
}
