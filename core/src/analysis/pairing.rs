//! Pairs the works of the sides for comparison, and says why others are left out. Pure.

use std::collections::BTreeSet;

use super::note_finder::merged;
use super::notes::Note;
use super::question::Question;
use super::samples::{Values, WorkSamples};

pub struct Common<'a> {
    pub shown: Vec<WorkSamples<'a>>,
    pub left_out: Vec<WorkSamples<'a>>,
    pub refused: Vec<Note>,
}

/// Works that the baseline and another side have. Of a lone side all of its works, and of the
/// variants of one plan the works that one of them has: the plan meant to measure them on each.
pub fn common<'a>(mut works: Vec<WorkSamples<'a>>, question: &Question) -> Common<'a> {
    if question.against {
        let own: BTreeSet<String> =
            works.iter().filter(|work| is_of_others(work)).map(|work| work.key.label()).collect();
        works.retain(|work| own.contains(&work.key.label()));
    }
    let plans = |at: usize| question.sides.get(at).map(|side| side.plans.as_slice());
    let is_one_plan = plans(0).is_some_and(|first| first.len() == 1)
        && (1..question.sides.len()).all(|at| plans(at) == plans(0));
    let is_lone = question.sides.len() < 2;
    let is_common =
        |sides: &[Option<Values>]| sides[0].is_some() && sides[1..].iter().any(Option::is_some);
    let is_shown = |work: &WorkSamples| {
        if is_one_plan && work.key.variant.is_none() {
            work.sides.iter().any(Option::is_some)
        } else {
            is_lone || is_common(&work.sides)
        }
    };
    let (common, partial): (Vec<_>, Vec<_>) = works.into_iter().partition(is_shown);
    let whys = (0..partial.len()).filter_map(|at| {
        Some((why_partial(at, &partial, &common, question)?, partial[at].key.label()))
    });
    let mut refused = merged(whys);
    let (shown, mut left_out): (Vec<_>, Vec<_>) =
        common.into_iter().partition(|work| is_unmixed(work, question, &mut refused));
    left_out.extend(partial);
    Common { shown, left_out, refused }
}

/// Whether a side that is not the baseline has runs of this work.
fn is_of_others(work: &WorkSamples) -> bool {
    let mut others = work.sides.iter().zip(&work.unmeasured).skip(1);
    others.any(|(values, unmeasured)| values.is_some() || !unmeasured.is_empty())
}

/// Why the work at this position of `partial`, which the note does not name yet, is not compared;
/// `None` where another note says it.
fn why_partial(
    at: usize,
    partial: &[WorkSamples],
    common: &[WorkSamples],
    question: &Question,
) -> Option<Note> {
    let work = &partial[at];
    let first = |work: &WorkSamples| work.sides.iter().position(Option::is_some);
    let on = |work: &WorkSamples| -> Vec<String> {
        let sides = question.sides.iter().zip(&work.sides).filter(|(_, values)| values.is_some());
        sides.map(|(side, _)| side.label.clone()).collect()
    };
    let is_explained =
        |(values, runs): (&Option<Values>, &Vec<_>)| values.is_some() || !runs.is_empty();
    if first(work).is_none() || work.sides.iter().zip(&work.unmeasured).all(is_explained) {
        return None;
    }
    let label = work.key.label();
    let differs = |other: &WorkSamples| {
        (other.key.label() == label).then(|| work.key.difference(&other.key)).flatten()
    };
    let unlike = common.iter().find_map(|other| Some((other, differs(other)?)));
    if let Some((other, why)) = unlike {
        let (sides, others) = (on(work), on(other));
        return Some(Note::NotSameWork { works: Vec::new(), sides, others, why });
    }
    // Two works that differ are both in `partial`: the first of them has the note.
    let unlike =
        |(_, other): &(usize, &WorkSamples)| first(other).is_some() && differs(other).is_some();
    match partial.iter().enumerate().find(unlike) {
        Some((other_at, _)) if other_at < at => None,
        Some((_, other)) => {
            let (a, b) = if first(other) < first(work) { (other, work) } else { (work, other) };
            let why = a.key.difference(&b.key)?;
            let (sides, others) = (on(a), on(b));
            Some(Note::NotSameWork { works: Vec::new(), sides, others, why })
        }
        None => Some(Note::OnlyOn { works: Vec::new(), sides: on(work) }),
    }
}

/// Whether each side has this work of one variant; where not, `refused` says so.
fn is_unmixed(work: &WorkSamples, question: &Question, refused: &mut Vec<Note>) -> bool {
    let before = refused.len();
    for (side, values) in question.sides.iter().zip(&work.sides) {
        let variants = values.as_ref().map_or(&[][..], |values| values.variants.as_slice());
        let [first, _, ..] = variants else { continue };
        let names: BTreeSet<&String> = variants.iter().map(|of| &of.name).collect();
        let (work, side) = (work.key.label(), side.label.clone());
        refused.push(match names.len() {
            1 => Note::KnobsDiffer { work, side, variant: first.name.clone() },
            _ => Note::MixedVariants { work, side, variants: names.into_iter().cloned().collect() },
        });
    }
    refused.len() == before
}
