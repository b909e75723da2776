//! A worker's instruments: the shared control block, its own slot, the barrier.
//!
//! The timed section touches the worker's own slot and the histograms of the CPU that it runs
//! on (aligned to 128 bytes, so no cache line is shared with another CPU, adjacent-line
//! prefetch included) and reads the control block, whose lines do not change between the start
//! and the end. No allocation, no lock.

use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    fence,
};

use bytemuck::Zeroable;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::stats::Histogram;
use crate::sys::{clock, futex};

use super::lanes::{Lanes, MAX_COUNTERS};
use super::recorders::Recorders;
use super::rest::Rest;

pub const MAX_HISTOGRAMS: usize = 3;
const MESSAGE_BYTES: usize = 240;

/// One per worker set, written by the runner only.
#[derive(Zeroable)]
#[repr(C, align(128))]
pub struct Control {
    /// 0: wait at the barrier. 1: go.
    go: AtomicU32,
    stop: AtomicU32,
    /// A worker goes on until it has done so many operations: those of a burst, else more than
    /// there can be, and 0 once it is to stop. One comparison for all of it in hot loops.
    until_ops: AtomicU64,
    /// The number of workers that rest: the last ones of the set.
    resting: AtomicU32,
    /// How often `resting` was set. Workers that rest wait for the next time, since a number may come back.
    changes: AtomicU32,
    /// Monotonic. Samples that end in `from..until` count.
    measure_from_ns: AtomicU64,
    measure_until_ns: AtomicU64,
    /// Programs are executed again until then.
    repeat_until_ns: AtomicU64,
    /// When the barrier opened.
    started_ns: AtomicU64,
    /// On lines of their own: workers write the one before the barrier, the others at their end.
    arrived: Tally,
    finished: Tally,
    burst: BurstEnd,
}

/// The number of workers of a burst that are not done, and when the last of them was.
#[derive(Zeroable)]
#[repr(C, align(128))]
struct BurstEnd {
    left: AtomicU32,
    done_ns: AtomicU64,
}

#[derive(Zeroable)]
#[repr(C, align(128))]
struct Tally(AtomicU32);

impl Tally {
    fn add(&self) {
        self.0.fetch_add(1, Release);
        futex::wake(&self.0, 1, futex::Scope::Shared);
    }
}

/// Each of `workers` workers does `ops` operations once.
#[derive(Debug, Clone, Copy)]
pub struct Burst {
    pub ops: u64,
    pub workers: u32,
}

/// Moments of the monotonic clock, chosen when the barrier opens.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    pub started_ns: u64,
    /// Samples that end in `from..until` count.
    pub from_ns: u64,
    pub until_ns: u64,
    /// Workers that run programs begin no further execution from then on.
    pub repeat_until_ns: u64,
    pub burst: Option<Burst>,
}

impl Opening {
    /// An opening from which on all samples count.
    pub fn endless(from_ns: u64) -> Opening {
        let (until_ns, repeat_until_ns) = (u64::MAX, u64::MAX);
        Opening { started_ns: from_ns, from_ns, until_ns, repeat_until_ns, burst: None }
    }
}

impl Control {
    /// Opens the barrier: all waiting workers begin, and samples that end in the given
    /// section count.
    pub fn open(&self, opening: &Opening) {
        self.started_ns.store(opening.started_ns, Relaxed);
        self.measure_from_ns.store(opening.from_ns, Relaxed);
        self.measure_until_ns.store(opening.until_ns, Relaxed);
        self.repeat_until_ns.store(opening.repeat_until_ns, Relaxed);
        self.burst.left.store(opening.burst.map_or(0, |burst| burst.workers), Relaxed);
        self.until_ops.store(opening.burst.map_or(u64::MAX, |burst| burst.ops), Relaxed);
        self.go.store(1, Release);
        futex::wake(&self.go, i32::MAX, futex::Scope::Shared);
    }

    /// The number of workers that wait at the barrier.
    pub fn arrived(&self) -> u32 {
        self.arrived.0.load(Acquire)
    }

    /// Sleeps until a worker arrives that `seen` does not count, at most `timeout_ns`.
    pub fn wait_for_arrival(&self, seen: u32, timeout_ns: u64) {
        futex::wait(&self.arrived.0, seen, Some(timeout_ns), futex::Scope::Shared);
    }

    /// The number of workers that have nothing left to do.
    pub fn finished(&self) -> u32 {
        self.finished.0.load(Acquire)
    }

