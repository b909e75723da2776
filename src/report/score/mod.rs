//! Scoreboards as text and as JSON, traces for the Perfetto UI. Pure.

mod json;
mod perfetto;
mod rows;
mod text;

use std::io::{self, Write};

use crate::model::{Score, Trace};

use super::Options;
pub use rows::By;

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
