//! apt's own tools, with lists and a configuration of ours: the machine's are only read.
//!
//! Installs nothing and needs no privilege. apt checks the chain of signatures from the keys of
//! Debian's archive to each package. Its output is data.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::KernelError;
use super::error::PackageFault;
use super::sources::{self, Reach, Source, Suite};
use crate::model::clean as plain;
use crate::sys;
use crate::sys::input::{self, InputFault};

/// Keys of all of Debian's suites, under the names that their package has used.
const KEYRINGS: &[&str] = &[
    "/usr/share/keyrings/debian-archive-keyring.pgp",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
];
/// Read after the machine's own configuration, which may name a proxy. The machine's hooks for
/// updates are for its own lists. Without `packages.bin` each question would parse all lists.
const CONFIGURATION: &str = r#"// Written by schedlab; it changes nothing outside this folder.
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Architectures;
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
APT::Get::AllowUnauthenticated "false";
APT::Get::List-Cleanup "false";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
Acquire::GzipIndexes "true";
Acquire::Languages "none";
Acquire::Retries "2";
Dir::Cache::pkgcache "packages.bin";
Dir::Cache::srcpkgcache "";
"#;

/// The stanzas of all versions of many packages.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;

pub struct Apt<'a> {
    root: PathBuf,
    keyring: PathBuf,
    /// Setting it ends the running program.
    stop: &'a AtomicBool,
}

/// One version of a package.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stanza {
    pub package: String,
    pub version: String,
    pub depends: String,
    pub sha256: String,
    pub size_bytes: u64,
}

impl<'a> Apt<'a> {
    /// Makes the folder `root` for apt. Also returns the suites to read.
    pub fn prepare(
        root: &Path,
        reach: Reach,
        stop: &'a AtomicBool,
    ) -> Result<(Apt<'a>, Vec<Suite>), KernelError> {
        let (files, sources) = machine_sources(stop)?;
        let suites = sources::suites(&sources, reach);
        if suites.is_empty() {
            return Err(KernelError::NoMirror { files });
        }
        let apt = Apt { root: root.to_path_buf(), keyring: keyring(&sources)?, stop };
        for folder in ["lists/partial", "archives/partial"] {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).map_err(KernelError::io("make the folder", &folder))?;
        }
        apt.write("apt.conf", CONFIGURATION)?;
        Ok((apt, suites))
    }

    /// Updates the list of one suite.
    pub fn update(&self, suite: &Suite) -> Result<(), KernelError> {
        self.use_suites(std::slice::from_ref(suite))?;
        let mut command = self.command("apt-get");
        // The questions are about other sets of suites.
        command.args(["-q", "-o", "pkgCacheFile::Generate=false", "update"]);
        let action = format!("read the suite {}", plain(&suite.name));
        output_of(command, &action, self.stop, &mut |_| ()).map(drop)
    }

    /// Sets the suites for all later questions.
    pub fn use_suites(&self, suites: &[Suite]) -> Result<(), KernelError> {
        let keyring = self.keyring.display();
        let stanza = |suite: &Suite| {
            let Suite { uri, name } = suite;
            format!(
                "Types: deb\nURIs: {uri}\nSuites: {name}\nComponents: main\nArchitectures: amd64\n\
                 Targets: Packages\nSigned-By: {keyring}\n\n"
            )
        };
        self.write("schedlab.sources", &suites.iter().map(stanza).collect::<String>())
    }

    /// Packages whose names begin so.
    pub fn names(&self, prefix: &str) -> Result<Vec<String>, KernelError> {
        let mut command = self.command("apt-cache");
        command.args(["pkgnames", prefix]);
        let text = output_of(command, "list packages", self.stop, &mut |_| ())?;
        let names = text.lines().filter(|line| line.starts_with(prefix));
        Ok(names.map(|line| line.trim().to_string()).collect())
    }

    /// All versions of these packages.
    pub fn show(&self, names: &[String]) -> Result<Vec<Stanza>, KernelError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = self.command("apt-cache");
        command.arg("show").args(names);
        Ok(stanzas(&output_of(command, "read packages", self.stop, &mut |_| ())?))
    }

    /// Downloads into an empty folder. Returns the file; `percent` gets the progress.
    pub fn download(
        &self,
        stanza: &Stanza,
        into: &Path,
        percent: &mut dyn FnMut(f64),
    ) -> Result<PathBuf, KernelError> {
        let Stanza { package, version, .. } = stanza;
        let mut command = self.command("apt-get");
        command.args(["-q", "-o", "APT::Status-Fd=1", "download"]);
        command.arg(format!("{package}={version}")).current_dir(into);
        output_of(command, &format!("download {package} {version}"), self.stop, &mut |line| {
            if let Some(done) = progress(line) {
                percent(done);
            }
        })?;
        let files = fs::read_dir(into).map_err(KernelError::io("read", into))?;
        let mut files = files.flatten().map(|entry| entry.path());
        files.find(|path| path.extension().is_some_and(|ending| ending == "deb")).ok_or_else(|| {
            KernelError::Package { package: package.clone(), why: PackageFault::NoFile }
        })
    }

    fn write(&self, name: &str, text: &str) -> Result<(), KernelError> {
        let path = self.root.join(name);
        fs::write(&path, text).map_err(KernelError::io("write", &path))
    }

    fn command(&self, program: &'static str) -> Command {
        let mut command = Command::new(program);
        command.arg("-c").arg(self.root.join("apt.conf"));
        // An apt that is killed leaves its temporary files.
        command.env("TMPDIR", &self.root);
        let places = [
            ("Dir::Etc::sourcelist", self.root.join("schedlab.sources")),
            ("Dir::Etc::sourceparts", PathBuf::from("-")),
            ("Dir::State::lists", self.root.join("lists")),
            ("Dir::State::status", PathBuf::from("/dev/null")),
            ("Dir::Cache", self.root.clone()),
            ("Dir::Cache::archives", self.root.join("archives")),
        ];
        for (key, place) in places {
            let mut option = std::ffi::OsString::from(format!("{key}="));
            option.push(place);
            command.arg("-o").arg(option);
        }
        command
    }
}

