//! Pages of labelled lines, as `show` and `list` print them. Pure.

use crate::report::{clean, wrap};
use crate::store::Note;

use super::stored::moment;

/// Works and reasons that are shown.
const MAX_SHOWN: usize = 12;
/// Before each line's text.
const LABEL: usize = 11;

/// A label and its text; an empty label goes on with the one before.
pub type Line = (&'static str, String);

/// Labels in a column of their own, texts broken at the width.
pub fn laid_out(lines: &[Line], columns: usize) -> String {
    let mut page = String::new();
    for (label, text) in lines {
        for (at, part) in wrap(&clean(text), columns - LABEL).iter().enumerate() {
            let label = if at == 0 { *label } else { "" };
            page.push_str(format!("{label:<LABEL$}{part}").trim_end());
            page.push('\n');
        }
    }
    page
}

/// The first with the label, at most [`MAX_SHOWN`] of them.
pub fn labelled(label: &'static str, texts: impl Iterator<Item = String>) -> Vec<Line> {
    let mut texts: Vec<String> = texts.collect();
    let more = texts.len().saturating_sub(MAX_SHOWN);
    if more > 1 {
        texts.truncate(MAX_SHOWN);
        texts.push(format!("and {more} more"));
    }
    let labels = std::iter::once(label).chain(std::iter::repeat(""));
    labels.zip(texts).collect()
}

pub fn notes(notes: &[Note]) -> Vec<Line> {
    let notes = notes.iter().flat_map(|note| {
        let mut texts = note.text.lines();
        let first = texts.next().unwrap_or_default();
        let first = format!("{}  {first}", moment(note.written_unix_ns));
        std::iter::once(first).chain(texts.map(str::to_string)).collect::<Vec<_>>()
    });
    labelled("notes", notes)
}
