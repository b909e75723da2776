//! `text`: for people, never wider than asked. First the table of headline metrics, then notes,
//! then the answer. With `-v` tables of every metric stand in its place, so that each number stands
//! once; `-vv` adds what a statistician asks. Pure.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::analysis::{Analysis, Family, Row, Side};

use super::answer::{self, View};
use super::hosts;
use super::layout::{Align, Page, Table, Tone, clean};
use super::numbers::Scale;
use super::phrases::{self, Compared, place};
use super::{Format, Options, Render};

mod alone;
pub(super) mod detail;
pub(super) mod rows;

use rows::{nothing, of_side, stacked};

pub const TEXT: Format = Format {
    name: "text",
    about: "a table and the answer, for a terminal or a mail",
    explains: |options| options.verbose > 0,
    render: Render::Each(write),
};

/// The width to which wide names of sides are shortened.
const NAME_COLUMNS: usize = 12;

fn write(analysis: &Analysis, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(options);
    let names = names(analysis, &headline_rows(analysis), options.verbose, page.width());
    let view = View { analysis, names: &names };
    header(view, options, &mut page);
    page.gap();
    body(view, options, &mut page);
    page.gap();
    let more = match options.verbose {
        0 if !analysis.hosts.is_empty() => Some("with -v: every metric, each host's ratios"),
        0 => Some("with -v: every metric, medians, rounds"),
        1 => Some("with -vv: means, spreads, p-values"),
        _ => None,
    };
    answer::write(view, more, &mut page);
    out.write_all(page.text().as_bytes())
}

/// The tables, and the notes.
pub(super) fn body(view: View, options: &Options, page: &mut Page) {
    match (options.verbose, view.analysis.sides.as_slice()) {
        (0, [_]) => alone::write(view.analysis, page),
        (0, _) => headlines(view, &headline_rows(view.analysis), page),
        _ => detail::write(view, options, page),
    }
    notes(view.analysis, options, page);
    hosts::write(view, options.verbose, page);
}

fn headline_rows(analysis: &Analysis) -> Vec<Headline<'_>> {
    let rows = analysis.rows_of(Family::Headline);
    rows.map(|(work, set, row)| (place(work, set), row)).collect()
}

/// The measured sides: once what all sides have alike, then a line for each side with what it has of
/// its own.
pub(super) fn header(view: View, options: &Options, page: &mut Page) {
    let View { analysis, names } = view;
    let hosts = phrases::over_hosts(analysis);
    let is_one_plan = analysis.plans.len() == 1;
    if let [plan] = analysis.plans.as_slice() {
        page.wrapped(Tone::Bold, "", &clean(&plan.title));
        page.wrapped(Tone::Plain, "", &phrases::plan(analysis, plan));
    } else if let (Some(_), Some(plan), 0) = (&hosts, analysis.plan(), options.verbose) {
        // All sides are of the same plans, which are one.
        page.wrapped(Tone::Bold, "", &clean(&plan.title));
    }
    hosts.iter().for_each(|hosts| page.wrapped(Tone::Plain, "", hosts));
    let everything = options.verbose > 0 || !is_one_plan && hosts.is_none();
    let Compared { alike, own } = phrases::compared(analysis, everything);
    if !alike.is_empty() {
        page.wrapped(Tone::Plain, "", &alike);
    }
    let longest = names.iter().map(|name| name.width()).max().unwrap_or_default();
    let columns = longest.min(page.width() / 3).max(answer::label_columns(names, page.width()));
    let full = |(side, name): (&Side, &String)| {
        Some(clean(&side.label)).filter(|label| label != name).unwrap_or_default()
    };
    let full: Vec<String> = analysis.sides.iter().zip(names).map(full).collect();
    if own.is_none() && full.iter().all(String::is_empty) {
        return;
    }
    let own = own.unwrap_or_else(|| vec![String::new(); names.len()]);
    for ((name, full), own) in names.iter().zip(full).zip(own) {
        let text = phrases::joined([full, own], "; ");
        page.paragraph(Tone::Plain, &format!("{name:columns$}  "), columns + 2, &text);
    }
}

/// A row, with its place.
type Headline<'a> = (String, &'a Row);

