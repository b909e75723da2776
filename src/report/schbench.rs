//! `schbench`: the blocks in which schbench's results are mailed, one per point of a plan, with a
//! column per side, be it a variant, a kernel or a machine; verdicts below, as in [`super::lkml`].
//!
//! ```text
//! F128 N1                   EEVDF      Linus
//! Wakeup  (usec): 99.0th:     355        555
//! Request (usec): 99.0th:   2,620      1,906
//! RPS    (count): 50.0th:  37,696     41,664
//! ```
//!
//! ASCII, at most 78 columns where the names allow it. Pure.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::analysis::{Analysis, Row, SetTable, WorkTable};
use crate::model::{Params, Value, show_bytes};

use super::layout::{Page, Tone};
use super::lkml;
use super::phrases;
use super::{Format, Options, each};

/// The workload whose sets are shown.
const WORKLOAD: &str = "schbench";

/// Of each line the metric, the label and the metric's units in one of the table's.
const LINES: [(&str, &str, f64); 5] = [
    ("wakeup_p99", "Wakeup  (usec): 99.0th:", 1e3),
    ("request_p99", "Request (usec): 99.0th:", 1e3),
    // From the intended arrival; only where requests arrive at a rate.
    ("response_p99", "Response(usec): 99.0th:", 1e3),
    ("rps_p50", "RPS    (count): 50.0th:", 1.0),
    // In place of the line above where windows were not recorded.
    ("throughput", "RPS    (count):   mean:", 1.0),
];

/// The width of every label of [`LINES`].
const LABEL_COLUMNS: usize = 23;
/// The mail's own columns, kept where names and numbers are as short as there.
const FIRST_COLUMNS: usize = 8;
const OTHER_COLUMNS: usize = 11;
const GAP: usize = 2;

pub struct Schbench;

impl Format for Schbench {
    fn name(&self) -> &'static str {
        "schbench"
    }

    fn about(&self) -> &'static str {
        "p99 latencies and RPS of schbench workloads, as schbench's results are mailed"
    }

    fn explains(&self, _: &Options) -> bool {
        false
    }

    fn render(&self, analyses: &[Analysis], _: &Options, out: &mut dyn Write) -> io::Result<()> {
        each(analyses, out, |analysis, out| write(analysis, out))
    }
}

fn write(analysis: &Analysis, out: &mut dyn Write) -> io::Result<()> {
    let names = phrases::names(&analysis.sides, lkml::NAME_COLUMNS, lkml::word, lkml::CUT);
    let mut page = Page::new(&Options { width: lkml::COLUMNS, ..Options::default() });
    if let Some(time) = phrases::analysis_time(analysis) {
        page.wrapped(Tone::Plain, "Time: ", &lkml::ascii(&time));
        page.gap();
    }
    let blocks = blocks(analysis, &names);
    let widest = blocks.iter().flat_map(Block::cells).map(|cell| cell.width()).max();
    for block in &blocks {
        block.write(widest.unwrap_or(0), lkml::COLUMNS, &mut page);
        page.gap();
    }
    match blocks.is_empty() {
        true => page.line(Tone::Plain, "No work here uses schbench: --format text"),
        false => page.line(Tone::Plain, "Values are medians over runs."),
    }
    let others = others(analysis);
    if !others.is_empty() {
        page.wrapped(Tone::Plain, "Not shown: ", &others.join(", "));
    }
    page.gap();
    lkml::oddities(analysis, &names, &mut page);
    lkml::verdicts(analysis, &names, &mut page);
    out.write_all(page.text().as_bytes())
}

