//! Tables for a mail to a kernel list.

use super::*;
use crate::model::Reading;
use crate::report::testing::{self, HIGHER, LOWER, render};
use crate::stats::Rounds;
use insta::assert_snapshot;
use proptest::prelude::*;

#[test]
fn two_variants_of_one_plan() {
    assert_snapshot!(render(&LKML, &testing::ordinary(), Options::default()));
}

/// Readers of a mail have no page of the plan: its head says what was measured, where and for how long.
#[test]
fn the_head_has_title_rounds_times_and_processors() {
    let head = |analysis: &Analysis| {
        let shown = render(&LKML, analysis, Options::default());
        let head = shown.split_once("\n=====").expect("a table").0.to_string();
        let wide = head.lines().find(|line| line.len() > HEAD_COLUMNS);
        assert_eq!((wide, head.is_ascii()), (None, true), "{head}");
        head
    };
    let mut analysis = testing::ordinary();
    analysis.plans[0].environments[0].cpu_model = Reading::Known("A \u{b5} CPU".to_string());
    let whole = head(&analysis);
    for part in [
        "Default and batch on this machine (20260203-1405)",
        "10 rounds in 1 min 38 s, Linux 6.18.5, 8 CPUs (kvm)",
        "CPUs          : 8, A \\u{b5} CPU",
    ] {
        assert!(whole.contains(part), "{part}: {whole}");
    }
    let unquoted = whole.replace("\n                ", " ");
    let measure = &analysis.plans[0].measure;
    let [each, warmup] = [measure.duration_ns, measure.warmup_ns].map(crate::model::show_duration);
    let times = format!("each run {each} after {warmup} of warm-up");
    assert!(unquoted.contains(&times), "{times}: {whole}");

    analysis.plans = (0..5).map(|at| testing::plan(&format!("plan-{at}"))).collect();
    let several = head(&analysis);
    assert!(several.contains("(plan-2)") && !several.contains("(plan-3)"), "{several}");
    assert!(several.contains("And 2 further plans; "), "{several}");
}

#[test]
fn switches_that_explain_the_throughput() {
    assert_snapshot!(render(&LKML, &testing::explained(), Options::default()));
}

#[test]
fn three_kernels_with_all_that_can_be_odd() {
    assert_snapshot!(render(&LKML, &testing::troubled(), Options::default()));
}

/// A cell of which only what these tables show is known.
fn known(value: f64, cv_percent: f64) -> Cell {
    let (known, cv) = (Some(value), Some(cv_percent / 100.0));
    let values = vec![(0, value), (1, value)];
    Cell { mean: known, hmean: known, median: known, cv, ..testing::cell(values) }
}

/// Normalised value, improvement and variation of the baseline and the variant.
type Case = (&'static str, f64, f64, f64, &'static str);

/// The rows of one table without its header, from cases with both CVs and a ratio.
fn table(metric: &str, unit: Unit, direction: Direction, cases: &[Case]) -> Vec<String> {
    let mut analysis = testing::sides_only();
    analysis.sides[1].label = "run-to-parity-wakeup".to_string();
    for (case, ratio, cv, other_cv, _) in cases {
        let cells = vec![known(1000.0, *cv), known(1000.0 * ratio, *other_cv)];
        let row = testing::headline(metric, unit, direction, cells);
        analysis.works.push(testing::work("mail", &[("n", case)], "mail", "mail", vec![row]));
    }
    let shown = render(&LKML, &analysis, Options::default());
    let rows = shown.lines().skip_while(|line| !line.starts_with("Case:")).skip(1);
    rows.take(cases.len()).map(str::to_string).collect()
}

/// Rows of the mail of 25 March 2024, with the numbers that it has.
#[test]
fn rows_are_those_of_the_mails() {
    let lower: &[Case] = &[
        ("1-groups", 0.9771, 2.08, 3.19, "1.00 [ -0.00]( 2.08)  0.98 [  2.29]( 3.19)"),
        ("2-groups", 1.0222, 0.89, 1.27, "1.00 [ -0.00]( 0.89)  1.02 [ -2.22]( 1.27)"),
        ("64", 0.9847, 1.79, 2.36, "1.00 [ -0.00]( 1.79)  0.98 [  1.53]( 2.36)"),
        ("4", 1.2105, 14.0, 7.2, "1.00 [ -0.00](14.00)  1.21 [-21.05]( 7.20) *"),
        ("8", 1.0417, 4.68, 13.1, "1.00 [ -0.00]( 4.68)  1.04 [ -4.17](13.10) *"),
        ("128", 1.0316, 6.3, 8.92, "1.00 [ -0.00]( 6.30)  1.03 [ -3.16]( 8.92) *"),
    ];
    let higher: &[Case] = &[
        ("1-clients", 1.0226, 0.22, 1.08, "1.00 [  0.00]( 0.22)  1.02 [  2.26]( 1.08)"),
        ("Scale", 0.9714, 1.26, 6.48, "1.00 [  0.00]( 1.26)  0.97 [ -2.86]( 6.48)"),
        ("256-clients", 0.9504, 8.68, 7.11, "1.00 [  0.00]( 8.68)  0.95 [ -4.96]( 7.11) *"),
    ];
    let units = [(Unit::Ns, LOWER, lower), (Unit::OpsPerS, HIGHER, higher)];
    for (unit, direction, cases) in units {
        let rows = table("x_p99", unit, direction, cases);
        for ((case, .., expected), row) in cases.iter().zip(&rows) {
            let words = |text: &str| text.split("  ").map(str::trim).collect::<String>();
            assert_eq!(words(row), words(&format!("n={case}  {expected}")));
            // Below one another, to the column.
            let close: Vec<usize> = row.match_indices(')').map(|(at, _)| at).collect();
            let first: Vec<usize> = rows[0].match_indices(')').map(|(at, _)| at).collect();
            assert_eq!(close, first, "{row}");
        }
    }
}

