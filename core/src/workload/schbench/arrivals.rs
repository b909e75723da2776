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

use crate::model::words;

pub const NS_PER_S: u64 = 1_000_000_000;
/// No more requests per second than that.
pub const MAX_PER_S: u64 = 100_000_000;

words! {
    /// How requests arrive, as written in a plan.
    pub enum Pattern {
        /// All of a second's requests at its beginning, as schbench does it.
        Burst = "burst",
        Uniform = "uniform",
        /// Independent of each other: gaps are exponentially distributed.
        Poisson = "poisson",
    }
}

/// The arrivals of one message thread, in ns since the start, ascending: every `of`-th of all.
/// The rate is that of all message threads together and is set for each second.
pub struct Arrivals {
    pattern: Pattern,
    of: u64,
    begins_ns: u64,
    per_s: u64,
    /// The number of this thread's next arrival among all arrivals of this second.
    number: u64,
    random: ChaCha8Rng,
    /// Poisson only: where in the second this thread is, and the distance to its next arrival in
    /// mean gaps. The rest of the distance at the end of a second goes into the next one: the
    /// process has no other memory, so it stays Poisson at each rate.
    at_ns: f64,
    gaps_left: f64,
}

impl Arrivals {
    /// For message thread `index` of `of`. The seed is used by Poisson arrivals alone.
    pub fn new(pattern: Pattern, index: u64, of: u64, seed: u64) -> Arrivals {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let gaps_left = exponential(&mut random);
        let (begins_ns, per_s, number, at_ns) = (0, 0, index, 0.0);
        Arrivals { pattern, of, begins_ns, per_s, number, random, at_ns, gaps_left }
    }

    /// Goes on with second `second`, the next one, at this rate. Arrivals that were left in the
    /// last one are dropped, see [`Arrivals::end`].
    pub fn begin(&mut self, second: u64, per_s: u64) {
        self.skip();
        // Requests of all seconds are dealt in turn, so that no thread has all the odd ones.
        self.number -= self.per_s;
        (self.begins_ns, self.per_s, self.at_ns) = (second * NS_PER_S, per_s, 0.0);
    }

    /// The next arrival of this second.
    #[inline]
    pub fn next_ns(&mut self) -> Option<u64> {
        if let Pattern::Poisson = self.pattern {
            return self.next_poisson_ns();
        }
        if self.number >= self.per_s {
            return None;
        }
        let number = self.number;
        self.number += self.of;
        Some(match self.pattern {
            Pattern::Uniform => self.begins_ns + number * NS_PER_S / self.per_s,
            _ => self.begins_ns,
        })
    }

    fn next_poisson_ns(&mut self) -> Option<u64> {
        let gap_ns = self.mean_gap_ns();
        let at_ns = self.at_ns + self.gaps_left * gap_ns;
        if at_ns >= NS_PER_S as f64 {
            self.gaps_left -= (NS_PER_S as f64 - self.at_ns) / gap_ns;
            self.at_ns = NS_PER_S as f64;
            return None;
        }
        self.at_ns = at_ns;
        self.gaps_left = exponential(&mut self.random);
        Some(self.begins_ns + at_ns as u64)
    }

    fn mean_gap_ns(&self) -> f64 {
        self.of as f64 / self.per_s as f64 * NS_PER_S as f64
    }

    /// Ends this second and returns how many arrivals were left in it until a moment; for Poisson arrivals the
    /// expected number.
    pub fn end(&mut self, until_ns: u64) -> u64 {
        let within_ns = until_ns.saturating_sub(self.begins_ns).min(NS_PER_S);
        if let Pattern::Poisson = self.pattern {
            let left_ns = (within_ns as f64 - self.at_ns).max(0.0);
            self.at_ns = NS_PER_S as f64;
            return (left_ns / self.mean_gap_ns()).round() as u64;
        }
        let due = match self.pattern {
            Pattern::Uniform => (u128::from(within_ns) * u128::from(self.per_s))
                .div_ceil(u128::from(NS_PER_S)) as u64,
            _ => self.per_s,
        };
        let left = due.saturating_sub(self.number).div_ceil(self.of);
        self.skip();
        left
    }

