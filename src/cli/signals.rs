//! Signals that ask the program to end, as a flag for what it does.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::sys::signal;

use super::Failure;

/// Set by the first signal; the second one ends the program.
pub fn catch_termination() -> Result<Arc<AtomicBool>, Failure> {
    signal::catch_termination()
        .map_err(|error| Failure::here(format!("cannot catch signals: {error}"), "ulimit -a"))
}
