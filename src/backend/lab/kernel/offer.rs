//! The kernels that a mirror offers, and which files of their packages are kept.

use std::fs::{self, File};
use std::path::Path;

use lzma_rust2::XzReader;

use super::apt::{Apt, Stanza};
use super::cache::{CONFIG, IMAGE, MODULES, Packaged};
use super::error::PackageFault;
use super::name::Flavour;
use super::{KernelError, Package, bzimage, modules, tools, version};
use crate::sys::input;

const IMAGES: &str = "linux-image-";
/// Since 7.0 the image's package is empty and depends on these; the first has the image.
const PARTS: &[&str] = &["linux-binary-", "linux-base-", "linux-modules-"];

const MAX_MODULE_BYTES: u64 = 64 << 20;

/// A kernel on the mirror, alone or with a hypervisor and its tools.
#[derive(Clone, Debug, PartialEq)]
pub struct Available {
    pub packaged: Packaged,
    /// The name of the kernel's package, or the hypervisor's.
    pub package: String,
    pub release: String,
    pub(super) kernel: Package,
    /// The size of the whole download.
    pub size_bytes: u64,
    pub(super) parts: Vec<Stanza>,
}

/// Whether a version can be part of a file's name.
pub fn is_safe(version: &str) -> bool {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || "+.~-:".contains(c);
    version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(is_inside)
}

impl Available {
    pub(super) fn wrong(&self, why: PackageFault) -> KernelError {
        let package = format!("{} {}", self.kernel.name, self.kernel.version);
        KernelError::Package { package, why }
    }

    /// Moves the files that a guest can need out of the unpacked packages; below Xen with its tools and the modules
    /// that these need.
    pub(super) fn keep(&self, tree: &Path, new: &Path) -> Result<(), KernelError> {
        self.keep_kernel(tree, new)?;
        let name = &self.packaged.name;
        if self.packaged.is_xen() { tools::keep(name.series(), tree, new) } else { Ok(()) }
    }

    fn keep_kernel(&self, tree: &Path, new: &Path) -> Result<(), KernelError> {
        let release = &self.release;
        let folders = [format!("usr/lib/modules/{release}"), format!("lib/modules/{release}")];
        let first = |names: &[String]| {
            let mut paths = names.iter().map(|name| tree.join(name));
            // A link could point out of the tree.
            paths.find(|path| path.symlink_metadata().is_ok_and(|found| !found.is_symlink()))
        };
        let file = |boot: &str, name: &str| {
            let mut names = vec![format!("boot/{boot}-{release}")];
            names.extend(folders.iter().map(|folder| format!("{folder}/{name}")));
            first(&names)
        };
        let image = file("vmlinuz", "vmlinuz");
        let image = image.ok_or_else(|| self.wrong(PackageFault::NoImage))?;
        let found = bzimage::read(&image)?.release;
        if found != *release {
            return Err(self.wrong(PackageFault::OtherRelease(found)));
        }
        rename(&image, &new.join(IMAGE))?;
        if let Some(config) = file("config", "config") {
            rename(&config, &new.join(CONFIG))?;
        }
        let Some(folder) = first(&folders) else { return Ok(()) };
        let few = modules::few(&folder)?;
        let of_xen = if self.packaged.is_xen() { modules::of_xen(&folder)? } else { Vec::new() };
        if few.is_empty() && of_xen.is_empty() {
            return Ok(());
        }
        let kept = new.join(MODULES);
        fs::create_dir(&kept).map_err(KernelError::io("make the folder", &kept))?;
        few.iter().try_for_each(|module| {
            rename(module, &kept.join(module.file_name().unwrap_or_default()))
        })?;
        of_xen.iter().try_for_each(|module| unpack_module(module, &kept))
    }
}

/// Unpacks a module: a first domain cannot load a packed one.
fn unpack_module(module: &Path, kept: &Path) -> Result<(), KernelError> {
    let name = module.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(name) = name.strip_suffix(".xz") else { return rename(module, &kept.join(name)) };
    let (packed, to) = (File::open(module), kept.join(name));
    let packed = packed.map_err(KernelError::io("read", module))?;
    let bytes = input::read_all(XzReader::new(packed, false), MAX_MODULE_BYTES)
        .map_err(KernelError::io("unpack", module))?;
    fs::write(&to, bytes).map_err(KernelError::io("write", &to))
}

fn rename(from: &Path, to: &Path) -> Result<(), KernelError> {
    fs::rename(from, to).map_err(KernelError::io("rename to", to))
}

/// The kernels of the lists that have all of their parts.
pub fn kernels(apt: &Apt) -> Result<Vec<Available>, KernelError> {
    let release_of = |package: &String| {
        let release = package.strip_prefix(IMAGES)?;
        Flavour::from_release(release).map(|_| release.to_string())
    };
    let mut images = apt.names(IMAGES)?;
    images.retain(|package| release_of(package).is_some());
    let stanzas = apt.show(&images)?;
    let mut wanted: Vec<String> = stanzas.iter().flat_map(part_names).collect();
    wanted.sort();
    wanted.dedup();
    let parts = apt.show(&wanted)?;
    let mut available: Vec<Available> = Vec::new();
    for stanza in stanzas {
        if let Some(new) = offer(stanza, &parts)
            && !available.contains(&new)
        {
            available.push(new);
        }
    }
    available.sort_by(|a, b| {
        let versions = version::compare(&a.kernel.version, &b.kernel.version);
        versions.then_with(|| a.release.cmp(&b.release))
    });
    Ok(available)
}

