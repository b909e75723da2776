//! Latencies: percentile curves of all sides over each other, and how they are spread in each round as
//! a heat map. Pure.

use crate::analysis::{LatencyPicture, SideLatency};
use crate::model::{Direction, Unit};
use crate::report::layout::clean;
use crate::report::numbers::Scale;

use super::plot::{Span, log_ticks};
use super::{
    Axis, Chart, Data, Drawing, Key, LINE, Tick, Width, letters, path, sense, series, shape,
};

/// Percentiles with a mark, and their place: the negative decimal logarithm of what lies above.
const NAMED: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
/// Points of a curve for each factor of ten of the remaining share.
const POINTS: u32 = 12;
const DECADES: u32 = 4;

/// The most columns of a heat map; more rounds share columns.
const COLUMNS: usize = 60;
/// Shades of a heat map.
const SHADES: usize = 6;
/// Space between the maps of two sides, which have at least this width and this height.
const GAP: f64 = 12.0;
const MAP_WIDTH: f64 = 140.0;
const MAP_HEIGHT: f64 = 130.0;

/// A time as a tick: `10 us`.
fn short(ns: f64) -> String {
    let scale = Scale::for_values(Unit::Ns, Some(ns));
    format!("{} {}", super::plot::short(&scale.show(ns)), scale.suffix)
}

fn place_of(q: f64) -> f64 {
    -(1.0 - q).log10()
}

/// The least and the largest value of the axis, whole steps of the ticks where that is near.
fn limits(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let (low, high) = values
        .filter(|value| *value > 0.0)
        .fold((f64::MAX, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
    (high > 0.0)
        .then(|| if high / low < 1.5 { [low / 1.3, high * 1.3] } else { [low * 0.9, high * 1.1] })
}

/// `web heavy: wakeup latency`.
fn title(place: &str, picture: &LatencyPicture, what: &str) -> String {
    format!("{place}: {} latency, {what}", clean(&picture.name))
}

/// The ticks that have room in this height: only powers of ten where others would overlap.
fn time_ticks([low, high]: [f64; 2], height: f64) -> Vec<(f64, String)> {
    let step = height / (high / low).log10() * 2f64.log10();
    let has_room = |ns: &f64| step >= LINE * 0.9 || ns.log10().fract().abs() < 1e-9;
    log_ticks(low, high).into_iter().filter(has_room).map(|ns| (ns, short(ns))).collect()
}

fn placed(y: Span, ticks: &[(f64, String)]) -> Vec<Tick> {
    ticks.iter().map(|(ns, label)| y.tick(*ns, label.clone())).collect()
}

/// Points of a curve: the place of the percentile and the time.
type Curve = Vec<(f64, f64)>;

/// Up to the percentile that the samples support.
fn curve(of: &SideLatency) -> Curve {
    let total = of.all.total() as f64;
    let steps = (1..=POINTS * DECADES).map(|step| f64::from(step) / f64::from(POINTS));
    // A named percentile lies on the curve.
    let mut places: Vec<f64> = steps.chain(NAMED.map(|(_, q)| place_of(q))).collect();
    places.sort_by(f64::total_cmp);
    let supported = places.into_iter().take_while(|x| total * 10f64.powf(-x) >= 0.999);
    supported.filter_map(|x| Some((x, of.all.quantile_ns(1.0 - 10f64.powf(-x))?))).collect()
}

/// The sides of all sets of a work whose latencies have one name: their charts have one axis.
fn alike<'p>(
    picture: &'p LatencyPicture,
    pictures: &'p [LatencyPicture],
) -> impl Iterator<Item = &'p SideLatency> {
    pictures.iter().filter(|other| other.name == picture.name).flat_map(|other| &other.sides)
}

/// A curve for each side; `None` without samples. `pictures`: all of its work; `place`: the work and
/// the set.
pub fn curves(
    picture: &LatencyPicture,
    pictures: &[LatencyPicture],
    place: &str,
    names: &[String],
) -> Option<Chart> {
    let all: Vec<Curve> = picture.sides.iter().map(curve).collect();
    let times = |curves: &[Curve]| curves.iter().flatten().map(|(_, ns)| *ns).collect::<Vec<_>>();
    limits(times(&all).into_iter())?;
    let alike: Vec<Curve> = alike(picture, pictures).map(curve).collect();
    let ends = limits(times(&alike).into_iter())?;
    let value = |side: &SideLatency, q: f64| {
        let is_supported = side.all.total() as f64 * (1.0 - q) >= 0.999;
        side.all.quantile_ns(q).filter(|_| is_supported)
    };
    let row = |(name, q): (&str, f64)| {
        let shown = |side| value(side, q).map_or("-".to_string(), Scale::time);
        [name.to_string()].into_iter().chain(picture.sides.iter().map(shown)).collect()
    };
    Some(Chart {
        title: title(place, picture, "percentiles of all rounds"),
        measure: sense(Direction::LowerIsBetter).to_string(),
        about:
            "Percentiles of all samples; each curve ends where fewer than one sample lies above."
                .to_string(),
        keys: names.iter().enumerate().map(|(at, name)| Key::line(at, name)).collect(),
        data: Data {
            head: ["percentile".to_string()].into_iter().chain(names.iter().cloned()).collect(),
            rows: NAMED.map(row).to_vec(),
        },
        drawings: Vec::from(Width::IN_COLUMNS.map(|room| {
            let ticks = time_ticks(ends, f64::MAX);
            let frame = room.frame(ticks.iter().map(|(_, label)| label.as_str()));
            let mut drawing = Drawing::new(room, frame);
            let x = Span::linear([0.0, f64::from(DECADES)], [frame.left, frame.right]);
            let y = Span::log(ends, [frame.bottom, frame.top]);
            let ticks = time_ticks(ends, frame.bottom - frame.top);
            let named = NAMED.map(|(name, q)| x.tick(place_of(q), name.to_string()));
            let title = "percentile, log scale of what lies above";
            drawing.x = Axis { title: title.to_string(), ticks: named.to_vec() };
            drawing.y = Axis { title: y.title(""), ticks: placed(y, &ticks) };
            for (at, (points, side)) in all.iter().zip(&picture.sides).enumerate() {
                if points.is_empty() {
                    continue;
                }
                let line = path(points.iter().map(|(at, ns)| (x.place(*at), y.place(*ns))));
                drawing.mark(format!("line {}", series(at)), line, "");
                for (name, q) in NAMED {
                    let Some(ns) = value(side, q) else { continue };
                    let dot = shape(at, x.place(place_of(q)), y.place(ns));
                    let label = format!("{}, {name}: {}", names[at], Scale::time(ns));
                    drawing.mark(format!("dot {}", series(at)), dot, label);
                }
            }
            drawing
        })),
    })
}

