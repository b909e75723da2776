//! `lkml`: tables as scheduler patches are mailed with, ready to paste: ASCII, at most 78
//! columns where the names allow it.
//!
//! One table per workload, set and metric; its cases are the points of the axes. Normalised is
//! the ratio that the verdicts below rest on. The layout is that of K Prateek Nayak's mails; docs/report-formats.md has the rules. Pure.

mod mail;
mod switches;

use std::io::{self, Write};

use crate::analysis::{Analysis, Family, Pairing, Row, SetTable, WorkTable};
use crate::model::{self, Direction, Unit};
use crate::stats::{Verdict, Why};

use super::layout::{Page, Tone};
use super::numbers::{Scale, percent, ratio};
use super::phrases::{self, Tally};
use super::{Format, Options, each};

pub(super) use mail::{COLUMNS, ascii, word};
use mail::{
    Column, RULE, STAR, blocks, case, clock, first_of, laid_out, room, test_of, two_decimals,
};

/// Labels of sides are no wider.
pub(super) const NAME_COLUMNS: usize = 20;
/// So that two columns fit next to a case, they are cut down to this.
const MIN_NAME_COLUMNS: usize = 8;
/// Stands for what is cut off a label.
pub(super) const CUT: &str = "~";
/// A row with a coefficient of variation above this has a star. Every row that those mails star
/// has more than 8.6 %; regressions without star have at most 6.5 %.
const LARGE_CV: f64 = 0.075;

pub struct Lkml;

impl Format for Lkml {
    fn name(&self) -> &'static str {
        "lkml"
    }

    fn about(&self) -> &'static str {
        "tables for a mail to a kernel list: normalised, percent improvement, CV; verdicts below"
    }

    fn explains(&self, options: &Options) -> bool {
        options.verbose > 0
    }

    fn render(&self, analyses: &[Analysis], _: &Options, out: &mut dyn Write) -> io::Result<()> {
        each(analyses, out, |analysis, out| write(analysis, out))
    }
}

fn write(analysis: &Analysis, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(&Options { width: COLUMNS, ..Options::default() });
    let tables = tables(analysis);
    let (names, time) = (names(analysis, &tables), phrases::analysis_time(analysis));
    for table in &tables {
        table.show(&names, time.as_deref(), &mut page);
        page.gap();
    }
    switches::show(analysis, &names, &mut page);
    if tables.is_empty() {
        page.line(Tone::Plain, "Nothing was compared.");
        page.gap();
    }
    if tables.iter().any(|table| table.cases.iter().any(|(_, row)| starred(row))) {
        let bound = percent(LARGE_CV);
        let text = format!("CV above {bound}: the run-to-run variance is large");
        page.wrapped(Tone::Plain, "* ", &text);
        page.gap();
    }
    oddities(analysis, &names, &mut page);
    verdicts(analysis, &names, &mut page);
    out.write_all(page.text().as_bytes())
}

/// One metric of one set, over the points of the axes.
struct Table<'a> {
    analysis: &'a Analysis,
    work: &'a WorkTable,
    set: &'a SetTable,
    /// Of the first case; all have its metric, unit and direction.
    row: &'a Row,
    cases: Vec<(String, &'a Row)>,
}

/// Rows of the headline family, and of the explaining one where that is judged.
fn judged_rows(analysis: &Analysis) -> impl Iterator<Item = (&WorkTable, &SetTable, &Row)> {
    analysis.rows().filter(|(.., row)| row.family != Family::None)
}

/// In the order in which they first come.
fn tables<'a>(analysis: &'a Analysis) -> Vec<Table<'a>> {
    let mut tables: Vec<Table> = Vec::new();
    for (work, set, row) in judged_rows(analysis) {
        let known = tables.iter_mut().find(|table| {
            let of = |work: &'a WorkTable, set: &'a SetTable, row: &'a Row| {
                let kind = &row.kind;
                (&work.name, &set.name, &set.workload, (&kind.name, kind.unit, kind.direction))
            };
            of(table.work, table.set, table.row) == of(work, set, row)
        });
        match known {
            Some(table) => table.cases.push((case(work), row)),
            None => tables.push(Table { analysis, work, set, row, cases: vec![(case(work), row)] }),
        }
    }
    tables
}

/// As long as all tables have room for.
fn names(analysis: &Analysis, tables: &[Table]) -> Vec<String> {
    let of = |columns| phrases::names(&analysis.sides, columns, word, CUT);
    let fits = |names: &Vec<String>| tables.iter().all(|table| table.has_room_for(names));
    let mut shorter = (MIN_NAME_COLUMNS..=NAME_COLUMNS).rev().map(of);
    shorter.find(fits).unwrap_or_else(|| of(MIN_NAME_COLUMNS))
}

/// What the normalised numbers are: the estimate that the verdicts rest on.
fn statistic(analysis: &Analysis) -> &'static str {
    match analysis.method.pairing {
        Pairing::WithinRounds => "GMean of the ratios within rounds",
        Pairing::None => "Ratio of the GMeans",
    }
}

