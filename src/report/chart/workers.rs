//! Workers through the windows of a run: throughput and utilisation over time, a line for each worker.
//! Pure.

use crate::report::numbers::significant;

use super::plot::{Span, label, linear_ticks};
use super::{Axis, Chart, Data, Drawing, Key, Mark, Width, path, series};

/// Seconds from the end of the first window to that of the last one: a run of a second in windows of a
/// tenth has more, a shorter run has no course to show.
const MIN_S: f64 = 0.85;

/// The texts and the axis of a timeline.
pub struct Figure {
    pub title: String,
    pub measure: String,
    pub about: String,
    pub unit: String,
    /// The end of the axis of values, where it is that of other charts; else as far as its own reach.
    pub end: Option<f64>,
    /// The names of the lines' series, in order.
    pub names: Vec<String>,
}

/// A worker.
pub struct Line {
    pub name: String,
    /// The position of its series in [`Figure::names`].
    pub series: usize,
    /// Seconds since the start barrier, and the value of the window that ended then.
    pub points: Vec<(f64, f64)>,
}

/// The greatest value of lines.
pub fn end(lines: &[Line]) -> f64 {
    lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max)
}

/// `None` where no line has a course.
pub fn timeline(figure: Figure, lines: &[Line]) -> Option<Chart> {
    let is_course = |line: &Line| match line.points.as_slice() {
        [(first, _), .., (last, _)] => last - first >= MIN_S,
        _ => false,
    };
    if !lines.iter().any(is_course) {
        return None;
    }
    let rows = lines.iter().map(|line| {
        let values = line.points.iter().map(|(_, value)| significant(*value, 4));
        [line.name.clone()].into_iter().chain([values.collect::<Vec<_>>().join(" ")]).collect()
    });
    Some(Chart {
        data: Data {
            head: vec!["worker".to_string(), format!("{}, window by window", figure.measure)],
            rows: rows.collect(),
        },
        drawings: Width::IN_COLUMNS.map(|room| drawing(room, &figure, lines)).into(),
        about: figure.about,
        measure: figure.measure,
        keys: figure.names.iter().enumerate().map(|(at, name)| Key::line(at, name)).collect(),
        title: figure.title,
    })
}

fn drawing(room: Width, figure: &Figure, lines: &[Line]) -> Drawing {
    let seconds =
        lines.iter().flat_map(|line| &line.points).map(|point| point.0).fold(0.0, f64::max);
    let [(x_ticks, x_decimals), (y_ticks, y_decimals)] =
        [seconds, figure.end.unwrap_or_else(|| end(lines))]
            .map(|end| linear_ticks(0.0, end.max(1e-9)));
    let labels: Vec<String> = y_ticks.iter().map(|tick| label(*tick, y_decimals)).collect();
    let frame = room.frame(labels.iter().map(String::as_str));
    let mut drawing = Drawing::new(room, frame);
    let end = |ticks: &[f64]| [0.0, ticks.last().copied().unwrap_or(1.0)];
    let x = Span::linear(end(&x_ticks), [frame.left, frame.right]);
    let y = Span::linear(end(&y_ticks), [frame.bottom, frame.top]);
    let seconds = x_ticks.iter().map(|tick| x.tick(*tick, label(*tick, x_decimals)));
    drawing.x = Axis { title: "seconds".to_string(), ticks: seconds.collect() };
    let ticks = y_ticks.iter().zip(labels).map(|(tick, label)| y.tick(*tick, label)).collect();
    drawing.y = Axis { title: figure.unit.clone(), ticks };
    let mark = |line: &Line| {
        let places = line.points.iter().map(|point| (x.place(point.0), y.place(point.1)));
        let class = format!("worker {}", series(line.series));
        Mark { class, path: path(places), label: line.name.clone() }
    };
    drawing.marks.extend(lines.iter().filter(|line| !line.points.is_empty()).map(mark));
    drawing
}