/// The share of each half octave in each round, a map for each side; `None` with fewer than two rounds.
/// `pictures` and `place` are as those of [`curves`].
pub fn heat(
    picture: &LatencyPicture,
    pictures: &[LatencyPicture],
    place: &str,
    names: &[String],
) -> Option<Chart> {
    let columns: Vec<Vec<Column>> =
        picture.sides.iter().map(|side| columns(&side.rounds)).collect();
    let has_shares = |column: &Column| !column.shares.is_empty();
    if columns.iter().all(|columns| columns.len() < 2) || !columns.iter().flatten().any(has_shares)
    {
        return None;
    }
    let rounds = || alike(picture, pictures).flat_map(|side| &side.rounds);
    let halves = || rounds().flat_map(|(_, counts)| counts.iter().map(|(halves, _)| *halves));
    let ends =
        [halves().min()?, halves().max()? + 1].map(|halves| 2f64.powf(f64::from(halves) / 2.0));
    let row = |(columns, name): (&Vec<Column>, &String)| -> Vec<Vec<String>> {
        columns.iter().map(|column| column.row(name)).collect()
    };
    Some(Chart {
        title: title(place, picture, "round by round"),
        measure: sense(Direction::LowerIsBetter).to_string(),
        about: "A column is a round, darker is a larger share of its samples.".to_string(),
        keys: Vec::new(),
        data: Data {
            head: ["side", "round", "median", "samples"].map(str::to_string).to_vec(),
            rows: columns.iter().zip(names).flat_map(row).collect(),
        },
        drawings: Width::IN_COLUMNS.map(|room| maps(room, &columns, names, ends)).into(),
    })
}

/// As many maps next to each other as leave each its name and its least width.
fn maps(room: Width, columns: &[Vec<Column>], names: &[String], ends: [f64; 2]) -> Drawing {
    let ticks = time_ticks(ends, f64::MAX);
    let mut frame = room.frame(ticks.iter().map(|(_, label)| label.as_str()));
    let units = frame.right - frame.left;
    let least = names.iter().map(|name| letters(name)).fold(MAP_WIDTH, f64::max);
    let across = (((units + GAP) / (least + GAP)) as usize).clamp(1, columns.len());
    let down = columns.len().div_ceil(across);
    let height = if down == 1 { frame.bottom - frame.top } else { MAP_HEIGHT };
    let ticks = time_ticks(ends, height);
    frame.bottom = frame.top + (height + 2.0 * LINE) * down as f64 - 2.0 * LINE;
    let mut drawing = Drawing::new(room, frame);
    let width = (units + GAP) / across as f64 - GAP;
    for (side, columns) in columns.iter().enumerate() {
        let left = frame.left + (width + GAP) * (side % across) as f64;
        let top = frame.top + (height + 2.0 * LINE) * (side / across) as f64;
        let y = Span::log(ends, [top + height, top]);
        drawing.y.title = y.title("");
        if side % across == 0 {
            drawing.y.ticks.extend(placed(y, &ticks));
        }
        for (shade, path) in map(columns, [left, width], y).into_iter().enumerate() {
            drawing.mark(format!("heat h{shade} s{}", side % super::HUES), path, "");
        }
        let name = crate::report::layout::shortened(&names[side], (units / letters("x")) as usize);
        // A name that is longer than its map begins with it.
        let text = (left + width / 2.0).max(letters(&name) / 2.0);
        drawing.text("label", (text, top + height + LINE), "middle", &name);
    }
    drawing.marks.retain(|mark| !mark.path.is_empty());
    drawing.x.title = "rounds in order".to_string();
    drawing
}

/// The blocks of each shade.
fn map(columns: &[Column], [left, width]: [f64; 2], y: Span) -> Vec<String> {
    let value = |halves: u8| 2f64.powf(f64::from(halves) / 2.0);
    let step = width / columns.len().max(1) as f64;
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
    }
    shades
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

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// From the narrowest axis of a chart on.
        #[test]
        fn an_axis_of_times_has_two_labels_at_least(
            low in 0f64..10.0, halves in 0.5f64..60.0, height in MAP_HEIGHT..200.0,
        ) {
            let low = 10f64.powf(low);
            let ticks = time_ticks([low, low * 2f64.powf(halves)], height);
            let labels: std::collections::BTreeSet<&String> =
                ticks.iter().map(|(_, label)| label).collect();
            proptest::prop_assert!(labels.len() >= 2 && labels.len() == ticks.len(), "{:?}", ticks);
        }
    }
}
