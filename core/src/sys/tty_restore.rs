//! Gives back a terminal that a view has taken, also from a signal handler: its old settings are kept where a
//! handler may read them.

use std::os::fd::RawFd;
use std::sync::atomic::{
    AtomicI32, AtomicPtr,
    Ordering::{Relaxed, SeqCst},
};

/// The first screen, with a cursor and without colours.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?1049l\x1b[?25h";

/// The settings to go back to; null: nothing is changed.
static BEFORE: AtomicPtr<libc::termios> = AtomicPtr::new(std::ptr::null_mut());
/// The descriptor that they are of, and the one that is drawn on.
static KEYS: AtomicI32 = AtomicI32::new(-1);
static OUT: AtomicI32 = AtomicI32::new(-1);

/// Keeps the settings of a terminal that is about to be taken, unless it is already.
pub fn keep(keys: RawFd, out: RawFd, before: libc::termios) {
    KEYS.store(keys, SeqCst);
    OUT.store(out, SeqCst);
    // A few bytes that stay allocated, as a signal handler may read them at any moment.
    let settings = Box::into_raw(Box::new(before));
    if BEFORE.compare_exchange(std::ptr::null_mut(), settings, SeqCst, SeqCst).is_err() {
        // SAFETY: it was made above, and nobody else has it.
        drop(unsafe { Box::from_raw(settings) });
    }
}

/// Gives the terminal back, where a view has it. Safe in a signal handler.
pub fn restore() {
    let before = BEFORE.swap(std::ptr::null_mut(), SeqCst);
    if before.is_null() {
        return;
    }
    // SAFETY: the text is valid for its length; a failed write cannot be reported.
    unsafe { libc::write(OUT.load(Relaxed), LEAVE.as_ptr().cast(), LEAVE.len()) };
    // SAFETY: `before` is never freed. If the terminal is gone the call fails.
    unsafe { libc::tcsetattr(KEYS.load(Relaxed), libc::TCSANOW, before) };
}
