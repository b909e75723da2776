//! Checks of kernel settings that touch scheduling or the knowledge of it.

use std::path::Path;

use crate::model::Reading;
use crate::sys::mounts::{self, OwnCgroup};

use super::finding::{Level, Seen};
use super::machine::Machine;

const KERNEL: &str = "/proc/sys/kernel";

pub fn cgroup_quota(machine: &Machine) -> Seen {
    let why = "the bandwidth controller stops all workers together when the quota is used up: \
               what is measured then is the quota, not the scheduler";
    let own = match mounts::own_cpu_cgroups(machine.host) {
        Reading::Known(own) => own,
        Reading::Unknown(reason) => return Seen::unknown(reason, why),
    };
    let limits = own.iter().flat_map(|own| {
        own.with_ancestors().filter_map(move |directory| {
            Some((quota_cpus(machine, own, directory)?, own, directory))
        })
    });
    let Some((cpus, own, directory)) = limits.min_by(|a, b| a.0.total_cmp(&b.0)) else {
        return Seen::good("none on this session");
    };
    let (word, file) = if own.is_v2 { ("max", "cpu.max") } else { ("-1", "cpu.cfs_quota_us") };
    let path = directory.join(file).display().to_string();
    Seen::new(Level::Blocks, format!("{cpus:.2} CPUs, by {path}"), why)
        .fix(machine.echo(word, &path))
}