/// The packages that an empty package of an image depends on.
fn part_names(image: &Stanza) -> Vec<String> {
    let release = image.package.strip_prefix(IMAGES).unwrap_or("");
    let names = PARTS.iter().map(|part| format!("{part}{release}"));
    let names: Vec<String> = names.filter(|name| depends(image, name)).collect();
    // 6.18 has a base package, but the image is in its own.
    if names.iter().any(|name| name.starts_with(PARTS[0])) { names } else { Vec::new() }
}

/// Whether it depends on `name` in its own version.
fn depends(image: &Stanza, name: &str) -> bool {
    let exact = format!("{name} (= {})", image.version);
    image.depends.split(',').any(|need| need.trim() == exact)
}

pub(super) fn offer(image: Stanza, parts: &[Stanza]) -> Option<Available> {
    let release = image.package.strip_prefix(IMAGES)?.to_string();
    let packaged = Packaged::kernel(&release, &image.version)?;
    if !is_safe(&image.version) {
        return None;
    }
    let kernel = Package { name: image.package.clone(), version: image.version.clone() };
    let of_part = |name: &String| {
        let is_it = |part: &&Stanza| part.package == *name && part.version == kernel.version;
        parts.iter().find(is_it).cloned()
    };
    let parts: Vec<Stanza> = match &part_names(&image)[..] {
        [] => vec![image],
        names => names.iter().map(of_part).collect::<Option<_>>()?,
    };
    Some(Available {
        packaged,
        package: kernel.name.clone(),
        release,
        kernel,
        size_bytes: parts.iter().map(|part| part.size_bytes).sum(),
        parts,
    })
}

#[cfg(test)]
pub mod testing {
    //! Packages of a mirror.

    use super::Stanza;

    pub fn stanza(package: &str, version: &str, depends: &str) -> Stanza {
        Stanza {
            package: package.to_string(),
            version: version.to_string(),
            depends: depends.to_string(),
            sha256: "00".to_string(),
            size_bytes: 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::stanza;
    use super::*;

    fn packages(available: &Available) -> Vec<&str> {
        available.parts.iter().map(|part| part.package.as_str()).collect()
    }

    #[test]
    fn an_image_with_the_kernel_in_it_is_one_package() {
        let depends = "kmod, linux-base-6.18.15+deb13-cloud-amd64 (= 6.18.15-1~bpo13+1)";
        let image = stanza("linux-image-6.18.15+deb13-cloud-amd64", "6.18.15-1~bpo13+1", depends);
        let offered = offer(image, &[]).expect("an offer");
        assert_eq!(packages(&offered), ["linux-image-6.18.15+deb13-cloud-amd64"]);
        assert_eq!(offered.packaged.name.to_string(), "debian:6.18.15");
    }

    #[test]
    fn an_empty_image_needs_its_parts_in_its_own_version() {
        let release = "7.3.4+deb13-cloud-amd64";
        let need = |kind: &str| format!("linux-{kind}-{release} (= 7.3.4-1)");
        let depends = [need("base"), need("binary"), need("modules")].join(", ");
        let image = stanza(&format!("linux-image-{release}"), "7.3.4-1", &depends);
        let part =
            |kind: &str, version: &str| stanza(&format!("linux-{kind}-{release}"), version, "");
        let mut parts = vec![
            part("base", "7.3.4-1"),
            part("binary", "7.3.4-2"),
            part("binary", "7.3.4-1"),
            part("modules", "7.3.4-1"),
        ];
        let offered = offer(image.clone(), &parts).expect("an offer");
        let expected = ["binary", "base", "modules"].map(|kind| format!("linux-{kind}-{release}"));
        assert_eq!(packages(&offered), expected);
        assert!(offered.parts.iter().all(|part| part.version == "7.3.4-1"));
        assert_eq!(offered.size_bytes, 30);
        parts.pop();
        assert_eq!(offer(image, &parts), None, "a part is missing");
    }

    #[test]
    fn other_packages_and_unsafe_versions_are_not_offered() {
        let cases = [
            ("linux-image-cloud-amd64", "6.1.176-1"),
            ("linux-image-6.1.0-50-cloud-amd64-unsigned", "6.1.176-1"),
            ("linux-image-6.1.0-50-cloud-amd64", "../6.1"),
            ("linux-image-6.1.0-50-cloud-amd64", "6.1/../../x"),
            ("linux-image-6.1.0-50-cloud-amd64", ""),
            ("linux-headers-6.1.0-50-cloud-amd64", "6.1.176-1"),
        ];
        for (package, version) in cases {
            assert_eq!(offer(stanza(package, version, ""), &[]), None, "{package} {version}");
        }
    }
}
