//! The folder of a plan: it is written under another name, and gets its own when all files are whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::super::error::{Fault, StoreError};
use super::target::ParquetTarget;

fn place(target: &ParquetTarget, id: &str) -> PathBuf {
    target.folder.join(format!("plan={id}"))
}

/// Fails where a plan is there that may not be replaced, before anything is written.
pub fn check(plans: &[(i64, String)], target: &ParquetTarget) -> Result<(), Fault> {
    let mut places = plans.iter().map(|(_, id)| place(target, id));
    match places.find(|place| !target.overwrite && place.symlink_metadata().is_ok()) {
        Some(path) => Err(StoreError::Exists { path }.into()),
        None => Ok(()),
    }
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
    let own = |what: &str| target.folder.join(format!(".{what}-{id}-{}", std::process::id()));
    let (new, old, place) = (own("unfinished"), own("replaced"), place(target, id));
    fs::create_dir_all(&target.folder).map_err(io_error("create", &target.folder))?;
    fs::create_dir(&new).map_err(io_error("create", &new))?;
    let unfinished = Unfinished(new.clone());
    let rows = fill(&new)?;
    let is_there = target.overwrite && place.symlink_metadata().is_ok();
    if is_there {
        fs::rename(&place, &old).map_err(io_error("replace", &place))?;
    }
    fs::rename(&new, &place).map_err(io_error("create", &place))?;
    std::mem::forget(unfinished);
    if is_there {
        fs::remove_dir_all(&old).map_err(io_error("remove", &old))?;
    }
    Ok(rows)
}

fn io_error<'a>(action: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> Fault + 'a {
    move |source| {
        let (action, path) = (action.to_string(), path.to_path_buf());
        StoreError::Io { action, path, source }.into()
    }
}
