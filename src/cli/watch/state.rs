//! The state of the view: readings and keys in, things to draw out. Pure.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::cli::keys::Press;
use crate::model::{CpuScore, CpuSet, PairKind, PairScore, TaskScore, Times};
use crate::probe::sched::{Counted, Missed};
use crate::report::score::By;

use super::sums::Key;
use super::table::{self, Order, Row};

/// Readings that a CPU's lines go back.
pub const HISTORY: usize = 120;
/// Rows of ended tasks since the start, one for each name.
const MAX_ENDED: usize = 1000;
/// Pairs since the start.
const MAX_PAIRS: usize = 1 << 14;

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

/// The counted tasks to show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Scope {
    #[default]
    All,
    Watched,
    /// Tasks of this cgroup and those below it.
    Cgroup(String),
}

impl Scope {
    pub fn has(&self, task: &TaskScore) -> bool {
        match self {
            Scope::All => true,
            Scope::Watched => task.watched,
            Scope::Cgroup(path) => task.cgroup.as_deref().is_some_and(|of| is_below(of, path)),
        }
    }
}

fn is_below(cgroup: &str, path: &str) -> bool {
    let rest = cgroup.strip_prefix(path.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// One CPU in one period.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuPoint {
    /// From 0 to 1.
    pub busy: Option<f64>,
    /// Tasks that waited in its run queue, on average.
    pub waiting: Option<f64>,
}

/// The pairs of tasks of which one preempted the other, and how long the other then waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    pub by: String,
    pub name: String,
    pub count: u64,
    pub lost_ns: u64,
}

/// Counts of the last period, or since the start.
#[derive(Debug, Clone, Default)]
pub struct Sheet {
    pub wall_ns: u64,
    /// The waits of all tasks that are shown; `None`: not counted.
    pub waits: Option<Times>,
    pub switches: Option<u64>,
}

/// Everything that has been counted.
#[derive(Debug, Clone, Default)]
struct Data {
    readings: u64,
    last: Sheet,
    total: Sheet,
    tasks: Vec<Row>,
    /// By pid and tid.
    living: HashMap<(i32, i32), Row>,
    /// By name.
    ended: HashMap<Ended, Row>,
    /// The wait so far of each waiting task at the last reading.
    waiting: HashMap<(i32, i32), u64>,
    cpus: BTreeMap<u32, VecDeque<CpuPoint>>,
    /// In the last period; `None`: the source does not see them.
    pairs: Option<Vec<Pair>>,
    /// Since the start, by who and whom.
    all_pairs: HashMap<(String, String), (u64, u64)>,
    lost: Vec<String>,
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
    rows: Vec<Row>,
    pairs: Option<Vec<Pair>>,
    data: Data,
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
        self.missed = missed
            .iter()
            .map(|(source, error)| format!("no source {source}: {}", error.to_string()))
            .collect();
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

    fn shown(&self) -> &Data {
        self.frozen.as_deref().unwrap_or(&self.data)
    }

    pub fn readings(&self) -> u64 {
        self.shown().readings
    }

    /// The counts that the histogram, the pairs and the table show.
    pub fn sheet(&self) -> &Sheet {
        if self.since_start { &self.shown().total } else { &self.shown().last }
    }

    /// Since the start, paused or not.
    pub fn total(&self) -> &Sheet {
        &self.data.total
    }

    pub fn elapsed_ns(&self) -> u64 {
        self.data.total.wall_ns
    }

    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Most time lost first; `None`: the source does not see them.
    pub fn pairs(&self) -> Option<&[Pair]> {
        self.pairs.as_deref()
    }

    pub fn cpus(&self) -> &BTreeMap<u32, VecDeque<CpuPoint>> {
        &self.shown().cpus
    }

    pub fn lost(&self) -> &[String] {
        &self.data.lost
    }

