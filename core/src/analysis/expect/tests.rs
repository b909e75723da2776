//! Outcomes of expectations on invented plans.

use super::super::testing::{lose, of_variants, plan, rounds, run, run_of, work};
use super::super::{Question, analyse};
use super::*;
use crate::model::{LookRule, SampledPlan};

fn expect(metric: &str, claim: Claim) -> Expectation {
    let (variant, metric) = ("batch".to_string(), metric.to_string());
    Expectation { variant, metric, claim, why: None, at: 0..0 }
}

/// The analysis that the expectations ask for.
fn analysed(plan: &SampledPlan, expectations: &[Expectation]) -> Analysis {
    let question = Question { metrics: metrics(expectations), ..of_variants(plan) };
    analyse(std::slice::from_ref(plan), &[], &question)
}

/// Outcomes where each metric of batch is `factor` times that of the default.
fn tested(factor: f64, so_many: u32, expectations: &[Expectation]) -> Vec<Outcome> {
    let plan = rounds(plan("p1", 1, &["default", "batch"]), 0..so_many, &[1.0, factor]);
    test(&analysed(&plan, expectations), expectations)
        .into_iter()
        .map(|tested| tested.outcome)
        .collect()
}

#[test]
fn a_claim_holds_fails_or_is_open() {
    use Outcome::{Fails, Holds, Open};
    let range = |from: f64, to: f64| Claim::Ratio { from: Some(from), to: Some(to) };
    // Each pair holds the outcome where the variant has 1.4 times the baseline's value, and where it has the same.
    let cases = [
        ("throughput", Claim::Better, [Holds, Fails]),
        ("throughput", Claim::Worse, [Fails, Fails]),
        ("throughput", Claim::Same, [Fails, Holds]),
        ("throughput", Claim::NotWorse, [Holds, Holds]),
        ("throughput", Claim::NotBetter, [Fails, Holds]),
        ("throughput", Claim::More, [Holds, Fails]),
        ("throughput", Claim::Less, [Fails, Fails]),
        ("wakeup_p99", Claim::Worse, [Holds, Fails]),
        ("wakeup_p99", Claim::More, [Holds, Fails]),
        ("wakeup_p99", Claim::NotWorse, [Fails, Holds]),
        ("switches", Claim::More, [Holds, Fails]),
        ("switches", Claim::Less, [Fails, Fails]),
        ("switches", range(1.3, 1.5), [Holds, Fails]),
        ("switches", Claim::Ratio { from: None, to: Some(1.2) }, [Fails, Holds]),
        ("switches", Claim::Ratio { from: Some(1.4), to: None }, [Open, Fails]),
        ("web/*", Claim::More, [Holds, Fails]),
        ("no_such_metric", Claim::Better, [Open, Open]),
    ];
    let expectations: Vec<Expectation> =
        cases.iter().map(|(metric, claim, _)| expect(metric, *claim)).collect();
    for (at, factor) in [1.4, 1.0].into_iter().enumerate() {
        for ((metric, claim, expected), outcome) in
            cases.iter().zip(tested(factor, 30, &expectations))
        {
            assert_eq!(outcome, expected[at], "{metric} {claim} at {factor}");
        }
    }
}

#[test]
fn a_variant_whose_runs_all_fail_fails_what_is_expected_of_it() {
    let expectations = [expect("throughput", Claim::NotWorse)];
    // `lost`: so many runs of the baseline and of the variant.
    let outcome = |lost: [usize; 2], is_skipped: bool| {
        let mut plan = plan("p1", 1, &["default", "batch"]);
        for round in 0..12 {
            for (cell, lost) in lost.into_iter().enumerate() {
                match (round as usize) < lost {
                    true => lose(&mut plan, round, cell as u32, is_skipped, "it stalled"),
                    false => run(&mut plan, round, cell as u32, 1.0),
                }
            }
        }
        test(&analysed(&plan, &expectations), &expectations)[0].outcome
    };
    assert_eq!(outcome([0, 12], false), Outcome::Fails);
    assert_eq!(outcome([0, 12], true), Outcome::Open, "the machine lacks something");
    assert_eq!(outcome([0, 1], false), Outcome::Holds, "the others decide");
    assert_eq!(outcome([12, 12], false), Outcome::Open, "it is not the variant");
}

