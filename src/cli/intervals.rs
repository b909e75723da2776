//! `schedlab score --interval`: a line for each interval while it counts.

use std::io::Write;

use crate::analysis;
use crate::probe::sched::Counted;
use crate::report::score;
use crate::sys::clock;

/// A rest of an interval that is shorter, as a part of it, has no line.
const MIN_REST: u64 = 10;

pub struct Intervals {
    every_ns: u64,
    next_ns: u64,
    at_ns: u64,
    json: bool,
    /// All tasks are watched.
    is_all: bool,
    out: Box<dyn Write>,
}

impl Intervals {
    pub fn new(every_ns: u64, json: bool, is_all: bool, out: Box<dyn Write>) -> Intervals {
        Intervals { every_ns, next_ns: u64::MAX, at_ns: 0, json, is_all, out }
    }

    pub fn begin(&mut self) {
        self.next_ns = clock::monotonic_ns().saturating_add(self.every_ns);
        if !self.json {
            self.put(score::interval_header());
        }
    }

    pub fn is_due(&self) -> bool {
        clock::monotonic_ns() >= self.next_ns
    }

    /// Whether the time since the last line is worth one.
    pub fn has_rest(&self) -> bool {
        let rest_ns =
            self.every_ns.saturating_sub(self.next_ns.saturating_sub(clock::monotonic_ns()));
        self.next_ns != u64::MAX && rest_ns >= self.every_ns / MIN_REST
    }

    pub fn line(&mut self, counted: &Counted) {
        let now_ns = clock::monotonic_ns();
        // One that comes late does not move those that follow, and makes up for none.
        let late = now_ns.saturating_sub(self.next_ns) / self.every_ns;
        self.next_ns = self.next_ns.saturating_add((late + 1).saturating_mul(self.every_ns));
        self.at_ns += counted.wall_ns;
        let Counted { wall_ns, tasks, cpus, .. } = counted;
        let interval = analysis::interval(self.at_ns, *wall_ns, tasks, cpus, self.is_all);
        self.put(score::interval(&interval, self.json));
    }

    /// An error is left out: a user who does not read these lines may read the scoreboard.
    fn put(&mut self, line: String) {
        let _ = self.out.write_all(line.as_bytes()).and_then(|()| self.out.flush());
    }
}
