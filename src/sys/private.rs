//! Zeroed memory of one process, in pages of its own.

use std::io;

use bytemuck::Zeroable;

/// `count` zeroed values in a private mapping, never unmapped. Not from the heap, whose pages
/// may have been written before: here a page that is only read stays the kernel's one page of
/// zeroes. A process forked later has a copy.
pub fn leak_slice<T: Zeroable + Sync + 'static>(count: usize) -> io::Result<&'static [T]> {
    if count == 0 || size_of::<T>() == 0 {
        return Ok(&[]);
    }
    let bytes = count
        .checked_mul(size_of::<T>())
        .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
    // SAFETY: a fresh anonymous mapping; no address is asked for.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is `bytes` long, page aligned, zeroed, which `Zeroable` makes a
    // valid `T`, and is never unmapped.
    Ok(unsafe { std::slice::from_raw_parts(start.cast::<T>(), count) })
}
