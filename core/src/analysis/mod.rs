//! Stored runs become one [`Analysis`]: sides, values, verdicts and notes. Every report renders
//! an analysis and nothing else, so no format can disagree with another.
//!
//! Input: sampled plans, the sides and what the user asked for. Pure and seeded: the same plans
//! and question give the same analysis. Method: docs/verdicts.md.

pub mod bisect;
mod expect;
mod explain;
pub mod fairness;
pub mod fidelity;
mod host;
mod hosts;
mod judge;
mod lists;
mod metrics;
mod note_finder;
mod notes;
mod pairing;
mod picture;
mod pictures;
mod power;
mod priority;
mod question;
mod run_length;
mod samples;
mod score;
mod select;
mod states;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod timeline;
mod turns;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

use crate::model::{
    Cgroup, Direction, Environment, GuestKernel, GuestTimes, Lab, Measure, MetricKind, Params,
    Placement, PlanEnd, RunKey, SetChange, Value, Variant, WorkerKind,
};
use crate::stats::{self, Effect, Judged, Look, Ratio, Shape, Unjudged, Verdict};

pub use expect::{
    FindingOutcome, Outcome, Tested, TestedMetric, metrics as expected_metrics, test,
    undecided_works,
};
pub use fairness::{
    FairnessTable, SetFairness, Unheeded, VariantFairness, Weights, allowed_cpus, competing_cgroups,
};
pub use fidelity::{
    Fidelity, FidelityError, FidelityRow, Instrument, Lone, Only, Prediction, fidelity,
};
pub use host::{Host, HostKind, HostRatio, OverHosts};
pub use hosts::alike;
pub use judge::{analyse, open_works, overlap, with_floors};
pub use lists::{cause, grouped, once};
pub use metrics::{Measured, metric_matches, takes_metric};
pub use notes::{Difference, NoValue, Note, Pooled, Severity, UselessKnob};
pub use picture::{LatencyPicture, Pictures, SideLatency, SideTimeline, WorkPictures};
pub use pictures::PictureBuilder;
pub use power::{Flaws, MetricPower, NotKnown, Power, WorkPower, power, round_ns};
pub use priority::SchedPriority;
pub use question::{Question, RunWindows, TAIL_MARGIN, WithoutEffect};
pub use run_length::{LengthAdvice, RunLength};
pub use samples::{needed_rounds, shown_ops};
pub use score::{
    BALANCE, By, Change, IDLENESS, Interval, PairChange, RowChange, ScoreComparison, ScoreSide,
    TaskRow, Unit as ScoreUnit, compare as compare_scores, domain_sums, interval, queue_mean,
    rows as task_rows,
};
pub use select::{
    Selection, TERMS, is_selection, matches, near_term, plan, score as stored_score,
    scores as stored_scores, select,
};
pub use timeline::{IdleSpan, Move, Occupant, Stretch, Timeline, TimelineTask, Wait};

/// All that a report says. The baseline is the first in every list of sides.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Analysis {
    /// The plans that the sides have runs of, oldest first.
    pub plans: Vec<PlanFacts>,
    pub sides: Vec<Side>,
    /// The machines, where verdicts are over hosts; those of one kind follow one another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Host>,
    pub method: Method,
    /// In the order of the newest plan of the baseline.
    pub works: Vec<WorkTable>,
    /// The worst first.
    pub notes: Vec<Note>,
    /// The command that gives this analysis again.
    pub command: String,
    /// As [`Question::store`].
    #[serde(skip)]
    pub store: String,
    /// Empty where nothing is to be drawn: see [`PictureBuilder`].
    #[serde(skip)]
    pub pictures: Pictures,
}

