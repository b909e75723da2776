//! The text: snapshots of whole pages, and what holds for each.

use insta::assert_snapshot;

use super::*;
use crate::analysis::testing::{of_variants, plan as sampled, rounds, run, work as with_work};
use crate::analysis::{Question, analyse};
use crate::model::Unit;
use crate::report::testing::{self, HIGHER, LOWER, render, values, words};
use crate::stats::{Rounds, Verdict, Why};

fn shown(analysis: &Analysis, width: usize, verbose: u8) -> String {
    render(&TEXT, analysis, Options { width, verbose, color: false })
}

#[test]
fn two_variants_of_one_plan() {
    assert_snapshot!(shown(&testing::ordinary(), 80, 0));
}

#[test]
fn three_sides_with_all_that_can_be_odd() {
    assert_snapshot!(shown(&testing::troubled(), 80, 0));
}

#[test]
fn verbose() {
    assert_snapshot!(shown(&testing::explained(), 80, 1));
}

#[test]
fn very_verbose() {
    assert_snapshot!(shown(&testing::troubled(), 80, 2));
}

/// Nothing is to share or to compare in a set of one worker: a line says so, not a line for each side and metric.
#[test]
fn metrics_that_a_set_of_one_worker_cannot_have_are_a_line_together() {
    let why = "one worker: nothing to compare";
    let none = || testing::cell(Vec::new()).unknown(0, why).unknown(1, why);
    let row = |name: &str| testing::row(name, Unit::Ratio, HIGHER, vec![none(), none()]);
    let mut analysis = testing::ordinary();
    let set = &mut analysis.works[0].sets[0];
    set.rows.extend([row("fairness"), row("spread")]);
    let found = shown(&analysis, 80, 1);
    let line = "fairness and spread: not known in 2 runs: one worker: nothing to compare";
    assert_eq!(words(&found).matches(line).count(), 1, "{found}");
    assert!(!found.lines().any(|line| line.starts_with("spread ")), "{found}");
    // A value of one side is shown with what the other lacks.
    let rows = &mut analysis.works[0].sets[0].rows;
    rows.last_mut().unwrap().cells[1] = values(0.1, 0.01);
    let found = shown(&analysis, 80, 1);
    assert!(found.lines().any(|line| line.starts_with("spread ")), "{found}");
}

/// A variant whose solo runs something from outside touched has a mark.
#[test]
fn fairness_of_disturbed_rounds_is_marked() {
    let mut analysis = testing::ordinary();
    analysis.works[0].fairness = Some(testing::fairness());
    let found = shown(&analysis, 80, 1);
    assert!(!found.contains("solo run in"), "{found}");
    analysis.works[0].fairness.as_mut().unwrap().variants[1].spoilt = 3;
    let found = shown(&analysis, 80, 1);
    assert!(found.contains("\nbatch!"), "{found}");
    assert!(
        words(&found)
            .contains("! load from outside or steal spoilt a run or a solo run in 3 of 10 rounds"),
        "{found}"
    );
}

#[test]
fn narrow() {
    assert_snapshot!(shown(&testing::ordinary(), 48, 0));
}

#[test]
fn narrow_and_verbose() {
    assert_snapshot!(shown(&testing::ordinary(), 48, 1));
}

#[test]
fn the_lab() {
    assert_snapshot!(shown(&testing::in_the_lab(2), 80, 0));
}

/// Eight variants of three works: the baseline stands in each block.
#[test]
fn eight_variants() {
    let names = ["default", "batch", "idle", "nice-5", "fifo", "rr", "slice-100us", "slice-20ms"];
    let mut plan = sampled("20261122-0519", 1, &names);
    plan = with_work(with_work(plan, "chat", 2), "mail", 8);
    let factors = [1.0, 1.1, 0.5, 0.97, 1.4, 1.0, 1.001, 9.0];
    let plan = rounds(plan, 0..10, &factors);
    let question = of_variants(&plan);
    assert_snapshot!(shown(&analyse(&[plan], &[], &question), 80, 0));
}

/// A plan of one variant has values and nothing to compare.
#[test]
fn a_lone_variant() {
    let plan = rounds(sampled("20261122-0519", 1, &["default"]), 0..10, &[1.0]);
    let question = of_variants(&plan);
    assert_snapshot!(shown(&analyse(&[plan], &[], &question), 80, 0));
}

