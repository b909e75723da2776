//! Machines are mapped while they are used.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;

use crate::sys::lock;

use super::format::read;

/// Notices whether somebody writes to the file of a saved machine while it is mapped.
pub struct Watch {
    path: PathBuf,
    digest: String,
    /// `None`: it has changed.
    seen: Mutex<Option<Stamp>>,
}

/// When a file was written and changed last, and its length. Whoever puts the first time back changes the second.
pub type Stamp = (SystemTime, [i64; 2], u64);

pub fn stamp(file: &File) -> io::Result<Stamp> {
    let found = file.metadata()?;
    Ok((found.modified()?, [found.ctime(), found.ctime_nsec()], found.len()))
}

/// Whether the file still has its place: it may be that of another one by now.
fn is_at(path: &Path, file: &File) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let there = fs::symlink_metadata(path).map(identity);
    there.is_ok_and(|there| file.metadata().is_ok_and(|own| identity(own) == there))
}

impl Watch {
    /// `stamp`: that of the file before its checksum was found right.
    pub fn new(path: PathBuf, digest: &str, stamp: Stamp) -> Watch {
        Watch { path, digest: digest.to_string(), seen: Mutex::new(Some(stamp)) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn seen(&self) -> MutexGuard<'_, Option<Stamp>> {
        lock(&self.seen)
    }

    pub fn has_changed(&self) -> bool {
        self.seen().is_none()
    }

    /// Checks that the machine is still the one that was saved. One that is not is removed, once.
    pub fn check(&self, file: &File) -> bool {
        let mut seen = self.seen();
        let Some(known) = *seen else { return false };
        *seen = stamp(file).ok().filter(|new| {
            // Another schedlab that takes it changes its time alone.
            *new == known || read(file, &self.digest, &mut io::sink()).is_ok()
        });
        if seen.is_none() && is_at(&self.path, file) {
            _ = fs::remove_file(&self.path);
        }
        seen.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::super::MAX_BYTES;
    use super::super::tests::bench;
    use super::*;

    #[test]
    fn a_machine_that_somebody_writes_to_while_it_is_used_is_noticed_and_goes() {
        let bench = bench(MAX_BYTES);
        bench.put("a").unwrap();
        let path = bench.saved.folder.join("a");
        let (_, file, watch) = bench.saved.get("a", &bench.copy).unwrap().unwrap();
        assert!(watch.check(&file));
        assert!(bench.get("a").is_some(), "another schedlab takes it");
        assert!(watch.check(&file) && watch.check(&file) && path.exists());
        let own = File::options().write(true).open(&path).unwrap();
        let written = own.metadata().unwrap().modified().unwrap();
        own.write_all_at(b"x", 100).unwrap();
        own.set_modified(written).unwrap();
        assert!(!watch.has_changed() && !watch.check(&file) && watch.has_changed());
        assert!(!path.exists());
        // Its place may be that of a new one soon.
        bench.put("a").unwrap();
        assert!(!watch.check(&file) && path.exists());
    }
}
