//! From the mirror to the cache: finds the newest package, and keeps the files that guests need.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::apt::{self, Apt, Stanza};
use super::cache::{CONFIG, Cache, IMAGE, MODULES};
use super::error::PackageFault;
use super::name::{Flavour, Name, SourceName};
use super::plain::plain;
use super::shelf::Lock;
use super::stamp::{self, Fetched, Provenance, Stamp};
use super::{Kernel, KernelError, bzimage, digest, modules, version};

pub use super::sources::Reach;

const IMAGES: &str = "linux-image-";
/// Since 7.0 the image's package is empty and depends on these; the first has the image.
const PARTS: &[&str] = &["linux-binary-", "linux-base-", "linux-modules-"];

/// Progress.
#[derive(Debug, PartialEq)]
pub enum Step<'a> {
    /// Another process holds the cache.
    Waiting,
    Suite(&'a str),
    /// The mirror does not have this suite, or cannot be reached.
    LeftOut {
        suite: &'a str,
        why: &'a str,
    },
    Download {
        package: &'a str,
        size_bytes: u64,
        percent: f64,
    },
    Unpacking {
        package: &'a str,
    },
}

/// A kernel on the mirror.
#[derive(Clone, Debug, PartialEq)]
pub struct Available {
    pub name: Name,
    pub release: String,
    pub package: String,
    pub package_version: String,
    /// Of all that is downloaded.
    pub size_bytes: u64,
    parts: Vec<Stanza>,
}

#[derive(Debug, PartialEq)]
pub enum How {
    Fetched,
    /// The newest is in the cache already.
    Already,
    /// It was here, but damaged.
    Repaired,
}

/// The mirror, read once, with the cache locked.
pub struct Mirror<'a> {
    cache: Cache,
    lock: Lock,
    apt: Apt<'a>,
    stop: &'a AtomicBool,
    suites: Vec<String>,
    available: Vec<Available>,
}

