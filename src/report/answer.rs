//! The answer: at most twelve lines with every headline metric that changed, what is open and
//! what would decide it, and the commands that show more. Pure.

use unicode_width::UnicodeWidthStr;

use crate::analysis::{Analysis, Cell, Family, Note, Row, Severity};
use crate::model::Direction;
use crate::stats::Verdict;

use super::layout::{Page, Tone, clean, wrap};
use super::numbers::{Change, counted};
use super::phrases::{self, Tally};

/// Lines of the answer at most.
pub const MAX_LINES: usize = 12;
/// Names of sides take at most so many columns.
pub const NAME_COLUMNS: usize = 12;
const MIN_LABEL_COLUMNS: usize = 8;
/// Of more open metrics than this, if they are all, none is named.
const MANY: usize = 4;
const ALL: usize = usize::MAX;

/// One paragraph of the answer.
struct Paragraph {
    tone: Tone,
    label: String,
    text: String,
}

/// How much the answer says.
#[derive(Clone, Copy)]
struct Detail {
    intervals: bool,
    /// So many of each list of changes are named, and so many that are open.
    changes: usize,
    open: usize,
    /// So many sides have the counts of their verdicts alone; `None`: each has its changes.
    counts: Option<usize>,
}

impl Detail {
    /// From most to least: what is open is left to the table first, and changes last.
    fn steps(sides: usize) -> impl Iterator<Item = Detail> {
        let of = |(intervals, changes, open)| Detail { intervals, changes, open, counts: None };
        let named = [(true, ALL, ALL), (true, ALL, MANY), (true, ALL, 0), (false, ALL, 0)];
        let few = (1..=4).rev().map(|few| (false, few, 0));
        let counts = move |sides| Detail { counts: Some(sides), ..of((false, 0, 0)) };
        named.into_iter().chain(few).map(of).chain((0..=sides).rev().map(counts))
    }
}

/// Writes the answer; `names` are the sides' as tables show them.
/// `more`: what an option shows.
pub fn write(analysis: &Analysis, names: &[String], more: Option<&str>, page: &mut Page) {
    let columns = names.iter().map(|name| name.width()).max().unwrap_or(0);
    let columns = columns.max(MIN_LABEL_COLUMNS) + 2;
    let lines = |paragraphs: &[Paragraph]| -> usize {
        let room = page.width().saturating_sub(columns);
        paragraphs.iter().map(|of| wrap(&of.text, room).len()).sum()
    };
    let mut shown = Vec::new();
    for detail in Detail::steps(names.len().saturating_sub(1)) {
        shown = paragraphs(analysis, names, more, detail);
        if lines(&shown) <= MAX_LINES {
            break;
        }
    }
    for Paragraph { tone, label, text } in &shown {
        let pad = columns.saturating_sub(label.width());
        page.wrapped(*tone, &format!("{label}{:pad$}", ""), text);
    }
}

fn paragraphs(
    analysis: &Analysis,
    names: &[String],
    more: Option<&str>,
    detail: Detail,
) -> Vec<Paragraph> {
    let plain =
        |label: &str, text: String| Paragraph { tone: Tone::Plain, label: label.to_string(), text };
    let sides = 1..names.len();
    let mut said: Vec<Paragraph> = match detail.counts {
        Some(most) => {
            let counts = |side| Tally::of(analysis, side, Family::Headline).counts();
            let more = sides.len().saturating_sub(most);
            let more = (more > 0).then(|| plain("", format!("and {} more", counted(more, "side"))));
            sides.take(most).map(|side| plain(&names[side], counts(side))).chain(more).collect()
        }
        None => sides.flat_map(|side| changes(analysis, &names[side], side, detail)).collect(),
    };
    said.extend(spoilt(analysis));
    said.extend(open(analysis, names, detail));
    said.extend(more.map(|more| plain("more", more.to_string())));
    said.push(plain("again", clean(&analysis.command)));
    said
}

/// Which metrics of a side are worse and which are better, the largest changes first.
fn changes(analysis: &Analysis, name: &str, side: usize, detail: Detail) -> Vec<Paragraph> {
    let tally = Tally::of(analysis, side, Family::Headline);
    let of = |is_worse: bool, is_neutral: bool, word: &'static str, tone: Tone| {
        let is: fn(&Verdict) -> bool = match is_worse {
            true => |verdict| matches!(verdict, Verdict::Worse),
            false => |verdict| matches!(verdict, Verdict::Better),
        };
        let mut found = judged(analysis, side, |row, verdict| {
            is(verdict) && is_neutral == (row.kind.direction == Direction::Neutral)
        });
        found.sort_by(|(_, a), (_, b)| size(b).total_cmp(&size(a)));
        let texts: Vec<String> =
            found.iter().map(|(place, cell)| change(place, cell, detail)).collect();
        (!texts.is_empty()).then(|| (tone, format!("{word}: {}", listed(&texts, detail.changes))))
    };
    let lists = [
        of(true, false, "worse", Tone::Bad),
        of(false, false, "better", Tone::Bold),
        of(true, true, "more", Tone::Plain),
        of(false, true, "less", Tone::Plain),
    ];
    let mut lists: Vec<(Tone, String)> = lists.into_iter().flatten().collect();
    if lists.is_empty() {
        let text = match (tally.same, tally.inconclusive) {
            (0, 0) => "no verdict".to_string(),
            (same, 0) => format!("the same in {}", counted(same, "headline metric")),
            (0, open) => format!("nothing decided of {}", counted(open, "headline metric")),
            (same, open) => {
                format!(
                    "no change found: {} the same, {open} open",
                    counted(same, "headline metric")
                )
            }
        };
        lists.push((Tone::Plain, text));
    }
    let label = |at: usize| if at == 0 { name.to_string() } else { String::new() };
    lists
        .into_iter()
        .enumerate()
        .map(|(at, (tone, text))| Paragraph { tone, label: label(at), text })
        .collect()
}

