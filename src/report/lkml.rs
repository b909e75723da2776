//! `lkml`: tables as scheduler patches are mailed with, ready to paste: ASCII, at most 78
//! columns where the names allow it. Its head says what was measured, where and for how long.
//!
//! One table per workload, set and metric; its cases are the points of the axes. Normalised is
//! the ratio that the verdicts below rest on. Why a throughput differs is in further tables without
//! verdicts: one for each worker set whose switches a probe counted, normalised as the throughput.
//! The layout is that of K Prateek Nayak's mails; docs/report-formats.md has the rules. Pure.

mod mail;

use std::io::{self, Write};

use crate::analysis::{Analysis, Cell, Family, Note, Place, Row, SetTable, WorkTable, grouped};
use crate::model::{Direction, Statistic, Unit};
use crate::stats::{Effect, Unjudged, Verdict, Why};

use super::layout::{Page, Tone, clean, command_lines};
use super::numbers::{Change, Scale, percent, ratio};
use super::phrases::{self, Tally};
use super::{Format, Options, Render};

pub(super) use mail::{COLUMNS, ascii, word};
use mail::{Table, case, plans, test_of, two_decimals};

/// The widest label of a side.
pub(super) const NAME_COLUMNS: usize = 20;
/// So that two columns fit next to a case, they are cut down to this.
const MIN_NAME_COLUMNS: usize = 8;
/// Stands for what is cut off a label.
pub(super) const CUT: &str = "~";
/// A mail's own text is quoted, so it is narrower than its tables.
const HEAD_COLUMNS: usize = 72;
/// A row with a coefficient of variation above this has a star. Every row that those mails star
/// has more than 8.6 %; regressions without star have at most 6.5 %.
const LARGE_CV: f64 = 0.075;

pub const LKML: Format = Format {
    name: "lkml",
    about: "tables for a mail to a kernel list: normalised, percent improvement, CV; verdicts below",
    explains: |options| options.verbose > 0,
    render: Render::Each(write),
};

fn write(analysis: &Analysis, _: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut head = Page::new(&Options { width: HEAD_COLUMNS, ..Options::default() });
    plans(analysis, &mut head);
    out.write_all(head.text().as_bytes())?;
    let mut page = Page::new(&Options { width: COLUMNS, ..Options::default() });
    let tables = tables(analysis);
    let names = names(analysis, &tables);
    for table in tables.iter().chain(&explaining_tables(analysis)) {
        table.show(analysis, &names, &mut page);
    }
    if tables.is_empty() {
        page.line(Tone::Plain, "Nothing was compared.");
        page.gap();
    }
    if tables.iter().flat_map(|table| table.cells.iter().flatten()).any(|(_, starred)| *starred) {
        let bound = percent(LARGE_CV);
        let text = format!("CV above {bound}: the run-to-run variance is large");
        page.wrapped(Tone::Plain, "* ", &text);
        page.gap();
    }
    verdicts(analysis, &judged_rows(analysis), &names, &mut page);
    out.write_all(page.text().as_bytes())
}

/// Rows of the headline family, and of the explaining one where that is judged.
pub(super) fn judged_rows(analysis: &Analysis) -> Vec<Place<'_>> {
    analysis.rows().filter(|(.., row)| row.family != Family::None).collect()
}

/// The subject of a table: rows with an equal one share it.
fn subject((work, set, row): Place) -> impl PartialEq {
    let kind = &row.kind;
    (&work.name, &set.name, &set.workload, (&kind.name, kind.unit, kind.direction))
}

/// One of each metric of each set, in the order in which they first come.
fn tables(analysis: &Analysis) -> Vec<Table> {
    let subjects = grouped(judged_rows(analysis).into_iter().map(|row| (subject(row), row)));
    subjects.iter().map(|(_, cases)| table(analysis, cases)).collect()
}

