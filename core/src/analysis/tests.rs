//! Tests of analyses of invented plans: what is gathered, paired and judged.

mod lab;
mod notes;

use proptest::prelude::*;

use super::testing::{
    analysed, any_plan, asked, disturb, environment, heads, lose, metric, of_variants, plan,
    rounds, row, run, run_of, tens, unknown, work,
};
use super::*;
use crate::model::{Direction, DisturbanceKind, SampledPlan, Statistic, Unit};
use crate::stats::{Distance, Effect, MeanDifference, NoEffect, Unjudged, Why};

/// Four sides of three plans each, a few percent from each other: each of two headline metrics has a verdict on three
/// sides, which share the level of the floor.
#[test]
fn the_floor_between_plans_counts_the_verdicts_of_all_sides() {
    let sides = ["a", "b", "c", "d"];
    let mut plans = Vec::new();
    for (at, side) in sides.iter().enumerate() {
        for (number, drift) in [0.97, 1.0, 1.03].into_iter().enumerate() {
            let started = (3 * at + number + 1) as u64;
            let plan = plan(&format!("{side}{number}"), started, &["default"]);
            let factor = if at == 0 { drift } else { 1.05 * drift };
            plans.push(rounds(plan, 0..10, &[factor]));
        }
    }
    let selection = |side: &str| {
        let ids = (0..3).map(|number| format!("{side}{number}")).collect();
        let mut selection = Selection::of_plan(side).with_plans(ids);
        selection.label = side.to_string();
        selection
    };
    let question = Question::new(sides.map(selection).to_vec(), String::new());
    let found = analyse(&plans, &[], &question);
    assert_eq!(found.method.headline_verdicts, 6);
    let row = row(&found, "throughput");
    let by_plan = |side: usize| -> Vec<Vec<f64>> {
        let values: Vec<f64> = row.cells[side].values.iter().map(|(_, value)| *value).collect();
        values.chunks(10).map(<[f64]>::to_vec).collect()
    };
    for side in 1..4 {
        let judged = row.cells[side].judged.unwrap();
        let floor = stats::floor_between([&by_plan(0), &by_plan(side)], 6).unwrap();
        let Verdict::Inconclusive { why: Why::BelowFloor { floor: used }, .. } = judged.verdict
        else {
            panic!("{judged:?}")
        };
        assert_eq!(used, floor);
    }
}

#[test]
fn solo_runs_explain_and_are_not_argued_about() {
    let plan = work(plan("p1", 1, &["default", "batch"]), "web solo web", 1);
    let plan = rounds(plan, 0..10, &[1.0, 1.4]);
    let found = analysed(&[plan], &["default", "batch"]);
    let headlines = names(&found, Family::Headline);
    assert!(!headlines.is_empty(), "the work itself has some");
    assert!(headlines.iter().all(|name| !name.contains(" solo ")), "{headlines:?}");
}

/// Else `throughput` would spend a part of the error rate on runs that nobody argues about.
#[test]
fn a_pattern_takes_solo_runs_where_it_names_them_alone() {
    let (of_work, of_solo) =
        ("web threads=4/web/throughput", "web solo web threads=1/web/throughput");
    let plan = work(plan("p1", 1, &["default", "batch"]), "web solo web", 1);
    let plan = rounds(plan, 0..10, &[1.0, 1.4]);
    let families = |pattern: &str| {
        let metrics = vec![pattern.to_string()];
        let question = Question { metrics, explaining: true, ..of_variants(&plan) };
        let found = analyse(std::slice::from_ref(&plan), &[], &question);
        [Family::Headline, Family::Explaining].map(|family| names(&found, family))
    };
    for pattern in ["throughput", "web/throughput", "web/web/throughput", "*/throughput"] {
        let [headline, explaining] = families(pattern);
        assert_eq!(headline, [of_work], "{pattern}");
        assert!(explaining.iter().any(|name| name == of_solo), "{pattern}: {explaining:?}");
    }
    for pattern in ["web solo web/throughput", "* solo */throughput"] {
        assert_eq!(families(pattern)[0], [of_solo], "{pattern}");
    }
}

/// A lone estimate for all formats: paired where it is judged, and where it is not.
#[test]
fn a_ratio_does_not_depend_on_what_is_judged() {
    let plan = rounds(plan("p1", 1, &["default", "batch"]), 0..10, &[1.0, 1.4]);
    let ratios = |metrics: &[&str]| {
        let metrics = metrics.iter().map(|metric| metric.to_string()).collect();
        let question = Question { metrics, ..of_variants(&plan) };
        let found = analyse(std::slice::from_ref(&plan), &[], &question);
        let rows = found.rows().filter(|(.., row)| row.cells[0].median.is_some());
        rows.map(|(.., row)| found.ratio(row, 1).map(|ratio| ratio.ratio)).collect::<Vec<_>>()
    };
    let all = ratios(&["*"]);
    assert!(all.len() > 1 && all.iter().all(Option::is_some), "{all:?}");
    assert_eq!(ratios(&[]), all);
}

/// Work, set and metric of the rows of one family.
fn names(analysis: &Analysis, family: Family) -> Vec<String> {
    let name = |(work, set, row): (&WorkTable, &SetTable, &Row)| {
        format!("{}/{}/{}", work.label, set.name, row.kind.name)
    };
    analysis.rows().filter(|(.., row)| row.family == family).map(name).collect()
}

/// The rounds of each side, of the first row of a metric.
fn rounds_of(analysis: &Analysis, metric: &str) -> Vec<Vec<u32>> {
    let numbers = |cell: &Cell| cell.values.iter().map(|(round, _)| *round).collect();
    row(analysis, metric).cells.iter().map(numbers).collect()
}

fn verdict(analysis: &Analysis, metric: &str) -> Verdict {
    row(analysis, metric).cells[1].judged.as_ref().expect("a verdict").verdict
}

fn refusals(analysis: &Analysis) -> Vec<&Note> {
    analysis.notes.iter().filter(|note| note.is_refusal()).collect()
}

