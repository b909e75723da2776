//! The door between a guest and the lab: firmware files in, lines by a port out.
//!
//! Shapes: QEMU's `fw_cfg` device (a selector port, a data port, a directory of named files,
//! numbers big-endian), its `isa-debugcon` (each byte written is one of a file on the host) and
//! its `isa-debug-exit` (a write ends the machine) and its `pvpanic` (a write stops it).

use serde::de::DeserializeOwned;

use crate::model::{
    EXIT_PORT, EXIT_VALUE, GUEST_BOOT_FILE, GUEST_SPEC_FILE, GUEST_WIRE, GuestBoot, GuestMessage,
    GuestSpec, RESULTS_PORT, STOP_PORT, STOP_VALUE,
};
use crate::sys::ports::Ports;

const FIRMWARE_PORT: u16 = 0x510;
const FIRMWARE_SELECT: u16 = 0;
const FIRMWARE_DATA: u16 = 1;
/// The selectors of the signature and of the directory.
const SIGNATURE: u16 = 0x00;
const DIRECTORY: u16 = 0x19;
/// A directory's entry: size, selector, two bytes of nothing, and a name that zeros fill up.
const ENTRY_BYTES: usize = 64;
const NAME_AT: usize = 8;
/// Far more than any machine has, and than any run is described by.
const MAX_ENTRIES: u32 = 4096;
const MAX_BYTES: u32 = 64 << 20;

pub struct Door {
    firmware: Ports,
    results: Ports,
    exit: Ports,
    stop: Ports,
}

impl Door {
    pub fn open() -> Result<Door, String> {
        let open = |first, count| {
            Ports::open(first, count).map_err(|error| format!("port {first:#x}: {error}"))
        };
        let door = Door {
            firmware: open(FIRMWARE_PORT, 2)?,
            results: open(RESULTS_PORT, 1)?,
            exit: open(EXIT_PORT, 1)?,
            stop: open(STOP_PORT, 1)?,
        };
        let mut signature = [0; 4];
        door.select(SIGNATURE, &mut signature);
        match &signature {
            b"QEMU" => Ok(door),
            other => Err(format!("the firmware's signature is {other:?}, not QEMU")),
        }
    }

    /// How this machine is to be made ready.
    pub fn boot(&self) -> Result<GuestBoot, String> {
        let boot: GuestBoot = self.document(GUEST_BOOT_FILE)?;
        same_wire(boot.wire)?;
        Ok(boot)
    }

    /// What this guest is for.
    pub fn spec(&self) -> Result<GuestSpec, String> {
        let spec: GuestSpec = self.document(GUEST_SPEC_FILE)?;
        same_wire(spec.wire)?;
        Ok(spec)
    }

    fn document<T: DeserializeOwned>(&self, name: &str) -> Result<T, String> {
        let (size, selector) = self.find(name)?;
        let mut text = vec![0; size as usize];
        self.select(selector, &mut text);
        serde_json::from_slice(&text)
            .map_err(|error| format!("{name} cannot be understood: {error}"))
    }

    fn select(&self, selector: u16, bytes: &mut [u8]) {
        self.firmware.write_u16(FIRMWARE_SELECT, selector);
        self.firmware.read(FIRMWARE_DATA, bytes);
    }

    fn find(&self, name: &str) -> Result<(u32, u16), String> {
        let mut count = [0; 4];
        self.select(DIRECTORY, &mut count);
        let entries = u32::from_be_bytes(count).min(MAX_ENTRIES);
        for _ in 0..entries {
            let mut entry = [0; ENTRY_BYTES];
            // The directory goes on where the last read ended.
            self.firmware.read(FIRMWARE_DATA, &mut entry);
            if let Some(found) = named(&entry, name) {
                return Ok(found);
            }
        }
        Err(format!("the firmware has no file {name} among {entries}"))
    }

    pub fn say(&self, message: &GuestMessage) {
        // What is plain data can be written; a line that cannot is missed by the lab.
        let mut line = serde_json::to_vec(message).unwrap_or_default();
        line.push(b'\n');
        self.results.write(0, &line);
    }

    /// Stops the machine at this instruction. The next one is the first of each copy of it.
    pub fn stop(&self) {
        self.stop.write_u8(0, STOP_VALUE);
    }

    /// Ends the machine, which takes effect when it is idle.
    pub fn leave(&self) -> ! {
        self.exit.write_u8(0, EXIT_VALUE);
        loop {
            std::thread::park();
        }
    }
}

fn same_wire(asked: u32) -> Result<(), String> {
    match asked {
        GUEST_WIRE => Ok(()),
        other => Err(format!("wire version {GUEST_WIRE} here, {other} asked for")),
    }
}

/// Size and selector, if this is the entry of `name`.
fn named(entry: &[u8; ENTRY_BYTES], name: &str) -> Option<(u32, u16)> {
    let stored = entry[NAME_AT..].split(|byte| *byte == 0).next()?;
    let size = u32::from_be_bytes([entry[0], entry[1], entry[2], entry[3]]);
    let selector = u16::from_be_bytes([entry[4], entry[5]]);
    (stored == name.as_bytes() && size <= MAX_BYTES).then_some((size, selector))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(size: u32, selector: u16, name: &[u8]) -> [u8; ENTRY_BYTES] {
        let mut entry = [0; ENTRY_BYTES];
        entry[..4].copy_from_slice(&size.to_be_bytes());
        entry[4..6].copy_from_slice(&selector.to_be_bytes());
        entry[NAME_AT..NAME_AT + name.len()].copy_from_slice(name);
        entry
    }

    #[test]
    fn a_firmware_file_is_found_by_its_whole_name() {
        let name = GUEST_SPEC_FILE;
        assert_eq!(named(&entry(300, 0x21, name.as_bytes()), name), Some((300, 0x21)));
        assert_eq!(named(&entry(300, 0x21, b"opt/schedlab/run2"), name), None);
        assert_eq!(named(&entry(300, 0x21, b"opt/schedlab/ru"), name), None);
        assert_eq!(named(&entry(MAX_BYTES + 1, 0x21, name.as_bytes()), name), None);
        let full = [b'x'; ENTRY_BYTES - NAME_AT];
        assert_eq!(named(&entry(1, 2, &full), name), None);
    }
}
