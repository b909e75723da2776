//! Parts that the pages of scoreboards share: the layout, and how times and counts are written. Pure.

use crate::analysis::By;
use crate::report::numbers::significant;

/// How a scoreboard is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub by: By,
    /// Rows and pairs that are shown, those with most run time and most counts first.
    pub top: usize,
}

/// The widest name in tables: the kernel's have 15 bytes.
pub const NAME_COLUMNS: usize = 18;

/// Three digits and a unit: `1.52us`.
pub fn time(ns: u64) -> String {
    let (unit, scale) = match ns {
        0..1_000 => return format!("{ns}ns"),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let shown = significant(ns as f64 / scale, 3);
    format!("{shown}{unit}")
}