#[test]
fn variants_of_a_plan_have_verdicts_on_their_headline_metrics() {
    let analysis = analysed(&[tens(1.1)], &["default", "batch"]);
    let headlines = names(&analysis, Family::Headline);
    assert_eq!(headlines, ["web threads=4/web/throughput", "web threads=4/web/wakeup_p99"]);
    assert_eq!(verdict(&analysis, "throughput"), Verdict::Better);
    assert_eq!(verdict(&analysis, "wakeup_p99"), Verdict::Worse);
    let throughput = row(&analysis, "throughput");
    assert_eq!(throughput.cells[0].judged, None, "the baseline");
    assert_eq!(throughput.cells[0].values[1], (1, 1000.0 * 1.004 * 1.0002));
    let effect = throughput.cells[1].judged.unwrap().effect;
    let Ok(Effect::Ratio(ratio)) = effect else { panic!("{throughput:?}") };
    assert!((ratio.ratio - 1.1).abs() < 0.001 && ratio.pairs == 10, "{ratio:?}");
    let Analysis { plans, sides, method, works, notes, command, .. } = &analysis;
    assert_eq!(notes, &[]);
    assert_eq!((method.pairing, method.margin), (Pairing::WithinRounds, 0.02));
    assert_eq!((method.headline_verdicts, method.explaining_verdicts), (2, 0));
    assert_eq!((plans[0].id.as_str(), plans[0].rounds_done), ("p1", 10));
    assert_eq!(command, "schedlab compare");
    let set = &works[0].sets[0];
    assert_eq!((works[0].name.as_str(), set.workload.as_str()), ("web", "schbench"));
    assert_eq!((works[0].axes[0].1.as_str(), set.ops.as_str()), ("4", "requests"));
    assert_eq!((sides[1].runs, sides[1].boots), (10, Some(1)));
    assert_eq!(sides[1].kernels, ["6.12.0"]);
}

#[test]
fn the_baseline_is_the_side_named_first() {
    let analysis = analysed(&[tens(1.1)], &["batch", "default"]);
    assert_eq!(verdict(&analysis, "throughput"), Verdict::Worse);
    assert_eq!(analysis.sides[0].label, "batch");
}

#[test]
fn one_side_alone_has_rows_and_no_verdicts() {
    for sides in [&["default"][..], &["p1"]] {
        let alone = rounds(plan("p1", 1, &["default"]), 0..10, &[1.0]);
        let analysis = analysed(&[alone], sides);
        assert_eq!(names(&analysis, Family::Headline).len(), 2, "{sides:?}");
        assert_eq!(row(&analysis, "throughput").cells[0].values.len(), 10);
        let mut cells = analysis.rows().flat_map(|(.., row)| &row.cells);
        assert!(cells.all(|cell| cell.judged.is_none()));
        assert_eq!((analysis.method.headline_verdicts, analysis.notes.len()), (0, 0));
    }
}

#[test]
fn more_is_judged_where_asked_for_and_each_family_counts_its_own_verdicts() {
    let plans = [rounds(work(plan("p1", 1, &["a", "b", "c"]), "chat", 2), 0..10, &[1.0; 3])];
    let ask = |change: fn(&mut Question)| {
        let mut question = asked(&plans, &["a", "b", "c"]);
        change(&mut question);
        analyse(&plans, &[], &question)
    };
    let counts = |analysis: &Analysis| {
        let families = [Family::Headline, Family::Explaining, Family::None];
        let method = &analysis.method;
        let rows = families.map(|family| names(analysis, family).len());
        (rows, method.headline_verdicts, method.explaining_verdicts)
    };
    // Two works, and two sides and the baseline.
    assert_eq!(counts(&ask(|_| {})), ([4, 0, 6], 8, 0));
    let all = ask(|question| question.explaining = true);
    assert_eq!(counts(&all), ([4, 4, 2], 8, 8), "neutral metrics stay without verdicts");
    assert_eq!(row(&all, "switches").cells[1].judged, None);
    let chosen = ask(|question| question.metrics = vec!["chat*/web/*_max".to_string()]);
    assert_eq!(names(&chosen, Family::Headline), ["chat threads=2/web/wakeup_max"]);
    assert_eq!((chosen.method.headline_verdicts, chosen.method.explaining_verdicts), (2, 0));
    let none = ask(|question| question.metrics = vec!["nonesuch".to_string()]);
    assert_eq!(counts(&none), ([0, 0, 10], 0, 0));
}

#[test]
fn a_neutral_metric_that_is_asked_for_is_judged_and_less_of_it_is_better() {
    let judged = |factor: f64| {
        let plans = [tens(factor)];
        let mut question = asked(&plans, &["default", "batch"]);
        question.metrics = vec!["switches".to_string()];
        let analysis = analyse(&plans, &[], &question);
        assert_eq!(row(&analysis, "switches").kind.direction, Direction::Neutral);
        assert_eq!(analysis.method.headline_verdicts, 1);
        (verdict(&analysis, "switches"), row(&analysis, "switches").cells[1].verdict())
    };
    assert_eq!(judged(0.8), (Verdict::Better, Some(Verdict::Better)));
    assert_eq!(judged(1.2), (Verdict::Worse, Some(Verdict::Worse)));
    assert_eq!(judged(1.0), (Verdict::Same, Some(Verdict::Same)));
}

#[test]
fn each_metric_has_the_margin_of_the_last_pattern_that_names_it() {
    let plans = [tens(1.01)];
    let verdicts = |margin: f64, margins: &[(&str, f64)]| {
        let mut question = asked(&plans, &["default", "batch"]);
        (question.margin, question.tail_margin) = (margin, margin);
        question.margins = margins.iter().map(|(name, by)| (name.to_string(), *by)).collect();
        let analysis = analyse(&plans, &[], &question);
        assert_eq!(analysis.method.margins, question.margins);
        let is_same = |metric| verdict(&analysis, metric) == Verdict::Same;
        (is_same("throughput"), is_same("wakeup_p99"))
    };
    assert_eq!(verdicts(0.02, &[]), (true, true));
    assert_eq!(verdicts(0.005, &[]), (false, false));
    assert_eq!(verdicts(0.02, &[("throughput", 0.005)]), (false, true));
    assert_eq!(verdicts(0.005, &[("web/wakeup*", 0.02)]), (false, true));
    assert_eq!(verdicts(0.02, &[("*", 0.005), ("throughput", 0.02)]), (true, false));
    assert_eq!(verdicts(0.02, &[("throughput", 0.02), ("*", 0.005)]), (false, false));
    assert_eq!(verdicts(0.02, &[("web threads=9/web/*", 0.005)]), (true, true));
}

