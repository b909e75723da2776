//! `text` of a comparison: for people, never wider than asked, in ASCII but for what names bring
//! along and the sign of a cut.
//!
//! Sides and method, then per worker set a table with a row per metric and side, what is to be
//! known of its rows in notes below it, then what was refused, a summary per side and the
//! command. Pure.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::{Format, words};
use crate::compare::{Cell, Comparison, Row, SetTable, Switches, WorkTable};
use crate::model::Unit;
use crate::report::Options;
use crate::report::page::{Page, Tone};
use crate::report::show::{self, Scale, clean, reason};
use crate::stats::{Ratio, Verdict};

/// Names of sides in tables are no wider.
const NAME_COLUMNS: usize = 10;
/// Where fewer are left for the names of metrics, there is no table.
const MIN_METRIC_COLUMNS: usize = 12;
const GAP: usize = 2;

pub struct Text;

impl Format for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn about(&self) -> &'static str {
        "tables for a terminal or a mail, at most 80 columns wide unless told"
    }

    fn render(
        &self,
        comparison: &Comparison,
        options: &Options,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut page = Page::new(options);
        let names = words::names(&comparison.sides, NAME_COLUMNS, clean, "…");
        let shown = Shown { comparison, names, options };
        shown.header(&mut page);
        for work in comparison.works.iter().filter(|work| !work.sets.is_empty()) {
            page.gap();
            shown.work(work, &mut page);
        }
        if comparison.works.is_empty() {
            page.gap();
            page.line(Tone::Plain, "nothing was compared");
        }
        shown.footer(&mut page);
        out.write_all(page.text().as_bytes())
    }
}

struct Shown<'a> {
    comparison: &'a Comparison,
    /// Of the sides, as tables show them.
    names: Vec<String>,
    options: &'a Options,
}

