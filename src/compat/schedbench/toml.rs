//! `schedlab import`: a `.bench` file as a plan in our own format.
//!
//! Input: a file that has been read. Output: the text of a plan that [`crate::plan::parse`]
//! takes, or why there is none. Pure.
//!
//! A plan crosses every workload with every variant and has one placement; a `.bench` file gives all of it
//! for each run. Settings that a plan cannot express become comments. Names of the file are data: the TOML
//! crate quotes them, and comments hold nothing unprintable.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{CpuSet, MemoryPlacement, PoolName, WorkerKind, show_duration};
use crate::plan::{self, toml_text as quoted};
use crate::report::clean;
use crate::sys::xen;
use crate::workload::BurnItem;

use super::super::CompatError;
use super::args;
use super::expand::{Pending, preset_args};
use super::file::BenchFile;
use super::run::{GUESTS, PROCESSES, XEN_SOFT, machine_of, variant};

/// Enough for an interval; the original does each run once.
const ROUNDS: u32 = 5;
/// Maximum number of worker sets in one workload of a plan.
const MAX_SETS: usize = 16;
const MAX_NAME_CHARS: usize = 64;
const NS_PER_S: u64 = 1_000_000_000;

/// The file's runs, or those that its matrix makes, as the text of a plan.
pub fn plan_text(file: &BenchFile) -> Result<String, CompatError> {
    let runs = all_runs(file)?;
    let from = file.name.rsplit('/').next().unwrap_or_default();
    let mut lines = vec![
        format!("# From {from}, by `schedlab import`: its runs are the workloads, its schedulers"),
        "# the variants; each workload is run with each variant.".to_string(),
    ];
    let worker_type = file.plan.worker_type;
    lines.extend(remarks(worker_type, &runs));
    lines.push(format!("schema = {}", crate::model::PLAN_SCHEMA));
    let title = fit(from).unwrap_or_else(|| "a .bench file".to_string());
    lines.push(format!("title = {}", quoted(&title)));
    lines.extend(measure(&runs));
    if worker_type == GUESTS {
        lines.extend(lab(&runs));
    }
    lines.extend(placement(worker_type, &runs));
    lines.extend(variants(worker_type, &runs));
    lines.extend(workloads(worker_type, &presets(file), &runs));
    let text = lines.join("\n") + "\n";
    // A plan that is too large is refused here, before a run uses it.
    match plan::parse("plan.toml", &text, None, plan::Known::default()) {
        Ok(_) => Ok(text),
        Err(errors) => {
            let why = errors.errors().first().map(|error| error.one_line()).unwrap_or_default();
            Err(CompatError::usage(
                format!("{}: it makes no plan: {why}", file.name),
                format!("schedlab schedbench -f {} run", file.name),
            ))
        }
    }
}

/// Every run with what it inherits, completed or not; solo runs first.
fn all_runs(file: &BenchFile) -> Result<Vec<Pending>, CompatError> {
    let mut fresh = file.clone();
    if fresh.plan.runs.is_empty() {
        fresh.expand_to_any_size()?;
    }
    fresh.plan.runs.iter_mut().for_each(|run| run.completed = false);
    let mut runs = fresh.pending_of_any_size()?;
    let is_solo = |run: &Pending| run.sets.len() == 1 && run.sets[0].count == 1;
    runs.sort_by_key(|run| !is_solo(run));
    Ok(runs)
}

/// Comments on settings of the file that no plan can express.
fn remarks(worker_type: i64, runs: &[Pending]) -> Vec<String> {
    let mut remarks = Vec::new();
    if ![PROCESSES, GUESTS].contains(&worker_type) {
        remarks.push(format!("# WorkerType {worker_type} is unknown: here they are processes."));
    }
    let soft = distinct(runs.iter().flat_map(|run| &run.sets).map(|set| &set.soft_affinity));
    if worker_type == GUESTS && soft.len() > 1 {
        remarks.push("# In the file SoftAffinity differs between runs.".to_string());
    } else if worker_type != GUESTS && soft.iter().any(|soft| soft.is_some()) {
        remarks.push("# SoftAffinity is Xen's: left out.".to_string());
    }
    let schedulers = distinct(runs.iter().map(|run| &run.scheduler)).len();
    let works = distinct(runs.iter().map(combination));
    let pairs = distinct(runs.iter().map(|run| (combination(run), &run.scheduler)));
    if pairs.len() < works.len() * schedulers {
        remarks.push("# In the file not every workload has every scheduler.".to_string());
    }
    remarks
}

