//! Scheduling attributes of threads: policy, nice, slice, utilisation clamps, affinity and
//! timer slack, as in sched(7), sched_setattr(2) and prctl(2). A tid of 0 is the caller.

use std::io;

use crate::model::{CpuSet, MAX_CPU, words};

use super::call::checked;

words! {
    /// A scheduling policy that a plan may ask for, with the word of plans and reports.
    pub enum Policy {
        Other = "other",
        Batch = "batch",
        Idle = "idle",
        Fifo = "fifo",
        Rr = "rr",
        Deadline = "deadline",
    }
}

impl Policy {
    /// Whether the running kernel has the policy: MuQSS has no SCHED_DEADLINE.
    pub fn is_known_here(self) -> bool {
        // SAFETY: takes and returns plain numbers.
        unsafe { libc::sched_get_priority_max(self.number() as libc::c_int) >= 0 }
    }

    /// The kernel's number, SCHED_*.
    pub fn number(self) -> u32 {
        match self {
            Policy::Other => 0,
            Policy::Fifo => 1,
            Policy::Rr => 2,
            Policy::Batch => 3,
            Policy::Idle => 5,
            Policy::Deadline => 6,
        }
    }

    pub fn from_number(number: u32) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.number() == number)
    }

    /// Whether nice values and custom slices have an effect: SCHED_IDLE takes neither, and keeps the slice that there was.
    pub fn takes_nice_and_slice(self) -> bool {
        matches!(self, Policy::Other | Policy::Batch)
    }

    pub fn takes_priority(self) -> bool {
        matches!(self, Policy::Fifo | Policy::Rr)
    }

    /// Whether it belongs to the fair class, which cgroup weights and quotas govern.
    pub fn is_fair(self) -> bool {
        matches!(self, Policy::Other | Policy::Batch | Policy::Idle)
    }
}

/// `struct sched_attr` of the kernel, version 1 (with utilisation clamps).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attr {
    /// Set by [`set_attr`].
    pub size: u32,
    pub policy: u32,
    pub flags: u64,
    pub nice: i32,
    pub priority: u32,
    /// Budget under SCHED_DEADLINE; the slice under SCHED_OTHER and SCHED_BATCH from Linux
    /// 6.12 on, where 0 asks for the default. Older kernels ignore it and show 0.
    pub runtime_ns: u64,
    pub deadline_ns: u64,
    pub period_ns: u64,
    /// 0 to [`UCLAMP_MAX`].
    pub util_min: u32,
    pub util_max: u32,
}

/// Full capacity, in the unit of utilisation clamps.
pub const UCLAMP_MAX: u32 = 1024;

pub const KEEP_POLICY: u64 = 0x08;
pub const KEEP_PARAMS: u64 = 0x10;
pub const UTIL_CLAMP_MIN: u64 = 0x20;
pub const UTIL_CLAMP_MAX: u64 = 0x40;

/// The first version of the structure, which kernels before utilisation clamps (5.3) know.
const ATTR_SIZE_V0: u32 = 48;

pub fn attr(tid: i32) -> io::Result<Attr> {
    let mut attr = Attr::default();
    // SAFETY: the kernel writes at most the size that is passed, the size of `attr`.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, size_of::<Attr>() as u32, 0)
    };
    checked(result).map(|()| attr)
}

/// Sets the attributes in `wanted`. The size is chosen here: clamps are sent only if asked for, so that kernels
/// without clamps take the rest.
pub fn set_attr(tid: i32, wanted: &Attr) -> io::Result<()> {
    let clamps = wanted.flags & (UTIL_CLAMP_MIN | UTIL_CLAMP_MAX) != 0;
    let size = if clamps { size_of::<Attr>() as u32 } else { ATTR_SIZE_V0 };
    let sent = Attr { size, ..*wanted };
    // SAFETY: the kernel reads at most `size` bytes of `sent`.
    checked(unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const sent, 0) })
}

/// Sets the nice value alone: policy, slice and clamps stay.
pub fn set_nice(tid: i32, nice: i32) -> io::Result<()> {
    // SAFETY: setpriority takes plain numbers. PRIO_PROCESS with a tid is one thread on Linux.
    checked(unsafe { libc::setpriority(libc::PRIO_PROCESS, tid as libc::id_t, nice) })
}