/// The CPUs that a cgroup may use; `None`: no limit, or not known.
fn quota_cpus(machine: &Machine, own: &OwnCgroup, directory: &Path) -> Option<f64> {
    let number = |text: String| text.trim().parse::<u64>().ok();
    let (quota_us, period_us) = if own.is_v2 {
        let text = machine.host.read(directory.join("cpu.max")).ok()?;
        let (quota, period) = text.split_once(' ')?;
        (quota.parse().ok()?, period.trim().parse().ok()?)
    } else {
        // Without a quota the file has -1, which does not parse as a u64.
        let read = |file: &str| machine.host.read(directory.join(file)).ok().and_then(number);
        (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?)
    };
    (period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

pub fn swap(machine: &Machine) -> Seen {
    let why = "a worker whose memory is swapped out waits for a disk, which the scheduler has \
               no part in";
    match &machine.swapped_pages {
        Reading::Known(0) => Seen::good("no page was moved just now"),
        Reading::Known(pages) => {
            Seen::new(Level::Disturbs, format!("{pages} pages were moved just now"), why)
                .fix(format!("{}swapoff -a", machine.sudo()))
        }
        Reading::Unknown(reason) => Seen::unknown(reason, why),
    }
}

/// Whether the kernel has no such setting, as against settings that cannot be seen.
fn is_absent(machine: &Machine, name: &str) -> bool {
    let folder = machine.host.path(KERNEL);
    folder.is_dir() && !folder.join(name).exists()
}

/// A check of one switch of the kernel: 0 is off.
fn switch(machine: &Machine, name: &str, level: Level, why: &'static str) -> Seen {
    match machine.number(&format!("{KERNEL}/{name}")) {
        Reading::Known(0) => Seen::good("off"),
        Reading::Known(value) => {
            let what = if value == 1 { "on".to_string() } else { format!("on ({value})") };
            Seen::new(level, what, why).fix(machine.sysctl(&format!("kernel.{name}"), 0))
        }
        Reading::Unknown(_) if is_absent(machine, name) => Seen::good("this kernel has none"),
        Reading::Unknown(reason) => Seen::unknown(reason, why),
    }
}

pub fn numa_balancing(machine: &Machine) -> Seen {
    if machine.environment.topology.numa_nodes.len() == 1 {
        return Seen::good("one NUMA node, nothing to balance");
    }
    switch(
        machine,
        "numa_balancing",
        Level::Disturbs,
        "pages are unmapped to see who touches them, and workers and pages then move between \
         nodes for seconds after the start",
    )
}

pub fn timer_migration(machine: &Machine) -> Seen {
    switch(
        machine,
        "timer_migration",
        Level::Note,
        "timers of idle CPUs expire on busy ones, so a sleeper may be woken from another CPU \
         than the one it slept on; it is the default everywhere",
    )
}

pub fn autogroup(machine: &Machine) -> Seen {
    switch(
        machine,
        "sched_autogroup_enabled",
        Level::Note,
        "each session is a group of its own: nice values count only within it, and load from \
         another session weighs as much as all workers together",
    )
}

pub fn rt_throttling(machine: &Machine) -> Seen {
    let why = "fifo and rr variants are held to that share (from Linux 6.12 on only while \
               ordinary tasks starve), and deadline variants beyond it are refused; leave it on, \
               as without it a runaway worker hangs the machine";
    let runtime = machine.number(&format!("{KERNEL}/sched_rt_runtime_us"));
    let period = machine.number(&format!("{KERNEL}/sched_rt_period_us"));
    match (runtime, period) {
        (Reading::Known(-1), _) => Seen::good("off"),
        (Reading::Known(runtime_us), Reading::Known(period_us)) if runtime_us >= period_us => {
            Seen::good("off: the runtime is the whole period")
        }
        (Reading::Known(runtime_us), Reading::Known(period_us)) => {
            let what = format!("{runtime_us} us of each {period_us} us for real-time policies");
            Seen::new(Level::Note, what, why)
        }
        (Reading::Unknown(reason), _) | (_, Reading::Unknown(reason)) => Seen::unknown(reason, why),
    }
}

pub fn watchdogs(machine: &Machine) -> Seen {
    let why = "the lockup detector preempts each CPU every few seconds, and its NMI part \
               occupies a hardware counter; both are small, and most machines should keep them";
    let mut on = Vec::new();
    for name in ["soft_watchdog", "nmi_watchdog"] {
        match machine.number(&format!("{KERNEL}/{name}")) {
            Reading::Known(0) => {}
            Reading::Known(_) => on.push(name),
            Reading::Unknown(_) if is_absent(machine, name) => {}
            Reading::Unknown(reason) => return Seen::unknown(reason, why),
        }
    }
    if on.is_empty() {
        return Seen::good("off");
    }
    Seen::new(Level::Note, format!("{} on", on.join(" and ")), why)
}

/// Three zeros for a process that is running can only mean that they are not kept.
pub fn schedstats(machine: &Machine) -> Seen {
    let path = "/proc/self/schedstat";
    let why = "how long each worker waited on the runqueue is unknown";
    match machine.host.reading(path) {
        Reading::Known(text) if text.split_ascii_whitespace().all(|word| word == "0") => {
            let what = format!("off: {path} reads zeros");
            let seen = Seen::new(Level::Note, what, why);
            // Kernels before 5.14 without CONFIG_SCHEDSTATS keep them for delay accounting only.
            if machine.number(&format!("{KERNEL}/task_delayacct")) == Reading::Known(0) {
                seen.fix(machine.sysctl("kernel.task_delayacct", 1))
            } else {
                seen
            }
        }
        Reading::Known(_) => Seen::good("wait times of tasks are kept"),
        Reading::Unknown(reason) => Seen::unknown(reason, why),
    }
}

pub fn psi(machine: &Machine) -> Seen {
    match machine.host.reading("/proc/pressure/cpu") {
        Reading::Known(_) => Seen::good("on"),
        Reading::Unknown(reason) => Seen::new(
            Level::Note,
            format!("off: {reason}"),
            "pressure stall information, which sums how long tasks waited for CPUs, is not to \
             be read during a run; the boot argument psi=1 has it where the kernel is built with it",
        ),
    }
}

pub fn sched_ext(machine: &Machine) -> Seen {
    let folder = "/sys/kernel/sched_ext";
    match machine.host.reading(format!("{folder}/state")) {
        Reading::Known(state) if state == "disabled" => Seen::good("there, none loaded"),
        Reading::Known(state) => {
            let name = machine.host.read(format!("{folder}/root/ops"));
            let name = name.unwrap_or("a scheduler whose name is unknown".to_string());
            Seen::new(
                Level::Disturbs,
                format!("{name} is {state}"),
                "ordinary tasks are not under the kernel's own scheduler; stop the program \
                 that loaded it, or Alt-SysRq-S",
            )
        }
        Reading::Unknown(_) if machine.host.path("/sys/kernel").is_dir() => {
            Seen::good("this kernel has none")
        }
        Reading::Unknown(reason) => Seen::unknown(
            reason,
            "under a sched_ext scheduler ordinary tasks are not under the kernel's own",
        ),
    }
}
