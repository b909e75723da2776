//! The detail of `-v`: the sides, every metric with medians and rounds, fairness and the switches
//! that explain a throughput; with `-vv` also means, spreads and p-values. Pure.

use std::ops::Range;

use crate::analysis::{
    Analysis, Cell, Family, Row, SetTable, Side, VariantFairness, WorkTable, grouped,
};
use crate::model::Reading;
use crate::report::Options;
use crate::report::answer::View;
use crate::report::layout::{Align, Page, Table, Tone, clean};
use crate::report::numbers::{Scale, counted, significant};
use crate::report::phrases;
use crate::stats::Verdict;

use super::rows::{change, nothing, stacked};

pub fn write(view: View, options: &Options, page: &mut Page) {
    let analysis = view.analysis;
    page.wrapped(Tone::Plain, "method        ", &phrases::method(analysis).join("; "));
    for work in &analysis.works {
        page.gap();
        page.wrapped(Tone::Bold, "== ", &clean(&work.label));
        work.sets.iter().for_each(|of| set(view, of, options, page));
        fairness(work, page);
    }
    if analysis.rows().next().is_none() {
        page.gap();
        page.wrapped(Tone::Plain, "", nothing(analysis));
    }
}

/// The facts that the runs of a side share, with the knobs of its variant.
pub fn about(analysis: &Analysis, side: &Side) -> String {
    let knobs = match side.variants.as_slice() {
        [variant] => {
            // The kernel that ran says it too.
            let is_said = |knob: &str, value: &str| {
                knob == "kernel" && side.kernels.iter().all(|kernel| kernel.starts_with(value))
            };
            let mut knobs = variant.knobs.clone();
            knobs.retain(|knob, value| !is_said(knob, &value.to_string()));
            clean(&phrases::knobs(&knobs))
        }
        _ => String::new(),
    };
    phrases::joined([knobs, phrases::about(analysis, side)], "; ")
}

fn set(view: View, set: &SetTable, options: &Options, page: &mut Page) {
    page.gap();
    page.wrapped(Tone::Plain, "", &clean(&format!("{}: {}", set.name, phrases::set(set))));
    let all = ordered(set);
    let rows = in_table(&all);
    match fitting(view, &rows, page.width()) {
        Some((table, METRICS_ABOVE..)) => {
            let sides = view.names.len();
            for (line, (tone, text)) in table.lines().into_iter().enumerate() {
                if line > 0 && (line - 1) % sides == 0 {
                    page.wrapped(Tone::Plain, "", &metric(rows[(line - 1) / sides]));
                }
                page.line(tone, &text);
            }
        }
        Some((table, _)) => page.table(&table),
        None => rows.iter().for_each(|row| stacked(view, "", row, true, page)),
    }
    for remark in remarks(view, &all, options) {
        page.wrapped(Tone::Plain, "  ", &remark);
    }
}

/// The rows with headline metrics first.
pub fn ordered(set: &SetTable) -> Vec<&Row> {
    let mut rows: Vec<&Row> = set.rows.iter().collect();
    rows.sort_by_key(|row| row.family != Family::Headline);
    rows
}

/// The rows without those that no side can have a value of, which a remark below the table explains: among the workers
/// of a set of one nothing is fair or unfair.
fn in_table<'r>(rows: &[&'r Row]) -> Vec<&'r Row> {
    let has_value = |cell: &Cell| !cell.values.is_empty();
    let says_something = |row: &&Row| {
        let mut reasons = row.cells.iter().flat_map(|cell| cell.unknown.iter().map(|(_, why)| why));
        let first = reasons.next();
        row.family == Family::Headline
            || row.cells.iter().any(has_value)
            || first.is_none_or(|first| reasons.any(|why| why != first))
    };
    rows.iter().copied().filter(says_something).collect()
}

/// The columns of each table that may fit: without the rounds, and with the metrics above their rows.
const LAYOUTS: [Range<usize>; 4] = [0..7, 0..6, 1..7, 1..6];
/// The first of these in which metrics stand above.
const METRICS_ABOVE: usize = 2;

/// The table that fits and what it lacks, if one does.
fn fitting(view: View, rows: &[&Row], width: usize) -> Option<(Table, usize)> {
    let tables = LAYOUTS.into_iter().map(|columns| table(view, rows, columns));
    tables.zip(0..).find(|(table, _)| table.width() <= width)
}

/// With its unit.
fn metric(row: &Row) -> String {
    let scale = Scale::of_row(row);
    format!("{} {}", clean(&row.kind.name), scale.suffix).trim_end().to_string()
}

/// How much these names of sides take from tables of this width: columns, and whole tables.
pub fn loss(view: View, width: usize) -> usize {
    let sets = view.analysis.sets().map(|(_, set)| in_table(&ordered(set)));
    sets.map(|rows| fitting(view, &rows, width).map_or(LAYOUTS.len(), |(_, lacks)| lacks)).sum()
}

