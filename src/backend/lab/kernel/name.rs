//! Names of kernels: `debian:6.18`, `debian:6.18.15`, `debian:6.1-amd64`, `xen:4.17`, or a path. Pure.

use std::fmt;

use thiserror::Error;

use super::version;

const ARCHITECTURE: &str = "-amd64";
const PREFIX: &str = "debian:";
const XEN_PREFIX: &str = "xen:";
const SOURCE_PREFIX: &str = "debian-source:";
const SOURCE_PACKAGES: &str = "linux-source-";
const MAX_BUILT: usize = 64;

/// The kind of machine that a kernel is configured for; the suffix of Debian's package names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flavour {
    /// For virtual machines: the flavour of names without one.
    Cloud,
    /// For any PC.
    Amd64,
    /// With PREEMPT_RT.
    Rt,
}

impl Flavour {
    pub const ALL: [Flavour; 3] = [Flavour::Cloud, Flavour::Amd64, Flavour::Rt];

    pub fn word(self) -> &'static str {
        match self {
            Flavour::Cloud => "cloud",
            Flavour::Amd64 => "amd64",
            Flavour::Rt => "rt",
        }
    }

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
    Debian(Name),
    Xen(XenName),
    Built(BuiltName),
}

impl CachedName {
    pub fn parse(text: &str) -> Result<CachedName, NameFault> {
        match (Name::parse(text), XenName::parse(text)) {
            (Some(name), _) => Ok(CachedName::Debian(name?)),
            (None, Some(name)) => Ok(CachedName::Xen(name?)),
            (None, None) => Ok(CachedName::Built(BuiltName::parse(text)?)),
        }
    }

    /// Whether the text can only be the name of a kernel that is fetched, and no path.
    pub fn is_meant(text: &str) -> bool {
        [PREFIX, XEN_PREFIX].iter().any(|prefix| text.starts_with(prefix))
    }

    /// Whether it names one version, and not the newest of a series.
    pub fn is_exact(&self) -> bool {
        match self {
            CachedName::Debian(name) => name.is_exact(),
            CachedName::Xen(name) => name.series() != name.version,
            CachedName::Built(_) => true,
        }
    }

    /// Whether only suites that Debian itself no longer supports have it.
    pub fn is_old(&self) -> bool {
        matches!(self, CachedName::Debian(name) if name.is_old())
    }
}

impl fmt::Display for CachedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CachedName::Debian(name) => name.fmt(f),
            CachedName::Xen(name) => name.fmt(f),
            CachedName::Built(name) => name.fmt(f),
        }
    }
}

/// A hypervisor with the kernel of its first domain: `xen:4.17` for the newest of that series,
/// `xen:4.17.7` for that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XenName {
    version: String,
}

impl XenName {
    /// `None` for another text.
    pub fn parse(text: &str) -> Option<Result<XenName, NameFault>> {
        let version = text.strip_prefix(XEN_PREFIX)?;
        Some(if is_version(version) {
            Ok(XenName { version: version.to_string() })
        } else {
            Err(NameFault::XenVersion)
        })
    }

    /// The exact name of a package's hypervisor: `xen:4.17.7` of `4.17.7+13-g2445b30a44-0+deb12u1`.
    pub fn exact(package_version: &str) -> XenName {
        let upstream = version::upstream(package_version);
        let end = upstream.find(|c: char| !c.is_ascii_digit() && c != '.');
        XenName { version: upstream[..end.unwrap_or(upstream.len())].to_string() }
    }

    /// `4.17` of `4.17` and of `4.17.7`.
    pub fn series(&self) -> &str {
        series(&self.version)
    }

    pub fn matches(&self, package_version: &str) -> bool {
        is_of(package_version, &self.version)
    }
}

impl fmt::Display for XenName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{XEN_PREFIX}{}", self.version)
    }
}

/// The sources of a Debian kernel: `debian-source:6.12` for the newest of that series,
/// `debian-source:6.12.117` for that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceName {
    version: String,
}

impl SourceName {
    pub fn parse(text: &str) -> Result<SourceName, NameFault> {
        let version = text.strip_prefix(SOURCE_PREFIX).filter(|version| is_version(version));
        let version = version.ok_or(NameFault::SourceVersion)?.to_string();
        Ok(SourceName { version })
    }

    /// The package that has all versions of its series.
    pub fn package(&self) -> String {
        format!("{SOURCE_PACKAGES}{}", series(&self.version))
    }

    pub fn matches(&self, package_version: &str) -> bool {
        is_of(package_version, &self.version)
    }

    /// The exact name of these sources: `debian-source:6.12.117-1`.
    pub fn of_package(package_version: &str) -> String {
        format!("{SOURCE_PREFIX}{package_version}")
    }

