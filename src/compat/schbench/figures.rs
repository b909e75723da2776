//! The measured figures in the numbers that schbench prints: whole microseconds, whole requests
//! per second, and the percentiles of its list. Pure.

use crate::model::Reading;
use crate::stats::{Histogram, nearest_rank};

use super::Mode;

/// The figures at one second of a run, since it began or since they were last zeroed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    pub wakeup: Histogram,
    pub request: Histogram,
    /// Latency from the intended arrival, if requests arrive at a rate.
    pub response: Option<Histogram>,
    /// Requests per second, one entry for each second.
    pub rps: Vec<f64>,
}

impl Figures {
    /// Counts more latencies, by their names. Returns how many.
    pub fn add_all(&mut self, latencies: Vec<(&str, Histogram)>) -> u64 {
        let mut count = 0;
        for (name, more) in latencies {
            let own = match name {
                "wakeup" => &mut self.wakeup,
                "request" => &mut self.request,
                _ => self.response.get_or_insert_default(),
            };
            own.add_all(&more);
            count += more.total();
        }
        count
    }
}

/// Average time that a thread was runnable before it ran; the mean over the threads of each role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Delays {
    pub message_ns: u64,
    pub worker_ns: u64,
}

/// Figures that are known only at the end of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Closing {
    pub seconds: u64,
    /// Over all of the run, to its nanosecond; zeroing does not touch it.
    pub average_rps: f64,
    pub mode: Mode,
    /// Requests per second that `--auto-rps` arrived at; `None` without it.
    pub goal: Option<u64>,
    /// Requests that found their worker's queue full; `None` if requests do not arrive at a rate.
    pub dropped: Option<u64>,
    /// Latencies that had begun and not ended, and count with the age that they had.
    pub under_way: u64,
    pub delays: Reading<Delays>,
    /// Operations per second of one worker on average: round trips in pipe mode.
    pub worker_ops_per_s: f64,
}

/// The percentiles of schbench's list, in thousandths.
pub(super) const PERMILLES: [u32; 5] = [200, 500, 900, 990, 999];

/// One set of samples as schbench prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub samples: u64,
    /// One for each of [`PERMILLES`].
    pub rows: [Row; PERMILLES.len()],
    pub min: u64,
    pub max: u64,
}

/// A percentile, and how many samples lie above the percentile before it and up to this.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub value: u64,
    pub samples: u64,
}

impl Block {
    /// The block of latencies, in microseconds. Samples are counted up to the printed value, so that of two
    /// percentiles with one value the second has 0, as in schbench.
    pub fn of_latencies(histogram: &Histogram) -> Block {
        let value = |permille: u32| {
            histogram.quantile_ns(f64::from(permille) / 1000.0).map_or(0, |ns| whole(ns / 1000.0))
        };
        let through =
            |us: u64| histogram.count_through(us.saturating_mul(1000).saturating_add(499));
        Block {
            samples: histogram.total(),
            rows: rows(value, through),
            min: histogram.min_ns().map_or(0, microseconds),
            max: histogram.max_ns().map_or(0, microseconds),
        }
    }

    /// The block of requests per second: exact, by nearest rank.
    pub fn of_rates(rates: &[f64]) -> Block {
        let sorted = sorted(rates);
        let value = |permille: u32| nearest_rank(&sorted, permille).map_or(0, whole);
        let through = |value: u64| sorted.iter().filter(|&&rate| whole(rate) <= value).count();
        Block {
            samples: sorted.len() as u64,
            rows: rows(value, |value| through(value) as u64),
            min: sorted.first().copied().map_or(0, whole),
            max: sorted.last().copied().map_or(0, whole),
        }
    }
}

fn rows(value: impl Fn(u32) -> u64, through: impl Fn(u64) -> u64) -> [Row; PERMILLES.len()] {
    let mut below = 0;
    PERMILLES.map(|permille| {
        let value = value(permille);
        let reached = through(value);
        let samples = reached.saturating_sub(below);
        below = reached;
        Row { value, samples }
    })
}

/// Sorts the rates. NaN and infinity have no rank and are left out.
pub(super) fn sorted(rates: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = rates.iter().copied().filter(|rate| rate.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// To the nearest microsecond.
pub(super) fn microseconds(ns: u64) -> u64 {
    ns / 1000 + u64::from(ns % 1000 >= 500)
}

/// To the nearest whole number; a negative one becomes 0.
pub(super) fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(block: &Block) -> (u64, Vec<u64>, Vec<u64>, u64, u64) {
        let values = block.rows.iter().map(|row| row.value).collect();
        let samples = block.rows.iter().map(|row| row.samples).collect();
        (block.samples, values, samples, block.min, block.max)
    }

    #[test]
    fn microseconds_are_rounded_to_the_nearest() {
        let cases =
            [(0, 0), (499, 0), (500, 1), (1499, 1), (1500, 2), (u64::MAX, u64::MAX / 1000 + 1)];
        for (ns, us) in cases {
            assert_eq!(microseconds(ns), us, "{ns}");
        }
    }

    #[test]
    fn latencies_are_counted_between_one_percentile_and_the_next() {
        let mut histogram = Histogram::default();
        // 300 below half a microsecond, 400 of 2 us in three buckets, 295 of 40, 4 of 100, 1.
        for (ns, times) in
            [(120, 300), (1_600, 100), (2_000, 200), (2_400, 100), (40_000, 295), (100_000, 4)]
        {
            histogram.add(ns, times);
        }
        histogram.add(7_000_400, 1);
        let block = Block::of_latencies(&histogram);
        let values = vec![0, 2, 40, 40, 100];
        assert_eq!(parts(&block), (1000, values, vec![300, 400, 295, 0, 4], 0, 7000));
    }

    #[test]
    fn rates_are_exact() {
        let rates: Vec<f64> = (1..=10).rev().map(|n| f64::from(n) * 1000.0 + 0.4).collect();
        let values = vec![2000, 5000, 9000, 10_000, 10_000];
        assert_eq!(
            parts(&Block::of_rates(&rates)),
            (10, values, vec![2, 3, 4, 1, 0], 1000, 10_000)
        );
        let odd = Block::of_rates(&[f64::NAN, 7.6, f64::INFINITY]);
        assert_eq!(parts(&odd), (1, vec![8; 5], vec![1, 0, 0, 0, 0], 8, 8));
    }

    #[test]
    fn without_samples_all_is_0() {
        let nothing = (0, vec![0; 5], vec![0; 5], 0, 0);
        assert_eq!(parts(&Block::of_latencies(&Histogram::default())), nothing);
        assert_eq!(parts(&Block::of_rates(&[])), nothing);
    }
}
