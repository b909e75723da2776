//! Which plans are being measured at this moment: each has a locked file in the state folder. The
//! kernel unlocks it when the process ends, however it ends.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Held while a plan is measured.
pub struct Running {
    path: PathBuf,
    _lock: File,
}

impl Running {
    pub fn hold(state: &Path, id: &str) -> io::Result<Running> {
        fs::create_dir_all(state)?;
        let path = place(state, id);
        let file = File::create(&path)?;
        file.lock()?;
        Ok(Running { path, _lock: file })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A file that stays is unlocked, and so means nothing.
        _ = fs::remove_file(&self.path);
    }
}

/// Whether a process measures this plan.
pub fn is_running(state: &Path, id: &str) -> bool {
    File::open(place(state, id))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
}

/// Ids from outside are no paths: what a file name cannot have is replaced.
fn place(state: &Path, id: &str) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let name: String = id.chars().map(|c| if is_plain(c) { c } else { '_' }).take(100).collect();
    state.join(format!("running.{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_runs_while_its_lock_is_held() {
        let state = tempfile::tempdir().unwrap();
        let at = state.path();
        assert!(!is_running(at, "a"));
        let running = Running::hold(at, "a").unwrap();
        assert!(is_running(at, "a") && !is_running(at, "b"));
        drop(running);
        assert!(!is_running(at, "a"));
        // What a killed process leaves.
        fs::write(place(at, "a"), "").unwrap();
        assert!(!is_running(at, "a"));
        let elsewhere = place(at, "../../etc/x");
        assert_eq!(elsewhere.parent(), Some(at));
    }
}
