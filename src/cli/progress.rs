//! Progress of a plan on standard error: a bar with the time left on a terminal, a line a
//! round elsewhere.

use std::io;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::engine::Job;
use crate::model::{Cell, Event, RunKey};

use super::terminal;

pub struct Progress {
    cells: Vec<Cell>,
    rounds: u32,
    /// Rounds go on until all is decided: their number is not known.
    until_decided: bool,
    budget: Option<Duration>,
    remaining: u64,
    total: u64,
    started: Instant,
    ended: u64,
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
        let total = job.planned_runs();
        let remaining = total.saturating_sub(job.runs_done());
        let measure = &job.started.plan.measure;
        let display = match (quiet, terminal::redraws(&io::stderr())) {
            (true, _) => Display::None,
            (false, false) => Display::Lines,
            (false, true) => Display::Bar(bar(total, job.runs_done(), measure.until_decided)),
        };
        Progress {
            cells: job.started.cells.clone(),
            rounds: measure.rounds,
            until_decided: measure.until_decided,
            budget: job.budget,
            remaining,
            total,
            started: Instant::now(),
            ended: 0,
            last_round: None,
            display,
        }
    }

    pub fn show(&mut self, event: &Event) {
        match event {
            Event::RunStarted { key } => self.run_started(*key),
            Event::RunEnded { key, .. } => self.run_ended(*key),
            _ => {}
        }
    }

    pub fn finish(&self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }

    fn run_started(&self, key: RunKey) {
        if let Display::Bar(bar) = &self.display {
            let cell = &self.cells[key.cell as usize];
            let what = format!("{} / {}", cell.work.label(), cell.variant.name);
            let short: String = what.chars().take(30).collect();
            bar.set_message(match self.until_decided {
                true => format!("round {} {short}", key.round + 1),
                false => format!("{}/{} {short}", key.round + 1, self.rounds),
            });
        }
    }

    fn run_ended(&mut self, key: RunKey) {
        self.ended += 1;
        let left = self.time_left();
        match &self.display {
            Display::None => {}
            Display::Bar(bar) => {
                bar.inc(1);
                bar.set_prefix(left);
            }
            Display::Lines => {
                let done = self.total - self.remaining + self.ended;
                if let Some(line) = self.line(done, key.round, &left) {
                    terminal::message(&line);
                }
            }
        }
        self.last_round = Some(key.round);
    }

    /// The line after `done` runs, the last of this round, if it is time for one.
    fn line(&self, done: u64, round: u32, left: &str) -> Option<String> {
        if self.until_decided {
            let runs_of_round = (self.total / u64::from(self.rounds.max(1))).max(1);
            let rounds = done / runs_of_round;
            let counted =
                if rounds == 1 { "1 round".to_string() } else { format!("{rounds} rounds") };
            let is_whole = done.is_multiple_of(runs_of_round);
            return is_whole.then(|| format!("{counted} done, {left} of the budget left"));
        }
        let all_ended = self.ended == self.remaining;
        let is_next = self.last_round.is_some_and(|last| last != round);
        (all_ended || is_next)
            .then(|| format!("{done} of {} runs, {left} left", self.total.max(done)))
    }

    /// From the mean time of the runs so far; no longer than the budget.
    fn time_left(&self) -> String {
        let elapsed = self.started.elapsed();
        let mean = elapsed.as_secs_f64() / self.ended.max(1) as f64;
        let all = mean * self.remaining.saturating_sub(self.ended) as f64;
        let budget = self.budget.map(|budget| budget.saturating_sub(elapsed).as_secs_f64());
        shown(match budget {
            Some(budget) if self.until_decided => budget,
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
fn bar(total: u64, done: u64, until_decided: bool) -> ProgressBar {
    let bar = ProgressBar::new(total);
    let template = match until_decided {
        true => "{spinner} {pos} runs  {elapsed} gone, {prefix} of the budget left  {msg}",
        false => "{bar:20} {pos}/{len} runs  {elapsed} gone, {prefix} left  {msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_prefix("?");
    bar.set_position(done);
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(until_decided: bool) -> Progress {
        Progress {
            cells: Vec::new(),
            rounds: 1_000,
            until_decided,
            budget: Some(Duration::from_secs(3_600)),
            remaining: 1_999,
            total: 2_000,
            started: Instant::now(),
            ended: 0,
            last_round: None,
            display: Display::None,
        }
    }

    #[test]
    fn a_plan_that_ends_when_decided_shows_no_total() {
        let lines = |until_decided: bool| -> Vec<String> {
            let mut progress = progress(until_decided);
            // The first run was made before it was resumed.
            let runs = [(2, 0), (3, 1), (4, 1), (5, 2)];
            runs.iter()
                .filter_map(|(done, round)| {
                    progress.ended += 1;
                    let line = progress.line(*done, *round, "9 s");
                    progress.last_round = Some(*round);
                    line
                })
                .collect()
        };
        let budget =
            ["1 round done, 9 s of the budget left", "2 rounds done, 9 s of the budget left"];
        assert_eq!(lines(true), budget);
        assert_eq!(lines(false), ["3 of 2000 runs, 9 s left", "5 of 2000 runs, 9 s left"]);
    }

    #[test]
    fn no_more_time_is_left_than_the_budget_has() {
        let mut progress = progress(true);
        progress.ended = 1;
        assert_eq!(progress.time_left(), "60 min");
        progress.budget = Some(Duration::ZERO);
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
