//! The channel between a guest and the host: firmware files in, lines out through a port.
//!
//! Shapes: QEMU's `fw_cfg` device (a selector port, a data port, a port for addresses in memory that it writes to by
//! itself, a directory of named files, numbers big-endian), its `isa-debugcon` (bytes written are appended to a file on the host), its
//! `isa-debug-exit` (a write ends the machine) and its `pvpanic` (a write stops it).

use std::io::{self, Read};
use std::ops::Range;

use serde::de::DeserializeOwned;

use crate::model::{
    EXIT_PORT, EXIT_VALUE, GUEST_BOOT_FILE, GUEST_FILES_FILE, GUEST_REHEARSAL_FILE,
    GUEST_SPEC_FILE, GUEST_WIRE, GuestBoot, GuestMessage, GuestSpec, RESULTS_PORT, STOP_PORT,
    STOP_VALUE,
};
use crate::sys::ports::Ports;
use crate::sys::{PAGE_BYTES, Page, dma, private};

use super::error::AgentError;

const FIRMWARE_PORT: u16 = 0x510;
const FIRMWARE_SELECT: u16 = 0;
const FIRMWARE_DATA: u16 = 1;
/// 64 bits: the address of a request, whose second half is written last.
const FIRMWARE_REQUEST: u16 = 4;
const FIRMWARE_PORTS: u16 = 12;
/// The selectors of the signature and of the directory.
const SIGNATURE: u16 = 0x00;
const DIRECTORY: u16 = 0x19;
/// A directory's entry: size, selector, two unused bytes, and a name padded with zeros.
const ENTRY_BYTES: usize = 64;
const NAME_AT: usize = 8;
/// Far more than the files of any machine, and the bytes of any spec.
const MAX_ENTRIES: u32 = 4096;
const MAX_BYTES: u32 = 64 << 20;
/// Pages of a file that are in memory at a time.
const PAGES: usize = 64;

pub struct HostChannel {
    firmware: Ports,
    results: Ports,
    exit: Ports,
    stop: Ports,
}

impl HostChannel {
    pub fn open() -> Result<HostChannel, AgentError> {
        let open = |first, count| {
            Ports::open(first, count).map_err(|source| AgentError::Port { first, source })
        };
        let host = HostChannel {
            firmware: open(FIRMWARE_PORT, FIRMWARE_PORTS)?,
            results: open(RESULTS_PORT, 1)?,
            exit: open(EXIT_PORT, 1)?,
            stop: open(STOP_PORT, 1)?,
        };
        let mut signature = [0; 4];
        host.select(SIGNATURE, &mut signature);
        match &signature {
            b"QEMU" => Ok(host),
            other => Err(AgentError::Signature(*other)),
        }
    }

    /// How to make this machine ready.
    pub fn boot(&self) -> Result<GuestBoot, AgentError> {
        let boot: GuestBoot = self.document(GUEST_BOOT_FILE)?;
        same_wire(boot.wire)?;
        Ok(boot)
    }

    /// The run of this guest.
    pub fn spec(&self) -> Result<GuestSpec, AgentError> {
        self.run(GUEST_SPEC_FILE)
    }

    /// The run before it, whose result nobody wants; `None`: there is none.
    pub fn rehearsal(&self) -> Result<Option<GuestSpec>, AgentError> {
        match self.run(GUEST_REHEARSAL_FILE) {
            Err(AgentError::NoFile { .. }) => Ok(None),
            rehearsal => rehearsal.map(Some),
        }
    }