fn measure(runs: &[Pending]) -> Vec<String> {
    let seconds = distinct(runs.iter().map(|run| run.runtime_seconds));
    let longest = seconds.iter().copied().max().unwrap_or_default();
    let mut lines = vec![String::new(), "[measure]".to_string()];
    lines.push(format!("rounds = {ROUNDS}"));
    let duration = quoted(&show_duration(longest * NS_PER_S));
    let differ = if seconds.len() > 1 { "  # of the longest run; others are shorter" } else { "" };
    lines.push(format!("duration = {duration}{differ}"));
    lines
}

/// The machine of guests.
fn lab(runs: &[Pending]) -> Vec<String> {
    let lab = machine_of(runs, xen::USUAL_GUEST_BYTES);
    vec![
        String::new(),
        "[lab]".to_string(),
        format!("kernel = {}", quoted(&lab.kernel)),
        format!("cpus = {}", lab.cpus),
        format!("nodes = {}", lab.nodes),
        format!("memory = {}", quoted(&format!("{}MiB", lab.memory_bytes >> 20))),
    ]
}

/// The placement of the first run; comments describe the differences of others.
fn placement(worker_type: i64, runs: &[Pending]) -> Vec<String> {
    let mut lines = Vec::new();
    let cpus = distinct(runs.iter().map(|run| run.cpus.as_ref()));
    let show = |cpus: &Option<&Vec<u32>>| {
        cpus.map(|cpus| cpus.iter().copied().collect::<CpuSet>().to_string())
    };
    if let Some(set) = cpus.first().and_then(show) {
        lines.push(format!("cpus = {}", quoted(&set)));
    }
    for other in cpus.iter().skip(1) {
        let other = show(other).map_or("no Cpus".to_string(), |set| format!("CPUs {set}"));
        lines.push(format!("# other runs have {other}"));
    }
    let mut pools =
        distinct(runs.iter().flat_map(|run| &run.sets).map(|set| &set.pool)).into_iter();
    if let Some(Some(name)) = pools.next() {
        match name.parse::<PoolName>() {
            Ok(pool) => lines.push(format!("pool = {}", quoted(pool.as_str()))),
            Err(why) => lines.push(format!("# {}", clean(&why.to_string()))),
        }
    }
    for other in pools {
        let other =
            other.as_deref().map_or("no Pool".into(), |name| format!("pool {}", clean(name)));
        lines.push(format!("# other workers have {other}"));
    }
    let memory = |is_off: &bool| {
        if *is_off { MemoryPlacement::Interleave } else { MemoryPlacement::Kernel }
    };
    let mut numa_disable = distinct(runs.iter().map(|run| run.numa_disable));
    if worker_type == GUESTS && numa_disable.contains(&true) {
        let all = "# NumaDisable: for guests, xen-soft-affinity with the CPUs of the pool";
        lines.push(all.to_string());
        numa_disable.clear();
    }
    for (at, is_off) in numa_disable.iter().enumerate() {
        let value = quoted(memory(is_off).word());
        let (begin, of) = if at == 0 { ("", "") } else { ("# ", ", of other runs") };
        // A plan has the kernel's own scheduler anyway.
        if *is_off || numa_disable.len() > 1 {
            lines.push(format!("{begin}memory = {value}  # NumaDisable {is_off}{of}"));
        }
    }
    if lines.is_empty() {
        return lines;
    }
    [vec![String::new(), "[placement]".to_string()], lines].concat()
}

/// Schedulers that this machine may have; those of other systems as comments.
fn variants(worker_type: i64, runs: &[Pending]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut is_any = false;
    for scheduler in distinct(runs.iter().map(|run| run.scheduler.as_deref())) {
        let kind = if worker_type == GUESTS { WorkerKind::Guests } else { WorkerKind::Processes };
        match variant(scheduler, &[], kind) {
            Ok(made) => {
                is_any = true;
                lines.extend(["".to_string(), "[[variant]]".to_string()]);
                lines.push(format!("name = {}", quoted(scheduler.unwrap_or("default"))));
                lines.extend(made.knobs.iter().map(|(knob, value)| {
                    let value = value
                        .as_int()
                        .map_or_else(|| quoted(&value.to_string()), |n| n.to_string());
                    format!("{knob} = {value}")
                }));
            }
            Err(why) => {
                let name = quoted(&clean(scheduler.unwrap_or_default()));
                lines.extend(["".to_string(), format!("# {}", clean(&why.to_string()))]);
                lines.extend(["# [[variant]]".to_string(), format!("# name = {name}")]);
            }
        }
    }
    if !is_any {
        let default = ["", "[[variant]]", "name = \"default\""].map(str::to_string);
        lines.splice(0..0, default);
    }
    lines
}

/// Worker sets as queues and counts; runs with equal ones have the same workload.
type Combination = Vec<(Vec<BurnItem>, u32)>;

fn combination(run: &Pending) -> Combination {
    run.sets.iter().map(|set| (set.queue.clone(), set.count)).collect()
}

