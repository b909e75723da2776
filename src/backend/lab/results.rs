//! What guests said, kept by all that it depends on: where nothing else can touch a run, the same
//! question has the same answer, and need not be asked twice.
//!
//! A key is the digest of kernel, root, machine, emulator and spec. Only runs that were measured
//! are kept, the newest so many of them. An entry is the digest of what was said, a line, and what
//! was said. One that cannot be read or is not what it was is as good as none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

/// Some 100 MB.
const MOST: usize = 20_000;

/// The answers of one user.
pub struct Results(PathBuf);

impl Results {
    /// Below the cache folder of this user.
    pub fn open(cache: &Path) -> io::Result<Results> {
        let folder = cache.join("results");
        fs::create_dir_all(&folder)?;
        let results = Results(folder);
        results.forget(MOST)?;
        Ok(results)
    }

    /// The guest's words, as they came.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let entry = fs::read(self.0.join(key)).ok()?;
        let (sum, said) = entry.split_at_checked(digest(&[]).len() + 1)?;
        (sum == sum_of(said).as_bytes()).then(|| said.to_vec())
    }

    /// All but the newest of them.
    fn forget(&self, most: usize) -> io::Result<()> {
        let files: Vec<PathBuf> =
            fs::read_dir(&self.0)?.flatten().map(|file| file.path()).collect();
        let Some(too_many) = files.len().checked_sub(most + 1) else { return Ok(()) };
        let kept_at = |file: &PathBuf| {
            fs::metadata(file).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let mut by_age: Vec<(SystemTime, PathBuf)> =
            files.into_iter().map(|file| (kept_at(&file), file)).collect();
        by_age.sort();
        for (_, file) in &by_age[..=too_many] {
            // Another schedlab may have removed it.
            _ = fs::remove_file(file);
        }
        Ok(())
    }

    /// Kept whole or not at all: two that keep the same at once keep the same bytes.
    pub fn put(&self, key: &str, said: &[u8]) -> io::Result<()> {
        static WRITERS: AtomicU64 = AtomicU64::new(0);
        let writer = WRITERS.fetch_add(1, Relaxed);
        let unfinished = self.0.join(format!("{key}.{}-{writer}", std::process::id()));
        let entry = [sum_of(said).as_bytes(), said].concat();
        fs::write(&unfinished, entry)
            .and_then(|()| fs::rename(&unfinished, self.0.join(key)))
            .inspect_err(|_| _ = fs::remove_file(&unfinished))
    }
}

/// The line before what was said.
fn sum_of(said: &[u8]) -> String {
    digest(&[said]) + "\n"
}

/// Of parts, each with its length, so that no two lists of parts are one text.
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
    use super::*;

    #[test]
    fn an_answer_is_found_by_its_whole_question() {
        let dir = tempfile::tempdir().unwrap();
        let results = Results::open(dir.path()).unwrap();
        let key = digest(&[b"kernel", b"spec"]);
        assert_eq!(results.get(&key), None);
        results.put(&key, b"said").unwrap();
        assert_eq!(results.get(&key).as_deref(), Some(&b"said"[..]));
        for other in [&[&b"kernels"[..], b"pec"][..], &[b"spec", b"kernel"], &[b"kernelspec"]] {
            assert_eq!(results.get(&digest(other)), None);
        }
        assert_eq!(fs::read_dir(dir.path().join("results")).unwrap().count(), 1);
    }

    #[test]
    fn an_answer_that_is_not_what_it_was_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let results = Results::open(dir.path()).unwrap();
        let path = dir.path().join("results/key");
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
    fn the_oldest_answers_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let results = Results::open(dir.path()).unwrap();
        for number in 0..5 {
            results.put(&number.to_string(), b"said").unwrap();
            let file = fs::File::open(dir.path().join("results").join(number.to_string())).unwrap();
            let age = std::time::Duration::from_secs(1000 * (10 - number));
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        let kept = || (0..5).filter(|number| results.get(&number.to_string()).is_some());
        results.forget(5).unwrap();
        assert_eq!(kept().count(), 5);
        results.forget(3).unwrap();
        assert_eq!(kept().collect::<Vec<_>>(), [2, 3, 4]);
    }
}
