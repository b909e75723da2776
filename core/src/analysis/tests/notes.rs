//! Notes are typed facts: what was not compared and why, what could not be judged, and what a
//! reader of the verdicts has to know.

use std::collections::BTreeMap;
use std::ops::Range;

use super::*;
use crate::analysis::UselessKnob;
use crate::analysis::testing::{disturb, lose, mismatch};
use crate::model::{
    Calibration, Disturbance, DisturbanceFact, DisturbanceKind, KnobReading, Placement, Reading,
    RunKey, SampledVersion, Value,
};

pub fn slice() -> BTreeMap<String, Value> {
    BTreeMap::from([("slice".to_string(), Value::DurationNs(3_000_000))])
}

pub fn two() -> [SampledPlan; 2] {
    let one = |id, at| rounds(plan(id, at, &["default"]), 0..10, &[1.0]);
    [one("p1", 1), one("p2", 2)]
}

/// A plan of one variant on this kernel and machine.
pub fn on(id: &str, at: u64, kernel: &str, machine: &str) -> SampledPlan {
    let mut made = plan(id, at, &["default"]);
    made.environments = vec![environment(kernel, machine, None)];
    rounds(made, 0..6, &[1.0])
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| text.to_string()).collect()
}

fn text(text: &str) -> String {
    text.to_string()
}

fn gaps(analysis: &Analysis) -> Vec<&Note> {
    analysis.notes.iter().filter(|note| note.is_gap()).collect()
}

/// The number of gaps of `default` against `batch` where this metric is asked for.
fn gaps_of(plan: &SampledPlan, metric: &str) -> usize {
    let question = of_variants(plan);
    let question = Question { metrics: vec![metric.to_string()], ..question };
    gaps(&analyse(std::slice::from_ref(plan), &[], &question)).len()
}

/// A change to the second of two plans, and the difference that it makes.
type Change = (fn(&mut SampledPlan), Difference);

fn field(field: &str, own: &str, other: &str) -> Difference {
    let (field, own, other) = (text(field), text(own), text(other));
    Difference::Field { set: text("web"), field, own, other }
}

fn time(what: &'static str, own_ns: u64, other_ns: u64) -> Difference {
    Difference::Time { what, own_ns, other_ns }
}

fn changes() -> Vec<Change> {
    const S: u64 = 1_000_000_000;
    vec![
        (|plan| plan.backend = text("lab"), Difference::Backend(text("local"), text("lab"))),
        (|plan| plan.plan.measure.duration_ns *= 2, time("duration", 5 * S, 10 * S)),
        (
            |plan| {
                plan.plan.has_lab_durations = true;
                plan.cells.iter_mut().for_each(|cell| cell.work.lab_duration_ns = Some(2 * S));
            },
            time("duration", 5 * S, 2 * S),
        ),
        (|plan| plan.plan.measure.warmup_ns = 0, time("warm-up", S, 0)),
        (|plan| plan.plan.measure.window_ns /= 2, time("window", S, S / 2)),
        (
            |plan| plan.plan.probes = texts(&["sched"]),
            Difference::Probes(Vec::new(), texts(&["sched"])),
        ),
        (
            |plan| {
                for cell in &mut plan.cells {
                    cell.placement = Placement { cpus: "0-1".parse().ok(), ..Placement::default() };
                }
            },
            Difference::Placement,
        ),
        (|plan| plan.cells[0].variant.knobs = slice(), Difference::VariantKnobs),
        (
            |plan| {
                let params = &mut plan.cells[0].work.sets[0].params;
                params.insert("operations".to_string(), Value::Int(7));
            },
            field("operations", "5", "7"),
        ),
        (|plan| plan.cells[0].work.sets[0].params.clear(), field("operations", "5", "not there")),
        (|plan| plan.cells[0].work.sets[0].count = 5, field("count", "4", "5")),
        (
            |plan| plan.cells[0].work.sets[0].workload = text("spin"),
            field("workload", "schbench", "spin"),
        ),
        (|plan| plan.cells[0].work.sets[0].name = text("other"), field("name", "web", "other")),
        (
            |plan| {
                let set = plan.cells[0].work.sets[0].clone();
                plan.cells[0].work.sets.push(set);
            },
            Difference::Sets(1, 2),
        ),
        (|plan| plan.cells[0].work.sets[0].knobs = slice(), Difference::SetKnobs(text("web"))),
    ]
}

#[test]
fn other_work_of_the_same_name_is_refused_once_by_what_differs() {
    for (change, difference) in changes() {
        let [first, mut second] = two();
        change(&mut second);
        let analysis = analysed(&[first, second], &["p1", "p2"]);
        let verdicts = analysis.method.headline_verdicts;
        assert_eq!((analysis.works.len(), verdicts), (0, 0), "{difference:?}");
        let (works, sides, others) =
            (texts(&["web threads=4 [default]"]), texts(&["p1"]), texts(&["p2"]));
        let note = Note::NotSameWork { works, sides, others, why: difference };
        assert_eq!(refusals(&analysis), [&note]);
    }
}

#[test]
fn work_of_some_sides_only_is_refused() {
    let one = |id, at, name| rounds(work(plan(id, at, &["default"]), name, 2), 0..10, &[1.0]);
    let plans = [one("p1", 1, "chat"), one("p2", 2, "mail"), one("p3", 3, "mail")];
    let analysis = analysed(&plans, &["p1", "p2", "p3"]);
    assert_eq!(analysis.works.len(), 1);
    let only =
        |work: &str, sides: &[&str]| Note::OnlyOn { works: texts(&[work]), sides: texts(sides) };
    let [mail, chat] = [
        only("mail threads=2 [default]", &["p2", "p3"]),
        only("chat threads=2 [default]", &["p1"]),
    ];
    assert_eq!(refusals(&analysis), [&mail, &chat]);
}

#[test]
fn a_work_without_a_value_that_failures_explain_is_not_refused_as_well() {
    let [first, mut second] = two();
    second.runs.clear();
    lose(&mut second, 0, 0, false, "no such file");
    let no_value = SampledPlan { runs: Vec::new(), ..first.clone() };
    for plans in [[first.clone(), second.clone()], [no_value, second]] {
        let analysis = analysed(&plans, &["p1", "p2"]);
        assert_eq!((analysis.works.len(), refusals(&analysis)), (0, Vec::new()));
    }
}