impl Shown<'_> {
    fn header(&self, page: &mut Page) {
        for (at, side) in self.comparison.sides.iter().enumerate() {
            let label = if at == 0 { "baseline  " } else { "against   " };
            let name = clean(&side.label);
            let short = &self.names[at];
            let name = if *short == name { name } else { format!("{name} ({short})") };
            page.wrapped(Tone::Bold, label, &name);
            page.wrapped(Tone::Plain, "          ", &words::about(side));
        }
        if let Some(time) = words::time(self.comparison) {
            page.wrapped(Tone::Plain, "time      ", &time);
        }
        page.wrapped(Tone::Plain, "method    ", &words::method(self.comparison).join("; "));
    }

    fn work(&self, work: &WorkTable, page: &mut Page) {
        page.wrapped(Tone::Bold, "== ", &clean(&work.label));
        let mut notes = Notes::default();
        for (at, set) in work.sets.iter().enumerate() {
            if at > 0 {
                page.gap();
            }
            self.set(set, &mut notes, page);
        }
        if !notes.0.is_empty() {
            page.gap();
        }
        for (at, note) in notes.0.iter().enumerate() {
            page.wrapped(Tone::Plain, &format!("  [{}] ", at + 1), note);
        }
    }

    fn set(&self, set: &SetTable, notes: &mut Notes, page: &mut Page) {
        let (ops, _) = show::operations(&set.ops);
        let of = if ops.is_empty() { String::new() } else { format!(", throughput in {ops}") };
        page.wrapped(Tone::Plain, "", &clean(&format!("{}: {}{of}", set.name, set.workload)));
        if set.rows.is_empty() {
            page.line(Tone::Plain, "no metric is known on both sides");
            return;
        }
        let lines: Vec<Line> =
            set.rows.iter().flat_map(|row| self.lines(set, row, notes)).collect();
        self.table(&self.heads(), &lines, page);
        self.switches(set, page);
    }

    fn table(&self, heads: &[[String; COLUMNS]], lines: &[Line], page: &mut Page) {
        let Some(widths) = widths(heads, lines, self.options.columns()) else {
            return self.stacked(lines, page);
        };
        for head in heads {
            page.line(Tone::Plain, &laid_out(head, &widths));
        }
        page.line(Tone::Plain, &"-".repeat(ruled(&widths)));
        for line in lines {
            let mut cells = line.cells.clone();
            if cells[0].width() > widths[0] {
                page.wrapped(line.tone, "", &std::mem::take(&mut cells[0]));
            }
            let last = line.last();
            let is_beside = last.width() <= widths[COLUMNS - 1];
            if is_beside {
                cells[COLUMNS - 1] = last;
            }
            page.line(line.tone, &laid_out(&cells, &widths));
            if !is_beside {
                page.line(line.tone, &below(&line.signs(), &widths));
            }
            self.details(line, page);
        }
    }

    /// Two lines above the columns. Of several sides each has a row that names it.
    fn heads(&self) -> [[String; COLUMNS]; 2] {
        let name = |at: usize| self.names.get(at).cloned().unwrap_or_default();
        let variant = if self.grouped() { String::new() } else { name(1) };
        let upper = ["".into(), name(0), variant, "".into(), "95 %".into(), "".into(), "".into()];
        let lower = ["metric", "median", "median", "ratio", "interval", "verdict", "rounds"];
        [upper, lower.map(str::to_string)]
    }

    /// Whether a metric has a line of its own and a row below it for each side.
    fn grouped(&self) -> bool {
        self.comparison.sides.len() > 2
    }

    fn lines(&self, set: &SetTable, row: &Row, notes: &mut Notes) -> Vec<Line> {
        let scale = RowScale::new(row, set);
        let metric = format!("{} {}", clean(&row.metric), scale.scale.suffix);
        let metric = metric.trim_end().to_string();
        let Some((baseline, others)) = row.cells.split_first() else { return Vec::new() };
        let median = scale.show(baseline.median);
        let mut lines = Vec::new();
        if self.grouped() || others.is_empty() {
            let mut line = Line::new(metric.clone(), median.clone());
            line.subject = metric.clone();
            line.note(self.shapes(0, row, baseline), notes);
            lines.push(line);
        }
        for (at, cell) in others.iter().enumerate() {
            let name = self.names.get(at + 1).cloned().unwrap_or_default();
            let mut line = match self.grouped() {
                true => Line::new(format!("  {name}"), String::new()),
                false => Line::new(metric.clone(), median.clone()),
            };
            line.subject = format!("{metric}, {name}");
            line.judged(cell, &scale);
            if !self.grouped() {
                line.note(self.shapes(0, row, baseline), notes);
            }
            line.note(self.shapes(at + 1, row, cell), notes);
            line.note(self.why(cell), notes);
            line.details = details(baseline, cell, &scale);
            lines.push(line);
        }
        lines
    }

    /// What explains the throughput, where a probe has counted it.
    fn switches(&self, set: &SetTable, page: &mut Page) {
        let Some(throughput) = set.throughput().filter(|_| !set.switches.is_empty()) else {
            return;
        };
        page.gap();
        let about = "what explains its throughput, without verdicts: switches of each role, means \
                     over the runs and ratios of these";
        page.wrapped(Tone::Plain, "", &clean(&format!("{}: {about}", set.name)));
        let shown = |row: &Row, name: String| {
            let scale = RowScale::new(row, set);
            let means: Vec<String> = row.cells.iter().map(|cell| scale.show(cell.mean)).collect();
            let name = format!("{name} {}", scale.scale.suffix).trim_end().to_string();
            self.explaining(&name, &means, &row.normalised())
        };
        let of = |own: &Switches| {
            let name = format!("{} {} switches", clean(&own.role), words::kind(own));
            let mut lines = shown(&own.row, name);
            let per_op = own.per_op.iter().map(|value| per_op(*value)).collect::<Vec<_>>();
            let name = format!("  {}", clean(&words::per_op(&set.ops)));
            lines.extend(self.explaining(&name, &per_op, &own.normalised_per_op()));
            lines
        };
        let mut lines = shown(throughput, throughput.metric.clone());
        lines.extend(set.switches.iter().flat_map(of));
        let name = |at: usize| self.names.get(at).cloned().unwrap_or_default();
        let other = if self.grouped() { String::new() } else { name(1) };
        let mut heads = [[const { String::new() }; COLUMNS], [const { String::new() }; COLUMNS]];
        (heads[0][1], heads[0][2]) = (name(0), other);
        for (head, word) in heads[1].iter_mut().zip(["explains", "mean", "mean", "ratio", "diff"]) {
            *head = word.to_string();
        }
        self.table(&heads, &lines, page);
    }

    /// Of one figure, as [`Shown::lines`] of one metric.
    fn explaining(&self, name: &str, values: &[String], over: &[Option<f64>]) -> Vec<Line> {
        let none = || "-".to_string();
        let at = |side: usize| values.get(side).cloned().unwrap_or_else(none);
        let mut lines = Vec::new();
        if self.grouped() {
            let mut line = Line::new(name.to_string(), at(0));
            line.subject = name.trim_start().to_string();
            lines.push(line);
        }
        for side in 1..values.len() {
            let own = self.names.get(side).cloned().unwrap_or_default();
            let mut line = match self.grouped() {
                true => Line::new(format!("    {own}"), String::new()),
                false => Line::new(name.to_string(), at(0)),
            };
            line.subject = format!("{}, {own}", name.trim_start());
            let over = over.get(side).copied().flatten();
            line.cells[2] = at(side);
            line.cells[3] = over.map_or_else(none, show::ratio);
            line.cells[4] = over.map_or_else(none, difference);
            lines.push(line);
        }
        lines
    }

    fn shapes(&self, side: usize, row: &Row, cell: &Cell) -> Vec<String> {
        let name = self.names.get(side).map_or("", String::as_str);
        let told = words::shapes(self.comparison, row, cell).into_iter();
        told.map(|told| format!("{name}: {told}")).collect()
    }

    fn why(&self, cell: &Cell) -> Vec<String> {
        let Some(judged) = &cell.judged else { return Vec::new() };
        let single = matches!(judged.ratio, Ok(Ratio { interval: None, .. }));
        let single = single.then(|| "one round has both: a ratio, but no interval".to_string());
        words::why(&judged.verdict, &self.comparison.method).into_iter().chain(single).collect()
    }

    /// Where the columns don't fit one beside the other.
    fn stacked(&self, lines: &[Line], page: &mut Page) {
        for line in lines {
            let [_, baseline, variant, ratio, interval, verdict, _] = &line.cells;
            let rounds = line.last();
            let text = match (baseline.as_str(), variant.as_str()) {
                (baseline, "") => format!("{}: {baseline} {rounds}", line.subject),
                ("", variant) => {
                    format!("{}: {variant}, {ratio} ({interval}) {verdict} {rounds}", line.subject)
                }
                (baseline, variant) => format!(
                    "{}: {baseline} to {variant}, {ratio} ({interval}) {verdict} {rounds}",
                    line.subject
                ),
            };
            page.wrapped(line.tone, "- ", text.trim_end());
            self.details(line, page);
        }
    }

    fn details(&self, line: &Line, page: &mut Page) {
        if self.options.verbose > 0 && !line.details.is_empty() {
            page.wrapped(Tone::Plain, "    ", &line.details);
        }
    }

    fn footer(&self, page: &mut Page) {
        let Comparison { sides, refused, missing, remarks, command, .. } = self.comparison;
        if !refused.is_empty() || !missing.is_empty() || !remarks.is_empty() {
            page.gap();
        }
        for text in refused {
            page.wrapped(Tone::Warning, "refused   ", &reason(text));
        }
        for text in missing {
            page.wrapped(Tone::Bad, "missing   ", &reason(text));
        }
        for text in remarks {
            page.wrapped(Tone::Warning, "note      ", &reason(text));
        }
        page.gap();
        for (at, side) in sides.iter().enumerate().skip(1) {
            let tally = words::Tally::of(self.comparison, at);
            let name = match sides.iter().filter(|other| other.label == side.label).count() {
                1 => clean(&side.label),
                _ => self.names[at].clone(),
            };
            let tone = if tally.worse > 0 { Tone::Bad } else { Tone::Bold };
            page.wrapped(tone, "", &format!("{name}: {}", tally.sentence()));
        }
        page.gap();
        // A single word may be longer than the page.
        for line in words::command_lines(command, self.options.columns()) {
            match line.width() > self.options.columns() {
                true => page.wrapped(Tone::Plain, "    ", &line),
                false => page.line(Tone::Plain, &line),
            }
        }
    }
}

