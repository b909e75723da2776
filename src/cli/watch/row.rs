//! The activity of one or more tasks in one or more periods: sums, and the columns that the table shows. Pure.

use crate::model::{TaskScore, Times};

/// `None`: not counted by the source.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sums {
    pub run_ns: Option<u64>,
    pub wait: Option<Times>,
    pub voluntary: Option<u64>,
    pub involuntary: Option<u64>,
    pub wakeups: Option<u64>,
    pub migrations: Option<u64>,
    /// How long it has been waiting for a CPU at the end, where it is.
    pub waiting_ns: Option<u64>,
    /// How long it waited in the period, waits that last included; a wait that began before the period
    /// counts whole until [`Sums::waited_since`] takes off what was before.
    pub waited_ns: Option<u64>,
}

impl Sums {
    pub fn from_task(task: &TaskScore) -> Sums {
        Sums {
            run_ns: task.run_ns,
            wait: task.wait.clone(),
            voluntary: task.voluntary,
            involuntary: task.involuntary,
            wakeups: task.wakeups,
            migrations: task.migrations.map(|moves| moves.total),
            waiting_ns: task.waiting_ns,
            waited_ns: match (&task.wait, task.waiting_ns) {
                (None, None) => None,
                (wait, now_ns) => {
                    let ended_ns = wait.as_ref().map_or(0, |wait| wait.total_ns);
                    Some(ended_ns.saturating_add(now_ns.unwrap_or(0)))
                }
            },
        }
    }

    /// Takes off what a wait had lasted when the period began.
    pub fn waited_since(&mut self, before_ns: u64) {
        self.waited_ns = self.waited_ns.map(|ns| ns.saturating_sub(before_ns));
    }

    /// A sum of which a part is unknown is what is known of it. Of waits that last the longest is kept.
    pub fn add(&mut self, other: &Sums) {
        let counts = [
            (&mut self.run_ns, other.run_ns),
            (&mut self.voluntary, other.voluntary),
            (&mut self.involuntary, other.involuntary),
            (&mut self.wakeups, other.wakeups),
            (&mut self.migrations, other.migrations),
            (&mut self.waited_ns, other.waited_ns),
        ];
        for (own, more) in counts {
            if let Some(more) = more {
                *own = Some(own.unwrap_or(0).saturating_add(more));
            }
        }
        self.waiting_ns = self.waiting_ns.max(other.waiting_ns);
        if let Some(more) = &other.wait {
            self.wait.get_or_insert_default().merge(more);
        }
    }
}

/// A number of the table, and what rows are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Wait,
    Waits,
    P99,
    Max,
    Run,
    Switches,
    Preempted,
    Moves,
    Wakeups,
    Name,
}

/// Each with the header and the width of its column, in the order in which the keys `<` and `>` go
/// through them.
pub const KEYS: [(Key, &str, usize); 10] = [
    (Key::Name, "name", 0),
    (Key::Wait, "wait%", 6),
    (Key::Waits, "waits", 7),
    (Key::P99, "p99", 8),
    (Key::Max, "max", 8),
    (Key::Run, "run%", 6),
    (Key::Switches, "switch", 7),
    (Key::Preempted, "preempt", 8),
    (Key::Moves, "moves", 6),
    (Key::Wakeups, "wakeups", 8),
];

impl Key {
    fn at(self) -> usize {
        KEYS.iter().position(|(key, ..)| *key == self).unwrap_or(0)
    }

    pub fn header(self) -> &'static str {
        KEYS[self.at()].1
    }

    pub fn columns(self) -> usize {
        KEYS[self.at()].2
    }

    /// `None`: not known, or no number.
    pub fn value(self, sums: &Sums) -> Option<u64> {
        let wait = sums.wait.as_ref();
        match self {
            Key::Wait => sums.waited_ns,
            Key::Waits => wait.map(|wait| wait.count),
            Key::P99 => wait?.quantile_ns(0.99),
            Key::Max => wait.and_then(longest_ns).max(sums.waiting_ns),
            Key::Run => sums.run_ns,
            Key::Switches => Some(sums.voluntary? + sums.involuntary?),
            Key::Preempted => sums.involuntary,
            Key::Moves => sums.migrations,
            Key::Wakeups => sums.wakeups,
            Key::Name => None,
        }
    }

    /// The key `by` places to the right in [`KEYS`], cyclically.
    pub fn step(self, by: isize) -> Key {
        KEYS[(self.at() as isize + by).rem_euclid(KEYS.len() as isize) as usize].0
    }
}

/// The longest, as far as it is known: the maximum, or the end of the last bucket.
pub fn longest_ns(wait: &Times) -> Option<u64> {
    wait.max_ns.or_else(|| wait.quantile_ns(1.0)).filter(|_| wait.count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Bucket;

    #[test]
    fn what_is_not_counted_is_no_zero_and_the_longest_wait_is_known_by_its_bucket() {
        let mut sums = Sums { run_ns: Some(3), ..Sums::default() };
        let bucket = Bucket { low_ns: 1024, high_ns: 2048, count: 2 };
        let wait = Times { count: 2, total_ns: 3000, max_ns: None, buckets: vec![bucket] };
        sums.add(&Sums { run_ns: Some(4), involuntary: Some(1), ..Sums::default() });
        sums.add(&Sums { wait: Some(wait), waited_ns: Some(3000), ..Sums::default() });
        let cases = [
            (Key::Run, Some(7)),
            (Key::Preempted, Some(1)),
            (Key::Switches, None),
            (Key::Moves, None),
            (Key::Waits, Some(2)),
            (Key::Wait, Some(3000)),
            (Key::Max, Some(2048)),
            (Key::Name, None),
        ];
        for (key, expected) in cases {
            assert_eq!(key.value(&sums), expected, "{key:?}");
        }
    }

    #[test]
    fn keys_go_round_in_both_directions() {
        assert_eq!(Key::Name.step(-1), Key::Wakeups);
        assert_eq!(Key::Wakeups.step(1), Key::Name);
        assert_eq!(Key::Wait.step(1), Key::Waits);
    }
}
