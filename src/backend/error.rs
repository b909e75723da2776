//! Why a backend cannot be used, or cannot run a cell.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

#[cfg(feature = "fleet")]
use super::fleet::FleetError;
use super::lab::LabError;
use crate::model::{Advice, Problem};
use crate::sys::remedy;
use crate::variant::scx::SchedulerError;

#[derive(Debug, Error)]
pub enum BackendError {
    #[error("another schedlab is measuring on this machine, and two would measure each other")]
    Busy,
    #[error("cannot write to {}: {source}", folder.display())]
    State { folder: PathBuf, source: io::Error },
    /// The machine lacks what a cell needs.
    #[error("{}", .0.message)]
    Unsupported(Problem),
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
    #[error(transparent)]
    Lab(#[from] LabError),
    #[cfg(feature = "fleet")]
    #[error(transparent)]
    Fleet(#[from] FleetError),
}

impl Advice for BackendError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Busy => Some("wait for it: pgrep -a schedlab".into()),
            Self::State { folder, source } => {
                Some(remedy::write_own("XDG_STATE_HOME", folder, source).into())
            }
            Self::Unsupported(problem) => problem.hint.as_deref().map(Cow::from),
            Self::Scheduler(error) => error.hint(),
            Self::Lab(error) => error.hint(),
            #[cfg(feature = "fleet")]
            Self::Fleet(error) => error.hint(),
        }
    }

    fn is_usage(&self) -> bool {
        match self {
            Self::Scheduler(error) => error.is_usage(),
            Self::Lab(error) => error.is_usage(),
            #[cfg(feature = "fleet")]
            Self::Fleet(error) => error.is_usage(),
            Self::Busy | Self::State { .. } | Self::Unsupported(_) => false,
        }
    }
}