/// One of two variants cannot be had here.
#[test]
fn a_skipped_variant() {
    let mut plan = sampled("20261122-0519", 1, &["default", "scx"]);
    for round in 0..10 {
        run(&mut plan, round, 0, 1.0);
        crate::analysis::testing::lose(&mut plan, round, 1, true, "needs sched_ext");
    }
    let question = of_variants(&plan);
    assert_snapshot!(shown(&analyse(&[plan], &[], &question), 80, 0));
}

#[test]
fn counters_that_were_asked_for() {
    let plan = rounds(sampled("20261122-0519", 1, &["default", "batch"]), 0..10, &[1.0, 1.4]);
    let metrics = vec!["switches".to_string(), "throughput".to_string()];
    let question = Question { metrics, ..of_variants(&plan) };
    let found = shown(&analyse(&[plan], &[], &question), 80, 0);
    assert_eq!(words(&found).matches(" MORE").count(), 1, "{found}");
    assert_eq!(words(&found).matches(" BETTER").count(), 1, "{found}");
}

/// In one table, which with `-v` has more rows.
#[test]
fn each_number_stands_once() {
    for (width, verbose) in [(80, 0), (80, 1), (80, 2), (48, 0), (48, 1)] {
        let found = shown(&testing::ordinary(), width, verbose);
        let (tables, answer) = found.trim_end().rsplit_once("\n\n").unwrap();
        for number in ["1.28", "-40 %", "+56 %", "+11 %", "4380"] {
            let count = words(tables).matches(&format!(" {number} ")).count();
            assert_eq!(count, 1, "{number}: {tables}");
        }
        assert!(words(answer).contains("-40 %"), "{answer}");
        assert!(verbose > 0 || width < 80 || found.lines().count() <= 24, "{found}");
    }
}

#[test]
fn headline_metrics_are_the_first_of_their_set() {
    let mut analysis = testing::ordinary();
    let set = &mut analysis.works[0].sets[0];
    set.rows.reverse();
    let is_headline = |row: &&Row| row.family == Family::Headline;
    let headlines = set.rows.iter().filter(is_headline).map(|row| row.kind.name.clone());
    let headlines: Vec<String> = headlines.collect();
    assert!(!is_headline(&&set.rows[0]), "the first explains");
    let found = shown(&analysis, 80, 1);
    let rows = found.lines().skip_while(|line| !line.starts_with("metric ")).skip(1);
    let named = rows.filter(|line| !line.starts_with(' ')).map(|line| line.split(' ').next());
    let first: Vec<&str> = named.take(headlines.len()).flatten().collect();
    assert_eq!(first, headlines, "{found}");
}

/// A remark that is true of many cells names few of them, and a side only where others differ.
#[test]
fn a_remark_names_few_metrics() {
    let mut analysis = testing::sides_only();
    analysis.sides = ["a", "b", "c"].map(testing::side).to_vec();
    let verdict = testing::open(Why::OnlyAlone, Rounds::Number(40));
    let cell = || values(1000.0, 0.1);
    let judged = || cell().judged(verdict, 1.1, 1.0, 1.2);
    let rows = (0..9).map(|at| {
        let last = if at == 0 { cell() } else { judged() };
        let cells = vec![cell(), judged(), last];
        testing::headline(&format!("m{at}"), Unit::Ns, LOWER, cells)
    });
    analysis.works = vec![testing::work("w", &[], "w", "w", rows.collect())];
    let found = words(&shown(&analysis, 80, 1));
    assert!(found.contains("m0 (b), m1, m2, m3 and 5 more: alone it would be"), "{found}");
    assert_eq!(found.matches("alone it would be").count(), 1, "{found}");
}

#[test]
fn the_default_shows_headlines_and_more_words_show_more() {
    let [plain, verbose, very] = [0, 1, 2].map(|v| shown(&testing::explained(), 100, v));
    for explaining in ["fairness", "worker_voluntary_switches"] {
        assert!(!plain.contains(explaining), "{plain}");
        assert!(verbose.contains(explaining), "{verbose}");
    }
    assert!(!verbose.contains("cv 0.") && very.contains("cv "), "{very}");
    assert!(!verbose.contains("p of a difference") && very.contains("p of a difference 0.0012"));
    assert!(
        words(&verbose).contains("error rate 5 %") && !plain.contains("error rate"),
        "{verbose}"
    );
    // Why a verdict is open, and what is odd about values.
    assert!(words(&verbose).contains(" request_p99: alone it would be"), "{verbose}");
    assert!(!verbose.contains("noise"), "the interval shows it: {verbose}");
    let troubled = words(&shown(&testing::troubled(), 100, 1));
    for part in ["two modes, 12.0 ms and 31.0 ms", "not known in 2 runs: no sample in the window"] {
        assert!(troubled.contains(part), "{troubled}");
    }
    let answers = [&plain, &verbose, &very].map(|text| {
        let lines = text.rsplit_once("\n\n").unwrap().1.lines();
        lines.filter(|line| !line.starts_with("more ")).collect::<Vec<_>>()
    });
    assert!(answers[0] == answers[1] && answers[1] == answers[2], "{answers:?}");
    assert!(plain.contains(" -v:") && verbose.contains(" -vv:") && !very.contains("\nmore "));
    assert!(!(TEXT.explains)(&Options::default()));
    assert!((TEXT.explains)(&Options { verbose: 1, ..Options::default() }));
}

