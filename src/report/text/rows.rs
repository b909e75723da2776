//! Rows of a table as their values are shown, and as lines where no table fits. Pure.

use crate::analysis::{Analysis, Row};
use crate::report::layout::{Page, Tone, clean};
use crate::report::numbers::{Change, Scale};
use crate::report::phrases;

pub const NOTHING: &str = "nothing was measured that can be shown";

/// One scale for all values of a row.
pub struct RowScale(Scale);

impl RowScale {
    pub fn new(row: &Row) -> RowScale {
        let typical = row.cells.iter().find_map(|cell| cell.median);
        RowScale(Scale::of(row.kind.unit, typical))
    }

    pub fn show(&self, value: Option<f64>) -> String {
        value.map_or("-".to_string(), |value| self.0.show(value))
    }

    pub fn suffix(&self) -> &'static str {
        self.0.suffix
    }

    /// `wakeup_p99 us`
    pub fn name(&self, row: &Row) -> String {
        format!("{} {}", clean(&row.kind.name), self.suffix()).trim_end().to_string()
    }

    pub fn with_suffix(&self, value: Option<f64>) -> String {
        format!("{} {}", self.show(value), self.suffix()).trim_end().to_string()
    }
}

/// Change, interval and verdict; `none`: what stands where there is no ratio.
pub fn change(analysis: &Analysis, row: &Row, side: usize, none: [String; 2]) -> [String; 3] {
    let verdict = phrases::verdict(row, &row.cells[side]).unwrap_or_default().to_string();
    let ratio = analysis.ratio(row, side).as_ref().map(Change::of);
    let [change, interval] = ratio.map_or(none, |of| [of.change, of.interval]);
    [change, interval, verdict]
}

/// Of the baseline its value and unit, of others as [`change`] with the value where there is no
/// ratio.
pub fn of_side(analysis: &Analysis, row: &Row, side: usize, scale: &RowScale) -> Vec<String> {
    let median = row.cells[side].median;
    let suffix = if side == 0 || median.is_some() { scale.suffix() } else { "" };
    let value = [scale.show(median), suffix.to_string()];
    match side {
        0 => value.to_vec(),
        _ => change(analysis, row, side, value).to_vec(),
    }
}

/// A row where no table fits.
pub fn stacked(analysis: &Analysis, place: &str, names: &[String], row: &Row, page: &mut Page) {
    let scale = RowScale::new(row);
    let said = names.iter().enumerate().map(|(side, name)| {
        let words = format!("{name} {}", of_side(analysis, row, side, &scale).join(" "));
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    let said = said.collect::<Vec<_>>().join("; ");
    let text = format!("{place} {}: {said}", clean(&row.kind.name));
    page.wrapped(Tone::Plain, "- ", text.trim_start());
}