/// Cells of a side in the headline family, with their place and metric.
fn judged(
    analysis: &Analysis,
    side: usize,
    is: impl Fn(&Row, &Verdict) -> bool,
) -> Vec<(String, &Cell)> {
    let rows = analysis.rows().filter(|(.., row)| row.family == Family::Headline);
    rows.filter_map(|(work, set, row)| {
        let cell = row.cells.get(side)?;
        let place = phrases::place(analysis, work, set);
        cell.verdict().as_ref().filter(|verdict| is(row, verdict))?;
        Some((format!("{place} {}", name(row)), cell))
    })
    .collect()
}

fn name(row: &Row) -> String {
    clean(&row.kind.name)
}

fn size(cell: &Cell) -> f64 {
    let ratio = cell.judged.as_ref().and_then(|judged| judged.ratio.ok());
    ratio.map_or(0.0, |ratio| ratio.ratio.ln().abs())
}

fn change(place: &str, cell: &Cell, detail: Detail) -> String {
    let ratio = cell.judged.as_ref().and_then(|judged| judged.ratio.ok());
    let Some(ratio) = ratio else { return place.to_string() };
    let change = Change::of(&ratio);
    match detail.intervals {
        true => format!("{place} {}", change.with_interval()),
        false => format!("{place} {}", change.change),
    }
}

fn listed(texts: &[String], most: usize) -> String {
    match texts.get(..most) {
        Some(first) if first.len() < texts.len() => {
            format!("{} and {} more", first.join(", "), texts.len() - most)
        }
        _ => texts.join(", "),
    }
}

/// Whether something from outside spoilt the measurement: then the verdicts are about that, too.
fn spoilt(analysis: &Analysis) -> Option<Paragraph> {
    let is = |note: &&Note| matches!(note, Note::AllSpoilt { .. });
    let note = analysis.notes.iter().find(is)?;
    let (_, text) = phrases::note(analysis, note);
    Some(Paragraph { tone: Tone::Bad, label: "spoilt".to_string(), text })
}

/// What no verdict was reached on, and what would decide it.
fn open(analysis: &Analysis, names: &[String], detail: Detail) -> Option<Paragraph> {
    let is_open = |_: &Row, verdict: &Verdict| matches!(verdict, Verdict::Inconclusive { .. });
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    let (mut open, mut needed) = (0, None);
    for (side, name) in names.iter().enumerate().skip(1) {
        let tally = Tally::of(analysis, side, Family::Headline);
        open += tally.inconclusive;
        needed = needed.into_iter().chain(tally.rounds).reduce(phrases::later);
        for (place, _) in judged(analysis, side, is_open) {
            match found.iter_mut().find(|(known, _)| *known == place) {
                Some((_, sides)) => sides.push(name),
                None => found.push((place, vec![name])),
            }
        }
    }
    if open == 0 {
        return None;
    }
    let all = names.len() - 1;
    let places = found.into_iter().map(|(place, sides)| match sides.len() == all {
        true => place,
        false => format!("{place} ({})", sides.join(", ")),
    });
    let places: Vec<String> = places.collect();
    let of = analysis.method.headline_verdicts;
    let decides = needed.map(|needed| {
        format!("; {}{}", phrases::decides(needed), phrases::more_rounds(analysis, needed))
    });
    let decides = decides.unwrap_or_default();
    // Where all of many are open the table says which.
    let which = match detail.open {
        0 => String::new(),
        _ if open == of && places.len() > MANY => String::new(),
        most => format!(": {}", listed(&places, most)),
    };
    let text = format!("{open} of {of}{which}{decides}");
    Some(Paragraph { tone: Tone::Plain, label: "open".to_string(), text })
}

/// Whether a note belongs above the answer, in a line of its own.
pub fn is_shown(note: &Note, verbose: u8) -> bool {
    !matches!(note, Note::AllSpoilt { .. })
        && (verbose > 0
            || note.severity() < Severity::Info
            || matches!(note, Note::SpoiltRounds { .. } | Note::Unfinished { .. }))
}

#[cfg(test)]
mod tests;
