//! What a thread is called and how promptly it is served.

use super::sched::{self, Attr, Policy};

/// Threads and processes that the caller starts later do not inherit its policy.
const RESET_ON_FORK: u64 = 0x01;
/// Above every other real-time thread: it sleeps but for one pass over the workers a window.
const MEASURER_PRIORITY: u32 = 99;
/// The shortest slice that the kernel grants (Linux 6.12 and later).
const SHORTEST_SLICE_NS: u64 = 100_000;

/// Names the calling thread, as ps and top show it; 15 bytes are kept.
pub fn set_name(name: &str) {
    let mut bytes = [0u8; 16];
    let length = name.len().min(15);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    // SAFETY: the kernel reads at most 16 bytes, of which the last is 0.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, bytes.as_ptr());
    }
}

/// Makes the calling thread one that runs soon after it wakes, however many others are
/// runnable: SCHED_FIFO where that is allowed, else the shortest slice, which brings the
/// earliest deadline. Best effort: where neither is to be had, windows are read later, and
/// the moments at which they were read are kept anyway.
pub fn serve_promptly() {
    let fifo = Attr {
        policy: Policy::Fifo.number(),
        flags: RESET_ON_FORK,
        priority: MEASURER_PRIORITY,
        ..Attr::default()
    };
    if sched::set_attr(0, &fifo).is_err() {
        let short = Attr {
            policy: Policy::Other.number(),
            flags: RESET_ON_FORK,
            runtime_ns: SHORTEST_SLICE_NS,
            ..Attr::default()
        };
        _ = sched::set_attr(0, &short);
    }
}
