//! Signals as this process inherited them, and its handling of those that ask it to end.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGXFSZ};

use super::{clock, tty_restore};

/// The exit code after a signal: as shells show SIGINT.
const INTERRUPTED: i32 = 130;

const NOT_UNDONE: &str = "\nschedlab: ended by a second signal, before what it changed on this \
                          machine was undone\nhint: schedlab restore\n";

/// `timeout` sends its signal to the process and then to the group that the process is in.
const SAME_REQUEST_NS: u64 = 100_000_000;

/// The number of [`OpenChange`]s.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// Whether one of the signals came that [`catch_termination`] catches.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// The number of [`OpenWait`]s.
static WAITS: AtomicU32 = AtomicU32::new(0);

/// While this lives, a second signal leaves a change to be undone, and says so.
#[derive(Debug)]
pub struct OpenChange(());

impl OpenChange {
    pub fn begin() -> Self {
        CHANGES.fetch_add(1, Relaxed);
        OpenChange(())
    }
}

impl Drop for OpenChange {
    fn drop(&mut self) {
        CHANGES.fetch_sub(1, Relaxed);
    }
}

/// While this lives, the first signal ends the process: it waits for another program, and nobody looks at the flag.
#[derive(Debug)]
pub struct OpenWait(());

impl OpenWait {
    pub fn begin() -> Self {
        WAITS.fetch_add(1, SeqCst);
        if is_asked_to_end() {
            end_at_once();
        }
        OpenWait(())
    }

    /// For a file that is opened. `None`: nobody writes or reads the other end of a regular file.
    pub fn for_file(path: &Path) -> Option<Self> {
        let has_end = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        has_end.then(OpenWait::begin)
    }
}

impl Drop for OpenWait {
    fn drop(&mut self) {
        WAITS.fetch_sub(1, SeqCst);
    }
}

/// A flag that the first of SIGINT, SIGTERM and SIGHUP sets; the second ends the process at once, and says how to
/// undo the changes that it leaves ([`OpenChange`]). The same signal once more within [`SAME_REQUEST_NS`] is the first.
/// During an [`OpenWait`] the first one does so.
/// Signals that were ignored when this process was started (nohup) stay ignored.
pub fn catch_termination() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal)) {
        let flag = Arc::clone(&asked);
        let first_ns = AtomicU64::new(0);
        // One exchange: two signals that two threads take at the same moment are two all the same.
        let ask = move || {
            let is_again = is_again(&first_ns, clock::monotonic_ns());
            IS_ASKED.store(true, SeqCst);
            if (flag.swap(true, SeqCst) && !is_again) || WAITS.load(SeqCst) > 0 {
                end_at_once();
            }
        };
        // SAFETY: the action only touches atomics, reads the clock, writes to a descriptor and exits, all
        // async-signal-safe; what it captures lives as long as it does.
        unsafe { signal_hook::low_level::register(signal, ask) }?;
    }
    Ok(asked)
}

/// Whether one of these signals came, for who has no flag of [`catch_termination`].
pub fn is_asked_to_end() -> bool {
    IS_ASKED.load(SeqCst)
}

/// Whether a signal repeats the request of the one that came at `first_ns`, which is 0 until one has come.
fn is_again(first_ns: &AtomicU64, now_ns: u64) -> bool {
    match first_ns.compare_exchange(0, now_ns, SeqCst, SeqCst) {
        Ok(_) => false,
        Err(first_ns) => now_ns.saturating_sub(first_ns) < SAME_REQUEST_NS,
    }
}

fn end_at_once() -> ! {
    tty_restore::restore();
    if CHANGES.load(Relaxed) > 0 {
        // SAFETY: the text is valid for its length; a failed write cannot be reported.
        unsafe {
            libc::write(libc::STDERR_FILENO, NOT_UNDONE.as_ptr().cast(), NOT_UNDONE.len());
        }
    }
    signal_hook::low_level::exit(INTERRUPTED)
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) an error, EFBIG, which is reported as others are;
/// else the kernel ends this process without a word. It is done by a handler that does nothing: programs that this
/// process executes get the default action back, which they would not if the signal were ignored.
pub fn report_file_limit() {
    if !is_ignored(SIGXFSZ) {
        // SAFETY: doing nothing is async-signal-safe.
        let caught = unsafe { signal_hook::low_level::register(SIGXFSZ, || ()) };
        // A failure changes nothing, and only a kernel without this signal gives one.
        _ = caught;
    }
}

/// Whether `signal` was to be ignored when this process began (nohup, a shell's `&`).
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction is plain data, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set, and the pointer to the old action is valid.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } != 0;
    !failed && action.sa_sigaction == libc::SIG_IGN
}

/// Does the same as Ctrl-C: asks this process and all others of its group to end.
pub fn interrupt_group() {
    // SAFETY: no memory is passed.
    unsafe { libc::kill(0, SIGINT) };
}

/// Stops this process as Ctrl-Z does, whatever action SIGTSTP has. Returns when it goes on; at once if no other
/// process could make it go on.
pub fn stop_here() {
    // SAFETY: sigaction is plain data, for which zero is valid: the default action, no flags.
    let [default, mut before]: [libc::sigaction; 2] = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call.
    let failed = unsafe { libc::sigaction(SIGTSTP, &default, &mut before) } != 0;
    if failed {
        return;
    }
    // SAFETY: no memory is passed. To this thread, which so goes no further.
    unsafe { libc::raise(SIGTSTP) };
    // SAFETY: the first call has filled in `before`.
    unsafe { libc::sigaction(SIGTSTP, &before, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_comes_twice_at_once_is_one_request() {
        let first_ns = AtomicU64::new(0);
        let times = [7_000, 7_001, 7_000 + SAME_REQUEST_NS - 1, 7_000 + SAME_REQUEST_NS];
        assert_eq!(times.map(|now_ns| is_again(&first_ns, now_ns)), [false, true, true, false]);
    }
}
