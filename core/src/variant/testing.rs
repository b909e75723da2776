//! A laid-out machine, and variants as a plan writes them, for tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::model::{Cell, Cgroup, Placement, Raw, Value, Variant, Work, WorkerSet};
use crate::sys::Host;

use super::{Journal, fields, journal};

/// A tree of files like that of a Linux machine. Its kernel was booted now, and no process lives on it, so that a
/// journal of this process looks like that of a dead one.
pub struct Machine {
    pub host: Host,
    dir: tempfile::TempDir,
}

const V2: &str = "31 28 0:28 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw";
const FILES: &[(&str, &str)] = &[
    ("/proc/self/mountinfo", V2),
    ("/proc/self/cgroup", "0::/user/leaf\n"),
    ("/proc/sys/kernel/sched_autogroup_enabled", "1\n"),
    ("/proc/sys/kernel/sched_cfs_bandwidth_slice_us", "5000\n"),
    ("/proc/sys/kernel/sched_rr_timeslice_ms", "100\n"),
    ("/sys/kernel/debug/sched/features", "PLACE_LAG NO_HRTICK RUN_TO_PARITY\n"),
    ("/sys/kernel/debug/sched/base_slice_ns", "2800000\n"),
    ("/sys/kernel/debug/sched/preempt", "none voluntary (full) lazy\n"),
    ("/sys/kernel/debug/sched/migration_cost_ns", "500000\n"),
    ("/sys/kernel/debug/sched/nr_migrate", "32\n"),
    ("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n"),
    ("/sys/fs/cgroup/cgroup.subtree_control", "memory\n"),
    ("/sys/fs/cgroup/cgroup.procs", "1\n"),
    ("/sys/fs/cgroup/cpuset.cpus.effective", "0-3\n"),
    ("/sys/fs/cgroup/user/cgroup.controllers", "memory\n"),
    ("/sys/fs/cgroup/user/cgroup.subtree_control", "memory\n"),
    ("/sys/fs/cgroup/user/cgroup.procs", "\n"),
];

impl Machine {
    pub fn new() -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::below(dir.path().join("root"));
        let machine = Machine { host, dir };
        for (path, text) in FILES {
            machine.lay(path, text);
        }
        let boot_id = journal::boot_id(&Host::default()).unwrap();
        machine.lay("/proc/sys/kernel/random/boot_id", &boot_id);
        machine
    }

    pub fn lay(&self, path: &str, text: &str) {
        let path = self.host.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub fn journal(&self) -> Journal {
        Journal::open(&self.state_dir()).unwrap()
    }

    pub fn text(&self, path: &str) -> String {
        self.host.read(path).unwrap()
    }

    /// Every file and folder with its words, to compare the machine with its earlier state.
    pub fn all(&self) -> BTreeMap<PathBuf, Vec<String>> {
        let mut all = BTreeMap::new();
        gather(&self.host.path("/"), &mut all);
        all
    }

    pub fn journals(&self) -> usize {
        fs::read_dir(self.state_dir()).map_or(0, Iterator::count)
    }
}

fn gather(folder: &Path, all: &mut BTreeMap<PathBuf, Vec<String>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, all);
            all.insert(path, Vec::new());
        } else {
            let text = fs::read_to_string(&path).unwrap();
            all.insert(path, text.split_whitespace().map(str::to_string).collect());
        }
    }
}

/// A value of each knob, as a plan writes it.
pub fn example(knob: &str) -> Raw {
    let text = match knob {
        "kernel" => "debian:6.18",
        "kernel-args" => "preempt=full",
        "xen" => "/boot/xen.gz",
        "xen-args" => "credit2_runqueue=core",
        "guest-kernel" => "debian:6.12",
        "policy" => "batch",
        "priority" => "50",
        "runtime" => "2ms",
        "deadline" | "period" => "10ms",
        "nice" => "5",
        "slice" => "300us",
        "uclamp-min" => "10%",
        "uclamp-max" => "90%",
        "timer-slack" => "1ms",
        "affinity" => "0",
        "cgroup-weight" => "250",
        "cgroup-max" => "150%",
        "cgroup-idle" => "true",
        "autogroup" => "false",
        "features" => "NO_RUN_TO_PARITY,HRTICK",
        "base-slice" => "1ms",
        "preempt" => "lazy",
        "migration-cost" => "100us",
        "nr-migrate" => "8",
        "sysctl" => "sched_rr_timeslice_ms=50",
        "scx" => "fifo",
        "xen-scheduler" => "credit",
        "xen-timeslice" => "5ms",
        "xen-ratelimit" => "500us",
        "xen-weight" => "512",
        "xen-cap" => "50",
        "xen-affinity" | "xen-soft-affinity" => "1",
        "guest-memory" => "256MiB",
        "guest-cpus" => "2",
        "dummy" => "true",
        other => panic!("write an example of {other}"),
    };
    raw(knob, text)
}

fn raw(knob: &str, text: &str) -> Raw {
    if knob.ends_with("affinity") {
        return Raw::Text(text.to_string());
    }
    if text.contains(',') {
        return Raw::List(text.split(',').map(|item| raw(knob, item)).collect());
    }
    match (text.parse::<bool>(), text.parse::<i64>()) {
        (Ok(value), _) => Raw::Bool(value),
        (_, Ok(value)) => Raw::Int(value),
        _ => Raw::Text(text.to_string()),
    }
}

/// Knobs by name and text; a list is written with commas.
pub fn knobs(written: &[(&str, &str)]) -> BTreeMap<String, Value> {
    let parse = |(name, text): &(&str, &str)| {
        let field = fields().into_iter().find(|field| field.name == *name).expect(name);
        (name.to_string(), field.kind.parse(&raw(name, text)).expect(text))
    };
    written.iter().map(parse).collect()
}

pub fn variant(written: &[(&str, &str)]) -> Variant {
    Variant { name: "test".to_string(), knobs: knobs(written) }
}

/// A cell whose runs go into a pool.
pub fn pooled(written: &[(&str, &str)], name: &str, cpus: Option<&str>) -> Cell {
    let mut cell = cell(variant(written), &[]);
    cell.placement.pool = Some(name.parse().unwrap());
    cell.placement.cpus = cpus.map(|cpus| cpus.parse().unwrap());
    cell
}

/// The path of a cgroup, its knobs and its CPUs.
pub type Group = (&'static str, &'static [(&'static str, &'static str)], Option<&'static str>);

/// The cell with these cgroups for its sets.
pub fn grouped(mut cell: Cell, cgroups: &[Group]) -> Cell {
    let cgroup = |(path, written, cpus): &Group| Cgroup {
        path: path.parse().unwrap(),
        knobs: knobs(written),
        cpus: cpus.map(|cpus| cpus.parse().unwrap()),
        changes: Vec::new(),
    };
    cell.work.cgroups = cgroups.iter().map(cgroup).collect();
    cell
}

/// A cell of sets with these knobs of their own; with one set without knobs if `sets` is empty.
pub fn cell(variant: Variant, sets: &[BTreeMap<String, Value>]) -> Cell {
    let set = |knobs: &BTreeMap<String, Value>| WorkerSet {
        name: "s".to_string(),
        workload: "spin".to_string(),
        count: 1,
        knobs: knobs.clone(),
        ..Default::default()
    };
    let plain = [BTreeMap::new()];
    let sets = if sets.is_empty() { &plain } else { sets };
    let sets = sets.iter().map(set).collect();
    let work = Work { name: "w".to_string(), sets, ..Default::default() };
    Cell { index: 0, variant, work, placement: Placement::default() }
}
