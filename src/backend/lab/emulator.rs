//! The emulator that guests run in: what it calls itself, and the digest of what a guest's course
//! depends on of it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::sys::{child, fork};

use super::results::digest;

pub const QEMU: &str = "qemu-system-x86_64";
/// The first that can write a machine's state to a file. 7.2 also hangs where Linux 6.1 starts its
/// second CPU.
const OLDEST: (u32, u32) = (8, 2);
/// For what it says of itself, which takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// What guests execute of its firmware, as far as there is such a file: the BIOS, and what takes
/// a kernel from the firmware device.
const FIRMWARE: &[&str] = &["bios-256k.bin", "pvh.bin", "linuxboot_dma.bin", "kvmvapic.bin"];

pub struct Emulator {
    pub program: PathBuf,
    /// `QEMU emulator version 10.0.2 (...)`.
    pub version: String,
    /// Of version, program and firmware: a version may be built in many ways, and a program may be
    /// a script that starts another.
    pub digest: String,
}

impl Emulator {
    pub fn find() -> Result<Emulator, String> {
        let program = program()?;
        let version = version_of(&program)?;
        let digest = digest_of(&version, &program, &data_folders(&program)?)?;
        Ok(Emulator { program, version, digest })
    }
}

/// What the emulator calls itself.
pub fn version() -> Result<String, String> {
    version_of(&program()?)
}

const HINT: &str = "\nhint: install it: apt-get install qemu-system-x86 (version 8.2 or newer; on Debian 12 \
    from bookworm-backports)";

fn program() -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = in_path(&path, QEMU);
    found.ok_or_else(|| format!("{QEMU} cannot be started: it is in no folder of PATH{HINT}"))
}

fn version_of(program: &Path) -> Result<String, String> {
    let told = told(program, &["--version"], PATIENCE).map_err(|why| why + HINT)?;
    let text = String::from_utf8_lossy(&told);
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(line.to_string()),
        _ => Err(format!("{QEMU} --version says nothing{HINT}")),
    }
}

/// `QEMU emulator version 7.2.22 (...)`.
pub fn too_old(version: &str) -> Option<String> {
    let number = version.split_whitespace().nth(3)?;
    let mut parts = number.split('.').map(|part| part.parse().ok());
    let own: (u32, u32) = (parts.next()??, parts.next()??);
    (own < OLDEST).then(|| {
        let (major, minor) = OLDEST;
        format!(
            "QEMU {number} is too old: the lab needs {major}.{minor} or newer, which can write a machine's \
             state to a file (and 7.2 hangs where Linux 6.1 starts a second CPU)"
        )
    })
}

/// Where it looks for firmware, in order.
fn data_folders(program: &Path) -> Result<Vec<PathBuf>, String> {
    let told = told(program, &["-L", "help"], PATIENCE)?;
    let lines = told.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(|line| PathBuf::from(OsStr::from_bytes(line))).collect())
}

fn told(program: &Path, question: &[&str], patience: Duration) -> Result<Vec<u8>, String> {
    let wrong = |error| format!("{} cannot be started: {error}", program.display());
    let mut command = Command::new(program);
    command.args(question).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    child::bind(&mut command);
    let mut child = command.spawn().map_err(wrong)?;
    let began = Instant::now();
    // What it has to say fits into a pipe.
    let status = loop {
        match child.try_wait().map_err(wrong)? {
            Some(status) => break status,
            None if began.elapsed() < patience => std::thread::sleep(POLL_INTERVAL),
            None => {
                fork::kill_group(child.id() as i32);
                _ = child.wait();
                let seconds = patience.as_secs_f64();
                return Err(format!("{QEMU} {} does not end in {seconds} s", question.join(" ")));
            }
        }
    };
    let mut said = Vec::new();
    child.stdout.as_mut().map_or(Ok(0), |stdout| stdout.read_to_end(&mut said)).map_err(wrong)?;
    match status.success() {
        true => Ok(said),
        false => Err(format!("{QEMU} {} ended with {status}", question.join(" "))),
    }
}

/// Its absolute name, as it is started in other folders.
fn in_path(path: &OsStr, name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let found = env::split_paths(path).map(|folder| folder.join(name)).find(is_program)?;
    std::path::absolute(found).ok()
}

fn digest_of(version: &str, program: &Path, folders: &[PathBuf]) -> Result<String, String> {
    let bytes = fs::read(program)
        .map_err(|error| format!("{} cannot be read: {error}", program.display()))?;
    let mut parts = vec![version.as_bytes().to_vec(), bytes];
    for name in FIRMWARE {
        // One that is not there is not executed either.
        let found = folders.iter().find_map(|folder| fs::read(folder.join(name)).ok());
        parts.push(found.unwrap_or_default());
    }
    Ok(digest(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_that_hangs_is_known_by_its_version() {
        for (words, is_old) in [
            ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", true),
            ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)", false),
            ("QEMU emulator version 8.1.5", true),
            ("QEMU emulator version 8.2.0", false),
            ("something else", false),
        ] {
            assert_eq!(too_old(words).is_some(), is_old, "{words}");
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
        let path = env::join_paths([second.clone(), first]).unwrap();
        assert_eq!(in_path(&path, QEMU), None, "it cannot be executed");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(second.join(QEMU)).unwrap();
        assert_eq!(in_path(&path, QEMU), Some(program));
        assert!(in_path(OsStr::new("src/../scripts"), "need.sh").unwrap().is_absolute());
        assert_eq!(in_path(&path, "no-such"), None);
    }

    #[test]
    fn one_that_hangs_or_fails_is_told() {
        let ask = |script: &str, patience| told(Path::new("/bin/sh"), &["-c", script], patience);
        assert_eq!(ask("echo yes", PATIENCE).unwrap(), b"yes\n");
        let failed = ask("exit 3", PATIENCE).unwrap_err();
        assert!(failed.ends_with("ended with exit status: 3"), "{failed}");
        let hangs = ask("sleep 1000", Duration::from_millis(50)).unwrap_err();
        assert!(hangs.ends_with("does not end in 0.05 s"), "{hangs}");
    }
}
