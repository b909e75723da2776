//! The work of a machine's first process: file systems, a name, a loopback, and a loop of known length by which its
//! clock is checked.

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::call::{checked, descriptor};

/// Mounts a file system that has no device, and makes the folder for it.
pub fn mount(kind: &str, at: &str) -> io::Result<()> {
    if !Path::new(at).is_dir() {
        std::fs::create_dir_all(at)?;
    }
    let (kind, at) = (CString::new(kind)?, CString::new(at)?);
    // SAFETY: all strings are valid and end with zero; no data is passed.
    checked(unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) })
}

/// Loads a driver from its file.
pub fn load_module(path: &Path) -> io::Result<()> {
    let file = std::fs::File::open(path)?;
    let none: &[u8; 1] = b"\0";
    // SAFETY: the descriptor is open, and the parameters are an empty text.
    checked(unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), none.as_ptr(), 0) })
}

/// Seeds the kernel's generator of random numbers, as a boot loader does.
pub fn seed_random(bytes: &[u8; 64]) -> io::Result<()> {
    /// `_IOW('R', 3, int[2])` and `_IO('R', 7)`.
    const ADD_ENTROPY: libc::c_ulong = 0x4008_5203;
    const RESEED: libc::c_ulong = 0x5207;
    /// `rand_pool_info`: bits, bytes, and these.
    #[repr(C)]
    struct Entropy {
        bits: i32,
        size: i32,
        bytes: [u8; 64],
    }
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/random")?;
    let entropy = Entropy { bits: 512, size: 64, bytes: *bytes };
    // SAFETY: the descriptor is open, and the structure is complete.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), ADD_ENTROPY, &entropy) })?;
    // SAFETY: the descriptor is open; nothing is passed.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), RESEED) })
}

pub fn set_hostname(name: &str) -> io::Result<()> {
    // SAFETY: pointer and length are the text's.
    checked(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })
}

/// Begins a session, as every process of a host is in one: with autogroups a session is a group of
/// its own to the scheduler.
pub fn begin_session() -> io::Result<()> {
    // SAFETY: no memory is passed.
    if unsafe { libc::setsid() } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Switches the loopback interface on.
pub fn loopback_up() -> io::Result<()> {
    // SAFETY: no memory is passed, and the descriptor is new.
    let socket = unsafe {
        descriptor(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?
    };
    // SAFETY: an ifreq is plain data, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the descriptor is ours, the request valid and complete.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &request) })
}

/// The instructions of a pass of [`count`].
pub const INSTRUCTIONS_PER_PASS: u64 = 2;

/// A loop of `passes` passes that touches no memory.
#[cfg(target_arch = "x86_64")]
pub fn count(passes: u64) {
    // SAFETY: touches one register, which is given up.
    unsafe {
        std::arch::asm!("2:", "dec {0}", "jnz 2b", inout(reg) passes.max(1) => _,
            options(nomem, nostack));
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub fn count(passes: u64) {
    (0..passes).for_each(|pass| _ = std::hint::black_box(pass));
}