#[test]
fn each_metric_has_its_statistic_and_unit_in_words() {
    let cases: &[(&str, Unit, f64, &str)] = &[
        ("wakeup_p99.9", Unit::Ns, 5e3, "99.9th percentile wakeup latency in us"),
        ("wakeup_p50", Unit::Ns, 5e6, "50th percentile wakeup latency in ms"),
        ("wakeup_max", Unit::Ns, 5e9, "wakeup_max in seconds"),
        ("a_pattern", Unit::Ns, 5.0, "a_pattern in ns"),
        ("throughput", Unit::OpsPerS, 5.0, "throughput, requests/s"),
        ("copied", Unit::BytesPerS, 5e6, "copied, MB/s"),
        ("energy_dram", Unit::Joules, 5e3, "energy_dram, kJ"),
        ("switches", Unit::PerS, 5.0, "switches per second"),
        ("misses", Unit::Count, 5.0, "misses, count"),
        ("fairness", Unit::Ratio, 0.5, "fairness, ratio"),
        ("busy", Unit::Cpus, 0.5, "busy, CPUs"),
        ("steps", Unit::OpsPerS, 0.0, "steps, requests/s"),
    ];
    for (metric, unit, value, units) in cases {
        let mut analysis = testing::sides_only();
        let cell = || testing::cell(vec![(0, *value), (1, *value)]);
        let row = testing::headline(metric, *unit, LOWER, vec![cell(), cell()]);
        analysis.works = vec![testing::work("w", &[], "w", "w", vec![row])];
        let shown = render(&LKML, &analysis, Options::default());
        let units = format!("\nUnits         : Normalized {units}\n");
        assert!(shown.contains(&units), "{units} {shown}");
        let statistic = "\nStatistic     : GMean of the ratios within rounds\n";
        assert!(shown.contains(statistic), "{metric} {shown}");
    }
}

#[test]
fn odd_values_are_noted_below_the_tables_and_neutral_ones_are_not() {
    let mut analysis = testing::ordinary();
    for work in &mut analysis.works {
        for row in &mut work.sets[0].rows {
            let is_odd = ["wakeup_p99", "switches"].contains(&row.kind.name.as_str());
            let odd = row.cells[1].clone().shaped(testing::TWO_MODES).shaped(testing::TREND);
            row.cells[1] = if is_odd { odd } else { row.cells[1].clone() };
        }
    }
    let shown = render(&LKML, &analysis, Options::default());
    let (tables, verdicts) = shown.split_once("\nVerdicts, ").expect("verdicts");
    let notes = tables.split_once("variance is large\n\n").expect("tables").1;
    let note = |threads: u32| {
        format!(
            "Note: web threads={threads}, wakeup_p99, batch: two modes, 12.0 ms and 31.0 ms \
             (4 of\n      10 rounds); a trend, 3 % from the first round to the last (p \
             0.0020)\n"
        )
    };
    assert_eq!(notes, format!("{}{}", note(2), note(4)));
    assert!(!verdicts.contains("two modes"), "{shown}");
}

#[test]
fn a_star_stands_in_the_blocks_that_show_the_large_variation() {
    let mut analysis = testing::troubled();
    let cells = [2.0, 2.0, 20.0].map(|cv| known(1000.0, cv)).to_vec();
    let row = testing::headline("throughput", Unit::OpsPerS, HIGHER, cells);
    analysis.works = vec![testing::work("mail", &[], "mail", "mail", vec![row])];
    let shown = render(&LKML, &analysis, Options::default());
    let blocks: Vec<&str> = shown.split("Case:").skip(1).collect();
    let stars: Vec<bool> = blocks
        .iter()
        .map(|block| block.lines().nth(1).is_some_and(|row| row.ends_with('*')))
        .collect();
    assert_eq!(stars, [false, true], "{shown}");
}

