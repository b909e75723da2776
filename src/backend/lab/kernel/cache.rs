//! The cache of kernels: `schedlab/kernels` in the XDG cache folder, a folder for each.
//!
//! `RELEASE_PACKAGEVERSION/` holds `vmlinuz`, `config`, `modules/` and `stamp.json`, and after the
//! first boot the unpacked image. A folder is made under a name that begins with a dot and renamed
//! when it is complete: every folder with a plain name is a kernel. Changes need the lock.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::stamp::{Damage, Fetched, SCHEMA, STAMP, parse_stamp};
use super::{Flavour, Kernel, KernelError, Name, Package, Stamp, bzimage, digest, modules};
use crate::sys;

pub const IMAGE: &str = "vmlinuz";
pub const CONFIG: &str = "config";
pub const MODULES: &str = "modules";

pub struct Cache {
    root: PathBuf,
}

/// Held until it is dropped, or the process ends however it does.
pub struct Lock {
    _file: File,
}

/// One folder of the cache, perhaps damaged.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: Name,
    pub release: String,
    pub package_version: String,
    pub folder: PathBuf,
}

impl Cache {
    pub fn open() -> Result<Cache, KernelError> {
        let root = sys::cache_dir().map_err(|error| KernelError::NoHome(error.to_string()))?;
        Ok(Cache::at(&root))
    }

    pub fn at(root: &Path) -> Cache {
        Cache { root: root.to_path_buf() }
    }

    pub fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    /// apt's own files between two calls.
    pub fn apt(&self) -> PathBuf {
        self.root.join("apt")
    }

    /// Unpacked images of kernels outside of the cache.
    pub fn vmlinux(&self) -> PathBuf {
        self.root.join("vmlinux")
    }

    pub fn folder(&self, release: &str, package_version: &str) -> PathBuf {
        self.kernels().join(format!("{release}_{package_version}"))
    }

    /// `waiting` is called when another process holds the lock.
    pub fn lock(&self, waiting: &mut dyn FnMut()) -> Result<Lock, KernelError> {
        let kernels = self.kernels();
        fs::create_dir_all(&kernels).map_err(KernelError::io("make the folder", &kernels))?;
        let path = kernels.join(".lock");
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(KernelError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waiting();
                file.lock().map_err(KernelError::io("lock", &path))?;
            }
            Err(TryLockError::Error(error)) => return Err(KernelError::io("lock", &path)(error)),
        }
        Ok(Lock { _file: file })
    }

    /// An empty folder that is no kernel, removed when it is dropped. First removes that of a
    /// killed process.
    pub fn scratch(&self, _held: &Lock) -> Result<Scratch, KernelError> {
        self.sweep()?;
        let path = self.kernels().join(".new");
        fs::create_dir(&path).map_err(KernelError::io("make the folder", &path))?;
        Ok(Scratch { path })
    }

    fn sweep(&self) -> Result<(), KernelError> {
        for name in [".new", ".old"] {
            let path = self.kernels().join(name);
            match fs::remove_dir_all(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(KernelError::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives a complete folder its name, in place of one that had it.
    pub fn put(&self, new: &Path, entry: &Path, held: &Lock) -> Result<(), KernelError> {
        if entry.symlink_metadata().is_ok() {
            self.remove(entry, held)?;
        }
        fs::rename(new, entry).map_err(KernelError::io("rename to", entry))
    }

    /// Atomically: renames the folder before it removes the files.
    pub fn remove(&self, entry: &Path, _held: &Lock) -> Result<(), KernelError> {
        let old = self.kernels().join(".old");
        match fs::remove_dir_all(&old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(KernelError::io("remove", &old)(error));
            }
            _ => {}
        }
        fs::rename(entry, &old).map_err(KernelError::io("remove", entry))?;
        fs::remove_dir_all(&old).map_err(KernelError::io("remove", &old))
    }

    /// All folders with the name of a kernel, the newest version last.
    pub fn entries(&self) -> Result<Vec<Entry>, KernelError> {
        let kernels = self.kernels();
        let folders = match fs::read_dir(&kernels) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            folders => folders.map_err(KernelError::io("read", &kernels))?,
        };
        let mut entries = Vec::new();
        for folder in folders {
            let folder = folder.map_err(KernelError::io("read", &kernels))?.path();
            entries.extend(Entry::of(&folder));
        }
        entries.sort_by(|a, b| {
            let versions = super::version::compare(&a.package_version, &b.package_version);
            versions.then_with(|| a.release.cmp(&b.release))
        });
        Ok(entries)
    }

    /// The newest kernel of this name.
    pub fn newest(&self, name: &Name) -> Result<Option<Entry>, KernelError> {
        let entries = self.entries()?;
        Ok(entries.into_iter().rfind(|entry| name.matches(&entry.release, &entry.package_version)))
    }
}

/// Removed when it goes out of scope, also if a step fails.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next one removes what this one could not.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Entry {
    fn of(folder: &Path) -> Option<Entry> {
        let (release, package_version) = folder.file_name()?.to_str()?.split_once('_')?;
        let flavour = Flavour::of(release)?;
        Some(Entry {
            name: Name::exact(package_version, flavour),
            release: release.to_string(),
            package_version: package_version.to_string(),
            folder: folder.to_path_buf(),
        })
    }

    /// The stamp, if it fits the sizes of the files. Reads no image.
    pub fn stamp(&self) -> Result<Stamp, KernelError> {
        self.checked().map_err(|why| self.damaged(why))
    }

    /// All of it, every byte checked.
    pub fn kernel(&self) -> Result<Kernel, KernelError> {
        let stamp = self.stamp()?;
        let image = self.folder.join(IMAGE);
        let config = Some(self.folder.join(CONFIG)).filter(|path| path.is_file());
        let folder = Some(self.folder.join(MODULES)).filter(|path| path.is_dir());
        let digest = digest_of(&image, config.as_deref(), folder.as_deref())?;
        if digest != stamp.digest {
            return Err(self.damaged(Damage::Digest));
        }
        let header = bzimage::read(&image)?;
        let package = Package { name: stamp.package, version: stamp.package_version };
        Ok(Kernel {
            name: self.name.to_string(),
            release: header.release,
            version: header.version,
            package: Some(package),
            image,
            config,
            modules: folder,
            digest,
        })
    }

    fn damaged(&self, why: Damage) -> KernelError {
        KernelError::Damaged { name: self.name.to_string(), folder: self.folder.clone(), why }
    }

    fn checked(&self) -> Result<Stamp, Damage> {
        let text = fs::read_to_string(self.folder.join(STAMP)).map_err(Damage::NoStamp)?;
        let stamp = parse_stamp(&text)?;
        if (&stamp.release, &stamp.package_version) != (&self.release, &self.package_version) {
            let Stamp { release, package_version: version, .. } = stamp;
            return Err(Damage::OtherStamp { release, version });
        }
        let found = size_of(&self.folder).map_err(|error| match error {
            KernelError::Io { path, source, .. } => Damage::Unreadable { path, source },
            _ => Damage::Digest,
        })?;
        match stamp.size_bytes {
            expected if expected != found => Err(Damage::Size { found, expected }),
            _ => Ok(stamp),
        }
    }
}

