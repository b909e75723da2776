//! Errors of a build, each with the value seen and a hint.

use std::borrow::Cow;
use std::path::PathBuf;

use thiserror::Error;

use super::super::config::{Difference, Lost};
use super::super::{KernelError, Setting};
use super::failure::{FailureKind, PatchFailure};
use super::message::CompilerMessage;
use super::patch::MadeFor;
use super::series::SeriesFault;
use super::tools::Missing;
use crate::model::Advice;
use crate::model::clean as plain;

/// Maximum number of items in a list of compiler messages, failed hunks or notes.
const MAX_SHOWN: usize = 5;

#[derive(Debug, Error)]
pub enum BuildError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error("cannot build kernels here: {0}")]
    Missing(Missing),
    #[error(
        "a build needs {} of free space in {}, and there are {}",
        gigabytes(*need_bytes), plain(&folder.to_string_lossy()), gigabytes(*free_bytes)
    )]
    NoSpace { folder: PathBuf, need_bytes: u64, free_bytes: u64 },
    #[error(transparent)]
    Series(#[from] SeriesFault),
    #[error("the patch {} does not apply to {}{}", plain(patch), plain(base), few(failures))]
    Rejected { patch: String, base: String, failures: Vec<PatchFailure>, made_for: Option<MadeFor> },
    #[error("this kernel cannot have what was asked for{}", lost(.0))]
    Lost(Vec<LostWish>),
    #[error("base and patched kernel are unlike{}", each(.0))]
    Unlike(Vec<Difference>),
    #[error("the build of {} failed{}", plain(what), compiler_messages(.messages, last))]
    Compiler { what: String, messages: Vec<CompilerMessage>, last: Vec<String>, log: PathBuf },
    #[error("{} is not a tree of Linux: it has no {file}", plain(&folder.to_string_lossy()))]
    NoTree { folder: PathBuf, file: &'static str },
    #[error("{} has no revision `{}`", plain(&folder.to_string_lossy()), plain(revision))]
    NoRevision { folder: PathBuf, revision: String },
    #[error(
        "{} is not a git repository, so it has no revision `{}`",
        plain(&folder.to_string_lossy()), plain(revision)
    )]
    NoRepository { folder: PathBuf, revision: String },
    #[error("git does not read {}: it belongs to another user", plain(&folder.to_string_lossy()))]
    Foreign { folder: PathBuf },
    #[error("cannot {action}: {program} {}", ended(why))]
    Program { action: String, program: String, why: String },
    #[error("interrupted")]
    Interrupted,
}

/// A wish of the user's that did not come true.
#[derive(Debug)]
pub struct LostWish {
    pub lost: Lost,
    /// Whether a Kconfig file of the tree defines the symbol.
    pub is_defined: bool,
}

impl BuildError {
    /// Whether the sources themselves are at fault: nobody could build them.
    pub fn is_of_sources(&self) -> bool {
        let is_of_sources =
            matches!(self, Self::Compiler { .. } | Self::Lost(_) | Self::Rejected { .. });
        is_of_sources && !self.is_full()
    }

    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Interrupted | Self::Kernel(KernelError::Interrupted))
    }

    fn is_full(&self) -> bool {
        let says = |text: &String| text.contains("No space left on device");
        match self {
            Self::Kernel(error) => error.is_full(),
            Self::Rejected { failures, .. } => failures.iter().any(|one| match &one.why {
                FailureKind::Other(text) => says(text),
                _ => false,
            }),
            Self::Compiler { messages, last, .. } => {
                messages.iter().any(|one| says(&one.text)) || last.iter().any(says)
            }
            Self::Program { why, .. } => says(why),
            _ => false,
        }
    }
}

impl Advice for BuildError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::from(match self {
            Self::NoSpace { need_bytes, .. } => {
                make_room(&format!("a folder with {} free", gigabytes(*need_bytes)))
            }
            _ if self.is_full() => make_room("a folder with more"),
            Self::Kernel(error) => return error.hint(),
            Self::Missing(missing) => missing.hint(),
            Self::Series(fault) => return fault.hint(),
            Self::Rejected { made_for: Some(made_for), .. } => format!(
                "take the base that the patch was made for: in a tree with its history, {}",
                plain(&made_for.commit)
            ),
            Self::Rejected { .. } => "take the base that the patch was made for: \
                                      debian-source:VERSION, or a revision of --tree DIR"
                .to_string(),
            Self::Lost(_) => {
                "leave it out, or --set what it depends on: `depends on` in the Kconfig file"
                    .to_string()
            }
            Self::Unlike(_) => "--set what makes them alike (a patch may have renamed a symbol), \
                                or --allow-unlike"
                .to_string(),
            Self::Compiler { log, .. } => format!("less {}", plain(&log.to_string_lossy())),
            Self::NoTree { .. } => {
                "name the folder with the kernel's Makefile: --tree DIR".to_string()
            }
            Self::NoRevision { folder, .. } => {
                format!("git -C {} log --oneline -5", plain(&folder.to_string_lossy()))
            }
            Self::NoRepository { .. } => {
                "name the top folder of a git clone of Linux: --tree DIR".to_string()
            }
            Self::Foreign { folder } => {
                let folder = plain(&folder.to_string_lossy());
                format!("git config --global --add safe.directory {folder}")
            }
            Self::Program { program, .. } => format!("{program} --version"),
            Self::Interrupted => "the same command continues where this one was".to_string(),
        }))
    }

    fn is_usage(&self) -> bool {
        match self {
            Self::Kernel(error) => error.is_usage(),
            Self::Rejected { .. } => !self.is_full(),
            Self::Series(_)
            | Self::Lost(_)
            | Self::Unlike(_)
            | Self::NoTree { .. }
            | Self::NoRevision { .. }
            | Self::NoRepository { .. } => true,
            _ => false,
        }
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

fn make_room(folder: &str) -> String {
    format!(
        "make room, or set XDG_CACHE_HOME to {folder}; \
         schedlab kernel rm --builds removes the trees and objects of earlier builds"
    )
}

/// The first of them, and how many more there are.
fn few<T: std::fmt::Display>(all: &[T]) -> String {
    let more = match all.len().saturating_sub(MAX_SHOWN) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    each(&all[..all.len().min(MAX_SHOWN)]) + &more
}

fn each<T: std::fmt::Display>(all: &[T]) -> String {
    all.iter().map(|one| format!("\n  {one}")).collect()
}

fn lost(all: &[LostWish]) -> String {
    let one = |wish: &LostWish| {
        let Lost { wanted, got, is_visible } = &wish.lost;
        let symbol = plain(&wanted.symbol);
        let why = match (wish.is_defined, is_visible, got) {
            (false, ..) => "the tree has no such symbol".to_string(),
            (true, false, Setting::Off) => "what it depends on is not there".to_string(),
            _ => format!("it is {got}: another symbol decides, or what it depends on"),
        };
        format!("\n  {symbol}={}: {why}", wanted.setting)
    };
    all.iter().map(one).collect()
}

fn compiler_messages(messages: &[CompilerMessage], last: &[String]) -> String {
    if messages.is_empty() {
        last.iter().map(|line| format!("\n  {}", plain(line))).collect()
    } else {
        few(messages)
    }
}

fn ended(why: &str) -> String {
    if why.is_empty() { "failed".to_string() } else { format!("says: {}", plain(why)) }
}
