//! `schedlab schbench`: schbench v1.0's command line, text and JSON, on the workload `schbench`.
//! docs/schbench.md lists what is equal and what differs.
//!
//! [`SchbenchArgs`] is the command line, [`SchbenchArgs::config`] the run it asks for, [`text`]
//! and [`json`] print [`Figures`]. All of these are pure.

mod agenda;
mod figures;
pub mod json;
mod options;
mod run;
#[cfg(test)]
mod testing;
pub mod text;

pub use figures::{Closing, Delays, Figures};
pub use options::{Cpus, Machine, Mode, RunConfig, SchbenchArgs};
pub use run::{End, run};
