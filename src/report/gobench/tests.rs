//! The Go benchmark data format.

use super::*;
use crate::report::testing::{self, HIGHER, LOWER, NEUTRAL, render};
use insta::assert_snapshot;
use proptest::prelude::*;

#[test]
fn two_variants_of_one_plan() {
    assert_snapshot!(render(&GOBENCH, &testing::ordinary(), Options::default()));
}

#[test]
fn three_kernels_with_all_that_can_be_odd() {
    assert_snapshot!(render(&GOBENCH, &testing::troubled(), Options::default()));
}

#[test]
fn units_name_the_metric_and_which_direction_is_better() {
    let cases: &[(&str, Unit, Direction, &str)] = &[
        ("wakeup_p99.9", Unit::Ns, LOWER, "wakeup_p99.9-ns better=lower"),
        ("throughput", Unit::OpsPerS, HIGHER, "throughput-requests/s better=higher"),
        ("copied", Unit::BytesPerS, HIGHER, "copied-B/s better=higher"),
        ("misses", Unit::PerS, LOWER, "misses/s better=lower"),
        ("busy", Unit::Cpus, HIGHER, "busy-CPUs better=higher"),
        ("energy_dram", Unit::Joules, LOWER, "energy_dram-J better=lower"),
        ("fairness", Unit::Ratio, HIGHER, "fairness better=higher"),
        ("a b-c/d", Unit::Count, LOWER, "a%20b_c%2Fd better=lower"),
    ];
    for (metric, unit, direction, expected) in cases {
        let mut analysis = testing::sides_only();
        let cells = || vec![testing::cell(vec![(0, 1.5)])];
        let rows = vec![testing::row(metric, *unit, *direction, cells())];
        analysis.works = vec![testing::work("w", &[], "w", "w", rows)];
        let shown = render(&GOBENCH, &analysis, Options::default());
        assert!(shown.contains(&format!("\nUnit {expected}\n")), "{shown}");
        // A metric with two directions has no unit line.
        let other = testing::row(metric, *unit, NEUTRAL, cells());
        analysis.works.push(testing::work("x", &[], "x", "x", vec![other]));
        let shown = render(&GOBENCH, &analysis, Options::default());
        assert!(!shown.contains("\nUnit "), "{shown}");
    }
}

#[test]
fn a_value_is_written_in_full_and_an_infinite_one_not_at_all() {
    let mut analysis = testing::sides_only();
    let cell = testing::cell(vec![(0, 0.1 + 0.2), (1, f64::NAN), (3, 1e21)]);
    let row = testing::row("misses", Unit::Count, LOWER, vec![cell]);
    analysis.works = vec![testing::work("w", &[], "w", "w", vec![row])];
    let shown = render(&GOBENCH, &analysis, Options::default());
    let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with("Bench")).collect();
    let name = "BenchmarkSchedlab/work=w/set=w";
    let expected = ["0.30000000000000004", "1000000000000000000000"];
    assert_eq!(lines, expected.map(|value| format!("{name} 1 {value} misses")));
}

proptest! {
    #[test]
    fn each_line_is_of_the_format(name in any::<String>()) {
        let shown = render(&GOBENCH, &testing::hostile(&name), Options::default());
        let mut results = 0;
        for line in shown.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if line.starts_with("Benchmark") {
                results += 1;
                // A name, the iterations, and pairs of value and unit.
                prop_assert!(fields.len() >= 4 && fields.len().is_multiple_of(2), "{}", line);
                let all_numbers = fields.iter().skip(2).step_by(2).all(|value| value.parse::<f64>().is_ok());
                prop_assert!(all_numbers, "{}", line);
                prop_assert_eq!(fields[0].matches('/').count(), 3);
            } else if line.starts_with("Unit") {
                prop_assert_eq!(fields.len(), 3);
            } else {
                let known = line.is_empty() || line.starts_with("# ") || line.starts_with("variant: ");
                prop_assert!(known, "{}", line);
            }
        }
        prop_assert_eq!(results, 40);
    }

    #[test]
    fn words_that_differ_stay_distinct(one in "[ -~]{0,6}", other in "[ -~]{0,6}") {
        prop_assert_eq!(one == other, word(&one) == word(&other));
    }
}
