//! Opens the channels between workers: all that are needed, or an error with the limit that is in the way. Also
//! makes their messages.

use std::io;
use std::os::fd::BorrowedFd;

use crate::sys::{peek, process};

use super::WorkloadError;

/// A buffer to send from, or to receive into. Not zeros, so that the pages are touched here and not in the measured
/// section.
pub fn message(bytes: usize) -> Vec<u8> {
    vec![0x5a; bytes]
}

/// The time of sending, at the beginning of a message.
pub const STAMP_BYTES: usize = size_of::<u64>();

/// When a message was sent.
#[inline]
pub fn stamp(message: &[u8]) -> u64 {
    let mut stamp = [0; STAMP_BYTES];
    stamp.copy_from_slice(&message[..STAMP_BYTES]);
    u64::from_le_bytes(stamp)
}

/// The times at which the messages in a channel were sent, the oldest first; `bytes`: the size of each. Empty if
/// part of a message waits there, or if it is another kind of channel.
pub fn waiting(end: BorrowedFd, bytes: usize) -> Vec<u64> {
    let waiting = peek::waiting_bytes(end).unwrap_or_default();
    let messages = waiting.chunks_exact(bytes);
    if messages.remainder().is_empty() { messages.map(stamp).collect() } else { Vec::new() }
}

/// The channels to open.
pub struct Wanted {
    /// The name of one: `pipe`, `socket pair`.
    pub what: &'static str,
    pub count: usize,
    /// Descriptors of one.
    pub files_each: usize,
    /// The parameters to lower, for the hint: `groups or receivers`.
    pub fewer: &'static str,
}

impl Wanted {
    /// Raises the soft limit of open files, then opens one after the other.
    pub fn open<T>(
        &self,
        mut open: impl FnMut() -> io::Result<T>,
    ) -> Result<Vec<T>, WorkloadError> {
        let limit = process::raise_open_files()
            .map_err(|source| WorkloadError::system("raise the limit of open files", source))?;
        (0..self.count)
            .map(|opened| open().map_err(|source| self.failed(source, opened, limit)))
            .collect()
    }

    fn failed(&self, source: io::Error, opened: usize, limit: u64) -> WorkloadError {
        let needed = self.files_each * self.count + 100;
        let hint = match source.raw_os_error() {
            Some(libc::EMFILE) => Some(format!(
                "the limit of open files is {limit}: use fewer {}, or raise the hard limit before \
                 the run: ulimit -Hn {needed} && ulimit -n {needed}",
                self.fewer
            )),
            Some(libc::ENFILE) => {
                Some("the whole machine has no file left: sysctl fs.file-max".to_string())
            }
            Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE | libc::ENETUNREACH) => Some(
                "127.0.0.1 must be there and have free ports: ip link set lo up; sysctl \
                 net.ipv4.ip_local_port_range"
                    .to_string(),
            ),
            Some(libc::EAFNOSUPPORT) => Some("this kernel has no IPv4: CONFIG_INET".to_string()),
            _ => None,
        };
        let action = format!("open {} {} of {}", self.what, opened + 1, self.count);
        WorkloadError::System { action, source, hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Advice;

    #[test]
    fn without_descriptors_the_error_has_the_limit_and_what_raises_it() {
        let failed = |errno| {
            let wanted = Wanted { what: "pipe", count: 10_000, files_each: 2, fewer: "groups" };
            let error = wanted.failed(io::Error::from_raw_os_error(errno), 506, 1_024);
            assert!(error.to_string().contains("open pipe 507 of 10000"), "{error}");
            error.problem().hint
        };
        let hint = failed(libc::EMFILE).expect("a hint");
        for part in ["limit of open files is 1024", "fewer groups", "ulimit -n 20100"] {
            assert!(hint.contains(part), "{hint}");
        }
        assert!(failed(libc::ENFILE).is_some_and(|hint| hint.contains("fs.file-max")));
        // The error of a network namespace whose loopback interface is down.
        assert!(failed(libc::EADDRNOTAVAIL).is_some_and(|hint| hint.contains("ip link set lo up")));
        assert!(failed(libc::EAFNOSUPPORT).is_some_and(|hint| hint.contains("CONFIG_INET")));
        assert_eq!(failed(libc::ENOMEM), None);
    }

    #[test]
    fn as_many_are_opened_as_are_wanted_and_none_after_a_failure() {
        let wanted = Wanted { what: "pipe", count: 3, files_each: 2, fewer: "groups" };
        assert_eq!(wanted.open(|| Ok(7)).unwrap(), [7, 7, 7]);
        let mut calls = 0;
        let failing = || {
            calls += 1;
            if calls == 2 { Err(io::Error::from_raw_os_error(libc::ENOMEM)) } else { Ok(()) }
        };
        assert!(wanted.open(failing).is_err_and(|why| why.to_string().contains("2 of 3")));
        assert_eq!(calls, 2);
    }
}
