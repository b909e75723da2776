//! `schbench-mail`: the blocks in which schbench's results are mailed, one per point of a plan,
//! with a column per side, be it a variant, a kernel or a machine; below them the verdicts, as in
//! [`super::lkml`]. ASCII, at most 78 columns where the names allow it.
//!
//! Shown are worker sets of workload `schbench`; what else was compared is named. The requests a
//! second are `rps_p50` where that was compared, else `throughput`: another metric would be
//! another family of verdicts, which are the same in every format. Pure.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::{Format, lkml, words};
use crate::compare::{Comparison, Row, SetTable, WorkTable};
use crate::report::Options;
use crate::report::page::{Page, Tone};
use crate::report::schbench::{self, Block, LINES, RESPONSE, WORKLOAD};

pub struct SchbenchMail;

const RPS: &str = "rps_p50";
/// In place of [`RPS`]: the requests of a run over its time.
const MEAN: (&str, &str) = ("throughput", "RPS    (count):   mean:");

impl Format for SchbenchMail {
    fn name(&self) -> &'static str {
        "schbench-mail"
    }

    fn about(&self) -> &'static str {
        "p99 latencies and RPS of schbench workloads, a column per side, as mailed; verdicts below"
    }

    fn render(&self, comparison: &Comparison, _: &Options, out: &mut dyn Write) -> io::Result<()> {
        let names = words::names(&comparison.sides, lkml::NAME_COLUMNS, lkml::word, lkml::CUT);
        let mut page = Page::new(&Options { width: lkml::COLUMNS, ..Options::default() });
        let blocks = blocks(comparison, &names);
        if let Some(time) = words::time(comparison) {
            page.wrapped(Tone::Plain, "Time: ", &lkml::ascii(&time));
            page.gap();
        }
        let widest = blocks.iter().flat_map(Block::cells).map(|cell| cell.width()).max();
        for block in &blocks {
            block.write(widest.unwrap_or(0), lkml::COLUMNS, &mut page);
            page.gap();
        }
        if blocks.is_empty() {
            let text =
                "No latency or rate of a schbench workload was compared; hint: --format text";
            page.wrapped(Tone::Plain, "", text);
            page.gap();
        }
        let others = others(comparison);
        if !others.is_empty() {
            page.wrapped(Tone::Plain, "Not shown: ", &others.join(", "));
        }
        if !blocks.is_empty() {
            page.line(Tone::Plain, "Values are medians over runs.");
            if blocks.iter().any(|block| block.lines.iter().any(|(label, _)| *label == MEAN.1)) {
                let text = "RPS is of whole runs; of their windows' medians: --metric";
                page.wrapped(Tone::Plain, "", &format!("{text} {RPS}, or --all-metrics."));
            }
            page.gap();
        }
        lkml::oddities(comparison, &names, &mut page);
        lkml::verdicts(comparison, &names, &mut page);
        out.write_all(page.text().as_bytes())
    }
}

/// Sets that have a block.
fn sets(comparison: &Comparison) -> impl Iterator<Item = (&WorkTable, &SetTable)> {
    let sets =
        comparison.works.iter().flat_map(|work| work.sets.iter().map(move |set| (work, set)));
    sets.filter(|(_, set)| set.workload == WORKLOAD && lines(set).any(|(.., row)| row.is_some()))
}

fn blocks(comparison: &Comparison, names: &[String]) -> Vec<Block> {
    let label =
        |(work, set): (&WorkTable, &SetTable)| schbench::label(&set.params, &work.axes, &set.name);
    let labels: Vec<String> = sets(comparison).map(label).collect();
    let block = |((work, set), label): ((&WorkTable, &SetTable), &String)| {
        let mut told = label.clone();
        // What a label leaves out: the work, which may end in its variant, and the set.
        if labels.iter().filter(|other| *other == label).count() > 1 {
            told.push_str(&format!(" ({}: {})", work.label, set.name));
        }
        let cells = |row: Option<&Row>, per: f64| {
            (0..names.len()).map(|side| cell(row, side, per)).collect::<Vec<_>>()
        };
        Block {
            label: lkml::ascii(&told),
            heads: names.to_vec(),
            lines: lines(set).map(|(label, per, row)| (label, cells(row, per))).collect(),
        }
    };
    sets(comparison).zip(&labels).map(block).collect()
}