/// The facts of a plan that a reader needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PlanFacts {
    pub id: String,
    pub title: String,
    pub backend: String,
    pub started_unix_ns: u64,
    /// From the start to the end of the last measured run; `None` without one.
    pub took_ns: Option<u64>,
    /// The host's time for the rounds of a plan in the lab; `None` unless this process made all of them.
    #[serde(skip)]
    pub simulated_ns: Option<u64>,
    /// `None`: it still runs, or its process was killed.
    pub ended: Option<PlanEnd>,
    pub measure: Measure,
    /// The lengths of its runs, each once, ascending.
    pub durations_ns: BTreeSet<u64>,
    pub placement: Placement,
    /// Its variants are all the baseline.
    #[serde(skip)]
    pub aa: bool,
    /// The machine of the guests; `None` of runs on hosts.
    pub lab: Option<Lab>,
    /// The longest time that the same plan is expected to take in the lab; `None` where that says nothing more.
    #[serde(skip)]
    pub in_lab_ns: Option<u64>,
    /// Rounds of which some run was measured or failed.
    pub rounds_done: u32,
    /// Those of them in which a run failed.
    pub rounds_failed: u32,
    /// Those in which even the cell that was measured in most of them was not.
    #[serde(skip)]
    pub rounds_lost: u32,
    pub environments: Vec<Environment>,
}

impl PlanFacts {
    /// Rounds on top of those that were asked for, in place of rounds that something from outside
    /// spoilt.
    pub fn measured_again(&self) -> u32 {
        let Measure { rounds, until_decided, .. } = self.measure;
        if until_decided { 0 } else { self.rounds_done.saturating_sub(rounds) }
    }

    /// The rounds of the kind in which [`crate::stats::Rounds`] count: looks are after rounds whatever became of their
    /// runs, other numbers are of rounds with values.
    pub fn rounds_that_count(&self) -> u32 {
        let lost = if self.measure.until_decided { 0 } else { self.rounds_lost };
        self.rounds_done.saturating_sub(lost)
    }
}

/// One side of the analysis: what its runs have in common.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Side {
    /// As the user named it, or a variant's name.
    pub label: String,
    pub variants: Vec<Variant>,
    /// Each once, in order of time; in the lab the name that was asked for, and what was booted:
    /// `debian:6.1 (6.1.0-56-cloud-amd64)`.
    pub kernels: Vec<String>,
    pub machines: Vec<String>,
    pub backends: Vec<String>,
    pub plans: Vec<String>,
    /// Boots in which its runs were made; `None` where some run does not know it, and in the lab.
    pub boots: Option<usize>,
    /// Measured runs.
    pub runs: usize,
    /// The clock of runs in the lab.
    pub times: GuestTimes,
    /// In the lab: the interval between timers of a kernel without high resolution.
    pub coarse_timers_ns: Option<u64>,
    /// The kernels of those, each once: the name that was asked for, and what was booted.
    pub guests: Vec<(String, GuestKernel)>,
}

