//! `schbench`: the table in which schbench's results are mailed, one block per point of the
//! plan and one column per variant:
//!
//! ```text
//! F128 N1                   EEVDF      Linus
//! Wakeup  (usec): 99.0th:     355        555
//! Request (usec): 99.0th:   2,620      1,906
//! RPS    (count): 50.0th:  37,696     41,664
//! ```
//!
//! Input: records. Shown are the worker sets of workload `schbench`; what else there is, is
//! named. Pure.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::model::{Params, Record, Value, Variant, Work, WorkerSet, show_bytes};

use super::beside::{self, MARK_COLUMNS, Names, letters_of};
use super::guests::{Guests, guests};
use super::page::{Page, Tone};
use super::show::{clean, reason, rounds, truncate};
use super::summary::{
    MetricSummary, NOT_REPORTED, RowSummary, SetSummary, Summary, WorkSummary, summarise,
};
use super::{Format, Options};

pub struct Schbench;

/// The workload whose sets are shown.
pub(super) const WORKLOAD: &str = "schbench";

/// One line of a block.
pub(super) struct Line {
    pub metric: &'static str,
    pub label: &'static str,
    /// In legends.
    name: &'static str,
    /// The metric's units in one of the table's.
    pub per: f64,
}

pub(super) const LINES: &[Line] = &[
    Line { metric: "wakeup_p99", label: "Wakeup  (usec): 99.0th:", name: "Wakeup", per: 1e3 },
    Line { metric: "request_p99", label: "Request (usec): 99.0th:", name: "Request", per: 1e3 },
    Line { metric: RESPONSE, label: "Response(usec): 99.0th:", name: "Response", per: 1e3 },
    Line { metric: "rps_p50", label: "RPS    (count): 50.0th:", name: "RPS", per: 1.0 },
];

/// From the intended arrival, which there is only where requests arrive at a rate.
pub(super) const RESPONSE: &str = "response_p99";

/// Of the labels of all [`LINES`].
const LABEL_COLUMNS: usize = 23;
/// The mail's own columns, kept where names and numbers are as short as there.
const FIRST_COLUMNS: usize = 8;
const OTHER_COLUMNS: usize = 11;
const GAP: usize = 2;

impl Format for Schbench {
    fn name(&self) -> &'static str {
        "schbench"
    }

    fn about(&self) -> &'static str {
        "p99 latencies and RPS of schbench workloads, as tables for a mail; nothing else"
    }

    fn render(&self, records: &[Record], options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let mut page = Page::new(options);
        if records.is_empty() {
            page.line(Tone::Plain, "nothing is stored that was asked for");
        }
        let widths = Widths::of(options);
        for (at, record) in records.iter().enumerate() {
            if at > 0 {
                page.gap();
            }
            if records.len() > 1 {
                page.wrapped(Tone::Bold, "", &clean(&record.started.plan.title));
                page.gap();
            }
            let names = Names::new(&record.started.plan, widths.name);
            Report { record, summary: summarise(record), names, widths }.render(&mut page);
        }
        out.write_all(page.text().as_bytes())
    }
}

/// How wide things may be, so that at least one column stands beside the labels.
#[derive(Clone, Copy)]
struct Widths {
    line: usize,
    name: usize,
    marks: usize,
}

impl Widths {
    fn of(options: &Options) -> Self {
        let line = options.columns();
        let cell = line - LABEL_COLUMNS - GAP;
        let name = (cell - MARK_COLUMNS - 1).clamp(8, 24);
        Widths { line, name, marks: (cell - name - 1).min(MARK_COLUMNS) }
    }
}

struct Report<'a> {
    record: &'a Record,
    summary: Summary<'a>,
    names: Names<'a>,
    widths: Widths,
}