/// One point of a plan.
struct Block {
    label: String,
    /// The names of the sides.
    head: Vec<String>,
    /// Of each line its label and a cell per side.
    lines: Vec<(&'static str, Vec<String>)>,
}

/// Sets that have a block.
fn sets(analysis: &Analysis) -> impl Iterator<Item = (&WorkTable, &SetTable)> {
    analysis.sets().filter(|(_, set)| set.workload == WORKLOAD)
}

fn blocks(analysis: &Analysis, names: &[String]) -> Vec<Block> {
    let labels: Vec<String> =
        sets(analysis).map(|(work, set)| label(&set.params, &work.axes, &set.name)).collect();
    let block = |((work, set), label): ((&WorkTable, &SetTable), &String)| {
        let mut label = label.clone();
        // What a label leaves out: the work, which may end in its variant, and the set.
        if labels.iter().filter(|other| **other == label).count() > 1 {
            label.push_str(&format!(" ({}: {})", work.label, set.name));
        }
        let cells = |row: Option<&Row>, per: f64| {
            (0..names.len()).map(|side| cell(row, side, per)).collect::<Vec<_>>()
        };
        Block {
            label: lkml::ascii(&label),
            head: names.to_vec(),
            lines: lines(set).map(|(label, per, row)| (label, cells(row, per))).collect(),
        }
    };
    sets(analysis).zip(&labels).map(block).collect()
}

/// Label, unit and row of each line of a set's block.
fn lines(set: &SetTable) -> impl Iterator<Item = (&'static str, f64, Option<&Row>)> {
    let row = |metric: &str| {
        let mut rows = set.rows.iter();
        rows.find(|row| row.kind.name == metric && row.cells.iter().any(|of| of.median.is_some()))
    };
    LINES.into_iter().filter_map(move |(metric, label, per)| match metric {
        "response_p99" => Some((label, per, Some(row(metric)?))),
        "rps_p50" => row(metric).map(|row| (label, per, Some(row))),
        "throughput" if row("rps_p50").is_some() => None,
        _ => Some((label, per, row(metric))),
    })
}

fn cell(row: Option<&Row>, side: usize, per: f64) -> String {
    let median = row.and_then(|row| row.cells.get(side)).and_then(|cell| cell.median);
    median.map_or("-".to_string(), |median| grouped(median / per))
}

/// Other workloads, each once.
fn others(analysis: &Analysis) -> Vec<String> {
    let mut others = Vec::new();
    for (_, set) in analysis.sets().filter(|(_, set)| set.workload != WORKLOAD) {
        let name = lkml::ascii(&set.workload);
        if !others.contains(&name) {
            others.push(name);
        }
    }
    others
}

impl Block {
    fn cells(&self) -> impl Iterator<Item = &String> {
        self.head.iter().chain(self.lines.iter().flat_map(|(_, cells)| cells))
    }

    /// As many tables as the width asks for, in columns that fit the widest cell of all blocks.
    fn write(&self, widest: usize, width: usize, page: &mut Page) {
        let first = FIRST_COLUMNS.max(widest + GAP);
        let other = OTHER_COLUMNS.max(widest + GAP);
        let per_line = 1 + width.saturating_sub(LABEL_COLUMNS + first) / other;
        for begin in (0..self.head.len()).step_by(per_line) {
            if begin > 0 {
                page.gap();
            }
            let end = self.head.len().min(begin + per_line);
            let line = |label: &str, cells: &[String]| {
                // The first column yields where its label is long and its cell is short.
                let (head, rest) = (&cells[begin], &cells[begin + 1..end]);
                let room = (LABEL_COLUMNS + first).saturating_sub(label.width());
                let rest = rest.iter().map(|cell| right(cell, other)).collect::<String>();
                format!("{label}{}{rest}", right(head, room))
            };
            let room = (LABEL_COLUMNS + first).saturating_sub(self.head[begin].width() + GAP);
            let label = if self.label.width() > room {
                page.wrapped(Tone::Bold, "", &self.label);
                ""
            } else {
                &self.label
            };
            page.line(Tone::Bold, &line(label, &self.head));
            for (label, cells) in &self.lines {
                page.line(Tone::Plain, &line(label, cells));
            }
        }
    }
}

/// `F128 N10 no-locking threads=4`, not clean: what the mail says, then the other axes.
fn label(params: &Params, axes: &[(String, String)], set: &str) -> String {
    let footprint = match params.get("cache-footprint").and_then(Value::as_bytes) {
        Some(bytes) if bytes % 1024 == 0 => (bytes / 1024).to_string(),
        Some(bytes) => show_bytes(bytes),
        None => "?".to_string(),
    };
    let operations = params.get("operations").map_or("?".to_string(), Value::to_string);
    let mut label = format!("F{footprint} N{operations}");
    if params.get("no-locking").and_then(Value::as_bool) == Some(true) {
        label.push_str(" no-locking");
    }
    for (axis, point) in axes {
        let own = axis.strip_prefix(&format!("{set}.")).unwrap_or(axis);
        if !["cache-footprint", "operations", "no-locking"].contains(&own) {
            label.push_str(&format!(" {axis}={point}"));
        }
    }
    label
}

/// A whole number, its thousands separated by commas; from 10^11 on (27 hours in usec) with
/// an exponent, so that it stays short.
fn grouped(value: f64) -> String {
    if value.abs() >= 99_999_999_999.5 {
        return format!("{value:.2e}");
    }
    let whole = value.round() as i64;
    let digits = whole.unsigned_abs().to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    format!("{}{}", if whole < 0 { "-" } else { "" }, groups.join(","))
}

/// `text`, right-aligned in so many columns.
fn right(text: &str, columns: usize) -> String {
    format!("{:pad$}{text}", "", pad = columns.saturating_sub(text.width()))
}

#[cfg(test)]
mod tests;
