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
    let sides: Vec<usize> = (1..names.len()).collect();
    // As many sides next to the baseline as fit, the same number in each block. Places have a
    // column, or a line of their own where they are wide.
    let mosts = || (1..=sides.len().max(1)).rev();
    let layouts =
        [true, false].into_iter().flat_map(|column| mosts().map(move |most| (column, most)));
    for (has_column, most) in layouts {
        let blocks = sides.chunks(most).chain(sides.is_empty().then_some(&[][..]));
        let blocks = blocks.enumerate().map(|(at, sides)| {
            let layout = Layout { sides, has_column, has_baseline: at == 0 };
            block(analysis, names, &rows, &layout)
        });
        let blocks: Vec<Block> = blocks.collect();
        if blocks.iter().all(|block| block.table.width() <= page.width()) {
            blocks.iter().enumerate().for_each(|(at, block)| block.show(at > 0, page));
            return;
        }
    }
    for (work, set, row) in rows {
        stacked(&phrases::place(analysis, work, set), names, row, page, change);
    }
}

/// What a table of headline metrics shows.
struct Layout<'a> {
    sides: &'a [usize],
    /// Places stand in the first column.
    has_column: bool,
    /// The baseline's values, which stand once.
    has_baseline: bool,
}

struct Block {
    table: Table,
    /// What stands in a line above each row of the table.
    headings: Vec<Option<String>>,
}

impl Block {
    fn show(&self, is_further: bool, page: &mut Page) {
        if is_further {
            page.gap();
        }
        for ((tone, line), heading) in self.table.lines().into_iter().zip(&self.headings) {
            heading.iter().for_each(|heading| page.wrapped(Tone::Plain, "", heading));
            page.line(tone, &line);
        }
    }
}

fn block(
    analysis: &Analysis,
    names: &[String],
    rows: &[(&WorkTable, &SetTable, &Row)],
    layout: &Layout,
) -> Block {
    let mut columns = vec![(Align::Left, 0), (Align::Left, 2)];
    let mut head = vec![String::new(); 2];
    if layout.has_baseline {
        columns.extend([(Align::Right, 2), (Align::Left, 1)]);
        head.extend([names.first().cloned().unwrap_or_default(), String::new()]);
    }
    for side in layout.sides {
        columns.extend([(Align::Right, 2), (Align::Left, 1), (Align::Left, 1)]);
        head.extend([names[*side].clone(), String::new(), String::new()]);
    }
    let mut table = Table::new(columns);
    table.row(Tone::Bold, head);
    let mut headings = vec![None];
    let mut last = String::new();
    for (work, set, row) in rows {
        let place = phrases::place(analysis, work, set);
        let new = (place != last).then(|| place.clone());
        last = place;
        let (cell, heading) = if layout.has_column { (new, None) } else { (None, new) };
        headings.push(heading);
        let scale = RowScale::new(row);
        let mut cells = vec![cell.unwrap_or_default(), clean(&row.kind.name)];
        if layout.has_baseline {
            cells.extend([scale.show(row.cells[0].median), scale.suffix().to_string()]);
        }
        for side in layout.sides {
            cells.extend(change(row, *side, &scale));
        }
        table.row(Tone::Plain, cells);
    }
    Block { table, headings }
}

/// One line each, the worst first.
fn notes(analysis: &Analysis, options: &Options, page: &mut Page) {
    let shown = analysis.notes.iter().filter(|note| answer::is_shown(note, options.verbose));
    let mut is_first = true;
    for note in shown {
        if std::mem::take(&mut is_first) {
            page.gap();
        }
        let (word, text) = phrases::note(analysis, note);
        let tone = if note.is_gap() { Tone::Bad } else { Tone::Warning };
        page.wrapped(tone, &format!("{word:9} "), &text);
    }
}

#[cfg(test)]
mod tests;
