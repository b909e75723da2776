//! Histograms, estimators and intervals. Pure and seeded: data in, numbers out; the same
//! stored run gives the same answer for ever.

mod estimate;
mod fairness;
mod histogram;
mod standard;

pub use estimate::{Interval, NoRatio, Ratio, cv, jain, mean, median, nearest_rank, paired_ratio};
pub use fairness::{Claim, Competitor, Share, entitlements, max_over_min, shares};
pub use histogram::{Histogram, Recorder, bucket_of, bucket_range};
pub use standard::{StandardInput, StandardWorker, standard_metrics};
