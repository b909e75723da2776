//! The tasks that had a CPU during a wait, and for how long. Pure.

use std::collections::BTreeMap;

use crate::model::Turn;

#[derive(Default)]
pub struct Turns {
    /// Time by number and name: where numbers are not known, names differ.
    by_task: BTreeMap<(Option<i32>, String), u64>,
}

impl Turns {
    pub fn add(&mut self, tid: Option<i32>, name: String, run_ns: u64) {
        if run_ns > 0 {
            *self.by_task.entry((tid, name)).or_default() += run_ns;
        }
    }

    /// The sum, and most time first.
    pub fn finish(self) -> (u64, Option<Vec<Turn>>) {
        let turn = |((tid, name), run_ns)| Turn { tid, name, run_ns };
        let mut turns: Vec<Turn> = self.by_task.into_iter().map(turn).collect();
        turns.sort_by_key(|turn| std::cmp::Reverse(turn.run_ns));
        (turns.iter().map(|turn| turn.run_ns).sum(), Some(turns))
    }
}
