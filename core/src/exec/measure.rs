//! The timed section: the barrier opens, windows are read, everything stops counting.
//!
//! The measuring thread sleeps except for one pass over the workers at the end of each window:
//! two reads of the worker's slot and one of its CPU clock each, no procfs. It keeps one
//! reading a worker and one number a window and set, so memory hardly grows with a run. It also
//! begins and ends the phases that sets have, each at its moment between two windows.

use crate::model::{RunSpec, Window, WorkerKind, WorkerWindow};
use crate::probe::Telemetry;
use crate::stats::Histogram;
use crate::sys::task::{TaskReader, TaskStats};
use crate::sys::{Host, clock, thread};
use crate::workload::MAX_COUNTERS;

use super::ExecError;
use super::changes::{Changed, Changes};
use super::group::{Limit, Member, WorkerGroup};
use super::phases::{Phases, Turn};

/// How often workers that may finish are checked for failures.
const FINISH_POLL_NS: u64 = 50_000_000;

/// A run that is about to start, with readings that must be made while no worker runs.
pub struct Section {
    warmup_ns: u64,
    duration_ns: u64,
    window_ns: u64,
    limit: Limit,
    changes: Changes,
    tasks: TaskReader,
    tasks_before: Vec<TaskStats>,
}

/// The measurements of the timed section; workers in the order of the group.
pub struct Measured {
    pub workers: Vec<WorkerMeasured>,
    /// For each window, the operations per second of each set; `None`: it was not active.
    pub windows: Vec<Vec<Option<f64>>>,
    /// The ages of latencies that had begun and not ended, by set and histogram.
    pub under_way: Vec<Vec<Histogram>>,
    pub changes: Changed,
    pub section_ns: u64,
    pub gaps: u64,
    /// CPU time of the measuring thread, from the barrier to the last window, and of the thread that makes changes.
    pub overhead_cpu_ns: u64,
}

pub struct WorkerMeasured {
    /// Over the measured section, or the part of it in which its set was active.
    pub total: Sample,
    pub tasks: (TaskStats, TaskStats),
    /// The time between the two readings of `tasks`, or the part of it in the phase of its set: the counts of a
    /// sleeping worker stand still.
    pub tasks_wall_ns: u64,
}

/// A worker's cumulative counts at a moment; or the difference of two such.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    pub at_ns: u64,
    pub ops: u64,
    pub cpu_ns: u64,
    /// The part of the time in which its set had fewer workers, and this one slept.
    pub rested_ns: u64,
    pub counters: [u64; MAX_COUNTERS],
}

impl Section {
    /// Takes the readings that precede the start and raises the priority of the measuring thread: with thousands of
    /// runnable workers it would otherwise read windows seconds late.
    pub fn begin(group: &WorkerGroup, spec: &RunSpec, limit: Limit) -> Result<Section, ExecError> {
        thread::serve_promptly();
        let mut tasks = TaskReader::new(Host::default());
        Ok(Section {
            warmup_ns: spec.warmup_ns,
            duration_ns: spec.duration_ns,
            window_ns: spec.window_ns,
            limit,
            changes: Changes::gather(group, spec)?,
            tasks_before: read_tasks(group, &mut tasks)
                .into_iter()
                .map(|(stats, _)| stats)
                .collect(),
            tasks,
        })
    }

