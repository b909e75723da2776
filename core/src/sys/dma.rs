//! QEMU's device `fw_cfg` as it writes to memory by itself. The rest of the device needs ports alone.

use std::io;

use super::memory::physical_addresses;
use super::ports::Ports;
use super::{PAGE_BYTES, Page};

/// A request to write the next bytes of the selected file to memory; the device replaces it by 0 where it did.
const READ: u32 = 2;

/// Has the device write the next bytes of the selected file to these pages: `length` of them, and the last page is for
/// requests. Ports from `at` on take the address of a request. `Unsupported`: nobody says where these pages are.
pub fn read_firmware(ports: Ports, at: u16, pages: &mut [Page], length: usize) -> io::Result<()> {
    let (last, room) = (pages.len() - 1, (pages.len() - 1) * PAGE_BYTES);
    assert!(length <= room, "{length} bytes for a room of {room}");
    let Ok(addresses) = physical_addresses(pages) else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    for (page, address) in addresses[..last].iter().enumerate() {
        let length = length.saturating_sub(page * PAGE_BYTES).min(PAGE_BYTES);
        if length == 0 {
            break;
        }
        // Control, length and address, big-endian.
        let request = &mut pages[last].0;
        request[..4].copy_from_slice(&READ.to_be_bytes());
        request[4..8].copy_from_slice(&(length as u32).to_be_bytes());
        request[8..16].copy_from_slice(&address.to_be_bytes());
        let halves = [addresses[last] >> 32, addresses[last]];
        let [high, low] = halves.map(|half| (half as u32).to_be());
        // SAFETY: the device writes to the page of the request and to another one of `pages`, which nobody else has.
        unsafe {
            ports.write_u32(at, high);
            ports.write_u32(at + 4, low);
        }
        if pages[last].0[..4] != [0; 4] {
            return Err(io::Error::other("the firmware did not write to memory"));
        }
    }
    if physical_addresses(pages)? != addresses {
        return Err(io::Error::other("the kernel moved pages that the firmware wrote to"));
    }
    Ok(())
}
