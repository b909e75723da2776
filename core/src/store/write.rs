//! Events into tables. Everything of a run enters in the one transaction of its end, or of several that end at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, params};

use super::column::{bits, halves, json, word};
use super::connection::{Current, Store};
use super::digest::Part;
use super::error::{Fault, StoreError};
use super::facts::{guest_number, insert_knobs};
use super::{hdr, kind, program, read, run, seal, sound};
use crate::model::{
    Calibration, Cell, EVENT_SCHEMA, Environment, Event, Outcome, PlanEnd, PlanStarted,
    ProgramRecord, RunKey, RunResult, SetResult, Window, WorkerResult,
};

/// How long runs wait for others to be stored together.
const GROUP: Duration = Duration::from_millis(50);

impl Store {
    /// Stores one event. A plan that is stored already is resumed, and a run takes the place of one that is
    /// damaged; an error leaves what was stored before as it was, and the event may be applied again.
    pub fn apply(&mut self, event: &Event) -> Result<(), StoreError> {
        let is_committed = !matches!(event, Event::RunStarted { .. } | Event::Window { .. });
        // A transaction hides what was written before it.
        if is_committed && self.conn.is_autocommit() {
            self.check_written()?;
        }
        let (action, result) = match event {
            Event::PlanStarted(started) => {
                (format!("store plan `{}`", started.id), self.begin_plan(started))
            }
            Event::RunStarted { key } => (run_action(*key), self.begin_run(*key)),
            Event::Window { key, window } => (run_action(*key), self.stage(*key, window)),
            Event::RunEnded { key, outcome } => (run_action(*key), self.end_run(*key, outcome)),
            Event::PlanEnded { reason, calibration } => {
                ("store the end of the plan".to_string(), self.end_plan(*reason, *calibration))
            }
        };
        result.map_err(|fault| match event {
            Event::PlanStarted(started) => fault.within(&started.id, action, &self.path),
            _ => fault.at(action, &self.path),
        })?;
        if is_committed { self.committed() } else { Ok(()) }
    }

    /// Checks that the store is where it was opened; later, where a transaction goes on.
    pub(super) fn committed(&mut self) -> Result<(), StoreError> {
        if self.conn.is_autocommit() { self.check_place() } else { Ok(()) }
    }

    /// As [`Store::apply`], but runs that end in quick succession enter in one transaction: others see them, and a
    /// power failure spares them, after [`Store::settle`] or [`GROUP`].
    pub fn apply_in_group(&mut self, event: &Event) -> Result<(), StoreError> {
        self.apply_within(event, GROUP)
    }

    pub(super) fn apply_within(
        &mut self,
        event: &Event,
        limit: Duration,
    ) -> Result<(), StoreError> {
        match event {
            Event::RunEnded { .. } if self.group.is_none() => {
                self.check_written()?;
                let begun = self.conn.execute_batch("BEGIN IMMEDIATE");
                begun.map_err(|error| Fault::from(error).at("store runs", &self.path))?;
                self.group = Some(Instant::now());
            }
            Event::PlanStarted(_) | Event::PlanEnded { .. } => self.settle()?,
            _ => {}
        }
        self.apply(event)?;
        match self.group {
            Some(begun) if begun.elapsed() >= limit => self.settle(),
            _ => Ok(()),
        }
    }

    /// Ends a group of runs.
    pub fn settle(&mut self) -> Result<(), StoreError> {
        // SQLite has ended it by itself after some faults, which were returned.
        if self.group.take().is_none() || self.conn.is_autocommit() {
            return Ok(());
        }
        self.check_written()?;
        let ended = self.conn.execute_batch("COMMIT");
        ended.map_err(|error| Fault::from(error).at("store runs", &self.path))?;
        self.committed()
    }