/// What a row tells: metric, medians, ratio, interval, verdict, rounds.
const COLUMNS: usize = 7;

struct Line {
    cells: [String; COLUMNS],
    /// Numbers of its notes.
    notes: Vec<usize>,
    /// What it is of, where it does not stand in a table.
    subject: String,
    details: String,
    tone: Tone,
}

impl Line {
    fn new(metric: String, baseline: String) -> Line {
        let mut cells: [String; COLUMNS] = Default::default();
        cells[0] = metric;
        cells[1] = baseline;
        let (subject, details) = (String::new(), String::new());
        Line { cells, notes: Vec::new(), subject, details, tone: Tone::Plain }
    }

    fn judged(&mut self, cell: &Cell, scale: &RowScale) {
        let none = || "-".to_string();
        let ratio = cell.judged.as_ref().and_then(|judged| judged.ratio.ok());
        let interval = ratio.and_then(|ratio| ratio.interval);
        let verdict = cell.judged.as_ref().map(|judged| judged.verdict);
        self.cells[2] = scale.show(cell.median);
        self.cells[3] = ratio.map_or_else(none, |ratio| show::ratio(ratio.ratio));
        self.cells[4] = interval.map_or_else(none, |found| {
            format!("{}-{}", show::ratio(found.low), show::ratio(found.high))
        });
        self.cells[5] = words::verdict(cell).unwrap_or("-").to_string();
        let rounds = verdict.as_ref().and_then(words::rounds);
        self.cells[6] = rounds.map(words::show_rounds).unwrap_or_default();
        self.tone = match verdict {
            Some(Verdict::Better) => Tone::Bold,
            Some(Verdict::Worse) => Tone::Bad,
            _ => Tone::Plain,
        };
    }

