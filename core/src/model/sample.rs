//! The part of a stored plan that the analysis reads: the values of its metrics, without histograms and windows,
//! and whatever a reader of the values has to know about the runs. Plain data.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::{
    Cell, CpuSet, Cut, Disturbance, Environment, Guest, KnobReading, MetricKind, MissingPart, Plan,
    PlanEnd, Reading, RunKey, Sharding, Work, WorkerSet,
};

/// The properties of a plan by which plans are selected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanHead {
    pub id: String,
    pub title: String,
    pub backend: String,
    pub started_unix_ns: u64,
    /// `None`: still running, or the process was killed.
    pub ended: Option<PlanEnd>,
    /// At each start and resumption, in order; never empty.
    pub environments: Vec<EnvironmentHead>,
    /// The releases of the kernels that its guests booted; an environment of the lab has those asked for.
    pub booted: Vec<String>,
    /// The names, in the plan's order.
    pub variants: Vec<String>,
    /// See [`Plan::aa`].
    pub aa: bool,
    /// It is a part of a plan, or parts were joined in it.
    pub sharding: Option<Sharding>,
    pub runs: RunCounts,
    /// Tags in alphabetical order.
    pub tags: Vec<String>,
}

/// How far a plan went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A part of a plan that has some rounds of some cells, or a plan whose last round is not complete.
    Runs { done: u64, total: u64 },
    /// `asked` is `None` where no more are wanted than were begun; the repeated ones replace rounds that load from outside
    /// spoilt.
    Rounds { begun: u64, asked: Option<u64>, repeated: u64 },
}

impl PlanHead {
    pub fn progress(&self) -> Progress {
        let RunCounts { done, total, cells, rounds, .. } = self.runs;
        let is_of_boots = |own: &Sharding| own.part.is_some() && own.cut == Cut::Boots;
        let asked = total / cells.max(1);
        let stored = self.runs.stored();
        match self.ended {
            _ if self.sharding.as_ref().is_some_and(is_of_boots) => Progress::Runs { done, total },
            _ if rounds == asked && stored < total => Progress::Runs { done: stored, total },
            Some(PlanEnd::Decided) => Progress::Rounds { begun: rounds, asked: None, repeated: 0 },
            _ => Progress::Rounds {
                begun: rounds.min(asked),
                asked: Some(asked),
                repeated: rounds.saturating_sub(asked),
            },
        }
    }

    /// Whether it was interrupted or killed. A plan that another process is running at this moment looks the same.
    pub fn is_unfinished(&self) -> bool {
        matches!(self.ended, None | Some(PlanEnd::Interrupted))
    }
}

/// The stored runs of a plan, by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunCounts {
    pub done: u64,
    pub failed: u64,
    pub skipped: u64,
    /// Runs that the plan's rounds ask for.
    pub total: u64,
    /// Runs of a round of all works.
    pub cells: u64,
    /// The number of rounds that have any run.
    pub rounds: u64,
}

impl RunCounts {
    pub fn stored(&self) -> u64 {
        self.done + self.failed + self.skipped
    }

    /// Runs beyond those that the plan's rounds ask for: they replace rounds that outside load spoilt.
    pub fn repeated(&self) -> u64 {
        self.stored().saturating_sub(self.total)
    }
}

impl PlanHead {
    /// The backends that measure; a test compares them with the registry. An import may name others, of which
    /// nothing is known.
    pub const MEASURING: [&str; 2] = [SampledPlan::LOCAL, SampledPlan::LAB];

    /// Whether it has results of a real machine or guest.
    pub fn is_measured(&self) -> bool {
        PlanHead::MEASURING.contains(&self.backend.as_str()) && self.runs.done > 0
    }
}

/// The main facts of an [`Environment`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentHead {
    pub hostname: String,
    pub kernel_release: String,
    pub boot_id: Reading<String>,
}

