//! Saving a `.bench` file.
//!
//! Input: a file's records and a path. Effect: one file is replaced as a whole, or stays unchanged.

use std::fs;
use std::io;
use std::path::Path;

use super::super::CompatError;
use super::file::BenchFile;
use super::json;
use crate::model::clean_path;
use crate::sys::input::InputFault;
use crate::sys::remedy;
use crate::sys::replace::NewFile;

impl BenchFile<'_> {
    /// Writes the file at `path` as the original would.
    pub fn save(&self, path: &Path) -> Result<(), CompatError> {
        self.replace(path).map_err(|error| {
            let why = cannot_save(path, &error);
            CompatError::here(
                format!("{why}; what was there before still is"),
                remedy::write(path, &error),
            )
        })
    }

    pub(super) fn replace(&self, path: &Path) -> io::Result<()> {
        self.fill(path)?.finish()
    }

    /// Tries a save: a new file is written next to the old one, and removed.
    pub(super) fn rehearse(&self, path: &Path) -> io::Result<()> {
        self.fill(path)?.sync()
    }

    fn fill(&self, path: &Path) -> io::Result<NewFile> {
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(InputFault::NoFile.into());
        }
        let mut file = NewFile::begin(path)?;
        json::write(&mut file, &self.plan)?;
        Ok(file)
    }
}

/// The message, without a hint.
pub(super) fn cannot_save(path: &Path, error: &io::Error) -> String {
    format!("cannot save {}: {error}", clean_path(path))
}

#[cfg(test)]
mod tests;
