//! When requests are meant to arrive at a fixed rate, and the queue in which they wait.
//!
//! Arrivals are times since the start barrier and depend on nothing that happens: a message
//! thread that comes late posts late, and the delay is in the response time.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use bytemuck::Zeroable;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const NS_PER_S: u64 = 1_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// All of a second's requests at its beginning, as schbench does it.
    Burst,
    Uniform,
    /// Independent of each other: gaps are exponentially distributed.
    Poisson,
}

impl Pattern {
    /// As written in a plan, in the order of the enum.
    pub const WORDS: [&'static str; 3] = ["burst", "uniform", "poisson"];

    pub fn named(word: &str) -> Option<Pattern> {
        let patterns = [Pattern::Burst, Pattern::Uniform, Pattern::Poisson];
        Self::WORDS.iter().position(|other| *other == word).map(|index| patterns[index])
    }
}

/// The arrivals of one message thread, in ns since the start, ascending: every `of`-th of all.
pub struct Arrivals {
    pattern: Pattern,
    /// Of all message threads together; at least 1.
    rate_per_s: u64,
    of: u64,
    /// The number, among all arrivals, of this thread's next.
    number: u64,
    random: ChaCha8Rng,
    poisson_ns: f64,
}

impl Arrivals {
    /// For message thread `index` of `of`. The seed is used by Poisson arrivals alone.
    pub fn new(pattern: Pattern, rate_per_s: u64, index: u64, of: u64, seed: u64) -> Arrivals {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Arrivals { pattern, rate_per_s, of, number: index, random, poisson_ns: 0.0 }
    }

    #[inline]
    pub fn next_ns(&mut self) -> u64 {
        let (number, rate) = (self.number, self.rate_per_s);
        self.number += self.of;
        match self.pattern {
            Pattern::Burst => number / rate * NS_PER_S,
            Pattern::Uniform => {
                (u128::from(number) * u128::from(NS_PER_S) / u128::from(rate)) as u64
            }
            Pattern::Poisson => {
                // The inverse of the exponential distribution; 1 - u is never 0.
                let u: f64 = self.random.random();
                let mean_gap_ns = self.of as f64 / rate as f64 * NS_PER_S as f64;
                self.poisson_ns -= (1.0 - u).ln() * mean_gap_ns;
                self.poisson_ns as u64
            }
        }
    }
}

/// More than this many requests behind the worker's last look at its queue are not queued.
const PENDING: u64 = 128;
/// A worker may still be at the [`PENDING`] + 1 that it took while as many more are queued.
const CAPACITY: usize = 512;

/// The requests of one worker: arrival times, in a ring that one message thread fills and
/// one worker empties.
#[derive(Zeroable)]
#[repr(C)]
pub struct Inbox {
    queued: Count,
    /// What [`Inbox::queued`] was when the worker last looked.
    taken: Count,
    arrived_ns: [AtomicU64; CAPACITY],
}

#[derive(Zeroable)]
#[repr(C, align(128))]
struct Count(AtomicU64);

impl Inbox {
    /// Queues a request; `false` if too many wait.
    #[inline]
    pub fn push(&self, arrived_ns: u64) -> bool {
        let queued = self.queued.0.load(Relaxed);
        if queued - self.taken.0.load(Acquire) > PENDING {
            return false;
        }
        self.arrived_ns[queued as usize % CAPACITY].store(arrived_ns, Relaxed);
        // Ordered with the look at the worker's seat that follows: either the worker, which
        // blocks first and then looks here, sees this request, or it is seen blocked.
        self.queued.0.store(queued + 1, SeqCst);
        true
    }

    /// The requests queued since the last call, oldest first. They must be used up before
    /// the next call.
    #[inline]
    pub fn take(&self) -> impl ExactSizeIterator<Item = u64> {
        let from = self.taken.0.load(Relaxed);
        let count = self.queued.0.load(SeqCst) - from;
        self.taken.0.store(from + count, Release);
        (0..count as usize)
            .map(move |step| self.arrived_ns[(from as usize + step) % CAPACITY].load(Relaxed))
    }

    /// Touches every page.
    pub fn prefault(&self) {
        self.arrived_ns.iter().for_each(|word| word.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first(pattern: Pattern, rate: u64, index: u64, of: u64, count: usize) -> Vec<u64> {
        let mut arrivals = Arrivals::new(pattern, rate, index, of, 42 + index);
        (0..count).map(|_| arrivals.next_ns()).collect()
    }

    #[test]
    fn bursts_come_whole_at_each_second_and_uniform_ones_evenly() {
        assert_eq!(first(Pattern::Burst, 3, 0, 1, 5), [0, 0, 0, NS_PER_S, NS_PER_S]);
        assert_eq!(first(Pattern::Uniform, 4, 0, 1, 3), [0, 250_000_000, 500_000_000]);
        assert_eq!(first(Pattern::Uniform, 4, 1, 2, 3), [250_000_000, 750_000_000, 1_250_000_000]);
    }

    #[test]
    fn poisson_arrivals_keep_the_rate_and_the_spread_of_gaps() {
        let times = first(Pattern::Poisson, 1_000, 1, 2, 20_000);
        let gaps: Vec<f64> =
            times.iter().zip(&times[1..]).map(|(from, to)| (to - from) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Half of 1,000 a second: 2 ms. An exponential's standard deviation is its mean.
        assert!((mean / 2e6 - 1.0).abs() < 0.03, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{variance}");
        assert_eq!(times, first(Pattern::Poisson, 1_000, 1, 2, 20_000), "seeded");
    }

    proptest! {
        #[test]
        fn message_threads_share_the_rate_to_the_last_request(
            pattern in prop_oneof![Just(Pattern::Burst), Just(Pattern::Uniform)],
            rate in 1u64..500,
            of in 1u64..9,
        ) {
            let within = |index| {
                let mut arrivals = Arrivals::new(pattern, rate, index, of, 1);
                std::iter::from_fn(|| Some(arrivals.next_ns()).filter(|&ns| ns < 3 * NS_PER_S))
                    .collect::<Vec<_>>()
            };
            let all: Vec<Vec<u64>> = (0..of).map(within).collect();
            prop_assert!(all.iter().all(|own| own.is_sorted()));
            prop_assert_eq!(all.iter().map(Vec::len).sum::<usize>() as u64, 3 * rate);
        }
    }

    #[test]
    fn an_inbox_keeps_order_and_takes_no_more_than_schbench_queues() {
        let inbox: &Inbox = crate::sys::shared::leak().unwrap();
        inbox.prefault();
        for round in 0..10u64 {
            let pushed = (0..1_000).filter(|n| inbox.push(round * 1_000 + n)).count();
            assert_eq!(pushed, 129);
            let taken = inbox.take();
            // While these are worked on as many more are queued, and none is overwritten.
            assert_eq!((0..1_000).filter(|n| inbox.push(round * 1_000 + 500 + n)).count(), 129);
            let expected: Vec<u64> = (0..129).map(|n| round * 1_000 + n).collect();
            assert_eq!(taken.collect::<Vec<_>>(), expected);
            assert_eq!(inbox.take().len(), 129);
            assert_eq!(inbox.take().len(), 0);
        }
    }
}
