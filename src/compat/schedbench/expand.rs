//! `plan`: turns the matrix of a file into runs in the original's order and with its labels, and collects
//! what each pending run asks for.
//!
//! Input: a file that has been read. Output: runs in it, or [`Pending`] runs, or an error. Pure.

use std::collections::BTreeMap;

use crate::plan::MAX_WORKERS;
use crate::report::clean;
use crate::workload::BurnItem;

use super::super::CompatError;
use super::args;
use super::error::{Fault, FieldError, MAX_COUNT, MAX_RUNTIME_SECONDS};
use super::file::{BenchFile, HINT, Input, Plan, Run, SimpleMatrix, WorkerParams, WorkerSet};
use super::json::is_bench;

/// Runtime of each run that `plan` makes, and of one with 0 or no value.
pub const DEFAULT_RUNTIME_SECONDS: i64 = 10;

/// A preset that the original has built in.
const BUILT_IN: (&str, &[&str]) = ("P001", &["burnwait", "70", "200000"]);

/// The original's default pool: all CPUs.
const WHOLE_MACHINE: &str = "Pool-0";

const NO_BENCH: &str = "no .bench file: neither `Input` nor `Runs`";

/// A run that is not completed, with what it inherits.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// Its index in `Runs`, for [`BenchFile::store`].
    pub index: usize,
    pub label: String,
    pub sets: Vec<PendingSet>,
    /// `None`: as the pool has it.
    pub scheduler: Option<String>,
    pub cpus: Option<Vec<u32>>,
    /// False if the file does not say. (The original crashes there.)
    pub numa_disable: bool,
    pub runtime_seconds: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PendingSet {
    pub queue: Vec<BurnItem>,
    pub count: u32,
    /// The pool of the set, else of the run, else of all workers, else of all runs; `None` for the whole machine.
    pub pool: Option<String>,
    /// The affinity of the set, else of the run, else of all workers.
    pub soft_affinity: Option<String>,
}

