//! The lines of plans that the null backend runs.

use super::*;
use crate::engine::testing::{parsed, started};

#[test]
fn the_first_line_says_what_is_measured_with_which_kernels_and_how_long_it_takes() {
    let mut progress = progress(false);
    let expected = "measuring two variants: 8 runs, at least 16 s";
    assert_eq!(progress.first_line(), expected);
    progress.job.started.backend = SampledPlan::LAB.to_string();
    progress.job.started.environment.kernel_release = "debian:6.18".to_string();
    let expected = "measuring two variants with debian:6.18: 8 runs, at least 16 s of virtual time";
    assert_eq!(progress.first_line(), expected);
}

const PLAN: &str = "schema = 1\ntitle = \"two variants\"\n[measure]\nrounds = 4\n\
    duration = \"1s\"\n[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n\
    [[workload]]\nuse = \"spin\"\n";

fn progress(until_decided: bool) -> Progress {
    let mut plan = parsed(PLAN);
    plan.measure.until_decided = until_decided;
    plan.measure.repeat_spoilt = true;
    plan.measure.budget_ns = Some(3_600_000_000_000);
    Progress::new(&Job::new(started(plan, PLAN)))
}

/// The lines printed after runs of these rounds, without the times; in round 1 one is spoilt.
fn lines(mut progress: Progress, rounds: u32) -> Vec<String> {
    let keys = (0..rounds).flat_map(|round| (0..2).map(move |cell| RunKey { round, cell }));
    let lines = keys.filter_map(|key| progress.run_ended(key, key.round == 1 && key.cell == 1));
    let lines: Vec<String> = lines.collect();
    let lines = lines.into_iter().chain(progress.last_line(PlanEnd::Decided));
    lines.map(|line| line.split(", ").next().unwrap().to_string()).collect()
}

#[test]
fn a_round_that_is_measured_again_is_counted_next_to_the_total() {
    let repeated = |runs: u32| format!("{runs} of 10 runs with 2 repeats");
    let mut expected = vec!["3 of 8 runs".to_string()];
    expected.extend([5, 7, 9, 10].map(repeated));
    assert_eq!(lines(progress(false), 5), expected);
}

#[test]
fn the_time_left_counts_the_rounds_that_will_be_measured_again() {
    let left = |runs: u32, is_spoilt: bool| {
        let mut progress = progress(false);
        progress.job.budget = None;
        for run in 0..runs {
            progress.run_ended(RunKey { round: run / 2, cell: run % 2 }, is_spoilt);
        }
        (progress.job.expected_runs(), progress.job.total_runs() - progress.job.runs_done())
    };
    assert_eq!(left(4, false), (8.0, 4));
    // All rounds are spoilt, so none is repeated: that would be in vain.
    assert_eq!(left(4, true).0, 8.0);
    assert_eq!(left(8, true), (8.0, 0));
}

#[test]
fn a_run_that_is_missing_raises_no_total() {
    let mut progress = progress(false);
    let key = |round, cell| RunKey { round, cell };
    for run in 1..8 {
        progress.run_ended(key(run / 2, run % 2), false);
    }
    let reason = "killed".to_string();
    progress.host(&HostNews::Ended { key: key(0, 0), reason, is_made_again: false });
    assert_eq!(progress.runs(), "7 of 8 runs");
}

#[test]
fn that_runs_get_little_of_a_cpu_is_said_now_and_then() {
    let mut progress = progress(false);
    let starved = HostNews::Starved { share: 0.25 };
    assert!(progress.host(&starved).is_some_and(|line| line.contains("25 % of a CPU")));
    assert_eq!(progress.host(&starved), None);
}

#[test]
fn skipped_runs_have_a_count_of_their_own() {
    let mut progress = progress(false);
    let skipped = Outcome::Skipped { reason: "not here".to_string() };
    let key = |cell| RunKey { round: 0, cell };
    progress.apply(&Event::RunEnded { key: key(1), outcome: skipped });
    progress.run_ended(key(0), false);
    let line = progress.line(Some(0)).expect("a round has ended");
    assert!(line.starts_with("2 of 8 runs (1 skipped), "), "{line}");
}

#[test]
fn headline_metrics_that_runs_have_not_are_reported_once_after_the_first_round() {
    let mut progress = progress(false);
    let run = |round, cell, importance: &str| {
        let metric = |name: &str, importance: &str| {
            serde_json::json!({
                "name": name, "unit": "ns", "direction": "lower_is_better", "statistic": "max",
                "importance": importance, "value": { "unknown": "12 samples\u{1b}" },
            })
        };
        let set = serde_json::json!({
            "name": "web", "workload": "schbench", "ops": "requests", "background": false,
            "metrics": [metric("wakeup_max", "explaining"), metric("request_p99", importance)],
            "histograms": [], "workers": [],
        });
        let result = serde_json::json!({
            "started_unix_ns": 0, "measured_ns": 1, "sets": [set], "knobs": [],
            "disturbances": [], "overhead_cpu_ns": { "known": 0 },
        });
        let result = serde_json::from_value(result).expect("a result");
        Event::RunEnded { key: RunKey { round, cell }, outcome: Outcome::Done { result } }
    };
    progress.apply(&run(0, 0, "explaining"));
    assert_eq!(progress.missing(), None);
    progress.apply(&run(0, 1, "headline"));
    let last = "1 run, the last of spin / b, web, request_p99: 12 samples\\u{1b}";
    assert_eq!(progress.missing().as_deref(), Some(last));
    assert_eq!(progress.missing_at_first(), None, "the round goes on");
    progress.apply(&run(1, 0, "explaining"));
    let expected = format!("no value of a headline metric in {last}");
    assert_eq!(progress.missing_at_first(), Some(expected));
    assert_eq!(progress.missing_at_first(), None);
}

#[test]
fn a_plan_that_ends_when_decided_shows_no_total() {
    let expected = ["1 round done", "2 rounds done", "3 rounds done"];
    assert_eq!(lines(progress(true), 3), expected);
    assert_eq!(progress(true).last_line(PlanEnd::Complete), None, "nothing was done");
    let mut interrupted = progress(true);
    interrupted.run_ended(RunKey { round: 0, cell: 0 }, false);
    assert_eq!(interrupted.last_line(PlanEnd::Interrupted), None);
}

#[test]
fn no_more_time_is_left_than_the_budget_has() {
    let mut progress = progress(true);
    assert_eq!(progress.left(), "60 min of the budget left");
    assert!(progress.share() < 0.1);
    progress.job.budget = Some(Duration::ZERO);
    assert_eq!((&*progress.left(), progress.share()), ("0 s of the budget left", 1.0));
}
