//! The csv: what a reader of the format gets, and that the page describes it.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::testing;
use crate::report::tests::csv_rows;
use crate::stats::Why;

use super::*;

const PAGE: &str = include_str!("../../../docs/report-formats.md");

/// Columns of the first row of this kind, metric and side.
fn cells(
    rows: &[BTreeMap<String, String>],
    [kind, metric, side]: [&str; 3],
    columns: &[&str],
) -> Vec<String> {
    let is = |row: &&BTreeMap<String, String>| {
        (&*row["kind"], &*row["metric"], &*row["side"]) == (kind, metric, side)
    };
    let row = rows.iter().find(is).unwrap_or_else(|| panic!("{kind} {metric} {side}"));
    columns.iter().map(|column| row[*column].clone()).collect()
}

#[test]
fn a_summary_for_each_side_of_each_metric_and_a_row_for_each_value() {
    let rows = csv_rows(&testing::ordinary());
    let count = |kind: &str| rows.iter().filter(|row| row["kind"] == kind).count();
    assert_eq!((count("summary"), count("run"), rows.len()), (16, 160, 176));
    let columns = ["work", "set", "workload", "unit", "ops", "direction", "family", "baseline"];
    assert_eq!(
        cells(&rows, ["summary", "throughput", "default"], &columns),
        [
            "web threads=2",
            "web",
            "schbench",
            "ops_per_s",
            "requests",
            "higher_is_better",
            "headline",
            "true"
        ]
    );
    assert_eq!(
        cells(&rows, ["summary", "switches", "batch"], &columns[3..]),
        ["per_s", "requests", "neutral", "", "false"]
    );
    let n_and_cv = cells(&rows, ["summary", "switches", "batch"], &["n", "cv", "plan"]);
    assert!(n_and_cv[0] == "10" && n_and_cv[1].len() > 10, "in full: {n_and_cv:?}");
    assert_eq!(n_and_cv[2], "20260203-1405");
    let columns =
        ["ratio", "low", "high", "pairs", "verdict", "why", "rounds", "p_difference", "p_same"];
    assert_eq!(cells(&rows, ["summary", "wakeup_p99", "default"], &columns), [""; 9]);
    assert_eq!(
        cells(&rows, ["summary", "wakeup_p99", "batch"], &columns),
        ["0.5964", "0.5721", "0.6216", "10", "better", "", "", "0.00123", "1.0"]
    );
    assert_eq!(
        cells(&rows, ["summary", "request_p99", "batch"], &columns[4..7]),
        ["inconclusive", "noise", "31"]
    );
    let run = cells(&rows, ["run", "throughput", "default"], &["round", "value", "n"]);
    assert_eq!(run, ["0", &(4376.0 * (1.0 + 0.004 * 0.3)).to_string(), ""]);
}

#[test]
fn what_is_not_known_is_empty_and_has_its_reason() {
    let rows = csv_rows(&testing::troubled());
    let of = ["summary", "misses", "6.18.5-lavd"];
    let columns = ["n", "mean", "hmean", "median", "cv", "ratio", "low", "pairs", "verdict", "why"];
    assert_eq!(
        cells(&rows, of, &columns),
        ["0", "", "", "", "", "", "", "", "unjudged", "no_ratio"]
    );
    let baseline = cells(&rows, ["summary", "misses", "6.6.87-cfs"], &["hmean", "mean"]);
    assert!(baseline[0].is_empty() && !baseline[1].is_empty(), "one value is 0: {baseline:?}");
    let of = ["summary", "throughput", "6.18.5-lavd"];
    assert_eq!(cells(&rows, of, &["rounds", "why"]), [">1000", "same_only_alone"]);
    let is_unknown =
        |row: &&BTreeMap<String, String>| row["kind"] == "run" && row["value"].is_empty();
    let unknown: Vec<(&str, &str)> = rows
        .iter()
        .filter(is_unknown)
        .map(|row| (row["round"].as_str(), row["reason"].as_str()))
        .collect();
    assert_eq!(unknown, [("1", "no sample in the window"), ("2", "no sample in the window")]);
}

