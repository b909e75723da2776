//! Names of kernels: `debian:6.18`, `debian:6.18.15`, `debian:6.1-amd64`, `xen:4.17`, or a path. Pure.

use std::fmt;

use thiserror::Error;

use super::version;
use crate::model::{mistyped, words};

const ARCHITECTURE: &str = "-amd64";
const PREFIX: &str = "debian:";
const XEN_PREFIX: &str = "xen:";
const SOURCE_PREFIX: &str = "debian-source:";
const SOURCE_PACKAGES: &str = "linux-source-";
const MAX_BUILT: usize = 64;

words! {
    /// The kind of machine that a kernel is configured for; the suffix of Debian's package names.
    #[derive(PartialOrd, Ord)]
    pub enum Flavour {
        /// For virtual machines: the flavour of names without one.
        Cloud = "cloud",
        /// For any PC.
        Amd64 = "amd64",
        /// With PREEMPT_RT.
        Rt = "rt",
    }
}

impl Flavour {
    fn suffix(self) -> &'static str {
        match self {
            Flavour::Cloud => "-cloud-amd64",
            Flavour::Amd64 => ARCHITECTURE,
            Flavour::Rt => "-rt-amd64",
        }
    }

    /// The flavour of a release as `uname -r` prints it. Debian's other packages (dbg, unsigned, meta
    /// packages without a version) have none.
    pub fn from_release(release: &str) -> Option<Flavour> {
        let flavour = Flavour::ALL.into_iter().find(|flavour| {
            let abi = release.strip_suffix(flavour.suffix()).unwrap_or("");
            let begins_with_digit = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
            !abi.is_empty() && abi.split('-').all(begins_with_digit)
        });
        flavour.filter(|_| release.chars().all(is_safe))
    }
}

/// Characters of packages and releases that are safe in a file name.
fn is_safe(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+.~-".contains(c)
}

/// Why a text names no kernel.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum NameFault {
    #[error("a version like 6.18 or 6.18.15 must follow `{PREFIX}`")]
    Version,
    #[error("flavours are cloud (the default), amd64 and rt")]
    Flavour,
    #[error("it does not begin with `{PREFIX}` or `{XEN_PREFIX}`")]
    NoPrefix,
    #[error("it is a file, which needs no cache; list shows it")]
    File,
    #[error(
        "it is neither `{PREFIX}` or `{XEN_PREFIX}` and a version, nor a kernel that was built, \
         nor a file"
    )]
    NoFile,
    #[error("a version like 4.17 or 4.17.7 must follow `{XEN_PREFIX}`")]
    XenVersion,
    #[error("{0}")]
    Built(#[from] BuiltFault),
    #[error("a version like 6.12 or 6.12.117 must follow `{SOURCE_PREFIX}`")]
    SourceVersion,
}

/// Why a text cannot be the name of a kernel that is built.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum BuiltFault {
    #[error(
        "a name begins with a letter or a digit, and has letters, digits and `.`, `_`, `+`, `-`"
    )]
    Letters,
    #[error("a name has at most {MAX_BUILT} letters")]
    Length,
}

/// The name that the user gave to a kernel that is built here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BuiltName(String);

impl BuiltName {
    /// `try-0123456789ab`, of a digest.
    pub fn of_trial(digest: &str) -> BuiltName {
        let part: String = digest.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
        BuiltName(format!("try-{part}"))
    }

    pub fn parse(text: &str) -> Result<BuiltName, BuiltFault> {
        let is_inside = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        match begins && text.chars().all(is_inside) {
            false => Err(BuiltFault::Letters),
            true if text.len() > MAX_BUILT => Err(BuiltFault::Length),
            true => Ok(BuiltName(text.to_string())),
        }
    }
}

impl fmt::Display for BuiltName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of kernels in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CachedName {
    Fetched(Name),
    Built(BuiltName),
}

impl CachedName {
    pub fn parse(text: &str) -> Result<CachedName, NameFault> {
        match Name::parse(text) {
            Some(name) => Ok(CachedName::Fetched(name?)),
            None => Ok(CachedName::Built(BuiltName::parse(text)?)),
        }
    }

