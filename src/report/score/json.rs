//! Scoreboards, intervals and comparisons as JSON, as docs/score.md describes them. Pure.

use std::io::{self, Write};

use serde::Serialize;

use crate::report::json::Document;

/// Raised where a key changes its name, meaning or type.
const VERSION: u32 = 2;

/// One document, on one line.
pub fn line(schema: &'static str, of: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(&Document { schema, version: VERSION, of }).map(|line| line + "\n")
}

pub fn write(schema: &'static str, of: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(line(schema, of)?.as_bytes())
}