impl BenchFile<'_> {
    /// Forgets the runs, as a plan that is made from a template does.
    pub fn clear_runs(&mut self) {
        self.plan.runs.clear();
    }

    /// Checks that a plan may be written over this file with the text `text`: an error if it has results or
    /// is not a `.bench` file.
    pub fn check_replaceable(&self, text: &str) -> Result<(), CompatError> {
        let name = &self.name;
        let has_results = |run: &&Run| run.completed || !run.results.raw.is_empty();
        let why = match self.plan.runs.iter().filter(has_results).count() {
            0 if is_bench(text.as_bytes()) => return Ok(()),
            0 => format!("{name} is there already, and {NO_BENCH}"),
            runs => format!("{name} is there already, with results of {runs} runs"),
        };
        let hint = "-f NEW names another file for the plan";
        Err(CompatError::usage(format!("{why}; it was left as it is"), hint))
    }

    /// Refuses JSON of something else, which has no run to make or to show.
    pub fn check_kind(&self) -> Result<(), CompatError> {
        if is_bench(self.text.as_bytes()) {
            return Ok(());
        }
        Err(CompatError::usage(format!("{} is {NO_BENCH}", self.name), HINT))
    }

    /// Makes the runs. A file that already has runs is refused and keeps them. A run with too many workers is
    /// refused, too.
    pub fn expand(&mut self) -> Result<(), CompatError> {
        self.expand_to_any_size()?;
        let crowd = self.plan.runs.iter().find_map(|run| too_many(run).err());
        crowd.map_or(Ok(()), |FieldError { fault, .. }| {
            let error = FieldError::new("Input.SimpleMatrix.Count", fault);
            self.plan.runs.clear();
            let hint = "fewer `Workers`, or a smaller `Count`";
            Err(CompatError::usage(format!("{}: {error}", self.name), hint))
        })
    }

    /// The same, also where a run would be too large for a machine.
    pub(super) fn expand_to_any_size(&mut self) -> Result<(), CompatError> {
        if !self.plan.runs.is_empty() {
            let name = &self.name;
            let runs = self.plan.runs.len();
            return Err(CompatError::usage(
                format!("{name} has {runs} runs already: nothing is planned"),
                format!("a new file with the same plan: schedlab schedbench -t {name} -f NEW plan"),
            ));
        }
        let hint = "\"Input\": { \"WorkerPresets\": { \"A\": { \"Args\": [ \"burnwait\", \"70\", \
                    \"200000\" ] } }, \"SimpleMatrix\": { \"Workers\": [ \"A\" ], \"Count\": [ 1, 2 ] } }";
        let refuse =
            |error: FieldError| CompatError::usage(format!("{}: {error}", self.name), hint);
        let input = self.plan.input.as_ref();
        let input = input.ok_or_else(|| refuse(FieldError::new("Input", Fault::Missing)))?;
        let runs = runs(input).map_err(refuse)?;
        self.plan.runs = runs;
        Ok(())
    }

    /// The runs that are not completed, in their order; or the first error that keeps one from being run.
    pub fn pending(&self) -> Result<Vec<Pending>, CompatError> {
        self.resolved(too_many)
    }

    /// The same, also where a run would be too large for a machine.
    pub(super) fn pending_of_any_size(&self) -> Result<Vec<Pending>, CompatError> {
        self.resolved(|_| Ok(()))
    }

    fn resolved(
        &self,
        check: impl Fn(&Run) -> Result<(), FieldError>,
    ) -> Result<Vec<Pending>, CompatError> {
        let todo = self.plan.runs.iter().enumerate().filter(|(_, run)| !run.completed);
        todo.map(|(index, run)| {
            let pending = self.resolve(index, run);
            pending.and_then(|pending| check(run).map(|()| pending)).map_err(|error| {
                let error = error.below(&format!("Runs[{index}]"));
                let label = clean(&run.label);
                CompatError::usage(format!("{}: run {index} `{label}`: {error}", self.name), HINT)
            })
        })
        .collect()
    }

    fn resolve(&self, index: usize, run: &Run) -> Result<Pending, FieldError> {
        let plan = &self.plan;
        let numa_disable = plan.numa_disable(run);
        let sets = run.worker_sets.as_deref().unwrap_or_default();
        if sets.is_empty() {
            return Err(FieldError::new("WorkerSets", Fault::NoSet));
        }
        let sets = sets.iter().enumerate().map(|(at, set)| {
            let below = |error: FieldError| error.below(&format!("WorkerSets[{at}]"));
            let set = self.resolve_set(run, set).map_err(below)?;
            if numa_disable && set.soft_affinity.is_some() {
                return Err(FieldError::new("NumaDisable", Fault::SoftAffinity));
            }
            Ok(set)
        });
        Ok(Pending {
            index,
            label: run.label.clone(),
            sets: sets.collect::<Result<_, _>>()?,
            scheduler: plan.scheduler(run).map(str::to_string),
            cpus: cpus(plan.cpus(run))?,
            numa_disable,
            runtime_seconds: runtime_seconds(run.runtime_seconds)?,
        })
    }

    fn resolve_set(&self, run: &Run, set: &WorkerSet) -> Result<PendingSet, FieldError> {
        let plan = &self.plan;
        let object = plan.worker_config.as_ref();
        let soft_affinity = first_of(&[
            &set.config.soft_affinity,
            &run.soft_affinity,
            &plan.soft_affinity,
            object.map_or("", |object| &object.soft_affinity),
        ]);
        let queue = args::parse(set.params.args.as_deref().unwrap_or_default())
            .map_err(|error| error.into_field("Params.Args"))?;
        Ok(PendingSet {
            queue,
            count: count(set.count, "Count")?,
            pool: plan.pool(run, set).map(str::to_string),
            soft_affinity: soft_affinity.map(str::to_string),
        })
    }
}

