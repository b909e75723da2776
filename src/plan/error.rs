//! All errors of a plan, each with its place, in words and with a caret.
//!
//! Text of a plan goes to terminals here, so characters that steer one (controls, bidi overrides) are
//! replaced by printable ones of the same length in bytes; and of a line that is longer than a terminal is
//! wide, only the part around the place is shown: the wrong file may be one line of a MiB.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::ops::Range;

use unicode_width::UnicodeWidthStr;

use crate::model::is_active;

/// One error, found at bytes `span` of the text.
#[derive(Debug, Clone)]
struct Fault {
    span: Range<usize>,
    message: String,
    /// The words at the caret; `None` if the text must not be shown.
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

    /// As [`Faults::add`], for a part of which nothing is taken.
    pub fn refuse<T>(
        &mut self,
        span: &Range<usize>,
        message: impl Into<String>,
        label: &'static str,
        hint: impl Into<String>,
    ) -> Option<T> {
        self.add(span, message, label, hint);
        None
    }

    /// A fault of the whole text, not of a part.
    pub fn add_of_all(&mut self, message: impl Into<String>, hint: impl Into<String>) {
        let (message, hint) = (message.into(), hint.into());
        self.0.push(Fault { span: 0..0, message, label: None, hint });
    }

    /// One fault, for a plan whose text is not valid.
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

    /// Whether a fault was found within this part.
    pub fn are_within(&self, span: &Range<usize>) -> bool {
        self.0.iter().any(|fault| span.start <= fault.span.start && fault.span.end <= span.end)
    }

