//! Files for the tests of this room: one with results, laid out as the original lays them out,
//! and what the original's own program prints of it.

use std::path::Path;

use super::super::{CompatError, Whose};
use super::BenchFile;

/// Three runs: one worker, none (not run), two and two of which one starves at first.
pub const THREE_RUNS: &str = include_str!("testing/three_runs.bench");

/// The original's report at verbosity 0, 1 and 2.
pub const ORIGINAL: [&str; 3] = [
    include_str!("testing/original_v0.txt"),
    include_str!("testing/original_v1.txt"),
    include_str!("testing/original_v2.txt"),
];

pub fn parse(text: &str) -> Result<BenchFile<'_>, CompatError> {
    BenchFile::parse(text, Path::new("t.bench"))
}

/// The text of a usage error; other errors fail the test.
pub fn usage<T>(result: Result<T, CompatError>) -> String {
    result.err().expect("it is refused").text(Whose::User)
}
