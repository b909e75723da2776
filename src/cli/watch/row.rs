//! The activity of one or more tasks in one or more periods, and the columns that the table shows of it. Pure.

use crate::model::{TaskScore, Times};

/// A task, or several when folded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    /// Its names, and its counts; of several tasks what is known of the sums, and whether all of them have ended.
    pub task: TaskScore,
    /// The task's number, or the process's.
    pub number: Option<i32>,
    /// How many tasks it has.
    pub tasks: usize,
    /// How long it waited in the period, waits that last included; a wait that began before the period
    /// counts whole until [`Row::waited_since`] takes off what was before. `None`: not counted by the source.
    pub waited_ns: Option<u64>,
}

impl Row {
    pub fn from_task(task: &TaskScore) -> Row {
        let waited_ns = match (&task.wait, task.waiting_ns) {
            (None, None) => None,
            (wait, now_ns) => {
                let ended_ns = wait.as_ref().map_or(0, |wait| wait.total_ns);
                Some(ended_ns.saturating_add(now_ns.unwrap_or(0)))
            }
        };
        // A view shows neither its CPUs nor its slices.
        let task = TaskScore { cpus: None, slice: None, ..task.clone() };
        Row { number: (task.tid > 0).then_some(task.tid), tasks: 1, waited_ns, task }
    }

    /// By pid and tid.
    pub fn key(&self) -> (i32, i32) {
        (self.task.pid, self.number.unwrap_or(0))
    }

    /// Takes off what a wait had lasted when the period began.
    pub fn waited_since(&mut self, before_ns: u64) {
        self.waited_ns = self.waited_ns.map(|ns| ns.saturating_sub(before_ns));
    }

    /// Adds the same task or fold, later; its names stay. A sum of which a part is unknown is what is known of it.
    /// It keeps the longest of the waits that last.
    pub fn add(&mut self, other: &Row) {
        let (own, more) = (&mut self.task, &other.task);
        let counts = [
            (&mut own.run_ns, more.run_ns),
            (&mut own.voluntary, more.voluntary),
            (&mut own.involuntary, more.involuntary),
            (&mut own.wakeups, more.wakeups),
            (&mut self.waited_ns, other.waited_ns),
        ];
        for (own, more) in counts {
            if let Some(more) = more {
                *own = Some(own.unwrap_or(0).saturating_add(more));
            }
        }
        if let Some(more) = &more.migrations {
            own.migrations.get_or_insert_default().merge(more);
        }
        if let Some(more) = &more.wait {
            own.wait.get_or_insert_default().merge(more);
        }
        own.waiting_ns = own.waiting_ns.max(more.waiting_ns);
        own.ended &= more.ended;
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
    pub fn value(self, row: &Row) -> Option<u64> {
        let (task, wait) = (&row.task, row.task.wait.as_ref());
        match self {
            Key::Wait => row.waited_ns,
            Key::Waits => wait.map(|wait| wait.count),
            Key::P99 => wait?.quantile_ns(0.99),
            Key::Max => wait.and_then(longest_ns).max(task.waiting_ns),
            Key::Run => task.run_ns,
            Key::Switches => Some(task.voluntary? + task.involuntary?),
            Key::Preempted => task.involuntary,
            Key::Moves => task.migrations.map(|moves| moves.total),
            Key::Wakeups => task.wakeups,
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
        let of = |task| Row::from_task(&task);
        let mut row = of(TaskScore { run_ns: Some(3), ..TaskScore::default() });
        let bucket = Bucket { low_ns: 1024, high_ns: 2048, count: 2 };
        let wait = Times { count: 2, total_ns: 3000, max_ns: None, buckets: vec![bucket] };
        row.add(&of(TaskScore { run_ns: Some(4), involuntary: Some(1), ..TaskScore::default() }));
        row.add(&of(TaskScore { wait: Some(wait), ..TaskScore::default() }));
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
            assert_eq!(key.value(&row), expected, "{key:?}");
        }
    }

    #[test]
    fn keys_go_round_in_both_directions() {
        assert_eq!(Key::Name.step(-1), Key::Wakeups);
        assert_eq!(Key::Wakeups.step(1), Key::Name);
        assert_eq!(Key::Wait.step(1), Key::Waits);
    }
}
