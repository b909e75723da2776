//! `text`: tables for a terminal or a mail, never wider than asked, plain ASCII but for what
//! names bring along and the sign of truncation.
//!
//! One record gives a header (question, machine, variants), a block per work with a table
//! per worker set, and beside each table what touches its numbers. Pure.

mod fairness;
mod table;

use std::io::{self, Write};

use crate::model::{Environment, Reading, Record, WorkerKind, WorkerSet};

use super::beside::{self, Names, kernel, letters_of};
use super::guests::guests;
use super::page::{Page, Tone};
use super::show::{self, clean};
use super::summary::{Mark, RowSummary, SetSummary, Skip, Summary, WorkSummary, summarise};
use super::{Format, Options};
use table::{Notes, TableInput};

pub struct Text;

impl Format for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn about(&self) -> &'static str {
        "tables for a terminal or a mail, at most 80 columns wide unless told"
    }

    fn render(&self, records: &[Record], options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let mut page = Page::new(options);
        if records.is_empty() {
            page.line(Tone::Plain, "nothing is stored that was asked for");
        }
        for (at, record) in records.iter().enumerate() {
            if at > 0 {
                page.rule();
            }
            let names = Names::new(&record.started.plan, table::name_columns(options));
            let report = Report { record, summary: summarise(record), names, options };
            report.header(&mut page);
            for work in &report.summary.works {
                page.gap();
                report.work(work, &mut page);
            }
            report.footer(&mut page);
        }
        out.write_all(page.text().as_bytes())
    }
}

struct Report<'a> {
    record: &'a Record,
    summary: Summary<'a>,
    names: Names<'a>,
    options: &'a Options,
}

impl Report<'_> {
    fn header(&self, page: &mut Page) {
        let started = &self.record.started;
        page.wrapped(Tone::Bold, "", &clean(&started.plan.title));
        page.gap();
        page.wrapped(Tone::Plain, "plan      ", &clean(&started.id));
        let when = format!("{}, backend {}", utc(started.started_unix_ns), clean(&started.backend));
        page.wrapped(Tone::Plain, "started   ", &when);
        page.wrapped(Tone::Plain, "machine   ", &machine(&started.environment));
        match guests(self.record) {
            Some(guests) => {
                page.wrapped(Tone::Plain, "kernel    ", &guests.kernels);
                if let Some(time) = &guests.time {
                    page.wrapped(Tone::Plain, "time      ", time);
                }
                for rebuilt in &guests.rebuilt {
                    page.wrapped(Tone::Warning, "changed   ", rebuilt);
                }
            }
            None => page.wrapped(Tone::Plain, "kernel    ", &kernel(&started.environment)),
        }
        if self.options.verbose > 0 {
            page.wrapped(Tone::Plain, "state     ", &state(&started.environment));
        }
        for change in self.changes() {
            page.wrapped(Tone::Warning, "changed   ", &change);
        }
        let placement = show::placement(&started.plan.placement);
        if !placement.is_empty() {
            page.wrapped(Tone::Plain, "placement ", &placement);
        }
        page.wrapped(Tone::Plain, "rounds    ", &beside::progress(self.record, &self.summary));
        self.variants(page);
        for Skip { variant, reason } in &self.summary.skipped_everywhere {
            let text = format!("{}: {}", clean(&variant.name), show::reason(reason));
            page.wrapped(Tone::Warning, "skipped   ", &text);
        }
        for taker in &self.summary.takers {
            page.gap();
            page.wrapped(Tone::Bad, "", &beside::warning(taker));
        }
    }

    /// What a resumption found different from the start, each once.
    fn changes(&self) -> Vec<String> {
        let first = &self.record.started.environment;
        let mut changes: Vec<String> = Vec::new();
        for environment in &self.record.environments {
            for (before, now) in
                [(kernel(first), kernel(environment)), (machine(first), machine(environment))]
            {
                let change = format!("resumed on {now}");
                if before != now && !changes.contains(&change) {
                    changes.push(change);
                }
            }
        }
        changes
    }

    /// Each variant by its full name, with its knobs.
    fn variants(&self, page: &mut Page) {
        let variants = &self.record.started.plan.variants;
        let mut label = "variants  ";
        for (at, variant) in variants.iter().enumerate() {
            let mut text = clean(&variant.name);
            if self.names.cuts(variant) {
                text = format!("#{} {text}", at + 1);
            }
            if at == 0 {
                text.push_str(" (baseline)");
            }
            let knobs = show::knobs(&variant.knobs);
            let knobs = if knobs.is_empty() { "as found" } else { &clean(&knobs) };
            page.wrapped(Tone::Plain, label, &format!("{text}: {knobs}"));
            label = "          ";
        }
    }

    fn work(&self, work: &WorkSummary, page: &mut Page) {
        page.wrapped(Tone::Bold, "== ", &clean(&work.work.label()));
        let background = work.work.sets.iter().filter(|set| set.background);
        let background: Vec<String> = background
            .map(|set| format!("{} ({} x {}{})", set.name, set.count, set.workload, own_knobs(set)))
            .collect();
        if !background.is_empty() {
            let text = clean(&background.join(", "));
            page.wrapped(Tone::Plain, "background: ", &text);
        }
        let mut notes = Notes::default();
        let mut empty = true;
        for set in work.sets.iter().filter(|set| !set.rows.is_empty()) {
            page.gap();
            self.set(set, &work.marks, &mut notes, page);
            empty = false;
        }
        if empty {
            page.line(Tone::Plain, "nothing was measured here");
        }
        if let Some(found) = &work.fairness {
            fairness::show(found, &self.names, self.options, &mut notes, page);
        }
        self.beside(work, &notes, page);
    }

    fn set(&self, set: &SetSummary, marks: &[Mark], notes: &mut Notes, page: &mut Page) {
        let workers = match (set.workers, set.set.kind) {
            (None, _) => String::new(),
            (Some(1), WorkerKind::Threads) => ", 1 thread".to_string(),
            (Some(n), WorkerKind::Threads) => format!(", {n} threads"),
            (Some(1), WorkerKind::Processes) => ", 1 process".to_string(),
            (Some(n), WorkerKind::Processes) => format!(", {n} processes"),
        };
        let heading =
            format!("{}: {}{workers}{}", set.set.name, set.set.workload, own_knobs(set.set));
        page.wrapped(Tone::Plain, "", &clean(&heading));
        if self.options.verbose > 0 {
            let params = set.set.params.iter();
            let params: Vec<String> =
                params.map(|(name, value)| format!("{name} {value}")).collect();
            page.wrapped(Tone::Plain, "  ", &clean(&params.join(", ")));
        }
        let names = set.rows.iter().map(|row| self.names.short(row.variant)).collect();
        let marks = set.rows.iter().map(|row| letters_of(row.variant, marks)).collect();
        let input = TableInput { set, names, marks, options: self.options };
        for (at, lines) in table::tables(&input, notes).into_iter().enumerate() {
            if at > 0 {
                page.gap();
            }
            lines.iter().for_each(|line| page.line(Tone::Plain, line));
        }
        self.counts(set, page);
    }

    /// How many runs stand behind each row, where that is not the header's number.
    fn counts(&self, set: &SetSummary, page: &mut Page) {
        let done = self.summary.rounds_done as usize;
        if set.rows.iter().any(|row| row.rounds.len() != done) {
            let count = |row: &RowSummary| {
                format!("{} {}", self.names.short(row.variant), row.rounds.len())
            };
            let counts: Vec<String> = set.rows.iter().map(count).collect();
            page.wrapped(Tone::Plain, "measured rounds: ", &counts.join(", "));
        }
        if !set.rows.iter().any(|row| row.baseline) {
            let text = "no ratios: the baseline has no measured run here";
            page.wrapped(Tone::Warning, "", text);
        }
    }

    /// What touches the numbers of a block: below its tables, above the next.
    fn beside(&self, work: &WorkSummary, notes: &Notes, page: &mut Page) {
        let remarks = work.marks.len() + notes.len() + work.skipped.len() + work.failed.len();
        if remarks > 0 {
            page.gap();
        }
        beside::marks(work, &self.names, page);
        for (at, note) in notes.iter().enumerate() {
            page.wrapped(Tone::Plain, &format!("  [{}] ", at + 1), note);
        }
        beside::outcomes(work, &self.names, page);
    }

    fn footer(&self, page: &mut Page) {
        let rows = self.summary.works.iter().flat_map(|work| &work.sets).flat_map(|set| &set.rows);
        let mut ratios = rows.flat_map(|row| &row.metrics).filter_map(|metric| metric.ratio);
        if ratios.any(|ratio| ratio.is_ok()) {
            page.gap();
            page.wrapped(Tone::Plain, "", RATIO_FOOTNOTE);
        }
    }
}