/// One set's table, before it is brought into columns.
pub(super) struct Block {
    pub label: String,
    /// Per variant: its name, with its marks.
    pub heads: Vec<String>,
    /// Per line, its label and a cell per variant.
    pub lines: Vec<(&'static str, Vec<String>)>,
}

impl Report<'_> {
    fn render(&self, page: &mut Page) {
        for taker in &self.summary.takers {
            page.wrapped(Tone::Bad, "", &beside::warning(taker));
            page.gap();
        }
        let shown: Vec<(&WorkSummary, Vec<Block>)> = self.blocks();
        let blocks = || shown.iter().flat_map(|(_, blocks)| blocks);
        let cells = blocks().flat_map(Block::cells).map(|cell| cell.width()).max();
        let Some(widest) = cells else {
            let hint = "hint: schedlab report --format text";
            page.wrapped(Tone::Plain, "", &format!("no work here uses schbench; {hint}"));
            return;
        };
        for (work, blocks) in &shown {
            for (at, (block, set)) in blocks.iter().zip(schbench(work)).enumerate() {
                if at > 0 {
                    page.gap();
                }
                block.write(widest, self.widths.line, page);
                self.unknown(set, page);
            }
            beside::marks(work, &self.names, page);
            beside::outcomes(work, &self.names, page);
            self.counts(work, page);
            page.gap();
        }
        self.footer(page);
    }

    /// The works that have any, in the plan's order.
    fn blocks(&self) -> Vec<(&WorkSummary<'_>, Vec<Block>)> {
        let works = self.summary.works.iter();
        let sets = works.flat_map(|work| schbench(work).map(move |set| (work.work, set.set)));
        let labels: Vec<String> = sets.map(|(work, set)| label_of(work, set)).collect();
        let works = self.summary.works.iter();
        let blocks = works.map(|work| {
            let block = |set| self.block(work, set, &labels);
            (work, schbench(work).map(block).collect::<Vec<_>>())
        });
        blocks.filter(|(_, blocks)| !blocks.is_empty()).collect()
    }

    fn block(&self, work: &WorkSummary, set: &SetSummary, labels: &[String]) -> Block {
        let mut label = label_of(work.work, set.set);
        // What a label leaves out stands in the plan under these names.
        let ambiguous = labels.iter().filter(|other| **other == label).count() > 1;
        let several = schbench(work).count() > 1;
        match (&work.work.name, &set.set.name) {
            (work, set) if ambiguous && several => label.push_str(&format!(" ({work}: {set})")),
            (work, _) if ambiguous => label.push_str(&format!(" ({work})")),
            (_, set) if several => label.push_str(&format!(" ({set})")),
            _ => {}
        }
        let head = |variant: &Variant| {
            let marks = truncate(&letters_of(variant, &work.marks), self.widths.marks);
            format!("{} {marks}", self.names.short(variant)).trim_end().to_string()
        };
        let cells = |line: &Line| self.variants().map(|own| cell(set, own, line)).collect();
        Block {
            label: clean(&label),
            heads: self.variants().map(head).collect(),
            lines: lines(set).map(|line| (line.label, cells(line))).collect(),
        }
    }

    fn variants(&self) -> impl Iterator<Item = &Variant> {
        self.record.started.plan.variants.iter()
    }

    /// Which values of a block are unknown, or known in some rounds only, and why.
    fn unknown(&self, set: &SetSummary, page: &mut Page) {
        let every: Vec<String> = set.rows.iter().map(|row| self.names.short(row.variant)).collect();
        let mut unknown: Vec<((String, String), Vec<&str>)> = Vec::new();
        for line in lines(set) {
            let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
            for row in &set.rows {
                for (why, at) in unknown_of(row, line) {
                    file(&mut reasons, why, format!("{}{at}", self.names.short(row.variant)));
                }
            }
            for (why, who) in reasons {
                let who = match who.len() {
                    2.. if who == every => "every variant".to_string(),
                    _ => who.join(", "),
                };
                file(&mut unknown, (why, who), line.name);
            }
        }
        for ((why, who), names) in unknown {
            page.wrapped(Tone::Plain, "  ?  ", &format!("{} of {who}: {why}", names.join(", ")));
        }
    }

