//! The event stream as JSON lines: what is stored, one event a line, and back.
//!
//! Both directions hold one run's outcome or one window at a time, however long the plan.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Read, Write};

use rusqlite::Connection;
use serde::Deserialize;

use super::Store;
use super::annotations;
use super::check;
use super::column::unsigned;
use super::error::{Fault, StoreError};
use super::read::{self, Session};
use super::score;
use crate::model::{EVENT_SCHEMA, Event, PlanStarted, RunKey, Window, WorkerWindow};

/// A longer line is no event of ours: 100,000 workers need a tenth of it.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// What [`Store::import`] added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imported {
    pub plans: usize,
    pub runs: usize,
    pub scores: usize,
}

impl Store {
    /// Writes the events of plan `id`, or of all plans in the order in which they came, as
    /// they would be emitted if no run had been interrupted; behind all plans all scores.
    pub fn export(&self, id: Option<&str>, out: &mut dyn Write) -> Result<(), StoreError> {
        let mut export = || -> Result<(), Fault> {
            let snapshot = self.conn.unchecked_transaction()?;
            let plans = match id {
                Some(id) => vec![self.plan_number(&snapshot, id)?],
                None => {
                    let mut select =
                        snapshot.prepare_cached("SELECT plan FROM plan ORDER BY plan")?;
                    select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?
                }
            };
            plans.into_iter().try_for_each(|plan| export_plan(&snapshot, plan, out))?;
            if id.is_none() { score::export(&snapshot, out) } else { Ok(()) }
        };
        export().map_err(|fault| fault.at("export", &self.path))?;
        out.flush().map_err(StoreError::Output)
    }

    /// Adds the plans of an exported stream: all of them or, where a line is wrong, none.
    /// A plan that is stored already is refused.
    pub fn import(&mut self, mut input: impl BufRead) -> Result<Imported, StoreError> {
        self.current = None;
        let sql = |store: &Store, sql| {
            let run = store.conn.execute_batch(sql).map_err(Fault::from);
            run.map_err(|fault| fault.at("import", &store.path))
        };
        sql(self, "BEGIN IMMEDIATE")?;
        let result = self.import_lines(&mut input).and_then(|imported| {
            sql(self, "COMMIT")?;
            Ok(imported)
        });
        self.current = None;
        if result.is_err() && !self.conn.is_autocommit() {
            sql(self, "ROLLBACK")?;
        }
        result
    }

    fn import_lines(&mut self, input: &mut impl BufRead) -> Result<Imported, StoreError> {
        let mut begun = BTreeSet::new();
        let (mut runs, mut scores) = (0, 0);
        let mut text = String::new();
        for line in 1.. {
            text.clear();
            let read = input.by_ref().take(MAX_LINE_BYTES).read_line(&mut text);
            if read.map_err(|source| StoreError::Input { line, source })? == 0 {
                break;
            }
            let refuse = |source| StoreError::Line { line, source: Box::new(source) };
            if let Some(line) = annotations::parse(&text) {
                self.import_annotations(&line, &begun).map_err(refuse)?;
                continue;
            }
            if let Some(line) = score::parse(&text) {
                self.import_score(&line).map_err(refuse)?;
                scores += 1;
                continue;
            }
            let event = parse(&text, line)?;
            if let Event::PlanStarted(started) = &event {
                check::plan(started).map_err(|why| refuse(why.into()))?;
                if begun.insert(started.id.clone()) {
                    self.refuse_stored(&started.id).map_err(refuse)?;
                }
            }
            self.apply(&event).map_err(refuse)?;
            runs += usize::from(matches!(event, Event::RunEnded { .. }));
        }
        Ok(Imported { plans: begun.len(), runs, scores })
    }

    fn refuse_stored(&self, id: &str) -> Result<(), StoreError> {
        match self.plan_number(&self.conn, id) {
            Ok(_) => Err(StoreError::PlanStored { id: id.to_string(), path: self.path.clone() }),
            Err(Fault::Store(StoreError::UnknownPlan { .. })) => Ok(()),
            Err(fault) => Err(fault.at("import", &self.path)),
        }
    }
}

