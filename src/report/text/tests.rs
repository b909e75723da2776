//! The text report of synthetic records, as a reader sees it.

use std::ops::Range;

use insta::assert_snapshot;
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::model::{DisturbanceKind, Event, Reading, Value};
use crate::report::beside::letter;
use crate::report::testing::{self, PlanBuilder};

fn text(plan: PlanBuilder, options: Options) -> String {
    testing::render(&Text, &[plan.record()], options)
}

/// The lines of `text` from the first that begins with `from` up to one that begins with `to`.
fn part<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let begin = text.find(from).unwrap_or_else(|| panic!("no {from:?} in\n{text}"));
    let length = text[begin + 1..].find(to).map_or(text.len() - begin, |length| length + 1);
    text[begin..begin + length].trim_end()
}

#[test]
fn an_ordinary_plan() {
    assert_snapshot!(text(testing::ordinary(), Options::default()));
}

#[test]
fn a_plan_with_all_that_can_go_wrong() {
    assert_snapshot!(text(testing::troubled(), Options::default()));
}

#[test]
fn verbose_tells_every_metric_its_spread_and_the_parameters() {
    let options = Options { verbose: 1, ..Options::default() };
    assert_snapshot!(text(testing::ordinary(), options));
}

#[test]
fn a_table_of_an_ordinary_plan_loses_nothing_to_the_width() {
    for width in Options::MIN_WIDTH..=132 {
        for verbose in [0, 1] {
            for plan in [testing::ordinary(), testing::troubled(), testing::competing()] {
                let shown = text(plan, Options { width, verbose, color: false });
                assert!(!shown.contains('…'), "{shown}");
            }
        }
    }
}

