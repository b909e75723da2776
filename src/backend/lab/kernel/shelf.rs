//! A folder of complete folders: each is made under a name that begins with a dot, and renamed when it is
//! complete. Changes need the lock.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;

use super::KernelError;
use crate::sys::{self, replace::replace};

/// For callers that a signal ends at once.
pub static NEVER: AtomicBool = AtomicBool::new(false);
/// Interval between checks for a free lock and for a stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub struct Shelf {
    folder: PathBuf,
}

/// Held until it is dropped or the process ends for any reason.
pub struct Lock {
    file: File,
}

impl Lock {
    /// Programs that are started from now on hold the lock, too: it is free when the last of them has ended,
    /// even if this process is killed before.
    pub fn share_with_children(&self) -> io::Result<()> {
        sys::fork::inherit(&self.file)
    }
}

impl Shelf {
    pub fn at(folder: PathBuf) -> Shelf {
        Shelf { folder }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// `waiting` is called when another process holds the lock; the wait ends when `stop` is set.
    pub fn lock(&self, stop: &AtomicBool, waiting: &mut dyn FnMut()) -> Result<Lock, KernelError> {
        let path = self.folder.join(".lock");
        let mut waits = false;
        loop {
            let file = self.lock_file(&path)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => return Ok(Lock { file }),
                // Another process has removed the folder with the file.
                Ok(()) => continue,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    return Err(KernelError::io("lock", &path)(error));
                }
            }
            if !std::mem::replace(&mut waits, true) {
                waiting();
            }
            if stop.load(Ordering::SeqCst) {
                return Err(KernelError::Interrupted);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn lock_file(&self, path: &Path) -> Result<File, KernelError> {
        let folder = &self.folder;
        fs::create_dir_all(folder).map_err(KernelError::io("make the folder", folder))?;
        let file = File::options().create(true).append(true).open(path);
        file.map_err(KernelError::io("open", path))
    }

    /// Makes an empty folder that is removed when it is dropped. First removes the folder of a killed process.
    pub fn scratch(&self, _held: &Lock) -> Result<Scratch, KernelError> {
        for name in [".new", ".old"] {
            remove_if_there(&self.folder.join(name))?;
        }
        let path = self.folder.join(".new");
        fs::create_dir(&path).map_err(KernelError::io("make the folder", &path))?;
        Ok(Scratch { path })
    }

    /// Gives a complete folder its name, and replaces an older one of this name.
    pub fn put(&self, new: &Path, entry: &Path, held: &Lock) -> Result<(), KernelError> {
        if entry.symlink_metadata().is_ok() {
            self.remove(entry, held)?;
        }
        fs::rename(new, entry).map_err(KernelError::io("rename to", entry))
    }

    /// Atomically: renames the folder before it removes the files.
    pub fn remove(&self, entry: &Path, _held: &Lock) -> Result<(), KernelError> {
        let old = self.folder.join(".old");
        remove_if_there(&old)?;
        fs::rename(entry, &old).map_err(KernelError::io("remove", entry))?;
        fs::remove_dir_all(&old).map_err(KernelError::io("remove", &old))
    }

    /// Removes all folders. The file of the lock stays: others may wait for it.
    pub fn clear(&self, _held: &Lock) -> Result<(), KernelError> {
        let entries = fs::read_dir(&self.folder).map_err(KernelError::io("read", &self.folder))?;
        let paths = entries.flatten().map(|entry| entry.path());
        paths.filter(|path| path.is_dir()).try_for_each(|path| remove_if_there(&path))
    }

    /// Folders with a plain name.
    pub fn folders(&self) -> Result<Vec<PathBuf>, KernelError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if sys::is_absent(&self.folder, &error) => return Ok(Vec::new()),
            entries => entries.map_err(KernelError::io("read", &self.folder))?,
        };
        let mut folders = Vec::new();
        for entry in entries {
            let path = entry.map_err(KernelError::io("read", &self.folder))?.path();
            let is_hidden = |path: &Path| {
                path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'))
            };
            if !is_hidden(&path) {
                folders.push(path);
            }
        }
        Ok(folders)
    }
}

/// Writes lines of JSON, whole or not at all.
pub fn write_json(path: &Path, content: &impl Serialize) -> Result<(), KernelError> {
    let write = |out: &mut dyn Write| {
        serde_json::to_writer_pretty(&mut *out, content)?;
        out.write_all(b"\n")
    };
    replace(path, write).map_err(KernelError::io("write", path))
}

/// Whether the path still names this file.
fn is_at(file: &File, path: &Path) -> bool {
    let number = |metadata: io::Result<fs::Metadata>| metadata.map(|found| found.ino()).ok();
    number(file.metadata()) == number(path.metadata())
}

pub fn remove_if_there(folder: &Path) -> Result<(), KernelError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(KernelError::io("remove", folder)(error))
        }
        _ => Ok(()),
    }
}

/// Removed when it goes out of scope, also if a step fails.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next one removes what this one could not.
        let _ = fs::remove_dir_all(&self.path);
    }
}
