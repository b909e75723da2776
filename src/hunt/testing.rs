//! Invented runs for tests: sets of tasks that never sleep, and their CPU time by window.

use std::collections::BTreeMap;

use crate::analysis::SchedPriority;
use crate::model::testing::worker_result;
use crate::model::{
    Cell, CpuSet, Outcome, Placement, Reading, RunResult, SetResult, Value, Variant, Window, Work,
    WorkerSet, WorkerWindow,
};

use super::case::{Change, Load, Policy, Tasks};
use super::seen::Seen;

const WINDOW_NS: u64 = 100_000_000;

/// One task that never sleeps, on any CPU.
pub fn tasks() -> Tasks {
    Tasks {
        load: Load::Spin,
        count: 1,
        cpus: None,
        nice: 0,
        policy: Policy::Other,
        slice_us: None,
        clamp: None,
        at_ms: 0,
        for_ms: None,
        cgroup: None,
        change: None,
    }
}

/// A change after half a second to any CPU.
pub fn change() -> Change {
    Change { at_ms: 500, cpus: None, nice: 0, count: None, policy: None, slice_us: None }
}

pub fn cell(sets: &[(&str, &str, u32)]) -> Cell {
    let set = |(name, cpus, count): &(&str, &str, u32)| WorkerSet {
        name: name.to_string(),
        workload: "spin".to_string(),
        count: *count,
        knobs: BTreeMap::from([(
            "affinity".to_string(),
            Value::Cpus(cpus.parse::<CpuSet>().unwrap()),
        )]),
        ..WorkerSet::default()
    };
    Cell {
        index: 0,
        variant: Variant { name: "v".to_string(), knobs: BTreeMap::new() },
        work: Work { sets: sets.iter().map(set).collect(), ..Work::default() },
        placement: Placement::default(),
    }
}

/// Sets by name, CPUs and count; for each window of 100 ms the CPU time of each task in ms.
pub fn seen<const N: usize>(cpus: u32, sets: &[(&str, &str, u32)], ms: &[[u64; N]]) -> Seen {
    parts(cpus, &cell(sets), ms).swap_remove(0)
}

/// As [`seen`], of a cell of spinning sets.
pub fn parts<const N: usize>(cpus: u32, cell: &Cell, ms: &[[u64; N]]) -> Vec<Seen> {
    let set = |set: &WorkerSet| SetResult {
        name: set.name.clone(),
        workload: "spin".to_string(),
        ops: "ops".to_string(),
        workers: vec![worker_result(0, 0, 0); set.max_count() as usize],
        ..SetResult::default()
    };
    let sets = cell.work.sets.iter().map(set).collect();
    let overhead = Reading::Unknown("invented".to_string());
    let result = RunResult::new(WINDOW_NS * ms.len() as u64, sets, overhead);
    let window = |(index, ms): (usize, &[u64; N])| {
        let end_at_ns = (index as u64 + 1) * WINDOW_NS;
        let own = WorkerWindow { end_at_ns, wall_ns: WINDOW_NS, ..WorkerWindow::default() };
        let read = |ms: &u64| WorkerWindow { cpu_ns: ms * 1_000_000, ..own };
        Window { index: index as u32, workers: ms.iter().map(read).collect() }
    };
    let windows: Vec<Window> = ms.iter().enumerate().map(window).collect();
    let outcome = Outcome::Done { result: Box::new(result) };
    Seen::parts(cell, cpus, 0, &windows, &outcome)
}

pub fn failed(reason: &str) -> Seen {
    let outcome = Outcome::Failed { reason: reason.to_string() };
    Seen::parts(&cell(&[]), 4, 0, &[], &outcome).swap_remove(0)
}

pub fn with_nice(seen: Seen, set: usize, nice: i64) -> Seen {
    with_knob(seen, set, "nice", Value::Int(nice))
}

pub fn with_policy(seen: Seen, set: usize, policy: &str) -> Seen {
    with_knob(seen, set, "policy", Value::Text(policy.to_string()))
}

fn with_knob(mut seen: Seen, set: usize, knob: &str, value: Value) -> Seen {
    seen.work.sets[set].knobs.insert(knob.to_string(), value);
    let variant = Variant { name: "v".to_string(), knobs: BTreeMap::new() };
    let priority = SchedPriority::from_knobs(&variant, &seen.work.sets[set]);
    for task in seen.tasks.iter_mut().filter(|task| task.set == set) {
        task.weight = priority.priority().weight;
        task.priority = priority.clone();
    }
    seen
}
