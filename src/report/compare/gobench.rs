//! `gobench` of a comparison: its values in the Go benchmark data format, so that `benchstat`
//! can check the verdicts. One line per run; sides differ in the configuration line `variant`.
//!
//! Source: the Go project's "Proposal: Go Benchmark Data Format" (14313) and the unit metadata
//! of issue 43744. How to call benchstat: docs/report-formats.md. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::{Format, words};
use crate::compare::{Comparison, SetTable, WorkTable};
use crate::model::{Direction, Unit};
use crate::report::Options;
use crate::report::show::clean;

pub struct Gobench;

impl Format for Gobench {
    fn name(&self) -> &'static str {
        "gobench"
    }

    fn about(&self) -> &'static str {
        "values of every run for Go's benchstat: benchstat -col variant FILE"
    }

    fn render(&self, comparison: &Comparison, _: &Options, out: &mut dyn Write) -> io::Result<()> {
        let mut text = String::new();
        // Lines that begin with # are comments. What differs from side to side has to be one:
        // benchstat would take a second configuration line for another table.
        for line in words::command_lines(&comparison.command, usize::MAX) {
            text.push_str(&format!("# {line}\n"));
        }
        for (unit, better) in units(comparison) {
            text.push_str(&format!("Unit {unit} better={better}\n"));
        }
        let names = words::names(&comparison.sides, usize::MAX, clean, "");
        for (side, name) in names.iter().enumerate() {
            let about = words::about(&comparison.sides[side]);
            text.push_str(&format!("\n# {about}\nvariant: {name}\n"));
            for work in &comparison.works {
                for set in &work.sets {
                    runs(work, set, side, &mut text);
                }
            }
        }
        out.write_all(text.as_bytes())
    }
}

/// Which direction is better, of the units that have one and the same everywhere.
fn units(comparison: &Comparison) -> BTreeMap<String, &'static str> {
    let mut units: BTreeMap<String, Option<&str>> = BTreeMap::new();
    for (_, set, row) in words::rows(comparison) {
        let better = match row.direction {
            Direction::HigherIsBetter => Some("higher"),
            Direction::LowerIsBetter => Some("lower"),
            Direction::Neutral => None,
        };
        let known = units.entry(unit(&row.metric, row.unit, set)).or_insert(better);
        *known = known.filter(|known| Some(*known) == better);
    }
    units.into_iter().filter_map(|(unit, better)| Some((unit, better?))).collect()
}

/// A line per round, with all that is known of it.
fn runs(work: &WorkTable, set: &SetTable, side: usize, text: &mut String) {
    let cells = || set.rows.iter().filter_map(|row| Some((row, row.cells.get(side)?)));
    let values = cells().flat_map(|(_, cell)| &cell.values);
    let rounds: BTreeSet<u32> = values.map(|(round, _)| *round).collect();
    let name = name(work, set);
    for round in rounds {
        let measured = cells().filter_map(|(row, cell)| {
            let (_, value) = cell.values.iter().find(|(found, _)| *found == round)?;
            value.is_finite().then(|| format!(" {value} {}", unit(&row.metric, row.unit, set)))
        });
        let measured: String = measured.collect();
        if !measured.is_empty() {
            text.push_str(&format!("{name} 1{measured}\n"));
        }
    }
}

/// `BenchmarkSchedlab/work=web/set=web/threads=4`: keys that `-row` and `-filter` know.
fn name(work: &WorkTable, set: &SetTable) -> String {
    let mut name = format!("BenchmarkSchedlab/work={}/set={}", word(&work.name), word(&set.name));
    for (axis, point) in &work.axes {
        name.push_str(&format!("/{}={}", word(axis), word(point)));
    }
    name
}

/// `wakeup_p99-ns`: what is in front of the dash names the metric, as in `p99-latency-ns` of Go's
/// own benchmarks. benchstat shows ns as seconds.
fn unit(metric: &str, unit: Unit, set: &SetTable) -> String {
    // Not to be taken for a unit's own separators.
    let metric = word(metric).replace(['-', '*'], "_");
    match unit {
        Unit::Ns => format!("{metric}-ns"),
        Unit::OpsPerS => match set.ops.as_str() {
            "" => format!("{metric}-ops/s"),
            ops => format!("{metric}-{}/s", word(ops).replace(['-', '*'], "_")),
        },
        Unit::BytesPerS => format!("{metric}-B/s"),
        Unit::PerS => format!("{metric}/s"),
        Unit::Cpus => format!("{metric}-CPUs"),
        Unit::Ratio | Unit::Count => metric,
    }
}

