//! The value of a side in the unit of its metric, with its interval. Pure.

use crate::analysis::Cell;
use crate::report::numbers::Scale;
use crate::stats::{self, Interval};

/// The median over rounds of a side.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    pub value: f64,
    /// 95 %; `None` of exact values, and of too few.
    pub interval: Option<[f64; 2]>,
    /// By round, where there is no interval.
    pub each: Vec<(u32, f64)>,
}

impl Estimate {
    pub fn new(cell: &Cell, is_exact: bool) -> Option<Estimate> {
        let values: Vec<f64> = cell.values.iter().map(|(_, value)| *value).collect();
        let interval = stats::median_interval(&values).filter(|_| !is_exact);
        let interval = interval.map(|Interval { low, high }| [low, high]);
        let each = if interval.is_none() { cell.values.clone() } else { Vec::new() };
        Some(Estimate { value: cell.median?, interval, each })
    }

    pub fn reach(&self) -> impl Iterator<Item = f64> {
        let each = self.each.iter().map(|(_, value)| *value);
        each.chain(self.interval.into_iter().flatten()).chain([self.value])
    }

    /// `2384 /s (2312 to 2410)`.
    pub fn said(&self, scale: &Scale) -> String {
        let interval = self.interval.map(|limits| limits.map(|limit| scale.show(limit)));
        let interval = interval.map(|[low, high]| format!(" ({low} to {high})"));
        format!("{}{}", scale.with_suffix(Some(self.value)), interval.unwrap_or_default())
    }

    /// Its value and limits, in the unit of a scale.
    pub fn cells(of: Option<&Estimate>, scale: &Scale) -> [String; 3] {
        let [low, high] =
            of.and_then(|of| of.interval).map_or([None; 2], |limits| limits.map(Some));
        [of.map(|of| of.value), low, high].map(|value| scale.show_known(value))
    }
}
