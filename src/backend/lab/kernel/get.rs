//! From the mirror to the cache: finds the newest package, and keeps the files that guests need.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::apt::{self, Apt, Stanza};
use super::cache::{Cache, Packaged};
use super::error::PackageFault;
use super::name::{CachedName, Family, Name, NameFault};
use super::offer::{Available, is_safe, kernels};
use super::shelf::Lock;
use super::sources::Suite;
use super::stamp::{self, Fetched, Provenance, Stamp};
use super::xen;
use super::{Kernel, KernelError, check_host, digest, version};
use crate::model::clean as plain;

pub use super::sources::Reach;

/// The receiver of the progress.
pub type Steps<'a> = dyn FnMut(Step) + 'a;

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
    suites: Vec<Suite>,
    available: Vec<Available>,
}

impl<'a> Mirror<'a> {
    /// Reads the lists of all suites. Setting `stop` ends the programs that it runs.
    pub fn open(
        cache: Cache,
        reach: Reach,
        stop: &'a AtomicBool,
        on: &mut Steps,
    ) -> Result<Mirror<'a>, KernelError> {
        check_host()?;
        let lock = cache.shelf().lock(stop, &mut || on(Step::Waiting))?;
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
        Ok(Mirror { cache, lock, apt, stop, suites: offered, available })
    }

    /// All kernels on the mirror, the newest last.
    pub fn available(&self) -> &[Available] {
        &self.available
    }

    /// All hypervisors on the mirror, the newest last. Asks apt.
    pub fn hypervisors(&self) -> Result<Vec<Available>, KernelError> {
        let found = xen::hypervisors(&self.apt, &self.suites, &self.available);
        self.apt.use_suites(&self.suites)?;
        found
    }

    /// Fetches the newest kernel of this name if it is not in the cache.
    pub fn get(&self, name: &CachedName, on: &mut Steps) -> Result<(Kernel, How), KernelError> {
        match name {
            CachedName::Fetched(name) => {
                let found;
                let all = match name.family() {
                    Family::Xen => {
                        found = self.hypervisors()?;
                        &found
                    }
                    _ => &self.available,
                };
                let newest = all.iter().rfind(|available| available.packaged.is(name));
                self.get_offer(newest.ok_or_else(|| self.not_among(name, all))?, on)
            }
            CachedName::Built(built) => {
                let why = NameFault::NoPrefix;
                Err(KernelError::Name { name: built.to_string(), why })
            }
        }
    }

    fn get_offer(&self, offer: &Available, on: &mut Steps) -> Result<(Kernel, How), KernelError> {
        let folder = self.cache.folder(&offer.packaged);
        let mut entries = self.cache.entries()?.into_iter();
        let entry = entries.find(|entry| entry.folder == folder);
        let how = match entry.map(|entry| entry.kernel()) {
            Some(Ok(kernel)) => return Ok((kernel, How::Already)),
            Some(Err(_)) => How::Repaired,
            None => How::Fetched,
        };
        self.fetch(offer, &folder, on)?;
        let mut entries = self.cache.entries()?.into_iter();
        let entry = entries.find(|entry| entry.folder == folder);
        let gone = || offer.wrong(PackageFault::NotKept);
        Ok((entry.ok_or_else(gone)?.kernel()?, how))
    }

    /// The newest sources of this name, which are not fetched yet.
    pub fn sources(&self, name: &Name) -> Result<Stanza, KernelError> {
        let stanzas = self.apt.show(&[name.source_package()]).unwrap_or_default();
        newest_sources(name, stanzas).ok_or_else(|| {
            let packages = self.apt.names("linux-source-").unwrap_or_default();
            let mut others: Vec<String> = packages.iter().map(|name| plain(name)).collect();
            others.sort();
            self.not_offered(name, format!("; there are {}", others.join(", ")))
        })
    }

    /// Downloads the package of sources, checks it, and unpacks it in `into`; returns the archive.
    pub fn fetch_sources(
        &self,
        sources: &Stanza,
        into: &Path,
        on: &mut Steps,
    ) -> Result<PathBuf, KernelError> {
        self.fetch_part(sources, into, into, on)?;
        let archive = into.join(format!("usr/src/{}.tar.xz", sources.package));
        let is_file = archive.symlink_metadata().is_ok_and(|found| found.is_file());
        is_file.then_some(archive).ok_or_else(|| KernelError::Package {
            package: sources.package.clone(),
            why: PackageFault::NoSources,
        })
    }

    fn not_among(&self, name: &Name, all: &[Available]) -> KernelError {
        let names = all.iter().map(|available| &available.packaged.name);
        let (of, prefix) = match name.family() {
            Family::Kernel(flavour) => (format!("of the flavour {} ", flavour.word()), ""),
            _ => (String::new(), "xen:"),
        };
        let mut series: Vec<String> = Vec::new();
        for other in names.filter(|other| other.family() == name.family()) {
            let other = format!("{prefix}{}", other.series());
            if !series.contains(&other) {
                series.push(other);
            }
        }
        self.not_offered(name, others(&of, &series.join(", ")))
    }

    fn not_offered(&self, name: &dyn fmt::Display, others: String) -> KernelError {
        KernelError::NotOffered { name: name.to_string(), suites: self.suite_names(), others }
    }

    fn suite_names(&self) -> String {
        let mut names: Vec<&str> = self.suites.iter().map(|suite| suite.name.as_str()).collect();
        names.dedup();
        names.join(", ")
    }

    fn fetch(&self, offer: &Available, folder: &Path, on: &mut Steps) -> Result<(), KernelError> {
        let scratch = self.cache.shelf().scratch(&self.lock)?;
        let make = |name: &str| {
            let path = scratch.path().join(name);
            fs::create_dir(&path).map_err(KernelError::io("make the folder", &path))?;
            Ok::<PathBuf, KernelError>(path)
        };
        let (tree, new) = (make("tree")?, make("kernel")?);
        let mut fetched = Vec::new();
        for (at, part) in offer.parts.iter().enumerate() {
            let into = make(&format!("deb{at}"))?;
            fetched.push(self.fetch_part(part, &into, &tree, on)?);
            fs::remove_dir_all(&into).map_err(KernelError::io("remove", &into))?;
        }
        offer.keep(&tree, &new)?;
        let origin = Provenance::Package {
            package: offer.kernel.name.clone(),
            package_version: offer.kernel.version.clone(),
            fetched,
            fetched_at: stamp::now(),
        };
        let Packaged { name, version, .. } = &offer.packaged;
        let hypervisor = offer.packaged.is_xen().then(|| version.clone());
        Stamp::write(&new, name.to_string(), offer.release.clone(), hypervisor, origin)?;
        self.cache.shelf().put(&new, folder, &self.lock)
    }

    /// Downloads one package, checks it and adds its files to `tree`.
    fn fetch_part(
        &self,
        part: &Stanza,
        into: &Path,
        tree: &Path,
        on: &mut Steps,
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

/// A clause with what there is instead; empty if there is nothing.
fn others(of: &str, there: &str) -> String {
    if there.is_empty() { String::new() } else { format!("; {of}there are {}", plain(there)) }
}

/// The newest version that the name means.
fn newest_sources(name: &Name, stanzas: Vec<Stanza>) -> Option<Stanza> {
    let own = stanzas.into_iter().filter(|stanza| {
        stanza.package == name.source_package()
            && name.matches(Family::Sources, &stanza.version)
            && is_safe(&stanza.version)
    });
    own.max_by(|a, b| version::compare(&a.version, &b.version))
}

#[cfg(test)]
mod tests {
    use super::super::offer::testing::stanza;
    use super::*;

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
            let name = Name::parse_sources(name).unwrap();
            let found = newest_sources(&name, stanzas.clone());
            let found = found.as_ref().map(|found| found.version.as_str());
            assert_eq!(found, expected, "{name}");
        }
    }
}
