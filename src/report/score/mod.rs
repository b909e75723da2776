//! Scoreboards as text and as JSON, traces for the Perfetto UI. Pure.

mod json;
mod perfetto;
mod rows;
mod text;

use std::io::{self, Write};

use crate::model::{Score, Trace};

use super::Options;
pub use rows::{By, Layout};
pub use text::time;

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