#[test]
fn works_that_only_the_baseline_of_against_has_are_not_asked_about() {
    let one = |id, at, name| rounds(work(plan(id, at, &["default"]), name, 2), 0..10, &[1.0]);
    let mut other = one("p3", 3, "chat");
    other.cells.last_mut().unwrap().work.sets[0].count = 5;
    let plans = [one("p1", 1, "chat"), one("p2", 2, "mail"), other, one("p4", 4, "mail")];
    let against = |plans: &[SampledPlan], sides: &[&str]| {
        analyse(plans, &[], &Question { against: true, ..asked(plans, sides) })
    };
    let stored = &plans[..3].iter().map(|plan| plan.id.clone()).collect::<Vec<_>>();
    let mut question = Question { against: true, ..asked(&plans, &["p1", "p4"]) };
    question.sides[0] = question.sides[0].with_plans(stored.clone());
    let analysis = analyse(&plans, &[], &question);
    assert_eq!((analysis.works.len(), refusals(&analysis)), (2, Vec::new()));
    let only = against(&plans, &["p1", "p4"]);
    let mail = Note::OnlyOn { works: texts(&["mail threads=2 [default]"]), sides: texts(&["p4"]) };
    assert_eq!((only.works.len(), refusals(&only)), (1, vec![&mail]), "the plan's own is named");
    // A work of both sides that differs is refused as ever.
    let [first, mut second] = two();
    second.plan.measure.duration_ns *= 2;
    let differs = against(&[first, second], &["p1", "p2"]);
    assert!(matches!(refusals(&differs)[..], [Note::NotSameWork { .. }]));
}

#[test]
fn a_side_of_several_variants_is_refused_and_not_mixed() {
    let [first, second] = [("p1", 1), ("p2", 2)]
        .map(|(id, at)| rounds(plan(id, at, &["a", "b", "c"]), 0..10, &[1.0, 1.1, 1.2]));
    let plans = [first, second];
    let mixed = |side: &str| Note::MixedVariants {
        work: text("web threads=4"),
        side: text(side),
        variants: texts(&["a", "b", "c"]),
    };
    let analysis = analysed(&plans, &["variant=a", "variant=*,p2"]);
    assert_eq!(analysis.works.len(), 0);
    assert_eq!(refusals(&analysis), [&mixed("variant=*,p2")]);
    // A side without a variant, against one that names it.
    assert_eq!(refusals(&analysed(&plans, &["p1,a", "p2"])), [&mixed("p2")]);
    // One name, two meanings.
    let [first, mut second] = plans;
    second.cells[1].variant.knobs = slice();
    let analysis = analysed(&[first, second], &["variant=a,all", "variant=b,all"]);
    assert_eq!(analysis.works.len(), 0);
    let (work, side, variant) = (text("web threads=4"), text("variant=b,all"), text("b"));
    assert_eq!(refusals(&analysis), [&Note::KnobsDiffer { work, side, variant }]);
}

fn no_value(metrics: &[&str], runs: usize, reason: Option<&str>) -> Note {
    Note::NoValue(NoValue {
        side: text("batch"),
        work: text("web threads=4"),
        set: text("web"),
        metrics: texts(metrics),
        runs,
        of: 10,
        reason: reason.map(text),
    })
}

#[test]
fn headline_metrics_without_values_are_gaps_those_of_one_set_in_one_note() {
    let judged = |metrics: fn(u32) -> &'static [(&'static str, f64)], why: Option<&str>| {
        let mut plan = plan("p1", 1, &["default", "batch"]);
        for round in 0..10 {
            run(&mut plan, round, 0, 1.0);
            let metrics = metrics(round);
            run_of(&mut plan, round, 1, metrics);
            if let Some(why) = why.filter(|_| metrics.len() < 2) {
                unknown(&mut plan, "wakeup_p99", why);
            }
        }
        let question = of_variants(&plan);
        analyse(&[plan], &[], &Question { explaining: true, ..question })
    };
    let known: fn(u32) -> &'static [(&'static str, f64)] = |round| match round {
        0..2 => &[("throughput", 1000.0)],
        _ => &[("throughput", 1000.0), ("wakeup_p99", 2e4)],
    };
    assert_eq!(judged(known, None).notes, [no_value(&["wakeup_p99"], 2, None)]);
    let why = Some("no samples");
    assert_eq!(judged(known, why).notes, [no_value(&["wakeup_p99"], 2, why)]);
    let nothing = judged(|_| &[], None);
    assert_eq!(nothing.notes, [no_value(&["throughput", "wakeup_p99"], 10, None)]);
    assert!(nothing.notes[0].is_gap() && nothing.notes[0].severity() == Severity::Bad);
    // An explaining metric makes no gap.
    assert_eq!(names(&nothing, Family::Explaining).len(), 2);
}

/// A p99 that is unknown where tasks starved is known in good rounds alone: they make no verdict.
#[test]
fn values_that_many_runs_lack_are_not_judged_by_the_other_runs() {
    let judged = |rounds: u32, lacking: [u32; 2], paired: bool| {
        let mut plan = plan("p1", 1, &["default", "batch"]);
        for round in 0..rounds {
            for (side, of) in lacking.iter().enumerate() {
                let p99 = ("wakeup_p99", if side == 0 { 2e4 } else { 1e4 } + f64::from(round));
                let known = [("throughput", 1000.0), p99];
                run_of(&mut plan, round, side as u32, &known[..if round < *of { 1 } else { 2 }]);
            }
        }
        let mut other = plan.clone();
        other.id = text("p2");
        let sides: &[&str] =
            if paired { &["default", "batch"] } else { &["p1,default", "p2,batch"] };
        let analysis = analysed(&[plan, other][..if paired { 1 } else { 2 }], sides);
        let (cell, why) = (row(&analysis, "wakeup_p99").cells[1].judged.unwrap(), lacking);
        let refused = NoEffect::OftenUnknown { lacking: why, runs: [rounds; 2] };
        assert!(matches!(
            verdict(&analysis, "throughput"),
            Verdict::Same | Verdict::Inconclusive { .. }
        ));
        if cell.effect.is_ok() {
            assert!(rounds < 20 || cell.verdict == Verdict::Better);
            return true;
        }
        assert_eq!((cell.effect, cell.bound), (Err(refused), None));
        assert_eq!(cell.verdict, Verdict::Unjudged(Unjudged::NoEffect(refused)));
        assert_eq!(analysis.method.headline_verdicts, 2, "it keeps its place");
        false
    };
    for paired in [true, false] {
        let cases: &[(u32, [u32; 2], bool)] = &[
            (20, [0, 0], true),
            (20, [0, 4], true),   // a fifth more
            (20, [0, 5], false),  // more than a fifth
            (20, [5, 0], false),  // of the baseline
            (20, [10, 10], true), // half of both
            (20, [11, 11], false),
            (20, [8, 12], false),
            (4, [0, 1], true), // more than a fifth, and by chance
            (4, [0, 2], false),
        ];
        for (rounds, lacking, is_judged) in cases {
            assert_eq!(judged(*rounds, *lacking, paired), *is_judged, "{lacking:?} {paired}");
        }
    }
}

