//! Renders comparisons: one file each and one line in [`formats`]; the help of
//! `schedlab compare` derives from it. Pure: the same comparison and options give the same bytes.
//!
//! All that a comparison says is computed in [`crate::compare`]; formats only lay it out, and
//! share their words in `words`. Layouts are told in docs/report-formats.md.

mod csv;
mod gobench;
mod json;
pub(super) mod lkml;
mod schbench_mail;
#[cfg(test)]
mod testing;
mod text;
mod words;

use std::io::{self, Write};

use super::Options;
use crate::compare::Comparison;

/// Every format, the default first.
pub fn formats() -> &'static [&'static dyn Format] {
    &[
        &text::Text,
        &lkml::Lkml,
        &csv::Csv,
        &json::Json,
        &gobench::Gobench,
        &schbench_mail::SchbenchMail,
    ]
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

    /// Writes the comparison. Fails only where `out` does.
    fn render(
        &self,
        comparison: &Comparison,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_named_once_described_and_has_a_line_for_nothing() {
        for format in formats() {
            assert!(!format.about().is_empty() && !format.about().contains('\n'));
            let same_name = formats().iter().filter(|other| other.name() == format.name());
            assert_eq!(same_name.count(), 1, "{}", format.name());
            assert_eq!(find(format.name()).map(|found| found.name()), Some(format.name()));
            for nothing in [testing::nothing(), testing::sides_only()] {
                let rendered = testing::render(*format, &nothing, Options::default());
                assert!(rendered.ends_with('\n'), "{}: {rendered:?}", format.name());
            }
        }
        assert_eq!(find("html").map(|found| found.name()), None);
    }

    #[test]
    fn every_format_is_documented() {
        let page = include_str!("../../../docs/report-formats.md");
        for format in formats() {
            let heading = format!("\n### {} of a comparison\n", format.name());
            assert!(page.contains(&heading), "docs/report-formats.md lacks {heading:?}");
        }
    }

    #[test]
    fn the_same_comparison_gives_the_same_bytes() {
        for comparison in [testing::ordinary(), testing::troubled(), testing::nothing()] {
            for format in formats() {
                let once = testing::render(*format, &comparison, Options::default());
                let twice = testing::render(*format, &comparison.clone(), Options::default());
                assert!(once == twice, "{} differs from call to call", format.name());
            }
        }
    }

    /// CSV and JSON bring names as they are, in the quoting of their format: they are data there.
    #[test]
    fn names_from_outside_act_on_no_terminal() {
        let hostile = testing::hostile("a\x1b[2J\r\n\u{202e}\u{9b}b \t`c`");
        for format in formats().iter().filter(|format| format.name() != "csv") {
            for verbose in [0, 1] {
                let options = Options { verbose, ..Options::default() };
                let shown = testing::render(*format, &hostile, options);
                let acts = |c: &char| c.is_control() && *c != '\n' || *c == '\u{202e}';
                let found = shown.chars().find(acts);
                // JSON escapes what is below the space itself.
                let found = found.filter(|c| format.name() != "json" || *c < ' ');
                assert_eq!(found, None, "{}: {shown}", format.name());
            }
        }
    }

    #[test]
    fn colour_is_there_only_where_asked_for() {
        let options = Options { color: true, ..Options::default() };
        for format in formats() {
            let plain = testing::render(*format, &testing::troubled(), Options::default());
            assert!(!plain.contains('\x1b'), "{}", format.name());
            let coloured = testing::render(*format, &testing::troubled(), options);
            assert_eq!(testing::without_colour(&coloured), plain, "{}", format.name());
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
        for format in formats() {
            let result = format.render(&testing::ordinary(), &Options::default(), &mut Closed);
            let kind = result.map_err(|error| error.kind());
            assert_eq!(kind, Err(io::ErrorKind::BrokenPipe), "{}", format.name());
        }
    }
}
