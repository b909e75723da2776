//! What `schedlab doctor` says of the lab: the emulator, the kernels, and whether a machine of
//! several CPUs boots, stops and was kept in step with this QEMU.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::backend::{Ask, Mode};
use crate::model::{Cell, GuestFacts, Lab, Placement, Reading, Value, Variant, Work};

use super::KERNEL;
use super::guest::Unanswered;
use super::kernel::{Cache, KernelError};
use super::workshop::{Workshop, emulator};

/// With more than one, as that is what an emulator can fail at.
const CPUS: u32 = 4;
/// 7.2 hangs where Linux 6.1 starts its second CPU.
const OLDEST: u32 = 8;

/// The emulator's own words, or why there is none; and what is to be said against it.
pub fn qemu() -> (Result<String, String>, Option<String>) {
    let emulator = emulator();
    let complaint = emulator.as_deref().ok().and_then(too_old);
    (emulator, complaint)
}

/// `QEMU emulator version 7.2.22 (...)`.
pub fn too_old(emulator: &str) -> Option<String> {
    let version = emulator.split_whitespace().nth(3)?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major < OLDEST).then(|| {
        format!("QEMU {version} hangs where Linux 6.1 starts a second CPU under virtual time; 10 does not")
    })
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
    pub outcome: Result<(GuestFacts, Reading<String>), String>,
}

/// Boots a machine with a kernel, and has it stop when it is quiet.
pub fn try_kernel(kernel: &str, state: &Path) -> Result<Tried, String> {
    let lab = Lab { cpus: CPUS, ..Lab::default() };
    let workshop = Workshop::open(&Ask { state, lab: &lab, mode: Mode::default() })?;
    let knobs = [(KERNEL.to_string(), Value::Text(kernel.to_string()))].into();
    let variant = Variant { name: "doctor".to_string(), knobs };
    let work = Work { name: "doctor".to_string(), axes: Vec::new(), sets: Vec::new() };
    let cell = Cell { index: 0, variant, work, placement: Placement::default() };
    let began = Instant::now();
    let outcome = workshop.boot_only(&cell, &AtomicBool::new(false)).map_err(|why| match why {
        Unanswered::Failed(why) => why,
        Unanswered::Cancelled => "cancelled".to_string(),
    });
    Ok(Tried { kernel: kernel.to_string(), cpus: CPUS, took: began.elapsed(), outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_that_hangs_is_known_by_its_version() {
        for (words, is_old) in [
            ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", true),
            ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)", false),
            ("QEMU emulator version 8.0.0", false),
            ("something else", false),
        ] {
            assert_eq!(too_old(words).is_some(), is_old, "{words}");
        }
    }
}