/// An expectation of `throughput` would be open for good if it waited for verdicts that solo runs do not get.
#[test]
fn expectations_are_of_the_headline_family_where_a_plan_has_solo_runs() {
    let plan = work(plan("p1", 1, &["default", "batch"]), "web solo web", 1);
    let plan = rounds(plan, 0..30, &[1.0, 1.4]);
    let works = ["web threads=4", "web solo web threads=1"];
    let expectations =
        ["throughput", "web solo web/throughput"].map(|of| expect(of, Claim::Better));
    for so_many in [1, 2] {
        let expectations = &expectations[..so_many];
        let tested = test(&analysed(&plan, expectations), expectations);
        for (tested, work) in tested.iter().zip(works) {
            let of: Vec<&str> = tested.metrics.iter().map(|own| own.work.as_str()).collect();
            assert_eq!((of, tested.outcome), (vec![work], Outcome::Holds));
        }
    }
}

#[test]
fn what_is_within_the_margin_on_its_worse_side_is_not_worse() {
    use Outcome::{Holds, Open};
    // 1 % to 5 % more, of a throughput whose margin is 2 %: it may be the same, or better.
    let claims = [Claim::NotWorse, Claim::NotBetter, Claim::Same, Claim::Better];
    let outcomes = |up: bool| {
        let mut measured = plan("p1", 1, &["default", "batch"]);
        for round in 0..6 {
            let ratio = 1.01 + 0.01 * f64::from(round % 5) - if round == 3 { 0.06 } else { 0.0 };
            let ratio = if up { ratio } else { 1.0 / ratio };
            measured = rounds(measured, round..round + 1, &[1.0, ratio]);
        }
        let expectations = claims.map(|claim| expect("throughput", claim));
        let question = Question {
            metrics: metrics(&expectations),
            margins: vec![("throughput".to_string(), 0.04)],
            ..of_variants(&measured)
        };
        let analysis = analyse(std::slice::from_ref(&measured), &[], &question);
        let tested = test(&analysis, &expectations).into_iter().map(|tested| tested.outcome);
        tested.collect::<Vec<_>>()
    };
    assert_eq!(outcomes(true), [Holds, Open, Open, Open]);
    assert_eq!(outcomes(false), [Open, Holds, Open, Open]);
}

