//! Zeroed memory in pages of its own, shared with forked workers or private to one process.
//! Never unmapped: a runner lives for one run.

use std::io;

use bytemuck::Zeroable;

/// Memory that forked workers share with the runner.
pub mod shared {
    use super::*;

    /// `count` zeroed values, shared with every process forked later. Pages are not touched
    /// here, so that the worker that touches them first has them on its own NUMA node.
    pub fn leak_slice<T: Zeroable + Sync + 'static>(count: usize) -> io::Result<&'static [T]> {
        map(count, libc::MAP_SHARED | libc::MAP_NORESERVE)
    }

    /// One zeroed value, as [`leak_slice`].
    pub fn leak<T: Zeroable + Sync + 'static>() -> io::Result<&'static T> {
        leak_slice(1).map(|slice| &slice[0])
    }
}

/// Memory of one process.
pub mod private {
    use super::*;

    /// `count` zeroed values, of which a process forked later has a copy. Not from the heap,
    /// whose pages may have been written before: here a page that is only read stays the
    /// kernel's one page of zeroes.
    pub fn leak_slice<T: Zeroable + Sync + 'static>(count: usize) -> io::Result<&'static [T]> {
        map(count, libc::MAP_PRIVATE)
    }
}

/// An anonymous mapping, page aligned; nothing is mapped for values without a size.
fn map<T: Zeroable + Sync + 'static>(count: usize, flags: i32) -> io::Result<&'static [T]> {
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
            flags | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is `bytes` long, page aligned (no type here is aligned beyond a
    // page), zeroed, which `Zeroable` makes a valid `T`, and is never unmapped.
    Ok(unsafe { std::slice::from_raw_parts(start.cast::<T>(), count) })
}
