//! Changes the rate of a copy once a second until the CPUs are as busy as asked for.
//!
//! The rule is that of schbench's automatic rate. Differences: it reads the CPUs that it may run
//! on, not the whole machine; waiting for a disk is idle; each message thread keeps a request a
//! second (schbench's rate never leaves 0 again). If the workers cannot make the CPUs so busy, the
//! rate grows to its limit, as schbench's does to 2^31.

use std::collections::BTreeMap;

use crate::model::{CpuSet, Reading, is_above_wall};
use crate::sys::load::{self, CpuTimes};
use crate::sys::{Host, clock, sched};
use crate::workload::{Worker, WorkloadError};

use super::arrivals::{MAX_PER_S, NS_PER_S};
use super::rate::Pace;
use super::spec::SETTLED;

/// It sets the rate that long before each second of its message threads begins.
const EARLY_NS: u64 = 10_000_000;

pub struct Governor<'a> {
    pub pace: &'a Pace,
    pub target_percent: f64,
    pub min_per_s: u64,
}

impl Governor<'_> {
    /// It allocates a little each second to read /proc/stat; the workers that are measured
    /// allocate nothing.
    pub fn govern(&self, worker: &Worker) -> Result<(), WorkloadError> {
        let cpus = sched::affinity(0)
            .map_err(|source| WorkloadError::system("read the CPU affinity", source))?;
        let started_ns = worker.start();
        let mut times = read(&cpus)?;
        let mut settled = false;
        while worker.running() {
            // The next second, should the last reading have been late.
            let second = (clock::monotonic_ns() + EARLY_NS - started_ns) / NS_PER_S + 1;
            clock::sleep_until(started_ns + second * NS_PER_S - EARLY_NS);
            let before = std::mem::replace(&mut times, read(&cpus)?);
            let Some(busy_percent) = busy_percent(&before, &times) else { continue };
            let step = self.step(self.pace.per_s(), busy_percent);
            self.pace.set_per_s(step.per_s);
            if step.hit && !settled {
                settled = true;
                worker.count(SETTLED, 1);
            }
        }
        Ok(())
    }

    /// The next rate after a second at `per_s` in which the CPUs were `busy_percent` busy.
    fn step(&self, per_s: u64, busy_percent: f64) -> Step {
        let (factor, hit) = factor(self.target_percent / busy_percent);
        let wanted = per_s as f64 * factor;
        let wanted = if factor > 1.0 { wanted.ceil() } else { wanted.floor() } as u64;
        let wanted = wanted.clamp(self.min_per_s, MAX_PER_S);
        Step { per_s: wanted, hit }
    }
}

#[derive(Debug, PartialEq)]
struct Step {
    per_s: u64,
    /// Close enough to the target.
    hit: bool,
}

/// The change of the rate if the target is `missing` times the utilisation reached, and whether
/// that is a hit: steps are cut to 0.3 and 3, and smaller near 1.
fn factor(missing: f64) -> (f64, bool) {
    match missing {
        m if m > 3.0 => (3.0, false),
        m if m >= 1.5 => (m, false),
        m if m >= 1.2 => (1.0 + (m - 1.0) / 4.0, false),
        m if m >= 1.0 => (1.0 + (m - 1.0) / 8.0, true),
        m if m > 0.9 => {
            let factor = m + (1.0 - m) / 8.0;
            (factor, factor > 0.95)
        }
        m if m > 0.8 => (m + (1.0 - m) / 4.0, false),
        m if m >= 0.3 => (m, false),
        // NaN, too: nothing was reached and nothing asked for.
        _ => (0.3, false),
    }
}

/// Times of these CPUs since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Times {
    /// The time by the monotonic clock.
    at_ns: u64,
    cpus: usize,
    busy_ns: u64,
    idle_ns: u64,
}

fn read(cpus: &CpuSet) -> Result<Times, WorkloadError> {
    match load::cpu_times(&Host::default()) {
        Reading::Known(times) => Ok(sum(&times, cpus, clock::monotonic_ns())),
        Reading::Unknown(why) => Err(WorkloadError::CpuTimes(why)),
    }
}

fn sum(times: &BTreeMap<u32, CpuTimes>, cpus: &CpuSet, at_ns: u64) -> Times {
    let own = times.iter().filter(|(cpu, _)| cpus.contains(**cpu));
    own.fold(Times { at_ns, ..Times::default() }, |sum, (_, times)| Times {
        cpus: sum.cpus + 1,
        busy_ns: sum.busy_ns + times.task_ns + times.interrupt_ns + times.steal_ns,
        idle_ns: sum.idle_ns + times.idle_ns,
        ..sum
    })
}

