//! What every table of a mail is made of: ASCII, columns and blocks of columns. Pure.

use crate::analysis::{SetTable, WorkTable};
use crate::report::layout::{Page, Tone, clean};

pub const COLUMNS: usize = 78;
pub const RULE: usize = 66;
const GAP: usize = 4;

/// Behind the numbers of a row.
pub const STAR: &str = " *";

/// Clean, and ASCII: what is not shows as its Rust escape.
pub fn ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c.is_ascii() {
            true => ascii.push(c),
            false => ascii.extend(c.escape_default()),
        }
    }
    ascii
}

/// As [`ascii`], one word of a table's row.
pub fn word(text: &str) -> String {
    ascii(text).replace(' ', "_")
}

/// In the head of each table, as it may be mailed alone.
pub fn clock(time: Option<&str>, page: &mut Page) {
    if let Some(time) = time {
        page.wrapped(Tone::Plain, "Time          : ", &ascii(time));
    }
}

/// `threads=4,footprint=256KiB`; without axes the work's name.
pub fn case(work: &WorkTable) -> String {
    let points = work.axes.iter().map(|(axis, point)| format!("{}={}", word(axis), word(point)));
    let points: Vec<String> = points.collect();
    if points.is_empty() { word(&work.name) } else { points.join(",") }
}

/// `web`, and of which set where that is not the same word.
pub fn test_of(work: &WorkTable, set: &SetTable) -> String {
    let (work, set, workload) = (ascii(&work.name), ascii(&set.name), ascii(&set.workload));
    let mut said = vec![work.clone()];
    said.extend((set != work).then(|| format!("set {set}")));
    let own = workload != set && workload != work;
    said.extend(own.then_some(workload));
    said.join(", ")
}

pub fn two_decimals(value: f64) -> String {
    if value.abs() < 1e6 { format!("{value:.2}") } else { format!("{value:.1e}") }
}

pub struct Column {
    pub head: String,
    pub cells: Vec<String>,
    pub width: usize,
}

impl Column {
    pub fn new(head: String, cells: impl Iterator<Item = String>) -> Column {
        let cells: Vec<String> = cells.collect();
        let width = cells.iter().map(String::len).fold(head.len(), usize::max);
        Column { head, cells, width }
    }
}

/// What the rows are of; what is so long that two columns would not fit next to it does not widen
/// the column.
pub fn first_of(head: &str, cells: impl Iterator<Item = String>, columns: &[Column]) -> Column {
    let mut first = Column::new(head.to_string(), cells);
    let room = room(columns);
    let short = first.cells.iter().map(String::len).filter(|width| *width <= room);
    first.width = short.fold(first.head.len(), usize::max);
    first
}

/// For cases, next to the baseline and any one other.
pub fn room(columns: &[Column]) -> usize {
    let Some((baseline, others)) = columns.split_first() else { return COLUMNS };
    let widest = others.iter().map(|column| GAP + column.width).max().unwrap_or(0);
    COLUMNS.saturating_sub(GAP + baseline.width + widest + STAR.len())
}

/// The baseline with as many others as fit next to it, at least one, and so on.
pub fn blocks(first: usize, columns: &[Column]) -> Vec<Vec<&Column>> {
    let Some((baseline, others)) = columns.split_first() else { return Vec::new() };
    let alone = first + GAP + baseline.width + STAR.len();
    let mut blocks = vec![vec![baseline]];
    let mut used = alone;
    for column in others {
        let last = blocks.len() - 1;
        if used + GAP + column.width > COLUMNS && blocks[last].len() > 1 {
            blocks.push(vec![baseline, column]);
            used = alone + GAP + column.width;
        } else {
            blocks[last].push(column);
            used += GAP + column.width;
        }
    }
    blocks
}

/// Headers end where their columns end. `sign`: behind the row at this place.
pub fn laid_out(
    first: &Column,
    block: &[&Column],
    page: &mut Page,
    sign: impl Fn(usize) -> &'static str,
) {
    let gap = " ".repeat(GAP);
    let mut head = format!("{:width$}", first.head, width = first.width);
    for column in block {
        head.push_str(&format!("{gap}{:>width$}", column.head, width = column.width));
    }
    page.line(Tone::Plain, &head);
    for (at, case) in first.cells.iter().enumerate() {
        let mut case = case.as_str();
        if case.len() > first.width {
            page.wrapped(Tone::Plain, "", case);
            case = "";
        }
        let mut line = format!("{case:>width$}", width = first.width);
        for column in block {
            line.push_str(&format!("{gap}{:>width$}", column.cells[at], width = column.width));
        }
        page.line(Tone::Plain, &format!("{line}{}", sign(at)));
    }
}
