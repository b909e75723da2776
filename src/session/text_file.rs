//! Text files that a user wrote: plans, programs, the configuration.

use std::io;
use std::path::Path;

use crate::plan;
use crate::sys::input;

const MAX_BYTES: u64 = plan::MAX_TEXT_BYTES as u64;

/// A plan, which may come out of a pipe.
pub fn read_plan(path: &Path) -> io::Result<String> {
    text(input::read_named(path, MAX_BYTES)?)
}

/// Reads a file that stands next to others.
pub fn read_text(path: &Path) -> io::Result<String> {
    text(input::read_file(path, MAX_BYTES)?)
}

/// Editors of other systems end lines otherwise, and texts of several lines may not have that.
fn text(bytes: Vec<u8>) -> io::Result<String> {
    Ok(input::text(bytes)?.replace("\r\n", "\n"))
}
