//! `loads`: how good each side is to the baseline, from light to heavy load: a line for each work
//! whose load is an axis, a column for each load. Above 1 is better, whatever the metric: a ratio of
//! times is turned around. Pure.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::analysis::{Analysis, Family, Row, WorkTable};
use crate::model::Direction;
use crate::stats::Verdict;

use super::layout::{Align, Page, Table, Tone, clean};
use super::numbers::ratio;
use super::{Format, Options, Render};

pub const LOADS: Format = Format {
    name: "loads",
    about: "each side over the baseline from light to heavy load, where load is an axis",
    explains: |_| false,
    render: Render::Each(write),
};

fn write(analysis: &Analysis, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(options);
    let lines = lines(analysis);
    if lines.is_empty() {
        let text = "No workload has its load as an axis, as load = [\"1x\", \"2x\"] or parameters = { \
                    threads = [\"1x\", \"2x\"] }.";
        page.wrapped(Tone::Plain, "", text);
    }
    let mut loads: Vec<f64> = lines.values().flatten().map(|point| point.load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let baseline = analysis.sides.first().map_or("", |side| &side.label);
    for (side, about) in analysis.sides.iter().enumerate().skip(1) {
        if lines.is_empty() {
            break;
        }
        let title = format!("{} over {}", clean(&about.label), clean(baseline));
        page.wrapped(Tone::Bold, "", &format!("{title}; loads are times the CPUs"));
        let columns = loads.iter().map(|_| (Align::Right, 2));
        let mut table = Table::new([(Align::Left, 0)].into_iter().chain(columns).collect());
        let heads = loads.iter().map(|load| format!("{load}x "));
        table.row(Tone::Plain, [String::new()].into_iter().chain(heads).collect());
        for (label, points) in &lines {
            let cell = |load: &f64| {
                let point = points.iter().find(|point| point.load == *load);
                point.map_or(String::new(), |point| point.shown(analysis, side))
            };
            let cells = loads.iter().map(cell);
            table.row(Tone::Plain, [clean(label)].into_iter().chain(cells).collect());
        }
        page.table(&table);
        page.gap();
    }
    if !lines.is_empty() {
        let legend = "Above 1 is better, of times too. + BETTER, - WORSE, = SAME, no sign: open.";
        page.wrapped(Tone::Plain, "", legend);
    }
    out.write_all(page.text().as_bytes())
}

/// A row at one load.
struct Point<'a> {
    load: f64,
    row: &'a Row,
}

impl Point<'_> {
    fn shown(&self, analysis: &Analysis, side: usize) -> String {
        let Some(found) = analysis.ratio(self.row, side) else { return "? ".to_string() };
        let better = match self.row.kind.direction {
            Direction::LowerIsBetter => 1.0 / found.ratio,
            _ => found.ratio,
        };
        let sign = match self.row.cells[side].verdict() {
            Some(Verdict::Better) => "+",
            Some(Verdict::Worse) => "-",
            Some(Verdict::Same) => "=",
            _ => " ",
        };
        format!("{}{sign}", ratio(better))
    }
}

/// By what they are called, in the order of names.
fn lines(analysis: &Analysis) -> BTreeMap<String, Vec<Point<'_>>> {
    let mut lines: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for (work, set, row) in analysis.rows_of(Family::Headline) {
        let Some((load, label)) = load_of(work) else { continue };
        let set = if work.sets.len() > 1 { format!(" {}", set.name) } else { String::new() };
        let label = format!("{label}{set} {}", row.kind.name);
        lines.entry(label).or_default().push(Point { load, row });
    }
    lines
}

/// Its load, and its label without it.
fn load_of(work: &WorkTable) -> Option<(f64, String)> {
    let times = |value: &str| value.strip_suffix('x')?.parse::<f64>().ok();
    let load = work.axes.iter().find_map(|(_, value)| times(value))?;
    let others = work.axes.iter().filter(|(_, value)| times(value).is_none());
    let others: String = others.map(|(name, value)| format!(" {name}={value}")).collect();
    Some((load, format!("{}{others}", work.name)))
}
