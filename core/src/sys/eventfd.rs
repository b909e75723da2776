//! Event counters that are file descriptors.

use std::io;
use std::os::fd::OwnedFd;

use super::call::descriptor;

/// A blocking eventfd that counts from 0; it does not survive exec.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: eventfd has no preconditions, and the descriptor is new.
    unsafe { descriptor(libc::eventfd(0, libc::EFD_CLOEXEC)) }
}
