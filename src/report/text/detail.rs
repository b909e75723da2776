//! What `-v` opens: the sides, every metric with medians and rounds, fairness and the switches
//! that explain a throughput; with `-vv` means, spreads and p-values. Pure.

use crate::analysis::{Analysis, Cell, Family, Row, SetTable, Side, VariantFairness, WorkTable};
use crate::model::Reading;
use crate::report::Options;
use crate::report::layout::{Align, Page, Table, Tone, clean};
use crate::report::numbers::{Change, counted, significant};
use crate::report::phrases;
use crate::stats::{Verdict, Why};

use super::rows::{RowScale, stacked};

pub fn write(analysis: &Analysis, names: &[String], options: &Options, page: &mut Page) {
    page.gap();
    // Sides of several plans are in the header.
    if let [_] = analysis.plans.as_slice() {
        for (side, name) in analysis.sides.iter().zip(names) {
            page.wrapped(Tone::Plain, &format!("{name:12}  "), &about(side));
        }
    }
    page.wrapped(Tone::Plain, "method        ", &phrases::method(analysis).join("; "));
    for work in &analysis.works {
        page.gap();
        page.wrapped(Tone::Bold, "== ", &clean(&work.label));
        for set in &work.sets {
            self::set(analysis, set, names, options, page);
        }
        fairness(work, page);
    }
}

