//! Why a backend cannot be used, or cannot run a cell.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

#[cfg(feature = "fleet")]
use super::fleet::FleetError;
use super::lab::LabError;
use crate::sys::remedy;

#[derive(Debug, Error)]
pub enum BackendError {
    #[error("another schedlab is measuring on this machine, and two would measure each other")]
    Busy,
    #[error("cannot write to {}: {source}", folder.display())]
    State { folder: PathBuf, source: io::Error },
    /// The machine lacks what a cell needs.
    #[error("{reason}")]
    Unsupported { reason: String, hint: Option<String> },
    #[error(transparent)]
    Lab(#[from] LabError),
    #[cfg(feature = "fleet")]
    #[error(transparent)]
    Fleet(#[from] FleetError),
}

impl BackendError {
    /// Advice for the user, with a command if one helps.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Busy => Some("wait for it: pgrep -a schedlab".to_string()),
            Self::State { folder, source } => {
                Some(remedy::write_own("XDG_STATE_HOME", folder, source))
            }
            Self::Unsupported { hint, .. } => hint.clone(),
            Self::Lab(error) => error.hint(),
            #[cfg(feature = "fleet")]
            Self::Fleet(error) => error.hint(),
        }
    }

    /// Whether the command line or the plan is wrong, and not the machine.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Lab(error) => error.is_usage(),
            #[cfg(feature = "fleet")]
            Self::Fleet(error) => error.is_usage(),
            Self::Busy | Self::State { .. } | Self::Unsupported { .. } => false,
        }
    }

    /// The error on one line, as the reason of a skipped run.
    pub fn reason(&self) -> String {
        match self.hint() {
            Some(hint) => format!("{self}; hint: {hint}"),
            None => self.to_string(),
        }
    }
}
