//! `svg`: one chart for a mail or a paper. The bars from light to heavy load where load is an axis, else
//! the ratios of all headline metrics. Pure.

use std::io::{self, Write};

use minijinja::value::Serde;
use minijinja::{Value, context};

use crate::analysis::Analysis;

use super::chart::{self, Chart, LINE, Width, letters, lines_of};
use super::layout::{clean, shortened};
use super::{Format, Render, loads, page, phrases};

pub const SVG: Format = Format {
    name: "svg",
    about: "one chart: bars from light to heavy load, or the ratios of all headline metrics",
    explains: |_| false,
    render: Render::Page(write),
};

/// Below the last line of a chart's title, and around its keys.
const GAP: f64 = 8.0;
const KEY: f64 = 30.0;
/// A letter of the title is so much wider than others.
const TITLE: f64 = 1.25;

pub fn write(analyses: &[Analysis], out: &mut dyn Write) -> io::Result<()> {
    let own = [("alone.svg.html", include_str!("page/alone.svg.html"))];
    let templates = page::templates(&own).map_err(io::Error::other)?;
    let (mut width, mut height) = (320.0_f64, 0.0);
    let (mut titles, mut parts) = (Vec::new(), Vec::new());
    for analysis in analyses {
        for chart in charts(analysis) {
            titles.push(chart.title.clone());
            let part = Part::new(chart, &caption(analysis));
            parts.push(context! { top => height, ..part.values });
            (width, height) = (width.max(part.width), height + part.height);
        }
    }
    let mut title = titles.join("; ");
    if parts.is_empty() {
        (title, height) = ("nothing was measured that can be drawn".to_string(), 40.0);
    }
    let picture = context! { title, width, height, style => page::alone_style(), parts };
    page::render(out, &templates, "alone.svg.html", &picture)
}

fn charts(analysis: &Analysis) -> Vec<Chart> {
    let names = phrases::names(&analysis.sides, usize::MAX, clean, "…");
    let loads = chart::loads(analysis, &names);
    // A work without load is in the forest of all.
    let forest = || chart::forest(analysis, &names);
    let is_whole = analysis.works.iter().all(|work| loads::load_of(work).is_some());
    let forest = (loads.is_empty() || !is_whole).then(forest).flatten();
    let charts: Vec<Chart> = loads.into_iter().chain(forest).collect();
    // Without a second variant there is no ratio.
    if charts.is_empty() { chart::values(analysis, &names) } else { charts }
}

/// The work and the place of a measurement: a picture is passed on without its report.
pub fn caption(analysis: &Analysis) -> String {
    match analysis.plans.as_slice() {
        [plan] => {
            let about = phrases::plan(analysis, plan);
            clean(&format!("{}: {about}; plan {}", plan.title, plan.id))
        }
        _ => phrases::analysis_time(analysis).unwrap_or_default(),
    }
}

/// A chart below others, as the template takes it.
struct Part {
    width: f64,
    height: f64,
    values: Value,
}

impl Part {
    /// The drawing of a column, below its title and keys.
    fn new(chart: Chart, caption: &str) -> Part {
        let Chart { title, measure, keys, drawings, .. } = chart;
        let of_column = drawings.into_iter().find(|drawing| drawing.room == Width::Wide);
        let mut drawing = of_column.expect("each chart has one");
        let width = drawing.width;
        let title = phrases::joined([title, measure], "; ");
        let placed = |lines: Vec<String>, from: f64| -> Vec<Value> {
            let placed = lines.into_iter().zip(1..);
            placed
                .map(|(text, line)| context! { y => from + LINE * f64::from(line), text })
                .collect()
        };
        let title = placed(lines_of(&title, width / TITLE), 0.0);
        let mut place = (0.0, LINE * title.len() as f64 + GAP);
        let mut placed_keys = Vec::new();
        for mut key in keys {
            key.name = shortened(&key.name, ((width - KEY) / letters("x")) as usize);
            let units = KEY + letters(&key.name) + 2.0 * GAP;
            if place.0 > 0.0 && place.0 + units > width {
                place = (0.0, place.1 + LINE + 2.0);
            }
            placed_keys.push(context! { x => place.0, y => place.1, key => Serde(key) });
            place.0 += units;
        }
        let head = place.1 + LINE + GAP;
        drawing.height += head;
        let lines = placed(lines_of(caption, width), drawing.height);
        let height = drawing.height + LINE * lines.len() as f64 + GAP;
        let values = context! {
            head,
            width,
            height,
            title,
            keys => placed_keys,
            drawing => Serde(drawing),
            // As it is read out, and as it is written in lines.
            about => caption,
            caption => lines,
        };
        Part { width, height, values }
    }
}

#[cfg(test)]
mod tests;