    /// Opens the barrier, reads all windows, gives each to `on_window`. They count from `start_ns`. Telemetry counts over the
    /// measured section. Fails as soon as a worker has failed.
    pub fn measure(
        mut self,
        group: &WorkerGroup,
        start_ns: u64,
        telemetry: &mut Telemetry,
        on_window: &mut dyn FnMut(Window) -> Result<(), ExecError>,
    ) -> Result<Measured, ExecError> {
        let overhead_before_ns = clock::own_thread_cpu_ns();
        let from_ns = start_ns + self.warmup_ns;
        let repeat_until_ns = from_ns + self.duration_ns;
        let until_ns = if group.has_finishing() { u64::MAX } else { repeat_until_ns };
        let of_sets = group.sets().iter().map(|set| set.phase);
        let phases = Phases::new(of_sets, start_ns, from_ns, until_ns, repeat_until_ns);
        let mut changing = self.changes.start(from_ns)?;
        let mut reader = Reader::open(group, phases, self.limit);
        sleep_and_check(group, from_ns)?;
        telemetry.begin();
        reader.begin_section()?;
        let mut windows = Vec::new();
        let mut end_ns = from_ns;
        for index in 0.. {
            if end_ns >= until_ns {
                break;
            }
            end_ns = (end_ns + self.window_ns).min(until_ns);
            if reader.reach(end_ns)? {
                end_ns = until_ns;
            }
            changing.check()?;
            let workers = reader.close_window(start_ns)?;
            windows.push(ops_per_s(group, &workers));
            telemetry.poll();
            on_window(Window { index, workers })?;
        }
        let under_way = reader.under_way();
        let section_ns =
            if group.has_finishing() { clock::monotonic_ns() - from_ns } else { self.duration_ns };
        telemetry.end();
        let changes = changing.end()?;
        group.stop();
        let own_cpu_ns = clock::own_thread_cpu_ns() - overhead_before_ns;
        let overhead_cpu_ns = own_cpu_ns + changes.cpu_ns;
        let tasks_after = read_tasks(group, &mut self.tasks);
        let tasks = self.tasks_before.into_iter().zip(tasks_after);
        let workers = reader.tracks.iter().zip(group.members()).zip(tasks).map(
            |((track, member), (before, (after, read_ns)))| {
                let total = track.as_ref().map(Track::total).unwrap_or_default();
                let is_phased = group.sets()[member.set].phase.is_some();
                // Counts of a set without a phase have the warm-up in them.
                let tasks_wall_ns = if is_phased {
                    total.wall_ns()
                } else {
                    (read_ns - start_ns).saturating_sub(member.slot.rested_ns(read_ns))
                };
                WorkerMeasured { total, tasks: (before, after), tasks_wall_ns }
            },
        );
        let workers = workers.collect();
        Ok(Measured { workers, windows, under_way, changes, section_ns, gaps: 0, overhead_cpu_ns })
    }
}

/// Reads the workers of a run through the phases of their sets.
struct Reader<'g> {
    group: &'g WorkerGroup,
    phases: Phases,
    limit: Limit,
    /// One for each worker; `None`: its set has not begun.
    tracks: Vec<Option<Track>>,
    /// One for each set, once its phase has ended.
    under_way: Vec<Option<Vec<Histogram>>>,
}

/// The readings of a worker.
struct Track {
    first: Sample,
    last: Sample,
    /// Once the phase of its set has ended.
    end: Option<Sample>,
}

impl Track {
    fn total(&self) -> Sample {
        self.last.since(&self.first)
    }
}

impl<'g> Reader<'g> {
    /// Opens the barrier for all sets that begin with the run.
    fn open(group: &'g WorkerGroup, phases: Phases, limit: Limit) -> Self {
        let with_the_run = group.sets().iter().filter(|set| set.phase.is_none());
        with_the_run.for_each(|set| set.control.open(&phases.opening(set, 0)));
        let tracks = group.members().iter().map(|_| None).collect();
        let under_way = vec![None; group.sets().len()];
        Reader { group, phases, limit, tracks, under_way }
    }

    fn begin_section(&mut self) -> Result<(), ExecError> {
        let group = self.group;
        let of = |member: &Member| group.sets()[member.set].phase.is_none();
        self.begin(of)?;
        group.members().iter().for_each(|member| _ = member.slot.take_peak_ns());
        Ok(())
    }

    /// The first reading of some workers.
    fn begin(&mut self, is_meant: impl Fn(&Member) -> bool) -> Result<(), ExecError> {
        let all = self.group.members().iter().zip(&mut self.tracks);
        for (member, track) in all.filter(|(member, _)| is_meant(member)) {
            let first = read_sample(self.group, member)?;
            *track = Some(Track { first, last: first, end: None });
        }
        Ok(())
    }

