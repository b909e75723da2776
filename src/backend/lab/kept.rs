//! Data of the lab in the user's cache folder other than kernels: booted machines, and the results of exact
//! runs. The lab makes them again when it needs them.

use std::path::PathBuf;

use crate::sys;

use super::emulator::Emulator;
use super::error::LabError;
use super::initrd;
use super::results::{FOLDER, Results};
use super::saved::SavedMachines;

pub use super::saved::{LIMIT, MachineSummary, SavedMachine, mebibytes};

pub struct Kept {
    machines: SavedMachines,
    results: PathBuf,
}

impl Kept {
    pub fn open() -> Result<Kept, LabError> {
        let cache = sys::cache_dir().map_err(|error| LabError::NoHome(error.to_string()))?;
        Ok(Kept { machines: SavedMachines::new(&cache)?, results: cache.join(FOLDER) })
    }

    /// The one that was used last comes first.
    pub fn machines(&self) -> Result<Vec<SavedMachine>, LabError> {
        self.machines.list().map_err(LabError::io("read", self.machines.folder()))
    }

    /// The size of all machines together that a plan keeps.
    pub fn max_machines_bytes(&self) -> u64 {
        self.machines.max_bytes()
    }

    pub fn remove_machine(&self, machine: &SavedMachine) -> Result<(), LabError> {
        self.machines
            .remove(machine)
            .map_err(LabError::io("remove what is in", self.machines.folder()))
    }

    /// Removes what was left by plans that were killed while they saved a machine.
    pub fn remove_abandoned(&self) -> Result<(), LabError> {
        match self.machines.remove_abandoned() {
            Err(error) if sys::is_absent(self.machines.folder(), &error) => Ok(()),
            removed => removed.map_err(LabError::io("remove what is in", self.machines.folder())),
        }
    }

    /// How many there are, and their size.
    pub fn results(&self) -> Result<(u64, u64), LabError> {
        match Results::read_only(&self.results).size() {
            Err(error) if sys::is_absent(&self.results, &error) => Ok((0, 0)),
            size => size.map_err(LabError::io("read", &self.results)),
        }
    }

    pub fn remove_results(&self) -> Result<(), LabError> {
        match Results::read_only(&self.results).clear() {
            Err(error) if sys::is_absent(&self.results, &error) => Ok(()),
            cleared => cleared.map_err(LabError::io("remove what is in", &self.results)),
        }
    }
}

impl SavedMachine {
    /// Whether a plan of this schedlab and its QEMU can take it. Another build never does: the whole program is in the
    /// guest's memory.
    pub fn is_of(&self, taker: &Taker) -> bool {
        self.summary.as_ref().is_some_and(|own| {
            let is_emulator = |digest: &String| *digest == own.emulator_digest;
            own.program_digest == taker.program_digest
                && taker.emulator_digest.as_ref().is_none_or(is_emulator)
        })
    }
}

/// The programs that take a machine.
pub struct Taker {
    /// This program as guests have it.
    pub program_digest: String,
    /// `None`: there is no QEMU, so any may come.
    pub emulator_digest: Option<String>,
}

impl Taker {
    /// Reads all of both programs.
    pub fn find() -> Result<Taker, LabError> {
        Ok(Taker {
            program_digest: initrd::digest_of(&initrd::own_program()?),
            emulator_digest: Emulator::find().ok().map(|emulator| emulator.digest),
        })
    }
}