    fn note(&mut self, texts: Vec<String>, notes: &mut Notes) {
        for text in texts {
            let number = notes.number(text);
            if !self.notes.contains(&number) {
                self.notes.push(number);
            }
        }
    }

    /// `[1,4]`.
    fn signs(&self) -> String {
        let numbers: Vec<String> = self.notes.iter().map(usize::to_string).collect();
        if numbers.is_empty() { String::new() } else { format!("[{}]", numbers.join(",")) }
    }

    /// The last cell: signs of notes stand behind all else.
    fn last(&self) -> String {
        format!("{} {}", self.cells[COLUMNS - 1], self.signs()).trim().to_string()
    }
}

/// Numbered remarks, each text once.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    /// Of the text, from 1.
    fn number(&mut self, text: String) -> usize {
        let at = self.0.iter().position(|note| *note == text).unwrap_or_else(|| {
            self.0.push(text);
            self.0.len() - 1
        });
        at + 1
    }
}

/// One scale for all values of a row.
struct RowScale {
    scale: Scale,
    multiple: f64,
}

impl RowScale {
    fn new(row: &Row, set: &SetTable) -> RowScale {
        let multiple = if row.unit == Unit::OpsPerS { show::operations(&set.ops).1 } else { 1.0 };
        let typical = row.cells.iter().find_map(|cell| cell.median);
        let scale = Scale::of(row.unit, typical.map(|typical| multiple * typical));
        RowScale { scale, multiple }
    }

    fn show(&self, value: Option<f64>) -> String {
        value.map_or("-".to_string(), |value| self.scale.show(self.multiple * value))
    }
}

fn per_op(value: Option<f64>) -> String {
    value.map_or("-".to_string(), |value| show::significant(value, 4))
}

/// `-98 %`, of a ratio.
fn difference(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    let decimals = if percent.abs() < 9.95 { 1 } else { 0 };
    match percent.abs() {
        size if size < 0.05 => "0 %".to_string(),
        size if size < 1e6 => format!("{percent:+.decimals$} %"),
        _ => format!("{percent:+.1e} %"),
    }
}

fn details(baseline: &Cell, cell: &Cell, scale: &RowScale) -> String {
    let cv = |cell: &Cell| cell.cv.map_or("-".to_string(), |cv| format!("{:.1} %", 100.0 * cv));
    let judged = cell.judged.as_ref();
    let pairs = judged.and_then(|judged| judged.ratio.ok()).map_or(0, |ratio| ratio.pairs);
    let mut said = vec![
        format!("mean {} to {}", scale.show(baseline.mean), scale.show(cell.mean)),
        format!("cv {} to {}", cv(baseline), cv(cell)),
        if pairs == 1 { "1 pair".to_string() } else { format!("{pairs} pairs") },
    ];
    if let Some(judged) = judged {
        said.push(format!("p of a difference {}", words::p_value(judged.p_difference)));
        said.push(format!("p of SAME {}", words::p_value(judged.p_same)));
        said.extend(judged.decided_at.map(|rounds| format!("decided after {rounds} rounds")));
    }
    said.join(", ")
}

