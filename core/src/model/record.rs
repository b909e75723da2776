//! One execution of a plan, as its events have it without windows.

use serde::{Deserialize, Serialize};

use super::{Environment, Outcome, PlanEnd, PlanStarted, RunKey};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The plan's first start.
    pub started: PlanStarted,
    /// The machine at each start and resumption, in order; never empty.
    pub environments: Vec<Environment>,
    /// Runs in the order in which they ended.
    pub runs: Vec<RecordedRun>,
    /// `None`: still running, or the process was killed.
    pub ended: Option<PlanEnd>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedRun {
    pub key: RunKey,
    /// Index into [`Record::environments`].
    pub environment: u32,
    pub outcome: Outcome,
}
