//! What becomes of the hunks of a patch.

use std::fmt;

use super::super::plain::plain;
use super::patch::Hunk;

/// Of a hunk that does not fit.
const MAX_SHOWN: usize = 14;

/// A hunk that was applied elsewhere than it says, or with other lines around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    pub patch: String,
    pub file: String,
    /// From 1.
    pub hunk: usize,
    pub line: u64,
    /// Lines of context that were not looked at.
    pub fuzz: u64,
    /// Lines further down.
    pub offset: i64,
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
