//! The folder of a plan: it is written under another name, and gets its own when all files are whole.
//!
//! A folder that is being written is locked as long as its writer lives, so the next export finds what a
//! killed one left, and removes it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::super::error::{Fault, StoreError};
use super::target::ParquetTarget;

/// The prefix of folders that do not yet belong to a plan, or no longer do.
const UNFINISHED: &str = ".unfinished-";
const REPLACED: &str = ".replaced-";

fn place(target: &ParquetTarget, id: &str) -> PathBuf {
    target.folder.join(format!("plan={id}"))
}

/// Fails where a plan is there that may not be replaced, before anything is written. Removes what a killed
/// export left.
pub fn check(plans: &[(i64, String)], target: &ParquetTarget) -> Result<(), Fault> {
    for left in fs::read_dir(&target.folder).into_iter().flatten().flatten() {
        let name = left.file_name();
        remove_left(&left.path(), &name.to_string_lossy(), target)?;
    }
    let mut places = plans.iter().map(|(_, id)| place(target, id));
    match places.find(|place| !target.overwrite && place.symlink_metadata().is_ok()) {
        Some(path) => Err(StoreError::Exists { path }.into()),
        None => Ok(()),
    }
}

fn remove_left(left: &Path, name: &str, target: &ParquetTarget) -> Result<(), Fault> {
    let replaced = name.strip_prefix(REPLACED);
    let is_folder = left.symlink_metadata().is_ok_and(|found| found.is_dir());
    if replaced.is_none() && !name.starts_with(UNFINISHED) || !is_folder || is_locked(left) {
        return Ok(());
    }
    // Killed in between: the plan is there under the old name alone.
    if let Some((id, _)) = replaced.and_then(|rest| rest.rsplit_once('-'))
        && place(target, id).symlink_metadata().is_err()
    {
        return fs::rename(left, place(target, id)).map_err(io_error("bring back", left));
    }
    fs::remove_dir_all(left).map_err(io_error("remove", left))
}

/// By another process that lives. A file system without locks keeps what is left.
fn is_locked(folder: &Path) -> bool {
    File::open(folder).is_ok_and(|folder| folder.try_lock().is_err())
}

fn lock(folder: &Path) -> Option<File> {
    let locked = File::open(folder).ok()?;
    locked.lock().ok()?;
    Some(locked)
}

/// Removes what a failed export has written.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Nothing is lost with it.
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Lets `fill` write into a folder that becomes that of plan `id`.
pub fn write(
    id: &str,
    target: &ParquetTarget,
    fill: &mut dyn FnMut(&Path) -> Result<u64, Fault>,
) -> Result<u64, Fault> {
    let own = |what: &str| target.folder.join(format!("{what}{id}-{}", std::process::id()));
    let (new, old, place) = (own(UNFINISHED), own(REPLACED), place(target, id));
    fs::create_dir_all(&target.folder).map_err(io_error("create", &target.folder))?;
    fs::create_dir(&new).map_err(io_error("create", &new))?;
    // Once it has its own name, nothing is there under this one.
    let _unfinished = Unfinished(new.clone());
    let _writing = lock(&new);
    let rows = fill(&new)?;
    let is_there = target.overwrite && place.symlink_metadata().is_ok();
    let _replacing = lock(&place);
    if is_there {
        fs::rename(&place, &old).map_err(io_error("replace", &place))?;
    }
    let placed = fs::rename(&new, &place);
    if placed.is_err() && is_there {
        // Where this fails too, the next export brings it back.
        _ = fs::rename(&old, &place);
    }
    placed.map_err(io_error("create", &place))?;
    if is_there {
        fs::remove_dir_all(&old).map_err(io_error("remove", &old))?;
    }
    Ok(rows)
}

fn io_error<'a>(action: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Fault + 'a {
    move |source| StoreError::io(action, path)(source).into()
}