#[test]
fn a_tail_latency_is_the_same_within_a_tenth_and_a_throughput_is_not() {
    let plans = [tens(1.05)];
    let question = asked(&plans, &["default", "batch"]);
    let verdicts = |question: &Question| {
        let analysis = analyse(&plans, &[], question);
        ["throughput", "wakeup_p99"].map(|metric| verdict(&analysis, metric) == Verdict::Same)
    };
    assert_eq!(verdicts(&question), [false, true]);
    let wide = Question { margin: 0.1, tail_margin: 0.02, ..question };
    assert_eq!(verdicts(&wide), [true, false]);
}

#[test]
fn too_few_rounds_decide_nothing() {
    let few = rounds(plan("p1", 1, &["a", "b"]), 0..4, &[1.0, 2.0]);
    let found = verdict(&analysed(&[few], &["a", "b"]), "throughput");
    let Verdict::Inconclusive { why: Why::TooFewRounds { least }, .. } = found else {
        panic!("{found:?}")
    };
    assert!(least > 4);
}

/// By sides that are variants a variant's own knobs are what is compared, not a part of the work.
#[test]
fn knobs_of_variants_that_are_sides_may_differ() {
    let mut plan = tens(1.0);
    plan.cells[1].variant.knobs = notes::slice();
    let analysis = analysed(&[plan], &["default", "batch"]);
    assert_eq!((analysis.works.len(), analysis.notes.len()), (1, 0));
}

#[test]
fn the_same_work_of_two_plans_is_compared() {
    let analysis = analysed(&notes::two(), &["p1", "p2"]);
    assert_eq!(analysis.works[0].label, "web threads=4 [default]");
    let axis = |axis: &str, point: &str| (axis.to_string(), point.to_string());
    assert_eq!(analysis.works[0].axes, [axis("threads", "4"), axis("variant", "default")]);
    assert_eq!(analysis.method.pairing, Pairing::None);
    assert_eq!(analysis.notes, [Note::Unpaired]);
}

#[test]
fn a_metric_whose_unit_has_changed_is_another_one() {
    let [first, mut second] = notes::two();
    second.metrics[1].kind.unit = Unit::Count;
    let analysis = analysed(&[first, second], &["p1", "p2"]);
    assert_eq!(names(&analysis, Family::Headline), ["web threads=4 [default]/web/throughput"]);
    let (work, set) = ("web threads=4 [default]".to_string(), "web".to_string());
    let changed = Note::UnitChanged { work, set, metric: "wakeup_p99".to_string() };
    assert_eq!(refusals(&analysis), [&changed]);
    assert!(!analysis.notes.iter().any(Note::is_gap), "{:?}", analysis.notes);
}

#[test]
fn an_unknown_value_keeps_its_round_and_reason() {
    let mut plan = plan("p1", 1, &["default", "batch"]);
    // A round may be measured again later.
    for round in [0, 1, 2, 3, 7, 5, 6, 4, 8, 9] {
        run(&mut plan, round, 0, 1.0);
        match round {
            4 | 7 => {
                run_of(&mut plan, round, 1, &[("throughput", 1000.0)]);
                unknown(&mut plan, "wakeup_p99", if round == 4 { "no sample" } else { "too late" });
            }
            _ => run(&mut plan, round, 1, 1.0),
        }
    }
    let analysis = analysed(&[plan], &["default", "batch"]);
    let [default, batch] = row(&analysis, "wakeup_p99").cells.as_slice() else { panic!() };
    assert_eq!((default.values.len(), batch.values.len()), (10, 8));
    assert_eq!(default.unknown, []);
    assert_eq!(batch.unknown, [(4, "no sample".to_string()), (7, "too late".to_string())]);
    assert_eq!(batch.judged.unwrap().effect.unwrap().pairs(), 8);
}

/// In a later plan, whose rounds are counted on, too.
#[test]
fn a_metric_that_is_never_known_has_its_row_and_reasons() {
    let one = |id, at| {
        let mut plan = plan(id, at, &["default", "batch"]);
        for round in 0..2 {
            for cell in 0..2 {
                run_of(&mut plan, round, cell, &[("throughput", 1000.0)]);
                unknown(&mut plan, "wakeup_p99", "no samples");
            }
        }
        plan
    };
    let plans = [one("p1", 1), one("p2", 2)];
    let analysis = analysed(&plans, &["variant=default,all", "variant=batch,all"]);
    let cell = &row(&analysis, "wakeup_p99").cells[1];
    let of_round = |round| (round, "no samples".to_string());
    assert_eq!(cell.unknown, [0, 1, 2, 3].map(of_round));
    assert_eq!((cell.values.len(), cell.median, cell.judged), (0, None, None));
}

#[test]
fn thousands_of_operations_are_counted_as_operations_once() {
    let mut plan = plan("p1", 1, &["default", "batch"]);
    plan.metrics.iter_mut().for_each(|metric| metric.ops = "kops".to_string());
    for round in 0..8 {
        let metrics = [("throughput", 3.0), ("wakeup_p99", 5.0), ("switches", 7.0)];
        (0..2).for_each(|cell| run_of(&mut plan, round, cell, &metrics));
    }
    let analysis = analysed(&[plan], &["default", "batch"]);
    let median = |metric| row(&analysis, metric).cells[0].median;
    assert_eq!(median("throughput"), Some(3000.0));
    assert_eq!((median("wakeup_p99"), median("switches")), (Some(5.0), Some(7.0)));
    assert_eq!(analysis.works[0].sets[0].ops, "ops");
}

