//! Notes with their sentences, many notes of one cause in one. Pure.

use crate::analysis::{Analysis, NoValue, Note, cause, grouped, once};
use crate::report::layout::clean;
use crate::report::numbers::counted;

use super::notes::{note, one_line, other_reasons, place};
use super::words::{listed, with_sides};

/// Runs of a side that give no value.
struct Gap<'n> {
    side: &'n str,
    work: &'n str,
    set: &'n str,
    /// Empty where the runs failed.
    metrics: &'n [String],
    runs: usize,
    of: usize,
    reason: &'n str,
    others: usize,
}

impl Gap<'_> {
    /// Whether a reason in which this name stands may be the reason of other works and metrics.
    fn is_own(&self, name: &str) -> bool {
        let work = self.work.split(' ').next();
        work == Some(name) || self.set == name || self.metrics.iter().any(|own| own == name)
    }
}

fn gap(note: &Note) -> Option<Gap<'_>> {
    Some(match note {
        Note::NoValue(NoValue { side, work, set, metrics, runs, of, reason }) => {
            let reason = reason.as_deref().unwrap_or_default();
            Gap { side, work, set, metrics, runs: *runs, of: *of, reason, others: 0 }
        }
        Note::Failed { side, work, runs, of, reason, others } => Gap {
            side,
            work,
            set: work,
            metrics: &[],
            runs: *runs,
            of: *of,
            reason,
            others: *others,
        },
        _ => return None,
    })
}

/// The things that notes which become one have in common.
#[derive(PartialEq)]
enum Common {
    /// Whether runs failed, and the cause.
    Cause(bool, String),
    /// All but the side.
    Text(Note),
    /// Nothing: its place in the list.
    Alone(usize),
}

fn common(at: usize, note: &Note) -> Common {
    let mut alike = note.clone();
    match (gap(note), alike.side_mut().map(std::mem::take)) {
        (Some(gap), _) => {
            Common::Cause(gap.metrics.is_empty(), cause(gap.reason, |name| gap.is_own(name)))
        }
        (None, Some(_)) => Common::Text(alike),
        (None, None) => Common::Alone(at),
    }
}

/// The notes that `is_shown` takes, each with its word and its sentence. Of those with one cause, or that differ in
/// their side alone, the first stands for all.
pub fn folded_notes(
    analysis: &Analysis,
    is_shown: impl Fn(&Note) -> bool,
) -> Vec<(&Note, &'static str, String)> {
    let shown = analysis.notes.iter().filter(|note| is_shown(note)).enumerate();
    let folded = grouped(shown.map(|(at, note)| (common(at, note), note))).into_iter();
    let folded = folded.map(|(common, notes)| {
        let (word, text) = match (notes.as_slice(), common) {
            ([one], _) => note(analysis, one),
            (several, Common::Cause(..)) => {
                (note(analysis, several[0]).0, clean(&all_in_one(analysis, several)))
            }
            (several, _) => note(analysis, &of_all_sides(several)),
        };
        (notes[0], word, text)
    });
    folded.collect()
}

/// Why something that was to be judged was not, in clean sentences.
pub fn gaps(analysis: &Analysis) -> Vec<String> {
    let gaps = folded_notes(analysis, Note::is_gap).into_iter();
    gaps.map(|(_, word, text)| format!("{word}: {text}")).collect()
}

/// Notes that differ in their side alone, as one.
fn of_all_sides(notes: &[&Note]) -> Note {
    let mut all = notes[0].clone();
    let side = |note: &&Note| (*note).clone().side_mut().cloned();
    let sides: Vec<String> = notes.iter().filter_map(side).collect();
    if let Some(side) = all.side_mut() {
        *side = listed(&sides);
    }
    all
}

fn all_in_one(analysis: &Analysis, notes: &[&Note]) -> String {
    let gaps: Vec<Gap> = notes.iter().filter_map(|note| gap(note)).collect();
    let (mut cells, mut metrics) = (Vec::new(), Vec::new());
    for gap in &gaps {
        once(&mut cells, (place(gap.work, gap.set), gap.side));
        gap.metrics.iter().for_each(|metric| once(&mut metrics, metric));
    }
    let places = listed(&with_sides(cells, analysis.sides.len()));
    let sum = |of: fn(&Gap) -> usize| gaps.iter().map(of).sum::<usize>();
    let runs = match (metrics.is_empty(), gaps.iter().all(|gap| gap.runs == gap.of)) {
        (true, _) => format!("{} of {}", sum(|gap| gap.runs), counted(sum(|gap| gap.of), "run")),
        (false, true) => format!("no value of {} in all runs", listed(&metrics)),
        (false, false) => format!("no value of {} in some runs", listed(&metrics)),
    };
    let like =
        if gaps.iter().all(|gap| gap.reason == gaps[0].reason) { "" } else { ", for example" };
    let reason = match gaps[0].reason {
        "" => String::new(),
        reason => format!("{like}: {}", one_line(reason)),
    };
    format!("{runs} of {places}{reason}{}", other_reasons(sum(|gap| gap.others)))
}
