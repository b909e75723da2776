//! Rows of a table as their values are shown, and as lines where no table fits. Pure.

use crate::analysis::{Analysis, Row};
use crate::report::answer::View;
use crate::report::layout::{Page, Tone, clean};
use crate::report::numbers::{Change, Scale};
use crate::report::phrases;

/// The line in place of a table without rows.
pub fn nothing(analysis: &Analysis) -> &'static str {
    if analysis.sides.iter().any(|side| side.runs > 0) {
        "no headline metric was measured; -v shows the others, --metric NAME judges one"
    } else {
        "nothing was measured that can be compared"
    }
}

/// Change, interval and verdict; `none`: what stands where nothing can be compared.
pub fn change(analysis: &Analysis, row: &Row, side: usize, none: [String; 2]) -> [String; 3] {
    let cell = &row.cells[side];
    let verdict = phrases::verdict(analysis, row, cell).unwrap_or_default();
    let effect = analysis.effect(row, side);
    let change = effect.map(|effect| Change::from_effect(&effect, row.kind.unit));
    let [change, interval] = change.map_or(none, |of| [of.change, of.interval]);
    [change, interval, verdict]
}

/// The baseline's value and unit; for other sides [`change`], or the value where nothing can be compared.
pub fn of_side(analysis: &Analysis, row: &Row, side: usize, scale: &Scale) -> Vec<String> {
    let median = row.cells[side].median;
    let suffix = median.map_or("", |_| scale.suffix);
    let value = [scale.show_known(median), suffix.to_string()];
    match side {
        0 => value.to_vec(),
        _ => change(analysis, row, side, value).to_vec(),
    }
}

/// A row where no table fits; `all`: with the median and the rounds of each side.
pub fn stacked(view: View, place: &str, row: &Row, all: bool, page: &mut Page) {
    let (View { analysis, names }, scale) = (view, Scale::of_row(row));
    let said = names.iter().enumerate().map(|(side, name)| {
        let mut words = vec![name.clone()];
        if all && side > 0 {
            words.push(scale.with_suffix(row.cells[side].median));
            words.extend(change(analysis, row, side, Default::default()));
            let rounds = row.cells[side].judged.as_ref().and_then(phrases::rounds);
            words.extend(rounds.map(|of| format!("({} rounds)", phrases::show_rounds(of))));
        } else {
            words.extend(of_side(analysis, row, side, &scale));
        }
        let words = words.join(" ");
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    let text = format!("{place} {}: {}", clean(&row.kind.name), phrases::joined(said, "; "));
    page.wrapped(Tone::Plain, "- ", text.trim_start());
}