impl<'a> Mirror<'a> {
    /// What runs ends when `stop` is set.
    pub fn open(
        cache: Cache,
        reach: Reach,
        stop: &'a AtomicBool,
        on: &mut dyn FnMut(Step),
    ) -> Result<Mirror<'a>, KernelError> {
        if std::env::consts::ARCH != "x86_64" {
            return Err(KernelError::Architecture(std::env::consts::ARCH));
        }
        let lock = cache.lock(stop, &mut || on(Step::Waiting))?;
        let (apt, suites) = Apt::prepare(&cache.apt(), reach, stop)?;
        let mut offered = Vec::new();
        let mut first = None;
        for suite in suites {
            on(Step::Suite(&plain(&suite.name)));
            match apt.update(&suite) {
                Ok(()) => offered.push(suite),
                Err(full) if full.is_full() => return Err(full),
                Err(KernelError::Apt { why, .. }) => {
                    on(Step::LeftOut { suite: &plain(&suite.name), why: &why });
                    first.get_or_insert(why);
                }
                Err(other) => return Err(other),
            }
        }
        if offered.is_empty() {
            return Err(KernelError::NoSuite { first: first.unwrap_or_default() });
        }
        apt.use_suites(&offered)?;
        let available = kernels(&apt)?;
        let mut suites: Vec<String> = offered.into_iter().map(|suite| suite.name).collect();
        suites.dedup();
        Ok(Mirror { cache, lock, apt, stop, suites, available })
    }

    /// All kernels on the mirror, the newest last.
    pub fn available(&self) -> &[Available] {
        &self.available
    }

    /// Fetches the newest kernel of this name if it is not in the cache.
    pub fn get(&self, name: &Name, on: &mut dyn FnMut(Step)) -> Result<(Kernel, How), KernelError> {
        let newest = self.available.iter().rfind(|available| available.is(name));
        let newest = newest.ok_or_else(|| self.not_offered(name))?;
        let folder = self.cache.folder(&newest.release, &newest.package_version);
        let mut entries = self.cache.entries()?.into_iter();
        let entry = entries.find(|entry| entry.folder == folder);
        let how = match entry.map(|entry| entry.kernel()) {
            Some(Ok(kernel)) => return Ok((kernel, How::Already)),
            Some(Err(_)) => How::Repaired,
            None => How::Fetched,
        };
        self.fetch(newest, &folder, on)?;
        let mut entries = self.cache.entries()?.into_iter();
        let entry = entries.find(|entry| entry.folder == folder);
        let gone = || newest.wrong(PackageFault::NotKept);
        Ok((entry.ok_or_else(gone)?.kernel()?, how))
    }

    /// The newest sources of this name, which are not fetched yet.
    pub fn sources(&self, name: &SourceName) -> Result<Sources, KernelError> {
        let stanzas = self.apt.show(&[name.package()]).unwrap_or_default();
        newest_sources(name, stanzas).ok_or_else(|| {
            let packages = self.apt.names("linux-source-").unwrap_or_default();
            let mut others: Vec<String> = packages.iter().map(|name| plain(name)).collect();
            others.sort();
            KernelError::NotOffered {
                name: name.to_string(),
                suites: self.suites.join(", "),
                others: format!("; there are {}", others.join(", ")),
            }
        })
    }

    /// Downloads the package of sources, checks it, and unpacks it in `into`; returns the archive.
    pub fn fetch_sources(
        &self,
        sources: &Sources,
        into: &Path,
        on: &mut dyn FnMut(Step),
    ) -> Result<PathBuf, KernelError> {
        self.fetch_part(&sources.stanza, into, into, on)?;
        let archive = into.join(format!("usr/src/{}.tar.xz", sources.stanza.package));
        let is_file = archive.symlink_metadata().is_ok_and(|found| found.is_file());
        is_file.then_some(archive).ok_or_else(|| KernelError::Package {
            package: sources.stanza.package.clone(),
            why: PackageFault::NoSources,
        })
    }

    fn not_offered(&self, name: &Name) -> KernelError {
        let mut series: Vec<&str> = Vec::new();
        let names = self.available.iter().map(|available| &available.name);
        for other in names.filter(|other| other.flavour() == name.flavour()) {
            if !series.contains(&other.series()) {
                series.push(other.series());
            }
        }
        let others = match series.is_empty() {
            true => String::new(),
            false => format!(
                "; of the flavour {} there are {}",
                name.flavour().word(),
                plain(&series.join(", "))
            ),
        };
        KernelError::NotOffered { name: name.to_string(), suites: self.suites.join(", "), others }
    }

    fn fetch(
        &self,
        newest: &Available,
        folder: &Path,
        on: &mut dyn FnMut(Step),
    ) -> Result<(), KernelError> {
        let scratch = self.cache.scratch(&self.lock)?;
        let make = |name: &str| {
            let path = scratch.path().join(name);
            fs::create_dir(&path).map_err(KernelError::io("make the folder", &path))?;
            Ok::<PathBuf, KernelError>(path)
        };
        let (tree, new) = (make("tree")?, make("kernel")?);
        let mut fetched = Vec::new();
        for (at, part) in newest.parts.iter().enumerate() {
            let into = make(&format!("deb{at}"))?;
            fetched.push(self.fetch_part(part, &into, &tree, on)?);
            fs::remove_dir_all(&into).map_err(KernelError::io("remove", &into))?;
        }
        newest.keep(&tree, &new)?;
        let origin = Provenance::Package {
            package: newest.package.clone(),
            package_version: newest.package_version.clone(),
            fetched,
            fetched_at: stamp::now(),
        };
        Stamp::write(&new, newest.name.to_string(), newest.release.clone(), origin)?;
        self.cache.put(&new, folder, &self.lock)
    }

    /// Downloads one package, checks it and adds its files to `tree`.
    fn fetch_part(
        &self,
        part: &Stanza,
        into: &Path,
        tree: &Path,
        on: &mut dyn FnMut(Step),
    ) -> Result<Fetched, KernelError> {
        let (package, size_bytes) = (part.package.as_str(), part.size_bytes);
        on(Step::Download { package, size_bytes, percent: 0.0 });
        let deb = self.apt.download(part, into, &mut |percent| {
            on(Step::Download { package, size_bytes, percent });
        })?;
        let sha256 = digest::of_file(&deb)?;
        if sha256 != part.sha256 {
            let why = PackageFault::Digest { found: sha256, listed: part.sha256.clone() };
            return Err(KernelError::Package { package: package.to_string(), why });
        }
        on(Step::Unpacking { package });
        apt::unpack(&deb, tree, self.stop)?;
        Ok(Fetched { package: package.to_string(), sha256, size_bytes })
    }
}

/// A package with the sources of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Sources {
    stanza: Stanza,
}

impl Sources {
    pub fn package_version(&self) -> &str {
        &self.stanza.version
    }

    /// Of the package.
    pub fn size_bytes(&self) -> u64 {
        self.stanza.size_bytes
    }

    /// SHA-256 of the package.
    pub fn digest(&self) -> &str {
        &self.stanza.sha256
    }
}

/// The newest version that the name means.
fn newest_sources(name: &SourceName, stanzas: Vec<Stanza>) -> Option<Sources> {
    let own = stanzas.into_iter().filter(|stanza| {
        stanza.package == name.package()
            && name.matches(&stanza.version)
            && is_safe(&stanza.version)
    });
    let newest = own.max_by(|a, b| version::compare(&a.version, &b.version))?;
    Some(Sources { stanza: newest })
}

