//! Kernels for the lab: Debian's, fetched into a cache, alone or with a hypervisor that they are
//! booted under, those that are built here, and any bzImage by its path.
//!
//! [`find`] reads the cache and the file system alone; [`Mirror`] asks the machine's package
//! mirror; [`build`] builds. Commands and errors: docs/lab.md and docs/kernel-build.md.

mod apt;
mod boot;
pub mod build;
mod bzimage;
mod cache;
mod config;
mod digest;
mod error;
mod get;
mod hypervisor;
mod image;
mod modules;
mod name;
mod offer;
mod payload;
mod repack;
mod scheduler;
mod shelf;
mod sources;
mod stamp;
mod tools;
mod version;
mod walk;
mod xen;

use std::path::Path;

use shelf::{NEVER, Shelf};

use crate::model::Lab;
pub use crate::model::clean as plain;
pub use boot::Boot;
pub use cache::{Cache, Entry, Identity, Packaged};
pub use config::{
    Configuration, Difference, Lost, Setting, Topic, Wanted, WantedFault, differences,
};
pub use digest::of_bytes as sha256;
pub use error::KernelError;
pub use get::{How, Mirror, Reach, Step};
pub use hypervisor::Hypervisor;
pub use image::{Kernel, Origin, Package, image};
pub use name::{BuiltFault, BuiltName, CachedName, Family, Flavour, Name, NameFault};
pub use offer::Available;
pub use stamp::{AppliedPatch, Built, Provenance, Stamp};

/// Whether guests can be started on this machine.
pub fn check_host() -> Result<(), KernelError> {
    if Lab::is_here() { Ok(()) } else { Err(KernelError::Architecture(std::env::consts::ARCH)) }
}

/// The newest kernel of this name in the cache, or the one at this path.
pub fn find(name: &str) -> Result<Kernel, KernelError> {
    let wrong = |why| KernelError::Name { name: name.to_string(), why };
    match CachedName::parse(name) {
        Ok(fetched @ CachedName::Fetched(_)) => find_in(&Cache::open()?, &fetched),
        Ok(built) => match Cache::open()?.newest(&built)? {
            Some(entry) => entry.kernel(),
            None if Path::new(name).exists() => image(Path::new(name), None, None),
            None => Err(wrong(NameFault::NoFile)),
        },
        Err(why) if CachedName::is_meant(name) => Err(wrong(why)),
        Err(_) if name.contains('/') || Path::new(name).exists() => {
            image(Path::new(name), None, None)
        }
        Err(_) => Err(wrong(NameFault::NoFile)),
    }
}

/// The names that can be fetched and are not in the cache.
pub fn missing<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<&'a str>, KernelError> {
    let cache = Cache::open()?;
    let mut missing = Vec::new();
    for name in names {
        if let Ok(parsed) = CachedName::parse(name)
            && cache.newest(&parsed)?.is_none()
        {
            missing.push(name);
        }
    }
    Ok(missing)
}

fn find_in(cache: &Cache, name: &CachedName) -> Result<Kernel, KernelError> {
    match cache.newest(name)? {
        Some(entry) => entry.kernel(),
        None => Err(not_cached(cache, name)?),
    }
}

/// The error, with the names of cached kernels.
fn not_cached(cache: &Cache, name: &CachedName) -> Result<KernelError, KernelError> {
    let mut cached: Vec<String> = cache.entries()?.iter().map(Entry::name).collect();
    cached.dedup();
    Ok(KernelError::NotCached { name: name.to_string(), cache: cache.kernels(), others: cached })
}

/// Removes every kernel of this name; returns those that it removed.
pub fn remove(
    cache: &Cache,
    name: &CachedName,
    waiting: &mut dyn FnMut(),
) -> Result<Vec<Entry>, KernelError> {
    let held = cache.shelf().lock(&NEVER, waiting)?;
    let mut entries = cache.entries()?;
    entries.retain(|entry| entry.is(name));
    if entries.is_empty() {
        return Err(not_cached(cache, name)?);
    }
    entries.iter().try_for_each(|entry| cache.shelf().remove(&entry.folder, &held))?;
    Ok(entries)
}

/// Removes every kernel, unpacked images of others, apt's lists, and all that builds keep.
pub fn remove_all(cache: &Cache, waiting: &mut dyn FnMut()) -> Result<Vec<Entry>, KernelError> {
    remove_builds(cache, waiting)?;
    let held = cache.shelf().lock(&NEVER, waiting)?;
    let entries = cache.entries()?;
    entries.iter().try_for_each(|entry| cache.shelf().remove(&entry.folder, &held))?;
    drop(cache.shelf().scratch(&held)?);
    [cache.apt(), cache.vmlinux()].iter().try_for_each(|folder| shelf::remove_if_there(folder))?;
    Ok(entries)
}

/// Removes the trees and objects of builds; the kernels stay.
pub fn remove_builds(cache: &Cache, waiting: &mut dyn FnMut()) -> Result<(), KernelError> {
    if !cache.builds().exists() {
        return Ok(());
    }
    let shelf = Shelf::at(cache.builds());
    let held = shelf.lock(&NEVER, waiting)?;
    shelf.clear(&held)
}

#[cfg(test)]
mod tests;