#[test]
fn rounds_of_several_plans_are_counted_through_and_paired_where_all_sides_are_in_them() {
    let one = |id, at, count, of| rounds(plan(id, at, &["default", "batch"]), 0..count, of);
    let plans = [
        one("p1", 1, 3, &[1.0, 1.1]),
        one("p2", 2, 2, &[2.0, 2.2]),
        one("p3", 3, 4, &[3.0, 3.3]),
        one("p4", 4, 0, &[]),
        one("p5", 5, 1, &[1.0, 1.1]),
    ];
    let analysis = analysed(&plans, &["variant=default,all", "variant=batch,all"]);
    assert_eq!(analysis.method.pairing, Pairing::WithinRounds);
    let through: Vec<u32> = (0..10).collect();
    assert_eq!(rounds_of(&analysis, "throughput"), [through.clone(), through]);
    let throughput = row(&analysis, "throughput");
    // The first of each plan, the oldest plan's first.
    let firsts: Vec<f64> =
        [0, 3, 5].map(|at: usize| throughput.cells[0].values[at].1.round()).to_vec();
    assert_eq!(firsts, [1000.0, 2000.0, 3000.0]);
    let ratio = throughput.cells[1].judged.unwrap().effect.unwrap().ratio().unwrap();
    assert!((ratio.ratio - 1.1).abs() < 0.001, "paired: {ratio:?}");
    assert_eq!(analysis.sides[0].plans, ["p1", "p2", "p3", "p5"]);
    let ids: Vec<&str> = analysis.plans.iter().map(|plan| plan.id.as_str()).collect();
    assert_eq!(ids, ["p1", "p2", "p3", "p4", "p5"]);
    let newest = analysed(&plans, &["variant=default,last:2", "variant=batch,last"]);
    assert_eq!(newest.method.pairing, Pairing::None, "not the same plans");
}

#[test]
fn what_the_command_line_asks_is_judged() {
    let metrics = vec!["wakeup_max".to_string()];
    let margins = vec![(None, 0.05), (Some("web/wakeup_p99".to_string()), 0.2)];
    let judged = crate::model::Judged { metrics, margins, all_metrics: true, mixed: true };
    let question = asked(&[tens(1.0)], &["default"]).judging(&judged);
    assert_eq!((question.margin, question.tail_margin), (0.05, 0.05));
    let margins = [("web/wakeup_p99".to_string(), 0.2)];
    assert_eq!((&question.metrics, &question.margins[..]), (&judged.metrics, &margins[..]));
    assert!(question.explaining && question.mixed);
}

#[test]
fn works_of_pooled_plans_that_differ_have_what_differs_in_their_labels() {
    let mut plans = ["p1", "p2", "p3"].map(|id| {
        let at = u64::from(id.as_bytes()[1]);
        rounds(plan(id, at, &["default", "batch"]), 0..6, &[1.0, 1.1])
    });
    let labels = |plans: &[SampledPlan]| {
        let found = analysed(plans, &["variant=default,all", "variant=batch,all"]);
        let labels = found.works.iter().map(|work| (work.label.clone(), work.axes.clone()));
        labels.collect::<BTreeMap<String, Vec<(String, String)>>>()
    };
    assert_eq!(labels(&plans).into_keys().collect::<Vec<_>>(), ["web threads=4"]);
    plans[1].plan.measure.duration_ns = 200_000_000;
    let axis = |name: &str, value: &str| (name.to_string(), value.to_string());
    let of = |more: &[(String, String)]| [&[axis("threads", "4")], more].concat();
    let (long, short) = (axis("duration", "5s"), axis("duration", "200ms"));
    let expected = [
        ("web threads=4 duration=200ms".to_string(), of(std::slice::from_ref(&short))),
        ("web threads=4 duration=5s".to_string(), of(std::slice::from_ref(&long))),
    ];
    assert_eq!(labels(&plans), BTreeMap::from(expected));
    plans[2].plan.probes = vec!["sched".to_string()];
    let [probed, not] = ["sched", "none"].map(|value| axis("probes", value));
    let both = |last: &(String, String)| of(&[long.clone(), last.clone()]);
    let found = labels(&plans);
    let points: Vec<Vec<(String, String)>> = found.into_values().collect();
    for point in [of(std::slice::from_ref(&short)), both(&not)] {
        assert!(points.contains(&point), "{points:?}");
    }
    let own = points.iter().filter(|point| point.contains(&probed));
    assert_eq!((points.len(), own.count()), (3, 1), "{points:?}");
    // Notes name works as tables do.
    lose(&mut plans[1], 6, 0, false, "Oops");
    let notes = analysed(&plans, &["variant=default,all", "variant=batch,all"]).notes;
    let of_long = "web threads=4 duration=200ms";
    assert!(
        notes.iter().any(|note| matches!(note, Note::Failed { work, .. } if work == of_long)),
        "{notes:?}"
    );
}

#[test]
fn a_run_that_is_missing_in_a_round_is_missing_there_only() {
    let mut plan = plan("p1", 1, &["default", "batch"]);
    for round in 0..10 {
        run(&mut plan, round, 0, 1.0);
        if round != 4 {
            run(&mut plan, round, 1, 1.5);
        }
    }
    let analysis = analysed(&[plan], &["default", "batch"]);
    let rounds = rounds_of(&analysis, "throughput");
    assert_eq!((rounds[0].len(), &rounds[1][3..5]), (10, &[3, 5][..]));
    let cell = &row(&analysis, "throughput").cells[1];
    assert_eq!(cell.judged.unwrap().effect.unwrap().pairs(), 9);
    assert_eq!((analysis.sides[0].runs, analysis.sides[1].runs), (10, 9));
}

