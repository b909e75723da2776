//! What was to be measured on all sides and has no verdict: who asks whether one side is as good
//! as another has no answer there. Pure.

use std::collections::BTreeMap;

use crate::model::{Direction, Unmeasured};
use crate::stats::{Unjudged, Verdict};

use super::WorkTable;
use super::build::Question;
use super::gather::Gathered;

/// Runs that failed or were skipped, a sentence for each work and side:
/// `batch: 4 of 10 runs of web failed: hung task`.
pub fn lost(works: &[Gathered], question: &Question) -> Vec<String> {
    let mut sentences = Vec::new();
    for work in works.iter().filter(|work| question.takes_work(work)) {
        for (side, (selection, lost)) in question.sides.iter().zip(&work.lost).enumerate() {
            let measured = work.sides[side].as_ref().map_or(0, |values| values.runs);
            for (is_skipped, how) in [(false, "failed"), (true, "were skipped")] {
                let own: Vec<&Unmeasured> =
                    lost.iter().copied().filter(|run| run.is_skipped == is_skipped).collect();
                if let Some(reason) = most_frequent(&own) {
                    sentences.push(format!(
                        "{}: {} of {} runs of {} {how}: {reason}",
                        selection.label,
                        own.len(),
                        measured + lost.len(),
                        work.key.label(),
                    ));
                }
            }
        }
    }
    sentences
}

/// The reason of most of them, the first of equally many, and how many they are.
fn most_frequent(lost: &[&Unmeasured]) -> Option<String> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for run in lost {
        match counts.iter_mut().find(|(reason, _)| *reason == run.reason) {
            Some((_, count)) => *count += 1,
            None => counts.push((&run.reason, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max()?;
    let (reason, _) = counts.iter().find(|(_, count)| *count == most)?;
    let others = lost.len() - most;
    let of_others = format!(" ({others} for other reasons)");
    Some(format!("{reason}{}", if others == 0 { "" } else { &of_others }))
}

/// Metrics that are unknown in some runs of a side, those of one set in one sentence.
#[derive(Default)]
pub struct Unknown {
    found: Vec<(Gap, Vec<String>)>,
}

#[derive(PartialEq, Eq)]
struct Gap {
    side: String,
    /// The work and the set.
    place: String,
    unknown: usize,
    runs: usize,
}

impl Unknown {
    /// A side has a value of `metric` in `known` of its `runs`; `place` is the work and the set.
    pub fn add(&mut self, side: &str, place: &str, metric: &str, (known, runs): (usize, usize)) {
        let unknown = runs - known.min(runs);
        if unknown == 0 {
            return;
        }
        let gap = Gap { side: side.to_string(), place: place.to_string(), unknown, runs };
        match self.found.iter_mut().find(|(known, _)| *known == gap) {
            Some((_, metrics)) => metrics.push(metric.to_string()),
            None => self.found.push((gap, vec![metric.to_string()])),
        }
    }

    pub fn sentences(self) -> impl Iterator<Item = String> {
        self.found.into_iter().map(|(Gap { side, place, unknown, runs }, metrics)| {
            let metrics = metrics.join(", ");
            format!("{side}: no value of {metrics} ({place}) in {unknown} of {runs} runs")
        })
    }
}

/// Rows whose values on both sides make no ratio.
pub fn ratios(works: &[WorkTable], labels: &[String]) -> Vec<String> {
    let mut sentences = Vec::new();
    for work in works {
        for (set, row) in work.sets.iter().flat_map(|set| set.rows.iter().map(move |r| (set, r))) {
            let Some(baseline) = row.cells.first() else { continue };
            if row.direction == Direction::Neutral {
                // It explains: there was to be no verdict.
                continue;
            }
            for (label, cell) in labels.iter().zip(&row.cells).skip(1) {
                let Some(judged) = &cell.judged else { continue };
                let Verdict::Unjudged(Unjudged::NoRatio(why)) = judged.verdict else { continue };
                let median = |cell: &super::Cell| cell.median.map_or("-".to_string(), short);
                sentences.push(format!(
                    "{label}: no ratio of {} ({}, {}), whose median is {} of {} and {} of {label}: \
                     {why}",
                    row.metric,
                    work.label,
                    set.name,
                    median(baseline),
                    labels[0],
                    median(cell),
                ));
            }
        }
    }
    sentences
}

/// Four digits, and no more decimals than that takes.
fn short(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        size => (3.0 - size.log10().floor()).clamp(0.0, 12.0) as usize,
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// Variants that were not what they are called: knobs that took in no run of a work.
pub fn knobs(works: &[Gathered], labels: &[String]) -> Vec<String> {
    let mut found: BTreeMap<(usize, &str, &str), Vec<String>> = BTreeMap::new();
    for work in works {
        for (side, values) in work.sides.iter().enumerate() {
            let Some(values) = values else { continue };
            let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
            for ((knob, asked, _), count) in &values.untaken {
                *counts.entry((*knob, asked.as_str())).or_default() += count;
            }
            let never = counts.into_iter().filter(|(_, count)| *count >= values.runs);
            for ((knob, asked), _) in never {
                found.entry((side, knob, asked)).or_default().push(work.key.label());
            }
        }
    }
    let sentence = |((side, knob, asked), works): ((usize, &str, &str), Vec<String>)| {
        let (label, works) = (&labels[side], works.join(", "));
        format!("{label}: the knob {knob} was {asked} in no run of {works}: not what was asked for")
    };
    found.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_not_rounded_to_nothing() {
        let cases = [
            (0.0, "0"),
            (1000.0, "1000"),
            (123456.7, "123457"),
            (0.5, "0.5"),
            (1.23456, "1.235"),
            (-0.000123456, "-0.0001235"),
        ];
        for (value, expected) in cases {
            assert_eq!(short(value), expected);
        }
    }
}
