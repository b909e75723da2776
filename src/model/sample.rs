//! The values of a stored plan without its workers and histograms: what comparisons over many
//! plans are made from. Plain data.

use std::collections::{HashMap, HashSet};

use super::{
    Cell, DisturbanceKind, Environment, Guest, KnobReading, MetricKind, Outcome, Plan, PlanEnd,
    Reading, Record, RecordedRun, RunKey, RunResult, SetResult, Work,
};

/// What a selection of plans looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanHead {
    pub id: String,
    pub title: String,
    pub backend: String,
    pub started_unix_ns: u64,
    /// `None`: still running, or the process was killed.
    pub ended: Option<PlanEnd>,
    /// At each start and resumption, in order; never empty.
    pub environments: Vec<EnvironmentHead>,
    /// The names, in the plan's order.
    pub variants: Vec<String>,
    /// As [`Plan::aa`].
    pub aa: bool,
}

/// Of an [`Environment`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentHead {
    pub hostname: String,
    pub kernel_release: String,
    pub boot_id: Reading<String>,
}

/// One execution of a plan, as [`Record`], with values of metrics alone.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledPlan {
    pub id: String,
    pub backend: String,
    pub started_unix_ns: u64,
    pub plan: Plan,
    /// By [`Cell::index`].
    pub cells: Vec<Cell>,
    /// The machine at each start and resumption, in order; never empty.
    pub environments: Vec<Environment>,
    /// `None`: still running, or the process was killed.
    pub ended: Option<PlanEnd>,
    /// What values are of, in the order in which they were first known; each once. A set and
    /// a name are here more than once where two works call different sets alike.
    pub metrics: Vec<SampledMetric>,
    /// Runs that were measured, in the order in which they ended. Of several of one cell and
    /// round only the last.
    pub runs: Vec<SampledRun>,
    /// What was told of the guests of runs in the lab, each once, in the order in which it was
    /// first told.
    pub guests: Vec<Guest>,
    /// Of all runs, one after the other; finite, and at most one of a metric in a run.
    pub values: Vec<SampledValue>,
    pub troubles: RunIssues,
}

/// What a reader of the values has to know of the runs. Mostly there is little.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunIssues {
    /// Runs that failed or were skipped, in the order in which they ended. Of several of one
    /// cell and round only the last counts.
    pub unmeasured: Vec<Unmeasured>,
    /// Position in [`SampledPlan::runs`] and what disturbed it, ascending, each once.
    pub disturbed: Vec<(u32, DisturbanceKind)>,
    /// Readings of knobs that are not what was asked for, each once.
    pub knobs: Vec<KnobMismatch>,
    /// Position in [`SampledPlan::runs`] and in `knobs`: by run, in the order of its readings.
    pub untaken: Vec<(u32, u32)>,
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

/// A knob that was read back as something else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KnobMismatch {
    pub knob: String,
    pub asked: String,
    pub got: String,
}

/// A metric of a foreground worker set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SampledMetric {
    pub set: String,
    /// Of the set's throughput: `requests`.
    pub ops: String,
    pub kind: MetricKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledRun {
    pub key: RunKey,
    /// Index into [`SampledPlan::environments`].
    pub environment: u32,
    /// Where its values begin in [`SampledPlan::values`]; they end where the next run's begin.
    pub first_value: u32,
    /// Index into [`SampledPlan::guests`]; `None` outside of the lab.
    pub guest: Option<u32>,
}

/// Only what is known has a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampledValue {
    /// Index into [`SampledPlan::metrics`].
    pub metric: u32,
    pub value: f64,
}

impl SampledPlan {
    /// The backend whose runs have guests.
    pub const LAB: &str = "lab";

    /// What a store gives without reading the rest. A value that is not finite is unknown.
    pub fn of(record: &Record) -> SampledPlan {
        let started = &record.started;
        let mut sampled = SampledPlan {
            id: started.id.clone(),
            backend: started.backend.clone(),
            started_unix_ns: started.started_unix_ns,
            plan: started.plan.clone(),
            cells: started.cells.clone(),
            environments: record.environments.clone(),
            ended: record.ended,
            metrics: Vec::new(),
            runs: Vec::new(),
            guests: Vec::new(),
            values: Vec::new(),
            troubles: RunIssues::default(),
        };
        let last: HashMap<RunKey, usize> =
            record.runs.iter().enumerate().map(|(at, run)| (run.key, at)).collect();
        let works: HashMap<u32, &Work> =
            started.cells.iter().map(|cell| (cell.index, &cell.work)).collect();
        let mut found = HashMap::new();
        for (at, run) in record.runs.iter().enumerate() {
            let Some(work) = works.get(&run.key.cell) else { continue };
            if last.get(&run.key) != Some(&at) {
                continue;
            }
            let Outcome::Done { result } = &run.outcome else {
                sampled.troubles.unmeasured.extend(Unmeasured::of(run));
                continue;
            };
            let (key, environment) = (run.key, run.environment);
            let first_value = sampled.values.len() as u32;
            sampled.troubles.add(sampled.runs.len() as u32, result);
            let is_lab = sampled.backend == SampledPlan::LAB;
            let guest = is_lab.then(|| place_of(&mut sampled.guests, Guest::of(&result.knobs)));
            sampled.runs.push(SampledRun { key, environment, first_value, guest });
            sampled.add_values(work, &result.sets, &mut found);
        }
        sampled
    }