    /// Whether the text can only be the name of a kernel that is fetched, and no path.
    pub fn is_meant(text: &str) -> bool {
        [PREFIX, XEN_PREFIX].iter().any(|prefix| text.starts_with(prefix))
    }

    /// Whether it names one version, and not the newest of a series.
    pub fn is_exact(&self) -> bool {
        match self {
            CachedName::Fetched(name) => name.series() != name.version,
            CachedName::Built(_) => true,
        }
    }

    /// Whether only suites that Debian itself no longer supports have it.
    pub fn is_old(&self) -> bool {
        matches!(self, CachedName::Fetched(name) if name.is_old())
    }
}

impl fmt::Display for CachedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CachedName::Fetched(name) => name.fmt(f),
            CachedName::Built(name) => name.fmt(f),
        }
    }
}

/// A kind of thing that Debian has in versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Kernel(Flavour),
    /// A hypervisor with the kernel of its first domain.
    Xen,
    /// The sources of a kernel.
    Sources,
}

/// A version of one family: `debian:6.18` for the newest kernel of that series, `debian:6.18.15` for that one,
/// `xen:4.17`, `debian-source:6.12`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    family: Family,
    version: String,
}

impl Name {
    /// The name of a kernel or a hypervisor; `None` for another text, which may be a path.
    pub fn parse(text: &str) -> Option<Result<Name, NameFault>> {
        match text.strip_prefix(XEN_PREFIX) {
            Some(version) => Some(Name::checked(Family::Xen, version, NameFault::XenVersion)),
            None => text.strip_prefix(PREFIX).map(Name::parse_kernel),
        }
    }

    /// The name that somebody meant who mistyped what stands before the version, or left it out.
    pub fn meant(text: &str) -> Option<String> {
        let at = text.find(|c: char| c.is_ascii_digit())?;
        let (family, version) = text.split_at(at);
        let family = family.trim_end_matches([':', '-', '_', ' ']);
        let known = [PREFIX, XEN_PREFIX];
        let words = known.iter().map(|prefix| prefix.trim_end_matches(':'));
        let word = if family.is_empty() { Some("debian") } else { mistyped(family, words) }?;
        let name = format!("{word}:{version}");
        Name::parse(&name).filter(Result::is_ok).map(|_| name)
    }

    fn parse_kernel(text: &str) -> Result<Name, NameFault> {
        let (version, flavour) = text.split_once('-').unwrap_or((text, "cloud"));
        let name = Name::checked(Family::Kernel(Flavour::Cloud), version, NameFault::Version)?;
        let bare = flavour.strip_suffix(ARCHITECTURE).unwrap_or(flavour);
        let flavour = Flavour::from_word(bare).ok_or(NameFault::Flavour)?;
        Ok(Name { family: Family::Kernel(flavour), ..name })
    }

    pub fn parse_sources(text: &str) -> Result<Name, NameFault> {
        let version = text.strip_prefix(SOURCE_PREFIX).ok_or(NameFault::SourceVersion)?;
        Name::checked(Family::Sources, version, NameFault::SourceVersion)
    }

