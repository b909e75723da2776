//! Whether the windows of a run that comes from outside fit what it did in all. Pure.

use crate::model::{RunKey, RunResult, Window};

/// Wall time, CPU time and operations of one worker.
type Counts = [u64; 3];

/// The windows of one run.
#[derive(Default)]
pub(super) struct Windows {
    key: Option<RunKey>,
    workers: Vec<Counted>,
}

/// Windows after the warm-up, and the largest of them.
#[derive(Clone, Copy, Default)]
struct Counted {
    sums: Counts,
    largest: Counts,
}

impl Windows {
    pub fn add(&mut self, key: RunKey, window: &Window, warmup_ns: u64) {
        if self.key.replace(key) != Some(key) {
            self.workers.clear();
        }
        self.workers.resize(self.workers.len().max(window.workers.len()), Counted::default());
        for (counted, own) in self.workers.iter_mut().zip(&window.workers) {
            // The warm-up is in no total.
            if own.end_at_ns.saturating_sub(own.wall_ns) < warmup_ns {
                continue;
            }
            for (at, count) in [own.wall_ns, own.cpu_ns, own.ops].into_iter().enumerate() {
                counted.sums[at] = counted.sums[at].saturating_add(count);
                counted.largest[at] = counted.largest[at].max(count);
            }
        }
    }

    /// Whether they count more than the run has in all, by more than a window: where a run begins and ends, its
    /// parts may be read at other moments than the whole.
    pub fn contradict(&self, key: RunKey, result: &RunResult) -> bool {
        let totals = result.sets.iter().flat_map(|set| &set.workers);
        let totals = totals.map(|worker| [worker.wall_ns, worker.cpu_ns, worker.ops]);
        self.key == Some(key)
            && self.workers.iter().zip(totals).any(|(counted, total)| {
                (0..total.len()).any(|at| counted.sums[at] - counted.largest[at] > total[at])
            })
    }
}