#[test]
fn sets_that_compete_with_solo_runs_have_a_table_of_fairness() {
    let shown = text(testing::competing(), Options::default());
    assert_snapshot!(part(&shown, "fairness on", "\nValues"), @r"
    fairness on 4 CPUs
    variant   want  entitled    got     got /  rate /  Jain's
      set     CPUs      CPUs   CPUs  entitled    solo   index
    ---------------------------------------------------------
    default                                             1.000
      a      0.500     0.500  0.500     1.000   1.000
      b      1.000     0.667  0.667     1.000   0.667
      hog    1.000     0.667  0.667     1.000       -
    greedy                                              0.853
      a      0.500     0.500  0.300     0.600   0.600
      b      1.000     0.667  0.900     1.350   0.900
      hog    1.000     0.667  0.667     1.000       -
    want: CPUs of a worker alone; entitled: max-min fair share; rate: operations/s
    background hog is taken to want a CPU a worker, as it has no solo run, and is
    not in Jain's index
    ");
    assert_eq!(shown.matches("fairness on").count(), 1, "none for solo runs");
    // Unless the plan has no solo run of one; then who asks for all is told which.
    let mut record = testing::competing().record();
    record.started.cells.retain(|cell| cell.work.name != "mix solo b");
    let shown = |verbose| {
        let options = Options { verbose, ..Options::default() };
        testing::render(&Text, std::slice::from_ref(&record), options)
    };
    assert!(!shown(0).contains("fairness on") && !shown(0).contains("fairness:"));
    let why = "fairness: no solo run of b: `solo = true` adds them\n";
    assert!(!shown(1).contains("fairness on") && shown(1).contains(why), "{}", shown(1));
}

#[test]
fn an_entitlement_that_is_not_known_says_why_and_the_cpus_are_told_by_the_variant() {
    let mut record = testing::competing().record();
    for cell in &mut record.started.cells {
        cell.placement.cpus = None;
        cell.placement.pool = Some("bench".to_string().try_into().unwrap());
    }
    let shown = testing::render(&Text, std::slice::from_ref(&record), Options::default());
    assert!(shown.contains("the CPUs of the pool bench are not known"), "{shown}");
    assert!(shown.contains("fairness\n") && !shown.contains("has its solo runs"), "{shown}");

    let mut plan = testing::competing();
    plan.set_knob("greedy", "affinity", Value::Cpus("1".parse().unwrap()));
    let shown = text(plan, Options::default());
    assert!(shown.contains("fairness on 1 to 4 CPUs, by the variant\n"), "{shown}");
}

#[test]
fn weights_are_shown_where_they_differ_within_a_variant() {
    let nice = |n| [("nice", Value::Int(n))];
    let fifo = [("policy", Value::Text("fifo".to_string()))];
    let with = |a: &[(&str, Value)], b: &[(&str, Value)], hog: &[(&str, Value)]| {
        // Knobs are part of what a solo run is looked for by.
        let plan = testing::competing().own_knobs(0, 0, a).own_knobs(1, 0, b);
        let plan = plan.own_knobs(2, 0, a).own_knobs(2, 1, b).own_knobs(2, 2, hog);
        text(plan, Options::default())
    };
    let shown = with(&nice(0), &nice(5), &fifo);
    assert_snapshot!(part(&shown, "fairness on", "\nValues"), @r"
    fairness on 4 CPUs
    variant           want  entitled    got     got /  rate /  Jain's
      set    weight   CPUs      CPUs   CPUs  entitled    solo   index
    -----------------------------------------------------------------
    default                                                     0.980
      a        1024  0.500     0.500  0.500     1.000   1.000
      b         335  1.000     0.500  0.667     1.333   0.667
      hog     - [1]  1.000     1.000  0.667     0.667       -
    greedy                                                      0.758
      a        1024  0.500     0.500  0.300     0.600   0.600
      b         335  1.000     0.500  0.900     1.800   0.900
      hog     - [1]  1.000     1.000  0.667     0.667       -
    want: CPUs of a worker alone; entitled: max-min fair share in proportion to
    weight; weight: 1024 at nice 0; rate: operations/s
    background hog is taken to want a CPU a worker, as it has no solo run, and is
    not in Jain's index

      [1] policy fifo of priority 1 is served before any weight
    ");
    let alike = with(&nice(5), &nice(5), &nice(5));
    assert!(alike.contains("fairness on") && !alike.contains("weight"), "{alike}");
    // Two ranks that have no weight.
    let rr = [("policy", Value::Text("rr".to_string())), ("priority", Value::Int(2))];
    assert!(with(&fifo, &rr, &fifo).contains("weight"));
    assert!(!with(&fifo, &fifo, &fifo).contains("weight"));
}

#[test]
fn a_variant_without_a_round_of_all_solo_runs_is_left_out_of_the_table() {
    let mut plan = testing::competing();
    for round in 0..2 {
        plan.skipped_in(1, round, "greedy", "not here");
    }
    let shown = text(plan.clone(), Options::default());
    let table = part(&shown, "fairness on", "\0");
    assert!(table.contains("default") && !table.contains("greedy"), "{shown}");
    let shown = text(plan, Options { verbose: 1, ..Options::default() });
    let why = "fairness: no round of greedy has its solo runs, too\n";
    assert!(shown.contains(why), "{shown}");
}

#[test]
fn a_width_that_makes_no_sense_is_brought_to_one_that_does() {
    let records = [testing::troubled().record(), testing::ordinary().record()];
    for (width, kept) in [(0, Options::MIN_WIDTH), (usize::MAX, Options::MAX_WIDTH)] {
        let options = Options { width, ..Options::default() };
        let shown = testing::render(&Text, &records, options);
        assert_eq!(shown.lines().map(UnicodeWidthStr::width).max(), Some(kept));
    }
}

#[test]
fn nothing_stored() {
    assert_eq!(
        testing::render(&Text, &[], Options::default()),
        "nothing is stored that was asked for\n"
    );
}

#[test]
fn names_from_outside_act_on_nothing_and_stay_in_their_columns() {
    let escape = "\x1b[2J\x1b]0;owned\x07\u{9b}31m\r\n\u{202e}gpj";
    let long = "n".repeat(200);
    let wide = "漢字仮名交じり文".repeat(12);
    for hostile in [escape, &long, &wide] {
        let shown = text(testing::hostile(hostile), Options::default());
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        assert!(!shown.contains('\u{202e}'), "{shown:?}");
        for line in shown.lines() {
            assert!(line.width() <= 80, "{} columns: {line}", line.width());
        }
    }
    assert_snapshot!(text(testing::hostile(escape), Options::default()));
}

#[test]
fn names_of_sets_in_the_table_of_fairness_act_on_nothing_and_stay_apart() {
    let names = ["\x1b[2J\u{9b}31m\r\n\u{202e}gpj".to_string(), "n".repeat(200), "漢".repeat(99)];
    for name in &names {
        let set = (name.as_str(), "spin", false);
        let also = format!("{name}2");
        let mut plan = PlanBuilder::without_works(1, &[name])
            .work("solo", &[], &[set])
            .counts(0, &[1])
            .work("mix", &[], &[set, (&also, "pipe", true)]);
        for work in 0..2 {
            plan.done_in(work, 0, name, |run| run.workers(0, &[(0.5, 1.0)]));
        }
        for (width, verbose) in [(40, 0), (80, 0), (80, 1)] {
            let shown = text(plan.clone(), Options { width, verbose, color: false });
            let table = part(&shown, "fairness on 2 CPUs", "\0");
            assert!(table.chars().all(|c| c == '\n' || !c.is_control()), "{table:?}");
            assert!(!table.contains('\u{202e}') && table.contains("Jain's"), "{table:?}");
            assert!(table.lines().all(|line| line.width() <= width), "{table}");
            let apart = table.contains("…#1") && table.contains("…#2");
            assert!(apart || name.width() < 40, "{table}");
        }
    }
}

#[test]
fn long_names_that_begin_alike_stay_apart() {
    let name = |end: &str| format!("scx_bpfland-with-a-long-list-of-arguments-{end}");
    let mut plan = PlanBuilder::new(1, &[&name("a"), &name("b")]);
    for end in ["a", "b"] {
        plan.done(0, &name(end), |run| run.metric("throughput", 10.0));
    }
    let shown = text(plan, Options::default());
    assert_snapshot!(part(&shown, "variants", "\n=="), @r"
    variants  #1 scx_bpfland-with-a-long-list-of-arguments-a (baseline): as found
              #2 scx_bpfland-with-a-long-list-of-arguments-b: as found
    ");
    assert_snapshot!(part(&shown, "variant  ", "\n\n"), @r"
    variant                           /s
    better                        higher
    ------------------------------------
    scx_bpfland-with-a-lo…#1       10.00
    scx_bpfland-with-a-lo…#2       10.00
      ratio                        1.000
      95 % interval                - [1]
    ");
}

#[test]
fn many_variants_and_two_more_than_letters() {
    let names: Vec<String> = (0..30).map(|at| format!("v{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut plan = PlanBuilder::new(1, &names);
    for (at, name) in names.iter().enumerate() {
        let word: String = name.chars().map(|c| char::from(c as u8 + 49)).collect();
        plan.done(0, name, |run| {
            run.metric("throughput", 10.0 + at as f64)
                .disturbed(DisturbanceKind::OutsideLoad, &format!("others ran {word}"))
        });
    }
    let shown = text(plan, Options::default());
    let rows: Range<usize> = 0..30;
    for at in rows {
        let letter = letter(at);
        let others = shown.lines().filter(|line| line.starts_with(&format!("  {letter}  others")));
        assert_eq!(others.count(), 1, "{letter} in\n{shown}");
    }
    assert_eq!(
        ["a", "z", "aa", "ab", "ba"],
        [0, 25, 26, 27, 52].map(letter).each_ref().map(|l| &**l)
    );
}

#[test]
fn a_baseline_that_was_not_measured_leaves_values_without_ratios() {
    let mut plan = PlanBuilder::new(1, &["base", "other"]);
    plan.failed(0, "base", "timed out after 11 s");
    plan.done(0, "other", |run| run.metric("throughput", 10.0));
    let shown = text(plan, Options::default());
    assert_snapshot!(part(&shown, "==", "\0"), @r"
    == web threads=4

    web: schbench, 8 threads
             throughput
               requests
    variant          /s
    better       higher
    -------------------
    other         10.00
    no ratios: the baseline has no measured run here

      failed  base in round 0: timed out after 11 s
    ");
}

#[test]
fn a_plan_without_any_result() {
    let shown = text(PlanBuilder::new(3, &["base"]).ended(None), Options::default());
    assert_snapshot!(part(&shown, "rounds", "\0"), @r"
    rounds    0 of 3 done, each run 5s after 1s of warm-up; has not ended: running,
              or killed
    variants  base (baseline): as found

    == web threads=4
    nothing was measured here
    ");
}

#[test]
fn a_resumption_on_another_kernel_is_told() {
    let mut plan = PlanBuilder::new(2, &["base"]);
    plan.done(0, "base", |run| run.metric("throughput", 10.0));
    let mut record = plan.record();
    let mut again = record.started.clone();
    record.apply(&Event::PlanStarted(Box::new(again.clone())));
    again.environment.kernel_release = "6.19.0".to_string();
    record.apply(&Event::PlanStarted(Box::new(again)));
    let shown = testing::render(&Text, &[record], Options::default());
    assert_snapshot!(part(&shown, "changed", "\nrounds"), @r"
    changed   resumed on Linux 6.19.0 #1 SMP PREEMPT_DYNAMIC Debian 6.18.5-1
    ");
}

#[test]
fn a_plan_that_others_had_much_of_the_pool_is_warned_of_before_its_figures() {
    let mut plan = PlanBuilder::new(2, &["base", "other"]);
    for (round, variant, share) in
        [(0, "base", 0.04), (0, "other", 0.31), (1, "base", 0.5), (1, "other", 0.25)]
    {
        plan.done(round, variant, |run| {
            run.metric("throughput", 10.0).took(DisturbanceKind::OutsideLoad, share)
        });
    }
    plan.done(1, "base", |run| run.metric("throughput", 10.0).took(DisturbanceKind::Steal, 0.9));
    let shown = text(plan.clone(), Options::default());
    assert!(shown.contains("load from outside took up to 31 %"), "the last run counts:\n{shown}");
    assert!(shown.contains("(steal time) took up to 90 %"), "{shown}");
    plan.done(1, "base", |run| {
        run.metric("throughput", 10.0).took(DisturbanceKind::OutsideLoad, 0.5)
    });
    let shown = text(plan, Options::default());
    assert_snapshot!(part(&shown, "warning", "\n=="), @r"
    warning: load from outside took up to 50 % of the pool (more than 25 % in 2 of 4
    runs): these figures are of another experiment; see the marks below
    ");
    assert_snapshot!(part(&shown, "  a  ", "\n"), @"  a  at worst: 50 % of the pool: every run");
}

#[test]
fn what_a_pool_became_is_told_once_and_marks_no_row() {
    let mut plan = PlanBuilder::new(2, &["base", "other"]);
    let became = |form: &str| Reading::Known(format!("cgroup v2 cpuset, no partition: {form}"));
    for round in 0..2 {
        plan.done(round, "base", |run| {
            let run = run.knob("pool", "bench", became("EBUSY"));
            run.metric("throughput", 10.0).disturbed(DisturbanceKind::Steal, "1 % stolen")
        });
        plan.done(round, "other", |run| {
            let run = run.knob("pool", "bench", became("EBUSY"));
            let run = run.knob("slice", "50us", Reading::Known("100us".to_string()));
            run.metric("throughput", 10.0)
        });
    }
    let shown = text(plan.clone(), Options::default());
    assert_snapshot!(part(&shown, "base a", "\nValues"), @r"
    base a                 10.00
    other b                10.00
      ratio                1.000
      95 % interval  1.000-1.000

      a  1 % stolen: base in every round
      b  slice asked 50us, kernel took 100us: other in every round
      every run: pool bench: cgroup v2 cpuset, no partition: EBUSY
    ");
    // One run without, or one that became something else: then rows differ, and are marked.
    plan.done(1, "other", |run| {
        let other = Reading::Known("affinity: no cpuset here".to_string());
        run.metric("throughput", 10.0).knob("pool", "bench", other)
    });
    let shown = text(plan, Options::default());
    assert!(!shown.contains("every run:"), "{shown}");
    assert!(shown.contains("\nbase a,c ") && shown.contains("\nother b,c,d "), "{shown}");
    // The only run there is.
    let mut plan = PlanBuilder::new(1, &["base"]);
    plan.done(0, "base", |run| {
        run.metric("throughput", 10.0).knob("pool", "bench", became("EBUSY"))
    });
    let shown = text(plan, Options::default());
    assert!(shown.contains("\nbase  ") && shown.contains("\n  every run: pool"), "{shown}");
}

#[test]
fn a_hint_in_a_reason_follows_it_in_the_same_sentence() {
    let why = "messaging: cannot open socket pair 507\nhint: ulimit -n 20100";
    let mut plan = PlanBuilder::new(2, &["base", "skipped", "blind"]);
    plan.failed(0, "base", why);
    plan.skipped(0, "skipped", why);
    plan.done(0, "blind", |run| run.unknown("throughput", why));
    let shown = text(plan, Options { width: 132, ..Options::default() });
    let told = "messaging: cannot open socket pair 507; hint: ulimit -n 20100";
    assert_eq!(shown.matches(told).count(), 3, "{shown}");
    assert!(!shown.contains("\\n"), "{shown}");
}

#[test]
fn thousands_of_operations_are_shown_with_one_prefix() {
    let sets = [("burn", "burnwait", false)];
    let mut plan = PlanBuilder::new(1, &["base"]).work("burn", &[], &sets);
    plan.done_in(1, 0, "base", |run| run.ops("kops").metric("throughput", 5_384_600.0));
    assert_snapshot!(part(&text(plan, Options::default()), "burn: ", "\nmeasured"), @r"
    burn: burnwait, 8 threads
             throughput
                    ops
    variant         G/s
    better       higher
    -------------------
    base          5.385
    ");
}

#[test]
fn colour_is_there_only_where_asked_for_and_changes_nothing_else() {
    let plain = text(testing::troubled(), Options::default());
    let coloured = text(testing::troubled(), Options { color: true, ..Options::default() });
    assert!(!plain.contains('\x1b'));
    assert!(coloured.contains("\x1b[33mskipped"));
    let mut stripped = coloured;
    for sequence in ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[33m"] {
        stripped = stripped.replace(sequence, "");
    }
    assert_eq!(stripped, plain);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_line_is_wider_than_asked(
        name in any::<String>(),
        values in proptest::collection::vec(proptest::num::f64::ANY, 4),
        width in Options::MIN_WIDTH..140usize,
        verbose in 0u8..2,
    ) {
        let mut plan = testing::hostile(&name);
        let variants = [name.clone(), format!("{name}2")];
        for (at, value) in values.iter().enumerate() {
            plan.done(at as u32 / 2, &variants[at % 2], |run| {
                run.metric("throughput", *value)
                    .metric("wakeup_p50", value.abs())
                    .metric("misses", *value)
            });
        }
        for color in [false, true] {
            let shown = text(plan.clone(), Options { width, color, verbose });
            for line in shown.lines() {
                let line = ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[33m"]
                    .iter()
                    .fold(line.to_string(), |line, sequence| line.replace(sequence, ""));
                prop_assert!(line.width() <= width, "wider than {}: {}", width, line);
                prop_assert!(!line.chars().any(char::is_control), "{:?}", line);
            }
        }
    }
}
