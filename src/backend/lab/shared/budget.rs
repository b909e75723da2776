//! The time that a plan may wait for a cache. Parallel waits are added up, and a wait in progress already
//! counts for those that begin after it: all end when the time is used up.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::sys::lock;

/// In less time no answer can come.
const MIN_PATIENCE: Duration = Duration::from_millis(5);

pub struct Budget {
    limit: Duration,
    waits: Mutex<Waits>,
}

#[derive(Default)]
struct Waits {
    spent: Duration,
    under_way: Vec<Instant>,
}

/// One wait.
pub struct Exchange<'a> {
    budget: &'a Budget,
    began: Instant,
    patience: Duration,
}

impl Budget {
    pub fn new(limit: Duration) -> Budget {
        Budget { limit, waits: Mutex::default() }
    }

    /// `None` if the time is used up.
    pub fn begin(&self) -> Option<Exchange<'_>> {
        let began = Instant::now();
        let mut waits = self.waits();
        let under_way: Duration = waits.under_way.iter().map(Instant::elapsed).sum();
        let patience = self.limit.saturating_sub(waits.spent + under_way);
        if patience < MIN_PATIENCE {
            return None;
        }
        waits.under_way.push(began);
        Some(Exchange { budget: self, began, patience })
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        lock(&self.waits)
    }
}

impl Exchange<'_> {
    /// The time that is left.
    pub fn left(&self) -> Duration {
        self.patience.saturating_sub(self.began.elapsed())
    }

    /// Counts it, unless it took less than `free`.
    pub fn end(self, free: Duration) {
        let took = self.began.elapsed();
        if took >= free {
            self.budget.waits().spent += took;
        }
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let mut waits = self.budget.waits();
        if let Some(at) = waits.under_way.iter().position(|began| *began == self.began) {
            waits.under_way.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_and_what_is_under_way_is_gone_for_others() {
        let limit = Duration::from_secs(3600);
        let budget = Budget::new(limit);
        let free = budget.begin().unwrap();
        free.end(limit);
        assert_eq!(budget.waits().spent, Duration::ZERO, "it was quick");
        budget.begin().unwrap().end(Duration::ZERO);
        let spent = budget.waits().spent;
        assert!(spent > Duration::ZERO);
        budget.waits().under_way.push(Instant::now() - limit / 2);
        let next = budget.begin().unwrap();
        assert!(next.left() <= limit / 2 - spent, "half of it is being waited");
        budget.waits().under_way.push(Instant::now() - limit / 2);
        assert!(budget.begin().is_none(), "and now the other half");
        drop(next);
        assert_eq!(budget.waits().under_way.len(), 2);
        budget.waits().under_way.clear();
        assert!(budget.begin().is_some());
        budget.waits().spent = limit;
        assert!(budget.begin().is_none());
    }
}
