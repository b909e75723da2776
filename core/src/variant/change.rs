//! One change to the machine, as a journal holds it: how it is made and how it is undone.
//!
//! A setting that someone else changed since is left alone.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sys::{Host, abandoned, cgroup};

use super::error::SettingError;
use super::scx::{self, Scheduler};
use super::target::{Target, is_cgroup, same};

/// One change to the machine, as a journal holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Set {
        target: Target,
        before: String,
        set: String,
    },
    /// A cgroup made for a run.
    Cgroup {
        path: PathBuf,
    },
    /// A sched_ext scheduler. It goes with the process that attached it: undoing is waiting.
    Scheduler {
        asked: String,
    },
    /// A command that `score` or `watch` runs for the user, by the mark of its processes.
    Command {
        mark: String,
    },
}

/// How long the kernel may take to be rid of the scheduler of a process that has ended.
const GOING_LIMIT: Duration = Duration::from_secs(10);

/// How undoing one change ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    PutBack,
    /// Processes, by name and number.
    Ended(Vec<(String, i32)>),
    /// It was never made, or is undone already.
    NothingToDo,
    /// The machine was started anew since, which undoes every such change.
    Rebooted,
    /// Someone else has changed or uses it since; why it was left, and what would still undo it.
    LeftAlone {
        why: String,
        command: Option<String>,
    },
    /// The change is still to be undone.
    Failed(String),
}

impl Undone {
    fn left_alone(why: String) -> Undone {
        Undone::LeftAlone { why, command: None }
    }
}

/// Every cgroup that schedlab makes is named so, then by its maker and a number.
pub const CGROUP_PREFIX: &str = "schedlab-";

impl Change {
    /// Whether this is a change that schedlab makes. The contents of a journal are checked.
    pub fn is_known(&self) -> bool {
        match self {
            Change::Set { target, .. } => target.is_known(),
            Change::Scheduler { asked } => Scheduler::parse(asked).is_some(),
            Change::Command { mark } => abandoned::is_mark(mark),
            Change::Cgroup { path } => {
                let name = path.file_name().and_then(|name| name.to_str());
                is_cgroup(path) && name.is_some_and(|name| name.starts_with(CGROUP_PREFIX))
            }
        }
    }

    pub fn make(&self, host: &Host) -> Result<(), SettingError> {
        match self {
            Change::Set { target, before, set } => {
                target.set(host, set)?;
                let got = target.current(host)?;
                if same(&got, set) {
                    return Ok(());
                }
                target.set(host, before)?;
                let (target, wanted) = (target.to_string(), set.clone());
                Err(SettingError::TookAnother { target, got, wanted })
            }
            Change::Cgroup { path } => host
                .make_cgroup(path)
                .map_err(|source| SettingError::NotMade { path: path.clone(), source }),
            // Whoever holds it attaches or starts it.
            Change::Scheduler { .. } | Change::Command { .. } => Ok(()),
        }
    }

    pub fn undo(&self, host: &Host) -> Undone {
        match self {
            Change::Set { target, before, set } => put_back(host, target, before, set),
            Change::Scheduler { .. } if !scx::is_any_in_force(host) => Undone::NothingToDo,
            Change::Scheduler { .. } => match scx::await_disabled(host, GOING_LIMIT) {
                Ok(()) => Undone::PutBack,
                Err(error) => Undone::left_alone(error.to_string()),
            },
            Change::Command { mark } => match abandoned::end_command(mark) {
                ended if ended.is_empty() => Undone::NothingToDo,
                ended => Undone::Ended(ended),
            },
            Change::Cgroup { path } => match cgroup::end(host, path) {
                Ok(()) => Undone::PutBack,
                Err(error) if error.kind() == io::ErrorKind::NotFound => Undone::NothingToDo,
                Err(source) => {
                    let error = SettingError::NotRemoved { path: path.clone(), source };
                    Undone::Failed(error.to_string())
                }
            },
        }
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Change::Set { target, before, set } => write!(f, "{target} from `{before}` to `{set}`"),
            Change::Cgroup { path } => write!(f, "cgroup {}", path.display()),
            Change::Scheduler { asked } => write!(f, "sched_ext scheduler {asked}"),
            Change::Command { .. } => write!(f, "a command under telemetry"),
        }
    }
}

/// Writes `before` where `set` still stands.
fn put_back(host: &Host, target: &Target, before: &str, set: &str) -> Undone {
    let now = match target.current(host) {
        Ok(now) => now,
        Err(error) => return Undone::Failed(error.to_string()),
    };
    if same(&now, before) {
        return Undone::NothingToDo;
    }
    if !same(&now, set) {
        let why = format!("{target} now holds `{now}`, set by someone else");
        return Undone::LeftAlone { why, command: Some(target.command(host, before)) };
    }
    if let Some(user) = user_of(host, target) {
        return Undone::left_alone(format!("{target} serves {} now", user.display()));
    }
    match target.set(host, before).and_then(|()| target.current(host)) {
        Ok(now) if same(&now, before) => Undone::PutBack,
        Ok(now) => Undone::Failed(format!("{target} holds `{now}` after writing `{before}`")),
        Err(error) => Undone::Failed(error.to_string()),
    }
}

/// A cgroup with settings of a controller that differ from those of a new one, and would be lost.
fn user_of(host: &Host, target: &Target) -> Option<PathBuf> {
    let (folder, usual): (_, &[(&str, &str)]) = match target {
        Target::CpuForChildren(folder) => {
            (folder, &[("cpu.weight", "100"), ("cpu.max", "max 100000"), ("cpu.idle", "0")])
        }
        Target::CpusetForChildren(folder) => {
            let names = ("cpuset.cpus", "cpuset.mems");
            (folder, &[(names.0, ""), (names.1, ""), ("cpuset.cpus.partition", "member")])
        }
        _ => return None,
    };
    let entries = std::fs::read_dir(host.path(folder)).ok()?;
    let children = entries.flatten().map(|entry| folder.join(entry.file_name()));
    children.into_iter().find(|child| {
        usual
            .iter()
            .any(|(name, text)| host.read(child.join(name)).is_ok_and(|now| !same(&now, text)))
    })
}
