//! The spread of samples, and of differences of samples that were taken in turn. Pure.

use std::collections::BTreeMap;

use crate::model::{Cost, Reading, Spread};
use crate::stats::nearest_rank;

pub type Costs = BTreeMap<Cost, Reading<Spread>>;

/// To a thousandth: of times that are picoseconds.
pub fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// The spread of samples; unknown without any.
pub fn spread(samples: impl Iterator<Item = f64>) -> Reading<Spread> {
    let mut sorted: Vec<f64> = samples.collect();
    sorted.sort_by(f64::total_cmp);
    let at = |permille| nearest_rank(&sorted, permille).map(rounded);
    let known = at(500).zip(at(100)).zip(at(900)).map(|((median_ns, p10_ns), p90_ns)| Spread {
        median_ns,
        p10_ns,
        p90_ns,
        samples: sorted.len() as u32,
    });
    Reading::from_option(known, "there is no sample")
}

/// The spread of the differences: each of `longer` less the value of `shorter` that was measured next to it.
pub fn difference(longer: &[u64], shorter: &[u64]) -> Reading<Spread> {
    spread(longer.iter().zip(shorter).map(|(longer, shorter)| *longer as f64 - *shorter as f64))
}

/// The spread of times.
pub fn of_ns(samples: &[u64]) -> Reading<Spread> {
    spread(samples.iter().map(|ns| *ns as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_middle_and_what_is_around_it() {
        let known = spread((1..=10).map(f64::from)).known().unwrap();
        let expected = Spread { median_ns: 5.0, p10_ns: 1.0, p90_ns: 9.0, samples: 10 };
        assert_eq!(known, expected);
        assert!(matches!(of_ns(&[]), Reading::Unknown(_)), "and not 0");
        let less = difference(&[5, 9], &[7, 8]).known().unwrap();
        assert_eq!((less.p10_ns, less.p90_ns), (-2.0, 1.0), "what is next to each other");
    }
}
