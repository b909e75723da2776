//! Counts of runs in which something happens: whether it happens more often on one side than on another. Pure.

use statrs::distribution::{DiscreteCDF, Hypergeometric};

/// Runs in which something happened, of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    pub held: u32,
    pub runs: u32,
}

/// The chance that `more` has so many or more of the runs of both, where it happens on both sides alike: Fisher's exact
/// test, one-sided. 1 where one side has no runs.
pub fn chance_of_more(more: Count, less: Count) -> f64 {
    let [held, runs] = [more.held + less.held, more.runs + less.runs].map(u64::from);
    let Some(below) = more.held.checked_sub(1) else { return 1.0 };
    Hypergeometric::new(runs, held, u64::from(more.runs))
        .map_or(1.0, |alike| alike.sf(u64::from(below)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chance_is_that_of_fishers_exact_test() {
        let chance = |more: (u32, u32), less: (u32, u32)| {
            let count = |(held, runs)| Count { held, runs };
            chance_of_more(count(more), count(less))
        };
        // 1 of the 12,870 ways to draw 8 of 16; Fisher's tea: 1 and 17 of 70 ways.
        for (more, less, expected) in [
            ((8, 8), (0, 8), 1.0 / 12_870.0),
            ((4, 4), (0, 4), 1.0 / 70.0),
            ((3, 4), (1, 4), 17.0 / 70.0),
            ((4, 8), (0, 8), 70.0 / 1820.0),
            ((0, 8), (0, 8), 1.0),
            ((0, 8), (8, 8), 1.0),
            ((8, 8), (8, 8), 1.0),
            ((0, 0), (0, 0), 1.0),
        ] {
            let chance = chance(more, less);
            assert!((chance - expected).abs() < 1e-12, "{more:?} {less:?}: {chance}");
        }
    }
}
