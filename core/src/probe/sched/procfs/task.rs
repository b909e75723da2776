//! One task as pictures of /proc show it: its counts when counting began, and when it was last seen. No I/O.

use crate::model::{Migrations, TaskScore, Times};
use crate::sys::load::Process;
use crate::sys::task::{Schedstat, TaskStats};

/// Run time, waits and their time, voluntary and involuntary switches, migrations, since the task began. `None`: the
/// kernel does not count it, or it was not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Values([Option<u64>; 6]);

impl Values {
    /// The values of a task that has just been made.
    pub const ZERO: Values = Values([Some(0); 6]);

    pub fn from_stats(stats: &TaskStats) -> Values {
        let readings = [
            &stats.run_ns,
            &stats.timeslices,
            &stats.run_queue_wait_ns,
            &stats.voluntary_switches,
            &stats.involuntary_switches,
            &stats.migrations,
        ];
        Values(readings.map(|reading| reading.as_ref().known().copied()))
    }

    pub fn of_schedstat(stat: Schedstat) -> Values {
        let [run, waits, wait] = [stat.run_ns, stat.timeslices, stat.wait_ns].map(Some);
        Values([run, waits, wait, None, None, None])
    }

    pub fn is_empty(&self) -> bool {
        *self == Values::default()
    }

    /// Fills in unknown values from an older reading.
    pub fn or(self, older: Values) -> Values {
        Values(std::array::from_fn(|at| self.0[at].or(older.0[at])))
    }

    fn since(self, base: Values) -> Values {
        let less = |own: Option<u64>, base: Option<u64>| Some(own?.saturating_sub(base?));
        Values(std::array::from_fn(|at| less(self.0[at], base.0[at])))
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
        let happened = values.0.iter().flatten().any(|n| *n > 0);
        let Values([run_ns, waits, wait_ns, voluntary, involuntary, migrations]) = values;
        let wait = waits.zip(wait_ns).map(|(count, total_ns)| Times {
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
            run_ns,
            wait,
            voluntary,
            involuntary,
            migrations: migrations.map(|total| Migrations { total, by_distance: None }),
            ..TaskScore::default()
        })
    }
}