/// A side over the baseline.
fn normalised(analysis: &Analysis, row: &Row, side: usize) -> Option<f64> {
    match side {
        0 => row.cells.first()?.median.filter(|median| *median > 0.0).map(|_| 1.0),
        _ => analysis.ratio(row, side).map(|ratio| ratio.ratio),
    }
}

/// `99.9` of a 99.9th percentile.
fn quantile(row: &Row) -> Option<f64> {
    match row.kind.statistic {
        model::Statistic::Quantile(per_million) => Some(f64::from(per_million) / 1e4),
        _ => None,
    }
}

/// Whether the numbers of a row differ much from run to run, on any side.
fn starred(row: &Row) -> bool {
    row.cells.iter().any(|cell| cell.cv.is_some_and(|cv| cv > LARGE_CV))
}

impl Table<'_> {
    fn show(&self, names: &[String], time: Option<&str>, page: &mut Page) {
        let interpretation = match self.row.kind.direction {
            Direction::HigherIsBetter => "Higher is better",
            Direction::LowerIsBetter => "Lower is better",
            Direction::Neutral => "Neither is better",
        };
        let rule = "=".repeat(RULE);
        page.line(Tone::Plain, &rule);
        page.wrapped(Tone::Plain, "Test          : ", &self.test());
        page.wrapped(Tone::Plain, "Units         : ", &self.units());
        page.line(Tone::Plain, &format!("Interpretation: {interpretation}"));
        page.line(Tone::Plain, &format!("Statistic     : {}", statistic(self.analysis)));
        clock(time, page);
        page.line(Tone::Plain, &rule);
        let columns = self.columns(names);
        let first = self.first(&columns);
        for (at, block) in blocks(first.width, &columns).into_iter().enumerate() {
            if at > 0 {
                page.gap();
            }
            self.block(&first, &block, page);
        }
    }

    /// The cases; those which are so long that two columns would not fit next to them stand above
    /// their rows.
    fn first(&self, columns: &[Column]) -> Column {
        first_of("Case:", self.cases.iter().map(|(case, _)| case.clone()), columns)
    }

    /// Whether two columns fit next to each case, unless it is so long that they never do.
    fn has_room_for(&self, names: &[String]) -> bool {
        let shortest = vec!["x".repeat(MIN_NAME_COLUMNS); names.len()];
        let most = room(&self.columns(&shortest));
        let cases = self.cases.iter().map(|(case, _)| case.len());
        let longest = cases.filter(|width| *width <= most).fold("Case:".len(), usize::max);
        longest <= room(&self.columns(names))
    }

    fn block(&self, first: &Column, block: &[&Column], page: &mut Page) {
        laid_out(first, block, page, |at| if starred(self.cases[at].1) { STAR } else { "" });
    }

    fn test(&self) -> String {
        test_of(self.work, self.set)
    }

    fn units(&self) -> String {
        let kind = &self.row.kind;
        let typical = self.row.cells.iter().find_map(|cell| cell.median);
        let suffix = Scale::of(kind.unit, typical).suffix;
        let name = ascii(&kind.name);
        let units = match (kind.unit, quantile(self.row), &kind.subject) {
            (Unit::Ns, found, subject) => {
                let suffix = if suffix == "s" { "seconds" } else { suffix };
                match (found, subject) {
                    (Some(percent), Some(of)) => {
                        format!("{percent}th percentile {} latency in {suffix}", ascii(of))
                    }
                    _ => format!("{name} in {suffix}"),
                }
            }
            (Unit::OpsPerS, ..) => match self.set.ops.as_str() {
                "" => format!("{name}, ops/s"),
                ops => format!("{name}, {}/s", ascii(ops)),
            },
            (Unit::BytesPerS, ..) => format!("{name}, {suffix}"),
            (Unit::PerS, ..) => format!("{name} per second"),
            (Unit::Cpus, ..) => format!("{name}, CPUs"),
            (Unit::Ratio, ..) => format!("{name}, ratio"),
            (Unit::Count, ..) => format!("{name}, count"),
        };
        format!("Normalized {units}")
    }

    fn columns(&self, names: &[String]) -> Vec<Column> {
        let column = |(side, name): (usize, &String)| {
            let parts = self.cases.iter().map(|(_, row)| Parts::of(self.analysis, row, side));
            let parts: Vec<Option<Parts>> = parts.collect();
            let width = |of: fn(&Parts) -> &String, least: usize| {
                parts.iter().flatten().map(|parts| of(parts).len()).fold(least, usize::max)
            };
            let (improved, cv) = (width(|parts| &parts.improved, 6), width(|parts| &parts.cv, 5));
            let cells = parts.iter().map(|parts| match parts {
                None => "-".to_string(),
                Some(parts) => format!(
                    "{} [{:>improved$}]({:>cv$})",
                    parts.normalised, parts.improved, parts.cv
                ),
            });
            Column::new(format!("{name}[pct imp](CV)"), cells)
        };
        names.iter().enumerate().map(column).collect()
    }
}