/// `cases`: one metric of one set over the points of the axes.
fn table(analysis: &Analysis, cases: &[Place]) -> Table {
    let (work, set, row) = cases[0];
    Table {
        test: test_of(work, set),
        units: units(set, row),
        interpretation: match row.kind.direction {
            Direction::HigherIsBetter => "Higher is better",
            Direction::LowerIsBetter => "Lower is better",
            Direction::Neutral => "Neither is better",
        },
        heads: ["Case:", "[pct imp](CV)"],
        cases: cases.iter().map(|(work, ..)| case(work)).collect(),
        cells: (0..analysis.sides.len()).map(|side| cells(analysis, cases, side)).collect(),
    }
}

/// Why throughputs differ: of each set that has counted switches.
fn explaining_tables(analysis: &Analysis) -> Vec<Table> {
    let sets = analysis.sets().filter(|(_, set)| set.switches().next().is_some());
    let table = |(work, set): (&WorkTable, &SetTable)| {
        let case = if work.axes.is_empty() { String::new() } else { format!(", {}", case(work)) };
        let rows: Vec<&Row> = set.throughput().into_iter().chain(set.switches()).collect();
        let cell = |row: &Row, side| match normalised(analysis, row, side) {
            Some(ratio) => format!("{} {:>7}", two_decimals(ratio), difference(ratio)),
            None => "-".to_string(),
        };
        let cells = |side| rows.iter().map(|row| (cell(row, side), false)).collect();
        Table {
            test: test_of(work, set) + &case,
            units: "switches per second, and per operation".to_string(),
            interpretation: "Explains the throughput; has no verdicts",
            heads: ["Switches:", "[%diff]"],
            cases: rows.iter().map(|row| word(&row.kind.name)).collect(),
            cells: (0..analysis.sides.len()).map(cells).collect(),
        }
    };
    sets.map(table).collect()
}

/// `[-98%]`, without a sign of zero.
fn difference(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    if percent.abs() < 1e6 {
        format!("[{:.0}%]", percent.round() + 0.0)
    } else {
        format!("[{percent:.1e}%]")
    }
}

/// As long as all tables have room for.
fn names(analysis: &Analysis, tables: &[Table]) -> Vec<String> {
    let shortest = vec!["x".repeat(MIN_NAME_COLUMNS); analysis.sides.len()];
    let fits = |names: &Vec<String>| tables.iter().all(|table| table.has_room(names, &shortest));
    let of = |columns| phrases::names(&analysis.sides, columns, word, CUT);
    let mut longest_first = (MIN_NAME_COLUMNS..=NAME_COLUMNS).rev().map(of);
    longest_first.find(fits).unwrap_or_else(|| of(MIN_NAME_COLUMNS))
}

/// A side over the baseline.
fn normalised(analysis: &Analysis, row: &Row, side: usize) -> Option<f64> {
    match side {
        0 => row.cells.first()?.median.filter(|median| *median > 0.0).map(|_| 1.0),
        _ => analysis.ratio(row, side).map(|ratio| ratio.ratio),
    }
}

/// `99th percentile wakeup latency in ms`.
fn units(set: &SetTable, row: &Row) -> String {
    let name = ascii(&row.kind.name);
    let suffix = match Scale::of_row(row).suffix {
        "s" => "seconds",
        suffix => suffix,
    };
    match (row.kind.unit, row.kind.statistic, &row.kind.subject) {
        (Unit::Ns, Statistic::Quantile(per_million), Some(of)) => {
            let percent = f64::from(per_million) / 1e4;
            format!("{percent}th percentile {} latency in {suffix}", ascii(of))
        }
        (Unit::Ns, ..) => format!("{name} in {suffix}"),
        (Unit::OpsPerS, ..) if set.ops.is_empty() => format!("{name}, ops/s"),
        (Unit::OpsPerS, ..) => format!("{name}, {}/s", ascii(&set.ops)),
        (Unit::BytesPerS | Unit::Joules, ..) => format!("{name}, {suffix}"),
        (Unit::PerS, ..) => format!("{name} per second"),
        (Unit::Cpus, ..) => format!("{name}, CPUs"),
        (Unit::Ratio, ..) => format!("{name}, ratio"),
        (Unit::Count, ..) => format!("{name}, count"),
    }
}

