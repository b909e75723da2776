//! Computes the CPU time that the worker sets of a run wanted, were entitled to and got, if the file has a
//! solo run ("baseline") of each. The original's README asks for it; its report does not have it.
//!
//! Input: the runs of a file and their figures. Output: [`RunFairness`], or why it is not known. Pure. The
//! method is that of plans: docs/method.md, "Fairness between sets".

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{CpuSet, MAX_CPU, Reading};
use crate::report::{clean, shortened};
use crate::stats::{
    self, COMPLETED_NOTHING, CompetingSet, Competitor, Fairness, NO_SOLO_OPERATIONS, Priority,
};

use super::figures::{
    FAIRNESS_FIGURES, RunFairness, RunFigures, SetFigures, WorkerFigures, fixed, throughput,
};
use super::file::{Plan, Run, WorkerSet};

/// After `set`: each title on two lines, in the words of the reports of plans.
pub(super) const COLUMNS: [[&str; 2]; FAIRNESS_FIGURES] = [
    ["", "want"],
    ["", "entitled"],
    ["", "got"],
    ["got /", "entitled"],
    ["rate /", "solo"],
    ["max /", "min"],
    ["window", "cv"],
];

/// Explains the columns, in one line above a report that has them.
pub const LEGEND: &str = "Fairness: want, entitled and got are CPUs of a worker (want: in its solo run; \
     entitled: max-min fair share), rate is kops/s, max / min is between workers of a set.";

/// Columns of a label within a sentence.
const LABEL_COLUMNS: usize = 60;

/// Adds the fairness to the figures of each run. `runs` are those of the plan, in order.
pub(super) fn add(plan: &Plan, runs: &mut [RunFigures]) {
    let solos = solos(plan, runs);
    for (run, figures) in plan.runs.iter().zip(runs) {
        figures.fairness = of_run(plan, run, figures, &solos);
    }
}

/// The properties that a set and its solo run must have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SoloKey<'p> {
    /// The arguments without the original's leading `kHZ N`.
    args: Vec<&'p str>,
    scheduler: Option<&'p str>,
    pool: Option<&'p str>,
    cpus: BTreeSet<i64>,
    numa_disable: bool,
}

impl<'p> SoloKey<'p> {
    fn new(plan: &'p Plan, run: &'p Run, set: &'p WorkerSet) -> Self {
        let words = set.params.args.as_deref().unwrap_or_default();
        let words = if words.len() >= 2 && words[0] == "kHZ" { &words[2..] } else { words };
        SoloKey {
            args: words.iter().map(String::as_str).collect(),
            scheduler: plan.scheduler(run),
            pool: plan.pool(run, set),
            cpus: cpus(plan, run),
            numa_disable: plan.numa_disable(run),
        }
    }
}

/// A list may name a CPU twice. Empty if the file has none.
fn cpus(plan: &Plan, run: &Run) -> BTreeSet<i64> {
    plan.cpus(run).into_iter().flatten().copied().collect()
}

/// The CPUs that the file asks for, else those that `run` recorded.
fn had_cpus(plan: &Plan, run: &Run) -> BTreeSet<i64> {
    let asked = cpus(plan, run);
    if !asked.is_empty() {
        return asked;
    }
    let found = run.results.schedlab.as_ref().and_then(|found| found.cpus.as_ref());
    found.into_iter().flatten().copied().collect()
}

/// A run of one worker.
enum Solo {
    /// CPUs that it used, at most one, and its kops a second; and what disturbed it.
    Completed { want: Reading<f64>, rate: Reading<f64>, disturbed: Option<String> },
    /// The run that is not completed, for a message.
    NotCompleted(String),
}

/// The last completed solo run of each kind.
fn solos<'p>(plan: &'p Plan, runs: &[RunFigures]) -> BTreeMap<SoloKey<'p>, Solo> {
    let mut solos = BTreeMap::new();
    for (run, figures) in plan.runs.iter().zip(runs) {
        let [set @ WorkerSet { count: 1, .. }] = run.worker_sets.as_deref().unwrap_or_default()
        else {
            continue;
        };
        let solo_key = SoloKey::new(plan, run, set);
        if run.completed {
            let worker = figures.sets.first().and_then(|set| set.workers.first());
            let Measured { got, rate, .. } = worker.map_or_else(Measured::nothing, measured);
            let rate = alone(rate);
            let want = match (alone(got), &rate) {
                // A worker that did nothing alone does not show what it wants.
                (Reading::Known(_), Reading::Known(0.0)) => {
                    Reading::Unknown(NO_SOLO_OPERATIONS.to_string())
                }
                (got, _) => got,
            };
            let disturbed = disturbed(run);
            solos.insert(solo_key, Solo::Completed { want, rate, disturbed });
        } else {
            let label = shortened(run.label.trim_end(), LABEL_COLUMNS);
            let which = format!("run {} `{label}` is not completed", figures.index);
            solos.entry(solo_key).or_insert(Solo::NotCompleted(which));
        }
    }
    solos
}

