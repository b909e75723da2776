//! Where the files of an open database are, and whether they still are there.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
}

/// The fate of a database that was open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    Removed,
    Replaced,
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
        Ok(Place {
            path: path.to_path_buf(),
            database: identity(&fs::metadata(path)?),
            journal: journal.into_iter().filter_map(known).collect(),
        })
    }

    pub(super) fn loss(&self) -> Option<Loss> {
        match fs::metadata(&self.path) {
            Ok(file) if identity(&file) == self.database => {}
            Ok(_) => return Some(Loss::Replaced),
            Err(_) => return Some(Loss::Removed),
        }
        let mut journal = self.journal.iter();
        let is_there = |path: &Path, own: &Identity| {
            fs::metadata(path).is_ok_and(|file| identity(&file) == *own)
        };
        let lost = journal.find(|(path, own)| !is_there(path, own));
        lost.map(|(path, _)| Loss::Journal(path.clone()))
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
