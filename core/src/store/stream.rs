//! The event stream of what is stored, and its export as JSON lines, one event a line. Holds one run's outcome
//! or one window at a time, however long the plan.

use std::io::Write;

use rusqlite::Connection;

use super::Store;
use super::annotations;
use super::column::{json, numbered};
use super::damage::Damage;
use super::error::{Fault, StoreError};
use super::read::{self, Session};
use super::seal;
use crate::model::{Event, PlanStarted, Window};

/// In the order in which they came.
pub(super) const ALL: &str = "SELECT plan, id FROM plan NOT INDEXED ORDER BY plan";

impl Store {
    /// Writes the events of plan `id`, or of all plans in the order in which they came, as
    /// they would be emitted if no run had been interrupted; behind all plans all scores.
    pub fn export(
        &self,
        selected: Option<&[String]>,
        out: &mut dyn Write,
    ) -> Result<(), StoreError> {
        let mut export = || -> Result<(), Fault> {
            let snapshot = self.conn.unchecked_transaction()?;
            let plans = self.chosen(&snapshot, selected)?;
            for (plan, id) in plans {
                let written = self.each_event(&snapshot, plan, &mut |event| put(out, &event));
                written.map_err(|fault| fault.within(&id, "export", &self.path))?;
                annotations::export(&snapshot, plan, &id, out)?;
            }
            if selected.is_none() { self.export_scores(&snapshot, out) } else { Ok(()) }
        };
        export().map_err(|fault| fault.at("export", &self.path))?;
        out.flush().map_err(StoreError::Output)
    }

    /// The plans of these ids, or all, by their numbers.
    pub(super) fn chosen(
        &self,
        conn: &Connection,
        selected: Option<&[String]>,
    ) -> Result<Vec<(i64, String)>, Fault> {
        let number = |id: &String| Ok((self.plan_number(conn, id)?, id.clone()));
        match selected {
            Some(ids) => ids.iter().map(number).collect(),
            None => self.sound_plans(conn, ALL),
        }
    }

    /// The events of a stored plan, in order. A damaged run has failed.
    pub(super) fn each_event(
        &self,
        conn: &Connection,
        plan: i64,
        see: &mut See,
    ) -> Result<(), Fault> {
        let started = read::started(conn, plan)?;
        let mut sessions = read::sessions(conn, plan)?.into_iter();
        let (mut session, mut next) = (None, 0);
        self.each_run(conn, (plan, &started.id), |run| {
            while next <= run.environment {
                session = Some(next_session(&mut sessions, session.take(), &started, see)?);
                next += 1;
            }
            let (number, key) = (run.run, run.key);
            see(Event::RunStarted { key })?;
            let mut damaged = None;
            let outcome = read::checked(conn, run, |key, what| {
                damaged = Some(what);
                self.report(Damage::of_run(&started.id, key, what));
            })?;
            if damaged.is_none() {
                each_window(conn, number, &mut |window| see(Event::Window { key, window }))?;
            }
            see(Event::RunEnded { key, outcome })?;
            Ok(damaged != Some(seal::ROW))
        })?;
        while sessions.len() > 0 {
            session = Some(next_session(&mut sessions, session.take(), &started, see)?);
        }
        end_session(session, see)
    }

    /// Numbers and ids of the plans that `sql` gives, but for those that are damaged.
    pub(super) fn sound_plans(
        &self,
        conn: &Connection,
        sql: &str,
    ) -> Result<Vec<(i64, String)>, Fault> {
        let mut sound = Vec::new();
        for (plan, id) in numbered(conn, sql)? {
            let is_sound = self.unless_damaged(&id, seal::check_plan(conn, plan))?;
            sound.extend(is_sound.map(|()| (plan, id)));
        }
        self.report_missing(conn)?;
        Ok(sound)
    }

    /// Passes on the result of reading a plan; a damaged one is reported.
    pub(super) fn unless_damaged<T>(
        &self,
        id: &str,
        read: Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        match read {
            Err(fault) if fault.is_damage() => {
                self.report(Damage::Plan { id: id.to_string() });
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    pub(super) fn report_missing(&self, conn: &Connection) -> Result<(), Fault> {
        match seal::missing(conn, "plan")? {
            0 => {}
            missing => self.report(Damage::Plans(missing)),
        }
        Ok(())
    }
}

/// Takes events.
pub(super) type See<'a> = dyn FnMut(Event) -> Result<(), Fault> + 'a;

/// Ends the session before and starts the next one.
fn next_session(
    sessions: &mut impl Iterator<Item = Session>,
    before: Option<Session>,
    started: &PlanStarted,
    see: &mut See,
) -> Result<Session, Fault> {
    end_session(before, see)?;
    let mut session = sessions
        .next()
        .ok_or_else(|| Fault::Damaged("a run names an environment that is not stored".into()))?;
    let at_end = session.environment.calibration_at_end.take();
    let started = PlanStarted {
        started_unix_ns: session.started_unix_ns,
        environment: session.environment.clone(),
        ..started.clone()
    };
    see(Event::PlanStarted(Box::new(started)))?;
    session.environment.calibration_at_end = at_end;
    Ok(session)
}

fn end_session(session: Option<Session>, see: &mut See) -> Result<(), Fault> {
    let Some(Session { ended: Some(reason), environment, .. }) = session else { return Ok(()) };
    see(Event::PlanEnded { reason, calibration: environment.calibration_at_end })
}

/// The windows of a run, in order.
pub(super) fn each_window(
    conn: &Connection,
    run: i64,
    see: &mut dyn FnMut(Window) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut select = conn.prepare_cached(
        "SELECT window_index, end_at_ns, wall_ns, ops, cpu_ns, peak_ns FROM worker_window
         WHERE run = ?1 ORDER BY window_index, worker",
    )?;
    let mut rows = select.query([run])?;
    let mut window: Option<Window> = None;
    while let Some(row) = rows.next()? {
        let index = row.get(0)?;
        let worker = read::worker_window(row, 1)?;
        match &mut window {
            Some(window) if window.index == index => window.workers.push(worker),
            _ => {
                let full = window.replace(Window { index, workers: vec![worker] });
                full.map_or(Ok(()), &mut *see)?;
            }
        }
    }
    window.map_or(Ok(()), see)
}

fn put(out: &mut dyn Write, event: &Event) -> Result<(), Fault> {
    Ok(writeln!(out, "{}", json(event)?).map_err(StoreError::Output)?)
}