/// From never to often no ratio is defined, and a range is judged all the same.
#[test]
fn a_range_is_judged_where_values_are_0() {
    use Outcome::{Fails, Holds, Open};
    let range = |from, to| Claim::Ratio { from, to };
    let ranges = [
        range(Some(0.9), None),
        range(None, Some(1.1)),
        range(Some(0.9), Some(1.1)),
        range(Some(0.2), Some(0.8)),
    ];
    let never = |_| 0.0;
    let often = |round: u32| 5.0 + f64::from(round % 3);
    // In every fourth round nothing.
    let seldom = |round: u32| if round % 4 == 3 { 0.0 } else { 4.0 };
    let half = |round: u32| 0.5 * if round % 4 == 3 { 0.0 } else { 4.0 };
    type Values = fn(u32) -> f64;
    let cases: [(Values, Values, u32, [Outcome; 4]); 8] = [
        (never, often, 8, [Holds, Fails, Fails, Fails]),
        (often, never, 8, [Fails, Holds, Fails, Fails]),
        (seldom, seldom, 12, [Holds, Holds, Holds, Fails]),
        (seldom, half, 12, [Fails, Holds, Fails, Holds]),
        (half, seldom, 12, [Holds, Fails, Fails, Fails]),
        (never, never, 8, [Holds, Holds, Holds, Open]),
        (never, never, 2, [Open, Open, Open, Open]),
        (never, often, 1, [Open, Open, Open, Open]),
    ];
    for (case, (default, batch, so_many, expected)) in cases.into_iter().enumerate() {
        let mut measured = rounds(plan("p1", 1, &["default", "batch"]), 0..so_many, &[1.0, 1.0]);
        let wanted = measured.metrics.iter().position(|own| own.kind.name == "switches").unwrap();
        let keys: Vec<_> = measured.runs.iter().map(|run| run.key).collect();
        let values = measured
            .runs
            .iter_mut()
            .flat_map(|run| &mut run.values)
            .filter(|(metric, _)| *metric as usize == wanted);
        for ((_, value), key) in values.zip(keys) {
            *value = if key.cell == 0 { default(key.round) } else { batch(key.round) };
        }
        let expectations = ranges.map(|range| expect("switches", range));
        for until_decided in [false, true] {
            measured.plan.measure.until_decided = until_decided;
            measured.ended = None;
            let tested = test(&analysed(&measured, &expectations), &expectations);
            let outcomes: Vec<Outcome> = tested.iter().map(|tested| tested.outcome).collect();
            // Looks may come too early for a verdict, and never say another.
            let agrees = outcomes.iter().zip(&expected).all(|(outcome, expected)| {
                outcome == expected || until_decided && *outcome == Open
            });
            assert!(agrees, "{case} {until_decided}: {outcomes:?}");
        }
    }
}

#[test]
fn counters_among_what_a_pattern_names_are_not_better() {
    let of = |claim| tested(1.4, 30, &[expect("*", claim)]);
    // Throughput is better and latency worse; the counter of switches, which only rises, has no part.
    assert_eq!(of(Claim::More), [Outcome::Holds]);
    assert_eq!(tested(1.4, 30, &[expect("switches", Claim::Better)]), [Outcome::Open], "no metric");
}

#[test]
fn few_rounds_leave_it_open() {
    assert_eq!(tested(1.4, 2, &[expect("throughput", Claim::Better)]), [Outcome::Open]);
}

/// The metric of a plan of fixed length, and of one that runs until it is decided and looks after 10, 15, 23 ...
/// rounds.
fn metric_at_looks(factors: &[f64], claim: Claim) -> [TestedMetric; 2] {
    let mut measured = plan("p1", 1, &["default", "batch"]);
    for (round, factor) in (0..).zip(factors) {
        measured = rounds(measured, round..round + 1, &[1.0, *factor]);
    }
    measured.ended = None;
    let expectations = [expect("throughput", claim)];
    [false, true].map(|until_decided| {
        measured.plan.measure.until_decided = until_decided;
        measured.plan.measure.looks = LookRule::Even;
        test(&analysed(&measured, &expectations), &expectations).remove(0).metrics.remove(0)
    })
}

fn at_looks(factors: &[f64], claim: Claim) -> (Outcome, Outcome) {
    metric_at_looks(factors, claim).map(|metric| metric.outcome).into()
}

/// Four places around 0 in turn.
fn spread(round: u32) -> f64 {
    [-1.0, 1.0, -0.5, 0.5][round as usize % 4]
}

#[test]
fn a_range_is_looked_at_as_verdicts_are() {
    use Outcome::{Fails, Holds, Open};
    let around = |ratio: f64, so_many: u32| -> Vec<f64> {
        (0..so_many).map(|round| ratio * 1.1f64.powf(spread(round))).collect()
    };
    let range = |from: f64, to: f64| Claim::Ratio { from: Some(from), to: Some(to) };
    // One look spends a tenth, so its interval is wider than that of the ratio alone.
    assert_eq!(at_looks(&around(1.0, 10), range(0.92, 1.09)), (Holds, Open));
    assert_eq!(at_looks(&around(1.0, 10), range(0.85, 1.2)), (Holds, Holds));
    assert_eq!(at_looks(&around(1.0, 9), range(0.85, 1.2)), (Holds, Open), "before the first look");
    // The interval of the ratio alone is narrow enough: at least one more round.
    let [decided, open] = metric_at_looks(&around(1.0, 10), range(0.92, 1.09)).map(|of| of.rounds);
    assert_eq!((decided, open), (None, Some(Rounds::Number(11))));
    // A look's decision stays.
    let later = [around(1.0, 10), around(3.0, 20)].concat();
    assert_eq!(at_looks(&later, range(0.85, 1.2)), (Fails, Holds));
}

