//! The one stream that the engine emits. The store, the progress bar and the JSON lines of
//! `schedlab export` are its sinks; replaying it into an empty store gives the same report.

use serde::{Deserialize, Serialize};

use super::{Calibration, Cell, Environment, Judged, Outcome, Plan, RunKey, Sharding, Window};

/// The version of the event stream, in its first line.
pub const EVENT_SCHEMA: u32 = 2;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// First, and again where a stored plan is resumed (perhaps after a reboot).
    PlanStarted(Box<PlanStarted>),
    RunStarted {
        key: RunKey,
    },
    Window {
        key: RunKey,
        window: Window,
    },
    RunEnded {
        key: RunKey,
        outcome: Outcome,
    },
    PlanEnded {
        reason: PlanEnd,
        /// [`Environment::calibration_at_end`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calibration: Option<Calibration>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanStarted {
    pub schema: u32,
    /// Names this execution of the plan permanently: a time and random digits.
    pub id: String,
    pub backend: String,
    pub started_unix_ns: u64,
    /// The plan's text, so that it can be run again.
    pub source: String,
    pub plan: Plan,
    pub cells: Vec<Cell>,
    /// Plans stored before this was kept were asked nothing.
    #[serde(default, skip_serializing_if = "Judged::is_default")]
    pub judged: Judged,
    /// It is a part of a plan, or parts were joined in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharding: Option<Sharding>,
    pub environment: Environment,
}

impl PlanStarted {
    /// Runs that its rounds ask for, of a part its own.
    pub fn planned_runs(&self) -> u64 {
        let all = u64::from(self.plan.measure.rounds) * self.cells.len() as u64;
        let of_part = self.sharding.as_ref().and_then(|sharding| {
            sharding.part.map(|part| sharding.division(&self.plan).runs_of(part))
        });
        of_part.unwrap_or(all)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanEnd {
    Complete,
    /// The budget left no time for a further round.
    Budget,
    /// Rounds went on until all was decided, and it is.
    Decided,
    /// Resumable.
    Interrupted,
}
