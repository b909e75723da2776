//! `schedlab schbench`: schbench v1.0's command line, text and JSON, on the workload
//! `schbench`. What is the same and what differs is told in docs/schbench.md.
//!
//! [`SchbenchArgs`] is the command line, [`SchbenchArgs::order`] what it asks for, [`text`]
//! and [`json`] what is printed of [`Figures`]. All of these are pure.

mod agenda;
mod figures;
pub mod json;
mod options;
mod run;
#[cfg(test)]
mod testing;
pub mod text;

pub use figures::{Closing, Delays, Figures};
pub use options::{Cpus, JsonTarget, Machine, Mode, Order, SchbenchArgs};
pub use run::{End, run};