/// Of the columns; `None` where they don't fit into `columns`. The last may be too narrow for
/// signs of notes, which then stand below their row, and after that the first for a name, which
/// then stands above it.
fn widths(heads: &[[String; COLUMNS]], lines: &[Line], columns: usize) -> Option<[usize; COLUMNS]> {
    let all = || heads.iter().chain(lines.iter().map(|line| &line.cells));
    let mut widths: [usize; COLUMNS] =
        std::array::from_fn(|at| all().map(|cells| cells[at].width()).max().unwrap_or(0));
    let room = (columns + widths[0]).checked_sub(table_width(&widths))?;
    if room < widths[0].min(MIN_METRIC_COLUMNS) {
        return None;
    }
    widths[0] = widths[0].min(room);
    let last = widths[COLUMNS - 1];
    let room = last + columns - table_width(&widths);
    let lasts = lines.iter().map(|line| line.last().width()).filter(|width| *width <= room);
    widths[COLUMNS - 1] = lasts.fold(last, usize::max);
    Some(widths)
}

fn table_width(widths: &[usize; COLUMNS]) -> usize {
    widths.iter().sum::<usize>() + GAP * (COLUMNS - 1)
}

/// Without columns at the end that have nothing.
fn ruled(widths: &[usize; COLUMNS]) -> usize {
    let used = COLUMNS - widths.iter().rev().take_while(|width| **width == 0).count();
    widths.iter().sum::<usize>() + GAP * used.saturating_sub(1)
}

/// Signs that do not fit into the last column: below it, and as far to the left as they need.
fn below(signs: &str, widths: &[usize; COLUMNS]) -> String {
    let width = table_width(widths);
    let begin = (width - widths[COLUMNS - 1]).min(width.saturating_sub(signs.width()));
    format!("{}{signs}", " ".repeat(begin))
}

