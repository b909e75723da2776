//! The settings of knobs on threads and on cgroups, as the kernel takes them and as they read back.

use std::io;

use crate::model::{CpuSet, Value, clean};
use crate::sys::cgroup::Version;
use crate::sys::host::error_text;
use crate::sys::sched::{self, Attr, Policy};
use crate::sys::{FileError, Host, xen};

use super::error::SettingError;

/// A setting of the run's cgroup, before the version of its tree is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CgroupSetting {
    /// 1 to 10000; a cgroup has 100 by default.
    Weight(u64),
    /// CPU time per [`PERIOD_US`]; 100,000 us of it is one CPU.
    MaxUs(u64),
    Idle(bool),
}

/// The period of `cpu.max`, which is also the kernel's own.
pub const PERIOD_US: u64 = 100_000;

impl CgroupSetting {
    /// The files to write in this order, and their texts.
    pub fn files(self, version: Version) -> Vec<(&'static str, String)> {
        match (self, version) {
            (CgroupSetting::Weight(weight), Version::V2) => {
                vec![("cpu.weight", weight.to_string())]
            }
            (CgroupSetting::Weight(weight), Version::V1) => {
                vec![("cpu.shares", shares(weight).to_string())]
            }
            (CgroupSetting::MaxUs(quota_us), Version::V2) => {
                vec![("cpu.max", format!("{quota_us} {PERIOD_US}"))]
            }
            (CgroupSetting::MaxUs(quota_us), Version::V1) => vec![
                ("cpu.cfs_period_us", PERIOD_US.to_string()),
                ("cpu.cfs_quota_us", quota_us.to_string()),
            ],
            (CgroupSetting::Idle(idle), _) => vec![("cpu.idle", u8::from(idle).to_string())],
        }
    }
}

impl CgroupSetting {
    /// Whether version 1 can hold it: whole shares are coarser than weights.
    pub fn check_v1(self) -> Result<(), SettingError> {
        let CgroupSetting::Weight(weight) = self else { return Ok(()) };
        let (shares, wanted) = (shares(weight), weight as f64 * 1024.0 / 100.0);
        if (shares as f64 / wanted - 1.0).abs() > MAX_SHARES_ERROR {
            Err(SettingError::NoShares { weight, shares })
        } else {
            Ok(())
        }
    }
}

/// The shares of version 1 for a weight: there 1024 is what 100 is in version 2, and 2 the least.
fn shares(weight: u64) -> u64 {
    ((weight * 1024 + 50) / 100).max(2)
}

/// The largest error of the weight that shares stand for.
const MAX_SHARES_ERROR: f64 = 0.01;

/// A setting of Xen's pool, or of one guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XenSetting {
    Scheduler(xen::Scheduler),
    TimesliceNs(u64),
    RatelimitNs(u64),
    Weight(u16),
    /// Percent of one CPU; 0: none.
    Cap(u16),
    Affinity(CpuSet),
    SoftAffinity(CpuSet),
    MemoryBytes(u64),
    Cpus(u32),
}

/// One thing that a thread sets on itself. Clamps are in units of [`sched::UCLAMP_MAX`].
#[derive(Debug, Clone, PartialEq)]
pub enum TaskSetting {
    Policy(Policy),
    Priority(u32),
    RuntimeNs(u64),
    DeadlineNs(u64),
    PeriodNs(u64),
    Nice(i32),
    SliceNs(u64),
    UclampMin(u32),
    UclampMax(u32),
    TimerSlackNs(u64),
    Affinity(CpuSet),
}

