//! Who had a CPU during a wait, and how long. Pure.

use std::collections::BTreeMap;

use crate::model::Turn;

#[derive(Default)]
pub struct Turns {
    by_tid: BTreeMap<i32, (u64, String)>,
}

impl Turns {
    pub fn add(&mut self, tid: i32, run_ns: u64, name: impl Fn() -> String) {
        if run_ns > 0 {
            self.by_tid.entry(tid).or_insert_with(|| (0, name())).0 += run_ns;
        }
    }

    /// The sum, and most time first.
    pub fn finish(self) -> (u64, Option<Vec<Turn>>) {
        let turns = self.by_tid.into_iter();
        let mut turns: Vec<Turn> =
            turns.map(|(tid, (run_ns, name))| Turn { tid, name, run_ns }).collect();
        turns.sort_by_key(|turn| (std::cmp::Reverse(turn.run_ns), turn.tid));
        (turns.iter().map(|turn| turn.run_ns).sum(), Some(turns))
    }
}
