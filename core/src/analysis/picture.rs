//! Data that charts need and tables do not have: histograms of latencies and windows of workers.
//! Plain data.

use crate::model::WorkerWindows;
use crate::stats::Histogram;

/// Empty where nothing is to be drawn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pictures {
    /// In the order of [`super::Analysis::works`].
    pub works: Vec<WorkPictures>,
    /// The text of each plan, in the order of [`super::Analysis::plans`].
    pub sources: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkPictures {
    /// In the order in which they first came.
    pub latencies: Vec<LatencyPicture>,
    /// At most one run per side.
    pub timelines: Vec<SideTimeline>,
}

/// One latency of one worker set.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyPicture {
    pub set: String,
    pub name: String,
    /// In the order of [`super::Analysis::sides`].
    pub sides: Vec<SideLatency>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct SideLatency {
    /// The samples of all rounds.
    pub all: Histogram,
    /// Ascending by round.
    pub rounds: Vec<(u32, RoundCounts)>,
}

/// Samples by half octaves: see [`octave_halves`]. Ascending; none is 0.
pub type RoundCounts = Vec<(u8, u64)>;

/// The run of a side whose value of its work's first headline metric is nearest to the median.
#[derive(Debug, Clone, PartialEq)]
pub struct SideTimeline {
    pub side: usize,
    pub round: u32,
    pub workers: Vec<WorkerWindows>,
}

/// Twice the binary logarithm of a time, rounded down: one step is a factor of 1.41. 0 ns counts
/// as 1 ns.
pub fn octave_halves(value_ns: u64) -> u8 {
    (2.0 * (value_ns.max(1) as f64).log2()).floor() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_octaves_are_factors_of_the_root_of_two() {
        let cases = [(0, 0), (1, 0), (2, 2), (3, 3), (4, 4), (1000, 19), (1024, 20), (1500, 21)];
        for (value_ns, halves) in cases {
            assert_eq!(octave_halves(value_ns), halves, "{value_ns}");
        }
        assert_eq!(octave_halves(u64::MAX), 128);
    }
}
