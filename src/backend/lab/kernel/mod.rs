//! Kernels for the lab: Debian's, fetched into a cache, and any bzImage by its path.
//!
//! [`find`] reads the cache and the file system alone; [`Mirror`] asks the machine's package
//! mirror. Commands and errors: docs/lab.md.

mod apt;
mod boot;
mod bzimage;
mod cache;
mod digest;
mod error;
mod get;
mod modules;
mod name;
mod payload;
mod scheduler;
mod sources;
mod version;

use std::fs;
use std::path::{Path, PathBuf};

use crate::model::Reading;

pub use boot::Boot;
pub use cache::{Cache, Entry, Stamp};
pub use error::KernelError;
pub use get::{Available, How, Mirror, Step};
pub use name::{Flavour, Name, NameFault};

/// A kernel that can be booted, with all its files checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// `debian:6.18.15`, or the path that was given.
    pub name: String,
    /// As `uname -r` prints it.
    pub release: String,
    /// The whole version line of the image.
    pub version: String,
    /// `None` for a user's own kernel.
    pub package: Option<Package>,
    pub image: PathBuf,
    pub config: Option<PathBuf>,
    pub modules: Option<PathBuf>,
    /// SHA-256 over image, configuration and the modules of [`Kernel::modules_in_order`]:
    /// kernels with the same digest behave alike. In hexadecimal.
    pub digest: String,
}

/// The package of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    pub name: String,
    pub version: String,
}

impl Kernel {
    /// The modules that a guest can need, in an order in which they can be loaded.
    pub fn modules_in_order(&self) -> Result<Vec<PathBuf>, KernelError> {
        self.modules.as_deref().map_or(Ok(Vec::new()), modules::few)
    }

    /// The scheduler of ordinary tasks, by version and configuration.
    pub fn scheduler(&self) -> Reading<&'static str> {
        scheduler::family(&self.release, self.config_text().as_deref())
    }

    /// Whether schedulers can be loaded as BPF programs.
    pub fn sched_ext(&self) -> Reading<bool> {
        scheduler::sched_ext(self.config_text().as_deref())
    }

    fn config_text(&self) -> Option<String> {
        let bytes = fs::read(self.config.as_ref()?).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The newest kernel of this name in the cache, or the one at this path.
pub fn find(name: &str) -> Result<Kernel, KernelError> {
    match Name::parse(name) {
        Some(Ok(name)) => find_in(&Cache::open()?, &name),
        Some(Err(why)) => Err(KernelError::Name { name: name.to_string(), why }),
        None if name.contains('/') || Path::new(name).exists() => {
            image(Path::new(name), None, None)
        }
        None => Err(KernelError::Name { name: name.to_string(), why: NameFault::NoFile }),
    }
}

fn find_in(cache: &Cache, name: &Name) -> Result<Kernel, KernelError> {
    match cache.newest(name)? {
        Some(entry) => entry.kernel(),
        None => Err(not_cached(cache, name)?),
    }
}

/// The error, with the names of the kernels that are cached.
fn not_cached(cache: &Cache, name: &Name) -> Result<KernelError, KernelError> {
    let mut cached: Vec<String> =
        cache.entries()?.iter().map(|entry| entry.name.to_string()).collect();
    cached.dedup();
    Ok(KernelError::NotCached { name: name.to_string(), cache: cache.kernels(), others: cached })
}

/// A user's own kernel. Without `config` and `modules`, those next to it: `.config`,
/// `config-RELEASE`, `config` or the build tree's `.config`, and a folder `modules`.
pub fn image(
    path: &Path,
    config: Option<&Path>,
    modules: Option<&Path>,
) -> Result<Kernel, KernelError> {
    let header = bzimage::read(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let config = match config {
        Some(given) => Some(given.to_path_buf()),
        None => config_next_to(folder, &header.release),
    };
    let modules = match modules {
        Some(given) => Some(given.to_path_buf()),
        None => Some(folder.join("modules")).filter(|folder| folder.is_dir()),
    };
    let few = modules.as_deref().map_or(Ok(Vec::new()), modules::few)?;
    let digest = digest::of_kernel(path, config.as_deref(), &few)?;
    Ok(Kernel {
        name: path.to_string_lossy().into_owned(),
        release: header.release,
        version: header.version,
        package: None,
        image: path.to_path_buf(),
        config,
        modules,
        digest,
    })
}

fn config_next_to(folder: &Path, release: &str) -> Option<PathBuf> {
    let names = [".config".to_string(), format!("config-{release}"), "config".to_string()];
    let configs = names.iter().map(|name| folder.join(name));
    let is_build_tree = folder.ends_with("arch/x86/boot") || folder.ends_with("arch/x86_64/boot");
    let root = is_build_tree.then(|| folder.join("../../../.config"));
    configs.chain(root).find(|path| path.is_file())
}

/// Removes every kernel of this name; returns those that it removed.
pub fn remove(
    cache: &Cache,
    name: &Name,
    waiting: &mut dyn FnMut(),
) -> Result<Vec<Entry>, KernelError> {
    let held = cache.lock(waiting)?;
    let mut entries = cache.entries()?;
    entries.retain(|entry| name.matches(&entry.release, &entry.package_version));
    if entries.is_empty() {
        return Err(not_cached(cache, name)?);
    }
    entries.iter().try_for_each(|entry| cache.remove(&entry.folder, &held))?;
    Ok(entries)
}

/// Removes every kernel, unpacked images of others, and apt's lists.
pub fn remove_all(cache: &Cache, waiting: &mut dyn FnMut()) -> Result<Vec<Entry>, KernelError> {
    let held = cache.lock(waiting)?;
    let entries = cache.entries()?;
    entries.iter().try_for_each(|entry| cache.remove(&entry.folder, &held))?;
    drop(cache.scratch(&held)?);
    for folder in [cache.apt(), cache.vmlinux()] {
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(KernelError::io("remove", &folder)(error));
            }
            _ => {}
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests;
