//! The hypervisors that a mirror offers, with the packages that a bootable one and its guests need.
//!
//! All packages come from one Debian release: tools and hypervisor must have the same version, and the
//! libraries must be those that the tools were built with. The kernel is the release's own.

use std::collections::BTreeSet;

use super::apt::{Apt, Stanza};
use super::cache::Packaged;
use super::name::Name;
use super::offer::{Available, is_safe};
use super::sources::Suite;
use super::{KernelError, version};

const HYPERVISORS: &str = "xen-hypervisor-";
const ARCHITECTURE: &str = "-amd64";
/// This package depends on the release's newest kernel for any PC; Xen cannot start a cloud kernel as its
/// first domain.
const KERNEL: &str = "linux-image-amd64";
/// Shared libraries of the tools. The other dependencies are for tools that the lab does not use.
const LIBRARIES: &[&str] =
    &["libxen", "libyajl", "libuuid", "liblzma", "libzstd", "zlib1g", "libgcc-s", "libc6"];

/// The hypervisors that have all of their parts, the newest last. Changes the suites that apt asks.
pub fn hypervisors(
    apt: &Apt,
    suites: &[Suite],
    kernels: &[Available],
) -> Result<Vec<Available>, KernelError> {
    let mut available: Vec<Available> = Vec::new();
    for release in releases(suites) {
        apt.use_suites(&release)?;
        let mut names = apt.names(HYPERVISORS)?;
        names.retain(|name| series_of(name).is_some());
        if names.is_empty() {
            continue;
        }
        for new in offers(&index(apt, names)?, kernels) {
            if !available.contains(&new) {
                available.push(new);
            }
        }
    }
    available.sort_by(|a, b| version::compare(&a.packaged.version, &b.packaged.version));
    Ok(available)
}

/// The suites of each Debian release, without the backports of the next one's packages.
fn releases(suites: &[Suite]) -> Vec<Vec<Suite>> {
    let mut releases: Vec<(&str, Vec<Suite>)> = Vec::new();
    for suite in suites {
        let (base, part) = suite.name.split_once('-').unwrap_or((&suite.name, ""));
        if !["", "security", "updates"].contains(&part) {
            continue;
        }
        match releases.iter_mut().find(|(name, _)| *name == base) {
            Some((_, own)) => own.push(suite.clone()),
            None => releases.push((base, vec![suite.clone()])),
        }
    }
    releases.into_iter().map(|(_, own)| own).collect()
}

/// `4.17` of `xen-hypervisor-4.17-amd64`.
fn series_of(package: &str) -> Option<&str> {
    let series = package.strip_prefix(HYPERVISORS)?.strip_suffix(ARCHITECTURE)?;
    let is_series = Name::parse(&format!("xen:{series}"))?.is_ok();
    is_series.then_some(series)
}

/// The packages of the hypervisors, the tools and the release's kernel, with all that they need, in all
/// versions of the suites.
fn index(apt: &Apt, hypervisors: Vec<String>) -> Result<Vec<Stanza>, KernelError> {
    let mut wanted: Vec<String> = hypervisors.iter().filter_map(|name| series_of(name)).fold(
        vec![KERNEL.to_string()],
        |mut wanted, series| {
            wanted.extend(tools(series));
            wanted
        },
    );
    wanted.extend(hypervisors);
    let (mut index, mut seen): (Vec<Stanza>, BTreeSet<String>) = Default::default();
    while !wanted.is_empty() {
        seen.extend(wanted.iter().cloned());
        let new = apt.show(&wanted)?;
        let needs = new.iter().flat_map(libraries).filter(|name| !seen.contains(name));
        wanted = needs.collect::<BTreeSet<_>>().into_iter().collect();
        index.extend(new);
    }
    Ok(index)
}

fn tools(series: &str) -> [String; 2] {
    [format!("xen-utils-{series}"), "xenstore-utils".to_string()]
}

