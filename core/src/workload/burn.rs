//! The unit of CPU work: read-modify-write operations over a 64 KiB buffer.
//!
//! Work is an amount of kilo-operations, or a time: as many operations as take that long on a CPU at
//! full speed ([`Speed`]), so that a plan is the same load on every machine. In the lab work of a
//! time need not be executed: [`crate::sys::burst`].
//!
//! The buffer is larger than
//! some first-level caches and fits every second-level cache, so a burn feels a migration
//! and a cold cache, and costs the same each time otherwise.
//!
//! An operation keeps its variables in memory, too: place, bound, counter, what is left.
//! schedbench's worker, built without optimisation, does the same, and most of an operation's
//! time goes there. In registers an operation takes a fifth of the time, and a `.bench` file would
//! run another load than it was written for.

use std::arch::asm;
use std::fmt;

use bytemuck::Zeroable;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::model::{Migration, Stretch, show_duration};
use crate::sys::{burst, clock, sched};

const OPS_PER_KOP: u32 = 1_000;
const WORDS: usize = (64 << 10) / size_of::<u32>();
/// Workers look up from work of a time this often, to count it.
const STEP_NS: u64 = 10_000;
const NS_PER_US: u64 = 1_000;

/// CPU work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    Kops(u64),
    /// The time of the work at full speed.
    Ns(u64),
}

impl Work {
    /// Whether it is an amount, and there is any.
    pub fn is_counted(self) -> bool {
        matches!(self, Work::Kops(1..))
    }

    /// The time of the work at full speed; 0: not known.
    pub fn ns(self) -> u64 {
        match self {
            Work::Kops(_) => 0,
            Work::Ns(ns) => ns,
        }
    }
}

/// The form in a plan: `70`, `60us`.
impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Kops(kops) => write!(f, "{kops}"),
            Work::Ns(ns) => f.write_str(&show_duration(*ns)),
        }
    }
}

/// How fast this machine works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed {
    /// The time of a kilo-operation on a CPU at full speed, in picoseconds; above 0.
    pub kop_ps: u64,
    /// Work of a time is executed also where it need not be.
    pub executed: bool,
    /// The cost of the first work in another cache: only in the lab, where a migration costs nothing by itself.
    pub migration: Option<Migration>,
    /// How much longer work of a time takes: in the lab, where it would take that time.
    pub stretch: Stretch,
    /// The seed for pieces that take more or less time.
    pub seed: u64,
}

impl Default for Speed {
    /// A speed for runs in which nothing is executed.
    fn default() -> Speed {
        Speed {
            kop_ps: 1_000_000,
            executed: false,
            migration: None,
            stretch: Stretch::default(),
            seed: 0,
        }
    }
}

impl Speed {
    /// Number of samples of [`Speed::measure`]. Disturbances make a sample slower, never faster, so the fastest of
    /// many short samples is that of a CPU which does nothing else.
    const SAMPLES: usize = 3_000;
    const KOPS: u64 = 10;
    /// The number of samples in virtual time, where they are alike.
    const EXACT_SAMPLES: usize = 10;

    /// Whether this is a guest of the lab that lets time pass in place of work.
    pub fn is_spent_in_bursts(self) -> bool {
        !self.executed && burst::is_possible()
    }

    /// Measures the thread that calls it, on a host for some 40 ms. Also returns the share by which the median
    /// sample was slower than the fastest.
    pub fn measure(is_exact: bool) -> (Speed, f64) {
        let count = if is_exact { Speed::EXACT_SAMPLES } else { Speed::SAMPLES };
        let mut burner = Burner::new(Speed { kop_ps: 1, executed: true, ..Speed::default() });
        let mut samples: Vec<u64> = (0..count)
            .map(|_| {
                let began_ns = clock::monotonic_ns();
                burner.burn(Work::Kops(Speed::KOPS));
                clock::monotonic_ns() - began_ns
            })
            .collect();
        samples.sort_unstable();
        let (fastest, median) = (samples[0].max(1), samples[count / 2]);
        let kop_ps = (fastest * 1_000 / Speed::KOPS).max(1);
        let speed = Speed { kop_ps, ..Speed::default() };
        (speed, median as f64 / fastest as f64 - 1.0)
    }

    /// The operations that take `ns`.
    fn ops(&self, ns: u64) -> u64 {
        (u128::from(ns) * 1_000 * u128::from(OPS_PER_KOP) / u128::from(self.kop_ps)) as u64
    }
}