    /// Sleeps until a worker finishes that `seen` does not count, at most `timeout_ns`.
    pub fn wait_for_finish(&self, seen: u32, timeout_ns: u64) {
        futex::wait(&self.finished.0, seen, Some(timeout_ns), futex::Scope::Shared);
    }

    /// Asks running workers to return, so that they leave the CPUs; those that are asleep end
    /// with the process.
    pub fn stop(&self) {
        self.stop.store(1, Release);
        self.until_ops.store(0, Release);
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Acquire) != 0
    }

    /// From now on so many workers of the set, the first of these slots, work, and the others rest: each once it is
    /// between two operations.
    pub fn set_present(&self, present: u32, slots: &[Slot]) {
        self.resting.store(slots.len() as u32 - present, Release);
        self.changes.fetch_add(1, Release);
        // A worker waits for its CPU from here on.
        let now_ns = clock::monotonic_ns();
        slots[..present as usize].iter().for_each(|slot| slot.rest.end(now_ns));
        futex::wake(&self.changes, i32::MAX, futex::Scope::Shared);
    }

    /// Sleeps until the process ends.
    pub fn stay(&self) -> ! {
        loop {
            futex::wait(&self.go, 1, None, futex::Scope::Shared);
        }
    }

    /// When the last worker of a burst was done.
    pub fn done_ns(&self) -> Option<u64> {
        known(&self.burst.done_ns)
    }

    /// The moment up to which a reading at `now_ns` sees latencies under way: no later than the end of the measured
    /// section.
    pub fn last_ns(&self, now_ns: u64) -> u64 {
        let until_ns = self.measure_until_ns.load(Relaxed);
        now_ns.min(until_ns).min(self.done_ns().unwrap_or(u64::MAX))
    }

    /// The last one of a burst stops the workers that have no operations of their own.
    fn one_is_done(&self, now_ns: u64) {
        if self.burst.left.fetch_sub(1, AcqRel) == 1 {
            self.burst.done_ns.store(now_ns, Release);
            self.stop();
        }
    }
}

/// One per worker, written by it alone (except [`Slot::take_peak_ns`]).
#[derive(Zeroable)]
#[repr(C, align(128))]
pub struct Slot {
    ops: AtomicU64,
    counters: [AtomicU64; MAX_COUNTERS],
    /// The begin of each histogram's latency under way; 0: none.
    begun_ns: [AtomicU64; MAX_HISTOGRAMS],
    peak_ns: AtomicU64,
    tid: AtomicI32,
    failed: AtomicU32,
    finished: AtomicU32,
    ended: AtomicU32,
    done_ns: AtomicU64,
    rest: Rest,
    message: [AtomicU32; MESSAGE_BYTES / 4],
}

impl Slot {
    pub fn ops(&self) -> u64 {
        self.ops.load(Relaxed)
    }

    pub fn counters(&self) -> [u64; MAX_COUNTERS] {
        std::array::from_fn(|index| self.counters[index].load(Relaxed))
    }

    /// The latencies that the worker has begun and not ended ([`Worker::begin`]): the histogram and
    /// the moment of each.
    pub fn begun(&self) -> impl Iterator<Item = (usize, u64)> {
        let moments = self.begun_ns.iter().map(|begun_ns| begun_ns.load(Relaxed));
        moments.enumerate().filter(|(_, begun_ns)| *begun_ns > 0)
    }

    /// The largest delay since the last call.
    pub fn take_peak_ns(&self) -> u64 {
        match self.peak_ns.load(Relaxed) {
            0 => 0,
            _ => self.peak_ns.swap(0, Relaxed),
        }
    }

    /// 0 until the worker has started.
    pub fn tid(&self) -> i32 {
        self.tid.load(Acquire)
    }

    /// The worker's thread calls it first.
    pub fn set_tid(&self, tid: i32) {
        self.tid.store(tid, Release);
    }

    /// Whether the worker has nothing left to do.
    pub fn has_finished(&self) -> bool {
        self.finished.load(Acquire) != 0
    }

