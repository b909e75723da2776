//! The answer: at most twelve lines and its commands, or one for each of many sides, with every headline metric that
//! changed, what is open and what would decide it, and the commands that show more. Pure.

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::analysis::{Analysis, Family, Note, Row, Severity};
use crate::model::Direction;
use crate::stats::{Distance, Judged, Verdict, Why};

use super::Options;
use super::layout::{Page, Tone, clean, command, paragraph};
use super::numbers::{Change, counted};
use super::phrases::{self, Needed, Tally, first_of, with_sides};

/// Lines of the answer at most without its commands, where a line for each side leaves room.
pub const MAX_LINES: usize = 12;
/// The least width of labels, and the greatest on a narrow page, where names have a third.
const LABEL_COLUMNS: [usize; 2] = [8, 13];
/// More open metrics than this are not named: the table lists them.
const MANY: usize = 4;
const ALL: usize = usize::MAX;

/// One paragraph of the answer.
#[derive(Serialize)]
pub struct Paragraph {
    pub tone: Tone,
    pub label: String,
    /// Empty where there is a command alone.
    pub text: String,
    /// A command, behind the text or below it.
    command: Option<String>,
}

impl Paragraph {
    fn text(tone: Tone, label: &str, text: String) -> Paragraph {
        Paragraph { tone, label: label.to_string(), text, command: None }
    }

    fn command(label: &str, command: String) -> Paragraph {
        let text = String::new();
        Paragraph { tone: Tone::Plain, label: label.to_string(), text, command: Some(command) }
    }

    fn lines(&self, label: &str, indent: usize, columns: usize) -> Vec<String> {
        let Some(pasted) = &self.command else {
            return paragraph(label, indent, &self.text, columns);
        };
        if self.text.is_empty() {
            return command(label, indent, pasted, columns);
        }
        let line = format!("{label}{} {pasted}", self.text);
        if line.width() <= columns {
            return vec![line];
        }
        let mut lines = paragraph(label, indent, &self.text, columns);
        lines.extend(command(&" ".repeat(indent), indent, pasted, columns));
        lines
    }
}

/// How much the answer says.
#[derive(Clone, Copy)]
struct Detail {
    intervals: bool,
    /// The most names in each list of changes.
    changes: usize,
    /// The most bounds of undecided metrics.
    bounds: usize,
    /// Whether open metrics are named if they are few.
    open: bool,
    /// Whether the works that load from outside spoilt are named.
    spoilt: bool,
    /// Each side has the counts of its verdicts alone.
    counts: bool,
}

impl Detail {
    /// From most to least: what is open is left to the table first, and changes last.
    fn steps() -> impl Iterator<Item = Detail> {
        let all = Detail {
            intervals: true,
            changes: ALL,
            bounds: ALL,
            open: true,
            spoilt: true,
            counts: false,
        };
        let none_open = Detail { open: false, ..all };
        let few_bounds = [8, 5, 3].map(|bounds| Detail { bounds, ..none_open });
        let few_names = Detail { spoilt: false, ..few_bounds[2] };
        let no_names = Detail { bounds: 1, ..few_names };
        let no_intervals = Detail { intervals: false, ..no_names };
        let few = (1..=4).rev().map(move |changes| Detail { changes, ..no_intervals });
        let counts = Detail { counts: true, ..no_intervals };
        let more = [all, none_open].into_iter().chain(few_bounds);
        more.chain([few_names, no_names, no_intervals]).chain(few).chain([counts])
    }
}

/// An analysis with the names of its sides as tables show them.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub analysis: &'a Analysis,
    pub names: &'a [String],
}

/// As much as the answer in text, without what gives it again: a page has the rest below.
pub fn short(view: View) -> Vec<Paragraph> {
    fitting(view, Options::default().width, LABEL_COLUMNS[1], Vec::new)
}

/// The answer without commands.
pub fn verdicts(view: View) -> Vec<Paragraph> {
    let all = Detail::steps().next();
    all.map(|all| changes_and_open(view, all, false)).unwrap_or_default()
}

/// The width of a column of names on a page of this width; a longer name goes into its text, which needs the room.
pub fn label_columns(names: &[String], width: usize) -> usize {
    let columns = names.iter().map(|name| name.width()).max().unwrap_or(0);
    columns.clamp(LABEL_COLUMNS[0], (width / 7).max(LABEL_COLUMNS[1]))
}

/// `more`: what an option shows.
pub fn write(view: View, more: Option<&str>, page: &mut Page) {
    let columns = label_columns(view.names, page.width());
    let shown = fitting(view, page.width(), columns, || ends(view, more).collect());
    for said in shown {
        let lines = said.lines(&padded(&said.label, columns), columns + 2, page.width());
        lines.iter().for_each(|line| page.line(said.tone, line.trim_end()));
    }
}