    /// Waits for the end of a window through the phases that end and begin until then. Whether
    /// the run is over.
    fn reach(&mut self, end_ns: u64) -> Result<bool, ExecError> {
        while let Some(at_ns) = self.phases.next_ns(end_ns) {
            self.wait(at_ns)?;
            match self.phases.cross() {
                Some((set, Turn::Begin)) => self.begin_phase(set)?,
                Some((set, Turn::End)) => self.end_phase(set)?,
                None => {}
            }
        }
        self.wait(end_ns)
    }

    /// Waits for a moment, or until every worker has finished that can, and fails if one has failed. Whether
    /// the run is over: all have, and it has lasted its duration.
    fn wait(&self, at_ns: u64) -> Result<bool, ExecError> {
        if !self.group.has_finishing() {
            return sleep_and_check(self.group, at_ns).map(|()| false);
        }
        let lasts_until_ns = self.phases.repeat_until_ns();
        loop {
            self.group.check()?;
            self.group.check_time(self.limit)?;
            let left_ns = at_ns.saturating_sub(clock::monotonic_ns());
            if self.group.wait_for_finish(left_ns.min(FINISH_POLL_NS)) {
                sleep_and_check(self.group, at_ns.min(lasts_until_ns))?;
                return Ok(at_ns >= lasts_until_ns);
            }
            if left_ns == 0 {
                return Ok(false);
            }
        }
    }

    fn begin_phase(&mut self, position: usize) -> Result<(), ExecError> {
        self.begin(|member| member.set == position)?;
        let set = &self.group.sets()[position];
        set.control.open(&self.phases.opening(set, clock::monotonic_ns()));
        Ok(())
    }

    /// Work after a worker's last reading does not count.
    fn end_phase(&mut self, position: usize) -> Result<(), ExecError> {
        for (member, track) in self.group.members().iter().zip(&mut self.tracks) {
            if let Some(track) = track.as_mut().filter(|_| member.set == position) {
                track.end = Some(read_sample(self.group, member)?);
            }
        }
        self.under_way[position] = Some(self.group.under_way(position));
        self.group.sets()[position].control.stop();
        Ok(())
    }

    /// The latencies under way of all sets; those whose phases have ended as they were then.
    fn under_way(&mut self) -> Vec<Vec<Histogram>> {
        let sets = self.under_way.iter_mut().enumerate();
        sets.map(|(set, ended)| ended.take().unwrap_or_else(|| self.group.under_way(set))).collect()
    }

    /// Closes the window. For a worker that was not active, no time passed.
    fn close_window(&mut self, start_ns: u64) -> Result<Vec<WorkerWindow>, ExecError> {
        let all = self.group.members().iter().zip(&mut self.tracks);
        let window = |(member, track): (&Member, &mut Option<Track>)| {
            let inactive =
                |at_ns| WorkerWindow { end_at_ns: at_ns - start_ns, ..WorkerWindow::default() };
            let Some(track) = track else { return Ok(inactive(clock::monotonic_ns())) };
            let now = match track.end {
                Some(end) => end,
                None => read_sample(self.group, member)?,
            };
            let window = now.since(&std::mem::replace(&mut track.last, now));
            let peak_ns = member.slot.take_peak_ns();
            Ok(match window.wall_ns() {
                0 => inactive(clock::monotonic_ns()),
                wall_ns => WorkerWindow {
                    end_at_ns: now.at_ns - start_ns,
                    wall_ns,
                    ops: window.ops,
                    cpu_ns: window.cpu_ns,
                    peak_ns,
                },
            })
        };
        all.map(window).collect()
    }
}

impl Sample {
    /// The time in which the worker was there, between two samples.
    pub fn wall_ns(&self) -> u64 {
        self.at_ns.saturating_sub(self.rested_ns)
    }

    pub fn since(&self, earlier: &Sample) -> Sample {
        Sample {
            at_ns: self.at_ns - earlier.at_ns,
            ops: self.ops - earlier.ops,
            cpu_ns: self.cpu_ns - earlier.cpu_ns,
            rested_ns: self.rested_ns.saturating_sub(earlier.rested_ns),
            counters: std::array::from_fn(|i| self.counters[i] - earlier.counters[i]),
        }
    }
}

