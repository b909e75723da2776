//! Drop-in front ends: the command lines and the output of other tools, on schedlab's workloads and
//! measurement, one folder per tool; and result files and traces of others, one file per tool.

pub mod imported;
pub mod mmtests;
pub mod phoronix;
pub mod result_file;
pub mod schbench;
pub mod schedbench;
pub mod trace;

/// Why a drop-in does not start, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CompatError {
    pub whose: Whose,
    pub message: String,
    pub hint: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The command line or its file is wrong.
    User,
    /// This machine cannot do what was asked.
    Machine,
}

impl CompatError {
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> CompatError {
        CompatError { whose: Whose::User, message: message.into(), hint: hint.into() }
    }

    pub fn here(message: impl Into<String>, hint: impl Into<String>) -> CompatError {
        CompatError { whose: Whose::Machine, message: message.into(), hint: hint.into() }
    }
}

#[cfg(test)]
impl CompatError {
    /// The printed text. Fails the test if it is somebody else's fault.
    pub fn text(&self, whose: Whose) -> String {
        assert_eq!(self.whose, whose, "{self:?}");
        format!("{}\nhint: {}", self.message, self.hint)
    }
}
