//! The file that is written next to a cached kernel. Pure.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::config::Wanted;
use crate::model::clean as plain;

pub const SCHEMA: u32 = 1;
pub const STAMP: &str = "stamp.json";

/// Written next to a kernel: where it came from, and its digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stamp {
    pub schema: u32,
    pub name: String,
    pub release: String,
    /// The version of the hypervisor's package, if the kernel is booted under one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    #[serde(flatten)]
    pub origin: Provenance,
    /// Image, configuration, modules, and the files of a hypervisor together.
    pub size_bytes: u64,
    pub digest: String,
}

/// The origin of a kernel, and its time as in RFC 3339.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Provenance {
    Package {
        package: String,
        package_version: String,
        /// The files that were unpacked, with their digests.
        fetched: Vec<Fetched>,
        fetched_at: String,
    },
    Built {
        built: Built,
    },
}

impl Provenance {
    /// When it was fetched or built.
    pub fn at(&self) -> &str {
        match self {
            Provenance::Package { fetched_at, .. } => fetched_at,
            Provenance::Built { built } => &built.built_at,
        }
    }
}

/// The sources and the configuration that a kernel was built from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// `debian-source:6.12.117-1`, or a tree with its revision.
    pub base: String,
    /// The digest of the package with the sources, or git's id of the tree.
    pub base_digest: String,
    /// In the order in which they were applied.
    pub patches: Vec<AppliedPatch>,
    /// Settings that the user asked for in addition to the lab's configuration.
    pub wishes: Vec<Wanted>,
    /// SHA-256 of the whole configuration.
    pub config_digest: String,
    pub built_at: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppliedPatch {
    pub name: String,
    /// SHA-256 of its text.
    pub digest: String,
}

/// This moment, as stamps have it.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fetched {
    pub package: String,
    pub sha256: String,
    pub size_bytes: u64,
}

/// How the cached files differ from those that were fetched.
#[derive(Debug, Error)]
pub enum Damage {
    #[error("{STAMP}: {0}")]
    NoStamp(io::Error),
    #[error("{STAMP}: {}", plain(&.0.to_string()))]
    Stamp(serde_json::Error),
    #[error("{STAMP} has format {0}, and this schedlab knows {SCHEMA}")]
    Format(u32),
    #[error("{STAMP} is that of {}, {}", plain(name), plain(release))]
    OtherStamp { name: String, release: String },
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("its files have {found} bytes, and had {expected}")]
    Size { found: u64, expected: u64 },
    #[error("its files are not those that were fetched")]
    Digest,
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
