//! `loads`: how good each side is to the baseline, from light to heavy load: a line for each work
//! whose load is an axis, a column for each load. Above 1 is better, whatever the metric: a ratio of
//! times is turned around. Pure.

use std::io::{self, Write};

use crate::analysis::{Analysis, Family, Row, WorkTable, grouped};
use crate::model::Direction;
use crate::stats::Verdict;

use super::answer::View;
use super::layout::{Align, Page, Table, Tone, clean};
use super::numbers::{Change, ratio};
use super::text::header;
use super::{Format, Options, Render};

pub const LOADS: Format = Format {
    name: "loads",
    about: "each side over the baseline from light to heavy load, where load is an axis",
    explains: |_| false,
    render: Render::Each(write),
};

fn write(analysis: &Analysis, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(options);
    let names: Vec<String> = analysis.sides.iter().map(|side| clean(&side.label)).collect();
    header(View { analysis, names: &names }, options, &mut page);
    page.gap();
    let lines = lines(analysis);
    if lines.is_empty() {
        let text = "No workload has its load as an axis, as load = [\"1x\", \"2x\"] or parameters = { \
                    threads = [\"1x\", \"2x\"] }.";
        page.wrapped(Tone::Plain, "", text);
    }
    let mut loads: Vec<f64> =
        lines.iter().flat_map(|(_, points)| points).map(|point| point.load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    for (side, name) in names.iter().enumerate().skip(1).filter(|_| !lines.is_empty()) {
        let title = format!("{name} over {}; loads are times the CPUs", names[0]);
        page.wrapped(Tone::Bold, "", &title);
        let columns = loads.iter().map(|_| (Align::Right, 2));
        let mut table = Table::new([(Align::Left, 0)].into_iter().chain(columns).collect());
        let heads = loads.iter().map(|load| format!("{load}x "));
        table.row(Tone::Plain, [String::new()].into_iter().chain(heads).collect());
        for (label, points) in &lines {
            let cell = |load: &f64| {
                let point = points.iter().find(|point| point.load == *load);
                point.map_or(String::new(), |point| point.format_better(analysis, side))
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
    if !lines.iter().flat_map(|(_, points)| points).all(|point| point.has_ratio(analysis)) {
        let legend = format!(
            "Where a value is 0 there is no ratio: a difference to the baseline has its unit. {NONE}: \
             not measured on both sides, or 0 on both."
        );
        page.wrapped(Tone::Plain, "", &legend);
    }
    out.write_all(page.text().as_bytes())
}

/// In place of a ratio, where there is no difference either.
const NONE: &str = "none";

type Limits = Option<[f64; 2]>;

/// A row at one load.
pub struct Point<'a> {
    pub load: f64,
    row: &'a Row,
}

impl Point<'_> {
    fn format_better(&self, analysis: &Analysis, side: usize) -> String {
        if let Some((better, _, sign)) = self.better(analysis, side) {
            return format!("{}{sign:1}", ratio(better));
        }
        match self.difference(analysis, side) {
            Some((difference, sign)) => format!("{difference}{sign:1}"),
            None => format!("{NONE} "),
        }
    }

    fn has_ratio(&self, analysis: &Analysis) -> bool {
        (1..analysis.sides.len()).all(|side| self.better(analysis, side).is_some())
    }

    /// How many times as good as the baseline, its 95 % interval unless it is exact, and a sign of the
    /// verdict.
    pub fn better(&self, analysis: &Analysis, side: usize) -> Option<(f64, Limits, &'static str)> {
        let found = analysis.ratio(self.row, side)?;
        let limits = found.interval.filter(|_| !analysis.is_exact()).map(|of| [of.low, of.high]);
        let (better, limits) = match self.row.kind.direction {
            Direction::LowerIsBetter => {
                (1.0 / found.ratio, limits.map(|[low, high]| [1.0 / high, 1.0 / low]))
            }
            _ => (found.ratio, limits),
        };
        Some((better, limits, self.sign(side)))
    }

    /// The difference of a side that has no ratio, in words, and a sign of the verdict.
    pub fn difference(&self, analysis: &Analysis, side: usize) -> Option<(String, &'static str)> {
        let effect = analysis.effect(self.row, side).filter(|effect| effect.ratio().is_none())?;
        Some((Change::from_effect(&effect, self.row.kind.unit).change, self.sign(side)))
    }

    fn sign(&self, side: usize) -> &'static str {
        match self.row.cells[side].verdict() {
            Some(Verdict::Better) => "+",
            Some(Verdict::Worse) => "-",
            Some(Verdict::Same) => "=",
            _ => "",
        }
    }
}

/// By what they are called, in the order of the plan.
pub fn lines(analysis: &Analysis) -> Vec<(String, Vec<Point<'_>>)> {
    let points = analysis.rows_of(Family::Headline).filter_map(|(work, set, row)| {
        let (load, label) = load_of(work)?;
        let set = if work.sets.len() > 1 { format!(" {}", set.name) } else { String::new() };
        Some((format!("{label}{set} {}", row.kind.name), Point { load, row }))
    });
    grouped(points)
}

/// Its load, and its label without it.
pub fn load_of(work: &WorkTable) -> Option<(f64, String)> {
    let times = |value: &str| value.strip_suffix('x')?.parse::<f64>().ok();
    let load = work.axes.iter().find_map(|(_, value)| times(value))?;
    let others = work.axes.iter().filter(|(_, value)| times(value).is_none());
    let others: String = others.map(|(name, value)| format!(" {name}={value}")).collect();
    Some((load, format!("{}{others}", work.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Unit;
    use crate::report::testing::{self, HIGHER, LOWER, headline, render, values, words};

    /// A report of works with these axes, each with one row.
    fn shown(works: Vec<(&[(&str, &str)], Row)>) -> String {
        let mut analysis = testing::ordinary();
        let own = analysis.works[0].clone();
        let works = works.into_iter().map(|(axes, row)| {
            let mut work = WorkTable { name: "w".to_string(), ..own.clone() };
            work.axes = axes.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
            work.sets.truncate(1);
            work.sets[0].rows = vec![row];
            work
        });
        analysis.works = works.collect();
        words(&render(&LOADS, &analysis, Options::default()))
    }

    #[test]
    fn loads_are_columns_and_better_is_above_1() {
        let row = |metric: &str, direction, verdict, of: f64| {
            let cell = values(of, 0.0).judged(verdict, of, of, of);
            headline(metric, Unit::OpsPerS, direction, vec![values(1.0, 0.0), cell])
        };
        let shown = shown(vec![
            (&[("threads", "16x")], row("rate", HIGHER, Verdict::Better, 1.5)),
            (&[("threads", "2x")], row("rate", HIGHER, Verdict::Same, 1.0)),
            (&[("n", "1"), ("load", "0.5x")], row("time", LOWER, Verdict::Worse, 2.0)),
            (&[("n", "1")], row("other", HIGHER, Verdict::Better, 3.0)),
        ]);
        assert!(shown.contains("0.5x 2x 16x w rate 1.000= 1.500+ w n=1 time 0.500- "), "{shown}");
        assert!(!shown.contains("other") && !shown.contains("no ratio"), "{shown}");
    }

    #[test]
    fn where_there_is_no_ratio_stands_a_difference_or_that_there_is_none() {
        let row = |of: f64| {
            headline("rate", Unit::OpsPerS, HIGHER, vec![values(0.0, 0.0), values(of, 0.0)])
        };
        let shown = shown(vec![(&[("load", "1x")], row(5.0)), (&[("load", "2x")], row(0.0))]);
        assert!(shown.contains("w rate +5.00 /s none ") && shown.contains("no ratio"), "{shown}");
        assert!(!shown.contains('?'), "{shown}");
    }
}
