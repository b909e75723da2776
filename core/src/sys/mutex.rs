//! Mutexes whose data are whole after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ignores poison: no thread leaves a change half done when it panics.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
