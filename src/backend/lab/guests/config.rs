//! A machine and what it boots, by its digest.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::model::{GuestSize, GuestTime, Lab, LabModel};

use crate::backend::lab::asked::Asked;
use crate::backend::lab::error::GuestFault;
use crate::backend::lab::files::{GuestFiles, above, relative};
use crate::backend::lab::initrd::Packed;
use crate::backend::lab::kernel::{Boot, Kernel};
use crate::backend::lab::machine::From;
use crate::backend::lab::preload;
use crate::backend::lab::results::digest;
use crate::backend::lab::saved::{Quiet, Watch};

/// Numbers of the copies of a machine.
pub const FIRST: u8 = 1;
pub const SECOND: u8 = 2;

/// A kernel, copied at its first use.
pub struct Bootable {
    pub kernel: Kernel,
    pub boot: Boot,
    /// The copy of the file that is booted: a user may build the kernel again at any time.
    pub image: PathBuf,
    /// The copy of the hypervisor below it, and what is in it.
    pub hypervisor: Option<(PathBuf, Vec<u8>)>,
    /// The digest of all files that are booted.
    pub digest: String,
}

/// Files that a machine boots with, or that its runs bring.
pub struct Archive {
    pub path: PathBuf,
    pub digest: String,
    pub bytes: u64,
    /// Its files, until it is written.
    pub files: Mutex<Vec<Arc<Packed>>>,
}

/// The state of a quiet machine, from which its copies go on.
pub struct Snapshot {
    /// The digest of all that it depends on.
    pub digest: String,
    pub state: PathBuf,
    /// The memory of its guest; holes are zeros.
    pub memory: File,
    /// `None`: its file is no saved one.
    pub watch: Option<Watch>,
    pub quiet: Quiet,
    /// Removed with it.
    pub _files: GuestFiles,
}

impl Snapshot {
    /// Fails where somebody wrote to its file since it was taken.
    pub fn check(&self) -> Result<(), GuestFault> {
        match &self.watch {
            Some(watch) if !watch.check(&self.memory) => {
                Err(GuestFault::Changed(watch.path().to_path_buf()))
            }
            _ => Ok(()),
        }
    }
}

/// A machine and what it boots.
#[derive(Clone)]
pub struct MachineConfig {
    pub kernel: Arc<Bootable>,
    pub root: Arc<Archive>,
    /// The files that its runs need in addition; none where the root has all.
    pub files: Option<Arc<Archive>>,
    /// The variant's own kernel arguments.
    pub arguments: String,
    /// The variant's own arguments of Xen; none without Xen.
    pub xen_arguments: String,
    /// The guests that it boots; none without Xen.
    pub guests: Vec<GuestSize>,
    /// The digest of everything that its state depends on when it has booted.
    pub booted_digest: String,
    /// The digest of that and of what its runs bring.
    pub digest: String,
}

impl MachineConfig {
    /// The digest of the state in which copies begin, which have been booted and saved without the files of a run.
    pub fn template_key(&self, snapshot: &Snapshot) -> String {
        with_files(&snapshot.digest, self.files.as_deref())
    }

    pub fn key(&self, spec: &[u8]) -> String {
        digest(&[self.digest.as_bytes(), spec])
    }

    pub fn asked(&self, time: GuestTime) -> Asked {
        let kernel = &self.kernel.kernel;
        Asked {
            time,
            kernel_digest: kernel.digest.clone(),
            package_version: kernel.package().map(|package| package.version.clone()),
        }
    }

    pub fn boot<'a>(&'a self, files: &'a GuestFiles) -> From<'a> {
        let Bootable { image, hypervisor, .. } = &*self.kernel;
        // A hypervisor reads the names, so they must be the same on every machine.
        let named = |path: &Path| match hypervisor {
            Some(_) => above(path),
            None => path.to_path_buf(),
        };
        From::Kernel {
            image: named(image),
            initrd: named(&self.root.path),
            boot: relative(&files.path("boot")),
            more: &self.arguments,
            hypervisor: hypervisor.as_ref().map(|(path, _)| (above(path), &*self.xen_arguments)),
        }
    }
}