#[test]
fn runs_that_failed_are_gaps_and_the_others_are_judged_if_there_are_enough() {
    for (rounds, is_judged) in [(24, true), (12, false)] {
        let analysis = analysed(&[with_failures(rounds)], &["default", "batch"]);
        let refused = NoEffect::OftenUnknown { lacking: [0, 4], runs: [rounds, rounds - 1] };
        let refused = Verdict::Unjudged(Unjudged::NoEffect(refused));
        let expected = if is_judged { Verdict::Better } else { refused };
        assert_eq!(verdict(&analysis, "throughput"), expected);
        let (side, work) = (text("batch"), text("web threads=4"));
        let failed = Note::Failed {
            side: side.clone(),
            work: work.clone(),
            runs: 4,
            of: rounds as usize,
            reason: text("`w1` (pid 71) hung"),
            others: 1,
        };
        let skipped =
            Note::Skipped { sides: vec![side], works: vec![work], reason: text("needs sched_ext") };
        assert!(gaps(&analysis).starts_with(&[&failed, &skipped]), "{:?}", gaps(&analysis));
    }
    // A metric that is not asked for makes no gap.
    let of = |metric| gaps_of(&with_failures(24), metric);
    assert_eq!((of("web */web/throughput"), of("chat/web/throughput")), (2, 0));
}

/// A round that load from outside spoilt does not count, nor does the failure in it.
#[test]
fn failures_in_spoilt_rounds_are_no_lacking_values() {
    for is_spoilt in [true, false] {
        let mut plan = plan("p1", 1, &["default", "batch"]);
        for round in 0..20 {
            run(&mut plan, round, 0, 1.0);
            if round >= 5 {
                run(&mut plan, round, 1, 1.1);
                continue;
            }
            if is_spoilt {
                let at = plan.runs.len() - 1;
                disturb(&mut plan, at, DisturbanceKind::Steal, Some(0.3));
            }
            lose(&mut plan, round, 1, false, "it stalled");
        }
        let verdict = verdict(&analysed(&[plan], &["default", "batch"]), "throughput");
        assert_eq!(verdict == Verdict::Better, is_spoilt, "{verdict:?}");
    }
}

/// Four runs of `batch` fail, and one is skipped.
fn with_failures(rounds: u32) -> SampledPlan {
    let mut plan = plan("p1", 1, &["default", "batch"]);
    for round in 0..rounds {
        run(&mut plan, round, 0, 1.0);
        match round {
            0 => lose(&mut plan, 0, 1, false, "killed"),
            1..4 => lose(&mut plan, round, 1, false, &format!("`w{round}` (pid 7{round}) hung")),
            4 => lose(&mut plan, 4, 1, true, "needs sched_ext"),
            _ => run(&mut plan, round, 1, 1.1),
        }
    }
    plan
}

#[test]
fn a_variant_that_cannot_be_had_here_has_one_note_and_no_advice_on_boots_or_kernels() {
    for environments in [1, 4] {
        let mut plan = work(plan("p1", 1, &["default", "batch", "scx"]), "chat", 2);
        plan.environments = (0..environments)
            .map(|at| environment("6.12.0", "big", Some(&format!("boot-{at}"))))
            .collect();
        for round in 0..10 {
            for cell in 0..6 {
                match cell % 3 {
                    2 => lose(&mut plan, round, cell, true, "needs sched_ext"),
                    _ => run(&mut plan, round, cell, 1.0),
                }
            }
        }
        let analysis = analysed(&[plan], &["default", "batch", "scx"]);
        let works = texts(&["web threads=4", "chat threads=2"]);
        let reason = text("needs sched_ext");
        assert_eq!(analysis.notes, [Note::Skipped { sides: texts(&["scx"]), works, reason }]);
        assert_eq!(analysis.method.headline_verdicts, 4, "of batch");
        assert_eq!((analysis.sides[2].runs, analysis.sides[2].kernels.len()), (0, 0));
    }
}

/// One of two rounds has a pair.
#[test]
fn rounds_that_lack_a_pair_count_among_those_that_decide() {
    let needed = |every: u32| {
        let mut plan = plan("p1", 1, &["default", "batch"]);
        for (at, factors) in [(1.0, 1.03), (1.01, 1.0), (0.99, 1.02)].into_iter().enumerate() {
            for round in at as u32 * every..(at as u32 + 1) * every {
                // The sides fail in turn.
                let fails = (round % every > 0).then_some(round / every % 2);
                for (side, factor) in [factors.0, factors.1].into_iter().enumerate() {
                    match fails == Some(side as u32) {
                        true => lose(&mut plan, round, side as u32, false, "it stalled"),
                        false => run(&mut plan, round, side as u32, factor),
                    }
                }
            }
        }
        let analysis = analysed(&[plan], &["default", "batch"]);
        let (.., row) = analysis.rows().next().unwrap();
        match row.cells[1].verdict() {
            Some(Verdict::Inconclusive {
                rounds: crate::stats::Rounds::Number(rounds), ..
            }) => rounds,
            other => panic!("{other:?}"),
        }
    };
    let alone = needed(1);
    assert!(alone > 3, "{alone}");
    assert_eq!(needed(2), 2 * alone);
}

