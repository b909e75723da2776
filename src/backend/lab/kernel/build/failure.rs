//! Describes how the hunks of a patch fit, or why they do not.

use std::fmt;

use super::patch::{Hunk, MadeFor};
use crate::model::clean as plain;

/// Lines of a rejected hunk that are shown.
const MAX_SHOWN: usize = 14;

/// A fact about patches that fit, which a user should know before anything is built.
#[derive(Clone, Debug, PartialEq)]
pub enum PatchNote {
    /// A hunk fits at another line than it says, with all of its context.
    Moved { patch: String, file: String, hunk: usize, line: u64, offset: i64 },
    /// A hunk has no context: only its line number says where it belongs.
    NoContext { patch: String, file: String, hunk: usize },
    /// The patch was made on this commit, and the base is not known to be it.
    OtherBase { patch: String, made_for: MadeFor, base: String },
}

impl fmt::Display for PatchNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moved { patch, file, hunk, line, offset } => {
                let (patch, file) = (plain(patch), plain(file));
                write!(f, "{patch}: {file}: hunk {hunk} fits at line {line} ({offset:+} lines)")
            }
            Self::NoContext { patch, file, hunk } => write!(
                f,
                "{}: {}: hunk {hunk} has no lines around it: nothing but its line number says \
                 where it belongs",
                plain(patch),
                plain(file)
            ),
            Self::OtherBase { patch, made_for, base } => {
                let MadeFor { commit, prerequisites } = made_for;
                let (patch, base, commit) = (plain(patch), plain(base), plain(commit));
                write!(f, "{patch} was made for the commit {commit}")?;
                match prerequisites {
                    0 => {}
                    1 => write!(f, " and one patch on it")?,
                    more => write!(f, " and {more} patches on it")?,
                }
                write!(f, ", and is applied to {base}")
            }
        }
    }
}

/// Why a patch does not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct PatchFailure {
    pub file: String,
    pub why: FailureKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FailureKind {
    Hunk {
        number: usize,
        line: u64,
        hunk: Option<Hunk>,
    },
    AlreadyApplied,
    NoFile,
    Exists,
    /// In the words of `patch`.
    Other(String),
}

impl fmt::Display for PatchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", plain(&self.file))?;
        match &self.why {
            FailureKind::AlreadyApplied => write!(f, "it is applied already, or reversed"),
            FailureKind::NoFile => write!(f, "there is no such file"),
            FailureKind::Exists => write!(f, "the file to be made is there already"),
            FailureKind::Other(text) => write!(f, "{}", plain(text)),
            FailureKind::Hunk { number, line, hunk } => {
                write!(f, "hunk {number} does not fit at line {line}")?;
                let Some(hunk) = hunk else { return Ok(()) };
                write!(f, " (line {} of the patch)", hunk.line)?;
                for line in hunk.text.lines().take(MAX_SHOWN) {
                    write!(f, "\n    {}", plain(&line.replace('\t', "        ")))?;
                }
                Ok(())
            }
        }
    }
}
