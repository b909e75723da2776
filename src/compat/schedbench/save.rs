//! Saving a `.bench` file, and what to do where that fails.
//!
//! Input: a file's records and a path. Effect: one file is replaced as a whole, or stays as it was.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::super::CompatError;
use super::file::{BenchFile, shown};
use super::json;
use crate::sys::replace::NewFile;

impl BenchFile<'_> {
    /// Writes the file at `path` as the original would.
    pub fn save(&self, path: &Path) -> Result<(), CompatError> {
        self.replace(path).map_err(|error| {
            let why = cannot_save(path, &error);
            CompatError::here(format!("{why}; what was there before still is"), hint(path, &error))
        })
    }

    pub(super) fn replace(&self, path: &Path) -> io::Result<()> {
        self.fill(path)?.finish()
    }

    /// All of a save but its end: a new file is written next to the old one, and removed.
    pub(super) fn rehearse(&self, path: &Path) -> io::Result<()> {
        self.fill(path)?.sync()
    }

    fn fill(&self, path: &Path) -> io::Result<NewFile> {
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::other(NO_FILE));
        }
        let mut file = NewFile::begin(path)?;
        json::write(&mut file, &self.plan)?;
        Ok(file)
    }
}

/// In words, without a hint.
pub(super) fn cannot_save(path: &Path, error: &io::Error) -> String {
    format!("cannot save {}: {error}", shown(path))
}

/// What to do about an error of a save at `path`.
pub(super) fn hint(path: &Path, error: &io::Error) -> String {
    let name = shown(path);
    let folder = shown(folder_of(path));
    match error.kind() {
        ErrorKind::InvalidFilename => {
            "a shorter name; while it is saved a name longer by 7 letters is next to it".to_string()
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            format!("its folder must be there: mkdir -p {folder}")
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            format!("its folder must have room for a second copy: df {folder}")
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            format!("its folder must be writable: ls -ld {folder}")
        }
        _ if error.raw_os_error() == Some(libc::ELOOP) => {
            format!("a link leads back to itself: readlink {name}")
        }
        _ if error.to_string() == NO_FILE => {
            format!("-f FILE names an ordinary file: ls -ld {name}")
        }
        _ => format!(
            "its folder must be writable and have room for a second copy: ls -ld {folder}; df {folder}"
        ),
    }
}

const NO_FILE: &str = "it is no ordinary file";

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests;