/// One execution of a plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampledPlan {
    pub id: String,
    pub backend: String,
    pub started_unix_ns: u64,
    pub plan: Plan,
    /// The part of a plan that it is, or that parts are joined in it.
    pub sharding: Option<Sharding>,
    /// Cells by [`Cell::index`].
    pub cells: Vec<Cell>,
    /// The machine at each start and resumption, in order; never empty.
    pub environments: Vec<Environment>,
    /// `None`: still running, or the process was killed.
    pub ended: Option<PlanEnd>,
    /// The metrics that have values, in the order in which they first appear; each once. A set and a name appear
    /// more than once where two works have different sets of that name.
    pub metrics: Vec<SampledMetric>,
    /// Runs that were measured, in the order in which they ended. If several are of one cell and round, only the
    /// last is here.
    pub runs: Vec<SampledRun>,
    /// Runs that failed or were skipped, in the order in which they ended. If several are of one cell and round,
    /// only the last counts.
    pub unmeasured: Vec<Unmeasured>,
    /// Each once, in the order in which they first appear.
    pub guests: Vec<Guest>,
    /// The pools that the plan's pool became, each once.
    pub pools: Vec<SampledPool>,
    /// The versions of the programs of measured runs, each once, ascending.
    pub versions: Vec<SampledVersion>,
    /// The median time of a switch, for each run in turns.
    pub switches_ns: Vec<u64>,
}

/// The version that the program of a worker set reported in runs of a cell.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SampledVersion {
    /// [`Cell::index`].
    pub cell: u32,
    pub set: String,
    pub version: String,
}

/// A run without values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmeasured {
    pub key: RunKey,
    /// Index into [`SampledPlan::environments`].
    pub environment: u32,
    /// It could not run there; else it failed.
    pub is_skipped: bool,
    pub reason: String,
}

/// A metric of a foreground worker set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SampledMetric {
    pub set: String,
    /// The name of the set's operations: `requests`.
    pub ops: String,
    pub kind: MetricKind,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct SampledRun {
    pub key: RunKey,
    /// Index into [`SampledPlan::environments`].
    pub environment: u32,
    /// Index into [`SampledPlan::guests`]; `None`: it ran without a guest.
    pub guest: Option<u32>,
    /// Index into [`SampledPlan::pools`]; `None`: the plan names no pool.
    pub pool: Option<u32>,
    pub started_unix_ns: u64,
    pub measured_ns: u64,
    /// By index into [`SampledPlan::metrics`]; finite, and at most one for each metric.
    pub values: Vec<(u32, f64)>,
    /// The reasons of metrics without a value, by the same index.
    pub unknown: Vec<(u32, String)>,
    /// Empty unless [`SampledPlan::has_solos`].
    pub workers: Vec<SampledWorker>,
    pub disturbances: Vec<Disturbance>,
    /// Knobs that did not read back as asked, each once.
    pub mismatches: Vec<KnobReading>,
}

/// A pool as runs had it.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledPool {
    /// The pool that was asked for, and the kind of pool that it became.
    pub reading: KnobReading,
    pub cpus: Option<CpuSet>,
}

/// The work of one worker in the measured section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledWorker {
    /// Position in [`Work::sets`] of the run's cell; background sets are included.
    pub set: u16,
    pub role: Arc<str>,
    pub ops: u64,
    pub wall_ns: u64,
    pub cpu_ns: u64,
}

impl SampledPlan {
    /// The backend of the machine that schedlab runs on.
    pub const LOCAL: &str = "local";
    /// The backend whose runs have guests.
    pub const LAB: &str = "lab";
    /// The backend that invents its figures.
    pub const NULL: &str = "null";
    /// In place of a backend: another tool measured it, and `schedlab import` read its file.
    pub const IMPORTED: &str = "imported";

    /// The parts that lack runs, of a plan that parts were joined in.
    pub fn missing_parts(&self) -> Vec<MissingPart> {
        let Some(sharding) = self.sharding.as_ref().filter(|own| own.part.is_none()) else {
            return Vec::new();
        };
        let measured = self.runs.iter().map(|run| run.key);
        let there = measured.chain(self.unmeasured.iter().map(|run| run.key));
        sharding.division(&self.plan).missing(there)
    }