/// Whether a version can be part of a file's name.
fn is_safe(version: &str) -> bool {
    let is_inside = |c: char| c.is_ascii_alphanumeric() || "+.~-:".contains(c);
    version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(is_inside)
}

impl Available {
    fn is(&self, name: &Name) -> bool {
        name.matches(&self.release, &self.package_version)
    }

    fn wrong(&self, why: PackageFault) -> KernelError {
        let package = format!("{} {}", self.package, self.package_version);
        KernelError::Package { package, why }
    }

    /// Moves the files that a guest can need out of the unpacked packages.
    fn keep(&self, tree: &Path, new: &Path) -> Result<(), KernelError> {
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
        if few.is_empty() {
            return Ok(());
        }
        let kept = new.join(MODULES);
        fs::create_dir(&kept).map_err(KernelError::io("make the folder", &kept))?;
        few.iter().try_for_each(|module| {
            rename(module, &kept.join(module.file_name().unwrap_or_default()))
        })
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), KernelError> {
    fs::rename(from, to).map_err(KernelError::io("rename to", to))
}

/// The kernels of the lists that have all of their parts.
fn kernels(apt: &Apt) -> Result<Vec<Available>, KernelError> {
    let release_of = |package: &String| {
        let release = package.strip_prefix(IMAGES)?;
        Flavour::of(release).map(|_| release.to_string())
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
        let versions = version::compare(&a.package_version, &b.package_version);
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

fn offer(image: Stanza, parts: &[Stanza]) -> Option<Available> {
    let release = image.package.strip_prefix(IMAGES)?.to_string();
    let flavour = Flavour::of(&release)?;
    if !is_safe(&image.version) {
        return None;
    }
    let (package, package_version) = (image.package.clone(), image.version.clone());
    let of_part = |name: &String| {
        let is_it = |part: &&Stanza| part.package == *name && part.version == package_version;
        parts.iter().find(is_it).cloned()
    };
    let parts: Vec<Stanza> = match &part_names(&image)[..] {
        [] => vec![image],
        names => names.iter().map(of_part).collect::<Option<_>>()?,
    };
    Some(Available {
        name: Name::exact(&package_version, flavour),
        release,
        package,
        package_version,
        size_bytes: parts.iter().map(|part| part.size_bytes).sum(),
        parts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stanza(package: &str, version: &str, depends: &str) -> Stanza {
        Stanza {
            package: package.to_string(),
            version: version.to_string(),
            depends: depends.to_string(),
            sha256: "00".to_string(),
            size_bytes: 10,
        }
    }

    fn packages(available: &Available) -> Vec<&str> {
        available.parts.iter().map(|part| part.package.as_str()).collect()
    }

    #[test]
    fn an_image_with_the_kernel_in_it_is_one_package() {
        let depends = "kmod, linux-base-6.18.15+deb13-cloud-amd64 (= 6.18.15-1~bpo13+1)";
        let image = stanza("linux-image-6.18.15+deb13-cloud-amd64", "6.18.15-1~bpo13+1", depends);
        let offered = offer(image, &[]).expect("an offer");
        assert_eq!(packages(&offered), ["linux-image-6.18.15+deb13-cloud-amd64"]);
        assert_eq!(offered.name.to_string(), "debian:6.18.15");
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
    fn the_newest_sources_of_a_name_are_taken() {
        let index = [
            ("linux-source-6.12", "6.12.117-1"),
            ("linux-source-6.12", "6.12.117-1~deb12u1"),
            ("linux-source-6.12", "6.12.95-1~bpo12+1"),
            ("linux-source-6.12", "6.12.9-1"),
            ("linux-source-6.12", "6.12.200-1/../x"),
            ("linux-source-6.1", "6.1.176-1"),
        ];
        let stanzas = index.map(|(package, version)| stanza(package, version, "")).to_vec();
        let cases = [
            ("debian-source:6.12", Some("6.12.117-1")),
            ("debian-source:6.12.95", Some("6.12.95-1~bpo12+1")),
            ("debian-source:6.12.9", Some("6.12.9-1")),
            ("debian-source:6.1", Some("6.1.176-1")),
            ("debian-source:6.12.11", None),
            ("debian-source:7.0", None),
        ];
        for (name, expected) in cases {
            let name = SourceName::parse(name).unwrap();
            let found = newest_sources(&name, stanzas.clone());
            let found = found.as_ref().map(Sources::package_version);
            assert_eq!(found, expected, "{name}");
        }
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
