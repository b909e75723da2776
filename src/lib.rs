//! schedlab: a laboratory for CPU schedulers. CONTRIBUTING.md describes the rooms.

pub mod backend;
pub mod cli;
pub mod compat;
pub mod engine;
pub mod hunt;
pub mod plan;
pub mod report;
pub mod session;

pub use schedlab_core::{
    analysis, exec, guest, model, probe, stats, store, sys, variant, workload,
};
