//! Clocks in integer nanoseconds.

/// The monotonic clock. Never steps; the same in all processes of a machine.
#[inline]
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// Ticks a second of the kernel; `None` where its coarse clock has no resolution.
pub fn tick_hz() -> Option<u32> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call.
    let failed = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut time) } != 0;
    let hz = (time.tv_nsec > 0).then(|| (1e9 / time.tv_nsec as f64).round() as u32);
    hz.filter(|_| !failed)
}

/// How exactly the monotonic clock's timers go off: a nanosecond where they are programmed one by
/// one, a tick where the kernel looks at them with each tick alone.
pub fn timer_resolution_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call.
    match unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &mut time) } {
        0 => time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64,
        _ => 0,
    }
}

/// The monotonic time of a moment of the wall clock that is not far off.
pub fn monotonic_at(unix_ns: u64) -> u64 {
    (monotonic_ns() + unix_ns).saturating_sub(self::unix_ns())
}

/// Wall clock, since 1970. For people and for detecting steps; nothing is timed with it.
pub fn unix_ns() -> u64 {
    read(libc::CLOCK_REALTIME).unwrap_or(0)
}

/// Like the monotonic clock, but it also runs while the machine is suspended.
pub fn boot_ns() -> u64 {
    read(libc::CLOCK_BOOTTIME).unwrap_or(0)
}

/// CPU time of the calling thread.
#[inline]
pub fn own_thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// CPU time of a thread of this process, by its tid; `None` once it has ended.
pub fn thread_cpu_ns(tid: i32) -> Option<u64> {
    // The kernel's encoding of a per-thread scheduler clock (posix-timers: CPUCLOCK_SCHED
    // with CPUCLOCK_PERTHREAD_MASK): one system call, no procfs.
    read((!tid << 3) | 6)
}

/// CPU time of this process so far.
pub fn own_process_cpu_ns() -> u64 {
    process_cpu_ns(std::process::id() as i32).unwrap_or(0)
}

/// CPU time of another process, all its threads, by pid; `None` once it has ended.
pub fn process_cpu_ns(pid: i32) -> Option<u64> {
    read((!pid << 3) | 2)
}

/// CPU time of this process, all its threads, and of all descendants that have ended and
/// been collected by their parents; to a microsecond.
pub fn family_cpu_ns() -> u64 {
    let of = |who: libc::c_int| {
        let usage = usage(who);
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        ns(usage.ru_utime) + ns(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

/// Voluntary and involuntary switches of all descendants that have ended and been collected. The switch in which a
/// thread ended is not counted.
pub fn ended_children_switches() -> (u64, u64) {
    let usage = usage(libc::RUSAGE_CHILDREN);
    (usage.ru_nvcsw as u64, usage.ru_nivcsw as u64)
}

fn usage(who: libc::c_int) -> libc::rusage {
    // SAFETY: rusage is plain numbers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid; on failure the numbers stay zero.
    unsafe { libc::getrusage(who, &mut usage) };
    usage
}

/// Sleeps until the monotonic clock shows `deadline_ns`; signals do not cut it short.
pub fn sleep_until(deadline_ns: u64) {
    while !sleep_until_or_signal(deadline_ns) {}
}

/// Sleeps until the monotonic clock shows `deadline_ns` (`true`), or until a signal was handled
/// in this thread (`false`).
pub fn sleep_until_or_signal(deadline_ns: u64) -> bool {
    let deadline = libc::timespec {
        tv_sec: (deadline_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (deadline_ns % 1_000_000_000) as libc::c_long,
    };
    let (clock, flags) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
    // SAFETY: both pointers are valid or null as the call allows.
    unsafe { libc::clock_nanosleep(clock, flags, &deadline, std::ptr::null_mut()) != libc::EINTR }
}

#[inline]
fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec; the clock id is checked by the kernel.
    let failed = unsafe { libc::clock_gettime(clock, &mut now) } != 0;
    (!failed).then(|| now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_clocks_of_self_move_with_work_and_end_with_the_thread() {
        // SAFETY: gettid has no preconditions.
        let tid = unsafe { libc::gettid() };
        let before = thread_cpu_ns(tid).unwrap();
        let own = own_thread_cpu_ns();
        assert!(own >= before);
        let until = own + 2_000_000;
        while own_thread_cpu_ns() < until {}
        assert!(thread_cpu_ns(tid).unwrap() >= until);
        assert!(process_cpu_ns(std::process::id() as i32).unwrap() >= until);
        assert_eq!(thread_cpu_ns(i32::MAX >> 4), None);
    }

    #[test]
    fn sleeping_until_a_past_moment_returns_at_once_and_never_early() {
        sleep_until(1);
        let deadline = monotonic_ns() + 1_000_000;
        sleep_until(deadline);
        assert!(monotonic_ns() >= deadline);
    }
}
