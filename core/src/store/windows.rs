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

/// Windows after the warm-up, and the last of them.
#[derive(Clone, Copy, Default)]
struct Counted {
    windows: u64,
    sums: Counts,
    last: Counts,
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
            counted.windows += 1;
            counted.last = [own.wall_ns, own.cpu_ns, own.ops];
            for (sum, count) in counted.sums.iter_mut().zip(counted.last) {
                *sum = sum.saturating_add(count);
            }
        }
    }

    /// Whether they count more than the run has in all, by more than a usual window: where a run ends, its windows
    /// may be read later than the whole.
    pub fn contradict(&self, key: RunKey, result: &RunResult) -> bool {
        let totals = result.sets.iter().flat_map(|set| &set.workers);
        let totals = totals.map(|worker| [worker.wall_ns, worker.cpu_ns, worker.ops]);
        let is_more = |(counted, total): (&Counted, Counts)| {
            (0..total.len()).any(|at| {
                let usual = (total[at] / counted.windows.max(1)).saturating_mul(2);
                counted.sums[at] > total[at].saturating_add(counted.last[at].min(usual))
            })
        };
        self.key == Some(key) && self.workers.iter().zip(totals).any(is_more)
    }
}
