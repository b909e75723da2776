//! The files below a folder. Only reads.

use std::fs;
use std::path::{Path, PathBuf};

use super::KernelError;

/// All files in a folder and in the folders in it, in no order. Links are not followed: they could point out of it.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>, KernelError> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(KernelError::io("read", &folder))? {
            let entry = entry.map_err(KernelError::io("read", &folder))?;
            let kind = entry.file_type().map_err(KernelError::io("read", &folder))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}
