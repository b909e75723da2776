//! Results of system calls: numbers, of which the negative ones are errors that `errno` explains.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Fails unless a call returned 0.
pub fn checked(result: impl Into<libc::c_long>) -> io::Result<()> {
    if result.into() == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the descriptor that a call returned.
///
/// # Safety
/// The call has just made it, and nobody else has it.
pub unsafe fn descriptor(result: impl Into<libc::c_long>) -> io::Result<OwnedFd> {
    match i32::try_from(result.into()) {
        // SAFETY: the caller's.
        Ok(fd @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
