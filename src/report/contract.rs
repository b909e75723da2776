//! The definition of a report format, and the layout of reports. Plain data.

use std::io::{self, Write};

use crate::analysis::Analysis;

pub struct Format {
    /// As it is asked for: `--format NAME`.
    pub name: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// Whether it shows metrics that explain: then the analysis has verdicts on them.
    pub explains: fn(&Options) -> bool,
    /// Fails only where `out` does.
    pub render: Render,
}

/// The function that writes reports.
pub enum Render {
    /// One analysis; several follow each other, with an empty line between them.
    Each(fn(&Analysis, &Options, &mut dyn Write) -> io::Result<()>),
    /// All of them as one document.
    All(fn(&[Analysis], &mut dyn Write) -> io::Result<()>),
    /// As `All`, with charts: the analyses have their pictures.
    Page(fn(&[Analysis], &mut dyn Write) -> io::Result<()>),
    /// As `Page`; no text.
    Image(fn(&[Analysis], &mut dyn Write) -> io::Result<()>),
}

/// A function that writes something else than an [`Analysis`].
pub type RenderOther<T> = fn(&T, &Options, &mut dyn Write) -> io::Result<()>;

/// The formats of something else than an [`Analysis`]: names of [`super::formats`], the default first.
pub type OtherFormats<T> = [(&'static str, RenderOther<T>)];

impl Format {
    /// Whether it shows [`crate::analysis::Pictures`].
    pub fn draws(&self) -> bool {
        matches!(self.render, Render::Page(_) | Render::Image(_))
    }

    /// Whether it is for no terminal.
    pub fn is_binary(&self) -> bool {
        matches!(self.render, Render::Image(_))
    }

    /// Writes the analyses, in the order given.
    pub fn render(
        &self,
        analyses: &[Analysis],
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let each = match self.render {
            Render::All(render) | Render::Page(render) | Render::Image(render) => {
                return render(analyses, out);
            }
            Render::Each(render) => render,
        };
        if analyses.is_empty() {
            return writeln!(out, "nothing to report");
        }
        for (at, analysis) in analyses.iter().enumerate() {
            if at > 0 {
                writeln!(out)?;
            }
            each(analysis, options, out)?;
        }
        Ok(())
    }
}

/// How a report is laid out. Formats for machines ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Columns of the terminal or mail, at least [`Options::MIN_WIDTH`].
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
}

impl Default for Options {
    fn default() -> Self {
        Options { width: 80, color: false, verbose: 0 }
    }
}
