//! The forest plot: the ratio of each side to the baseline with its interval, a line for each headline
//! metric, and the band within which a difference is SAME. Pure.
//!
//! Exact results have no noise, so no interval stands for one: there each seed is a tick.

use std::collections::BTreeMap;

use crate::analysis::{Analysis, Family, Place};
use crate::report::layout::{clean, shortened};
use crate::report::numbers::{self, Change};
use crate::report::phrases;
use crate::stats::{Ratio, Verdict};

use super::plot::{self, Span};
use super::{Axis, Chart, Data, Frame, Key, Mark, Text, block, shape};

const WIDTH: f64 = 900.0;
const ROW: f64 = 20.0;
const FRAME: Frame = Frame { left: 340.0, right: 680.0, top: 14.0, bottom: 0.0 };
/// A label has so many characters of 12 units' size.
const LABEL_CHARS: usize = 44;
/// Ratios beyond these are drawn at the edge.
const MAX_RATIO: f64 = 16.0;
const BAND: &str = "band";
/// Labels of ticks are at least so far from each other.
const TICK_WIDTH: f64 = 36.0;
/// The least half of the axis.
const MIN_RATIO: f64 = 1.05;

/// A ratio of a side, with the ratios of its rounds where it is exact.
struct Entry<'a> {
    place: Place<'a>,
    side: usize,
    ratio: Ratio,
    seeds: Vec<(u32, f64)>,
}

/// `None` without a ratio of a headline metric.
pub fn forest(analysis: &Analysis, names: &[String]) -> Option<Chart> {
    let is_exact = analysis.is_exact();
    let mut entries = Vec::new();
    for place in analysis.rows_of(Family::Headline) {
        for side in 1..names.len() {
            let Some(ratio) = analysis.ratio(place.2, side) else { continue };
            let seeds = if is_exact { seeds(place, side) } else { Vec::new() };
            entries.push(Entry { place, side, ratio, seeds });
        }
    }
    if entries.is_empty() {
        return None;
    }
    let max = entries.iter().flat_map(Entry::reach).fold(MIN_RATIO, f64::max).min(MAX_RATIO);
    let bottom = FRAME.top + ROW * entries.len() as f64;
    let frame = Frame { bottom, ..FRAME };
    let span = Span::log([1.0 / max, max], [frame.left, frame.right]);
    let mut chart = Chart {
        title: format!("Ratio to {}", names[0]),
        about: about(is_exact).to_string(),
        width: WIDTH,
        height: bottom + 34.0,
        x: Axis { title: format!("over {}", names[0]), ticks: ticks(span, max) },
        y: Axis::default(),
        frame,
        marks: Vec::new(),
        texts: Vec::new(),
        keys: (1..names.len()).map(|side| Key::dot(side, &names[side])).collect(),
        data: Data::default(),
    };
    let head = ["metric", "side", "change", "95 %", "verdict"].map(str::to_string);
    chart.data.head = head.to_vec();
    for (at, entry) in entries.iter().enumerate() {
        let y = FRAME.top + ROW * (at as f64 + 0.5);
        entry.draw(analysis, names, (span, y), &mut chart);
    }
    let middle = plot::round(span.place(1.0));
    let one = format!("M{middle} {}V{bottom}", frame.top);
    // Bands lie below everything, the line of no change next.
    let (bands, others): (Vec<Mark>, Vec<Mark>) =
        chart.marks.into_iter().partition(|mark| mark.class == BAND);
    let one = Mark { class: "one".to_string(), path: one, label: String::new() };
    chart.marks = bands.into_iter().chain([one]).chain(others).collect();
    Some(chart)
}

fn about(is_exact: bool) -> &'static str {
    match is_exact {
        true => {
            "Each row is a metric of a side. The mark is the mean ratio over seeds, a tick the ratio of one \
             seed; every run is exact. The grey band is what counts as the same."
        }
        false => {
            "Each row is a metric of a side. The mark is the ratio, the line its 95 % interval, the grey \
             band what counts as the same. Filled marks are decided, hollow ones are open."
        }
    }
}

/// The ratio in each round that both have.
fn seeds((.., row): Place, side: usize) -> Vec<(u32, f64)> {
    let baseline: BTreeMap<u32, f64> = row.cells[0].values.iter().copied().collect();
    let ratio = |(round, value): &(u32, f64)| Some((*round, value / baseline.get(round)?));
    let ratios = row.cells[side].values.iter().filter_map(ratio);
    ratios.filter(|(_, ratio)| ratio.is_finite() && *ratio > 0.0).collect()
}