pub fn affinity(tid: i32) -> io::Result<CpuSet> {
    let mut mask = [0u64; MASK_WORDS];
    // SAFETY: the mask is as long as the size that is passed.
    let bytes = unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, tid, MASK_WORDS * 8, mask.as_mut_ptr())
    };
    checked(bytes.min(0))?;
    // The kernel says how many bytes of it there are. A bit for each CPU that is accepted would take a lab guest 20 ms.
    let words = mask.iter().zip(0u32..).take((bytes as usize).div_ceil(8));
    let cpus = words.flat_map(|(&word, at)| {
        (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
    });
    Ok(cpus.collect())
}

/// The kernel keeps only CPUs that exist and that the cpuset allows; EINVAL if none is left.
pub fn set_affinity(tid: i32, cpus: &CpuSet) -> io::Result<()> {
    let mut mask = [0u64; MASK_WORDS];
    for cpu in cpus.iter() {
        let word = mask.get_mut(cpu as usize / 64);
        *word.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))? |= 1 << (cpu % 64);
    }
    // SAFETY: the mask is as long as the size that is passed.
    checked(unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, tid, MASK_WORDS * 8, mask.as_ptr())
    })
}

const MASK_WORDS: usize = (MAX_CPU as usize + 1) / 64;

/// Timer slack of the calling thread.
pub fn own_timer_slack_ns() -> io::Result<u64> {
    // Not libc::prctl: its int would cut a slack above 2.1 s.
    // SAFETY: PR_GET_TIMERSLACK takes no pointer.
    let slack = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    checked(slack.min(0)).map(|()| slack as u64)
}

/// Sets the timer slack of the calling thread; 0 would mean its default.
pub fn set_own_timer_slack_ns(slack_ns: u64) -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes no pointer.
    checked(unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_TIMERSLACK, slack_ns, 0, 0, 0) })
}

/// The CPU that the caller is on, which it may leave at any moment. From the thread's rseq
/// area or the vdso: no system call. A failure (none is known where rseq or the vdso exist)
/// shows as a CPU that no machine has.
#[inline]
pub fn current_cpu() -> usize {
    // SAFETY: no preconditions.
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).unwrap_or(usize::MAX)
}

/// The calling thread's id.
pub fn own_tid() -> i32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change to the test's thread would outlive the test where threads are re-used.
    fn in_a_thread(body: impl FnOnce() + Send) {
        std::thread::scope(|scope| scope.spawn(body).join().unwrap());
    }

    #[test]
    fn words_and_numbers_name_policies_both_ways() {
        for policy in Policy::ALL {
            assert_eq!(Policy::from_word(policy.word()), Some(policy));
            assert_eq!(Policy::from_number(policy.number()), Some(policy));
        }
        assert_eq!(Policy::from_number(7), None, "SCHED_EXT is not for plans");
        assert_eq!(size_of::<Attr>(), 56, "SCHED_ATTR_SIZE_VER1");
    }

    #[test]
    fn affinity_and_timer_slack_read_back() {
        in_a_thread(|| {
            let allowed = affinity(0).unwrap();
            let one: CpuSet = allowed.iter().take(1).collect();
            set_affinity(0, &one).unwrap();
            assert_eq!(affinity(own_tid()).unwrap(), one);
            let absent: CpuSet = [MAX_CPU].into_iter().collect();
            assert_eq!(set_affinity(0, &absent).unwrap_err().raw_os_error(), Some(libc::EINVAL));
            for slack_ns in [1, 123_456, 5_000_000_000] {
                set_own_timer_slack_ns(slack_ns).unwrap();
                assert_eq!(own_timer_slack_ns().unwrap(), slack_ns);
            }
        });
    }

    #[test]
    fn nice_and_batch_read_back() {
        in_a_thread(|| {
            let nice = attr(0).unwrap().nice;
            set_nice(0, 19).unwrap();
            assert_eq!(attr(0).unwrap().nice, 19);
            let batch = Attr { policy: Policy::Batch.number(), nice: 19, ..Attr::default() };
            set_attr(0, &batch).unwrap();
            let got = attr(own_tid()).unwrap();
            assert_eq!((got.policy, got.nice), (3, 19));
            assert!(nice <= 19);
        });
    }
}
