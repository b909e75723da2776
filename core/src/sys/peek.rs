//! Bytes that wait in a stream socket or a pipe, read without taking them.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use super::call::checked;

/// All bytes that wait there now. They stay there for the next reader.
pub fn waiting_bytes(end: BorrowedFd) -> io::Result<Vec<u8>> {
    let end = end.as_raw_fd();
    let mut bytes = vec![0; count(end)?];
    if bytes.is_empty() {
        return Ok(bytes);
    }
    // SAFETY: the kernel writes no more than the length of `bytes` into them.
    let got = unsafe {
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        libc::recv(end, bytes.as_mut_ptr().cast(), bytes.len(), flags)
    };
    match usize::try_from(got) {
        Ok(got) => bytes.truncate(got),
        Err(_) => return of_pipe(end, bytes.len(), io::Error::last_os_error()),
    }
    Ok(bytes)
}

fn count(end: RawFd) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: the request writes an int, at this address.
    checked(unsafe { libc::ioctl(end, libc::FIONREAD, &raw mut count) })?;
    Ok(count.max(0) as usize)
}

/// A pipe cannot be peeked into, but doubled into another one.
fn of_pipe(end: RawFd, count: usize, why: io::Error) -> io::Result<Vec<u8>> {
    match why.raw_os_error() {
        Some(libc::ENOTSOCK) => {}
        // It was read meanwhile.
        Some(libc::EAGAIN) => return Ok(Vec::new()),
        _ => return Err(why),
    }
    let (reader, writer) = io::pipe()?;
    // SAFETY: both are descriptors of pipes, and no memory is given.
    let got = unsafe {
        // Both pipes have one size, so that all bytes fit.
        let size = libc::fcntl(end, libc::F_GETPIPE_SZ);
        libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, size);
        libc::tee(end, writer.as_raw_fd(), count, libc::SPLICE_F_NONBLOCK)
    };
    match usize::try_from(got) {
        Ok(got) => {
            let mut bytes = vec![0; got];
            File::from(std::os::fd::OwnedFd::from(reader)).read_exact(&mut bytes)?;
            Ok(bytes)
        }
        Err(_) => {
            let why = io::Error::last_os_error();
            if why.raw_os_error() == Some(libc::EAGAIN) { Ok(Vec::new()) } else { Err(why) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_waits_is_seen_whole_and_stays() {
        let pair = UnixStream::pair().unwrap();
        let pipe = io::pipe().unwrap();
        let ends: [(OwnedFd, OwnedFd); 2] =
            [(pair.0.into(), pair.1.into()), (pipe.0.into(), pipe.1.into())];
        for (reader, writer) in ends {
            let (mut reader, mut writer) = (File::from(reader), File::from(writer));
            assert_eq!(waiting_bytes(reader.as_fd()).unwrap(), [0; 0]);
            // Several messages: a pipe holds each in a buffer of its own.
            for byte in 0..15u8 {
                writer.write_all(&[byte; 3000]).unwrap();
            }
            let seen = waiting_bytes(reader.as_fd()).unwrap();
            assert_eq!(seen.len(), 15 * 3000);
            let mut got = vec![0; seen.len()];
            reader.read_exact(&mut got).unwrap();
            assert_eq!(got, seen);
            assert_eq!(waiting_bytes(reader.as_fd()).unwrap(), [0; 0]);
        }
        assert!(waiting_bytes(File::open("/dev/null").unwrap().as_fd()).is_err());
    }
}
