//! Waiting for any of many file descriptors.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::call::{checked, descriptor};

/// It does not survive exec.
pub struct Epoll(OwnedFd);

/// The events that [`Epoll::wait`] fills in: made before a timed section, used again and again.
pub struct Ready {
    events: Box<[libc::epoll_event]>,
    count: usize,
}

impl Ready {
    /// For up to `most` descriptors at a time; at least one.
    pub fn new(most: usize) -> Ready {
        let none = libc::epoll_event { events: 0, u64: u64::MAX };
        let most = most.clamp(1, i32::MAX as usize);
        Ready { events: vec![none; most].into_boxed_slice(), count: 0 }
    }

    /// The numbers of the descriptors that the last wait found.
    #[inline]
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.events[..self.count].iter().map(|event| event.u64)
    }
}

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: epoll_create1 has no preconditions, and the descriptor is new.
        unsafe { descriptor(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }.map(Epoll)
    }

    /// Makes waits end when `fd` can be read or has no other end, and return `number`. They do so as long as that
    /// holds (level-triggered).
    pub fn add(&self, fd: BorrowedFd, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number };
        let (own, other) = (self.0.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: the kernel reads the event, which lives until the call returns.
        checked(unsafe { libc::epoll_ctl(own, libc::EPOLL_CTL_ADD, other, &raw mut event) })
    }

    /// Sleeps until at least one descriptor is ready.
    #[inline]
    pub fn wait(&self, ready: &mut Ready) -> io::Result<()> {
        let most = ready.events.len() as i32;
        loop {
            // SAFETY: the kernel writes at most as many events as the slice has.
            let count = unsafe {
                libc::epoll_wait(self.0.as_raw_fd(), ready.events.as_mut_ptr(), most, -1)
            };
            if count >= 0 {
                ready.count = count as usize;
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_wait_reports_those_that_can_be_read_as_long_as_they_can() {
        let epoll = Epoll::new().unwrap();
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        for (number, (own, _)) in pairs.iter().enumerate() {
            epoll.add(own.as_fd(), 10 + number as u64).unwrap();
        }
        let mut ready = Ready::new(8);
        assert_eq!(ready.numbers().count(), 0);
        let mut waited = || {
            epoll.wait(&mut ready).unwrap();
            let mut numbers: Vec<u64> = ready.numbers().collect();
            numbers.sort();
            numbers
        };
        (&pairs[1].1).write_all(b"xy").unwrap();
        assert_eq!(waited(), [11]);
        (&pairs[2].1).write_all(b"x").unwrap();
        assert_eq!(waited(), [11, 12]);
        (&pairs[1].0).read_exact(&mut [0; 1]).unwrap();
        assert_eq!(waited(), [11, 12], "one of two bytes is left");
        (&pairs[1].0).read_exact(&mut [0; 1]).unwrap();
        assert_eq!(waited(), [12]);
    }

    #[test]
    fn no_more_are_reported_than_there_is_room_for() {
        let epoll = Epoll::new().unwrap();
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        for (number, (own, other)) in pairs.iter().enumerate() {
            epoll.add(own.as_fd(), number as u64).unwrap();
            (&*other).write_all(b"x").unwrap();
        }
        for (room, expected) in [(0, 1), (2, 2), (3, 3)] {
            let mut ready = Ready::new(room);
            epoll.wait(&mut ready).unwrap();
            assert_eq!(ready.numbers().count(), expected, "room for {room}");
        }
    }

    #[test]
    fn a_descriptor_cannot_be_added_twice() {
        let epoll = Epoll::new().unwrap();
        let (own, _other) = UnixStream::pair().unwrap();
        epoll.add(own.as_fd(), 1).unwrap();
        let error = epoll.add(own.as_fd(), 2).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EEXIST));
    }
}