    fn begin_plan(&mut self, started: &PlanStarted) -> Result<(), Fault> {
        if !(1..=EVENT_SCHEMA).contains(&started.schema) {
            let (found, known) = (u64::from(started.schema), EVENT_SCHEMA);
            return Err(StoreError::Schema { found, known }.into());
        }
        let cells = u32::try_from(started.cells.len())
            .map_err(|_| Fault::Event(format!("{} cells", started.cells.len())))?;
        self.current = None;
        let path = &self.path;
        let (plan, environment, gone) = atomically(&self.conn, Lock::Database, |conn| {
            conn.execute("DELETE FROM staged", [])?;
            let stored = conn
                .prepare_cached("SELECT plan FROM plan WHERE id = ?1")?
                .query_row([&started.id], |row| row.get(0))
                .optional()?;
            let plan = match stored {
                None => insert_plan(conn, started)?,
                Some(plan) => {
                    let before = read::started(conn, plan)?;
                    if let Some(what) = difference(&before, started) {
                        let (id, path) = (started.id.clone(), path.clone());
                        return Err(StoreError::PlanDiffers { id, what, path }.into());
                    }
                    if before.plan != started.plan {
                        extend_plan(conn, plan, started)?;
                    }
                    plan
                }
            };
            let environment =
                insert_environment(conn, plan, started.started_unix_ns, &started.environment)?;
            let gone = match stored {
                None => {
                    seal::whole(conn, plan)?;
                    Vec::new()
                }
                Some(_) => {
                    seal::plan(conn, plan)?;
                    let there = run::keys(conn, plan)?.len() as u64;
                    sound::gone_runs(conn, plan, there)?.1
                }
            };
            Ok((plan, environment, gone.into_iter().collect()))
        })?;
        self.current = Some(Current { plan, id: started.id.clone(), environment, cells, gone });
        self.measured = true;
        Ok(())
    }

    /// A run that was interrupted is run again: what it left waiting is dropped.
    fn begin_run(&mut self, key: RunKey) -> Result<(), Fault> {
        self.current_for(key)?;
        drop_staged(&self.conn, key)
    }

    fn stage(&mut self, key: RunKey, window: &Window) -> Result<(), Fault> {
        self.current_for(key)?;
        atomically(&self.conn, Lock::Temporary, |conn| {
            let mut insert = conn
                .prepare_cached("INSERT INTO staged VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?;
            for (worker, read) in window.workers.iter().enumerate() {
                insert.execute(params![
                    key.round,
                    key.cell,
                    window.index,
                    worker as i64,
                    bits(read.end_at_ns),
                    bits(read.wall_ns),
                    bits(read.ops),
                    bits(read.cpu_ns),
                    bits(read.peak_ns),
                ])?;
            }
            Ok(())
        })
    }

    fn end_run(&mut self, key: RunKey, outcome: &Outcome) -> Result<(), Fault> {
        let current = self.current_for(key)?;
        atomically(&self.conn, Lock::Database, |conn| {
            let is_again = match run::of_plan(conn, current.plan, key)? {
                None => current.gone.contains(&key),
                Some(row) if seal::damage(conn, &row, &Part::ALL)?.is_some() => {
                    conn.execute("DELETE FROM run WHERE run = ?1", [row.run])?;
                    true
                }
                Some(_) => {
                    let (id, path) = (current.id.clone(), self.path.clone());
                    return Err(StoreError::RunStored { id, key, path }.into());
                }
            };
            let run = insert_run(conn, current, key, outcome)?;
            if let Outcome::Done { result } = outcome {
                insert_result(conn, run, result)?;
            }
            conn.prepare_cached(
                "INSERT INTO worker_window
                 SELECT ?1, window_index, worker, end_at_ns, wall_ns, ops, cpu_ns, peak_ns
                 FROM staged WHERE round = ?2 AND cell = ?3
                 ORDER BY window_index, worker",
            )?
            .execute(params![run, key.round, key.cell])?;
            drop_staged(conn, key)?;
            seal::run(conn, current.plan, run, is_again)
        })
    }

    fn end_plan(&mut self, reason: PlanEnd, calibration: Option<Calibration>) -> Result<(), Fault> {
        let current = self.current.as_ref().ok_or_else(no_plan)?;
        let calibration = calibration.as_ref().map(json).transpose()?;
        atomically(&self.conn, Lock::Database, |conn| {
            conn.prepare_cached(
                "UPDATE environment SET ended = ?3, json = CASE WHEN ?4 IS NULL THEN json
                 ELSE json_set(json, '$.calibration_at_end', json(?4)) END
                 WHERE plan = ?1 AND environment = ?2",
            )?
            .execute(params![
                current.plan,
                current.environment,
                word(reason)?,
                calibration
            ])?;
            seal::plan(conn, current.plan)
        })?;
        self.current = None;
        Ok(())
    }

    fn current_for(&self, key: RunKey) -> Result<&Current, Fault> {
        let current = self.current.as_ref().ok_or_else(no_plan)?;
        if key.cell >= current.cells {
            return Err(Fault::Event(format!(
                "cell {} is not one of the {} cells of plan `{}`",
                key.cell, current.cells, current.id
            )));
        }
        Ok(current)
    }
}

fn no_plan() -> Fault {
    Fault::Event("no plan has been started".to_string())
}

fn run_action(key: RunKey) -> String {
    format!("store round {} of cell {}", key.round, key.cell)
}

/// The tables that a transaction may write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    Database,
    /// Only this connection's own tables: no lock is taken.
    Temporary,
}

