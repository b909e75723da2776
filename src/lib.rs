//! schedlab: a laboratory for CPU schedulers. CONTRIBUTING.md describes the rooms.

pub mod analysis;
pub mod backend;
pub mod cli;
pub mod compat;
pub mod engine;
pub mod exec;
pub mod guest;
pub mod model;
pub mod plan;
pub mod probe;
pub mod report;
pub mod stats;
pub mod store;
pub mod sys;
pub mod variant;
pub mod workload;
