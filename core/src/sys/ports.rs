//! The I/O ports of a PC, from user space: how a lab guest's agent talks to the machine that
//! emulates it, without a driver and without an interrupt. Needs CAP_SYS_RAWIO.

use std::io;

/// A range of ports that this thread may use.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    first: u16,
    count: u16,
}

impl Ports {
    pub fn open(first: u16, count: u16) -> io::Result<Ports> {
        match permit(first, count) {
            0 => Ok(Ports { first, count }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Gives up all ports that this thread has from its parent: with any, each switch to it copies a map of 8 KiB.
    pub fn forgo() {
        _ = forbid_all();
    }

    fn port(self, at: u16) -> u16 {
        assert!(at < self.count, "port {at} of {}", self.count);
        self.first + at
    }

    pub fn write_u8(self, at: u16, value: u8) {
        let port = self.port(at);
        out_bytes(port, &[value])
    }

    pub fn write_u16(self, at: u16, value: u16) {
        let port = self.port(at);
        out_word(port, value)
    }

    /// # Safety
    ///
    /// The device may write to memory whose address it has: nobody else may use that meanwhile.
    pub(super) unsafe fn write_u32(self, at: u16, value: u32) {
        let port = self.port(at);
        // SAFETY: the caller's.
        unsafe { out_long(port, value) }
    }

    /// All bytes to one port, one after the other.
    pub fn write(self, at: u16, bytes: &[u8]) {
        let port = self.port(at);
        out_bytes(port, bytes)
    }

    /// Fills `bytes` from one port.
    pub fn read(self, at: u16, bytes: &mut [u8]) {
        let port = self.port(at);
        in_bytes(port, bytes)
    }
}

/// The instructions. A thread without permission for a port is ended by the kernel, which is why
/// only [`Ports`], which has it, calls these.
#[cfg(target_arch = "x86_64")]
mod machine {
    use std::arch::asm;

    pub fn permit(first: u16, count: u16) -> libc::c_int {
        // SAFETY: changes which ports the calling thread may use, nothing in memory.
        unsafe { libc::ioperm(first.into(), count.into(), 1) }
    }

    pub fn forbid_all() -> libc::c_int {
        // SAFETY: changes which ports the calling thread may use, nothing in memory.
        unsafe { libc::ioperm(0, 1 << 16, 0) }
    }

    pub fn out_word(port: u16, value: u16) {
        // SAFETY: no memory is touched.
        unsafe { asm!("out dx, ax", in("dx") port, in("ax") value, options(nomem, nostack)) }
    }

    /// # Safety
    ///
    /// The device may write to memory whose address it has: nobody else may use that meanwhile.
    pub unsafe fn out_long(port: u16, value: u32) {
        // SAFETY: the caller's; all memory counts as changed.
        unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack)) }
    }

    pub fn out_bytes(port: u16, bytes: &[u8]) {
        // SAFETY: `rep outsb` reads `rcx` bytes from `rsi`, which is the slice.
        unsafe {
            asm!("rep outsb", in("dx") port, inout("rsi") bytes.as_ptr() => _,
                inout("rcx") bytes.len() => _, options(readonly, nostack));
        }
    }

    pub fn in_bytes(port: u16, bytes: &mut [u8]) {
        // SAFETY: `rep insb` writes `rcx` bytes to `rdi`, which is the slice.
        unsafe {
            asm!("rep insb", in("dx") port, inout("rdi") bytes.as_mut_ptr() => _,
                inout("rcx") bytes.len() => _, options(nostack));
        }
    }
}

/// Other machines have no ports: nothing can be opened.
#[cfg(not(target_arch = "x86_64"))]
mod machine {
    pub fn permit(_first: u16, _count: u16) -> libc::c_int {
        -1
    }

    pub fn forbid_all() -> libc::c_int {
        -1
    }

    pub fn out_word(_port: u16, _value: u16) {}

    // SAFETY: it does nothing.
    pub unsafe fn out_long(_port: u16, _value: u32) {}

    pub fn out_bytes(_port: u16, _bytes: &[u8]) {}

    pub fn in_bytes(_port: u16, _bytes: &mut [u8]) {}
}

use machine::{forbid_all, in_bytes, out_bytes, out_long, out_word, permit};
