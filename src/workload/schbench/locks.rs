//! One spinlock per CPU: what makes preemption in the middle of the work expensive.
//!
//! A worker holds the lock of the CPU on which it began. If it is preempted, the next worker
//! there spins its slice away; if it is moved, it goes on with the lock of a CPU on which
//! others now spin.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use bytemuck::Zeroable;

use crate::sys::shared;

/// What Linux supports at most. Only the pages of CPUs that exist are ever touched.
const CPUS: usize = 8192;

#[derive(Zeroable)]
#[repr(C, align(128))]
struct Lock(AtomicU32);

/// The locks of one copy of the workload; processes share them.
pub struct CpuLocks(&'static [Lock]);

/// Released on drop.
pub struct Held<'a>(&'a Lock);

impl CpuLocks {
    pub fn new() -> std::io::Result<CpuLocks> {
        Ok(CpuLocks(shared::leak_slice(CPUS)?))
    }

    /// Takes the lock of the CPU that the caller is on, by trying and spinning; again if the
    /// caller was moved between reading the CPU's number and taking its lock.
    #[inline]
    pub fn hold(&self) -> Result<Held<'_>, String> {
        loop {
            let cpu = current_cpu();
            let lock = self.0.get(cpu).ok_or_else(|| {
                format!("this runs on CPU {cpu}; locks are kept for CPUs below {CPUS}")
            })?;
            while lock.0.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
                std::hint::spin_loop();
            }
            let held = Held(lock);
            if current_cpu() == cpu {
                return Ok(held);
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

/// From the thread's rseq area or the vdso: no system call. A failure (none is known where
/// rseq or the vdso exist) shows as a CPU that no machine has.
#[inline]
fn current_cpu() -> usize {
    // SAFETY: no preconditions.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_held_lock_excludes_all_who_come_to_that_cpu() {
        let locks = CpuLocks::new().unwrap();
        // One count per lock, each changed by a load and a store that only the lock makes whole.
        let counts: Vec<AtomicU64> = (0..CPUS).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    for _ in 0..20_000 {
                        let held = locks.hold().unwrap();
                        let index = locks.0.iter().position(|lock| std::ptr::eq(lock, held.0));
                        let count = &counts[index.unwrap()];
                        count.store(std::hint::black_box(count.load(Relaxed)) + 1, Relaxed);
                    }
                });
            }
        });
        assert_eq!(counts.iter().map(|count| count.load(Relaxed)).sum::<u64>(), 60_000);
        assert!(locks.0.iter().all(|lock| lock.0.load(Relaxed) == 0), "all were released");
    }
}
