//! A worker's instruments: the shared control block, its own slot, the barrier.
//!
//! The timed section touches the worker's own slot and the histograms of the CPU that it runs
//! on (aligned to 128 bytes, so no cache line is shared with another CPU, adjacent-line
//! prefetch included) and reads the control block, whose lines do not change between the start
//! and the end. No allocation, no lock.

use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use bytemuck::Zeroable;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::stats::Histogram;
use crate::sys::futex;

use super::Recorders;

pub const MAX_HISTOGRAMS: usize = 3;
pub const MAX_COUNTERS: usize = 4;
const MESSAGE_BYTES: usize = 240;

/// One per run, written by the runner only.
#[derive(Zeroable)]
#[repr(C, align(128))]
pub struct Control {
    /// 0: wait at the barrier. 1: go.
    go: AtomicU32,
    stop: AtomicU32,
    /// Monotonic. Samples that end in `from..until` count.
    measure_from_ns: AtomicU64,
    measure_until_ns: AtomicU64,
    /// Programs are executed again until then.
    repeat_until_ns: AtomicU64,
    /// When the barrier opened.
    started_ns: AtomicU64,
    /// On lines of their own: workers write the one before the barrier, the other at their end.
    arrived: Tally,
    finished: Tally,
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

/// Moments of the monotonic clock, chosen when the barrier opens.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    pub started_ns: u64,
    /// Samples that end in `from..until` count.
    pub from_ns: u64,
    pub until_ns: u64,
    /// Workers that run programs begin no further execution from then on.
    pub repeat_until_ns: u64,
}

impl Opening {
    /// All samples count from then on.
    pub fn endless(from_ns: u64) -> Opening {
        let (until_ns, repeat_until_ns) = (u64::MAX, u64::MAX);
        Opening { started_ns: from_ns, from_ns, until_ns, repeat_until_ns }
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
        self.go.store(1, Release);
        futex::wake(&self.go, i32::MAX, futex::Scope::Shared);
    }

    /// How many workers wait at the barrier.
    pub fn arrived(&self) -> u32 {
        self.arrived.0.load(Acquire)
    }

    /// Sleeps until a worker arrives that `seen` does not count, at most `timeout_ns`.
    pub fn wait_for_arrival(&self, seen: u32, timeout_ns: u64) {
        futex::wait(&self.arrived.0, seen, Some(timeout_ns), futex::Scope::Shared);
    }

    /// How many workers have nothing left to do.
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
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Acquire) != 0
    }

    /// Sleeps until the process ends.
    pub fn stay(&self) -> ! {
        loop {
            futex::wait(&self.stop, 1, None, futex::Scope::Shared);
        }
    }
}

/// One per worker, written by it alone (except [`Slot::take_peak_ns`]).
#[derive(Zeroable)]
#[repr(C, align(128))]
pub struct Slot {
    ops: AtomicU64,
    counters: [AtomicU64; MAX_COUNTERS],
    peak_ns: AtomicU64,
    tid: AtomicI32,
    failed: AtomicU32,
    finished: AtomicU32,
    message: [AtomicU32; MESSAGE_BYTES / 4],
}

impl Slot {
    pub fn ops(&self) -> u64 {
        self.ops.load(Relaxed)
    }

    pub fn counters(&self) -> [u64; MAX_COUNTERS] {
        std::array::from_fn(|index| self.counters[index].load(Relaxed))
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

/// A worker's handle: barrier, counters, histograms.
pub struct Worker {
    control: &'static Control,
    slot: &'static Slot,
    recorders: Recorders,
    seed: u64,
    is_background: bool,
}

impl Worker {
    pub fn new(
        control: &'static Control,
        slot: &'static Slot,
        recorders: Recorders,
        seed: u64,
    ) -> Self {
        Worker { control, slot, recorders, seed, is_background: false }
    }

    /// Of a set that goes on as long as others are measured.
    pub fn in_background(self, is_background: bool) -> Self {
        Worker { is_background, ..self }
    }

    /// Reports this worker as ready and sleeps until all are. Returns the moment at which the
    /// barrier opened.
    pub fn start(&self) -> u64 {
        self.control.arrived.add();
        while self.control.go.load(Acquire) == 0 {
            futex::wait(&self.control.go, 0, None, futex::Scope::Shared);
        }
        self.control.started_ns.load(Relaxed)
    }

    /// When the measured section begins; only meaningful after [`Worker::start`].
    pub fn measure_from_ns(&self) -> u64 {
        self.control.measure_from_ns.load(Relaxed)
    }

    /// From when on no program is executed again.
    pub fn repeat_until_ns(&self) -> u64 {
        if self.is_background { u64::MAX } else { self.control.repeat_until_ns.load(Relaxed) }
    }

    /// Reports that this worker, which runs programs, has nothing left to do.
    pub fn finish(&self) {
        self.slot.finished.store(1, Release);
        self.control.finished.add();
    }

    #[inline]
    pub fn running(&self) -> bool {
        self.control.stop.load(Relaxed) == 0
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
    }

    /// Adds to counter `index` of the workload's own ([`super::Spec::counters`]).
    #[inline]
    pub fn count(&self, index: usize, count: u64) {
        let counter = &self.slot.counters[index];
        counter.store(counter.load(Relaxed) + count, Relaxed);
    }

    /// Counts a latency in histogram `index`, if it ended at `end_ns` (monotonic) within
    /// the measured section.
    #[inline]
    pub fn record(&self, index: usize, end_ns: u64, latency_ns: u64) {
        if end_ns >= self.control.measure_from_ns.load(Relaxed)
            && end_ns < self.control.measure_until_ns.load(Relaxed)
        {
            self.recorders.here(index).record(latency_ns);
        }
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
pub struct Measured {
    pub measured_ns: u64,
    pub ops: u64,
    /// For each window, the sum over the workers that count, each by its own time.
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
    /// Between the two readings of this worker.
    pub wall_ns: u64,
    pub ops: u64,
    pub counters: [u64; MAX_COUNTERS],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::shared;

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
}
