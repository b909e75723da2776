//! `htmlreport`: one page that needs nothing else, no network and no script: the tables of the
//! text report, and for each run its windows as two charts, throughput and utilisation.
//!
//! Input: figures. Output: HTML. Pure. The templates escape all that they are given; a run is
//! rendered at a time, so that a file of many runs costs no more memory than its figures.

use std::io::{self, Write};
use std::path::Path;

use minijinja::value::Serde;
use minijinja::{Value, context};

use crate::model::clean_path;
use crate::report::chart::{self, Chart, Figure, HUES, Line};
use crate::report::{clean, page};

use super::fairness::{self, LEGEND};
use super::figures::{Averages, RunFigures, fixed, throughput, utilisation};
use super::file::Report;
use super::text::{COLUMNS, NOTE, WORKER_COLUMNS, cells, has_fairness, worker_cells};

/// The page of the file at `path`.
pub fn write(
    out: &mut dyn Write,
    path: &Path,
    runs: &[RunFigures],
    averages: Averages,
) -> io::Result<()> {
    let own = [
        ("head.html", include_str!("html/head.html")),
        ("run.html", include_str!("html/run.html")),
    ];
    let templates = page::templates(&own).map_err(io::Error::other)?;
    let style = page::style();
    let entry = |run: &RunFigures| {
        let RunFigures { index, completed, .. } = *run;
        context! { index, label => clean(&run.label), completed }
    };
    let head = context! {
        policy => page::policy(&style, Some(page::SCRIPT), page::Forms::None),
        style,
        file => clean_path(path),
        note => (averages == Averages::Right).then_some(NOTE),
        legend => has_fairness(runs).then_some(LEGEND),
        completed => runs.iter().filter(|run| run.completed).count(),
        runs => runs.iter().map(entry).collect::<Vec<_>>(),
    };
    page::render(out, &templates, "head.html", &head)?;
    runs.iter().try_for_each(|run| page::render(out, &templates, "run.html", &section(run)))?;
    write!(out, "</main>\n<script>{}</script>\n</body>\n</html>\n", page::SCRIPT)
}

fn section(run: &RunFigures) -> Value {
    let sets = run.sets.iter().enumerate().map(|(at, set)| {
        let args: Vec<String> = set.args.iter().map(|word| clean(word)).collect();
        let cells = cells(set).map(|value| fixed(value, 2)).to_vec();
        context! { args => args.join(" "), hue => format!("s{}", at % HUES), cells }
    });
    let charts = [
        chart("Throughput of each worker", "kops/s", run, throughput),
        chart("Utilisation of each worker", "", run, utilisation),
    ];
    let workers = run.sets.iter().enumerate().flat_map(|(at, set)| {
        set.workers.iter().map(move |worker| {
            let mut cells = vec![worker.kops.to_string()];
            cells.extend(worker_cells(worker).map(|value| fixed(value, 2)));
            context! { name => format!("{at}:{}", worker.id), cells }
        })
    });
    let fairness_columns = fairness::COLUMNS.map(|title| title.join(" ").trim().to_string());
    context! {
        index => run.index,
        label => clean(&run.label),
        completed => run.completed,
        columns => COLUMNS.to_vec(),
        sets => sets.collect::<Vec<_>>(),
        notes => run.notes.iter().map(|note| clean(note)).collect::<Vec<_>>(),
        fairness_columns => fairness_columns.to_vec(),
        fairness => Serde(run.fairness.as_ref().map(fairness::shown)),
        charts => Serde(charts.into_iter().flatten().collect::<Vec<_>>()),
        worker_columns => WORKER_COLUMNS.to_vec(),
        workers => workers.collect::<Vec<_>>(),
    }
}

/// A line for each worker through its windows, each at the moment that it ended; `None` for a
/// run without windows.
fn chart(
    title: &str,
    unit: &'static str,
    run: &RunFigures,
    value: fn(&Report, &Report) -> f64,
) -> Option<Chart> {
    let mut lines = Vec::new();
    for (set, figures) in run.sets.iter().enumerate() {
        for worker in &figures.workers {
            let pairs = worker.reports.windows(2);
            let points = pairs.map(|pair| (pair[1].now_ns as f64 / 1e9, value(&pair[0], &pair[1])));
            let name = format!("worker {set}:{}", worker.id);
            lines.push(Line {
                name,
                series: set,
                points: points.filter(|(_, value)| !value.is_nan()).collect(),
            });
        }
    }
    let figure = Figure {
        title: format!("{}: {title}", clean(&run.label)),
        measure: unit.to_string(),
        about: format!("A line for each worker of {}.", clean(&run.label)),
        unit: unit.to_string(),
        end: None,
        names: (0..run.sets.len()).map(|set| format!("set {set}")).collect(),
    };
    chart::timeline(figure, &lines)
}

#[cfg(test)]
mod tests;
