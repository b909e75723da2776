//! A `.bench` file: its fields in the original's order.
//!
//! Input: the text of a file. Output: [`BenchFile`], or what is wrong and where. Pure; `save` and
//! `on_disk` read and write files. Records borrow from the text,
//! so that a file of 100 MB is in memory once; the reports of a run are only delimited by the
//! first reading, and understood when somebody asks for them.
//!
//! Two facts of the original's file that one would not guess: the options of workers stand directly in the
//! outermost object (`Pool`, `SoftAffinity`), and those of a run directly in the run. In a run Go drops
//! `Pool`, because two embedded structures have it; here a run's `Pool` holds if somebody wrote it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::value::RawValue;

use crate::model::{clean_path, json_objects};
use crate::report::clean;
use crate::sys::remedy;

use super::super::CompatError;
use super::json::{self, Misshapen, record};

/// A larger file cannot be a `.bench` file: an hour of 1000 workers has 300 MB.
pub const MAX_BYTES: u64 = 1 << 30;
/// Objects down to the worker sets of runs; reports stand deeper.
const MAX_OBJECTS: usize = 300_000;
const DEPTH_OF_SETS: usize = 4;
const ALL: usize = usize::MAX;
/// Reports without figures do not count as reports; a file may have a few.
const MIN_OBJECTS: usize = 1_000;
const MIN_BYTES_OF_OBJECT: usize = 16;

record! {
    /// Everything in a file.
    Plan {
        input: Option<Input<'t>> = "Input" omitted if Option::is_none,
        /// 0: processes, 1: Xen guests.
        worker_type: i64 = "WorkerType" omitted if is_zero,
        pool: String = "Pool",
        soft_affinity: String = "SoftAffinity",
        /// The original has no such object: its fields are the two above. It is kept, and holds if those are empty.
        worker_config: Option<WorkerConfig<'t>> = "WorkerConfig" omitted if Option::is_none,
        run_config: RunConfig<'t> = "RunConfig",
        runs: Vec<Run<'t>> = "Runs" omitted if Vec::is_empty,
    }
}

record! {
    /// The input from which `plan` makes runs.
    Input {
        /// Sorted by name, as Go writes a map.
        worker_presets: Option<BTreeMap<String, WorkerParams<'t>>> = "WorkerPresets",
        simple_matrix: Option<SimpleMatrix<'t>> = "SimpleMatrix",
    }
}

record! {
    SimpleMatrix {
        schedulers: Option<Vec<String>> = "Schedulers",
        workers: Option<Vec<String>> = "Workers",
        count: Option<Vec<i64>> = "Count",
        numa_disable: Option<Vec<bool>> = "NumaDisable",
    }
}

record! {
    WorkerParams {
        args: Option<Vec<String>> = "Args",
    }
}

record! {
    WorkerConfig {
        pool: String = "Pool",
        soft_affinity: String = "SoftAffinity",
    }
}

record! {
    /// Defaults for all runs.
    RunConfig {
        scheduler: String = "Scheduler",
        pool: String = "Pool",
        cpus: Option<Vec<i64>> = "Cpus",
        numa_disable: Option<bool> = "NumaDisable" omitted if Option::is_none,
    }
}

record! {
    Run {
        label: String = "Label",
        worker_sets: Option<Vec<WorkerSet<'t>>> = "WorkerSets",
        soft_affinity: String = "SoftAffinity",
        scheduler: String = "Scheduler",
        pool: String = "Pool" omitted if String::is_empty,
        cpus: Option<Vec<i64>> = "Cpus",
        numa_disable: Option<bool> = "NumaDisable" omitted if Option::is_none,
        /// 0 counts as missing: [`super::DEFAULT_RUNTIME_SECONDS`].
        runtime_seconds: i64 = "RuntimeSeconds",
        completed: bool = "Completed",
        results: Results<'t> = "Results",
    }
}

record! {
    WorkerSet {
        params: WorkerParams<'t> = "Params",
        config: WorkerConfig<'t> = "Config",
        count: i64 = "Count",
    }
}

record! {
    Results {
        raw: Reports<'t> = "Raw" omitted if Reports::is_empty,
        /// Never written by the original's own commands; kept.
        summary: Option<&'t RawValue> = "Summary" omitted if Option::is_none,
        /// Ours: the original neither writes nor reads it.
        schedlab: Option<Conditions<'t>> = "Schedlab" omitted if Option::is_none,
    }
}

record! {
    /// Notes on the figures of a run that was done here.
    Conditions {
        /// Disturbances of the run, a line each.
        disturbances: Vec<String> = "Disturbances" omitted if Vec::is_empty,
        /// The value of each knob that was read back, a line each; also the form of the pool.
        knobs: Vec<String> = "Knobs" omitted if Vec::is_empty,
        /// The CPUs that it was placed on. `None` if not known.
        cpus: Option<Vec<i64>> = "Cpus" omitted if Option::is_none,
    }
}

record! {
    /// One line of a worker. A missing field is an error only when it is needed.
    RawReport {
        id: Option<RawId<'t>> = "Id",
        now: Option<i64> = "Now",
        kops: Option<i64> = "Kops",
        max_delta: Option<i64> = "MaxDelta",
        cputime: Option<i64> = "Cputime",
    }
}

