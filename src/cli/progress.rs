//! How far a plan is: its runs, its rounds, the time that is left; and a line for each round, for
//! where there is no view. Reads the clock.

use std::time::{Duration, Instant};

use crate::engine::{HostNews, Job};
use crate::model::{
    Event, Importance, Outcome, PlanEnd, PlanStarted, Reading, RunKey, RunResult, SampledPlan,
};
use crate::report::{clean, rough_time};

use super::host_news;
use super::text::plural;

/// After so long without a line a run that begins has one.
const SILENCE: Duration = Duration::from_secs(5);
const STARVED_INTERVAL: Duration = Duration::from_secs(60);
/// The number of lines for runs that are not in rounds.
const LINES_WITHOUT_ROUNDS: u64 = 20;

pub struct Progress {
    /// With the runs that have ended so far.
    job: Job,
    started: Instant,
    /// Runs that ended since.
    ended: u64,
    /// Skipped runs among all that have ended.
    skipped: u64,
    last_round: Option<u32>,
    /// When the last line was printed.
    said: Instant,
    /// When it was last said that runs get little of a CPU.
    starved: Option<Instant>,
    missing: Missing,
}

/// Runs without a value of a headline metric.
#[derive(Default)]
struct Missing {
    runs: u64,
    /// The last of them: the cell, the metric and why.
    last: String,
    is_reported: bool,
}

impl Progress {
    pub fn new(job: &Job) -> Progress {
        let started = Instant::now();
        Progress {
            job: job.clone(),
            started,
            ended: 0,
            skipped: 0,
            last_round: None,
            said: started,
            starved: None,
            missing: Missing::default(),
        }
    }

    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The cell of a run: `web threads=4 / batch`.
    pub fn cell(&self, key: RunKey) -> String {
        let cells = &self.job.started.cells;
        cells.get(key.cell as usize).map(|cell| clean(&cell.place())).unwrap_or_default()
    }

    /// The line before the first run: `measuring Two: 6 runs, about 9 s`, or which kernels are booted for it.
    pub fn first_line(&self) -> String {
        let PlanStarted { plan, environment, backend, .. } = &self.job.started;
        let runs = match self.until_decided() {
            true => format!("until it is decided, {}", self.left()),
            false => {
                let runs = self.job.total_runs() - self.job.runs_done();
                let ns = runs.saturating_mul(plan.measure.warmup_ns + plan.measure.duration_ns);
                let of = if backend == SampledPlan::LAB { " of virtual time" } else { "" };
                format!("{}, at least {}{of}", plural(runs, "run"), rough_time(ns))
            }
        };
        let title = clean(&plan.title);
        match backend == SampledPlan::LAB {
            true => format!("booting {} for {title}: {runs}", clean(&environment.kernel_release)),
            false => format!("measuring {title}: {runs}"),
        }
    }

    /// Takes an event in; the line that is due after it, if one is.
    pub fn apply(&mut self, event: &Event) -> Option<String> {
        let line = self.due(event);
        if line.is_some() {
            self.said = Instant::now();
        }
        line
    }