const RATIO_FOOTNOTE: &str = "Values are medians over rounds. ratio: to the baseline, paired \
within rounds, geometric mean; its interval is Student's t on the logarithms, for that ratio \
alone, not adjusted for the number of ratios shown: it is not a verdict. Verdicts: \
`schedlab compare`.";

/// What a set's workers have beside or instead of the variant's knobs.
fn own_knobs(set: &WorkerSet) -> String {
    if set.knobs.is_empty() { String::new() } else { format!(", {}", show::knobs(&set.knobs)) }
}

fn told(reading: &Reading<String>) -> String {
    match reading {
        Reading::Known(text) => clean(text),
        Reading::Unknown(why) => format!("unknown ({})", clean(why)),
    }
}

fn machine(environment: &Environment) -> String {
    let cpus = match environment.topology.online.len() {
        1 => "1 CPU".to_string(),
        n => format!("{n} CPUs"),
    };
    let virtualisation = told(&environment.virtualisation);
    format!("{}, {cpus}, virtualisation {virtualisation}", told(&environment.cpu_model))
}

fn state(environment: &Environment) -> String {
    let facts = [
        ("governor", &environment.governor),
        ("turbo", &environment.turbo),
        ("SMT", &environment.smt),
        ("clock source", &environment.clock_source),
        ("load at start", &environment.load_average),
        ("command line", &environment.kernel_cmdline),
    ];
    facts.map(|(name, reading)| format!("{name} {}", told(reading))).join("; ")
}

/// The second in UTC; local time would make the same record give different bytes.
fn utc(unix_ns: u64) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(unix_ns)) {
        Ok(timestamp) => timestamp.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => format!("{unix_ns} ns after 1970"),
    }
}

#[cfg(test)]
mod tests;
