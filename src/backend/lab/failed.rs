//! Consoles of guests that failed, kept until newer ones replace them: a folder of files whose
//! names sort by age.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// Consoles of other processes that are kept. This process keeps all of its own: the reasons of its failures
/// name them.
const MAX_KEPT: usize = 20;

/// Distinguishes consoles that one process keeps in the same millisecond.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Copies `console` into `folder`. `None` if it is empty or missing.
pub fn keep(folder: &Path, console: &Path) -> io::Result<Option<PathBuf>> {
    if fs::metadata(console).map_or(0, |file| file.len()) == 0 {
        return Ok(None);
    }
    fs::create_dir_all(folder)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Relaxed));
    let path = folder.join(format!("{:015}-{process}-{number:04}.log", since.as_millis()));
    fs::copy(console, &path).inspect_err(|_| _ = fs::remove_file(&path))?;
    let mut kept: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|file| file.path()).collect();
    let own = format!("-{process}-");
    kept.retain(|file| !file.to_string_lossy().contains(&own));
    kept.sort();
    for old in &kept[..kept.len().saturating_sub(MAX_KEPT)] {
        // Another schedlab may have removed it.
        _ = fs::remove_file(old);
    }
    Ok(Some(path))
}

/// The end of a console for the reason of a failure; Display makes it the end of a sentence.
#[derive(Debug, Clone)]
pub struct ConsoleEnd {
    /// On one line.
    pub last_lines: String,
    pub kept: Kept,
}

/// Where the whole console is kept.
#[derive(Debug, Clone)]
pub enum Kept {
    At(PathBuf),
    /// It was empty.
    Nowhere,
    Failed(Arc<io::Error>),
}

impl ConsoleEnd {
    pub fn path(&self) -> Option<&Path> {
        match &self.kept {
            Kept::At(path) => Some(path),
            Kept::Nowhere | Kept::Failed(_) => None,
        }
    }
}

impl fmt::Display for ConsoleEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last_lines.as_str() {
            "" => write!(f, "; its console is empty")?,
            lines => write!(f, "; the end of its console: {lines}")?,
        }
        match &self.kept {
            Kept::At(path) => write!(f, "; all of it: {}", path.display()),
            Kept::Nowhere => Ok(()),
            Kept::Failed(error) => write!(f, "; it cannot be kept: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_consoles_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, console) = (dir.path().join("failed"), dir.path().join("console"));
        assert_eq!(keep(&folder, &console).unwrap(), None, "there is none");
        fs::write(&console, "").unwrap();
        assert_eq!(keep(&folder, &console).unwrap(), None, "it is empty");
        fs::create_dir(&folder).unwrap();
        let of_other_process = |number| folder.join(format!("{number:015}-1-0000.log"));
        (0..MAX_KEPT + 3).for_each(|number| fs::write(of_other_process(number), "old").unwrap());
        let own = ["first", "second"].map(|text| {
            fs::write(&console, text).unwrap();
            keep(&folder, &console).unwrap().unwrap()
        });
        assert_eq!(fs::read_dir(&folder).unwrap().count(), MAX_KEPT + own.len());
        assert!((0..3).all(|number| !of_other_process(number).exists()));
        assert_eq!(own.map(|path| fs::read_to_string(path).unwrap()), ["first", "second"]);
    }
}
