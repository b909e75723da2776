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
const QUIET_ROUNDS: usize = 5;
const EARLIEST_NS: u64 = 4_000_000_000;
/// What is not quiet by then will not be.
const LATEST_NS: u64 = 60_000_000_000;
/// What ticks may take, and what idle balancing may for each CPU: whoever does it, it takes the
/// one clock's time.
const TICKS: f64 = 0.02;
const BALANCING: f64 = 0.0003;

/// Capacity of the slowest CPU, as a share of what it should be, over the quiet rounds.
pub fn wait(instruction_fs: u64) -> Result<Reading<f64>, String> {
    let cpus = match topology::online(&Host::default()) {
        Reading::Known(cpus) => cpus,
        Reading::Unknown(why) => return Ok(Reading::Unknown(why)),
    };
    let before = sched::affinity(0).map_err(|error| format!("own affinity: {error}"))?;
    let mut rounds = Rounds::new(cpus.iter().count());
    loop {
        rounds.add(round(&cpus, instruction_fs)?);
        let now_ns = clock::monotonic_ns();
        if rounds.are_quiet() && now_ns >= EARLIEST_NS {
            break;
        }
        if now_ns > LATEST_NS {
            return Err(format!(
                "the guest is not quiet after {} s: its CPUs have {:.1} % of their speed",
                LATEST_NS / 1_000_000_000,
                100.0 * rounds.last()
            ));
        }
        clock::sleep_until(now_ns + PAUSE_NS);
    }
    sched::set_affinity(0, &before).map_err(|error| format!("own affinity: {error}"))?;
    Ok(Reading::Known(rounds.slowest()))
}

/// What a look at each CPU took, as a multiple of what it should have.
fn round(cpus: &CpuSet, instruction_fs: u64) -> Result<Vec<f64>, String> {
    let (passes, ideal_ns) = look(instruction_fs);
    let took = |cpu| {
        sched::set_affinity(0, &[cpu].into_iter().collect())
            .map_err(|error| format!("CPU {cpu}: {error}"))?;
        let before_ns = clock::monotonic_ns();
        boot::count(passes);
        Ok((clock::monotonic_ns() - before_ns) as f64 / ideal_ns)
    };
    cpus.iter().map(took).collect()
}

/// Passes of the loop in one look, and what they should take.
fn look(instruction_fs: u64) -> (u64, f64) {
    let pass_fs = instruction_fs.max(1) * boot::INSTRUCTIONS_PER_PASS;
    let passes = (LOOK_NS * 1_000_000 / pass_fs).max(1);
    (passes, (passes * pass_fs) as f64 / 1e6)
}

/// The quiet rounds since the last one that was not, the newest so many of them.
struct Rounds {
    least: f64,
    quiet: Vec<Vec<f64>>,
    last: f64,
}

impl Rounds {
    fn new(cpus: usize) -> Rounds {
        let least = 1.0 - TICKS - BALANCING * cpus as f64;
        Rounds { least, quiet: Vec::new(), last: 0.0 }
    }

    fn add(&mut self, round: Vec<f64>) {
        self.last = round.len() as f64 / round.iter().sum::<f64>();
        if self.last < self.least {
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
    use crate::model::Lab;

    #[test]
    fn quiet_are_so_many_rounds_in_a_row() {
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
    fn every_machine_knows_what_a_look_should_take() {
        for (cpus, instruction_ns) in
            (1..=64).flat_map(|cpus| [1, 2, 16, 64].map(|instruction_ns| (cpus, instruction_ns)))
        {
            let lab = Lab { cpus, instruction_ns, slow_clock: true, ..Lab::default() };
            let (passes, ideal_ns) = look(lab.instruction_fs());
            let instructions = (passes * boot::INSTRUCTIONS_PER_PASS) as f64;
            let exact_ns = instructions * f64::from(instruction_ns) / f64::from(cpus);
            assert!((ideal_ns / exact_ns - 1.0).abs() < 1e-4, "{cpus} CPUs, {instruction_ns} ns");
            assert!((ideal_ns / LOOK_NS as f64 - 1.0).abs() < 0.01, "{cpus}: {ideal_ns}");
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