    /// The rounds that have a run, measured or failed, and those with a failed one: a cell that cannot run here has
    /// none.
    pub fn rounds(&self) -> [BTreeSet<u32>; 2] {
        let failed = self.unmeasured.iter().filter(|run| !run.is_skipped);
        let failed: BTreeSet<u32> = failed.map(|run| run.key.round).collect();
        let measured = self.runs.iter().map(|run| run.key.round);
        [measured.chain(failed.iter().copied()).collect(), failed]
    }

    /// The measured rounds of the cell that has most of them.
    pub fn rounds_measured(&self) -> u32 {
        let mut cells: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        self.runs
            .iter()
            .for_each(|run| _ = cells.entry(run.key.cell).or_default().insert(run.key.round));
        cells.values().map(|rounds| rounds.len() as u32).max().unwrap_or(0)
    }

    /// The runs that are there and those that there were, where some are gone: it ended complete, after a number of
    /// rounds that was fixed beforehand.
    pub fn gone_runs(&self) -> Option<(u64, u64)> {
        let is_fixed = self.sharding.is_none()
            && self.backend != SampledPlan::IMPORTED
            && !self.plan.measure.until_decided;
        // One of which all runs fail ends complete before its time.
        let is_whole = self.ended == Some(PlanEnd::Complete) && !self.runs.is_empty();
        let there = (self.runs.len() + self.unmeasured.len()) as u64;
        let asked = u64::from(self.plan.measure.rounds) * self.cells.len() as u64;
        (is_fixed && is_whole && there < asked).then_some((there, asked))
    }

    /// A plan of which nothing is stored.
    pub fn without_runs(
        backend: &str,
        plan: Plan,
        cells: Vec<Cell>,
        environments: Vec<Environment>,
    ) -> SampledPlan {
        let backend = backend.to_string();
        SampledPlan { backend, plan, cells, environments, ..SampledPlan::default() }
    }

    /// Whether a set of this plan competes in one work and is alone in another: then its share can be compared with
    /// its want.
    pub fn has_solos(plan: &Plan) -> bool {
        let solos = plan.works.iter().filter_map(Work::solo).map(WorkerSet::solo_key);
        let solos: HashSet<String> = solos.collect();
        let competing = plan.works.iter().filter(|work| work.solo().is_none());
        competing.flat_map(|work| &work.sets).any(|set| solos.contains(&set.solo_key()))
    }

    /// Whether values of this set are samples: the work has it, and not in the background.
    pub fn takes(work: &Work, set: &str) -> bool {
        work.sets.iter().any(|own| own.name == set && !own.background)
    }

    /// Whether its runs are guests with kernels of their own.
    pub fn has_guests(&self) -> bool {
        self.backend == SampledPlan::LAB
    }
}

/// The position of `one` in a list that has each once; it is added where it is not there yet.
pub fn place_of<T: PartialEq>(all: &mut Vec<T>, one: T) -> u32 {
    let at = all.iter().position(|known| *known == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    });
    at as u32
}

impl SampledWorker {
    /// The position in the work of the set at this place of a result; `None`: the work has another
    /// there.
    pub fn set_of(work: &Work, at: usize, name: &str) -> Option<u16> {
        work.sets.get(at).filter(|own| own.name == name)?;
        u16::try_from(at).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The progress of a plan of two cells, of which this number of runs is stored.
    fn progress(done: u64, rounds: u64, asked: u64, ended: Option<PlanEnd>) -> Progress {
        let runs = RunCounts { done, total: 2 * asked, cells: 2, rounds, ..RunCounts::default() };
        PlanHead { runs, ended, ..PlanHead::default() }.progress()
    }

    #[test]
    fn a_last_round_that_is_not_complete_is_not_counted_as_one() {
        let interrupted = Some(PlanEnd::Interrupted);
        let rounds = |begun, asked| Progress::Rounds { begun, asked: Some(asked), repeated: 0 };
        assert_eq!(progress(1, 1, 1, interrupted), Progress::Runs { done: 1, total: 2 });
        assert_eq!(progress(5, 3, 3, None), Progress::Runs { done: 5, total: 6 });
        assert_eq!(progress(2, 1, 1, Some(PlanEnd::Complete)), rounds(1, 1));
        assert_eq!(progress(3, 2, 3, interrupted), rounds(2, 3));
    }
}