    /// A name whose version is two or three numbers.
    fn checked(family: Family, version: &str, fault: NameFault) -> Result<Name, NameFault> {
        let is_number = |part: &str| {
            (1..=5).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        let count = version.split('.').count();
        let is_version = (2..=3).contains(&count) && version.split('.').all(is_number);
        is_version.then(|| Name { family, version: version.to_string() }).ok_or(fault)
    }

    /// The exact name of a package's version: `debian:6.18.15` of `6.18.15-1~bpo13+1`, `xen:4.17.7` of
    /// `4.17.7+13-g2445b30a44-0+deb12u1`.
    pub fn exact(family: Family, package_version: &str) -> Name {
        let upstream = version::upstream(package_version);
        let is_more = |c: char| family == Family::Xen && !c.is_ascii_digit() && c != '.';
        let version = upstream.split(is_more).next().unwrap_or(upstream).to_string();
        Name { family, version }
    }

    pub fn family(&self) -> Family {
        self.family
    }

    /// `6.18` of `6.18` and of `6.18.15`.
    pub fn series(&self) -> &str {
        let mut dots = self.version.match_indices('.');
        let end = dots.nth(1).map_or(self.version.len(), |(at, _)| at);
        &self.version[..end]
    }

    /// The package that has all versions of sources of its series.
    pub fn source_package(&self) -> String {
        format!("{SOURCE_PACKAGES}{}", self.series())
    }

    /// The exact name of these sources: `debian-source:6.12.117-1`.
    pub fn of_sources(package_version: &str) -> String {
        format!("{SOURCE_PREFIX}{package_version}")
    }

    /// Whether only suites that Debian itself no longer supports have this series.
    pub fn is_old(&self) -> bool {
        let mut numbers = self.version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        self.family != Family::Xen && (numbers.next(), numbers.next()) < (Some(6), Some(1))
    }

    /// Whether a package's version is this one, or of this series: 6.1 is not 6.12, and 6.18.1 is not 6.18.15.
    pub fn matches(&self, family: Family, package_version: &str) -> bool {
        let rest = version::upstream(package_version).strip_prefix(&*self.version);
        family == self.family
            && rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.family {
            Family::Kernel(Flavour::Cloud) => write!(f, "{PREFIX}{}", self.version),
            Family::Kernel(other) => write!(f, "{PREFIX}{}-{}", self.version, other.word()),
            Family::Xen => write!(f, "{XEN_PREFIX}{}", self.version),
            Family::Sources => write!(f, "{SOURCE_PREFIX}{}", self.version),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_family_is_understood_where_its_version_is_one() {
        let cases = [
            ("debain:6.12", Some("debian:6.12")),
            ("Debian-6.12.90-rt", Some("debian:6.12.90-rt")),
            ("6.18", Some("debian:6.18")),
            ("xn:4.17", Some("xen:4.17")),
            ("debain:6", None),
            ("debain", None),
            ("ubuntu:22.04", None),
            ("./bzImage-6.18", None),
        ];
        for (text, meant) in cases {
            assert_eq!(Name::meant(text).as_deref(), meant, "{text}");
        }
    }

    #[test]
    fn names_have_a_version_and_a_flavour() {
        let cases: &[(&str, Option<&str>)] = &[
            ("debian:6.18", Some("debian:6.18")),
            ("debian:6.18.15", Some("debian:6.18.15")),
            ("debian:6.1-amd64", Some("debian:6.1-amd64")),
            ("debian:6.1-cloud", Some("debian:6.1")),
            ("debian:6.1-cloud-amd64", Some("debian:6.1")),
            ("debian:6.12.90-rt-amd64", Some("debian:6.12.90-rt")),
            ("debian:6", None),
            ("debian:", None),
            ("debian:6.", None),
            ("debian:.1", None),
            ("debian:6.18.15.1", None),
            ("debian:6.18-arm64", None),
            ("debian:6.18-", None),
            ("debian:6.18-rt-rt", None),
            ("debian:six", None),
            ("debian:6.+1", None),
            ("debian:6.123456", None),
            ("debian:../6.18", None),
        ];
        for (text, expected) in cases {
            let parsed = Name::parse(text).expect("a prefix").map(|name| name.to_string());
            assert_eq!(parsed.ok().as_deref(), *expected, "{text}");
        }
        assert_eq!(Name::parse("arch/x86/boot/bzImage"), None);
        assert_eq!(Name::parse("6.18"), None);
    }

    #[test]
    fn a_name_matches_its_series_and_its_flavour_alone() {
        let cases = [
            ("debian:6.1", "6.1.0-50-cloud-amd64", "6.1.176-1", true),
            ("debian:6.1.176", "6.1.0-50-cloud-amd64", "6.1.176-1", true),
            ("debian:6.1.17", "6.1.0-50-cloud-amd64", "6.1.176-1", false),
            ("debian:6.1", "6.12.107+deb13-cloud-amd64", "6.12.107-1", false),
            ("debian:6.1", "6.1.0-50-amd64", "6.1.176-1", false),
            ("debian:6.1-amd64", "6.1.0-50-amd64", "6.1.176-1", true),
            ("debian:6.1-amd64", "6.1.0-50-cloud-amd64", "6.1.176-1", false),
            ("debian:6.1-amd64", "6.1.0-50-rt-amd64", "6.1.176-1", false),
            ("debian:6.1-rt", "6.1.0-50-rt-amd64", "6.1.176-1", true),
            ("debian:7.3", "7.3~rc4-cloud-amd64", "7.3~rc4-1~exp1", true),
        ];
        for (name, release, package_version, expected) in cases {
            let name = Name::parse(name).expect("a prefix").expect("a name");
            let family = Family::Kernel(Flavour::from_release(release).expect("a flavour"));
            assert_eq!(name.matches(family, package_version), expected, "{name} {release}");
        }
    }

    #[test]
    fn releases_have_a_flavour() {
        let cases = [
            ("6.1.0-50-cloud-amd64", Some(Flavour::Cloud)),
            ("6.12.90+deb12.1-amd64", Some(Flavour::Amd64)),
            ("6.1.0-0.deb11.21-rt-amd64", Some(Flavour::Rt)),
            ("6.1.0-50-cloud-amd64-unsigned", None),
            ("6.1.0-50-amd64-dbg", None),
            ("6.1.0-50-arm64", None),
            ("amd64", None),
            ("cloud-amd64", None),
            ("-amd64", None),
            ("6.1/../x-amd64", None),
        ];
        for (release, expected) in cases {
            assert_eq!(Flavour::from_release(release), expected, "{release}");
        }
    }

    #[test]
    fn names_of_hypervisors_have_a_version() {
        let cases: &[(&str, Option<&str>)] = &[
            ("xen:4.17", Some("4.17")),
            ("xen:4.17.7", Some("4.17")),
            ("xen:4", None),
            ("xen:", None),
            ("xen:4.17-amd64", None),
            ("xen:../4.17", None),
        ];
        for (text, expected) in cases {
            let parsed = Name::parse(text).expect("a prefix");
            assert_eq!(parsed.as_ref().ok().map(Name::series), *expected, "{text}");
            assert_eq!(CachedName::parse(text).map(|name| name.to_string()).ok(), {
                expected.map(|_| text.to_string())
            });
            assert!(CachedName::is_meant(text));
        }
        assert!(!CachedName::is_meant("xen-4.17") && CachedName::is_meant("debian:"));
        let is_exact = |text| CachedName::parse(text).expect("a name").is_exact();
        assert!(is_exact("xen:4.17.7") && !is_exact("xen:4.17") && !is_exact("debian:6.1"));
    }

    #[test]
    fn a_hypervisor_is_called_by_its_upstream_version() {
        let package_version = "4.17.7+13-g2445b30a44-0+deb12u1";
        let exact = Name::exact(Family::Xen, package_version);
        assert_eq!((exact.to_string().as_str(), exact.series()), ("xen:4.17.7", "4.17"));
        for (name, expected) in
            [("xen:4.17", true), ("xen:4.17.7", true), ("xen:4.1", false), ("xen:4.17.71", false)]
        {
            let name = Name::parse(name).expect("a prefix").expect("a name");
            assert_eq!(name.matches(Family::Xen, package_version), expected, "{name}");
        }
        assert_eq!(Name::exact(Family::Xen, "4.20.0-1").to_string(), "xen:4.20.0");
    }

    #[test]
    fn the_series_of_an_exact_name_is_known() {
        let exact = Name::exact(Family::Kernel(Flavour::Rt), "6.18.15-1~bpo13+1");
        assert_eq!((exact.to_string().as_str(), exact.series()), ("debian:6.18.15-rt", "6.18"));
        let series = Name::parse("debian:6.1").expect("a prefix").expect("a name");
        assert_eq!(series.series(), "6.1");
    }
}