/// Unpacks a package; runs none of its scripts.
pub fn unpack(deb: &Path, into: &Path, stop: &AtomicBool) -> Result<(), KernelError> {
    let mut command = Command::new("dpkg-deb");
    command.arg("-x").arg(deb).arg(into);
    output_of(command, "unpack the package", stop, &mut |_| ()).map(drop)
}

/// The sources of the machine's apt, and the files that list them.
fn machine_sources(stop: &AtomicBool) -> Result<(Vec<PathBuf>, Vec<Source>), KernelError> {
    let mut command = Command::new("apt-config");
    command.args(["shell", "LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"]);
    let text = output_of(command, "ask apt for its sources", stop, &mut |_| ())?;
    let place = |name: &str| {
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(PathBuf::from(value.trim().trim_matches('\'')))
    };
    let mut files: Vec<PathBuf> = place("LIST").into_iter().collect();
    if let Some(parts) = place("PARTS") {
        let found = fs::read_dir(&parts).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
        found.sort();
        files.extend(found);
    }
    let (mut read, mut sources) = (Vec::new(), Vec::new());
    for file in files {
        // Lists that others may not read are left out.
        let Ok(text) = input::read_text_file(&file, input::MAX_OWN_FILE_BYTES) else { continue };
        sources.extend(sources::parse(&file, &text));
        read.push(file);
    }
    Ok((read, sources))
}

/// The keys of all suites, or else those of one of the machine's sources.
fn keyring(sources: &[Source]) -> Result<PathBuf, KernelError> {
    let own = sources.iter().filter_map(|source| source.signed_by.as_deref());
    let own = own.filter(|keys| keys.contains("/debian-archive-"));
    let mut all = KEYRINGS.iter().copied().chain(own).map(PathBuf::from);
    all.find(|path| path.is_file())
        .ok_or_else(|| KernelError::NoKeyring { path: PathBuf::from(KEYRINGS[1]) })
}

