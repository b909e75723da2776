//! What is wrong with a plan: all of it, each with its place, in words and with a caret.
//!
//! Text of a plan goes to terminals here, so characters that steer one (controls, bidi
//! overrides) are replaced by printable ones of the same length in bytes.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource};

/// One error, found at bytes `span` of the text.
#[derive(Debug, Clone)]
pub struct Fault {
    pub span: Range<usize>,
    pub message: String,
    pub label: &'static str,
    pub hint: String,
}

/// Collects faults while the rest of the plan is read.
#[derive(Debug, Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    pub fn add(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        label: &'static str,
        hint: impl Into<String>,
    ) {
        let (message, hint) = (message.into(), hint.into());
        self.0.push(Fault { span: span.clone(), message, label, hint });
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// In the order of the text.
    pub fn into_errors(mut self, source_name: &str, text: &str) -> PlanErrors {
        self.0.sort_by_key(|fault| (fault.span.start, fault.span.end));
        let file = one_line(source_name);
        let shared: Arc<String> = Arc::new(printable(text));
        let lines = LineIndex::new(text);
        let errors = self.0.into_iter().map(|fault| {
            let span = lines.clamp(fault.span);
            let (line, column) = lines.position(span.start);
            let label = LabeledSpan::new(Some(fault.label.into()), span.start, span.len());
            PlanError {
                file: file.clone(),
                line,
                column,
                message: one_line(&fault.message),
                hint: one_line(&fault.hint),
                text: NamedSource::new(format!("{file}:{line}:{column}"), Arc::clone(&shared)),
                labels: vec![label],
            }
        });
        PlanErrors { errors: errors.collect() }
    }
}

/// One error of a plan.
#[derive(Debug, Clone, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub struct PlanError {
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    pub message: String,
    pub hint: String,
    #[source_code]
    text: NamedSource<Arc<String>>,
    #[label(collection)]
    labels: Vec<LabeledSpan>,
}

impl PlanError {
    /// `file:line:column: message`, for editors and tests.
    pub fn one_line(&self) -> String {
        format!("{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

/// Everything that is wrong with a plan, in the order of its text; never empty.
#[derive(Debug, Clone, thiserror::Error, Diagnostic)]
pub struct PlanErrors {
    #[related]
    errors: Vec<PlanError>,
}

const MOST_DRAWN: usize = 50;

impl PlanErrors {
    pub fn errors(&self) -> &[PlanError] {
        &self.errors
    }

    /// For a terminal of `width` columns: each error with its line of the plan, a caret and
    /// a hint. Drawn in ASCII, so that serial consoles and logs show it as it is. Of very
    /// many errors the first are drawn and the rest counted.
    pub fn render(&self, width: usize, color: bool) -> String {
        let mut theme = if color { GraphicalTheme::ascii() } else { GraphicalTheme::none() };
        // Else a label below a single character has no caret.
        theme.characters.underbar = '^';
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_width(width.max(20))
            .with_links(false)
            // It counts columns in bytes; the source's name has them in characters.
            .without_primary_span_start()
            .with_context_lines(1);
        let mut rendered = String::new();
        for error in self.errors.iter().take(MOST_DRAWN) {
            let hinting = handler.clone().with_footer(format!("hint: {}", error.hint));
            // Writing to a string fails only where a source cannot be read: then one line.
            if hinting.render_report(&mut rendered, error).is_err() {
                rendered.push_str(&error.one_line());
            }
            rendered.push('\n');
        }
        if let Some(more @ 1..) = self.errors.len().checked_sub(MOST_DRAWN) {
            rendered.push_str(&format!("  and {more} more\n"));
        }
        rendered
    }
}

/// The one-line form of each error.
impl fmt::Display for PlanErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.errors.iter().map(PlanError::one_line).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// Where the lines of a text begin.
struct LineIndex<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> LineIndex<'t> {
    fn new(text: &'t str) -> Self {
        let after = text.match_indices('\n').map(|(at, _)| at + 1);
        LineIndex { text, starts: std::iter::once(0).chain(after).collect() }
    }

    /// Within the text, at borders of characters, and within one line: a caret below the
    /// first line of a long value says enough.
    fn clamp(&self, span: Range<usize>) -> Range<usize> {
        let start = floor_border(self.text, span.start);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |at| start + at);
        let end = floor_border(self.text, span.end).clamp(start, line_end);
        start..end
    }

    fn position(&self, at: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|&start| start <= at);
        let start = self.starts[line - 1];
        (line, self.text[start..at].chars().count() + 1)
    }
}

fn floor_border(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Whether a terminal or a reader is steered by it rather than shown it: controls, line
/// separators, invisible and bidirectional formatting.
pub fn unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The text with each unprintable character replaced by as many bytes, so that spans keep
/// their places. Newlines and tabs stay.
fn printable(text: &str) -> String {
    let replace = |c: char| match c.len_utf8() {
        _ if c == '\n' || c == '\t' || !unprintable(c) => c,
        1 if c == '\r' => ' ',
        1 => '?',
        2 => '\u{bf}',
        _ => '\u{fffd}',
    };
    text.chars().map(replace).collect()
}

fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unprintable_text_keeps_its_length_and_loses_its_power() {
        let cases = [
            ("a\u{1b}[31mb", "a?[31mb"),
            ("\u{9b}x", "\u{bf}x"),
            ("\u{202e}x\u{feff}", "\u{fffd}x\u{fffd}"),
            ("a\r\nb\tc", "a \nb\tc"),
            ("grün", "grün"),
        ];
        for (text, expected) in cases {
            assert_eq!(printable(text), expected);
            assert_eq!(printable(text).len(), text.len());
        }
    }

    #[test]
    fn places_are_counted_in_characters_and_stay_in_the_text() {
        let cases = [
            ("", 0..0, (1, 1)),
            ("", 5..9, (1, 1)),
            ("ab\ncd", 3..4, (2, 1)),
            ("ab\ncd", 2..9, (1, 3)),
            ("ab\n", 3..3, (2, 1)),
            ("ü = ü", 5..7, (1, 5)),
            ("ü", 1..2, (1, 1)),
        ];
        for (text, span, expected) in cases {
            let mut faults = Faults::default();
            faults.add(&span, "message\nof two", "here", "hint");
            let errors = faults.into_errors("f\n\u{1b}", text);
            let error = &errors.errors()[0];
            assert_eq!((error.line, error.column), expected, "{text:?} {span:?}");
            let (line, column) = expected;
            assert_eq!(error.one_line(), format!("f ?:{line}:{column}: message of two"));
            assert!(errors.render(80, true).contains("message of two"), "{text:?} {span:?}");
        }
    }
}
