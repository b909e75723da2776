//! The files of a hypervisor in the folder of a cached kernel: the hypervisor itself, and the
//! programs and libraries by which its first domain makes guests.
//!
//! Only reads.

use std::path::{Path, PathBuf};

use super::walk::files_below;
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
        collect(&self.tools, Path::new("/"))
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
    let tools = collect(&folder.join(TOOLS), Path::new(TOOLS))?;
    files.extend(tools.into_iter().map(|(name, path)| (name.to_string_lossy().into(), path)));
    for module in kept.map_or(Ok(Vec::new()), modules::of_xen)? {
        let name = module.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push((name, module));
    }
    Ok(files)
}

/// All files in a folder by their names below `root`, in order.
fn collect(folder: &Path, root: &Path) -> Result<Vec<(PathBuf, PathBuf)>, KernelError> {
    let named = |path: PathBuf| (root.join(path.strip_prefix(folder).unwrap_or(&path)), path);
    let mut all: Vec<_> = files_below(folder)?.into_iter().map(named).collect();
    all.sort();
    Ok(all)
}
