//! Why a run with guests of Xen gives no result. Pure.

use std::io;

use crate::model::{CpuSet, show_duration};

#[derive(Debug, thiserror::Error)]
pub enum XenError {
    #[error(
        "workers that are guests need Xen, and this is not its first domain: kernel = \"xen:4.17\" and \
         --backend lab"
    )]
    NoXen,
    #[error(
        "worker set `{0}` has no guests: all sets of a workload are guests (workers = \"guests\"), or none"
    )]
    Mixed(String),
    #[error("guests are in no cgroups: their shares are xen-weight and xen-cap")]
    Cgroups,
    #[error(
        "{guests} guests need {} MiB, Xen has {} MiB, in which {fit} of them fit: less guest-memory, or \
         more memory in [lab]",
        needed_bytes >> 20,
        free_bytes >> 20
    )]
    Memory { needed_bytes: u64, free_bytes: u64, guests: usize, fit: u64 },
    #[error("no CPU is left for guests: CPU 0 is the first domain's, and there is no other")]
    OneCpu,
    #[error("CPU 0 of the pool's {cpus} is the first domain's: cpus = \"{others}\" in [placement]")]
    FirstCpu { cpus: CpuSet, others: CpuSet },
    #[error("Pool-0 is the first domain's: another name for pool in [placement]")]
    FirstPool,
    #[error("{knob} is {cpus}, of which the pool has none: it has {pool}, by cpus in [placement]")]
    Affinity { knob: &'static str, cpus: CpuSet, pool: CpuSet },
    #[error("xen-cap is {cap}: a guest with {guest_cpus} CPUs has at most {}", 100 * guest_cpus)]
    Cap { cap: u16, guest_cpus: u32 },
    #[error(
        "this Xen does not have the scheduler {scheduler}: credit and credit2 are in Debian's; the knob `xen` takes \
         your own hypervisor"
    )]
    NoScheduler { scheduler: &'static str },
    #[error(
        "{scheduler} does not take a time slice of {timeslice_ms} ms with a rate limit of {ratelimit_us} us \
         (xen-timeslice, xen-ratelimit): the limit must not be above the slice"
    )]
    Refused { scheduler: &'static str, timeslice_ms: u32, ratelimit_us: u32 },
    #[error("CPUs {missing} are not there: Xen has {cpus}, of which 0 is the first domain's")]
    NoCpus { missing: CpuSet, cpus: u32 },
    #[error("CPUs {cpus} are in the pool {pool} of Xen, not in its first one")]
    Overlap { cpus: CpuSet, pool: u32 },
    #[error(
        "{parameter} is not a parameter of {scheduler}, which xen-scheduler says or Xen takes by itself: credit has \
         xen-timeslice, and credit and credit2 have xen-ratelimit, xen-weight and xen-cap"
    )]
    Parameter { parameter: &'static str, scheduler: &'static str },
    #[error("{parameter} is {got} after it was set to {asked}")]
    NotKept { parameter: &'static str, asked: u32, got: u32 },
    #[error("cannot {action} (Xen): {source}")]
    Call { action: &'static str, source: io::Error },
    #[error("cannot start {tool}: {source}")]
    Tool { tool: String, source: io::Error },
    #[error("{tool} failed: {output}")]
    Failed { tool: String, output: String },
    #[error("cannot {action}: {source}")]
    System { action: &'static str, source: io::Error },
    #[error("{guest} did not answer within {}{}", show_duration(*.limit_ns), last(.console))]
    Silent { guest: String, limit_ns: u64, console: String },
    #[error("{guest} is gone{}", last(.console))]
    Gone { guest: String, console: String },
    #[error("in {guest}: {reason}")]
    InGuest { guest: String, reason: String },
    #[error("a guest began {} ms after the others", late_ns / 1_000_000)]
    LateStart { late_ns: u64 },
    #[error("cancelled")]
    Cancelled,
    #[error("in the rehearsal of all guests: {0}")]
    Rehearsal(Box<XenError>),
}

impl XenError {
    pub fn call(action: &'static str) -> impl Fn(io::Error) -> XenError {
        move |source| XenError::Call { action, source }
    }

    pub fn system(action: &'static str) -> impl Fn(io::Error) -> XenError {
        move |source| XenError::System { action, source }
    }
}

fn last(console: &str) -> String {
    if console.is_empty() {
        "; it has written nothing to its console".to_string()
    } else {
        format!("; its console ends with: {console}")
    }
}