    /// Advances to this thread's first number after this second.
    fn skip(&mut self) {
        let left = self.per_s.saturating_sub(self.number).div_ceil(self.of);
        self.number += left * self.of;
    }
}

/// With mean 1, by the inverse of the distribution.
fn exponential(random: &mut ChaCha8Rng) -> f64 {
    // 1 - u is never 0.
    let u: f64 = random.random();
    -(1.0 - u).ln()
}

/// No more than this many (and one) requests are queued after the worker last emptied it.
const PENDING: u64 = 128;
/// A worker may still be at the [`PENDING`] + 1 that it took while as many more are queued.
const CAPACITY: usize = 512;

/// The requests of one worker: arrival times, in a ring that one message thread fills and
/// one worker empties.
#[derive(Zeroable)]
#[repr(C)]
pub struct Inbox {
    queued: Count,
    /// The value of [`Inbox::queued`] when the worker last emptied the queue.
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
        // Ordered before the read of the worker's seat that follows: either the worker, which
        // blocks first and then reads this, sees the request, or it is seen blocked.
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

    /// When the requests arrived that are queued and not done, where `done` are done in all.
    pub fn not_done(&self, done: u64) -> impl Iterator<Item = u64> {
        let queued = self.queued.0.load(SeqCst);
        let first = done.max(queued.saturating_sub(CAPACITY as u64));
        (first..queued).map(|number| self.arrived_ns[number as usize % CAPACITY].load(Relaxed))
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

    /// The arrivals of message thread `index` in seconds of these rates.
    fn in_seconds(pattern: Pattern, rates: &[u64], index: u64, of: u64) -> Vec<u64> {
        let mut arrivals = Arrivals::new(pattern, index, of, 42 + index);
        let mut all = Vec::new();
        for (second, &per_s) in (0..).zip(rates) {
            arrivals.begin(second, per_s);
            all.extend(std::iter::from_fn(|| arrivals.next_ns()));
        }
        all
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn bursts_come_whole_at_each_second_and_uniform_ones_evenly() {
        let burst = |rates: &[u64]| in_seconds(Pattern::Burst, rates, 0, 1);
        assert_eq!(burst(&[3, 0, 2]), [0, 0, 0, 2 * NS_PER_S, 2 * NS_PER_S]);
        let uniform = |index, of| in_seconds(Pattern::Uniform, &[4, 2], index, of);
        assert_eq!(uniform(0, 1), [0, 250, 500, 750, 1_000, 1_500].map(|ms| ms * MS));
        assert_eq!(uniform(1, 2), [250, 750, 1_500].map(|ms| ms * MS));
        assert_eq!(uniform(2, 4), [500 * MS]);
        assert_eq!(uniform(0, 4), [0, NS_PER_S], "the next second goes on where this one ended");
    }

    /// Mean and standard deviation of the gaps of arrivals within one second.
    fn gaps(times: &[u64], second: u64) -> (f64, f64) {
        let within = |ns: &&[u64]| ns.iter().all(|ns| ns / NS_PER_S == second);
        let gaps: Vec<f64> =
            times.windows(2).filter(within).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn poisson_arrivals_keep_the_rate_of_each_second_and_the_spread_of_gaps() {
        let rates = [20_000, 60_000];
        let times = in_seconds(Pattern::Poisson, &rates, 1, 2);
        assert!(times.is_sorted());
        for (second, per_s) in (0..).zip(rates) {
            let (mean, deviation) = gaps(&times, second);
            // Every second one is this thread's. An exponential's deviation is its mean.
            assert!((mean / (2e9 / per_s as f64) - 1.0).abs() < 0.03, "{mean} at {per_s}");
            assert!((deviation / mean - 1.0).abs() < 0.05, "{deviation} at {per_s}");
        }
        assert_eq!(times, in_seconds(Pattern::Poisson, &rates, 1, 2), "seeded");
    }

    /// The ends of seconds must not show: at much less than one request a second, too, the rate
    /// is kept.
    #[test]
    fn poisson_arrivals_reach_over_the_ends_of_seconds() {
        let times = in_seconds(Pattern::Poisson, &[1; 20_000], 0, 10);
        assert!((times.len() as f64 / 2_000.0 - 1.0).abs() < 0.1, "{} of 2000", times.len());
        // And they are spread over the seconds, not at one end of each.
        let mean = times.iter().map(|ns| (ns % NS_PER_S) as f64).sum::<f64>() / times.len() as f64;
        assert!((mean / 5e8 - 1.0).abs() < 0.1, "{mean}");
    }

    #[test]
    fn what_is_left_of_a_second_can_be_counted_and_left_out() {
        let (burst, uniform) = (Pattern::Burst, Pattern::Uniform);
        let cases = [
            (burst, u64::MAX, 399),
            (burst, NS_PER_S / 2, 399),
            (uniform, u64::MAX, 399),
            // Up to number 499 of those from 203 on, every other one.
            (uniform, NS_PER_S / 2, 149),
            (uniform, NS_PER_S / 10, 0),
        ];
        for (pattern, until_ns, expected) in cases {
            let mut arrivals = Arrivals::new(pattern, 1, 2, 1);
            arrivals.begin(0, 1_000);
            assert_eq!((0..101).filter_map(|_| arrivals.next_ns()).count(), 101);
            let ended = (arrivals.end(until_ns), arrivals.next_ns(), arrivals.end(until_ns));
            assert_eq!(ended, (expected, None, 0), "{pattern:?}");
            arrivals.begin(1, 2);
            assert!(arrivals.next_ns().is_some_and(|ns| ns >= NS_PER_S), "{pattern:?}");
            assert_eq!(arrivals.next_ns(), None, "one of two");
        }
        let mut arrivals = Arrivals::new(Pattern::Poisson, 1, 2, 1);
        arrivals.begin(0, 1_000_000);
        let half = std::iter::from_fn(|| arrivals.next_ns()).find(|&ns| ns > NS_PER_S / 2);
        assert!(half.is_some());
        let left = arrivals.end(NS_PER_S * 3 / 4);
        assert!((124_000..125_001).contains(&left), "{left}");
        assert_eq!((arrivals.next_ns(), arrivals.end(u64::MAX)), (None, 0));
        arrivals.begin(1, 1_000_000);
        assert!(arrivals.next_ns().is_some_and(|ns| (NS_PER_S..NS_PER_S + MS).contains(&ns)));
    }

    proptest! {
        #[test]
        fn message_threads_share_the_rate_to_the_last_request(
            pattern in prop_oneof![Just(Pattern::Burst), Just(Pattern::Uniform)],
            rates in proptest::collection::vec(0u64..500, 0..5),
            of in 1u64..9,
        ) {
            let all: Vec<Vec<u64>> =
                (0..of).map(|index| in_seconds(pattern, &rates, index, of)).collect();
            prop_assert!(all.iter().all(|own| own.is_sorted()));
            for (second, &per_s) in (0..).zip(&rates) {
                let arrived = all.iter().flatten().filter(|&&ns| ns / NS_PER_S == second);
                prop_assert_eq!(arrived.count() as u64, per_s);
            }
            let counts = all.iter().map(Vec::len);
            prop_assert!(counts.clone().max() <= counts.min().map(|min| min + 1));
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
            // All but 100 of those taken, and the queued ones.
            let left = inbox.not_done(258 * round + 100);
            let queued = (0..129).map(|n| round * 1_000 + 500 + n);
            assert!(left.eq(expected[100..].iter().copied().chain(queued)));
            assert_eq!(inbox.take().len(), 129);
            assert_eq!(inbox.take().len(), 0);
        }
    }
}
