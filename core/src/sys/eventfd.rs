//! Event counters that are file descriptors.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// A blocking eventfd that counts from 0; it does not survive exec.
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: eventfd has no preconditions.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
