//! From the reports of a run to the figures of the original's tables.
//!
//! Input: a file that has been read. Output: figures of each run, worker set, worker and
//! window; or the report that makes no sense, by run, index and worker. Pure.
//!
//! A report is cumulative, a window lies between two reports of one worker. Throughput is thousand operations
//! a second, utilisation CPU time by time. The original's averages divide all operations since the worker
//! began, so also those before its first report, by the time since that report; and its minima take a 0 for
//! "not yet". Here averages count from the first report, a window of nothing is a minimum, and a worker
//! without a window is left out, unless [`Averages::Original`] is asked for.
//!
//! Memory is bounded by the number of reports, not by `Count`.

use std::collections::BTreeMap;
use std::{panic, thread};

use crate::report::clean;

use super::super::CompatError;
use super::args;
use super::error::{Fault, FieldError, ReportError, ReportFault};
use super::expand::too_many;
use super::fairness;
use super::figures::{Averages, RunFigures, SetFigures, WorkerFigures, throughput, utilisation};
use super::file::{BenchFile, Conditions, RawId, RawReport, Report, Reports, Run, WorkerSet};

/// A thread reads at least this number of runs.
const MIN_SHARE: usize = 8;

impl BenchFile<'_> {
    /// Figures of every run, also of those that are not completed.
    pub fn figures(&self, averages: Averages) -> Result<Vec<RunFigures>, CompatError> {
        let mut runs = self.all_figures(averages)?;
        if averages == Averages::Right {
            fairness::add(&self.plan, &mut runs);
        }
        Ok(runs)
    }

    /// By all CPUs: reading the reports takes longest, and each run is read by itself.
    fn all_figures(&self, averages: Averages) -> Result<Vec<RunFigures>, CompatError> {
        let count = self.plan.runs.len();
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let share = count.div_ceil(cpus).max(MIN_SHARE);
        let part = &|first: usize| {
            let runs = first..count.min(first + share);
            runs.map(|index| self.run_figures(index, averages)).collect::<Result<Vec<_>, _>>()
        };
        thread::scope(|scope| {
            let spawn = |first| {
                let thread = thread::Builder::new().spawn_scoped(scope, move || part(first));
                (first, thread)
            };
            let others: Vec<_> = (share..count).step_by(share).map(spawn).collect();
            let mut runs = part(0)?;
            for (first, thread) in others {
                // Where there is no thread to be had, this one reads on.
                let found = thread.map_or_else(
                    |_| part(first),
                    |thread| thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic)),
                );
                runs.extend(found?);
            }
            Ok(runs)
        })
    }

    /// Refuses what [`BenchFile::figures`] would refuse. Only one run at a time is in memory.
    pub fn check_results(&self) -> Result<(), CompatError> {
        let runs = 0..self.plan.runs.len();
        runs.into_iter().try_for_each(|index| self.run_figures(index, Averages::Right).map(drop))
    }

    fn run_figures(&self, index: usize, averages: Averages) -> Result<RunFigures, CompatError> {
        let run = &self.plan.runs[index];
        let raw = self.raw_reports(index)?;
        let refuse = |error: FieldError| self.refuse(index, &error);
        if run.completed {
            runnable(run).map_err(refuse)?;
        }
        if run.completed || !raw.is_empty() {
            // A large `Count` would be written as that many rows.
            too_many(run).map_err(refuse)?;
        }
        let mut sets: Vec<Filling> = run.worker_sets.iter().flatten().map(Filling::new).collect();
        for (at, raw) in raw.iter().enumerate() {
            let report = checked(raw, run).and_then(|report| add(&mut sets, report, averages));
            report.map_err(|error| {
                refuse(FieldError::new(format!("Results.Raw[{at}]"), Fault::Report(error)))
            })?;
        }
        let sets: Vec<SetFigures> = sets.into_iter().map(|set| set.summarise(averages)).collect();
        let notes = match averages {
            Averages::Right => notes(run, &sets),
            Averages::Original => Vec::new(),
        };
        let (label, completed) = (run.label.clone(), run.completed);
        Ok(RunFigures { index, label, completed, sets, notes, fairness: None })
    }

    fn refuse(&self, index: usize, error: &FieldError) -> CompatError {
        let label = clean(&self.plan.runs[index].label);
        CompatError::usage(
            format!("{}: run {index} `{label}`: {error}", self.name),
            "to go on with the other runs, take this one out of a copy of the file",
        )
    }

    /// Stores the results of a run and marks it as completed. Reports may come in any order; they are stored
    /// in order of time.
    pub fn store(
        &mut self,
        index: usize,
        mut reports: Vec<Report>,
        conditions: Conditions<'static>,
    ) {
        let Some(run) = self.plan.runs.get_mut(index) else { return };
        for report in &mut reports {
            // The original takes a moment of 0 for a worker that has not begun.
            report.now_ns = report.now_ns.max(1);
        }
        reports.sort_by_key(|report| (report.now_ns, report.set, report.id));
        run.results.raw = Reports::Measured(reports);
        run.results.summary = None;
        run.results.schedlab = Some(conditions);
        run.completed = true;
    }
}

