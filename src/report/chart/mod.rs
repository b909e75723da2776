//! Charts: what each draws, as marks with places, and the numbers that it draws as a table. One
//! template writes any of them as SVG: in a page, and alone. Pure.
//!
//! A series has a colour, and a dash or a shape of its own: nothing is shown by colour alone.

//! Each is drawn for a column of a page and for a phone, and the answer for the whole page too: letters
//! keep their size.

mod bars;
mod estimate;
mod forest;
mod latency;
mod lines;
mod plot;
mod rounds;
mod strips;
#[cfg(test)]
mod tests;
mod values;
mod workers;

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::model::{Direction, Unit};

pub use super::layout::Data;
use super::layout::{clean, wrap};

pub use bars::{fairness, loads, switches};
pub use forest::forest;
pub use latency::{curves, heat};
pub use plot::{OWN_AXIS, common_end};
pub use rounds::rounds;
pub use values::{is_history, values};
pub use workers::{Figure, Line, end, timeline};

/// Colours, and classes of series with them; a series beyond them has the first one's colour again.
pub const HUES: usize = 6;
/// Ways to dash a line, and shapes of dots.
const STYLES: usize = 4;

/// Units of a letter of 12 units' size, on average and in a wide font.
const LETTER: f64 = 7.2;
/// The height of a line of letters.
pub const LINE: f64 = 16.0;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// The work, its worker set and what is drawn.
    pub title: String,
    /// The unit of the values and which way is better: `requests/s, more is better`.
    pub measure: String,
    /// How it is read, for who does not see it too.
    pub about: String,
    /// None where marks have no series.
    pub keys: Vec<Key>,
    /// Its numbers.
    pub data: Data,
    /// One for each room that a page may have for it, the widest first.
    pub drawings: Vec<Drawing>,
}

/// The room that a drawing has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Width {
    /// The width of a page.
    Full,
    /// The width of a column of charts, or of a picture alone.
    Wide,
    /// The width of a phone.
    Narrow,
}

impl Width {
    pub const ALL: [Width; 3] = [Width::Full, Width::Wide, Width::Narrow];
    /// The widths of charts that stand next to each other.
    pub const IN_COLUMNS: [Width; 2] = [Width::Wide, Width::Narrow];

    pub fn units(self) -> f64 {
        match self {
            Width::Full => 1040.0,
            Width::Wide => 640.0,
            Width::Narrow => 350.0,
        }
    }

    /// A frame behind the widest of these labels, so high that it is twice as wide.
    pub fn frame<'l>(self, labels: impl Iterator<Item = &'l str>) -> Frame {
        let left = labels.map(letters).fold(32.0, f64::max) + 12.0;
        Frame {
            left: left.min(self.units() / 2.0),
            right: self.units() - 24.0,
            top: 20.0,
            bottom: 210.0,
        }
    }
}

/// All places are in units of the picture, from its upper left corner.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drawing {
    /// `full`, `wide` or `narrow`: where a page shows it.
    pub room: Width,
    pub width: f64,
    pub height: f64,
    pub x: Axis,
    pub y: Axis,
    pub frame: Frame,
    pub marks: Vec<Mark>,
    pub texts: Vec<Text>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Axis {
    pub title: String,
    pub ticks: Vec<Tick>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tick {
    pub at: f64,
    pub label: String,
}

/// Where the marks are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Frame {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

/// A shape, as a path of SVG.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    pub class: String,
    pub path: String,
    /// Its value in words, shown where a reader points at it; empty without one.
    pub label: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Text {
    pub class: &'static str,
    pub x: f64,
    pub y: f64,
    /// `start`, `middle` or `end`.
    pub anchor: &'static str,
    pub text: String,
}

/// A series in the legend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Key {
    /// The first class of its marks: `t0`.
    pub series: String,
    /// The classes of its marks.
    pub class: String,
    pub name: String,
    /// Its sign, in a picture of 24 by 12.
    pub path: String,
}

impl Drawing {
    /// Without marks and axes; below the frame is room for the labels and the title of x.
    pub fn new(room: Width, frame: Frame) -> Drawing {
        let (x, y) = Default::default();
        let (width, height) = (room.units(), frame.bottom + 2.5 * LINE);
        Drawing { room, width, height, x, y, frame, marks: Vec::new(), texts: Vec::new() }
    }

