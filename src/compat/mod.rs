//! Drop-in front ends: the command lines and the output of other tools, on schedlab's
//! workloads and measuring. One folder a tool.

pub mod schbench;
pub mod schedbench;

/// Why a drop-in does not start. Each text ends with its `hint:` line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompatError {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// This machine cannot do what was asked.
    #[error("{0}")]
    Here(String),
}
