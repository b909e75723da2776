//! What guests said, kept by all that it depends on: where nothing else can touch a run, the same
//! question has the same answer, and need not be asked twice.
//!
//! A key is the digest of kernel, root, machine, emulator and spec. Only runs that were measured
//! are kept. An entry that cannot be read is as good as none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sha2::{Digest, Sha256};

/// The answers of one user.
pub struct Results(PathBuf);

impl Results {
    /// Below the cache folder of this user.
    pub fn open(cache: &Path) -> io::Result<Results> {
        let folder = cache.join("results");
        fs::create_dir_all(&folder)?;
        Ok(Results(folder))
    }

    /// The guest's words, as they came.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        fs::read(self.0.join(key)).ok()
    }

    /// Kept whole or not at all: two that keep the same at once keep the same bytes.
    pub fn put(&self, key: &str, said: &[u8]) -> io::Result<()> {
        static WRITERS: AtomicU64 = AtomicU64::new(0);
        let writer = WRITERS.fetch_add(1, Relaxed);
        let unfinished = self.0.join(format!("{key}.{}-{writer}", std::process::id()));
        fs::write(&unfinished, said)
            .and_then(|()| fs::rename(&unfinished, self.0.join(key)))
            .inspect_err(|_| _ = fs::remove_file(&unfinished))
    }
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
}
