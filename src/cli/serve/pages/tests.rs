//! Searches, filters and verdicts of the list of plans.

use super::*;
use crate::analysis::testing::{heads, plan};
use crate::model::PlanEnd;

fn head(id: &str, backend: &str) -> PlanHead {
    PlanHead {
        title: "a plan to last".to_string(),
        backend: backend.to_string(),
        ended: None,
        tags: vec![format!("t-{id}")],
        ..heads(&[plan(id, 5, &[])]).remove(0)
    }
}

#[test]
fn a_search_is_a_selection_or_words() {
    let heads = [head("n2", "null"), head("p1", "local"), head("p0", "local")];
    for (search, expected) in [
        ("last", Some(&["p1"][..])),
        (" all ", Some(&["p0", "p1"])),
        ("tag=t-n2", Some(&["n2"])),
        ("since=1970-01-01,backend=local", Some(&["p0", "p1"])),
        ("big plan", None),
        ("last words", None),
    ] {
        let expected = expected.map(|ids| ids.iter().map(|id| id.to_string()).collect());
        let found = selected(search, &heads, 10).map(|found| found.expect(search));
        assert_eq!(found, expected, "{search}");
    }
    let wrong = selected("since=never", &heads, 10).expect("a selection").unwrap_err();
    assert!(wrong.message.contains("never"), "{}", wrong.message);
}

#[test]
fn plans_of_one_backend_with_results_have_a_history() {
    let done = RunCounts { done: 1, ..RunCounts::default() };
    let none = RunCounts::default();
    let heads = [("local", done), ("null", done), ("null", done), ("local", none)]
        .map(|(backend, runs)| PlanHead { runs, ..head("p", backend) });
    let has_history = heads.each_ref().map(|head| has_history(head, &heads));
    assert_eq!(has_history, [false, true, true, false]);
}

#[test]
fn rounds_that_replace_others_are_not_of_those_asked_for() {
    let counts = |done, failed, rounds| RunCounts {
        done,
        failed,
        total: 8,
        cells: 2,
        rounds,
        ..RunCounts::default()
    };
    let cases = [
        (counts(8, 0, 4), Some(PlanEnd::Complete), "4 rounds"),
        (counts(16, 0, 8), Some(PlanEnd::Complete), "4 rounds and 4 repeated"),
        (counts(5, 0, 3), Some(PlanEnd::Interrupted), "3 of 4 rounds"),
        (counts(2, 0, 1), Some(PlanEnd::Decided), "1 round"),
        (counts(5, 3, 4), Some(PlanEnd::Complete), "4 rounds, 3 runs failed"),
        (counts(0, 0, 0), None, "0 of 4 rounds"),
    ];
    for (runs, ended, expected) in cases {
        let head = PlanHead { ended, runs, ..head("p", "null") };
        assert_eq!(rounds(&head), expected);
    }
}
