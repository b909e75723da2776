//! Settings of the machine that can be read, written and put back: which file holds each,
//! and how its text tells the value.
//!
//! Paths come from the tables here, never from a plan or a journal as they stand: names are
//! held against fixed alphabets, so that no text can lead elsewhere.

use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::sys::Host;
use crate::sys::cgroup::Controller;
use crate::sys::host::plain;

const SYSCTL_DIR: &str = "/proc/sys/kernel";
const DEBUGFS: &str = "/sys/kernel/debug";
const SCHED_DIR: &str = "/sys/kernel/debug/sched";
const TUNABLES: [&str; 3] = ["base_slice_ns", "migration_cost_ns", "nr_migrate"];
const FEATURES: &str = "/sys/kernel/debug/sched/features";
const PREEMPT: &str = "/sys/kernel/debug/sched/preempt";

/// One setting of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A file of /proc/sys/kernel whose name begins with `sched_`.
    Sysctl(String),
    /// A file of debugfs `sched/` that holds a number.
    Debugfs(String),
    /// One scheduler feature, by its name; its value is `NAME` or `NO_NAME`.
    Feature(String),
    /// The preemption model: the word in brackets.
    Preempt,
    /// Whether cgroups in this one have a CPU controller: `+cpu` or `-cpu`.
    CpuForChildren(PathBuf),
    /// Likewise for cpusets: `+cpuset` or `-cpuset`.
    CpusetForChildren(PathBuf),
}

/// A setting and the value that it shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub target: Target,
    pub value: String,
}

impl Target {
    /// Whether cgroups in `folder` have this controller.
    pub fn for_children(controller: Controller, folder: &Path) -> Target {
        match controller {
            Controller::Cpu => Target::CpuForChildren(folder.to_path_buf()),
            Controller::Cpuset => Target::CpusetForChildren(folder.to_path_buf()),
        }
    }

