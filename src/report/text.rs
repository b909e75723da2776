//! `text`: for people, never wider than asked. First the table of headline metrics, in which each
//! number stands once, then notes, then the answer. `-v` puts every metric above it, `-vv` what a
//! statistician asks. Pure.

use std::io::{self, Write};

use crate::analysis::{Analysis, Family, Row, SetTable, WorkTable};

use super::answer;
use super::layout::{Align, Page, Table, Tone, clean};
use super::phrases::{self, names};
use super::{Format, Options, each};

mod detail;
mod rows;

pub(super) use rows::RowScale;
use rows::{change, stacked};

pub struct Text;

impl Format for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn about(&self) -> &'static str {
        "a table and the answer, for a terminal or a mail"
    }

    fn explains(&self, options: &Options) -> bool {
        options.verbose > 0
    }

    fn render(
        &self,
        analyses: &[Analysis],
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        each(analyses, out, |analysis, out| write(analysis, options, out))
    }
}

fn write(analysis: &Analysis, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(options);
    let names = names(&analysis.sides, answer::NAME_COLUMNS, clean, "…");
    header(analysis, &names, options, &mut page);
    if options.verbose > 0 {
        detail::write(analysis, &names, options, &mut page);
    }
    page.gap();
    headlines(analysis, &names, &mut page);
    notes(analysis, options, &mut page);
    page.gap();
    answer::write(analysis, &names, &mut page);
    out.write_all(page.text().as_bytes())
}

/// What was measured. Sides of several plans have a line each.
fn header(analysis: &Analysis, names: &[String], options: &Options, page: &mut Page) {
    match analysis.plans.as_slice() {
        [plan] => {
            page.wrapped(Tone::Bold, "", &clean(&plan.title));
            page.wrapped(Tone::Plain, "", &phrases::plan(analysis, plan));
        }
        _ => {
            for (at, (side, name)) in analysis.sides.iter().zip(names).enumerate() {
                let role = if at == 0 { "baseline" } else { "against" };
                let label = clean(&side.label);
                let also = if *name == label { String::new() } else { format!(" ({name})") };
                let about = match options.verbose {
                    0 => phrases::about(side),
                    _ => detail::about(side),
                };
                let text = format!("{label}{also}: {about}");
                page.wrapped(Tone::Plain, &format!("{role:10}"), &text);
            }
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
    let rows = analysis.rows().filter(|(.., row)| row.family == Family::Headline);
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        page.line(Tone::Plain, "nothing was measured that can be shown");
        return;
    }
    let others: Vec<usize> = (1..names.len()).collect();
    // As many sides next to the baseline as fit, the same number in each block.
    for per_block in (1..=others.len().max(1)).rev() {
        let blocks = others.chunks(per_block).map(<[usize]>::to_vec);
        let blocks: Vec<Vec<usize>> =
            if others.is_empty() { vec![Vec::new()] } else { blocks.collect() };
        let tables = blocks.iter().enumerate();
        let tables = tables.map(|(at, sides)| table(analysis, names, &rows, sides, at == 0));
        let tables: Vec<Table> = tables.collect();
        if tables.iter().all(|table| table.width() <= page.width()) {
            for (at, table) in tables.iter().enumerate() {
                if at > 0 {
                    page.gap();
                }
                page.table(table);
            }
            return;
        }
    }
    for (work, set, row) in rows {
        stacked(&phrases::place(analysis, work, set), names, row, page, change);
    }
}

/// `is_first`: it has the baseline's values, which stand once.
fn table(
    analysis: &Analysis,
    names: &[String],
    rows: &[(&WorkTable, &SetTable, &Row)],
    sides: &[usize],
    is_first: bool,
) -> Table {
    let mut columns = vec![(Align::Left, 0), (Align::Left, 2)];
    let mut head = vec![String::new(); 2];
    if is_first {
        columns.extend([(Align::Right, 2), (Align::Left, 1)]);
        head.extend([names.first().cloned().unwrap_or_default(), String::new()]);
    }
    columns
        .extend(sides.iter().flat_map(|_| [(Align::Right, 2), (Align::Left, 1), (Align::Left, 1)]));
    let mut table = Table::new(columns);
    head.extend(sides.iter().flat_map(|side| [names[*side].clone(), String::new(), String::new()]));
    table.row(Tone::Bold, head);
    let mut last = String::new();
    for (work, set, row) in rows {
        let place = phrases::place(analysis, work, set);
        let shown = if place == last { String::new() } else { place.clone() };
        last = place;
        let scale = RowScale::new(row);
        let mut cells = vec![shown, clean(&row.kind.name)];
        if is_first {
            cells.extend([scale.show(row.cells[0].median), scale.suffix().to_string()]);
        }
        for side in sides {
            cells.extend(change(row, *side, &scale));
        }
        table.row(Tone::Plain, cells);
    }
    table
}

/// One line each, the worst first.
fn notes(analysis: &Analysis, options: &Options, page: &mut Page) {
    let shown = analysis.notes.iter().filter(|note| answer::is_shown(note, options.verbose));
    let mut is_first = true;
    for note in shown {
        if std::mem::take(&mut is_first) {
            page.gap();
        }
        let (word, text) = phrases::note(note);
        let tone = if note.is_gap() { Tone::Bad } else { Tone::Warning };
        page.wrapped(tone, &format!("{word:9} "), &text);
    }
}

#[cfg(test)]
mod tests;
