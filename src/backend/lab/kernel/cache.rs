//! The cache of kernels: `schedlab/kernels` in the XDG cache folder, a folder for each.
//!
//! `RELEASE_PACKAGEVERSION/`, `xen-XENVERSION_PACKAGEVERSION/` or `built-NAME/` holds `vmlinuz`,
//! `config`, `modules/` and `stamp.json`, and after the first boot the unpacked image; below a
//! hypervisor also `xen` and `xen-tools/`.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use super::digest::{self, KernelDigests};
use super::hypervisor::{self, Hypervisor};
use super::image::Origin;
use super::name::{BuiltName, CachedName, Family, Flavour, Name};
use super::shelf::{Shelf, write_json};
use super::stamp::{Damage, Provenance, SCHEMA, STAMP, Stamp, parse_stamp};
use super::{Kernel, KernelError, Package, bzimage, modules};
use crate::sys::{self, input};

/// Prefix of the folder of a kernel that was built here; a release begins with a digit.
const BUILT: &str = "built-";
/// Prefix of the folder of a hypervisor.
const XEN: &str = "xen-";

pub const IMAGE: &str = "vmlinuz";
pub const CONFIG: &str = "config";
pub const MODULES: &str = "modules";

pub struct Cache {
    root: PathBuf,
}

/// One folder of the cache, perhaps damaged.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub identity: Identity,
    pub folder: PathBuf,
}

/// The identity of a kernel in the name of its folder.
#[derive(Clone, Debug, PartialEq)]
pub enum Identity {
    Package(Packaged),
    Built(BuiltName),
}

/// One version of a kernel, or of a hypervisor with the kernel of its first domain.
#[derive(Clone, Debug, PartialEq)]
pub struct Packaged {
    pub name: Name,
    /// The version of the kernel's or the hypervisor's package.
    pub version: String,
    /// The kernel's release; below a hypervisor the version of its package.
    pub kernel: String,
}

impl Packaged {
    /// `None`: the release has no known flavour.
    pub fn kernel(release: &str, version: &str) -> Option<Packaged> {
        let family = Family::Kernel(Flavour::from_release(release)?);
        Some(Packaged::new(family, version, release))
    }

    pub fn xen(version: &str, kernel_version: &str) -> Packaged {
        Packaged::new(Family::Xen, version, kernel_version)
    }

    fn new(family: Family, version: &str, kernel: &str) -> Packaged {
        let name = Name::exact(family, version);
        Packaged { name, version: version.to_string(), kernel: kernel.to_string() }
    }

    pub fn is_xen(&self) -> bool {
        self.name.family() == Family::Xen
    }

    /// Whether the name means it.
    pub fn is(&self, name: &Name) -> bool {
        name.matches(self.name.family(), &self.version)
    }

    /// The kernel's release, or the hypervisor's version.
    pub fn release(&self) -> &str {
        if self.is_xen() { &self.version } else { &self.kernel }
    }
}

impl Cache {
    pub fn open() -> Result<Cache, KernelError> {
        let root = sys::cache_dir().map_err(|error| KernelError::NoHome(error.to_string()))?;
        Ok(Cache::at(&root))
    }