fn parse(text: &str, line: u64) -> Result<Event, StoreError> {
    #[derive(Deserialize)]
    struct Version {
        schema: u64,
    }
    if text.len() as u64 >= MAX_LINE_BYTES {
        let why = format!("it is longer than {MAX_LINE_BYTES} bytes");
        return Err(StoreError::Malformed { line, why });
    }
    serde_json::from_str(text).map_err(|why| match serde_json::from_str::<Version>(text) {
        // Of a newer version the version is what is wrong, not the syntax.
        Ok(Version { schema: found }) if found > u64::from(EVENT_SCHEMA) => {
            let source = Box::new(StoreError::Schema { found, known: EVENT_SCHEMA });
            StoreError::Line { line, source }
        }
        _ => StoreError::Malformed { line, why: why.to_string() },
    })
}

fn export_plan(conn: &Connection, plan: i64, out: &mut dyn Write) -> Result<(), Fault> {
    let started = read::started(conn, plan)?;
    let mut sessions = read::sessions(conn, plan)?.into_iter();
    let mut session = None;
    let mut next = 0;
    read::each_run(conn, plan, |run| {
        while next <= run.environment {
            session = Some(next_session(&mut sessions, session.take(), &started, out)?);
            next += 1;
        }
        let (number, key) = (run.run, run.key);
        put(out, &Event::RunStarted { key })?;
        export_windows(conn, number, key, out)?;
        put(out, &Event::RunEnded { key, outcome: read::outcome(conn, run)? })
    })?;
    while sessions.len() > 0 {
        session = Some(next_session(&mut sessions, session.take(), &started, out)?);
    }
    end_session(session, out)?;
    annotations::export(conn, plan, &started.id, out)
}

/// Ends the session before and starts the next one.
fn next_session(
    sessions: &mut impl Iterator<Item = Session>,
    before: Option<Session>,
    started: &PlanStarted,
    out: &mut dyn Write,
) -> Result<Session, Fault> {
    end_session(before, out)?;
    let mut session = sessions
        .next()
        .ok_or_else(|| Fault::Damaged("a run names an environment that is not stored".into()))?;
    let at_end = session.environment.calibration_at_end.take();
    let started = PlanStarted {
        started_unix_ns: session.started_unix_ns,
        environment: session.environment.clone(),
        ..started.clone()
    };
    put(out, &Event::PlanStarted(Box::new(started)))?;
    session.environment.calibration_at_end = at_end;
    Ok(session)
}

fn end_session(session: Option<Session>, out: &mut dyn Write) -> Result<(), Fault> {
    let Some(Session { ended: Some(reason), environment, .. }) = session else { return Ok(()) };
    put(out, &Event::PlanEnded { reason, calibration: environment.calibration_at_end })
}

fn export_windows(
    conn: &Connection,
    run: i64,
    key: RunKey,
    out: &mut dyn Write,
) -> Result<(), Fault> {
    let mut select = conn.prepare_cached(
        "SELECT window_index, end_at_ns, wall_ns, ops, cpu_ns, peak_ns FROM worker_window
         WHERE run = ?1 ORDER BY window_index, worker",
    )?;
    let mut rows = select.query([run])?;
    let mut window: Option<Window> = None;
    while let Some(row) = rows.next()? {
        let index = row.get(0)?;
        let worker = WorkerWindow {
            end_at_ns: unsigned(row, 1)?,
            wall_ns: unsigned(row, 2)?,
            ops: unsigned(row, 3)?,
            cpu_ns: unsigned(row, 4)?,
            peak_ns: unsigned(row, 5)?,
        };
        match &mut window {
            Some(window) if window.index == index => window.workers.push(worker),
            _ => {
                let full = window.replace(Window { index, workers: vec![worker] });
                put_window(out, key, full)?;
            }
        }
    }
    put_window(out, key, window)
}

fn put_window(out: &mut dyn Write, key: RunKey, window: Option<Window>) -> Result<(), Fault> {
    window.map_or(Ok(()), |window| put(out, &Event::Window { key, window }))
}

fn put(out: &mut dyn Write, event: &Event) -> Result<(), Fault> {
    let line = serde_json::to_string(event).map_err(|why| Fault::Event(why.to_string()))?;
    writeln!(out, "{line}").map_err(|why: io::Error| StoreError::Output(why).into())
}
