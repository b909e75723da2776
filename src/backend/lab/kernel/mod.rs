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
mod image;
mod modules;
mod name;
mod payload;
mod plain;
mod scheduler;
mod sources;
mod stamp;
mod version;

use std::fs;
use std::path::Path;

pub use boot::Boot;
pub use cache::{Cache, Entry};
pub use error::KernelError;
pub use get::{Available, How, Mirror, Step};
pub use image::{Kernel, Package, image};
pub use name::{Flavour, Name, NameFault};
pub use stamp::Stamp;

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

/// Those of these names that can be fetched and are not in the cache.
pub fn missing<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<&'a str>, KernelError> {
    let cache = Cache::open()?;
    let mut missing = Vec::new();
    for name in names {
        if let Some(Ok(parsed)) = Name::parse(name)
            && cache.newest(&parsed)?.is_none()
        {
            missing.push(name);
        }
    }
    Ok(missing)
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
