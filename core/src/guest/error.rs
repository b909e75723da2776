//! Why a guest's agent cannot make its machine ready or execute its run.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::model::clean;

#[derive(Debug, Error)]
pub enum AgentError {
    #[error("port {first:#x}: {source}")]
    Port { first: u16, source: io::Error },
    #[error("the firmware's signature is {0:?}, not QEMU")]
    Signature([u8; 4]),
    #[error("the firmware has no file {name} among {entries}")]
    NoFile { name: &'static str, entries: u32 },
    #[error("{name} cannot be understood: {}", clean(&source.to_string()))]
    Document { name: &'static str, source: serde_json::Error },
    #[error("{name} has {size} bytes; the limit is {limit}")]
    TooLarge { name: &'static str, size: u32, limit: u32 },
    #[error("{}: {source}", clean(&path.to_string_lossy()))]
    File { path: PathBuf, source: io::Error },
    #[error("wire version {own} here, {asked} asked for")]
    Wire { own: u32, asked: u32 },
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
    #[error("CPU {cpu}: {source}")]
    Cpu { cpu: u32, source: io::Error },
    #[error(
        "the guest is not quiet after {seconds} s: its CPUs have {percent:.1} % of their speed"
    )]
    NotQuiet { seconds: u64, percent: f64 },
    #[error(
        "its CPUs cannot skip work that is given as a time; write burn = \"executed\" in [lab]"
    )]
    CannotSkip,
    #[error("{tool} ended with {status}")]
    XenTool { tool: &'static str, status: std::process::ExitStatus },
    #[error("{0} is not there")]
    NotThere(&'static str),
    #[error("interrupted, though nobody asked for it")]
    Interrupted,
}

impl AgentError {
    pub fn system(what: &'static str) -> impl FnOnce(io::Error) -> AgentError {
        move |source| AgentError::System { what, source }
    }
}
