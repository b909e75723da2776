//! Whether a cell can run on a backend and a machine, and where.

use thiserror::Error;

use crate::backend::{Backend, BackendError};
use crate::model::{Advice, Cell, CpuSet, Problem, Topology, Value, merged_knobs};

/// Why a cell cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CannotRun {
    #[error("{}{}", .0.message, .0.hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default())]
    Backend(Problem),
    /// The plan or a file that it names is wrong, whatever the machine has.
    #[error("{}{}", .0.message, .0.hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default())]
    Wrong(Problem),
    /// The backend cannot try this on a machine that is yet to be booted.
    #[error("affinity {asked}: this machine has CPUs {online}; hint: choose among them")]
    NoSuchCpus { asked: CpuSet, online: CpuSet },
    #[error(
        "llcs = {asked}: the CPUs {cpus} {}; hint: guests of the lab have as many as [lab] llcs says",
        describe_llcs(*.has)
    )]
    NoSuchLlcs { asked: u32, cpus: CpuSet, has: usize },
}

impl CannotRun {
    /// Messages of all but backends have their hint in them.
    pub fn problem(&self) -> Problem {
        match self {
            CannotRun::Backend(problem) | CannotRun::Wrong(problem) => problem.clone(),
            other => other.to_string().into(),
        }
    }
}

impl From<BackendError> for CannotRun {
    fn from(error: BackendError) -> Self {
        let problem = error.problem();
        if error.is_usage() { CannotRun::Wrong(problem) } else { CannotRun::Backend(problem) }
    }
}

fn describe_llcs(has: usize) -> String {
    match has {
        0 => "do not say which of them share a last-level cache".to_string(),
        1 => "have 1 last-level cache".to_string(),
        has => format!("have {has} last-level caches"),
    }
}

/// A cell as it runs on this backend and machine, or why it cannot.
pub fn check(backend: &dyn Backend, cell: &Cell, machine: &Topology) -> Result<Cell, CannotRun> {
    let cell = placed(cell, machine)?;
    backend.check(&cell)?;
    match beyond(&cell, &machine.online) {
        Some(asked) => Err(CannotRun::NoSuchCpus { asked, online: machine.online.clone() }),
        None => Ok(cell),
    }
}

/// The cell with the CPUs of its last-level caches for a placement.
fn placed(cell: &Cell, machine: &Topology) -> Result<Cell, CannotRun> {
    let mut cell = cell.clone();
    if let Some(asked) = cell.work.llcs {
        let cpus = cell.placement.cpus.as_ref().unwrap_or(machine.usable());
        let first = machine.first_llcs(asked, cpus);
        let first =
            first.map_err(|has| CannotRun::NoSuchLlcs { asked, cpus: cpus.clone(), has })?;
        cell.placement.cpus = Some(first);
    }
    Ok(cell)
}

/// The affinity of a cell's workers that has CPUs which are not there.
fn beyond(cell: &Cell, there: &CpuSet) -> Option<CpuSet> {
    let variant = &cell.variant.knobs;
    let sets = cell.work.sets.iter().map(|set| merged_knobs(variant, &set.knobs));
    let asked = sets.filter_map(|knobs| knobs.get("affinity").and_then(Value::as_cpus).cloned());
    let mut beyond = asked.filter(|cpus| !cpus.minus(there).is_empty());
    // A machine whose CPUs are not known refuses nothing.
    if there.is_empty() { None } else { beyond.next() }
}
