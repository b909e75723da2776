//! Everything that a view has counted: by task, CPU and pair, in the last period and since the start. Pure.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::model::{CpuScore, OTHER, PairKind, PairScore, TaskScore, Times};
use crate::probe::sched::Counted;
use crate::report::score::largest_pairs;

use super::super::score::is_in_cgroup;
use super::row::Row;

/// Readings that a CPU's lines go back.
pub const HISTORY: usize = 120;
/// Rows of ended tasks since the start, one for each name.
const MAX_ENDED: usize = 1000;
/// Pairs since the start.
const MAX_PAIRS: usize = 1 << 14;

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
            Scope::Cgroup(path) => is_in_cgroup(task, path),
        }
    }
}

/// One CPU in one period.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuPoint {
    /// From 0 to 1.
    pub busy: Option<f64>,
    /// Tasks that waited in its run queue, on average.
    pub waiting: Option<f64>,
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
pub struct Data {
    pub readings: u64,
    pub last: Sheet,
    pub total: Sheet,
    pub tasks: Vec<Row>,
    /// By pid and tid.
    pub living: HashMap<(i32, i32), Row>,
    /// By name.
    pub ended: HashMap<Ended, Row>,
    /// The wait so far of each waiting task at the last reading.
    pub waiting: HashMap<(i32, i32), u64>,
    pub cpus: BTreeMap<u32, VecDeque<CpuPoint>>,
    /// In the last period; `None`: the source does not see them.
    pub pairs: Option<Vec<PairScore>>,
    /// Since the start, by who and whom.
    pub all_pairs: HashMap<(String, String), PairScore>,
    pub lost: Vec<String>,
}

/// The key of tasks that have ended: name, process and cgroup.
type Ended = (String, String, Option<String>);

impl Data {
    pub fn add(&mut self, counted: Counted, scope: &Scope) {
        let Counted { wall_ns, tasks, cpus, pairs, lost, .. } = counted;
        self.readings += 1;
        self.lost = lost;
        let mut tasks: Vec<Row> =
            tasks.iter().filter(|task| scope.has(task)).map(Row::from_task).collect();
        tasks.iter_mut().for_each(|task| self.count_wait(task));
        let mut waits: Option<Times> = None;
        for wait in tasks.iter().filter_map(|row| row.task.wait.as_ref()) {
            waits.get_or_insert_default().merge(wait);
        }
        let names = |pair: &PairScore| {
            matches!(scope, Scope::All | Scope::Watched)
                || tasks.iter().any(|row| [&pair.by, &pair.name].contains(&&row.task.name))
        };
        self.pairs = pairs.map(|pairs| {
            let is_shown = |pair: &&PairScore| pair.kind == PairKind::Delayed && names(pair);
            largest(pairs.iter().filter(is_shown))
        });
        self.last = Sheet { wall_ns, waits, switches: cpus.iter().map(|cpu| cpu.switches).sum() };
        self.add_total();
        tasks.iter().for_each(|task| self.add_task(task));
        self.tasks = tasks;
        cpus.iter().for_each(|cpu| self.add_cpu(cpu, wall_ns));
    }

    /// A wait counts in each period that it lasts in.
    fn count_wait(&mut self, row: &mut Row) {
        let now_ns = row.task.waiting_ns.filter(|_| !row.task.ended);
        let before_ns = match now_ns {
            Some(now_ns) => self.waiting.insert(row.key(), now_ns),
            None => self.waiting.remove(&row.key()),
        };
        row.waited_since(before_ns.unwrap_or(0));
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
                let none = PairScore { count: 0, lost_ns: None, ..pair.clone() };
                let sum = self.all_pairs.entry(key).or_insert(none);
                sum.count += pair.count;
                sum.lost_ns = Some(sum.lost_ns.unwrap_or(0) + pair.lost_ns.unwrap_or(0));
            }
        }
    }

    /// Ended tasks of the same name, process and cgroup share a row: a view may run
    /// for days.
    fn add_task(&mut self, new: &Row) {
        if !new.task.ended {
            match self.living.get_mut(&new.key()) {
                Some(row) => {
                    row.add(new);
                    row.task.name.clone_from(&new.task.name);
                    row.task.process.clone_from(&new.task.process);
                    row.task.cgroup.clone_from(&new.task.cgroup);
                }
                None => _ = self.living.insert(new.key(), new.clone()),
            }
            return;
        }
        let mut all = new.clone();
        if let Some(before) = self.living.remove(&new.key()) {
            all.add(&before);
            all.task.ended = true;
        }
        let own = (all.task.name.clone(), all.task.process.clone(), all.task.cgroup.clone());
        let has_room = self.ended.contains_key(&own) || self.ended.len() < MAX_ENDED;
        let key = if has_room { own } else { (OTHER.to_string(), OTHER.to_string(), None) };
        match self.ended.get_mut(&key) {
            Some(row) => {
                row.add(&all);
                row.tasks += 1;
            }
            None => {
                (all.task.name, all.task.process, all.task.cgroup) = key.clone();
                (all.task.pid, all.number) = (0, None);
                self.ended.insert(key, all);
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

/// Most lost first; what has no names last.
pub fn largest<'p>(pairs: impl Iterator<Item = &'p PairScore>) -> Vec<PairScore> {
    largest_pairs(pairs).into_iter().cloned().collect()
}