impl Side {
    /// Whether all of its runs would be the same again, whenever they are made.
    pub fn is_exact(&self) -> bool {
        self.runs > 0 && self.times.exact == self.runs
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Method {
    /// SAME means a ratio between 1 / (1 + margin) and 1 + margin.
    pub margin: f64,
    /// As `margin`, of tail latencies: [`crate::model::MetricKind::is_tail_latency`].
    pub tail_margin: f64,
    /// Margins of single metrics, by pattern.
    pub margins: Vec<(String, f64)>,
    /// The error rate of each family: of false BETTER or WORSE, and again of false SAME.
    pub alpha: f64,
    /// Verdicts on headline metrics, or on those that the user named.
    pub headline_verdicts: usize,
    /// Verdicts on all other metrics, a family of their own.
    pub explaining_verdicts: usize,
    pub pairing: Pairing,
    /// Ids of the A/A plans from which the floors of verdicts come.
    pub floors: Vec<String>,
    /// Where variants took turns inside one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<InTurns>,
    /// The looks that were made, where rounds went on until all was decided.
    #[serde(serialize_with = "rounds_of_looks")]
    pub looks: Option<Vec<Look>>,
    pub seed: u64,
}

/// Turns inside one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct InTurns {
    pub block_ns: u64,
    /// The median time in which all workers got the settings of another variant; `None`: not measured.
    pub switch_ns: Option<u64>,
}

fn rounds_of_looks<S: Serializer>(
    looks: &Option<Vec<Look>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let rounds = |looks: &Vec<Look>| looks.iter().map(|look| look.rounds).collect::<Vec<u32>>();
    looks.as_ref().map(rounds).serialize(serializer)
}

impl Method {
    /// Below which a change of this metric is SAME.
    pub fn margin_of(&self, (work, set, row): Place) -> f64 {
        let usual = [self.margin, self.tail_margin];
        metrics::margin_of(&self.margins, usual, (&work.label, &set.name, &row.kind))
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// All sides were measured in the same rounds of the same plans.
    #[default]
    WithinRounds,
    /// As [`Pairing::WithinRounds`] on several machines, each of which is one draw: see [`OverHosts`].
    OverHosts,
    /// Sides were measured at different times: what changed in between is in the ratio.
    None,
}

/// One work of the plans, the same on all sides.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WorkTable {
    /// `web threads=4`.
    pub label: String,
    /// The workload's name in the plan: `web`.
    pub name: String,
    #[serde(skip)]
    pub is_solo_run: bool,
    /// The chosen point of each axis: `threads` = `4`.
    pub axes: Vec<(String, String)>,
    pub sets: Vec<SetTable>,
    /// The CPU time that each worker set was entitled to and got; `None` without solo runs.
    pub fairness: Option<FairnessTable>,
    /// The runs that the values are of, by side.
    #[serde(skip)]
    pub runs: Vec<Vec<CountedRun>>,
}

/// A run whose values are in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedRun {
    /// Index into [`Analysis::plans`].
    pub plan: usize,
    /// Its position among the measured runs of the plan, in the order in which they ended.
    pub order: usize,
    pub key: RunKey,
    /// As the values of a [`Cell`] have it.
    pub round: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SetTable {
    pub name: String,
    /// The workload's name in the registry: `schbench`.
    pub workload: String,
    /// Complete, and the same on all sides.
    pub params: Params,
    /// `None` where the plan has no set of this name.
    pub workers: Option<Workers>,
    /// Knobs of this set's workers only.
    pub knobs: BTreeMap<String, Value>,
    /// The cgroup of its workers, after those that it lies in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<Cgroup>,
    /// Changes of its workers in mid-run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<SetChange>,
    /// The name of an operation in the plural: `requests`.
    pub ops: String,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Workers {
    pub count: u32,
    pub kind: WorkerKind,
}

/// One metric of one worker set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub kind: MetricKind,
    pub family: Family,
    /// One cell per side, in the order of [`Analysis::sides`].
    pub cells: Vec<Cell>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// The metrics that a report is about: they have the whole error rate.
    Headline,
    /// Every other metric that has a better direction, and an error rate of its own.
    Explaining,
    /// Not judged in this analysis.
    None,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cell {
    /// By round, ascending; where sides are not paired, rounds of all plans are counted through. Over
    /// hosts: the median of each host, by its position.
    pub values: Vec<(u32, f64)>,
    /// Rounds without a value, with the reason.
    pub unknown: Vec<(u32, String)>,
    /// The number of runs, those that failed included, and of those without a value; over hosts those of all hosts.
    #[serde(skip)]
    pub runs: u32,
    #[serde(skip)]
    pub lacking: u32,
    pub mean: Option<f64>,
    /// Harmonic; `None` where a value is not positive.
    pub hmean: Option<f64>,
    pub median: Option<f64>,
    /// Standard deviation over mean.
    pub cv: Option<f64>,
    /// Against the baseline's cell; `None` for the baseline and where nothing was to be judged.
    pub judged: Option<Judged>,
    /// As `judged`, of each host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_hosts: Option<OverHosts>,
    pub shapes: Vec<Shape>,
    /// No knob in which its side differs from the baseline can make a difference in this work: see
    /// [`Question::without_effect`].
    #[serde(skip)]
    pub changes_nothing: bool,
}

/// A row with its work and set.
pub type Place<'a> = (&'a WorkTable, &'a SetTable, &'a Row);

impl WorkTable {
    pub fn rows(&self) -> impl Iterator<Item = Place<'_>> {
        self.sets.iter().flat_map(move |set| set.rows.iter().map(move |row| (self, set, row)))
    }
}

