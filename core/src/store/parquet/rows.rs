//! The rows of each table, read from the store: in the order of rounds and cells, whatever the order in which runs
//! ended.

use std::collections::HashMap;
use std::rc::Rc;

use parquet::data_type::ByteArray;
use rusqlite::{Connection, Row};
use serde_json::Value as Json;

use super::super::column::word;
use super::super::error::Fault;
use super::super::facts::guest;
use super::super::kind;
use super::super::read::{self, counts};
use super::super::sound::CheckedRun;
use super::table::{Table, Value, int};
use crate::model::{
    Environment, Guest, GuestTime, Measure, MetricKind, PlanStarted, Reading, RunKey,
};

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
const SELECT_METRICS: &str = "
    SELECT worker_set.name, worker_set.workload, worker_set.ops, worker_set.background, metric_kind, value, unknown
    FROM worker_set JOIN metric USING (run, worker_set)
    WHERE worker_set.run = ?1 ORDER BY worker_set.worker_set, metric";
const SELECT_HISTOGRAMS: &str = "
    SELECT worker_set.name, histogram.name, hdr, exact, samples
    FROM worker_set JOIN histogram USING (run, worker_set)
    WHERE worker_set.run = ?1 ORDER BY worker_set.worker_set, histogram";
const SELECT_WINDOWS: &str = "
    SELECT window_index, worker_window.worker, worker_set.name, worker.role, end_at_ns,
         worker_window.wall_ns, worker_window.ops, worker_window.cpu_ns, peak_ns
    FROM worker_window
         LEFT JOIN worker ON (worker.run, worker.worker) = (worker_window.run, worker_window.worker)
         LEFT JOIN worker_set ON (worker_set.run, worker_set.worker_set) = (worker.run, worker.worker_set)
    WHERE worker_window.run = ?1 ORDER BY window_index, worker_window.worker";

/// The facts that many runs of a plan share.
pub struct Source {
    id: ByteArray,
    title: ByteArray,
    backend: ByteArray,
    measure: Measure,
    /// By cell: the work and the variant.
    cells: Vec<(ByteArray, ByteArray)>,
    sessions: Vec<Place>,
    /// By round and cell.
    runs: Vec<CheckedRun>,
}

/// Where a run was made.
struct Place {
    machine: ByteArray,
    cpu_model: Option<ByteArray>,
    kernel: Option<ByteArray>,
    kernel_digest: Option<ByteArray>,
    scheduler: Option<ByteArray>,
}

fn text(text: &str) -> ByteArray {
    ByteArray::from(text)
}

fn known(reading: &Reading<String>) -> Option<ByteArray> {
    match reading {
        Reading::Known(known) => Some(text(known)),
        Reading::Unknown(_) => None,
    }
}

impl Place {
    fn from_environment(environment: &Environment) -> Place {
        Place {
            machine: text(&environment.hostname),
            cpu_model: known(&environment.cpu_model),
            kernel: Some(text(&environment.kernel_release)),
            kernel_digest: None,
            scheduler: environment.scheduler.as_ref().and_then(known),
        }
    }

    /// In the lab the kernel is that of the guest.
    fn of_guest(&self, guest: &Guest) -> Place {
        let kernel = &guest.kernel;
        Place {
            machine: self.machine.clone(),
            cpu_model: self.cpu_model.clone(),
            kernel: kernel.release.as_deref().map(text),
            kernel_digest: kernel.digest.as_deref().map(text),
            scheduler: kernel.scheduler.as_ref().and_then(known),
        }
    }
}

impl Source {
    /// `runs` are compared in all that is read of them.
    pub fn read(conn: &Connection, plan: i64, mut runs: Vec<CheckedRun>) -> Result<Source, Fault> {
        runs.sort_by_key(|run| run.row.key);
        let PlanStarted { id, backend, plan: own, cells, .. } = read::started(conn, plan)?;
        let sessions = read::sessions(conn, plan)?;
        Ok(Source {
            id: text(&id),
            title: text(&own.title),
            backend: text(&backend),
            cells: cells
                .iter()
                .map(|cell| (text(&cell.work.label()), text(&cell.variant.name)))
                .collect(),
            measure: own.measure,
            sessions: sessions
                .iter()
                .map(|session| Place::from_environment(&session.environment))
                .collect(),
            runs,
        })
    }
}

/// A table that is being filled.
pub struct Rows {
    table: Table,
    /// Texts that come again and again.
    texts: HashMap<String, ByteArray>,
    /// By session and guest: where its runs were made, and by what clock.
    guests: HashMap<(u32, i64), Rc<(Place, ByteArray)>>,
    kinds: HashMap<i64, Rc<Kind>>,
}

