//! Measures the time of a lab program in resources that this host gave it: a busy host makes it slow, but
//! never late. CPU time counts; while the program sleeps voluntarily, as a guest in real time does, each poll
//! counts its interval. Waiting for a CPU or a disk, or being stopped, counts nothing. Reads the host's
//! clocks.

use std::io;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use crate::sys::{clock, fork, process};

/// A program that wants a CPU and got almost none for this long is given up.
pub const MAX_WITHOUT_CPU: Duration = Duration::from_secs(600);
/// Credit for CPU time: a program with 1 % of a CPU or more is never given up. With less, minutes of a
/// guest's work would take hours.
const CPU_WORTH: u32 = 100;
/// Maximum that one poll counts of this time: the host may have been suspended.
const MAX_POLL: Duration = Duration::from_secs(1);
/// Time over which the share of a CPU is computed.
const WINDOW: Duration = Duration::from_secs(10);
/// A program that gets less than this share of a CPU is starved.
const STARVED: f64 = 0.5;

/// Waits for the end of a program that leads its process group. `None`: it took more than `limit` or got next to no
/// CPU, and was killed.
pub fn wait_within(
    child: &mut Child,
    limit: Duration,
    interval: Duration,
) -> io::Result<Option<ExitStatus>> {
    let mut meter = Meter::new(child.id(), interval);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if meter.used() >= limit || meter.is_without_cpu() {
            fork::kill_group(child.id() as i32);
            _ = child.wait();
            return Ok(None);
        }
        std::thread::sleep(interval);
        meter.poll();
    }
}

/// The CPU time of one process, which is polled.
pub struct Meter {
    pid: i32,
    interval: Duration,
    began: Instant,
    usage: Usage,
}

impl Meter {
    /// `interval`: the pause between two polls.
    pub fn new(pid: u32, interval: Duration) -> Meter {
        Meter { pid: pid as i32, interval, began: Instant::now(), usage: Usage::default() }
    }

    /// Reads the CPU time of the process. Returns the share of a CPU that this host recently gave it, if that
    /// is small.
    pub fn poll(&mut self) -> Option<f64> {
        // A process that has ended gains nothing.
        let cpu_ns = clock::process_cpu_ns(self.pid).unwrap_or(self.usage.cpu_ns);
        let is_asleep = || process::is_asleep(self.pid).unwrap_or(true);
        self.usage.add(self.began.elapsed(), cpu_ns, self.interval, is_asleep)
    }

