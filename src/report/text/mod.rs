//! `text`: tables for a terminal or a mail, never wider than asked, plain ASCII but for what
//! names bring along and the sign of truncation.
//!
//! One record gives a header (question, machine, variants), a block per work with a table
//! per worker set, and beside each table what touches its numbers. Pure.

mod page;
mod show;
mod table;

use std::io::{self, Write};

use crate::model::{
    DisturbanceKind, Environment, PlanEnd, Reading, Record, Variant, WorkerKind, WorkerSet,
    show_duration,
};

use super::summary::{
    MOST_TAKEN, Mark, RowSummary, SetSummary, Skip, Summary, Taker, Touched, WorkSummary, summarise,
};
use super::{Format, Options};
use page::{Page, Tone};
use show::{clean, reason};
use table::{Notes, TableInput};

pub use show::shortened;

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
            let report = Report { record, summary: summarise(record), options };
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
        page.wrapped(Tone::Plain, "kernel    ", &kernel(&started.environment));
        if self.options.verbose > 0 {
            page.wrapped(Tone::Plain, "state     ", &state(&started.environment));
        }
        for change in self.changes() {
            page.wrapped(Tone::Warning, "changed   ", &change);
        }
        if let Some(cpus) = &started.plan.placement.cpus {
            page.wrapped(Tone::Plain, "placement ", &format!("CPUs {cpus}"));
        }
        page.wrapped(Tone::Plain, "rounds    ", &self.progress());
        self.variants(page);
        for Skip { variant, reason } in &self.summary.skipped_everywhere {
            let text = format!("{}: {}", clean(&variant.name), self::reason(reason));
            page.wrapped(Tone::Warning, "skipped   ", &text);
        }
        for taker in &self.summary.takers {
            page.gap();
            page.wrapped(Tone::Bad, "", &warning(taker));
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

    fn progress(&self) -> String {
        let Summary { rounds_done, rounds_planned, .. } = self.summary;
        let measure = &self.record.started.plan.measure;
        let end = match self.record.ended {
            Some(PlanEnd::Complete) => "",
            Some(PlanEnd::Budget) => "; the budget left no time for more",
            Some(PlanEnd::Interrupted) => "; interrupted, go on with `schedlab run --resume`",
            None => "; has not ended: running, or killed",
        };
        format!(
            "{rounds_done} of {rounds_planned} done, each run {} after {} of warm-up{end}",
            show_duration(measure.duration_ns),
            show_duration(measure.warmup_ns),
        )
    }

    /// Each variant by its full name, with its knobs.
    fn variants(&self, page: &mut Page) {
        let variants = &self.record.started.plan.variants;
        let mut label = "variants  ";
        for (at, variant) in variants.iter().enumerate() {
            let mut text = clean(&variant.name);
            if self.short_name(variant) != text {
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

    /// A variant's name in tables. What is cut ends in its number in the header's list, so
    /// that two long names never look alike.
    fn short_name(&self, variant: &Variant) -> String {
        let columns = table::name_columns(self.options);
        let name = clean(&variant.name);
        if show::truncate(&name, columns) == name {
            return name;
        }
        let variants = &self.record.started.plan.variants;
        let place = variants.iter().position(|other| other.name == variant.name);
        let number = format!("#{}", place.map_or(0, |place| place + 1));
        format!("{}{number}", show::truncate(&name, columns - number.len()))
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
        let names = set.rows.iter().map(|row| self.short_name(row.variant)).collect();
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
            let count =
                |row: &RowSummary| format!("{} {}", self.short_name(row.variant), row.rounds.len());
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
        for (at, mark) in work.marks.iter().enumerate() {
            let worst = if mark.worst_of_several { "at worst: " } else { "" };
            let text = format!("{worst}{}: {}", clean(&mark.detail), self.extent(mark));
            page.wrapped(Tone::Warning, &format!("  {}  ", letter(at)), &text);
        }
        for (at, note) in notes.iter().enumerate() {
            page.wrapped(Tone::Plain, &format!("  [{}] ", at + 1), note);
        }
        for skip in &work.skipped {
            let text = format!("{}: {}", self.short_name(skip.variant), reason(skip.reason));
            page.wrapped(Tone::Warning, "  skipped ", &text);
        }
        for failure in &work.failed {
            let name = self.short_name(failure.variant);
            let rounds = show::rounds(&failure.rounds);
            let text = format!("{name} in {rounds}: {}", reason(failure.reason));
            page.wrapped(Tone::Bad, "  failed  ", &text);
        }
    }

    /// Which runs a mark touches.
    fn extent(&self, mark: &Mark) -> String {
        if mark.every_run {
            return "every run".to_string();
        }
        let told = |Touched { variant, rounds, every_round }: &Touched| {
            let rounds =
                if *every_round { "every round".to_string() } else { show::rounds(rounds) };
            format!("{} in {rounds}", self.short_name(variant))
        };
        mark.touched.iter().map(told).collect::<Vec<_>>().join("; ")
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
alone, not adjusted for the number of ratios shown: it is not a verdict.";

/// For the top of a report: whoever reads no further has read this.
fn warning(taker: &Taker) -> String {
    let who = match taker.kind {
        DisturbanceKind::Steal => "the hypervisor (steal time)",
        _ => "load from outside",
    };
    let Taker { worst_share, runs, measured, .. } = taker;
    format!(
        "warning: {who} took up to {:.0} % of the pool (more than {:.0} % in {runs} of {measured} \
         runs): these figures are of another experiment; see the marks below",
        100.0 * worst_share,
        100.0 * MOST_TAKEN,
    )
}

/// What a set's workers have beside or instead of the variant's knobs.
fn own_knobs(set: &WorkerSet) -> String {
    if set.knobs.is_empty() { String::new() } else { format!(", {}", show::knobs(&set.knobs)) }
}

/// The letters of all marks that touch a variant.
fn letters_of(variant: &Variant, marks: &[Mark]) -> String {
    let touching = marks.iter().enumerate().filter(|(_, mark)| {
        mark.touched.iter().any(|touched| touched.variant.name == variant.name)
    });
    touching.map(|(at, _)| letter(at)).collect::<Vec<_>>().join(",")
}

/// a to z, then aa, ab and so on.
fn letter(mut at: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'a' + (at % 26) as u8));
        if at < 26 {
            return letters.iter().rev().collect();
        }
        at = at / 26 - 1;
    }
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

/// The version names the build and the preemption model.
fn kernel(environment: &Environment) -> String {
    let Environment { kernel_release, kernel_version, .. } = environment;
    clean(&format!("Linux {kernel_release} {kernel_version}"))
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
