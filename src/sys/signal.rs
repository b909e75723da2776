//! Signals as this process was started with them, and how it takes those that ask it to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The exit code after a signal: as shells show SIGINT.
const INTERRUPTED: i32 = 130;

/// A flag that the first of SIGINT, SIGTERM and SIGHUP sets; the second ends the process at
/// once. What was ignored when this process was started (nohup) stays ignored.
pub fn catch_termination() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal)) {
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&asked))?;
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// Whether `signal` was to be ignored when this process began (nohup, a shell's `&`).
fn is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction is plain data, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set, and the pointer to the old action is valid.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } != 0;
    !failed && action.sa_sigaction == libc::SIG_IGN
}
