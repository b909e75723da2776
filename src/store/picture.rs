//! What charts of a stored plan are drawn from: its text, the histograms of its runs, the windows of
//! one run.

use super::column::unsigned;
use super::connection::Store;
use super::error::{Fault, StoreError};
use super::read::counts;
use crate::model::{RunKey, WorkerWindow, WorkerWindows};

const SOURCE: &str = "SELECT source FROM plan WHERE plan = ?1";
const LATENCIES: &str = "
    SELECT round, cell, worker_set.name, histogram.name, hdr, exact, samples
    FROM run JOIN worker_set USING (run) JOIN histogram USING (run, worker_set)
    WHERE plan = ?1 AND status = 'done' ORDER BY run, worker_set, histogram";
const WORKERS: &str = "
    SELECT worker, name, role FROM run JOIN worker USING (run) JOIN worker_set USING (run, worker_set)
    WHERE plan = ?1 AND round = ?2 AND cell = ?3 ORDER BY worker";
const WINDOWS: &str = "
    SELECT worker, end_at_ns, wall_ns, ops, cpu_ns, peak_ns
    FROM run JOIN worker_window USING (run)
    WHERE plan = ?1 AND round = ?2 AND cell = ?3 ORDER BY window_index, worker";

impl Store {
    /// The text of plan `id`.
    pub fn source(&self, id: &str) -> Result<String, StoreError> {
        let read = || -> Result<_, Fault> {
            let plan = self.plan_number(&self.conn, id)?;
            Ok(self.conn.prepare_cached(SOURCE)?.query_row([plan], |row| row.get(0))?)
        };
        read().map_err(|fault| fault.at(format!("read plan `{id}`"), &self.path))
    }

    /// Calls `take` with each histogram of plan `id`: the run, the names of the worker set and of the
    /// latency, and ascending values in ns, each with its count.
    pub fn each_latency(
        &self,
        id: &str,
        mut take: impl FnMut(RunKey, (&str, &str), &[(u64, u64)]),
    ) -> Result<(), StoreError> {
        let mut read = || -> Result<_, Fault> {
            let plan = self.plan_number(&self.conn, id)?;
            let mut select = self.conn.prepare_cached(LATENCIES)?;
            let mut rows = select.query([plan])?;
            while let Some(row) = rows.next()? {
                let key = RunKey { round: row.get(0)?, cell: row.get(1)? };
                let (set, name): (String, String) = (row.get(2)?, row.get(3)?);
                let of_run =
                    format!("histogram `{name}` of round {}, cell {}", key.round, key.cell);
                let counts =
                    counts(row, 4)?.map_err(|why| Fault::Damaged(format!("{of_run}: {why}")))?;
                take(key, (&set, &name), &counts);
            }
            Ok(())
        };
        read().map_err(|fault| fault.at(format!("read plan `{id}`"), &self.path))
    }

    /// The windows of a run of plan `id`, by worker; empty where it has none.
    pub fn windows(&self, id: &str, run: RunKey) -> Result<Vec<WorkerWindows>, StoreError> {
        let read = || -> Result<_, Fault> {
            let key = (self.plan_number(&self.conn, id)?, run.round, run.cell);
            let mut select = self.conn.prepare_cached(WORKERS)?;
            let workers = select.query_map(key, |row| {
                let (set, role) = (row.get(1)?, row.get(2)?);
                Ok((row.get(0)?, WorkerWindows { set, role, windows: Vec::new() }))
            })?;
            let mut workers: Vec<(i64, WorkerWindows)> = workers.collect::<Result<_, _>>()?;
            let mut select = self.conn.prepare_cached(WINDOWS)?;
            let mut rows = select.query(key)?;
            while let Some(row) = rows.next()? {
                let number: i64 = row.get(0)?;
                let Ok(at) = workers.binary_search_by_key(&number, |(own, _)| *own) else {
                    continue;
                };
                workers[at].1.windows.push(WorkerWindow {
                    end_at_ns: unsigned(row, 1)?,
                    wall_ns: unsigned(row, 2)?,
                    ops: unsigned(row, 3)?,
                    cpu_ns: unsigned(row, 4)?,
                    peak_ns: unsigned(row, 5)?,
                });
            }
            Ok(workers.into_iter().map(|(_, worker)| worker).collect())
        };
        read().map_err(|fault| fault.at(format!("read plan `{id}`"), &self.path))
    }
}
