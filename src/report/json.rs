//! `json`: the whole analysis, derived from its types. Keys and their meaning stand in
//! docs/report-formats.md; a change of either raises [`VERSION`]. Pure.

use std::io::{self, Write};

use serde::Serialize;

use crate::analysis::Analysis;

use super::layout::{is_active, replaced};
use super::{Format, Render};

/// 2: derived from the analysis; 1 was a report or a comparison.
const VERSION: u32 = 2;

/// Any document: its name, its version and what it holds.
#[derive(Serialize)]
pub struct Document<T> {
    pub schema: &'static str,
    pub version: u32,
    #[serde(flatten)]
    pub of: T,
}

#[derive(Serialize)]
struct Analyses<'a> {
    analyses: &'a [Analysis],
}

pub const JSON: Format = Format {
    name: "json",
    about: "the whole analysis, for programs",
    explains: |_| true,
    render: Render::All(write),
};

fn write(analyses: &[Analysis], out: &mut dyn Write) -> io::Result<()> {
    let of = Analyses { analyses };
    write_lines(&Document { schema: "schedlab-analysis", version: VERSION, of }, out)
}

/// Writes a document in lines.
pub fn write_lines(document: &(impl Serialize + ?Sized), out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", escaped(&serde_json::to_string_pretty(document)?))
}

/// Active and hidden characters, which only occur in strings, as JSON escapes.
pub fn escaped(json: &str) -> String {
    let escape =
        |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|u| format!("\\u{u:04x}")).collect();
    replaced(json, |c| (c != '\n' && is_active(c)).then(|| escape(c)))
}

#[cfg(test)]
mod tests;
