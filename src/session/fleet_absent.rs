//! Fleets in a build without the feature `fleet`: nobody can ask for one.

use crate::backend::{Backend, BackendError};
use crate::engine::Job;

use super::{Database, Request, SessionError};

pub(super) fn over(
    _: &Request,
    backend: Box<dyn Backend>,
    _: &Job,
) -> Result<Box<dyn Backend>, SessionError> {
    Ok(backend)
}

pub fn cancel_left() -> Result<Vec<String>, SessionError> {
    Ok(Vec::new())
}

pub fn leave(_: &str, _: &Database) -> Result<(), SessionError> {
    Ok(())
}

pub(super) fn alarm(_: &BackendError) -> Option<String> {
    None
}
