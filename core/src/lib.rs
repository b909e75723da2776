//! The rooms that measure, store and judge: compiled for speed in every profile that measures.
//! The package `schedlab` shows them under its own name.

pub mod analysis;
pub mod exec;
pub mod guest;
pub mod model;
pub mod probe;
pub mod stats;
pub mod store;
pub mod sys;
pub mod variant;
pub mod workload;