/// A plan that was resumed under another kernel has both.
#[test]
fn of_a_resumed_plan_each_kernel_has_its_own_runs() {
    let mut resumed = rounds(plan("p1", 1, &["default"]), 0..6, &[1.0]);
    resumed.environments.push(environment("6.13.0", "big", Some("boot-2")));
    let resumed = rounds(resumed, 6..10, &[1.0]);
    let sides = ["variant=default,kernel=6.12.0", "variant=default,kernel=6.13.0"];
    let analysis = analysed(&[resumed], &sides);
    let own = |range: std::ops::Range<u32>| range.collect::<Vec<u32>>();
    assert_eq!(rounds_of(&analysis, "throughput"), [own(0..6), own(6..10)]);
    assert_eq!(analysis.sides[1].kernels, ["6.13.0"]);
    assert_eq!(analysis.method.pairing, Pairing::None, "their rounds are not the same");
}

/// An A/A plan whose second variant is this many times the first.
pub(super) fn aa(id: &str, at: u64, ratio: f64) -> SampledPlan {
    let mut made = rounds(plan(id, at, &["default", "default-again"]), 0..10, &[1.0, ratio]);
    made.plan.aa = true;
    made
}

#[test]
fn floors_are_of_aa_plans_of_this_machine_that_were_there_already() {
    let mut elsewhere = aa("a3", 3, 1.05);
    elsewhere.environments = vec![environment("6.12.0", "small", None)];
    let plain = |id, at| rounds(plan(id, at, &["default", "batch"]), 0..10, &[1.0, 1.1]);
    let stored = [
        aa("a1", 1, 1.05),
        plain("p2", 2),
        elsewhere,
        aa("a4", 4, 1.05),
        plain("p5", 5),
        aa("a6", 6, 1.05),
    ];
    let heads = heads(&stored);
    let of = |plans: &[usize]| -> Vec<&str> {
        let plans: Vec<SampledPlan> = plans.iter().map(|&at| stored[at].clone()).collect();
        with_floors(&heads, &plans).into_iter().map(|head| head.id.as_str()).collect()
    };
    assert_eq!(of(&[1]), ["a1"]);
    assert_eq!(of(&[1, 4]), ["a4", "a1"], "newest first");
    assert_eq!(of(&[5]), [""; 0], "A/A itself");
}

#[test]
fn a_difference_below_the_floor_is_open_and_the_plan_of_the_floor_is_named() {
    let plans = [tens(1.04)];
    let with = |floors: &[SampledPlan], metric: &str| {
        let question = asked(&plans, &["default", "batch"]);
        let question = Question { metrics: vec![metric.to_string()], ..question };
        analyse(&plans, floors, &question)
    };
    let [old, mut new] = [aa("a1", 2, 1.05), aa("a2", 3, 1.05)];
    new.plan.measure.duration_ns *= 2;
    let found = with(&[old.clone(), new.clone()], "*");
    assert_eq!(found.method.floors, ["a1"]);
    let below = verdict(&found, "throughput");
    assert!(
        matches!(below, Verdict::Inconclusive { why: Why::BelowFloor { .. }, .. }),
        "{below:?}"
    );
    assert_eq!(with(&[old], "nonesuch").method.floors, [""; 0], "there is no verdict");
    let other = with(&[new], "*");
    assert_eq!(other.method.floors, [""; 0]);
    assert_eq!(verdict(&other, "throughput"), Verdict::Better, "other work has no say");
}

#[test]
fn runs_that_two_sides_share_are_counted() {
    let one = |id, at, variants: &[&str]| rounds(plan(id, at, variants), 0..10, &[1.0, 1.1]);
    let plans = [
        one("p1", 1, &["default"]),
        one("p2", 2, &["default", "default-again"]),
        notes::on("p3", 3, "6.13.0", "small"),
    ];
    type Shared = Option<(usize, [usize; 2])>;
    let cases: &[(&[&str], Shared)] = &[
        (&["all", "last"], Some((6, [0, 1]))),
        (&["p1", "last", "p3"], Some((6, [1, 2]))),
        (&["p2,default", "p2,default*"], Some((10, [0, 1]))),
        (&["p2,default", "p2,default-again"], None),
        (&["machine=small", "kernel=6.1*"], Some((6, [0, 1]))),
        (&["machine=small", "kernel=6.12.0"], None),
        (&["p1", "p2"], None),
    ];
    for (sides, expected) in cases {
        assert_eq!(overlap(&plans, &asked(&plans, sides).sides), *expected, "{sides:?}");
    }
}

fn looks_of(analysis: Analysis) -> Option<Vec<u32>> {
    analysis.method.looks.map(|looks| looks.iter().map(|look| look.rounds).collect())
}

fn until_decided(ratio: f64, count: u32, ended: Option<PlanEnd>) -> Analysis {
    let mut plan = rounds(plan("p1", 1, &["default", "batch"]), 0..count, &[1.0, ratio]);
    plan.plan.measure.until_decided = true;
    plan.ended = ended;
    analysed(&[plan], &["default", "batch"])
}

#[test]
fn a_plan_until_decided_is_judged_by_looks() {
    let looks = |count, ended| looks_of(until_decided(1.1, count, ended)).unwrap();
    assert_eq!(looks(7, None), [0; 0]);
    assert_eq!(looks(12, None), [8, 10]);
    assert_eq!(looks(12, Some(PlanEnd::Interrupted)), [8, 10]);
    assert_eq!(looks(12, Some(PlanEnd::Budget)), [8, 10, 12]);
    assert_eq!(looks(12, Some(PlanEnd::Complete)), [8, 10, 12]);
    assert_eq!(looks(13, Some(PlanEnd::Decided)), [8, 10, 13]);
    let decided = until_decided(1.1, 12, None);
    assert_eq!(row(&decided, "throughput").cells[1].judged.unwrap().decided_at, Some(8));
    assert_eq!(analysed(&[tens(1.1)], &["default", "batch"]).method.looks, None);
}