    /// How many runs stand behind each column, where that is not the footer's number.
    fn counts(&self, work: &WorkSummary, page: &mut Page) {
        // A run has all sets of its work.
        let Some(set) = schbench(work).next() else { return };
        let Summary { rounds_done, rounds_planned, skipped_everywhere, .. } = &self.summary;
        let skipped = |variant: &Variant| {
            let mut skips = skipped_everywhere.iter().chain(&work.skipped);
            skips.any(|skip| skip.variant.name == variant.name)
        };
        let count = |variant: &Variant| row(set, variant).map_or(0, |row| row.rounds.len());
        let counts: Vec<(&Variant, usize)> = self
            .variants()
            .map(|variant| (variant, count(variant)))
            .filter(|(variant, count)| *count > 0 || !skipped(variant))
            .collect();
        if counts.iter().all(|(_, count)| *count > 0 && *count == *rounds_done as usize) {
            return;
        }
        let told = counts.iter().map(|(variant, count)| {
            format!("{} {count} of {rounds_planned}", self.names.short(variant))
        });
        page.wrapped(Tone::Plain, "  runs    ", &told.collect::<Vec<_>>().join(", "));
    }

    fn footer(&self, page: &mut Page) {
        for (at, variant) in self.variants().enumerate() {
            if self.names.cuts(variant) {
                page.wrapped(Tone::Plain, &format!("#{} ", at + 1), &clean(&variant.name));
            }
        }
        for skip in &self.summary.skipped_everywhere {
            let text = format!("{}: {}", self.names.short(skip.variant), reason(skip.reason));
            page.wrapped(Tone::Warning, "skipped ", &text);
        }
        let others = self.others();
        if !others.is_empty() {
            let text = format!("{}; hint: --format text", others.join(", "));
            page.wrapped(Tone::Plain, "not shown: ", &clean(&text));
        }
        page.wrapped(Tone::Plain, "rounds  ", &beside::progress(self.record, &self.summary));
        let label = "kernel  ";
        match guests(self.record) {
            Some(Guests { kernels, time, rebuilt }) => {
                page.wrapped(Tone::Plain, label, &kernels);
                for rebuilt in &rebuilt {
                    page.wrapped(Tone::Warning, "changed ", rebuilt);
                }
                if let Some(time) = &time {
                    page.wrapped(Tone::Plain, "time    ", time);
                }
            }
            None => {
                let kernel = truncate(&self.kernels(), self.widths.line - label.width());
                page.wrapped(Tone::Plain, label, &kernel);
            }
        }
        page.wrapped(Tone::Plain, "", "Values are medians over rounds and no verdicts.");
    }

    /// Workloads of the record that have no block, each once.
    fn others(&self) -> Vec<String> {
        let mut others = Vec::new();
        for set in self.summary.works.iter().flat_map(|work| &work.work.sets) {
            let other = match (set.background, set.workload == WORKLOAD) {
                (false, true) => continue,
                (false, false) => set.workload.clone(),
                (true, _) => format!("{} (background)", set.workload),
            };
            if !others.contains(&other) {
                others.push(other);
            }
        }
        others
    }

    /// One, unless the plan was resumed on another.
    fn kernels(&self) -> String {
        let mut releases = vec![self.record.started.environment.kernel_release.as_str()];
        let resumed = self.record.environments.iter();
        releases.extend(resumed.map(|environment| environment.kernel_release.as_str()));
        releases.dedup();
        format!("Linux {}", clean(&releases.join(", then ")))
    }
}

impl Block {
    pub fn cells(&self) -> impl Iterator<Item = &String> {
        self.heads.iter().chain(self.lines.iter().flat_map(|(_, cells)| cells))
    }