/// Numbers to the right, words to the left.
fn laid_out(cells: &[String; COLUMNS], widths: &[usize; COLUMNS]) -> String {
    let cell = |(at, text): (usize, &String)| {
        let pad = " ".repeat(widths[at].saturating_sub(text.width()));
        if [0, 5, 6].contains(&at) { format!("{text}{pad}") } else { format!("{pad}{text}") }
    };
    let cells: Vec<String> = cells.iter().enumerate().map(cell).collect();
    cells.join(&" ".repeat(GAP)).trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::testing::{self, render};
    use crate::stats::{Rounds, Shape, Why};
    use insta::assert_snapshot;
    use proptest::prelude::*;

    #[test]
    fn the_head_says_by_what_clock_the_lab_measured() {
        let shown = render(&Text, &testing::in_the_lab(2), Options::default());
        let time = "\ntime      lab, virtual time, NOT exact in 2 of 80 runs\n";
        assert!(shown.contains(time), "{shown}");
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("NOT exact in 2 of 40 runs: out of step"), "{shown}");
        assert!(shown.contains("kernel debian:6.18 (6.1.0-56-cloud-amd64, digest"), "{shown}");
    }

    #[test]
    fn switches_that_explain_the_throughput() {
        assert_snapshot!(render(&Text, &testing::explained(), Options::default()));
        let mut three = testing::explained();
        three.sides.push(testing::side("idle"));
        for row in &mut three.works[0].sets[0].rows {
            row.cells.push(row.cells[1].clone());
        }
        for own in &mut three.works[0].sets[0].switches {
            own.row.cells.push(own.row.cells[0].clone());
            own.per_op.push(own.per_op[0]);
        }
        three.works.truncate(1);
        assert_snapshot!(render(&Text, &three, Options::default()));
        three.sides.truncate(2);
        assert_snapshot!(render(&Text, &three, Options { width: 44, ..Options::default() }));
    }

    #[test]
    fn differences_have_a_sign_and_few_digits() {
        let cases = [
            (1.0, "0 %"),
            (0.9996, "0 %"),
            (0.02, "-98 %"),
            (3.2, "+220 %"),
            (0.951, "-4.9 %"),
            (1.0994, "+9.9 %"),
            (1e9, "+1.0e11 %"),
        ];
        for (ratio, expected) in cases {
            assert_eq!(difference(ratio), expected);
        }
    }

    #[test]
    fn two_variants_of_one_plan() {
        assert_snapshot!(render(&Text, &testing::ordinary(), Options::default()));
    }

    #[test]
    fn three_kernels_with_all_that_can_be_odd() {
        assert_snapshot!(render(&Text, &testing::troubled(), Options::default()));
    }

    #[test]
    fn verbose_tells_means_variation_pairs_and_p_values() {
        let options = Options { verbose: 1, ..Options::default() };
        assert_snapshot!(render(&Text, &testing::ordinary(), options));
    }

    #[test]
    fn a_narrow_page_has_sentences_for_rows() {
        let options = Options { width: 48, ..Options::default() };
        assert_snapshot!(render(&Text, &testing::ordinary(), options));
    }

    #[test]
    fn without_works_or_sides_it_says_so() {
        let shown = render(&Text, &testing::sides_only(), Options::default());
        assert!(shown.contains("\nnothing was compared\n"), "{shown}");
        assert!(shown.contains("\nbatch: 0 BETTER, 0 WORSE, 0 SAME, 0 INCONCLUSIVE\n"), "{shown}");
    }

    /// Two sides whose names are as wide as any, metrics as wide as ordinary ones, and a note for
    /// each thing that there is a note for.
    fn full_of_notes() -> Comparison {
        let apart = Shape::Outlier { round: 7, value: 9e6, median: 1e6, deviations: 30.0 };
        let mut comparison = testing::sides_only();
        comparison.sides[0].label = "throughput-".repeat(3);
        comparison.sides[1].label = "latency-".repeat(3);
        let rows = ["wakeup_p99.9", "request_p99", "throughput"].iter().zip([21e6, 13e4, 7e3]);
        let rows = rows.map(|(metric, value)| {
            let odd = |value| {
                let cell = testing::values(value, 0.3).shaped(testing::TWO_MODES);
                cell.shaped(testing::TREND).shaped(apart)
            };
            let noise = testing::open(Why::Noise, Rounds::MoreThan(1000));
            let judged = odd(value * 1.1).judged(noise, 0.123_4, 0.751_2, 11.361);
            testing::row(metric, Unit::Ns, testing::LOWER, vec![odd(value), judged])
        });
        comparison.works = vec![testing::work("w", &[], "w", "w", rows.collect())];
        comparison
    }

    #[test]
    fn signs_that_do_not_fit_stand_below_and_break_no_table() {
        let shown = render(&Text, &full_of_notes(), Options::default());
        assert!(shown.contains("\nmetric "), "a table\n{shown}");
        let lines: Vec<&str> = shown.lines().collect();
        let rule = lines.iter().position(|line| line.starts_with("----")).expect("a rule");
        let row = lines.iter().position(|line| line.contains("INCONCLUSIVE")).expect("a row");
        assert!(lines[row].ends_with(">1000"), "{shown}");
        let signs = lines[row + 1];
        assert_eq!(signs.trim_start(), "[1,2,3,4,5,6,7]", "{shown}");
        assert_eq!(signs.len(), lines[rule].len(), "they end with the table\n{shown}");
        assert!(lines.iter().all(|line| line.width() <= 80), "{shown}");
        let wide = render(&Text, &full_of_notes(), Options { width: 100, ..Options::default() });
        assert!(wide.contains("INCONCLUSIVE  >1000 [1,2,3,4,5,6,7]\n"), "{wide}");
    }

    #[test]
    fn verdicts_are_coloured_by_line() {
        let options = Options { color: true, ..Options::default() };
        let shown = render(&Text, &testing::ordinary(), options);
        let line = |start: &str, end: &str| {
            shown.lines().any(|line| line.starts_with(start) && line.contains(end))
        };
        assert!(line("\x1b[31mwakeup_p99", "WORSE"), "{shown}");
        assert!(line("\x1b[1mwakeup_p99", "BETTER"), "{shown}");
        assert!(line("throughput", "SAME") && line("request_p99", "INCONCLUSIVE"), "{shown}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn no_line_is_wider_than_asked(
            name in any::<String>(),
            width in Options::MIN_WIDTH..140usize,
            verbose in 0u8..2,
            color: bool,
        ) {
            let options = Options { width, color, verbose };
            for comparison in [testing::hostile(&name), testing::troubled(), full_of_notes()] {
                let shown = testing::without_colour(&render(&Text, &comparison, options));
                for line in shown.lines() {
                    prop_assert!(line.width() <= width, "wider than {}: {}", width, line);
                    prop_assert!(!line.chars().any(char::is_control), "{:?}", line);
                }
            }
        }
    }
}
