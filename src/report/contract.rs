//! What a report format is, and how a report is laid out. Traits and plain data.

use std::io::{self, Write};

use crate::analysis::Analysis;

pub trait Format: Sync {
    /// As it is asked for: `--format NAME`.
    fn name(&self) -> &'static str;

    /// One line for help.
    fn about(&self) -> &'static str;

    /// Writes the analyses, in the order given. Fails only where `out` does.
    fn render(
        &self,
        analyses: &[Analysis],
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()>;

    /// Whether it shows metrics that explain: then the analysis has verdicts on them.
    fn explains(&self, options: &Options) -> bool {
        _ = options;
        true
    }
}

/// Renders one analysis after the other, with an empty line between them.
pub(super) fn each(
    analyses: &[Analysis],
    out: &mut dyn Write,
    mut render: impl FnMut(&Analysis, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if analyses.is_empty() {
        return writeln!(out, "nothing to report");
    }
    for (at, analysis) in analyses.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        render(analysis, out)?;
    }
    Ok(())
}

/// How a report is laid out. Formats for machines ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Columns of the terminal or mail; see [`Options::columns`].
    pub width: usize,
    /// Whether escape sequences may be written; the caller respects `NO_COLOR`.
    pub color: bool,
    /// 0: the answer. 1: every metric, medians and rounds. 2: what a statistician asks.
    pub verbose: u8,
}

impl Options {
    /// Fewer columns than this hold no table.
    pub const MIN_WIDTH: usize = 40;
    /// More columns than this are of no use to a reader.
    pub const MAX_WIDTH: usize = 1000;

    /// The width that lines keep to.
    pub fn columns(&self) -> usize {
        self.width.clamp(Options::MIN_WIDTH, Options::MAX_WIDTH)
    }
}

impl Default for Options {
    fn default() -> Self {
        Options { width: 80, color: false, verbose: 0 }
    }
}
