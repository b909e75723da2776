//! Renders an [`crate::analysis::Analysis`]: one file per format and one line in [`formats`], from which the help
//! of `--format`, `schedlab list formats` and the plan's schema derive. Pure: the same analysis
//! and options give the same bytes.
//!
//! [`phrases`] has the only English about results, [`layout`] the only tables.

mod answer;
pub mod chart;
mod contract;
mod csv;
pub mod expect;
pub mod fidelity;
mod gobench;
mod hosts;
pub mod html;
mod json;
mod junit;
mod layout;
mod lkml;
mod loads;
mod markdown;
pub mod numbers;
pub mod page;
mod phrases;
mod png;
pub mod power;
mod schbench;
pub mod score;
mod svg;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod text;
pub mod timeline;
pub mod trial;

pub use contract::{Format, Options, OtherFormats, Render, RenderOther};
pub use layout::{clean, paragraph, shortened, wrap};
pub use phrases::disturbance::disturbance;
pub use phrases::{
    changes, differs, distinct_names, first_between, first_of, gaps, guest, in_turns, is_good,
    knobs, listed, metric, place, placement, rough_time, verdict,
};

use std::collections::BTreeSet;

use crate::analysis::{Analysis, Family, Severity};

/// Every format, the default first.
pub fn formats() -> &'static [&'static Format] {
    &[
        &text::TEXT,
        &lkml::LKML,
        &loads::LOADS,
        &markdown::MARKDOWN,
        &html::HTML,
        &svg::SVG,
        &png::PNG,
        &schbench::SCHBENCH,
        &csv::CSV,
        &json::JSON,
        &gobench::GOBENCH,
        &junit::JUNIT,
        #[cfg(test)]
        &tests::DUMMY,
    ]
}

/// The format of this name.
pub fn find(name: &str) -> Option<&'static Format> {
    formats().iter().copied().find(|format| format.name == name)
}

/// The verdicts on each side in numbers, clean: `batch: 1 BETTER, 4 open`; last what its notes say against
/// them: `see its notes: failed, spoilt`. None without another side.
pub fn counts(analysis: &Analysis) -> Vec<String> {
    let names = phrases::names(&analysis.sides, usize::MAX, clean, "…");
    let counts = |(side, name): (usize, &String)| {
        let all = phrases::Tally::count(analysis.rows_of(Family::Headline), side).counts();
        let some: Vec<&str> = all.split(", ").filter(|count| !count.starts_with("0 ")).collect();
        let some = if some.is_empty() { "no verdict".to_string() } else { some.join(", ") };
        format!("{name}: {some}")
    };
    let counts: Vec<String> = names.iter().enumerate().skip(1).map(counts).collect();
    let bad = analysis.notes.iter().filter(|note| note.severity() == Severity::Bad);
    let words: BTreeSet<&str> = bad.map(|note| phrases::note(analysis, note).0).collect();
    let words = words.into_iter().collect::<Vec<_>>().join(", ");
    let notes =
        (!words.is_empty() && !counts.is_empty()).then(|| format!("see its notes: {words}"));
    counts.into_iter().chain(notes).collect()
}
