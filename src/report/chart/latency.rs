//! Latencies: percentile curves of all sides over each other, and how they are spread in each round as
//! a heat map. Pure.

use crate::analysis::LatencyPicture;
use crate::model::Unit;
use crate::report::layout::clean;
use crate::report::numbers::Scale;

use super::plot::{Span, log_ticks, round};
use super::{Axis, Chart, Data, Frame, Key, Mark, Text, path, series, shape};

const FRAME: Frame = Frame { left: 64.0, right: 620.0, top: 14.0, bottom: 210.0 };
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 250.0;
/// Percentiles with a mark, and their place: the negative decimal logarithm of what lies above.
const NAMED: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
/// A curve has so many points for each factor of ten of what lies above.
const POINTS: u32 = 12;
const DECADES: u32 = 4;

/// Heat maps have so many columns at most; more rounds share columns.
const COLUMNS: usize = 60;
/// Shades of a heat map.
const SHADES: usize = 6;
/// Space between the maps of two sides.
const GAP: f64 = 12.0;

/// A time as a tick: `10 us`.
fn short(ns: f64) -> String {
    let scale = Scale::of(Unit::Ns, Some(ns));
    format!("{} {}", super::plot::short(&scale.show(ns)), scale.suffix)
}

fn place_of(q: f64) -> f64 {
    -(1.0 - q).log10()
}

fn x_span() -> Span {
    Span::linear([0.0, f64::from(DECADES)], [FRAME.left, FRAME.right])
}

