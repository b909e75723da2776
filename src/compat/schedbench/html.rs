//! `htmlreport`: one page that needs nothing else, no network and no script: the tables of the
//! text report, and for each run its windows as two charts, throughput and utilisation.
//!
//! Input: figures. Output: HTML. Pure. The templates escape all that they are given; a run is
//! rendered at a time, so that a file of many runs costs no more memory than its figures.

use std::io::{self, Write};
use std::path::Path;

use minijinja::Environment;
use serde::Serialize;

use crate::report::clean;

use super::fairness::{self, LEGEND, Shown};
use super::figures::{Averages, RunFigures, fixed, throughput, utilisation};
use super::file::{Report, shown};
use super::text::{COLUMNS, NOTE, WORKER_COLUMNS, cells, has_fairness, worker_cells};

/// A chart, in units of its own picture.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 548.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 210.0;

/// Colours of worker sets; the seventh set has the first one's again.
const HUES: usize = 6;

/// About so many lines of a grid.
const TICKS: f64 = 5.0;

#[derive(Serialize)]
struct Head {
    file: String,
    note: Option<&'static str>,
    legend: Option<&'static str>,
    completed: usize,
    runs: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    index: usize,
    label: String,
    completed: bool,
}

#[derive(Serialize)]
struct Section {
    index: usize,
    label: String,
    completed: bool,
    columns: &'static [&'static str],
    sets: Vec<Set>,
    notes: Vec<String>,
    fairness_columns: Vec<String>,
    fairness: Option<Shown>,
    charts: Vec<Chart>,
    worker_columns: &'static [&'static str],
    workers: Vec<Row>,
}

