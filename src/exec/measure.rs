//! The timed section: the barrier opens, windows are read, everything stops counting.
//!
//! The measuring thread sleeps except for one pass over the workers at the end of each window:
//! two reads of the worker's slot and one of its CPU clock each, no procfs. It keeps one
//! reading a worker and one number a window and set, so memory hardly grows with a run.

use crate::model::{RunSpec, Window, WorkerKind, WorkerWindow};
use crate::probe::Telemetry;
use crate::sys::task::{TaskReader, TaskStats};
use crate::sys::{Host, clock, thread};
use crate::workload::{MAX_COUNTERS, Opening};

use super::ExecError;
use super::group::{Limit, Member, WorkerGroup};

/// How often workers that may finish are checked for failures.
const FINISH_POLL_NS: u64 = 50_000_000;

/// A run that is about to start: what must be read while no worker runs.
pub struct Section {
    warmup_ns: u64,
    duration_ns: u64,
    window_ns: u64,
    limit: Limit,
    tasks: TaskReader,
    tasks_before: Vec<TaskStats>,
}

/// What the timed section measured; workers in the order of the group.
pub struct Measured {
    pub workers: Vec<WorkerMeasured>,
    /// For each window, the operations per second of each set.
    pub windows: Vec<Vec<f64>>,
    pub section_ns: u64,
    /// CPU time of the measuring thread, from the barrier to the last window.
    pub overhead_cpu_ns: u64,
}

pub struct WorkerMeasured {
    /// Over the measured section.
    pub total: Sample,
    pub tasks: (TaskStats, TaskStats),
    /// Between the two readings of `tasks`.
    pub tasks_wall_ns: u64,
}

/// A worker's cumulative counts at a moment; or the difference of two such.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    pub at_ns: u64,
    pub ops: u64,
    pub cpu_ns: u64,
    pub counters: [u64; MAX_COUNTERS],
}

impl Section {
    /// Reads what is read before the start and raises the priority of the measuring thread: with
    /// thousands of runnable workers it would otherwise read windows seconds late.
    pub fn begin(group: &WorkerGroup, spec: &RunSpec, limit: Limit) -> Section {
        thread::serve_promptly();
        let mut tasks = TaskReader::new(Host::default());
        Section {
            warmup_ns: spec.warmup_ns,
            duration_ns: spec.duration_ns,
            window_ns: spec.window_ns,
            limit,
            tasks_before: read_tasks(group, &mut tasks)
                .into_iter()
                .map(|(stats, _)| stats)
                .collect(),
            tasks,
        }
    }

    /// Opens the barrier, reads all windows, gives each to `on_window`. Telemetry counts over the
    /// measured section. Fails as soon as a worker has failed.
    pub fn measure(
        mut self,
        group: &WorkerGroup,
        telemetry: &mut Telemetry,
        on_window: &mut dyn FnMut(Window) -> Result<(), ExecError>,
    ) -> Result<Measured, ExecError> {
        let overhead_before_ns = clock::own_thread_cpu_ns();
        let start_ns = clock::monotonic_ns();
        let from_ns = start_ns + self.warmup_ns;
        let repeat_until_ns = from_ns + self.duration_ns;
        let until_ns = if group.finishing() > 0 { u64::MAX } else { repeat_until_ns };
        let opening = Opening { started_ns: start_ns, from_ns, until_ns, repeat_until_ns };
        group.control().open(&opening);
        sleep_and_check(group, from_ns)?;
        telemetry.begin();
        let first: Vec<Sample> =
            group.members().iter().map(read_sample).collect::<Result<_, _>>()?;
        group.members().iter().for_each(|member| _ = member.slot.take_peak_ns());
        let mut last = first.clone();
        let mut windows = Vec::new();
        let mut end_ns = from_ns;
        for index in 0.. {
            if end_ns >= until_ns {
                break;
            }
            end_ns = (end_ns + self.window_ns).min(until_ns);
            if is_over(group, end_ns, self.limit)? {
                end_ns = until_ns;
            }
            let workers = group.members().iter().zip(&mut last);
            let workers = workers.map(|(member, last)| close_window(member, last, start_ns));
            let workers = workers.collect::<Result<Vec<_>, _>>()?;
            windows.push(ops_per_s(group, &workers));
            telemetry.poll();
            on_window(Window { index, workers })?;
        }
        let section_ns = match group.finishing() {
            0 => self.duration_ns,
            _ => clock::monotonic_ns() - from_ns,
        };
        telemetry.end();
        group.control().stop();
        let overhead_cpu_ns = clock::own_thread_cpu_ns() - overhead_before_ns;
        let tasks_after = read_tasks(group, &mut self.tasks);
        let pairs = first.iter().zip(&last).zip(self.tasks_before.into_iter().zip(tasks_after));
        let workers = pairs.map(|((first, last), (before, (after, read_ns)))| WorkerMeasured {
            total: last.since(first),
            tasks: (before, after),
            tasks_wall_ns: read_ns - start_ns,
        });
        Ok(Measured { workers: workers.collect(), windows, section_ns, overhead_cpu_ns })
    }
}

