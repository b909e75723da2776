//! The blocks in which schbench's results are mailed.

use super::*;
use crate::analysis::Row;
use crate::model::{Unit, Value};
use crate::report::testing::{self, HIGHER, LOWER};
use insta::assert_snapshot;

fn render(analysis: &Analysis) -> String {
    testing::render(&SCHBENCH, analysis, Options::default())
}

/// All above the verdicts.
fn blocks_of(analysis: &Analysis) -> String {
    let shown = render(analysis);
    let end = shown.find("Verdicts, ").unwrap_or_else(|| panic!("no verdicts in\n{shown}"));
    shown[..end].trim_end().to_string()
}

fn row(metric: &str, values: [f64; 2]) -> Row {
    let (unit, direction) =
        if metric.ends_with("_p99") { (Unit::Ns, LOWER) } else { (Unit::OpsPerS, HIGHER) };
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
fn kernels(works: Vec<WorkTable>) -> Analysis {
    let mut analysis = testing::sides_only();
    for (side, label) in analysis.sides.iter_mut().zip(["EEVDF", "Linus"]) {
        side.label = label.to_string();
    }
    analysis.works = works;
    analysis
}

fn mailed(wakeup: [f64; 2], request: [f64; 2], rps: [f64; 2]) -> Vec<Row> {
    let us = |values: [f64; 2]| values.map(|value| 1e3 * value);
    vec![row("wakeup_p99", us(wakeup)), row("request_p99", us(request)), row("rps_p50", rps)]
}

#[test]
fn two_kernels_stand_as_in_the_mail_that_announced_schbench() {
    let first = mailed([355.0, 555.0], [2_620.0, 1_906.0], [37_696.0, 41_664.0]);
    let second = mailed([823.0, 1_118.0], [17_184.0, 14_192.0], [4_440.0, 4_456.0]);
    let analysis = kernels(vec![work(1, false, first), work(10, true, second)]);
    assert_snapshot!(blocks_of(&analysis), @"
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
    of_rate.push(row("response_p99", [9e6, 8e6]));
    let other = testing::work("chat", &[], "chat", "messaging", of_rate.clone());
    let unknown = testing::row(
        "wakeup_p99",
        Unit::Ns,
        LOWER,
        vec![testing::cell(vec![(0, 5e3)]), testing::cell(Vec::new())],
    );
    of_rate.push(unknown);
    let analysis = kernels(vec![work(1, false, of_rate), other]);
    assert_snapshot!(blocks_of(&analysis), @"
    F128 N1                   EEVDF      Linus
    Wakeup  (usec): 99.0th:       5          -
    Request (usec): 99.0th:       -          -
    Response(usec): 99.0th:   9,000      8,000
    RPS    (count):   mean:   4,440      4,456

    Values are medians over runs.
    Neither shown nor counted: messaging
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
    let parts =
        ["Verdicts, batch against default:\n", " bounded, ", "Reproduce with:\n  schedlab compare"];
    for part in parts {
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
    let spin = testing::work("burn", &[], "burn", "spin", vec![row("throughput", [1.0, 2.0])]);
    for analysis in [testing::nothing(), kernels(Vec::new()), kernels(vec![spin])] {
        let shown = render(&analysis);
        assert!(shown.starts_with("No work here uses schbench"), "{shown}");
    }
}

#[test]
fn a_mail_is_ascii_and_names_act_on_nothing() {
    let name = "a\x1b[2J\n\u{202e}\u{b5}";
    let mut analysis = testing::hostile(name);
    analysis.works.iter_mut().for_each(|work| work.sets[0].workload = WORKLOAD.to_string());
    for work in &mut analysis.works {
        work.sets[0].rows[0].kind.name = "throughput".to_string();
    }
    analysis.works.push(testing::work("w", &[], "w", name, Vec::new()));
    let shown = render(&analysis);
    assert!(shown.contains("RPS    (count):   mean:"), "{shown}");
    assert!(shown.is_ascii() && !shown.contains('\x1b'), "{shown}");
    let wide = shown.lines().find(|line| line.len() > lkml::COLUMNS);
    assert_eq!(wide, None);
}