    /// The archive of files that the run needs in addition; `None`: there is none.
    pub fn files(&self) -> Result<Option<FirmwareFile<'_>>, AgentError> {
        match self.find(GUEST_FILES_FILE) {
            Err(AgentError::NoFile { .. }) => Ok(None),
            found => FirmwareFile::open(self, found?).map(Some),
        }
    }

    fn run(&self, name: &'static str) -> Result<GuestSpec, AgentError> {
        let spec: GuestSpec = self.document(name)?;
        same_wire(spec.wire)?;
        Ok(spec)
    }

    fn document<T: DeserializeOwned>(&self, name: &'static str) -> Result<T, AgentError> {
        let (size, selector) = self.find(name)?;
        if size > MAX_BYTES {
            return Err(AgentError::TooLarge { name, size, limit: MAX_BYTES });
        }
        let mut text = vec![0; size as usize];
        self.select(selector, &mut text);
        serde_json::from_slice(&text).map_err(|source| AgentError::Document { name, source })
    }

    fn select(&self, selector: u16, bytes: &mut [u8]) {
        self.firmware.write_u16(FIRMWARE_SELECT, selector);
        self.firmware.read(FIRMWARE_DATA, bytes);
    }

    fn find(&self, name: &'static str) -> Result<(u32, u16), AgentError> {
        let mut count = [0; 4];
        self.select(DIRECTORY, &mut count);
        let entries = u32::from_be_bytes(count).min(MAX_ENTRIES);
        for _ in 0..entries {
            let mut entry = [0; ENTRY_BYTES];
            // The directory continues where the last read ended.
            self.firmware.read(FIRMWARE_DATA, &mut entry);
            if let Some(found) = named(&entry, name) {
                return Ok(found);
            }
        }
        Err(AgentError::NoFile { name, entries })
    }

    pub fn send(&self, message: &GuestMessage) {
        self.results.write(0, &line(message));
    }

    /// Stops the machine at this instruction. The next one is the first of each copy of it.
    pub fn stop(&self) {
        self.stop.write_u8(0, STOP_VALUE);
    }

    /// Ends the machine, as soon as it is idle.
    pub fn leave(&self) -> ! {
        self.exit.write_u8(0, EXIT_VALUE);
        loop {
            std::thread::park();
        }
    }
}

/// A file that the firmware writes to memory by itself: byte by byte through a port it takes some hundred times as long.
pub struct FirmwareFile<'a> {
    firmware: &'a Ports,
    left: usize,
    /// The next bytes, and a page for the request for more.
    pages: &'static mut [Page],
    ready: Range<usize>,
}

impl FirmwareFile<'_> {
    fn open(
        host: &HostChannel,
        (size, selector): (u32, u16),
    ) -> Result<FirmwareFile<'_>, AgentError> {
        let pages = private::leak_slice_mut::<Page>(PAGES + 1);
        let pages = pages.map_err(AgentError::system("memory for files"))?;
        // A page that nobody has written is not there.
        pages.iter_mut().for_each(|page| page.0[0] = 1);
        host.firmware.write_u16(FIRMWARE_SELECT, selector);
        Ok(FirmwareFile { firmware: &host.firmware, left: size as usize, pages, ready: 0..0 })
    }

    /// Lets the firmware write the next bytes to the pages.
    fn fill(&mut self) -> io::Result<()> {
        let length = self.left.min(PAGES * PAGE_BYTES);
        self.ready = 0..length;
        self.left -= length;
        match dma::read_firmware(*self.firmware, FIRMWARE_REQUEST, self.pages, length) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(self.pages);
                self.firmware.read(FIRMWARE_DATA, &mut bytes[..length]);
                Ok(())
            }
            read => read,
        }
    }
}

impl Read for FirmwareFile<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.ready.is_empty() && self.left > 0 {
            self.fill()?;
        }
        let count = self.ready.len().min(out.len());
        let bytes: &[u8] = bytemuck::cast_slice(self.pages);
        out[..count].copy_from_slice(&bytes[self.ready.start..][..count]);
        self.ready.start += count;
        Ok(count)
    }
}

pub fn line(message: &GuestMessage) -> Vec<u8> {
    // Plain data can be encoded; otherwise the lab notices that the line is missing.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

fn same_wire(asked: u32) -> Result<(), AgentError> {
    match asked {
        GUEST_WIRE => Ok(()),
        asked => Err(AgentError::Wire { own: GUEST_WIRE, asked }),
    }
}

/// Size and selector, if this is the entry of `name`.
fn named(entry: &[u8; ENTRY_BYTES], name: &str) -> Option<(u32, u16)> {
    let stored = entry[NAME_AT..].split(|byte| *byte == 0).next()?;
    let size = u32::from_be_bytes([entry[0], entry[1], entry[2], entry[3]]);
    let selector = u16::from_be_bytes([entry[4], entry[5]]);
    (stored == name.as_bytes()).then_some((size, selector))
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
        let full = [b'x'; ENTRY_BYTES - NAME_AT];
        assert_eq!(named(&entry(1, 2, &full), name), None);
    }
}
