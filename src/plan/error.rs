//! What is wrong with a plan: all of it, each with its place, in words and with a caret.
//!
//! Text of a plan goes to terminals here, so characters that steer one (controls, bidi
//! overrides) are replaced by printable ones of the same length in bytes; and of a line that
//! is longer than a terminal is wide only what is around the place is shown: the wrong file
//! may be one line of a MiB.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::ops::Range;

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError,
    MietteSpanContents, SourceCode, SourceSpan, SpanContents,
};

use crate::model::is_active;

/// One error, found at bytes `span` of the text.
#[derive(Debug, Clone)]
struct Fault {
    span: Range<usize>,
    message: String,
    /// What stands at the caret; none where the text is not to be shown.
    label: Option<&'static str>,
    hint: String,
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
        self.0.push(Fault { span: span.clone(), message, label: Some(label), hint });
    }

    /// A fault of the whole text, of which no part says more than another.
    pub fn add_of_all(&mut self, message: impl Into<String>, hint: impl Into<String>) {
        let (message, hint) = (message.into(), hint.into());
        self.0.push(Fault { span: 0..0, message, label: None, hint });
    }

    /// What is found of a plan that was read: one fault, where its text is wrong.
    pub fn one(
        span: &Range<usize>,
        message: impl Into<String>,
        label: &'static str,
        hint: impl Into<String>,
    ) -> Faults {
        let mut faults = Faults::default();
        faults.add(span, message, label, hint);
        faults
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// In the order of the text. A fault that stands in several places is one error, drawn at the
    /// first of them.
    pub fn into_errors(mut self, source_name: &str, text: &str) -> PlanErrors {
        self.0.sort_by_key(|fault| (fault.span.start, fault.span.end));
        let file = one_line(source_name);
        let text = printable(text);
        let lines = LineIndex::new(&text);
        let errors = folded(self.0).into_iter().map(|(fault, others)| {
            let span = lines.clamp(fault.span);
            let (line, column) = lines.position(span.start);
            let others = others.into_iter().map(|span| lines.position(lines.clamp(span).start).0);
            let also = also_in_lines(&others.collect::<Vec<_>>());
            let excerpt = fault.label.map(|label| {
                let name = format!("{file}:{line}:{column}");
                lines.excerpt(name, line - 1, &span, label)
            });
            let (excerpt, labels) = excerpt.unzip();
            PlanError {
                file: file.clone(),
                line,
                column,
                message: shortened(&one_line(&fault.message)) + &also,
                hint: shortened(&one_line(&fault.hint)),
                excerpt,
                labels: labels.into_iter().collect(),
            }
        });
        PlanErrors { errors: errors.collect() }
    }
}

/// Each message with its hint once: the first fault, and where the others are.
fn folded(faults: Vec<Fault>) -> Vec<(Fault, Vec<Range<usize>>)> {
    let mut folded: Vec<(Fault, Vec<Range<usize>>)> = Vec::new();
    let mut known: HashMap<(String, String), usize> = HashMap::new();
    for fault in faults {
        match known.entry((fault.message.clone(), fault.hint.clone())) {
            Entry::Occupied(at) => folded[*at.get()].1.push(fault.span),
            Entry::Vacant(free) => {
                free.insert(folded.len());
                folded.push((fault, Vec::new()));
            }
        }
    }
    folded
}

/// ` (also in lines 8, 11)`; nothing where there is no other place.
fn also_in_lines(lines: &[usize]) -> String {
    const MAX_LINES: usize = 8;
    let shown: Vec<String> = lines.iter().take(MAX_LINES).map(usize::to_string).collect();
    let more = lines.len().saturating_sub(MAX_LINES);
    let noun = if lines.len() == 1 { "line" } else { "lines" };
    match more {
        _ if lines.is_empty() => String::new(),
        0 => format!(" (also in {noun} {})", shown.join(", ")),
        _ => format!(" (also in {noun} {} and {more} more)", shown.join(", ")),
    }
}

/// One error of a plan.
#[derive(Debug, Clone, thiserror::Error, Diagnostic)]
pub struct PlanError {
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    pub message: String,
    pub hint: String,
    #[source_code]
    excerpt: Option<Excerpt>,
    #[label(collection)]
    labels: Vec<LabeledSpan>,
}

