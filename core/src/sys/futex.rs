//! Futexes on words that may be shared between processes or private to one, and locks that lend priority.

use std::io;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// Whether a futex word lies in memory that several processes map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Private,
    Shared,
}

impl Scope {
    fn flag(self) -> libc::c_int {
        match self {
            Scope::Private => libc::FUTEX_PRIVATE_FLAG,
            Scope::Shared => 0,
        }
    }
}

/// Sleeps while `word` holds `expected`. Returns at a wake-up, at once if the word differs,
/// on a signal, and with `false` after `timeout_ns`: callers look at the word again.
#[inline]
pub fn wait(word: &AtomicU32, expected: u32, timeout_ns: Option<u64>, scope: Scope) -> bool {
    let timeout = timeout_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word outlives the call by its borrow; the timeout is null or valid.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | scope.flag(),
            expected,
            timeout,
        )
    };
    result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ETIMEDOUT)
}

/// Wakes up to `count` sleepers on `word`.
#[inline]
pub fn wake(word: &AtomicU32, count: i32, scope: Scope) {
    // SAFETY: the word outlives the call by its borrow; waking has no other precondition.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | scope.flag(), count);
    }
}

/// Takes a lock whose word is the tid of its holder, 0: nobody. Those that wait lend the holder their priority.
#[inline]
pub fn lock_inheriting(word: &AtomicU32, tid: i32, scope: Scope) {
    while word.compare_exchange(0, tid as u32, Acquire, Relaxed).is_err() {
        if operate(word, libc::FUTEX_LOCK_PI, scope) {
            return;
        }
    }
}

/// Gives back a lock of [`lock_inheriting`]; its holder alone may call it.
#[inline]
pub fn unlock_inheriting(word: &AtomicU32, tid: i32, scope: Scope) {
    if word.compare_exchange(tid as u32, 0, Release, Relaxed).is_err() {
        operate(word, libc::FUTEX_UNLOCK_PI, scope);
    }
}

fn operate(word: &AtomicU32, operation: libc::c_int, scope: Scope) -> bool {
    let none = std::ptr::null::<libc::timespec>();
    // SAFETY: the word outlives the call by its borrow; no timeout is given.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation | scope.flag(), 0, none) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn a_waiter_is_woken_and_a_changed_word_is_not_waited_for() {
        let word = AtomicU32::new(0);
        assert!(wait(&word, 1, None, Scope::Private), "the word differs: at once");
        assert!(!wait(&word, 0, Some(1_000), Scope::Private), "timed out");
        std::thread::scope(|threads| {
            let waiter = threads.spawn(|| {
                while word.load(SeqCst) == 0 {
                    wait(&word, 0, None, Scope::Shared);
                }
            });
            word.store(1, SeqCst);
            wake(&word, i32::MAX, Scope::Shared);
            waiter.join().unwrap();
        });
    }
}