/// Label, unit and row of each line of a set's block.
fn lines(set: &SetTable) -> impl Iterator<Item = (&'static str, f64, Option<&Row>)> {
    let row = |metric: &str| set.rows.iter().find(|row| row.metric == metric);
    LINES.iter().filter_map(move |line| match (line.metric, row(line.metric)) {
        (RESPONSE, None) => None,
        (RPS, None) if row(MEAN.0).is_some() => Some((MEAN.1, line.per, row(MEAN.0))),
        (_, row) => Some((line.label, line.per, row)),
    })
}

fn cell(row: Option<&Row>, side: usize, per: f64) -> String {
    let median = row.and_then(|row| row.cells.get(side)).and_then(|cell| cell.median);
    median.map_or("-".to_string(), |median| schbench::grouped(median / per))
}

/// What else was compared, each once.
fn others(comparison: &Comparison) -> Vec<String> {
    let mut others = Vec::new();
    for set in comparison.works.iter().flat_map(|work| &work.sets) {
        let name = lkml::ascii(&set.workload);
        if set.workload != WORKLOAD && !others.contains(&name) {
            others.push(name);
        }
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Unit, Value};
    use crate::report::compare::testing::{self, HIGHER, LOWER};
    use insta::assert_snapshot;

    fn render(comparison: &Comparison) -> String {
        testing::render(&SchbenchMail, comparison, Options::default())
    }

    /// All above the verdicts.
    fn blocks_of(comparison: &Comparison) -> String {
        let shown = render(comparison);
        let end = shown.find("Verdicts, ").unwrap_or_else(|| panic!("no verdicts in\n{shown}"));
        shown[..end].trim_end().to_string()
    }

    fn row(metric: &str, values: [f64; 2]) -> Row {
        let (unit, direction) = match metric.ends_with("_p99") {
            true => (Unit::Ns, LOWER),
            false => (Unit::OpsPerS, HIGHER),
        };
        let cells = values.map(|value| testing::cell(vec![(0, value)])).to_vec();
        testing::row(metric, unit, direction, cells)
    }

    fn work(operations: i64, no_locking: bool, rows: Vec<Row>) -> WorkTable {
        let (n, no) = (operations.to_string(), no_locking.to_string());
        let axes = [("operations", n.as_str()), ("no-locking", no.as_str())];
        let mut work = testing::work("web", &axes, "web", "schbench", rows);
        work.sets[0].params.extend([
            ("cache-footprint".to_string(), Value::Bytes(128 << 10)),
            ("operations".to_string(), Value::Int(operations)),
            ("no-locking".to_string(), Value::Bool(no_locking)),
        ]);
        work
    }

    /// Two kernels, measured in plans of their own.
    fn kernels(works: Vec<WorkTable>) -> Comparison {
        let mut comparison = testing::sides_only();
        for (side, label) in comparison.sides.iter_mut().zip(["EEVDF", "Linus"]) {
            side.label = label.to_string();
        }
        comparison.works = works;
        comparison
    }

    fn mailed(wakeup: [f64; 2], request: [f64; 2], rps: [f64; 2]) -> Vec<Row> {
        let us = |values: [f64; 2]| values.map(|value| 1e3 * value);
        vec![row("wakeup_p99", us(wakeup)), row("request_p99", us(request)), row(RPS, rps)]
    }

    #[test]
    fn two_kernels_stand_as_in_the_mail_that_announced_schbench() {
        let first = mailed([355.0, 555.0], [2_620.0, 1_906.0], [37_696.0, 41_664.0]);
        let second = mailed([823.0, 1_118.0], [17_184.0, 14_192.0], [4_440.0, 4_456.0]);
        let comparison = kernels(vec![work(1, false, first), work(10, true, second)]);
        assert_snapshot!(blocks_of(&comparison), @"
        F128 N1                   EEVDF      Linus
        Wakeup  (usec): 99.0th:     355        555
        Request (usec): 99.0th:   2,620      1,906
        RPS    (count): 50.0th:  37,696     41,664

        F128 N10 no-locking       EEVDF      Linus
        Wakeup  (usec): 99.0th:     823      1,118
        Request (usec): 99.0th:  17,184     14,192
        RPS    (count): 50.0th:   4,440      4,456

        Values are medians over runs.
        ");
    }

    #[test]
    fn without_the_median_of_windows_it_is_the_rate_of_runs_and_what_lacks_is_a_dash() {
        let mut of_rate = vec![row("throughput", [4_440.0, 4_456.0])];
        of_rate.push(row(RESPONSE, [9e6, 8e6]));
        let other = testing::work("chat", &[], "chat", "messaging", of_rate.clone());
        let unknown = testing::row(
            "wakeup_p99",
            Unit::Ns,
            LOWER,
            vec![testing::cell(vec![(0, 5e3)]), testing::cell(Vec::new())],
        );
        of_rate.push(unknown);
        let comparison = kernels(vec![work(1, false, of_rate), other]);
        assert_snapshot!(blocks_of(&comparison), @"
        F128 N1                   EEVDF      Linus
        Wakeup  (usec): 99.0th:       5          -
        Request (usec): 99.0th:       -          -
        Response(usec): 99.0th:   9,000      8,000
        RPS    (count):   mean:   4,440      4,456

        Not shown: messaging
        Values are medians over runs.
        RPS is of whole runs; of their windows' medians: --metric rps_p50, or
        --all-metrics.
        ");
    }

    #[test]
    fn blocks_of_one_label_name_their_works() {
        let rows = || mailed([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]);
        let mut works = vec![work(1, false, rows()), work(1, false, rows())];
        for (work, variant) in works.iter_mut().zip(["default", "batch"]) {
            work.label.push_str(&format!(" [{variant}]"));
        }
        let shown = render(&kernels(works));
        for variant in ["default", "batch"] {
            let label = format!("F128 N1 (web operations=1 no-locking=false [{variant}]: web)\n");
            assert!(shown.contains(&label), "{shown}");
        }
    }

    #[test]
    fn the_verdicts_and_the_command_stand_below() {
        let shown = render(&testing::ordinary());
        for part in ["Verdicts, batch against default:\n", "Reproduce with:\n  schedlab compare"] {
            assert!(shown.contains(part), "{shown}");
        }
    }

    #[test]
    fn odd_values_are_noted_below_the_blocks() {
        let mut rows = mailed([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]);
        rows[0].cells[0] = testing::values(1e6, 0.3).shaped(testing::TWO_MODES);
        assert!(blocks_of(&kernels(vec![work(1, false, rows)])).ends_with(
            "Values are medians over runs.\n\nNote: web operations=1 no-locking=false, \
             wakeup_p99, EEVDF: two modes, 12.0 ms\n      and 31.0 ms (4 of 10 rounds)"
        ));
    }

    #[test]
    fn above_blocks_of_the_lab_stands_their_clock() {
        let time = "Time: lab, virtual time, exact in all 80 runs\n\n";
        assert!(render(&testing::in_the_lab(0)).starts_with(time));
    }

    #[test]
    fn where_nothing_is_of_schbench_it_says_so() {
        let fairness = testing::row("fairness", Unit::Ratio, HIGHER, Vec::new());
        let without = kernels(vec![work(1, false, vec![fairness])]);
        for comparison in [testing::nothing(), without] {
            let shown = render(&comparison);
            assert!(shown.starts_with("No latency or rate of a schbench workload"), "{shown}");
        }
    }

    #[test]
    fn a_mail_is_ascii_and_names_act_on_nothing() {
        let name = "a\x1b[2J\n\u{202e}\u{b5}";
        let mut comparison = testing::hostile(name);
        comparison.works.iter_mut().for_each(|work| work.sets[0].workload = WORKLOAD.to_string());
        for work in &mut comparison.works {
            work.sets[0].rows[0].metric = "throughput".to_string();
        }
        comparison.works.push(testing::work("w", &[], "w", name, Vec::new()));
        let shown = render(&comparison);
        assert!(shown.contains("RPS    (count):   mean:"), "{shown}");
        assert!(shown.is_ascii() && !shown.contains('\x1b'), "{shown}");
        let wide = shown.lines().find(|line| line.len() > lkml::COLUMNS);
        assert_eq!(wide, None);
    }
}
