//! Values with intervals on a horizontal axis: a heading for each group, a row for each of its sides.
//! Labels stand next to the axis where they leave it half of the room, else above it. Pure.

use crate::model::Direction;
use crate::report::layout::shortened;
use crate::stats::Interval;

use super::plot::{Span, round};
use super::{
    Axis, Drawing, Frame, LINE, Tick, Width, block, letters, lines_of, room_of_name, series, shape,
};

const ROW: f64 = 20.0;
/// Between labels and the axis, and between labels of ticks.
const GAP: f64 = 10.0;
const ARROW: f64 = 14.0;
/// Bold letters are so much wider.
const BOLD: f64 = 1.15;

pub struct Strips {
    /// The values at the ends of the axis.
    pub ends: [f64; 2],
    pub is_log: bool,
    /// The most important ticks come first: a label without room is left out.
    pub ticks: Vec<(f64, String)>,
    /// The value of no change.
    pub one: Option<f64>,
    pub x_title: String,
    pub groups: Vec<Group>,
}

pub struct Group {
    pub heading: String,
    /// Where an arrow points to.
    pub better: Direction,
    /// Values that count as the same.
    pub band: Option<[f64; 2]>,
    pub rows: Vec<Row>,
}

pub struct Row {
    /// Empty where the heading says it.
    pub label: String,
    /// The value in words.
    pub text: String,
    pub said: String,
    pub series: usize,
    /// `None`: it has no place on the axis, and stands in words alone.
    pub value: Option<f64>,
    pub interval: Option<Interval>,
    /// Single values in place of an interval, with what they say.
    pub each: Vec<(String, f64)>,
    pub is_hollow: bool,
}

impl Strips {
    pub fn draw(&self, rooms: &[Width]) -> Vec<Drawing> {
        let drawing = |room: &Width| match self.columns(*room) {
            Some(frame) => self.in_columns(*room, frame),
            None => self.stacked(*room),
        };
        rooms.iter().map(drawing).collect()
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.groups.iter().flat_map(|group| &group.rows)
    }

    /// The frame between labels and values, if they leave room for one.
    fn columns(&self, room: Width) -> Option<Frame> {
        if room == Width::Narrow {
            return None;
        }
        let labels = self.groups.iter().flat_map(Group::labels);
        let left = labels.fold(0.0, |widest: f64, (label, has_arrow)| {
            widest.max(room_of_name(label) + if has_arrow { ARROW + 4.0 } else { 0.0 })
        });
        let values = self.rows().map(|row| letters(&row.text)).fold(0.0, f64::max);
        let units = room.units();
        let frame = Frame { left: left + GAP, right: units - values - GAP, top: 4.0, bottom: 0.0 };
        (frame.right - frame.left >= units / 2.5).then_some(frame)
    }

    fn span(&self, frame: Frame) -> Span {
        let of = if self.is_log { Span::log } else { Span::linear };
        of(self.ends, [frame.left, frame.right])
    }

    fn in_columns(&self, room: Width, frame: Frame) -> Drawing {
        let mut drawing = Drawing::new(room, frame);
        let span = self.span(frame);
        let mut top = frame.top;
        for group in &self.groups {
            if !group.is_one() {
                group.head(&group.heading, top, &mut drawing);
                top += if group.heading.is_empty() { 0.0 } else { ROW };
            }
            for (row, (label, has_arrow)) in group.rows.iter().zip(group.labels()) {
                let y = top + ROW / 2.0;
                let arrow = if has_arrow { ARROW + 4.0 } else { 0.0 };
                drawing.text("label", (frame.left - GAP - arrow, y + 4.0), "end", label);
                if has_arrow {
                    group.arrow((frame.left - GAP - ARROW, y), &mut drawing);
                }
                drawing.text("value", (frame.right + GAP, y + 4.0), "start", &row.text);
                row.draw(group, (span, y), &mut drawing);
                top += ROW;
            }
        }
        self.draw_one(span, [frame.top, top], &mut drawing);
        self.finish(span, top, drawing)
    }

    fn stacked(&self, room: Width) -> Drawing {
        let units = room.units();
        let frame = Frame { left: GAP, right: units - GAP, top: 0.0, bottom: 0.0 };
        let span = self.span(frame);
        let mut drawing = Drawing::new(room, frame);
        let mut top = 0.0;
        for group in &self.groups {
            let heading = lines_of(&group.heading, (units - ARROW - GAP) / BOLD);
            for (at, line) in heading.iter().filter(|line| !line.is_empty()).enumerate() {
                match at {
                    0 => group.head(line, top, &mut drawing),
                    _ => drawing.text("label bold", (ARROW + GAP, top + 13.0), "start", line),
                }
                top += LINE;
            }
            let heading =
                heading.last().map_or(0.0, |line| ARROW + 2.0 * GAP + BOLD * letters(line));
            for row in &group.rows {
                let lines =
                    if row.label.is_empty() { Vec::new() } else { lines_of(&row.label, units) };
                for line in &lines {
                    drawing.text("label", (0.0, top + 13.0), "start", line);
                    top += LINE;
                }
                // The value stands behind the name, or the heading, where both fit.
                let last = lines.last().map_or(heading, |line| letters(line) + GAP);
                if last + letters(&row.text) <= units {
                    top -= LINE;
                }
                drawing.text("value", (units, top + 13.0), "end", &row.text);
                top += LINE;
                self.draw_one(span, [top, top + ROW], &mut drawing);
                row.draw(group, (span, top + ROW / 2.0), &mut drawing);
                top += ROW + 2.0;
            }
            top += 6.0;
        }
        self.finish(span, top, drawing)
    }