#[test]
fn fairness_stands_below_its_work_where_there_are_solo_runs() {
    let mut analysis = testing::ordinary();
    assert!(!shown(&analysis, 80, 1).contains("fairness:"));
    analysis.works[0].fairness = Some(testing::fairness());
    let found = shown(&analysis, 80, 1);
    let (_, table) = found.split_once("fairness:").expect("a table");
    let table = words(table.split("== ").next().unwrap());
    for row in ["default front 0.500 0.400 0.350 0.875 0.700 0.970", "batch front", " back "] {
        assert!(table.contains(row), "{row}: {found}");
    }
    assert!(!shown(&analysis, 80, 0).contains("fairness:"));
}

#[test]
fn notes_are_lines_the_worst_first_and_those_that_only_inform_need_a_word() {
    let mut analysis = testing::ordinary();
    analysis.notes = testing::notes("x");
    let [plain, verbose] = [0, 1].map(|verbose| words(&shown(&analysis, 80, verbose)));
    let at = |text: &str, part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(at(&plain, "failed") < at(&plain, "refused"));
    assert!(at(&plain, "refused") < at(&plain, "left out"));
    let informs = "no fairness, since";
    assert!(!plain.contains(informs) && verbose.contains(informs));
    assert!(at(&plain, "left out") < at(&plain, "batch worse:"), "the answer is last");
}

#[test]
fn lines_are_colored_by_what_they_say() {
    let options = Options { color: true, verbose: 1, ..Options::default() };
    let found = render(&TEXT, &testing::ordinary(), options);
    let has = |start: &str, part: &str| {
        found.lines().any(|line| line.starts_with(start) && line.contains(part))
    };
    assert!(has("\x1b[31m", "WORSE") && has("\x1b[1m", "BETTER"), "{found}");
    assert!(!has("\x1b[31m", "SAME") && !has("\x1b[31m", "open"), "{found}");
    assert!(has("\x1b[31mbatch", "worse: web threads=4 wakeup_p99"), "{found}");
}

/// Names as wide as any, and every remark that there is.
#[test]
fn a_table_whose_names_are_wide_still_fits() {
    let mut analysis = testing::sides_only();
    analysis.sides[0].label = "throughput-".repeat(3);
    analysis.sides[1].label = "latency-".repeat(3);
    let rows = ["wakeup_p99.9", "request_p99", "throughput"].iter().zip([21e6, 13e4, 7e3]);
    let rows = rows.map(|(metric, value)| {
        let odd = |value| {
            let cell = values(value, 0.3).shaped(testing::TWO_MODES);
            cell.shaped(testing::TREND).shaped(testing::OUTLIER)
        };
        let noise = testing::open(Why::Noise, Rounds::MoreThan(1000));
        let judged = odd(value * 1.1).judged(noise, 0.123_4, 0.751_2, 11.361);
        let direction = if *metric == "throughput" { HIGHER } else { LOWER };
        testing::headline(metric, Unit::Ns, direction, vec![odd(value), judged])
    });
    analysis.works = vec![testing::work("w", &[], "w", "w", rows.collect())];
    for (width, verbose) in [(80, 0), (80, 1), (60, 1), (40, 2)] {
        let found = shown(&analysis, width, verbose);
        let widths = found.lines().map(unicode_width::UnicodeWidthStr::width);
        assert!(widths.max() <= Some(width), "{found}");
    }
}

