//! Tries out this machine's QEMU with a guest that only ends itself: whether KVM works (even with its device
//! QEMU may end or hang, as on hosts that are guests themselves), and whether virtual CPUs can have clocks of
//! their own.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::model::{EXIT_CODE, EXIT_PORT, EXIT_VALUE, Lab};
use crate::sys::child;

use super::machine::KVM_CPU;
use super::patience::wait_within;
use super::preload::{self, CLOCKS_VARIABLE, NoClocks, PROOF_VARIABLE, Proof};
use crate::sys::input;

/// It takes a tenth of a second of a CPU.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The smallest firmware that QEMU accepts, and the position in it at which a processor starts.
const FIRMWARE_BYTES: usize = 64 << 10;
const RESET_VECTOR: usize = FIRMWARE_BYTES - 16;

/// Whether guests can run with KVM. Writes its files to `folder`.
pub fn kvm_works(program: &Path, folder: &Path) -> bool {
    ends(program, folder, &["-accel", "kvm", "-cpu", KVM_CPU], &[])
}

/// Whether virtual CPUs can have clocks of their own, with the library at `preload`.
pub fn clocks_work(program: &Path, folder: &Path, preload: OsString) -> Result<(), NoClocks> {
    let path = folder.join("clocks-proof");
    let words = ["-accel", "tcg", "-icount", "shift=0,sleep=off", "-name", "t,debug-threads=on"];
    let environment = [
        ("LD_PRELOAD", preload),
        (PROOF_VARIABLE, path.clone().into_os_string()),
        (CLOCKS_VARIABLE, preload::clocks(&Lab::default()).into()),
    ];
    let has_ended = ends(program, folder, &words, &environment);
    let proof = input::read_file(&path, input::MAX_OWN_FILE_BYTES);
    match Proof::read(&proof.unwrap_or_default()) {
        None => Err(NoClocks::NotLoaded),
        Some(proof) if !proof.missing.is_empty() => Err(NoClocks::Lacks(proof.missing)),
        Some(proof) if !proof.clocks || !has_ended => Err(NoClocks::Hangs),
        Some(_) => Ok(()),
    }
}

/// Whether a machine starts and ends itself. One that was killed says nothing, and is tried once more.
fn ends(
    program: &Path,
    folder: &Path,
    accelerator: &[&str],
    environment: &[(&str, OsString)],
) -> bool {
    let path = folder.join("trial-firmware");
    if fs::write(&path, firmware()).is_err() {
        return false;
    }
    let mut command = Command::new(program);
    command.args(accelerator).args(["-m", "16", "-machine", "pc", "-nodefaults"]);
    command.args(["-no-user-config", "-display", "none", "-device"]);
    command.arg(format!("isa-debug-exit,iobase={EXIT_PORT:#x},iosize=1"));
    command.arg("-bios").arg(&path);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    child::bind(&mut command);
    let mut status = end(&mut command);
    if status.is_some_and(child::is_ended_from_outside) {
        status = end(&mut command);
    }
    status.is_some_and(|status| status.code() == Some(EXIT_CODE))
}

/// The exit status of a program; `None` if it did not start or did not end.
fn end(command: &mut Command) -> Option<ExitStatus> {
    wait_within(&mut command.spawn().ok()?, PATIENCE, POLL_INTERVAL).ok()?
}

/// Writes to the port that ends the machine, and halts if that does nothing.
fn firmware() -> Vec<u8> {
    let [low, high] = EXIT_PORT.to_le_bytes();
    // mov dx, EXIT_PORT; mov al, EXIT_VALUE; out dx, al; hlt
    let code = [0xba, low, high, 0xb0, EXIT_VALUE, 0xee, 0xf4];
    let mut bytes = vec![0; FIRMWARE_BYTES];
    bytes[RESET_VECTOR..][..code.len()].copy_from_slice(&code);
    bytes
}