/// `1.56 [-56.34]( 8.12)` of each case, brackets below one another, and whether its numbers differ much from run to
/// run.
fn cells(analysis: &Analysis, cases: &[Place], side: usize) -> Vec<(String, bool)> {
    let figures = cases.iter().map(|(.., row)| figures(analysis, row, side));
    let figures: Vec<Option<[String; 3]>> = figures.collect();
    let width = |at: usize, least| {
        figures.iter().flatten().map(|figures| figures[at].len()).fold(least, usize::max)
    };
    let (improved, cv) = (width(1, 6), width(2, 5));
    let cell = |(figures, (.., row)): (&Option<[String; 3]>, &Place)| match figures {
        None => ("-".to_string(), false),
        Some([ratio, change, spread]) => {
            let is_starred = row.cells[side].cv.is_some_and(|cv| cv > LARGE_CV);
            (format!("{ratio} [{change:>improved$}]({spread:>cv$})"), is_starred)
        }
    };
    figures.iter().zip(cases).map(cell).collect()
}

/// Normalised, improvement in percent, CV. `None` without both sides and a positive baseline.
fn figures(analysis: &Analysis, row: &Row, side: usize) -> Option<[String; 3]> {
    let normalised = normalised(analysis, row, side)?;
    let percent = 100.0 * (normalised - 1.0);
    let improved = match row.kind.direction {
        // The baseline's own is then -0.00, as in those mails.
        Direction::LowerIsBetter => -percent,
        Direction::HigherIsBetter | Direction::Neutral => percent,
    };
    let cv = row.cells.get(side)?.cv.map_or("-".to_string(), |cv| two_decimals(100.0 * cv));
    Some([two_decimals(normalised), two_decimals(improved), cv])
}

/// Below the tables: odd values and the verdicts of the rows that they show, how verdicts were
/// reached, and the command.
pub(super) fn verdicts(analysis: &Analysis, rows: &[Place], names: &[String], page: &mut Page) {
    oddities(analysis, rows, names, page);
    for (at, name) in names.iter().enumerate().skip(1) {
        let heading = format!("Verdicts, {name} against {}:", names[0]);
        page.wrapped(Tone::Plain, "", &heading);
        for line in rows.iter().filter_map(|place| differs(analysis, *place, at)) {
            page.wrapped(Tone::Plain, "  ", &line);
        }
        undecided(rows, at, page);
        for (family, label) in [(Family::Headline, ""), (Family::Explaining, "explaining: ")] {
            let own = rows.iter().filter(|(.., row)| row.family == family);
            let tally = Tally::count(own.copied(), at);
            if family == Family::Headline || tally != Tally::default() {
                let decides = phrases::decides(analysis, &tally);
                let counts = format!("{label}{}", tally.counts());
                let text = phrases::joined([Some(counts), decides].into_iter().flatten(), "; ");
                page.wrapped(Tone::Plain, "  ", &text);
            }
        }
        page.gap();
    }
    if names.len() > 1 {
        let how = phrases::method(analysis).join("; ");
        page.wrapped(Tone::Plain, "Method: ", &ascii(&how));
    }
    for (at, (side, name)) in analysis.sides.iter().zip(names).enumerate() {
        let label = word(&side.label);
        let also = if *name == label { String::new() } else { format!("{label}: ") };
        let knobs = phrases::differing_knobs(&analysis.sides[0], side, at);
        let about = phrases::joined([knobs, phrases::about(analysis, side)], "; ");
        let text = format!("{also}{}", ascii(&about));
        page.wrapped(Tone::Plain, &format!("{name}: "), &text);
    }
    let is_listed = |cell: &Cell| matches!(cell.verdict(), Some(Verdict::Better | Verdict::Worse));
    let listed = rows.iter().copied().filter(|(.., row)| row.cells.iter().any(is_listed));
    let spoilt = phrases::spoilt(analysis, phrases::has_spoilt(analysis, listed));
    for (note, word, text) in phrases::folded_notes(analysis, |_| true) {
        let with_legend = spoilt.as_ref().filter(|_| matches!(note, Note::AllSpoilt { .. }));
        let text = with_legend.map_or(&text, |(_, text)| text);
        page.wrapped(Tone::Plain, &format!("{word}: "), &ascii(text));
    }
    page.gap();
    page.line(Tone::Plain, "Reproduce with:");
    for line in command_lines("", 4, &clean(&ascii(&analysis.command)), COLUMNS - 2) {
        page.line(Tone::Plain, &format!("  {line}"));
    }
}

