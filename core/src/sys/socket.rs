//! Options of sockets that the standard library does not have.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::call::checked;

/// Asks for a buffer of `bytes` in each direction. The kernel gives no more than net.core.wmem_max and rmem_max
/// allow, without an error: see [`buffer_bytes`].
pub fn set_buffers(socket: BorrowedFd, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
        // SAFETY: the option takes an int; these are its address and size.
        checked(unsafe {
            let length = size_of_val(&bytes) as libc::socklen_t;
            let value = (&raw const bytes).cast();
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, length)
        })?;
    }
    Ok(())
}

/// The bytes that [`set_buffers`] got, in the smaller of the two. The kernel doubles the request to have room for
/// its own data of each message (socket(7)): this is the half of it.
pub fn buffer_bytes(socket: BorrowedFd) -> io::Result<usize> {
    let mut smaller = usize::MAX;
    for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
        let mut bytes: libc::c_int = 0;
        let mut length = size_of_val(&bytes) as libc::socklen_t;
        // SAFETY: the option is an int, and the kernel writes no more than `length` bytes.
        checked(unsafe {
            let value = (&raw mut bytes).cast();
            libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, &mut length)
        })?;
        smaller = smaller.min(bytes as usize / 2);
    }
    Ok(smaller)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn a_socket_has_the_buffers_that_it_was_given() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for bytes in [8 << 10, 16 << 10] {
            set_buffers(socket.as_fd(), bytes).unwrap();
            assert_eq!(buffer_bytes(socket.as_fd()).unwrap(), bytes);
        }
        // Some machine may allow this much, but none gives more.
        set_buffers(socket.as_fd(), usize::MAX).unwrap();
        assert!(buffer_bytes(socket.as_fd()).unwrap() <= libc::c_int::MAX as usize / 2);
        let file = tempfile::tempfile().unwrap();
        assert!(set_buffers(file.as_fd(), 8 << 10).is_err());
        assert!(buffer_bytes(file.as_fd()).is_err());
    }
}