/// The decision that ended the plan has looked at the figures, so the end itself spends no further look.
#[test]
fn verdicts_after_the_end_of_a_plan_that_was_decided_are_those_that_ended_it() {
    // Among 256 ways to flip signs, 8 are as far out: p is 3.1 %, more than half of 5 %.
    let nearly = |ended| {
        let mut plan = plan("p1", 1, &["default", "batch"]);
        for round in 0..8 {
            run(&mut plan, round, 0, 1.0);
            run(&mut plan, round, 1, if round < 6 { 1.01 } else { 0.997 });
        }
        plan.plan.measure.until_decided = true;
        plan.ended = ended;
        let plans = [plan];
        let mut question = asked(&plans, &["default", "batch"]);
        (question.margin, question.tail_margin) = (0.001, 0.001);
        verdict(&analyse(&plans, &[], &question), "throughput")
    };
    for ended in [None, Some(PlanEnd::Interrupted), Some(PlanEnd::Decided)] {
        assert!(matches!(nearly(ended), Verdict::Inconclusive { .. }), "{ended:?}");
    }
    for ended in [Some(PlanEnd::Budget), Some(PlanEnd::Complete)] {
        assert_eq!(nearly(ended), Verdict::Better, "{ended:?}");
    }
}

#[test]
fn looks_are_at_variants_of_one_plan_only() {
    let plans = [("p1", 1), ("p2", 2)].map(|(id, at)| {
        let mut one = rounds(plan(id, at, &["a", "b"]), 0..10, &[1.0, 1.1]);
        one.plan.measure.until_decided = true;
        one
    });
    let looks = |plans: &[SampledPlan], sides: &[&str]| looks_of(analysed(plans, sides));
    assert_eq!(looks(&plans[..1], &["a", "b"]), Some(vec![8, 10]));
    assert_eq!(looks(&plans, &["p1", "p2"]), None);
    assert_eq!(looks(&plans, &["variant=a,all", "variant=b,all"]), None);
}

#[test]
fn a_plan_took_the_time_of_its_sessions() {
    const S: u64 = 1_000_000_000;
    let took = |starts: &[(u32, u64)]| {
        let mut plan = plan("p1", 100 * S, &["a"]);
        for (round, (session, started)) in (0..).zip(starts) {
            while plan.environments.len() <= *session as usize {
                plan.environments.push(environment("6.12.0", "big", Some("boot-1")));
            }
            run(&mut plan, round, 0, 1.0);
            let last = plan.runs.last_mut().unwrap();
            (last.environment, last.started_unix_ns) = (*session, started * S);
        }
        analysed(&[plan], &["a"]).plans[0].took_ns.unwrap() / S
    };
    // Runs take 5 s.
    assert_eq!(took(&[(0, 101), (0, 107)]), 12);
    assert_eq!(took(&[(0, 101), (1, 900), (1, 906)]), 6 + 11, "a pause is not a time of the plan");
    assert_eq!(took(&[(1, 900)]), 5, "nothing was measured before the pause");
    assert_eq!(took(&[(1, 900), (2, 902)]), 7, "two hosts at once");
    assert_eq!(took(&[(0, 0), (1, 3)]), 0, "no clock");
    assert_eq!(took(&[(0, u64::MAX / S)]), u64::MAX / S - 100, "an imported time that cannot be");
}

/// The view of a running plan shows what its report would.
#[test]
fn ratios_of_a_running_plan_count_rounds_as_at_its_end() {
    let mut running = rounds(plan("p1", 1, &["a", "b"]), 0..3, &[1.0, 1.1]);
    running.ended = None;
    for at in 0..running.runs.len() {
        disturb(&mut running, at, DisturbanceKind::OutsideLoad, Some(0.5));
    }
    let values = |ratios_alone| {
        let question = Question { ratios_alone, ..of_variants(&running) };
        let analysis = analyse(std::slice::from_ref(&running), &[], &question);
        let values = analysis.rows().map(|(.., row)| row.cells[1].values.len()).max();
        (values, analysis.method.headline_verdicts)
    };
    assert_eq!(values(true), (Some(3), 0));
    assert_eq!(values(false), (None, 0), "a look is at clean rounds alone");
}

#[test]
fn nothing_measured_is_nothing_to_compare() {
    let analysis = analysed(&[plan("p1", 1, &["a", "b"])], &["a", "b"]);
    assert_eq!((analysis.works.len(), analysis.method.headline_verdicts), (0, 0));
    assert_eq!((analysis.sides[0].runs, analysis.sides[0].boots), (0, Some(0)));
    assert_eq!((analysis.plans[0].took_ns, analysis.plans[0].rounds_done), (None, 0));
    assert_eq!(refusals(&analysis).len(), 0);
}

#[test]
fn a_variant_that_was_not_measured_leaves_the_others_their_verdicts() {
    let mut three = plan("p1", 1, &["default", "slower", "gone"]);
    for round in 0..10 {
        run(&mut three, round, 0, 1.0);
        run(&mut three, round, 1, 1.1);
    }
    let analysis = analysed(&[three], &["default", "slower", "gone"]);
    let wakeup = row(&analysis, "wakeup_p99");
    assert!(wakeup.cells[1].judged.is_some(), "{wakeup:?}");
    assert_eq!((wakeup.cells[2].judged, wakeup.cells[2].median), (None, None));
    assert_eq!(verdict(&analysis, "wakeup_p99"), Verdict::Worse);
}

#[test]
fn what_never_happened_on_both_sides_has_no_verdict_and_is_no_gap() {
    let mut both = plan("p1", 1, &["default", "batch"]);
    for round in 0..10 {
        let wave = 1.0 + f64::from(round % 3) / 1000.0;
        run_of(&mut both, round, 0, &[("throughput", wave), ("wakeup_p99", 0.0)]);
        run_of(&mut both, round, 1, &[("throughput", wave), ("wakeup_p99", 0.0)]);
    }
    let analysis = analysed(&[both], &["default", "batch"]);
    assert_eq!(row(&analysis, "wakeup_p99").cells[1].judged, None);
    let lack = |metric| [0, 1, 2].map(|side| row(&analysis, metric).lacks_verdict(side));
    assert_eq!(["throughput", "wakeup_p99"].map(lack), [[false; 3]; 2]);
    assert_eq!((analysis.method.headline_verdicts, analysis.notes.len()), (1, 0));
}

