//! The exit codes of invented analyses.

use super::*;
use crate::analysis::{SetTable, Side, WorkTable};
use crate::model::{MetricKind, Statistic, Unit};
use crate::stats::{Judged, NoEffect, Rounds, Why};

const OPEN: Verdict = Verdict::Inconclusive { why: Why::Noise, rounds: Rounds::Number(20) };
const ZERO: Verdict = Verdict::Unjudged(Unjudged::NoEffect(NoEffect::NoPairs));
const NEUTRAL: Verdict = Verdict::Unjudged(Unjudged::Neutral);

/// A row `m0`, `m1` ... of the headline family for each verdict, and a gap for each reason.
fn analysis(verdicts: &[Verdict], gaps: &[&str]) -> Analysis {
    let side = |label: &str| Side { label: label.to_string(), ..Side::default() };
    let row = |(at, verdict): (usize, &Verdict)| {
        let direction = match *verdict {
            NEUTRAL => Direction::Neutral,
            _ => Direction::HigherIsBetter,
        };
        let (name, unit) = (format!("m{at}"), Unit::OpsPerS);
        let judged = Judged {
            effect: Err(NoEffect::NoPairs),
            verdict: *verdict,
            p_difference: None,
            p_same: None,
            bound: None,
            excluded: Default::default(),
            decided_at: None,
        };
        Row {
            kind: MetricKind::explaining(name, unit, direction, Statistic::Rate),
            family: Family::Headline,
            cells: vec![Cell::default(), Cell { judged: Some(judged), ..Cell::default() }],
        }
    };
    let gap = |reason: &&str| Note::Skipped {
        sides: vec!["batch".to_string()],
        works: vec!["web".to_string()],
        reason: reason.to_string(),
    };
    let rows = verdicts.iter().enumerate().map(row).collect();
    let sets = vec![SetTable { rows, ..SetTable::default() }];
    Analysis {
        sides: vec![side("default"), side("batch")],
        works: vec![WorkTable { label: "web threads=4".to_string(), sets, ..WorkTable::default() }],
        notes: gaps.iter().map(gap).collect(),
        ..Analysis::default()
    }
}

const NONE: Gate = Gate { fail_on: None };
const REGRESSION: Gate = Gate { fail_on: Some(FailOn::Regression) };
const BISECT: Gate = Gate { fail_on: Some(FailOn::Bisect) };

/// The exit code, 0 for none, and what is said.
fn end(gate: &Gate, analyses: &[Analysis]) -> (u8, String) {
    match gate.translate(|| gate.judge(analyses)) {
        Ok(()) => (0, String::new()),
        Err(failure) => {
            let code = match failure {
                Failure::Regression(_) => 1,
                Failure::Session(SessionError::Here(_)) => 3,
                Failure::Bisect { code, .. } => code,
                _ => panic!("{failure}"),
            };
            (code, failure.to_string())
        }
    }
}

#[test]
fn what_could_not_be_judged_is_not_good() {
    use Verdict::{Better, Same, Worse};
    // Verdicts, gaps, and the exit codes of a regression and of a bisection.
    let cases: &[(&[Verdict], &[&str], u8, u8)] = &[
        (&[Same, Better, NEUTRAL], &[], 0, 0),
        (&[Same, OPEN], &[], 0, 125),
        (&[Same, Worse], &[], 1, 1),
        (&[Worse, ZERO, OPEN], &["web: failed"], 1, 1),
        (&[Same], &["web: failed"], 3, 125),
        (&[Same, ZERO], &[], 3, 125),
        (&[ZERO], &[], 3, 125),
        (&[NEUTRAL], &[], 3, 125),
        (&[], &["web: failed"], 3, 125),
        (&[], &[], 3, 125),
    ];
    for (verdicts, gaps, fail_on, bisect) in cases {
        let analysis = [analysis(verdicts, gaps)];
        assert_eq!(end(&NONE, &analysis).0, 0);
        assert_eq!(end(&REGRESSION, &analysis).0, *fail_on, "{verdicts:?} {gaps:?}");
        assert_eq!(end(&BISECT, &analysis).0, *bisect, "{verdicts:?} {gaps:?}");
    }
}

#[test]
fn what_explains_is_worth_a_look_and_no_gate() {
    let [neutral, nothing, zero] =
        [&[NEUTRAL][..], &[], &[ZERO]].map(|verdicts| analysis(verdicts, &[]));
    assert!(anything(&neutral).is_ok());
    assert!(anything(&nothing).is_err());
    assert!(anything(&zero).is_err());
    let (code, text) = end(&REGRESSION, std::slice::from_ref(&neutral));
    assert_eq!(code, 3);
    assert!(text.contains("has no verdicts") && text.contains("--metric"), "{text}");
    // An event that never happened on one side has no ratio, so no verdict is missing.
    let mut never = analysis(&[Verdict::Same, ZERO], &[]);
    never.works[0].sets[0].rows[1].kind.direction = Direction::Neutral;
    assert_eq!(end(&REGRESSION, &[never]).0, 0);
}

