//! The lab's part of `schedlab doctor`: the emulator, the kernels, and whether a machine of several CPUs
//! boots, stops and stays in step with this QEMU.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::backend::{BackendConfig, Mode};
use crate::model::{Cell, Lab, Placement, Value, Variant, Work};

use super::asked::KERNEL;
use super::emulator;
use super::error::{GuestError, LabError};
use super::guests::GuestManager;
use super::kernel::{self, Cache, KernelError};

pub use super::error::EmulatorError;
pub use super::kernel::check_host;
pub use super::preload::NoClocks;
pub use super::saved::Quiet;

/// The emulator's own line about its version, if the lab can use it.
pub fn qemu() -> Result<String, EmulatorError> {
    emulator::version()
}

/// Names of the kernels in the cache.
pub fn kernels() -> Result<Vec<String>, KernelError> {
    let entries = Cache::open()?.entries()?;
    Ok(entries.iter().map(|entry| entry.name()).collect())
}

/// Whether a kernel of this name exists.
pub fn check_kernel(name: &str) -> Result<(), LabError> {
    Ok(kernel::find(name).map(drop)?)
}

/// A machine that was tried.
pub struct Tried {
    pub kernel: String,
    pub cpus: u32,
    /// Time on the host's clock until it was quiet and saved.
    pub took: Duration,
    pub outcome: Result<Quiet, GuestError>,
    /// Why its CPUs shared one clock.
    pub no_clocks: Option<NoClocks>,
}

/// Boots a machine with a kernel and `cpus` CPUs, and stops it when it is quiet.
pub fn try_kernel(kernel: &str, cpus: u32, state: Option<&Path>) -> Result<Tried, LabError> {
    let lab = Lab { cpus, ..Lab::default() };
    let mode = Mode::default();
    let guests = GuestManager::open(&BackendConfig { state, lab: &lab, mode, shared_cache: None })?;
    let knobs = [(KERNEL.to_string(), Value::Text(kernel.to_string()))].into();
    let variant = Variant { name: "doctor".to_string(), knobs };
    let work = Work { name: "doctor".to_string(), ..Default::default() };
    let cell = Cell { index: 0, variant, work, placement: Placement::default() };
    let began = Instant::now();
    let outcome = guests.boot_only(&cell, &AtomicBool::new(false));
    let (took, no_clocks) = (began.elapsed(), guests.no_clocks().cloned());
    Ok(Tried { kernel: kernel.to_string(), cpus, took, outcome, no_clocks })
}
