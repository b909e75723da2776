//! How far a plan is: its runs, its rounds, the time that is left; and a line for each round, for
//! where there is no view. Reads the clock.

use std::time::{Duration, Instant};

use crate::engine::{HostNews, Job};
use crate::model::{
    Event, Importance, Outcome, PlanEnd, PlanStarted, Reading, RunKey, RunResult, SampledPlan,
};
use crate::report::{clean, rough_time};

use super::host_news;
use crate::report::numbers::counted;

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

    /// The line before the first run: `measuring Two: 6 runs, about 9 s`, or with which kernels.
    pub fn first_line(&self) -> String {
        let PlanStarted { plan, environment, backend, .. } = &self.job.started;
        let runs = if self.until_decided() {
            format!("until it is decided, {}", self.left())
        } else {
            let runs = self.job.total_runs() - self.job.runs_done();
            let ns = runs.saturating_mul(plan.mean_run_ns());
            let of = if backend == SampledPlan::LAB { " of virtual time" } else { "" };
            format!("{}, at least {}{of}", counted(runs, "run"), rough_time(ns))
        };
        let title = clean(&plan.title);
        if backend == SampledPlan::LAB {
            format!("measuring {title} with {}: {runs}", clean(&environment.kernel_release))
        } else {
            format!("measuring {title}: {runs}")
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
        (*runs > 0).then(|| format!("{}, the last of {last}", counted(*runs, "run")))
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
        let is_due = if self.job.has_rounds() {
            last != Some(key.round)
        } else {
            let step = (self.job.total_runs() / LINES_WITHOUT_ROUNDS).max(1);
            self.ended.is_multiple_of(step)
        };
        self.line(last.filter(|_| is_due))
    }

    /// `ended`: the round before the one that has just begun.
    fn line(&self, ended: Option<u32>) -> Option<String> {
        if self.until_decided() {
            let rounds = ended? + 1;
            // The budget does not end them.
            let first = self.job.min_rounds;
            let is_over = self.seconds_left() == Some(0.0);
            return Some(match rounds < first {
                true if is_over => {
                    format!("{rounds} of the first {first} rounds done, over the budget")
                }
                true => format!("{rounds} of the first {first} rounds done, {}", self.left()),
                false => format!("{} done, {}", counted(rounds, "round"), self.left()),
            });
        }
        let is_last = self.job.runs_done() == self.job.total_runs();
        (ended.is_some() || is_last).then(|| format!("{}, {}", self.runs(), self.left()))
    }

    /// `84 of 255 runs with 3 repeats (2 skipped)`: those replace spoilt ones; where the end is not known the
    /// runs alone.
    pub fn runs(&self) -> String {
        let (done, all) = (self.job.runs_done(), self.job.total_runs());
        let repeated = match all.saturating_sub(self.job.planned_runs()) {
            0 => String::new(),
            more => format!(" with {more} repeats"),
        };
        let skipped = match self.skipped {
            0 => String::new(),
            skipped => format!(" ({skipped} skipped)"),
        };
        if self.until_decided() {
            format!("{done} runs{skipped}")
        } else {
            format!("{done} of {all} runs{repeated}{skipped}")
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
mod tests;