#[test]
fn failures_that_something_else_accompanied_have_one_reason() {
    let steal = "it stalled; meanwhile: steal";
    for (reasons, expected) in [
        ([steal, "it stalled; meanwhile: irq", "it fell"], (3, "it stalled", 1)),
        ([steal; 3], (3, steal, 0)),
    ] {
        let mut plan = plan("p1", 1, &["default", "batch"]);
        for (round, reason) in (0..).zip(reasons) {
            run(&mut plan, round, 0, 1.0);
            lose(&mut plan, round, 1, false, reason);
        }
        let notes = analysed(&[plan], &["default", "batch"]).notes;
        let failed = notes.iter().find_map(|note| match note {
            Note::Failed { runs, reason, others, .. } => Some((*runs, reason.as_str(), *others)),
            _ => None,
        });
        assert_eq!(failed, Some(expected));
    }
}

#[test]
fn a_side_of_which_all_runs_failed_is_a_gap_and_not_refused() {
    let mut plan = work(plan("p1", 1, &["default", "batch"]), "chat", 2);
    for round in 0..10 {
        (0..3).for_each(|cell| run(&mut plan, round, cell, 1.0));
        lose(&mut plan, round, 3, false, "hung task");
    }
    let analysis = analysed(&[plan.clone()], &["default", "batch"]);
    assert_eq!(refusals(&analysis).len(), 0);
    let failed = Note::Failed {
        side: text("batch"),
        work: text("chat threads=2"),
        runs: 10,
        of: 10,
        reason: text("hung task"),
        others: 0,
    };
    assert_eq!(gaps(&analysis), [&failed]);
    let of = |metric| gaps_of(&plan, metric);
    assert_eq!((of("throughput"), of("web*/web/*"), of("chat*/web/*")), (1, 0, 1));
    // Both sides lack the run.
    let mut none = crate::analysis::testing::plan("p1", 1, &["default", "batch"]);
    (0..2).for_each(|cell| lose(&mut none, 0, cell, true, "needs root"));
    let question = asked(std::slice::from_ref(&none), &["default", "batch"]);
    let (sides, works) = (texts(&["default", "batch"]), texts(&["web threads=4"]));
    let skipped = Note::Skipped { sides, works, reason: text("needs root") };
    // The metrics of a work without runs are not known: any pattern may name one of them.
    for metrics in [texts(&[]), texts(&["throughput"]), texts(&["web*/web/throughput"])] {
        let question = Question { metrics, ..question.clone() };
        let analysis = analyse(std::slice::from_ref(&none), &[], &question);
        assert_eq!((analysis.works.len(), &analysis.notes[..]), (0, &[skipped.clone()][..]));
    }
    let question = Question { metrics: texts(&["chat/web/throughput"]), ..question };
    assert_eq!(analyse(&[none], &[], &question).notes, []);
}

/// The runs of a cell read a knob back otherwise than asked.
fn untaken(plan: &mut SampledPlan, cell: u32, rounds: Range<u32>) {
    for at in 0..plan.runs.len() {
        if plan.runs[at].key.cell == cell && rounds.contains(&plan.runs[at].key.round) {
            mismatch(plan, at, "policy", "batch", "other");
        }
    }
}

#[test]
fn a_knob_that_read_back_otherwise_is_noted_and_a_gap_where_it_never_took() {
    let noted = |rounds| {
        let mut plan = tens(1.1);
        untaken(&mut plan, 1, rounds);
        analysed(&[plan], &["default", "batch"]).notes
    };
    let value = |text: &str| Value::Text(text.to_string());
    let (knob, asked) = (text("policy"), value("batch"));
    let mismatch = KnobReading {
        knob: knob.clone(),
        asked: asked.clone(),
        got: Reading::Known(value("other")),
    };
    let knob_in =
        |runs| Note::Knob { side: text("batch"), mismatch: mismatch.clone(), runs, of: 10 };
    let works = texts(&["web threads=4"]);
    let never = Note::KnobNeverTook { side: text("batch"), knob, asked, works };
    assert!(never.is_gap());
    assert_eq!(noted(0..10), [never, knob_in(10)]);
    assert_eq!(noted(1..10), [knob_in(9)]);
    assert_eq!(noted(0..0), []);
    // One note for the runs of several works.
    let mut plan = work(plan("p1", 1, &["default", "batch"]), "chat", 4);
    plan = rounds(plan, 0..10, &[1.0, 1.1]);
    // In the order of the runs, as stores have them.
    (0..10).for_each(|round| {
        untaken(&mut plan, 1, round..round + u32::from(round > 0));
        untaken(&mut plan, 3, round..round + u32::from(round < 3));
    });
    let notes = analysed(&[plan], &["default", "batch"]).notes;
    let of_both = Note::Knob { side: text("batch"), mismatch: mismatch.clone(), runs: 12, of: 20 };
    assert_eq!(notes, [of_both]);
}

/// Six clean rounds decide nothing about two variants, though they would about one.
#[test]
fn all_rounds_count_where_the_clean_ones_are_too_few_for_the_plans_variants() {
    let all_count = |clean: u32, variants: &[&str]| {
        let factors = [1.0, 1.1, 1.2];
        let mut plan = rounds(plan("p1", 1, variants), 0..20, &factors[..variants.len()]);
        plan.ended = Some(PlanEnd::Complete);
        for at in 0..plan.runs.len() {
            if plan.runs[at].key.round >= clean {
                disturb(&mut plan, at, DisturbanceKind::Steal, Some(0.1));
            }
        }
        let notes = analysed(&[plan], variants).notes;
        notes.iter().any(|note| matches!(note, Note::AllSpoilt { .. }))
    };
    assert!(all_count(6, &["a", "b", "c"]) && !all_count(7, &["a", "b", "c"]));
    assert!(all_count(5, &["a", "b"]) && !all_count(6, &["a", "b"]));
}

