//! Whether this machine's KVM works: even with its device QEMU may end or hang, as on hosts that
//! are guests themselves. So a guest is started that only ends itself.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::model::{EXIT_CODE, EXIT_PORT, EXIT_VALUE};
use crate::sys::child;

use super::machine::KVM_CPU;

/// By the host's clock; it takes a tenth of a second.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The smallest firmware that QEMU accepts, and the position in it at which a processor starts.
const FIRMWARE_BYTES: usize = 64 << 10;
const RESET_VECTOR: usize = FIRMWARE_BYTES - 16;

/// Starts this QEMU with a firmware that is written to `folder`.
pub fn works(program: &Path, folder: &Path) -> bool {
    let path = folder.join("kvm-firmware");
    if fs::write(&path, firmware()).is_err() {
        return false;
    }
    let mut command = Command::new(program);
    command.args(["-accel", "kvm", "-cpu", KVM_CPU, "-m", "16", "-machine", "pc", "-nodefaults"]);
    command.args(["-no-user-config", "-display", "none", "-device"]);
    command.arg(format!("isa-debug-exit,iobase={EXIT_PORT:#x},iosize=1"));
    command.arg("-bios").arg(&path);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    child::bind(&mut command);
    let Ok(mut qemu) = command.spawn() else { return false };
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        match qemu.try_wait() {
            Ok(None) => std::thread::sleep(POLL_INTERVAL),
            Ok(Some(status)) => return status.code() == Some(EXIT_CODE),
            Err(_) => break,
        }
    }
    // Ended already, or ended now.
    _ = qemu.kill();
    _ = qemu.wait();
    false
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