impl Sample {
    fn since(&self, earlier: &Sample) -> Sample {
        Sample {
            at_ns: self.at_ns - earlier.at_ns,
            ops: self.ops - earlier.ops,
            cpu_ns: self.cpu_ns - earlier.cpu_ns,
            counters: std::array::from_fn(|i| self.counters[i] - earlier.counters[i]),
        }
    }
}

/// Sleeps until a moment of the monotonic clock, then fails if a worker has failed.
fn sleep_and_check(group: &WorkerGroup, deadline_ns: u64) -> Result<(), ExecError> {
    clock::sleep_until(deadline_ns);
    group.check()
}

/// Waits for the end of a window, or until every worker has finished that can, and fails if one has
/// failed. Whether all have finished.
fn is_over(group: &WorkerGroup, end_ns: u64, limit: Limit) -> Result<bool, ExecError> {
    let finishing = group.finishing();
    if finishing == 0 {
        return sleep_and_check(group, end_ns).map(|()| false);
    }
    loop {
        group.check()?;
        group.check_time(limit)?;
        let finished = group.control().finished();
        let left_ns = end_ns.saturating_sub(clock::monotonic_ns());
        if finished as usize == finishing || left_ns == 0 {
            return Ok(finished as usize == finishing);
        }
        group.control().wait_for_finish(finished, left_ns.min(FINISH_POLL_NS));
    }
}

fn close_window(
    member: &Member,
    last: &mut Sample,
    start_ns: u64,
) -> Result<WorkerWindow, ExecError> {
    let now = read_sample(member)?;
    let window = now.since(last);
    *last = now;
    Ok(WorkerWindow {
        end_at_ns: now.at_ns - start_ns,
        wall_ns: window.at_ns,
        ops: window.ops,
        cpu_ns: window.cpu_ns,
        peak_ns: member.slot.take_peak_ns(),
    })
}

/// The rate of each set in one window: the sum over workers that count, each by its own time.
fn ops_per_s(group: &WorkerGroup, workers: &[WorkerWindow]) -> Vec<f64> {
    let mut sums = vec![0.0; group.sets().len()];
    for (member, window) in group.members().iter().zip(workers) {
        let counts = group.sets()[member.set].spec.roles[member.role].counts;
        if counts && window.wall_ns > 0 {
            sums[member.set] += window.ops as f64 * 1e9 / window.wall_ns as f64;
        }
    }
    sums
}

fn read_sample(member: &Member) -> Result<Sample, ExecError> {
    let cpu_ns = match member.kind {
        WorkerKind::Threads => clock::thread_cpu_ns(member.slot.tid()),
        WorkerKind::Processes => clock::process_cpu_ns(member.pid),
    };
    let ended = || ExecError::WorkerGone { index: member.index, tid: member.slot.tid() };
    Ok(Sample {
        at_ns: clock::monotonic_ns(),
        ops: member.slot.ops(),
        cpu_ns: cpu_ns.ok_or_else(ended)?,
        counters: member.slot.counters(),
    })
}

/// The statistics of each worker in procfs, and when they were read.
fn read_tasks(group: &WorkerGroup, reader: &mut TaskReader) -> Vec<(TaskStats, u64)> {
    let own = std::process::id() as i32;
    let pid = |member: &Member| if member.pid == 0 { own } else { member.pid };
    let members = group.members().iter();
    members
        .map(|member| (reader.stats(pid(member), member.slot.tid()), clock::monotonic_ns()))
        .collect()
}