/// The least and the largest value of the axis, whole steps of the ticks where that is near.
fn limits(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let (low, high) = values
        .filter(|value| *value > 0.0)
        .fold((f64::MAX, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
    (high > 0.0)
        .then(|| if high / low < 1.5 { [low / 1.3, high * 1.3] } else { [low * 0.9, high * 1.1] })
}

/// Up to the percentile that the samples of a side support; `None` without samples.
pub fn curves(picture: &LatencyPicture, names: &[String]) -> Option<Chart> {
    let curve = |of: &crate::stats::Histogram| -> Vec<(f64, f64)> {
        let total = of.total() as f64;
        let steps = (1..=POINTS * DECADES).map(|step| f64::from(step) / f64::from(POINTS));
        let supported = steps.take_while(|x| total * 10f64.powf(-x) >= 0.999);
        supported.filter_map(|x| Some((x, of.quantile_ns(1.0 - 10f64.powf(-x))?))).collect()
    };
    let all: Vec<Vec<(f64, f64)>> = picture.sides.iter().map(|side| curve(&side.all)).collect();
    let [low, high] = limits(all.iter().flatten().map(|(_, ns)| *ns))?;
    let (x, y) = (x_span(), Span::log([low, high], [FRAME.bottom, FRAME.top]));
    let mut marks = Vec::new();
    let mut rows = vec![Vec::new(); NAMED.len()];
    for (at, (points, side)) in all.iter().zip(&picture.sides).enumerate() {
        if points.is_empty() {
            rows.iter_mut().for_each(|row| row.push("-".to_string()));
            continue;
        }
        let line = path(points.iter().map(|(place, ns)| (x.place(*place), y.place(*ns))));
        marks.push(Mark {
            class: format!("line {}", series(at)),
            path: line,
            label: String::new(),
        });
        for ((name, q), row) in NAMED.iter().zip(&mut rows) {
            let is_supported = side.all.total() as f64 * (1.0 - q) >= 0.999;
            let Some(ns) = side.all.quantile_ns(*q).filter(|_| is_supported) else {
                row.push("-".to_string());
                continue;
            };
            let value = Scale::of(Unit::Ns, Some(ns)).with_suffix(Some(ns));
            marks.push(Mark {
                class: format!("dot {}", series(at)),
                path: shape(at, x.place(place_of(*q)), y.place(ns)),
                label: format!("{}, {name}: {value}", names[at]),
            });
            row.push(value);
        }
    }
    let tick = |(name, q): &(&str, f64)| x.tick(place_of(*q), name.to_string());
    let labelled = NAMED.iter().zip(rows);
    let rows = labelled.map(|((name, _), row)| [name.to_string()].into_iter().chain(row).collect());
    Some(Chart {
        title: format!("{}, percentiles of all rounds", clean(&picture.name)),
        about:
            "Percentiles of all samples; each curve ends where fewer than one sample lies above."
                .to_string(),
        width: WIDTH,
        height: HEIGHT,
        x: Axis { title: "percentile".to_string(), ticks: NAMED.iter().map(tick).collect() },
        y: Axis {
            title: String::new(),
            ticks: log_ticks(low, high).iter().map(|ns| y.tick(*ns, short(*ns))).collect(),
        },
        frame: FRAME,
        marks,
        texts: Vec::new(),
        keys: names.iter().enumerate().map(|(at, name)| Key::line(at, name)).collect(),
        data: Data {
            head: ["percentile".to_string()].into_iter().chain(names.iter().cloned()).collect(),
            rows: rows.collect(),
        },
    })
}

/// The share of each half octave in each round, a map for each side; `None` with fewer than two rounds.
pub fn heat(picture: &LatencyPicture, names: &[String]) -> Option<Chart> {
    let columns: Vec<Vec<Column>> =
        picture.sides.iter().map(|side| columns(&side.rounds)).collect();
    let halves = || {
        columns.iter().flatten().flat_map(|column| column.shares.iter().map(|(halves, _)| *halves))
    };
    let (low, high) = (halves().min()?, halves().max()?);
    if columns.iter().all(|columns| columns.len() < 2) {
        return None;
    }
    let value = |halves: u8| 2f64.powf(f64::from(halves) / 2.0);
    let y = Span::log([value(low), value(high + 1)], [FRAME.bottom, FRAME.top]);
    let width = (FRAME.right - FRAME.left + GAP) / columns.len() as f64;
    let mut chart = Chart {
        title: format!("{}, round by round", clean(&picture.name)),
        about: "A column is a round, darker is a larger share of its samples.".to_string(),
        width: WIDTH,
        height: HEIGHT,
        x: Axis { title: "rounds in order".to_string(), ticks: Vec::new() },
        y: Axis {
            title: String::new(),
            ticks: log_ticks(value(low), value(high + 1))
                .iter()
                .map(|ns| y.tick(*ns, short(*ns)))
                .collect(),
        },
        frame: FRAME,
        marks: Vec::new(),
        texts: Vec::new(),
        keys: Vec::new(),
        data: Data {
            head: ["side", "round", "median", "samples"].map(str::to_string).to_vec(),
            rows: Vec::new(),
        },
    };
    for (side, columns) in columns.iter().enumerate() {
        let left = FRAME.left + width * side as f64;
        let step = (width - GAP) / columns.len().max(1) as f64;
        let mut shades = vec![String::new(); SHADES];
        for (at, column) in columns.iter().enumerate() {
            for (halves, share) in &column.shares {
                let shade = ((share.sqrt() * SHADES as f64) as usize).min(SHADES - 1);
                // Whole units: a map has thousands of blocks.
                let [top, bottom] = [halves + 1, *halves].map(|of| y.place(value(of)).round());
                let [from, to] = [at, at + 1].map(|at| (left + step * at as f64).round());
                let (width, height) = (to - from, bottom - top);
                shades[shade].push_str(&format!("M{from} {top}h{width}v{height}h{}Z", -width));
            }
            chart.data.rows.push(column.row(&names[side]));
        }
        let drawn = shades.into_iter().enumerate().filter(|(_, path)| !path.is_empty());
        chart.marks.extend(drawn.map(|(shade, path)| Mark {
            class: format!("heat h{shade} s{}", side % super::HUES),
            path,
            label: String::new(),
        }));
        let (x, y) = (round(left + (width - GAP) / 2.0), FRAME.bottom + 16.0);
        let text = crate::report::layout::shortened(&names[side], (width / 8.0) as usize);
        chart.texts.push(Text { class: "label", x, y, anchor: "middle", text });
    }
    Some(chart)
}

/// One round, or several that follow each other.
struct Column {
    rounds: [u32; 2],
    samples: u64,
    /// Ascending, with their shares.
    shares: Vec<(u8, f64)>,
}

fn columns(rounds: &[(u32, Vec<(u8, u64)>)]) -> Vec<Column> {
    let together = rounds.len().div_ceil(COLUMNS).max(1);
    let columns = rounds.chunks(together).map(|rounds| {
        let mut sums = std::collections::BTreeMap::<u8, u64>::new();
        for (halves, count) in rounds.iter().flat_map(|(_, counts)| counts) {
            *sums.entry(*halves).or_default() += count;
        }
        let samples: u64 = sums.values().sum();
        let shares =
            sums.iter().map(|(halves, count)| (*halves, *count as f64 / samples.max(1) as f64));
        let ends =
            [rounds.first(), rounds.last()].map(|round| round.map_or(0, |(round, _)| *round));
        Column { rounds: ends, samples, shares: shares.collect() }
    });
    columns.collect()
}

impl Column {
    fn row(&self, name: &str) -> Vec<String> {
        let mut sum = 0.0;
        let middle = self.shares.iter().find(|(_, share)| {
            sum += share;
            sum >= 0.5
        });
        let median = middle.map_or("-".to_string(), |(halves, _)| {
            let [low, high] =
                [*halves, halves + 1].map(|halves| short(2f64.powf(f64::from(halves) / 2.0)));
            format!("{low} to {high}")
        });
        let [first, last] = self.rounds.map(|round| round + 1);
        let rounds = if first == last { first.to_string() } else { format!("{first} to {last}") };
        vec![name.to_string(), rounds, median, self.samples.to_string()]
    }
}
