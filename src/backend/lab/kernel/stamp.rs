//! What is written next to a cached kernel. Pure.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::plain::plain;

pub const SCHEMA: u32 = 1;
pub const STAMP: &str = "stamp.json";

/// Written next to a kernel: where it came from, and its digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stamp {
    pub schema: u32,
    pub name: String,
    pub release: String,
    pub package: String,
    pub package_version: String,
    /// The files that were unpacked, with their digests.
    pub fetched: Vec<Fetched>,
    /// When, as RFC 3339 has it.
    pub fetched_at: String,
    /// Image, configuration and modules together.
    pub size_bytes: u64,
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fetched {
    pub package: String,
    pub sha256: String,
    pub size_bytes: u64,
}

/// Why the cached files are not those that were fetched.
#[derive(Debug, Error)]
pub enum Damage {
    #[error("{STAMP}: {0}")]
    NoStamp(io::Error),
    #[error("{STAMP}: {}", plain_error(.0))]
    Stamp(serde_json::Error),
    #[error("{STAMP} has format {0}, and this schedlab knows {SCHEMA}")]
    Format(u32),
    #[error("{STAMP} is that of {} {}", plain(release), plain(version))]
    OtherStamp { release: String, version: String },
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("its files have {found} bytes, and had {expected}")]
    Size { found: u64, expected: u64 },
    #[error("its files are not those that were fetched")]
    Digest,
}

fn plain_error(error: &serde_json::Error) -> String {
    plain(&error.to_string())
}

pub fn parse_stamp(text: &str) -> Result<Stamp, Damage> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    match serde_json::from_str::<Version>(text).map_err(Damage::Stamp)?.schema {
        SCHEMA => serde_json::from_str(text).map_err(Damage::Stamp),
        other => Err(Damage::Format(other)),
    }
}