#[test]
fn works_are_measured_until_their_expectations_are_decided() {
    let mut measured = plan("p1", 1, &["default", "batch"]);
    measured = rounds(work(measured, "other", 1), 0..10, &[1.0, 1.4]);
    let works = |expectations: &[Expectation]| {
        let analysis = analysed(&measured, expectations);
        undecided_works(&analysis, &measured.plan, expectations).into_iter().collect::<Vec<_>>()
    };
    let at_least = Claim::Ratio { from: Some(1.4), to: None };
    assert_eq!(works(&[expect("throughput", Claim::Better)]), [0; 0]);
    assert_eq!(works(&[expect("throughput", at_least)]), [0, 1]);
    assert_eq!(works(&[expect("other/throughput", at_least)]), [1]);
    assert_eq!(works(&[expect("no_such_metric", at_least)]), [0; 0], "nothing to be decided");
}

#[test]
fn what_is_zero_on_both_sides_is_the_same_after_as_many_rounds_as_a_verdict_takes() {
    let of = |metric: &str, so_many: u32| {
        let measured = plan("p1", 1, &["default", "batch"]);
        let measured = rounds(measured, 0..so_many, &[0.0, 0.0]);
        let range = |from, to| expect(metric, Claim::Ratio { from, to });
        let expectations = [
            expect(metric, Claim::Same),
            expect(metric, Claim::More),
            range(Some(0.5), Some(1.5)),
            // 0 is twice 0, and half of it.
            range(Some(2.0), None),
            range(None, Some(0.5)),
        ];
        let tested = test(&analysed(&measured, &expectations), &expectations);
        let metric = |tested: Tested| tested.metrics.into_iter().next().unwrap();
        tested.into_iter().map(metric).map(|of| (of.outcome, of.rounds)).collect::<Vec<_>>()
    };
    let least = Some(Rounds::Number(6));
    assert_eq!(of("wakeup_p99", 5), [(Outcome::Open, least); 5]);
    let [holds, fails, open] = [Outcome::Holds, Outcome::Fails, Outcome::Open].map(|of| (of, None));
    assert_eq!(of("wakeup_p99", 6), [holds, fails, holds, open, open]);
    assert_eq!(of("throughput", 6), [open; 5], "nothing was done");
}

#[test]
fn an_open_range_says_after_how_many_rounds_it_may_be_decided() {
    // Up to 2 % less or more of 1.4 times: an interval of a few percent around it.
    let of = |so_many: u32, from: f64| {
        let mut measured = plan("p1", 1, &["default", "batch"]);
        for round in 0..so_many {
            let ratio = 1.4 * 1.02f64.powf(spread(round));
            measured = rounds(measured, round..round + 1, &[1.0, ratio]);
        }
        let expectations = [expect("throughput", Claim::Ratio { from: Some(from), to: None })];
        let tested =
            test(&analysed(&measured, &expectations), &expectations).remove(0).metrics.remove(0);
        (tested.outcome, tested.rounds)
    };
    assert_eq!(of(1, 1.4).1, Some(Rounds::MoreThan(1)), "one round has no interval");
    assert_eq!(of(8, 1.2), (Outcome::Holds, None));
    let (outcome, Some(Rounds::Number(needed))) = of(8, 1.39) else { panic!("no number") };
    assert_eq!(outcome, Outcome::Open);
    assert!((12..60).contains(&needed), "{needed}");
    assert_eq!(of(2 * needed, 1.39).0, Outcome::Holds, "{needed} rounds");
    assert_eq!(of(8, 1.4).1, Some(Rounds::MoreThan(MAX_ROUNDS)), "on the limit");
}