    /// Whether this names a setting that schedlab changes. What a journal holds is checked.
    pub fn is_known(&self) -> bool {
        let of = |text: &str, fits: fn(u8) -> bool| !text.is_empty() && text.bytes().all(fits);
        match self {
            Target::Sysctl(name) => name.strip_prefix("sched_").is_some_and(|rest| {
                of(rest, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            }),
            Target::Debugfs(name) => TUNABLES.contains(&name.as_str()),
            Target::Feature(name) => of(name, |b| b.is_ascii_uppercase() || b == b'_'),
            Target::Preempt => true,
            Target::CpuForChildren(folder) | Target::CpusetForChildren(folder) => is_cgroup(folder),
        }
    }

    pub fn path(&self) -> PathBuf {
        match self {
            Target::Sysctl(name) => Path::new(SYSCTL_DIR).join(name),
            Target::Debugfs(name) => Path::new(SCHED_DIR).join(name),
            Target::Feature(_) => FEATURES.into(),
            Target::Preempt => PREEMPT.into(),
            Target::CpuForChildren(folder) | Target::CpusetForChildren(folder) => {
                folder.join("cgroup.subtree_control")
            }
        }
    }

    /// The value, in the form in which it would be written. The error names path and cause.
    pub fn current(&self, host: &Host) -> Result<String, String> {
        let path = self.path();
        let text = host.read(&path).map_err(|error| {
            format!("{} cannot be read ({})", path.display(), cause(host, &path, &error))
        })?;
        let mut words = text.split_whitespace();
        let odd = |what: String| format!("{} {what}", path.display());
        match self {
            Target::Sysctl(_) | Target::Debugfs(_) => Ok(text.trim().to_string()),
            Target::Feature(name) => words
                .find(|word| word.strip_prefix("NO_").unwrap_or(word) == name)
                .map(str::to_string)
                .ok_or_else(|| odd(format!("has no feature {name} in this kernel"))),
            Target::Preempt => words
                .find_map(|word| word.strip_prefix('(')?.strip_suffix(')'))
                .map(str::to_string)
                .ok_or_else(|| odd(format!("marks no model: `{}`", text.escape_default()))),
            Target::CpuForChildren(_) | Target::CpusetForChildren(_) => {
                let name = match self {
                    Target::CpuForChildren(_) => "cpu",
                    _ => "cpuset",
                };
                let sign = if words.any(|word| word == name) { '+' } else { '-' };
                Ok(format!("{sign}{name}"))
            }
        }
    }

    /// Writes `value`. The caller reads back.
    pub fn set(&self, host: &Host, value: &str) -> Result<(), String> {
        let path = self.path();
        host.write(&path, value).map_err(|error| {
            let cause = cause(host, &path, &error);
            format!("{} did not take `{}` ({cause})", path.display(), value.escape_default())
        })
    }

    /// Whether `value` could be set, as far as can be told without setting it.
    pub fn check(&self, host: &Host, value: &str) -> Result<(), String> {
        let path = self.path();
        let current = self.current(host)?;
        if let Target::Preempt = self {
            let offered = host.read(&path).unwrap_or_default();
            let mut words = offered.split_whitespace().map(|word| word.trim_matches(['(', ')']));
            if !words.any(|word| word == value) {
                return Err(format!("{} offers `{offered}`, not `{value}`", path.display()));
            }
        }
        if same(&current, value) {
            return Ok(());
        }
        host.can_write(&path).map_err(|error| {
            format!("{} is not writable ({})", path.display(), cause(host, &path, &error))
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Feature(name) => write!(f, "feature {name} of {FEATURES}"),
            _ => write!(f, "{}", self.path().display()),
        }
    }
}

/// An absolute path with nothing in it that leads back up.
pub fn is_cgroup(folder: &Path) -> bool {
    let plain = |part| matches!(part, Component::Normal(_));
    folder.strip_prefix("/").is_ok_and(|inside| inside.components().all(plain))
}

/// Whether two texts of a file tell the same value: kernels pad with tabs and newlines.
pub fn same(a: &str, b: &str) -> bool {
    let number = |word: &str| word.parse::<i128>().ok();
    let (a, b): (Vec<&str>, Vec<&str>) =
        (a.split_whitespace().collect(), b.split_whitespace().collect());
    let same_word =
        |(a, b): (&&str, &&str)| a == b || number(a).is_some_and(|n| number(b) == Some(n));
    a.len() == b.len() && a.iter().zip(&b).all(same_word)
}

/// An error on a setting's file, with what most likely stands behind it.
pub fn cause(host: &Host, path: &Path, error: &io::Error) -> String {
    let in_debugfs = path.starts_with(DEBUGFS);
    match error.raw_os_error() {
        Some(libc::EPERM) => "EPERM, kernel lockdown or container".to_string(),
        Some(libc::EACCES) => "EACCES, it is for root".to_string(),
        Some(libc::EROFS) => "EROFS, mounted read-only, as in a container".to_string(),
        Some(libc::ENOENT) if in_debugfs && host.can_list(SCHED_DIR).is_err() => {
            "ENOENT, debugfs is not mounted".to_string()
        }
        Some(libc::ENOENT) => "ENOENT, this kernel has no such setting".to_string(),
        Some(libc::EINVAL) => "EINVAL, this kernel does not take that value".to_string(),
        Some(libc::EBUSY) => "EBUSY, in use".to_string(),
        _ => plain(error),
    }
}

/// What to do about an error that [`cause`] told.
pub fn hint(message: &str) -> String {
    let does = |word: &str| message.contains(word);
    if let Some((_, hint)) = message.split_once("; hint: ") {
        hint.to_string()
    } else if does("debugfs is not mounted") {
        format!("mount it: mount -t debugfs none {DEBUGFS}")
    } else if does("EACCES") {
        "run as root: sudo schedlab run PLAN".to_string()
    } else if does("EINVAL") {
        "write a value that this kernel takes: schedlab list knobs".to_string()
    } else if does("no such setting") {
        "run this plan under a kernel that has it; this one: uname -r".to_string()
    } else {
        "run this plan where root may change the kernel's settings, outside of containers and \
         without lockdown: schedlab doctor"
            .to_string()
    }
}
