//! Workers through the windows of a run: throughput and utilisation over time, a line for each worker.
//! Pure.

use crate::report::numbers::significant;

use super::plot::{Span, label, linear_ticks};
use super::{Axis, Chart, Data, Frame, Key, Mark, path, series, shape};

const FRAME: Frame = Frame { left: 64.0, right: 548.0, top: 18.0, bottom: 210.0 };
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 250.0;

/// What a timeline shows.
pub struct Figure {
    pub title: String,
    pub about: String,
    pub unit: &'static str,
    /// Of the lines' series, in order.
    pub names: Vec<String>,
}

/// A worker.
pub struct Line {
    pub name: String,
    /// Which of [`Figure::names`] it belongs to.
    pub series: usize,
    /// Seconds since the start barrier, and the value of the window that ended then.
    pub points: Vec<(f64, f64)>,
}

/// `None` without a window.
pub fn timeline(figure: Figure, lines: &[Line]) -> Option<Chart> {
    let points = || lines.iter().flat_map(|line| &line.points);
    points().next()?;
    let max = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max).max(1e-9);
    let [(x_ticks, x_decimals), (y_ticks, y_decimals)] =
        [max(|point| point.0), max(|point| point.1)].map(|end| linear_ticks(0.0, end));
    let end = |ticks: &[f64]| [0.0, ticks.last().copied().unwrap_or(1.0)];
    let x = Span::linear(end(&x_ticks), [FRAME.left, FRAME.right]);
    let y = Span::linear(end(&y_ticks), [FRAME.bottom, FRAME.top]);
    let ticks = |span: Span, ticks: &[f64], decimals: usize| {
        ticks.iter().map(|tick| span.tick(*tick, label(*tick, decimals))).collect()
    };
    let mark = |line: &Line| {
        let places = line.points.iter().map(|point| (x.place(point.0), y.place(point.1)));
        let places: Vec<(f64, f64)> = places.collect();
        let (class, path) = match places.as_slice() {
            [(x, y)] => ("dot", shape(line.series, *x, *y)),
            places => ("worker", path(places.iter().copied())),
        };
        let class = format!("{class} {}", series(line.series));
        Mark { class, path, label: line.name.clone() }
    };
    let marks = lines.iter().filter(|line| !line.points.is_empty()).map(mark);
    let rows = lines.iter().map(|line| {
        let values = line.points.iter().map(|(_, value)| significant(*value, 4));
        [line.name.clone()].into_iter().chain([values.collect::<Vec<_>>().join(" ")]).collect()
    });
    Some(Chart {
        about: figure.about,
        width: WIDTH,
        height: HEIGHT,
        x: Axis { title: "seconds".to_string(), ticks: ticks(x, &x_ticks, x_decimals) },
        y: Axis { title: figure.unit.to_string(), ticks: ticks(y, &y_ticks, y_decimals) },
        frame: FRAME,
        marks: marks.collect(),
        texts: Vec::new(),
        keys: figure.names.iter().enumerate().map(|(at, name)| Key::line(at, name)).collect(),
        data: Data {
            head: vec!["worker".to_string(), format!("{}, window by window", figure.title)],
            rows: rows.collect(),
        },
        title: figure.title,
    })
}
