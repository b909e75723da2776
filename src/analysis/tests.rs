//! Tests of comparisons of invented plans: what is gathered, refused, remarked and judged.

use super::*;
use crate::compare::testing::{environment, plan, rounds, run, run_of, work};
use crate::compare::{select, testing};
use crate::model::{
    Direction, DisturbanceKind, EnvironmentHead, MetricKind, Placement, PlanHead, RunKey, Unit,
    Unmeasured, Value,
};
use crate::stats::Why;

fn heads(plans: &[SampledPlan]) -> Vec<PlanHead> {
    let head = |plan: &SampledPlan| PlanHead {
        id: plan.id.clone(),
        title: String::new(),
        backend: plan.backend.clone(),
        started_unix_ns: plan.started_unix_ns,
        ended: plan.ended,
        environments: plan
            .environments
            .iter()
            .map(|environment| EnvironmentHead {
                hostname: environment.hostname.clone(),
                kernel_release: environment.kernel_release.clone(),
                boot_id: environment.boot_id.clone(),
            })
            .collect(),
        variants: plan.plan.variants.iter().map(|variant| variant.name.clone()).collect(),
        aa: plan.plan.aa,
    };
    plans.iter().rev().map(head).collect()
}

/// The question that a user asks by these words; `plans` are oldest first.
fn asked(plans: &[SampledPlan], sides: &[&str]) -> Question {
    let sides: Vec<String> = sides.iter().map(|side| side.to_string()).collect();
    Question::new(select(&sides, &heads(plans)).unwrap(), "schedlab compare".to_string())
}

fn compared(plans: &[SampledPlan], sides: &[&str]) -> Comparison {
    compare(plans, &[], &asked(plans, sides))
}

fn rows(comparison: &Comparison) -> impl Iterator<Item = (String, &Row)> {
    comparison.works.iter().flat_map(|work| {
        work.sets.iter().flat_map(move |set| {
            let row = move |row| (format!("{}/{}", work.label, set.name), row);
            set.rows.iter().map(row)
        })
    })
}

/// Work, set and metric of every row.
fn names(comparison: &Comparison) -> Vec<String> {
    rows(comparison).map(|(place, row)| format!("{place}/{}", row.metric)).collect()
}

/// The rounds of each side, of the row that a name ends in.
fn rounds_of(comparison: &Comparison, name: &str) -> Vec<Vec<u32>> {
    let find = |(place, row): &(String, &Row)| format!("{place}/{}", row.metric).ends_with(name);
    let (_, row) = rows(comparison).find(find).expect(name);
    let numbers = |cell: &Cell| cell.values.iter().map(|(round, _)| *round).collect();
    row.cells.iter().map(numbers).collect()
}

fn verdict<'a>(comparison: &'a Comparison, metric: &str) -> &'a Verdict {
    let (_, row) = rows(comparison).find(|(_, row)| row.metric == metric).expect(metric);
    &row.cells[1].judged.as_ref().expect("a verdict").verdict
}

fn tens(factor: f64) -> SampledPlan {
    rounds(plan("p1", 1, &["default", "batch"]), 0..10, &[1.0, factor])
}

#[test]
fn variants_of_a_plan_have_verdicts_of_their_headlines() {
    let comparison = compared(&[tens(1.1)], &["default", "batch"]);
    assert_eq!(
        names(&comparison),
        ["web threads=4/web/throughput", "web threads=4/web/wakeup_p99"]
    );
    assert_eq!(verdict(&comparison, "throughput"), &Verdict::Better);
    assert_eq!(verdict(&comparison, "wakeup_p99"), &Verdict::Worse);
    let (_, row) = rows(&comparison).next().unwrap();
    assert_eq!(row.cells[0].judged, None, "the baseline");
    assert_eq!(row.cells[0].values[1], (1, 1000.0 * 1.004 * 1.0002));
    let Ok(ratio) = row.cells[1].judged.unwrap().ratio else { panic!("{row:?}") };
    assert!((ratio.ratio - 1.1).abs() < 0.001 && ratio.pairs == 10, "{ratio:?}");
    let Comparison { method, works, refused, missing, remarks, sides, command } = &comparison;
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!((method.pairing, method.family, method.margin), (Pairing::WithinRounds, 2, 0.02));
    assert_eq!((refused.len(), remarks.len(), command.as_str()), (0, 0, "schedlab compare"));
    let set = &works[0].sets[0];
    assert_eq!((works[0].name.as_str(), set.workload.as_str()), ("web", "schbench"));
    assert_eq!((works[0].axes[0].1.as_str(), set.ops.as_str()), ("4", "requests"));
    assert_eq!((sides[1].runs, sides[1].boots), (10, Some(1)));
    assert_eq!(sides[1].kernels, ["6.12.0"]);
}

#[test]
fn the_baseline_is_the_side_named_first() {
    let comparison = compared(&[tens(1.1)], &["batch", "default"]);
    assert_eq!(verdict(&comparison, "throughput"), &Verdict::Worse);
    assert_eq!(comparison.sides[0].label, "batch");
}

#[test]
fn the_same_question_has_the_same_answer() {
    let plans = [tens(1.004)];
    assert_eq!(compared(&plans, &["default", "batch"]), compared(&plans, &["default", "batch"]));
}

