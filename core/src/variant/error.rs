//! Why a pool or a setting of the machine cannot be read, had or changed, and a hint for each case.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use crate::model::{Advice, CpuSet, PoolName, clean};
use crate::sys::cgroup::CgroupError;
use crate::sys::host::error_text;
use crate::sys::scheduler::{FEATURES, is_foreign};
use crate::sys::{FileError, Host, mounts};

use super::hints::AS_ROOT;
use super::scx::SchedulerError;

const ELSEWHERE: &str = "run this plan where root may change the kernel's settings, outside of \
                         containers and without lockdown: schedlab doctor";
const LARGER_WEIGHTS: &str = "only ratios of weights matter: multiply those of all cgroups by ten";
const OTHER_KERNEL: &str = "run this plan under a kernel that has it; this one: uname -r";
const OTHER_VALUE: &str = "write a value that this kernel takes: schedlab list knobs";
pub const DEBUGFS: &str = "/sys/kernel/debug";

#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    #[error("{} cannot be read ({cause})", .path.display())]
    Unreadable { path: PathBuf, cause: Cause },
    #[error("{} is not writable ({cause})", .path.display())]
    Unwritable { path: PathBuf, cause: Cause },
    #[error("{} did not take `{}` ({cause})", .path.display(), clean(.value))]
    Refused { path: PathBuf, value: String, cause: Cause },
    #[error("{} has no feature {name} in this kernel", .path.display())]
    NoFeature { path: PathBuf, name: String },
    #[error(
        "this kernel has no scheduler features ({} are not there): {}",
        FEATURES.join(" and "),
        no_features(.scheduler.as_deref())
    )]
    NoFeatures { scheduler: Option<String> },
    #[error("{} marks no model: `{}`", .path.display(), clean(.text))]
    NoModel { path: PathBuf, text: String },
    #[error("{} offers `{offered}`, not `{value}`", .path.display())]
    NotOffered { path: PathBuf, offered: String, value: String },
    #[error("{target} took `{got}` where `{wanted}` was written")]
    TookAnother { target: String, got: String, wanted: String },
    #[error("this kernel has no {what}: {} is not there", .path.display())]
    NotInKernel { what: &'static str, path: PathBuf },
    #[error("this kernel has no CPU weights of cgroups: it runs {scheduler}")]
    NoGroups { scheduler: String },
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error(
        "cgroup version 1 cannot hold the weight {weight}: cpu.shares would be {shares}, {:.3} of it; a \
         multiple of all weights would do",
        *.shares as f64 * 100.0 / (1024.0 * *.weight as f64)
    )]
    NoShares { weight: u64, shares: u64 },
    #[error("{} cannot be made ({})", .path.display(), error_text(.source))]
    NotMade { path: PathBuf, source: io::Error },
    #[error("{} cannot be removed ({})", .path.display(), error_text(.source))]
    NotRemoved { path: PathBuf, source: io::Error },
    #[error("no cpuset in {} can have CPUs {cpus} ({})", .folder.display(), cpus_refused(.source))]
    CpusRefused { folder: PathBuf, cpus: CpuSet, source: io::Error },
    #[error("the journal, from which a crash is undone, cannot be written ({})", error_text(.0))]
    Journal(io::Error),
    #[error("{cause}; left changed: {}", .left.join("; "))]
    HalfUndone { cause: Box<SettingError>, left: Vec<String> },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
}

/// Features are mainline's, and need an option of the configuration until Linux 6.14.
fn no_features(scheduler: Option<&str>) -> String {
    match scheduler {
        Some(other) if is_foreign(other) => format!("it runs {other}"),
        Some(_) => "it was built without CONFIG_SCHED_DEBUG".to_string(),
        None => "it has another scheduler than mainline's, or was built without CONFIG_SCHED_DEBUG"
            .to_string(),
    }
}

/// `EINVAL` of cpuset.cpus: another cpuset is exclusive.
fn cpus_refused(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EINVAL) => "another cpuset has some of them for itself".to_string(),
        _ => error_text(error),
    }
}