/// The disturbances of the run, in one text; `None` if there were none or the file does not say.
fn disturbed(run: &Run) -> Option<String> {
    let found = &run.results.schedlab.as_ref()?.disturbances;
    let found: Vec<String> = found.iter().map(|found| clean(found)).collect();
    (!found.is_empty()).then(|| found.join("; "))
}

fn alone(reading: Reading<f64>) -> Reading<f64> {
    reading.map_unknown(|why| format!("in a solo run {why}"))
}

/// A worker's figures in its run; unknown if its reports do not say.
struct Measured {
    /// CPUs.
    got: Reading<f64>,
    /// Thousand operations a second.
    rate: Reading<f64>,
    /// Coefficient of variation of the throughput of its windows.
    window_cv: Reading<f64>,
}

const NO_WINDOW: &str = "a worker has no window";

impl Measured {
    fn nothing() -> Self {
        let unknown = || Reading::Unknown(NO_WINDOW.to_string());
        Measured { got: unknown(), rate: unknown(), window_cv: unknown() }
    }
}

fn measured(worker: &WorkerFigures) -> Measured {
    if !worker.has_window() {
        return Measured::nothing();
    }
    let (rate, got) = (worker.throughput, worker.utilisation);
    // The original writes a CPU time of 0 if it could not read it.
    let is_known = got > 0.0 || (got == 0.0 && rate == 0.0);
    let windows: Vec<f64> =
        worker.reports.windows(2).map(|pair| throughput(&pair[0], &pair[1])).collect();
    let why = match windows.len() {
        1 => "a worker has one window only",
        _ => COMPLETED_NOTHING,
    };
    Measured {
        got: Reading::from_option(is_known.then_some(got), "a worker's CPU time is not known"),
        rate: Reading::Known(rate),
        window_cv: Reading::from_option(stats::cv(&windows), why),
    }
}

/// `None` for one worker alone and for a run that is not completed.
fn of_run(
    plan: &Plan,
    run: &Run,
    figures: &RunFigures,
    solos: &BTreeMap<SoloKey, Solo>,
) -> Option<Reading<RunFairness>> {
    let sets = run.worker_sets.as_deref().unwrap_or_default();
    let workers = sets.iter().fold(0i64, |sum, set| sum.saturating_add(set.count.max(0)));
    if !run.completed || workers < 2 {
        return None;
    }
    let cpus = pool_cpus(plan, run);
    let (mut competing, mut of_sets, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (set, found)) in sets.iter().zip(&figures.sets).enumerate() {
        match solos.get(&SoloKey::new(plan, run, set)) {
            Some(Solo::Completed { want, rate: solo_rate, disturbed }) => {
                let workers = measured_workers(found);
                competing.push(competing_set(cpus.clone(), want, solo_rate, &workers));
                of_sets.push((mean(workers.into_iter().map(|worker| worker.window_cv)), disturbed));
            }
            Some(Solo::NotCompleted(which)) => missing.push((at, which.as_str())),
            None => missing.push((at, NO_SUCH_RUN)),
        }
    }
    if !missing.is_empty() {
        return Some(Reading::Unknown(without_solo(missing)));
    }
    // Only `Count` says how many workers there were.
    if let Some(at) = figures.sets.iter().position(|set| set.workers.is_empty()) {
        return Some(Reading::Unknown(format!("no worker of set {at} has reported")));
    }
    let Fairness { cpus, jain, sets } = stats::fairness(&competing, &[]);
    let disturbed = of_sets.iter().map(|(_, disturbed)| (*disturbed).clone()).collect();
    let cells = sets.into_iter().zip(of_sets).map(|(share, (window_cv, _))| {
        [
            share.want,
            share.entitled,
            share.got,
            share.got_over_entitled,
            share.throughput_vs_solo,
            share.max_over_min,
            window_cv,
        ]
    });
    Some(Reading::Known(RunFairness { cpus, sets: cells.collect(), jain, disturbed }))
}

/// All workers of a set. One that has not reported has no figures.
fn measured_workers(found: &SetFigures) -> Vec<Measured> {
    let silent = found.count.saturating_sub(found.workers.len());
    let silent = std::iter::repeat_with(Measured::nothing).take(silent);
    found.workers.iter().map(measured).chain(silent).collect()
}

/// One scheduler for all, and no weights in a `.bench` file.
fn competing_set(
    cpus: Reading<CpuSet>,
    want: &Reading<f64>,
    solo_rate: &Reading<f64>,
    workers: &[Measured],
) -> CompetingSet {
    let competitor = |worker: &Measured| Competitor {
        want: want.clone(),
        got: worker.got.clone(),
        rate: worker.rate.clone(),
    };
    CompetingSet {
        cgroup: None,
        cpus,
        priority: Priority { weight: 1.0, rank: 0 },
        workers: workers.iter().map(competitor).collect(),
        rate: mean(workers.iter().map(|worker| worker.rate.clone())),
        solo_rate: solo_rate.clone(),
        is_want_measured: true,
    }
}

