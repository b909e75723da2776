//! Cgroups of a plan, in which worker sets of a work run. Plain data.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::checked_text::checked_text;
use super::clean;
use super::{CpuSet, Value};

pub const MAX_CGROUP_NAME_BYTES: usize = 64;
/// Names of one path.
pub const MAX_CGROUP_DEPTH: usize = 8;

/// A cgroup below the run's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cgroup {
    pub path: CgroupPath,
    /// Its settings, by the names of the knobs that do the same to the run's own cgroup.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub knobs: BTreeMap<String, Value>,
    /// Its workers use these alone; `None`: all that the cgroup above has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
    /// Its changes in mid-run, in the order in which they happen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<CgroupChange>,
}

/// A change to a cgroup in mid-run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CgroupChange {
    /// The time since the begin of the measured section.
    pub at_ns: u64,
    /// By the names of the knobs that do the same to the run's own cgroup.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub knobs: BTreeMap<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuSet>,
}

impl Cgroup {
    /// The cgroups of `all` that hold one of `used`.
    pub fn needed(all: &[Cgroup], used: &[CgroupPath]) -> Vec<Cgroup> {
        let is_needed = |cgroup: &&Cgroup| used.iter().any(|used| used.is_within(&cgroup.path));
        all.iter().filter(is_needed).cloned().collect()
    }
}

/// The names from the run's cgroup down, with slashes between them. It becomes a part of paths, so it can
/// lead nowhere else: each name is 1 to 64 of `A-Z a-z 0-9 _ -`. Files of the kernel have a dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CgroupPath(String);

/// `shown` is the beginning of the text that is not a path, printable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{shown}` names no cgroup")]
pub struct CgroupPathError {
    shown: String,
}

impl CgroupPath {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// Whether this is `other` or lies below it.
    pub fn is_within(&self, other: &CgroupPath) -> bool {
        self.as_path().starts_with(other.as_path())
    }

    /// `None` for one directly below the run's cgroup.
    pub fn parent(&self) -> Option<CgroupPath> {
        self.0.rsplit_once('/').map(|(parent, _)| CgroupPath(parent.to_string()))
    }

    /// The last name.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

impl FromStr for CgroupPath {
    type Err = CgroupPathError;

    fn from_str(text: &str) -> Result<Self, CgroupPathError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
        let is_name = |name: &str| {
            (1..=MAX_CGROUP_NAME_BYTES).contains(&name.len()) && name.bytes().all(plain)
        };
        if text.split('/').all(is_name) && text.split('/').count() <= MAX_CGROUP_DEPTH {
            return Ok(CgroupPath(text.to_string()));
        }
        let start = text.chars().take(MAX_CGROUP_NAME_BYTES);
        Err(CgroupPathError { shown: clean(&start.collect::<String>()) })
    }
}

checked_text!(CgroupPath, CgroupPathError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_down_and_nowhere_else() {
        let deepest = ["a"; MAX_CGROUP_DEPTH].join("/");
        for path in ["web", "web/front", "A_9-z", &deepest] {
            assert_eq!(path.parse::<CgroupPath>().map(String::from).as_deref(), Ok(path));
        }
        let too_deep = format!("{deepest}/a");
        let bad =
            ["", "/", "/web", "web/", "a//b", "..", "a/../b", ".", "cpu.max", "a b", "\u{1b}"];
        for path in bad.into_iter().chain([too_deep.as_str(), &"x".repeat(65)]) {
            let refused = path.parse::<CgroupPath>().unwrap_err().to_string();
            assert!(!refused.contains('\u{1b}'), "{refused}");
            let stored = serde_json::to_string(path).unwrap();
            assert!(serde_json::from_str::<CgroupPath>(&stored).is_err(), "{path}");
        }
    }

    #[test]
    fn a_path_knows_what_is_above_and_below() {
        let [web, front, other] =
            ["web", "web/front", "webs"].map(|path| path.parse::<CgroupPath>().unwrap());
        assert_eq!((front.parent(), web.parent()), (Some(web.clone()), None));
        assert!(front.is_within(&web) && web.is_within(&web));
        assert!(!other.is_within(&web) && !web.is_within(&front));
    }
}