/// Between two readings; `None` where no time has passed. A kernel that counts more time than passed counts
/// busy time twice: there the CPUs were busy while they were not idle.
fn busy_percent(before: &Times, after: &Times) -> Option<f64> {
    let busy_ns = after.busy_ns.saturating_sub(before.busy_ns);
    let idle_ns = after.idle_ns.saturating_sub(before.idle_ns);
    let wall_ns = after.at_ns.saturating_sub(before.at_ns);
    if is_above_wall(busy_ns + idle_ns, wall_ns, after.cpus) {
        let all_ns = wall_ns as f64 * after.cpus as f64;
        return Some((1.0 - idle_ns as f64 / all_ns).max(0.0) * 100.0);
    }
    let all_ns = busy_ns + idle_ns;
    (all_ns > 0).then(|| busy_ns as f64 / all_ns as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_schbench() {
        // Rate, target, busy: the next rate, and whether the target was hit.
        let cases: &[(u64, f64, f64, u64, bool)] = &[
            (10, 50.0, 0.0, 30, false),      // nothing to divide by: the largest step
            (10, 50.0, 10.0, 30, false),     // 5 times: cut to 3
            (100, 50.0, 20.0, 250, false),   // 2.5 times, as it is
            (100, 60.0, 40.0, 150, false),   // 1.5 times, as it is
            (1000, 56.0, 40.0, 1100, false), // 1.4 times: a quarter of the way
            (1000, 48.0, 40.0, 1050, false), // 1.2 times: no hit yet
            (1000, 44.0, 40.0, 1013, true),  // 1.1 times: an eighth, rounded up
            (1000, 50.0, 50.0, 1000, true),
            (1000, 38.0, 40.0, 956, true), // 0.95 times: an eighth, rounded down
            (1000, 37.6, 40.0, 947, false), // 0.94 times: an eighth, and no hit
            (1000, 34.0, 40.0, 887, false), // 0.85 times: a quarter
            (1000, 28.0, 40.0, 700, false), // 0.7 times, as it is
            (1000, 20.0, 100.0, 300, false), // 0.2 times: cut to 0.3
            (10, 5.0, 100.0, 4, false),    // 3, but each of 4 message threads has one
            (MAX_PER_S, 50.0, 10.0, MAX_PER_S, false),
        ];
        for &(per_s, target_percent, busy, expected, hit) in cases {
            let pace: &Pace = crate::sys::shared::leak().unwrap();
            let governor = Governor { pace, target_percent, min_per_s: 4 };
            let got = governor.step(per_s, busy);
            let expected = Step { per_s: expected, hit };
            assert_eq!(got, expected, "{per_s} at {busy} % for {target_percent} %");
        }
    }

    #[test]
    fn busy_is_what_was_not_idle_on_the_own_cpus() {
        let times = |task_ns, interrupt_ns, idle_ns, steal_ns| CpuTimes {
            task_ns,
            interrupt_ns,
            idle_ns,
            steal_ns,
        };
        let before = BTreeMap::from([(0, times(10, 0, 90, 0)), (1, times(0, 0, 0, 0))]);
        let after = BTreeMap::from([
            (0, times(30, 5, 115, 0)),
            (1, times(40, 0, 0, 10)),
            (2, times(9, 9, 9, 9)),
        ]);
        let busy = |cpus: &str| {
            let cpus = cpus.parse().unwrap();
            busy_percent(&sum(&before, &cpus, 0), &sum(&after, &cpus, 50))
        };
        assert_eq!(busy("0"), Some(50.0));
        assert_eq!(busy("0-1"), Some(75.0));
        assert_eq!(busy("7"), None, "no such CPU, so no time passed on it");
        let times = |busy_ns, idle_ns| Times { at_ns: 0, cpus: 1, busy_ns, idle_ns };
        let back = busy_percent(&times(5, 5), &times(4, 16));
        assert_eq!(back, Some(0.0), "the kernel's counts may go back");
    }

    #[test]
    fn busy_time_that_is_counted_twice_does_not_count() {
        let start = Times { cpus: 2, ..Times::default() };
        // The times of two CPUs in a second.
        for (busy_ms, idle_ms, expected) in [
            (1000, 1000, 50.0), // counted once
            (2000, 1000, 50.0), // the same counted twice
            (4000, 0, 100.0),
            (3600, 200, 90.0),
        ] {
            let ns = |ms: u64| ms * 1_000_000;
            let end =
                Times { at_ns: ns(1000), cpus: 2, busy_ns: ns(busy_ms), idle_ns: ns(idle_ms) };
            let got = busy_percent(&start, &end).unwrap();
            assert!((got - expected).abs() < 1e-9, "{busy_ms} {idle_ms}: {got}");
        }
    }
}
