//! The state of the view: readings and keys in, things to draw out. Pure.

use crate::cli::keys::Press;
use crate::model::{CpuSet, PairScore};
use crate::probe::sched::{Counted, Missed};
use crate::report::score::By;

use super::data::{Data, Scope, Sheet, largest};
use super::row::{Key, Row};
use super::table::{self, Order};

/// Facts that do not change while the view runs.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// In words: `the whole machine`, `pid 12`.
    pub what: String,
    pub scope: Scope,
    /// CPUs by last-level cache.
    pub llcs: Vec<CpuSet>,
    pub interval_ns: u64,
    /// Such a trace can be written with `t`.
    pub trace_ns: u64,
}

/// The cost of the view itself, as a share of one CPU: 0.01 is a hundredth.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    pub own: Option<f64>,
    pub programs: Option<f64>,
}

/// A key's request to the owner of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Quit,
    Trace,
}

#[derive(Debug, Clone)]
pub struct State {
    pub about: About,
    /// `None`: it is being opened.
    pub source: Option<String>,
    pub cost: Cost,
    /// Why there is no better source.
    pub missed: Vec<String>,
    /// The message below: why there is no better source, where a trace was written.
    pub message: Option<String>,
    pub order: Order,
    /// The filter is being typed.
    pub typing: bool,
    pub help: bool,
    /// In place of the last period.
    pub since_start: bool,
    /// The first row of the table that is shown.
    pub top: usize,
    /// Rows that one page has, as last drawn.
    pub page: usize,
    pub rows: Vec<Row>,
    /// Most time lost first; `None`: the source does not see them.
    pub pairs: Option<Vec<PairScore>>,
    /// Paused or not.
    pub data: Data,
    /// As it was when the view was paused.
    frozen: Option<Box<Data>>,
}

impl State {
    pub fn new(about: About) -> State {
        State {
            about,
            source: None,
            cost: Cost::default(),
            missed: Vec::new(),
            message: None,
            order: Order { by: By::Task, key: Key::Wait, reversed: false, filter: String::new() },
            typing: false,
            help: false,
            since_start: false,
            top: 0,
            page: 1,
            rows: Vec::new(),
            pairs: None,
            data: Data::default(),
            frozen: None,
        }
    }

    /// Takes the source, and why a better one is missing.
    pub fn begin(&mut self, source: &str, missed: &Missed) {
        self.source = Some(source.to_string());
        self.missed =
            missed.iter().map(|(source, error)| format!("no source {source}: {}", error)).collect();
        self.message = self.missed.first().cloned();
    }

    /// Takes over what came since the last reading.
    pub fn add(&mut self, counted: Counted) {
        self.data.add(counted, &self.about.scope);
        self.arrange();
    }

    pub fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    pub fn shown(&self) -> &Data {
        self.frozen.as_deref().unwrap_or(&self.data)
    }

    /// The counts that the histogram, the pairs and the table show.
    pub fn sheet(&self) -> &Sheet {
        if self.since_start { &self.shown().total } else { &self.shown().last }
    }

    /// Makes the rows, when something has changed.
    fn arrange(&mut self) {
        let data = self.frozen.as_deref().unwrap_or(&self.data);
        self.rows = if self.since_start {
            table::rows(data.living.values().chain(data.ended.values()), &self.order)
        } else {
            table::rows(data.tasks.iter(), &self.order)
        };
        let all = || largest(data.all_pairs.values());
        self.pairs =
            if self.since_start { data.pairs.as_ref().map(|_| all()) } else { data.pairs.clone() };
        self.scroll_to(self.top);
    }

    fn scroll_to(&mut self, top: usize) {
        self.top = top.min(self.rows.len().saturating_sub(self.page.max(1)));
    }

    /// Takes a key; what it asks for beyond the view is returned.
    pub fn key(&mut self, key: Press) -> Option<Action> {
        self.message = None;
        if self.typing {
            self.type_filter(key);
            return None;
        }
        if let Press::Control(_) | Press::Alt(_) = key {
            return None;
        }
        if self.help {
            self.help = false;
            return None;
        }
        match key {
            Press::Char('q') => return Some(Action::Quit),
            Press::Char('t') => return Some(Action::Trace),
            Press::Char('?' | 'h') => self.help = true,
            Press::Char(' ') => self.pause(),
            Press::Char('/') => self.typing = true,
            Press::Esc => self.order.filter.clear(),
            Press::Char('<') | Press::Left => self.order.key = self.order.key.step(-1),
            Press::Char('>' | 's') | Press::Right => self.order.key = self.order.key.step(1),
            Press::Char('r') => self.order.reversed = !self.order.reversed,
            Press::Char('a') => self.since_start = !self.since_start,
            Press::Char('b') => self.order.by = next(self.order.by),
            key => return self.scroll(key),
        }
        self.arrange();
        None
    }

    fn scroll(&mut self, key: Press) -> Option<Action> {
        let to = match key {
            Press::Up | Press::Char('k') => self.top.saturating_sub(1),
            Press::Down | Press::Char('j') => self.top + 1,
            Press::PageUp => self.top.saturating_sub(self.page),
            Press::PageDown => self.top + self.page,
            Press::Home | Press::Char('g') => 0,
            Press::End | Press::Char('G') => usize::MAX,
            _ => return None,
        };
        self.scroll_to(to);
        None
    }

    fn pause(&mut self) {
        self.frozen = match self.frozen {
            Some(_) => None,
            None => Some(Box::new(self.data.clone())),
        };
    }

    /// Rows are filtered while one types.
    fn type_filter(&mut self, key: Press) {
        match key {
            Press::Enter => self.typing = false,
            Press::Esc => {
                self.typing = false;
                self.order.filter.clear();
            }
            Press::Backspace => _ = self.order.filter.pop(),
            Press::Char(c) => self.order.filter.extend(c.to_lowercase()),
            _ => {}
        }
        self.top = 0;
        self.arrange();
    }
}

fn next(by: By) -> By {
    match by {
        By::Task => By::Process,
        By::Process => By::Name,
        By::Name => By::Cgroup,
        By::Cgroup => By::Task,
    }
}

#[cfg(test)]
mod tests;
