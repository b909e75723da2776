//! Why a backend cannot be used, or cannot run a cell.

use std::borrow::Cow;
use std::error::Error;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

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
    /// The error of one backend, whose folder defines it.
    #[error("{0}")]
    Own(Box<dyn Advice + Send + Sync>),
}

impl BackendError {
    pub fn own(error: impl Advice + Send + Sync + 'static) -> BackendError {
        BackendError::Own(Box::new(error))
    }

    /// The backend's own error, if it is of this type.
    pub fn downcast<E: Error + 'static>(&self) -> Option<&E> {
        let BackendError::Own(error) = self else { return None };
        let error: &(dyn Error + 'static) = &**error;
        error.downcast_ref()
    }
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
            Self::Own(error) => error.hint(),
        }
    }

    fn is_usage(&self) -> bool {
        match self {
            Self::Scheduler(error) => error.is_usage(),
            Self::Own(error) => error.is_usage(),
            Self::Busy | Self::State { .. } | Self::Unsupported(_) => false,
        }
    }
}
