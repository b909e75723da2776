//! Histograms, estimators and intervals. Pure and seeded: data in, numbers out; the same
//! stored run always gives the same answer.

mod between;
mod estimate;
mod fairness;
mod histogram;
mod population;
mod shape;
#[cfg(test)]
mod simulate;
mod standard;
mod verdict;

pub use between::floor_between;
pub use estimate::{
    Interval, NoRatio, Ratio, cv, deviation_at_most, harmonic_mean, interval_of_look, jain,
    log_ratios, mean, median, nearest_rank, paired_ratio, ratio_of, side_of, unpaired_ratio,
};
pub use fairness::{
    COMPLETED_NOTHING, CompetingCgroup, CompetingSet, Competitor, Fairness, NO_SOLO_OPERATIONS,
    Priority, SetShare, fairness,
};
pub use histogram::{Histogram, Recorder, bucket_of, bucket_range};
pub use population::{Draw, differing, further};
pub use shape::{Shape, shapes};
pub use standard::{CPUS, StandardInput, StandardLatency, StandardWorker, standard_metrics};
pub use verdict::{
    Comparison, Excluded, Experiment, Family, Judged, LEVEL, Look, MAX_ROUNDS, Rounds, Schedule,
    Spread, Unjudged, Verdict, Why, judge, min_rounds, replay, rounds_for_same, rounds_needed,
};