/// Values that a run inherits if it has none itself.
impl Plan<'_> {
    pub fn scheduler<'p>(&'p self, run: &'p Run) -> Option<&'p str> {
        first_of(&[&run.scheduler, &self.run_config.scheduler])
    }

    pub fn numa_disable(&self, run: &Run) -> bool {
        run.numa_disable.or(self.run_config.numa_disable).unwrap_or(false)
    }

    pub fn cpus<'p>(&'p self, run: &'p Run) -> Option<&'p Vec<i64>> {
        run.cpus.as_ref().or(self.run_config.cpus.as_ref())
    }

    /// The pool of the set, else of the run, else of all workers; `None` for the whole machine.
    pub fn pool<'p>(&'p self, run: &'p Run, set: &'p WorkerSet) -> Option<&'p str> {
        let object = self.worker_config.as_ref().map_or("", |object| &object.pool);
        first_of(&[&set.config.pool, &run.pool, &self.pool, object, &self.run_config.pool])
            .filter(|name| *name != WHOLE_MACHINE)
    }
}

fn first_of<'p>(texts: &[&'p str]) -> Option<&'p str> {
    texts.iter().find(|text| !text.is_empty()).copied()
}

fn count(count: i64, path: &str) -> Result<u32, FieldError> {
    match u32::try_from(count) {
        Ok(workers) if (1..=MAX_COUNT).contains(&count) => Ok(workers),
        _ => Err(FieldError::new(path, Fault::Count(count))),
    }
}

/// Refuses more workers than one run can have, at the first set that is too many.
pub(super) fn too_many(run: &Run) -> Result<(), FieldError> {
    let mut workers = 0i64;
    for (at, set) in run.worker_sets.iter().flatten().enumerate() {
        workers = workers.saturating_add(set.count.max(0));
        if usize::try_from(workers).map_or(true, |workers| workers > MAX_WORKERS) {
            let fault = Fault::TooManyWorkers(set.count);
            return Err(FieldError::new(format!("WorkerSets[{at}].Count"), fault));
        }
    }
    Ok(())
}

fn cpus(cpus: Option<&Vec<i64>>) -> Result<Option<Vec<u32>>, FieldError> {
    let Some(cpus) = cpus else { return Ok(None) };
    let refuse = |fault| FieldError::new("Cpus", fault);
    let number = |&cpu: &i64| {
        let number = u32::try_from(cpu).ok().filter(|number| *number <= crate::model::MAX_CPU);
        number.ok_or_else(|| refuse(Fault::Cpu(cpu)))
    };
    let numbers = cpus.iter().map(number).collect::<Result<Vec<u32>, _>>()?;
    if numbers.is_empty() { Err(refuse(Fault::NoCpu)) } else { Ok(Some(numbers)) }
}

fn runtime_seconds(seconds: i64) -> Result<u64, FieldError> {
    let seconds = if seconds == 0 { DEFAULT_RUNTIME_SECONDS } else { seconds };
    match u64::try_from(seconds) {
        Ok(known) if seconds <= MAX_RUNTIME_SECONDS => Ok(known),
        _ => Err(FieldError::new("RuntimeSeconds", Fault::RuntimeSeconds(seconds))),
    }
}

/// Makes the solo runs, then a run of all workers together for each count; each with every scheduler, and
/// each of these with every `NumaDisable`.
fn runs<'t>(input: &Input<'t>) -> Result<Vec<Run<'t>>, FieldError> {
    let missing = || FieldError::new("Input.SimpleMatrix", Fault::Missing);
    let matrix = input.simple_matrix.as_ref().ok_or_else(missing)?;
    let workers = workers(input, matrix)?;
    let mut runs = Vec::new();
    for (name, params) in &workers {
        runs.push(bare(format!("{name} baseline"), &[(name, params)], 1));
    }
    for (at, &number) in matrix.count.iter().flatten().enumerate() {
        count(number, &format!("Input.SimpleMatrix.Count[{at}]"))?;
        let labels: Vec<String> =
            workers.iter().map(|(name, _)| format!("{name} {number}")).collect();
        let sets: Vec<_> = workers.iter().map(|(name, params)| (*name, params)).collect();
        runs.push(bare(labels.join(" + "), &sets, number));
    }
    // Without `Schedulers` the original uses one scheduler without a name, and the space before the name
    // stays in the label; with an empty list the runs stay as they are.
    let nameless = [String::new()];
    let schedulers = matrix.schedulers.as_deref().unwrap_or(&nameless);
    let runs = crossed(runs, schedulers, |run, scheduler: &String| {
        run.label = format!("{} {scheduler}", run.label);
        run.scheduler.clone_from(scheduler);
    });
    let numa_disable = matrix.numa_disable.as_deref().unwrap_or_default();
    Ok(crossed(runs, numa_disable, |run, &is_off| {
        run.label.push_str(if is_off { " NumaOff" } else { " NumaOn " });
        run.numa_disable = Some(is_off);
    }))
}