impl PlanError {
    /// `file:line:column: message`, for editors and tests.
    pub fn one_line(&self) -> String {
        format!("{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

/// The message; with the file where no excerpt names it.
impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.excerpt.is_none() {
            write!(f, "{}: ", self.file)?;
        }
        f.write_str(&self.message)
    }
}

/// Some lines of a plan, none of them long.
#[derive(Debug, Clone)]
struct Excerpt {
    /// `file:line:column`
    name: String,
    text: String,
    /// How many lines of the plan are before it.
    lines_before: usize,
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let found = self.text.read_span(span, before, after)?;
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            found.data(),
            *found.span(),
            self.lines_before + found.line(),
            found.column(),
            found.line_count(),
        )))
    }
}

/// Everything that is wrong with a plan, in the order of its text; never empty.
#[derive(Debug, Clone, thiserror::Error, Diagnostic)]
pub struct PlanErrors {
    #[related]
    errors: Vec<PlanError>,
}

const MAX_DRAWN: usize = 50;
/// Lines before and after the one with the caret.
const CONTEXT_LINES: usize = 1;
/// Of a line, in characters.
const MAX_SHOWN: usize = 120;
/// Of a line that has more, before the caret.
const SHOWN_BEFORE: usize = 40;
const ELLIPSIS: &str = "...";
/// Of a message or a hint, in characters: it may quote the plan.
const MAX_SAID: usize = 1_000;

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
            .with_context_lines(CONTEXT_LINES);
        let mut rendered = String::new();
        for error in self.errors.iter().take(MAX_DRAWN) {
            let hinting = handler.clone().with_footer(format!("hint: {}", error.hint));
            // Writing to a string fails only where a source cannot be read: then one line.
            if hinting.render_report(&mut rendered, error).is_err() {
                rendered.push_str(&error.one_line());
            }
            rendered.push('\n');
        }
        if let Some(more @ 1..) = self.errors.len().checked_sub(MAX_DRAWN) {
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

    /// A line by its number from 0, without its end.
    fn line(&self, number: usize) -> Option<Range<usize>> {
        let start = *self.starts.get(number)?;
        let end = self.starts.get(number + 1).map_or(self.text.len(), |next| next - 1);
        Some(start..end)
    }

    /// What is shown of a place in line `number` (from 0), and where in that it is labelled.
    fn excerpt(
        &self,
        name: String,
        number: usize,
        span: &Range<usize>,
        label: &str,
    ) -> (Excerpt, LabeledSpan) {
        let first = number.saturating_sub(CONTEXT_LINES);
        let mut text = String::new();
        let mut labelled = 0..0;
        let lines = (first..=number + CONTEXT_LINES).map_while(|at| Some((at, self.line(at)?)));
        for (at, line) in lines {
            if at > first {
                text.push('\n');
            }
            let own = at == number;
            let place = if own { span.start - line.start } else { 0 };
            let (start, line) = (line.start, &self.text[line]);
            let shown = around(line, place);
            if shown.start > 0 {
                text.push_str(ELLIPSIS);
            }
            if own {
                let end = (span.end - start).min(shown.end);
                labelled = text.len() + place - shown.start..text.len() + end - shown.start;
            }
            text.push_str(&line[shown.clone()]);
            if shown.end < line.len() {
                text.push_str(ELLIPSIS);
            }
        }
        let label = LabeledSpan::new(Some(label.to_string()), labelled.start, labelled.len());
        (Excerpt { name, text, lines_before: first }, label)
    }

    fn position(&self, at: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|&start| start <= at);
        let start = self.starts[line - 1];
        (line, self.text[start..at].chars().count() + 1)
    }
}

/// The part of a line that is shown: all of it, or as much as there is room for around
/// `place`.
fn around(line: &str, place: usize) -> Range<usize> {
    let after = |from: usize, count: usize| {
        let next = line[from..].char_indices().nth(count);
        next.map_or(line.len(), |(at, _)| from + at)
    };
    if after(0, MAX_SHOWN) == line.len() {
        return 0..line.len();
    }
    let before = line[..place].char_indices().rev().take(SHOWN_BEFORE).last();
    let start = before.map_or(place, |(at, _)| at);
    start..after(start, MAX_SHOWN - 2 * ELLIPSIS.len())
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SAID) {
        Some((end, _)) => format!("{}{ELLIPSIS}", &text[..end]),
        None => text.to_string(),
    }
}