impl TaskSetting {
    /// Reads the same setting of thread `tid`.
    pub fn read(
        &self,
        tid: i32,
        attr: Result<&Attr, &io::Error>,
    ) -> Result<TaskSetting, ReadError> {
        let fair = |attr: &Attr| {
            let policy = Policy::from_number(attr.policy);
            policy.is_some_and(Policy::takes_nice_and_slice)
        };
        Ok(match self {
            TaskSetting::Affinity(_) => {
                let cpus = sched::affinity(tid);
                TaskSetting::Affinity(cpus.map_err(ReadError::from_call("sched_getaffinity", tid))?)
            }
            TaskSetting::TimerSlackNs(_) => TaskSetting::TimerSlackNs(read_timer_slack(tid)?),
            _ => {
                let attr = attr.map_err(|error| ReadError::Call {
                    call: "sched_getattr",
                    tid,
                    why: error_text(error),
                })?;
                match self {
                    TaskSetting::Policy(_) => TaskSetting::Policy(
                        Policy::from_number(attr.policy).ok_or(ReadError::Policy(attr.policy))?,
                    ),
                    TaskSetting::Priority(_) => TaskSetting::Priority(attr.priority),
                    TaskSetting::RuntimeNs(_) => TaskSetting::RuntimeNs(attr.runtime_ns),
                    TaskSetting::DeadlineNs(_) => TaskSetting::DeadlineNs(attr.deadline_ns),
                    TaskSetting::PeriodNs(_) => TaskSetting::PeriodNs(attr.period_ns),
                    TaskSetting::Nice(_) => TaskSetting::Nice(attr.nice),
                    TaskSetting::SliceNs(_) if attr.runtime_ns == 0 || !fair(attr) => {
                        return Err(ReadError::NoSlice);
                    }
                    TaskSetting::SliceNs(_) => TaskSetting::SliceNs(attr.runtime_ns),
                    TaskSetting::UclampMin(_) => TaskSetting::UclampMin(attr.util_min),
                    TaskSetting::UclampMax(_) => TaskSetting::UclampMax(attr.util_max),
                    TaskSetting::Affinity(_) | TaskSetting::TimerSlackNs(_) => self.clone(),
                }
            }
        })
    }

    /// The value in a plan's form.
    pub fn value(&self) -> Value {
        let percent =
            |util: u32| (f64::from(util) * 1000.0 / f64::from(sched::UCLAMP_MAX)).round() / 10.0;
        match self {
            TaskSetting::Policy(policy) => Value::Text(policy.word().to_string()),
            TaskSetting::Priority(priority) => Value::Int(i64::from(*priority)),
            TaskSetting::Nice(nice) => Value::Int(i64::from(*nice)),
            TaskSetting::RuntimeNs(ns)
            | TaskSetting::DeadlineNs(ns)
            | TaskSetting::PeriodNs(ns)
            | TaskSetting::SliceNs(ns)
            | TaskSetting::TimerSlackNs(ns) => Value::DurationNs(*ns),
            TaskSetting::UclampMin(util) | TaskSetting::UclampMax(util) => {
                Value::Percent(percent(*util))
            }
            TaskSetting::Affinity(cpus) => Value::Cpus(cpus.clone()),
        }
    }
}

/// The error of [`super::read_task`] for a slice that the kernel ignored.
pub const NO_SLICE: &str =
    "sched_getattr shows no slice: the kernel is older than Linux 6.12 and ignores custom slices";

/// Why a setting of a thread cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{call} of {tid}: {why}")]
    Call { call: &'static str, tid: i32, why: String },
    #[error("runs under {}", policy_name(*.0))]
    Policy(u32),
    #[error("{NO_SLICE}")]
    NoSlice,
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path} holds `{}`", clean(.text))]
    NoNumber { path: String, text: String },
}

impl ReadError {
    fn from_call(call: &'static str, tid: i32) -> impl FnOnce(io::Error) -> ReadError {
        move |error| ReadError::Call { call, tid, why: error_text(&error) }
    }
}

fn read_timer_slack(tid: i32) -> Result<u64, ReadError> {
    if tid == 0 || tid == sched::own_tid() {
        return sched::own_timer_slack_ns().map_err(ReadError::from_call("PR_GET_TIMERSLACK", tid));
    }
    let path = format!("/proc/{tid}/timerslack_ns");
    let text = Host::default().text(&path)?;
    text.trim().parse().map_err(|_| ReadError::NoNumber { path, text })
}

pub fn policy_name(number: u32) -> String {
    match (Policy::from_number(number), number) {
        (Some(policy), _) => format!("SCHED_{}", policy.word().to_uppercase()),
        (None, 7) => "SCHED_EXT".to_string(),
        (None, number) => format!("policy {number}"),
    }
}
