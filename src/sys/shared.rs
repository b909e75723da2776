//! Zeroed memory that forked workers share with the runner.

use std::io;

use bytemuck::Zeroable;

/// `count` zeroed values in memory of their own, page aligned, shared with every process
/// forked later. Never unmapped: a runner lives for one run. Pages are not touched here, so
/// that the worker that touches them first has them on its own NUMA node.
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
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
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

/// One zeroed value, as [`leak_slice`].
pub fn leak<T: Zeroable + Sync + 'static>() -> io::Result<&'static T> {
    leak_slice(1).map(|slice| &slice[0])
}