    /// With its axis; bands lie below everything, the line of no change next.
    fn finish(&self, span: Span, bottom: f64, mut drawing: Drawing) -> Drawing {
        drawing.frame.bottom = round(bottom);
        drawing.height = round(bottom + 2.5 * LINE);
        let below = |class: &str| match class {
            "band" => 0,
            "one" => 1,
            _ => 2,
        };
        drawing.marks.sort_by_key(|mark| below(&mark.class));
        let title = span.title(&self.x_title);
        let title = shortened(&title, (drawing.frame.right / letters("x")) as usize);
        drawing.x = Axis { title, ticks: self.placed(span, drawing.width) };
        drawing
    }

    /// The line of no change.
    fn draw_one(&self, span: Span, [top, bottom]: [f64; 2], drawing: &mut Drawing) {
        if let Some(one) = self.one {
            drawing.mark("one", format!("M{} {top}V{bottom}", round(span.place(one))), "");
        }
    }

    fn placed(&self, span: Span, width: f64) -> Vec<Tick> {
        let mut placed: Vec<Tick> = Vec::new();
        for (value, label) in self.ticks.iter().filter(|(value, _)| span.holds(*value)) {
            let (tick, half) = (span.tick(*value, label.clone()), room_of_name(label) / 2.0);
            let is_free = |other: &Tick| {
                (tick.at - other.at).abs() >= half + room_of_name(&other.label) / 2.0 + GAP
            };
            if tick.at >= half && tick.at + half <= width && placed.iter().all(is_free) {
                placed.push(tick);
            }
        }
        placed
    }
}

impl Group {
    /// Whether its heading is the label of its row.
    fn is_one(&self) -> bool {
        matches!(self.rows.as_slice(), [row] if row.label.is_empty())
    }

    /// The label of each row next to the axis, and whether an arrow follows it.
    fn labels<'g>(&'g self) -> impl Iterator<Item = (&'g str, bool)> {
        let is_one = self.is_one();
        let label = move |row: &'g Row| if is_one { &self.heading } else { &row.label };
        let has_arrow = is_one && self.better != Direction::Neutral;
        self.rows.iter().map(move |row| (label(row).as_str(), has_arrow))
    }

    /// The first line of its heading, behind the arrow.
    fn head(&self, line: &str, top: f64, drawing: &mut Drawing) {
        if !line.is_empty() {
            self.arrow((0.0, top + 9.0), drawing);
            drawing.text("label bold", (ARROW + GAP, top + 13.0), "start", line);
        }
    }

    /// An arrow along the axis, to where it is better.
    fn arrow(&self, (x, y): (f64, f64), drawing: &mut Drawing) {
        let path = match self.better {
            Direction::HigherIsBetter => format!("M{x:.1} {y:.1}h{ARROW}m-4 -4l4 4l-4 4"),
            Direction::LowerIsBetter => format!("M{:.1} {y:.1}h-{ARROW}m4 -4l-4 4l4 4", x + ARROW),
            Direction::Neutral => return,
        };
        drawing.mark("arrow", path, super::sense(self.better));
    }
}

impl Row {
    fn draw(&self, group: &Group, (span, y): (Span, f64), drawing: &mut Drawing) {
        let series = series(self.series);
        let Some(value) = self.value else {
            let [from, to] = span.ends().map(|end| span.place(end));
            let row = block(from, y - ROW / 2.0, to - from, ROW);
            return drawing.mark("absent", row, self.said.as_str());
        };
        if let Some(band) = group.band {
            let [low, high] = band.map(|value| span.place(value));
            drawing.mark("band", block(low, y - ROW / 2.0, high - low, ROW), "");
        }
        for (label, value) in &self.each {
            let path = format!("M{:.1} {:.1}v8", span.place(*value), y - 4.0);
            drawing.mark(format!("seed {series}"), path, label.as_str());
        }
        if let Some(Interval { low, high }) = self.interval {
            let [from, to] = [low, high].map(|value| span.place(value));
            let mut path = format!("M{from:.1} {y:.1}H{to:.1}");
            // An end beyond the axis has the head of an arrow.
            if low < span.ends()[0] {
                path.push_str(&format!("M{:.1} {:.1}l-4 4l4 4", from + 4.0, y - 4.0));
            }
            if high > span.ends()[1] {
                path.push_str(&format!("M{:.1} {:.1}l4 4l-4 4", to - 4.0, y - 4.0));
            }
            drawing.mark(format!("interval {series}"), path, "");
        }
        let hollow = if self.is_hollow { " hollow" } else { "" };
        let dot = shape(self.series, span.place(value), y);
        drawing.mark(format!("dot {series}{hollow}"), dot, self.said.as_str());
    }
}
