//! The memory that the kernel writes perf records into, and waiting for some.
//!
//! Records are handed on unchanged, header included: the caller decodes them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// In the kernel's `perf_event_mmap_page`: where it writes, and how far the reader has come.
const HEAD_OFFSET: usize = 1024;
const TAIL_OFFSET: usize = 1032;

/// A ring of records, mapped. Events are redirected to the one that it was made for.
pub struct Ring {
    /// One page with the state, then the records.
    start: NonNull<u8>,
    page_bytes: usize,
    data_bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; only `&mut self` reads it.
unsafe impl Send for Ring {}

impl Ring {
    /// `data_bytes`: a power of two, at least a page.
    pub fn new(event: &OwnedFd, data_bytes: usize) -> io::Result<Ring> {
        // SAFETY: sysconf has no preconditions.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page_bytes = usize::try_from(page_bytes).unwrap_or(4096);
        if !data_bytes.is_power_of_two() || data_bytes < page_bytes {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (length, fd) = (page_bytes + data_bytes, event.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, fd, 0) };
        match NonNull::new(start.cast::<u8>()).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Ok(Ring { start, page_bytes, data_bytes }),
            None => Err(io::Error::last_os_error()),
        }
    }

    pub fn bytes(&self) -> usize {
        self.data_bytes
    }

    /// Appends all whole records that are there, and makes room for others.
    pub fn take(&mut self, into: &mut Vec<u8>) {
        // The kernel publishes the head after the records, and writes again after the tail is.
        let head = self.counter(HEAD_OFFSET).load(Ordering::Acquire);
        let tail = self.counter(TAIL_OFFSET).load(Ordering::Relaxed);
        let count = (head.wrapping_sub(tail) as usize).min(self.data_bytes);
        let from = tail as usize & (self.data_bytes - 1);
        let first = count.min(self.data_bytes - from);
        into.reserve(count);
        for (from, count) in [(from, first), (0, count - first)] {
            let at = into.len();
            into.resize(at + count, 0);
            // SAFETY: both ranges lie in the mapping's records; between tail and head the kernel does
            // not write.
            unsafe {
                let records = self.start.as_ptr().add(self.page_bytes + from);
                std::ptr::copy_nonoverlapping(records, into[at..].as_mut_ptr(), count);
            }
        }
        self.counter(TAIL_OFFSET).store(head, Ordering::Release);
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: in the first page of the mapping and aligned to 8; the kernel changes it as a whole.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; nothing borrows it beyond `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.page_bytes + self.data_bytes) };
    }
}

/// Waits for records of any of the events, or for another descriptor that can be read.
pub struct Waiter {
    waits: Vec<libc::pollfd>,
}

impl Waiter {
    /// All must stay open while this waits. The last may be an eventfd.
    pub fn new<'a>(descriptors: impl Iterator<Item = &'a OwnedFd>) -> Waiter {
        let wait =
            |fd: &OwnedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        Waiter { waits: descriptors.map(wait).collect() }
    }

    /// Waits until one is ready; whether the last one is. Events whose CPU is gone are not waited for again.
    pub fn wait(&mut self) -> bool {
        let count = self.waits.len() as libc::nfds_t;
        // SAFETY: the entries are valid; no descriptor is anything but waited for.
        let ready = unsafe { libc::poll(self.waits.as_mut_ptr(), count, -1) };
        if ready < 0 {
            // Interrupted by a signal: nothing is known of any.
            return false;
        }
        let gone = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
        let over = self.waits.last().is_none_or(|last| last.revents != 0);
        for wait in self.waits.iter_mut().filter(|wait| wait.revents & gone != 0) {
            wait.fd = -1;
        }
        over
    }
}