/// All of `write` or nothing; nests.
pub(super) fn atomically<T>(
    conn: &Connection,
    lock: Lock,
    write: impl FnOnce(&Connection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let (begin, commit, undo) = match (conn.is_autocommit(), lock) {
        (true, Lock::Database) => ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"),
        (true, Lock::Temporary) => ("BEGIN", "COMMIT", "ROLLBACK"),
        (false, _) => ("SAVEPOINT inner", "RELEASE inner", "ROLLBACK TO inner; RELEASE inner"),
    };
    conn.execute_batch(begin)?;
    let result = write(conn).and_then(|value| {
        conn.execute_batch(commit)?;
        Ok(value)
    });
    // SQLite has rolled back by itself after some faults (a full disk).
    if result.is_err() && !conn.is_autocommit() {
        conn.execute_batch(undo)?;
    }
    result
}

fn drop_staged(conn: &Connection, key: RunKey) -> Result<(), Fault> {
    conn.prepare_cached("DELETE FROM staged WHERE round = ?1 AND cell = ?2")?
        .execute([key.round, key.cell])?;
    Ok(())
}

/// In what a resumed plan is not the stored one.
pub(super) fn difference(stored: &PlanStarted, now: &PlanStarted) -> Option<&'static str> {
    let PlanStarted {
        schema: _,
        id: _,
        backend,
        started_unix_ns: _,
        source,
        plan,
        cells,
        judged,
        sharding,
        environment: _,
    } = stored;
    match () {
        () if *backend != now.backend => Some("the backend"),
        () if *source != now.source => Some("the plan"),
        () if *plan != now.plan && !now.plan.extends(plan) => Some("the plan"),
        () if *cells != now.cells => Some("the list of cells"),
        () if *judged != now.judged => Some("what is judged"),
        () if *sharding != now.sharding => Some("the part of the plan"),
        () => None,
    }
}

/// Tables whose rows name a plan by its number.
const PLAN_TABLES: [&str; 7] = ["plan", "plan_digest", "environment", "cell", "run", "tag", "note"];
/// Tables that name a run.
const RUN_TABLES: [&str; 9] = [
    "run",
    "worker_set",
    "metric",
    "histogram",
    "worker",
    "worker_window",
    "knob_reading",
    "disturbance",
    "program",
];

/// A number that no row has in this column, even where damage has left rows of what is gone: these would be taken for
/// the new one's.
pub(super) fn free_number(conn: &Connection, column: &str, tables: &[&str]) -> Result<i64, Fault> {
    let highest = |table: &&str| format!("SELECT max({column}) AS own FROM {table}");
    let highest: Vec<String> = tables.iter().map(highest).collect();
    let sql = format!("SELECT coalesce(max(own), 0) + 1 FROM ({})", highest.join(" UNION ALL "));
    Ok(conn.prepare_cached(&sql)?.query_row([], |row| row.get(0))?)
}

