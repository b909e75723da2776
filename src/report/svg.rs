//! `svg`: one chart for a mail or a paper. The bars from light to heavy load where load is an axis, else
//! the ratios of all headline metrics. Pure.

use std::io::{self, Write};

use serde::Serialize;

use crate::analysis::Analysis;

use super::chart::{self, Chart, Key};
use super::layout::clean;
use super::{Format, Render, loads, page, phrases};

pub const SVG: Format = Format {
    name: "svg",
    about: "one chart: bars from light to heavy load, or the ratios of all headline metrics",
    explains: |_| false,
    render: Render::Page(write),
};

/// The head of a chart: its title, then its keys.
const TITLE: f64 = 26.0;
const KEY_ROW: f64 = 18.0;
const CAPTION: f64 = 18.0;
/// Columns of keys, in units.
const KEY_WIDTH: f64 = 200.0;

#[derive(Serialize)]
struct Picture<'a> {
    title: String,
    width: f64,
    height: f64,
    style: &'a str,
    parts: Vec<Part>,
}

/// A chart below others.
#[derive(Serialize)]
struct Part {
    top: f64,
    head: f64,
    height: f64,
    keys: Vec<PlacedKey>,
    chart: Chart,
    caption: String,
}

#[derive(Serialize)]
struct PlacedKey {
    x: f64,
    y: f64,
    key: Key,
}

pub fn write(analyses: &[Analysis], out: &mut dyn Write) -> io::Result<()> {
    let own = [("alone.svg.html", include_str!("page/alone.svg.html"))];
    let templates = page::templates(&own).map_err(io::Error::other)?;
    let mut parts: Vec<Part> = Vec::new();
    for analysis in analyses {
        for chart in charts(analysis) {
            let top = parts.last().map_or(0.0, |part| part.top + part.height);
            parts.push(Part::new(top, chart, caption(analysis)));
        }
    }
    let titles: Vec<String> = parts.iter().map(|part| part.chart.title.clone()).collect();
    let nothing = || "nothing was measured that can be drawn".to_string();
    let picture = Picture {
        title: if titles.is_empty() { nothing() } else { titles.join("; ") },
        width: parts.iter().map(|part| part.chart.width).fold(320.0, f64::max),
        height: parts.last().map_or(40.0, |part| part.top + part.height),
        style: page::ALONE_STYLE,
        parts,
    };
    page::render(out, &templates, "alone.svg.html", &picture)
}

fn charts(analysis: &Analysis) -> Vec<Chart> {
    let names = phrases::names(&analysis.sides, usize::MAX, clean, "…");
    let loads = chart::loads(analysis, &names);
    // What has no load is in the forest of all.
    let forest = || chart::forest(analysis, &names);
    let is_whole = analysis.works.iter().all(|work| loads::load_of(work).is_some());
    let forest = (loads.is_empty() || !is_whole).then(forest).flatten();
    loads.into_iter().chain(forest).collect()
}

/// What was measured where: a picture is passed on without its report.
fn caption(analysis: &Analysis) -> String {
    match analysis.plans.as_slice() {
        [plan] => {
            let about = phrases::plan(analysis, plan);
            clean(&format!("{}: {about}; plan {}", plan.title, plan.id))
        }
        _ => phrases::analysis_time(analysis).unwrap_or_default(),
    }
}

impl Part {
    fn new(top: f64, chart: Chart, caption: String) -> Part {
        let left = chart.frame.left;
        let columns = (((chart.width - left) / KEY_WIDTH) as usize).max(1);
        let keys = chart.keys.clone();
        let place = |(at, key): (usize, Key)| PlacedKey {
            x: left + KEY_WIDTH * (at % columns) as f64,
            y: TITLE + KEY_ROW * (at / columns) as f64,
            key,
        };
        let head = TITLE + KEY_ROW * keys.len().div_ceil(columns) as f64;
        let keys = keys.into_iter().enumerate().map(place).collect();
        Part { top, head, height: head + chart.height + CAPTION, keys, chart, caption }
    }
}

#[cfg(test)]
mod tests;
