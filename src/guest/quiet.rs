//! Waits, in virtual time, until the work of booting has died down, and holds each CPU's speed
//! against what it should be.
//!
//! A kernel goes on for seconds after it has started the first process: worker threads, self
//! tests, the random number generator. A loop of known length takes longer beside them, so the
//! loop is both the question and the measure.

use crate::model::{CpuSet, Reading};
use crate::sys::{Host, boot, clock, sched, topology};

/// How long one look takes, on each CPU.
const LOOK_NS: u64 = 4_000_000;
/// From one round of looks to the next.
const PAUSE_NS: u64 = 200_000_000;
/// So many quiet rounds in a row, and not before this time, are quiet: the work comes in bursts.
const QUIET_ROUNDS: u32 = 5;
const EARLIEST_NS: u64 = 4_000_000_000;
/// What is not quiet by then will not be.
const LATEST_NS: u64 = 60_000_000_000;
/// What ticks may take.
const TICKS: f64 = 0.02;

/// Capacity of the slowest CPU, as a share of what it should be.
pub fn wait(instruction_ps: u64) -> Result<Reading<f64>, String> {
    let cpus = match topology::online(&Host::default()) {
        Reading::Known(cpus) => cpus,
        Reading::Unknown(why) => return Ok(Reading::Unknown(why)),
    };
    let before = sched::affinity(0).map_err(|error| format!("own affinity: {error}"))?;
    let mut quiet = 0;
    let capacity = loop {
        let capacity = slowest(&cpus, instruction_ps)?;
        quiet = if capacity >= 1.0 - TICKS { quiet + 1 } else { 0 };
        let now_ns = clock::monotonic_ns();
        if quiet >= QUIET_ROUNDS && now_ns >= EARLIEST_NS {
            break Ok(capacity);
        }
        if now_ns > LATEST_NS {
            break Err(format!(
                "the guest is not quiet after {} s: a CPU has {:.1} % of its speed",
                LATEST_NS / 1_000_000_000,
                100.0 * capacity
            ));
        }
        clock::sleep_until(now_ns + PAUSE_NS);
    };
    sched::set_affinity(0, &before).map_err(|error| format!("own affinity: {error}"))?;
    capacity.map(Reading::Known)
}

fn slowest(cpus: &CpuSet, instruction_ps: u64) -> Result<f64, String> {
    let passes = LOOK_NS * 1_000 / (instruction_ps.max(1) * boot::INSTRUCTIONS_PER_PASS);
    let ideal_ns = passes * boot::INSTRUCTIONS_PER_PASS * instruction_ps / 1_000;
    let mut slowest = f64::INFINITY;
    for cpu in cpus.iter() {
        sched::set_affinity(0, &[cpu].into_iter().collect())
            .map_err(|error| format!("CPU {cpu}: {error}"))?;
        let before_ns = clock::monotonic_ns();
        boot::count(passes);
        let took_ns = (clock::monotonic_ns() - before_ns).max(1);
        slowest = slowest.min(ideal_ns as f64 / took_ns as f64);
    }
    Ok(slowest)
}
