//! A tree with only the files that patches name: enough to check whether the patches fit.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::super::KernelError;
use super::error::BuildError;
use super::patch::Patch;
use super::tree::Tree;

/// Sources without patches.
pub enum Pristine<'a> {
    Folder(PathBuf),
    Tree(&'a Tree),
}

impl Pristine<'_> {
    /// Writes the files of these names into an empty folder, and makes those that are folders.
    pub fn extract(
        &self,
        names: &BTreeSet<&str>,
        into: &Path,
        stop: &AtomicBool,
    ) -> Result<(), BuildError> {
        match self {
            Self::Folder(folder) => copy(folder, names, into),
            Self::Tree(tree) => tree.extract(names, into, stop),
        }
    }

    /// Whether the files are known to belong to this commit.
    pub fn is_commit(&self, commit: &str, stop: &AtomicBool) -> Result<bool, BuildError> {
        match self {
            Self::Folder(_) => Ok(false),
            Self::Tree(tree) => tree.is_commit(commit, stop),
        }
    }
}

/// The names that `patch` may look for: with and without their first folder, and the folders that
/// they are in.
pub fn names(patches: &[Patch]) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for name in patches.iter().flat_map(|patch| &patch.names) {
        for name in [Some(name.as_str()), name.split_once('/').map(|(_, rest)| rest)] {
            names.extend(name);
            names.extend(name.and_then(|name| name.rsplit_once('/')).map(|(folder, _)| folder));
        }
    }
    names.remove("");
    names
}

fn copy(tree: &Path, names: &BTreeSet<&str>, into: &Path) -> Result<(), BuildError> {
    for name in names {
        let (from, to) = (tree.join(name), into.join(name));
        // `patch` does not follow a link.
        let Ok(found) = from.symlink_metadata() else { continue };
        let folder = if found.is_dir() { Some(to.as_path()) } else { to.parent() };
        if let Some(folder) = folder.filter(|_| found.is_dir() || found.is_file()) {
            fs::create_dir_all(folder).map_err(KernelError::io("make the folder", folder))?;
        }
        if found.is_file() {
            fs::copy(&from, &to).map_err(KernelError::io("copy", &from))?;
        }
    }
    Ok(())
}
