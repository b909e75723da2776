//! Rows of a table as their values are shown, and as lines where no table fits. Pure.

use crate::analysis::Row;
use crate::report::layout::{Page, Tone, clean};
use crate::report::numbers::{Change, Scale};
use crate::report::phrases;

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

    pub fn with_suffix(&self, value: Option<f64>) -> String {
        format!("{} {}", self.show(value), self.suffix()).trim_end().to_string()
    }
}

/// Change, interval and verdict; of what has no ratio the value.
pub fn change(row: &Row, side: usize, scale: &RowScale) -> [String; 3] {
    let cell = &row.cells[side];
    let verdict = phrases::verdict(row, cell).unwrap_or_default().to_string();
    let ratio = cell.judged.as_ref().and_then(|judged| judged.ratio.ok());
    match ratio.as_ref().map(Change::of) {
        Some(Change { change, interval }) => [change, interval, verdict],
        None => {
            let suffix = if cell.median.is_some() { scale.suffix() } else { "" };
            [scale.show(cell.median), suffix.to_string(), verdict]
        }
    }
}

/// A row where no table fits.
pub fn stacked(
    place: &str,
    names: &[String],
    row: &Row,
    page: &mut Page,
    change: impl Fn(&Row, usize, &RowScale) -> [String; 3],
) {
    let scale = RowScale::new(row);
    let value = scale.with_suffix(row.cells[0].median);
    let baseline = names.first().map(String::as_str).unwrap_or_default();
    let mut said = vec![format!("{baseline} {value}")];
    for (side, name) in names.iter().enumerate().skip(1) {
        let [change, interval, verdict] = change(row, side, &scale);
        let text = format!("{name} {change} {interval} {verdict}");
        said.push(text.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let text = format!("{place} {}: {}", clean(&row.kind.name), said.join("; "));
    page.wrapped(Tone::Plain, "- ", text.trim_start());
}