#[test]
fn a_difference_below_the_floor_says_so() {
    let mut analysis = testing::ordinary();
    let below = testing::open(
        Why::BelowFloor { floor: crate::stats::Distance::Ratio(0.103_949) },
        Rounds::MoreThan(1000),
    );
    let cell = testing::values(1e6, 0.01).judged(below, 1.08, 1.05, 1.1);
    analysis.works[0].sets[0].rows[1].cells[1] = cell;
    let shown = render(&LKML, &analysis, Options::default());
    let line = "  open: web threads=2, wakeup_p99, ratio 1.080 (1.050 to 1.100), \
                below the A/A\n  floor of 10 %\n";
    assert!(shown.contains(line), "{shown}");
    assert_eq!(shown.matches("open:").count(), 1, "others are counted\n{shown}");
    let row = &mut analysis.works[0].sets[0].rows[0];
    let open = testing::open(Why::Noise, Rounds::Number(30));
    row.cells[1] = testing::values(1e3, 0.01).judged(open, 1.0, 0.9, 1.1);
    let shown = testing::words(&render(&LKML, &analysis, Options::default()));
    assert!(shown.contains("decide all but 1 below the floor"), "{shown}");
}

/// A table may be mailed alone.
#[test]
fn each_table_of_the_lab_says_by_what_clock_it_was_measured() {
    let mut explained = testing::explained();
    explained.sides = testing::in_the_lab(2).sides;
    let shown = render(&LKML, &explained, Options::default());
    let time = "\nTime          : lab, virtual time, NOT exact in 2 of 80 runs\n====";
    let (tables, heads) = (shown.matches("Test          : "), shown.matches(time));
    assert_eq!(heads.count(), tables.count(), "{shown}");
    let host = render(&LKML, &testing::explained(), Options::default());
    assert!(!host.contains("Time  "), "{host}");
}

#[test]
fn tables_are_ascii_and_fit_a_mail() {
    let analysiss =
        [testing::ordinary(), testing::troubled(), testing::hostile("a b\nµ\u{202e}(x)")];
    for analysis in analysiss {
        let shown = render(&LKML, &analysis, Options::default());
        assert!(shown.is_ascii(), "{shown}");
        let wide: Vec<&str> = shown.lines().filter(|line| line.len() > COLUMNS).collect();
        assert!(wide.is_empty(), "{wide:?}");
    }
}

#[test]
fn long_names_are_cut_in_what_they_share_and_long_cases_stand_above_their_rows() {
    let mut analysis = testing::troubled();
    analysis.sides.truncate(2);
    for (side, label) in analysis.sides.iter_mut().zip(["tip+", "parity+"]) {
        side.label = format!("kernel=6.12.0-rc1-{label}");
    }
    let shown = render(&LKML, &analysis, Options::default());
    let head = shown.lines().find(|line| line.starts_with("Case:")).unwrap();
    let words: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(words, ["Case:", "~tip+[pct", "imp](CV)", "~parity+[pct", "imp](CV)"]);
    for full in ["~tip+: kernel=6.12.0-rc1-tip+: ", "~parity+: kernel=6.12.0-rc1-parity+: "] {
        assert!(shown.contains(full), "{shown}");
    }
    analysis.works[0].axes[0].1 = "4".repeat(20);
    let shown = render(&LKML, &analysis, Options::default());
    let case = format!("threads={},footprint=256KiB", "4".repeat(20));
    let (_, row) = shown.split_once(&format!("\n{case}\n")).expect("a line of its own");
    assert!(row.trim_start().starts_with("1.00 [  0.00]( 0.68)    "), "{shown}");
    assert_eq!(shown.lines().find(|line| line.len() > COLUMNS), None);
}

#[test]
fn a_name_is_not_cut_inside_an_escape() {
    for (before, shared) in (0..NAME_COLUMNS).flat_map(|at| [(at, ""), (at, "shared.\x1b.")]) {
        let mut analysis = testing::ordinary();
        for (side, c) in analysis.sides.iter_mut().zip(["\x1b", "\u{b5}"]) {
            side.label = format!("{shared}{}{}", "a".repeat(before), c.repeat(5));
        }
        let names = phrases::names(&analysis.sides, NAME_COLUMNS, word, CUT);
        assert_eq!(render(&LKML, &analysis, Options::default()).matches('\x1b').count(), 0);
        for name in names {
            let rest = name.replace(r"\u{1b}", "").replace(r"\u{b5}", "");
            assert!(!rest.contains(['\\', '{', '}', '\x1b']), "{name} of {before} and {shared:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_line_is_wider_than_a_mail(
        labels in proptest::collection::vec("(kernel=)?[a-c.-]{0,30}", 3),
        point in "[a-c]{0,90}",
    ) {
        let mut analysis = testing::troubled();
        for (side, label) in analysis.sides.iter_mut().zip(labels) {
            side.label = label;
        }
        analysis.works[0].axes[0].1 = point;
        let shown = render(&LKML, &analysis, Options::default());
        prop_assert_eq!(shown.lines().find(|line| line.len() > COLUMNS), None);
    }
}

#[test]
fn variants_that_do_not_fit_have_a_block_with_the_baseline_again() {
    let shown = render(&LKML, &testing::troubled(), Options::default());
    let heads: Vec<&str> = shown.lines().filter(|line| line.starts_with("Case:")).collect();
    assert!(heads.iter().all(|head| head.contains(" 6.6.87~[pct imp](CV)")), "{heads:?}");
    assert!(heads.iter().all(|head| head.matches("(CV)").count() == 2), "{heads:?}");
    assert_eq!(heads.len(), 8, "two for each of four metrics");
}
