//! One spinlock per CPU, which makes preemption in the middle of the work expensive.
//!
//! A worker holds the lock of the CPU on which it began. If it is preempted, the next worker there spins away its
//! slice; if it is moved, it keeps the lock of a CPU on which others now spin.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use bytemuck::Zeroable;

use crate::sys::{burst::SpinWait, sched, shared};

/// Linux supports no more. Only the pages of CPUs that exist are ever touched.
const CPUS: usize = 8192;

#[derive(Zeroable)]
#[repr(C, align(128))]
struct Lock(AtomicU32);

/// The locks of one copy of the workload; processes share them.
pub struct CpuLocks {
    locks: &'static [Lock],
    /// Whether waits are made of the lab's bursts.
    in_bursts: bool,
}

/// Released on drop.
pub struct Held<'a>(&'a Lock);

impl CpuLocks {
    pub fn new(in_bursts: bool) -> std::io::Result<CpuLocks> {
        Ok(CpuLocks { locks: shared::leak_slice(CPUS)?, in_bursts })
    }

    /// Takes the lock of the CPU that the caller is on, by trying and spinning; again if the
    /// caller was moved between reading the CPU's number and taking its lock.
    #[inline]
    pub fn hold(&self) -> Held<'_> {
        self.hold_on(sched::current_cpu)
    }

    /// The CPUs whose locks are taken.
    #[cfg(test)]
    pub fn held(&self) -> Vec<usize> {
        (0..CPUS).filter(|&cpu| self.locks[cpu].0.load(Relaxed) != 0).collect()
    }

    #[inline]
    fn hold_on(&self, mut current_cpu: impl FnMut() -> usize) -> Held<'_> {
        loop {
            let cpu = current_cpu();
            // The remainder only spares the check of the bounds.
            let lock = &self.locks[cpu % CPUS];
            let mut wait = SpinWait::new(self.in_bursts);
            while lock.0.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
                wait.pass();
            }
            let held = Held(lock);
            if current_cpu() == cpu {
                return held;
            }
        }
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    #[test]
    fn a_worker_that_was_moved_releases_the_lock_and_takes_that_of_its_new_cpu() {
        let locks = CpuLocks::new(false).unwrap();
        let mut cpus = [3, 5, 5, 5].into_iter();
        let lock = locks.hold_on(|| cpus.next().unwrap());
        assert_eq!(locks.held(), [5]);
        drop(lock);
        assert_eq!(locks.held(), [0usize; 0]);
    }

    #[test]
    fn a_held_lock_keeps_out_all_others_on_that_cpu() {
        let locks = CpuLocks::new(false).unwrap();
        let (trying, leaving) = (AtomicBool::new(false), AtomicBool::new(false));
        let lock = locks.hold_on(|| 0);
        std::thread::scope(|threads| {
            let second = threads.spawn(|| {
                trying.store(true, SeqCst);
                let _lock = locks.hold_on(|| 0);
                leaving.load(SeqCst)
            });
            while !trying.load(SeqCst) {
                std::thread::yield_now();
            }
            // Time for the second to come in too early, if it can.
            (0..2_000).for_each(|_| std::thread::yield_now());
            leaving.store(true, SeqCst);
            drop(lock);
            assert!(second.join().unwrap(), "came in while the first was there");
        });
    }
}
