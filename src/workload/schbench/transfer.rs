//! Pipe mode: no requests, but bytes that a message thread and a worker fill in turn.
//!
//! One operation is one transfer. The message thread fills the buffer of each worker on its
//! list and stamps that worker right before its post, so that the filling is no latency.

use std::cell::UnsafeCell;
use std::io;

use bytemuck::Zeroable;

use crate::sys::futex::Scope;
use crate::sys::{clock, private, shared};
use crate::workload::Worker;

use super::{Group, record_wakeup};

/// So that no two buffers share a cache line.
const LINE: usize = 128;
/// The bytes that the message thread and the worker write.
const SENT: u8 = 1;
const ANSWERED: u8 = 2;

/// The buffers of the workers of one message thread.
pub struct Buffers {
    bytes: &'static [Byte],
    size: usize,
}

#[derive(Zeroable)]
#[repr(transparent)]
struct Byte(UnsafeCell<u8>);

// SAFETY: a buffer has one user at a time, which `Buffers::fill` asks of its callers.
unsafe impl Sync for Byte {}

impl Buffers {
    pub fn new(count: usize, size: usize, scope: Scope) -> io::Result<Buffers> {
        let bytes = count * stride(size);
        let bytes = match scope {
            Scope::Private => private::leak_slice(bytes)?,
            Scope::Shared => shared::leak_slice(bytes)?,
        };
        Ok(Buffers { bytes, size })
    }

    /// Writes all of buffer `index`.
    ///
    /// # Safety
    /// No other thread uses this buffer until something orders that after this call.
    #[inline]
    unsafe fn fill(&self, index: usize, value: u8) {
        let buffer = &self.bytes[index * stride(self.size)..][..self.size];
        // SAFETY: the slice is `size` bytes of a mapping that may be written through its
        // cells, and the caller is its only user.
        unsafe { set(buffer.as_ptr().cast::<u8>().cast_mut(), value, self.size) };
    }
}

/// A memset without vector registers, which the kernel would have to save and restore at each of
/// the two switches of an operation.
///
/// # Safety
/// That of [`std::ptr::write_bytes`].
#[inline]
unsafe fn set(start: *mut u8, value: u8, size: usize) {
    // SAFETY: the instruction writes `size` bytes from `start` on, upwards as the calling
    // convention keeps the direction flag clear.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "rep stosb",
            inout("rcx") size => _,
            inout("rdi") start => _,
            in("al") value,
            options(nostack, preserves_flags),
        );
    }
    // SAFETY: asked of the caller.
    #[cfg(not(target_arch = "x86_64"))]
    unsafe {
        start.write_bytes(value, size);
    }
}

fn stride(size: usize) -> usize {
    size.next_multiple_of(LINE)
}

/// The message thread.
pub fn send(group: &Group, buffers: &Buffers, scope: Scope, worker: &Worker) {
    let Group { message, seats, .. } = group;
    worker.start();
    while worker.running() {
        message.block_for_list();
        for index in message.take_list(seats) {
            // SAFETY: the worker enlisted itself after its last use of the buffer, sleeps
            // until it is posted, and uses it only then.
            unsafe { buffers.fill(index, SENT) };
            seats[index].post_at(clock::monotonic_ns(), scope);
        }
        message.wait(scope);
    }
}

/// A worker.
pub fn answer(group: &Group, buffers: &Buffers, index: usize, scope: Scope, worker: &Worker) {
    let Group { message, seats, .. } = group;
    let seat = &seats[index];
    // SAFETY: not enlisted yet, so the message thread does not use it. Takes its page faults.
    unsafe { buffers.fill(index, ANSWERED) };
    worker.start();
    while worker.running() {
        // SAFETY: the message thread stopped using it with the post that ended the last wait, and
        // uses it again only when this worker is on its list again.
        unsafe { buffers.fill(index, ANSWERED) };
        seat.block_for_list();
        message.enlist(seats, index);
        message.post(scope);
        record_wakeup(seat.wait(scope), worker);
        worker.add_ops(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_filled_whole_and_its_neighbours_are_left_alone() {
        for (size, scope) in [(1, Scope::Private), (128, Scope::Shared), (5_000, Scope::Private)] {
            let buffers = Buffers::new(3, size, scope).unwrap();
            // SAFETY: no other thread knows these buffers.
            unsafe { buffers.fill(1, SENT) };
            // SAFETY: as above.
            let bytes: Vec<u8> =
                buffers.bytes.iter().map(|byte| unsafe { *byte.0.get() }).collect();
            let (before, rest) = bytes.split_at(stride(size));
            let (own, after) = rest.split_at(size);
            assert!(own.iter().all(|&byte| byte == SENT), "{size}");
            assert!(before.iter().chain(after).all(|&byte| byte == 0), "{size}");
        }
    }
}