    fn due(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::RunStarted { key } if self.said.elapsed() >= SILENCE => {
                Some(format!("{}, now {}", self.runs(), self.cell(*key)))
            }
            Event::RunEnded { key, outcome } => {
                self.skipped += u64::from(matches!(outcome, Outcome::Skipped { .. }));
                if let Outcome::Done { result } = outcome {
                    self.add_missing(*key, result);
                }
                self.run_ended(*key, outcome.is_spoilt())
            }
            Event::PlanEnded { reason, .. } => self.last_line(*reason),
            _ => None,
        }
    }

    /// The line of what the host does; now and then where it goes on.
    pub fn host(&mut self, news: &HostNews) -> Option<String> {
        if let HostNews::Starved { .. } = news {
            if self.starved.is_some_and(|last| last.elapsed() < STARVED_INTERVAL) {
                return None;
            }
            self.starved = Some(Instant::now());
        }
        if let HostNews::Ended { key, reason, is_made_again: false } = news {
            self.job.miss(*key, reason.clone());
        }
        Some(host_news::describe(news, &self.job.started.cells))
    }

    fn add_missing(&mut self, key: RunKey, result: &RunResult) {
        let sets = result.sets.iter().filter(|set| !set.background);
        let metrics = sets.flat_map(|set| set.metrics.iter().map(move |metric| (set, metric)));
        let mut unknown = metrics.filter_map(|(set, metric)| match &metric.value {
            Reading::Unknown(why) if metric.kind.importance == Importance::Headline => {
                Some(format!("{}, {}: {why}", set.name, metric.kind.name))
            }
            _ => None,
        });
        if let Some(first) = unknown.next() {
            self.missing.runs += 1;
            self.missing.last = clean(&format!("{}, {first}", self.cell(key)));
        }
    }

    /// How many runs had no value of a headline metric, and the last one; `None`: none.
    pub fn missing(&self) -> Option<String> {
        let Missing { runs, last, .. } = &self.missing;
        (*runs > 0).then(|| format!("{}, the last of {last}", plural(*runs, "run")))
    }

    /// [`Progress::missing`] once, when the first round has ended.
    pub fn missing_at_first(&mut self) -> Option<String> {
        let is_due = !self.missing.is_reported && self.last_round.is_some_and(|round| round > 0);
        let missing = self.missing().filter(|_| is_due)?;
        self.missing.is_reported = true;
        Some(format!("no value of a headline metric in {missing}"))
    }

    /// The line of the last round, which no other follows; the last of a known number of runs had its line.
    fn last_line(&self, reason: PlanEnd) -> Option<String> {
        let is_whole = reason != PlanEnd::Interrupted && self.until_decided();
        is_whole.then(|| self.line(self.last_round))?
    }

    pub fn until_decided(&self) -> bool {
        self.job.started.plan.measure.until_decided
    }

    fn run_ended(&mut self, key: RunKey, is_spoilt: bool) -> Option<String> {
        self.job.add(key, is_spoilt);
        self.ended += 1;
        let last = self.last_round.replace(key.round);
        let is_due = match self.job.has_rounds() {
            true => last != Some(key.round),
            false => {
                let step = (self.job.total_runs() / LINES_WITHOUT_ROUNDS).max(1);
                self.ended.is_multiple_of(step)
            }
        };
        self.line(last.filter(|_| is_due))
    }

    /// `ended`: the round before the one that has just begun.
    fn line(&self, ended: Option<u32>) -> Option<String> {
        if self.until_decided() {
            let rounds = ended? + 1;
            let s = if rounds == 1 { "" } else { "s" };
            return Some(format!("{rounds} round{s} done, {}", self.left()));
        }
        let is_last = self.job.runs_done() == self.job.total_runs();
        (ended.is_some() || is_last).then(|| format!("{}, {}", self.runs(), self.left()))
    }

    /// `84 of 252 runs and 3 repeated (2 skipped)`: those replace spoilt ones; where the end is not known the
    /// runs alone.
    pub fn runs(&self) -> String {
        let (done, asked) = (self.job.runs_done(), self.job.planned_runs());
        let repeated = match self.job.total_runs().saturating_sub(asked) {
            0 => String::new(),
            more => format!(" and {more} repeated"),
        };
        let skipped = match self.skipped {
            0 => String::new(),
            skipped => format!(" ({skipped} skipped)"),
        };
        match self.until_decided() {
            true => format!("{done} runs{skipped}"),
            false => format!("{done} of {asked} runs{repeated}{skipped}"),
        }
    }

    /// `39 s`.
    pub fn gone(&self) -> String {
        rough_time(self.started.elapsed().as_nanos() as u64)
    }

    /// `78 s left`.
    pub fn left(&self) -> String {
        let of = if self.until_decided() { " of the budget" } else { "" };
        match self.seconds_left() {
            Some(seconds) => format!("{}{of} left", rough_time((seconds * 1e9) as u64)),
            None => "time left not known yet".to_string(),
        }
    }

    /// Done of the runs, or of the budget where that is what ends it; 0 to 1.
    pub fn share(&self) -> f64 {
        let share = match self.job.budget.filter(|_| self.until_decided()) {
            Some(budget) => self.started.elapsed().as_secs_f64() / budget.as_secs_f64(),
            None => self.job.runs_done() as f64 / self.job.expected_runs(),
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 1.0 }
    }

    /// From the mean time of the runs so far, and the rounds that were spoilt; no longer than the budget.
    fn seconds_left(&self) -> Option<f64> {
        let elapsed = self.started.elapsed();
        let budget = self.job.budget.map(|budget| budget.saturating_sub(elapsed).as_secs_f64());
        if let Some(budget) = budget.filter(|_| self.until_decided()) {
            return Some(budget);
        }
        let mean = elapsed.as_secs_f64() / self.ended as f64;
        let all = mean * (self.job.expected_runs() - self.job.runs_done() as f64).max(0.0);
        (self.ended > 0).then(|| budget.map_or(all, |budget| all.min(budget)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Backend, Null};
    use crate::model::EVENT_SCHEMA;
    use crate::plan;

    #[test]
    fn the_first_line_says_what_is_measured_or_booted_and_how_long_it_takes() {
        let mut progress = progress(false);
        let expected = "measuring two variants: 8 runs, at least 16 s";
        assert_eq!(progress.first_line(), expected);
        progress.job.started.backend = SampledPlan::LAB.to_string();
        progress.job.started.environment.kernel_release = "debian:6.18".to_string();
        let expected =
            "booting debian:6.18 for two variants: 8 runs, at least 16 s of virtual time";
        assert_eq!(progress.first_line(), expected);
    }

    const PLAN: &str = "schema = 1\ntitle = \"two variants\"\n[measure]\nrounds = 4\n\
        duration = \"1s\"\n[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n\
        [[workload]]\nuse = \"spin\"\n";

    fn progress(until_decided: bool) -> Progress {
        let mut plan = plan::parse("test.toml", PLAN, None, plan::Known::default())
            .expect("the plan is right");
        plan.measure.until_decided = until_decided;
        plan.measure.repeat_spoilt = true;
        plan.measure.budget_ns = Some(3_600_000_000_000);
        let job = Job::new(PlanStarted {
            schema: EVENT_SCHEMA,
            id: "test".to_string(),
            backend: "null".to_string(),
            started_unix_ns: 0,
            source: PLAN.to_string(),
            cells: plan::cells(&plan),
            plan,
            judged: Default::default(),
            sharding: None,
            environment: Null::default().environment(),
        });
        Progress::new(&job)
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
        let repeated = |runs: u32| format!("{runs} of 8 runs and 2 repeated");
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
}
