//! Comparisons between selections of stored runs: variants, kernels, machines, dates.
//!
//! Input: sampled plans and the sides to compare. Output: a [`Comparison`], which formats lay
//! out. Pure. Method: docs/verdicts.md.

mod build;
pub mod fairness;
mod gather;
mod lab;
mod metrics;
mod missing;
mod power;
mod priority;
mod remarks;
mod select;
mod switches;
#[cfg(test)]
mod testing;
mod work;

use crate::model::{Direction, GuestKernel, GuestTimes, Params, Unit};
use crate::stats::{Judged, Shape};

pub use build::{Question, compare, open_works, overlap, with_floors};
pub use fairness::{FairnessOf, FairnessTable, PerRound, SetFairness};
pub use metrics::{is_headline, metric_matches};
pub use power::{MetricPower, Power, Wanted, WorkPower, power};
pub use priority::SchedPriority;
pub use select::{Selection, SelectionError, last, matches, moment, nearest, plan, select};

/// All that a comparison says, the baseline first in every list of sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub sides: Vec<Side>,
    pub method: Method,
    /// In the order of the newest plan of the baseline.
    pub works: Vec<WorkTable>,
    /// What was not compared, and why, a sentence each.
    pub refused: Vec<String>,
    /// What was to be measured on both sides and could not be judged, a sentence each: runs that
    /// failed, metrics without a value or a ratio. Who asks whether B is as good as A has no answer.
    pub missing: Vec<String>,
    /// What a reader of the verdicts has to know, a sentence each.
    pub remarks: Vec<String>,
    /// The command that gives this comparison again.
    pub command: String,
}

/// What is compared with what: of the runs whose values are in a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Side {
    /// As the user named it, or a variant's name.
    pub label: String,
    /// Each once, in order of time; of the lab by the name that was asked for, and what was booted:
    /// `debian:6.1 (6.1.0-56-cloud-amd64)`.
    pub kernels: Vec<String>,
    pub machines: Vec<String>,
    pub backends: Vec<String>,
    pub plans: Vec<String>,
    /// Boots in which its runs were made; `None` where some run does not know. In the lab each
    /// guest begins where one boot ended: runs there are of none.
    pub boots: Option<usize>,
    /// Measured runs.
    pub runs: usize,
    /// How time went by in those of the lab.
    pub times: GuestTimes,
    /// The kernels of those, each once: the name that was asked for, and what was booted.
    pub guests: Vec<(String, GuestKernel)>,
}

impl Side {
    /// Whether all of its runs would be the same again, whenever they are made.
    pub fn is_exact(&self) -> bool {
        self.runs > 0 && self.times.exact == self.runs
    }
}

impl Comparison {
    /// Whether nothing in it depends on the state of a host.
    pub fn is_exact(&self) -> bool {
        self.sides.iter().all(Side::is_exact)
    }
}

/// How the verdicts were reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Method {
    /// SAME means a ratio between 1 / (1 + margin) and 1 + margin.
    pub margin: f64,
    /// Margins of single metrics, by name.
    pub margins: Vec<(String, f64)>,
    /// Over the whole comparison: of false BETTER or WORSE, and again of false SAME.
    pub alpha: f64,
    /// Verdicts that share it.
    pub family: usize,
    pub pairing: Pairing,
    /// Ids of the A/A plans from which the floors of verdicts come.
    pub floors: Vec<String>,
    /// Rounds after which was looked, where rounds went on until all was decided.
    pub looks: Option<Vec<u32>>,
    pub seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// All sides were measured in the same rounds of the same plans.
    WithinRounds,
    /// Sides were measured at different times: what changed in between is in the ratio.
    None,
}

/// One work of the plans, the same on all sides.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkTable {
    /// `web threads=4`.
    pub label: String,
    /// The workload's name in the plan: `web`.
    pub name: String,
    /// The chosen point of each axis: `threads` = `4`.
    pub axes: Vec<(String, String)>,
    pub sets: Vec<SetTable>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SetTable {
    pub name: String,
    /// The workload's name in the registry: `schbench`.
    pub workload: String,
    /// Of its workload, complete; the same on all sides.
    pub params: Params,
    /// Of the set's throughput: `requests`.
    pub ops: String,
    pub rows: Vec<Row>,
    /// What explains the throughput of `rows`, where a probe has counted it.
    pub switches: Vec<Switches>,
}

/// How often the workers of a role were switched, in one of two ways.
#[derive(Debug, Clone, PartialEq)]
pub struct Switches {
    /// `worker`.
    pub role: String,
    /// They gave up their CPU; else they lost it.
    pub is_voluntary: bool,
    /// Per second. Its cells have no verdicts.
    pub row: Row,
    /// For each operation that the set did, by side.
    pub per_op: Vec<Option<f64>>,
}

/// One metric of one worker set.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub metric: String,
    pub unit: Unit,
    pub direction: Direction,
    /// Of each side, in the order of [`Comparison::sides`]; the first has no verdict.
    pub cells: Vec<Cell>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// By round, ascending; where sides are not paired, counted through.
    pub values: Vec<(u32, f64)>,
    pub mean: Option<f64>,
    /// Harmonic; `None` where a value is not positive.
    pub hmean: Option<f64>,
    pub median: Option<f64>,
    /// Standard deviation over mean.
    pub cv: Option<f64>,
    /// Against the baseline's cell of this row; `None` for the baseline.
    pub judged: Option<Judged>,
    /// What is odd about the values.
    pub shapes: Vec<Shape>,
}

impl Cell {
    /// Nothing of it ever happened: on both sides, that is no lack of an answer.
    pub fn is_all_zero(&self) -> bool {
        !self.values.is_empty() && self.values.iter().all(|(_, value)| *value == 0.0)
    }
}