#[test]
fn what_could_not_be_judged_is_named() {
    let mut first = analysis(&[ZERO, Verdict::Same], &["a\u{1b}"]);
    first.command = "schedlab report 7 --db x.db".to_string();
    let named = end(&REGRESSION, &[first]).1;
    assert!(named.contains("batch (web): a\\u{1b}"), "{named}");
    assert!(named.contains("\nhint: schedlab report 7 --db x.db -v says more; "), "{named}");
    let many = end(&REGRESSION, &[analysis(&[ZERO; 8], &[])]).1;
    assert!(many.contains("m4 of batch cannot be compared and 3 more\n"), "{many}");
}

/// Values that are missing, or nothing done on both sides; zero misses on both are as they should be.
#[test]
fn a_headline_metric_without_a_verdict_is_not_good() {
    let zeros = || Cell { values: vec![(0, 0.0)], ..Cell::default() };
    let some = || Cell { values: vec![(0, 1.0)], ..Cell::default() };
    let (higher, lower) = (Direction::HigherIsBetter, Direction::LowerIsBetter);
    let cases = [
        (lower, [some(), Cell::default()], 3),
        (higher, [zeros(), zeros()], 3),
        (lower, [zeros(), zeros()], 0),
    ];
    for (direction, cells, code) in cases {
        let mut missing = analysis(&[Verdict::Same, Verdict::Same], &[]);
        let row = &mut missing.works[0].sets[0].rows[1];
        (row.kind.direction, row.cells) = (direction, cells.to_vec());
        let (found, text) = end(&REGRESSION, &[missing]);
        assert_eq!((found, text.contains("m1 of batch")), (code, code == 3), "{text}");
    }
}

/// Explaining metrics are judged for readers, not for a gate.
#[test]
fn a_gate_goes_by_headline_metrics() {
    let mut explained = analysis(&[Verdict::Same, Verdict::Worse], &[]);
    explained.works[0].sets[0].rows[1].family = Family::Explaining;
    let mut open = analysis(&[Verdict::Same, OPEN], &[]);
    open.works[0].sets[0].rows[1].family = Family::Explaining;
    let mut counter = analysis(&[Verdict::Same, Verdict::Worse], &[]);
    counter.works[0].sets[0].rows[1].kind.direction = Direction::Neutral;
    for analysis in [explained, open, counter] {
        let analyses = [analysis];
        assert_eq!(end(&REGRESSION, &analyses).0, 0);
        assert_eq!(end(&BISECT, &analyses).0, 0);
    }
}

/// It would pass whatever is measured.
#[test]
fn a_gate_needs_rounds_that_can_decide() {
    let few = |least| Verdict::Inconclusive {
        why: Why::TooFewRounds { least },
        rounds: Rounds::MoreThan(1000),
    };
    let (code, text) = end(&REGRESSION, &[analysis(&[Verdict::Same, few(6)], &[])]);
    assert!(code == 3 && text.contains("at least 6"), "{code} {text}");
    assert_eq!(end(&REGRESSION, &[analysis(&[few(6), Verdict::Worse], &[])]).0, 1);
}

#[test]
fn a_regression_in_any_comparison_goes_first() {
    let both = [
        analysis(&[OPEN, ZERO], &["web: failed"]),
        analysis(&[Verdict::Worse], &[]),
        analysis(&[], &[]),
    ];
    for gate in [REGRESSION, BISECT] {
        let (code, text) = end(&gate, &both);
        assert_eq!((code, text.as_str()), (1, "regression: web threads=4 m0 of batch is WORSE"));
    }
}

#[test]
fn a_fault_of_ours_is_no_bad_commit() {
    type Work = fn() -> Result<(), Failure>;
    let cases: &[(Work, u8)] = &[
        (|| Err(SessionError::Here("".into()).into()), 125),
        (|| Err(SessionError::Missing("".into()).into()), 125),
        (|| Err(SessionError::Usage("".into()).into()), 255),
    ];
    for (work, expected) in cases {
        let done = BISECT.translate(work);
        assert!(matches!(done, Err(Failure::Bisect { code, .. }) if code == *expected));
    }
    let done = NONE.translate(cases[0].0);
    assert!(matches!(done, Err(Failure::Session(SessionError::Here(_)))));
}