fn workloads(
    worker_type: i64,
    presets: &[(String, Vec<BurnItem>)],
    runs: &[Pending],
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut done = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for run in runs {
        if !done.insert(combination(run)) {
            continue;
        }
        lines.push(String::new());
        let workers: u64 = run.sets.iter().map(|set| u64::from(set.count)).sum();
        let label = clean(run.label.trim());
        if run.sets.len() > MAX_SETS {
            let sets = run.sets.len();
            lines.push(format!(
                "# left out: {label}: {sets} worker sets, and a plan takes {MAX_SETS}"
            ));
        } else if workers > plan::MAX_WORKERS as u64 {
            let max = plan::MAX_WORKERS;
            lines.push(format!("# left out: {label}: {workers} workers, and a plan takes {max}"));
        } else {
            lines.extend(workload(worker_type, presets, run, &mut taken));
        }
    }
    lines
}

fn workload(
    worker_type: i64,
    presets: &[(String, Vec<BurnItem>)],
    run: &Pending,
    taken: &mut BTreeSet<String>,
) -> Vec<String> {
    let names = set_names(presets, run);
    let counted = names.iter().zip(&run.sets).map(|(name, set)| format!("{name} {}", set.count));
    let name = counted.collect::<Vec<_>>().join(" + ");
    let name = fit(&name).unwrap_or_else(|| format!("run {}", run.index));
    let mut lines = vec!["[[workload]]".to_string()];
    lines.push(format!("name = {}", quoted(&unique(name, taken))));
    let is_guest = worker_type == GUESTS;
    let kind = if is_guest { "guests" } else { "processes" };
    lines.push(format!("workers = {}", quoted(kind)));
    for (name, set) in names.iter().zip(&run.sets) {
        let steps = set.queue.iter().flat_map(|item| {
            [format!("burn {}", item.work), format!("wait {}", show_duration(item.wait_ns))]
        });
        let steps: Vec<String> = steps.map(|step| quoted(&step)).collect();
        lines.push("[[workload.set]]".to_string());
        lines.push(format!("name = {}", quoted(name)));
        lines.push("use = \"burnwait\"".to_string());
        lines.push(format!("queue = [{}]", steps.join(", ")));
        lines.push(format!("count = {}", set.count));
        let soft = set.soft_affinity.as_deref().filter(|_| is_guest);
        lines.extend(soft.map(|cpus| format!("knobs = {{ {XEN_SOFT} = {} }}", quoted(cpus))));
    }
    lines
}

/// The presets by name, those of the matrix first. Presets with wrong words are left out.
fn presets(file: &BenchFile) -> Vec<(String, Vec<BurnItem>)> {
    let args = preset_args(file.plan.input.as_ref());
    let read =
        |(name, words): (String, Vec<String>)| args::parse(&words).ok().map(|queue| (name, queue));
    args.into_iter().filter_map(read).collect()
}

/// Names each set after the first preset with its queue that no earlier set has, else by its place.
fn set_names(presets: &[(String, Vec<BurnItem>)], run: &Pending) -> Vec<String> {
    let mut used = BTreeSet::new();
    let mut taken = BTreeSet::new();
    let name = |(at, set): (usize, &super::PendingSet)| {
        let preset = presets.iter().enumerate().find(|(index, (name, queue))| {
            *queue == set.queue && !used.contains(index) && fit(name).is_some()
        });
        let name = match preset {
            Some((index, (name, _))) => {
                used.insert(index);
                name.clone()
            }
            None => format!("set {at}"),
        };
        unique(name, &mut taken)
    };
    run.sets.iter().enumerate().map(name).collect()
}

/// The name, with a number if it is taken.
fn unique(name: String, taken: &mut BTreeSet<String>) -> String {
    let mut free = name.clone();
    let mut number = 2;
    while !taken.insert(free.clone()) {
        let number_text = format!("-{number}");
        let kept = MAX_NAME_CHARS - number_text.len();
        free = name.chars().take(kept).collect::<String>() + &number_text;
        number += 1;
    }
    free
}

/// The text, if a plan may use it as a name.
fn fit(text: &str) -> Option<String> {
    let length = 1..=MAX_NAME_CHARS;
    let fits = length.contains(&text.chars().count())
        && clean(text) == text
        && text.trim() == text
        && !text.starts_with('-');
    fits.then(|| text.to_string())
}

/// Each value once, where it first stands.
fn distinct<T: Ord + Clone>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut places = BTreeMap::new();
    for (at, value) in values.enumerate() {
        places.entry(value).or_insert(at);
    }
    let mut values: Vec<(usize, T)> = places.into_iter().map(|(value, at)| (at, value)).collect();
    values.sort_by_key(|(at, _)| *at);
    values.into_iter().map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests;
