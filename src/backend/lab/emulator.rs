//! The emulator that guests run in: its version, and the digest of every part of it that can
//! change what a guest does.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::sys::{child, command};

use super::error::{EmulatorError, LabError};
use super::machine::QEMU;
use super::patience::wait_within;
use super::results::digest;
use crate::sys::input;

/// The first version that can write a machine's state to a file. 7.2 also hangs where Linux 6.1
/// starts its second CPU.
const OLDEST: (u32, u32) = (8, 2);
/// For questions like `--version`, which take a few milliseconds of a CPU.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// The firmware that guests execute: the BIOS, and the loaders of a kernel from the firmware device.
const FIRMWARE: &[&str] = &["bios-256k.bin", "pvh.bin", "linuxboot_dma.bin", "kvmvapic.bin"];
/// The firmware that loads a hypervisor with its modules.
const OF_HYPERVISORS: &[&str] = &["multiboot_dma.bin", "multiboot.bin"];

pub struct Emulator {
    pub program: PathBuf,
    /// `QEMU emulator version 10.0.2 (...)`.
    pub version: String,
    /// The digest of version, program and firmware: a version may be built in many ways, and a program may be
    /// a script that starts another.
    pub digest: String,
    /// The digest of the firmware that loads only hypervisors.
    pub digest_of_multiboot: String,
    /// Files that these digests are of, where they are or may be put.
    files: Vec<(PathBuf, Option<Identity>)>,
}

/// A file's device, number, size and time, by which it is known from another one in its place.
type Identity = (u64, u64, u64, i64, i64);

fn identity(path: &Path) -> Option<Identity> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

impl Emulator {
    pub fn find() -> Result<Emulator, LabError> {
        let program = program()?;
        let version = version_of(&program)?;
        let folders = data_folders(&program)?;
        // Before they are read.
        let files = identities(&program, &folders);
        let digest =
            digest_of(&version, &program, &folders).map_err(LabError::io("read", &program))?;
        let digest_of_multiboot = joined(firmware(OF_HYPERVISORS, &folders));
        Ok(Emulator { program, version, digest, digest_of_multiboot, files })
    }

    /// Why its digests are no longer those of the files that it is started from.
    pub fn replaced(&self) -> Option<String> {
        let (path, _) = self.files.iter().find(|(path, known)| identity(path) != *known)?;
        Some(format!("{} was replaced meanwhile; hint: run the plan again", path.display()))
    }

    /// Whether it can write a machine's state to a file.
    pub fn check_age(&self) -> Result<(), EmulatorError> {
        check_age(&self.version)
    }
}

/// The emulator's own line about its version, if it is new enough.
pub fn version() -> Result<String, EmulatorError> {
    let version = version_of(&program()?)?;
    check_age(&version)?;
    Ok(version)
}

fn program() -> Result<PathBuf, EmulatorError> {
    command::find(QEMU).map_err(|_| EmulatorError::NotFound)
}

fn version_of(program: &Path) -> Result<String, EmulatorError> {
    let output = output_of(program, &["--version"], PATIENCE)?;
    let text = String::from_utf8_lossy(&output);
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(line.to_string()),
        _ => Err(EmulatorError::NoVersion),
    }
}

/// Checks a line like `QEMU emulator version 7.2.22 (...)`. A line of another form counts as new enough.
fn check_age(line: &str) -> Result<(), EmulatorError> {
    let number = line.split_whitespace().nth(3).unwrap_or_default();
    let mut parts = number.split('.').map_while(|part| part.parse::<u32>().ok());
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) if (major, minor) < OLDEST => {
            Err(EmulatorError::TooOld { version: number.to_string() })
        }
        _ => Ok(()),
    }
}

/// The folders where it looks for firmware, in order.
fn data_folders(program: &Path) -> Result<Vec<PathBuf>, EmulatorError> {
    let output = output_of(program, &["-L", "help"], PATIENCE)?;
    let lines = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(|line| PathBuf::from(OsStr::from_bytes(line))).collect())
}

/// Maximum size of a pipe's buffer.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

fn output_of(
    program: &Path,
    question: &[&str],
    patience: Duration,
) -> Result<Vec<u8>, EmulatorError> {
    let wrong = |source| EmulatorError::Start { program: program.to_path_buf(), source };
    let mut command = Command::new(program);
    command.args(question).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    child::bind(&mut command);
    let mut child = command.spawn().map_err(wrong)?;
    let question = question.join(" ");
    // All of its output fits into a pipe.
    let ended = wait_within(&mut child, patience, POLL_INTERVAL).map_err(wrong)?;
    let Some(status) = ended else { return Err(EmulatorError::Hangs { question, patience }) };
    let output = child.stdout.take();
    let output = output.map_or(Ok(Vec::new()), |output| input::read_all(output, MAX_OUTPUT_BYTES));
    let output = output.map_err(wrong)?;
    if status.success() { Ok(output) } else { Err(EmulatorError::Failed { question, status }) }
}