record! {
    RawId {
        set: Option<i64> = "Set",
        id: Option<i64> = "Id",
    }
}

/// The reports of a run, in the order in which they arrived.
#[derive(Debug, Clone)]
pub enum Reports<'t> {
    /// The unchanged text of the file.
    Kept(&'t RawValue),
    Measured(Vec<Report>),
}

/// A worker's cumulative figures at one moment, in the units of the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    pub set: usize,
    pub id: usize,
    pub now_ns: i64,
    pub kops: i64,
    /// The largest delay of a start since the report before.
    pub max_delta_ns: i64,
    /// `None` where it could not be read, for which the file has 0.
    pub cputime_ns: Option<i64>,
}

impl Conditions<'_> {
    /// One line each, not yet clean.
    pub(super) fn lines(&self) -> Vec<String> {
        let knobs =
            (!self.knobs.is_empty()).then(|| format!("knobs read back: {}", self.knobs.join("; ")));
        let disturbances = self.disturbances.iter().map(|found| format!("disturbed: {found}"));
        knobs.into_iter().chain(disturbances).collect()
    }
}

impl Default for Reports<'_> {
    fn default() -> Self {
        Reports::Measured(Vec::new())
    }
}

impl Reports<'_> {
    pub fn is_empty(&self) -> bool {
        match self {
            Reports::Kept(text) => {
                let inner = text.get().trim_start_matches('[').trim_end_matches(']');
                text.get().starts_with('[') && inner.trim().is_empty()
            }
            Reports::Measured(list) => list.is_empty(),
        }
    }
}

impl<'de> serde::Deserialize<'de> for Reports<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(from).map(Reports::Kept)
    }
}

impl serde::Serialize for Reports<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Reports::Kept(text) => text.serialize(to),
            Reports::Measured(list) => to.collect_seq(list.iter().map(RawReport::from)),
        }
    }
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// A file that has been read, with its changes since.
#[derive(Debug, Clone)]
pub struct BenchFile<'t> {
    pub plan: Plan<'t>,
    pub(super) name: String,
    pub(super) text: &'t str,
}

/// Bytes as the text of the file at `path`, which is here a name for messages only.
pub fn utf8(bytes: Vec<u8>, path: &Path) -> Result<String, CompatError> {
    let name = clean_path(path);
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let (line, before) = json::place(good);
        let column = before + 1;
        let text = format!("{name}:{line}:{column}: not UTF-8 from here on");
        CompatError::usage(text, remedy::to_utf8(path))
    })
}

pub(super) const HINT: &str =
    "schedlab help schedbench --all describes the fields of the file; it was left as it is";

impl<'t> BenchFile<'t> {
    /// Reads the text of the file at `path`, which is here a name for messages only.
    pub fn parse(text: &'t str, path: &Path) -> Result<BenchFile<'t>, CompatError> {
        let name = clean_path(path);
        let objects = json_objects(text.as_bytes(), DEPTH_OF_SETS);
        if objects > MAX_OBJECTS {
            let text = format!("{name}: it has {objects} runs, worker sets and the like");
            return Err(CompatError::usage(text, format!("at most {MAX_OBJECTS}: {HINT}")));
        }
        match json::read::<Plan>(text) {
            Ok(plan) => Ok(BenchFile { plan, name, text }),
            Err(found) => Err(refusal(&name, &found)),
        }
    }

    /// The unchanged reports of one run, not yet checked against its worker sets.
    pub(super) fn raw_reports(&self, run: usize) -> Result<Vec<RawReport<'t>>, CompatError> {
        let results = &self.plan.runs[run].results;
        match &results.raw {
            Reports::Kept(text) => {
                let path = format!("Runs[{run}].Results.Raw");
                let (bytes, objects) = (text.get().len(), json_objects(text.get().as_bytes(), ALL));
                // A report has an object for its worker, and figures.
                if objects > MIN_OBJECTS + bytes / MIN_BYTES_OF_OBJECT {
                    let text =
                        format!("{}: `{path}`: {objects} objects without figures", self.name);
                    return Err(CompatError::usage(text, HINT));
                }
                json::read_part(self.text, text, &path).map_err(|found| refusal(&self.name, &found))
            }
            Reports::Measured(list) => Ok(list.iter().map(RawReport::from).collect()),
        }
    }
}

impl From<&Report> for RawReport<'_> {
    fn from(report: &Report) -> Self {
        let set = i64::try_from(report.set).ok();
        let id = i64::try_from(report.id).ok();
        RawReport {
            id: Some(RawId { set, id, ..RawId::default() }),
            now: Some(report.now_ns),
            kops: Some(report.kops),
            max_delta: Some(report.max_delta_ns),
            cputime: Some(report.cputime_ns.unwrap_or(0)),
            ..RawReport::default()
        }
    }
}

fn refusal(name: &str, found: &Misshapen) -> CompatError {
    let Misshapen { line, column, path, what } = found;
    let at = if path.is_empty() { String::new() } else { format!("`{}`: ", clean(path)) };
    // serde_json counts 0 before the first character.
    let column = column.max(&1);
    CompatError::usage(format!("{name}:{line}:{column}: {at}{}", clean(what)), HINT)
}

#[cfg(test)]
mod tests;
