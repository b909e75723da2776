//! The forest plot: the change of each side against the baseline with its interval, a row for each
//! headline metric, and the band within which a difference is SAME. Pure.
//!
//! Exact results have no noise, so no interval stands for one: there each seed is a tick.

use std::collections::BTreeMap;

use crate::analysis::{Analysis, Family, Place};
use crate::report::numbers::{self, Change};
use crate::report::phrases;
use crate::stats::{Effect, Verdict};

use super::plot::extent;
use super::strips::{Group, Row, Strips};
use super::{Chart, Data, Key, Width, sense};

/// Ratios beyond these are drawn at the edge.
const MAX_RATIO: f64 = 16.0;
const CUT: &str = "Changes beyond 16 times and below a 16th are at the edge.";
pub const ABSENT: &str = "Where a value is 0 there is no ratio: the difference stands in words.";
/// Factors that an axis names, and changes in percent: from 0 on the largest first.
const FACTORS: [f64; 3] = [16.0, 8.0, numbers::FACTOR_FROM];
const PERCENTS: [f64; 22] = [
    200.0, -90.0, -75.0, 100.0, -50.0, 50.0, -20.0, 20.0, -10.0, 10.0, -5.0, 5.0, -2.0, 2.0, -1.0,
    1.0, -0.5, 0.5, -0.2, 0.2, -0.1, 0.1,
];

/// `None` without a ratio of a headline metric.
pub fn forest(analysis: &Analysis, names: &[String]) -> Option<Chart> {
    let is_exact = analysis.is_exact();
    let head = ["metric", "better is", "side", "change", "95 %", "verdict", "ratio", "low", "high"];
    let mut data = Data { head: head.map(str::to_string).to_vec(), rows: Vec::new() };
    let groups = analysis.rows_of(Family::Headline).map(|place| {
        let rows = (1..names.len()).filter_map(|side| {
            let effect = analysis.effect(place.2, side)?;
            Some(row(analysis, place, (side, names), effect, &mut data))
        });
        let margin = analysis.method.margin_of(place);
        Group {
            rows: rows.collect(),
            heading: phrases::metric(place),
            better: place.2.kind.direction,
            band: Some([1.0 / (1.0 + margin), 1.0 + margin]),
        }
    });
    let groups: Vec<Group> = groups.filter(|group| !group.rows.is_empty()).collect();
    let mut rows = groups.iter().flat_map(|group| &group.rows);
    let lacks_ratio = rows.clone().any(|row| row.value.is_none());
    rows.find(|row| row.value.is_some())?;
    let reached = groups.iter().flat_map(|group| {
        let of_row = |row: &Row| {
            let interval = row.interval.map(|of| [of.low, of.high]).into_iter().flatten();
            let each = row.each.iter().map(|(_, ratio)| *ratio);
            interval.chain(each).chain(row.value).collect::<Vec<f64>>()
        };
        group.rows.iter().flat_map(of_row).chain(group.band.into_iter().flatten())
    });
    let reached = extent(reached)?;
    let [low, high] = reached.map(|ratio| ratio.clamp(1.0 / MAX_RATIO, MAX_RATIO));
    let cut = if reached == [low, high] { "" } else { CUT };
    let absent = if lacks_ratio { ABSENT } else { "" };
    let room = (high / low).powf(0.04);
    let strips = Strips {
        ends: [low / room, high * room],
        is_log: true,
        ticks: ticks(
            groups
                .iter()
                .flat_map(|group| &group.rows)
                .any(|row| row.value.is_some_and(|value| value >= numbers::FACTOR_FROM)),
        ),
        one: Some(1.0),
        x_title: "change against the baseline".to_string(),
        groups,
    };
    Some(Chart {
        title: format!("Change of each headline metric against {}", names[0]),
        measure: "arrows point to better".to_string(),
        about: phrases::joined([about(is_exact), absent, cut].map(str::to_string), " "),
        keys: (1..names.len()).map(|side| Key::dot(side, &names[side])).collect(),
        data,
        drawings: strips.draw(&Width::ALL),
    })
}

