//! The checks of `schedlab doctor`: the abilities of this machine, its disturbances, and the command that fixes
//! each. Nothing is changed here: the commands are for a person.
//!
//! One function per check and one line in [`CHECKS`]. A check sees the machine only through [`Machine`], so that
//! tests show it machines that we do not have. docs/doctor.md describes each of them.

mod capabilities;
mod finding;
mod hardware;
mod kernel;
mod machine;
mod render;
mod rights;

use crate::model::{Reading, clean};
use crate::sys::{Host, clock, environment, topology};

use super::disturbance::{Own, Watch};
use finding::Seen;
use machine::Machine;

pub use finding::{Finding, Level};
pub use render::render;

/// How long [`checkup`] watches the machine for load, steal and swapping: long enough that
/// 2 % of one CPU is a clock tick.
const WATCH_NS: u64 = 500_000_000;

struct Check {
    name: &'static str,
    read: fn(&Machine) -> Seen,
}

/// Every check, in the order in which findings of one level are shown.
const CHECKS: &[Check] = &[
    Check { name: "cgroup-quota", read: kernel::cgroup_quota },
    Check { name: "load", read: hardware::load },
    Check { name: "steal", read: hardware::steal },
    Check { name: "virtualisation", read: hardware::virtualisation },
    Check { name: "governor", read: hardware::governor },
    Check { name: "turbo", read: hardware::turbo },
    Check { name: "smt", read: hardware::smt },
    Check { name: "idle-states", read: hardware::idle_states },
    Check { name: "clock-source", read: hardware::clock_source },
    Check { name: "cpus", read: hardware::allowed_cpus },
    Check { name: "isolated-cpus", read: hardware::isolated_cpus },
    Check { name: "mitigations", read: hardware::mitigations },
    Check { name: "swap", read: kernel::swap },
    Check { name: "numa-balancing", read: kernel::numa_balancing },
    Check { name: "timer-migration", read: kernel::timer_migration },
    Check { name: "autogroup", read: kernel::autogroup },
    Check { name: "rt-throttling", read: kernel::rt_throttling },
    Check { name: "watchdogs", read: kernel::watchdogs },
    Check { name: "schedstats", read: kernel::schedstats },
    Check { name: "psi", read: kernel::psi },
    Check { name: "sched-ext", read: kernel::sched_ext },
    Check { name: "privileges", read: rights::privileges },
    Check { name: "debugfs", read: rights::debugfs },
    Check { name: "perf-events", read: rights::perf_events },
    Check { name: "hardware-counters", read: hardware::counters },
    Check { name: "btf", read: rights::btf },
];

/// The names of all checks.
pub fn names() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|check| check.name)
}

/// Looks at everything, worst first. Takes half a second, in which it watches the machine.
pub fn checkup(host: &Host) -> Vec<Finding> {
    checkup_over(host, WATCH_NS)
}

fn checkup_over(host: &Host, watch_ns: u64) -> Vec<Finding> {
    let pool = topology::online(host).known().unwrap_or_default();
    let swapped_before = swapped_pages(host);
    let watch = Watch::begin(host, &pool, Own::family());
    clock::sleep_until(clock::monotonic_ns() + watch_ns);
    let disturbances = watch.end(0);
    let swapped = swapped_before.zip(swapped_pages(host));
    let swapped_pages = swapped.map(|(before, after)| after.saturating_sub(before));
    inspect(&Machine {
        host,
        environment: environment::environment(host),
        disturbances,
        swapped_pages,
    })
}

fn inspect(machine: &Machine) -> Vec<Finding> {
    let read = |check: &Check| {
        let Seen { level, what, why, fix } = (check.read)(machine);
        let what = clean(&what);
        Finding { name: check.name, level, what, why: why.to_string(), fix }
    };
    let mut findings: Vec<Finding> = CHECKS.iter().map(read).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    findings
}

/// Pages moved between memory and swap since boot.
fn swapped_pages(host: &Host) -> Reading<u64> {
    host.reading("/proc/vmstat").and_then(|text| {
        let count = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(name, _)| *name == key)?.1.parse::<u64>().ok()
        };
        let pages = count("pswpin").zip(count("pswpout"));
        let sum = pages.map(|(read, written)| read.saturating_add(written));
        Reading::from_option(sum, "/proc/vmstat: no pswpin and pswpout")
    })
}

#[cfg(test)]
mod tests;
