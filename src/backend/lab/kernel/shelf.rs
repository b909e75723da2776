//! A folder of folders, each of which is whole: made under a name that begins with a dot, and
//! renamed when it is complete. Changes need the lock.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::KernelError;

pub struct Shelf {
    folder: PathBuf,
}

/// Held until it is dropped, or the process ends however it does.
pub struct Lock {
    _file: File,
}

impl Shelf {
    pub fn at(folder: PathBuf) -> Shelf {
        Shelf { folder }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// `waiting` is called when another process holds the lock.
    pub fn lock(&self, waiting: &mut dyn FnMut()) -> Result<Lock, KernelError> {
        let folder = &self.folder;
        fs::create_dir_all(folder).map_err(KernelError::io("make the folder", folder))?;
        let path = folder.join(".lock");
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(KernelError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waiting();
                file.lock().map_err(KernelError::io("lock", &path))?;
            }
            Err(TryLockError::Error(error)) => return Err(KernelError::io("lock", &path)(error)),
        }
        Ok(Lock { _file: file })
    }

    /// An empty folder, removed when it is dropped. First removes that of a killed process.
    pub fn scratch(&self, _held: &Lock) -> Result<Scratch, KernelError> {
        for name in [".new", ".old"] {
            remove_if_there(&self.folder.join(name))?;
        }
        let path = self.folder.join(".new");
        fs::create_dir(&path).map_err(KernelError::io("make the folder", &path))?;
        Ok(Scratch { path })
    }

    /// Gives a complete folder its name, in place of one that had it.
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

    /// Folders with a plain name.
    pub fn folders(&self) -> Result<Vec<PathBuf>, KernelError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
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
