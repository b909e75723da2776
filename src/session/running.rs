//! The plans that are being measured at this moment: each has a locked file in the state folder. The
//! kernel unlocks it when the process ends, however it ends.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::model::clean;
use crate::sys::{self, remedy};

use super::SessionError;

const PREFIX: &str = "running.";
const PATIENCE: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// `20261121-012345-3f9a`: sorts by time, and two in one second differ.
pub fn execution_id(unix_ns: u64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    let mix = (unix_ns ^ u64::from(std::process::id()).rotate_left(17))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{}-{:04x}", time.strftime("%Y%m%d-%H%M%S"), mix >> 48)
}

/// While it lives no other schedlab runs the plan.
pub fn hold(id: &str) -> Result<Running, SessionError> {
    let state = sys::state_dir()?;
    let running = Running::hold(&state, id).map_err(|error| {
        let text = format!("cannot write to {}: {error}", state.display());
        SessionError::here(text, remedy::write_own("XDG_STATE_HOME", &state, &error))
    })?;
    running.ok_or_else(|| {
        let text = format!("another schedlab is running the plan {}", clean(id));
        SessionError::here(text, "wait for it: pgrep -a schedlab")
    })
}

/// Held while a plan is measured.
pub struct Running {
    path: PathBuf,
    _lock: File,
}

impl Running {
    /// `None`: another process measures it.
    pub fn hold(state: &Path, id: &str) -> io::Result<Option<Running>> {
        fs::create_dir_all(state)?;
        remove_left(state);
        let path = place(state, id);
        let file = loop {
            let file = File::create(&path)?;
            if !lock(&file)? {
                return Ok(None);
            }
            // Between both another process may have taken it for one that is left.
            let there = fs::metadata(&path);
            if there.is_ok_and(|there| there.ino() == file.metadata().map_or(0, |own| own.ino())) {
                break file;
            }
        };
        Ok(Some(Running { path, _lock: file }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A file that stays is unlocked, and so means nothing.
        _ = fs::remove_file(&self.path);
    }
}

/// Whether it is ours now. Who only looks whether somebody holds it has it for a moment.
fn lock(file: &File) -> io::Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() > deadline => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

/// Removes what killed processes left.
fn remove_left(state: &Path) {
    let files = fs::read_dir(state).into_iter().flatten().flatten();
    let is_ours = |name: &std::ffi::OsStr| name.to_str().is_some_and(|of| of.starts_with(PREFIX));
    for file in files.filter(|file| is_ours(&file.file_name())) {
        let path = file.path();
        if File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            _ = fs::remove_file(path);
        }
    }
}

/// Whether a process measures this plan.
pub fn is_running(state: &Path, id: &str) -> bool {
    File::open(place(state, id))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Ids from outside must not act as paths: characters that a file name cannot have are replaced.
fn place(state: &Path, id: &str) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let name: String = id.chars().map(|c| if is_plain(c) { c } else { '_' }).take(100).collect();
    state.join(format!("{PREFIX}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_runs_while_its_lock_is_held() {
        let state = tempfile::tempdir().unwrap();
        let at = state.path();
        assert!(!is_running(at, "a"));
        let hold = |id: &str| Running::hold(at, id).unwrap();
        let running = hold("a").unwrap();
        assert!(is_running(at, "a") && !is_running(at, "b"));
        assert!(hold("a").is_none(), "one process alone measures it");
        drop(running);
        assert!(!is_running(at, "a"));
        // A killed process leaves its file.
        fs::write(place(at, "a"), "").unwrap();
        assert!(!is_running(at, "a"));
        fs::write(at.join("other"), "").unwrap();
        let running = hold("b").unwrap();
        let again = hold("c").unwrap();
        let there = |name: &str| at.join(name).exists();
        assert_eq!([there("running.a"), is_running(at, "b"), there("other")], [false, true, true]);
        drop((running, again));
        let elsewhere = place(at, "../../etc/x");
        assert_eq!(elsewhere.parent(), Some(at));
    }
}