pub(super) fn insert_plan(conn: &Connection, started: &PlanStarted) -> Result<i64, Fault> {
    let plan = free_number(conn, "plan", &PLAN_TABLES)?;
    conn.prepare_cached(
        "INSERT INTO plan (id, event_schema, title, backend, started_unix_ns, runs_total, source,
         json, judged, sharding, plan) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        started.id,
        EVENT_SCHEMA,
        started.plan.title,
        started.backend,
        bits(started.started_unix_ns),
        bits(started.planned_runs()),
        started.source,
        json(&started.plan)?,
        (!started.judged.is_default()).then(|| json(&started.judged)).transpose()?,
        started.sharding.as_ref().map(json).transpose()?,
        plan,
    ])?;
    for (position, cell) in started.cells.iter().enumerate() {
        if cell.index as usize != position {
            return Err(Fault::Event(format!("cell {} stands at position {position}", cell.index)));
        }
        insert_cell(conn, plan, cell)?;
    }
    Ok(plan)
}

/// Rounds were added to it.
fn extend_plan(conn: &Connection, plan: i64, started: &PlanStarted) -> Result<(), Fault> {
    let runs = u64::from(started.plan.measure.rounds) * started.cells.len() as u64;
    conn.prepare_cached("UPDATE plan SET runs_total = ?2, json = ?3 WHERE plan = ?1")?
        .execute(params![plan, bits(runs), json(&started.plan)?])?;
    Ok(())
}

fn insert_cell(conn: &Connection, plan: i64, cell: &Cell) -> Result<(), Fault> {
    conn.prepare_cached(
        "INSERT INTO cell (plan, cell, variant, work, json) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![plan, cell.index, cell.variant.name, cell.work.label(), json(cell)?])?;
    Ok(())
}

/// Returns its number in the plan.
pub(super) fn insert_environment(
    conn: &Connection,
    plan: i64,
    started_unix_ns: u64,
    environment: &Environment,
) -> Result<i64, Fault> {
    let number = conn
        .prepare_cached("SELECT count(*) FROM environment WHERE plan = ?1")?
        .query_row([plan], |row| row.get(0))?;
    conn.prepare_cached(
        "INSERT INTO environment (plan, environment, started_unix_ns, hostname, cpu_model,
         kernel_release, kernel_version, boot_id, virtualisation, json)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        plan,
        number,
        bits(started_unix_ns),
        environment.hostname,
        halves(&environment.cpu_model).0,
        environment.kernel_release,
        environment.kernel_version,
        halves(&environment.boot_id).0,
        halves(&environment.virtualisation).0,
        json(environment)?,
    ])?;
    Ok(number)
}

fn insert_run(
    conn: &Connection,
    current: &Current,
    key: RunKey,
    outcome: &Outcome,
) -> Result<i64, Fault> {
    let (status, reason, result) = match outcome {
        Outcome::Done { result } => ("done", None, Some(result)),
        Outcome::Failed { reason } => ("failed", Some(reason), None),
        Outcome::Skipped { reason } => ("skipped", Some(reason), None),
    };
    let (overhead, overhead_unknown) =
        result.map_or((None, None), |result| halves(&result.overhead_cpu_ns));
    let guest = result.and_then(|result| result.guest.as_ref());
    let pool_cpus = result.and_then(|result| result.pool_cpus.as_ref());
    let run = free_number(conn, "run", &RUN_TABLES)?;
    conn.prepare_cached(
        "INSERT INTO run (plan, environment, round, cell, status, reason, started_unix_ns,
         measured_ns, overhead_cpu_ns, overhead_unknown, guest, pool_cpus, run)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?
    .execute(params![
        current.plan,
        current.environment,
        key.round,
        key.cell,
        status,
        reason,
        result.map(|result| bits(result.started_unix_ns)),
        result.map(|result| bits(result.measured_ns)),
        overhead.copied().map(bits),
        overhead_unknown,
        guest.map(|guest| guest_number(conn, guest)).transpose()?,
        pool_cpus.map(|cpus| cpus.to_string()),
        run,
    ])?;
    Ok(run)
}