/// The machine that is booted for this one: delays and the way to work belong to runs.
pub fn booted(lab: &Lab) -> Lab {
    Lab { model: LabModel::default(), executed: false, ..lab.clone() }
}

/// The digest of everything that the state of a machine depends on. `digests` are those of its kernel, its
/// root and its emulator.
pub fn machine_digest(
    digests: [&str; 3],
    lab: &Lab,
    arguments: [&str; 2],
    guests: &[GuestSize],
) -> Result<String, serde_json::Error> {
    // The kernel has its own digest, seeds belong to runs, and the name of the measured machine changes nothing.
    let model = LabModel { twin: None, ..lab.model.clone() };
    let lab = Lab { kernel: String::new(), seeds: 0, model, ..lab.clone() };
    let lab = serde_json::to_vec(&lab)?;
    let [kernel, root, emulator] = digests.map(str::as_bytes);
    let mut parts = vec![kernel, root, emulator, preload::LIBRARY, &lab];
    let guests = serde_json::to_vec(guests)?;
    parts.push(&guests);
    // Empty arguments of Xen add no part.
    parts.extend(
        arguments
            .iter()
            .enumerate()
            .filter_map(|(at, words)| (at == 0 || !words.is_empty()).then_some(words.as_bytes())),
    );
    Ok(digest(&parts))
}

/// The digest of a machine that gets these files.
pub fn with_files(machine: &str, files: Option<&Archive>) -> String {
    match files {
        None => machine.to_string(),
        Some(files) => digest(&[machine.as_bytes(), files.digest.as_bytes()]),
    }
}

/// A path of an open file without blanks, colons and commas, which a folder's path may have: `LD_PRELOAD` and QEMU's
/// options end there.
pub fn path_of(file: &File) -> OsString {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_a_machine_covers_all_that_its_state_depends_on() {
        let (lab, digests) = (Lab::default(), ["kernel", "root", "emulator"]);
        let known = machine_digest(digests, &lab, ["nohz=off", ""], &[]).unwrap();
        let same = Lab { kernel: "debian:6.1".to_string(), seeds: 3, ..lab.clone() };
        assert_eq!(machine_digest(digests, &same, ["nohz=off", ""], &[]).unwrap(), known);
        let cpus = Lab { cpus: 2, ..lab.clone() };
        let slow = |ns| LabModel { idle_exit_ns: Some(ns), ..LabModel::default() };
        let models = [5, 6].map(|ns| Lab { model: slow(ns), ..lab.clone() });
        let twin = LabModel { twin: Some("a machine".to_string()), ..slow(5) };
        assert_eq!(
            machine_digest(digests, &Lab { model: twin, ..lab.clone() }, ["", ""], &[]).unwrap(),
            machine_digest(digests, &models[0], ["", ""], &[]).unwrap(),
            "whatever machine it was"
        );
        let boots = models.each_ref().map(booted);
        assert_eq!(boots, [booted(&lab), lab.clone()], "delays belong to runs");
        assert_eq!(booted(&Lab { executed: true, ..lab.clone() }), lab);
        assert_ne!(booted(&cpus), lab);
        let one = [GuestSize { memory_bytes: 1 << 27, cpus: 1 }];
        let others = [
            machine_digest(["other", "root", "emulator"], &lab, ["nohz=off", ""], &[]),
            machine_digest(["kernel", "other", "emulator"], &lab, ["nohz=off", ""], &[]),
            machine_digest(["kernel", "root", "other"], &lab, ["nohz=off", ""], &[]),
            machine_digest(digests, &cpus, ["nohz=off", ""], &[]),
            machine_digest(digests, &models[0], ["nohz=off", ""], &[]),
            machine_digest(digests, &models[1], ["nohz=off", ""], &[]),
            machine_digest(digests, &lab, ["nohz=on", ""], &[]),
            machine_digest(digests, &lab, ["nohz=off", ""], &one),
        ];
        others.into_iter().for_each(|other| assert_ne!(other.unwrap(), known));
    }
}