fn floor_border(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The text with each character that a terminal acts on, or that hides, replaced by as many bytes, so
/// that spans keep their places. Newlines and tabs stay.
fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        match c.len_utf8() {
            _ if c == '\n' || c == '\t' || !is_active(c) => printable.push(c),
            1 if c == '\r' => printable.push(' '),
            1 => printable.push('?'),
            2 => printable.push('\u{bf}'),
            3 => printable.push('\u{fffd}'),
            _ => printable.push_str("\u{fffd}?"),
        }
    }
    printable
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
            ("\u{61c}x\u{e0041}", "\u{bf}x\u{fffd}?"),
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

    /// What is drawn of an error at bytes `span`.
    fn drawn(text: &str, span: Range<usize>) -> String {
        let mut faults = Faults::default();
        faults.add(&span, "message", "here", "hint");
        faults.into_errors("f", text).render(80, false)
    }

    #[test]
    fn of_a_line_without_end_only_what_is_around_the_place_is_drawn() {
        let long = "-".repeat(1 << 20);
        let middle = long.len() / 2;
        let (left, right) =
            ("-".repeat(SHOWN_BEFORE), "-".repeat(MAX_SHOWN - 6 - SHOWN_BEFORE - 3));
        let cases = [
            // text, place, the line of the caret
            (
                format!("{long}<ü>{long}"),
                long.len()..long.len() + 4,
                format!("...{left}<ü>{right}..."),
            ),
            (format!("{long}<"), long.len()..long.len() + 1, format!("...{left}<")),
            (format!("<{long}"), 0..1, format!("<{}...", "-".repeat(MAX_SHOWN - 7))),
            (format!("a\n{long}\nb"), 2..2 + middle, format!("{}...", "-".repeat(MAX_SHOWN - 6))),
            ("-".repeat(MAX_SHOWN), 3..4, "-".repeat(MAX_SHOWN)),
        ];
        for (text, span, line) in cases {
            let drawn = drawn(&text, span.clone());
            let shown = drawn.lines().find(|shown| shown.contains("--")).unwrap();
            assert_eq!(shown.split_once("| ").unwrap().1, line, "{span:?}\n{drawn}");
            assert!(drawn.lines().all(|line| line.chars().count() <= MAX_SHOWN + 8), "{drawn}");
        }
    }

    #[test]
    fn the_caret_stands_below_the_place_and_lines_keep_their_numbers() {
        let long = "x".repeat(500);
        let drawn = drawn(&format!("1\n2\n3 {long}\n4 {long}!\n5 {long}\n6"), 1009..1010);
        let line = drawn.lines().position(|line| line.contains('!')).expect(&drawn);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[line].find('!'), lines[line + 1].find('^'), "{drawn}");
        for (at, number) in [(line - 1, "3"), (line, "4"), (line + 3, "5")] {
            assert!(lines[at].trim_start().starts_with(number), "{number}: {drawn}");
        }
        assert!(!drawn.contains("2 |") && !drawn.contains("6 |"), "{drawn}");
    }

    #[test]
    fn a_fault_of_the_whole_text_shows_none_of_it_and_long_messages_are_cut() {
        let mut faults = Faults::default();
        faults.add_of_all("too many bytes", "another file");
        let errors = faults.into_errors("f.toml", "\0\0\0secret");
        assert_eq!(errors.to_string(), "f.toml:1:1: too many bytes");
        let drawn = errors.render(80, false);
        assert!(drawn.contains("f.toml: too many bytes") && drawn.contains("hint: another file"));
        assert!(!drawn.contains("secret") && !drawn.contains("^"), "{drawn}");

        let mut faults = Faults::default();
        faults.add(&(0..1), "ü".repeat(1 << 20), "here", "h".repeat(1 << 20));
        let errors = faults.into_errors("f", "text");
        let (message, hint) = (&errors.errors()[0].message, &errors.errors()[0].hint);
        assert_eq!((message.chars().count(), hint.chars().count()), (1_003, 1_003));
    }
}
