//! Checks that the tools for building kernels are installed, before anything is fetched.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::sys::packages::{Distribution, NAMES};
use crate::sys::{Host, command};

/// A program or the path of a header, and the package that has it, by distribution in the order of
/// `NAMES`.
struct Tool {
    program: &'static str,
    packages: [&'static str; NAMES.len()],
}

const fn same(program: &'static str) -> Tool {
    Tool { program, packages: [program; NAMES.len()] }
}

const ALWAYS: &[Tool] = &[
    same("gcc"),
    same("make"),
    Tool { program: "ld", packages: ["binutils"; NAMES.len()] },
    same("flex"),
    same("bison"),
    same("bc"),
    same("perl"),
    same("patch"),
    same("gzip"),
    Tool { program: "cp", packages: ["coreutils"; NAMES.len()] },
];
const FOR_PACKAGES: &[Tool] =
    &[same("tar"), Tool { program: "xz", packages: ["xz-utils", "xz", "xz", "xz"] }];
const FOR_TREES: &[Tool] = &[same("git")];
/// Headers for the programs that the build itself makes, such as objtool.
const HEADERS: &[Tool] = &[
    Tool {
        program: "/usr/include/stdio.h",
        packages: ["libc6-dev", "glibc-devel", "glibc", "glibc-devel"],
    },
    Tool {
        program: "/usr/include/gelf.h",
        packages: ["libelf-dev", "elfutils-libelf-devel", "libelf", "libelf-devel"],
    },
];

/// Programs and headers that are not there.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("there is no {}", names.join(", no "))]
pub struct Missing {
    names: Vec<&'static str>,
    packages: Vec<[&'static str; NAMES.len()]>,
}

impl Missing {
    /// The command that installs what is missing.
    pub fn hint(&self) -> String {
        let here = Distribution::find(&Host::default());
        let at = here.and_then(|here| NAMES.iter().position(|name| *name == here.name));
        let mut packages: Vec<&str> =
            self.packages.iter().map(|all| all[at.unwrap_or(0)]).collect();
        packages.dedup();
        let packages = packages.join(" ");
        match here {
            Some(here) => here.command(&packages),
            None => format!("install {packages} (Debian's names)"),
        }
    }
}

/// `None` if nothing is missing.
pub fn missing(is_package: bool, has: impl Fn(&str) -> bool) -> Option<Missing> {
    let more = if is_package { FOR_PACKAGES } else { FOR_TREES };
    let tools = ALWAYS.iter().chain(more).chain(HEADERS).filter(|tool| !has(tool.program));
    let mut missing = Missing { names: Vec::new(), packages: Vec::new() };
    for tool in tools {
        missing.names.push(bare(tool.program));
        missing.packages.push(tool.packages);
    }
    (!missing.names.is_empty()).then_some(missing)
}

/// A program of the PATH, or a header that the compiler finds.
pub fn is_there(name: &str) -> bool {
    if !name.starts_with('/') {
        return command::find(name).is_ok();
    }
    Path::new(name).is_file() || compiler_finds(bare(name))
}

fn bare(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Asks the compiler, because headers may be in another folder.
fn compiler_finds(header: &str) -> bool {
    let mut command = Command::new("gcc");
    command.args(["-E", "-x", "c", "-include", header, "/dev/null"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        assert_eq!(missing(true, |_| true), None);
        let cases: &[(bool, &[&str], &str)] = &[
            (true, &["flex", "xz", "/usr/include/gelf.h"], "there is no flex, no xz, no gelf.h"),
            (false, &["git", "xz"], "there is no git"),
        ];
        for (is_package, gone, expected) in cases {
            let found = missing(*is_package, |name| !gone.contains(&name)).unwrap();
            assert_eq!(found.to_string(), *expected);
            assert_eq!(found.names.len(), found.packages.len());
        }
        for header in HEADERS {
            let found = missing(true, |name| name != header.program).unwrap();
            assert_eq!(found.packages, [header.packages]);
        }
    }
}
