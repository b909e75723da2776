//! Errors of a plan that was made of files of rt-app, at the places of these files. Pure.

use std::ops::Range;

use crate::plan::error::{Faults, PlanErrors};

use super::{read, set_text};

/// The errors of this plan, each at the task of a file that it is about, if it is about one.
pub fn at_rt_app(errors: PlanErrors, plan: &str, files: &[(String, String)]) -> PlanErrors {
    let places: Vec<_> =
        files.iter().map(|(name, text)| (name, text, places(plan, text))).collect();
    errors.map(|error| {
        let at = offset(plan, error.line, error.column);
        let found = places.iter().find_map(|(name, text, places)| {
            let (_, span) = places.iter().find(|(here, _)| here.contains(&at))?;
            Some((name, text, span))
        });
        let Some((name, text, span)) = found else { return error };
        let faults = Faults::one(span, error.message.clone(), "this task", error.hint.clone());
        faults.into_errors(name, text).into_first().unwrap_or(error)
    })
}

/// The places in a plan at which the tasks of a file stand, each with the task's place in the file.
fn places(plan: &str, file: &str) -> Vec<(Range<usize>, Range<usize>)> {
    let Ok((_, sets)) = read("", file) else { return Vec::new() };
    let found = sets.iter().flat_map(|set| {
        [true, false].into_iter().flat_map(|is_wide| {
            let text = set_text(set, is_wide);
            let starts = plan.match_indices(&text).map(|(start, _)| start);
            starts.map(|start| (start..start + text.len(), set.span.clone())).collect::<Vec<_>>()
        })
    });
    found.collect()
}

/// The byte of a line and a column, which count from 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = text.get(start..).unwrap_or_default();
    start + rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(at, _)| at)
}
