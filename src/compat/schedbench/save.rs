//! Writing a `.bench` file so that neither the old file nor what was measured can be lost.
//!
//! Input: a file's records and a path. Effect: one file is replaced, or stays as it was. At each
//! moment the old file or the new one is there, whole, with the old one's permissions; a symbolic
//! link stays one.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::super::CompatError;
use super::file::{BenchFile, shown};
use super::json;

/// What writes the contents of a file.
pub(super) type Contents<'c> = &'c dyn Fn(&mut dyn Write) -> io::Result<()>;

/// Links that are followed one after the other: the kernel's own limit.
const MAX_LINKS: u32 = 40;

impl BenchFile<'_> {
    /// Writes the file at `path` as the original would.
    pub fn save(&self, path: &Path) -> Result<(), CompatError> {
        replace(path, &|out| json::write(out, &self.plan)).map_err(|error| {
            let why = cannot_save(path, &error);
            CompatError::here(format!("{why}; what was there before still is"), hint(path, &error))
        })
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
            "a shorter name; while it is saved a name longer by 13 letters or more is next to it"
                .to_string()
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
        _ if error.to_string() == LOOP => format!("a link leads back to itself: readlink {name}"),
        _ if error.to_string() == NO_FILE => {
            format!("-f FILE names an ordinary file: ls -ld {name}")
        }
        _ => format!(
            "its folder must be writable and have room for a second copy: ls -ld {folder}; df {folder}"
        ),
    }
}

const LOOP: &str = "too many symbolic links";
const NO_FILE: &str = "it is no ordinary file";

/// Writes a temporary file, syncs, renames, syncs the folder.
pub(super) fn replace(path: &Path, write: Contents) -> io::Result<()> {
    let target = behind_links(path)?;
    let temporary = temporary(&target)?;
    let written = fill(&temporary, &target, write).and_then(|()| fs::rename(&temporary, &target));
    if let Err(error) = written {
        // Nothing of ours may stay; that it was never made is fine too.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    File::open(folder_of(&target))?.sync_all()
}

/// All of a save but its end: the temporary file is made, filled, synced and removed.
pub(super) fn rehearse(path: &Path, write: Contents) -> io::Result<()> {
    let target = behind_links(path)?;
    let temporary = temporary(&target)?;
    let filled = fill(&temporary, &target, write);
    let removed = match fs::remove_file(&temporary) {
        // If there is none, `filled` has the reason.
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    filled.and(removed)
}

/// Writes a file that is not there yet, synced, with the permissions of `old` where it is
/// given, else the saver's own.
pub(super) fn write_new(path: &Path, old: Option<&Metadata>, write: Contents) -> io::Result<()> {
    let made = create(path, old).and_then(|file| finish(file, old, write));
    if made.as_ref().is_err_and(|error| error.kind() != ErrorKind::AlreadyExists) {
        let _ = fs::remove_file(path);
    }
    made?;
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The name that `target` has while it is written.
fn temporary(target: &Path) -> io::Result<PathBuf> {
    let mut name = OsString::from(".");
    name.push(target.file_name().ok_or(ErrorKind::InvalidInput)?);
    name.push(format!(".{}.tmp", std::process::id()));
    Ok(folder_of(target).join(name))
}

fn fill(temporary: &Path, target: &Path, write: Contents) -> io::Result<()> {
    let old = match fs::metadata(target) {
        Ok(metadata) if metadata.is_file() => Some(metadata),
        Ok(_) => return Err(io::Error::other(NO_FILE)),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    // A dead process of the same number may have left one.
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    finish(create(temporary, old.as_ref())?, old.as_ref(), write)
}

fn create(path: &Path, old: Option<&Metadata>) -> io::Result<File> {
    // Until it has the old one's permissions nobody else may read it.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

fn finish(file: File, old: Option<&Metadata>, write: Contents) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, file);
    write(&mut out)?;
    let file = out.into_inner()?;
    if let Some(old) = old {
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            // Only root may give a file away; without that it is the saver's.
            let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
        }
        file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
    }
    file.sync_all()
}

/// The file that `path` means: links are followed, also to a file that is not there yet.
pub(super) fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        match fs::symlink_metadata(&target) {
            Ok(metadata) if metadata.is_symlink() => {
                let link = fs::read_link(&target)?;
                target = target.parent().unwrap_or(Path::new("")).join(link);
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => return Ok(target),
        }
    }
    Err(io::Error::other(LOOP))
}

#[cfg(test)]
mod tests;
