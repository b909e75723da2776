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

/// A wait of a worker that spins until a lock is free.
///
/// In a guest of the lab each PAUSE ends a turn of its CPU, and a wait of a slice has thousands. So a wait is made of
/// bursts there: they grow with the time that has passed, so that it ends at most an eighth late.
pub struct SpinWait {
    in_bursts: bool,
    waited_ns: u64,
}

impl SpinWait {
    /// The first PAUSE of a guest takes as long; see `PAUSE_PS` of the lab.
    const FIRST_NS: u64 = 100;
    /// The most that a wait ends late.
    const LAST_NS: u64 = 10_000;

    /// `in_bursts`: whether the machine [can](is_possible), and may.
    pub fn new(in_bursts: bool) -> SpinWait {
        SpinWait { in_bursts, waited_ns: 0 }
    }

    /// Lets some time pass before the lock is tried again.
    #[inline]
    pub fn pass(&mut self) {
        if self.in_bursts {
            self.waited_ns += spend(SpinWait::step_ns(self.waited_ns));
        } else {
            std::hint::spin_loop();
        }
    }

    fn step_ns(waited_ns: u64) -> u64 {
        (waited_ns / 8).clamp(SpinWait::FIRST_NS, SpinWait::LAST_NS)
    }
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

    #[test]
    fn a_wait_in_bursts_has_few_steps_and_ends_at_most_an_eighth_late() {
        let (mut waited_ns, mut steps) = (0, 0);
        while waited_ns < 3_000_000 {
            let step_ns = super::SpinWait::step_ns(waited_ns);
            assert!(step_ns <= 10_000 && (step_ns == 100 || step_ns <= waited_ns / 8), "{step_ns}");
            waited_ns += step_ns;
            steps += 1;
        }
        assert!(steps < 400, "{steps} for a slice");
    }
}
