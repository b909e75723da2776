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
        let total = job.order.len() as u64;
        let remaining = total - job.done.len() as u64;
        let display = match (quiet, terminal::redraws(&io::stderr())) {
            (true, _) => Display::None,
            (false, false) => Display::Lines,
            (false, true) => Display::Bar(bar(total, job.done.len() as u64)),
        };
        Progress {
            cells: job.started.cells.clone(),
            rounds: job.started.plan.measure.rounds,
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
            bar.set_message(format!("{}/{} {short}", key.round + 1, self.rounds));
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
                let all_ended = self.ended == self.remaining;
                if all_ended || self.last_round.is_some_and(|round| round != key.round) {
                    let done = self.total - self.remaining + self.ended;
                    terminal::tell(&format!("{done} of {} runs, {left} left", self.total));
                }
            }
        }
        self.last_round = Some(key.round);
    }

    /// From the mean time of the runs so far.
    fn time_left(&self) -> String {
        let mean = self.started.elapsed().as_secs_f64() / self.ended.max(1) as f64;
        let seconds = (mean * (self.remaining - self.ended) as f64).round() as u64;
        match seconds {
            0..120 => format!("{seconds} s"),
            120..7200 => format!("{} min", seconds / 60),
            _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        }
    }
}

fn bar(total: u64, done: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    let template = "{bar:20} {pos}/{len} runs  {elapsed} gone, {prefix} left  {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_prefix("?");
    bar.set_position(done);
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}
