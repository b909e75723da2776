//! Names of kernels: `debian:6.18`, `debian:6.18.15`, `debian:6.1-amd64`, or a path. Pure.

use std::fmt;

use thiserror::Error;

use super::version;

const ARCHITECTURE: &str = "-amd64";
const PREFIX: &str = "debian:";

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

    /// Of a release as `uname -r` prints it. Debian's other packages (dbg, unsigned, meta packages
    /// without a version) have none.
    pub fn of(release: &str) -> Option<Flavour> {
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
    #[error("it does not begin with `{PREFIX}`")]
    NoPrefix,
    #[error("it is a file, which needs no cache; list shows it")]
    File,
    #[error("it is neither `{PREFIX}` and a version nor a file")]
    NoFile,
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
        let is_number = |part: &str| {
            (1..=5).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        let numbers: Vec<&str> = version.split('.').collect();
        if !(2..=3).contains(&numbers.len()) || !numbers.iter().all(|part| is_number(part)) {
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
        let mut dots = self.version.match_indices('.');
        let end = dots.nth(1).map_or(self.version.len(), |(at, _)| at);
        &self.version[..end]
    }

    /// Whether it names one version, and not the newest of a series.
    pub fn is_exact(&self) -> bool {
        self.series() != self.version
    }

    /// Whether it names a kernel of this release, from a package of this version.
    pub fn matches(&self, release: &str, package_version: &str) -> bool {
        let upstream = version::upstream(package_version);
        let in_series = upstream.strip_prefix(&self.version).is_some_and(|rest| {
            // 6.1 is not 6.12, and 6.18.1 is not 6.18.15.
            !rest.starts_with(|c: char| c.is_ascii_digit())
        });
        in_series && Flavour::of(release) == Some(self.flavour)
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
            assert_eq!(Flavour::of(release), expected, "{release}");
        }
    }

    #[test]
    fn the_series_of_an_exact_name_is_known() {
        let exact = Name::exact("6.18.15-1~bpo13+1", Flavour::Rt);
        assert_eq!((exact.to_string().as_str(), exact.series()), ("debian:6.18.15-rt", "6.18"));
        let series = Name::parse("debian:6.1").expect("a prefix").expect("a name");
        assert_eq!(series.series(), "6.1");
    }
}