    pub fn at(root: &Path) -> Cache {
        Cache { root: root.to_path_buf() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    pub fn built_folder(&self, name: &BuiltName) -> PathBuf {
        self.kernels().join(format!("{BUILT}{name}"))
    }

    /// Trees and objects of kernels that are built here.
    pub fn builds(&self) -> PathBuf {
        self.root.join("builds")
    }

    /// apt's own files between two calls.
    pub fn apt(&self) -> PathBuf {
        self.root.join("apt")
    }

    /// Unpacked images of kernels outside of the cache.
    pub fn vmlinux(&self) -> PathBuf {
        self.root.join("vmlinux")
    }

    pub fn folder(&self, packaged: &Packaged) -> PathBuf {
        let Packaged { version, kernel, .. } = packaged;
        self.kernels().join(if packaged.is_xen() {
            format!("{XEN}{version}_{kernel}")
        } else {
            format!("{kernel}_{version}")
        })
    }

    /// The folders of kernels.
    pub fn shelf(&self) -> Shelf {
        Shelf::at(self.kernels())
    }

    /// All folders with the name of a kernel: Debian's with the newest version last, then those below
    /// a hypervisor, then those that were built here.
    pub fn entries(&self) -> Result<Vec<Entry>, KernelError> {
        let folders = self.shelf().folders()?;
        let mut entries: Vec<Entry> =
            folders.iter().filter_map(|path| Entry::parse(path)).collect();
        entries.sort_by(|a, b| a.identity.compare(&b.identity));
        Ok(entries)
    }

    /// The newest kernel of this name.
    pub fn newest(&self, name: &CachedName) -> Result<Option<Entry>, KernelError> {
        Ok(self.entries()?.into_iter().rfind(|entry| entry.is(name)))
    }
}

impl Identity {
    fn compare(&self, other: &Identity) -> Ordering {
        use super::version::compare;
        match (self, other) {
            (Identity::Package(a), Identity::Package(b)) => (a.is_xen().cmp(&b.is_xen()))
                .then_with(|| compare(&a.version, &b.version))
                .then_with(|| compare(&a.kernel, &b.kernel)),
            (Identity::Built(a), Identity::Built(b)) => a.cmp(b),
            (Identity::Package(_), Identity::Built(_)) => Ordering::Less,
            (Identity::Built(_), Identity::Package(_)) => Ordering::Greater,
        }
    }
}

impl Entry {
    fn parse(folder: &Path) -> Option<Entry> {
        let file_name = folder.file_name()?.to_str()?;
        let identity = if let Some(name) = file_name.strip_prefix(BUILT) {
            Identity::Built(BuiltName::parse(name).ok()?)
        } else if let Some(versions) = file_name.strip_prefix(XEN) {
            let (version, kernel_version) = versions.split_once('_')?;
            Identity::Package(Packaged::xen(version, kernel_version))
        } else {
            let (release, version) = file_name.split_once('_')?;
            Identity::Package(Packaged::kernel(release, version)?)
        };
        Some(Entry { identity, folder: folder.to_path_buf() })
    }

    pub fn name(&self) -> String {
        match &self.identity {
            Identity::Package(package) => package.name.to_string(),
            Identity::Built(name) => name.to_string(),
        }
    }

    /// Whether it is a kernel of this name.
    pub fn is(&self, name: &CachedName) -> bool {
        match (&self.identity, name) {
            (Identity::Package(package), CachedName::Fetched(name)) => package.is(name),
            (Identity::Built(own), CachedName::Built(name)) => own == name,
            _ => false,
        }
    }

    /// The stamp, if it fits the sizes of the files. Reads no image.
    pub fn stamp(&self) -> Result<Stamp, KernelError> {
        self.checked().map_err(|why| self.damaged(why))
    }

    /// The whole kernel, with every byte checked.
    pub fn kernel(&self) -> Result<Kernel, KernelError> {
        let stamp = self.stamp()?;
        let image = self.folder.join(IMAGE);
        let (config, folder) = (config_in(&self.folder), modules_in(&self.folder));
        let KernelDigests { whole: digest, image: image_digest } = digests(&self.folder)?;
        if digest != stamp.digest {
            return Err(self.damaged(Damage::Digest));
        }
        let header = bzimage::read(&image)?;
        let origin = match stamp.origin {
            Provenance::Package { package: name, package_version: version, .. } => {
                Origin::Package(Package { name, version })
            }
            Provenance::Built { built } => Origin::Built(built),
        };
        Ok(Kernel {
            name: self.name(),
            release: header.release,
            version: header.version,
            origin,
            image,
            config,
            modules: folder,
            hypervisor: stamp.hypervisor.map(|version| Hypervisor {
                version,
                image: self.folder.join(hypervisor::IMAGE),
                tools: self.folder.join(hypervisor::TOOLS),
            }),
            digest,
            image_digest,
        })
    }

    fn damaged(&self, why: Damage) -> KernelError {
        let is_built = matches!(self.identity, Identity::Built(_));
        KernelError::Damaged { name: self.name(), is_built, folder: self.folder.clone(), why }
    }

    fn checked(&self) -> Result<Stamp, Damage> {
        let text = input::read_text_file(self.folder.join(STAMP), input::MAX_OWN_FILE_BYTES);
        let text = text.map_err(Damage::NoStamp)?;
        let stamp = parse_stamp(&text)?;
        let is_own = match (&self.identity, &stamp.origin) {
            (Identity::Package(own), Provenance::Package { package_version, .. }) => {
                let versions = match &stamp.hypervisor {
                    Some(version) if own.is_xen() => (version, package_version),
                    _ => (package_version, &stamp.release),
                };
                versions == (&own.version, &own.kernel)
            }
            (Identity::Built(own), Provenance::Built { .. }) => stamp.name == own.to_string(),
            _ => false,
        };
        if !is_own {
            return Err(Damage::OtherStamp { name: stamp.name, release: stamp.release });
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
        name: String,
        release: String,
        hypervisor: Option<String>,
        origin: Provenance,
    ) -> Result<Stamp, KernelError> {
        let stamp = Stamp {
            schema: SCHEMA,
            name,
            release,
            hypervisor,
            origin,
            size_bytes: size_of(folder)?,
            digest: digests(folder)?.whole,
        };
        write_json(&folder.join(STAMP), &stamp)?;
        Ok(stamp)
    }
}

fn config_in(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(CONFIG)).filter(|path| path.is_file())
}

fn modules_in(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(MODULES)).filter(|path| path.is_dir())
}

fn digests(folder: &Path) -> Result<KernelDigests, KernelError> {
    let kept = modules_in(folder);
    let few = kept.as_deref().map_or(Ok(Vec::new()), modules::few)?;
    let more = hypervisor::files(folder, kept.as_deref())?;
    digest::of_kernel(&folder.join(IMAGE), config_in(folder).as_deref(), &few, &more)
}

/// The size of image, configuration, modules and the files of a hypervisor.
fn size_of(folder: &Path) -> Result<u64, KernelError> {
    let size = |path: &Path| {
        let size = path.metadata().map(|metadata| metadata.len());
        size.map_err(KernelError::io("read", path))
    };
    let kept = modules_in(folder);
    let mut files = vec![folder.join(IMAGE)];
    files.extend(config_in(folder));
    files.extend(kept.as_deref().map_or(Ok(Vec::new()), modules::few)?);
    let more = hypervisor::files(folder, kept.as_deref())?;
    files.extend(more.into_iter().map(|(_, path)| path));
    files.iter().map(|path| size(path)).sum()
}

#[cfg(test)]
mod tests;