/// Verdicts are as much about that load where a plan counts all rounds; few spoilt ones are not worth a mark.
#[test]
fn a_plan_that_counts_all_rounds_says_where_most_are_spoilt() {
    for (spoilt, is_marked) in [(5, false), (6, true)] {
        let two = work(plan("p1", 1, &["default", "batch"]), "clean", 1);
        let mut plan = rounds(two, 0..10, &[1.0, 1.1]);
        plan.plan.measure.repeat_spoilt = false;
        for at in 0..plan.runs.len() {
            if plan.runs[at].key.round < spoilt && plan.runs[at].key.cell < 2 {
                disturb(&mut plan, at, DisturbanceKind::OutsideLoad, Some(0.3));
            }
        }
        let found = analysed(&[plan], &["default", "batch"]);
        let works = vec![(text("web threads=4"), spoilt as usize, 10)];
        assert_eq!(
            found.notes.contains(&Note::AllSpoilt { works }),
            is_marked,
            "{:?}",
            found.notes
        );
        assert!(!found.notes.iter().any(|note| matches!(note, Note::SpoiltRounds { .. })));
        let throughput = row(&found, "throughput");
        assert_eq!(found.counts_spoilt(throughput), is_marked);
        let mut of_clean = found.works[1].rows();
        assert!(!of_clean.any(|(.., row)| found.counts_spoilt(row)), "another work");
        assert!(throughput.cells.iter().all(|cell| cell.values.len() == 10), "all count");
    }
}

/// Before the end spoilt rounds do not count, so that nothing may be left to show.
#[test]
fn a_plan_that_has_not_ended_says_that_all_of_its_rounds_were_spoilt() {
    let mut plan = rounds(plan("p1", 1, &["default", "batch"]), 0..3, &[1.0, 1.1]);
    plan.ended = None;
    for at in 0..plan.runs.len() {
        disturb(&mut plan, at, DisturbanceKind::Steal, Some(0.1));
    }
    let found = analysed(&[plan], &["default", "batch"]);
    let spoilt = Note::SpoiltRounds { works: vec![(text("web threads=4"), 3, 3)] };
    assert!(found.notes.contains(&spoilt), "{:?}", found.notes);
}

/// A note counts the runs of each side, and has the worst run of all.
#[test]
fn disturbances_of_one_kind_are_one_note_with_the_worst_of_them() {
    let mut plan = work(plan("p1", 1, &["default", "batch"]), "chat", 2);
    plan = rounds(plan, 0..10, &[1.0, 1.1]);
    plan.plan.measure.repeat_spoilt = false;
    for at in 0..plan.runs.len() {
        let RunKey { round, cell } = plan.runs[at].key;
        if cell % 2 == 1 || round > 0 {
            let share = if (round, cell) == (4, 2) { 0.9 } else { 0.1 };
            disturb(&mut plan, at, DisturbanceKind::Steal, Some(share));
        }
        if (round, cell) == (3, 3) {
            // Two sets of one run have it.
            disturb(&mut plan, at, DisturbanceKind::ClockStep, None);
            disturb(&mut plan, at, DisturbanceKind::ClockStep, None);
        }
    }
    let notes = analysed(&[plan], &["default", "batch"]).notes;
    let [
        Note::AllSpoilt { .. },
        Note::Disturbed { kind: DisturbanceKind::Steal, runs: steal, worst },
        Note::Disturbed { kind: DisturbanceKind::ClockStep, runs: step, .. },
    ] = notes.as_slice()
    else {
        panic!("{notes:?}")
    };
    assert_eq!(steal, &[(text("default"), 18, 20), (text("batch"), 20, 20)]);
    assert_eq!(step, &[(text("default"), 0, 20), (text("batch"), 1, 20)]);
    assert_eq!(worst.share, Some(0.9));
}

/// The note counts the runs in which it is one; the others need a word.
#[test]
fn latencies_under_way_are_said_where_a_headline_metric_is_a_bound() {
    let mut plan = rounds(plan("p1", 1, &["default", "batch"]), 0..10, &[1.0, 1.1]);
    let set = plan.plan.works[0].sets[0].name.clone();
    for at in 0..plan.runs.len() {
        let fact = |set: &str, metric: &str, under_way| DisturbanceFact::UnderWay {
            set: set.to_string(),
            latency: "request".to_string(),
            under_way,
            of: 100,
            oldest_ns: 1,
            bounds: vec![metric.to_string()],
            ages: Vec::new(),
        };
        let mut facts = vec![fact(&set, "wakeup_max", 9)];
        facts.extend((at < 3).then(|| fact(&set, "wakeup_p99", 2)));
        let facts = facts.into_iter().map(|fact| Disturbance { share: None, fact });
        plan.runs[at].disturbances.extend(facts);
    }
    let notes = analysed(&[plan], &["default", "batch"]).notes;
    let [
        Note::Disturbed { kind: DisturbanceKind::UnderWay, runs, worst },
        Note::BoundElsewhere { runs: elsewhere, .. },
    ] = notes.as_slice()
    else {
        panic!("{notes:?}")
    };
    let counts = |runs: &[(String, usize, usize)]| -> Vec<usize> {
        runs.iter().map(|(_, runs, _)| *runs).collect()
    };
    assert_eq!((counts(runs), counts(elsewhere)), (vec![2, 1], vec![10, 10]));
    assert_eq!(worst.size(), 0.02);
    assert_eq!(
        notes.iter().map(Note::severity).collect::<Vec<_>>(),
        [Severity::Warning, Severity::Info]
    );
}

#[test]
fn sides_that_differ_in_machine_too_are_noted() {
    let plans =
        [on("p1", 1, "6.1.1", "big"), on("p2", 2, "6.1.1", "small"), on("p3", 3, "6.12.1", "big")];
    let noted = |sides: &[&str]| -> Vec<Note> {
        let is = |note: &Note| matches!(note, Note::MachinesDiffer { .. } | Note::Pooled { .. });
        analysed(&plans, sides).notes.into_iter().filter(is).collect()
    };
    let on_machines =
        [(text("6.1.*"), texts(&["big", "small"])), (text("6.12.*"), texts(&["big"]))];
    let differ = Note::MachinesDiffer { sides: on_machines.to_vec() };
    let pooled = |side: &str, what, names: &[&str]| {
        let (sides, names) = (texts(&[side]), texts(names));
        Note::Pooled { sides, what, names }
    };
    let pools = pooled("6.1.*", Pooled::Machines, &["big", "small"]);
    assert_eq!(noted(&["6.1.*", "6.12.*"]), [differ, pools]);
    assert_eq!(noted(&["p1", "p3"]), [], "one machine");
    assert_eq!(noted(&["p1", "p2"]).len(), 1, "nobody asked for that");
    assert_eq!(noted(&["machine=big,kernel=6.1.1", "machine=small"]), [], "that is the question");
    let kernels = noted(&["machine=small", "machine=big"]);
    assert!(kernels.contains(&pooled("machine=big", Pooled::Kernels, &["6.1.1", "6.12.1"])));
    assert!(matches!(kernels[0], Note::MachinesDiffer { .. }), "and in kernel: {kernels:?}");
}

