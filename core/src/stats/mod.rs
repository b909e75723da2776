//! Histograms, estimators and intervals. Pure and seeded: data in, numbers out; the same
//! stored run always gives the same answer.

mod between;
mod counts;
mod effect;
mod estimate;
mod fairness;
mod histogram;
mod interval;
mod inversion;
mod population;
mod sample;
mod shape;
#[cfg(any(test, feature = "testing"))]
pub mod simulate;
mod standard;
mod states;
mod verdict;

pub use between::floor_between;
pub use counts::{Count, chance_of_more};
pub use effect::{Distance, Effect, Interval, MeanDifference, NoEffect, Ratio};
pub use estimate::{
    cv, deviation_at_most, harmonic_mean, jain, mean, median, nearest_rank, side_of,
};
pub use fairness::{
    COMPLETED_NOTHING, CompetingCgroup, CompetingSet, Competitor, Fairness, NO_SOLO_OPERATIONS,
    Priority, SetShare, fairness,
};
pub use histogram::{Histogram, Recorder, bucket_of, bucket_range};
pub use interval::{interval_of_look, interval_of_mean, median_interval, ratio_from_logs};
pub use population::{Draw, differing, further};
pub use sample::{differences, log_ratios, paired_effect, paired_effect_with, unpaired_effect};
pub use shape::{Shape, shapes};
pub use standard::{
    CPUS, HEADLINE_QUANTILE, LATE_TO_EARLY, StandardInput, StandardLatency, StandardWorker,
    bounds_without, late_to_early, lower_bounds, standard_metrics,
};
pub use states::{TwoSpeeds, two_speeds};
pub use verdict::{
    Comparison, Excluded, Experiment, Family, Judged, LEVEL, Look, MAX_ROUNDS, Rounds, Schedule,
    Spread, Unjudged, Verdict, Why, judge, min_rounds, replay, rounds_for_same, rounds_needed,
};
