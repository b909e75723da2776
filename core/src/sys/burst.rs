//! Bursts in a guest of the lab: time in which a CPU computes, without executing the work. See
//! `backend/lab/preload/clocks.c`, the other side.

/// The word by which both sides recognise a request.
const WORD: u64 = 0x5c4e_db02_57ba_9e17;

/// Whether this runs in a guest whose machine can do it.
pub fn is_possible() -> bool {
    ask(0) == WORD
}

/// Lets this CPU compute for `ns`, or until an interrupt comes; returns the nanoseconds that it did. Only where it
/// [`is_possible`].
#[inline]
pub fn spend(ns: u64) -> u64 {
    ask(ns)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ask(ns: u64) -> u64 {
    let spent: u64;
    // SAFETY: reads the time stamp counter, whatever is in the other registers; a machine of the
    // lab changes one of them.
    unsafe {
        std::arch::asm!("rdtsc", inout("rcx") WORD => _, inout("rsi") ns => spent,
            out("rax") _, out("rdx") _, options(nomem, nostack));
    }
    spent
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ask(_ns: u64) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_host_executes_its_bursts() {
        assert!(!super::is_possible());
    }
}
