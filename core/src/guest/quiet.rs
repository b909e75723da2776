//! Waits, in virtual time, until the work of booting has died down, and measures the speed of each
//! CPU.
//!
//! A kernel works for seconds after it has started the first process: worker threads, self tests,
//! the random number generator. A loop of known length takes longer while they run.

use super::error::AgentError;
use crate::model::{CpuSet, Reading};
use crate::sys::{Host, boot, clock, sched, topology};

/// How long one pass takes, on each CPU.
const PASS_NS: u64 = 4_000_000;
/// The time between two rounds of passes.
const PAUSE_NS: u64 = 200_000_000;
/// The number of quiet rounds in a row after which a machine is quiet, but not before the time below: the work
/// comes in bursts.
const QUIET_ROUNDS: usize = 5;
pub const EARLIEST_NS: u64 = 4_000_000_000;
/// A machine that is not quiet by then never will be.
const LATEST_NS: u64 = 60_000_000_000;
/// The share of time for ticks, and for idle balancing per CPU: all CPUs share one clock.
const TICKS: f64 = 0.02;
const BALANCING: f64 = 0.0003;

/// Capacity of the slowest CPU over the quiet rounds: 1 is full speed.
pub fn wait(instruction_ps: u64) -> Result<Reading<f64>, AgentError> {
    let cpus = match topology::online(&Host::default()) {
        Reading::Known(cpus) => cpus,
        Reading::Unknown(why) => return Ok(Reading::Unknown(why)),
    };
    let before = sched::affinity(0).map_err(AgentError::system("own affinity"))?;
    let mut rounds = Rounds::new(cpus.iter().count());
    // Earlier rounds decide nothing, and busy CPUs cost the host time.
    clock::sleep_until(EARLIEST_NS - QUIET_ROUNDS as u64 * PAUSE_NS);
    loop {
        rounds.add(round(&cpus, instruction_ps)?);
        let now_ns = clock::monotonic_ns();
        if rounds.are_quiet() && now_ns >= EARLIEST_NS {
            break;
        }
        if now_ns > LATEST_NS {
            let (seconds, percent) = (LATEST_NS / 1_000_000_000, 100.0 * rounds.last());
            return Err(AgentError::NotQuiet { seconds, percent });
        }
        clock::sleep_until(now_ns + PAUSE_NS);
    }
    sched::set_affinity(0, &before).map_err(AgentError::system("own affinity"))?;
    Ok(Reading::Known(rounds.slowest()))
}

/// The time of a pass on each CPU, as a multiple of that at full speed.
fn round(cpus: &CpuSet, instruction_ps: u64) -> Result<Vec<f64>, AgentError> {
    let (loops, ideal_ns) = pass(instruction_ps);
    let took = |cpu| {
        sched::set_affinity(0, &[cpu].into_iter().collect())
            .map_err(|source| AgentError::Cpu { cpu, source })?;
        let before_ns = clock::monotonic_ns();
        boot::count(loops);
        Ok((clock::monotonic_ns() - before_ns) as f64 / ideal_ns)
    };
    cpus.iter().map(took).collect()
}

/// How often a pass executes the loop, and its time at full speed.
fn pass(instruction_ps: u64) -> (u64, f64) {
    let loop_ps = instruction_ps.max(1) * boot::INSTRUCTIONS_PER_PASS;
    let loops = (PASS_NS * 1_000 / loop_ps).max(1);
    (loops, (loops * loop_ps) as f64 / 1e3)
}

/// The newest quiet rounds in a row.
struct Rounds {
    min_speed: f64,
    quiet: Vec<Vec<f64>>,
    last: f64,
}

impl Rounds {
    fn new(cpus: usize) -> Rounds {
        let min_speed = 1.0 - TICKS - BALANCING * cpus as f64;
        Rounds { min_speed, quiet: Vec::new(), last: 0.0 }
    }

    fn add(&mut self, round: Vec<f64>) {
        self.last = round.len() as f64 / round.iter().sum::<f64>();
        if self.last < self.min_speed {
            self.quiet.clear();
            return;
        }
        self.quiet.push(round);
        if self.quiet.len() > QUIET_ROUNDS {
            self.quiet.remove(0);
        }
    }

    fn are_quiet(&self) -> bool {
        self.quiet.len() == QUIET_ROUNDS
    }

    /// The speed of all CPUs in the newest round.
    fn last(&self) -> f64 {
        self.last
    }

    fn slowest(&self) -> f64 {
        let cpus = self.quiet.first().map_or(0, Vec::len);
        let took = |cpu: usize| self.quiet.iter().map(|round| round[cpu]).sum::<f64>();
        (0..cpus).map(|cpu| self.quiet.len() as f64 / took(cpu)).fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_quiet_after_five_quiet_rounds_in_a_row() {
        let mut rounds = Rounds::new(2);
        for took in [1.5, 1.0, 1.0, 1.0, 1.0, 1.05, 1.0, 1.01, 1.0, 1.0] {
            rounds.add(vec![1.0, took]);
            assert!(!rounds.are_quiet(), "{took}");
        }
        rounds.add(vec![1.0, 1.01]);
        assert!(rounds.are_quiet());
        rounds.add(vec![1.0, 1.0]);
        assert!(rounds.are_quiet(), "and more of them");
        let slowest = rounds.slowest();
        assert!((slowest - 5.0 / 5.02).abs() < 1e-12, "the second CPU's: {slowest}");
        rounds.add(vec![1.06, 1.0]);
        assert!(!rounds.are_quiet());
        assert!((rounds.last() - 2.0 / 2.06).abs() < 1e-12);
    }

    #[test]
    fn the_time_of_a_pass_is_known_for_every_machine() {
        for instruction_ps in [250, 437, 500, 1000, 2000, 8000] {
            let (loops, ideal_ns) = pass(instruction_ps);
            let instructions = (loops * boot::INSTRUCTIONS_PER_PASS) as f64;
            let exact_ns = instructions * instruction_ps as f64 / 1e3;
            assert!((ideal_ns / exact_ns - 1.0).abs() < 1e-9, "{instruction_ps} ps");
            assert!((ideal_ns / PASS_NS as f64 - 1.0).abs() < 0.01, "{ideal_ns}");
        }
    }

    #[test]
    fn a_machine_of_many_cpus_may_balance_them() {
        let is_quiet = |cpus: usize, took: f64| {
            let mut rounds = Rounds::new(cpus);
            (0..QUIET_ROUNDS).for_each(|_| rounds.add(vec![took; cpus]));
            rounds.are_quiet()
        };
        assert!(is_quiet(64, 1.0 / 0.965) && !is_quiet(1, 1.0 / 0.965));
        assert!(is_quiet(1, 1.0 / 0.985) && !is_quiet(64, 1.0 / 0.955));
    }
}
