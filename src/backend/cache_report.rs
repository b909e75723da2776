//! How a plan used a shared cache, and what went wrong with it. Plain data.

use std::borrow::Cow;
use std::path::PathBuf;

use crate::model::Advice;
use thiserror::Error;

/// The use of the cache, at the end of a plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CacheReport {
    pub url: String,
    /// Answers that it had, including those that were run again.
    pub answers: u64,
    /// Answers that were run again and were the same.
    pub checked: u64,
    /// Answers that it took.
    pub sent: u64,
    /// Answers that could not be sent in time.
    pub not_sent: u64,
    pub faults: Vec<CacheFault>,
    pub differences: Vec<AnswerDifference>,
}

/// An answer that differs from what was measured here.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerDifference {
    pub key: String,
    /// Where the two differ.
    pub what: String,
    /// The files of both; `None` if they could not be written.
    pub kept: Option<[PathBuf; 2]>,
}

/// Why a cache could not be used. Each completes "the cache URL ...".
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CacheFault {
    #[error("was too slow: after {} s of waiting it was left alone", limit_ms.div_ceil(1000))]
    Slow { limit_ms: u64 },
    /// With the system's reason.
    #[error("cannot be reached: {0}")]
    Gone(String),
    #[error("leads elsewhere, which is not followed, and was left alone: {to}")]
    Redirects { to: String },
    #[error("does not let you in (HTTP status {0}), and was left alone")]
    Refuses(u16),
    #[error("answers with HTTP status {0}, and was left alone")]
    Status(u16),
    #[error("gave what cannot be used, which counts as missing, {times} times: {first}")]
    Unusable { times: u64, first: UnusableAnswer },
    #[error("does not take answers, and was sent no more: {0}")]
    TakesNothing(String),
    #[error("was left alone after an answer that is not what was measured here")]
    Differs,
}

impl Advice for CacheFault {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::from(match self {
            Self::Slow { .. } | Self::Gone(_) => "a nearer server, or without it: --cache off",
            Self::Redirects { .. } => "--cache with the URL that it leads to, if you trust it",
            Self::Refuses(_) => {
                "a line in ~/.netrc: machine HOST login USER password PASSWORD, and https"
            }
            Self::Status(_) => "the server's log says why; without it: --cache off",
            Self::Unusable { .. } => {
                "remove these entries on the server; schedlab help shared-cache"
            }
            Self::TakesNothing(_) => "--cache read-only",
            Self::Differs => "your command with --again measures all of the plan here",
        }))
    }
}

/// Why an answer of a cache counts as missing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnusableAnswer {
    #[error("an entry of /ac/ that is not an action result with an answer of schedlab")]
    NoResult,
    #[error("more than {0} bytes")]
    Large(u64),
    /// With the reason.
    #[error("its connection ended before it did: {0}")]
    Broken(String),
    #[error("{found} bytes in place of {named}")]
    Cut { named: u64, found: u64 },
    #[error("its SHA-256 is not its name")]
    Digest,
    #[error("it cannot be unpacked")]
    Packed,
    /// With the reader's reason.
    #[error("it is not an answer of a guest: {0}")]
    NoAnswer(String),
}
