//! The files of guests on this machine: a folder of this process, and in it one of each guest. All
//! of it ends with who made it, and what killed ones left is removed by the next.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::model::GuestTime;
use crate::sys::clock;

use super::lockstep::Proof;

/// Where the library that keeps QEMU in step leaves its proof.
pub const PROOF: &str = "proof";

/// Held as long as the process lives whose folder it is in.
const ALIVE: &str = "alive";

/// `PROCESS-TIME`.
fn is_folder_of_guests(name: &OsStr) -> bool {
    let parts = name.to_str().and_then(|name| name.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    parts.is_some_and(|(process, time)| is_number(process) && is_number(time))
}

/// This process's folder of guests' files; those of killed ones are removed.
pub struct Folder {
    pub path: PathBuf,
    /// Locked as long as the process lives.
    _alive: File,
}

impl Folder {
    pub fn make(lab: &Path) -> Result<Folder, String> {
        let wrong = |error| format!("{} cannot be written to: {error}", lab.display());
        fs::create_dir_all(lab).map_err(wrong)?;
        // Held, so that nobody takes the folder of one that begins for one that was left.
        let alone = File::create(lab.join("lock")).map_err(wrong)?;
        alone.lock().map_err(wrong)?;
        for left in fs::read_dir(lab).map_err(wrong)?.flatten() {
            // Without the file its schedlab was killed while it made or removed the folder.
            let is_held =
                File::open(left.path().join(ALIVE)).is_ok_and(|file| file.try_lock().is_err());
            if is_folder_of_guests(&left.file_name()) && !is_held {
                // What cannot be removed is somebody else's, or will be tried again.
                _ = fs::remove_dir_all(left.path());
            }
        }
        // In another container there may be one of the same number.
        let path = lab.join(format!("{}-{}", std::process::id(), clock::unix_ns()));
        fs::create_dir_all(&path).map_err(wrong)?;
        let alive = File::create(path.join(ALIVE)).map_err(wrong)?;
        alive.lock().map_err(wrong)?;
        Ok(Folder { path, _alive: alive })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The next schedlab removes what this one cannot.
        _ = fs::remove_dir_all(&self.path);
    }
}

/// The files of one guest, removed with it.
pub struct GuestFiles(pub PathBuf);

impl GuestFiles {
    pub fn make(folder: &Path, number: u64, named: &[(&str, &[u8])]) -> Result<GuestFiles, String> {
        let path = folder.join(format!("guest-{number}"));
        let wrong = |error| format!("{} cannot be written to: {error}", path.display());
        fs::create_dir(&path).map_err(wrong)?;
        let files = GuestFiles(path.clone());
        for (name, bytes) in named {
            fs::write(files.path(name), bytes).map_err(wrong)?;
        }
        Ok(files)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Whether QEMU's threads were in step from beginning to end, by the library's own proof.
    pub fn in_step(&self, pid: u32) -> GuestTime {
        let proof = fs::read(self.path(PROOF)).unwrap_or_default();
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

/// A guest's file as another guest's folder names it: QEMU takes commas in a path for its own, and
/// the folder above may have some.
pub fn beside(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    Path::new("..").join(folder).join(path.file_name().unwrap_or_default())
}