/// With these of its columns.
fn table(view: View, rows: &[&Row], columns: Range<usize>) -> Table {
    use Align::{Left, Right};
    let all = [(Left, 0), (Left, 2), (Right, 2), (Right, 2), (Left, 1), (Left, 2), (Left, 2)];
    let mut table = Table::new(all[columns.clone()].to_vec());
    let mut add = |tone, cells: [String; 7]| table.row(tone, cells[columns.clone()].to_vec());
    let needed = format!("{}s", phrases::each(view.analysis));
    let head = ["metric", "side", "median", "change", "95 %", "verdict", &needed];
    add(Tone::Bold, head.map(str::to_string));
    for row in rows {
        let scale = Scale::of_row(row);
        for (side, cell) in row.cells.iter().enumerate() {
            let metric = if side == 0 { metric(row) } else { String::new() };
            let [change, interval, verdict] = match side {
                0 => Default::default(),
                _ => change(view.analysis, row, side, ["-".to_string(), String::new()]),
            };
            let rounds = cell.judged.as_ref().and_then(phrases::rounds);
            let rounds = rounds.map(phrases::show_rounds).unwrap_or_default();
            let (side, median) = (view.names[side].clone(), scale.show_known(cell.median));
            add(tone(cell), [metric, side, median, change, interval, verdict, rounds]);
        }
    }
    table
}

fn tone(cell: &Cell) -> Tone {
    match cell.verdict() {
        Some(Verdict::Better) => Tone::Bold,
        Some(Verdict::Worse) => Tone::Bad,
        _ => Tone::Plain,
    }
}

/// Why values are unknown or verdicts open, and what is odd about values: each once, with the
/// metrics that it is true of. That an interval is wide is seen in the table.
fn remarks(View { analysis, names }: View, rows: &[&Row], options: &Options) -> Vec<String> {
    let mut found = Vec::new();
    // The number of sides that a remark can be true of.
    let (all, others) = (names.len(), names.len().saturating_sub(1));
    let each = phrases::each(analysis);
    let cells = rows.iter().flat_map(|row| row.cells.iter().zip(names).map(move |of| (row, of)));
    for (row, (cell, name)) in cells {
        let family = match row.family {
            Family::Explaining => analysis.method.explaining_verdicts,
            _ => analysis.method.headline_verdicts,
        };
        let shapes = phrases::shapes(analysis, row, cell).into_iter();
        let mut said: Vec<(String, usize)> = shapes.map(|shape| (shape, all)).collect();
        let why =
            cell.verdict().and_then(|verdict| phrases::why(&verdict, row.kind.unit, family, each));
        said.extend(why.map(|why| (why, others)));
        if let Some((_, why)) = cell.unknown.first() {
            let runs = counted(cell.unknown.len(), "run");
            said.push((format!("not known in {runs}: {}", clean(why)), all));
        }
        if options.verbose > 1 {
            said.push((statistics(cell, &Scale::of_row(row), each).join(", "), all));
        }
        let of_cell = |remark| (remark, (clean(&row.kind.name), name.as_str()));
        found.extend(said.into_iter().map(of_cell));
    }
    let shown = grouped(found).into_iter().map(|((text, sides), cells)| {
        format!("{}: {text}", phrases::listed(&phrases::with_sides(cells, sides)))
    });
    shown.collect()
}

fn statistics(cell: &Cell, scale: &Scale, each: &str) -> Vec<String> {
    let cv = cell.cv.map_or("-".to_string(), |cv| format!("{} %", significant(100.0 * cv, 2)));
    let mut said = vec![
        format!("mean {}", scale.with_suffix(cell.mean)),
        format!("cv {cv}"),
        counted(cell.values.len(), "value"),
    ];
    if let Some(judged) = &cell.judged {
        let pairs = judged.effect.map_or(0, |effect| effect.pairs());
        said.push(counted(pairs, "pair"));
        said.push(format!("p of a difference {}", phrases::p_value(judged.p_difference)));
        said.push(format!("p of SAME {}", phrases::p_value(judged.p_same)));
        said.extend(judged.decided_at.map(|rounds| format!("decided after {rounds} {each}s")));
    }
    said
}

pub const FAIRNESS_HEAD: [&str; 8] =
    ["variant", "set", "wants", "entitled", "got", "share", "solo", "Jain"];

/// The entitlement and the CPU time of each set, in CPUs of one worker.
fn fairness(work: &WorkTable, page: &mut Page) {
    let Some(found) = work.fairness.as_ref().filter(|table| !table.variants.is_empty()) else {
        return;
    };
    page.gap();
    let about = "fairness: CPUs of a worker; got over entitled; throughput over solo";
    page.wrapped(Tone::Plain, "", about);
    let mut columns = vec![(Align::Right, 2); FAIRNESS_HEAD.len()];
    columns[..2].copy_from_slice(&[(Align::Left, 0), (Align::Left, 2)]);
    let mut table = Table::new(columns);
    table.row(Tone::Bold, FAIRNESS_HEAD.map(str::to_string).to_vec());
    found.variants.iter().flat_map(fairness_rows).for_each(|row| table.row(Tone::Plain, row));
    page.table(&table);
    if let Some(text) = phrases::spoilt_fairness(found) {
        page.wrapped(Tone::Warning, "  ", &text);
    }
}

/// A row for each worker set, below [`FAIRNESS_HEAD`].
pub fn fairness_rows(of: &VariantFairness) -> impl Iterator<Item = Vec<String>> {
    let number = |reading: Reading<f64>| {
        reading.known().map_or("-".to_string(), |value| significant(value, 3))
    };
    of.sets.iter().enumerate().map(move |(at, set)| {
        let (variant, jain) = match at {
            0 => {
                let mark = if of.spoilt > 0 { phrases::SPOILT } else { "" };
                (clean(&of.variant) + mark, number(of.jain.median()))
            }
            _ => (String::new(), String::new()),
        };
        let figures = set.figures.each_ref().map(|(_, rounds)| number(rounds.median()));
        let [want, entitled, got, share, solo, ..] = figures;
        vec![variant, clean(&set.set), want, entitled, got, share, solo, jain]
    })
}