fn padded(label: &str, columns: usize) -> String {
    format!("{label}{:1$}  ", "", columns.saturating_sub(label.width()))
}

/// The most detailed answer of at most [`MAX_LINES`], which `ends` ends.
fn fitting(
    view: View,
    width: usize,
    columns: usize,
    ends: impl Fn() -> Vec<Paragraph>,
) -> Vec<Paragraph> {
    // Commands take the room that they need: what is said is not shortened for them.
    let lines = |said: &Paragraph| match said.text.as_str() {
        "" => 0,
        text => paragraph(&padded(&said.label, columns), columns + 2, text, width).len(),
    };
    let mut shown = Vec::new();
    for detail in Detail::steps() {
        shown = changes_and_open(view, detail, true);
        shown.extend(ends());
        if shown.iter().map(lines).sum::<usize>() <= MAX_LINES {
            break;
        }
    }
    shown
}

fn text_paragraph(label: &str, text: String) -> Paragraph {
    Paragraph::text(Tone::Plain, label, text)
}

/// The commands that show more and that give this report again.
fn ends(View { analysis, .. }: View, more: Option<&str>) -> impl Iterator<Item = Paragraph> {
    let is_stored = !analysis.command.is_empty();
    let more = more.filter(|_| is_stored).map(|more| text_paragraph("more", more.to_string()));
    more.into_iter().chain(is_stored.then(|| Paragraph::command("again", clean(&analysis.command))))
}

/// `commands`: with those that decide what is open.
fn changes_and_open(view: View, detail: Detail, commands: bool) -> Vec<Paragraph> {
    let View { analysis, names } = view;
    let mut said: Vec<Paragraph> = if detail.counts {
        let counts = |side| Tally::count(analysis.rows_of(Family::Headline), side).counts();
        (1..names.len()).map(|side| text_paragraph(&names[side], counts(side))).collect()
    } else {
        let sides = 1..names.len();
        sides.flat_map(|side| changes(analysis, &names[side], side, detail)).collect()
    };
    // Verdicts include the load from outside, too.
    let has_mark = phrases::has_spoilt(analysis, analysis.rows());
    said.extend(phrases::spoilt(analysis, has_mark).map(|(word, sentence)| {
        let text = if detail.spoilt {
            sentence
        } else {
            let mark = if has_mark { format!(" ({})", phrases::SPOILT) } else { String::new() };
            format!("load from outside or steal, most rounds{mark}: schedlab doctor")
        };
        Paragraph::text(Tone::Bad, word, text)
    }));
    said.extend(open(analysis, names, detail).map(|text| text_paragraph("open", text)));
    said.extend(below_floor(analysis, names, detail).map(|text| text_paragraph("floor", text)));
    if let Some((text, command)) = rounds(analysis, names.len()) {
        let command = command.filter(|_| commands);
        let colon = if command.is_some() { ":" } else { "" };
        said.push(text_paragraph("rounds", format!("{text}{colon}")));
        said.extend(command.map(|command| Paragraph::command("", command)));
    }
    let in_lab = phrases::in_lab(analysis).filter(|_| commands);
    said.extend(in_lab.map(|(time, command)| Paragraph {
        command: Some(command),
        ..text_paragraph("lab", time)
    }));
    said
}

/// A headline metric that is better or worse, or more or less.
pub struct Changed {
    /// With its place.
    pub metric: String,
    pub verdict: Verdict,
    /// More of it is neither better nor worse.
    pub is_neutral: bool,
    pub change: Option<Change>,
}

/// The BETTER and WORSE metrics of a side, the largest changes first.
pub fn changed(analysis: &Analysis, side: usize) -> Vec<Changed> {
    let mut changed: Vec<(f64, Changed)> = judged(analysis, side)
        .filter(|(.., judged)| matches!(judged.verdict, Verdict::Better | Verdict::Worse))
        .map(|(metric, row, Judged { verdict, effect, .. })| {
            let effect = effect.ok();
            let change = effect.map(|effect| Change::from_effect(&effect, row.kind.unit));
            let is_neutral = row.kind.direction == Direction::Neutral;
            let size = effect.map_or(0.0, |effect| effect.size());
            (size, Changed { metric, verdict, is_neutral, change })
        })
        .collect();
    changed.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    changed.into_iter().map(|(_, changed)| changed).collect()
}

