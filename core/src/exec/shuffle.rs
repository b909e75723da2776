//! Puts a guest of the lab into a state that depends on the seed, before its workers begin.
//!
//! All runs of a saved machine begin in one state: which CPU keeps the time, when each balances next, how loaded each
//! seems, where the parent of the workers runs. A scheduler may keep to what follows from it for a whole run. Seeds that
//! begin in the same state measure this one machine, and their interval leaves out how machines differ. `sys::balancing`
//! removes the part that lasts too long to be shuffled; docs/lab.md has the numbers.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::error::ExecError;
use crate::model::{CpuSet, RunSpec};
use crate::sys::{burst, clock, sched};

const STEPS: usize = 16;
/// A CPU seems loaded for some 100 ms after it has worked.
const MAX_WORK_NS: u64 = 3_000_000;
/// Some ticks of any kernel.
const MAX_SLEEP_NS: u64 = 10_000_000;

struct Step {
    cpu: u32,
    work_ns: u64,
    sleep_ns: u64,
}

/// Whether a run is shuffled. Guests that run next to others are not, as all of them begin at one moment. Under sched_ext the
/// scheduler has no state from the boot, and a wrong one would lose the parent before there are workers.
pub fn is_due(spec: &RunSpec) -> bool {
    spec.start_unix_ns.is_none() && spec.cell.variant.scx().is_none()
}

/// Wakes on one CPU after another, works there, and sleeps.
pub fn shuffle(seed: u64) -> Result<(), ExecError> {
    let before = sched::affinity(0).map_err(ExecError::system("read its own affinity"))?;
    let pin = |cpus: &CpuSet| {
        sched::set_affinity(0, cpus)
            .map_err(ExecError::system("move to another CPU before the run"))
    };
    for step in steps(&before, seed) {
        pin(&[step.cpu].into_iter().collect())?;
        let until_ns = clock::monotonic_ns() + step.work_ns;
        while let left_ns @ 1.. = until_ns.saturating_sub(clock::monotonic_ns()) {
            burst::spend(left_ns);
        }
        clock::sleep_until(until_ns + step.sleep_ns);
    }
    pin(&before)
}

fn steps(cpus: &CpuSet, seed: u64) -> impl Iterator<Item = Step> {
    let cpus: Vec<u32> = cpus.iter().collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut below = move |end: u64| random.next_u64() % end;
    (0..STEPS).map(move |_| Step {
        cpu: cpus[below(cpus.len() as u64) as usize],
        work_ns: below(MAX_WORK_NS),
        sleep_ns: below(MAX_SLEEP_NS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_seed_has_steps_of_its_own_on_all_cpus() {
        let cpus: CpuSet = [1, 2, 5].into_iter().collect();
        let steps = |seed| {
            steps(&cpus, seed)
                .map(|step| (step.cpu, step.work_ns, step.sleep_ns))
                .collect::<Vec<_>>()
        };
        assert_eq!(steps(1), steps(1));
        assert_ne!(steps(1), steps(2));
        let used: CpuSet = steps(1).iter().map(|(cpu, ..)| *cpu).collect();
        assert_eq!(used, cpus);
    }

    #[test]
    fn the_affinity_is_as_before() {
        let before = sched::affinity(0).unwrap();
        shuffle(1).unwrap();
        assert_eq!(sched::affinity(0).unwrap(), before);
    }
}
