//! The bytes of pipe mode, which a message thread and a worker fill in turn.

use std::cell::UnsafeCell;
use std::io;

use bytemuck::Zeroable;

use crate::sys::futex::Scope;
use crate::sys::{private, shared};

/// So that no two buffers share a cache line.
const LINE: usize = 128;

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
    pub unsafe fn fill(&self, index: usize, value: u8) {
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
/// The caller keeps the contract of [`std::ptr::write_bytes`].
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_filled_whole_and_its_neighbours_are_left_alone() {
        for (size, scope) in [(1, Scope::Private), (128, Scope::Shared), (5_000, Scope::Private)] {
            let buffers = Buffers::new(3, size, scope).unwrap();
            // SAFETY: no other thread knows these buffers.
            unsafe { buffers.fill(1, 7) };
            // SAFETY: as above.
            let bytes: Vec<u8> =
                buffers.bytes.iter().map(|byte| unsafe { *byte.0.get() }).collect();
            let (before, rest) = bytes.split_at(stride(size));
            let (own, after) = rest.split_at(size);
            assert!(own.iter().all(|&byte| byte == 7), "{size}");
            assert!(before.iter().chain(after).all(|&byte| byte == 0), "{size}");
        }
    }
}
