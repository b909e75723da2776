//! Variants that take turns inside one run: their knobs and the times of their blocks. Plain data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Value, Variant, rounded_up};

/// The share of a block that does not count: its begin, in which the load still is as the variant before left it.
const WASHOUT: u64 = 5;

/// The variants of a run in turns, and the times of their blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turns {
    /// Each with all of its knobs.
    pub variants: Vec<Variant>,
    pub block_ns: u64,
    /// The begin of each block does not count.
    pub washout_ns: u64,
}

impl Turns {
    pub fn new(variants: Vec<Variant>, block_ns: u64) -> Turns {
        Turns { variants, block_ns, washout_ns: block_ns / WASHOUT }
    }

    /// The length of blocks that have a washout of this length.
    pub fn block_ns_for(washout_ns: u64) -> u64 {
        washout_ns.saturating_mul(WASHOUT)
    }

    /// Blocks that cut less than these do, where an operation takes so long in the mean. A busy CPU makes some of them
    /// wait several times as long.
    pub fn longer_block_ns(&self, operation_ns: u64) -> u64 {
        let enough_ns = Turns::block_ns_for(operation_ns.saturating_mul(4));
        rounded_up(enough_ns.max(self.block_ns.saturating_mul(2)))
    }

    /// The share of a variant's time that counts.
    pub fn counted_share() -> f64 {
        1.0 - 1.0 / WASHOUT as f64
    }

    /// The knobs that are the same in all variants.
    pub fn common_knobs(&self) -> BTreeMap<String, Value> {
        let mut common = self.variants.first().map(|one| one.knobs.clone()).unwrap_or_default();
        common.retain(|knob, value| {
            self.variants.iter().all(|one| one.knobs.get(knob) == Some(&*value))
        });
        common
    }

    /// The number of blocks that each variant has in a run of this length.
    pub fn blocks(&self, duration_ns: u64) -> u64 {
        duration_ns / self.block_ns.max(1) / (self.variants.len().max(1) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(name: &str, knobs: &[(&str, i64)]) -> Variant {
        let knobs = knobs.iter().map(|(knob, value)| (knob.to_string(), Value::Int(*value)));
        Variant { name: name.to_string(), knobs: knobs.collect() }
    }

    #[test]
    fn a_knob_is_common_only_where_every_variant_has_its_value() {
        let variants = vec![
            variant("a", &[("one", 1), ("two", 2), ("three", 3)]),
            variant("b", &[("one", 1), ("two", 9)]),
        ];
        let turns = Turns::new(variants, 100);
        assert_eq!(turns.common_knobs(), variant("", &[("one", 1)]).knobs);
        assert_eq!((turns.washout_ns, turns.blocks(1_000), turns.blocks(1_199)), (20, 5, 5));
    }
}
