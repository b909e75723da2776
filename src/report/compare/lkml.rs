//! `lkml`: tables as scheduler patches are mailed with, ready to paste: ASCII, at most 78
//! columns where the names allow it.
//!
//! One table per workload, set and metric; its cases are the points of the axes. What is
//! normalised is the statistic of each side; verdicts, from paired ratios, stand below. The
//! layout is that of K Prateek Nayak's mails; docs/report-formats.md tells the rules. Pure.

mod switches;

use std::io::{self, Write};

use super::{Format, words};
use crate::compare::{Cell, Comparison, Row, SetTable, WorkTable};
use crate::model::{Direction, Unit};
use crate::report::Options;
use crate::report::page::{Page, Tone};
use crate::report::show::{self, Scale, clean};
use crate::stats::{Verdict, Why};

pub(super) const COLUMNS: usize = 78;
const RULE: usize = 66;
const GAP: usize = 4;
/// Labels of sides are no wider.
pub(super) const NAME_COLUMNS: usize = 20;
/// So that two columns fit beside a case, they are cut down to this.
const MIN_NAME_COLUMNS: usize = 8;
/// Stands for what is cut off a label.
pub(super) const CUT: &str = "~";
/// Behind the numbers of a row.
const STAR: &str = " *";
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

    fn render(&self, comparison: &Comparison, _: &Options, out: &mut dyn Write) -> io::Result<()> {
        let mut page = Page::new(&Options { width: COLUMNS, ..Options::default() });
        let tables = tables(comparison);
        let (names, time) = (names(comparison, &tables), words::time(comparison));
        for table in &tables {
            table.show(&names, time.as_deref(), &mut page);
            page.gap();
        }
        switches::show(comparison, &names, &mut page);
        if tables.is_empty() {
            page.line(Tone::Plain, "Nothing was compared.");
            page.gap();
        }
        if tables.iter().any(|table| table.cases.iter().any(|(_, row)| starred(row))) {
            let bound = words::percent(LARGE_CV);
            let text = format!("CV above {bound}: the run-to-run variance is large");
            page.wrapped(Tone::Plain, "* ", &text);
            page.gap();
        }
        oddities(comparison, &names, &mut page);
        verdicts(comparison, &names, &mut page);
        out.write_all(page.text().as_bytes())
    }
}

/// Clean, and ASCII: what is not shows as its Rust escape.
pub(super) fn ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c.is_ascii() {
            true => ascii.push(c),
            false => ascii.extend(c.escape_default()),
        }
    }
    ascii
}

/// As [`ascii`], one word of a table's row.
pub(super) fn word(text: &str) -> String {
    ascii(text).replace(' ', "_")
}

/// In the head of each table, as it may be mailed alone.
fn clock(time: Option<&str>, page: &mut Page) {
    if let Some(time) = time {
        page.wrapped(Tone::Plain, "Time          : ", &ascii(time));
    }
}

/// One metric of one set, over the points of the axes.
struct Table<'a> {
    work: &'a WorkTable,
    set: &'a SetTable,
    /// Of the first case; all have its metric, unit and direction.
    row: &'a Row,
    cases: Vec<(String, &'a Row)>,
}

/// In the order in which they first come. What is neither better nor worse has no `pct imp`.
fn tables(comparison: &Comparison) -> Vec<Table<'_>> {
    let mut tables: Vec<Table> = Vec::new();
    for (work, set, row) in words::rows(comparison) {
        if row.direction == Direction::Neutral {
            continue;
        }
        let known = tables.iter_mut().find(|table| {
            let of = (&table.work.name, &table.set.name, &table.set.workload, &table.row.metric);
            of == (&work.name, &set.name, &set.workload, &row.metric)
                && (table.row.unit, table.row.direction) == (row.unit, row.direction)
        });
        match known {
            Some(table) => table.cases.push((case(work), row)),
            None => tables.push(Table { work, set, row, cases: vec![(case(work), row)] }),
        }
    }
    tables
}

/// As long as all tables have room for.
fn names(comparison: &Comparison, tables: &[Table]) -> Vec<String> {
    let of = |columns| words::names(&comparison.sides, columns, word, CUT);
    let fits = |names: &Vec<String>| tables.iter().all(|table| table.has_room_for(names));
    let mut shorter = (MIN_NAME_COLUMNS..=NAME_COLUMNS).rev().map(of);
    shorter.find(fits).unwrap_or_else(|| of(MIN_NAME_COLUMNS))
}

