//! How many runs a plan has, whether any verdict takes more rounds, and how many would do: known
//! before it runs.

use std::collections::BTreeSet;

use crate::analysis::{self, Power};
use crate::engine::Job;
use crate::model::{Measure, show_duration};
use crate::report::{power, rough_time};

use crate::report::numbers::counted;

/// `power`: from what is stored of these works.
pub fn describe(job: &Job, is_virtual: bool, power: Option<&Power>) -> Option<String> {
    let plan = &job.started.plan;
    let round_ns = analysis::round_ns(plan).max(1);
    let rounds = rounds_in_budget(job, job.started.cells.len(), is_virtual);
    let rounds = rounds.unwrap_or(u64::MAX).min(plan.measure.rounds.into());
    let needed = u64::from(job.needed_rounds);
    if plan.variants.len() < 2 || job.started.sharding.is_some() || rounds >= needed {
        return None;
    }
    let noun = if rounds == 1 { "round decides" } else { "rounds decide" };
    let time = if is_virtual {
        String::new()
    } else {
        format!(" ({})", rough_time(needed.saturating_mul(round_ns)))
    };
    let known = power.and_then(power::in_short);
    let more = known.unwrap_or_else(|| "small differences take more".to_string());
    Some(format!(
        "too few: {rounds} {noun} nothing, any verdict takes at least {needed}{time}; {more}"
    ))
}

/// Rounds of so many runs that the budget has time for; the first ones are made whatever it is. `None`: there is
/// none, or nobody knows how much virtual time this host makes of it.
fn rounds_in_budget(job: &Job, runs: usize, is_virtual: bool) -> Option<u64> {
    let budget = job.budget.filter(|_| !is_virtual)?;
    let round_ns = job.started.plan.mean_run_ns().saturating_mul(runs as u64).max(1);
    Some((budget.as_nanos() as u64 / round_ns).max(job.min_rounds.into()))
}