fn about(is_exact: bool) -> &'static str {
    if is_exact {
        "The mark is the mean change over seeds, a tick the change of one seed; every run is exact. In brackets: \
             how many seeds changed in the same direction as the mean. The \
             grey band is what counts as the same. Filled marks are decided, hollow ones are open."
    } else {
        "The mark is the change, the line its 95 % interval, the grey band what counts as the same. Filled \
             marks are decided, hollow ones are open."
    }
}

/// The ratio in each round that both have.
fn seeds((.., row): Place, side: usize) -> Vec<(u32, f64)> {
    let baseline: BTreeMap<u32, f64> = row.cells[0].values.iter().copied().collect();
    let ratio = |(round, value): &(u32, f64)| Some((*round, value / baseline.get(round)?));
    let ratios = row.cells[side].values.iter().filter_map(ratio);
    ratios.filter(|(_, ratio)| ratio.is_finite() && *ratio > 0.0).collect()
}

/// Places as ratios, in the unit of the labels of rows: `has_factors`, where one of them is a factor.
fn ticks(has_factors: bool) -> Vec<(f64, String)> {
    let factors = FACTORS.map(|factor| {
        if has_factors {
            (factor, format!("{factor}x"))
        } else {
            (factor, format!("{:+} %", 100.0 * (factor - 1.0)))
        }
    });
    let percents = PERCENTS.map(|percent| (1.0 + percent / 100.0, format!("{percent:+} %")));
    [(1.0, "0".to_string())].into_iter().chain(factors).chain(percents).collect()
}

fn row(
    analysis: &Analysis,
    place: Place,
    (side, names): (usize, &[String]),
    effect: Effect,
    data: &mut Data,
) -> Row {
    let (cell, metric) = (&place.2.cells[side], phrases::metric(place));
    let ratio = effect.ratio();
    let has_seeds = analysis.is_exact() && ratio.is_some();
    let seeds = if has_seeds { seeds(place, side) } else { Vec::new() };
    let change = Change::from_effect(&effect, place.2.kind.unit);
    let word = phrases::verdict(analysis, place.2, cell).unwrap_or_default();
    let is_decided =
        matches!(cell.verdict(), Some(Verdict::Better | Verdict::Worse | Verdict::Same));
    let agree = match (ratio, seeds.len()) {
        (Some(of_all), of @ 1..) => {
            format!(" ({} of {of} seeds)", agreeing(&seeds, of_all.ratio))
        }
        _ => String::new(),
    };
    let of_seed = |(round, ratio): &(u32, f64)| {
        let number = numbers::ratio(*ratio);
        (format!("{metric}, {}, seed {}: {number}", names[side], round + 1), *ratio)
    };
    let interval = ratio.and_then(|ratio| ratio.interval);
    let limits = [interval.map(|of| of.low), interval.map(|of| of.high)];
    let figures = [ratio.map(|ratio| ratio.ratio)].into_iter().chain(limits);
    let figures = figures
        .map(|figure| figure.map_or(String::new(), |figure| numbers::significant(figure, 5)));
    let better = sense(place.2.kind.direction).trim_end_matches(" is better");
    let shown = [&metric, better, &names[side], &change.change, &change.interval, &word];
    let cells = shown.into_iter().map(str::to_string);
    data.rows.push(cells.chain(figures).collect());
    Row {
        label: if names.len() > 2 { names[side].clone() } else { String::new() },
        text: format!("{} {word}{agree}", change.with_interval()).trim_end().to_string(),
        said: format!("{metric}, {}: {} {word}", names[side], change.with_interval()),
        series: side,
        value: ratio.map(|ratio| ratio.ratio),
        interval: interval.filter(|_| seeds.is_empty()),
        each: seeds.iter().map(of_seed).collect(),
        is_hollow: !is_decided,
    }
}

/// How many seeds lie on the same side of 1 as the ratio.
fn agreeing(seeds: &[(u32, f64)], ratio: f64) -> usize {
    let is_more = ratio > 1.0;
    seeds.iter().filter(|(_, ratio)| (*ratio > 1.0) == is_more && *ratio != 1.0).count()
}