#[test]
fn a_plan_that_was_resumed_under_another_kernel_is_noted() {
    let mut resumed = rounds(plan("p1", 1, &["default", "batch"]), 0..6, &[1.0, 1.1]);
    resumed.environments.push(environment("6.13.0", "big", Some("boot-2")));
    let resumed = rounds(resumed, 6..10, &[1.0, 1.1]);
    let (sides, names) = (texts(&["default", "batch"]), texts(&["6.12.0", "6.13.0"]));
    let pooled = Note::Pooled { sides, what: Pooled::Kernels, names };
    let places = ["6.12.0", "6.13.0"].map(|kernel| (text(kernel), text("big"))).to_vec();
    let elsewhere = Note::ResumedElsewhere { plan: text("p1"), places };
    assert_eq!(analysed(&[resumed], &["default", "batch"]).notes, [pooled, elsewhere]);
}

#[test]
fn a_calibration_on_a_busy_machine_is_noted() {
    let notes = |spread| {
        let mut made = rounds(plan("p1", 1, &["default", "batch"]), 0..10, &[1.0, 1.1]);
        made.environments[0].calibration = Some(Calibration { kop_ps: 1_000_000, spread });
        analysed(&[made], &["default", "batch"]).notes
    };
    assert_eq!(notes(0.04), []);
    let loose = Note::LooseCalibration { plan: text("p1"), spread: 0.12 };
    assert_eq!(notes(0.12), [loose]);
}

#[test]
fn a_machine_whose_speed_changed_is_noted_with_the_largest_change() {
    let notes = |ends: &[u64]| {
        let mut made = rounds(plan("p1", 1, &["default", "batch"]), 0..10, &[1.0, 1.1]);
        let quiet = |kop_ps| Some(Calibration { kop_ps, spread: 0.0 });
        made.environments[0].calibration = quiet(1_000_000);
        made.environments.resize(ends.len(), made.environments[0].clone());
        for (session, kop_ps) in made.environments.iter_mut().zip(ends) {
            session.calibration_at_end = quiet(*kop_ps);
        }
        analysed(&[made], &["default", "batch"]).notes
    };
    assert_eq!(notes(&[1_009_000, 991_000]), []);
    let drift = |slower| [Note::CalibrationDrift { plan: text("p1"), slower }];
    assert_eq!(notes(&[1_020_000]), drift(1.02 - 1.0));
    assert_eq!(notes(&[1_020_000, 950_000]), drift(0.95 - 1.0));
}

#[test]
fn plans_in_which_the_same_time_is_other_work_are_noted() {
    let notes = |kop_ps: [u64; 2]| {
        let mut plans = two();
        for (plan, kop_ps) in plans.iter_mut().zip(kop_ps) {
            plan.environments[0].calibration = Some(Calibration { kop_ps, spread: 0.0 });
        }
        let mut notes = analysed(&plans, &["plan=p1", "plan=p2"]).notes;
        notes.retain(|note| matches!(note, Note::CalibrationsDiffer { .. }));
        notes
    };
    assert_eq!(notes([1_000_000, 1_009_000]), []);
    let plans = ["p1", "p2"].map(text);
    let differ = Note::CalibrationsDiffer { plans, share: 0.5 };
    assert_eq!(notes([1_500_000, 1_000_000]), [differ]);
}

#[test]
fn a_side_counts_what_is_in_tables_and_the_rest_is_noted() {
    let [first, mut second] = [("p1", 1), ("p2", 2)].map(|(id, at)| {
        let both = rounds(plan(id, at, &["default", "batch"]), 0..10, &[1.0, 1.1]);
        if id == "p1" { both } else { SampledPlan { ended: None, ..both } }
    });
    second.plan.measure.duration_ns *= 2;
    second.runs.retain(|run| run.key.cell == 0);
    let analysis = analysed(&[first, second], &["variant=default,all", "variant=batch,all"]);
    assert_eq!(analysis.works.len(), 1);
    for side in &analysis.sides {
        assert_eq!((side.runs, side.plans.as_slice()), (10, &[text("p1")][..]), "{side:?}");
    }
    let other =
        Note::OtherRuns { side: text("variant=default,all"), runs: 10, plans: texts(&["p2"]) };
    // The other plan did not end, but that does not concern these tables.
    let is_refusal = |note: &Note| note.is_refusal();
    let rest: Vec<Note> = analysis.notes.into_iter().filter(|note| !is_refusal(note)).collect();
    assert_eq!(rest, [other]);
}

#[test]
fn a_plan_that_has_not_ended_is_analysed_as_far_as_it_went() {
    let notes = |ended| {
        let mut plan = tens(1.1);
        plan.ended = ended;
        let analysis = analysed(&[plan], &["default", "batch"]);
        assert_eq!(verdict(&analysis, "throughput"), Verdict::Better);
        analysis.notes
    };
    let unfinished = || Note::Unfinished { plans: texts(&["p1"]), missing: Vec::new() };
    assert_eq!(notes(None), [unfinished()]);
    assert_eq!(notes(Some(PlanEnd::Interrupted)), [unfinished()]);
    for ended in [PlanEnd::Complete, PlanEnd::Budget, PlanEnd::Decided] {
        assert_eq!(notes(Some(ended)), []);
    }
}