/// Lists the metrics of a side that are worse and those that are better, the largest changes first.
fn changes(analysis: &Analysis, name: &str, side: usize, detail: Detail) -> Vec<Paragraph> {
    let mut lists = [
        (Tone::Bad, "worse", Vec::new()),
        (Tone::Bold, "better", Vec::new()),
        (Tone::Plain, "more", Vec::new()),
        (Tone::Plain, "less", Vec::new()),
    ];
    for Changed { metric, verdict, is_neutral, change } in changed(analysis, side) {
        let list = match (verdict == Verdict::Worse, is_neutral) {
            (true, is_neutral) => &mut lists[if is_neutral { 2 } else { 0 }],
            (false, is_neutral) => &mut lists[if is_neutral { 3 } else { 1 }],
        };
        list.2.push((metric, change));
    }
    let mut said = Vec::new();
    for (tone, word, found) in lists.into_iter().filter(|(.., found)| !found.is_empty()) {
        let texts = found.iter().map(|(place, change)| match change {
            Some(change) if detail.intervals => format!("{place} {}", change.with_interval()),
            Some(change) => format!("{place} {}", change.change),
            None => place.clone(),
        });
        let texts = first_of(&texts.collect::<Vec<_>>(), detail.changes);
        said.push(Paragraph::text(tone, "", format!("{word}: {texts}")));
    }
    let bounds: Vec<String> = bounded(analysis, side).into_iter().map(|(_, text)| text).collect();
    let rows = || analysis.rows_of(Family::Headline).filter_map(|(.., row)| row.cells.get(side));
    let is_measured = rows().any(|cell| !cell.values.is_empty());
    let missing = if is_measured { not_judged(analysis, side) } else { Vec::new() };
    if said.is_empty() {
        said.extend(
            unchanged(analysis, side, missing.is_empty()).map(|text| text_paragraph("", text)),
        );
    }
    if !bounds.is_empty() {
        let text = format!("no difference above: {}", first_of(&bounds, detail.bounds));
        said.push(text_paragraph("", text));
    }
    if !missing.is_empty() {
        let text = format!("not judged: {}", first_of(&missing, detail.changes));
        said.push(Paragraph::text(Tone::Bad, "", text));
    }
    said[0].label = name.to_string();
    said
}

/// `is_whole`: all headline metrics were judged; else nothing is said of "no change".
fn unchanged(analysis: &Analysis, side: usize, is_whole: bool) -> Option<String> {
    let rows = analysis.rows_of(Family::Headline);
    let headlines = analysis.rows_of(Family::Headline);
    let useless = headlines.filter(|(.., row)| is_useless(row, side)).count();
    let Tally { same, .. } = Tally::count(rows, side);
    let (bounds, open) = (bounded(analysis, side).len(), without_bound(analysis, side).count());
    let metrics = |count| counted(count, "headline metric");
    match (same, open) {
        (0, 0) if useless > 0 => Some(format!("its knobs change nothing in {}", metrics(useless))),
        (0, 0) => (is_whole && bounds == 0).then(|| "no verdict".to_string()),
        (0, open) if bounds > 0 => Some(format!("{} open", metrics(open))),
        (same, 0) => Some(format!("the same in {}", metrics(same))),
        (0, open) => Some(format!("nothing decided of {}", metrics(open))),
        (same, open) => {
            let is_whole = is_whole && !lacks_values(analysis, side);
            let found = if is_whole { "no change found: " } else { "" };
            Some(format!("{found}{} the same, {open} open", metrics(same)))
        }
    }
}

/// Undecided metrics with a useful bound: `chat throughput 6.1 %`, the smallest first.
fn bounded(analysis: &Analysis, side: usize) -> Vec<(f64, String)> {
    let rows = judged(analysis, side);
    let mut found: Vec<(f64, String)> = rows
        .filter_map(|(metric, row, judged)| {
            let bound = phrases::bound(row, &row.cells[side])?;
            let size = match judged.bound? {
                Distance::Ratio(bound) => bound,
                Distance::Difference(_) => f64::INFINITY,
            };
            Some((size, format!("{metric} {bound}")))
        })
        .collect();
    found.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    found
}

/// Headline metrics of a side that have no verdict though one was to be: without values on a side, or
/// with values that cannot be compared.
fn not_judged(analysis: &Analysis, side: usize) -> Vec<String> {
    let rows = analysis.rows_of(Family::Headline).filter(|(.., row)| row.lacks_verdict(side));
    rows.map(phrases::metric).collect()
}

/// Whether headline metrics of a side or the baseline are unknown in some of their runs.
fn lacks_values(analysis: &Analysis, side: usize) -> bool {
    let labels = [0, side].map(|at| analysis.sides[at].label.as_str());
    let is_of = |note: &Note| matches!(note, Note::NoValue(of) if labels.contains(&&*of.side));
    analysis.notes.iter().any(is_of)
}

/// Verdicts on a side in the headline family, with the place and name of the metric.
fn judged(analysis: &Analysis, side: usize) -> impl Iterator<Item = (String, &Row, Judged)> {
    analysis.rows_of(Family::Headline).filter_map(move |place| {
        let judged = place.2.cells.get(side)?.judged?;
        Some((phrases::metric(place), place.2, judged))
    })
}

