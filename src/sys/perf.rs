//! Events of the kernel's perf subsystem.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

const TYPE_SOFTWARE: u32 = 1;
const SOFTWARE_CPU_CLOCK: u64 = 0;
const FLAG_CLOEXEC: u64 = 8;
/// The second published size, which every kernel of today knows.
const ATTRIBUTES_BYTES: u32 = size_of::<Attributes>() as u32;

/// The kernel's `perf_event_attr`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
}

/// An event that fires on a CPU each `period_ns`, whatever runs there, idle included.
pub fn sample_cpu_clock(cpu: u32, period_ns: u64) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: TYPE_SOFTWARE,
        size: ATTRIBUTES_BYTES,
        config: SOFTWARE_CPU_CLOCK,
        sample_period: period_ns,
        ..Attributes::default()
    };
    open(&attributes, -1, cpu as i32)
}

fn open(attributes: &Attributes, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    const NO_GROUP: i32 = -1;
    // SAFETY: the attributes are valid for the size that they tell.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, attributes, pid, cpu, NO_GROUP, FLAG_CLOEXEC)
    };
    match i32::try_from(fd) {
        // SAFETY: a descriptor that the kernel has just made, and nobody else has.
        Ok(fd @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attributes_have_the_size_of_the_kernels_second_version() {
        assert_eq!(ATTRIBUTES_BYTES, 80, "PERF_ATTR_SIZE_VER2");
    }
}