    pub fn is_old(&self) -> bool {
        is_old(&self.version)
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SOURCE_PREFIX}{}", self.version)
    }
}

/// Two or three numbers.
fn is_version(text: &str) -> bool {
    let is_number = |part: &str| {
        (1..=5).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    (2..=3).contains(&text.split('.').count()) && text.split('.').all(is_number)
}

/// `6.18` of `6.18` and of `6.18.15`.
fn series(version: &str) -> &str {
    let mut dots = version.match_indices('.');
    let end = dots.nth(1).map_or(version.len(), |(at, _)| at);
    &version[..end]
}

/// Whether a package's version is this one, or of this series: 6.1 is not 6.12, and 6.18.1 is not
/// 6.18.15.
fn is_of(package_version: &str, wanted: &str) -> bool {
    let rest = version::upstream(package_version).strip_prefix(wanted);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether only suites that Debian itself no longer supports have this series.
fn is_old(version: &str) -> bool {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) < (Some(6), Some(1))
}

/// The name of one or more Debian kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// `6.18` for the newest of that series, `6.18.15` for that one.
    version: String,
    flavour: Flavour,
}

impl Name {
    /// `None` for another text, which may be a path.
    pub fn parse(text: &str) -> Option<Result<Name, NameFault>> {
        text.strip_prefix(PREFIX).map(Name::parse_rest)
    }

    fn parse_rest(text: &str) -> Result<Name, NameFault> {
        let (version, flavour) = text.split_once('-').unwrap_or((text, "cloud"));
        if !is_version(version) {
            return Err(NameFault::Version);
        }
        let bare = flavour.strip_suffix(ARCHITECTURE).unwrap_or(flavour);
        match Flavour::ALL.into_iter().find(|known| known.word() == bare) {
            Some(flavour) => Ok(Name { version: version.to_string(), flavour }),
            None => Err(NameFault::Flavour),
        }
    }

    /// The exact name of a package's kernel.
    pub fn exact(package_version: &str, flavour: Flavour) -> Name {
        Name { version: version::upstream(package_version).to_string(), flavour }
    }

    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// `6.18` of `6.18` and of `6.18.15`.
    pub fn series(&self) -> &str {
        series(&self.version)
    }

    pub fn is_old(&self) -> bool {
        is_old(&self.version)
    }

    /// Whether it names one version, and not the newest of a series.
    pub fn is_exact(&self) -> bool {
        self.series() != self.version
    }

    /// Whether it names a kernel of this release, from a package of this version.
    pub fn matches(&self, release: &str, package_version: &str) -> bool {
        is_of(package_version, &self.version)
            && Flavour::from_release(release) == Some(self.flavour)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.version)?;
        match self.flavour {
            Flavour::Cloud => Ok(()),
            other => write!(f, "-{}", other.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(name.matches(release, package_version), expected, "{name} {release}");
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
            let parsed = XenName::parse(text).expect("a prefix");
            assert_eq!(parsed.as_ref().ok().map(XenName::series), *expected, "{text}");
            assert_eq!(CachedName::parse(text).map(|name| name.to_string()).ok(), {
                expected.map(|_| text.to_string())
            });
            assert!(CachedName::is_meant(text));
        }
        assert_eq!(XenName::parse("debian:6.1"), None);
        assert!(!CachedName::is_meant("xen-4.17") && CachedName::is_meant("debian:"));
        let is_exact = |text| CachedName::parse(text).expect("a name").is_exact();
        assert!(is_exact("xen:4.17.7") && !is_exact("xen:4.17") && !is_exact("debian:6.1"));
    }

    #[test]
    fn a_hypervisor_is_called_by_its_upstream_version() {
        let package_version = "4.17.7+13-g2445b30a44-0+deb12u1";
        let exact = XenName::exact(package_version);
        assert_eq!((exact.to_string().as_str(), exact.series()), ("xen:4.17.7", "4.17"));
        for (name, expected) in
            [("xen:4.17", true), ("xen:4.17.7", true), ("xen:4.1", false), ("xen:4.17.71", false)]
        {
            let name = XenName::parse(name).expect("a prefix").expect("a name");
            assert_eq!(name.matches(package_version), expected, "{name}");
        }
        assert_eq!(XenName::exact("4.20.0-1").to_string(), "xen:4.20.0");
    }

    #[test]
    fn the_series_of_an_exact_name_is_known() {
        let exact = Name::exact("6.18.15-1~bpo13+1", Flavour::Rt);
        assert_eq!((exact.to_string().as_str(), exact.series()), ("debian:6.18.15-rt", "6.18"));
        let series = Name::parse("debian:6.1").expect("a prefix").expect("a name");
        assert_eq!(series.series(), "6.1");
    }
}
