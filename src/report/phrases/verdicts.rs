//! Verdicts and bounds, and the reasons for those that were not reached. Pure.

use serde::Serialize;

use crate::analysis::{Analysis, Cell, Pairing, Place, Row};
use crate::model::{Direction, Unit};
use crate::stats::{Distance, NoEffect, Shape, Unjudged, Verdict, Why};

use super::super::numbers::{Scale, significant};
use super::words::p_value;

/// Describes odd values of a cell: `two modes, 12 ms and 31 ms (4 of 10 rounds)`. Where
/// rounds of several plans are counted through, an outlier has its place among the values.
pub fn shapes(analysis: &Analysis, row: &Row, cell: &Cell) -> Vec<String> {
    let is_of_one_plan = analysis.sides.iter().all(|side| side.plans.len() <= 1);
    let are_rounds = analysis.method.pairing == Pairing::WithinRounds && is_of_one_plan;
    let each = if are_rounds { "round" } else { "value" };
    let which = |round: u32| match cell.values.iter().position(|(other, _)| *other == round) {
        _ if are_rounds => format!("round {}", round + 1),
        Some(at) => format!("value {} of {}", at + 1, cell.values.len()),
        None => "one value".to_string(),
    };
    let show = |value| Scale::for_values(row.kind.unit, Some(value)).with_suffix(Some(value));
    let one = |shape: &Shape| match *shape {
        Shape::TwoModes { low, high, in_high, of, .. } => {
            format!("two modes, {} and {} ({in_high} of {of} {each}s)", show(low), show(high))
        }
        Shape::Trend { last_over_first, p_value: p, .. } => {
            let change = format!("{:.1}", 100.0 * (last_over_first - 1.0));
            let (change, p) = (change.trim_end_matches(".0"), p_value(Some(p)));
            format!("a trend, {change} % from the first {each} to the last (p {p})")
        }
        Shape::Outlier { round, value, median, .. } => {
            let (which, value, median) = (which(round), show(value), show(median));
            format!("{which} is an outlier: {value}, the median is {median}")
        }
    };
    cell.shapes.iter().map(one).collect()
}

/// The verdict of a cell as people read it, with a mark where its rounds are spoilt, or what it is not: `<6.1 %`,
/// and behind `maybe`. `None` where none was to be.
pub fn verdict(analysis: &Analysis, row: &Row, cell: &Cell) -> Option<String> {
    let verdict = cell.verdict()?;
    Some(match bound(row, cell) {
        Some(bound) if is_maybe(&verdict) => {
            format!("{} <{bound}", marked(analysis, row, cell, verdict))
        }
        Some(bound) => format!("<{bound}"),
        None => marked(analysis, row, cell, verdict),
    })
}

/// The word of a cell's verdict, with a mark where its rounds are spoilt.
pub fn marked(analysis: &Analysis, row: &Row, cell: &Cell, verdict: Verdict) -> String {
    let mark = if is_spoilt(analysis, row, cell) { SPOILT } else { "" };
    verdict_on(row.kind.direction, verdict).to_string() + mark
}

/// Whether a verdict is for the better or for the worse; `None` where it is neither.
pub fn is_good(row: &Row, cell: &Cell) -> Option<bool> {
    match cell.verdict()? {
        _ if row.kind.direction == Direction::Neutral => None,
        Verdict::Better => Some(true),
        Verdict::Worse => Some(false),
        _ => None,
    }
}

fn is_maybe(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Inconclusive { why: Why::OnlyAlone, .. })
}

/// Behind a verdict on rounds that something from outside spoilt.
pub const SPOILT: &str = "!";

/// Whether a verdict of these rows has that mark.
pub fn has_spoilt<'a>(analysis: &Analysis, mut rows: impl Iterator<Item = Place<'a>>) -> bool {
    rows.any(|(.., row)| row.cells.iter().any(|cell| is_spoilt(analysis, row, cell)))
}

fn is_spoilt(analysis: &Analysis, row: &Row, cell: &Cell) -> bool {
    matches!(cell.verdict(), Some(Verdict::Better | Verdict::Worse | Verdict::Same))
        && analysis.counts_spoilt(row)
}

/// A bound beyond this part of the baseline says nothing that a reader could use, or of a tail latency beyond
/// the second.
const MAX_BOUNDS: [f64; 2] = [0.5, 1.0];

/// The bound of a cell that is not decided: `6.1 %`, `0.4 ms`. `None` where it has none, or one that is
/// too far out to be of use.
pub fn bound(row: &Row, cell: &Cell) -> Option<String> {
    let bound = cell.judged?.bound?;
    let max = MAX_BOUNDS[usize::from(row.kind.is_tail_latency())];
    if relative(row, bound) > max {
        return None;
    }
    Some(match bound {
        Distance::Ratio(bound) => format!("{} %", rounded_up(100.0 * bound)),
        Distance::Difference(bound) => {
            let scale = Scale::for_values(row.kind.unit, Some(bound));
            let text = format!("{} {}", rounded_up(scale.scaled(bound)), scale.suffix);
            text.trim_end().to_string()
        }
    })
}

