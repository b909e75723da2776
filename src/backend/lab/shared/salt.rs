//! Draws the answers that a user runs again, by the key and a random number that only this user knows. So
//! nobody knows beforehand which answers are checked, a user checks the same ones each time, and another user
//! checks others.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use crate::sys::replace::NewFile;

use super::super::results::digest;
use crate::sys::input;

/// The file of the random number, in the state folder.
const FILE: &str = "cache-salt";
const BYTES: usize = 16;

pub struct Salt([u8; BYTES]);

impl Salt {
    /// The user's number, made at its first use. If it cannot be kept, each plan has its own.
    pub fn of_user(state: &Path) -> Salt {
        let path = state.join(FILE);
        let kept = || {
            input::read_file(&path, BYTES as u64)
                .ok()
                .and_then(|bytes| bytes.try_into().ok().map(Salt))
        };
        kept().unwrap_or_else(|| {
            let salt = random().unwrap_or_else(of_the_time);
            match keep(&path, &salt) {
                Ok(()) => Salt(salt),
                // Another schedlab was faster.
                Err(_) => kept().unwrap_or(Salt(salt)),
            }
        })
    }

    /// A number from 0 to below 1 for each key.
    pub fn part_of(&self, key: &str) -> f64 {
        let digest = digest(&[&self.0, key.as_bytes()]);
        let number = u64::from_str_radix(digest.get(..13).unwrap_or("0"), 16).unwrap_or(0);
        number as f64 / (1u64 << 52) as f64
    }
}

fn keep(path: &Path, salt: &[u8]) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut file = NewFile::begin(path)?.with_mode(0o600);
    file.write_all(salt)?;
    file.finish()
}

fn random() -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).ok()?;
    Some(bytes)
}

/// For a machine without a source of random numbers: still hard to guess from outside.
fn of_the_time() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    let now = crate::sys::clock::unix_ns() ^ u64::from(std::process::id()).rotate_left(32);
    bytes[..8].copy_from_slice(&now.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_checks_the_same_ones_each_time_and_another_one_others() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let checked = |state: &Path| {
            let salt = Salt::of_user(&state.join("schedlab"));
            let keys = (0..5000).map(|number| digest(&[format!("{number}").as_bytes()]));
            keys.enumerate()
                .filter(|(_, key)| salt.part_of(key) >= 0.98)
                .map(|(at, _)| at)
                .collect()
        };
        let first: Vec<usize> = checked(one.path());
        assert_eq!(checked(one.path()), first);
        assert!((50..=150).contains(&first.len()), "one in fifty: {}", first.len());
        let others: Vec<usize> = checked(other.path());
        let both = first.iter().filter(|at| others.contains(at)).count();
        assert!(both < 15, "{both} of {}", first.len());
        let parts = (0..5000).map(|number| Salt([7; BYTES]).part_of(&number.to_string()));
        assert!(parts.into_iter().all(|part| (0.0..1.0).contains(&part)));
    }

    #[test]
    fn a_salt_that_cannot_be_kept_is_one_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "no folder").unwrap();
        Salt::of_user(&dir.path().join("file"));
        // A truncated file is written again.
        fs::write(dir.path().join(FILE), "short").unwrap();
        let salt = Salt::of_user(dir.path());
        assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), salt.0);
    }
}