/// Facts that the tables' statistics hide: a note for each side of a judged row with odd values.
fn oddities(analysis: &Analysis, rows: &[Place], names: &[String], page: &mut Page) {
    let before = page.text().len();
    for (work, set, row) in rows {
        for (cell, name) in row.cells.iter().zip(names) {
            let shapes = phrases::shapes(analysis, row, cell);
            if !shapes.is_empty() {
                let text = format!("{}, {name}: {}", place(work, set, row), shapes.join("; "));
                page.wrapped(Tone::Plain, "Note: ", &ascii(&text));
            }
        }
    }
    if page.text().len() > before {
        page.gap();
    }
}

/// The bounds of rows that are not decided, and the rows that are not judged.
fn undecided(rows: &[Place], at: usize, page: &mut Page) {
    let bound = |(work, set, row): &Place| {
        let bound = phrases::bound(row, row.cells.get(at)?)?;
        Some(format!("{} {bound}", place(work, set, row)))
    };
    let lacking = |(work, set, row): &Place| match row.cells.get(at)?.verdict()? {
        Verdict::Unjudged(Unjudged::NoEffect(why)) => {
            Some(format!("{} ({why})", place(work, set, row)))
        }
        _ => None,
    };
    let bounds: Vec<String> = rows.iter().filter_map(bound).collect();
    let lacking: Vec<String> = rows.iter().filter_map(lacking).collect();
    for (label, listed) in [("No difference above", bounds), ("Not judged", lacking)] {
        if !listed.is_empty() {
            let text = format!("{label}: {}", ascii(&listed.join("; ")));
            page.wrapped(Tone::Plain, "  ", &text);
        }
    }
}

/// `WORSE: web threads=4, wakeup_p99, ratio 1.563 (1.401 to 1.744)`; also of a difference that
/// was not called because equal variants differ as much.
fn differs(analysis: &Analysis, (work, set, row): Place, side: usize) -> Option<String> {
    let cell = row.cells.get(side)?;
    let judged = cell.judged.as_ref()?;
    let floor = match judged.verdict {
        Verdict::Better | Verdict::Worse => String::new(),
        Verdict::Inconclusive { why: Why::BelowFloor { floor }, .. } => {
            format!(", below the A/A floor of {}", phrases::show_floor(&floor, row.kind.unit))
        }
        _ => return None,
    };
    let word = phrases::marked(analysis, row, cell, judged.verdict);
    let mut line = format!("{word}: {}", place(work, set, row));
    match judged.effect {
        Ok(Effect::Ratio(found)) => {
            line.push_str(&format!(", ratio {}", ratio(found.ratio)));
            let limits = found.interval.map(|of| (ratio(of.low), ratio(of.high)));
            line.extend(limits.map(|(low, high)| format!(" ({low} to {high})")));
        }
        Ok(effect) => {
            let change = Change::from_effect(&effect, row.kind.unit).with_interval();
            line.push_str(&format!(", difference {change}"));
        }
        Err(_) => {}
    }
    Some(line + &floor)
}

/// `web threads=4, wakeup_p99`, with the set where it has another name.
fn place(work: &WorkTable, set: &SetTable, row: &Row) -> String {
    let mut place = ascii(&work.label);
    if set.name != work.name {
        place.push_str(&format!(", {}", ascii(&set.name)));
    }
    format!("{place}, {}", ascii(&row.kind.name))
}

#[cfg(test)]
mod tests;