/// The names of the libraries that a package depends on.
fn libraries(of: &Stanza) -> Vec<String> {
    let names = of.depends.split(',').filter_map(|need| need.split_whitespace().next());
    let names = names.map(|name| name.split(':').next().unwrap_or(name));
    let is_library = |name: &&str| LIBRARIES.iter().any(|begin| name.starts_with(begin));
    names.filter(is_library).map(str::to_string).collect()
}

fn offers(index: &[Stanza], kernels: &[Available]) -> Vec<Available> {
    let hypervisors = index.iter().filter(|stanza| series_of(&stanza.package).is_some());
    hypervisors.filter_map(|hypervisor| offer(hypervisor, index, kernels)).collect()
}

fn offer(hypervisor: &Stanza, index: &[Stanza], kernels: &[Available]) -> Option<Available> {
    let series = series_of(&hypervisor.package)?;
    let version = hypervisor.version.as_str();
    if !is_safe(version) {
        return None;
    }
    let newest = |name: &str| {
        let own = index.iter().filter(|stanza| stanza.package == name);
        own.max_by(|a, b| version::compare(&a.version, &b.version))
    };
    let same = |name: &str| {
        index.iter().find(|stanza| stanza.package == name && stanza.version == version)
    };
    let mut parts = vec![hypervisor.clone()];
    for name in tools(series) {
        parts.push(same(&name)?.clone());
    }
    let mut at = 1;
    while let Some(part) = parts.get(at) {
        for name in libraries(part) {
            if parts.iter().all(|part| part.package != name) {
                // Xen's own are of its version.
                parts.push(same(&name).or_else(|| newest(&name))?.clone());
            }
        }
        at += 1;
    }
    let kernel = kernel_of(newest(KERNEL)?, kernels)?;
    Some(Available {
        packaged: Packaged::xen(version, &kernel.kernel.version),
        package: hypervisor.package.clone(),
        size_bytes: kernel.size_bytes + parts.iter().map(|part| part.size_bytes).sum::<u64>(),
        parts: kernel.parts.iter().chain(&parts).cloned().collect(),
        ..kernel.clone()
    })
}

/// The kernel that a package without files depends on: `linux-image-6.1.0-56-amd64 (= 6.1.192-2)`.
fn kernel_of<'a>(meta: &Stanza, kernels: &'a [Available]) -> Option<&'a Available> {
    let is_own = |kernel: &Available, need: &str| {
        need.trim() == format!("{} (= {})", kernel.kernel.name, kernel.kernel.version)
    };
    kernels.iter().find(|kernel| meta.depends.split(',').any(|need| is_own(kernel, need)))
}

#[cfg(test)]
mod tests {
    use super::super::offer::{self, testing::stanza};
    use super::*;

    const OLD: &str = "4.17.5+72-g01140da4e8-1";
    const NEW: &str = "4.17.7+13-g2445b30a44-0+deb12u1";

    fn kernels() -> Vec<Available> {
        let kernel = |release: &str, version| {
            offer::offer(stanza(&format!("linux-image-{release}"), version, ""), &[]).unwrap()
        };
        vec![
            kernel("6.1.0-50-amd64", "6.1.176-1"),
            kernel("6.1.0-56-amd64", "6.1.192-2"),
            kernel("6.12.117+deb13-amd64", "6.12.117-1"),
        ]
    }

    /// The packages of a release with one update.
    fn index() -> Vec<Stanza> {
        let of_xen = |version| {
            [
                stanza("xen-hypervisor-4.17-amd64", version, ""),
                stanza(
                    "xen-utils-4.17",
                    version,
                    "libc6 (>= 2.35), libncurses6 (>= 6), libxenmisc4.17 (>= 4.17.5), python3:any",
                ),
                stanza("xenstore-utils", version, "libc6 (>= 2.34), libxenstore4 (>= 4.16.0)"),
                stanza("libxenmisc4.17", version, "libc6 (>= 2.34), zlib1g:amd64 (>= 1:1.1.4)"),
                stanza("libxenstore4", version, "libc6 (>= 2.34)"),
            ]
        };
        let others = [
            stanza("libc6", "2.36-9+deb12u9", "libgcc-s1"),
            stanza("libc6", "2.36-9+deb12u14", "libgcc-s1"),
            stanza("libgcc-s1", "12.2.0-14", "gcc-12-base (= 12.2.0-14), libc6 (>= 2.35)"),
            stanza("zlib1g", "1:1.2.13.dfsg-1", "libc6 (>= 2.14)"),
            stanza(KERNEL, "6.1.176-1", "linux-image-6.1.0-50-amd64 (= 6.1.176-1)"),
            stanza(KERNEL, "6.1.192-2", "linux-image-6.1.0-56-amd64 (= 6.1.192-2)"),
        ];
        of_xen(OLD).into_iter().chain(of_xen(NEW)).chain(others).collect()
    }

