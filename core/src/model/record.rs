//! One execution of a plan, folded from its events: the input of reports.

use serde::{Deserialize, Serialize};

use super::{Environment, Event, Outcome, PlanEnd, PlanStarted, RunKey};

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

impl Record {
    pub fn new(started: PlanStarted) -> Self {
        let environments = vec![started.environment.clone()];
        Record { started, environments, runs: Vec::new(), ended: None }
    }

    /// Folds an event of the same plan in. Windows are not kept: they are in the store.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::PlanStarted(again) => {
                self.environments.push(again.environment.clone());
                self.ended = None;
            }
            Event::RunStarted { .. } | Event::Window { .. } => {}
            Event::RunEnded { key, outcome } => self.runs.push(RecordedRun {
                key: *key,
                environment: self.environments.len() as u32 - 1,
                outcome: outcome.clone(),
            }),
            Event::PlanEnded { reason, calibration } => {
                self.ended = Some(*reason);
                if let (Some(session), Some(_)) = (self.environments.last_mut(), calibration) {
                    session.calibration_at_end = *calibration;
                }
            }
        }
    }
}