/// Runs a program to its end, and returns its lines, which `line` gets as they come. Those of standard error are
/// among them.
fn output_of(
    mut command: Command,
    action: &str,
    stop: &AtomicBool,
    line: &mut dyn FnMut(&str),
) -> Result<String, KernelError> {
    let failed = |why: String| KernelError::Apt { action: action.to_string(), why };
    let program = command.get_program().to_string_lossy().into_owned();
    command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
    let (mut text, is_too_large) = (String::new(), Cell::new(false));
    let is_over = || is_too_large.get() || stop.load(Ordering::SeqCst);
    let ended = sys::tool::run_until(command, &is_over, &mut |one| {
        line(one);
        text.extend([one, "\n"]);
        is_too_large.set(text.len() as u64 > MAX_OUTPUT_BYTES);
    });
    let ended = ended.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => KernelError::NoApt { program: program.clone() },
        _ => failed(format!("{program}: {error}")),
    })?;
    match ended {
        _ if stop.load(Ordering::SeqCst) => Err(KernelError::Interrupted),
        None => Err(failed(format!("{program}: {}", InputFault::TooLarge(MAX_OUTPUT_BYTES)))),
        Some(status) if status.success() => Ok(text),
        Some(status) => Err(failed(format!("{program} ended with {status}{}", complaint(&text)))),
    }
}

/// apt's first error, or its last line.
fn complaint(text: &str) -> String {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find_map(|line| line.strip_prefix("E: "));
    error.or_else(|| lines().next_back()).map_or(String::new(), |line| format!(": {}", plain(line)))
}

/// `dlstatus:1:34.5:Retrieving file 1 of 1`
fn progress(line: &str) -> Option<f64> {
    let percent = line.strip_prefix("dlstatus:")?.split(':').nth(1)?.parse::<f64>().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent)
}

/// Stanzas of Debian's control format, separated by empty lines. Those without a name, a version
/// or a digest are left out.
fn stanzas(text: &str) -> Vec<Stanza> {
    let one = |stanza: &str| {
        let field = |name: &str| {
            let value = stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.unwrap_or("").trim().to_string()
        };
        Stanza {
            package: field("Package"),
            version: field("Version"),
            depends: field("Depends"),
            sha256: field("SHA256"),
            size_bytes: field("Size").parse().unwrap_or(0),
        }
    };
    let is_whole = |stanza: &Stanza| {
        ![&stanza.package, &stanza.version, &stanza.sha256].iter().any(|field| field.is_empty())
    };
    text.split("\n\n").map(one).filter(is_whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stanzas_have_name_version_and_digest() {
        let text = "Package: a\nVersion: 1-1\nDepends: b (= 1-1), c\nSize: 12\nSHA256: 00ff\n\
                    Description: x\n Package: not this\n\nPackage: b\nVersion: 2\n\n\n\
                    Package: c\nVersion: 3\nSize: many\nSHA256: 11\n";
        let found = stanzas(text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((&*found[0].package, &*found[0].depends), ("a", "b (= 1-1), c"));
        assert_eq!((found[0].size_bytes, found[1].size_bytes), (12, 0));
    }

    #[test]
    fn the_first_error_is_shown_and_cannot_drive_a_terminal() {
        let cases = [
            (
                "W: old\nE: The repository is \u{1b}[31mred\nE: more\n",
                ": The repository is \\u{1b}[31mred",
            ),
            ("dpkg-deb: error: no space\n\n", ": dpkg-deb: error: no space"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(complaint(text), expected);
        }
    }

    #[test]
    fn progress_is_read_from_lines_of_status() {
        let cases = [
            ("dlstatus:1:34.5:Retrieving file 1 of 1", Some(34.5)),
            ("dlstatus:1:134.5:Retrieving", None),
            ("dlstatus:1:NaN:Retrieving", None),
            ("dlstatus:1", None),
            ("Get:1 http://example.org/debian trixie", None),
        ];
        for (line, expected) in cases {
            assert_eq!(progress(line), expected, "{line}");
        }
    }
}