impl Advice for SettingError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::from(match self {
            SettingError::Unreadable { cause, .. }
            | SettingError::Unwritable { cause, .. }
            | SettingError::Refused { cause, .. } => cause.hint(),
            SettingError::Cgroup(CgroupError::Refused { source, .. })
            | SettingError::NotMade { source, .. }
                if source.raw_os_error() == Some(libc::EACCES) =>
            {
                AS_ROOT
            }
            SettingError::NoFeature { .. }
            | SettingError::NoFeatures { .. }
            | SettingError::NotInKernel { .. }
            | SettingError::NoGroups { .. } => OTHER_KERNEL,
            SettingError::NotOffered { .. } => OTHER_VALUE,
            SettingError::NoShares { .. } => LARGER_WEIGHTS,
            SettingError::HalfUndone { cause, .. } => return cause.hint(),
            SettingError::Pool(error) => return error.hint(),
            SettingError::Scheduler(error) => return error.hint(),
            _ => ELSEWHERE,
        }))
    }
}

/// The most likely cause of an error on a setting's file.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    #[error("EPERM, kernel lockdown or container")]
    NotPermitted,
    #[error("EACCES, it is for root")]
    ForRoot,
    #[error("EROFS, mounted read-only, as in a container")]
    ReadOnly,
    #[error("ENOENT, debugfs is not mounted")]
    NoDebugfs,
    #[error("ENOENT, this kernel has no such setting")]
    NoSuchSetting,
    #[error("EINVAL, this kernel does not take that value")]
    BadValue,
    #[error("EBUSY, in use")]
    Busy,
    #[error("{}", error_text(.0))]
    Other(io::Error),
}

impl Cause {
    pub fn from_error(host: &Host, path: &Path, error: io::Error) -> Cause {
        match error.raw_os_error() {
            Some(libc::EPERM) => Cause::NotPermitted,
            Some(libc::EACCES) => Cause::ForRoot,
            Some(libc::EROFS) => Cause::ReadOnly,
            Some(libc::ENOENT) if path.starts_with(DEBUGFS) && !has_debugfs(host) => {
                Cause::NoDebugfs
            }
            Some(libc::ENOENT) => Cause::NoSuchSetting,
            Some(libc::EINVAL) => Cause::BadValue,
            Some(libc::EBUSY) => Cause::Busy,
            _ => Cause::Other(error),
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Cause::NoDebugfs => "mount it: mount -t debugfs none /sys/kernel/debug",
            Cause::ForRoot => AS_ROOT,
            Cause::BadValue => OTHER_VALUE,
            Cause::NoSuchSetting => OTHER_KERNEL,
            _ => ELSEWHERE,
        }
    }
}

/// Without debugfs its mount point exists, but is empty.
fn has_debugfs(host: &Host) -> bool {
    let mounts = mounts::mounts(host).known().unwrap_or_default();
    mounts.iter().any(|mount| mount.filesystem == "debugfs")
        || std::fs::read_dir(host.path(DEBUGFS)).is_ok_and(|mut entries| entries.next().is_some())
}

/// Why a cell's pool cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    #[error("there is no pool `{name}` ({why}); with `cpus` one is made for each run")]
    None { name: PoolName, why: String },
    #[error("{}: {why}", .folder.display())]
    NoCpuList { folder: PathBuf, why: String },
    #[error("the pool {} has CPUs {}, not {asked}; it is left as it is", .folder.display(), any(.has))]
    OtherCpus { folder: PathBuf, has: CpuSet, asked: CpuSet },
    #[error("the pool {} has no CPUs", .0.display())]
    NoCpus(PathBuf),
    #[error("no run can be put into {}: {}", .folder.display(), error_text(.source))]
    Closed { folder: PathBuf, source: io::Error },
    #[error(
        "{} does not name `cpu`, so the variant's cgroup knobs cannot be had inside of this \
         pool; it is left as it is",
        .0.display()
    )]
    NoCpuController(PathBuf),
    #[error("no cpuset in {} can have CPUs {outside}", .folder.display())]
    Outside { folder: PathBuf, outside: CpuSet },
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
}

impl Advice for PoolError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::from(match self {
            PoolError::Closed { .. } | PoolError::Cgroup(_) => AS_ROOT,
            _ => "give it these CPUs, or choose another name",
        }))
    }
}

fn any(cpus: &CpuSet) -> String {
    if cpus.is_empty() { "none".to_string() } else { cpus.to_string() }
}