/// Sleeps until a moment of the monotonic clock, then fails if a worker has failed.
fn sleep_and_check(group: &WorkerGroup, deadline_ns: u64) -> Result<(), ExecError> {
    clock::sleep_until(deadline_ns);
    group.check()
}

/// The rate of each set in one window: the sum over workers that count, each by its own time.
pub fn ops_per_s(group: &WorkerGroup, workers: &[WorkerWindow]) -> Vec<Option<f64>> {
    let mut sums = vec![None; group.sets().len()];
    for (member, window) in group.members().iter().zip(workers) {
        let counts = group.sets()[member.set].counts(member);
        if counts && window.wall_ns > 0 {
            let rate = window.ops as f64 * 1e9 / window.wall_ns as f64;
            *sums[member.set].get_or_insert(0.0) += rate;
        }
    }
    sums
}

/// Reads a worker's counts. For a worker of a burst they end when it was done, for those that serve it when all
/// were.
fn read_sample(group: &WorkerGroup, member: &Member) -> Result<Sample, ExecError> {
    let cpu_ns = cpu_ns(member)?;
    let at_ns = clock::monotonic_ns();
    let done_ns = member.slot.done_ns().or(group.sets()[member.set].control.done_ns());
    Ok(Sample {
        at_ns: done_ns.map_or(at_ns, |done_ns| done_ns.min(at_ns)),
        ops: member.slot.ops(),
        cpu_ns,
        rested_ns: member.slot.rested_ns(at_ns),
        counters: member.slot.counters(),
    })
}

/// The CPU time of a worker so far.
pub fn cpu_ns(member: &Member) -> Result<u64, ExecError> {
    let cpu_ns = match member.kind {
        WorkerKind::Threads | WorkerKind::Guests => clock::thread_cpu_ns(member.slot.tid()),
        WorkerKind::Processes | WorkerKind::GuestsOrProcesses => clock::process_cpu_ns(member.pid),
    };
    let ended = || ExecError::WorkerGone { index: member.index, tid: member.slot.tid() };
    cpu_ns.ok_or_else(ended)
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

#[cfg(test)]
mod tests {
    use super::super::group::testing::{spinning, waiting};
    use super::*;
    use crate::model::{SetChange, WorkerSet};
    use crate::workload::Worker;

    #[test]
    fn delays_of_the_warm_up_do_not_count() {
        let cell = spinning(WorkerSet { count: 1, ..Default::default() });
        let group = waiting(&cell, &Default::default());
        let limit = Limit::from_now(60_000_000_000);
        let phases = Phases::new([None].into_iter(), 0, 0, 0, 0);
        let mut reader = Reader::open(&group, phases, limit);
        let (set, slot) = (&group.sets()[0], group.members()[0].slot);
        let delayed = Worker::new(set.control, slot, set.recorders, 1);
        delayed.note_delay(7);
        reader.begin_section().unwrap();
        delayed.note_delay(5);
        assert_eq!(reader.close_window(0).unwrap()[0].peak_ns, 5);
        group.stop();
    }

    #[test]
    fn no_time_passes_for_a_worker_that_rests() {
        let more = SetChange { at_ns: 1, knobs: Default::default(), cgroup: None, count: Some(2) };
        let cell = spinning(WorkerSet { count: 1, changes: vec![more], ..Default::default() });
        let group = waiting(&cell, &Default::default());
        let phases = Phases::new([None].into_iter(), 0, 0, 0, 0);
        let mut reader = Reader::open(&group, phases, Limit::from_now(60_000_000_000));
        reader.begin_section().unwrap();
        let mut walls = || {
            let windows = reader.close_window(0).unwrap();
            windows.iter().map(|window| window.wall_ns > 0).collect::<Vec<_>>()
        };
        assert_eq!(walls(), [true, false]);
        let set = &group.sets()[0];
        set.control.set_present(2, set.slots);
        assert_eq!(walls(), [true, true]);
        assert_eq!(walls(), [true, true]);
        group.stop();
    }
}