/// Metrics of probes have long names: they stand above their rows, and figures in columns.
#[test]
fn metrics_of_probes_are_a_table_at_eighty_columns() {
    let metrics = ["worker_involuntary_switches_per_op", "responder_waited_for_background"];
    let mut analysis = testing::sides_only();
    analysis.sides[1].label = "slice-100us".to_string();
    let rows = metrics.map(|metric| {
        let changed = values(1e6, 0.3).judged(Verdict::Same, 1.183, 0.871, 3.87);
        testing::row(metric, Unit::Ns, LOWER, vec![values(1e6, 0.3), changed])
    });
    analysis.works = vec![testing::work("w", &[], "w", "w", rows.to_vec())];
    let found = shown(&analysis, 80, 1);
    for metric in metrics {
        let below = found.split_once(&format!("\n{metric} ms\n")).expect(metric).1;
        let of_sides: Vec<&str> = below.lines().take(2).collect();
        assert!(of_sides[0].trim_start().starts_with("default"), "{found}");
        assert!(of_sides[1].trim_start().starts_with("slice-100us"), "{found}");
    }
    assert!(!found.contains("\n- "), "no row is prose: {found}");
}

/// Means, spreads and ranges; of a command its CPU times, and the range of single executions.
#[test]
fn a_command_alone_has_what_a_benchmark_of_it_prints() {
    let ms = |values: [f64; 2]| {
        testing::cell(values.iter().zip(0..).map(|(ms, at)| (at, ms * 1e6)).collect())
    };
    let row = |name: &str, values| testing::row(name, Unit::Ns, LOWER, vec![ms(values)]);
    let executions = testing::cell(vec![(0, 20.0), (1, 30.0)]);
    let rows = vec![
        Row { family: Family::Headline, ..row("time", [99.0, 101.0]) },
        row("time_min", [90.0, 95.0]),
        row("time_max", [120.0, 110.0]),
        row("user", [2.0, 2.0]),
        row("system", [1.0, 1.0]),
        row("other", [7.0, 7.0]),
        testing::row("executions", Unit::Count, testing::NEUTRAL, vec![executions]),
    ];
    let mut analysis = testing::sides_only();
    analysis.sides.truncate(1);
    analysis.works = vec![testing::work("make", &[], "make", "command", rows)];
    for width in [80, 40] {
        let found = words(&shown(&analysis, width, 0));
        for part in ["100 ms", "+-1.4", "90.0..120 ms", "2.00 ms", "1.00 ms", "50 executions"] {
            assert!(found.contains(part), "{part}: {found}");
        }
        assert!(!found.contains("7.00 ms"), "{found}");
    }
}

/// Facts that all sides share stand once, differing ones in the line of their side.
#[test]
fn the_head_says_what_was_compared() {
    use crate::model::{GuestKernel, Reading, Value, Variant};
    let mut analysis = testing::in_the_lab(0);
    let knobs = |all: &[(&str, &str)]| {
        all.iter().map(|(knob, value)| (knob.to_string(), Value::Text(value.to_string()))).collect()
    };
    let all =
        [&[("policy", "batch"), ("slice", "3ms")][..], &[("policy", "batch"), ("scx", "fifo")]];
    for ((side, of), scheduler) in analysis.sides.iter_mut().zip(all).zip(["EEVDF", "scx fifo"]) {
        side.variants = vec![Variant { name: side.label.clone(), knobs: knobs(of) }];
        let (_, kernel) = side.guests.remove(0);
        let scheduler = Some(Reading::Known(scheduler.to_string()));
        side.guests = vec![("debian:6.18".to_string(), GuestKernel { scheduler, ..kernel })];
    }
    analysis.sides[1].label = "a-name-that-is-longer-than-a-third-of-the-page".to_string();
    let found = shown(&analysis, 80, 0);
    let head: Vec<&str> = found.lines().skip(2).take_while(|line| !line.is_empty()).collect();
    let head = words(&head.join("\n"));
    assert!(
        head.contains("kernel debian:6.18 (6.1.0-56-cloud-amd64, digest 0123456789ab) default"),
        "{head}"
    );
    assert!(head.contains("baseline; policy batch, slice 3ms; EEVDF"), "{head}");
    let other = "a-name-that-is-longer-than-a-third-of-the-page; scx fifo, no slice";
    assert!(head.ends_with(other), "{head}");
}

/// An id that the label begins with does not stand a second time.
#[test]
fn the_plan_of_a_side_stands_once() {
    let mut analysis = testing::troubled();
    let plan = "20260203-140511-a84a";
    for side in &mut analysis.sides {
        side.plans = vec![plan.to_string()];
    }
    analysis.sides[0].label = "20260203-1405,variant=batch".to_string();
    analysis.sides[1].label = "plan=20260203".to_string();
    let found = shown(&analysis, 100, 0);
    let head: Vec<&str> = found.lines().take_while(|line| !line.is_empty()).collect();
    let head = words(&head.join("\n"));
    assert_eq!(head.matches(plan).count(), analysis.sides.len() - 2, "{head}");
}