    /// Of sets of one name, and of metrics of one name in a set, the first counts, as in
    /// reports of one record. `found` has the position of each metric.
    fn add_values(
        &mut self,
        work: &Work,
        sets: &[SetResult],
        found: &mut HashMap<SampledMetric, u32>,
    ) {
        let mut names = HashSet::new();
        for set in sets {
            if !SampledPlan::takes(work, &set.name) || !names.insert(&set.name) {
                continue;
            }
            let mut names = HashSet::new();
            for metric in &set.metrics {
                let is_first = names.insert(&metric.kind.name);
                let value = match metric.value {
                    Reading::Known(value) if is_first && value.is_finite() => value,
                    _ => continue,
                };
                let sampled = SampledMetric {
                    set: set.name.clone(),
                    ops: set.ops.clone(),
                    kind: metric.kind.clone(),
                };
                let metrics = &mut self.metrics;
                let metric = *found.entry(sampled).or_insert_with_key(|metric| {
                    metrics.push(metric.clone());
                    metrics.len() as u32 - 1
                });
                self.values.push(SampledValue { metric, value });
            }
        }
    }

    /// Whether values of this set are samples: the work has it, and not in the background.
    pub fn takes(work: &Work, set: &str) -> bool {
        work.sets.iter().any(|own| own.name == set && !own.background)
    }

    /// The values of the run at this position of `runs`.
    pub fn values_of(&self, run: usize) -> &[SampledValue] {
        let first = self.runs[run].first_value as usize;
        let end =
            self.runs.get(run + 1).map_or(self.values.len(), |next| next.first_value as usize);
        &self.values[first..end]
    }
    /// What disturbed the run at this position of `runs`, each kind once.
    pub fn disturbances_of(&self, run: usize) -> impl Iterator<Item = DisturbanceKind> {
        of_run(&self.troubles.disturbed, run).iter().map(|(_, kind)| *kind)
    }

    /// The knobs that the run at this position of `runs` read back otherwise than asked.
    pub fn untaken_of(&self, run: usize) -> impl Iterator<Item = &KnobMismatch> {
        let untaken = of_run(&self.troubles.untaken, run).iter();
        untaken.map(|(_, knob)| &self.troubles.knobs[*knob as usize])
    }
}

/// Where a guest stands in a list that has each once; it is added where it does not yet.
pub fn place_of(guests: &mut Vec<Guest>, guest: Guest) -> u32 {
    let at = guests.iter().position(|known| *known == guest).unwrap_or_else(|| {
        guests.push(guest);
        guests.len() - 1
    });
    at as u32
}

/// The entries of one run, of a list that is sorted by run.
fn of_run<T>(list: &[(u32, T)], run: usize) -> &[(u32, T)] {
    let begins = list.partition_point(|(of, _)| (*of as usize) < run);
    let length = list[begins..].partition_point(|(of, _)| *of as usize == run);
    &list[begins..begins + length]
}

impl Unmeasured {
    /// `None` of a run that was measured.
    fn of(run: &RecordedRun) -> Option<Unmeasured> {
        let (is_skipped, reason) = match &run.outcome {
            Outcome::Done { .. } => return None,
            Outcome::Failed { reason } => (false, reason.clone()),
            Outcome::Skipped { reason } => (true, reason.clone()),
        };
        Some(Unmeasured { key: run.key, environment: run.environment, is_skipped, reason })
    }
}

impl RunIssues {
    /// A pool is never told as it was asked for: what it became is what is told.
    pub const POOL: &str = "pool";

    fn add(&mut self, run: u32, result: &RunResult) {
        let kinds = result.disturbances.iter().map(|found| found.kind);
        self.add_disturbances(run, kinds.collect());
        for KnobReading { knob, asked, got } in &result.knobs {
            if let Reading::Known(got) = got
                && got != asked
                && knob != RunIssues::POOL
            {
                self.add_knob(run, knob, asked, got);
            }
        }
    }

    /// Of a run after all that are in it.
    pub fn add_disturbances(&mut self, run: u32, mut kinds: Vec<DisturbanceKind>) {
        kinds.sort_unstable();
        kinds.dedup();
        self.disturbed.extend(kinds.into_iter().map(|kind| (run, kind)));
    }

    /// Of the last run that is in it, or a later one.
    pub fn add_knob(&mut self, run: u32, knob: &str, asked: &str, got: &str) {
        let is =
            |known: &KnobMismatch| known.knob == knob && known.asked == asked && known.got == got;
        let at = self.knobs.iter().position(is).unwrap_or_else(|| {
            let [knob, asked, got] = [knob, asked, got].map(str::to_string);
            self.knobs.push(KnobMismatch { knob, asked, got });
            self.knobs.len() - 1
        });
        let entry = (run, at as u32);
        if !of_run(&self.untaken, run as usize).contains(&entry) {
            self.untaken.push(entry);
        }
    }
}
