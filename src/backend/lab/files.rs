//! The files of guests on this machine: a folder of this process, with one folder for each guest. The process
//! that makes a folder removes it; the next schedlab removes folders of killed processes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::model::{Coverage, GuestTime};
use crate::sys::clock;

use super::error::LabError;
use super::preload::{self, Proof};
use crate::sys::input;

/// The file in which the library that keeps QEMU in step leaves its proof.
pub const PROOF: &str = "proof";

/// The file in which it notes the code that was executed.
const COVERED: &str = "covered";

/// A file that is locked as long as the process of its folder lives.
const ALIVE: &str = "alive";

/// `PROCESS-TIME`.
fn is_folder_of_guests(name: &OsStr) -> bool {
    let parts = name.to_str().and_then(|name| name.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    parts.is_some_and(|(process, time)| is_number(process) && is_number(time))
}

/// This process's folder of guests' files; folders of killed processes are removed.
pub struct Folder {
    pub path: PathBuf,
    /// Locked as long as the process lives.
    _alive: File,
}

impl Folder {
    pub fn make(lab: &Path) -> Result<Folder, LabError> {
        Folder::make_in(lab).map_err(LabError::io("write to", lab))
    }

    fn make_in(lab: &Path) -> io::Result<Folder> {
        fs::create_dir_all(lab)?;
        // Locked, so that no other schedlab removes a folder that is being made.
        let lock = File::create(lab.join("lock"))?;
        lock.lock()?;
        for left in fs::read_dir(lab)?.flatten() {
            // No such file: its schedlab was killed while it made or removed the folder.
            let is_alive =
                File::open(left.path().join(ALIVE)).is_ok_and(|file| file.try_lock().is_err());
            if is_folder_of_guests(&left.file_name()) && !is_alive {
                // A folder that stays belongs to another user, or the next process tries again.
                _ = fs::remove_dir_all(left.path());
            }
        }
        // A process of another container may have the same number.
        let path = lab.join(format!("{}-{}", std::process::id(), clock::unix_ns()));
        fs::create_dir_all(&path)?;
        let alive = File::create(path.join(ALIVE))?;
        alive.lock()?;
        Ok(Folder { path, _alive: alive })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The next schedlab removes what this one could not.
        _ = fs::remove_dir_all(&self.path);
    }
}

/// The files of one guest, removed with it.
pub struct GuestFiles(pub PathBuf);

impl GuestFiles {
    pub fn make(
        folder: &Path,
        number: u64,
        named: &[(&str, &[u8])],
    ) -> Result<GuestFiles, LabError> {
        let path = folder.join(format!("guest-{number}"));
        fs::create_dir(&path).map_err(LabError::io("make the folder", &path))?;
        let files = GuestFiles(path);
        for (name, bytes) in named {
            let path = files.path(name);
            fs::write(&path, bytes).map_err(LabError::io("write", &path))?;
        }
        Ok(files)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The code that the guest executed, if that was noted.
    pub fn coverage(&self) -> Option<Coverage> {
        let notes = input::read_file(self.path(COVERED), preload::MAX_COVERED_BYTES);
        preload::covered(&notes.ok()?)
    }

    /// Whether QEMU's threads were in step from beginning to end, by the library's own proof.
    pub fn in_step(&self, pid: u32) -> GuestTime {
        let proof = input::read_file(self.path(PROOF), input::MAX_OWN_FILE_BYTES);
        let proof = proof.unwrap_or_default();
        match Proof::read(&proof).map(|proof| proof.fault(pid)) {
            Some(None) => GuestTime::Exact,
            Some(Some(fault)) => GuestTime::NotExact(format!("QEMU was not kept in step: {fault}")),
            None => GuestTime::NotExact(
                "QEMU was not kept in step: no thread of virtual CPUs was found".to_string(),
            ),
        }
    }
}

impl Drop for GuestFiles {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// The path of a file in the folder of all guests from the folder of one.
pub fn above(path: &Path) -> PathBuf {
    Path::new("..").join(path.file_name().unwrap_or_default())
}

/// The path of a guest's file from another guest's folder: QEMU splits paths at commas, and the
/// folder above may have some.
pub fn relative(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    Path::new("..").join(folder).join(path.file_name().unwrap_or_default())
}