/// A kind of metric as columns.
struct Kind {
    name: ByteArray,
    unit: ByteArray,
    direction: ByteArray,
    statistic: ByteArray,
    importance: ByteArray,
    subject: Option<ByteArray>,
}

impl Rows {
    pub fn new(table: Table) -> Rows {
        let (guests, kinds) = (HashMap::new(), HashMap::new());
        Rows { table, texts: HashMap::new(), guests, kinds }
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
        own: &[Value<'_>],
    ) -> Result<(), Fault> {
        let row = &run.row;
        let RunKey { round, cell } = row.key;
        let status = if run.is_damaged() { self.kept("failed") } else { self.kept(&row.status) };
        let damaged = |what: &str| Fault::Damaged(format!("a run names {what} that is not stored"));
        let cell_of_it = source.cells.get(cell as usize);
        let (work, variant) = cell_of_it.ok_or_else(|| damaged("a cell"))?;
        let own_session = source.sessions.get(row.environment as usize);
        let own_session = own_session.ok_or_else(|| damaged("an environment"))?;
        let of_guest = self.guest(conn, run, source)?;
        // A guest has a clock of its own, and an invented run has none.
        let started_at = row.started_unix_ns.filter(|at| run.is_done() && *at != 0);
        let started_at = started_at.filter(|_| row.guest.is_none());
        let place = of_guest.as_ref().map_or(own_session, |own| &own.0);
        let of_run = [
            Value::Text(&source.id),
            Value::Text(&source.title),
            Value::Text(&source.backend),
            Value::Text(work),
            Value::Text(variant),
            Value::Int(round.into()),
            Value::Int(cell.into()),
            Value::Int(source.measure.seed_of(round) as i64),
            Value::Text(&status),
            int(started_at),
            Value::Text(&place.machine),
            Value::text(&place.cpu_model),
            Value::text(&place.kernel),
            Value::text(&place.kernel_digest),
            Value::text(&place.scheduler),
        ];
        self.table.push(of_run.into_iter().chain(own.iter().copied()))
    }

    /// The guest of a run.
    fn guest(
        &mut self,
        conn: &Connection,
        run: &CheckedRun,
        source: &Source,
    ) -> Result<Option<Rc<(Place, ByteArray)>>, Fault> {
        let session = run.row.environment;
        let Some(number) = run.row.guest.filter(|_| run.is_done()) else { return Ok(None) };
        if let Some(known) = self.guests.get(&(session, number)) {
            return Ok(Some(Rc::clone(known)));
        }
        let Some(place) = source.sessions.get(session as usize) else { return Ok(None) };
        let guest = guest(conn, number)?;
        let time = match &guest.time {
            GuestTime::Exact => "exact",
            GuestTime::NotExact(_) => "not_exact",
            GuestTime::Real => "real",
        };
        let own = Rc::new((place.of_guest(&guest), text(time)));
        self.guests.insert((session, number), Rc::clone(&own));
        Ok(Some(own))
    }

    /// The text of a column; the same text is kept once.
    fn text(&mut self, row: &Row<'_>, column: usize) -> Result<Option<ByteArray>, Fault> {
        let Some(own) = row
            .get_ref(column)?
            .as_str_or_null()
            .map_err(|why| Fault::Damaged(format!("a column of a run has no text: {why}")))?
        else {
            return Ok(None);
        };
        Ok(Some(self.kept(own)))
    }

    /// Mostly a text comes again.
    fn kept(&mut self, own: &str) -> ByteArray {
        if let Some(known) = self.texts.get(own) {
            return known.clone();
        }
        // Reasons may be many.
        if self.texts.len() >= MAX_TEXTS {
            self.texts.clear();
        }
        let new = text(own);
        self.texts.insert(own.to_string(), new.clone());
        new
    }

    /// The same of a column that always has a text.
    fn name(&mut self, row: &Row<'_>, column: usize) -> Result<ByteArray, Fault> {
        Ok(self.text(row, column)?.unwrap_or_else(|| text("")))
    }

    fn kind(&mut self, conn: &Connection, number: i64) -> Result<Rc<Kind>, Fault> {
        if let Some(known) = self.kinds.get(&number) {
            return Ok(Rc::clone(known));
        }
        let sql = format!("SELECT {} FROM metric_kind WHERE metric_kind = ?1", kind::COLUMNS);
        let kind: MetricKind =
            conn.prepare_cached(&sql)?.query_row([number], |row| kind::read(row, 0))?;
        let statistic = match serde_json::to_value(kind.statistic) {
            Ok(Json::String(word)) => word,
            // A quantile has a number: `quantile 990000`.
            Ok(Json::Object(object)) => {
                let parts = object.iter().map(|(name, number)| format!("{name} {number}"));
                parts.collect::<Vec<_>>().join(" ")
            }
            other => return Err(Fault::Event(format!("{other:?} is not a statistic"))),
        };
        let own = Rc::new(Kind {
            name: text(&kind.name),
            unit: text(&word(kind.unit)?),
            direction: text(&word(kind.direction)?),
            statistic: text(&statistic),
            importance: text(&word(kind.importance)?),
            subject: kind.subject.as_deref().map(text),
        });
        self.kinds.insert(number, Rc::clone(&own));
        Ok(own)
    }
}

/// Calls `see` with each row that a question gives of each run that is sound.
fn each(
    conn: &Connection,
    sql: &str,
    source: &Source,
    mut see: impl FnMut(&CheckedRun, &Row<'_>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut select = conn.prepare_cached(sql)?;
    for run in source.runs.iter().filter(|run| !run.is_damaged()) {
        let mut rows = select.query([run.row.run])?;
        while let Some(row) = rows.next()? {
            see(run, row)?;
        }
    }
    Ok(())
}

pub fn runs(rows: &mut Rows, source: &Source, conn: &Connection) -> Result<(), Fault> {
    let mut disturbances = conn.prepare_cached(SELECT_DISTURBANCES)?;
    for run in &source.runs {
        let (row, is_sound) = (&run.row, !run.is_damaged());
        let reason = run.reason().map(|reason| rows.kept(&reason));
        let unknown = row.overhead_unknown.as_deref().filter(|_| is_sound);
        let unknown = unknown.map(|why| rows.kept(why));
        let guest = rows.guest(conn, run, source)?;
        let time = guest.as_ref().map_or(Value::Null, |guest| Value::Text(&guest.1));
        let disturbances =
            if is_sound { disturbances.query_row([row.run], |row| row.get(0))? } else { 0 };
        let own = [
            Value::Int(row.environment.into()),
            Value::text(&reason),
            int(row.measured_ns.filter(|_| is_sound)),
            int(row.overhead_cpu_ns.filter(|_| is_sound)),
            Value::text(&unknown),
            time,
            Value::Int(disturbances),
        ];
        rows.push(conn, source, run, &own)?;
    }
    Ok(())
}

pub fn metrics(rows: &mut Rows, source: &Source, conn: &Connection) -> Result<(), Fault> {
    each(conn, SELECT_METRICS, source, |run, row| {
        let [set, workload, ops] = [rows.name(row, 0)?, rows.name(row, 1)?, rows.name(row, 2)?];
        let kind = rows.kind(conn, row.get(4)?)?;
        let unknown = rows.text(row, 6)?;
        let value: Option<f64> = row.get(5)?;
        let own = [
            Value::Text(&set),
            Value::Text(&workload),
            Value::Text(&ops),
            Value::Bool(row.get(3)?),
            Value::Text(&kind.name),
            Value::Text(&kind.unit),
            Value::Text(&kind.direction),
            Value::Text(&kind.statistic),
            Value::Text(&kind.importance),
            Value::text(&kind.subject),
            value.map_or(Value::Null, Value::Double),
            Value::text(&unknown),
        ];
        rows.push(conn, source, run, &own)
    })
}

pub fn histograms(rows: &mut Rows, source: &Source, conn: &Connection) -> Result<(), Fault> {
    each(conn, SELECT_HISTOGRAMS, source, |run, row| {
        let (set, name) = (rows.name(row, 0)?, rows.name(row, 1)?);
        let counts = counts(row, 2)?
            .map_err(|why| Fault::Damaged(format!("a histogram of a run: {why}")))?;
        for (value_ns, count) in counts {
            let own = [
                Value::Text(&set),
                Value::Text(&name),
                Value::Int(value_ns as i64),
                Value::Int(count as i64),
            ];
            rows.push(conn, source, run, &own)?;
        }
        Ok(())
    })
}

pub fn windows(rows: &mut Rows, source: &Source, conn: &Connection) -> Result<(), Fault> {
    each(conn, SELECT_WINDOWS, source, |run, row| {
        let (set, role) = (rows.text(row, 2)?, rows.text(row, 3)?);
        let own = [
            Value::Int(row.get(0)?),
            Value::Int(row.get(1)?),
            Value::text(&set),
            Value::text(&role),
            Value::Int(row.get(4)?),
            Value::Int(row.get(5)?),
            Value::Int(row.get(6)?),
            Value::Int(row.get(7)?),
            Value::Int(row.get(8)?),
        ];
        rows.push(conn, source, run, &own)
    })
}
