//! Threads that stay on one CPU, and one that keeps a CPU busy for whoever preempts it.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::exec::ExecError;
use crate::sys::futex::{self, Scope};
use crate::sys::sched::{self, Attr, Policy};
use crate::sys::{clock, thread};

/// Two CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    pub from: u32,
    pub to: u32,
}

/// How long one kind of time is measured at most: on a busy machine there are fewer samples.
const BUDGET_NS: u64 = 20_000_000_000;

/// Counts to `samples` within the budget.
pub fn samples(samples: usize) -> impl Iterator<Item = usize> {
    let until_ns = clock::monotonic_ns() + BUDGET_NS;
    (0..samples).take_while(move |_| clock::monotonic_ns() < until_ns)
}

/// Puts the calling thread on a CPU, under SCHED_OTHER.
pub fn pin(cpu: u32) -> Result<(), ExecError> {
    thread::become_ordinary().map_err(ExecError::refused)?;
    move_to(cpu)
}

/// Moves the calling thread to a CPU.
pub fn move_to(cpu: u32) -> Result<(), ExecError> {
    let cpus = [cpu].into_iter().collect();
    sched::set_affinity(0, &cpus).map_err(|source| ExecError::Affinity { cpus, source })
}

/// As [`pin`], under SCHED_IDLE: any other thread preempts it at once.
pub fn pin_idle(cpu: u32) -> Result<(), ExecError> {
    pin(cpu)?;
    let idle = Attr { policy: Policy::Idle.number(), ..Attr::default() };
    sched::set_attr(0, &idle).map_err(ExecError::system("put a thread under SCHED_IDLE"))
}

const OFF: u32 = 0;
const ON: u32 = 1;
const ENDED: u32 = 2;

/// A switch for a thread that computes while it is on, and sleeps while it is off.
#[derive(Default)]
pub struct Busy(AtomicU32);

impl Busy {
    pub fn set(&self, is_on: bool) {
        self.0.store(if is_on { ON } else { OFF }, SeqCst);
        futex::wake(&self.0, 1, Scope::Private);
    }

    pub fn end(&self) {
        self.0.store(ENDED, SeqCst);
        futex::wake(&self.0, 1, Scope::Private);
    }

    /// The thread, until [`Busy::end`].
    pub fn work(&self, cpu: u32) -> Result<(), ExecError> {
        pin_idle(cpu)?;
        loop {
            match self.0.load(SeqCst) {
                OFF => _ = futex::wait(&self.0, OFF, None, Scope::Private),
                ON => std::hint::spin_loop(),
                _ => return Ok(()),
            }
        }
    }
}

/// The result of a thread; a panic of it goes on here.
pub fn joined<T>(thread: std::thread::ScopedJoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