#[derive(Zeroable)]
#[repr(C, align(4096))]
struct Buffer([u32; WORDS]);

/// One worker's buffer and the variables of its loop.
pub struct Burner {
    buffer: Box<Buffer>,
    place: usize,
    bound: usize,
    counter: u32,
    left: u32,
    speed: Speed,
    /// Work of a time need not be executed.
    in_lab: bool,
    migration: Option<Migration>,
    /// Draws how much more or less time work takes, if it takes longer than at full speed.
    random: Option<ChaCha8Rng>,
    /// The last-level cache that it worked in last, where migrations cost something.
    llc: Option<u32>,
    /// The part of a microsecond that is left of counted work.
    rest_ns: u64,
}

impl Burner {
    /// Allocates the buffer and touches every page of it.
    pub fn new(speed: Speed) -> Self {
        let mut buffer: Box<Buffer> = bytemuck::zeroed_box();
        // Not zero: storing zeros into fresh zeroed memory may be left out by the compiler.
        buffer.0.fill(1);
        let in_lab = speed.is_spent_in_bursts();
        let migration = speed.migration.filter(|_| burst::is_possible());
        // Each worker of a guest has a number of its own, the same one in every run.
        let seed = speed.seed ^ (sched::own_tid() as u64) << 32;
        let random = (!speed.stretch.is_off()).then(|| ChaCha8Rng::seed_from_u64(seed));
        let (bound, rest_ns, llc) = (WORDS, 0, None);
        let (place, counter, left) = (0, 0, 0);
        Burner {
            buffer,
            place,
            bound,
            counter,
            left,
            speed,
            in_lab,
            migration,
            random,
            llc,
            rest_ns,
        }
    }

    #[inline]
    pub fn burn(&mut self, work: Work) {
        self.burn_counted(work, |_| ());
    }

    /// `count` gets the work done, step by step: kilo-operations, or microseconds at full speed. A rest of less
    /// than a microsecond counts with the next work.
    #[inline]
    pub fn burn_counted(&mut self, work: Work, mut count: impl FnMut(u64)) {
        let ns = match work {
            Work::Kops(kops) => {
                for _ in 0..kops {
                    self.move_in();
                    self.burn_ops(OPS_PER_KOP);
                    count(1);
                }
                return;
            }
            Work::Ns(ns) => ns,
        };
        let taken_ns = self.taken_ns(ns);
        let (mut left_ns, mut ops, mut counted_ns) = (taken_ns, 0, 0);
        while left_ns > 0 {
            self.move_in();
            let done_ns = if self.in_lab {
                burst::spend(left_ns).min(left_ns)
            } else {
                let step_ns = left_ns.min(STEP_NS);
                // The operations are rounded over all work so far, so that errors do not add up.
                let due = self.speed.ops(taken_ns - left_ns + step_ns);
                self.burn_ops((due - ops) as u32);
                ops = due;
                step_ns
            };
            left_ns -= done_ns;
            self.rest_ns += if taken_ns == ns {
                done_ns
            } else {
                let all_ns = u128::from(taken_ns - left_ns) * u128::from(ns);
                let now_ns = (all_ns / u128::from(taken_ns)) as u64;
                now_ns - std::mem::replace(&mut counted_ns, now_ns)
            };
            count(self.rest_ns / NS_PER_US);
            self.rest_ns %= NS_PER_US;
        }
    }

    /// Works until the monotonic clock shows `end_ns`.
    #[inline]
    pub fn burn_until(&mut self, end_ns: u64) {
        while let left_ns @ 1.. = end_ns.saturating_sub(clock::monotonic_ns()) {
            self.move_in();
            if self.in_lab {
                burst::spend(left_ns);
            } else {
                self.burn_ops(self.speed.ops(left_ns.min(STEP_NS)).max(1) as u32);
            }
        }
    }

    /// The time that work of `ns` takes.
    #[inline]
    fn taken_ns(&mut self, ns: u64) -> u64 {
        let Some(random) = &mut self.random else { return ns };
        let Stretch { longer, jitter } = self.speed.stretch;
        let span = 2 * u64::from(jitter) + 1;
        let permille = 1_000 + u64::from(longer) + random.next_u64() % span - u64::from(jitter);
        (ns * permille / 1_000).max(1)
    }