/// There is no ratio then, and every fourth round says nothing of the range.
#[test]
fn an_open_range_of_values_that_may_be_0_says_it_too() {
    let of = |so_many: u32| {
        let mut measured = plan("p1", 1, &["default", "batch"]);
        for round in 0..so_many {
            let one = if round % 4 == 3 { 0.0 } else { 1.0 };
            let ratio = one * 1.4 * 1.02f64.powf(spread(round));
            measured = rounds(measured, round..round + 1, &[one, ratio]);
        }
        let expectations = [expect("throughput", Claim::Ratio { from: Some(1.39), to: None })];
        let tested =
            test(&analysed(&measured, &expectations), &expectations).remove(0).metrics.remove(0);
        (tested.outcome, tested.rounds)
    };
    let (Outcome::Open, Some(Rounds::Number(needed))) = of(12) else { panic!("{:?}", of(12)) };
    assert!((16..200).contains(&needed), "{needed}");
    assert_eq!(of(2 * needed).0, Outcome::Holds, "{needed} rounds");
}

#[test]
fn not_worse_and_not_better_look_at_the_ends_that_the_direction_makes_theirs() {
    use Direction::{HigherIsBetter, LowerIsBetter};
    let [above, below] = [true, false].map(|above| Excluded { above, below: !above });
    let cases = [
        (Claim::NotWorse, HigherIsBetter, [false, true]),
        (Claim::NotWorse, LowerIsBetter, [true, false]),
        (Claim::NotBetter, HigherIsBetter, [true, false]),
        (Claim::NotBetter, LowerIsBetter, [false, true]),
        (Claim::Same, HigherIsBetter, [false, false]),
    ];
    for (claim, direction, expected) in cases {
        let is = [above, below].map(|excluded| is_excluded(claim, direction, excluded));
        assert_eq!(is, expected, "{claim:?} {direction:?}");
    }
}

#[test]
fn rounds_that_lack_a_pair_are_counted_among_those_that_an_open_range_takes() {
    let of = |lone: u32| {
        let mut measured = plan("p1", 1, &["default", "batch"]);
        for round in 0..8 {
            let ratio = 1.4 * 1.02f64.powf(spread(round));
            measured = rounds(measured, round..round + 1, &[1.0, ratio]);
        }
        for round in 8..8 + lone {
            run(&mut measured, round, 0, 1.0);
        }
        let expectations = [expect("throughput", Claim::Ratio { from: Some(1.39), to: None })];
        match test(&analysed(&measured, &expectations), &expectations)[0].metrics[0].rounds {
            Some(Rounds::Number(needed)) => needed,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(of(8), 2 * of(0));
}

/// Values of the runs that went well decide nothing, also where they are 0.
#[test]
fn a_metric_that_many_runs_of_a_side_lack_decides_no_expectation() {
    let range = Claim::Ratio { from: Some(0.5), to: Some(1.5) };
    let claims = [Claim::Same, Claim::More, Claim::Less, Claim::NotWorse, range];
    let expectations = claims.map(|claim| expect("wakeup_p99", claim));
    for factors in [[0.0, 0.0], [1.0, 1.4]] {
        let outcomes = |lacking: u32| {
            let measured = plan("p1", 1, &["default", "batch"]);
            let mut measured = rounds(measured, 0..20 - lacking, &factors);
            for round in 20 - lacking..20 {
                run(&mut measured, round, 0, factors[0]);
                run_of(&mut measured, round, 1, &[("throughput", 1000.0)]);
            }
            let tested = test(&analysed(&measured, &expectations), &expectations);
            tested.into_iter().map(|tested| tested.outcome).collect::<Vec<_>>()
        };
        assert!(!outcomes(4).contains(&Outcome::Open), "{factors:?}: a fifth");
        assert_eq!(outcomes(5), [Outcome::Open; 5], "{factors:?}: a quarter");
    }
}
