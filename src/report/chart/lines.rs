//! Values with intervals over the points of an axis, or over dates: a line for each series. Pure.

use crate::report::layout::shortened;
use crate::report::numbers::Scale;

use super::estimate::Estimate;
use super::plot::{Span, axis, extent, labels};
use super::{Axis, Drawing, LINE, Width, letters, path, series, shape};

/// Between labels of ticks.
const GAP: f64 = 10.0;
/// Series stand next to each other at a point, and fill at most this share of its step.
const SPREAD: f64 = 0.5;
const NEXT: f64 = 7.0;

pub struct Lines {
    pub x_name: String,
    /// Its name, and what a reader has to know of the distances of points.
    pub x_title: String,
    /// The points of the axis, each in lines.
    pub points: Vec<String>,
    /// Whether they have an order, so that a line joins them.
    pub is_joined: bool,
    pub series: Vec<String>,
    /// For each series, a value at each point.
    pub values: Vec<Vec<Option<Estimate>>>,
    pub scale: Scale,
    pub unit: String,
}

impl Lines {
    /// The least and the greatest value; `None` without one.
    pub fn extent(&self) -> Option<[f64; 2]> {
        extent(self.values.iter().flatten().flatten().flat_map(Estimate::reach))
    }

    /// The axis holds these values.
    pub fn draw(&self, values: [f64; 2]) -> Vec<Drawing> {
        Width::IN_COLUMNS.map(|room| self.drawing(room, values)).into()
    }

    fn drawing(&self, room: Width, [low, high]: [f64; 2]) -> Drawing {
        let (_, ticks) = axis(low, high, [0.0, 1.0]);
        let labels = labels(&ticks, &self.scale);
        let frame = room.frame(labels.iter().map(String::as_str));
        let (y, _) = axis(low, high, [frame.bottom, frame.top]);
        let mut drawing = Drawing::new(room, frame);
        let ticks = ticks.iter().zip(labels).map(|(value, label)| y.tick(*value, label)).collect();
        let columns = ((room.units() - frame.left) / letters("x")) as usize;
        let title = shortened(&y.title(&self.unit), columns);
        drawing.y = Axis { title, ticks };
        let last = self.points.len() as f64 - 0.5;
        let x = Span::linear([-0.5, last], [frame.left, frame.right]);
        drawing.x.title = shortened(&self.x_title, (frame.right / letters("x")) as usize);
        self.name_points(x, &mut drawing);
        let step = (frame.right - frame.left) / self.points.len().max(1) as f64;
        let count = self.series.len().saturating_sub(1).max(1) as f64;
        let next = NEXT.min(step * SPREAD / count);
        for (at, values) in self.values.iter().enumerate() {
            let by = next * (at as f64 - (self.series.len() as f64 - 1.0) / 2.0);
            self.draw_series(at, values, |point| x.place(point as f64) + by, y, &mut drawing);
        }
        drawing
    }

    fn draw_series(
        &self,
        at: usize,
        values: &[Option<Estimate>],
        place: impl Fn(usize) -> f64,
        y: Span,
        drawing: &mut Drawing,
    ) {
        let known =
            || values.iter().enumerate().filter_map(|(point, of)| Some((point, of.as_ref()?)));
        let series = series(at);
        if self.is_joined && known().count() > 1 {
            let line = path(known().map(|(point, of)| (place(point), y.place(of.value))));
            drawing.mark(format!("line {series}"), line, "");
        }
        for (point, estimate) in known() {
            let x = place(point);
            if let Some([low, high]) = estimate.interval {
                let [from, to] = [low, high].map(|value| y.place(value));
                drawing.mark(
                    format!("interval {series}"),
                    format!("M{x:.1} {from:.1}V{to:.1}"),
                    "",
                );
            }
            for (_, value) in &estimate.each {
                let tick = format!("M{:.1} {:.1}h6", x - 3.0, y.place(*value));
                drawing.mark(format!("seed {series}"), tick, "");
            }
            let said = format!(
                "{}, {}: {}",
                self.series[at],
                self.points[point],
                estimate.said(&self.scale)
            );
            drawing.mark(format!("dot {series}"), shape(at, x, y.place(estimate.value)), said);
        }
    }

    /// The names of points that have room, in lines; the last one has.
    fn name_points(&self, x: Span, drawing: &mut Drawing) {
        let mut free = drawing.width;
        for (at, name) in self.points.iter().enumerate().rev() {
            let fitting = |line: &str| shortened(line, (drawing.width / letters("x")) as usize);
            let lines: Vec<String> = name.lines().map(fitting).collect();
            let half = lines.iter().map(|line| letters(line)).fold(0.0, f64::max) / 2.0;
            // A name at an edge moves into the picture.
            let middle = x.place(at as f64).min(drawing.width - half).max(half);
            if middle + half > free {
                continue;
            }
            free = middle - half - GAP;
            for (line, text) in lines.iter().enumerate() {
                let y = drawing.frame.bottom + LINE * (line as f64 + 1.0);
                drawing.text("", (middle, y), "middle", text);
            }
        }
        let lines = self.points.iter().map(|name| name.lines().count()).max().unwrap_or(1);
        drawing.height += LINE * (lines.max(1) as f64 - 1.0);
    }
}