    /// Whether the worker has left its loop.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Acquire) != 0
    }

    /// The worker's thread calls it after its loop.
    pub fn end(&self) {
        self.ended.store(1, Release);
    }

    /// The time that the worker has rested by then, since its set had fewer workers.
    pub fn rested_ns(&self, now_ns: u64) -> u64 {
        self.rest.until_ns(now_ns)
    }

    /// A rest of the worker, in a test that moves the clock.
    #[cfg(test)]
    pub fn rest_between(&self, begun_ns: u64, ended_ns: u64) {
        self.rest.begin(begun_ns);
        self.rest.end(ended_ns);
    }

    /// When the worker had done its operations of a burst.
    pub fn done_ns(&self) -> Option<u64> {
        known(&self.done_ns)
    }

    /// Called at the end of a worker that could not go on.
    pub fn fail(&self, why: &str) {
        let mut bytes = why.as_bytes().to_vec();
        bytes.resize(MESSAGE_BYTES, 0);
        for (word, chunk) in self.message.iter().zip(bytes.chunks_exact(4)) {
            word.store(u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]), Relaxed);
        }
        self.failed.store(1, Release);
    }

    pub fn failure(&self) -> Option<String> {
        if self.failed.load(Acquire) == 0 {
            return None;
        }
        let bytes: Vec<u8> =
            self.message.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

/// A moment that is 0 until it is known.
fn known(moment_ns: &AtomicU64) -> Option<u64> {
    Some(moment_ns.load(Acquire)).filter(|&ns| ns > 0)
}

/// A worker's handle: barrier, counters, histograms.
pub struct Worker {
    control: &'static Control,
    slot: &'static Slot,
    recorders: Recorders,
    seed: u64,
    /// The number of workers of the set that come after it.
    after: u32,
    /// Where variants take turns: its counts for each of them.
    lanes: Option<Lanes>,
}

impl Worker {
    pub fn new(
        control: &'static Control,
        slot: &'static Slot,
        recorders: Recorders,
        seed: u64,
    ) -> Self {
        Worker { control, slot, recorders, seed, after: u32::MAX, lanes: None }
    }

    /// Counts by variant, too, if there are lanes.
    pub fn in_turns(self, lanes: Option<Lanes>) -> Worker {
        Worker { lanes, ..self }
    }

    /// One of a set that may have fewer workers: the last ones rest first.
    pub fn before(self, after: u32) -> Worker {
        Worker { after, ..self }
    }

    /// Reports this worker as ready and sleeps until all are and the phase of its set begins.
    /// Returns the moment at which that was.
    pub fn start(&self) -> u64 {
        _ = self.begin_rest();
        self.control.arrived.add();
        self.rest();
        while self.control.go.load(Acquire) == 0 {
            futex::wait(&self.control.go, 0, None, futex::Scope::Shared);
        }
        self.control.started_ns.load(Relaxed).max(self.rest_ended_ns())
    }

    /// Sleeps while the set has fewer workers.
    fn rest(&self) {
        while let Some(seen) = self.begin_rest() {
            futex::wait(&self.control.changes, seen, None, futex::Scope::Shared);
        }
        self.slot.rest.end(clock::monotonic_ns());
    }

    /// The number of changes so far, if it is one of those that rest until the next one.
    fn begin_rest(&self) -> Option<u32> {
        // First, so that a change from here on ends the wait.
        let seen = self.control.changes.load(Acquire);
        if self.after >= self.control.resting.load(Acquire) {
            return None;
        }
        self.slot.rest.begin(clock::monotonic_ns());
        // A latency under way would be as long as the rest.
        (0..MAX_HISTOGRAMS).for_each(|index| self.forget(index));
        Some(seen)
    }

    /// When its last rest ended; 0: it had none.
    pub fn rest_ended_ns(&self) -> u64 {
        self.slot.rest.ended_ns()
    }

    /// When the measured section of its set begins; only meaningful after [`Worker::start`].
    pub fn measure_from_ns(&self) -> u64 {
        self.control.measure_from_ns.load(Relaxed)
    }

    /// When it ends; the largest number where that is not known beforehand.
    pub fn measure_until_ns(&self) -> u64 {
        self.control.measure_until_ns.load(Relaxed)
    }

    /// The time from which on no program is executed again.
    pub fn repeat_until_ns(&self) -> u64 {
        self.control.repeat_until_ns.load(Relaxed)
    }

    /// Reports that this worker, which runs programs, has nothing left to do.
    pub fn finish(&self) {
        self.slot.finished.store(1, Release);
        self.control.finished.add();
    }

    /// Whether it goes on, between two operations. Sleeps first where its set has fewer workers.
    #[inline]
    pub fn running(&self) -> bool {
        let is_running = self.slot.ops.load(Relaxed) < self.control.until_ops.load(Relaxed);
        if !is_running {
            self.note_end();
        } else if self.after < self.control.resting.load(Relaxed) {
            return self.running_after_rest();
        }
        is_running
    }

    #[cold]
    fn running_after_rest(&self) -> bool {
        self.rest();
        self.running()
    }

    /// A worker whose operations are those of a burst is done.
    #[cold]
    fn note_end(&self) {
        // So that a stop is seen by which alone it may have got here.
        fence(Acquire);
        if !self.control.stopped() && self.slot.done_ns().is_none() {
            let now_ns = clock::monotonic_ns();
            self.slot.done_ns.store(now_ns, Release);
            self.control.one_is_done(now_ns);
        }
    }

    /// Different for each worker of a run, the same in each repetition of the run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A start offset below `span_ns`, drawn from the worker's seed, for loads whose workers
    /// would otherwise move in step.
    pub fn phase_ns(&self, span_ns: u64) -> u64 {
        ChaCha8Rng::seed_from_u64(self.seed).next_u64() % span_ns.max(1)
    }

    #[inline]
    pub fn add_ops(&self, count: u64) {
        self.slot.ops.store(self.slot.ops.load(Relaxed) + count, Relaxed);
        if let Some(lanes) = &self.lanes {
            lanes.add_ops(count);
        }
    }

    /// Adds to counter `index` of the workload's own ([`super::Spec::counters`]).
    #[inline]
    pub fn count(&self, index: usize, count: u64) {
        let counter = &self.slot.counters[index];
        counter.store(counter.load(Relaxed) + count, Relaxed);
        if let Some(lanes) = &self.lanes {
            lanes.count(index, count);
        }
    }

    /// Notes that a latency of histogram `index` begins at `begin_ns` (monotonic). If [`Worker::record`] never ends
    /// it, the runner then knows since when it is under way. After the measured section notes stay as they were at
    /// its end, whenever they are read.
    #[inline]
    pub fn begin(&self, index: usize, begin_ns: u64) {
        if begin_ns < self.control.measure_until_ns.load(Relaxed) {
            self.slot.begun_ns[index].store(begin_ns, Relaxed);
        }
    }

    /// Takes [`Worker::begin`] back: there is nothing to count.
    #[inline]
    pub fn forget(&self, index: usize) {
        self.slot.begun_ns[index].store(0, Relaxed);
    }

    /// Counts a latency in histogram `index`, if it ended at `end_ns` (monotonic) within
    /// the measured section.
    #[inline]
    pub fn record(&self, index: usize, end_ns: u64, latency_ns: u64) {
        if end_ns >= self.control.measure_until_ns.load(Relaxed) {
            return;
        }
        if end_ns >= self.control.measure_from_ns.load(Relaxed) {
            match &self.lanes {
                None => self.recorders.here(index).record(latency_ns),
                Some(lanes) if lanes.record(index, end_ns, latency_ns) => {}
                // In turns the set's own histograms have what switches cut.
                Some(_) => self.recorders.here(index).record(latency_ns),
            }
        }
        self.forget(index);
    }

    /// Notes a delay, of which the largest of each window is reported.
    #[inline]
    pub fn note_delay(&self, delay_ns: u64) {
        if delay_ns > self.slot.peak_ns.load(Relaxed) {
            self.slot.peak_ns.fetch_max(delay_ns, Relaxed);
        }
    }
}

/// One worker set over the measured section, for [`super::Load::metrics`].
#[derive(Default)]
pub struct Measured {
    /// The time in which the set was active.
    pub measured_ns: u64,
    /// How often that time was interrupted: in turns, by blocks of other variants.
    pub gaps: u64,
    pub ops: u64,
    /// For each window in which the set was active, the sum over the workers that count, each by
    /// its own time.
    pub window_ops_per_s: Vec<f64>,
    /// Sums over workers, by [`super::Spec::counters`]' index.
    pub counters: [u64; MAX_COUNTERS],
    /// Merged over workers, by [`super::Workload::histograms`]' index.
    pub histograms: Vec<Histogram>,
    /// Every worker of the set, in start order.
    pub workers: Vec<WorkerCounts>,
}

/// One worker over the measured section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerCounts {
    /// The time between the two readings of this worker.
    pub wall_ns: u64,
    pub ops: u64,
    pub counters: [u64; MAX_COUNTERS],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Raw;
    use crate::sys::shared;
    use crate::workload::lanes::{LaneCounts, Turn};
    use crate::workload::spin::Spin;
    use crate::workload::testing::{self, WorkerGroup};

    #[test]
    fn a_phase_is_below_its_span_differs_by_seed_and_repeats() {
        let control: &Control = shared::leak().unwrap();
        let slot: &Slot = shared::leak().unwrap();
        let none = Recorders::new(0).unwrap();
        let phase = |seed, span_ns| Worker::new(control, slot, none, seed).phase_ns(span_ns);
        let phases: Vec<u64> = (0..100).map(|seed| phase(seed, 1_000_000)).collect();
        assert!(phases.iter().all(|&phase_ns| phase_ns < 1_000_000));
        let mut distinct = phases.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() > 95, "{} of 100 seeds differ", distinct.len());
        assert_eq!(phases, (0..100).map(|seed| phase(seed, 1_000_000)).collect::<Vec<_>>());
        assert_eq!((phase(1, 1), phase(1, 0)), (0, 0));
    }

    #[test]
    fn what_is_under_way_at_the_end_of_the_section_stays_noted() {
        let control: &Control = shared::leak().unwrap();
        let slot: &Slot = shared::leak().unwrap();
        let recorders = Recorders::new(2).unwrap();
        let worker = Worker::new(control, slot, recorders, 1);
        let section = Opening { until_ns: 200, ..Opening::endless(100) };
        control.open(&section);
        let noted = || slot.begun().collect::<Vec<_>>();
        let take = |begin_ns: u64, end_ns: u64| {
            worker.begin(1, begin_ns);
            assert_eq!(noted(), [(1, begin_ns)]);
            worker.record(1, end_ns, end_ns - begin_ns);
        };
        take(50, 90);
        assert_eq!((noted(), recorders.merged(1).total()), (vec![], 0), "of the warm-up");
        take(95, 120);
        assert_eq!((noted(), recorders.merged(1).max_ns()), (vec![], Some(25)));
        take(190, 210);
        // Whatever comes later, and whenever it is read.
        worker.begin(1, 215);
        worker.record(1, 220, 5);
        assert_eq!((noted(), recorders.merged(1).total()), (vec![(1, 190)], 1));
        assert_eq!((control.last_ns(150), control.last_ns(220)), (150, 200));
    }

    /// The hot loops ask `running` after each operation.
    #[test]
    fn a_burst_ends_worker_by_worker_and_its_last_one_stops_those_that_serve() {
        let control: &Control = shared::leak().unwrap();
        let slots: &[Slot] = shared::leak_slice(3).unwrap();
        let none = Recorders::new(0).unwrap();
        let [one, two, serving] = [0, 1, 2].map(|at| Worker::new(control, &slots[at], none, 1));
        let burst = Some(Burst { ops: 3, workers: 2 });
        control.open(&Opening { burst, ..Opening::endless(1) });
        let work = |worker: &Worker| {
            let mut rounds = 0;
            while worker.running() {
                worker.add_ops(1);
                rounds += 1;
            }
            rounds
        };
        assert_eq!((work(&one), one.running(), slots[0].ops()), (3, false, 3));
        assert!(slots[0].done_ns().is_some() && control.done_ns().is_none());
        assert!(serving.running() && !control.stopped());
        assert_eq!(work(&two), 3);
        assert_eq!(control.done_ns(), slots[1].done_ns());
        assert!(!serving.running() && control.stopped());
        assert_eq!(slots[2].done_ns(), None, "it was stopped");
    }

    #[test]
    fn a_worker_that_is_stopped_is_not_done() {
        let control: &Control = shared::leak().unwrap();
        let slot: &Slot = shared::leak().unwrap();
        let worker = Worker::new(control, slot, Recorders::new(0).unwrap(), 1);
        control.open(&Opening::endless(1));
        worker.add_ops(1 << 40);
        assert!(worker.running());
        control.stop();
        assert!(!worker.running() && slot.done_ns().is_none() && control.done_ns().is_none());
    }

    #[test]
    fn the_last_workers_rest_while_their_set_has_fewer() {
        let params = testing::params(&Spin, &[("batch", Raw::Int(1))]);
        let group = WorkerGroup::start(&Spin, &params, 3);
        let slots = group.slots();
        let ops = || [0, 1, 2].map(|at: usize| slots[at].ops());
        let work_on = |workers: &[usize]| {
            let before = ops();
            group.wait_until("more operations", |_| {
                workers.iter().all(|at| ops()[*at] > before[*at] + 1000)
            });
            let after = ops();
            [0, 1, 2].map(|at: usize| after[at] > before[at])
        };
        assert_eq!(work_on(&[0, 1, 2]), [true; 3]);
        group.set_present(1);
        group.wait_until("rests", |_| slots[1..].iter().all(|slot| slot.rested_ns(u64::MAX) > 0));
        assert_eq!(work_on(&[0]), [true, false, false]);
        group.set_present(2);
        assert_eq!(work_on(&[0, 1]), [true, true, false]);
        // Its rest is over, and that of the other one goes on.
        let now_ns = clock::monotonic_ns();
        let grows = |at: usize| slots[at].rested_ns(now_ns + 7) - slots[at].rested_ns(now_ns);
        assert_eq!([0, 1, 2].map(grows), [0, 0, 7]);
        assert!(slots[1].rested_ns(now_ns) > 0 && slots[1].rest.ended_ns() < now_ns);
        group.stop();
    }

    #[test]
    fn a_rest_that_others_ended_and_began_again_is_begun_again() {
        let control: &Control = shared::leak().unwrap();
        let slots: &[Slot] = shared::leak_slice(2).unwrap();
        let worker = Worker::new(control, &slots[1], Recorders::new(0).unwrap(), 1).before(0);
        control.set_present(1, slots);
        let seen = worker.begin_rest().unwrap();
        // Both before it sleeps: as many workers rest as before, and its rest has ended.
        control.set_present(2, slots);
        control.set_present(1, slots);
        let at_once = |seen| futex::wait(&control.changes, seen, Some(1), futex::Scope::Shared);
        assert!(at_once(seen), "it does not sleep");
        assert!(worker.rest_ended_ns() > 0);
        let seen = worker.begin_rest().unwrap();
        let now_ns = clock::monotonic_ns();
        assert_eq!(slots[1].rested_ns(now_ns + 7) - slots[1].rested_ns(now_ns), 7, "it rests");
        assert!(!at_once(seen));
    }

    #[test]
    fn what_a_switch_cuts_counts_for_no_variant() {
        let turn: &Turn = shared::leak().unwrap();
        let (control, slot): (&Control, &Slot) = (shared::leak().unwrap(), shared::leak().unwrap());
        let recorders: Vec<Recorders> = (0..2).map(|_| Recorders::new(1).unwrap()).collect();
        let recorders: &'static [Recorders] = recorders.leak();
        let lanes = Lanes::new(turn, recorders).unwrap();
        let cut = Recorders::new(1).unwrap();
        let worker = Worker::new(control, slot, cut, 1).in_turns(Some(lanes));
        control.open(&Opening::endless(1));
        let done = || {
            worker.add_ops(1);
            worker.count(0, 10);
        };
        let counts = || [0, 1].map(|variant| lanes.of_variant(variant).ops());
        let ends_of = |lane: &LaneCounts| (lane.ends(), lane.cut_ends());
        let ends = || [0, 1].map(|variant| ends_of(lanes.of_variant(variant)));
        let samples = || [0, 1].map(|variant: usize| recorders[variant].merged(0).total());

        done();
        assert_eq!(counts(), [0, 0], "nobody has the turn");
        turn.cut();
        turn.switched(1_000);
        done();
        turn.count(1);
        worker.record(0, 1_500, 600);
        assert_eq!((counts(), samples()), ([0, 0], [0, 0]), "they began before the switch");
        done();
        worker.record(0, 1_500, 500);
        assert_eq!((counts(), samples()), ([1, 0], [1, 0]), "it began in the washout");
        assert_eq!(cut.merged(0).max_ns(), Some(600), "the one that the switch cut");
        done();
        turn.cut();
        worker.record(0, 2_050, 1_100);
        turn.switched(2_000);
        turn.count(2);
        done();
        assert_eq!((counts(), samples()), ([2, 0], [1, 0]), "the switch cut it");
        assert_eq!(ends(), [(2, 0), (0, 1)], "the one that ended while a variant counted");
        worker.add_ops(0);
        assert_eq!(ends(), [(2, 0), (1, 1)], "one in vain");
        done();
        worker.record(0, 2_100, 100);
        assert_eq!((counts(), samples()), ([2, 1], [1, 1]));
        assert_eq!(lanes.of_variant(0).counters()[0], 20);
        assert_eq!(cut.merged(0).total(), 1, "what ended in the washout is not cut");
        assert_eq!(slot.ops(), 6, "the worker's own count has all of them");
    }
}
