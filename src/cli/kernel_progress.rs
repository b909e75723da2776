//! Progress of what fetches and builds kernels, on standard error.

use std::collections::BTreeSet;

use crate::backend::lab::kernel::Step;
use crate::backend::lab::kernel::build::{Event, PatchNote};
use crate::report::shortened;

use super::status_line::StatusLine;

pub const WAITING: &str = "another schedlab uses the cache of kernels; waiting";
pub const MAX_WIDTH: usize = 200;
/// More hunks at other lines than this are counted.
const MAX_MOVED: usize = 3;
/// The interval of a long stage's lines, where no line is redrawn.
const SECONDS_BETWEEN_LINES: u64 = 60;

/// Progress on standard error: a line that is redrawn on a terminal, otherwise a line for each step
/// that takes long.
pub struct Show {
    line: StatusLine,
    /// Lines that are not printed again.
    printed: BTreeSet<String>,
    stage: &'static str,
    /// Seconds of the stage when the last line was printed.
    printed_at: u64,
}

impl Show {
    pub fn new() -> Show {
        Show { line: StatusLine::new(), printed: BTreeSet::new(), stage: "", printed_at: 0 }
    }

    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Waiting => self.lasting(WAITING),
            Step::Suite(suite) if self.line.redraws => self.passing(&format!("reading {suite}")),
            Step::Suite(_) => self.passing("reading Debian's suites"),
            Step::LeftOut { suite, why } => {
                self.lasting(&format!("warning: {suite} is left out: {why}"));
            }
            Step::Download { package, size_bytes, percent } => {
                let size = megabytes(*size_bytes);
                if self.line.redraws {
                    self.passing(&format!("{package}: {percent:3.0} % of {size}"));
                } else {
                    self.passing(&format!("{package}: {size}"));
                }
            }
            Step::Unpacking { package } if self.line.redraws => {
                self.passing(&format!("{package}: unpacking"));
            }
            Step::Unpacking { .. } => {}
        }
    }

    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Fetch(step) => self.step(step),
            Event::Waiting => self.lasting("another schedlab builds kernels; waiting"),
            Event::Fits(notes) => {
                let notes = patch_notes(notes);
                notes.iter().for_each(|note| self.lasting(&format!("note: {note}")));
            }
            Event::Changed { tree, files } => {
                let tree = shortened(&tree.to_string_lossy(), MAX_WIDTH);
                self.lasting(&format!(
                    "note: {tree}: {files} files differ from its commit, and are built as they are"
                ));
            }
            Event::Stage(stage) => {
                (self.stage, self.printed_at) = (stage.word(), 0);
                self.printed.remove(self.stage);
                self.passing(self.stage);
            }
            Event::Made { steps, seconds } => {
                let is_due = *seconds >= self.printed_at + SECONDS_BETWEEN_LINES;
                if self.line.redraws || is_due {
                    self.printed_at = *seconds;
                    self.passing(&format!("{}: {steps} steps, {seconds} s", self.stage));
                }
            }
        }
    }

    fn passing(&mut self, text: &str) {
        if !self.line.passing(text) {
            self.lasting(text);
        }
    }

    /// Stays on the screen.
    pub fn lasting(&mut self, text: &str) {
        if !self.printed.insert(text.to_string()) {
            return;
        }
        self.line.lasting(text);
    }

    pub fn clear(&self) {
        self.line.clear();
    }
}

/// Facts about patches that fit; many hunks at other lines are counted.
fn patch_notes(notes: &[PatchNote]) -> Vec<String> {
    let is_moved = |note: &&PatchNote| matches!(note, PatchNote::Moved { .. });
    let (moved, others): (Vec<&PatchNote>, Vec<&PatchNote>) = notes.iter().partition(is_moved);
    let moved = match moved.len() {
        0..=MAX_MOVED => moved.iter().map(ToString::to_string).collect(),
        many => vec![format!("{many} hunks fit at other lines, with all of their context")],
    };
    others.iter().map(ToString::to_string).chain(moved).collect()
}

pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
