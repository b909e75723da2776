//! A thread's name, its policy, and how soon it runs after it wakes.

use std::borrow::Cow;
use std::io;

use super::sched::{self, Attr, Policy};
use crate::model::Advice;

/// Threads and processes that the caller starts later do not inherit its policy.
const RESET_ON_FORK: u64 = 0x01;
/// Above every worker (the `priority` knob ends below it): it sleeps except for one pass over the workers a window.
const MEASURER_PRIORITY: u32 = 99;
/// The shortest slice that the kernel grants (Linux 6.12 and later).
const SHORTEST_SLICE_NS: u64 = 100_000;
/// The timer slack that the kernel gives its first process.
const TIMER_SLACK_NS: u64 = 50_000;

/// Names the calling thread, as ps and top show it; 15 bytes are kept.
pub fn set_name(name: &str) {
    let mut bytes = [0u8; 16];
    let length = name.len().min(15);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    // SAFETY: the kernel reads at most 16 bytes, and the last one is 0.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, bytes.as_ptr());
    }
}

/// Puts the calling thread under SCHED_OTHER with nice 0 and the kernel's own timer slack,
/// whatever it was started under: workers that it starts begin there.
pub fn become_ordinary() -> Result<(), OrdinaryError> {
    let now = sched::attr(0).map_err(OrdinaryError::Unreadable)?;
    if now.policy != Policy::Other.number() || now.nice != 0 {
        let ordinary = Attr { policy: Policy::Other.number(), ..Attr::default() };
        sched::set_attr(0, &ordinary).map_err(|source| OrdinaryError::Kept {
            policy: Policy::from_number(now.policy).map_or("another policy", Policy::word),
            nice: now.nice,
            source,
        })?;
    }
    // A child of a real-time thread, as schedlab is where it may be one, begins with a slack of 0.
    sched::set_own_timer_slack_ns(TIMER_SLACK_NS).map_err(OrdinaryError::TimerSlack)
}

/// Does `body` under SCHED_OTHER, whatever the policy of the calling thread, which is the same
/// again afterwards. For system calls in which the kernel may spin until another thread has run:
/// from SCHED_FIFO that lasts until the kernel throttles it, up to a second.
pub fn give_way<T>(body: impl FnOnce() -> T) -> T {
    let before = sched::attr(0);
    _ = become_ordinary();
    let done = body();
    if let Ok(before) = before {
        _ = sched::set_attr(0, &before);
    }
    done
}

/// Why a thread does not run under SCHED_OTHER with nice 0.
#[derive(Debug, thiserror::Error)]
pub enum OrdinaryError {
    #[error("sched_getattr: {0}")]
    Unreadable(io::Error),
    #[error("PR_SET_TIMERSLACK: {0}")]
    TimerSlack(io::Error),
    #[error(
        "schedlab was started under {policy} with nice {nice}, which workers would inherit and \
         which it cannot leave ({source})"
    )]
    Kept { policy: &'static str, nice: i32, source: io::Error },
}

impl Advice for OrdinaryError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        Some(Cow::from(match self {
            OrdinaryError::Unreadable(_) | OrdinaryError::TimerSlack(_) => {
                "see what the kernel supports: schedlab doctor"
            }
            OrdinaryError::Kept { .. } => "start it without nice and chrt",
        }))
    }
}

/// The signal with which [`end_process_after`] ends the process.
pub const ALARM_SIGNAL: i32 = libc::SIGALRM;

/// Has the kernel end this process after a time, whatever its threads do by then.
pub fn end_process_after(after_ns: u64) {
    let seconds = libc::timeval {
        tv_sec: libc::time_t::try_from(after_ns / 1_000_000_000).unwrap_or(libc::time_t::MAX),
        tv_usec: 999_999,
    };
    let once = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let timer = libc::itimerval { it_interval: once, it_value: seconds };
    // SAFETY: the timer is valid, the old one is not asked for; SIGALRM's default action is
    // to end the process.
    unsafe {
        libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_serves_promptly_gives_way_for_a_while() {
        let served = std::thread::spawn(|| {
            serve_promptly();
            let policy = || sched::attr(0).unwrap().policy;
            (policy(), give_way(policy), policy())
        });
        let (before, meanwhile, after) = served.join().unwrap();
        assert_eq!((meanwhile, after), (Policy::Other.number(), before));
    }

    #[test]
    fn a_worker_of_a_real_time_thread_has_the_timer_slack_of_any_other() {
        let worker = || {
            become_ordinary().unwrap();
            sched::own_timer_slack_ns().unwrap()
        };
        let served = std::thread::spawn(move || {
            serve_promptly();
            std::thread::spawn(worker).join().unwrap()
        });
        assert_eq!(served.join().unwrap(), TIMER_SLACK_NS);
    }
}