/// What the runs of a side have in common, with the knobs of its variant.
pub fn about(side: &Side) -> String {
    let knobs = match side.variants.as_slice() {
        [variant] => clean(&phrases::knobs(&variant.knobs)),
        _ => String::new(),
    };
    let parts = [knobs, phrases::about(side)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

fn set(analysis: &Analysis, set: &SetTable, names: &[String], options: &Options, page: &mut Page) {
    page.gap();
    page.wrapped(Tone::Plain, "", &clean(&format!("{}: {}", set.name, phrases::set(set))));
    let tables = [true, false].map(|with_rounds| table(analysis, set, names, with_rounds));
    match tables.iter().find(|table| table.width() <= page.width()) {
        Some(table) => page.table(table),
        None => set.rows.iter().for_each(|row| {
            stacked("", names, row, page, |row, side, _| change_to(analysis, row, side))
        }),
    }
    for (text, cells) in remarks(analysis, set, names, options) {
        page.wrapped(Tone::Plain, "  ", &format!("{}: {text}", cells.join("; ")));
    }
}

fn table(analysis: &Analysis, set: &SetTable, names: &[String], with_rounds: bool) -> Table {
    use Align::{Left, Right};
    let columns = [(Left, 0), (Left, 2), (Right, 2), (Right, 2), (Left, 1), (Left, 2), (Left, 2)];
    let columns = &columns[..if with_rounds { 7 } else { 6 }];
    let mut table = Table::new(columns.to_vec());
    let mut add = |tone, cells: [String; 7]| {
        table.row(tone, cells.into_iter().take(columns.len()).collect());
    };
    let head = ["metric", "side", "median", "change", "95 %", "verdict", "rounds"];
    add(Tone::Bold, head.map(str::to_string));
    for row in &set.rows {
        let scale = RowScale::new(row);
        let metric = format!("{} {}", clean(&row.kind.name), scale.suffix());
        for (side, cell) in row.cells.iter().enumerate() {
            let metric = if side == 0 { metric.trim_end().to_string() } else { String::new() };
            let [change, interval, verdict] = match side {
                0 => [const { String::new() }; 3],
                _ => change_to(analysis, row, side),
            };
            let rounds = cell.verdict().as_ref().and_then(phrases::rounds);
            let rounds = rounds.map(phrases::show_rounds).unwrap_or_default();
            let (side, median) = (names[side].clone(), scale.show(cell.median));
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

/// Also of what explains, which is compared and not judged.
fn change_to(analysis: &Analysis, row: &Row, side: usize) -> [String; 3] {
    let verdict = phrases::verdict(row, &row.cells[side]).unwrap_or_default().to_string();
    match analysis.ratio(row, side).as_ref().map(Change::of) {
        Some(Change { change, interval }) => [change, interval, verdict],
        None => ["-".to_string(), String::new(), verdict],
    }
}

/// Why values are unknown or verdicts open, and what is odd about values: each with the cells that
/// it is true of. That an interval is wide is seen in the table.
fn remarks(
    analysis: &Analysis,
    set: &SetTable,
    names: &[String],
    options: &Options,
) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let cells =
        set.rows.iter().flat_map(|row| row.cells.iter().zip(names).map(move |of| (row, of)));
    for (row, (cell, name)) in cells {
        let family = match row.family {
            Family::Explaining => analysis.method.explaining_verdicts,
            _ => analysis.method.headline_verdicts,
        };
        let is_noise =
            |verdict: &Verdict| matches!(verdict, Verdict::Inconclusive { why: Why::Noise, .. });
        let mut said = phrases::shapes(analysis, row, cell);
        let verdict = cell.verdict().filter(|verdict| !is_noise(verdict));
        said.extend(verdict.and_then(|verdict| phrases::why(&verdict, family)));
        if let Some((_, why)) = cell.unknown.first() {
            let runs = counted(cell.unknown.len(), "run");
            said.push(format!("not known in {runs}: {}", clean(why)));
        }
        if options.verbose > 1 {
            said.push(statistics(cell, &RowScale::new(row)).join(", "));
        }
        for text in said {
            let cell = format!("{}, {name}", clean(&row.kind.name));
            match found.iter_mut().find(|(known, _)| *known == text) {
                Some((_, cells)) => cells.push(cell),
                None => found.push((text, vec![cell])),
            }
        }
    }
    found
}

fn statistics(cell: &Cell, scale: &RowScale) -> Vec<String> {
    let cv = cell.cv.map_or("-".to_string(), |cv| format!("{} %", significant(100.0 * cv, 2)));
    let mut said = vec![
        format!("mean {}", scale.show(cell.mean)),
        format!("cv {cv}"),
        counted(cell.values.len(), "value"),
    ];
    if let Some(judged) = &cell.judged {
        let pairs = judged.ratio.map_or(0, |ratio| ratio.pairs);
        said.push(counted(pairs, "pair"));
        said.push(format!("p of a difference {}", phrases::p_value(judged.p_difference)));
        said.push(format!("p of SAME {}", phrases::p_value(judged.p_same)));
        said.extend(judged.decided_at.map(|rounds| format!("decided after {rounds} rounds")));
    }
    said
}

/// What each set was entitled to and got, in CPUs of one worker.
fn fairness(work: &WorkTable, page: &mut Page) {
    let Some(found) = work.fairness.as_ref().filter(|table| !table.variants.is_empty()) else {
        return;
    };
    page.gap();
    let about = "fairness: CPUs of a worker; got over entitled; throughput over solo";
    page.wrapped(Tone::Plain, "", about);
    let head = ["variant", "set", "wants", "entitled", "got", "share", "solo", "Jain"];
    let rows: Vec<[String; 8]> = found.variants.iter().flat_map(fairness_rows).collect();
    let columns = [(Align::Left, 0), (Align::Left, 2)];
    let numbers = std::iter::repeat_n((Align::Right, 2), 6);
    let mut table = Table::new(columns.into_iter().chain(numbers).collect());
    table.row(Tone::Bold, head.map(str::to_string).to_vec());
    rows.iter().for_each(|row| table.row(Tone::Plain, row.to_vec()));
    if table.width() <= page.width() {
        page.table(&table);
        return;
    }
    for row in rows {
        let cells = row.iter().zip(head).filter(|(cell, _)| !cell.is_empty());
        let said: Vec<String> = cells.map(|(cell, head)| format!("{head} {cell}")).collect();
        page.wrapped(Tone::Plain, "- ", &said.join(", "));
    }
}

fn fairness_rows(of: &VariantFairness) -> impl Iterator<Item = [String; 8]> {
    let number = |reading: Reading<f64>| {
        reading.known().map_or("-".to_string(), |value| significant(value, 3))
    };
    of.sets.iter().enumerate().map(move |(at, set)| {
        let is_first = at == 0;
        [
            if is_first { clean(&of.variant) } else { String::new() },
            clean(&set.set),
            number(set.want.median()),
            number(set.entitled.median()),
            number(set.got.median()),
            number(set.got_over_entitled.median()),
            number(set.throughput_vs_solo.median()),
            if is_first { number(of.jain.median()) } else { String::new() },
        ]
    })
}
