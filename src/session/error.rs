//! Why a session did not do what it was asked, with a way out. The caller prints it and gives it an exit code.

use std::io;
use std::path::Path;

use thiserror::Error;

use crate::backend::BackendError;
use crate::model::{Advice, MissingFeature, Problem, ValueError, clean_path};
use crate::plan::{ChangeError, PlanErrors};
use crate::store::StoreError;
use crate::sys::{FolderError, input, remedy};

#[derive(Debug, Error)]
pub enum SessionError {
    /// The request or the plan is wrong.
    #[error("error: {0}")]
    Usage(Problem),
    /// As `Usage`, with source and carets.
    #[error("{}", .0.render())]
    Plan(#[from] PlanErrors),
    /// It cannot be measured here.
    #[error("error: {0}")]
    Here(Problem),
    /// Runs are missing that the host ended; the plan can be resumed.
    #[error("error: {0}")]
    Missing(Problem),
    /// A result could not be stored or read.
    #[error("error: {}", .0.problem())]
    Store(StoreError),
    /// Cancelled; the plan can be resumed.
    #[error("{0}")]
    Interrupted(Problem),
}

impl SessionError {
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> SessionError {
        SessionError::Usage(Problem::new(message, hint))
    }

    /// Whether the request or the plan is at fault.
    pub fn is_usage(&self) -> bool {
        matches!(self, SessionError::Usage(_) | SessionError::Plan(_))
    }

    /// By whose fault it is.
    pub fn from_advice(error: &impl Advice) -> SessionError {
        let problem = error.problem();
        if error.is_usage() { SessionError::Usage(problem) } else { SessionError::Here(problem) }
    }

    pub fn here(message: impl Into<String>, hint: impl Into<String>) -> SessionError {
        SessionError::Here(Problem::new(message, hint))
    }

    /// A file that the request or the plan names cannot be read. By the cause: where another try may
    /// succeed the machine is at fault, else the name.
    pub fn unread(
        message: impl Into<String>,
        hint: impl Into<String>,
        error: &io::Error,
    ) -> SessionError {
        if input::may_pass(error) {
            SessionError::here(message, hint)
        } else {
            SessionError::usage(message, hint)
        }
    }

    /// A file cannot be written.
    pub fn unwritten(path: &Path, error: &io::Error) -> SessionError {
        let text = format!("cannot write {}: {error}", clean_path(path));
        let is_missing = error.get_ref().is_some_and(|of| of.is::<MissingFeature>());
        let hint =
            if is_missing { MissingFeature::HINT.into() } else { remedy::write(path, error) };
        SessionError::here(text, hint)
    }

    /// A value that does not fit the option it was given to.
    pub fn option(option: &str, wrong: ValueError) -> SessionError {
        SessionError::usage(format!("{option}: {}", wrong.message), wrong.hint)
    }
}

impl From<StoreError> for SessionError {
    fn from(error: StoreError) -> Self {
        if error.is_usage() {
            SessionError::from_advice(&error)
        } else {
            SessionError::Store(error)
        }
    }
}

impl From<FolderError> for SessionError {
    fn from(error: FolderError) -> Self {
        SessionError::here(error.to_string(), "set HOME to a folder that you can write")
    }
}

impl From<ChangeError> for SessionError {
    fn from(error: ChangeError) -> Self {
        SessionError::usage(error.problem, error.hint)
    }
}

impl From<BackendError> for SessionError {
    fn from(error: BackendError) -> Self {
        SessionError::from_advice(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_the_names_fault_or_the_machines() {
        use io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
        for kind in [NotFound, NotADirectory, IsADirectory, PermissionDenied] {
            let error = SessionError::unread("m", "h", &kind.into());
            assert!(matches!(error, SessionError::Usage(_)), "{kind}");
        }
        for code in [libc::EIO, libc::EMFILE, libc::ENOMEM] {
            let error = SessionError::unread("m", "h", &io::Error::from_raw_os_error(code));
            assert!(matches!(error, SessionError::Here(_)), "{code}");
        }
    }
}