/// A bound as a part of the baseline's mean. Where that is 0 nothing is large.
fn relative(row: &Row, bound: Distance) -> f64 {
    let mean = row.cells.first().and_then(|baseline| baseline.mean).unwrap_or_default().abs();
    match bound {
        Distance::Ratio(bound) => bound,
        Distance::Difference(bound) if mean > 0.0 => bound / mean,
        Distance::Difference(_) => 0.0,
    }
}

/// Two digits, so that what is below the value is below what is shown.
fn rounded_up(value: f64) -> String {
    let step = 10f64.powi(value.max(1e-9).log10().floor() as i32 - 1);
    significant((value / step - 1e-9).ceil() * step, 2)
}

pub fn verdict_on(direction: Direction, verdict: Verdict) -> &'static str {
    let is_neutral = direction == Direction::Neutral;
    match verdict {
        Verdict::Better if is_neutral => "LESS",
        Verdict::Worse if is_neutral => "MORE",
        Verdict::Better => "BETTER",
        Verdict::Worse => "WORSE",
        Verdict::Same => "SAME",
        // The interval is of this ratio alone: where it excludes 1 the word says what is missing.
        Verdict::Inconclusive { why, .. } => match why {
            Why::TooFewRounds { .. } => "too-few",
            Why::OnlyAlone => "maybe",
            Why::BelowFloor { .. } | Why::SameOnlyAlone | Why::Denied | Why::Noise => "open",
        },
        Verdict::Unjudged(_) => "-",
    }
}

/// The verdict for programs, and one word for why there is none.
pub fn keys(verdict: &Verdict) -> (String, Option<String>) {
    let why = match verdict {
        Verdict::Better | Verdict::Worse | Verdict::Same => None,
        Verdict::Inconclusive { why, .. } => Some(key(why)),
        Verdict::Unjudged(why) => Some(key(why)),
    };
    (key(verdict), why)
}

/// The word that JSON has for it: the value, or the key of what it holds.
pub fn key(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(serde_json::Value::Object(of)) => of.into_iter().map(|(key, _)| key).collect(),
        _ => String::new(),
    }
}

/// Why a verdict is not BETTER, WORSE or SAME; `None` for noise: the wide interval shows it.
/// `each` is one of what is judged: see [`each`].
pub fn why(verdict: &Verdict, unit: Unit, family: usize, each: &str) -> Option<String> {
    let why = match verdict {
        Verdict::Unjudged(Unjudged::NoEffect(why)) => {
            return Some(format!("cannot be compared: {}", no_effect(why, each)));
        }
        Verdict::Inconclusive { why, .. } => why,
        _ => return None,
    };
    let by_chance = |seen: &str, alone: &str, it: &str| match family {
        1 => format!("the interval {seen}, but a verdict takes more: it may still be chance"),
        _ => format!(
            "alone it would be {alone}; as one of {family} verdicts {it} may still be chance"
        ),
    };
    Some(match why {
        Why::Noise => return None,
        Why::TooFewRounds { least } => {
            format!("too few {each}s that count for any verdict: it takes at least {least}")
        }
        Why::OnlyAlone => by_chance("excludes 1", "a difference", "it"),
        Why::SameOnlyAlone => by_chance("is within the margin", "SAME", "that"),
        Why::Denied => {
            format!("a test showed a verdict, but the interval over all {each}s does not")
        }
        Why::BelowFloor { floor } => format!(
            "the difference is within the floor: equal runs differ by as much here, in A/A or from \
             plan to plan: {}",
            show_floor(floor, unit)
        ),
    })
}

/// Why two sides cannot be compared; rounds, or hosts, count from 1.
pub fn no_effect(why: &NoEffect, each: &str) -> String {
    match why {
        NoEffect::NotFinite { round, value } => format!("{each} {} has {value}", round + 1),
        NoEffect::NoPairs | NoEffect::NoRuns | NoEffect::OftenUnknown { .. } => why.to_string(),
    }
}

/// The word for the things that give one ratio each.
pub fn each(analysis: &Analysis) -> &'static str {
    match analysis.method.pairing {
        Pairing::OverHosts => "host",
        Pairing::WithinRounds | Pairing::None => "round",
    }
}

/// `10 %`, `0.53 %`: a floor is an estimate of two digits.
pub fn floor_percent(floor: f64) -> String {
    format!("{} %", significant(100.0 * floor, 2))
}

/// As [`floor_percent`], or a number in the metric's unit.
pub fn show_floor(floor: &Distance, unit: Unit) -> String {
    match floor {
        Distance::Ratio(floor) => floor_percent(*floor),
        Distance::Difference(floor) => {
            Scale::for_values(unit, Some(*floor)).with_suffix(Some(*floor))
        }
    }
}
