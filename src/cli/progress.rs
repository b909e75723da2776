//! Progress of a plan on standard error: a bar with the time left on a terminal, a line a
//! round elsewhere.

use std::io;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::engine::Job;
use crate::model::{Event, Outcome, PlanEnd, RunKey};

use super::terminal;

pub struct Progress {
    /// With the runs that have ended so far.
    job: Job,
    started: Instant,
    /// Runs that ended since.
    ended: u64,
    /// Of all runs that have ended.
    skipped: u64,
    last_round: Option<u32>,
    display: Display,
}

enum Display {
    None,
    Lines,
    Bar(ProgressBar),
}

impl Progress {
    pub fn new(job: &Job, quiet: bool) -> Progress {
        let display = match (quiet, terminal::redraws(&io::stderr())) {
            (true, _) => Display::None,
            (false, false) => Display::Lines,
            (false, true) => Display::Bar(bar(job)),
        };
        let started = Instant::now();
        Progress { job: job.clone(), started, ended: 0, skipped: 0, last_round: None, display }
    }

    pub fn show(&mut self, event: &Event) {
        match event {
            Event::RunStarted { key } => self.run_started(*key),
            Event::RunEnded { key, outcome } => {
                self.skipped += u64::from(matches!(outcome, Outcome::Skipped { .. }));
                let line = self.run_ended(*key, outcome.is_spoilt());
                self.message(line);
            }
            Event::PlanEnded { reason, .. } => self.message(self.last_line(*reason)),
            _ => {}
        }
    }

    fn message(&self, line: Option<String>) {
        if let (Display::Lines, Some(line)) = (&self.display, line) {
            terminal::message(&line);
        }
    }

    /// Of the last round, which no other follows; the last of a known number of runs had its line.
    fn last_line(&self, reason: PlanEnd) -> Option<String> {
        let is_whole = reason != PlanEnd::Interrupted && self.until_decided();
        is_whole.then(|| self.line(self.last_round, &self.time_left()))?
    }

    pub fn finish(&self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }

    fn until_decided(&self) -> bool {
        self.job.started.plan.measure.until_decided
    }

    fn run_started(&self, key: RunKey) {
        if let Display::Bar(bar) = &self.display {
            let cell = &self.job.started.cells[key.cell as usize];
            let what = format!("{} / {}", cell.work.label(), cell.variant.name);
            let short: String = what.chars().take(30).collect();
            let round = key.round + 1;
            bar.set_message(match self.until_decided() {
                true => format!("round {round} {short}"),
                // Rounds that are measured again come after the plan's own.
                false => {
                    format!("{round}/{} {short}", self.job.started.plan.measure.rounds.max(round))
                }
            });
        }
    }

    /// The line that is due after this run, if one is.
    fn run_ended(&mut self, key: RunKey, is_spoilt: bool) -> Option<String> {
        self.job.add(key, is_spoilt);
        self.ended += 1;
        let left = self.time_left();
        if let Display::Bar(bar) = &self.display {
            bar.set_length(self.job.total_runs());
            bar.set_position(self.job.runs_done());
            bar.set_prefix(left.clone());
        }
        let last = self.last_round.replace(key.round);
        self.line(last.filter(|last| *last != key.round), &left)
    }

    /// `ended`: the round before the one that has just begun.
    fn line(&self, ended: Option<u32>, left: &str) -> Option<String> {
        if self.until_decided() {
            let rounds = ended? + 1;
            let s = if rounds == 1 { "" } else { "s" };
            return Some(format!("{rounds} round{s} done, {left} of the budget left"));
        }
        let (done, total) = (self.job.runs_done(), self.job.total_runs());
        let skipped = match self.skipped {
            0 => String::new(),
            skipped => format!(" ({skipped} skipped)"),
        };
        (ended.is_some() || done == total)
            .then(|| format!("{done} of {total} runs{skipped}, {left} left"))
    }

    /// From the mean time of the runs so far; no longer than the budget.
    fn time_left(&self) -> String {
        let elapsed = self.started.elapsed();
        let mean = elapsed.as_secs_f64() / self.ended.max(1) as f64;
        let all = mean * self.job.total_runs().saturating_sub(self.job.runs_done()) as f64;
        let budget = self.job.budget.map(|budget| budget.saturating_sub(elapsed).as_secs_f64());
        shown(match budget {
            Some(budget) if self.until_decided() => budget,
            Some(budget) => all.min(budget),
            None => all,
        })
    }
}

fn shown(seconds: f64) -> String {
    match seconds.round() as u64 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A plan that ends when all is decided has no bar: its end is not known.
fn bar(job: &Job) -> ProgressBar {
    let bar = ProgressBar::new(job.total_runs());
    let template = match job.started.plan.measure.until_decided {
        true => "{spinner} {pos} runs  {elapsed} gone, {prefix} of the budget left  {msg}",
        false => "{bar:20} {pos}/{len} runs  {elapsed} gone, {prefix} left  {msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_prefix("?");
    bar.set_position(job.runs_done());
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Backend, Null};
    use crate::model::{EVENT_SCHEMA, PlanStarted};
    use crate::plan;

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
            environment: Null::default().environment(),
        });
        Progress { display: Display::None, ..Progress::new(&job, true) }
    }

    /// What is printed after runs of these rounds, without the times; in round 1 one is spoilt.
    fn lines(mut progress: Progress, rounds: u32) -> Vec<String> {
        let keys = (0..rounds).flat_map(|round| (0..2).map(move |cell| RunKey { round, cell }));
        let lines = keys.filter_map(|key| progress.run_ended(key, key.round == 1 && key.cell == 1));
        let lines: Vec<String> = lines.collect();
        let lines = lines.into_iter().chain(progress.last_line(PlanEnd::Decided));
        lines.map(|line| line.split(", ").next().unwrap().to_string()).collect()
    }

    #[test]
    fn a_round_that_is_measured_again_raises_the_total() {
        let expected =
            ["3 of 8 runs", "5 of 10 runs", "7 of 10 runs", "9 of 10 runs", "10 of 10 runs"];
        assert_eq!(lines(progress(false), 5), expected);
    }

    #[test]
    fn skipped_runs_have_a_count_of_their_own() {
        let mut progress = progress(false);
        let skipped = Outcome::Skipped { reason: "not here".to_string() };
        let key = |cell| RunKey { round: 0, cell };
        progress.show(&Event::RunEnded { key: key(1), outcome: skipped });
        progress.run_ended(key(0), false);
        let line = progress.line(Some(0), "9 s").expect("a round has ended");
        assert_eq!(line, "2 of 8 runs (1 skipped), 9 s left");
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
        progress.ended = 1;
        assert_eq!(progress.time_left(), "60 min");
        progress.job.budget = Some(Duration::ZERO);
        assert_eq!(progress.time_left(), "0 s");
    }

    #[test]
    fn times_are_rounded_to_what_matters() {
        for (seconds, expected) in
            [(0.4, "0 s"), (119.0, "119 s"), (120.0, "2 min"), (7260.0, "2 h 1 min")]
        {
            assert_eq!(shown(seconds), expected);
        }
    }
}