fn digest_of(version: &str, program: &Path, folders: &[PathBuf]) -> io::Result<String> {
    let mut parts =
        vec![version.as_bytes().to_vec(), input::read_file(program, input::MAX_PROGRAM_BYTES)?];
    parts.extend(firmware(FIRMWARE, folders));
    Ok(joined(parts))
}

fn firmware(names: &[&str], folders: &[PathBuf]) -> Vec<Vec<u8>> {
    let read = |path: PathBuf| input::read_file(path, input::MAX_PROGRAM_BYTES).ok();
    let file = |name: &&str| folders.iter().find_map(|folder| read(folder.join(name)));
    // A missing file is not executed either.
    names.iter().map(|name| file(name).unwrap_or_default()).collect()
}

fn identities(program: &Path, folders: &[PathBuf]) -> Vec<(PathBuf, Option<Identity>)> {
    let names = FIRMWARE.iter().chain(OF_HYPERVISORS);
    let firmware = names.flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let files = std::iter::once(program.to_path_buf()).chain(firmware);
    files.map(|path| (path.clone(), identity(&path))).collect()
}

fn joined(parts: Vec<Vec<u8>>) -> String {
    digest(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::replace::replace;

    #[test]
    fn an_old_emulator_is_known_by_its_version() {
        for (line, is_old) in [
            ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", true),
            ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)", false),
            ("QEMU emulator version 8.1.5", true),
            ("QEMU emulator version 8.2.0", false),
            ("something else", false),
        ] {
            assert_eq!(check_age(line).is_err(), is_old, "{line}");
        }
    }

    #[test]
    fn another_build_or_firmware_has_another_digest() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("1"), dir.path().join("2"));
        let program = first.join(QEMU);
        [&first, &second].iter().for_each(|folder| fs::create_dir(folder).unwrap());
        let folders = [first.clone(), second.clone()];
        let put = |at: PathBuf, text: &str| {
            fs::write(at, text).unwrap();
            digest_of("QEMU 10", &program, &folders).unwrap()
        };
        let digests = [
            put(program.clone(), "one build"),
            put(program.clone(), "another build"),
            put(second.join("pvh.bin"), "firmware"),
            put(first.join("pvh.bin"), "firmware that is found first"),
        ];
        (1..digests.len()).for_each(|at| assert!(!digests[..at].contains(&digests[at]), "{at}"));
        assert_eq!(put(second.join("pvh.bin"), "not looked at"), digests[3]);
        assert_eq!(put(first.join("other.rom"), "not executed"), digests[3]);
        let upgraded = digest_of("QEMU 11", &program, &folders).unwrap();
        assert_ne!(upgraded, digests[3], "behind one and the same script");
    }

    #[test]
    fn an_emulator_that_is_replaced_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let (program, firmware) = (dir.path().join(QEMU), dir.path().join(FIRMWARE[1]));
        let found = || {
            let files = identities(&program, &[dir.path().join("none"), dir.path().into()]);
            let [version, digest, digest_of_multiboot] = [(); 3].map(|()| String::new());
            Emulator { program: program.clone(), version, digest, digest_of_multiboot, files }
        };
        for path in [&program, &firmware, &program, &firmware] {
            let emulator = found();
            assert_eq!(emulator.replaced(), None);
            replace(path, |out| out.write_all(b"the same size")).unwrap();
            let why = emulator.replaced().unwrap();
            assert!(why.starts_with(&format!("{} was replaced", path.display())), "{why}");
        }
    }

    #[test]
    fn an_emulator_that_hangs_or_fails_is_an_error() {
        let ask =
            |script: &str, patience| output_of(Path::new("/bin/sh"), &["-c", script], patience);
        assert_eq!(ask("echo yes", PATIENCE).unwrap(), b"yes\n");
        let failed = ask("exit 3", PATIENCE).unwrap_err();
        assert!(matches!(failed, EmulatorError::Failed { status, .. } if status.code() == Some(3)));
        let hangs = ask("sleep 1000", Duration::from_millis(50)).unwrap_err();
        assert!(hangs.to_string().ends_with("does not end in 0.05 s of CPU time"), "{hangs}");
    }
}
