//! `json`: the whole analysis, derived from its types. Keys and their meaning stand in
//! docs/report-formats.md; a change of either raises [`VERSION`]. Pure.

use std::io::{self, Write};

use serde::Serialize;

use crate::analysis::Analysis;

use super::layout::{is_active, replaced};
use super::{Format, Render};

/// 2: derived from the analysis; 1 was a report or a comparison.
const VERSION: u32 = 2;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    analyses: &'a [Analysis],
}

pub const JSON: Format = Format {
    name: "json",
    about: "the whole analysis, for programs",
    explains: |_| true,
    render: Render::All(write),
};

fn write(analyses: &[Analysis], out: &mut dyn Write) -> io::Result<()> {
    let document = Document { schema: "schedlab-analysis", version: VERSION, analyses };
    let json = serde_json::to_string_pretty(&document)?;
    writeln!(out, "{}", escaped(&json))
}

/// Writes active and hidden characters as JSON escapes; they only occur in strings.
pub(super) fn escaped(json: &str) -> String {
    let escape =
        |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|u| format!("\\u{u:04x}")).collect();
    replaced(json, |c| (c != '\n' && is_active(c)).then(|| escape(c)))
}

#[cfg(test)]
mod tests;