impl Stamp {
    /// Writes the stamp of the files in `folder`, with their size and digest.
    pub fn write(
        folder: &Path,
        name: &Name,
        release: &str,
        package: Package,
        fetched: Vec<Fetched>,
    ) -> Result<Stamp, KernelError> {
        let config = Some(folder.join(CONFIG)).filter(|path| path.is_file());
        let kept = Some(folder.join(MODULES)).filter(|path| path.is_dir());
        let stamp = Stamp {
            schema: SCHEMA,
            name: name.to_string(),
            release: release.to_string(),
            package: package.name,
            package_version: package.version,
            fetched,
            fetched_at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            size_bytes: size_of(folder)?,
            digest: digest_of(&folder.join(IMAGE), config.as_deref(), kept.as_deref())?,
        };
        let path = folder.join(STAMP);
        let text = serde_json::to_string_pretty(&stamp).map_err(io::Error::other);
        text.and_then(|text| fs::write(&path, text + "\n"))
            .map_err(KernelError::io("write", &path))?;
        Ok(stamp)
    }
}

fn digest_of(
    image: &Path,
    config: Option<&Path>,
    folder: Option<&Path>,
) -> Result<String, KernelError> {
    let few = folder.map_or(Ok(Vec::new()), modules::few)?;
    digest::of_kernel(image, config, &few)
}

/// Of image, configuration and modules.
fn size_of(folder: &Path) -> Result<u64, KernelError> {
    let size = |path: &Path| path.metadata().map(|metadata| metadata.len());
    let image = folder.join(IMAGE);
    let mut size_bytes = size(&image).map_err(KernelError::io("read", &image))?;
    size_bytes += size(&folder.join(CONFIG)).unwrap_or(0);
    let kept = folder.join(MODULES);
    if kept.is_dir() {
        for module in modules::few(&kept)? {
            size_bytes += size(&module).map_err(KernelError::io("read", &module))?;
        }
    }
    Ok(size_bytes)
}

#[cfg(test)]
mod tests;
