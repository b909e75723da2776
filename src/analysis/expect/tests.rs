//! Outcomes of expectations on invented plans.

use super::super::testing::{of_variants, plan, rounds};
use super::super::{Question, analyse};
use super::*;

fn expect(metric: &str, claim: Claim) -> Expectation {
    Expectation { variant: "batch".to_string(), metric: metric.to_string(), claim, why: None }
}

/// Batch does so many times what the default does, of every metric.
fn tested(factor: f64, so_many: u32, expectations: &[Expectation]) -> Vec<Outcome> {
    let plan = rounds(plan("p1", 1, &["default", "batch"]), 0..so_many, &[1.0, factor]);
    let question = Question { metrics: metrics(expectations), ..of_variants(&plan) };
    let analysis = analyse(std::slice::from_ref(&plan), &[], &question);
    test(&analysis, expectations).into_iter().map(|tested| tested.outcome).collect()
}

#[test]
fn a_claim_holds_fails_or_is_open() {
    use Outcome::{Fails, Holds, Open};
    let range = |from: f64, to: f64| Claim::Ratio { from: Some(from), to: Some(to) };
    // Of 1.4 times the throughput, the wakeup latency and the switches, and of as many.
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
fn few_rounds_leave_it_open() {
    assert_eq!(tested(1.4, 2, &[expect("throughput", Claim::Better)]), [Outcome::Open]);
}