#[test]
fn a_plan_that_lacks_runs_that_it_had_is_noted() {
    let notes = |ended, until_decided| {
        let mut plan = tens(1.1);
        plan.ended = Some(ended);
        (plan.plan.measure.rounds, plan.plan.measure.until_decided) = (12, until_decided);
        analysed(&[plan], &["default", "batch"]).notes
    };
    let gone = || Note::GoneRuns { plan: text("p1"), runs: 20, of: 24 };
    assert_eq!(notes(PlanEnd::Complete, false), [gone()]);
    assert_eq!(notes(PlanEnd::Budget, false), []);
    assert_eq!(notes(PlanEnd::Complete, true), [], "works that are decided have no further runs");
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
fn too_few_boots_of_sides_that_share_none_are_noted() {
    let few = |boots: &[(&str, &[Option<&str>])]| {
        let sides: Vec<&str> = boots.iter().map(|(kernel, _)| *kernel).collect();
        let notes = analysed(&kernels(boots), &sides).notes;
        let found = notes.into_iter().filter_map(|note| match note {
            Note::FewBoots { baseline, other, needed: 3 } => Some([baseline, other]),
            _ => None,
        });
        let found: Vec<_> = found.collect();
        assert!(found.len() < 2, "noted once: {found:?}");
        found.into_iter().next()
    };
    let boots_of =
        |boots: [(&str, usize); 2]| Some(boots.map(|(kernel, boots)| (kernel.to_string(), boots)));
    let (a, b, c) = (Some("a"), Some("b"), Some("c"));
    let (d, e, f) = (Some("d"), Some("e"), Some("f"));
    let one_each = boots_of([("6.1", 1), ("6.2", 1)]);
    assert_eq!(few(&[("6.1", &[a]), ("6.2", &[b])]), one_each);
    let three = boots_of([("6.1", 3), ("6.2", 2)]);
    assert_eq!(few(&[("6.1", &[a, b, c]), ("6.2", &[d, e, d])]), three);
    assert_eq!(few(&[("6.1", &[a, b, c]), ("6.2", &[d, e, f])]), None, "enough of them");
    assert_eq!(few(&[("6.1", &[a, b]), ("6.2", &[b])]), None, "one is shared");
    assert_eq!(few(&[("6.1", &[a]), ("6.2", &[None])]), None, "nothing is known");
    let third = boots_of([("6.1", 1), ("6.3", 1)]);
    assert_eq!(few(&[("6.1", &[a]), ("6.2", &[None]), ("6.3", &[b])]), third);
    let boots = |boots: &[Option<&str>]| {
        analysed(&kernels(&[("6.1", boots), ("6.2", boots)]), &["6.1", "6.2"])
    };
    assert_eq!(boots(&[a, b, a]).sides[0].boots, Some(2));
    assert_eq!(boots(&[a, None]).sides[0].boots, None);
}

#[test]
fn sides_of_which_one_scatters_more_are_noted_by_headline_metrics() {
    let noisy = |by: f64| {
        let mut noisy = plan("p2", 2, &["default"]);
        for round in 0..10 {
            let sign = if round % 2 == 0 { 1.0 } else { -1.0 };
            run(&mut noisy, round, 0, 1.0 + sign * by);
        }
        noisy
    };
    let quiet = || SampledPlan { id: text("p1"), started_unix_ns: 1, ..noisy(0.01) };
    let differ = |by| {
        let notes = analysed(&[quiet(), noisy(by)], &["p1", "p2"]).notes;
        notes.contains(&Note::SpreadsDiffer { metrics: 2 })
    };
    assert!(differ(0.03) && differ(0.003) && !differ(0.015));
    let paired = rounds(plan("p1", 1, &["default", "batch"]), 0..10, &[1.0, 1.0]);
    assert_eq!(analysed(&[paired], &["default", "batch"]).notes, []);
}

#[test]
fn figures_that_a_backend_invents_are_noted() {
    let mut plan = tens(1.0);
    plan.backend = "null".to_string();
    assert_eq!(analysed(&[plan], &["default", "batch"]).notes, [Note::Invented]);
}

#[test]
fn what_another_tool_measured_is_not_paired_and_was_not_resumed() {
    let mut plan = tens(1.0);
    plan.backend = SampledPlan::IMPORTED.to_string();
    plan.environments.push(environment("6.13.0", "big", None));
    plan.runs.iter_mut().for_each(|run| run.environment = run.key.cell % 2);
    assert_eq!(analysed(&[plan.clone()], &["default", "batch"]).notes, [Note::Unpaired]);
    plan.backend = "local".to_string();
    let notes = analysed(&[plan], &["default", "batch"]).notes;
    assert!(matches!(notes[..], [Note::ResumedElsewhere { .. }]), "{notes:?}");
}

#[test]
fn knobs_without_effect_are_one_note_per_side_and_knob() {
    let plans = [tens(1.0)];
    let found = |knob: &str, work: &str| WithoutEffect {
        side: text("batch"),
        knob: text(knob),
        work: text(work),
        scheduler: None,
        own_of_sets: false,
    };
    let mut question = asked(&plans, &["default", "batch"]);
    question.without_effect = vec![
        found("nice", "web threads=4"),
        found("nice", "chat"),
        found("cgroup-weight", "chat"),
        found("nice", "chat"),
    ];
    let note = |knob: &str, works: &[&str]| {
        let (side, knob, works) = (text("batch"), text(knob), texts(works));
        Note::KnobWithoutEffect(UselessKnob {
            side,
            knob,
            works,
            scheduler: None,
            own_of_sets: false,
        })
    };
    let expected = [note("nice", &["web threads=4", "chat"]), note("cgroup-weight", &["chat"])];
    assert_eq!(analyse(&plans, &[], &question).notes, expected);
}

#[test]
fn a_side_that_differs_in_knobs_without_effect_changes_nothing_in_these_works() {
    let mut plan = work(plan("p1", 1, &["default", "batch"]), "chat", 2);
    for cell in [1, 3] {
        plan.cells[cell].variant.knobs = slice();
    }
    let mut loaded = rounds(plan.clone(), 0..10, &[1.0, 1.0]);
    loaded.plan.measure.repeat_spoilt = false;
    disturb(&mut loaded, 0, DisturbanceKind::OutsideLoad, Some(0.01));
    let mut other = plan.clone();
    other.cells[1].variant.knobs.insert(text("policy"), Value::Text(text("batch")));
    let plan = rounds(plan, 0..10, &[1.0, 1.0]);
    let other = rounds(other, 0..10, &[1.0, 1.0]);
    let marked = |plan: &SampledPlan, scheduler: Option<&str>| -> Vec<bool> {
        let plans = [plan.clone()];
        let mut question = asked(&plans, &["default", "batch"]);
        question.without_effect = vec![WithoutEffect {
            side: text("batch"),
            knob: text("slice"),
            work: text("web threads=4"),
            scheduler: scheduler.map(text),
            own_of_sets: false,
        }];
        let found = analyse(&plans, &[], &question);
        assert!(found.rows().all(|(.., row)| !row.cells[0].changes_nothing), "the baseline");
        let of_work = |work: &WorkTable| work.rows().all(|(.., row)| row.cells[1].changes_nothing);
        found.works.iter().map(of_work).collect()
    };
    assert_eq!(marked(&plan, None), [true, false]);
    assert_eq!(marked(&loaded, None), [false, false], "a weight against load from outside");
    assert_eq!(marked(&loaded, Some("fifo")), [true, false], "the scheduler does not heed it");
    assert_eq!(marked(&other, None), [false, false], "another knob may have an effect");
    assert_eq!(marked(&tens(1.0), None), [false], "the same variant twice");
}

#[test]
fn a_probe_that_counted_nothing_is_noted() {
    let noted = |plan: SampledPlan| {
        let notes = analysed(&[plan], &["default", "batch"]).notes;
        notes.contains(&Note::ProbeSilent { probe: text("sched") })
    };
    let with = [("throughput", 100.0), (VOLUNTARY, 0.0)];
    assert!(noted(probed(&[(0, 0, &with[..1]), (0, 1, &with[..1])])));
    assert!(!noted(probed(&[(0, 0, &with), (0, 1, &with)])));
    let mut other = probed(&[(0, 0, &with[..1]), (0, 1, &with[..1])]);
    other.plan.probes = vec![text("counters")];
    assert!(!noted(other), "it counts no switches of roles");
    let mut without = probed(&[(0, 0, &with[..1]), (0, 1, &with[..1])]);
    without.plan.probes.clear();
    assert!(!noted(without));
}

#[test]
fn programs_of_several_versions_are_said_with_the_sides_that_have_them() {
    let of = |versions: [&[&str]; 2]| {
        let mut plans = two();
        for (plan, versions) in plans.iter_mut().zip(versions) {
            let version = |version: &&str| SampledVersion {
                cell: 0,
                set: text("web"),
                version: version.to_string(),
            };
            plan.versions = versions.iter().map(version).collect();
        }
        let sides = plans.iter().map(|plan| Selection::of_plan(&plan.id)).collect();
        let found = analyse(&plans, &[], &Question::new(sides, String::new()));
        let is_ours = |note: &&Note| matches!(note, Note::VersionsDiffer { .. });
        let notes: Vec<Note> = found.notes.iter().filter(is_ours).cloned().collect();
        (notes, found.sides.into_iter().map(|side| side.label).collect::<Vec<_>>())
    };
    for same in [[&[][..], &[]], [&["1"], &["1"]], [&["1"], &[]]] {
        assert_eq!(of(same).0, []);
    }
    let (notes, sides) = of([&["1"], &["1", "2"]]);
    let versions = vec![(text("1"), sides.clone()), (text("2"), sides[1..].to_vec())];
    assert_eq!(notes, [Note::VersionsDiffer { set: text("web"), versions }]);
    assert_eq!(notes[0].severity(), Severity::Warning);
}

#[test]
fn a_program_that_several_works_run_is_noted_once() {
    let mut both = rounds(work(plan("p1", 1, &["a", "b"]), "chat", 1), 0..10, &[1.0, 1.1]);
    let version = |cell: u32| SampledVersion {
        cell,
        set: text("web"),
        version: ["1", "2"][cell as usize % 2].to_string(),
    };
    both.versions = (0..4).map(version).collect();
    let found = analysed(&[both], &["a", "b"]).notes;
    let is_ours = |note: &&Note| matches!(note, Note::VersionsDiffer { .. });
    assert_eq!(found.iter().filter(is_ours).count(), 1, "{found:?}");
}

/// Runs that switch between two speeds, of which one side spends more time at the higher one.
#[test]
fn two_speeds_of_runs_are_a_note_with_the_time_of_each_side() {
    let plans = [tens(1.0)];
    let mut question = asked(&plans, &["default", "batch"]);
    assert_eq!(analyse(&plans, &[], &question).notes, [], "nothing is known of windows");
    let windows = |run: &crate::model::SampledRun| {
        let wobble = f64::from(run.key.round % 3);
        let fast = if run.key.cell == 0 { 1 } else { 3 };
        let first = run.key.round as usize;
        let rate = |at: usize| if (at + first) % 4 < fast { 300.0 } else { 100.0 };
        let rates = (0..4).map(|at| rate(at) + wobble).collect();
        let sets = vec![(text("web"), rates)];
        RunWindows { plan: text("p1"), key: run.key, sets, judged_samples: None }
    };
    question.windows = plans[0].runs.iter().map(windows).collect();
    let notes = analyse(&plans, &[], &question).notes;
    let [Note::TwoSpeeds { work, set, low, high, in_high }] = notes.as_slice() else {
        panic!("{notes:?}");
    };
    assert_eq!((work.as_str(), set.as_str()), ("web threads=4", "web"));
    assert!((100.0..102.0).contains(low) && (300.0..302.0).contains(high), "{low} {high}");
    assert_eq!(*in_high, [(text("default"), 0.25), (text("batch"), 0.75)]);
}

/// A side whose ratio to the baseline is still moving when its blocks end.
#[test]
fn a_ratio_that_differs_between_late_and_early_halves_of_blocks_is_a_note() {
    let carried = |factor: f64, margins: &[(&str, f64)]| {
        let mut plan = tens(factor);
        let counter = plan.metrics.iter_mut().find(|metric| metric.kind.name == "switches");
        counter.unwrap().kind.name = text(crate::stats::LATE_TO_EARLY);
        let plans = [plan];
        let mut question = asked(&plans, &["default", "batch"]);
        question.margins = margins.iter().map(|(name, margin)| (text(name), *margin)).collect();
        let notes = analyse(&plans, &[], &question).notes;
        notes.into_iter().find(|note| matches!(note, Note::CarryOver { .. }))
    };
    assert_eq!(carried(1.015, &[]), None, "less than the margin");
    assert_eq!(carried(0.9, &[("throughput", 0.2)]), None, "less than the throughput's own margin");
    let note = carried(0.9, &[]).unwrap();
    assert_eq!(note.severity(), Severity::Warning);
    let Note::CarryOver { work, set, sides } = note else { panic!("{note:?}") };
    assert_eq!((work.as_str(), set.as_str()), ("web threads=4", "web"));
    let [(side, ratio)] = sides.as_slice() else { panic!("{sides:?}") };
    assert_eq!(side, "batch");
    assert!((ratio - 0.9).abs() < 0.02, "{ratio}");
}
