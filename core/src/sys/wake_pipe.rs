//! Pipes through which one worker wakes another: the kernel wakes their readers as those of sockets, whose wakers are
//! about to sleep (`wake_up_interruptible_sync_poll`). Descriptors are plain numbers, since forked workers share them.

use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use bytemuck::Zeroable;

use super::call::checked;

/// One reader and any writers; zero is one that was not opened.
#[derive(Zeroable)]
#[repr(C)]
pub struct WakePipe {
    reader: AtomicI32,
    writer: AtomicI32,
}

impl WakePipe {
    /// It stays open for the life of the process.
    pub fn open(&self) -> io::Result<()> {
        let (reader, writer) = io::pipe()?;
        // Where a pipe is full there is something to read.
        // SAFETY: the descriptor is open.
        checked(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })?;
        self.reader.store(reader.into_raw_fd(), Relaxed);
        self.writer.store(writer.into_raw_fd(), Relaxed);
        Ok(())
    }

    /// Wakes its reader, or lets the next [`WakePipe::wait`] through.
    #[inline]
    pub fn wake(&self) {
        let byte = 1_u8;
        // SAFETY: the byte outlives the call.
        unsafe { libc::write(self.writer.load(Relaxed), (&raw const byte).cast(), 1) };
    }

    /// Sleeps until somebody wakes, or a signal comes.
    #[inline]
    pub fn wait(&self) {
        let mut byte = 0_u8;
        // SAFETY: the byte outlives the call.
        unsafe { libc::read(self.reader.load(Relaxed), (&raw mut byte).cast(), 1) };
    }
}
