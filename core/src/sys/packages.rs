//! How this machine's distribution installs packages, by /etc/os-release.

use super::Host;

/// A family of distributions that call packages alike.
#[derive(Debug, PartialEq, Eq)]
pub struct Distribution {
    pub name: &'static str,
    pub program: &'static str,
    pub install: &'static str,
    /// Makes it ask nothing.
    pub yes: &'static str,
    /// Beginnings of ID and ID_LIKE of its members.
    ids: &'static [&'static str],
}

pub const NAMES: [&str; 4] = ["debian", "fedora", "arch", "opensuse"];

/// Debian's is the one that was tried.
const DISTRIBUTIONS: [Distribution; 4] = [
    Distribution {
        name: NAMES[0],
        program: "apt-get",
        install: "install",
        yes: "-y",
        ids: &["debian", "ubuntu"],
    },
    Distribution {
        name: NAMES[1],
        program: "dnf",
        install: "install",
        yes: "-y",
        ids: &["fedora", "rhel", "centos"],
    },
    Distribution {
        name: NAMES[2],
        program: "pacman",
        install: "-S",
        yes: "--noconfirm",
        ids: &["arch"],
    },
    Distribution {
        name: NAMES[3],
        program: "zypper",
        install: "install",
        yes: "-y",
        ids: &["opensuse", "suse"],
    },
];

impl Distribution {
    /// This machine's. `None`: another one, or the machine does not say.
    pub fn find(host: &Host) -> Option<&'static Distribution> {
        let text = host.read("/etc/os-release").unwrap_or_default();
        let value = |key: &str| {
            let mut values = text.lines().filter_map(|line| line.strip_prefix(key));
            values.next().unwrap_or_default().trim_matches(['"', '\''])
        };
        let own = [value("ID="), value("ID_LIKE=")];
        let mut own = own.into_iter().flat_map(str::split_whitespace);
        own.find_map(|id| {
            DISTRIBUTIONS.iter().find(|of| of.ids.iter().any(|begin| id.starts_with(begin)))
        })
    }

    /// The command that installs these packages, separated by blanks.
    pub fn command(&self, packages: &str) -> String {
        format!("{} {} {packages}", self.program, self.install)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::testing::Tree;

    #[test]
    fn a_distribution_is_known_by_its_family() {
        for (text, expected) in [
            ("ID=debian\n", Some("apt-get install x")),
            ("NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\n", Some("apt-get install x")),
            ("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", Some("dnf install x")),
            ("VERSION_ID=1\nID=manjaro\nID_LIKE=arch\n", Some("pacman -S x")),
            ("ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", Some("zypper install x")),
            ("ID=nixos\n", None),
            ("", None),
        ] {
            let tree = Tree::with_files(&[("/etc/os-release", text)]);
            let found = Distribution::find(&tree.host()).map(|of| of.command("x"));
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
