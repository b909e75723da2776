//! Bursts in a guest of the lab: time in which a CPU computes, without executing the work. See
//! `backend/lab/preload/clocks.c`, the other side.

/// The words by which both sides recognise requests.
const WORD: u64 = 0x5c4e_db02_57ba_9e17;
const READY: u64 = 0x5c4e_db02_57ba_9e18;

/// Whether this runs in a guest whose machine can do it.
pub fn is_possible() -> bool {
    ask(WORD, 0) == WORD
}

/// Lets this CPU compute for `ns`, or until an interrupt comes; returns the nanoseconds that it did. Only where it
/// [`is_possible`].
#[inline]
pub fn spend(ns: u64) -> u64 {
    ask(WORD, ns)
}

/// Says that this machine is ready for its run: it may be copied here.
pub fn say_ready() {
    ask(READY, 0);
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ask(word: u64, ns: u64) -> u64 {
    let spent: u64;
    // SAFETY: reads the time stamp counter, whatever is in the other registers; a machine of the
    // lab changes one of them.
    unsafe {
        std::arch::asm!("rdtsc", inout("rcx") word => _, inout("rsi") ns => spent,
            out("rax") _, out("rdx") _, options(nomem, nostack));
    }
    spent
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ask(_word: u64, _ns: u64) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_host_executes_its_bursts() {
        assert!(!super::is_possible());
    }
}
