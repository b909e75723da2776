//! The rows of each table, read from the store: in the order of rounds and cells, whatever the order in which runs
//! ended.

use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::super::error::Fault;
use super::super::facts::guest;
use super::super::read::{self, counts};
use super::super::sound::CheckedRun;
use super::table::{Table, Value};
use crate::model::{Environment, Guest, GuestTimes, Measure, PlanStarted, Reading, RunKey};

/// Columns that all tables begin with.
pub const OF_A_RUN: &str = "
    REQUIRED BYTE_ARRAY plan (STRING);
    REQUIRED BYTE_ARRAY title (STRING);
    REQUIRED BYTE_ARRAY backend (STRING);
    REQUIRED BYTE_ARRAY work (STRING);
    REQUIRED BYTE_ARRAY variant (STRING);
    REQUIRED INT32 round;
    REQUIRED INT32 cell;
    REQUIRED INT64 seed (INTEGER(64,false));
    REQUIRED BYTE_ARRAY outcome (STRING);
    OPTIONAL INT64 started_at (TIMESTAMP(NANOS,true));
    REQUIRED BYTE_ARRAY machine (STRING);
    OPTIONAL BYTE_ARRAY cpu_model (STRING);
    OPTIONAL BYTE_ARRAY kernel (STRING);
    OPTIONAL BYTE_ARRAY kernel_digest (STRING);
    OPTIONAL BYTE_ARRAY scheduler (STRING);";
pub const RUNS: &str = "
    REQUIRED INT32 session;
    OPTIONAL BYTE_ARRAY reason (STRING);
    OPTIONAL INT64 measured_ns;
    OPTIONAL INT64 overhead_cpu_ns;
    OPTIONAL BYTE_ARRAY overhead_unknown (STRING);
    OPTIONAL BYTE_ARRAY guest_time (STRING);
    REQUIRED INT32 disturbances;
";
pub const METRICS: &str = "
    REQUIRED BYTE_ARRAY set (STRING);
    REQUIRED BYTE_ARRAY workload (STRING);
    REQUIRED BYTE_ARRAY ops (STRING);
    REQUIRED BOOLEAN background;
    REQUIRED BYTE_ARRAY metric (STRING);
    REQUIRED BYTE_ARRAY unit (STRING);
    REQUIRED BYTE_ARRAY direction (STRING);
    REQUIRED BYTE_ARRAY statistic (STRING);
    REQUIRED BYTE_ARRAY importance (STRING);
    OPTIONAL BYTE_ARRAY subject (STRING);
    OPTIONAL DOUBLE value;
    OPTIONAL BYTE_ARRAY unknown (STRING);
";
pub const HISTOGRAMS: &str = "
    REQUIRED BYTE_ARRAY set (STRING);
    REQUIRED BYTE_ARRAY latency (STRING);
    REQUIRED INT64 value_ns (INTEGER(64,false));
    REQUIRED INT64 count (INTEGER(64,false));
";
pub const WINDOWS: &str = "
    REQUIRED INT32 window;
    REQUIRED INT32 worker;
    OPTIONAL BYTE_ARRAY set (STRING);
    OPTIONAL BYTE_ARRAY role (STRING);
    REQUIRED INT64 end_at_ns;
    REQUIRED INT64 wall_ns;
    REQUIRED INT64 ops;
    REQUIRED INT64 cpu_ns;
    REQUIRED INT64 peak_ns;
";

/// The most texts kept in memory.
const MAX_TEXTS: usize = 10_000;
const SELECT_DISTURBANCES: &str = "SELECT count(*) FROM disturbance WHERE run = ?1";
/// The columns of [`METRICS`]; a quantile has a number: `quantile 990000`.
pub const SELECT_METRICS: &str = "
    SELECT worker_set.name, workload, ops, background, metric_kind.name, unit, direction,
           statistic || coalesce(' ' || quantile_ppm, ''), importance, subject, value, unknown
    FROM worker_set JOIN metric USING (run, worker_set) LEFT JOIN metric_kind USING (metric_kind)
    WHERE worker_set.run = ?1 ORDER BY worker_set.worker_set, metric";

const SELECT_HISTOGRAMS: &str = "
    SELECT worker_set.name, histogram.name, hdr, exact, samples
    FROM worker_set JOIN histogram USING (run, worker_set)
    WHERE worker_set.run = ?1 ORDER BY worker_set.worker_set, histogram";
