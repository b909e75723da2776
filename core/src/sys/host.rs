//! The machine's files: /proc, /sys and the cgroup trees, below a root that tests replace.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use super::input;
use crate::model::Reading;

/// A machine seen through its files. `root` is `/` but in tests, which lay out a tree.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Host::below("/")
    }
}

impl Host {
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Host { root: root.into() }
    }

    /// The place of `path` (absolute, as on a real machine) below this root.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a file, without the newline at its end.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let text = input::kernel_file(self.path(path))?;
        let text = lossy(&text);
        Ok(text.strip_suffix('\n').unwrap_or(&text).to_string())
    }

    /// Like [`Host::read`]; the error names the file.
    pub fn text(&self, path: impl AsRef<Path>) -> Result<String, FileError> {
        let path = path.as_ref();
        self.read(path).map_err(|source| FileError { path: path.to_path_buf(), source })
    }

    /// Like [`Host::text`]; the reason is the error's sentence.
    pub fn reading(&self, path: impl AsRef<Path>) -> Reading<String> {
        match self.text(path) {
            Ok(text) => Reading::Known(text),
            Err(error) => Reading::Unknown(error.to_string()),
        }
    }

    /// This process's effective capabilities as a bit mask.
    pub fn capabilities(&self) -> Reading<u64> {
        let path = "/proc/self/status";
        self.reading(path).and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
            let mask = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
            Reading::from_option(mask, format!("{path}: no `CapEff:` with a hexadecimal mask"))
        })
    }
}

/// A text, with a mark in place of each byte that is not UTF-8. In nearly all there is none, and to find that out is
/// much cheaper than to replace them.
pub fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// A file of the machine that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", .path.display(), error_text(.source))]
pub struct FileError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// An I/O error in the words of the system, with its symbolic name where a knob's user
/// looks for it: `EPERM`, `EACCES`, `EROFS`, `ENOENT`.
pub fn error_text(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => "EPERM, not permitted".to_string(),
        Some(libc::EACCES) => "EACCES, permission denied".to_string(),
        Some(libc::EROFS) => "EROFS, read-only file system".to_string(),
        Some(libc::ENOENT) => "ENOENT, not there".to_string(),
        _ => error.to_string(),
    }
}
