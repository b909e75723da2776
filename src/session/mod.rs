//! A measuring session: a plan from its request to its stored end. It loads the plan, makes a backend ready, resumes
//! what was begun before, divides plans in parts, makes looks while it measures, and judges the end. It prints
//! nothing: errors carry their hints, a [`Listener`] hears events, the listener of the [`Database`] notices.
//! docs/design/structure.md has an example.

mod backends;
mod database;
mod error;
mod execute;
pub mod expectations;
pub mod few_samples;
#[cfg_attr(not(feature = "fleet"), path = "fleet_absent.rs")]
pub mod fleet;
#[cfg(feature = "fleet")]
pub mod hosts;
mod known;
mod load;
pub mod machine;
pub mod metrics;
mod names;
mod no_plan;
mod notice;
pub mod power;
mod prepare;
mod prepared;
mod request;
mod resume;
pub mod running;
pub mod shards;
pub mod shared_cache;
pub mod sides;
mod states;
mod text_file;
mod watched;

pub use crate::model::Problem;
pub use backends::{is_virtual, make_backend, undo_leftovers};
pub use database::Database;
pub use error::SessionError;
pub use execute::{Finished, Listener, check_question, execute};
pub use known::known;
pub use load::{PlanText, is_stored, load, load_case, load_or_stored};
pub use names::unknown_name;
pub use notice::{Leftover, Notice};
pub use prepare::{Preparation, check, plan_text, prepare, set_seeds};
pub use prepared::Prepared;
pub use request::{
    DEFAULT_PLAN, FleetRequest, LabRequest, MeasureRequest, PlanSource, Purpose, Request, SLURM,
};
pub use text_file::read_text;
pub use watched::{WatchRequest, WatchedRun, Watcher};
