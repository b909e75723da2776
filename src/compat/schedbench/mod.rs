//! `schedlab schedbench`: gwd/schedbench's `.bench` files: plans, results and reports.
//! docs/schedbench.md says what is the same and what differs.
//!
//! [`read_text`] and [`BenchFile::parse`] read a file; all that follows but
//! [`BenchFile::save`] and [`OnDisk`] is pure.
//!
//! - `plan`: [`BenchFile::expand`] (with a template [`BenchFile::clear_runs`] first), then
//!   `save`.
//! - Both begin with [`BenchFile::check_results`], so that a file whose results make no sense is
//!   found before anything is done.
//! - `run`: [`BenchFile::pending`] lists the runs that are not completed, with what they
//!   inherit; all of them are checked before the first one starts. `args::to_queue` is
//!   a worker set's parameter `queue` of the workload `burnwait`. After each run
//!   [`BenchFile::store`] takes its [`Report`]s (one for each worker and reading, the first at
//!   the start of the measured section; cumulative, but for the largest delay; thousand
//!   operations and nanoseconds, `now_ns` since any moment that all workers share), then
//!   [`OnDisk::save`], which loses no results.
//! - `schedlab import`: [`plan_text`].
//! - `report`, `htmlreport`: [`BenchFile::figures`], then [`text::write`] or [`html::write`].

mod args;
mod error;
mod expand;
mod fairness;
mod figures;
mod file;
pub mod html;
mod json;
mod on_disk;
mod results;
mod run;
mod save;
#[cfg(test)]
mod testing;
pub mod text;
mod toml;

pub use expand::{DEFAULT_RUNTIME_SECONDS, Pending, PendingSet};
pub use figures::{Averages, MinMax, RunFairness, RunFigures, SetFigures, Spread, WorkerFigures};
pub use file::{BenchFile, Conditions, Report, Reports, utf8};
pub use json::{has_key, is_bench, is_whole_object};
pub use on_disk::{OnDisk, read_text};
pub use run::{Tally, machine, run};
pub use toml::plan_text;
