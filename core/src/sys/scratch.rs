//! Temporary folders of a run's programs: all below one of the process that executes the run, so
//! that who started that process can remove it, however it ended.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::abandoned::lives;
use super::command::User;

const PREFIX: &str = "schedlab-run-";

/// Removed when dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// A new one, of this user.
    pub fn new(owner: Option<User>) -> io::Result<Folder> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let root = of_process(std::process::id() as i32);
        let number = MADE.fetch_add(1, Relaxed);
        // The first folder of a process makes the one that holds all of them; nobody else can have made it.
        match DirBuilder::new().mode(0o711).create(&root) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ if !is_own(&root) => return Err(io::ErrorKind::PermissionDenied.into()),
            _ => {}
        }
        let path = root.join(number.to_string());
        DirBuilder::new().mode(0o700).create(&path)?;
        let folder = Folder { path };
        if let Some(User { uid, gid }) = owner {
            std::os::unix::fs::chown(&folder.path, Some(uid), Some(gid))?;
        }
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.path);
        // The last one removes the folder that held all.
        _ = self.path.parent().map(fs::remove_dir);
    }
}

/// A folder of this user on this machine alone, where a home may be one that machines share. It outlives
/// a reboot.
pub fn of_machine() -> io::Result<PathBuf> {
    // SAFETY: it has no argument and cannot fail.
    let user = unsafe { libc::geteuid() };
    let path = Path::new("/var/tmp").join(format!("schedlab-{user}"));
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ if !is_own(&path) => Err(io::ErrorKind::PermissionDenied.into()),
        _ => Ok(path),
    }
}

/// Whether a file is in such a folder, and goes away with a process.
pub fn holds(file: &Path) -> bool {
    let is_one = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(PREFIX);
    file.ancestors().skip(1).filter_map(Path::file_name).any(is_one)
}

fn of_process(pid: i32) -> PathBuf {
    temporary().join(format!("{PREFIX}{pid}"))
}

/// Programs are executed in other folders: the path begins at the root.
fn temporary() -> PathBuf {
    std::path::absolute(std::env::temp_dir()).unwrap_or_else(|_| PathBuf::from("/tmp"))
}

/// A folder of this user, and no link to one.
fn is_own(path: &Path) -> bool {
    // SAFETY: reads a number.
    let own = unsafe { libc::geteuid() };
    fs::symlink_metadata(path).is_ok_and(|about| about.is_dir() && about.uid() == own)
}

/// Removes the folders of a process that has ended.
pub fn remove_of(pid: i32) {
    let path = of_process(pid);
    if is_own(&path) {
        _ = fs::remove_dir_all(path);
    }
}

/// Removes the folders of all processes that have ended, as where schedlab was killed; returns them.
pub fn remove_abandoned() -> Vec<PathBuf> {
    let entries = fs::read_dir(temporary()).into_iter().flatten().flatten();
    let pid = |name: &str| name.strip_prefix(PREFIX).and_then(|pid| pid.parse::<i32>().ok());
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let dead = names.filter_map(|name| pid(&name)).filter(|pid| !lives(*pid));
    let left = dead.filter(|pid| is_own(&of_process(*pid)));
    left.inspect(|pid| remove_of(*pid)).map(of_process).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_with_all_that_is_in_it() {
        let folder = Folder::new(None).unwrap();
        let other = Folder::new(None).unwrap();
        assert!(holds(&folder.path().join("check.db")));
        assert!(!holds(&temporary().join("schedlab-run-1")), "a file of this name");
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a/b"), "c").unwrap();
        let path = folder.path().to_path_buf();
        assert_ne!(path, other.path());
        drop(folder);
        assert!(!path.exists() && other.path().exists());
    }

    #[test]
    fn what_the_dead_left_is_removed() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = child.id() as i32;
        // Ended, and not collected.
        while lives(dead) {
            std::thread::yield_now();
        }
        let (left, alive) = (of_process(dead), of_process(1));
        fs::create_dir_all(left.join("0/a")).unwrap();
        fs::create_dir_all(&alive).unwrap();
        assert!(remove_abandoned().contains(&left));
        let is_there = (left.exists(), alive.exists());
        fs::remove_dir(&alive).unwrap();
        child.wait().unwrap();
        assert_eq!(is_there, (false, true));
    }
}
