//! Plans: text -> [`Plan`] -> cells -> order of runs.
//!
//! Input: the TOML of a plan and, where known, the CPUs of the machine. Output: a plan in
//! which every default is filled in and every axis expanded, or all that is wrong with the
//! text at once. Pure: reads no file, asks no kernel, draws only from the plan's seed.
//!
//! What may be written derives from tables of [`crate::model::Field`]: [`fields`] here, the
//! workload registry and the knobs of [`crate::variant`]. The JSON Schema derives from the
//! same tables.

mod builtin;
mod error;
mod expand;
mod fields;
mod knobs;
mod order;
mod read;
mod schema;
mod table;
#[cfg(test)]
mod tests;

use crate::model::{CpuSet, Plan};

pub use builtin::{Builtin, builtin, builtins};
pub use error::{PlanError, PlanErrors};
pub use fields::{MAX_CELLS, MAX_RUNS, MAX_TEXT_BYTES, MAX_WORKERS};
pub use order::{cells, order};
pub use schema::json_schema;

/// Parses and checks a plan. `source_name` is the file's name, for messages; `machine` holds
/// the CPUs that exist (`None`: not checked).
pub fn parse(source_name: &str, text: &str, machine: Option<&CpuSet>) -> Result<Plan, PlanErrors> {
    read::plan(source_name, text, machine, &fields::Words::registered())
}
