//! Counts by variant, for workers whose variants take turns inside one run.
//!
//! A *lane* is what one variant counts into; lane 0 is of none. The measuring thread says which lane counts by one
//! number that all workers read. It has a new upper part for each block, so that an operation which ends in another
//! block than the one it began in, or in the washout at the begin of a block, is counted for no variant. A worker's
//! operation begins where its last one ended. A latency says itself when it began.
//!
//! All counts are allocated before the start; a worker alone writes its own.

use std::io;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use bytemuck::Zeroable;

use crate::sys::shared;

use super::recorders::Recorders;

pub const MAX_COUNTERS: usize = 5;

const LANE_BITS: u32 = 16;
/// More variants than this cannot take turns.
pub const MAX_LANES: usize = (1 << LANE_BITS) - 1;

/// Whose turn it is. One for all workers of a run, written by the measuring thread.
#[derive(Zeroable)]
#[repr(C, align(128))]
pub struct Turn {
    /// The number of the block, and the lane that counts.
    now: AtomicU64,
    /// When all workers had the settings of this block.
    switched_ns: AtomicU64,
}

impl Turn {
    /// Begins a block: nothing counts, and no operation under way will.
    pub fn cut(&self) {
        let block = (self.now.load(Relaxed) >> LANE_BITS) + 1;
        self.now.store(block << LANE_BITS, Release);
    }

    /// All workers have the settings of the block: operations that begin now are whole.
    pub fn switched(&self, now_ns: u64) {
        self.switched_ns.store(now_ns, Release);
        self.cut();
    }

    /// From now on lane `lane` counts.
    pub fn count(&self, lane: usize) {
        let block = self.now.load(Relaxed) >> LANE_BITS << LANE_BITS;
        self.now.store(block | lane as u64, Release);
    }
}

/// The counts of one worker in one lane.
#[derive(Zeroable)]
#[repr(C, align(128))]
pub struct LaneCounts {
    ops: AtomicU64,
    /// How often operations ended: more often than they count where some were in vain, as jobs that ended late.
    ends: AtomicU64,
    /// Those that began in another block and ended while this lane counted.
    cut_ends: AtomicU64,
    counters: [AtomicU64; MAX_COUNTERS],
    /// In lane 0: the moment of [`Turn`] at which the operation under way began.
    began: AtomicU64,
}

impl LaneCounts {
    pub fn ops(&self) -> u64 {
        self.ops.load(Relaxed)
    }

    pub fn ends(&self) -> u64 {
        self.ends.load(Relaxed)
    }

    pub fn cut_ends(&self) -> u64 {
        self.cut_ends.load(Relaxed)
    }

    pub fn counters(&self) -> [u64; MAX_COUNTERS] {
        std::array::from_fn(|index| self.counters[index].load(Relaxed))
    }
}

/// The lanes of one worker.
#[derive(Clone, Copy)]
pub struct Lanes {
    turn: &'static Turn,
    /// Lane 0 and one for each variant.
    counts: &'static [LaneCounts],
    /// The histograms of the worker's set, for each variant.
    recorders: &'static [Recorders],
}

impl Lanes {
    /// `recorders`: one for each variant.
    pub fn new(turn: &'static Turn, recorders: &'static [Recorders]) -> io::Result<Lanes> {
        Ok(Lanes { turn, counts: shared::leak_slice(recorders.len() + 1)?, recorders })
    }

    /// The counts of a variant, from 0.
    pub fn of_variant(&self, variant: usize) -> &'static LaneCounts {
        &self.counts[variant + 1]
    }

    /// Whether what is under way began in the same block.
    fn is_whole(&self, now: u64) -> bool {
        self.counts[0].began.load(Relaxed) >> LANE_BITS == now >> LANE_BITS
    }

    /// Operations have ended, and the next one begins.
    #[inline(never)]
    pub(super) fn add_ops(&self, count: u64) {
        let now = self.turn.now.load(Acquire);
        let lane = &self.counts[counting(now)];
        if self.is_whole(now) {
            add(&lane.ops, count);
            add(&lane.ends, count.max(1));
        } else {
            add(&lane.cut_ends, count.max(1));
        }
        self.counts[0].began.store(now, Relaxed);
    }

    #[inline(never)]
    pub(super) fn count(&self, index: usize, count: u64) {
        let now = self.turn.now.load(Acquire);
        let lane = if self.is_whole(now) { counting(now) } else { 0 };
        add(&self.counts[lane].counters[index], count);
    }

    /// Records a latency that began under the settings of this block, unless it ended in the washout, which counts for
    /// nobody. Returns false where a switch cut one that would count.
    #[inline(never)]
    pub(super) fn record(&self, index: usize, end_ns: u64, latency_ns: u64) -> bool {
        let lane = counting(self.turn.now.load(Acquire));
        let began_ns = end_ns.saturating_sub(latency_ns);
        let is_whole = began_ns >= self.turn.switched_ns.load(Acquire);
        if lane > 0 && is_whole {
            self.recorders[lane - 1].here(index).record(latency_ns);
        }
        lane == 0 || is_whole
    }
}

/// The lane that counts at a moment of [`Turn`].
fn counting(now: u64) -> usize {
    (now & MAX_LANES as u64) as usize
}

fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed) + count, Relaxed);
}