impl Row {
    /// The number of rounds in which both the baseline and this side have a value, and in which one of them has.
    pub fn rounds(&self, side: usize) -> [u32; 2] {
        let own = |side: usize| -> BTreeSet<u32> {
            self.cells[side].values.iter().map(|(round, _)| *round).collect()
        };
        let (one, other) = (own(0), own(side));
        [one.intersection(&other).count() as u32, one.union(&other).count() as u32]
    }

    /// Whether a side has no verdict though one was to be. No misses on both sides need none; nothing done
    /// on both sides says nothing.
    pub fn lacks_verdict(&self, side: usize) -> bool {
        let [Some(baseline), Some(cell)] = [self.cells.first(), self.cells.get(side)] else {
            return false;
        };
        let is_judged = cell.judged.is_some_and(|of| !matches!(of.verdict, Verdict::Unjudged(_)));
        let is_zero = baseline.is_all_zero() && cell.is_all_zero();
        let needs_none = match self.kind.direction {
            Direction::Neutral => true,
            Direction::LowerIsBetter => is_zero,
            Direction::HigherIsBetter => false,
        };
        side > 0 && !is_judged && !needs_none
    }
}

impl Cell {
    /// Whether every value is zero.
    pub fn is_all_zero(&self) -> bool {
        !self.values.is_empty() && self.values.iter().all(|(_, value)| *value == 0.0)
    }

    /// `None` for the baseline, and where there was no verdict to reach.
    pub fn verdict(&self) -> Option<Verdict> {
        let verdict = self.judged.as_ref().map(|judged| judged.verdict);
        verdict.filter(|verdict| !matches!(verdict, Verdict::Unjudged(Unjudged::Neutral)))
    }
}

impl Analysis {
    /// A side against the baseline, the same whether or not it is judged: the estimate that verdicts
    /// rest on. `None` where all values are zero.
    pub fn effect(&self, row: &Row, side: usize) -> Option<Effect> {
        let [baseline, cell] = [row.cells.first()?, row.cells.get(side)?];
        if baseline.is_all_zero() && cell.is_all_zero() {
            return None;
        }
        if let Some(judged) = &cell.judged {
            return judged.effect.ok();
        }
        match (&cell.over_hosts, self.method.pairing) {
            (Some(over), _) => over.effect(),
            (None, Pairing::None) => stats::unpaired_effect(&baseline.values, &cell.values).ok(),
            (None, _) => stats::paired_effect(&baseline.values, &cell.values).ok(),
        }
    }

    /// The effect as a ratio; `None` where it is a difference.
    pub fn ratio(&self, row: &Row, side: usize) -> Option<Ratio> {
        self.effect(row, side)?.ratio()
    }

    /// Whether load from outside spoilt most rounds of the row's work, so that none of them is left out.
    pub fn counts_spoilt(&self, row: &Row) -> bool {
        let spoilt = self.notes.iter().find_map(|note| match note {
            Note::AllSpoilt { works } => Some(works),
            _ => None,
        });
        spoilt.is_some_and(|spoilt| {
            let mut own =
                self.works.iter().filter(|of| spoilt.iter().any(|(work, ..)| *work == of.label));
            own.any(|work| work.rows().any(|(.., other)| std::ptr::eq(other, row)))
        })
    }

    /// Whether nothing in it depends on the state of a host.
    pub fn is_exact(&self) -> bool {
        self.sides.iter().all(Side::is_exact)
    }

    /// Every worker set with its work, in order.
    pub fn sets(&self) -> impl Iterator<Item = (&WorkTable, &SetTable)> {
        self.works.iter().flat_map(|work| work.sets.iter().map(move |set| (work, set)))
    }

    /// Every row with its place, in order.
    pub fn rows(&self) -> impl Iterator<Item = Place<'_>> {
        self.works.iter().flat_map(WorkTable::rows)
    }

    /// The rows whose verdicts are of this family.
    pub fn rows_of(&self, family: Family) -> impl Iterator<Item = Place<'_>> {
        self.rows().filter(move |(.., row)| row.family == family)
    }

    /// The newest plan.
    pub fn plan(&self) -> Option<&PlanFacts> {
        self.plans.last()
    }
}
