//! The cells of a plan, and the order in which rounds visit them.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::model::{Cell, Plan, RunKey};

/// All cells in written order, variants fastest: the variants of one work stand together,
/// as a report compares them. The index is the position.
pub fn cells(plan: &Plan) -> Vec<Cell> {
    let pairs =
        plan.works.iter().flat_map(|work| plan.variants.iter().map(move |variant| (work, variant)));
    pairs
        .enumerate()
        .map(|(index, (work, variant))| Cell {
            index: index as u32,
            variant: variant.clone(),
            work: work.clone(),
            placement: plan.placement.clone(),
        })
        .collect()
}

/// The runs of one round: all cells in the round's own order. The order depends only on the plan's seed, the
/// round's number and the number of cells: a plan with more rounds continues its order, and a round of some
/// works keeps their order.
pub fn round_order(plan: &Plan, round: u32) -> Vec<RunKey> {
    let cells = (plan.works.len() * plan.variants.len()) as u32;
    let order = shuffled(plan.measure.seed, round, cells);
    order.into_iter().map(|cell| RunKey { round, cell }).collect()
}

/// Fisher-Yates over ChaCha8, spelled out: stored plans are resumed by later versions, so
/// the order may not change with a library's way of seeding or drawing.
fn shuffled(seed: u64, round: u32, cells: u32) -> Vec<u32> {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    let mut rng = ChaCha8Rng::from_seed(key);
    // A stream per round, so that no two rounds of any two seeds draw the same numbers.
    rng.set_stream(u64::from(round));
    let mut order: Vec<u32> = (0..cells).collect();
    for last in (1..order.len()).rev() {
        // Multiply and shift: the bias of a 64-bit draw over so few cells is below 2^-40.
        let other = (u128::from(rng.next_u64()) * (last as u128 + 1)) >> 64;
        order.swap(last, other as usize);
    }
    order
}
