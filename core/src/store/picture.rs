//! The data that charts of a stored plan need: its text, the histograms of its runs, the windows of
//! one run.

use rusqlite::Connection;

use super::column::rows;
use super::connection::Store;
use super::digest::Part;
use super::error::{Fault, StoreError};
use super::read::{counts, worker_window};
use crate::model::{RunKey, WorkerWindows};

const SOURCE: &str = "SELECT source FROM plan WHERE plan = ?1";
const LATENCIES: &str = "
    SELECT worker_set.name, histogram.name, hdr, exact, samples
    FROM worker_set JOIN histogram USING (run, worker_set)
    WHERE run = ?1 ORDER BY worker_set, histogram";
const WORKERS: &str = "
    SELECT worker, name, role FROM worker JOIN worker_set USING (run, worker_set)
    WHERE run = ?1 ORDER BY worker";
const WINDOWS: &str = "
    SELECT worker, end_at_ns, wall_ns, ops, cpu_ns, peak_ns
    FROM worker_window WHERE run = ?1 ORDER BY window_index, worker";

impl Store {
    /// The text of plan `id`.
    pub fn source(&self, id: &str) -> Result<String, StoreError> {
        self.snapshot_of(id, |conn, plan| {
            Ok(conn.prepare_cached(SOURCE)?.query_row([plan], |row| row.get(0))?)
        })
    }

    /// Calls `take` with each histogram of plan `id`: the run, the names of the worker set and of the
    /// latency, and ascending values in ns, each with its count.
    pub fn each_latency(
        &self,
        id: &str,
        mut take: impl FnMut(RunKey, (&str, &str), &[(u64, u64)]),
    ) -> Result<(), StoreError> {
        self.snapshot_of(id, |conn, plan| {
            let parts = [Part::Sets, Part::Histograms];
            let mut select = conn.prepare_cached(LATENCIES)?;
            let runs = self.checked_runs(conn, (plan, id), &parts)?;
            for run in runs.iter().filter(|run| run.is_done()) {
                let key = run.row.key;
                let mut rows = select.query([run.row.run])?;
                while let Some(row) = rows.next()? {
                    let (set, name): (String, String) = (row.get(0)?, row.get(1)?);
                    let counts = counts(row, 2)?.map_err(|why| {
                        let RunKey { round, cell } = key;
                        let of_run = format!("histogram `{name}` of round {round}, cell {cell}");
                        Fault::Damaged(format!("{of_run}: {why}"))
                    })?;
                    take(key, (&set, &name), &counts);
                }
            }
            Ok(())
        })
    }

    /// The windows of a run of plan `id`, by worker; empty where it has none.
    pub fn windows(&self, id: &str, run: RunKey) -> Result<Vec<WorkerWindows>, StoreError> {
        self.snapshot_of(id, |conn, plan| {
            let parts = [Part::Sets, Part::Workers, Part::Windows];
            let Some(number) = self.sound_run(conn, (plan, id), run, &parts)? else {
                return Ok(Vec::new());
            };
            windows_of(conn, number)
        })
    }

    /// Calls `take` with each measured run of plan `id`, and its windows by worker.
    pub fn each_windows(
        &self,
        id: &str,
        mut take: impl FnMut(RunKey, Vec<WorkerWindows>),
    ) -> Result<(), StoreError> {
        self.snapshot_of(id, |conn, plan| {
            let parts = [Part::Sets, Part::Workers, Part::Windows];
            let runs = self.checked_runs(conn, (plan, id), &parts)?;
            for run in runs.iter().filter(|run| run.is_done()) {
                take(run.row.key, windows_of(conn, run.row.run)?);
            }
            Ok(())
        })
    }
}

fn windows_of(conn: &Connection, number: i64) -> Result<Vec<WorkerWindows>, Fault> {
    let mut workers: Vec<(i64, WorkerWindows)> = rows(conn, WORKERS, [number], |row| {
        let (set, role) = (row.get(1)?, row.get(2)?);
        Ok((row.get(0)?, WorkerWindows { set, role, windows: Vec::new() }))
    })?;
    let mut select = conn.prepare_cached(WINDOWS)?;
    let mut rows = select.query([number])?;
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        let Ok(at) = workers.binary_search_by_key(&number, |(own, _)| *own) else {
            continue;
        };
        workers[at].1.windows.push(worker_window(row, 1)?);
    }
    Ok(workers.into_iter().map(|(_, worker)| worker).collect())
}
