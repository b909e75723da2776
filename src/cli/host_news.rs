//! A line says what the host does to runs. Pure.

use crate::backend::{NotSaved, SlowBoot};
use crate::engine::HostNews;
use crate::model::Cell;
use crate::report::clean;

pub fn describe(news: &HostNews, cells: &[Cell]) -> String {
    match news {
        HostNews::Starved { share } => {
            let percent = (100.0 * share).round();
            format!("this host gives QEMU {percent} % of a CPU: it is waited for")
        }
        HostNews::SlowBoot(SlowBoot { elapsed, used, limit }) => format!(
            "after {} s the guest's kernel has not started its first process: it is waited for up to {} s of CPU time, and \
             has had {} s",
            elapsed.as_secs(),
            limit.as_secs(),
            used.as_secs()
        ),
        HostNews::NotSaved(NotSaved::NotKept(why)) => clean(&format!(
            "the booted machine is not kept, and the next plan boots it again: {why}"
        )),
        HostNews::NotSaved(NotSaved::Damaged(path)) => {
            clean(&format!("the saved machine {} is damaged, and is made again", path.display()))
        }
        HostNews::NotSaved(NotSaved::Unreadable(why)) => {
            clean(&format!("a saved machine cannot be taken, and is made again: {why}"))
        }
        HostNews::NotSaved(NotSaved::NoResult(why)) => {
            clean(&format!("the result is not kept, and the next plan makes the run again: {why}"))
        }
        HostNews::NotSaved(NotSaved::NoCoverage(why)) => clean(&format!(
            "the code that a run executed is not kept, and the next hunt makes the run again: {why}"
        )),
        HostNews::Ended { key, reason, is_made_again } => {
            let cell = cells.get(key.cell as usize);
            let place = cell.map_or(String::new(), Cell::place);
            let what = if *is_made_again { "is made again" } else { "is missing" };
            clean(&format!("round {}, {place}: {reason}; the run {what}", key.round + 1))
        }
    }
}