/// How many runs are made, and the time that they take; `skipped`: the cells that cannot run here.
pub fn all_runs(job: &Job, skipped: &BTreeSet<u32>, is_virtual: bool) -> String {
    let of_round = job.started.cells.len() - skipped.len();
    let not_run = job.planned_runs_of(skipped);
    let runs = job.planned_runs() - not_run;
    let rounds = rounds_in_budget(job, of_round, is_virtual);
    let rounds = rounds.filter(|rounds| rounds * (of_round as u64) < runs);
    let (runs, not_run) = match rounds {
        Some(rounds) => (rounds * of_round as u64, rounds * skipped.len() as u64),
        None => (runs, not_run),
    };
    let budget = job.budget.map(|budget| show_duration(budget.as_nanos() as u64));
    let limit = match (budget, rounds) {
        (None, _) => String::new(),
        (Some(budget), None) if is_virtual => {
            // These are made whatever time they take.
            let first = match job.min_rounds {
                ..=1 => String::new(),
                rounds => format!(" after the first {}", counted(rounds, "seed")),
            };
            format!(" or what the budget of {budget} has time for{first}")
        }
        (Some(_), None) => String::new(),
        (Some(budget), Some(rounds)) => {
            let rounds = counted(rounds, "round");
            format!(" ({rounds}: the budget of {budget} has time for no more)")
        }
    };
    let not_run = match not_run {
        0 => String::new(),
        skipped if runs == 0 => format!("; {skipped} are skipped"),
        more => format!("; {more} more are skipped"),
    };
    let [most, least] = if job.started.plan.measure.until_decided {
        ["at most ", "up to "]
    } else {
        ["", "at least "]
    };
    let time = match runs.saturating_mul(job.started.plan.mean_run_ns()) {
        ns @ ..1_000_000_000 => show_duration(ns),
        ns => rough_time(ns),
    };
    // Rounds are seeds there, and a plan's `rounds` is not looked at.
    let seeds = match job.started.plan.measure {
        Measure { rounds, until_decided: false, .. } if is_virtual => {
            format!(" ({})", counted(rounds, "seed"))
        }
        _ => String::new(),
    };
    let clock = if is_virtual { " of virtual time" } else { "" };
    format!("{most}{}{seeds}{limit}, {least}{time}{clock}{not_run}", counted(runs, "run"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::{parsed, started};

    fn job(measure: &str, variants: &[&str]) -> Job {
        let variants = variants.iter().map(|name| format!("[[variant]]\nname = \"{name}\"\n"));
        let text = format!(
            "schema = 1\n[measure]\nduration = \"9s\"\nwarmup = \"1s\"\n{measure}\n{}\
             [[workload]]\nuse = \"spin\"\n",
            variants.collect::<String>()
        );
        let plan = parsed(&text);
        let needed_rounds = analysis::needed_rounds(&plan);
        let mut job = Job::new(started(plan, &text));
        job.needed_rounds = needed_rounds;
        job
    }

    #[test]
    fn runs_that_are_to_be_made_are_those_that_the_budget_has_time_for() {
        let two = &["a", "b"][..];
        let until = "until-decided = true\nbudget";
        let cases = [
            ("rounds = 3".to_string(), false, "6 runs, at least 60 s"),
            ("rounds = 3\nbudget = \"1h\"".to_string(), false, "6 runs, at least 60 s"),
            (
                "rounds = 9\nbudget = \"1min\"".to_string(),
                false,
                "6 runs (3 rounds: the budget of 1min has time for no more), at least 60 s",
            ),
            (
                format!("{until} = \"3s\""),
                false,
                "at most 2 runs (1 round: the budget of 3s has time for no more), up to 20 s",
            ),
            (
                "rounds = 3\nbudget = \"3s\"".to_string(),
                true,
                "6 runs (3 seeds) or what the budget of 3s has time for, at least 60 s of virtual time",
            ),
        ];
        for (measure, is_virtual, expected) in cases {
            let all = all_runs(&job(&measure, two), &BTreeSet::new(), is_virtual);
            assert_eq!(all, expected, "{measure}");
        }
        let mut in_lab = job(&format!("{until} = \"3s\"\nrounds = 40"), two);
        in_lab.min_rounds = 8;
        let expected = "at most 80 runs or what the budget of 3s has time for after the first 8 seeds, \
                        up to 13 min of virtual time";
        assert_eq!(all_runs(&in_lab, &BTreeSet::new(), true), expected);
        let lone = all_runs(&job("rounds = 9\nbudget = \"30s\"", &["a"]), &BTreeSet::new(), false);
        assert!(lone.starts_with("3 runs (3 rounds: "), "{lone}");
        let skipped = BTreeSet::from([1]);
        let some = all_runs(&job("rounds = 9\nbudget = \"1min\"", two), &skipped, false);
        let expected = "6 runs (6 rounds: the budget of 1min has time for no more), at least 60 s; \
                        6 more are skipped";
        assert_eq!(some, expected);
    }

    #[test]
    fn too_few_rounds_are_said_with_those_that_would_do_and_their_time() {
        let of = |rounds, time| {
            Some(format!(
                "too few: {rounds} nothing, any verdict takes at least 6{time}; small differences \
                 take more"
            ))
        };
        let two = &["a", "b"][..];
        let cases = [
            ("rounds = 3", two, false, of("3 rounds decide", " (2 min)")),
            ("rounds = 1", two, true, of("1 round decides", "")),
            ("rounds = 6", two, false, None),
            ("rounds = 3", &["a"], false, None),
            (
                "until-decided = true\nbudget = \"1min\"",
                two,
                false,
                of("3 rounds decide", " (2 min)"),
            ),
            // Fixed rounds for which the budget has no time.
            ("rounds = 9\nbudget = \"1min\"", two, false, of("3 rounds decide", " (2 min)")),
            ("rounds = 9\nbudget = \"1min\"", two, true, None),
            ("until-decided = true\nbudget = \"1min\"", two, true, None),
            ("until-decided = true\nbudget = \"1h\"", two, false, None),
        ];
        for (measure, variants, is_virtual, expected) in cases {
            let said = describe(&job(measure, variants), is_virtual, None);
            assert_eq!(said, expected, "{measure}");
        }
    }
}
