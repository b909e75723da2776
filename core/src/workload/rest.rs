//! The time that a worker has rested because its set had fewer workers. Plain data.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use bytemuck::Zeroable;

/// Set while the worker rests; the other bits are the moment at which it would have begun if this were its only rest.
/// Without it they are the time that it has rested.
const RESTS: u64 = 1 << 63;

/// The worker begins a rest. It or whoever wakes it ends the rest, and the measuring thread reads, all in one word.
#[derive(Zeroable)]
#[repr(C)]
pub struct Rest {
    state: AtomicU64,
    ended_ns: AtomicU64,
}

impl Rest {
    /// The worker calls it. One that rests goes on.
    pub fn begin(&self, now_ns: u64) {
        let rested_ns = self.state.load(Acquire);
        if rested_ns & RESTS == 0 {
            self.state.store(RESTS | now_ns.saturating_sub(rested_ns), Release);
        }
    }

    /// Ends the rest, unless it has ended.
    pub fn end(&self, now_ns: u64) {
        let state = self.state.load(Acquire);
        let rested_ns = now_ns.saturating_sub(state & !RESTS);
        let is_resting = state & RESTS != 0;
        if is_resting {
            // Before the state, so that a worker that finds its rest ended finds the moment, too.
            self.ended_ns.fetch_max(now_ns, AcqRel);
            _ = self.state.compare_exchange(state, rested_ns, AcqRel, Relaxed);
        }
    }

    /// The time that the worker has rested by then, a rest that goes on included.
    pub fn until_ns(&self, now_ns: u64) -> u64 {
        match self.state.load(Acquire) {
            state if state & RESTS == 0 => state,
            state => now_ns.saturating_sub(state & !RESTS),
        }
    }

    /// When the last rest ended; 0: there was none.
    pub fn ended_ns(&self) -> u64 {
        self.ended_ns.load(Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_add_up_and_end_once() {
        let rest: Rest = Zeroable::zeroed();
        rest.end(5);
        assert_eq!((rest.until_ns(7), rest.ended_ns()), (0, 0), "there was none");
        rest.begin(10);
        rest.begin(12);
        assert_eq!((rest.until_ns(10), rest.until_ns(15)), (0, 5));
        rest.end(20);
        rest.end(30);
        assert_eq!((rest.until_ns(40), rest.ended_ns()), (10, 20));
        rest.begin(50);
        assert_eq!(rest.until_ns(53), 13);
        rest.end(54);
        assert_eq!((rest.until_ns(99), rest.ended_ns()), (14, 54));
    }

    #[test]
    fn a_worker_whose_rest_has_ended_knows_when_whoever_ended_it() {
        let rests: Vec<Rest> = (0..20_000).map(|_| Zeroable::zeroed()).collect();
        let other_at = AtomicU64::new(0);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for (at, rest) in rests.iter().enumerate() {
                    other_at.store(at as u64 + 1, Release);
                    while rest.until_ns(9) == 0 {
                        std::thread::yield_now();
                    }
                    rest.end(7);
                }
            });
            for (at, rest) in rests.iter().enumerate() {
                while other_at.load(Acquire) <= at as u64 {
                    std::thread::yield_now();
                }
                rest.begin(1);
                rest.end(7);
                assert_eq!((rest.until_ns(9), rest.ended_ns()), (6, 7));
            }
        });
    }
}
