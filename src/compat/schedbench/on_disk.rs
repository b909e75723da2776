//! The file that `run` reads, fills and saves, and the place for results if it cannot be saved or somebody
//! else has changed it since.
//!
//! Input: a path, and a folder for results that have no other place. Effect: files are read and
//! written. Results of this process are never dropped and never overwrite what another process
//! wrote: they go next to it under another name, or into that folder.

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::{CompatError, Whose};
use super::file::{BenchFile, MAX_BYTES, utf8};
use super::json;
use super::save::cannot_save;
use crate::model::clean_path;
use crate::sys::replace::{meant, write_new};
use crate::sys::signal::OpenWait;
use crate::sys::{input, remedy};

/// The text of the file at `path`.
pub fn read_text(path: &Path) -> Result<String, CompatError> {
    read(path).map(|(text, _)| text)
}

fn read(path: &Path) -> Result<(String, Identity), CompatError> {
    let name = clean_path(path);
    let _wait = OpenWait::for_file(path);
    let read = File::open(path).and_then(|mut file| {
        // Read the metadata before the text: a change during the reading then counts as another file.
        let metadata = file.metadata()?;
        Ok((input::read_open(&mut file, MAX_BYTES)?, metadata))
    });
    let (bytes, metadata) = read.map_err(|error| match error.kind() {
        ErrorKind::NotFound => CompatError::usage(
            format!("there is no file {name}"),
            "-f FILE names the file, -t TEMPLATE one to copy a plan from",
        ),
        _ if input::is_wrong_file(&error) => CompatError::usage(
            format!("cannot read {name}: {error}"),
            "-f FILE names a .bench file",
        ),
        _ => CompatError {
            whose: if input::may_pass(&error) { Whose::Machine } else { Whose::User },
            message: format!("cannot read {name}: {error}"),
            hint: remedy::read(path, &error),
        },
    })?;
    Ok((utf8(bytes, path)?, Identity::from_metadata(&metadata)))
}

/// Identifies a file and its state by its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    changed_at: (i64, i64),
}

impl Identity {
    fn from_metadata(metadata: &Metadata) -> Identity {
        Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            changed_at: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// A file that has been read and will be saved.
#[derive(Debug)]
pub struct OnDisk {
    path: PathBuf,
    /// The file's identity when it was read or last saved.
    seen: Identity,
    /// The folder for results that cannot be saved.
    refuge: Option<PathBuf>,
}

impl OnDisk {
    /// Reads the file at `path`. `refuge`: the folder for results that cannot be saved.
    pub fn read(path: &Path, refuge: Option<PathBuf>) -> Result<(OnDisk, String), CompatError> {
        let (text, seen) = read(path)?;
        Ok((OnDisk { path: path.to_path_buf(), seen, refuge }, text))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a save would succeed, as far as a trial shows: the temporary file next to it is
    /// made with all of its text, and removed.
    pub fn probe(&self, file: &BenchFile) -> Result<(), CompatError> {
        file.rehearse(&self.path).map_err(|error| {
            let why = cannot_save(&self.path, &error);
            CompatError::here(
                format!("nothing was run, as results could not be kept: {why}"),
                remedy::write(&self.path, &error),
            )
        })
    }

    /// Replaces the file that was read. If that fails, or the file has changed since, the results are kept
    /// elsewhere and the error says where.
    pub fn save(&mut self, file: &BenchFile) -> Result<(), CompatError> {
        if let Some(other) = self.other() {
            return Err(self.save_next_to(file, &other));
        }
        match file.replace(&self.path) {
            Ok(()) => {
                if let Ok(saved) = fs::metadata(&self.path) {
                    self.seen = Identity::from_metadata(&saved);
                }
                Ok(())
            }
            Err(error) => {
                let why = cannot_save(&self.path, &error);
                Err(self.save_in_refuge(file, &why, &remedy::write(&self.path, &error)))
            }
        }
    }

    /// The file that stands there now, if it is not the one that was read. A missing file is simply written again.
    fn other(&self) -> Option<Metadata> {
        fs::metadata(&self.path).ok().filter(|now| Identity::from_metadata(now) != self.seen)
    }

    fn save_next_to(&self, file: &BenchFile, other: &Metadata) -> CompatError {
        let name = clean_path(&self.path);
        let why = format!("{name} was changed by somebody else while it was run");
        let made = meant(&self.path).and_then(|target| {
            let mut stem = target.unwrap_or_else(|| self.path.clone()).into_os_string();
            stem.push(".new");
            write_free(Path::new(&stem), Some(other), file)
        });
        match made {
            Ok(kept) => {
                let kept = clean_path(&kept);
                CompatError::here(
                    format!("{why}: it is left as it is, and what was measured here is in {kept}"),
                    format!("schedlab schedbench -f {kept} report"),
                )
            }
            Err(error) => self.save_in_refuge(file, &why, &remedy::write(&self.path, &error)),
        }
    }

    fn save_in_refuge(&self, file: &BenchFile, why: &str, hint: &str) -> CompatError {
        let kept = self.refuge.as_ref().ok_or_else(|| "there is no state folder".to_string());
        let kept = kept.and_then(|folder| {
            let in_words = |error| format!("{}: {error}", clean_path(folder));
            fs::create_dir_all(folder).map_err(in_words)?;
            // Others may read that folder: the copy is as private as the file itself.
            let old = fs::metadata(&self.path).ok();
            write_free(&folder.join("unsaved.bench"), old.as_ref(), file).map_err(in_words)
        });
        let message = match kept {
            Ok(kept) => {
                let kept = clean_path(&kept);
                format!("{why}; the file with all results is {kept}: move it to its place")
            }
            Err(second) => format!(
                "{why}; and nowhere else ({second}): results of the last run are lost, what was \
                 saved before is still there"
            ),
        };
        CompatError::here(message, hint)
    }
}

/// Writes `file` under the first free name that begins with `stem`.
fn write_free(stem: &Path, old: Option<&Metadata>, file: &BenchFile) -> std::io::Result<PathBuf> {
    let mut number = 1;
    loop {
        let mut name = stem.as_os_str().to_os_string();
        name.push(format!("-{}-{number}", std::process::id()));
        let path = PathBuf::from(name);
        match write_new(&path, old, |out| json::write(out, &file.plan)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            written => return written.map(|()| path),
        }
    }
}

#[cfg(test)]
mod tests;
