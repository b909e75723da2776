//! Histograms, estimators and intervals. Pure and seeded: data in, numbers out; the same
//! stored run gives the same answer for ever.

mod histogram;

pub use histogram::{Histogram, Recorder, bucket_of, bucket_range};