/// Refuses values that no completed run can have; a run that is not completed may have them.
fn runnable(run: &Run) -> Result<(), FieldError> {
    let completed = |error: FieldError| FieldError {
        fault: Fault::Completed(Box::new(error.fault)),
        path: error.path,
    };
    let sets = run.worker_sets.as_deref().unwrap_or_default();
    if sets.is_empty() {
        return Err(completed(FieldError::new("WorkerSets", Fault::NoSet)));
    }
    for (at, WorkerSet { params, count, .. }) in sets.iter().enumerate() {
        if *count < 1 {
            let fault = Fault::CompletedWithout(*count);
            return Err(FieldError::new(format!("WorkerSets[{at}].Count"), fault));
        }
        let path = format!("WorkerSets[{at}].Params.Args");
        args::check_words(params.args.as_deref().unwrap_or_default())
            .map_err(|error| completed(error.into_field(&path)))?;
    }
    Ok(())
}

const UNREAD: &str = "a CPU time that could not be read: uavgavg and ustdev are of the others";

/// For a run that has begun: notes on the run, and the workers that are not in its averages.
fn notes(run: &Run, sets: &[SetFigures]) -> Vec<String> {
    let mut notes = Vec::new();
    if run.completed || sets.iter().any(|set| !set.workers.is_empty()) {
        for (at, set) in sets.iter().enumerate() {
            let have = set.workers.iter().filter(|worker| worker.has_window()).count();
            match set.count - have {
                0 => {}
                1 => notes.push(format!("1 worker of set {at} has no window")),
                left => notes.push(format!("{left} workers of set {at} have no window")),
            }
            let unread =
                |worker: &&WorkerFigures| worker.has_window() && worker.utilisation.is_nan();
            match set.workers.iter().filter(unread).count() {
                0 => {}
                1 => notes.push(format!("1 worker of set {at} has {UNREAD}")),
                many => notes.push(format!("{many} workers of set {at} have {UNREAD}")),
            }
        }
    }
    notes.extend(run.results.schedlab.iter().flat_map(Conditions::lines));
    notes
}

/// A report with all of its fields, and an id that the run has.
fn checked(raw: &RawReport, run: &Run) -> Result<Report, ReportError> {
    let worker = raw.id.as_ref().map(|RawId { set, id, .. }| [*set, *id]);
    let refuse = |fault| ReportError { worker, fault };
    let missing = |field| move || refuse(ReportFault::Missing(field));
    let id = raw.id.as_ref().ok_or_else(missing("Id"))?;
    let set = id.set.ok_or_else(missing("Id.Set"))?;
    let worker = id.id.ok_or_else(missing("Id.Id"))?;
    let sets = run.worker_sets.as_deref().unwrap_or_default();
    let set = usize::try_from(set).ok().filter(|&set| set < sets.len());
    let set = set.ok_or_else(|| refuse(ReportFault::Set { sets: sets.len() }))?;
    let count = sets[set].count;
    let worker = usize::try_from(worker).ok().filter(|_| worker < count);
    let worker = worker.ok_or_else(|| refuse(ReportFault::Id { set, count }))?;
    Ok(Report {
        set,
        id: worker,
        now_ns: raw.now.ok_or_else(missing("Now"))?,
        kops: raw.kops.ok_or_else(missing("Kops"))?,
        max_delta_ns: raw.max_delta.ok_or_else(missing("MaxDelta"))?,
        cputime_ns: Some(raw.cputime.ok_or_else(missing("Cputime"))?),
    })
}

