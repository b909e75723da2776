//! What `schedlab doctor` says of the lab: the emulator, the kernels, and whether a machine of
//! several CPUs boots, stops and was kept in step with this QEMU.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::backend::{Ask, Mode};
use crate::model::{Cell, GuestFacts, GuestTime, Lab, Placement, Value, Variant, Work};

use super::KERNEL;
use super::emulator;
use super::guest::Unanswered;
use super::guests::GuestManager;
use super::kernel::{Cache, KernelError};

/// The emulator's own words, or why there is none; and what is to be said against it.
pub fn qemu() -> (Result<String, String>, Option<String>) {
    let version = emulator::version();
    let complaint = version.as_deref().ok().and_then(emulator::too_old);
    (version, complaint)
}

/// Names of the kernels that a plan may ask for.
pub fn kernels() -> Result<Vec<String>, KernelError> {
    let entries = Cache::open()?.entries()?;
    Ok(entries.iter().map(|entry| entry.name.to_string()).collect())
}

/// A machine that was tried.
pub struct Tried {
    pub kernel: String,
    pub cpus: u32,
    /// By the host's clock, until it was quiet and saved.
    pub took: Duration,
    pub outcome: Result<Quiet, String>,
}

/// A machine that was booted and stopped when it was quiet.
pub struct Quiet {
    pub facts: GuestFacts,
    /// Whether its time was exact.
    pub time: GuestTime,
    /// By the host's clock, until its first process was at work.
    pub started_after: Duration,
}

/// Boots a machine of so many CPUs with a kernel, and has it stop when it is quiet.
pub fn try_kernel(kernel: &str, cpus: u32, state: &Path) -> Result<Tried, String> {
    let lab = Lab { cpus, ..Lab::default() };
    let workshop = GuestManager::open(&Ask { state, lab: &lab, mode: Mode::default() })?;
    let knobs = [(KERNEL.to_string(), Value::Text(kernel.to_string()))].into();
    let variant = Variant { name: "doctor".to_string(), knobs };
    let work = Work { name: "doctor".to_string(), axes: Vec::new(), sets: Vec::new() };
    let cell = Cell { index: 0, variant, work, placement: Placement::default() };
    let began = Instant::now();
    let outcome = workshop.boot_only(&cell, &AtomicBool::new(false)).map_err(|why| match why {
        Unanswered::Failed(why) => why,
        Unanswered::Cancelled => "cancelled".to_string(),
    });
    Ok(Tried { kernel: kernel.to_string(), cpus, took: began.elapsed(), outcome })
}
