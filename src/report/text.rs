//! `text`: for people, never wider than asked. First the table of headline metrics, then notes,
//! then the answer. With `-v` tables of every metric stand in its place, so that each number stands
//! once; `-vv` adds what a statistician asks. Pure.

use std::io::{self, Write};

use crate::analysis::{Analysis, Family, Row};

use super::answer;
use super::layout::{Align, Page, Table, Tone, clean};
use super::numbers::Scale;
use super::phrases::{self, names};
use super::{Format, Options, Render};

mod detail;
mod rows;

use rows::{NOTHING, of_side, stacked};

pub const TEXT: Format = Format {
    name: "text",
    about: "a table and the answer, for a terminal or a mail",
    explains: |options| options.verbose > 0,
    render: Render::Each(write),
};

fn write(analysis: &Analysis, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(options);
    let names = names(&analysis.sides, answer::NAME_COLUMNS, clean, "…");
    header(analysis, &names, options, &mut page);
    page.gap();
    match options.verbose {
        0 => headlines(analysis, &names, &mut page),
        _ => detail::write(analysis, &names, options, &mut page),
    }
    notes(analysis, options, &mut page);
    page.gap();
    let more = match options.verbose {
        0 => Some("with -v: every metric, medians, rounds"),
        1 => Some("with -vv: means, spreads, p-values"),
        _ => None,
    };
    answer::write(analysis, &names, more, &mut page);
    out.write_all(page.text().as_bytes())
}

/// What was measured. Sides of several plans have a line each.
fn header(analysis: &Analysis, names: &[String], options: &Options, page: &mut Page) {
    if let [plan] = analysis.plans.as_slice() {
        page.wrapped(Tone::Bold, "", &clean(&plan.title));
        page.wrapped(Tone::Plain, "", &phrases::plan(analysis, plan));
    } else {
        for (at, (side, name)) in analysis.sides.iter().zip(names).enumerate() {
            let role = if at == 0 { "baseline  " } else { "against   " };
            let label = clean(&side.label);
            let also = if *name == label { String::new() } else { format!(" ({name})") };
            let about = if options.verbose > 0 { detail::about } else { phrases::about };
            page.wrapped(Tone::Plain, role, &format!("{label}{also}: {}", about(side)));
        }
    }
    if options.verbose > 0 || analysis.plans.len() == 1 {
        for side in analysis.sides.iter().filter(|side| !side.guests.is_empty()) {
            let text = format!("{}: kernel {}", clean(&side.label), phrases::listed(&side.kernels));
            page.wrapped(Tone::Plain, "", &text);
        }
    }
}

fn headlines(analysis: &Analysis, names: &[String], page: &mut Page) {
    let rows = analysis.rows_of(Family::Headline);
    let rows = rows.map(|(work, set, row)| (phrases::place(analysis, work, set), row));
    let rows: Vec<(String, &Row)> = rows.collect();
    if rows.is_empty() {
        page.line(Tone::Plain, NOTHING);
        return;
    }
    let others: Vec<usize> = (1..names.len()).collect();
    // As many sides next to the baseline as fit, the same number in each block. Places have a
    // column, or a line of their own where they are wide.
    let mosts = || (1..=others.len().max(1)).rev();
    let layouts =
        [true, false].into_iter().flat_map(|column| mosts().map(move |most| (column, most)));
    for (has_column, most) in layouts {
        let (first, rest) = others.split_at(most.min(others.len()));
        // The baseline's values stand once.
        let first: Vec<usize> = std::iter::once(0).chain(first.iter().copied()).collect();
        let blocks = std::iter::once(first.as_slice()).chain(rest.chunks(most));
        let tables = blocks.map(|sides| table(analysis, names, &rows, sides, has_column));
        let tables: Vec<Table> = tables.collect();
        if tables.iter().all(|table| table.width() <= page.width()) {
            for (at, table) in tables.iter().enumerate() {
                if at > 0 {
                    page.gap();
                }
                show(table, &rows, has_column, page);
            }
            return;
        }
    }
    for (place, row) in rows {
        stacked(analysis, &place, names, row, false, page);
    }
}

/// Whether the row is the first of its place.
fn is_first(rows: &[(String, &Row)], at: usize) -> bool {
    at == 0 || rows[at - 1].0 != rows[at].0
}

/// Places that have no column stand above their rows.
fn show(table: &Table, rows: &[(String, &Row)], has_column: bool, page: &mut Page) {
    for (line, (tone, text)) in table.lines().into_iter().enumerate() {
        if line > 0 && !has_column && is_first(rows, line - 1) {
            page.wrapped(Tone::Plain, "", &rows[line - 1].0);
        }
        page.line(tone, &text);
    }
}

fn table(
    analysis: &Analysis,
    names: &[String],
    rows: &[(String, &Row)],
    sides: &[usize],
    has_column: bool,
) -> Table {
    let mut columns = vec![(Align::Left, 0), (Align::Left, 2)];
    let mut head = vec![String::new(); 2];
    for &side in sides {
        // A value and its unit, or a change, its interval and the verdict.
        columns.extend([(Align::Right, 2), (Align::Left, 1)]);
        columns.extend((side > 0).then_some((Align::Left, 1)));
        head.extend(names.get(side).cloned());
        head.resize(columns.len(), String::new());
    }
    let mut table = Table::new(columns);
    table.row(Tone::Bold, head);
    for (at, (place, row)) in rows.iter().enumerate() {
        let has_place = has_column && is_first(rows, at);
        let place = if has_place { place.clone() } else { String::new() };
        let scale = Scale::of_row(row);
        let mut cells = vec![place, clean(&row.kind.name)];
        cells.extend(sides.iter().flat_map(|side| of_side(analysis, row, *side, &scale)));
        table.row(Tone::Plain, cells);
    }
    table
}

/// One line each, the worst first.
fn notes(analysis: &Analysis, options: &Options, page: &mut Page) {
    let shown = analysis.notes.iter().filter(|note| answer::is_shown(note, options.verbose));
    for (at, note) in shown.enumerate() {
        if at == 0 {
            page.gap();
        }
        let (word, text) = phrases::note(analysis, note);
        let tone = if note.is_gap() { Tone::Bad } else { Tone::Warning };
        page.wrapped(tone, &format!("{word:9} "), &text);
    }
}

#[cfg(test)]
mod tests;
