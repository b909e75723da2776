//! The schedulers that may be asked for, and the kernel's facts about one and their files. Plain data.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::model::OWN_SCHEDULERS;

/// The schedulers of our own.
pub const OWN: [&str; OWN_SCHEDULERS.len()] = {
    let mut names = [""; OWN_SCHEDULERS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = OWN_SCHEDULERS[at].0;
        at += 1;
    }
    names
};

pub const STATE: &str = "/sys/kernel/sched_ext/state";
pub const OPS: &str = "/sys/kernel/sched_ext/root/ops";
pub const EVENTS: &str = "/sys/kernel/sched_ext/root/events";
pub const REJECTED: &str = "/sys/kernel/sched_ext/nr_rejected";
pub const BTF: &str = "/sys/kernel/btf/vmlinux";

/// The scheduler that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheduler {
    /// One of [`OWN`].
    Own(&'static str),
    /// A file of BPF that has one.
    Object(PathBuf),
    Program {
        path: PathBuf,
        words: Vec<String>,
    },
}

/// The end of the name of a file of BPF.
const OBJECT: &str = ".bpf.o";

impl Scheduler {
    /// A name of [`OWN`], the path of a file of BPF, or that of a program with its arguments, with spaces between
    /// them. A path has a slash in it.
    pub fn parse(text: &str) -> Option<Scheduler> {
        if let Some(own) = OWN.into_iter().find(|own| *own == text) {
            return Some(Scheduler::Own(own));
        }
        let mut words = text.split_whitespace().map(str::to_string);
        let path = words.next().filter(|path| path.contains('/'))?;
        let is_plain = !text.contains(|c: char| c.is_control());
        let (path, words): (PathBuf, Vec<String>) = (path.into(), words.collect());
        if !is_plain {
            return None;
        }
        if path.to_string_lossy().ends_with(OBJECT) {
            // Nothing takes arguments.
            return words.is_empty().then_some(Scheduler::Object(path));
        }
        Some(Scheduler::Program { path, words })
    }

    /// Its file, if it is not one of ours.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Scheduler::Own(_) => None,
            Scheduler::Object(path) | Scheduler::Program { path, .. } => Some(path),
        }
    }

    /// The same with its file elsewhere.
    pub fn moved(self, path: PathBuf) -> Scheduler {
        match self {
            Scheduler::Own(name) => Scheduler::Own(name),
            Scheduler::Object(_) => Scheduler::Object(path),
            Scheduler::Program { words, .. } => Scheduler::Program { path, words },
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduler::Own(name) => write!(f, "{name}"),
            Scheduler::Object(path) => write!(f, "{}", path.display()),
            Scheduler::Program { path, words } => {
                write!(f, "{}", path.display())?;
                words.iter().try_for_each(|word| write!(f, " {word}"))
            }
        }
    }
}

/// The kernel's counts under a scheduler until it was detached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// The name under which the kernel had it.
    pub ops: String,
    /// The kernel's counts while it was attached, as in `root/events`, but for zeros; `None` where this kernel
    /// counts none.
    pub events: Option<Vec<(String, u64)>>,
    /// How many tasks the kernel kept from it (`nr_rejected`), where it says.
    pub rejected: Option<u64>,
    /// Why it was detached, where it could see that.
    pub exit: Option<Exit>,
}

/// The kernel's words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exit {
    pub kind: u32,
    pub code: i64,
    pub reason: String,
    pub message: String,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exit { kind, code, reason, message } = self;
        write!(f, "{reason} (kind {kind}, code {code})")?;
        if message.is_empty() { Ok(()) } else { write!(f, ": {message}") }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ops)?;
        match &self.events {
            None => write!(f, ", no events counted")?,
            Some(events) => {
                events.iter().try_for_each(|(name, count)| write!(f, ", {name} {count}"))?;
            }
        }
        if let Some(rejected) = self.rejected {
            write!(f, ", nr_rejected {rejected}")?;
        }
        self.exit.iter().try_for_each(|exit| write!(f, ", {exit}"))
    }
}
