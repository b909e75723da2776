//! Settings of the machine that can be read, written and put back: which file holds each, and how its text shows
//! the value.
//!
//! Paths come from the tables here, never unchecked from a plan or a journal: names have fixed alphabets, so that
//! no text can lead elsewhere.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::model::quoted;
use crate::sys::cgroup::Controller;
use crate::sys::scheduler::{FEATURES, features_file, is_sysctl};
use crate::sys::{Host, scheduler};

use super::error::{Cause, SettingError};

const SYSCTL_DIR: &str = "/proc/sys/kernel";
const SCHED_DIR: &str = "/sys/kernel/debug/sched";
const TUNABLES: [&str; 3] = ["base_slice_ns", "migration_cost_ns", "nr_migrate"];
const PREEMPT: &str = "/sys/kernel/debug/sched/preempt";

/// One setting of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A file of /proc/sys/kernel that belongs to the scheduler.
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

    /// Whether this names a setting that schedlab changes. The contents of a journal are checked.
    pub fn is_known(&self) -> bool {
        let of = |text: &str, fits: fn(u8) -> bool| !text.is_empty() && text.bytes().all(fits);
        match self {
            Target::Sysctl(name) => is_sysctl(name),
            Target::Debugfs(name) => TUNABLES.contains(&name.as_str()),
            Target::Feature(name) => of(name, |b| b.is_ascii_uppercase() || b == b'_'),
            Target::Preempt => true,
            Target::CpuForChildren(folder) | Target::CpusetForChildren(folder) => is_cgroup(folder),
        }
    }

    /// The file on this machine, among those of kernels of different ages.
    fn path(&self, host: &Host) -> PathBuf {
        match self {
            Target::Feature(_) => features_file(host).unwrap_or(FEATURES[0]).into(),
            _ => self.usual_path(),
        }
    }

    fn usual_path(&self) -> PathBuf {
        match self {
            Target::Sysctl(name) => Path::new(SYSCTL_DIR).join(name),
            Target::Debugfs(name) => Path::new(SCHED_DIR).join(name),
            Target::Feature(_) => FEATURES[0].into(),
            Target::Preempt => PREEMPT.into(),
            Target::CpuForChildren(folder) | Target::CpusetForChildren(folder) => {
                folder.join("cgroup.subtree_control")
            }
        }
    }

    /// The value, in the form in which it would be written.
    pub fn current(&self, host: &Host) -> Result<String, SettingError> {
        let path = self.path(host);
        let text = match host.read(&path) {
            Ok(text) => text,
            Err(error) => {
                let cause = Cause::from_error(host, &path, error);
                return Err(match (self, cause) {
                    (Target::Feature(_), Cause::NoSuchSetting) => {
                        SettingError::NoFeatures { scheduler: scheduler(host).known() }
                    }
                    (_, cause) => SettingError::Unreadable { path, cause },
                });
            }
        };
        let mut words = text.split_whitespace();
        match self {
            Target::Sysctl(_) | Target::Debugfs(_) => Ok(text.trim().to_string()),
            Target::Feature(name) => words
                .find(|word| word.strip_prefix("NO_").unwrap_or(word) == name)
                .map(str::to_string)
                .ok_or_else(|| SettingError::NoFeature { path, name: name.clone() }),
            Target::Preempt => words
                .find_map(|word| word.strip_prefix('(')?.strip_suffix(')'))
                .map(str::to_string)
                .ok_or_else(|| SettingError::NoModel { path, text: text.clone() }),
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

    /// The command that writes `value`.
    pub fn command(&self, host: &Host, value: &str) -> String {
        format!("echo {} > {}", quoted(value), quoted(&self.path(host).to_string_lossy()))
    }

    /// Writes `value`. The caller reads back.
    pub fn set(&self, host: &Host, value: &str) -> Result<(), SettingError> {
        let path = self.path(host);
        host.write(&path, value).map_err(|error| {
            let cause = Cause::from_error(host, &path, error);
            SettingError::Refused { path, value: value.to_string(), cause }
        })
    }

    /// Whether `value` could be set, as far as is known without setting it.
    pub fn check(&self, host: &Host, value: &str) -> Result<(), SettingError> {
        let path = self.path(host);
        let current = self.current(host)?;
        if let Target::Preempt = self {
            let offered = host.read(&path).unwrap_or_default();
            let mut words = offered.split_whitespace().map(|word| word.trim_matches(['(', ')']));
            if !words.any(|word| word == value) {
                let value = value.to_string();
                return Err(SettingError::NotOffered { path, offered, value });
            }
        }
        if same(&current, value) {
            return Ok(());
        }
        host.can_write(&path).map_err(|error| {
            let cause = Cause::from_error(host, &path, error);
            SettingError::Unwritable { path, cause }
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Feature(name) => write!(f, "scheduler feature {name}"),
            _ => write!(f, "{}", self.usual_path().display()),
        }
    }
}

/// An absolute path with nothing in it that leads back up.
pub fn is_cgroup(folder: &Path) -> bool {
    let plain = |part| matches!(part, Component::Normal(_));
    folder.strip_prefix("/").is_ok_and(|inside| inside.components().all(plain))
}

/// Whether two texts of a file have the same value: kernels pad with tabs and newlines.
pub fn same(a: &str, b: &str) -> bool {
    let number = |word: &str| word.parse::<i128>().ok();
    let (a, b): (Vec<&str>, Vec<&str>) =
        (a.split_whitespace().collect(), b.split_whitespace().collect());
    let same_word =
        |(a, b): (&&str, &&str)| a == b || number(a).is_some_and(|n| number(b) == Some(n));
    a.len() == b.len() && a.iter().zip(&b).all(same_word)
}