const NO_SUCH_RUN: &str =
    "no run of it alone (Count 1) has the same Scheduler, Pool, Cpus and NumaDisable";

fn without_solo(missing: Vec<(usize, &str)>) -> String {
    let reasons = by_reason(missing.into_iter());
    let parts = reasons.iter().map(|(why, sets)| format!("no solo run of set {sets}: {why}"));
    parts.collect::<Vec<_>>().join("; ")
}

/// The CPUs that the workers compete for.
fn pool_cpus(plan: &Plan, run: &Run) -> Reading<CpuSet> {
    let sets = run.worker_sets.iter().flatten();
    let pools: BTreeSet<_> = sets.map(|set| plan.pool(run, set)).collect();
    let cpus = had_cpus(plan, run);
    let is_cpu = |cpu: &i64| (0..=i64::from(MAX_CPU)).contains(cpu);
    let unknown = |why: &str| Reading::Unknown(why.to_string());
    match cpus.is_empty() {
        _ if pools.len() > 1 => unknown("its worker sets are in several pools"),
        true => unknown("the run has no `Cpus`"),
        false if !cpus.iter().all(is_cpu) => {
            unknown("the run's `Cpus` are not all numbers of CPUs")
        }
        false => Reading::Known(cpus.into_iter().map(|cpu| cpu as u32).collect()),
    }
}

/// Known only where every part is.
fn mean(parts: impl Iterator<Item = Reading<f64>>) -> Reading<f64> {
    let parts: Reading<Vec<f64>> = parts.collect();
    parts.and_then(|parts| Reading::from_option(stats::mean(&parts), NO_WINDOW))
}

/// A run's fairness in words and cells, for text and page.
#[derive(Debug, PartialEq, serde::Serialize)]
pub(super) struct Shown {
    pub heading: String,
    /// A row for each set, in the order of [`COLUMNS`].
    pub rows: Vec<[String; COLUMNS.len()]>,
    /// Below the table: Jain's index, and why cells have no figure.
    pub lines: Vec<String>,
}

pub(super) fn shown(fairness: &Reading<RunFairness>) -> Shown {
    let RunFairness { cpus, sets, jain, disturbed } = match fairness {
        Reading::Known(known) => known,
        Reading::Unknown(why) => {
            let heading = format!("fairness: {why}");
            return Shown { heading, rows: Vec::new(), lines: Vec::new() };
        }
    };
    let heading = match cpus {
        Reading::Known(1) => "fairness on 1 CPU".to_string(),
        Reading::Known(cpus) => format!("fairness on {cpus} CPUs"),
        Reading::Unknown(why) => format!("fairness; entitlement is unknown: {why}"),
    };
    let mut lines = vec![format!("Jain's index of got / entitled: {}", cell(jain, 3))];
    // The heading has this reason.
    let in_heading = match cpus {
        Reading::Unknown(why) => why.as_str(),
        Reading::Known(_) => "",
    };
    let unknown = sets.iter().enumerate().flat_map(|(at, set)| {
        let whys = set.iter().filter_map(|cell| match cell {
            Reading::Unknown(why) if why != in_heading => Some(why.as_str()),
            _ => None,
        });
        whys.map(move |why| (at, why))
    });
    let unknown = by_reason(unknown);
    lines.extend(unknown.iter().map(|(why, sets)| format!("- of set {sets}: {why}")));
    if let Reading::Unknown(why) = jain
        && why != in_heading
        && unknown.iter().all(|(known, _)| known != why)
    {
        lines.push(format!("- of Jain's index: {why}"));
    }
    let marked = disturbed.iter().enumerate().filter_map(|(at, why)| Some((at, why.as_deref()?)));
    lines.extend(
        by_reason(marked)
            .iter()
            .map(|(why, sets)| format!("* want of set {sets}: its solo run was disturbed: {why}")),
    );
    let rows = sets.iter().zip(disturbed).map(|(set, disturbed)| {
        let mut row = set.each_ref().map(|reading| cell(reading, 2));
        if disturbed.is_some() {
            row[0].push('*');
        }
        row
    });
    Shown { heading, rows: rows.collect(), lines }
}

fn cell(reading: &Reading<f64>, digits: usize) -> String {
    match reading {
        Reading::Known(value) => fixed(*value, digits),
        Reading::Unknown(_) => "-".to_string(),
    }
}

/// Each reason once, in their order, with the sets that have it: `0, 2`.
fn by_reason<'r>(sets: impl Iterator<Item = (usize, &'r str)>) -> Vec<(&'r str, String)> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for (at, why) in sets {
        let at = at.to_string();
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, sets)) if sets.last() == Some(&at) => {}
            Some((_, sets)) => sets.push(at),
            None => reasons.push((why, vec![at])),
        }
    }
    reasons.into_iter().map(|(why, sets)| (why, sets.join(", "))).collect()
}

#[cfg(test)]
mod tests;