/// One word of a name: what separates or hides is percent-encoded, so that different names stay
/// different.
fn word(text: &str) -> String {
    let mut word = String::with_capacity(text.len());
    for c in text.chars() {
        let is_free = c.is_alphanumeric() || "._+-:,@*".contains(c);
        match is_free {
            true => word.push(c),
            false => {
                let mut bytes = [0; 4];
                let bytes = c.encode_utf8(&mut bytes).bytes();
                word.extend(bytes.map(|byte| format!("%{byte:02X}")));
            }
        }
    }
    // Some letters have no form: they are hidden, too.
    match clean(&word).replace(['{', '}', '\\'], "%") {
        empty if empty.is_empty() => "%".to_string(),
        word => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::testing::{self, HIGHER, LOWER, NEUTRAL, render};
    use insta::assert_snapshot;
    use proptest::prelude::*;

    #[test]
    fn two_variants_of_one_plan() {
        assert_snapshot!(render(&Gobench, &testing::ordinary(), Options::default()));
    }

    #[test]
    fn three_kernels_with_all_that_can_be_odd() {
        assert_snapshot!(render(&Gobench, &testing::troubled(), Options::default()));
    }

    #[test]
    fn units_tell_the_metric_and_which_direction_is_better() {
        let cases: &[(&str, Unit, Direction, &str)] = &[
            ("wakeup_p99.9", Unit::Ns, LOWER, "wakeup_p99.9-ns better=lower"),
            ("throughput", Unit::OpsPerS, HIGHER, "throughput-requests/s better=higher"),
            ("copied", Unit::BytesPerS, HIGHER, "copied-B/s better=higher"),
            ("misses", Unit::PerS, LOWER, "misses/s better=lower"),
            ("busy", Unit::Cpus, HIGHER, "busy-CPUs better=higher"),
            ("fairness", Unit::Ratio, HIGHER, "fairness better=higher"),
            ("a b-c/d", Unit::Count, LOWER, "a%20b_c%2Fd better=lower"),
        ];
        for (metric, unit, direction, expected) in cases {
            let mut comparison = testing::sides_only();
            let cells = || vec![testing::cell(vec![(0, 1.5)])];
            let rows = vec![testing::row(metric, *unit, *direction, cells())];
            comparison.works = vec![testing::work("w", &[], "w", "w", rows)];
            let shown = render(&Gobench, &comparison, Options::default());
            assert!(shown.contains(&format!("\nUnit {expected}\n")), "{shown}");
            // Of two directions neither holds.
            let other = testing::row(metric, *unit, NEUTRAL, cells());
            comparison.works.push(testing::work("x", &[], "x", "x", vec![other]));
            let shown = render(&Gobench, &comparison, Options::default());
            assert!(!shown.contains("\nUnit "), "{shown}");
        }
    }

    #[test]
    fn a_value_is_written_in_full_and_an_infinite_one_not_at_all() {
        let mut comparison = testing::sides_only();
        let cell = testing::cell(vec![(0, 0.1 + 0.2), (1, f64::NAN), (3, 1e21)]);
        let row = testing::row("misses", Unit::Count, LOWER, vec![cell]);
        comparison.works = vec![testing::work("w", &[], "w", "w", vec![row])];
        let shown = render(&Gobench, &comparison, Options::default());
        let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with("Bench")).collect();
        let name = "BenchmarkSchedlab/work=w/set=w";
        let expected = ["0.30000000000000004", "1000000000000000000000"];
        assert_eq!(lines, expected.map(|value| format!("{name} 1 {value} misses")));
    }

    proptest! {
        #[test]
        fn each_line_is_of_the_format(name in any::<String>()) {
            let shown = render(&Gobench, &testing::hostile(&name), Options::default());
            let mut results = 0;
            for line in shown.lines() {
                let fields: Vec<&str> = line.split_whitespace().collect();
                if line.starts_with("Benchmark") {
                    results += 1;
                    // A name, the iterations, and pairs of value and unit.
                    prop_assert_eq!(fields.len(), 2 + 2 * 4, "{}", line);
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
        fn words_that_differ_stay_apart(one in "[ -~]{0,6}", other in "[ -~]{0,6}") {
            prop_assert_eq!(one == other, word(&one) == word(&other));
        }
    }
}