    /// The errors in the order of the text. A fault in several places is one error, drawn at the first of them.
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
            let excerpt = fault.label.map(|label| lines.excerpt(line - 1, &span, label));
            PlanError {
                file: file.clone(),
                line,
                column,
                message: shortened(&one_line(&fault.message)) + &also,
                hint: shortened(&one_line(&fault.hint)),
                excerpt,
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

/// ` (also in lines 8, 11)`; empty if there is no other place.
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
#[derive(Debug, Clone)]
pub struct PlanError {
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    pub message: String,
    pub hint: String,
    excerpt: Option<Excerpt>,
}

impl PlanError {
    /// `file:line:column: message`, for editors and tests.
    pub fn one_line(&self) -> String {
        format!("{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

/// The form of every error: what is wrong, where, and what to do. Only ASCII surrounds the plan's own text,
/// so that serial consoles and logs show it unchanged.
impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlanError { file, line, column, message, hint, excerpt } = self;
        match excerpt {
            None => writeln!(f, "error: {file}: {message}")?,
            Some(excerpt) => write!(f, "error: {message}\n --> {file}:{line}:{column}\n{excerpt}")?,
        }
        writeln!(f, "hint: {hint}")
    }
}

/// Some lines of a plan, none of them long, and a caret below a place in one of them.
#[derive(Debug, Clone)]
struct Excerpt {
    /// The lines with their numbers, from 1.
    lines: Vec<(usize, String)>,
    /// The number of the line with the place, and the columns before it and of it.
    own: (usize, usize, usize),
    label: &'static str,
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.lines.last().map_or(1, |(number, _)| number.to_string().len());
        let (own, before, width) = self.own;
        for (number, text) in &self.lines {
            writeln!(f, "{}", format!("{number:>columns$} | {text}").trim_end())?;
            if *number == own {
                let (space, carets) = (" ".repeat(before), "^".repeat(width.max(1)));
                writeln!(f, "{:columns$} | {space}{carets} {}", "", self.label)?;
            }
        }
        Ok(())
    }
}

/// Everything that is wrong with a plan, in the order of its text; never empty.
#[derive(Debug, Clone, thiserror::Error)]
pub struct PlanErrors {
    errors: Vec<PlanError>,
}

const MAX_DRAWN: usize = 50;
/// Lines before and after the one with the caret.
const CONTEXT_LINES: usize = 1;
/// Characters of a line that are shown.
const MAX_SHOWN: usize = 120;
/// Characters before the caret, if the line has more than that.
const SHOWN_BEFORE: usize = 40;
const ELLIPSIS: &str = "...";
/// Maximum characters of a message or a hint, which may quote the plan.
const MAX_SAID: usize = 1_000;

impl PlanErrors {
    pub fn errors(&self) -> &[PlanError] {
        &self.errors
    }

    pub fn map(self, change: impl FnMut(PlanError) -> PlanError) -> PlanErrors {
        PlanErrors { errors: self.errors.into_iter().map(change).collect() }
    }

    pub fn into_first(self) -> Option<PlanError> {
        self.errors.into_iter().next()
    }

    /// Each error with its line of the plan, a caret and a hint. If there are very many errors, the first
    /// ones are drawn and the rest is counted.
    pub fn render(&self) -> String {
        let drawn = self.errors.iter().take(MAX_DRAWN).map(PlanError::to_string);
        let rest = self.errors.len().checked_sub(MAX_DRAWN).filter(|more| *more > 0);
        let rest = rest.map(|more| format!("and {more} more\n"));
        drawn.chain(rest).collect::<Vec<_>>().join("\n")
    }
}

/// The one-line form of each error.
impl fmt::Display for PlanErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.errors.iter().map(PlanError::one_line).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// The beginnings of a text's lines.
struct LineIndex<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> LineIndex<'t> {
    fn new(text: &'t str) -> Self {
        let after = text.match_indices('\n').map(|(at, _)| at + 1);
        LineIndex { text, starts: std::iter::once(0).chain(after).collect() }
    }

    /// Moves a span into the text, to borders of characters, and into one line: a caret below the first line
    /// of a long value is enough.
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

    /// The shown part of line `number` (from 0), with its label.
    fn excerpt(&self, number: usize, span: &Range<usize>, label: &'static str) -> Excerpt {
        let first = number.saturating_sub(CONTEXT_LINES);
        let shown = |at: usize| {
            let line = self.line(at)?;
            let place = if at == number { span.start - line.start } else { 0 };
            let (start, line) = (line.start, &self.text[line]);
            let part = around(line, place);
            let [before, after] = [part.start > 0, part.end < line.len()];
            let [before, after] = [before, after].map(|is_cut| if is_cut { ELLIPSIS } else { "" });
            // A tab is as wide as the terminal wants.
            let plain = |text: &str| text.replace('\t', " ");
            let head = format!("{before}{}", plain(&line[part.start..place.max(part.start)]));
            let end = (span.end.max(start) - start).clamp(place, part.end.max(place));
            let width = plain(&line[place..end]).width();
            let text = format!("{before}{}{after}", plain(&line[part]));
            Some(((at + 1, text), (at + 1, head.width(), width)))
        };
        let found: Vec<_> = (first..=number + CONTEXT_LINES).map_while(shown).collect();
        let own = found.iter().map(|(_, own)| *own).find(|own| own.0 == number + 1);
        let own = own.unwrap_or_default();
        let mut lines: Vec<(usize, String)> = found.into_iter().map(|(line, _)| line).collect();
        lines.pop_if(|(number, text)| *number != own.0 && text.trim().is_empty());
        Excerpt { lines, own, label }
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

/// Replaces each character that a terminal acts on, or that is invisible, by as many bytes, so that spans
/// keep their places. Newlines and tabs stay.
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
            assert!(errors.render().contains("message of two"), "{text:?} {span:?}");
        }
    }

    /// The rendered text of an error at bytes `span`.
    fn drawn(text: &str, span: Range<usize>) -> String {
        let mut faults = Faults::default();
        faults.add(&span, "message", "here", "hint");
        faults.into_errors("f", text).render()
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
            let shown =
                drawn.lines().find(|shown| shown.contains("--") && shown.contains("| ")).unwrap();
            assert_eq!(shown.split_once("| ").unwrap().1, line, "{span:?}\n{drawn}");
            assert!(drawn.lines().all(|line| !line.ends_with(' ')), "{drawn}");
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
        for (at, number) in [(line - 1, "3"), (line, "4"), (line + 2, "5")] {
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
        let drawn = errors.render();
        assert_eq!(drawn, "error: f.toml: too many bytes\nhint: another file\n");
        assert!(!drawn.contains("secret") && !drawn.contains("^"), "{drawn}");

        let mut faults = Faults::default();
        faults.add(&(0..1), "ü".repeat(1 << 20), "here", "h".repeat(1 << 20));
        let errors = faults.into_errors("f", "text");
        let (message, hint) = (&errors.errors()[0].message, &errors.errors()[0].hint);
        assert_eq!((message.chars().count(), hint.chars().count()), (1_003, 1_003));
    }
}
