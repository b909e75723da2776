//! `report`: the original's tables, in its layout.
//!
//! Input: figures. Output: lines. Pure. Verbosity 0 shows worker sets, 1 workers too, 2 windows
//! too. Labels and words come from a file: they are cleaned before they reach a terminal.

use std::io::{self, Write};

use crate::model::Reading;
use crate::report::clean;

use super::fairness::{self, LEGEND};
use super::figures::{Averages, RunFigures, SetFigures, WorkerFigures, fixed};
use super::file::Report;

/// Columns of worker sets, after `set`.
pub(super) const COLUMNS: [&str; 14] = [
    "ttotal", "tavgavg", "tstdev", "tavgmax", "tavgmin", "ttotmax", "ttotmin", "utotal", "uavgavg",
    "ustdev", "uavgmax", "uavgmin", "utotmax", "utotmin",
];

/// Columns of workers.
pub(super) const WORKER_COLUMNS: [&str; 10] =
    ["workerid", "toput", "time", "cpu", "tavg", "tmin", "tmax", "uavg", "umin", "umax"];

/// Explains the differences from the original's figures, in one line.
pub const NOTE: &str = "Averages of throughput (ttotal, tavg*, tstdev) count from each worker's first report, \
     and a window of nothing is a minimum; --original-averages: as schedbench has them.";

/// The report of a file.
pub fn write(
    out: &mut dyn Write,
    runs: &[RunFigures],
    verbosity: u32,
    averages: Averages,
) -> io::Result<()> {
    if averages == Averages::Right {
        writeln!(out, "{NOTE}")?;
        if has_fairness(runs) {
            writeln!(out, "{LEGEND}")?;
        }
        writeln!(out)?;
    }
    runs.iter().try_for_each(|run| write_run(out, run, verbosity, averages))
}

/// Whether any run has a table that [`LEGEND`] explains.
pub(super) fn has_fairness(runs: &[RunFigures]) -> bool {
    runs.iter().any(|run| matches!(run.fairness, Some(Reading::Known(_))))
}

fn write_run(
    out: &mut dyn Write,
    run: &RunFigures,
    verbosity: u32,
    averages: Averages,
) -> io::Result<()> {
    let label = clean(&run.label);
    if !run.completed {
        writeln!(out, "Test [{}] {label} not run", run.index)?;
    }
    writeln!(out, "== RUN {label} ==")?;
    for (at, set) in run.sets.iter().enumerate() {
        let words: String = set.args.iter().map(|word| format!(" {}", clean(word))).collect();
        writeln!(out, "Set {at}: {words}")?;
    }
    let names = COLUMNS.map(|name| format!("{name:>8}"));
    writeln!(out, "\n{:>8} {}", "set", names.join(" "))?;
    for (at, set) in run.sets.iter().enumerate() {
        let cells = cells(set).map(|value| format!("{:>8}", fixed(value, 2)));
        writeln!(out, "{at:>8} {}", cells.join(" "))?;
    }
    for note in &run.notes {
        writeln!(out, "{}", clean(note))?;
    }
    if let Some(fairness) = &run.fairness {
        write_fairness(out, &fairness::shown(fairness))?;
    }
    if verbosity >= 1 {
        let names = WORKER_COLUMNS.map(|name| format!("{name:>8}"));
        writeln!(out, "\n{}", names.join(" "))?;
        for (at, set) in run.sets.iter().enumerate() {
            write_workers(out, at, set, verbosity, averages)?;
        }
    }
    writeln!(out, "\n")
}

fn write_fairness(out: &mut dyn Write, fairness: &fairness::Shown) -> io::Result<()> {
    writeln!(out, "\n{}", fairness.heading)?;
    if fairness.rows.is_empty() {
        return Ok(());
    }
    for (at, first) in ["", "set"].into_iter().enumerate() {
        let titles = fairness::COLUMNS.map(|title| format!("{:>8}", title[at]));
        writeln!(out, "{first:>8} {}", titles.join(" "))?;
    }
    for (at, row) in fairness.rows.iter().enumerate() {
        let cells = row.each_ref().map(|cell| format!("{cell:>8}"));
        writeln!(out, "{at:>8} {}", cells.join(" "))?;
    }
    fairness.lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// The figures in the order of [`COLUMNS`].
pub(super) fn cells(set: &SetFigures) -> [f64; COLUMNS.len()] {
    let (t, u) = (&set.throughput, &set.utilisation);
    [
        t.total,
        t.mean,
        t.deviation,
        t.of_means.max,
        t.of_means.min,
        t.of_windows.max,
        t.of_windows.min,
        u.total,
        u.mean,
        u.deviation,
        u.of_means.max,
        u.of_means.min,
        u.of_windows.max,
        u.of_windows.min,
    ]
}

fn write_workers(
    out: &mut dyn Write,
    at: usize,
    set: &SetFigures,
    verbosity: u32,
    averages: Averages,
) -> io::Result<()> {
    let silent = WorkerFigures { cputime_ns: Some(0), ..WorkerFigures::default() };
    for (id, worker) in set.rows() {
        // The original has zeros in the row of a worker that has not reported: unknown is not zero.
        let Some(worker) = worker.or((averages == Averages::Original).then_some(&silent)) else {
            continue;
        };
        write!(out, "{at:>2}:{id:>2}    {:>10}", worker.kops)?;
        for value in worker_cells(worker) {
            write!(out, " {:>8}", fixed(value, 2))?;
        }
        writeln!(out)?;
        if verbosity >= 2 {
            write_windows(out, &worker.reports)?;
        }
    }
    Ok(())
}

/// The figures in the order of [`WORKER_COLUMNS`], after the first two.
pub(super) fn worker_cells(worker: &WorkerFigures) -> [f64; WORKER_COLUMNS.len() - 2] {
    [
        seconds(worker.time_ns),
        worker.cputime_ns.map_or(f64::NAN, seconds),
        worker.throughput,
        worker.throughputs.min,
        worker.throughputs.max,
        worker.utilisation,
        worker.utilisations.min,
        worker.utilisations.max,
    ]
}

fn write_windows(out: &mut dyn Write, reports: &[Report]) -> io::Result<()> {
    let mut last = Report { cputime_ns: Some(0), ..Report::default() };
    for report in reports {
        // A first report at 0 has nothing before it, as in the original.
        let before = if report.now_ns > last.now_ns { last } else { *report };
        writeln!(
            out,
            "   [{:>8}] ({:>8}) {:>8} ({:>8}) {:>8} ({:>8}) {:>12}",
            fixed(report.now_ns as f64 / 1e9, 3),
            fixed((report.now_ns - before.now_ns) as f64 / 1e9, 3),
            fixed(report.cputime_ns.map_or(f64::NAN, seconds), 3),
            fixed(before.cputime_until(report).map_or(f64::NAN, seconds), 3),
            report.kops,
            report.kops - before.kops,
            report.max_delta_ns,
        )?;
        last = *report;
    }
    Ok(())
}

/// Converts a duration into seconds as Go does, to the last bit.
fn seconds(ns: i64) -> f64 {
    (ns / 1_000_000_000) as f64 + (ns % 1_000_000_000) as f64 / 1e9
}

#[cfg(test)]
mod tests;