#[test]
fn a_side_without_runs_takes_nothing_from_the_others() {
    let variants = ["default", "missing", "batch"];
    let judged = |sides: &[&str]| {
        let mut plan = plan("p1", 1, &variants);
        for round in 0..6 {
            run(&mut plan, round, 0, 1.0 + 1e-4 * f64::from(round));
            run(&mut plan, round, 2, 1.5);
        }
        row(&analysed(&[plan], sides), "throughput").cells.last().unwrap().judged
    };
    let two = judged(&["default", "batch"]);
    assert_eq!(two.unwrap().verdict, Verdict::Better, "as many rounds as one variant takes");
    assert_eq!(judged(&variants), two);
}

#[test]
fn a_starved_work_is_judged_by_its_difference_and_what_is_no_number_is_not() {
    let variants = ["default", "batch", "idle"];
    let mut plan = plan("p1", 1, &variants);
    for round in 0..10 {
        run(&mut plan, round, 0, 1.0);
        let throughput = if round < 7 { 0.0 } else { 3.0 };
        for cell in [1, 2] {
            run_of(&mut plan, round, cell, &[("throughput", throughput), ("wakeup_p99", 2e4)]);
        }
    }
    let analysis = analysed(&[plan.clone()], &variants);
    assert_eq!(verdict(&analysis, "throughput"), Verdict::Worse);
    assert_eq!(analysis.method.headline_verdicts, 4);
    let throughput = row(&analysis, "throughput");
    let baseline = throughput.cells[0].mean.unwrap();
    let Some(Effect::Difference(MeanDifference { difference, .. })) =
        analysis.effect(throughput, 1)
    else {
        panic!("{throughput:?}");
    };
    assert!((difference - (0.9 - baseline)).abs() < 1e-9, "{difference} {baseline}");
    assert!(!analysis.notes.iter().any(Note::is_gap), "{:?}", analysis.notes);
    let values = plan.runs.iter_mut().flat_map(|run| &mut run.values);
    values.filter(|of| of.1 == 0.0).for_each(|of| of.1 = f64::INFINITY);
    let analysis = analysed(&[plan], &variants);
    let why = NoEffect::NotFinite { round: 0, value: f64::INFINITY };
    assert_eq!(verdict(&analysis, "throughput"), Verdict::Unjudged(Unjudged::NoEffect(why)));
    assert_eq!(analysis.method.headline_verdicts, 2, "of wakeup_p99");
    let [work, set] = ["web threads=4", "web"].map(str::to_string);
    let sides = variants[1..].iter().map(|name| name.to_string()).collect();
    let metrics = vec!["throughput".to_string()];
    assert_eq!(analysis.notes, [Note::NoRatio { sides, work, set, metrics, why }]);
}

#[test]
fn no_difference_is_smaller_than_what_plans_differ_by() {
    // Ten plans, each 2 % from the last and back, and one that is 3 % off their middle.
    let plans: Vec<SampledPlan> = (0..11u32)
        .map(|at| {
            let own = if at == 10 { 1.03 } else { 0.99 + 0.02 * f64::from(at % 2) };
            let id = format!("p{at:02}");
            rounds(plan(&id, u64::from(at) + 1, &["default"]), 0..10, &[own])
        })
        .collect();
    let verdict_of = |sides: &[&str]| verdict(&analysed(&plans, sides), "throughput");
    let floor_of = |sides: &[&str]| match verdict_of(sides) {
        Verdict::Inconclusive {
            why: Why::BelowFloor { floor: Distance::Ratio(floor) }, ..
        } => floor,
        found => panic!("{found:?}"),
    };
    const ALL: &str = "until=1970-01-01T00:00:00.000000011";
    let floor = floor_of(&[ALL, "p10"]);
    assert!((0.03..0.06).contains(&floor), "{floor}");
    // A second side has as many verdicts again, each of which may be wrong by chance.
    let of_three = floor_of(&[ALL, "p10", "p09"]);
    assert!((1.05..1.5).contains(&(of_three / floor)), "{of_three} {floor}");
    assert_eq!(verdict_of(&["p00", "p10"]), Verdict::Better, "two plans do not show it");
}