/// Whether a cell is undecided though nothing could make a difference: no number of rounds helps.
fn is_useless(row: &Row, side: usize) -> bool {
    row.cells.get(side).is_some_and(|cell| {
        let is_open = matches!(cell.verdict(), Some(Verdict::Inconclusive { .. }));
        cell.changes_nothing && is_open
    })
}

/// Undecided metrics without a useful bound, where something may make a difference.
fn without_bound(analysis: &Analysis, side: usize) -> impl Iterator<Item = String> {
    let open = judged(analysis, side).filter(move |(_, row, judged)| {
        matches!(judged.verdict, Verdict::Inconclusive { .. })
            && phrases::bound(row, &row.cells[side]).is_none()
            && !is_useless(row, side)
    });
    open.map(|(metric, ..)| metric)
}

/// How many of all sides are open, and which.
fn open(analysis: &Analysis, names: &[String], detail: Detail) -> Option<String> {
    let cells = names.iter().enumerate().skip(1).flat_map(|(side, name)| {
        without_bound(analysis, side).map(|metric| (metric, name.as_str()))
    });
    let cells: Vec<(String, &str)> = cells.collect();
    let count = format!("{} of {}", cells.len(), analysis.method.headline_verdicts);
    let places = with_sides(cells, names.len().saturating_sub(1));
    match places.len() {
        0 => None,
        1..=MANY if detail.open => Some(format!("{count}: {}", places.join(", "))),
        _ => Some(count),
    }
}

/// Metrics of any side that no number of rounds decides, since equal runs differ by as much.
fn below_floor(analysis: &Analysis, names: &[String], detail: Detail) -> Option<String> {
    let cells = names.iter().enumerate().skip(1).flat_map(|(side, name)| {
        let judged = judged(analysis, side).filter(move |(_, row, _)| !is_useless(row, side));
        judged.filter_map(move |(metric, row, judged)| match judged.verdict {
            Verdict::Inconclusive { why: Why::BelowFloor { floor }, .. }
                if phrases::rounds(&judged).is_none() =>
            {
                let floor = phrases::show_floor(&floor, row.kind.unit);
                Some((format!("{metric} {floor}"), name.as_str()))
            }
            _ => None,
        })
    });
    let places = with_sides(cells.collect(), names.len().saturating_sub(1));
    let listed = || first_of(&places, detail.bounds);
    (!places.is_empty()).then(|| {
        format!("equal runs differ by as much here, so no number of rounds decides: {}", listed())
    })
}

/// How many rounds decide what is bounded or open, and the command for that.
fn rounds(analysis: &Analysis, sides: usize) -> Option<(String, Option<String>)> {
    let all = (1..sides).flat_map(|side| {
        judged(analysis, side).filter_map(move |(_, row, judged)| {
            let needed = phrases::rounds(&judged).filter(|_| !is_useless(row, side))?;
            Some((needed, phrases::bound(row, &row.cells[side]).is_some()))
        })
    });
    // Where a plan had them, values are missing: no number of rounds helps.
    let had = |needed: &Needed| match (needed, analysis.plans.as_slice()) {
        (Needed::AtLeast(rounds), [plan]) => *rounds <= plan.rounds_that_count(),
        _ => false,
    };
    let (all, is_bounded): (Vec<Needed>, Vec<bool>) = all.unzip();
    let soon = || all.iter().copied().filter(|needed| !matches!(needed, Needed::MoreThan(_)));
    let what = match is_bounded.into_iter().filter(|is_bounded| *is_bounded).count() {
        0 => "open",
        bounded if bounded == all.len() => "bounded",
        _ => "bounded or open",
    };
    let which = |count: usize| match (count == all.len(), count) {
        (true, 1) => format!("the {what} row"),
        (true, many) => format!("the {many} {what} rows"),
        (false, some) => format!("{some} of the {} {what} rows", all.len()),
    };
    match soon().reduce(phrases::later) {
        Some(needed) if had(&needed) => None,
        Some(needed) => {
            let text =
                format!("{} decide {}", phrases::in_all(analysis, needed), which(soon().count()));
            Some((text, phrases::more_rounds(analysis, needed)))
        }
        None => {
            let never = all.iter().copied().reduce(phrases::later)?;
            let verb = if all.len() == 1 { "takes" } else { "take" };
            Some((
                format!("{} {verb} {}", which(all.len()), phrases::in_all(analysis, never)),
                None,
            ))
        }
    }
}

/// Whether a note belongs above the answer, in a line of its own.
pub fn is_shown(note: &Note, verbose: u8) -> bool {
    !matches!(note, Note::AllSpoilt { .. })
        && (verbose > 0
            || note.severity() < Severity::Info
            || matches!(
                note,
                Note::SpoiltRounds { .. } | Note::TwoSpeeds { .. } | Note::Unfinished { .. }
            ))
}

#[cfg(test)]
mod tests;
