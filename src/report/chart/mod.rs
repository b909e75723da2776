//! Charts: what each draws, as marks with places, and the numbers that it draws as a table. One
//! template writes any of them as SVG: in a page, and alone. Pure.
//!
//! A series has a colour, and a dash or a shape of its own: nothing is shown by colour alone.

mod bars;
mod forest;
mod latency;
mod plot;
mod rounds;
mod workers;

use serde::Serialize;

pub use bars::{fairness, loads, switches};
pub use forest::forest;
pub use latency::{curves, heat};
pub use plot::{Span, linear_ticks};
pub use rounds::rounds;
pub use workers::{Figure, Line, timeline};

/// Colours, and classes of series with them; a series beyond them has the first one's colour again.
pub const HUES: usize = 6;
/// Ways to dash a line, and shapes of dots.
const STYLES: usize = 4;

/// All places are in units of the picture, from its upper left corner.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    pub title: String,
    /// What is drawn, for who does not see it.
    pub about: String,
    pub width: f64,
    pub height: f64,
    pub x: Axis,
    pub y: Axis,
    pub frame: Frame,
    pub marks: Vec<Mark>,
    pub texts: Vec<Text>,
    /// None where marks have no series.
    pub keys: Vec<Key>,
    pub data: Data,
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

/// The numbers of a chart.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Data {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// The classes of a series: which one it is, its colour and its style.
pub fn series(at: usize) -> String {
    format!("t{at} s{} d{}", at % HUES, at % STYLES)
}

impl Key {
    /// Of a line.
    pub fn line(at: usize, name: &str) -> Key {
        let path = "M1 6H23".to_string();
        Key {
            series: format!("t{at}"),
            class: format!("line {}", series(at)),
            name: name.into(),
            path,
        }
    }

    /// Of what is filled.
    pub fn area(at: usize, name: &str) -> Key {
        let path = "M4 1H20V11H4Z".to_string();
        Key {
            series: format!("t{at}"),
            class: format!("bar {}", series(at)),
            name: name.into(),
            path,
        }
    }

    /// Of dots.
    pub fn dot(at: usize, name: &str) -> Key {
        let class = format!("dot {}", series(at));
        Key { series: format!("t{at}"), class, name: name.into(), path: shape(at, 12.0, 6.0) }
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
