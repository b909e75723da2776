//! The windows of stored runs in which states may be seen.

use crate::analysis::{Question, RunWindows};
use crate::model::{Cell, SampledPlan, WorkerSet, WorkerWindow, WorkerWindows};
use crate::store::Store;
use crate::workload;

use super::SessionError;

/// Windows of more runs would take longer to read than all else that a report shows.
pub(super) const MAX_RUNS: usize = 2_000;
/// A window that the end of the run, or of a program, cut to less than this part of its length does not count.
const MIN_PART_OF_WINDOW: f64 = 0.5;

/// Empty where the answer has no use for them, or where runs have none of one variant.
pub(super) fn windows(
    store: &Store,
    plans: &[SampledPlan],
    question: &Question,
) -> Result<Vec<RunWindows>, SessionError> {
    let Question { ratios_alone, over_hosts, fidelity, rounds_done, .. } = question;
    let runs: usize = plans.iter().map(|plan| plan.runs.len()).sum();
    let is_wanted = !ratios_alone && !over_hosts && !fidelity && rounds_done.is_none();
    let mut all = Vec::new();
    if !is_wanted || runs > MAX_RUNS {
        return Ok(all);
    }
    for plan in plans.iter().filter(|plan| plan.plan.measure.turns_ns.is_none()) {
        store.each_windows(&plan.id, |key, workers| {
            let Some(cell) = plan.cells.get(key.cell as usize) else { return };
            let window_ns = plan.plan.measure.window_ns.min(plan.plan.duration_ns(&cell.work));
            let sets = throughputs(cell, &workers, window_ns);
            all.push(RunWindows { plan: plan.id.clone(), key, sets, judged_samples: None });
        })?;
    }
    Ok(all)
}

/// The sets that are active in all of the run, unless something changes in it: it has a speed before and one after.
fn throughputs(cell: &Cell, workers: &[WorkerWindows], window_ns: u64) -> Vec<(String, Vec<f64>)> {
    let work = &cell.work;
    if work.sets.iter().any(|set| work.changes_in_mid_run(set)) {
        return Vec::new();
    }
    let sets = work.sets.iter().filter(|set| !set.background && set.phase.is_none());
    sets.map(|set| (set.name.clone(), throughput(set, workers, window_ns))).collect()
}

/// The sum over the workers that count, each by its own time.
fn throughput(set: &WorkerSet, workers: &[WorkerWindows], window_ns: u64) -> Vec<f64> {
    let Some(workload) = workload::find(&set.workload) else { return Vec::new() };
    let counts =
        |name: &String| workload.spec().roles.iter().any(|role| role.counts && role.name == *name);
    let own = workers.iter().filter(|worker| worker.set == set.name && counts(&worker.role));
    let mut rates: Vec<f64> = Vec::new();
    for worker in own {
        let is_whole =
            |window: &&WorkerWindow| window.wall_ns as f64 >= MIN_PART_OF_WINDOW * window_ns as f64;
        let whole: Vec<&WorkerWindow> = worker.windows.iter().take_while(is_whole).collect();
        rates.resize(rates.len().max(whole.len()), 0.0);
        for (rate, window) in rates.iter_mut().zip(whole) {
            *rate += window.ops as f64 * 1e9 / window.wall_ns as f64;
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Placement, SetChange, Variant, Work};

    #[test]
    fn a_run_in_which_something_changes_has_no_speed_of_its_own() {
        let cell = |changes: Vec<SetChange>| {
            let [name, workload] = ["s", "spin"].map(str::to_string);
            let set = WorkerSet { name, workload, changes, ..Default::default() };
            let variant = Variant { name: "v".to_string(), knobs: Default::default() };
            let work = Work { sets: vec![set], ..Default::default() };
            Cell { index: 0, variant, work, placement: Placement::default() }
        };
        let window = WorkerWindow { end_at_ns: 10, wall_ns: 10, ops: 5, cpu_ns: 1, peak_ns: 0 };
        let [set, role] = ["s", "spin"].map(str::to_string);
        let workers = [WorkerWindows { set, role, windows: vec![window; 4] }];
        let found = |changes| throughputs(&cell(changes), &workers, 10);
        assert_eq!(found(Vec::new()), [("s".to_string(), vec![5e8; 4])]);
        let change = SetChange { at_ns: 5, knobs: Default::default(), cgroup: None, count: None };
        assert_eq!(found(vec![change]), []);
    }
}