    /// Spends the cost of the first work in another cache, which no work counts.
    #[inline]
    fn move_in(&mut self) {
        let Some(Migration { cost_ns, cpus_per_llc }) = self.migration else { return };
        let llc = sched::current_cpu() as u32 / cpus_per_llc.max(1);
        if self.llc.replace(llc).is_none_or(|last| last == llc) {
            return;
        }
        let mut left_ns = u64::from(cost_ns);
        while left_ns > 0 {
            left_ns = left_ns.saturating_sub(burst::spend(left_ns));
        }
    }

    /// Reads `ops` words, one after the other around the buffer, changes each by the counter and writes it back.
    #[inline(never)]
    fn burn_ops(&mut self, ops: u32) {
        self.left = ops;
        loop {
            self.spill();
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            self.place += 1;
            self.spill();
            if self.place >= self.bound {
                self.place = 0;
            }
            let count = self.counter;
            self.counter = count.wrapping_add(1);
            self.spill();
            // The place is below the bound, which is the number of words: the remainder only spares
            // the check.
            self.buffer.0[self.place % WORDS] ^= count;
        }
    }

    /// Forces all variables and the whole buffer into memory.
    #[inline(always)]
    fn spill(&mut self) {
        // SAFETY: the assembly has no instruction; the compiler only has to assume that the memory behind the
        // reference was read and written.
        unsafe {
            asm!("/* {0} */", in(reg) &raw mut *self, options(nostack, preserves_flags));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_done_and_goes_round_the_whole_buffer() {
        let mut burner = Burner::new(Speed::default());
        let kops = 2 * WORDS / 1_000;
        let mut expected = vec![1u32; WORDS];
        for count in 0..1_000 * kops {
            expected[(count + 1) % WORDS] ^= count as u32;
        }
        burner.burn(Work::Kops(kops as u64));
        assert!(burner.buffer.0[..] == expected[..]);
        let untouched = expected.iter().filter(|&&word| word == 1).count();
        assert!(untouched <= 1, "{untouched} words had no turn");
    }

    #[test]
    fn work_of_a_time_is_as_many_operations_as_take_it() {
        // 1.5 us for a thousand operations: 60 us are 40 thousand.
        let mut burner = Burner::new(Speed { kop_ps: 1_500_000, ..Speed::default() });
        let mut counted_us = 0;
        burner.burn_counted(Work::Ns(60_000), |us| counted_us += us);
        assert_eq!((burner.counter, counted_us), (40_000, 60));
        // Too short for a microsecond: all is counted in the end.
        (0..10).for_each(|_| burner.burn_counted(Work::Ns(1_300), |us| counted_us += us));
        assert_eq!(counted_us, 60 + 13);
        assert_eq!(burner.counter, 40_000 + 10 * 866, "each rounded down to an operation");
    }

    #[test]
    fn work_may_take_longer_by_more_or_less_and_counts_as_much() {
        const PIECES: u32 = 1_000;
        let stretch = Stretch { longer: 200, jitter: 100 };
        let pieces = |seed| {
            let mut burner = Burner::new(Speed { stretch, seed, ..Speed::default() });
            let mut counted_us = 0;
            let pieces = (0..PIECES).map(|_| {
                let before = burner.counter;
                burner.burn_counted(Work::Ns(25_000), |us| counted_us += us);
                // A microsecond is a thousand operations.
                burner.counter - before
            });
            let pieces: Vec<u32> = pieces.collect();
            (pieces, counted_us)
        };
        let (taken, counted_us) = pieces(1);
        assert_eq!(counted_us, 25 * u64::from(PIECES));
        assert!(taken.iter().all(|ops| (27_500..=32_500).contains(ops)), "{taken:?}");
        assert!(taken.iter().min() < Some(&27_600) && taken.iter().max() > Some(&32_400));
        let mean = taken.iter().sum::<u32>() / PIECES;
        assert!((29_800..30_200).contains(&mean), "{mean}");
        assert_eq!(pieces(1).0, taken, "a seed is the same pieces");
        assert_ne!(pieces(2).0, taken);
    }

    #[test]
    fn the_pace_of_a_machine_is_measured() {
        let (speed, slower) = Speed::measure(false);
        assert!(speed.kop_ps > 1_000 && slower >= 0.0, "{speed:?} {slower}");
    }
}
