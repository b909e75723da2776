//! Text files that a user wrote: plans, programs, the configuration.

use std::fs::File;
use std::io::{self, Read};

use crate::plan;

/// One byte more than a plan may have: the parser says that it is too long.
pub fn read_text(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(plan::MAX_TEXT_BYTES as u64 + 1).read_to_string(&mut text)?;
    // As editors of other systems end lines: texts of several lines may not have it.
    Ok(match text.len() > plan::MAX_TEXT_BYTES {
        true => text,
        false => text.replace("\r\n", "\n"),
    })
}
