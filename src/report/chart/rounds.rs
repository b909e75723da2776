//! The values of a metric in the order in which they were measured, so that drift and outliers show.
//! Pure.
//!
//! Exact values have no order that matters: those of one seed are joined.

use std::collections::{BTreeMap, HashMap};

use crate::analysis::{Analysis, Row, SetTable, WorkTable};
use crate::report::layout::clean;
use crate::report::numbers::Scale;
use crate::report::phrases::place;

use super::plot::{Span, axis, extent, labels, round};
use super::{Axis, Chart, Data, Drawing, Key, Mark, Width, measure, path, series, shape};

/// The most dots that have labels: more are a cloud, and the table has them.
const MAX_LABELLED: usize = 2000;

/// A dot: its column, side, round and value.
type Dot = (f64, usize, u32, f64);

/// `None` without values.
pub fn rounds(
    analysis: &Analysis,
    (work, set, row): (&WorkTable, &SetTable, &Row),
    names: &[String],
) -> Option<Chart> {
    let is_exact = analysis.is_exact();
    let dots = dots(work, row, is_exact);
    extent(dots.iter().map(|(.., value)| *value))?;
    let scale = Scale::of_row(row);
    Some(Chart {
        title: format!("{}: {} in the order measured", place(work, set), clean(&row.kind.name)),
        measure: measure(row.kind.unit, scale.suffix, &set.ops, row.kind.direction),
        about: about(is_exact).to_string(),
        keys: names.iter().enumerate().map(|(at, name)| Key::dot(at, name)).collect(),
        data: data(row, names, &scale),
        drawings: Width::IN_COLUMNS.map(|room| drawing(room, (row, &dots), names, is_exact)).into(),
    })
}

fn drawing(room: Width, (row, dots): (&Row, &[Dot]), names: &[String], is_exact: bool) -> Drawing {
    let scale = Scale::of_row(row);
    let [low, high] = extent(dots.iter().map(|(.., value)| *value)).unwrap_or([0.0, 1.0]);
    let (_, ticks) = axis(low, high, [0.0, 1.0]);
    let labels = labels(&ticks, &scale);
    let frame = room.frame(labels.iter().map(String::as_str));
    let mut drawing = Drawing::new(room, frame);
    let (y, _) = axis(low, high, [frame.bottom, frame.top]);
    let columns = dots.iter().map(|(column, ..)| *column).fold(1.0, f64::max);
    let x = Span::linear([-0.5, columns + 0.5], [frame.left, frame.right]);
    let title = if is_exact { "seeds" } else { "runs in the order measured" };
    drawing.x.title = title.to_string();
    let ticks = ticks.iter().zip(labels).map(|(tick, label)| y.tick(*tick, label)).collect();
    drawing.y = Axis { title: y.title(scale.suffix), ticks };
    if is_exact {
        drawing.marks.extend(trajectories(dots, x, y));
    }
    drawing.marks.extend(medians(row, y, [frame.left, frame.right]));
    drawing.marks.extend(dots.iter().map(|&(column, side, seed, value)| {
        let label =
            format!("{}, round {}: {}", names[side], seed + 1, scale.with_suffix(Some(value)));
        Mark {
            class: format!("dot {}", series(side)),
            path: shape(side, x.place(column), y.place(value)),
            label: if dots.len() <= MAX_LABELLED { label } else { String::new() },
        }
    }));
    drawing
}

fn about(is_exact: bool) -> &'static str {
    if is_exact {
        "Each dot is an exact run; a line joins the runs of one seed, dashed lines are medians."
    } else {
        "Each dot is a run, dashed lines are medians."
    }
}

fn dots(work: &WorkTable, row: &Row, is_exact: bool) -> Vec<Dot> {
    let mut order: Vec<((usize, usize), usize, u32)> = Vec::new();
    for (side, runs) in work.runs.iter().enumerate() {
        order.extend(runs.iter().map(|run| ((run.plan, run.order), side, run.round)));
    }
    order.sort_unstable();
    let place: HashMap<(usize, u32), f64> = if is_exact {
        HashMap::new()
    } else {
        order
            .iter()
            .enumerate()
            .map(|(at, (_, side, round))| ((*side, *round), at as f64))
            .collect()
    };
    let mut dots = Vec::new();
    for (side, cell) in row.cells.iter().enumerate() {
        dots.extend(cell.values.iter().map(|(round, value)| {
            let column = place.get(&(side, *round)).copied().unwrap_or(f64::from(*round));
            (column, side, *round, *value)
        }));
    }
    dots
}

/// A line for each seed through all sides that have it.
fn trajectories(dots: &[Dot], x: Span, y: Span) -> Vec<Mark> {
    let mut seeds: BTreeMap<u32, Vec<&Dot>> = BTreeMap::new();
    dots.iter().for_each(|dot| seeds.entry(dot.2).or_default().push(dot));
    let lines = seeds.into_values().filter(|dots| dots.len() > 1).map(|dots| Mark {
        class: "joined".to_string(),
        path: path(dots.iter().map(|(column, .., value)| (x.place(*column), y.place(*value)))),
        label: String::new(),
    });
    lines.collect()
}

fn medians(row: &Row, y: Span, [left, right]: [f64; 2]) -> impl Iterator<Item = Mark> {
    row.cells.iter().enumerate().filter_map(move |(side, cell)| {
        let at = round(y.place(cell.median?));
        let path = format!("M{left} {at}H{right}");
        Some(Mark { class: format!("median {}", series(side)), path, label: String::new() })
    })
}

fn data(row: &Row, names: &[String], scale: &Scale) -> Data {
    let mut rounds: BTreeMap<u32, Vec<Option<f64>>> = BTreeMap::new();
    for (side, cell) in row.cells.iter().enumerate() {
        for (round, value) in &cell.values {
            rounds.entry(*round).or_insert_with(|| vec![None; row.cells.len()])[side] =
                Some(*value);
        }
    }
    let unit = if scale.suffix.is_empty() { String::new() } else { format!(", {}", scale.suffix) };
    let head = [format!("round{unit}")].into_iter().chain(names.iter().cloned());
    let rows = rounds.into_iter().map(|(round, values)| {
        let values = values.into_iter().map(|value| scale.show_known(value));
        [(round + 1).to_string()].into_iter().chain(values).collect()
    });
    Data { head: head.collect(), rows: rows.collect() }
}