fn ticks(span: Span, max: f64) -> Vec<super::Tick> {
    let above: &[f64] = match max {
        m if m > 8.0 => &[2.0, 4.0, 8.0, 16.0],
        m if m > 3.0 => &[1.5, 2.0, 4.0, 8.0],
        m if m > 1.6 => &[1.2, 1.5, 2.0, 3.0],
        m if m > 1.15 => &[1.05, 1.1, 1.2, 1.4],
        _ => &[1.01, 1.02, 1.05, 1.1],
    };
    let below = above.iter().rev().map(|ratio| 1.0 / ratio);
    let all = below.chain([1.0]).chain(above.iter().copied());
    let shown = |ratio: f64| {
        span.tick(
            ratio,
            numbers::ratio(ratio).trim_end_matches('0').trim_end_matches('.').to_string(),
        )
    };
    let mut ticks: Vec<super::Tick> = Vec::new();
    for tick in all.filter(|ratio| span.holds(*ratio)).map(shown) {
        // No label runs into the one before; the middle has its own.
        match ticks.last() {
            Some(last) if tick.at - last.at < TICK_WIDTH && tick.label == "1" => {
                ticks.pop();
                ticks.push(tick);
            }
            Some(last) if tick.at - last.at < TICK_WIDTH => {}
            _ => ticks.push(tick),
        }
    }
    ticks
}

impl Entry<'_> {
    /// How far from 1 its ratio, interval and seeds go, as ratios above 1.
    fn reach(&self) -> impl Iterator<Item = f64> {
        let interval = self.ratio.interval.iter().flat_map(|of| [of.low, of.high]);
        let seeds = self.seeds.iter().map(|(_, ratio)| *ratio);
        let all: Vec<f64> = [self.ratio.ratio].into_iter().chain(interval).chain(seeds).collect();
        all.into_iter().map(|ratio| 1.02 * ratio.max(1.0 / ratio)).filter(|ratio| ratio.is_finite())
    }

    fn draw(
        &self,
        analysis: &Analysis,
        names: &[String],
        (span, y): (Span, f64),
        chart: &mut Chart,
    ) {
        let (work, set, row) = self.place;
        let (side, verdict) = (self.side, row.cells[self.side].verdict());
        let place = format!("{} {}", phrases::place(work, set), clean(&row.kind.name));
        let change = Change::of(&self.ratio);
        let word = phrases::verdict(row, &row.cells[side]).unwrap_or_default();
        let said = format!("{place}, {}: {} {word}", names[side], change.with_interval());
        let margin = analysis.method.margin_of(self.place);
        let [low, high] = [1.0 / (1.0 + margin), 1.0 + margin].map(|ratio| span.place(ratio));
        let mut mark = |class: String, path: String, label: &str| {
            chart.marks.push(Mark { class, path, label: label.to_string() });
        };
        mark(BAND.to_string(), block(low, y - ROW / 2.0, high - low, ROW), "");
        for (round, ratio) in &self.seeds {
            let x = span.place(*ratio);
            let label =
                format!("{place}, {}, seed {}: {}", names[side], round + 1, numbers::ratio(*ratio));
            mark(
                format!("seed {}", super::series(side)),
                format!("M{x:.1} {:.1}v8", y - 4.0),
                &label,
            );
        }
        if let (Some(interval), true) = (self.ratio.interval, self.seeds.is_empty()) {
            let [low, high] = [interval.low, interval.high].map(|ratio| span.place(ratio));
            mark(
                format!("interval {}", super::series(side)),
                format!("M{low:.1} {y:.1}H{high:.1}"),
                "",
            );
        }
        let is_decided = matches!(verdict, Some(Verdict::Better | Verdict::Worse | Verdict::Same));
        let class =
            format!("dot {}{}", super::series(side), if is_decided { "" } else { " hollow" });
        mark(class, shape(side, span.place(self.ratio.ratio), y), &said);
        // The side stands at the end, so the place gives way.
        let side_name = match names.len() {
            2 => String::new(),
            _ => format!(", {}", shortened(&names[side], LABEL_CHARS / 2)),
        };
        let room = LABEL_CHARS - side_name.chars().count();
        let label = format!("{}{side_name}", shortened(&place, room));
        let mut text = |class, x, anchor, text: String| {
            chart.texts.push(Text { class, x, y: plot::round(y + 4.0), anchor, text });
        };
        text("label", FRAME.left - 10.0, "end", label);
        let agree = match self.seeds.len() {
            0 => String::new(),
            of => format!(" ({} of {of} seeds)", self.agreeing()),
        };
        text(
            "value",
            FRAME.right + 10.0,
            "start",
            format!("{} {word}{agree}", change.with_interval()),
        );
        let word = word.to_string();
        chart.data.rows.push(vec![
            place,
            names[side].clone(),
            change.change,
            change.interval,
            word,
        ]);
    }

    /// How many seeds lie on the same side of 1 as the ratio.
    fn agreeing(&self) -> usize {
        let is_more = self.ratio.ratio > 1.0;
        self.seeds.iter().filter(|(_, ratio)| (*ratio > 1.0) == is_more && *ratio != 1.0).count()
    }
}
