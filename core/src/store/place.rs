//! Where the files of an open database are, and whether they still are there.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use etcetera::base_strategy::Xdg;
use etcetera::{BaseStrategy, HomeDirError};

/// In the XDG data folder.
pub(super) fn default_path() -> Result<PathBuf, HomeDirError> {
    Ok(Xdg::new()?.data_dir().join("schedlab").join("schedlab.db"))
}

/// Device and inode.
type Identity = (u64, u64);

fn identity(file: &Metadata) -> Identity {
    (file.dev(), file.ino())
}

/// The files of a database that is open for writing.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    database: Identity,
    /// The journal and its index, where it has them.
    journal: Vec<(PathBuf, Identity)>,
    written: Written,
}

/// The files as they were left: bytes and when they were written. Only a checkpoint writes to the database, and only a new
/// journal is shorter.
#[derive(Debug, Default, PartialEq, Eq)]
struct Written {
    database: Option<(u64, SystemTime)>,
    journal: Option<(u64, SystemTime)>,
}

impl Written {
    fn read(path: &Path, journal: &[(PathBuf, Identity)]) -> Written {
        let seen = |path: &Path| {
            let file = fs::metadata(path).ok()?;
            Some((file.len(), file.modified().ok()?))
        };
        Written { database: seen(path), journal: journal.first().and_then(|(path, _)| seen(path)) }
    }

    fn journal_bytes(&self) -> u64 {
        self.journal.map_or(0, |(bytes, _)| bytes)
    }
}

/// The fate of a database that was open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    Removed,
    Replaced,
    /// Somebody else wrote to its files, and they are sound no longer.
    Overwritten,
    /// The journal has what is not in the database yet.
    Journal(PathBuf),
}

/// Where all is that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    At(PathBuf),
    /// Why it could not be saved.
    Nowhere(String),
}

fn loss_of(path: &Path, own: &Identity) -> Option<Loss> {
    match fs::metadata(path) {
        Ok(file) => (identity(&file) != *own).then_some(Loss::Replaced),
        Err(error) => says_removed(&error).then_some(Loss::Removed),
    }
}

/// A folder that may not be searched, or a disk that does not answer, says nothing: what is open takes what is
/// stored, and the next look may see it.
fn says_removed(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP))
}

impl Place {
    /// To be called after the first transaction, which opens the journal.
    pub(super) fn find(path: &Path) -> io::Result<Place> {
        let real = fs::canonicalize(path)?;
        let journal = ["-wal", "-shm"].map(|end| {
            let mut name = real.as_os_str().to_os_string();
            name.push(end);
            PathBuf::from(name)
        });
        let known = |path: PathBuf| Some((path.clone(), identity(&fs::metadata(path).ok()?)));
        let journal: Vec<_> = journal.into_iter().filter_map(known).collect();
        Ok(Place {
            path: path.to_path_buf(),
            database: identity(&fs::metadata(path)?),
            written: Written::read(path, &journal),
            journal,
        })
    }

    /// Whether nobody else can have written to the files since they were looked at. Without a journal of this kind,
    /// SQLite looks itself before each transaction.
    /// `has_committed`: this process wrote to the journal.
    pub(super) fn is_as_left(&self, has_committed: bool) -> bool {
        let now = Written::read(&self.path, &self.journal);
        if self.journal.is_empty() {
            return now.database.is_some_and(|(bytes, _)| bytes > 0);
        }
        let is_longer = now.journal_bytes() >= self.written.journal_bytes();
        now.database == self.written.database
            && (now.journal == self.written.journal || has_committed && is_longer)
    }

    /// Takes the files as they are; returns the bytes of the journal.
    pub(super) fn accept(&mut self) -> u64 {
        self.written = Written::read(&self.path, &self.journal);
        self.written.journal_bytes()
    }

    /// The file that has what is not in the database yet.
    pub(super) fn journal(&self) -> Option<&Path> {
        self.journal.first().map(|(path, _)| &**path)
    }

    pub(super) fn loss(&self) -> Option<Loss> {
        let lost = || {
            let lost = self.journal.iter().find(|(path, own)| loss_of(path, own).is_some());
            lost.map(|(path, _)| Loss::Journal(path.clone()))
        };
        loss_of(&self.path, &self.database).or_else(lost)
    }

    /// Where the file is now, if it was renamed: this process has it open.
    pub(super) fn renamed(&self) -> Option<PathBuf> {
        let open = fs::read_dir("/proc/self/fd").ok()?.flatten();
        let is_it =
            |path: &Path| fs::metadata(path).is_ok_and(|file| identity(&file) == self.database);
        let own = open.map(|entry| entry.path()).filter(|path| is_it(path));
        own.filter_map(|path| fs::read_link(path).ok()).find(|path| is_it(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_looked_at_is_not_removed() {
        let says = |errno| says_removed(&io::Error::from_raw_os_error(errno));
        assert!([libc::ENOENT, libc::ENOTDIR, libc::ELOOP].into_iter().all(says));
        assert!(![libc::EACCES, libc::EIO, libc::ENOMEM, libc::ESTALE].into_iter().any(says));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        fs::write(&path, "").unwrap();
        let place = Place::find(&path).unwrap();
        assert_eq!(place.loss(), None);
        fs::rename(&path, folder.path().join("b.db")).unwrap();
        assert_eq!(place.loss(), Some(Loss::Removed));
        fs::write(&path, "").unwrap();
        assert_eq!(place.loss(), Some(Loss::Replaced));
    }
}
