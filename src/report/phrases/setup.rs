//! The setup of workers: placement, knobs, cgroups, and their changes in mid-run. Pure.

use std::collections::BTreeMap;

use crate::analysis::{SetTable, Workers};
use crate::model::{
    Cgroup, CgroupChange, CpuSet, MemoryPlacement, Placement, SetChange, Value, Work, WorkerKind,
    show_duration,
};

use super::words::joined;

/// `pool bench, CPUs 0-1, memory interleave`; empty where the plan leaves it to the kernel.
pub fn placement(placement: &Placement) -> String {
    let pool = placement.pool.as_ref().map(|pool| format!("pool {pool}"));
    let cpus = placement.cpus.as_ref().map(|cpus| format!("CPUs {cpus}"));
    let memory = Some(placement.memory).filter(|memory| *memory != MemoryPlacement::Kernel);
    let memory = memory.map(|memory| format!("memory {}", memory.word()));
    joined([pool, cpus, memory].into_iter().flatten(), ", ")
}

/// `schbench, count 4, nice 5, throughput in requests`, not yet clean.
pub fn set(set: &SetTable) -> String {
    // A workload with threads of its own runs `count` times.
    let workers = set.workers.and_then(|Workers { count, kind }| match (kind, count) {
        (WorkerKind::Threads, 1) => None,
        (WorkerKind::Threads, _) => Some(format!("count {count}")),
        (WorkerKind::Processes, 1) => Some("in a process".to_string()),
        (WorkerKind::Processes, _) => Some(format!("count {count}, in processes")),
        (WorkerKind::Guests, 1) => Some("in a guest of Xen".to_string()),
        (WorkerKind::Guests, _) => Some(format!("count {count}, in guests of Xen")),
        (WorkerKind::GuestsOrProcesses, 1) => Some("in a guest of Xen or a process".to_string()),
        (WorkerKind::GuestsOrProcesses, _) => {
            Some(format!("count {count}, in guests of Xen or processes"))
        }
    });
    let ops = (!set.ops.is_empty()).then(|| format!("throughput in {}", set.ops));
    let parts = [
        Some(set.workload.clone()),
        workers,
        Some(knobs(&set.knobs)),
        in_cgroup(&set.cgroups),
        Some(joined(set.changes.iter().map(|change| timed(change.at_ns, &of_set(change))), ", ")),
        ops,
    ];
    joined(parts.into_iter().flatten(), ", ")
}

/// `in cgroup web (weight 200) > web/front (max 50%)`; `None`: in the run's own.
fn in_cgroup(cgroups: &[Cgroup]) -> Option<String> {
    let one = |cgroup: &Cgroup| {
        let changes = cgroup.changes.iter().map(|change| timed(change.at_ns, &of_cgroup(change)));
        let first = settings(&cgroup.knobs, &cgroup.cpus);
        let settings = joined([first].into_iter().chain(changes), ", ");
        let settings = if settings.is_empty() { settings } else { format!(" ({settings})") };
        format!("{}{settings}", cgroup.path)
    };
    let all: Vec<String> = cgroups.iter().map(one).collect();
    (!all.is_empty()).then(|| format!("in cgroup {}", all.join(" > ")))
}

/// `weight 200, CPUs 0-1`, of a cgroup.
fn settings(knobs: &BTreeMap<String, Value>, cpus: &Option<CpuSet>) -> String {
    let of_knob = |(knob, value): (&String, &Value)| {
        format!("{} {value}", knob.strip_prefix("cgroup-").unwrap_or(knob))
    };
    let cpus = cpus.as_ref().map(|cpus| format!("CPUs {cpus}"));
    joined(knobs.iter().map(of_knob).chain(cpus), ", ")
}

/// `at 1s light nice 5; at 2s cgroup web weight 400`: a work's changes in mid-run, not yet clean. `None`: it has none.
pub fn changes(work: &Work) -> Option<String> {
    let sets = work.sets.iter().flat_map(|set| {
        let of_set = |change| format!("{} {}", set.name, of_set(change));
        set.changes.iter().map(move |change| (change.at_ns, of_set(change)))
    });
    let cgroups = work.cgroups.iter().flat_map(|of| {
        let of_cgroup = |change| format!("cgroup {} {}", of.path, of_cgroup(change));
        of.changes.iter().map(move |change| (change.at_ns, of_cgroup(change)))
    });
    let cpus = work.offline.iter().flat_map(|off| {
        let turn = |how: &str| format!("CPUs {} {how}", off.cpus);
        let back = off.end_ns().map(|at_ns| (at_ns, turn("back")));
        [(off.at_ns, turn("off"))].into_iter().chain(back)
    });
    let mut all: Vec<(u64, String)> = cpus.chain(cgroups).chain(sets).collect();
    all.sort_by_key(|(at_ns, _)| *at_ns);
    let all = joined(all.iter().map(|(at_ns, what)| timed(*at_ns, what)), "; ");
    (!all.is_empty()).then_some(all)
}

fn timed(at_ns: u64, what: &str) -> String {
    format!("at {} {what}", show_duration(at_ns))
}

fn of_set(change: &SetChange) -> String {
    let cgroup = change.cgroup.as_ref().map(|cgroup| format!("in cgroup {cgroup}"));
    let count = change.count.map(|count| format!("count {count}"));
    joined([knobs(&change.knobs)].into_iter().chain(cgroup).chain(count), ", ")
}

fn of_cgroup(change: &CgroupChange) -> String {
    settings(&change.knobs, &change.cpus)
}

/// `nice 5, policy batch`, not yet clean; empty without knobs.
pub fn knobs(knobs: &BTreeMap<String, Value>) -> String {
    joined(knobs.iter().map(|(knob, value)| format!("{knob} {value}")), ", ")
}