/// Round, cell and metrics of a run.
type ProbedRun<'a> = (u32, u32, &'a [(&'a str, f64)]);

const VOLUNTARY: &str = "worker_voluntary_switches";
const INVOLUNTARY: &str = "worker_involuntary_switches";

/// A plan of two variants with a probe, from what each run has.
fn probed(runs: &[ProbedRun]) -> SampledPlan {
    let mut probed = plan("p1", 1, &["default", "batch"]);
    probed.plan.probes = vec!["sched".to_string()];
    for (name, statistic) in [
        (VOLUNTARY, Statistic::VoluntarySwitches),
        (INVOLUNTARY, Statistic::InvoluntarySwitches),
        ("worker_slice_p50", Statistic::Quantile(500_000)),
    ] {
        probed.metrics.push(metric(name, Unit::PerS, Direction::Neutral, statistic));
    }
    for (round, cell, metrics) in runs {
        run_of(&mut probed, *round, *cell, metrics);
    }
    probed
}

#[test]
fn switches_of_a_role_have_rows_per_second_and_per_operation() {
    let plans = [probed(&[
        (0, 0, &[("throughput", 100.0), (VOLUNTARY, 200.0), (INVOLUNTARY, 0.0)]),
        (0, 1, &[("throughput", 50.0), (VOLUNTARY, 5.0), (INVOLUNTARY, 30.0)]),
        (1, 0, &[("throughput", 300.0), (VOLUNTARY, 600.0), (INVOLUNTARY, 0.0)]),
        // Here and there either is not known.
        (1, 1, &[("throughput", 8.0), (INVOLUNTARY, 10.0)]),
        (2, 1, &[(VOLUNTARY, 7.0), (INVOLUNTARY, 2.0), ("worker_slice_p50", 1.0)]),
    ])];
    let analysis = analysed(&plans, &["default", "batch"]);
    let set = &analysis.works[0].sets[0];
    let switches: Vec<&str> = set.switches().map(|row| row.kind.name.as_str()).collect();
    let per_op = [VOLUNTARY, INVOLUNTARY].map(|name| format!("{name}_per_op"));
    assert_eq!(switches, [VOLUNTARY, &per_op[0], INVOLUNTARY, &per_op[1]]);
    assert_eq!(names(&analysis, Family::Headline), ["web threads=4/web/throughput"]);
    let own = row(&analysis, VOLUNTARY);
    assert_eq!(own.kind.subject.as_deref(), Some("worker"));
    let ratio = analysis.ratio(own, 1).map(|ratio| ratio.ratio);
    assert!((ratio.unwrap() - 0.025).abs() < 1e-9, "of the round that both have: {ratio:?}");
    let own = row(&analysis, &per_op[0]);
    assert_eq!((own.kind.unit, own.family), (Unit::Count, Family::None));
    assert_eq!(own.kind.statistic, Statistic::VoluntarySwitches);
    assert_eq!(own.cells[0].values, [(0, 2.0), (1, 2.0)]);
    assert_eq!(own.cells[1].values, [(0, 0.1)], "of rounds that know both");
    let preempted = row(&analysis, INVOLUNTARY);
    assert!(analysis.ratio(preempted, 1).is_none() && analysis.effect(preempted, 1).is_some());
    let preempted = row(&analysis, &per_op[1]);
    assert_eq!(preempted.cells[1].values, [(0, 0.6), (1, 1.25)]);
    assert_eq!(preempted.cells[0].mean, Some(0.0));
}

#[test]
fn switches_are_judged_where_asked_for_per_operation_too() {
    let runs: Vec<ProbedRun> = (0..10)
        .flat_map(|round| {
            let default: &[_] = &[("throughput", 100.0), (VOLUNTARY, 200.0), (INVOLUNTARY, 9.0)];
            let batch: &[_] = &[("throughput", 100.0), (VOLUNTARY, 150.0), (INVOLUNTARY, 18.0)];
            [(round, 0, default), (round, 1, batch)]
        })
        .collect();
    let plans = [probed(&runs)];
    let asks = |patterns: &[&str]| {
        let mut question = asked(&plans, &["default", "batch"]);
        question.metrics = patterns.iter().map(|pattern| pattern.to_string()).collect();
        analyse(&plans, &[], &question)
    };
    let found = asks(&["*_switches_per_op"]);
    assert_eq!(found.method.headline_verdicts, 2);
    assert_eq!(verdict(&found, &format!("{VOLUNTARY}_per_op")), Verdict::Better);
    assert_eq!(verdict(&found, &format!("{INVOLUNTARY}_per_op")), Verdict::Worse);
    assert_eq!(row(&found, VOLUNTARY).cells[1].judged, None);
    assert_eq!(asks(&["*_switches"]).method.headline_verdicts, 2);
    let mut explaining = asked(&plans, &["default", "batch"]);
    explaining.explaining = true;
    let explaining = analyse(&plans, &[], &explaining);
    assert_eq!(explaining.method.explaining_verdicts, 0, "switches are neutral");
}

#[test]
fn severities_order_the_notes_and_what_is_worst_comes_first() {
    assert!(Severity::Bad < Severity::Warning && Severity::Warning < Severity::Info);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Each family has an error rate of its own: what explains takes nothing from what matters.
    #[test]
    fn headline_verdicts_are_the_same_whether_or_not_others_are_judged(plan in any_plan()) {
        let question = of_variants(&plan);
        let more = Question { explaining: true, ..question.clone() };
        let plans = [plan];
        let [plain, explained] = [&question, &more].map(|of| analyse(&plans, &[], of));
        let headlines = |of: &Analysis| -> Vec<String> {
            let rows = of.rows().filter(|(.., row)| row.family == Family::Headline);
            // Debug text is of every bit.
            rows.map(|(work, set, row)| format!("{} {} {row:?}", work.label, set.name)).collect()
        };
        prop_assert_eq!(headlines(&plain), headlines(&explained));
        prop_assert_eq!(plain.method.headline_verdicts, explained.method.headline_verdicts);
        prop_assert_eq!(plain.method.explaining_verdicts, 0);
        prop_assert_eq!(&plain.notes, &explained.notes);
        let is_other = |row: &Row| row.family != Family::Headline;
        let others = || plain.rows().filter(|(.., row)| is_other(row)).flat_map(|(.., row)| &row.cells);
        prop_assert!(others().all(|cell| cell.judged.is_none()));
    }

    #[test]
    fn the_same_question_has_the_same_answer_and_counts_are_those_of_the_cells(plan in any_plan()) {
        let question = Question { explaining: true, ..of_variants(&plan) };
        let plans = [plan];
        let analysis = analyse(&plans, &[], &question);
        let again = analyse(&plans, &[], &question);
        prop_assert_eq!(format!("{analysis:?}"), format!("{again:?}"));
        let verdicts = |family: Family| {
            let rows = analysis.rows().filter(|(.., row)| row.family == family);
            let cells = rows.flat_map(|(.., row)| &row.cells).filter_map(|cell| cell.judged);
            let lacking = |why| matches!(why, Unjudged::NoEffect(NoEffect::OftenUnknown { .. }));
            cells.filter(|one| !matches!(one.verdict, Verdict::Unjudged(why) if !lacking(why))).count()
        };
        prop_assert_eq!(analysis.method.headline_verdicts, verdicts(Family::Headline));
        prop_assert_eq!(analysis.method.explaining_verdicts, verdicts(Family::Explaining));
        prop_assert!(analysis.notes.is_sorted_by_key(Note::severity));
        for (.., row) in analysis.rows() {
            prop_assert_eq!(row.cells.len(), analysis.sides.len());
            prop_assert_eq!(row.cells[0].judged, None);
            for cell in &row.cells {
                prop_assert!(cell.values.is_sorted_by_key(|(round, _)| *round));
                prop_assert!(cell.unknown.is_sorted_by_key(|(round, _)| *round));
            }
        }
    }
}
