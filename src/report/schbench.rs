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

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::analysis::{Analysis, Family, Place, SetTable, WorkTable};
use crate::model::{Params, Value, show_bytes};

use super::layout::{Page, Tone};
use super::lkml;
use super::phrases;
use super::{Format, Options, Render};

const WORKLOAD: &str = "schbench";

/// The metric of each line, its label, and the metric's units in one of the table's.
const LINES: [(&str, &str, f64); 5] = [
    ("wakeup_p99", "Wakeup  (usec): 99.0th:", 1e3),
    ("request_p99", "Request (usec): 99.0th:", 1e3),
    // From the intended arrival; only where requests arrive at a rate.
    ("response_p99", "Response(usec): 99.0th:", 1e3),
    ("rps_p50", "RPS    (count): 50.0th:", 1.0),
    // Where it is judged, or windows were not recorded.
    ("throughput", "RPS    (count):   mean:", 1.0),
];

/// The width of every label of [`LINES`].
const LABEL_COLUMNS: usize = 23;
/// The mail's own columns, kept where names and numbers are as short as there.
const FIRST_COLUMNS: usize = 8;
const OTHER_COLUMNS: usize = 11;
const GAP: usize = 2;

pub const SCHBENCH: Format = Format {
    name: "schbench",
    about: "p99 latencies and RPS of schbench workloads, as schbench's results are mailed",
    explains: |_| false,
    render: Render::Each(write),
};

fn write(analysis: &Analysis, _: &Options, out: &mut dyn Write) -> io::Result<()> {
    let names = phrases::names(&analysis.sides, lkml::NAME_COLUMNS, lkml::word, lkml::CUT);
    let mut page = Page::new(&Options { width: lkml::COLUMNS, ..Options::default() });
    if let Some(time) = phrases::analysis_time(analysis) {
        page.wrapped(Tone::Plain, "Time: ", &lkml::ascii(&time));
        page.gap();
    }
    let is_shown = |(_, set): &(&WorkTable, &SetTable)| set.workload == WORKLOAD;
    let (shown, others): (Vec<_>, Vec<_>) = analysis.sets().partition(is_shown);
    let blocks = blocks(&shown, &names);
    let cells = blocks.iter().flatten().flat_map(|(_, cells)| cells);
    let widest = cells.map(String::len).max().unwrap_or(0);
    for block in &blocks {
        show(block, names.len(), widest, &mut page);
        page.gap();
    }
    if blocks.is_empty() {
        page.line(Tone::Plain, "No work here uses schbench: --format text")
    } else {
        page.line(Tone::Plain, "Values are medians over runs.")
    }
    let is_in_blocks = |(_, set, row): &Place| {
        set.workload == WORKLOAD && LINES.iter().any(|(metric, ..)| *metric == row.kind.name)
    };
    let (rows, hidden): (Vec<_>, Vec<_>) =
        lkml::judged_rows(analysis).into_iter().partition(is_in_blocks);
    let others = others.iter().map(|(_, set)| lkml::ascii(&set.workload));
    let hidden = hidden.iter().filter(|(_, set, _)| set.workload == WORKLOAD);
    let others: BTreeSet<String> =
        others.chain(hidden.map(|(.., row)| lkml::ascii(&row.kind.name))).collect();
    if !others.is_empty() {
        let others = others.into_iter().collect::<Vec<_>>().join(", ");
        page.wrapped(Tone::Plain, "Neither shown nor counted: ", &others);
    }
    page.gap();
    lkml::verdicts(analysis, &rows, &names, &mut page);
    out.write_all(page.text().as_bytes())
}

/// One point of a plan: of each line its label and a cell per side. The first has their names.
type Block = Vec<(String, Vec<String>)>;

fn blocks(sets: &[(&WorkTable, &SetTable)], names: &[String]) -> Vec<Block> {
    let labels = sets.iter().map(|(work, set)| label(&set.params, &work.axes, &set.name));
    let labels: Vec<String> = labels.collect();
    let block = |((work, set), label): (&(&WorkTable, &SetTable), &String)| {
        let is_shared = labels.iter().filter(|other| *other == label).count() > 1;
        // The label leaves out the work, which may end in its variant, and the set.
        let own = is_shared.then(|| format!(" ({}: {})", work.label, set.name));
        let label = lkml::ascii(&format!("{label}{}", own.unwrap_or_default()));
        std::iter::once((label, names.to_vec())).chain(lines(set, names.len())).collect()
    };
    sets.iter().zip(&labels).map(block).collect()
}

fn lines(set: &SetTable, sides: usize) -> impl Iterator<Item = (String, Vec<String>)> {
    let row = |metric: &str| {
        let mut rows = set.rows.iter();
        rows.find(|row| row.kind.name == metric && row.cells.iter().any(|of| of.median.is_some()))
    };
    LINES.into_iter().filter_map(move |(metric, label, per)| {
        let found = row(metric);
        let is_shown = match metric {
            "response_p99" | "rps_p50" => found.is_some(),
            "throughput" => {
                let is_judged = found.is_some_and(|row| row.family != Family::None);
                is_judged || row("rps_p50").is_none()
            }
            _ => true,
        };
        let median = |side: usize| found.and_then(|row| row.cells.get(side)?.median);
        let cell = |side| median(side).map_or("-".to_string(), |median| grouped(median / per));
        is_shown.then(|| (label.to_string(), (0..sides).map(cell).collect()))
    })
}

/// As many tables as the width asks for, in columns that fit the widest cell of all blocks.
fn show(block: &Block, sides: usize, widest: usize, page: &mut Page) {
    let first = LABEL_COLUMNS + FIRST_COLUMNS.max(widest + GAP);
    let other = OTHER_COLUMNS.max(widest + GAP);
    let per_line = 1 + lkml::COLUMNS.saturating_sub(first) / other;
    for begin in (0..sides).step_by(per_line) {
        if begin > 0 {
            page.gap();
        }
        for (label, cells) in block {
            let mut label = label.as_str();
            // The first column yields where its label is long and its cell is short.
            if label.len() + GAP + cells[begin].len() > first {
                page.wrapped(Tone::Plain, "", label);
                label = "";
            }
            let mut line = format!("{label}{:>1$}", cells[begin], first - label.len());
            for cell in cells[begin..].iter().take(per_line).skip(1) {
                line.push_str(&format!("{cell:>other$}"));
            }
            page.line(Tone::Plain, &line);
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

/// A whole number with commas; from 10^11 on (27 hours in usec) an exponent keeps it short.
fn grouped(value: f64) -> String {
    if value.abs() >= 99_999_999_999.5 {
        return format!("{value:.2e}");
    }
    let whole = value.round() as i64;
    let digits = whole.unsigned_abs().to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    format!("{}{}", if whole < 0 { "-" } else { "" }, groups.join(","))
}

#[cfg(test)]
mod tests;
