//! One task as pictures of /proc show it: its counts when counting began, and when it was last seen. No I/O.

use crate::model::{Migrations, Reading, TaskScore, Times};
use crate::sys::load::Process;
use crate::sys::task::{Schedstat, TaskStats};

/// Since the task began. `None`: the kernel does not count it, or it was not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Values {
    run_ns: Option<u64>,
    wait_ns: Option<u64>,
    waits: Option<u64>,
    voluntary: Option<u64>,
    involuntary: Option<u64>,
    migrations: Option<u64>,
}

impl Values {
    /// The values of a task that has just been made.
    pub const ZERO: Values = Values {
        run_ns: Some(0),
        wait_ns: Some(0),
        waits: Some(0),
        voluntary: Some(0),
        involuntary: Some(0),
        migrations: Some(0),
    };

    pub fn from_stats(stats: &TaskStats) -> Values {
        let known = |reading: &Reading<u64>| reading.as_ref().known().copied();
        Values {
            run_ns: known(&stats.run_ns),
            wait_ns: known(&stats.run_queue_wait_ns),
            waits: known(&stats.timeslices),
            voluntary: known(&stats.voluntary_switches),
            involuntary: known(&stats.involuntary_switches),
            migrations: known(&stats.migrations),
        }
    }

    pub fn of_schedstat(stat: Schedstat) -> Values {
        Values {
            run_ns: Some(stat.run_ns),
            wait_ns: Some(stat.wait_ns),
            waits: Some(stat.timeslices),
            ..Values::default()
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Values::default()
    }

    fn each(self, other: Values, with: impl Fn(Option<u64>, Option<u64>) -> Option<u64>) -> Values {
        Values {
            run_ns: with(self.run_ns, other.run_ns),
            wait_ns: with(self.wait_ns, other.wait_ns),
            waits: with(self.waits, other.waits),
            voluntary: with(self.voluntary, other.voluntary),
            involuntary: with(self.involuntary, other.involuntary),
            migrations: with(self.migrations, other.migrations),
        }
    }

    /// Fills in unknown values from an older reading.
    pub fn or(self, older: Values) -> Values {
        self.each(older, |own, older| own.or(older))
    }

    fn since(self, base: Values) -> Values {
        self.each(base, |own, base| own.zip(base).map(|(own, base)| own.saturating_sub(base)))
    }
}

pub struct Task {
    pub pid: i32,
    pub tid: i32,
    started_ns: u64,
    /// The name that the task gave itself: data.
    pub name: String,
    kernel_thread: bool,
    pub watched: bool,
    /// It was a zombie when it was last seen: its values are the final ones.
    pub has_ended: bool,
    base: Values,
    last: Values,
    stat: Option<Schedstat>,
    /// The picture that it was last seen in.
    pub picture: u32,
}

impl Task {
    /// `values`: when counting began, and now.
    pub fn new(
        pid: i32,
        tid: i32,
        identity: &Process,
        (base, last): (Values, Values),
        stat: Option<Schedstat>,
        picture: u32,
    ) -> Task {
        Task {
            pid,
            tid,
            started_ns: identity.started_ns,
            name: identity.name.clone(),
            kernel_thread: identity.is_kernel_thread,
            watched: false,
            has_ended: identity.has_ended,
            base,
            last,
            stat,
            picture,
        }
    }

    pub fn is_same(&self, pid: i32, identity: &Process) -> bool {
        (self.pid, self.started_ns) == (pid, identity.started_ns)
    }

    /// It has not run since it was last seen, so that nothing else needs to be read. To the
    /// nanosecond, no other task has run as long.
    pub fn is_unchanged(&self, pid: i32, stat: Option<Schedstat>) -> bool {
        self.pid == pid && stat.is_some() && self.stat == stat
    }

    pub fn update(
        &mut self,
        identity: &Process,
        values: Values,
        stat: Option<Schedstat>,
        picture: u32,
    ) {
        self.name.clone_from(&identity.name);
        self.has_ended = identity.has_ended;
        self.last = values.or(self.last);
        (self.stat, self.picture) = (stat, picture);
    }

    /// Counts from these values on, where it did not count so far.
    pub fn count_from(&mut self, values: Values) {
        self.watched = true;
        self.base = self.base.or(values);
    }

    /// `None` where nothing happened to it.
    pub fn score(&self, process: &str) -> Option<TaskScore> {
        let values = self.last.since(self.base);
        let happened = !values.each(values, |own, _| own.filter(|n| *n > 0)).is_empty();
        let wait = values.waits.zip(values.wait_ns).map(|(count, total_ns)| Times {
            count,
            total_ns,
            ..Times::default()
        });
        happened.then(|| TaskScore {
            tid: self.tid,
            pid: self.pid,
            name: self.name.clone(),
            process: process.to_string(),
            watched: self.watched,
            kernel_thread: self.kernel_thread,
            ended: self.has_ended,
            run_ns: values.run_ns,
            wait,
            voluntary: values.voluntary,
            involuntary: values.involuntary,
            migrations: values.migrations.map(|total| Migrations { total, by_distance: None }),
            ..TaskScore::default()
        })
    }
}
