//! Scoreboards as text and as JSON, traces for the Perfetto UI. Pure.

mod comparison;
mod histogram;
mod interval;
mod json;
mod page;
mod perfetto;
mod text;

use std::io::{self, Write};

use crate::model::{Score, Trace};

use super::Options;
pub use crate::analysis::By;
pub use comparison::{json as comparison_json, page as comparison};
pub use interval::{header as interval_header, page as interval};

pub use page::{Layout, time};
pub use text::{cost, largest_pairs};

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
    json::write("schedlab-score", score, out)
}

/// A trace for the Perfetto UI.
pub fn perfetto(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    perfetto::write(trace, out)
}
