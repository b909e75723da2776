//! Renders stored records: one file each and one line in [`formats`]; `--format`'s help and
//! `schedlab list` derive from it. Pure: the same records and options give the same bytes.
//!
//! [`summary`] computes what a report says (pairs, ratios, what stands beside the numbers);
//! formats only lay it out. Verdicts will be one more field of [`summary::MetricSummary`].

mod beside;
pub mod compare;
mod csv;
pub mod disturbance_words;
mod fairness;
mod guests;
mod json;
mod lkml;
mod page;
pub mod power;
mod schbench;
pub mod score;
mod show;
pub mod summary;
#[cfg(test)]
mod testing;
mod text;
mod weight;

use std::io::{self, Write};

use crate::model::Record;

pub use show::{clean, shortened};

/// Every format, the default first. Plans know them by [`crate::model::REPORT_FORMATS`].
pub fn formats() -> &'static [&'static dyn Format] {
    &[&text::Text, &json::Json, &csv::Csv, &schbench::Schbench, &lkml::Lkml]
}

/// The format of this name.
pub fn find(name: &str) -> Option<&'static dyn Format> {
    formats().iter().copied().find(|format| format.name() == name)
}

pub trait Format: Sync {
    /// As it is asked for: `--format NAME`.
    fn name(&self) -> &'static str;

    /// One line for help.
    fn about(&self) -> &'static str;

    /// Writes a report of all records, in the order given. Fails only where `out` does.
    fn render(&self, records: &[Record], options: &Options, out: &mut dyn Write) -> io::Result<()>;
}

/// How a report is laid out. Formats for machines ignore all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Columns of the terminal or mail; see [`Options::columns`].
    pub width: usize,
    /// Whether escape sequences may be written; `NO_COLOR` is the caller's to respect.
    pub color: bool,
    /// 0: what the question is about. 1: every metric, its spread, and the parameters.
    pub verbose: u8,
}

impl Options {
    /// Fewer columns than this hold no table.
    pub const MIN_WIDTH: usize = 40;
    /// More columns than this nobody reads.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_named_once_described_and_renders_nothing_from_nothing() {
        for format in formats() {
            assert!(!format.about().is_empty() && !format.about().contains('\n'));
            let same_name = formats().iter().filter(|other| other.name() == format.name());
            assert_eq!(same_name.count(), 1, "{}", format.name());
            assert_eq!(find(format.name()).map(|found| found.name()), Some(format.name()));
            let rendered = testing::render(*format, &[], Options::default());
            assert!(rendered.ends_with('\n'), "{}: {rendered:?}", format.name());
        }
    }

    /// The parser of plans may not know this room; it checks names with that list.
    #[test]
    fn plans_name_the_formats_that_there_are() {
        let names: Vec<&str> = formats().iter().map(|format| format.name()).collect();
        assert_eq!(names, crate::model::REPORT_FORMATS);
    }

    #[test]
    fn the_same_records_give_the_same_bytes() {
        let records = [testing::ordinary().record(), testing::troubled().record()];
        for format in formats() {
            let once = testing::render(*format, &records, Options::default());
            let twice = testing::render(*format, &records, Options::default());
            assert!(once == twice, "{} differs from call to call", format.name());
            // As the store gives it back: to the last bit of each number.
            let stored = serde_json::to_string(&records).unwrap();
            let again: Vec<Record> = serde_json::from_str(&stored).unwrap();
            let replayed = testing::render(*format, &again, Options::default());
            assert!(once == replayed, "{} differs after a trip through JSON", format.name());
        }
    }

    #[test]
    fn a_closed_pipe_is_an_error_and_no_panic() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let records = [testing::ordinary().record()];
        for format in formats() {
            let result = format.render(&records, &Options::default(), &mut Closed);
            let kind = result.map_err(|error| error.kind());
            assert_eq!(kind, Err(io::ErrorKind::BrokenPipe), "{}", format.name());
        }
    }
}
