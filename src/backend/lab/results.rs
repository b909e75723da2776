//! The cache of guests' output, by the digest of everything that it depends on: an exact run gives the same
//! output again, so it need not be made twice.
//!
//! A key is the digest of kernel, root, machine, emulator and spec. Only runs that were measured
//! are kept, the newest of them. An entry is the output's digest, a line, and the output. An entry
//! that cannot be read or has changed counts as missing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::model::MAX_LINE_BYTES;
use crate::sys::{input, remedy};
use sha2::{Digest, Sha256};

use crate::sys::replace::{is_temporary, remove_abandoned, replace};

/// Entries: some 100 MB.
const MAX_ENTRIES: usize = 20_000;

/// The folder of exact runs' outputs, in the cache folder.
pub const FOLDER: &str = "results";

/// The results of one user.
pub struct Results(PathBuf);

impl Results {
    /// Opens a folder that may not exist; nothing is put into it.
    pub fn read_only(folder: &Path) -> Results {
        Results(folder.to_path_buf())
    }

    /// Opens the folder of results, and makes it if necessary.
    pub fn open(folder: &Path) -> io::Result<Results> {
        fs::create_dir_all(folder)?;
        remove_abandoned(folder)?;
        let results = Results(folder.to_path_buf());
        results.forget(MAX_ENTRIES)?;
        Ok(results)
    }

    /// The guest's output, byte by byte.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let entry = input::read_file(self.0.join(key), MAX_LINE_BYTES).ok()?;
        let (sum, output) = entry.split_at_checked(digest(&[]).len() + 1)?;
        (sum == sum_of(output).as_bytes()).then(|| output.to_vec())
    }

    /// Why [`Results::put`] failed, with the way out.
    pub fn not_kept(&self, error: &io::Error) -> String {
        not_kept(&self.0, error, None)
    }

    /// How many there are, and their size.
    pub fn size(&self) -> io::Result<(u64, u64)> {
        let files = by_age(&self.0)?;
        Ok((files.len() as u64, files.iter().map(|(_, bytes, _)| bytes).sum()))
    }

    pub fn clear(&self) -> io::Result<()> {
        remove_abandoned(&self.0)?;
        by_age(&self.0)?.iter().try_for_each(|(.., file)| remove_if_there(file))
    }

    /// Removes all but the newest.
    fn forget(&self, kept: usize) -> io::Result<()> {
        let by_age = by_age(&self.0)?;
        let old = by_age.len().saturating_sub(kept);
        for (.., file) in &by_age[..old] {
            // Another schedlab may have removed it.
            _ = fs::remove_file(file);
        }
        Ok(())
    }

    /// Writes an entry completely or not at all. Two processes that write one key at once write the same bytes.
    pub fn put(&self, key: &str, output: &[u8]) -> io::Result<()> {
        replace(&self.0.join(key), |out| {
            out.write_all(sum_of(output).as_bytes())?;
            out.write_all(output)
        })
    }
}

/// Why nothing can be put into a folder of the cache. `remedy`: a better one than that of the system's error.
pub fn not_kept(folder: &Path, error: &io::Error, remedy: Option<String>) -> String {
    // The folder is made with the first of them.
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder);
    let of_error = || remedy::write_own("XDG_CACHE_HOME", there, error);
    let remedy = remedy.unwrap_or_else(of_error);
    format!("{}: {error}; hint: {remedy}; what is kept: schedlab cache", folder.display())
}

/// When each regular file of a folder changed last, its size and its path; the oldest comes first. Files that are being
/// written are left out.
pub fn by_age(folder: &Path) -> io::Result<Vec<(SystemTime, u64, PathBuf)>> {
    let mut by_age = Vec::new();
    for file in fs::read_dir(folder)? {
        let file = file?;
        match fs::metadata(file.path()) {
            // Another schedlab may have removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(found) if !found.is_file() || is_temporary(&file.file_name()) => {}
            // A link that leads nowhere or in a circle.
            Err(_) if file.file_type().is_ok_and(|kind| kind.is_symlink()) => {}
            found => {
                let found = found?;
                by_age.push((found.modified()?, found.len(), file.path()));
            }
        }
    }
    by_age.sort();
    Ok(by_age)
}

/// Another schedlab may have removed it.
pub fn remove_if_there(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The line before the output.
fn sum_of(output: &[u8]) -> String {
    digest(&[output]) + "\n"
}

/// The digest of parts, each with its length, so that no two lists of parts have the same digest.
pub fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::sys::replace::NewFile;

    #[test]
    fn a_result_is_found_by_its_whole_key() {
        let dir = tempfile::tempdir().unwrap();
        let results = Results::open(dir.path()).unwrap();
        let key = digest(&[b"kernel", b"spec"]);
        assert_eq!(results.get(&key), None);
        results.put(&key, b"output").unwrap();
        assert_eq!(results.get(&key).as_deref(), Some(&b"output"[..]));
        for other in [&[&b"kernels"[..], b"pec"][..], &[b"spec", b"kernel"], &[b"kernelspec"]] {
            assert_eq!(results.get(&digest(other)), None);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_hint_names_a_file_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        for (number, command) in [(libc::EIO, "ls -ld"), (libc::ENOSPC, "df -h")] {
            let text =
                not_kept(&dir.path().join("a/b"), &io::Error::from_raw_os_error(number), None);
            let named = format!("{command} {}", dir.path().display());
            let (_, behind) = text.split_once(&named).unwrap_or_else(|| panic!("{text}"));
            assert!(!behind.starts_with('/'), "{text}");
        }
    }

    #[test]
    fn a_result_that_has_changed_counts_as_missing() {
        let dir = tempfile::tempdir().unwrap();
        let results = Results::open(dir.path()).unwrap();
        let path = dir.path().join("key");
        results.put("key", b"throughput 7131").unwrap();
        let whole = fs::read(&path).unwrap();
        for (at, byte) in [(0, b'x'), (whole.len() - 1, b'2')] {
            let mut flipped = whole.clone();
            flipped[at] = byte;
            fs::write(&path, flipped).unwrap();
            assert_eq!(results.get("key"), None, "byte {at}");
        }
        for length in [0, 10, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(results.get("key"), None, "{length} bytes");
        }
        fs::write(&path, whole).unwrap();
        assert_eq!(results.get("key").as_deref(), Some(&b"throughput 7131"[..]));
    }

    #[test]
    fn the_oldest_results_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let results = Results::open(dir.path()).unwrap();
        for number in 0..5 {
            results.put(&number.to_string(), b"output").unwrap();
            let file = fs::File::open(dir.path().join(number.to_string())).unwrap();
            let age = std::time::Duration::from_secs(1000 * (10 - number));
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        let kept = || (0..5).filter(|number| results.get(&number.to_string()).is_some());
        results.forget(5).unwrap();
        assert_eq!(kept().count(), 5);
        results.forget(3).unwrap();
        assert_eq!(kept().collect::<Vec<_>>(), [2, 3, 4]);
        let one = sum_of(b"output").len() as u64 + 6;
        let living = NewFile::begin(&dir.path().join("5")).unwrap();
        fs::write(dir.path().join(".6.0.tmp"), "left by a killed writer").unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        symlink("circle", dir.path().join("circle")).unwrap();
        assert_eq!(results.size().unwrap(), (3, 3 * one));
        results.clear().unwrap();
        assert_eq!((kept().count(), results.size().unwrap()), (0, (0, 0)));
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            3,
            "the folder, the link and the living one"
        );
        living.finish().unwrap();
        assert_eq!(results.size().unwrap(), (1, 0));
    }
}
