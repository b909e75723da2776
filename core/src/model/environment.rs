//! The machine and its state, as read before a plan. Plain data; every fact that could not
//! be read carries its reason.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{CpuSet, Reading};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    pub hostname: String,
    pub cpu_model: Reading<String>,
    pub topology: Topology,
    pub memory_bytes: Reading<u64>,
    /// `uname -r` and `uname -v`.
    pub kernel_release: String,
    pub kernel_version: String,
    /// The scheduler of ordinary tasks; `None`: nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Reading<String>>,
    pub kernel_cmdline: Reading<String>,
    pub boot_id: Reading<String>,
    /// A digest of the id of the machine's installation; `None`: nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<Reading<String>>,
    pub virtualisation: Reading<String>,
    pub cgroup_mode: String,
    pub clock_source: Reading<String>,
    pub smt: Reading<String>,
    pub governor: Reading<String>,
    pub turbo: Reading<String>,
    /// 1, 5 and 15 minutes, as /proc/loadavg prints them.
    pub load_average: Reading<String>,
    /// The kernel's statement on each vulnerability, by its name.
    pub mitigations: BTreeMap<String, String>,
    /// Scheduler tunables by path (`/proc/sys/kernel/sched_*`, debugfs `sched/*`).
    pub tunables: BTreeMap<String, Reading<String>>,
    /// Measured where a plan's work is given as times; `None`: not, or by each run for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// The same once all runs of the session had ended. `None`: as above, or it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration_at_end: Option<Calibration>,
}

impl Environment {
    /// A machine of which nothing is known, for this reason.
    pub fn unknown(why: &str) -> Environment {
        let unknown = || Reading::Unknown(why.to_string());
        Environment {
            hostname: String::new(),
            cpu_model: unknown(),
            topology: Topology::default(),
            memory_bytes: Reading::Unknown(why.to_string()),
            kernel_release: String::new(),
            kernel_version: String::new(),
            scheduler: None,
            kernel_cmdline: unknown(),
            boot_id: unknown(),
            machine_id: None,
            virtualisation: unknown(),
            cgroup_mode: String::new(),
            clock_source: unknown(),
            smt: unknown(),
            governor: unknown(),
            turbo: unknown(),
            load_average: unknown(),
            mitigations: BTreeMap::new(),
            tunables: BTreeMap::new(),
            calibration: None,
            calibration_at_end: None,
        }
    }
}

/// The speed of the machine, which turns a time into an amount of work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The time that a thousand operations take on a CPU at full speed, in picoseconds.
    pub kop_ps: u64,
    /// The share by which the median sample was slower than the fastest: the machine was not quiet.
    pub spread: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    pub online: CpuSet,
    /// CPUs that this process may use.
    pub allowed: CpuSet,
    /// CPUs that share a last-level cache.
    pub llcs: Vec<CpuSet>,
    pub numa_nodes: Vec<CpuSet>,
    /// CPUs that share a core.
    pub cores: Vec<CpuSet>,
}

impl Topology {
    /// The pool of a plan without a placement: the CPUs that this process may use, or, if they are not known, all
    /// that are online.
    pub fn usable(&self) -> &CpuSet {
        if self.allowed.is_empty() { &self.online } else { &self.allowed }
    }

    /// The CPUs of `cpus` that share the first `count` last-level caches. The error: how many caches these CPUs
    /// have, 0 where that is not known.
    pub fn first_llcs(&self, count: u32, cpus: &CpuSet) -> Result<CpuSet, usize> {
        let own = |llc: &CpuSet| llc.iter().filter(|cpu| cpus.contains(*cpu)).collect::<CpuSet>();
        let llcs: Vec<CpuSet> = self.llcs.iter().map(own).filter(|llc| !llc.is_empty()).collect();
        let first = llcs.get(..count as usize).ok_or(llcs.len())?;
        Ok(first.iter().flat_map(CpuSet::iter).collect())
    }
}
