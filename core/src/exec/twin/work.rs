//! How much longer work takes than on a CPU at full speed: others use the machine, CPUs share a core, or
//! they get slower where many are busy.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::exec::ExecError;
use crate::model::{Cost, CpuSet};
use crate::sys::clock;
use crate::workload::{BurnWork, Burner, Speed};

use super::pinned::{self, joined, pin};
use super::samples::{Costs, of_ns};

const PIECE_NS: u64 = 1_000_000;

/// On `one` of these CPUs while the others do nothing, then while they work, too. At full speed a sample is
/// a millisecond.
pub fn measure(
    one: u32,
    cpus: &CpuSet,
    samples: usize,
    costs: &mut Costs,
) -> Result<(), ExecError> {
    let speed = std::thread::scope(|threads| {
        joined(threads.spawn(|| pin(one).map(|()| Speed::measure(false).0)))
    })?;
    let others: Vec<u32> = cpus.iter().filter(|cpu| *cpu != one).collect();
    for (cost, others) in [(Cost::WorkAlone, &[][..]), (Cost::WorkBusy, &others)] {
        let is_over = &AtomicBool::new(false);
        let taken = std::thread::scope(|threads| {
            let others = others.iter();
            let others: Vec<_> =
                others.map(|cpu| threads.spawn(|| keep_busy(*cpu, speed, is_over))).collect();
            let taken = joined(threads.spawn(|| pieces(one, speed, samples)));
            is_over.store(true, SeqCst);
            others.into_iter().try_for_each(joined)?;
            taken
        })?;
        costs.insert(cost, of_ns(&taken));
    }
    Ok(())
}

fn keep_busy(cpu: u32, speed: Speed, is_over: &AtomicBool) -> Result<(), ExecError> {
    pin(cpu)?;
    let mut burner = Burner::new(speed);
    while !is_over.load(SeqCst) {
        burner.burn(BurnWork::Ns(PIECE_NS));
    }
    Ok(())
}

/// The time of each piece of work.
fn pieces(cpu: u32, speed: Speed, samples: usize) -> Result<Vec<u64>, ExecError> {
    pin(cpu)?;
    let mut burner = Burner::new(speed);
    let mut taken = Vec::with_capacity(samples);
    for _ in pinned::samples(samples) {
        let began_ns = clock::monotonic_ns();
        burner.burn(BurnWork::Ns(PIECE_NS));
        taken.push(clock::monotonic_ns() - began_ns);
    }
    Ok(taken)
}
