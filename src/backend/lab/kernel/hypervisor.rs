//! The files of a hypervisor in the folder of a cached kernel: the hypervisor itself, and the
//! programs and libraries by which its first domain makes guests.
//!
//! Only reads.

use std::fs;
use std::path::{Path, PathBuf};

use super::{KernelError, modules};

/// The hypervisor, unpacked: an ELF file.
pub const IMAGE: &str = "xen";
/// The tools, by the paths that they have in the first domain.
pub const TOOLS: &str = "xen-tools";

/// A hypervisor that a kernel is booted under.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypervisor {
    /// The version of its package.
    pub version: String,
    /// An ELF file that QEMU boots.
    pub image: PathBuf,
    /// The folder of the tools.
    pub tools: PathBuf,
}

impl Hypervisor {
    /// The tools by their absolute paths in the first domain, each with its file here; in order.
    pub fn tools(&self) -> Result<Vec<(PathBuf, PathBuf)>, KernelError> {
        let mut tools = Vec::new();
        collect(&self.tools, Path::new("/"), &mut tools)?;
        tools.sort();
        Ok(tools)
    }
}

/// All files of the hypervisor in the folder of a kernel by their names there, in order; none if the
/// kernel has no hypervisor. The modules are those that the kernel alone does not need.
pub fn files(folder: &Path, kept: Option<&Path>) -> Result<Vec<(String, PathBuf)>, KernelError> {
    let image = folder.join(IMAGE);
    if !image.is_file() {
        return Ok(Vec::new());
    }
    let mut files = vec![(IMAGE.to_string(), image)];
    let mut tools = Vec::new();
    collect(&folder.join(TOOLS), Path::new(TOOLS), &mut tools)?;
    tools.sort();
    files.extend(tools.into_iter().map(|(name, path)| (name.to_string_lossy().into(), path)));
    for module in kept.map_or(Ok(Vec::new()), modules::of_xen)? {
        let name = module.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push((name, module));
    }
    Ok(files)
}

/// Files alone: a link could point out of the folder.
fn collect(
    folder: &Path,
    name: &Path,
    all: &mut Vec<(PathBuf, PathBuf)>,
) -> Result<(), KernelError> {
    for entry in fs::read_dir(folder).map_err(KernelError::io("read", folder))? {
        let entry = entry.map_err(KernelError::io("read", folder))?;
        let kind = entry.file_type().map_err(KernelError::io("read", folder))?;
        let name = name.join(entry.file_name());
        if kind.is_dir() {
            collect(&entry.path(), &name, all)?;
        } else if kind.is_file() {
            all.push((name, entry.path()));
        }
    }
    Ok(())
}