/// A worker set while its reports are read.
struct Filling {
    figures: SetFigures,
    workers: BTreeMap<usize, WorkerFigures>,
}

/// Takes a report, and the window that it ends: in the order of the file, which the original's
/// minima depend on.
fn add(sets: &mut [Filling], mut report: Report, averages: Averages) -> Result<(), ReportError> {
    let Filling { figures: set, workers } = &mut sets[report.set];
    let new = || WorkerFigures { id: report.id, ..WorkerFigures::default() };
    let worker = workers.entry(report.id).or_insert_with(new);
    let refuse = |fault| {
        let worker = Some([report.set, report.id].map(|part| i64::try_from(part).ok()));
        Err(ReportError { worker, fault })
    };
    if report.now_ns < 0 || report.kops < 0 || report.cputime_ns < Some(0) {
        return refuse(ReportFault::Negative);
    }
    if averages == Averages::Right && !is_read(&report, worker.last_cputime_ns) {
        report.cputime_ns = None;
    }
    worker.last_cputime_ns = report.cputime_ns.or(worker.last_cputime_ns);
    if let Some(last) = worker.reports.last() {
        let (now, kops) = (report.now_ns, report.kops);
        if now <= last.now_ns {
            return refuse(ReportFault::Now { now, before: last.now_ns });
        }
        if kops < last.kops {
            return refuse(ReportFault::Kops { now: kops, before: last.kops });
        }
        if averages == Averages::Right || last.now_ns != 0 {
            let (ops, cpu) = (throughput(last, &report), utilisation(last, &report));
            worker.throughputs.update(ops, averages);
            worker.utilisations.update(cpu, averages);
            set.throughput.of_windows.update(ops, averages);
            set.utilisation.of_windows.update(cpu, averages);
        }
    }
    worker.reports.push(report);
    Ok(())
}

/// Whether a report has a CPU time: the original writes 0 where it could not read it. `before_ns`: the last one that
/// was read.
fn is_read(report: &Report, before_ns: Option<i64>) -> bool {
    match before_ns {
        Some(before_ns) => report.cputime_ns >= Some(before_ns),
        None => report.cputime_ns > Some(0) || report.kops == 0,
    }
}

impl Filling {
    fn new(set: &WorkerSet) -> Filling {
        let args = set.params.args.clone().unwrap_or_default();
        let count = usize::try_from(set.count).unwrap_or(0);
        let figures = SetFigures { args, count, ..SetFigures::default() };
        Filling { figures, workers: BTreeMap::new() }
    }

    fn summarise(self, averages: Averages) -> SetFigures {
        let mut set = self.figures;
        set.workers = self.workers.into_values().collect();
        for worker in &mut set.workers {
            worker.summarise(averages);
            set.throughput.of_means.update(worker.throughput, averages);
            set.utilisation.of_means.update(worker.utilisation, averages);
        }
        let of = |read: fn(&WorkerFigures) -> f64| -> Vec<f64> {
            match averages {
                Averages::Right => {
                    set.workers.iter().filter(|worker| worker.has_window()).map(read).collect()
                }
                Averages::Original => {
                    set.rows().map(|(_, worker)| worker.map_or(0.0, read)).collect()
                }
            }
        };
        let ops = of(|worker| worker.throughput);
        let mut cpu = of(|worker| worker.utilisation);
        let count = cpu.len();
        if averages == Averages::Right {
            cpu.retain(|cpu| !cpu.is_nan());
        }
        set.throughput.average(&ops);
        set.utilisation.average(&cpu);
        if cpu.len() < count {
            set.utilisation.miss();
        }
        set
    }
}

#[cfg(test)]
mod tests;