    /// As many tables one below the other as the width asks for, in columns that fit the
    /// widest cell of all blocks of the record.
    pub fn write(&self, widest: usize, width: usize, page: &mut Page) {
        let first = FIRST_COLUMNS.max(widest + GAP);
        let other = OTHER_COLUMNS.max(widest + GAP);
        let most = 1 + width.saturating_sub(LABEL_COLUMNS + first) / other;
        for begin in (0..self.heads.len()).step_by(most) {
            if begin > 0 {
                page.gap();
            }
            let end = self.heads.len().min(begin + most);
            let line = |label: &str, cells: &[String]| {
                // The first column yields where its label is long and its cell is short.
                let (head, rest) = (&cells[begin], &cells[begin + 1..end]);
                let beside = (LABEL_COLUMNS + first).saturating_sub(label.width());
                let rest = rest.iter().map(|cell| right(cell, other)).collect::<String>();
                format!("{label}{}{rest}", right(head, beside))
            };
            let room = (LABEL_COLUMNS + first).saturating_sub(self.heads[begin].width() + GAP);
            let label = if self.label.width() > room {
                page.wrapped(Tone::Bold, "", &self.label);
                ""
            } else {
                &self.label
            };
            page.line(Tone::Bold, &line(label, &self.heads));
            for (label, cells) in &self.lines {
                page.line(Tone::Plain, &line(label, cells));
            }
        }
    }
}

/// The sets of a work that have a block.
fn schbench<'w, 'a>(work: &'w WorkSummary<'a>) -> impl Iterator<Item = &'w SetSummary<'a>> {
    work.sets.iter().filter(|set| set.set.workload == WORKLOAD)
}

fn label_of(work: &Work, set: &WorkerSet) -> String {
    label(&set.params, &work.axes, &set.name)
}

/// `F128 N10 no-locking threads=4`, not yet clean: what the mail says, then the other axes.
pub(super) fn label(params: &Params, axes: &[(String, String)], set: &str) -> String {
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

/// The lines of a set's block.
fn lines(set: &SetSummary) -> impl Iterator<Item = &'static Line> {
    let reported = || set.rows.iter().flat_map(|row| &row.metrics);
    let response = arrives(&set.set.params) && reported().any(|metric| metric.name == RESPONSE);
    LINES.iter().filter(move |line| line.metric != RESPONSE || response)
}

/// Whether requests arrive at a rate, fixed or searched.
fn arrives(params: &Params) -> bool {
    let rps = params.get("rps").and_then(Value::as_int);
    let auto = params.get("auto-rps").and_then(Value::as_percent);
    rps.is_some_and(|rps| rps > 0) || auto.is_some_and(|percent| percent > 0.0)
}

/// `None`: no run of this variant was measured.
fn row<'s, 'a>(set: &'s SetSummary<'a>, variant: &Variant) -> Option<&'s RowSummary<'a>> {
    set.rows.iter().find(|row| row.variant.name == variant.name)
}

fn metric<'s, 'a>(row: &'s RowSummary<'a>, line: &Line) -> Option<&'s MetricSummary<'a>> {
    row.metrics.iter().find(|metric| metric.name == line.metric)
}

fn cell(set: &SetSummary, variant: &Variant, line: &Line) -> String {
    let Some(row) = row(set, variant) else { return "-".to_string() };
    let median = metric(row, line).and_then(|metric| metric.median);
    median.map_or("?".to_string(), |median| grouped(median / line.per))
}

/// Each reason for which a value is unknown, with the rounds where it is not that of all.
fn unknown_of(row: &RowSummary, line: &Line) -> Vec<(String, String)> {
    let Some(metric) = metric(row, line) else {
        return vec![(NOT_REPORTED.to_string(), String::new())];
    };
    let all = metric.median.is_none() && metric.unknown.len() == 1;
    let rounds = |at| if all { String::new() } else { format!(" in {}", rounds(at)) };
    metric.unknown.iter().map(|(why, at)| (reason(why), rounds(at))).collect()
}

/// Puts `what` to the others of its key.
fn file<K: PartialEq, V>(filed: &mut Vec<(K, Vec<V>)>, key: K, what: V) {
    match filed.iter_mut().find(|(other, _)| *other == key) {
        Some((_, found)) => found.push(what),
        None => filed.push((key, vec![what])),
    }
}

/// A whole number, its thousands separated by commas; from 10^11 on (27 hours in usec) with
/// an exponent, so that it stays short.
pub(super) fn grouped(value: f64) -> String {
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

/// `text` at the right end of so many columns.
fn right(text: &str, columns: usize) -> String {
    format!("{:pad$}{text}", "", pad = columns.saturating_sub(text.width()))
}

#[cfg(test)]
mod tests;