#[derive(Serialize)]
struct Set {
    args: String,
    hue: String,
    cells: Vec<String>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    cells: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Chart {
    title: &'static str,
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    bottom: f64,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
    lines: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Tick {
    at: String,
    label: String,
}

/// The windows of a worker.
#[derive(Debug, Serialize)]
struct Line {
    worker: String,
    hue: String,
    path: String,
}

/// The page of the file at `path`.
pub fn write(
    out: &mut dyn Write,
    path: &Path,
    runs: &[RunFigures],
    averages: Averages,
) -> io::Result<()> {
    let mut templates = Environment::new();
    // Names that end in .html are what has everything escaped.
    for (name, source) in
        [("head.html", include_str!("html/head.html")), ("run.html", include_str!("html/run.html"))]
    {
        templates.add_template(name, source).map_err(io::Error::other)?;
    }
    let entry = |run: &RunFigures| {
        let RunFigures { index, completed, .. } = *run;
        Entry { index, label: clean(&run.label), completed }
    };
    let head = Head {
        file: shown(path),
        note: (averages == Averages::Right).then_some(NOTE),
        legend: has_fairness(runs).then_some(LEGEND),
        completed: runs.iter().filter(|run| run.completed).count(),
        runs: runs.iter().map(entry).collect(),
    };
    render(out, &templates, "head.html", &head)?;
    runs.iter().try_for_each(|run| render(out, &templates, "run.html", &section(run)))?;
    out.write_all(b"</body>\n</html>\n")
}

fn render(
    out: &mut dyn Write,
    templates: &Environment,
    name: &str,
    values: &impl Serialize,
) -> io::Result<()> {
    let template = templates.get_template(name).map_err(io::Error::other)?;
    let text = template.render(minijinja::value::Serde(values)).map_err(io::Error::other)?;
    writeln!(out, "{}", text.trim_end())
}

fn section(run: &RunFigures) -> Section {
    let sets = run.sets.iter().enumerate().map(|(at, set)| {
        let args: Vec<String> = set.args.iter().map(|word| clean(word)).collect();
        let cells = cells(set).map(|value| fixed(value, 2)).to_vec();
        Set { args: args.join(" "), hue: hue(at), cells }
    });
    let charts = [
        chart("Throughput of each worker, kops/s", run, throughput),
        chart("Utilisation of each worker", run, utilisation),
    ];
    let mut workers = Vec::new();
    for (at, set) in run.sets.iter().enumerate() {
        for worker in &set.workers {
            let mut cells = vec![worker.kops.to_string()];
            cells.extend(worker_cells(worker).map(|value| fixed(value, 2)));
            workers.push(Row { name: format!("{at}:{}", worker.id), cells });
        }
    }
    Section {
        index: run.index,
        label: clean(&run.label),
        completed: run.completed,
        columns: &COLUMNS,
        sets: sets.collect(),
        notes: run.notes.iter().map(|note| clean(note)).collect(),
        fairness_columns: fairness::COLUMNS
            .iter()
            .map(|title| title.join(" ").trim().to_string())
            .collect(),
        fairness: run.fairness.as_ref().map(fairness::shown),
        charts: charts.into_iter().flatten().collect(),
        worker_columns: &WORKER_COLUMNS,
        workers,
    }
}

fn hue(set: usize) -> String {
    format!("s{}", set % HUES)
}

/// A line for each worker through its windows, each at the moment that it ended; `None` for a
/// run without windows.
fn chart(
    title: &'static str,
    run: &RunFigures,
    value: fn(&Report, &Report) -> f64,
) -> Option<Chart> {
    let mut workers = Vec::new();
    for (at, set) in run.sets.iter().enumerate() {
        for worker in &set.workers {
            let pairs = worker.reports.windows(2);
            let points: Vec<(f64, f64)> = pairs
                .map(|pair| (pair[1].now_ns as f64 / 1e9, value(&pair[0], &pair[1])))
                .collect();
            if !points.is_empty() {
                workers.push((at, worker.id, points));
            }
        }
    }
    let points = || workers.iter().flat_map(|(_, _, points)| points);
    if workers.is_empty() {
        return None;
    }
    let x_end = points().fold(0.0, |max: f64, point| max.max(point.0));
    let (x_step, x_end) = scale(x_end);
    let (y_step, y_end) = scale(points().fold(0.0, |max: f64, point| max.max(point.1)));
    let x = |value: f64| LEFT + value / x_end * (RIGHT - LEFT);
    let y = |value: f64| BOTTOM - value / y_end * (BOTTOM - TOP);
    let lines = workers.iter().map(|(at, id, points)| {
        let path = path(points.iter().map(|point| (x(point.0), y(point.1))));
        Line { worker: format!("worker {at}:{id}"), hue: hue(*at), path }
    });
    Some(Chart {
        title,
        width: WIDTH,
        height: HEIGHT,
        left: LEFT,
        right: RIGHT,
        bottom: BOTTOM,
        x_ticks: ticks(x_step, x_end, x),
        y_ticks: ticks(y_step, y_end, y),
        lines: lines.collect(),
    })
}

/// A round step, and the first multiple of it that is not below `max`.
fn scale(max: f64) -> (f64, f64) {
    if !max.is_finite() || max <= 0.0 {
        return (1.0, 1.0);
    }
    let rough = max / TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    let step = step.into_iter().find(|step| *step >= rough).unwrap_or(10.0 * power);
    (step, (max / step).ceil().max(1.0) * step)
}

fn ticks(step: f64, end: f64, place: impl Fn(f64) -> f64) -> Vec<Tick> {
    let digits = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    let count = (end / step).round() as u32;
    let tick = |at: u32| {
        let value = f64::from(at) * step;
        Tick { at: format!("{:.1}", place(value)), label: format!("{value:.digits$}") }
    };
    (0..=count).map(tick).collect()
}

/// A line; of one point a dot, which the round end of a line of no length is.
fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (at, (x, y)) in points.enumerate() {
        path.push_str(&format!("{}{x:.1} {y:.1}", if at == 0 { "M" } else { "L" }));
    }
    if !path.contains('L') {
        path.push_str("h0");
    }
    path
}

#[cfg(test)]
mod tests;
