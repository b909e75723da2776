//! The cost of a thread's move to another CPU: its memory is not in that CPU's cache.

use crate::exec::ExecError;
use crate::model::Cost;
use crate::sys::clock;

use super::pinned::{self, Pair, joined, move_to, pin};
use super::samples::{Costs, difference};

/// 64 KiB: as much as workers' own work touches.
const WORDS: usize = (64 << 10) / size_of::<u32>();

pub fn measure(
    pair: Pair,
    is_near: bool,
    samples: usize,
    costs: &mut Costs,
) -> Result<(), ExecError> {
    let cost = if is_near { Cost::MigrationNear } else { Cost::MigrationFar };
    let (first, warm) =
        std::thread::scope(|threads| joined(threads.spawn(|| moves(pair, samples))))?;
    costs.insert(cost, difference(&first, &warm));
    Ok(())
}

/// The first work after each move, and the one after it.
fn moves(Pair { from, to }: Pair, samples: usize) -> Result<(Vec<u64>, Vec<u64>), ExecError> {
    let mut buffer = vec![1u32; WORDS];
    let (mut first, mut warm) = (Vec::with_capacity(samples), Vec::with_capacity(samples));
    pin(from)?;
    for _ in pinned::samples(samples) {
        move_to(from)?;
        // A few passes bring the memory into the cache.
        (0..3).for_each(|_| _ = work(&mut buffer));
        move_to(to)?;
        first.push(work(&mut buffer));
        work(&mut buffer);
        warm.push(work(&mut buffer));
    }
    Ok((first, warm))
}

/// Reads, changes and writes each word, and says how long that took.
fn work(buffer: &mut [u32]) -> u64 {
    let began_ns = clock::monotonic_ns();
    for word in std::hint::black_box(&mut *buffer) {
        *word = word.wrapping_mul(3).wrapping_add(1);
    }
    std::hint::black_box(buffer);
    clock::monotonic_ns() - began_ns
}