    fn offered<'a>(version: &str, offers: &'a [Available]) -> Option<&'a Available> {
        offers.iter().find(|offer| offer.packaged.version == version)
    }

    #[test]
    fn tools_have_the_version_of_their_hypervisor() {
        let offers = offers(&index(), &kernels());
        assert_eq!(offers.len(), 2);
        for version in [OLD, NEW] {
            let offer = offered(version, &offers).unwrap();
            let parts: Vec<(&str, &str)> =
                offer.parts.iter().map(|part| (&*part.package, &*part.version)).collect();
            let expected = [
                ("linux-image-6.1.0-56-amd64", "6.1.192-2"),
                ("xen-hypervisor-4.17-amd64", version),
                ("xen-utils-4.17", version),
                ("xenstore-utils", version),
                ("libc6", "2.36-9+deb12u14"),
                ("libxenmisc4.17", version),
                ("libxenstore4", version),
                ("libgcc-s1", "12.2.0-14"),
                ("zlib1g", "1:1.2.13.dfsg-1"),
            ];
            assert_eq!(parts, expected);
            assert_eq!(offer.release, "6.1.0-56-amd64", "the newest of the release");
            assert_eq!(offer.size_bytes, 90);
        }
        assert_eq!(offered(NEW, &offers).unwrap().packaged.name.to_string(), "xen:4.17.7");
    }

    #[test]
    fn what_lacks_a_part_is_not_offered() {
        let without = |package: &str, version: &str| {
            let mut index = index();
            index.retain(|stanza| (&*stanza.package, &*stanza.version) != (package, version));
            offered(NEW, &offers(&index, &kernels())).is_some()
        };
        assert!(without("nothing", "1"));
        assert!(without("libc6", "2.36-9+deb12u14"), "there is an older one");
        for package in ["xen-utils-4.17", "xenstore-utils"] {
            assert!(!without(package, NEW), "{package} of another version");
        }
        assert!(!without("zlib1g", "1:1.2.13.dfsg-1"));
        assert_eq!(offers(&index(), &kernels()[2..]), [], "no kernel of the release");
        let mut unsafe_one = index();
        unsafe_one.iter_mut().for_each(|stanza| stanza.version = "4.17/../x".to_string());
        assert_eq!(offers(&unsafe_one, &kernels()), []);
    }

    #[test]
    fn releases_have_their_updates_and_no_backports() {
        let suite =
            |name: &str| Suite { uri: "http://example.org/d".to_string(), name: name.to_string() };
        let suites = [
            "bookworm",
            "bookworm-backports",
            "trixie",
            "trixie-backports",
            "bookworm-security",
            "trixie-security",
        ];
        let releases = releases(&suites.map(suite));
        let names: Vec<Vec<&str>> = releases
            .iter()
            .map(|release| release.iter().map(|suite| suite.name.as_str()).collect())
            .collect();
        assert_eq!(names, [["bookworm", "bookworm-security"], ["trixie", "trixie-security"]]);
    }

    #[test]
    fn packages_of_hypervisors_have_a_series() {
        let cases = [
            ("xen-hypervisor-4.17-amd64", Some("4.17")),
            ("xen-hypervisor-4.17-arm64", None),
            ("xen-hypervisor-common", None),
            ("xen-hypervisor-4.17/../x-amd64", None),
            ("xen-utils-4.17", None),
        ];
        for (package, expected) in cases {
            assert_eq!(series_of(package), expected, "{package}");
        }
    }
}