    pub fn mark(&mut self, class: impl Into<String>, path: String, label: impl Into<String>) {
        self.marks.push(Mark { class: class.into(), path, label: label.into() });
    }

    pub fn text(
        &mut self,
        class: &'static str,
        (x, y): (f64, f64),
        anchor: &'static str,
        text: &str,
    ) {
        let [x, y] = [x, y].map(round);
        self.texts.push(Text { class, x, y, anchor, text: text.to_string() });
    }
}

/// Tenths are as fine as a picture needs.
pub fn round(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}

/// How wide a text is, at most about.
pub fn letters(text: &str) -> f64 {
    LETTER * text.width() as f64
}

/// As [`letters`], for names of digits and signs alone too, which are wider.
pub fn room_of_name(text: &str) -> f64 {
    let more = |c: char| match c {
        '0'..='9' => 0.08,
        '<' | '>' | '=' | '@' | '#' | '&' | '+' | '%' | 'M' | 'W' => 0.6,
        _ => 0.0,
    };
    letters(text) + LETTER * text.chars().map(more).sum::<f64>()
}

/// Wraps a text into lines of at most this many units.
pub fn lines_of(text: &str, units: f64) -> Vec<String> {
    wrap(text, ((units / LETTER) as usize).max(8))
}

/// The better direction, in words.
pub fn sense(direction: Direction) -> &'static str {
    match direction {
        Direction::HigherIsBetter => "more is better",
        Direction::LowerIsBetter => "less is better",
        Direction::Neutral => "",
    }
}

/// The unit of a scale and which way is better: `k requests/s, more is better`.
pub fn measure(unit: Unit, suffix: &str, ops: &str, direction: Direction) -> String {
    let unit = match (unit, suffix.strip_suffix("/s")) {
        (Unit::OpsPerS, Some(scale)) => {
            format!("{scale} {}/s", clean(ops)).trim_start().to_string()
        }
        _ => suffix.to_string(),
    };
    let parts = [unit, sense(direction).to_string()].into_iter();
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// The classes of a series: which one it is, its colour and its style.
pub fn series(at: usize) -> String {
    format!("t{at} s{} d{}", at % HUES, at % STYLES)
}

impl Key {
    fn new(at: usize, name: &str, kind: &str, path: String) -> Key {
        let class = format!("{kind} {}", series(at));
        Key { series: format!("t{at}"), class, name: name.into(), path }
    }

    pub fn line(at: usize, name: &str) -> Key {
        Key::new(at, name, "line", "M1 6H23".to_string())
    }

    /// The key of a filled area.
    pub fn area(at: usize, name: &str) -> Key {
        Key::new(at, name, "bar", "M4 1H20V11H4Z".to_string())
    }

    pub fn dot(at: usize, name: &str) -> Key {
        Key::new(at, name, "dot", shape(at, 12.0, 6.0))
    }
}

/// A dot of a series: a circle, a square, a triangle or a diamond.
pub fn shape(at: usize, x: f64, y: f64) -> String {
    match at % STYLES {
        0 => format!("M{:.1} {y:.1}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0Z", x - 3.0),
        1 => format!("M{:.1} {:.1}h5v5h-5Z", x - 2.5, y - 2.5),
        2 => format!("M{x:.1} {:.1}l3.4 6h-6.8Z", y - 3.6),
        _ => format!("M{x:.1} {:.1}l3.4 3.7l-3.4 3.7l-3.4 -3.7Z", y - 3.7),
    }
}

/// A line through these places. Of one place a dot, which the round end of a line of no length is.
pub fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (at, (x, y)) in points.enumerate() {
        path.push_str(&format!("{}{x:.1} {y:.1}", if at == 0 { "M" } else { "L" }));
    }
    if !path.contains('L') {
        path.push_str("h0");
    }
    path
}

/// A rectangle.
pub fn block(x: f64, y: f64, width: f64, height: f64) -> String {
    format!("M{x:.1} {y:.1}h{width:.1}v{height:.1}h{:.1}Z", -width)
}
