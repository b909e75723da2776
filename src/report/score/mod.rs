//! Scoreboards as text and as JSON, traces for the Perfetto UI. Pure.

mod comparison;
mod histogram;
mod interval;
mod json;
mod perfetto;
mod text;

use std::io::{self, Write};

use crate::model::{Score, Trace};

use super::Options;
pub use crate::analysis::By;
pub use comparison::{json as comparison_json, page as comparison};
pub use interval::{header as interval_header, page as interval};

/// A time with three digits and a unit, as scoreboards have it.
pub use text::time;

/// How a scoreboard is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub by: By,
    /// Rows and pairs that are shown, those with most run time and most counts first.
    pub top: usize,
}

pub fn text(
    score: &Score,
    layout: &Layout,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    out.write_all(text::page(score, layout, options).as_bytes())
}

/// All of it, versioned.
pub fn json(score: &Score, out: &mut dyn Write) -> io::Result<()> {
    json::write(score, out)
}

/// A trace for the Perfetto UI.
pub fn perfetto(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    perfetto::write(trace, out)
}
