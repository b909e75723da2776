//! Holes of files: parts that were never written, read as zeros, and take no place on the disk.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Where the next data of a file begins, at `at` or behind it; `None`: only a hole follows. Moves the file's position. A
/// file system that does not know its holes has data everywhere.
pub fn next_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    let at = i64::try_from(at).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the descriptor is open as long as `file` lives.
    let found = unsafe { libc::lseek(file.as_raw_fd(), at, libc::SEEK_DATA) };
    match u64::try_from(found) {
        Ok(found) => Ok(Some(found)),
        Err(_) => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            error if error.raw_os_error() == Some(libc::EINVAL) => Ok(Some(at as u64)),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn data_is_found_behind_holes() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 20).unwrap();
        file.write_all_at(b"data", 5 << 20).unwrap();
        let found = next_data(&file, 0).unwrap();
        // A file system may have no holes.
        assert!(found.is_some_and(|at| at <= 5 << 20), "{found:?}");
        assert_eq!(next_data(&file, 5 << 20).unwrap(), Some(5 << 20));
        assert_eq!(next_data(&file, 8 << 20).unwrap(), None, "the end");
    }
}
