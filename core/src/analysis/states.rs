//! Works whose runs switch between two speeds, and how much time each side spent at each. Pure.

use std::collections::HashMap;

use crate::model::{RunKey, SampledPlan};
use crate::stats;

use super::notes::Note;
use super::question::{Question, RunWindows};
use super::{CountedRun, WorkTable};

/// The notes on runs whose values are in the tables.
pub fn two_speeds(plans: &[SampledPlan], question: &Question, works: &[WorkTable]) -> Vec<Note> {
    let windows = question.windows.iter().map(|run| ((run.plan.as_str(), run.key), run));
    let windows: HashMap<(&str, RunKey), &RunWindows> = windows.collect();
    let rates = |run: &CountedRun, set: &str| {
        let found = windows.get(&(plans.get(run.plan)?.id.as_str(), run.key))?;
        found.sets.iter().find(|(name, _)| name == set).map(|(_, rates)| rates.clone())
    };
    let mut notes = Vec::new();
    for work in works {
        for set in &work.sets {
            let sides = work.runs.iter();
            let sides =
                sides.map(|runs| runs.iter().filter_map(|run| rates(run, &set.name)).collect());
            let sides: Vec<Vec<Vec<f64>>> = sides.collect();
            let Some(stats::TwoSpeeds { low, high, in_high }) = stats::two_speeds(&sides) else {
                continue;
            };
            let labels = question.sides.iter().map(|side| side.label.clone());
            let in_high = labels.zip(in_high).filter_map(|(side, share)| Some((side, share?)));
            let (place, set) = (work.label.clone(), set.name.clone());
            notes.push(Note::TwoSpeeds { work: place, set, low, high, in_high: in_high.collect() });
        }
    }
    notes
}
