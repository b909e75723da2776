//! Reads the data of charts from the store for an analysis.

use crate::analysis::{Analysis, PictureBuilder, Pictures};
use crate::store::{Store, StoreError};

/// The histograms and windows of the runs that an analysis has values of, and the texts of its plans.
pub fn pictures(store: &Store, analysis: &Analysis) -> Result<Pictures, StoreError> {
    let mut builder = PictureBuilder::new(analysis);
    for (at, plan) in analysis.plans.iter().enumerate() {
        builder.take_source(at, store.source(&plan.id)?);
        store.each_latency(&plan.id, |run, name, counts| {
            builder.take_latency(at, run, name, counts);
        })?;
    }
    for (wanted, (plan, run)) in builder.wanted_timelines().into_iter().enumerate() {
        builder.take_timeline(wanted, store.windows(&analysis.plans[plan].id, run)?);
    }
    Ok(builder.finish())
}
