//! One task as events show it: its state and its counts. Pure.

use std::sync::Arc;

use crate::model::{Distances, Migrations, TaskScore, Times, task_name};
use crate::probe::sched::buckets::{
    self, SLICE_BITS, SLICE_BUCKETS, WAIT_BITS, WAIT_BUCKETS, bucket,
};

use super::record::Comm;

pub struct Task {
    /// `None`: no event has shown it yet.
    pub pid: Option<i32>,
    pub comm: Comm,
    /// The number of the name.
    pub name: u32,
    pub cgroup: Option<Arc<str>>,
    pub watched: bool,
    pub kernel_thread: bool,
    pub ended: bool,
    pub state: State,
    /// It was woken while it ran: before it had gone, or so that it did not go.
    pub woken_early: bool,
    /// The CPU in whose run queue it was last, and when it was moved there.
    pub cpu: Option<u32>,
    pub moved_ns: u64,
    /// Until when its wait has been charged to those who had the CPU.
    pub charged_ns: u64,
    pub counts: Counts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Unknown,
    Runs,
    Sleeps { since_ns: u64 },
    Waits { since_ns: u64 },
}

#[derive(Default)]
pub struct Counts {
    pub run_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub wakeups: u64,
    /// Within the last-level cache, within the node, farther.
    pub migrations: [u64; 3],
    wait: Sum,
    slice: Sum,
    /// Run time by CPU, ascending.
    cpus: Vec<(u32, u64)>,
    /// Made at the first sample: most tasks of a machine sleep.
    histograms: Option<Box<Histograms>>,
}

#[derive(Default)]
struct Sum {
    count: u64,
    total_ns: u64,
    /// Since the last reading, and until then.
    recent_max_ns: u64,
    earlier_max_ns: u64,
}

struct Histograms {
    wait: [u32; WAIT_BUCKETS],
    slice: [u32; SLICE_BUCKETS],
}

impl Sum {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.total_ns += ns;
        self.recent_max_ns = self.recent_max_ns.max(ns);
    }

    /// The longest since this was last asked.
    fn take_max(&mut self) -> u64 {
        let recent_ns = std::mem::take(&mut self.recent_max_ns);
        self.earlier_max_ns = self.earlier_max_ns.max(recent_ns);
        recent_ns
    }

    fn times(&self, counts: &[u32], bits: u32) -> Times {
        Times {
            count: self.count,
            total_ns: self.total_ns,
            max_ns: Some(self.earlier_max_ns.max(self.recent_max_ns)),
            buckets: buckets::counted(counts, bits),
        }
    }
}

impl Counts {
    pub fn ran(&mut self, cpu: u32, ns: u64) {
        self.run_ns += ns;
        match self.cpus.binary_search_by_key(&cpu, |(cpu, _)| *cpu) {
            Ok(at) => self.cpus[at].1 += ns,
            Err(at) if ns > 0 => self.cpus.insert(at, (cpu, ns)),
            Err(_) => {}
        }
    }

    pub fn slice(&mut self, ns: u64) {
        self.slice.add(ns);
        self.histograms().slice[bucket(ns, SLICE_BITS)] += 1;
    }

    pub fn waited(&mut self, ns: u64) {
        self.wait.add(ns);
        self.histograms().wait[bucket(ns, WAIT_BITS)] += 1;
    }

    fn histograms(&mut self) -> &mut Histograms {
        let none = || Box::new(Histograms { wait: [0; WAIT_BUCKETS], slice: [0; SLICE_BUCKETS] });
        self.histograms.get_or_insert_with(none)
    }

    pub fn is_empty(&self) -> bool {
        let counted =
            [self.wait.count, self.wakeups, self.voluntary, self.involuntary, self.run_ns];
        counted.iter().sum::<u64>() == 0
    }
}

impl Task {
    pub fn new(pid: Option<i32>, comm: Comm, name: u32) -> Task {
        Task {
            pid,
            comm,
            name,
            cgroup: None,
            watched: false,
            kernel_thread: false,
            ended: false,
            state: State::Unknown,
            woken_early: false,
            cpu: None,
            moved_ns: 0,
            charged_ns: 0,
            counts: Counts::default(),
        }
    }

    /// Its row in a reading: as [`Task::score`], with maxima since the last one.
    pub fn reading(&mut self, tid: i32, full: bool, at_ns: u64) -> Option<TaskScore> {
        // A task that has not been switched from yet has no counts.
        let is_active = matches!(self.state, State::Runs | State::Waits { .. });
        if self.counts.is_empty() && !is_active {
            return None;
        }
        let mut score = self.row(tid, full, at_ns);
        let counts = &mut self.counts;
        for (times, max_ns) in
            [(&mut score.wait, counts.wait.take_max()), (&mut score.slice, counts.slice.take_max())]
        {
            times.iter_mut().for_each(|times| times.max_ns = Some(max_ns));
        }
        Some(score)
    }

    /// Its row when counting ends; `None`: nothing has happened to it. The process gets its name later.
    pub fn score(&self, tid: i32, full: bool, at_ns: u64) -> Option<TaskScore> {
        let waits = matches!(self.state, State::Waits { .. });
        (waits || !self.counts.is_empty()).then(|| self.row(tid, full, at_ns))
    }

    fn row(&self, tid: i32, full: bool, at_ns: u64) -> TaskScore {
        let counts = &self.counts;
        let (wait, slice) = match &counts.histograms {
            Some(histograms) => (&histograms.wait[..], &histograms.slice[..]),
            None => (&[][..], &[][..]),
        };
        let [within_llc, across_llc, across_node] = counts.migrations;
        let migrations = Migrations {
            total: counts.migrations.iter().sum(),
            by_distance: Some(Distances { within_llc, across_llc, across_node }),
        };
        TaskScore {
            tid,
            pid: self.pid.unwrap_or(tid),
            name: task_name(&self.comm),
            process: String::new(),
            cgroup: self.cgroup.as_deref().map(str::to_string),
            watched: self.watched,
            kernel_thread: self.kernel_thread,
            ended: self.ended,
            run_ns: Some(counts.run_ns),
            wait: Some(counts.wait.times(wait, WAIT_BITS)),
            slice: full.then(|| counts.slice.times(slice, SLICE_BITS)),
            voluntary: Some(counts.voluntary),
            involuntary: Some(counts.involuntary),
            wakeups: full.then_some(counts.wakeups),
            migrations: full.then_some(migrations),
            cpus: Some(counts.cpus.clone()),
            waiting_ns: match self.state {
                State::Waits { since_ns } => at_ns.checked_sub(since_ns),
                _ => None,
            },
        }
    }
}