/// Cut only where fewer sides would stand next to each other otherwise, and to a third of the page.
fn names(analysis: &Analysis, rows: &[Headline], verbose: u8, width: usize) -> Vec<String> {
    let loss = |names: &[String]| match verbose {
        0 => layout(View { analysis, names }, rows, width).map_or(usize::MAX, |(at, ..)| at),
        _ => detail::loss(View { analysis, names }, width),
    };
    let of = |columns| phrases::names(&analysis.sides, columns, clean, "…");
    let least = loss(&of(NAME_COLUMNS));
    let longest = analysis.sides.iter().map(|side| clean(&side.label).width()).max().unwrap_or(0);
    let columns = NAME_COLUMNS..=longest.min(width / 3).max(NAME_COLUMNS);
    columns.rev().map(of).find(|names| loss(names) <= least).unwrap_or_default()
}

fn headlines(view: View, rows: &[Headline], page: &mut Page) {
    if rows.is_empty() {
        page.wrapped(Tone::Plain, "", nothing(view.analysis));
        return;
    }
    let Some((_, has_column, tables)) = layout(view, rows, page.width()) else {
        let stack = |(place, row): &Headline| stacked(view, place, row, false, page);
        return rows.iter().for_each(stack);
    };
    for (at, table) in tables.iter().enumerate() {
        if at > 0 {
            page.gap();
        }
        show(table, rows, has_column, page);
    }
}

/// The first layout that fits: its number, whether places have a column or a line of their own,
/// and its tables. Each has the same number of sides, the baseline's values stand once.
fn layout(view: View, rows: &[Headline], width: usize) -> Option<(usize, bool, Vec<Table>)> {
    let others: Vec<usize> = (1..view.names.len()).collect();
    let mosts = || (1..=others.len().max(1)).rev();
    let layouts =
        [true, false].into_iter().flat_map(|column| mosts().map(move |most| (column, most)));
    layouts.enumerate().find_map(|(at, (has_column, most))| {
        let (first, rest) = others.split_at(most.min(others.len()));
        let first: Vec<usize> = std::iter::once(0).chain(first.iter().copied()).collect();
        let blocks = std::iter::once(first.as_slice()).chain(rest.chunks(most));
        let tables = blocks.map(|sides| table(view, rows, sides, has_column));
        let tables: Vec<Table> = tables.collect();
        let fits = tables.iter().all(|table| table.width() <= width);
        fits.then_some((at, has_column, tables))
    })
}

/// Whether the row is the first of its place.
fn is_first(rows: &[Headline], at: usize) -> bool {
    at == 0 || rows[at - 1].0 != rows[at].0
}

/// Places that have no column stand above their rows.
fn show(table: &Table, rows: &[Headline], has_column: bool, page: &mut Page) {
    for (line, (tone, text)) in table.lines().into_iter().enumerate() {
        if line > 0 && !has_column && is_first(rows, line - 1) {
            page.wrapped(Tone::Plain, "", &rows[line - 1].0);
        }
        page.line(tone, &text);
    }
}

fn table(view: View, rows: &[Headline], sides: &[usize], has_column: bool) -> Table {
    let mut columns = vec![(Align::Left, 0), (Align::Left, 2)];
    let mut head = vec![String::new(); 2];
    for &side in sides {
        // A value and its unit, or a change, its interval and the verdict.
        columns.extend([(Align::Right, 2), (Align::Left, 1)]);
        columns.extend((side > 0).then_some((Align::Left, 1)));
        head.extend(view.names.get(side).cloned());
        head.resize(columns.len(), String::new());
    }
    let mut table = Table::new(columns);
    table.row(Tone::Bold, head);
    for (at, (place, row)) in rows.iter().enumerate() {
        let has_place = has_column && is_first(rows, at);
        let place = if has_place { place.clone() } else { String::new() };
        let scale = Scale::of_row(row);
        let mut cells = vec![place, clean(&row.kind.name)];
        cells.extend(sides.iter().flat_map(|side| of_side(view.analysis, row, *side, &scale)));
        table.row(Tone::Plain, cells);
    }
    table
}

/// One line each, the worst first.
fn notes(analysis: &Analysis, options: &Options, page: &mut Page) {
    let shown = phrases::folded_notes(analysis, |note| answer::is_shown(note, options.verbose));
    if !shown.is_empty() {
        page.gap();
    }
    for (note, word, text) in shown {
        let tone = if note.is_gap() { Tone::Bad } else { Tone::Warning };
        page.wrapped(tone, &format!("{word:9} "), &text);
    }
}

#[cfg(test)]
mod tests;
