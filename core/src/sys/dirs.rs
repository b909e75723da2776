//! The folders in which schedlab keeps its files, by XDG.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use etcetera::{BaseStrategy, HomeDirError, choose_base_strategy};

use super::call::checked;
use super::tty;

/// Why there is no folder to keep something in.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("no home folder: {0}")]
    NoHome(#[from] HomeDirError),
    #[error("no folder for state: set XDG_STATE_HOME")]
    NoState,
}

/// Whether opening or reading `path` failed because nothing is there, also where something above it is not a
/// folder.
pub fn is_absent(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound => true,
        io::ErrorKind::NotADirectory => path.symlink_metadata().is_err(),
        _ => false,
    }
}

/// The folder of journals: `$XDG_STATE_HOME/schedlab`.
pub fn state_dir() -> Result<PathBuf, FolderError> {
    let state = choose_base_strategy()?.state_dir().ok_or(FolderError::NoState)?;
    Ok(state.join("schedlab"))
}

/// The folder of files that can be downloaded or made again: `$XDG_CACHE_HOME/schedlab`.
pub fn cache_dir() -> Result<PathBuf, FolderError> {
    Ok(choose_base_strategy()?.cache_dir().join("schedlab"))
}

/// The folder of a user's configuration: `$XDG_CONFIG_HOME/schedlab`.
pub fn config_dir() -> Result<PathBuf, FolderError> {
    Ok(choose_base_strategy()?.config_dir().join("schedlab"))
}

/// The folder in which `man` looks for the pages of this user's programs: `$XDG_DATA_HOME/man/man1`.
pub fn man_dir() -> Result<PathBuf, FolderError> {
    Ok(choose_base_strategy()?.data_dir().join("man/man1"))
}

/// The bytes that this user may still write to the file system of a folder. The folder need not exist yet.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let existing = folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    let path = CString::new(existing.as_os_str().as_bytes())?;
    // SAFETY: statvfs is plain data, for which zero is valid.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in a zero, and `found` is valid for the call to fill.
    checked(unsafe { libc::statvfs(path.as_ptr(), &mut found) })?;
    Ok(found.f_bavail * found.f_frsize)
}

/// Columns of the terminal on standard output.
pub fn terminal_columns() -> Option<usize> {
    let [columns, _] = tty::size(&io::stdout()).ok()?;
    (columns > 0).then_some(usize::from(columns))
}