    /// Makes the rows, when something has changed.
    fn arrange(&mut self) {
        let data = self.frozen.as_deref().unwrap_or(&self.data);
        self.rows = match self.since_start {
            false => table::rows(data.tasks.iter(), &self.order),
            true => table::rows(data.living.values().chain(data.ended.values()), &self.order),
        };
        let all = || sorted(data.all_pairs.iter().map(Pair::since_start).collect());
        self.pairs = match self.since_start {
            false => data.pairs.clone(),
            true => data.pairs.as_ref().map(|_| all()),
        };
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

/// The key of tasks that have ended: name, process and cgroup.
type Ended = (String, String, Option<String>);

impl Data {
    fn add(&mut self, counted: Counted, scope: &Scope) {
        let Counted { wall_ns, tasks, cpus, pairs, lost, trace: _, worst: _ } = counted;
        self.readings += 1;
        self.lost = lost;
        let mut tasks: Vec<Row> =
            tasks.iter().filter(|task| scope.has(task)).map(Row::from_task).collect();
        tasks.iter_mut().for_each(|task| self.count_wait(task));
        let mut waits: Option<Times> = None;
        for wait in tasks.iter().filter_map(|task| task.sums.wait.as_ref()) {
            waits.get_or_insert_default().merge(wait);
        }
        let names = |pair: &PairScore| {
            matches!(scope, Scope::All | Scope::Watched)
                || tasks.iter().any(|task| [&pair.by, &pair.name].contains(&&task.name))
        };
        self.pairs = pairs.map(|pairs| {
            let is_shown = |pair: &&PairScore| pair.kind == PairKind::Delayed && names(pair);
            sorted(pairs.iter().filter(is_shown).map(Pair::from_score).collect())
        });
        self.last = Sheet { wall_ns, waits, switches: cpus.iter().map(|cpu| cpu.switches).sum() };
        self.add_total();
        tasks.iter().for_each(|task| self.add_task(task));
        self.tasks = tasks;
        cpus.iter().for_each(|cpu| self.add_cpu(cpu, wall_ns));
    }

    /// A wait counts in each period that it lasts in.
    fn count_wait(&mut self, task: &mut Row) {
        let key = (task.pid, task.number.unwrap_or(0));
        let now_ns = task.sums.waiting_ns.filter(|_| !task.ended);
        let before_ns = match now_ns {
            Some(now_ns) => self.waiting.insert(key, now_ns),
            None => self.waiting.remove(&key),
        };
        task.sums.waited_since(before_ns.unwrap_or(0));
    }

    fn add_total(&mut self) {
        let (last, total) = (&self.last, &mut self.total);
        total.wall_ns += last.wall_ns;
        if let Some(waits) = &last.waits {
            total.waits.get_or_insert_default().merge(waits);
        }
        total.switches = match (total.switches, last.switches) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        for pair in self.pairs.iter().flatten() {
            let key = (pair.by.clone(), pair.name.clone());
            if self.all_pairs.len() < MAX_PAIRS || self.all_pairs.contains_key(&key) {
                let sum = self.all_pairs.entry(key).or_default();
                sum.0 += pair.count;
                sum.1 += pair.lost_ns;
            }
        }
    }

    /// Ended tasks of the same name, process and cgroup share a row: a view may run
    /// for days.
    fn add_task(&mut self, task: &Row) {
        let key = (task.pid, task.number.unwrap_or(0));
        if !task.ended {
            match self.living.get_mut(&key) {
                Some(row) => {
                    row.add(task);
                    row.name.clone_from(&task.name);
                    row.process.clone_from(&task.process);
                    row.cgroup.clone_from(&task.cgroup);
                }
                None => _ = self.living.insert(key, task.clone()),
            }
            return;
        }
        let before = self.living.remove(&key);
        let mut all = task.clone();
        before.iter().for_each(|before| all.sums.add(&before.sums));
        let own = (task.name.clone(), task.process.clone(), task.cgroup.clone());
        let has_room = self.ended.contains_key(&own) || self.ended.len() < MAX_ENDED;
        let key = match has_room {
            true => own,
            false => ("(others)".to_string(), String::new(), None),
        };
        match self.ended.get_mut(&key) {
            Some(row) => {
                row.add(&all);
                row.tasks += 1;
            }
            None => {
                let (name, process, cgroup) = key.clone();
                let row = Row { number: None, pid: 0, name, process, cgroup, ..all };
                self.ended.insert(key, row);
            }
        }
    }

    fn add_cpu(&mut self, cpu: &CpuScore, wall_ns: u64) {
        let waiting = cpu.lengths.as_ref().and_then(|lengths| {
            let samples: u64 = lengths.iter().sum();
            // One of each length runs.
            let waited = lengths.iter().zip(0u64..).map(|(count, n)| n.saturating_sub(1) * count);
            (samples > 0).then(|| waited.sum::<u64>() as f64 / samples as f64)
        });
        let busy = cpu.busy_ns.map(|busy| (busy as f64 / wall_ns.max(1) as f64).min(1.0));
        let history = self.cpus.entry(cpu.cpu).or_default();
        if history.len() == HISTORY {
            history.pop_front();
        }
        history.push_back(CpuPoint { busy, waiting });
    }
}

impl Pair {
    fn from_score(pair: &PairScore) -> Pair {
        let (by, name) = (pair.by.clone(), pair.name.clone());
        Pair { by, name, count: pair.count, lost_ns: pair.lost_ns.unwrap_or(0) }
    }

    fn since_start(((by, name), (count, lost_ns)): (&(String, String), &(u64, u64))) -> Pair {
        Pair { by: by.clone(), name: name.clone(), count: *count, lost_ns: *lost_ns }
    }
}

/// Most lost first; what has no names last.
fn sorted(mut pairs: Vec<Pair>) -> Vec<Pair> {
    let is_folded = |pair: &Pair| pair.by == PairScore::UNWATCHED;
    pairs.sort_by(|a, b| {
        let largest_first = (b.lost_ns, b.count).cmp(&(a.lost_ns, a.count));
        let names = (&a.by, &a.name).cmp(&(&b.by, &b.name));
        is_folded(a).cmp(&is_folded(b)).then(largest_first).then(names)
    });
    pairs
}

#[cfg(test)]
mod tests;