/// The columns of [`WINDOWS`].
pub const SELECT_WINDOWS: &str = "
    SELECT window_index, worker_window.worker, worker_set.name, worker.role, end_at_ns,
         worker_window.wall_ns, worker_window.ops, worker_window.cpu_ns, peak_ns
    FROM worker_window
         LEFT JOIN worker ON (worker.run, worker.worker) = (worker_window.run, worker_window.worker)
         LEFT JOIN worker_set ON (worker_set.run, worker_set.worker_set) = (worker.run, worker.worker_set)
    WHERE worker_window.run = ?1 ORDER BY window_index, worker_window.worker";

/// The facts that many runs of a plan share.
pub struct Source {
    /// The plan's id, title and backend.
    plan: [Value; 3],
    measure: Measure,
    /// By cell: the work and the variant.
    cells: Vec<[Value; 2]>,
    sessions: Vec<Place>,
    /// By round and cell.
    runs: Vec<CheckedRun>,
}

/// Where a run was made: the machine, its CPU model, the kernel, the kernel's digest and scheduler.
type Place = [Value; 5];

fn known(reading: &Reading<String>) -> Value {
    Value::text(reading.as_ref().known())
}

fn place(environment: &Environment) -> Place {
    let Environment { hostname, cpu_model, kernel_release, scheduler, .. } = environment;
    let scheduler = scheduler.as_ref().map_or(Value::Null, known);
    let (machine, kernel) = (Value::text(Some(hostname)), Value::text(Some(kernel_release)));
    [machine, known(cpu_model), kernel, Value::Null, scheduler]
}

/// In the lab the kernel is that of the guest.
fn guest_place([machine, model, ..]: &Place, guest: &Guest) -> Place {
    let kernel = &guest.kernel;
    let scheduler = kernel.scheduler.as_ref().map_or(Value::Null, known);
    let [release, digest] =
        [&kernel.release, &kernel.digest].map(|text| Value::text(text.as_ref()));
    [machine.clone(), model.clone(), release, digest, scheduler]
}

impl Source {
    /// `runs` are compared in all that is read of them.
    pub fn read(conn: &Connection, plan: i64, mut runs: Vec<CheckedRun>) -> Result<Source, Fault> {
        runs.sort_by_key(|run| run.row.key);
        let PlanStarted { id, backend, plan: own, cells, .. } = read::started(conn, plan)?;
        let sessions = read::sessions(conn, plan)?;
        let cells = cells.iter().map(|cell| {
            [&cell.work.label(), &cell.variant.name].map(|text| Value::text(Some(text)))
        });
        Ok(Source {
            plan: [&id, &own.title, &backend].map(|text| Value::text(Some(text))),
            cells: cells.collect(),
            measure: own.measure,
            sessions: sessions.iter().map(|session| place(&session.environment)).collect(),
            runs,
        })
    }
}

/// A table that is being filled.
pub struct Rows {
    table: Table,
    /// Texts that come again and again.
    texts: HashMap<String, Value>,
    /// By session and guest: where its runs were made, and by what clock.
    guests: HashMap<(u32, i64), Rc<(Place, Value)>>,
}

impl Rows {
    pub fn new(table: Table) -> Rows {
        Rows { table, texts: HashMap::new(), guests: HashMap::new() }
    }

    pub fn close(self) -> Result<u64, Fault> {
        self.table.close()
    }

    /// Adds a row: the columns of its run, and its own.
    fn push(
        &mut self,
        conn: &Connection,
        source: &Source,
        run: &CheckedRun,
        own: Vec<Value>,
    ) -> Result<(), Fault> {
        let row = &run.row;
        let RunKey { round, cell } = row.key;
        let status = self.kept(if run.is_damaged() { "failed" } else { &row.status });
        let damaged = |what: &str| Fault::Damaged(format!("a run names {what} that is not stored"));
        let own_cell = source.cells.get(cell as usize).ok_or_else(|| damaged("a cell"))?;
        let session = source.sessions.get(row.environment as usize);
        let session = session.ok_or_else(|| damaged("an environment"))?;
        let guest = self.guest(conn, run, source)?;
        // A guest has a clock of its own, and an invented run has none.
        let started_at = row.started_unix_ns.filter(|at| run.is_done() && *at != 0);
        let started_at = started_at.filter(|_| row.guest.is_none());
        let seed = Value::Int(source.measure.seed_of(round) as i64);
        let numbers = [Value::Int(round.into()), Value::Int(cell.into()), seed];
        let place = guest.as_ref().map_or(session, |guest| &guest.0).iter().cloned();
        let of_run = source.plan.iter().chain(own_cell).cloned().chain(numbers);
        let of_run = of_run.chain([status, Value::int(started_at)]).chain(place);
        self.table.push(of_run.chain(own))
    }