    pub fn used(&self) -> Duration {
        self.usage.used
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether it wants a CPU and got almost none for too long.
    pub fn is_without_cpu(&self) -> bool {
        self.usage.without_cpu > MAX_WITHOUT_CPU
    }
}

/// Times count from the begin.
#[derive(Default)]
struct Usage {
    used: Duration,
    cpu_ns: u64,
    polled_at: Duration,
    /// Time since it slept, minus a credit for its CPU time.
    without_cpu: Duration,
    window: Window,
}

#[derive(Default)]
struct Window {
    began: Duration,
    began_cpu_ns: u64,
    has_slept: bool,
}

impl Usage {
    fn add(
        &mut self,
        at: Duration,
        cpu_ns: u64,
        interval: Duration,
        is_asleep: impl FnOnce() -> bool,
    ) -> Option<f64> {
        let gained = Duration::from_nanos(cpu_ns.saturating_sub(self.cpu_ns));
        self.cpu_ns = self.cpu_ns.max(cpu_ns);
        // A process that used CPU time is awake, so save the cost of reading its threads' states.
        let slept = gained < interval / 2 && is_asleep();
        self.used += if slept { gained.max(interval) } else { gained };
        let since = at.saturating_sub(std::mem::replace(&mut self.polled_at, at));
        self.without_cpu = if slept {
            Duration::ZERO
        } else {
            (self.without_cpu + since.min(MAX_POLL)).saturating_sub(gained * CPU_WORTH)
        };
        self.window.has_slept |= slept;
        let length = at.saturating_sub(self.window.began);
        if length < WINDOW {
            return None;
        }
        let window = Window { began: at, began_cpu_ns: self.cpu_ns, has_slept: false };
        let before = std::mem::replace(&mut self.window, window);
        let share = (self.cpu_ns - before.began_cpu_ns) as f64 / length.as_nanos() as f64;
        (share < STARVED && !before.has_slept).then_some(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    const INTERVAL: Duration = Duration::from_millis(20);
    const MS: u64 = 1_000_000;

    /// Polls at these milliseconds; each gains CPU time in milliseconds, asleep or not.
    fn usage(polls: &[(u64, u64, bool)]) -> (Usage, Vec<f64>) {
        let (mut usage, mut cpu_ns, mut starved) = (Usage::default(), 0, Vec::new());
        for (at, gained, is_asleep) in polls {
            cpu_ns += gained * MS;
            starved.extend(usage.add(Duration::from_millis(*at), cpu_ns, INTERVAL, || *is_asleep));
        }
        (usage, starved)
    }

    #[test]
    fn what_the_host_withholds_does_not_count() {
        let used = |polls: &[(u64, u64, bool)]| usage(polls).0.used.as_millis();
        assert_eq!(used(&[(20, 20, false), (40, 20, false)]), 40, "it works");
        assert_eq!(used(&[(60_000, 20, false), (120_000, 1, false)]), 21, "a busy host");
        assert_eq!(used(&[(60_000, 0, true), (120_000, 1, true)]), 40, "it sleeps: polls count");
        assert_eq!(used(&[(20, 0, false), (90_000, 0, false)]), 0, "it is stopped");
    }

    #[test]
    fn a_starved_program_is_known_by_its_share_of_a_cpu() {
        let every = |ms: u64, gained: u64, is_asleep: bool| -> Vec<(u64, u64, bool)> {
            (1..=20).map(|poll| (poll * ms, gained, is_asleep)).collect()
        };
        assert_eq!(usage(&every(1000, 40, false)).1, [0.04; 2]);
        assert_eq!(usage(&every(1000, 900, false)).1, [0.0; 0], "it has its CPU");
        assert_eq!(usage(&every(1000, 1, true)).1, [0.0; 0], "it wants none");
    }

    #[test]
    fn one_that_gets_next_to_no_cpu_is_known() {
        let without = |polls: &[(u64, u64, bool)]| usage(polls).0.without_cpu.as_millis();
        assert_eq!(without(&[(1000, 9, false), (1500, 0, false), (2000, 0, false)]), 1100);
        assert_eq!(without(&[(1000, 0, false), (1500, 15, false)]), 0, "it got some");
        assert_eq!(without(&[(1000, 0, false), (1500, 0, true)]), 0, "it wants none");
        assert_eq!(without(&[(1000, 10, false), (9_000_000, 0, false)]), 1000, "a suspended host");
        let hour = |gained_ms| -> Vec<_> {
            (1..=3600).map(|second| (second * 1000, gained_ms, false)).collect()
        };
        assert!(usage(&hour(1)).0.without_cpu > MAX_WITHOUT_CPU, "0.1 %");
        assert_eq!(without(&hour(20)), 0, "2 %");
    }

    /// Ends its process.
    struct Owned(std::process::Child);

    impl Drop for Owned {
        fn drop(&mut self) {
            _ = self.0.kill();
            _ = self.0.wait();
        }
    }

    fn started(script: &str) -> Owned {
        let mut command = Command::new("sh");
        Owned(command.args(["-c", script]).stdin(Stdio::null()).spawn().unwrap())
    }

    /// A test that never ends has failed.
    fn wait_for(mut is_true: impl FnMut() -> bool) {
        while !is_true() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn processes_are_asleep_or_want_a_cpu() {
        let sleeps = started("exec sleep 60");
        wait_for(|| process::is_asleep(sleeps.0.id() as i32) == Some(true));
        let works = started("while :; do :; done");
        let mut meter = Meter::new(works.0.id(), INTERVAL);
        wait_for(|| {
            meter.poll();
            meter.used() > Duration::from_millis(30)
        });
        assert_eq!(process::is_asleep(works.0.id() as i32), Some(false), "running or waiting");
        assert_eq!(process::is_asleep(i32::MAX), None);
    }
}
