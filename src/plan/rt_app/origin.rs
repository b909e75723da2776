//! Errors of a plan that was made of files of rt-app, at the places of these files. Pure.

use std::ops::Range;

use crate::plan::error::{Faults, PlanErrors};

use super::task::Set;
use super::{read, set_text};

/// The errors of this plan, each at the task of a file that it is about, if it is about one.
pub fn at_rt_app(errors: PlanErrors, plan: &str, files: &[(String, String)]) -> PlanErrors {
    errors.map(|error| {
        let at = offset(plan, error.line, error.column);
        let found =
            files.iter().find_map(|(name, text)| Some((name, text, place(plan, at, text)?)));
        let Some((name, text, span)) = found else { return error };
        let faults = Faults::one(&span, error.message.clone(), "this task", error.hint.clone());
        faults.into_errors(name, text).into_first().unwrap_or(error)
    })
}

/// The place in a file of the task that stands at this place of a plan.
fn place(plan: &str, at: usize, file: &str) -> Option<Range<usize>> {
    let (_, sets) = read("", file).ok()?;
    let stands_here = |set: &Set| {
        [true, false].into_iter().any(|is_wide| {
            let text = set_text(set, is_wide);
            let mut starts = plan.match_indices(&text).map(|(start, _)| start);
            starts.any(|start| (start..start + text.len()).contains(&at))
        })
    };
    sets.into_iter().find(stands_here).map(|set| set.span)
}

/// The byte of a line and a column, which count from 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = text.get(start..).unwrap_or_default();
    start + rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(at, _)| at)
}