    /// The guest of a run.
    fn guest(
        &mut self,
        conn: &Connection,
        run: &CheckedRun,
        source: &Source,
    ) -> Result<Option<Rc<(Place, Value)>>, Fault> {
        let session = run.row.environment;
        let Some(number) = run.row.guest.filter(|_| run.is_done()) else { return Ok(None) };
        if let Some(known) = self.guests.get(&(session, number)) {
            return Ok(Some(Rc::clone(known)));
        }
        let Some(place) = source.sessions.get(session as usize) else { return Ok(None) };
        let (guest, mut times) = (guest(conn, number)?, GuestTimes::default());
        times.add(&guest.time, 1);
        let own = Rc::new((guest_place(place, &guest), Value::text(times.word())));
        self.guests.insert((session, number), Rc::clone(&own));
        Ok(Some(own))
    }

    /// Mostly a text comes again: it is kept once.
    fn kept(&mut self, own: &str) -> Value {
        if let Some(known) = self.texts.get(own) {
            return known.clone();
        }
        // Reasons may be many.
        if self.texts.len() >= MAX_TEXTS {
            self.texts.clear();
        }
        let new = Value::text(Some(own));
        self.texts.insert(own.to_string(), new.clone());
        new
    }

    /// The value of a column of the store.
    fn value(&mut self, found: ValueRef<'_>) -> Result<Value, Fault> {
        let no_text = |why: String| Fault::Damaged(format!("a column of a run has no text: {why}"));
        Ok(match found {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Int(number),
            ValueRef::Real(number) => Value::Double(number),
            text => self.kept(text.as_str().map_err(|why| no_text(why.to_string()))?),
        })
    }

    /// Adds the rows that `sql` gives of each run that is sound: its columns are those of the table.
    pub fn copy(&mut self, source: &Source, conn: &Connection, sql: &str) -> Result<(), Fault> {
        let mut select = conn.prepare_cached(sql)?;
        for run in source.runs.iter().filter(|run| !run.is_damaged()) {
            let columns = select.column_count();
            let mut rows = select.query([run.row.run])?;
            while let Some(row) = rows.next()? {
                let own = (0..columns).map(|column| self.value(row.get_ref(column)?));
                let own = own.collect::<Result<_, Fault>>()?;
                self.push(conn, source, run, own)?;
            }
        }
        Ok(())
    }
}

pub fn runs(rows: &mut Rows, source: &Source, conn: &Connection) -> Result<(), Fault> {
    let mut disturbances = conn.prepare_cached(SELECT_DISTURBANCES)?;
    for run in &source.runs {
        let (row, is_sound) = (&run.row, !run.is_damaged());
        let mut kept = |text: Option<&str>| text.map_or(Value::Null, |text| rows.kept(text));
        let reason = kept(run.reason().as_deref());
        let unknown = kept(row.overhead_unknown.as_deref().filter(|_| is_sound));
        let guest = rows.guest(conn, run, source)?;
        let disturbances =
            if is_sound { disturbances.query_row([row.run], |row| row.get(0))? } else { 0 };
        let own = vec![
            Value::Int(row.environment.into()),
            reason,
            Value::int(row.measured_ns.filter(|_| is_sound)),
            Value::int(row.overhead_cpu_ns.filter(|_| is_sound)),
            unknown,
            guest.map_or(Value::Null, |guest| guest.1.clone()),
            Value::Int(disturbances),
        ];
        rows.push(conn, source, run, own)?;
    }
    Ok(())
}

pub fn histograms(rows: &mut Rows, source: &Source, conn: &Connection) -> Result<(), Fault> {
    let mut select = conn.prepare_cached(SELECT_HISTOGRAMS)?;
    for run in source.runs.iter().filter(|run| !run.is_damaged()) {
        let mut found = select.query([run.row.run])?;
        while let Some(row) = found.next()? {
            let [set, name] = [rows.value(row.get_ref(0)?)?, rows.value(row.get_ref(1)?)?];
            let counts = counts(row, 2)?
                .map_err(|why| Fault::Damaged(format!("a histogram of a run: {why}")))?;
            for (value_ns, count) in counts {
                let numbers = [Value::Int(value_ns as i64), Value::Int(count as i64)];
                let own = [set.clone(), name.clone()].into_iter().chain(numbers);
                rows.push(conn, source, run, own.collect())?;
            }
        }
    }
    Ok(())
}