/// `threads=4,footprint=256KiB`; without axes the work's name.
fn case(work: &WorkTable) -> String {
    let points = work.axes.iter().map(|(axis, point)| format!("{}={}", word(axis), word(point)));
    let points: Vec<String> = points.collect();
    if points.is_empty() { word(&work.name) } else { points.join(",") }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Statistic {
    AMean,
    HMean,
    Median,
}

impl Statistic {
    fn word(self) -> &'static str {
        match self {
            Statistic::AMean => "AMean",
            Statistic::HMean => "HMean",
            Statistic::Median => "Median",
        }
    }

    fn of(self, cell: &Cell) -> Option<f64> {
        match self {
            Statistic::AMean => cell.mean,
            Statistic::HMean => cell.hmean,
            Statistic::Median => cell.median,
        }
    }
}

/// `99.9` of `wakeup_p99.9`, and what it is of.
fn quantile(metric: &str) -> Option<(&str, &str)> {
    let (of, percent) = metric.rsplit_once("_p")?;
    percent.parse::<f64>().ok().map(|_| (of, percent))
}

/// Whether the numbers of a row differ much from run to run, on any side.
fn starred(row: &Row) -> bool {
    row.cells.iter().any(|cell| cell.cv.is_some_and(|cv| cv > LARGE_CV))
}