#[test]
fn more_is_judged_where_asked_for_and_the_family_counts_verdicts_alone() {
    let plans = [rounds(work(plan("p1", 1, &["a", "b", "c"]), "chat", 2), 0..10, &[1.0; 3])];
    let ask = |change: fn(&mut Question)| {
        let mut question = asked(&plans, &["a", "b", "c"]);
        change(&mut question);
        compare(&plans, &[], &question)
    };
    // Two works, two sides beside the baseline.
    let headlines = ask(|_| {});
    assert_eq!((names(&headlines).len(), headlines.method.family), (4, 8));
    let all = ask(|question| question.all_metrics = true);
    assert_eq!((names(&all).len(), all.method.family), (8, 12), "neutral ones have no verdict");
    assert!(matches!(verdict(&all, "switches"), Verdict::Unjudged(_)));
    let chosen = ask(|question| question.metrics = vec!["chat*/web/*_max".to_string()]);
    assert_eq!(names(&chosen), ["chat threads=2/web/wakeup_max"]);
    assert_eq!(chosen.method.family, 2);
    let none = ask(|question| question.metrics = vec!["nonesuch".to_string()]);
    assert_eq!((none.works.len(), none.method.family), (2, 0));
}

#[test]
fn each_metric_has_the_margin_of_the_last_pattern_that_names_it() {
    let plans = [tens(1.01)];
    let verdicts = |margin: f64, margins: &[(&str, f64)]| {
        let mut question = asked(&plans, &["default", "batch"]);
        question.margin = margin;
        question.margins = margins.iter().map(|(name, by)| (name.to_string(), *by)).collect();
        let comparison = compare(&plans, &[], &question);
        assert_eq!(comparison.method.margins, question.margins);
        let is_same = |metric| *verdict(&comparison, metric) == Verdict::Same;
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
fn too_few_rounds_decide_nothing() {
    let few = rounds(plan("p1", 1, &["a", "b"]), 0..4, &[1.0, 2.0]);
    let comparison = compared(&[few], &["a", "b"]);
    let Verdict::Inconclusive { why: Why::TooFewRounds { least }, .. } =
        verdict(&comparison, "throughput")
    else {
        panic!("{:?}", verdict(&comparison, "throughput"))
    };
    assert!(*least > 4);
}

/// What is changed in the second of two plans, and how it is told.
type Change = (fn(&mut SampledPlan), &'static str);

const CHANGES: &[Change] = &[
    (|plan| plan.backend = "lab".to_string(), "the backend is local and lab"),
    (|plan| plan.plan.measure.duration_ns *= 2, "the duration is 5s and 10s"),
    (|plan| plan.plan.measure.warmup_ns = 0, "the warm-up is 1s and 0ns"),
    (|plan| plan.plan.measure.window_ns /= 2, "the window is 1s and 500ms"),
    (
        |plan| {
            for cell in &mut plan.cells {
                cell.placement = Placement { cpus: "0-1".parse().ok(), ..Placement::default() };
            }
        },
        "the placement differs",
    ),
    (|plan| plan.cells[0].variant.knobs = slice(), "the variant's knobs differ"),
    (
        |plan| {
            let params = &mut plan.cells[0].work.sets[0].params;
            params.insert("operations".to_string(), Value::Int(7));
        },
        "operations of web is 5 and 7",
    ),
    (|plan| plan.cells[0].work.sets[0].params.clear(), "operations of web is 5 and not there"),
    (|plan| plan.cells[0].work.sets[0].count = 5, "the count of web is 4 and 5"),
    (
        |plan| plan.cells[0].work.sets[0].workload = "spin".to_string(),
        "the workload of web is schbench and spin",
    ),
    (
        |plan| plan.cells[0].work.sets[0].name = "other".to_string(),
        "a worker set is called web and other",
    ),
    (
        |plan| {
            let set = plan.cells[0].work.sets[0].clone();
            plan.cells[0].work.sets.push(set);
        },
        "it has 1 and 2 worker sets",
    ),
    (|plan| plan.cells[0].work.sets[0].knobs = slice(), "the kind or the knobs of web differ"),
];

fn slice() -> BTreeMap<String, Value> {
    BTreeMap::from([("slice".to_string(), Value::DurationNs(3_000_000))])
}

fn two() -> [SampledPlan; 2] {
    let one = |id, at| rounds(plan(id, at, &["default"]), 0..10, &[1.0]);
    [one("p1", 1), one("p2", 2)]
}

#[test]
fn the_same_work_of_two_plans_is_compared() {
    let comparison = compared(&two(), &["p1", "p2"]);
    assert_eq!(comparison.refused, [""; 0]);
    assert_eq!(comparison.works[0].label, "web threads=4 [default]");
    let axis = |axis: &str, point: &str| (axis.to_string(), point.to_string());
    assert_eq!(comparison.works[0].axes, [axis("threads", "4"), axis("variant", "default")]);
    assert_eq!(comparison.method.pairing, Pairing::None);
    assert_eq!(comparison.remarks.len(), 1, "{:?}", comparison.remarks);
    assert!(comparison.remarks[0].starts_with("The sides were not measured in the same rounds"));
}

#[test]
fn other_work_of_the_same_name_is_refused_by_what_differs() {
    for (change, sentence) in CHANGES {
        let [first, mut second] = two();
        change(&mut second);
        let comparison = compared(&[first, second], &["p1", "p2"]);
        assert_eq!((comparison.works.len(), comparison.method.family), (0, 0), "{sentence}");
        let told = comparison.refused.join("\n");
        assert!(told.contains(sentence), "{sentence} is not in: {told}");
        assert!(
            told.contains("web threads=4 [default]: not the same work of p1 and p2: "),
            "{told}"
        );
        assert_eq!(comparison.refused.len(), 1, "told once: {told}");
    }
}

/// By sides that are variants a variant's own knobs are what is compared, not a part of the work.
#[test]
fn knobs_of_variants_that_are_sides_may_differ() {
    let mut plan = tens(1.0);
    plan.cells[1].variant.knobs = slice();
    assert_eq!(names(&compared(&[plan], &["default", "batch"])).len(), 2);
}

#[test]
fn work_of_some_sides_alone_is_told() {
    let one = |id, at, name| rounds(work(plan(id, at, &["default"]), name, 2), 0..10, &[1.0]);
    let plans = [one("p1", 1, "chat"), one("p2", 2, "mail"), one("p3", 3, "mail")];
    let comparison = compared(&plans, &["p1", "p2", "p3"]);
    assert_eq!(comparison.works.len(), 1);
    assert_eq!(
        comparison.refused,
        [
            "mail threads=2 [default]: only p2 and p3 have runs of it",
            "chat threads=2 [default]: only p1 has runs of it",
        ]
    );
}

#[test]
fn a_metric_that_a_side_lacks_is_missing_and_the_others_are_not() {
    let mut plan = plan("p1", 1, &["default", "batch"]);
    for round in 0..10 {
        run(&mut plan, round, 0, 1.0);
        run_of(&mut plan, round, 1, &[("throughput", 1000.0)]);
    }
    let comparison = compared(&[plan], &["default", "batch"]);
    assert_eq!(names(&comparison), ["web threads=4/web/throughput"]);
    assert_eq!(comparison.refused, [""; 0]);
    assert_eq!(
        comparison.missing,
        ["batch: no value of wakeup_p99 (web threads=4, web) in 10 of 10 runs"]
    );
}

#[test]
fn a_metric_whose_unit_has_changed_is_another_one() {
    let [first, mut second] = two();
    second.metrics[1].kind.unit = Unit::Count;
    let comparison = compared(&[first, second], &["p1", "p2"]);
    assert_eq!(names(&comparison), ["web threads=4 [default]/web/throughput"]);
    assert_eq!(
        comparison.refused,
        ["web threads=4 [default], web, wakeup_p99: its unit or its direction has changed"]
    );
    assert_eq!(comparison.missing, [""; 0]);
}

#[test]
fn metrics_that_are_unknown_in_some_rounds_are_missing_there() {
    let mut plan = plan("p1", 1, &["default", "batch"]);
    for round in 0..10 {
        run(&mut plan, round, 0, 1.0);
        let known = [("throughput", 1000.0), ("wakeup_p99", 2e4), ("wakeup_max", 9e4)];
        run_of(&mut plan, round, 1, if round < 3 { &known[..1] } else { &known });
    }
    let question = Question { all_metrics: true, ..asked(&[plan.clone()], &["default", "batch"]) };
    let comparison = compare(&[plan], &[], &question);
    assert_eq!(names(&comparison).len(), 3, "the others have values");
    assert_eq!(
        comparison.missing,
        [
            "batch: no value of wakeup_p99, wakeup_max (web threads=4, web) in 3 of 10 runs",
            "batch: no value of switches (web threads=4, web) in 10 of 10 runs",
        ]
    );
}

#[test]
fn a_metric_without_a_ratio_is_missing() {
    let mut plan = plan("p1", 1, &["default", "batch"]);
    for round in 0..10 {
        run(&mut plan, round, 0, 1.0);
        let throughput = if round < 7 { 0.0 } else { 3.0 };
        run_of(&mut plan, round, 1, &[("throughput", throughput), ("wakeup_p99", 2e4)]);
    }
    let comparison = compared(&[plan], &["default", "batch"]);
    assert_eq!(names(&comparison).len(), 2);
    assert_eq!(
        comparison.missing,
        [
            "batch: no ratio of throughput (web threads=4, web), whose median is 1000 of default and 0 \
          of batch: a ratio needs positive values, and round 0 has 0"
        ]
    );
}

fn lose(plan: &mut SampledPlan, round: u32, cell: u32, is_skipped: bool, reason: &str) {
    let (environment, reason) = (plan.environments.len() as u32 - 1, reason.to_string());
    let key = RunKey { round, cell };
    plan.issues.unmeasured.push(Unmeasured { key, environment, is_skipped, reason });
}

#[test]
fn runs_that_failed_are_missing_and_the_others_are_judged() {
    let mut plan = plan("p1", 1, &["default", "batch"]);
    for round in 0..12 {
        run(&mut plan, round, 0, 1.0);
        match round {
            0 => lose(&mut plan, 0, 1, false, "killed"),
            1..4 => lose(&mut plan, round, 1, false, "hung task"),
            4 => lose(&mut plan, 4, 1, true, "needs sched_ext"),
            _ => run(&mut plan, round, 1, 1.1),
        }
    }
    let comparison = compared(&[plan.clone()], &["default", "batch"]);
    assert_eq!(verdict(&comparison, "throughput"), &Verdict::Better);
    assert_eq!(
        comparison.missing,
        [
            "batch: 4 of 12 runs of web threads=4 failed: hung task (1 for other reasons)",
            "batch: 1 of 12 runs of web threads=4 were skipped: needs sched_ext",
        ]
    );
    // What is not asked for is not missing.
    let asks = |metric: &str| {
        let question = asked(&[plan.clone()], &["default", "batch"]);
        let question = Question { metrics: vec![metric.to_string()], ..question };
        compare(&[plan.clone()], &[], &question).missing.len()
    };
    assert_eq!((asks("web */web/throughput"), asks("chat/web/throughput")), (2, 0));
}

/// The runs of a cell read a knob back otherwise than asked.
fn untaken(plan: &mut SampledPlan, cell: u32, rounds: std::ops::Range<u32>) {
    for at in 0..plan.runs.len() {
        if plan.runs[at].key.cell == cell && rounds.contains(&plan.runs[at].key.round) {
            plan.issues.add_knob(at as u32, "policy", "batch", "other");
        }
    }
}

#[test]
fn a_knob_that_took_in_no_run_is_missing() {
    let missing = |rounds| {
        let mut plan = tens(1.1);
        untaken(&mut plan, 1, rounds);
        compared(&[plan], &["default", "batch"]).missing
    };
    assert_eq!(
        missing(0..10),
        ["batch: the knob policy was batch in no run of web threads=4: not what was asked for"]
    );
    assert_eq!(missing(1..10), [""; 0]);
}

#[test]
fn disturbances_and_knobs_that_did_not_take_are_told() {
    let mut plan = work(plan("p1", 1, &["default", "batch"]), "chat", 2);
    plan = rounds(plan, 0..10, &[1.0, 1.1]);
    untaken(&mut plan, 1, 0..10);
    for at in 0..plan.runs.len() {
        let RunKey { round, cell } = plan.runs[at].key;
        if cell % 2 == 1 || round > 0 {
            let twice = vec![DisturbanceKind::Steal; 2];
            plan.issues.add_disturbances(at as u32, twice);
        }
    }
    assert_eq!(
        compared(&[plan], &["default", "batch"]).remarks,
        [
            "batch: the knob policy was asked batch and read back other in 10 of 10 runs.",
            "Disturbed: steal in 18 of 20 runs of default, 20 of 20 runs of batch.",
        ]
    );
}

/// A plan of one variant on this kernel and machine.
fn on(id: &str, at: u64, kernel: &str, machine: &str) -> SampledPlan {
    let mut made = plan(id, at, &["default"]);
    made.environments = vec![environment(kernel, machine, None)];
    rounds(made, 0..6, &[1.0])
}

#[test]
fn sides_that_differ_in_machine_too_are_told() {
    let plans =
        [on("p1", 1, "6.1.1", "big"), on("p2", 2, "6.1.1", "small"), on("p3", 3, "6.12.1", "big")];
    let told = |sides: &[&str]| {
        let remarks = compared(&plans, sides).remarks;
        remarks.into_iter().filter(|told| told.contains("machine")).skip(1).collect::<Vec<_>>()
    };
    let differ = "The sides differ in machine too (6.1.* on big and small; 6.12.* on big): the ratio \
                  holds that as well.";
    let pools = "6.1.* pools the machines big and small: what differs between them is in the spread, \
                 and a verdict is on all together.";
    assert_eq!(told(&["6.1.*", "6.12.*"]), [differ, pools]);
    assert_eq!(told(&["p1", "p3"]), [""; 0], "one machine");
    assert_eq!(told(&["p1", "p2"]).len(), 1, "no one asked for that");
    assert_eq!(
        told(&["machine=big,kernel=6.1.1", "machine=small"]),
        [""; 0],
        "that is the question"
    );
    let kernels = compared(&plans, &["machine=small", "machine=big"]).remarks;
    assert!(
        kernels
            .iter()
            .any(|told| told.starts_with("machine=big pools the kernels 6.1.1 and 6.12.1: "))
    );
    assert!(
        kernels.iter().any(|told| told.starts_with("The sides differ in machine too")),
        "and in kernel"
    );
}

#[test]
fn a_plan_that_was_resumed_under_another_kernel_is_told() {
    let mut resumed = rounds(plan("p1", 1, &["default", "batch"]), 0..6, &[1.0, 1.1]);
    resumed.environments.push(environment("6.13.0", "big", Some("boot-2")));
    let resumed = rounds(resumed, 6..10, &[1.0, 1.1]);
    assert_eq!(
        compared(&[resumed], &["default", "batch"]).remarks,
        [
            "default and batch pool the kernels 6.12.0 and 6.13.0: what differs between them is in \
             the spread, and a verdict is on all together.",
            "p1 was resumed elsewhere: 6.12.0 on big, then 6.13.0 on big.",
        ]
    );
}

#[test]
fn the_head_counts_what_is_in_tables_and_the_rest_is_told() {
    let [first, mut second] = [("p1", 1), ("p2", 2)].map(|(id, at)| {
        let both = rounds(plan(id, at, &["default", "batch"]), 0..10, &[1.0, 1.1]);
        if id == "p1" { both } else { SampledPlan { ended: None, ..both } }
    });
    second.plan.measure.duration_ns *= 2;
    second.runs.retain(|run| run.key.cell == 0);
    let comparison = compared(&[first, second], &["variant=default,all", "variant=batch,all"]);
    assert_eq!(comparison.works.len(), 1);
    for side in &comparison.sides {
        assert_eq!((side.runs, side.plans.as_slice()), (10, &["p1".to_string()][..]), "{side:?}");
    }
    assert_eq!(
        comparison.remarks,
        ["variant=default,all has 10 runs besides, in p2, of work that was not compared."]
    );
}

#[test]
fn a_side_of_which_all_runs_failed_is_missing_and_not_refused() {
    let mut plan = work(plan("p1", 1, &["default", "batch"]), "chat", 2);
    for round in 0..10 {
        (0..3).for_each(|cell| run(&mut plan, round, cell, 1.0));
        lose(&mut plan, round, 3, false, "hung task");
    }
    let comparison = compared(&[plan.clone()], &["default", "batch"]);
    assert_eq!(comparison.works.len(), 1);
    assert_eq!(comparison.refused, [""; 0]);
    let sentence = "batch: 10 of 10 runs of chat threads=2 failed: hung task";
    assert_eq!(comparison.missing, [sentence]);
    let asks = |metric: &str| {
        let question = asked(&[plan.clone()], &["default", "batch"]);
        let question = Question { metrics: vec![metric.to_string()], ..question };
        compare(&[plan.clone()], &[], &question).missing.len()
    };
    assert_eq!((asks("throughput"), asks("web*/web/*"), asks("chat*/web/*")), (1, 0, 1));
    // Of both sides.
    let mut none = testing::plan("p1", 1, &["default", "batch"]);
    (0..2).for_each(|cell| lose(&mut none, 0, cell, true, "needs root"));
    let comparison = compared(&[none], &["default", "batch"]);
    assert_eq!((comparison.works.len(), comparison.refused.len()), (0, 0));
    let sentence = |side| format!("{side}: 1 of 1 runs of web threads=4 were skipped: needs root");
    assert_eq!(comparison.missing, ["default", "batch"].map(sentence));
}

#[test]
fn rounds_of_several_plans_are_counted_through_and_paired_where_all_sides_are_in_them() {
    let one = |id, at, count, of| rounds(plan(id, at, &["default", "batch"]), 0..count, of);
    let plans =
        [one("p1", 1, 3, &[1.0, 1.1]), one("p2", 2, 2, &[2.0, 2.2]), one("p3", 3, 4, &[3.0, 3.3])];
    let comparison = compared(&plans, &["variant=default,all", "variant=batch,all"]);
    assert_eq!(comparison.method.pairing, Pairing::WithinRounds);
    let through: Vec<u32> = (0..9).collect();
    assert_eq!(rounds_of(&comparison, "throughput"), [through.clone(), through]);
    let (_, row) = rows(&comparison).next().unwrap();
    // The first of each plan: it is the oldest plan's that comes first.
    let firsts: Vec<f64> = [0, 3, 5].map(|at: usize| row.cells[0].values[at].1.round()).to_vec();
    assert_eq!(firsts, [1000.0, 2000.0, 3000.0]);
    let ratio = row.cells[1].judged.unwrap().ratio.unwrap();
    assert!((ratio.ratio - 1.1).abs() < 0.001, "paired: {ratio:?}");
    assert_eq!(comparison.sides[0].plans, ["p1", "p2", "p3"]);
    let newest = compared(&plans, &["variant=default,last:2", "variant=batch,last"]);
    assert_eq!(newest.method.pairing, Pairing::None, "not the same plans");
}

#[test]
fn a_run_that_is_missing_in_a_round_is_missing_there_alone() {
    let mut plan = plan("p1", 1, &["default", "batch"]);
    for round in 0..10 {
        run(&mut plan, round, 0, 1.0);
        if round != 4 {
            run(&mut plan, round, 1, 1.5);
        }
    }
    let comparison = compared(&[plan], &["default", "batch"]);
    let rounds = rounds_of(&comparison, "throughput");
    assert_eq!((rounds[0].len(), &rounds[1][3..5]), (10, &[3, 5][..]));
    let (_, row) = rows(&comparison).next().unwrap();
    assert_eq!(row.cells[1].judged.unwrap().ratio.unwrap().pairs, 9);
    assert_eq!((comparison.sides[0].runs, comparison.sides[1].runs), (10, 9));
}

#[test]
fn a_plan_that_has_not_ended_is_compared_as_far_as_it_went() {
    let remarks = |ended| {
        let mut plan = tens(1.1);
        plan.ended = ended;
        let comparison = compared(&[plan], &["default", "batch"]);
        assert_eq!(verdict(&comparison, "throughput"), &Verdict::Better);
        comparison.remarks
    };
    let sentence = "Not ended yet, or interrupted, and compared as far as it went: p1.";
    assert_eq!(remarks(None), [sentence]);
    assert_eq!(remarks(Some(PlanEnd::Interrupted)), [sentence]);
    for ended in [PlanEnd::Complete, PlanEnd::Budget, PlanEnd::Decided] {
        assert_eq!(remarks(Some(ended)), [""; 0]);
    }
}

/// One plan of each kernel; each run of a plan is in the next of its boots.
fn kernels(boots: &[(&str, &[Option<&str>])]) -> Vec<SampledPlan> {
    let made = |(at, (kernel, boots)): (usize, &(&str, &[Option<&str>]))| {
        let mut made = plan(&format!("p{at}"), at as u64, &["default"]);
        made.environments.clear();
        for (round, boot) in boots.iter().enumerate() {
            made.environments.push(environment(kernel, "big", *boot));
            run(&mut made, round as u32, 0, 1.0);
        }
        made
    };
    boots.iter().enumerate().map(made).collect()
}

#[test]
fn boots_that_sides_do_not_share_are_told() {
    let remark = |boots: &[(&str, &[Option<&str>])]| {
        let plans = kernels(boots);
        let sides: Vec<&str> = boots.iter().map(|(kernel, _)| *kernel).collect();
        let remarks = compared(&plans, &sides).remarks;
        let mut found = remarks.into_iter().filter(|remark| remark.starts_with("Boot-to-boot"));
        let told = found.next();
        assert_eq!(found.next(), None, "told once");
        told
    };
    let (a, b, c) = (Some("a"), Some("b"), Some("c"));
    let (d, e, f) = (Some("d"), Some("e"), Some("f"));
    assert_eq!(
        remark(&[("6.1", &[a]), ("6.2", &[b])]).as_deref(),
        Some(
            "Boot-to-boot variation is not covered: 6.1 was measured in one boot and 6.2 in one \
             boot. To cover it, reboot into each in turn, 3 times or more, run the plan each \
             time, and compare all of these plans."
        )
    );
    let told = remark(&[("6.1", &[a, b, c]), ("6.2", &[d, e, d])]).unwrap();
    assert!(told.contains("6.1 was measured in 3 boots and 6.2 in 2 boots"), "{told}");
    assert_eq!(remark(&[("6.1", &[a, b, c]), ("6.2", &[d, e, f])]), None, "enough of them");
    assert_eq!(remark(&[("6.1", &[a, b]), ("6.2", &[b])]), None, "one is shared");
    assert_eq!(remark(&[("6.1", &[a]), ("6.2", &[None])]), None, "nothing is known");
    let told = remark(&[("6.1", &[a]), ("6.2", &[None]), ("6.3", &[b])]).unwrap();
    assert!(told.contains("6.1 was measured in one boot and 6.3 in one boot"), "{told}");
    let boots = |boots: &[Option<&str>]| {
        compared(&kernels(&[("6.1", boots), ("6.2", boots)]), &["6.1", "6.2"])
    };
    assert_eq!(boots(&[a, b, a]).sides[0].boots, Some(2));
    assert_eq!(boots(&[a, None]).sides[0].boots, None);
}

/// A plan that was resumed under another kernel has both.
#[test]
fn of_a_resumed_plan_each_kernel_has_its_own_runs() {
    let mut resumed = rounds(plan("p1", 1, &["default"]), 0..6, &[1.0]);
    resumed.environments.push(environment("6.13.0", "big", Some("boot-2")));
    let resumed = rounds(resumed, 6..10, &[1.0]);
    let sides = ["variant=default,kernel=6.12.0", "variant=default,kernel=6.13.0"];
    let comparison = compared(&[resumed], &sides);
    let own = |range: std::ops::Range<u32>| range.collect::<Vec<u32>>();
    assert_eq!(rounds_of(&comparison, "throughput"), [own(0..6), own(6..10)]);
    assert_eq!(comparison.sides[1].kernels, ["6.13.0"]);
    assert_eq!(comparison.method.pairing, Pairing::None, "their rounds are not the same");
}

#[test]
fn figures_that_are_invented_are_told() {
    let mut plan = tens(1.0);
    plan.backend = "null".to_string();
    let remarks = compared(&[plan], &["default", "batch"]).remarks;
    assert_eq!(remarks, ["The backend null invents its figures."]);
}

#[test]
fn a_side_of_several_variants_is_refused_and_not_mixed() {
    let [first, second] = [("p1", 1), ("p2", 2)]
        .map(|(id, at)| rounds(plan(id, at, &["a", "b", "c"]), 0..10, &[1.0, 1.1, 1.2]));
    let plans = [first, second];
    let comparison = compared(&plans, &["variant=a", "variant=*,p2"]);
    assert_eq!(comparison.works.len(), 0);
    assert_eq!(
        comparison.refused,
        ["web threads=4 of variant=*,p2 mixes the variants a, b, c: name one of them"]
    );
    // A side that tells no variant, beside one that does.
    let comparison = compared(&plans, &["p1,a", "p2"]);
    assert_eq!(
        comparison.refused,
        ["web threads=4 of p2 mixes the variants a, b, c: name one of them"]
    );
    // One name, two meanings.
    let [first, mut second] = plans;
    second.cells[1].variant.knobs = slice();
    let comparison = compared(&[first, second], &["variant=a,all", "variant=b,all"]);
    assert_eq!(comparison.works.len(), 0);
    assert_eq!(
        comparison.refused,
        ["web threads=4 of variant=b,all: the knobs of b differ from plan to plan"]
    );
}

fn floor(floors: &[SampledPlan], plan: &SampledPlan, metric: &str) -> f64 {
    let question = asked(std::slice::from_ref(plan), &["default", "batch"]);
    let works = gather(std::slice::from_ref(plan), &question.sides, false);
    Floors::of(floors).of_metric(&works[0], "web", metric).map_or(0.0, |(floor, _)| floor)
}

fn aa(id: &str, at: u64, ratio: f64) -> SampledPlan {
    let mut made = rounds(plan(id, at, &["default", "default-again"]), 0..10, &[1.0, ratio]);
    made.plan.aa = true;
    made
}

#[test]
fn floors_are_of_the_newest_aa_plan_of_the_same_work() {
    let near = |floor: f64, expected: f64| (floor - expected).abs() < 0.001;
    let own = tens(1.1);
    let [old, new] = [aa("p2", 2, 1.05), aa("p3", 3, 1.03)];
    assert_eq!(floor(&[], &own, "throughput"), 0.0);
    assert!(near(floor(std::slice::from_ref(&old), &own, "throughput"), 0.05));
    let two = [old.clone(), new.clone()];
    assert!(near(floor(&two, &own, "throughput"), 0.03), "{}", floor(&two, &own, "throughput"));
    assert!(near(floor(&two, &own, "wakeup_p99"), 0.03));
    assert_eq!(floor(&two, &own, "nonesuch"), 0.0);
    // Below 1 it is as far from it as above.
    let down = floor(&[aa("p2", 2, 1.0 / 1.05)], &own, "throughput");
    assert!(near(down, 0.05), "{down}");
    // The newer one did other work.
    let mut other = new;
    other.plan.measure.duration_ns *= 2;
    assert!(near(floor(&[old, other], &own, "throughput"), 0.05));
}

#[test]
fn an_aa_plan_of_few_rounds_has_no_floor() {
    let own = tens(1.1);
    let of_rounds = |at, count| {
        let mut made = plan(&format!("a{at}"), at, &["default", "default-again"]);
        made.plan.aa = true;
        rounds(made, 0..count, &[1.0, 1.05])
    };
    assert_eq!(floor(&[of_rounds(2, 7)], &own, "throughput"), 0.0);
    assert!(floor(&[of_rounds(2, 8)], &own, "throughput") > 0.049);
    let [older, short] = [of_rounds(2, 8), of_rounds(3, 7)];
    assert!(floor(&[older, short], &own, "throughput") > 0.049, "the one before it counts");
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
fn the_plans_whose_floors_hold_are_named() {
    let plans = [tens(1.04)];
    let named = |floors: &[SampledPlan], metric: &str| {
        let question = asked(&plans, &["default", "batch"]);
        let question = Question { metrics: vec![metric.to_string()], ..question };
        compare(&plans, floors, &question).method.floors
    };
    let [old, mut new] = [aa("a1", 2, 1.05), aa("a2", 3, 1.05)];
    new.plan.measure.duration_ns *= 2;
    assert_eq!(named(&[old.clone(), new.clone()], "*"), ["a1"]);
    assert_eq!(named(&[old, new.clone()], "switches"), [""; 0], "it has no verdict");
    assert_eq!(named(&[new], "*"), [""; 0]);
}

#[test]
fn runs_that_two_sides_share_are_counted() {
    let one = |id, at, variants: &[&str]| rounds(plan(id, at, variants), 0..10, &[1.0, 1.1]);
    let plans = [
        one("p1", 1, &["default"]),
        one("p2", 2, &["default", "default-again"]),
        on("p3", 3, "6.13.0", "small"),
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

fn until_decided(ratio: f64, count: u32, ended: Option<PlanEnd>) -> Comparison {
    let mut plan = rounds(plan("p1", 1, &["default", "batch"]), 0..count, &[1.0, ratio]);
    plan.plan.measure.until_decided = true;
    plan.ended = ended;
    compared(&[plan], &["default", "batch"])
}

#[test]
fn a_plan_until_decided_is_judged_by_looks() {
    let looks = |count, ended| until_decided(1.1, count, ended).method.looks.unwrap();
    assert_eq!(looks(7, None), [0; 0]);
    assert_eq!(looks(12, None), [8, 10]);
    assert_eq!(looks(12, Some(PlanEnd::Interrupted)), [8, 10]);
    assert_eq!(looks(12, Some(PlanEnd::Budget)), [8, 10, 12]);
    assert_eq!(looks(12, Some(PlanEnd::Complete)), [8, 10, 12]);
    assert_eq!(looks(13, Some(PlanEnd::Decided)), [8, 10, 13]);
    let decided = until_decided(1.1, 12, None);
    let (_, row) = rows(&decided).next().unwrap();
    assert_eq!(row.cells[1].judged.unwrap().decided_at, Some(8));
    assert_eq!(compared(&[tens(1.1)], &["default", "batch"]).method.looks, None);
}

/// What decided the end looked at the figures, so the end gives no look more to spend.
#[test]
fn verdicts_after_the_end_of_a_plan_that_was_decided_are_those_that_ended_it() {
    // Of 256 ways to flip signs 8 are as far out: p is 3.1 %, more than half of 5 %.
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
        question.margin = 0.001;
        *verdict(&compare(&plans, &[], &question), "throughput")
    };
    for ended in [None, Some(PlanEnd::Interrupted), Some(PlanEnd::Decided)] {
        assert!(matches!(nearly(ended), Verdict::Inconclusive { .. }), "{ended:?}");
    }
    for ended in [Some(PlanEnd::Budget), Some(PlanEnd::Complete)] {
        assert_eq!(nearly(ended), Verdict::Better, "{ended:?}");
    }
}

#[test]
fn looks_are_at_variants_of_one_plan_alone() {
    let plans = [("p1", 1), ("p2", 2)].map(|(id, at)| {
        let mut one = rounds(plan(id, at, &["a", "b"]), 0..10, &[1.0, 1.1]);
        one.plan.measure.until_decided = true;
        one
    });
    let looks = |plans: &[SampledPlan], sides: &[&str]| compared(plans, sides).method.looks;
    assert_eq!(looks(&plans[..1], &["a", "b"]), Some(vec![8, 10]));
    assert_eq!(looks(&plans, &["p1", "p2"]), None);
    assert_eq!(looks(&plans, &["variant=a,all", "variant=b,all"]), None);
}

#[test]
fn nothing_measured_is_nothing_to_compare() {
    let comparison = compared(&[testing::plan("p1", 1, &["a", "b"])], &["a", "b"]);
    assert_eq!((comparison.works.len(), comparison.method.family), (0, 0));
    assert_eq!((comparison.sides[0].runs, comparison.sides[0].boots), (0, Some(0)));
    assert_eq!(comparison.refused, [""; 0]);
}

#[test]
fn a_variant_that_was_not_measured_leaves_the_others_their_verdicts() {
    let mut three = plan("p1", 1, &["default", "slower", "gone"]);
    for round in 0..10 {
        run(&mut three, round, 0, 1.0);
        run(&mut three, round, 1, 1.1);
    }
    let comparison = compared(&[three], &["default", "slower", "gone"]);
    let (_, row) = rows(&comparison).find(|(_, row)| row.metric == "wakeup_p99").unwrap();
    assert!(row.cells[1].judged.is_some(), "{row:?}");
    assert_eq!((row.cells[2].judged, row.cells[2].median), (None, None));
    assert_eq!(verdict(&comparison, "wakeup_p99"), &Verdict::Worse);
}

#[test]
fn what_never_happened_on_both_sides_has_no_verdict_and_is_not_missing() {
    let mut both = plan("p1", 1, &["default", "batch"]);
    for round in 0..10 {
        let wave = 1.0 + f64::from(round % 3) / 1000.0;
        run_of(&mut both, round, 0, &[("throughput", wave), ("wakeup_p99", 0.0)]);
        run_of(&mut both, round, 1, &[("throughput", wave), ("wakeup_p99", 0.0)]);
    }
    let comparison = compared(&[both], &["default", "batch"]);
    let (_, row) = rows(&comparison).find(|(_, row)| row.metric == "wakeup_p99").unwrap();
    assert_eq!(row.cells[1].judged, None);
    assert_eq!(comparison.missing, Vec::<String>::new());
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
    let verdict_of = |sides: &[&str]| *verdict(&compared(&plans, sides), "wakeup_p99");
    let Verdict::Inconclusive { why: Why::BelowFloor { floor }, .. } =
        verdict_of(&["until=1970-01-01T00:00:00.000000011", "p10"])
    else {
        panic!("{:?}", verdict_of(&["until=1970-01-01T00:00:00.000000011", "p10"]));
    };
    assert!((0.03..0.06).contains(&floor), "{floor}");
    assert_eq!(verdict_of(&["p00", "p10"]), Verdict::Worse, "of two plans nobody knows");
}

/// Round, cell and metrics of a run.
type ProbedRun<'a> = (u32, u32, &'a [(&'a str, f64)]);

/// A plan of two variants with a probe, by what each run tells.
fn probed(runs: &[ProbedRun]) -> SampledPlan {
    let mut probed = plan("p1", 1, &["default", "batch"]);
    probed.plan.probes = vec!["sched".to_string()];
    for name in ["worker_voluntary_switches", "worker_involuntary_switches", "worker_slice_p50"] {
        let mut switches = probed.metrics[3].clone();
        switches.kind = MetricKind::legacy("schbench", name, Unit::PerS, Direction::Neutral);
        probed.metrics.push(switches);
    }
    for (round, cell, metrics) in runs {
        run_of(&mut probed, *round, *cell, metrics);
    }
    probed
}

#[test]
fn switches_of_roles_are_told_beside_the_throughput_per_second_and_per_operation() {
    let (voluntary, involuntary) = ("worker_voluntary_switches", "worker_involuntary_switches");
    let plans = [probed(&[
        (0, 0, &[("throughput", 100.0), (voluntary, 200.0), (involuntary, 0.0)]),
        (0, 1, &[("throughput", 50.0), (voluntary, 5.0), (involuntary, 30.0)]),
        (1, 0, &[("throughput", 300.0), (voluntary, 600.0), (involuntary, 0.0)]),
        // Of the one the probe told nothing, of the other the workload.
        (1, 1, &[("throughput", 9.0), (involuntary, 10.0)]),
        (2, 1, &[(voluntary, 7.0), (involuntary, 2.0), ("worker_slice_p50", 1.0)]),
    ])];
    let comparison = compared(&plans, &["default", "batch"]);
    let set = &comparison.works[0].sets[0];
    assert_eq!(names(&comparison), ["web threads=4/web/throughput"], "they are no rows");
    assert_eq!(comparison.method.family, 1, "and no verdicts");
    let told: Vec<(&str, bool)> =
        set.switches.iter().map(|own| (own.role.as_str(), own.is_voluntary)).collect();
    assert_eq!(told, [("worker", true), ("worker", false)]);
    let [own, lost] = set.switches.as_slice() else { panic!() };
    assert_eq!(own.row.normalised(), [Some(1.0), Some(6.0 / 400.0)]);
    assert_eq!(own.per_op, [Some(2.0), Some(5.0 / 50.0)]);
    assert_eq!(own.normalised_per_op(), [Some(1.0), Some(0.05)]);
    assert!(own.row.cells.iter().all(|cell| cell.judged.is_none() && cell.shapes.is_empty()));
    assert_eq!(lost.row.normalised(), [None, None], "nothing is so many times 0");
    assert_eq!(lost.per_op, [Some(0.0), Some(40.0 / 59.0)]);
    let mut alone = asked(&plans, &["default", "batch"]);
    alone.metrics = vec!["*_switches".to_string()];
    let alone = compare(&plans, &[], &alone);
    assert_eq!(names(&alone).len(), 2);
    assert!(alone.works[0].sets[0].switches.is_empty(), "there is no throughput beside them");
    assert!(!alone.missing.iter().any(|text| text.contains("no ratio")), "{:?}", alone.missing);
}

#[test]
fn a_probe_that_told_nothing_is_told_of() {
    let told = |plan: SampledPlan| {
        let told = compared(&[plan], &["default", "batch"]).remarks.join("\n");
        told.contains("the probe `sched` told no switches")
    };
    let voluntary = "worker_voluntary_switches";
    let with = [("throughput", 100.0), (voluntary, 0.0)];
    assert!(told(probed(&[(0, 0, &with), (0, 1, &with[..1])])));
    assert!(!told(probed(&[(0, 0, &with), (0, 1, &with)])));
    let mut without = probed(&[(0, 0, &with[..1]), (0, 1, &with[..1])]);
    without.plan.probes.clear();
    assert!(!told(without));
}

#[test]
fn runs_under_a_probe_did_more_than_runs_without() {
    let bare = rounds(plan("p1", 1, &["default"]), 0..3, &[1.0]);
    let mut probed = rounds(plan("p2", 2, &["default"]), 0..3, &[1.0]);
    probed.plan.probes = vec!["sched".to_string()];
    let comparison = compared(&[bare, probed], &["p1", "p2"]);
    assert!(comparison.works.is_empty());
    assert!(
        comparison.refused[0].ends_with("the probe is none and sched"),
        "{:?}",
        comparison.refused
    );
}