/// The three numbers of a cell.
struct Parts {
    normalised: String,
    improved: String,
    cv: String,
}

impl Parts {
    /// `None` where one of the two is unknown, or the baseline is not positive.
    fn of(analysis: &Analysis, row: &Row, side: usize) -> Option<Parts> {
        let normalised = normalised(analysis, row, side)?;
        let cell = row.cells.get(side)?;
        let improved = match row.kind.direction {
            // The baseline's own is then -0.00, as in those mails.
            Direction::LowerIsBetter => -(normalised - 1.0) * 100.0,
            Direction::HigherIsBetter | Direction::Neutral => (normalised - 1.0) * 100.0,
        };
        let cv = cell.cv.map_or("-".to_string(), |cv| two_decimals(100.0 * cv));
        Some(Parts { normalised: two_decimals(normalised), improved: two_decimals(improved), cv })
    }
}

/// What statistics of the tables hide: a note for each side of a row whose values are odd. Of
/// what has no verdict nothing is said.
pub(super) fn oddities(analysis: &Analysis, names: &[String], page: &mut Page) {
    let mut is_any = false;
    for (work, set, row) in judged_rows(analysis) {
        for (cell, name) in row.cells.iter().zip(names) {
            let shapes = phrases::shapes(analysis, row, cell);
            if !shapes.is_empty() {
                let text = format!("{}, {name}: {}", place(work, set, row), shapes.join("; "));
                page.wrapped(Tone::Plain, "Note: ", &ascii(&text));
                is_any = true;
            }
        }
    }
    if is_any {
        page.gap();
    }
}

/// The verdicts, how they were reached, and how to get the tables again.
pub(super) fn verdicts(analysis: &Analysis, names: &[String], page: &mut Page) {
    for (at, name) in names.iter().enumerate().skip(1) {
        let heading = format!("Verdicts, {name} against {}:", names[0]);
        page.wrapped(Tone::Plain, "", &heading);
        for (work, set, row) in judged_rows(analysis) {
            if let Some(line) = differs(work, set, row, at) {
                page.wrapped(Tone::Plain, "  ", &line);
            }
        }
        for (family, label) in [(Family::Headline, ""), (Family::Explaining, "explaining: ")] {
            let is_judged = |row: &Row| row.family == family && row.cells[at].judged.is_some();
            let is_headline = family == Family::Headline;
            if is_headline || judged_rows(analysis).any(|(.., row)| is_judged(row)) {
                let tally = Tally::of(analysis, at, family);
                let decides = tally.rounds.map(|needed| format!("; {}", phrases::decides(needed)));
                let text = format!("{label}{}{}", tally.counts(), decides.unwrap_or_default());
                page.wrapped(Tone::Plain, "  ", &text);
            }
        }
        page.gap();
    }
    if names.len() > 1 {
        let how = phrases::method(analysis).join("; ");
        page.wrapped(Tone::Plain, "Method: ", &ascii(&how));
    }
    for (side, name) in analysis.sides.iter().zip(names) {
        let label = word(&side.label);
        let also = if *name == label { String::new() } else { format!("{label}: ") };
        let text = format!("{also}{}", ascii(&phrases::about(side)));
        page.wrapped(Tone::Plain, &format!("{name}: "), &text);
    }
    for note in &analysis.notes {
        let (word, text) = phrases::note(analysis, note);
        page.wrapped(Tone::Plain, &format!("{word}: "), &ascii(&text));
    }
    page.gap();
    page.line(Tone::Plain, "Reproduce with:");
    for line in phrases::command_lines(&ascii(&analysis.command), COLUMNS - 2) {
        page.line(Tone::Plain, &format!("  {line}"));
    }
}

/// `WORSE: web threads=4, wakeup_p99, ratio 1.563 (1.401 to 1.744)`; also of a difference that
/// was not called because equal variants differ as much.
fn differs(work: &WorkTable, set: &SetTable, row: &Row, side: usize) -> Option<String> {
    let judged = row.cells.get(side)?.judged.as_ref()?;
    let floor = match judged.verdict {
        Verdict::Better | Verdict::Worse => None,
        Verdict::Inconclusive { why: Why::BelowFloor { floor }, .. } => Some(floor),
        _ => return None,
    };
    let word = phrases::verdict(row, &row.cells[side])?;
    let mut line = format!("{word}: {}", place(work, set, row));
    if let Ok(found) = judged.ratio {
        line.push_str(&format!(", ratio {}", ratio(found.ratio)));
        if let Some(interval) = found.interval {
            let (low, high) = (ratio(interval.low), ratio(interval.high));
            line.push_str(&format!(" ({low} to {high})"));
        }
    }
    if let Some(floor) = floor {
        line.push_str(&format!(", below the A/A floor of {}", phrases::floor_percent(floor)));
    }
    Some(line)
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