fn bare<'t>(label: String, sets: &[(&str, &WorkerParams<'t>)], count: i64) -> Run<'t> {
    let sets = sets.iter().map(|(_, params)| WorkerSet {
        // A preset's other fields stay in the preset.
        params: WorkerParams { args: params.args.clone(), rest: Vec::new() },
        count,
        ..WorkerSet::default()
    });
    let runtime_seconds = DEFAULT_RUNTIME_SECONDS;
    Run { label, worker_sets: Some(sets.collect()), runtime_seconds, ..Run::default() }
}

fn crossed<'t, T>(runs: Vec<Run<'t>>, by: &[T], change: impl Fn(&mut Run<'t>, &T)) -> Vec<Run<'t>> {
    if by.is_empty() {
        return runs;
    }
    let mut all = Vec::with_capacity(runs.len() * by.len());
    for run in runs {
        for value in by {
            let mut run = run.clone();
            change(&mut run, value);
            all.push(run);
        }
    }
    all
}

/// The words of presets by name, in the order of `Workers`, then the others.
pub(super) fn preset_args(input: Option<&Input>) -> Vec<(String, Vec<String>)> {
    let owned = |words: &[&str]| words.iter().map(|word| word.to_string()).collect();
    let mut left: BTreeMap<String, Vec<String>> =
        BTreeMap::from([(BUILT_IN.0.to_string(), owned(BUILT_IN.1))]);
    let Some(input) = input else { return left.into_iter().collect() };
    for (name, preset) in input.worker_presets.iter().flatten() {
        left.insert(name.clone(), preset.args.clone().unwrap_or_default());
    }
    let named = input.simple_matrix.as_ref().and_then(|matrix| matrix.workers.as_deref());
    let first: Vec<_> =
        named.unwrap_or_default().iter().filter_map(|name| left.remove_entry(name)).collect();
    first.into_iter().chain(left).collect()
}

/// Each name of `Workers` with its preset, whose `Args` have been read once to be sure of them.
fn workers<'a, 't>(
    input: &'a Input<'t>,
    matrix: &'a SimpleMatrix<'t>,
) -> Result<Vec<(&'a str, WorkerParams<'t>)>, FieldError> {
    let built_in = WorkerParams {
        args: Some(BUILT_IN.1.iter().map(|word| word.to_string()).collect()),
        ..WorkerParams::default()
    };
    let built_in = BTreeMap::from([(BUILT_IN.0.to_string(), built_in)]);
    let own = input.worker_presets.clone().unwrap_or_default();
    let mut workers = Vec::new();
    for (at, name) in matrix.workers.iter().flatten().enumerate() {
        let Some(preset) = own.get(name).or_else(|| built_in.get(name)) else {
            let known: Vec<String> = own
                .keys()
                .chain(built_in.keys())
                .map(|name| format!("`{}`", clean(name)))
                .collect();
            let fault = Fault::UnknownPreset { name: name.clone(), known };
            return Err(FieldError::new(format!("Input.SimpleMatrix.Workers[{at}]"), fault));
        };
        let words = preset.args.as_deref().unwrap_or_default();
        let path = format!("Input.WorkerPresets.{name}.Args");
        args::parse(words).map_err(|error| error.into_field(&path))?;
        workers.push((name.as_str(), preset.clone()));
    }
    if workers.is_empty() {
        return Err(FieldError::new("Input.SimpleMatrix.Workers", Fault::NoWorker));
    }
    Ok(workers)
}

#[cfg(test)]
mod tests;
