//! Signals as this process was started with them.

/// Whether `signal` was to be ignored when this process began (nohup, a shell's `&`).
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction is plain data, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set, and the pointer to the old action is valid.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } != 0;
    !failed && action.sa_sigaction == libc::SIG_IGN
}