fn insert_result(conn: &Connection, run: i64, result: &RunResult) -> Result<(), Fault> {
    let mut first_worker = 0;
    for (number, set) in result.sets.iter().enumerate() {
        insert_set(conn, run, number as i64, set)?;
        insert_workers(conn, run, number as i64, first_worker, &set.workers)?;
        first_worker += set.workers.len() as i64;
    }
    insert_knobs(conn, run, &result.knobs)?;
    let mut insert = conn.prepare_cached("INSERT INTO disturbance VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (number, disturbance) in result.disturbances.iter().enumerate() {
        let (kind, fact) = (word(disturbance.kind())?, json(&disturbance.fact)?);
        insert.execute(params![run, number as i64, kind, disturbance.share, fact])?;
    }
    Ok(())
}

fn insert_set(conn: &Connection, run: i64, number: i64, set: &SetResult) -> Result<(), Fault> {
    conn.prepare_cached("INSERT INTO worker_set VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
        .execute(params![run, number, set.name, set.workload, set.ops, set.background,])?;
    if let Some(ProgramRecord { version, output }) = &set.program {
        let output = program::pack(output).map_err(|why| Fault::Event(why.to_string()))?;
        conn.prepare_cached("INSERT INTO program VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![run, number, version, output])?;
    }
    let mut insert = conn.prepare_cached("INSERT INTO metric VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for (metric_number, metric) in set.metrics.iter().enumerate() {
        let (value, unknown) = halves(&metric.value);
        if let Some(value) = value.filter(|value| !value.is_finite()) {
            return Err(Fault::Event(format!("metric `{}` is {value}", metric.kind.name)));
        }
        insert.execute(params![
            run,
            number,
            metric_number as i64,
            kind::number(conn, &metric.kind)?,
            value,
            unknown,
        ])?;
    }
    for (histogram_number, histogram) in set.histograms.iter().enumerate() {
        let encoded = hdr::encode(&histogram.counts)
            .map_err(|why| Fault::Event(format!("histogram `{}`: {why}", histogram.name)))?;
        let exact = if encoded.exact.is_empty() { None } else { Some(json(&encoded.exact)?) };
        conn.prepare_cached("INSERT INTO histogram VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?
            .execute(params![
            run,
            number,
            histogram_number as i64,
            histogram.name,
            bits(encoded.samples),
            histogram.counts.first().map(|&(value, _)| bits(value)),
            histogram.counts.last().map(|&(value, _)| bits(value)),
            encoded.hdr,
            exact,
        ])?;
    }
    Ok(())
}

fn insert_workers(
    conn: &Connection,
    run: i64,
    set: i64,
    first: i64,
    workers: &[WorkerResult],
) -> Result<(), Fault> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO worker VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?;
    for (number, worker) in workers.iter().enumerate() {
        let mut unknown = BTreeMap::new();
        let mut known = |column, reading| {
            let (value, why) = halves(reading);
            unknown.extend(why.map(|why| (column, why)));
            value.copied().map(bits)
        };
        let voluntary = known("voluntary_switches", &worker.voluntary_switches);
        let involuntary = known("involuntary_switches", &worker.involuntary_switches);
        let migrations = known("migrations", &worker.migrations);
        let wait = known("run_queue_wait_ns", &worker.run_queue_wait_ns);
        let unknown = if unknown.is_empty() { None } else { Some(json(&unknown)?) };
        insert.execute(params![
            run,
            first + number as i64,
            set,
            worker.role,
            worker.tid,
            bits(worker.ops),
            bits(worker.wall_ns),
            bits(worker.cpu_ns),
            bits(worker.counted_wall_ns),
            voluntary,
            involuntary,
            migrations,
            wait,
            unknown,
        ])?;
    }
    Ok(())
}
