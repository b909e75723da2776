//! Variants that took turns: whether a block was long enough for what they change. Pure.

use crate::stats::{self, Effect, LATE_TO_EARLY};

use super::metrics::THROUGHPUT;
use super::notes::Note;
use super::question::Question;
use super::{SetTable, WorkTable};

/// Notes on sets whose ratio to the baseline differs between the late and the early halves of blocks by more than
/// the throughput's margin. All of them together are false in at most 5 % of reports.
pub fn carry_over(question: &Question, works: &[WorkTable]) -> Vec<Note> {
    let sets = || works.iter().flat_map(|work| work.sets.iter().map(move |set| (work, set)));
    let comparisons = sets().count() * question.sides.len().saturating_sub(1);
    let confidence = 1.0 - stats::LEVEL / comparisons.max(1) as f64;
    let note = |(work, set): (&WorkTable, &SetTable)| {
        let row = set.rows.iter().find(|row| row.kind.name == LATE_TO_EARLY)?;
        let (baseline, others) = row.cells.split_first()?;
        let throughput = set.rows.iter().find(|row| row.kind.name == THROUGHPUT)?;
        let margin = question.margin_of(&work.label, &set.name, &throughput.kind);
        let labels = question.sides.iter().skip(1).map(|side| &side.label);
        let late = labels.zip(others).filter_map(|(label, cell)| {
            let effect = stats::paired_effect_with(&baseline.values, &cell.values, confidence);
            let Ok(Effect::Ratio(ratio)) = effect else { return None };
            let interval = ratio.interval?;
            let is_beyond = ratio.ratio.ln().abs() > margin.ln_1p();
            let differs = is_beyond && !(interval.low..=interval.high).contains(&1.0);
            differs.then(|| (label.clone(), ratio.ratio))
        });
        let sides: Vec<(String, f64)> = late.collect();
        let [work, set] = [&work.label, &set.name].map(String::clone);
        (!sides.is_empty()).then_some(Note::CarryOver { work, set, sides })
    };
    sets().filter_map(note).collect()
}