impl Table<'_> {
    fn show(&self, names: &[String], time: Option<&str>, page: &mut Page) {
        let interpretation = match self.row.direction {
            Direction::HigherIsBetter => "Higher is better",
            Direction::LowerIsBetter => "Lower is better",
            Direction::Neutral => "Neither is better",
        };
        let statistic = self.statistic();
        let rule = "=".repeat(RULE);
        page.line(Tone::Plain, &rule);
        page.wrapped(Tone::Plain, "Test          : ", &self.test());
        page.wrapped(Tone::Plain, "Units         : ", &self.units(statistic));
        page.line(Tone::Plain, &format!("Interpretation: {interpretation}"));
        page.line(Tone::Plain, &format!("Statistic     : {}", statistic.word()));
        clock(time, page);
        page.line(Tone::Plain, &rule);
        let columns = self.columns(names, statistic);
        let first = self.first(&columns);
        for (at, block) in blocks(first.width, &columns).into_iter().enumerate() {
            if at > 0 {
                page.gap();
            }
            self.block(&first, &block, page);
        }
    }

    /// The cases; those which are so long that two columns would not fit beside them stand above
    /// their rows.
    fn first(&self, columns: &[Column]) -> Column {
        first_of("Case:", self.cases.iter().map(|(case, _)| case.clone()), columns)
    }

    /// Whether two columns fit beside each case, unless it is so long that they never do.
    fn has_room_for(&self, names: &[String]) -> bool {
        let statistic = self.statistic();
        let shortest = vec!["x".repeat(MIN_NAME_COLUMNS); names.len()];
        let most = room(&self.columns(&shortest, statistic));
        let cases = self.cases.iter().map(|(case, _)| case.len());
        let longest = cases.filter(|width| *width <= most).fold("Case:".len(), usize::max);
        longest <= room(&self.columns(names, statistic))
    }

    fn block(&self, first: &Column, block: &[&Column], page: &mut Page) {
        laid_out(first, block, page, |at| if starred(self.cases[at].1) { STAR } else { "" });
    }

    fn test(&self) -> String {
        test_of(self.work, self.set)
    }

    fn units(&self, statistic: Statistic) -> String {
        let Row { metric, unit, cells, .. } = self.row;
        let typical = cells.iter().find_map(|cell| statistic.of(cell));
        let suffix = Scale::of(*unit, typical).suffix;
        let name = ascii(metric);
        let units = match (unit, quantile(metric)) {
            (Unit::Ns, found) => {
                let suffix = if suffix == "s" { "seconds" } else { suffix };
                match found {
                    Some((of, percent)) => {
                        format!("{}th percentile {} latency in {suffix}", ascii(percent), ascii(of))
                    }
                    None => format!("{name} in {suffix}"),
                }
            }
            (Unit::OpsPerS, _) => match show::operations(&self.set.ops).0 {
                "" => format!("{name}, ops/s"),
                ops => format!("{name}, {}/s", ascii(ops)),
            },
            (Unit::BytesPerS, _) => format!("{name}, {suffix}"),
            (Unit::PerS, _) => format!("{name} per second"),
            (Unit::Cpus, _) => format!("{name}, CPUs"),
            (Unit::Ratio, _) => format!("{name}, ratio"),
            (Unit::Count, _) => format!("{name}, count"),
        };
        format!("Normalized {units}")
    }

    /// The harmonic mean is that of rates; where it is not defined for a cell, none has it.
    fn statistic(&self) -> Statistic {
        let cells = || self.cases.iter().flat_map(|(_, row)| &row.cells);
        match self.row.unit {
            Unit::Ns if quantile(&self.row.metric).is_some() => Statistic::Median,
            Unit::OpsPerS | Unit::BytesPerS | Unit::PerS => {
                let defined = cells().all(|cell| cell.hmean.is_some() || cell.mean.is_none());
                if defined { Statistic::HMean } else { Statistic::AMean }
            }
            Unit::Ns | Unit::Cpus | Unit::Ratio | Unit::Count => Statistic::AMean,
        }
    }

    fn columns(&self, names: &[String], statistic: Statistic) -> Vec<Column> {
        let column = |(side, name): (usize, &String)| {
            let parts = self.cases.iter().map(|(_, row)| Parts::of(row, side, statistic));
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
    fn of(row: &Row, side: usize, statistic: Statistic) -> Option<Parts> {
        let baseline = statistic.of(row.cells.first()?).filter(|baseline| *baseline > 0.0)?;
        let cell = row.cells.get(side)?;
        let normalised = statistic.of(cell)? / baseline;
        let improved = match row.direction {
            // The baseline's own is then -0.00, as in those mails.
            Direction::LowerIsBetter => -(normalised - 1.0) * 100.0,
            Direction::HigherIsBetter | Direction::Neutral => (normalised - 1.0) * 100.0,
        };
        let cv = cell.cv.map_or("-".to_string(), |cv| two_decimals(100.0 * cv));
        Some(Parts { normalised: two_decimals(normalised), improved: two_decimals(improved), cv })
    }
}

fn two_decimals(value: f64) -> String {
    if value.abs() < 1e6 { format!("{value:.2}") } else { format!("{value:.1e}") }
}

struct Column {
    head: String,
    cells: Vec<String>,
    width: usize,
}

impl Column {
    fn new(head: String, cells: impl Iterator<Item = String>) -> Column {
        let cells: Vec<String> = cells.collect();
        let width = cells.iter().map(String::len).fold(head.len(), usize::max);
        Column { head, cells, width }
    }
}

/// What the rows are of; what is so long that two columns would not fit beside it does not widen
/// the column.
fn first_of(head: &str, cells: impl Iterator<Item = String>, columns: &[Column]) -> Column {
    let mut first = Column::new(head.to_string(), cells);
    let room = room(columns);
    let beside = first.cells.iter().map(String::len).filter(|width| *width <= room);
    first.width = beside.fold(first.head.len(), usize::max);
    first
}

/// Headers end where their columns end. `sign`: behind the row at this place.
fn laid_out(
    first: &Column,
    block: &[&Column],
    page: &mut Page,
    sign: impl Fn(usize) -> &'static str,
) {
    let gap = " ".repeat(GAP);
    let mut head = format!("{:width$}", first.head, width = first.width);
    for column in block {
        head.push_str(&format!("{gap}{:>width$}", column.head, width = column.width));
    }
    page.line(Tone::Plain, &head);
    for (at, case) in first.cells.iter().enumerate() {
        let mut case = case.as_str();
        if case.len() > first.width {
            page.wrapped(Tone::Plain, "", case);
            case = "";
        }
        let mut line = format!("{case:>width$}", width = first.width);
        for column in block {
            line.push_str(&format!("{gap}{:>width$}", column.cells[at], width = column.width));
        }
        page.line(Tone::Plain, &format!("{line}{}", sign(at)));
    }
}

/// `web`, and of which set where that is not the same word.
fn test_of(work: &WorkTable, set: &SetTable) -> String {
    let (work, set, workload) = (ascii(&work.name), ascii(&set.name), ascii(&set.workload));
    let mut said = vec![work.clone()];
    said.extend((set != work).then(|| format!("set {set}")));
    let own = workload != set && workload != work;
    said.extend(own.then_some(workload));
    said.join(", ")
}

/// For cases, beside the baseline and any one other.
fn room(columns: &[Column]) -> usize {
    let Some((baseline, others)) = columns.split_first() else { return COLUMNS };
    let widest = others.iter().map(|column| GAP + column.width).max().unwrap_or(0);
    COLUMNS.saturating_sub(GAP + baseline.width + widest + STAR.len())
}

/// The baseline with as many others as fit beside it, at least one, and so on.
fn blocks(first: usize, columns: &[Column]) -> Vec<Vec<&Column>> {
    let Some((baseline, others)) = columns.split_first() else { return Vec::new() };
    let alone = first + GAP + baseline.width + STAR.len();
    let mut blocks = vec![vec![baseline]];
    let mut used = alone;
    for column in others {
        let last = blocks.len() - 1;
        if used + GAP + column.width > COLUMNS && blocks[last].len() > 1 {
            blocks.push(vec![baseline, column]);
            used = alone + GAP + column.width;
        } else {
            blocks[last].push(column);
            used += GAP + column.width;
        }
    }
    blocks
}

/// What statistics of the tables hide: a note for each side of a row whose values are odd. Of
/// what has no verdict nothing is said.
pub(super) fn oddities(comparison: &Comparison, names: &[String], page: &mut Page) {
    let mut is_any = false;
    for (work, set, row) in words::rows(comparison) {
        if row.direction == Direction::Neutral {
            continue;
        }
        for (cell, name) in row.cells.iter().zip(names) {
            let told = words::shapes(comparison, row, cell);
            if !told.is_empty() {
                let text = format!("{}, {name}: {}", place(work, set, row), told.join("; "));
                page.wrapped(Tone::Plain, "Note: ", &ascii(&text));
                is_any = true;
            }
        }
    }
    if is_any {
        page.gap();
    }
}

/// What can be believed of the tables, and how to get them again.
pub(super) fn verdicts(comparison: &Comparison, names: &[String], page: &mut Page) {
    let Comparison { sides, refused, missing, remarks, command, .. } = comparison;
    for (at, name) in names.iter().enumerate().skip(1) {
        let heading = format!("Verdicts, {name} against {}:", names[0]);
        page.wrapped(Tone::Plain, "", &heading);
        for (work, set, row) in words::rows(comparison) {
            if let Some(line) = differs(work, set, row, at) {
                page.wrapped(Tone::Plain, "  ", &line);
            }
        }
        page.wrapped(Tone::Plain, "  ", &words::Tally::of(comparison, at).sentence());
        page.gap();
    }
    let how = words::method(comparison).join("; ");
    page.wrapped(Tone::Plain, "Method: ", &ascii(&how));
    for (side, name) in sides.iter().zip(names) {
        let label = word(&side.label);
        let also = if *name == label { String::new() } else { format!("{label}: ") };
        let text = format!("{also}{}", ascii(&words::about(side)));
        page.wrapped(Tone::Plain, &format!("{name}: "), &text);
    }
    for (label, texts) in [("Refused: ", refused), ("Missing: ", missing), ("Note: ", remarks)] {
        for text in texts {
            page.wrapped(Tone::Plain, label, &ascii(&show::reason(text)));
        }
    }
    page.gap();
    page.line(Tone::Plain, "Reproduce with:");
    for line in words::command_lines(&ascii(command), COLUMNS - 2) {
        page.line(Tone::Plain, &format!("  {line}"));
    }
}

/// `WORSE: web threads=4, wakeup_p99, ratio 1.563 (1.401 to 1.744)`; also of a difference that
/// was not called because equal variants differ as much.
fn differs(work: &WorkTable, set: &SetTable, row: &Row, side: usize) -> Option<String> {
    let judged = row.cells.get(side)?.judged.as_ref()?;
    let (verdict, floor) = match judged.verdict {
        Verdict::Better => ("BETTER:", None),
        Verdict::Worse => ("WORSE:", None),
        Verdict::Inconclusive { why: Why::BelowFloor { floor }, .. } => {
            ("INCONCLUSIVE:", Some(floor))
        }
        _ => return None,
    };
    let mut line = format!("{verdict} {}", place(work, set, row));
    if let Ok(ratio) = judged.ratio {
        line.push_str(&format!(", ratio {}", show::ratio(ratio.ratio)));
        if let Some(interval) = ratio.interval {
            let (low, high) = (show::ratio(interval.low), show::ratio(interval.high));
            line.push_str(&format!(" ({low} to {high})"));
        }
    }
    if let Some(floor) = floor {
        line.push_str(&format!(", below the A/A floor of {}", words::floor_percent(floor)));
    }
    Some(line)
}

/// `web threads=4, wakeup_p99`, with the set where it has another name.
fn place(work: &WorkTable, set: &SetTable, row: &Row) -> String {
    let mut place = ascii(&work.label);
    if set.name != work.name {
        place.push_str(&format!(", {}", ascii(&set.name)));
    }
    format!("{place}, {}", ascii(&row.metric))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::testing::{self, HIGHER, LOWER, render};
    use crate::stats::Rounds;
    use insta::assert_snapshot;
    use proptest::prelude::*;

    #[test]
    fn two_variants_of_one_plan() {
        assert_snapshot!(render(&Lkml, &testing::ordinary(), Options::default()));
    }

    #[test]
    fn switches_that_explain_the_throughput() {
        assert_snapshot!(render(&Lkml, &testing::explained(), Options::default()));
    }

    #[test]
    fn three_kernels_with_all_that_can_be_odd() {
        assert_snapshot!(render(&Lkml, &testing::troubled(), Options::default()));
    }

    /// A cell of which only what these tables show is known.
    fn known(value: f64, cv_percent: f64) -> Cell {
        let (value, cv) = (Some(value), Some(cv_percent / 100.0));
        Cell { mean: value, hmean: value, median: value, cv, ..testing::cell(Vec::new()) }
    }

    /// Normalised value, improvement and variation of the baseline and the variant.
    type Told = (&'static str, f64, f64, f64, &'static str);

    /// The rows of one table without its header, from cases with both CVs and a ratio.
    fn table(metric: &str, unit: Unit, direction: Direction, cases: &[Told]) -> Vec<String> {
        let mut comparison = testing::sides_only();
        comparison.sides[1].label = "run-to-parity-wakeup".to_string();
        for (case, ratio, cv, other_cv, _) in cases {
            let cells = vec![known(1000.0, *cv), known(1000.0 * ratio, *other_cv)];
            let row = testing::row(metric, unit, direction, cells);
            comparison.works.push(testing::work("mail", &[("n", case)], "mail", "mail", vec![row]));
        }
        let shown = render(&Lkml, &comparison, Options::default());
        let rows = shown.lines().skip_while(|line| !line.starts_with("Case:")).skip(1);
        rows.take(cases.len()).map(str::to_string).collect()
    }

    /// Rows of the mail of 25 March 2024, with the numbers that it has.
    #[test]
    fn rows_are_those_of_the_mails() {
        let lower: &[Told] = &[
            ("1-groups", 0.9771, 2.08, 3.19, "1.00 [ -0.00]( 2.08)  0.98 [  2.29]( 3.19)"),
            ("2-groups", 1.0222, 0.89, 1.27, "1.00 [ -0.00]( 0.89)  1.02 [ -2.22]( 1.27)"),
            ("64", 0.9847, 1.79, 2.36, "1.00 [ -0.00]( 1.79)  0.98 [  1.53]( 2.36)"),
            ("4", 1.2105, 14.0, 7.2, "1.00 [ -0.00](14.00)  1.21 [-21.05]( 7.20) *"),
            ("8", 1.0417, 4.68, 13.1, "1.00 [ -0.00]( 4.68)  1.04 [ -4.17](13.10) *"),
            ("128", 1.0316, 6.3, 8.92, "1.00 [ -0.00]( 6.30)  1.03 [ -3.16]( 8.92) *"),
        ];
        let higher: &[Told] = &[
            ("1-clients", 1.0226, 0.22, 1.08, "1.00 [  0.00]( 0.22)  1.02 [  2.26]( 1.08)"),
            ("Scale", 0.9714, 1.26, 6.48, "1.00 [  0.00]( 1.26)  0.97 [ -2.86]( 6.48)"),
            ("256-clients", 0.9504, 8.68, 7.11, "1.00 [  0.00]( 8.68)  0.95 [ -4.96]( 7.11) *"),
        ];
        let units = [(Unit::Ns, LOWER, lower), (Unit::OpsPerS, HIGHER, higher)];
        for (unit, direction, cases) in units {
            let rows = table("x_p99", unit, direction, cases);
            for ((case, .., expected), row) in cases.iter().zip(&rows) {
                let words = |text: &str| text.split("  ").map(str::trim).collect::<String>();
                assert_eq!(words(row), words(&format!("n={case}  {expected}")));
                // Below one another, to the column.
                let close: Vec<usize> = row.match_indices(')').map(|(at, _)| at).collect();
                let first: Vec<usize> = rows[0].match_indices(')').map(|(at, _)| at).collect();
                assert_eq!(close, first, "{row}");
            }
        }
    }

    #[test]
    fn each_metric_has_its_statistic_and_unit_in_words() {
        let cases: &[(&str, Unit, f64, &str, &str)] = &[
            ("wakeup_p99.9", Unit::Ns, 5e3, "99.9th percentile wakeup latency in us", "Median"),
            ("wakeup_p50", Unit::Ns, 5e6, "50th percentile wakeup latency in ms", "Median"),
            ("wakeup_max", Unit::Ns, 5e9, "wakeup_max in seconds", "AMean"),
            ("a_pattern", Unit::Ns, 5.0, "a_pattern in ns", "AMean"),
            ("throughput", Unit::OpsPerS, 5.0, "throughput, requests/s", "HMean"),
            ("copied", Unit::BytesPerS, 5e6, "copied, MB/s", "HMean"),
            ("switches", Unit::PerS, 5.0, "switches per second", "HMean"),
            ("misses", Unit::Count, 5.0, "misses, count", "AMean"),
            ("fairness", Unit::Ratio, 0.5, "fairness, ratio", "AMean"),
            ("busy", Unit::Cpus, 0.5, "busy, CPUs", "AMean"),
            ("steps", Unit::OpsPerS, 0.0, "steps, requests/s", "AMean"),
        ];
        for (metric, unit, value, units, statistic) in cases {
            let mut comparison = testing::sides_only();
            let cell = || testing::cell(vec![(0, *value), (1, *value)]);
            let row = testing::row(metric, *unit, LOWER, vec![cell(), cell()]);
            comparison.works = vec![testing::work("w", &[], "w", "w", vec![row])];
            let shown = render(&Lkml, &comparison, Options::default());
            let units = format!("\nUnits         : Normalized {units}\n");
            assert!(shown.contains(&units), "{units} {shown}");
            assert!(
                shown.contains(&format!("\nStatistic     : {statistic}\n")),
                "{metric} {shown}"
            );
        }
    }

    #[test]
    fn odd_values_are_noted_below_the_tables_and_neutral_ones_are_not() {
        let mut comparison = testing::ordinary();
        for work in &mut comparison.works {
            for row in &mut work.sets[0].rows {
                let is_odd = row.metric == "wakeup_p99" || row.metric == "switches";
                let odd = row.cells[1].clone().shaped(testing::TWO_MODES).shaped(testing::TREND);
                row.cells[1] = if is_odd { odd } else { row.cells[1].clone() };
            }
        }
        let shown = render(&Lkml, &comparison, Options::default());
        let (tables, verdicts) = shown.split_once("\nVerdicts, ").expect("verdicts");
        let notes = tables.split_once("variance is large\n\n").expect("tables").1;
        let note = |threads: u32| {
            format!(
                "Note: web threads={threads}, wakeup_p99, batch: two modes, 12.0 ms and 31.0 ms \
                 (4 of\n      10 rounds); a trend, 3 % from the first round to the last (p \
                 0.0020)\n"
            )
        };
        assert_eq!(notes, format!("{}{}", note(2), note(4)));
        assert!(!verdicts.contains("two modes"), "{shown}");
    }

    #[test]
    fn a_difference_below_the_floor_says_so() {
        let mut comparison = testing::ordinary();
        let below = testing::open(Why::BelowFloor { floor: 0.103_949 }, Rounds::MoreThan(1000));
        let cell = testing::values(1e6, 0.01).judged(below, 1.08, 1.05, 1.1);
        comparison.works[0].sets[0].rows[1].cells[1] = cell;
        let shown = render(&Lkml, &comparison, Options::default());
        let line = "  INCONCLUSIVE: web threads=2, wakeup_p99, ratio 1.080 (1.050 to 1.100), \
                    below\n  the A/A floor of 10 %\n";
        assert!(shown.contains(line), "{shown}");
        assert_eq!(shown.matches("INCONCLUSIVE:").count(), 1, "others are counted\n{shown}");
    }

    /// A table may be mailed alone.
    #[test]
    fn each_table_of_the_lab_says_by_what_clock_it_was_measured() {
        let mut explained = testing::explained();
        explained.sides = testing::in_the_lab(2).sides;
        let shown = render(&Lkml, &explained, Options::default());
        let time = "\nTime          : lab, virtual time, NOT exact in 2 of 80 runs\n====";
        let (tables, heads) = (shown.matches("Test          : "), shown.matches(time));
        assert_eq!(heads.count(), tables.count(), "{shown}");
        let host = render(&Lkml, &testing::explained(), Options::default());
        assert!(!host.contains("Time  "), "{host}");
    }

    #[test]
    fn tables_are_ascii_and_fit_a_mail() {
        let comparisons =
            [testing::ordinary(), testing::troubled(), testing::hostile("a b\nµ\u{202e}(x)")];
        for comparison in comparisons {
            let shown = render(&Lkml, &comparison, Options::default());
            assert!(shown.is_ascii(), "{shown}");
            let wide: Vec<&str> = shown.lines().filter(|line| line.len() > COLUMNS).collect();
            assert!(wide.is_empty(), "{wide:?}");
        }
    }

    #[test]
    fn long_names_are_cut_in_what_they_share_and_long_cases_stand_above_their_rows() {
        let mut comparison = testing::troubled();
        comparison.sides.truncate(2);
        for (side, label) in comparison.sides.iter_mut().zip(["tip+", "parity+"]) {
            side.label = format!("kernel=6.12.0-rc1-{label}");
        }
        let shown = render(&Lkml, &comparison, Options::default());
        let head = shown.lines().find(|line| line.starts_with("Case:")).unwrap();
        let words: Vec<&str> = head.split_whitespace().collect();
        assert_eq!(words, ["Case:", "~tip+[pct", "imp](CV)", "~parity+[pct", "imp](CV)"]);
        for full in ["~tip+: kernel=6.12.0-rc1-tip+: ", "~parity+: kernel=6.12.0-rc1-parity+: "] {
            assert!(shown.contains(full), "{shown}");
        }
        comparison.works[0].axes[0].1 = "4".repeat(20);
        let shown = render(&Lkml, &comparison, Options::default());
        let case = format!("threads={},footprint=256KiB", "4".repeat(20));
        let (_, row) = shown.split_once(&format!("\n{case}\n")).expect("a line of its own");
        assert!(row.trim_start().starts_with("1.00 [  0.00]( 0.68)    "), "{shown}");
        assert_eq!(shown.lines().find(|line| line.len() > COLUMNS), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn no_line_is_wider_than_a_mail(
            labels in proptest::collection::vec("(kernel=)?[a-c.-]{0,30}", 3),
            point in "[a-c]{0,90}",
        ) {
            let mut comparison = testing::troubled();
            for (side, label) in comparison.sides.iter_mut().zip(labels) {
                side.label = label;
            }
            comparison.works[0].axes[0].1 = point;
            let shown = render(&Lkml, &comparison, Options::default());
            prop_assert_eq!(shown.lines().find(|line| line.len() > COLUMNS), None);
        }
    }

    #[test]
    fn variants_that_do_not_fit_have_a_block_with_the_baseline_again() {
        let shown = render(&Lkml, &testing::troubled(), Options::default());
        let heads: Vec<&str> = shown.lines().filter(|line| line.starts_with("Case:")).collect();
        assert!(heads.iter().all(|head| head.contains(" 6.6.87-~[pct imp](CV)")), "{heads:?}");
        assert!(heads.iter().all(|head| head.matches("(CV)").count() == 2), "{heads:?}");
        assert_eq!(heads.len(), 6);
    }
}