#[test]
fn notes_and_fairness_have_rows() {
    let analysis = testing::troubled();
    let rows = csv_rows(&analysis);
    let notes: Vec<_> = rows.iter().filter(|row| row["kind"] == "note").collect();
    assert_eq!(notes.len(), analysis.notes.len());
    assert!(notes.iter().all(|row| !row["reason"].is_empty() && !row["metric"].is_empty()));
    let columns = ["work", "set", "n", "median"];
    let of = |metric| cells(&rows, ["fairness", metric, "batch"], &columns);
    let work = "web threads=4 footprint=256KiB";
    assert_eq!(of("jain"), [work, "", "10", "0.97"]);
    assert_eq!(of("entitled"), [work, "front", "10", "0.4"]);
}

#[test]
fn a_side_in_the_lab_has_its_clock_and_kernel() {
    let rows = csv_rows(&testing::in_the_lab(2));
    let of = |side| cells(&rows, ["summary", "wakeup_p99", side], &["time", "kernel"]);
    assert_eq!(of("default")[0], "exact");
    assert_eq!(of("batch")[0], "not_exact");
    assert!(of("batch")[1].starts_with("debian:6.18 (6.1.0-56-cloud-amd64"));
    let rows = csv_rows(&testing::ordinary());
    let host = cells(&rows, ["summary", "wakeup_p99", "batch"], &["time", "kernel"]);
    assert_eq!(host, ["", "6.18.5"]);
}

/// A reader of thousands of operations gets the number that the text shows.
#[test]
fn a_throughput_is_that_of_the_text() {
    use crate::analysis::analyse;
    use crate::analysis::testing::{of_variants, plan, rounds};
    let mut plan = rounds(plan("p1", 1, &["default", "batch"]), 0..8, &[1.0, 1.1]);
    plan.metrics.iter_mut().for_each(|metric| metric.ops = "kops".to_string());
    let question = of_variants(&plan);
    let rows = csv_rows(&analyse(&[plan], &[], &question));
    let found = cells(&rows, ["summary", "throughput", "default"], &["median", "ops", "unit"]);
    let median: f64 = found[0].parse().unwrap();
    assert!((990_000.0..1_010_000.0).contains(&median), "{found:?}");
    assert_eq!(found[1..], ["ops", "ops_per_s"]);
}

#[test]
fn names_with_separators_and_quotes_read_back() {
    let name = "a,\"b\";c d";
    let rows = csv_rows(&testing::hostile(name));
    for column in ["work", "set", "workload", "metric", "side", "plan", "kernel", "ops"] {
        let row = rows.iter().find(|row| row["unit"] == "ns").expect("a latency");
        assert_eq!(row[column], name, "{column}");
    }
}

fn section() -> &'static str {
    let (_, section) = PAGE.split_once("\n### csv\n").expect("a section");
    section.split("\n### ").next().unwrap()
}

#[test]
fn every_column_and_kind_of_row_is_described() {
    let rows = [testing::troubled(), testing::of_hosts("n2")].map(|of| csv_rows(&of)).concat();
    let kinds: BTreeSet<&str> = rows.iter().map(|row| row["kind"].as_str()).collect();
    assert_eq!(kinds.len(), 6);
    for word in rows[0].keys().map(String::as_str).chain(kinds) {
        assert!(section().contains(&format!("`{word}`")), "docs/report-formats.md lacks `{word}`");
    }
}

/// A reason that is added does not compile until it is here, too.
#[test]
fn every_reason_is_described() {
    let row = section().lines().find(|line| line.starts_with("| `why` |")).expect("a row");
    let whys = [
        Why::TooFewRounds { least: 6 },
        Why::OnlyAlone,
        Why::SameOnlyAlone,
        Why::Denied,
        Why::BelowFloor { floor: crate::stats::Distance::Ratio(0.1) },
        Why::Noise,
    ];
    for why in whys {
        match why {
            Why::TooFewRounds { .. } | Why::BelowFloor { .. } => {}
            Why::OnlyAlone | Why::SameOnlyAlone | Why::Denied | Why::Noise => {}
        }
        let open = testing::open(why, crate::stats::Rounds::Number(9));
        let (_, key) = phrases::keys(&open);
        let key = key.expect("a reason");
        assert!(row.contains(&format!("`{key}`")), "docs/report-formats.md lacks `{key}`");
    }
}
