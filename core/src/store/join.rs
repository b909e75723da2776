//! Parts of a plan become one plan: their runs move to it, each with the session that measured it. A run that two
//! parts have is taken once, if both have the same answer.
//!
//! All of it in the transaction of the caller.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension, params};

use super::Store;
use super::column::{bits, rows, word};
use super::error::{Fault, JOIN, StoreError};
use super::facts::guest;
use super::read;
use super::run;
use super::seal;
use super::stream::each_window;
use super::write::{Lock, atomically, difference, insert_plan};
use crate::model::clean;
use crate::model::{
    Division, Environment, GuestKernel, MissingPart, Outcome, PlanEnd, PlanStarted, RunKey,
    Sharding, Window,
};

/// A plan that parts were joined in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedPlan {
    pub id: String,
    pub title: String,
    pub sharding: Sharding,
    /// Stored runs among those that its rounds ask for.
    pub runs: u64,
    pub planned: u64,
    /// Runs that were there already, with the same answers.
    pub repeated: u64,
    /// Parts that lack runs.
    pub missing: Vec<MissingPart>,
    /// Where it was measured, each once.
    pub places: BTreeSet<Place>,
    /// Variants that had more than one kernel in the lab.
    pub kernels: Vec<(String, Vec<GuestKernel>)>,
}

/// Where a part was measured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub hostname: String,
    /// In the lab the emulator.
    pub cpu_model: String,
    pub kernel_release: String,
}

impl Place {
    fn from_environment(environment: &Environment) -> Place {
        Place {
            hostname: environment.hostname.clone(),
            cpu_model: environment.cpu_model.clone().known().unwrap_or_default(),
            kernel_release: environment.kernel_release.clone(),
        }
    }
}

/// A part, or parts that were joined elsewhere, as it came.
pub(super) struct Arrived {
    /// Under which it is stored until it is joined.
    pub id: String,
    /// The name of its file; empty if there is only one.
    pub name: String,
    pub sharding: Sharding,
    /// It was named by itself: a database may have parts of several plans.
    pub is_file: bool,
}

impl Arrived {
    fn describe(&self) -> String {
        let name = if self.name.is_empty() {
            "what is imported".to_string()
        } else {
            format!("`{}`", self.name)
        };
        match self.sharding.shard() {
            Some(shard) => format!("{name}, part {shard}"),
            None => name,
        }
    }
}

impl Store {
    /// Joins the parts of one plan that are stored here, if they are all there or others were joined
    /// before.
    pub fn join_stored(&mut self, of: &Sharding) -> Result<Option<JoinedPlan>, StoreError> {
        let joined = atomically(&self.conn, Lock::Database, |conn| {
            let whole = number(conn, &of.whole_id())?;
            let parts = ended_parts(conn, of)?;
            let Some(&(first, _)) = parts.first() else { return Ok(None) };
            let division = of.division(&read::started(conn, whole.unwrap_or(first))?.plan);
            let is_there = |part| {
                division.runs_of(part) == 0
                    || parts.iter().any(|(_, arrived)| arrived.sharding.part == Some(part))
            };
            if whole.is_none() && !(1..=of.parts).all(is_there) {
                return Ok(None);
            }
            Ok(Some(join_all(conn, parts)?))
        });
        let joined = joined.map_err(|fault| fault.at(JOIN, &self.path))?;
        self.committed()?;
        Ok(joined)
    }
}

/// Joins what came, each plan with its parts that are stored here already.
pub(super) fn arrived(
    store: &mut Store,
    arrived: Vec<Arrived>,
) -> Result<Vec<JoinedPlan>, StoreError> {
    let path = store.path.clone();
    let join = || -> Result<_, Fault> {
        let conn = &store.conn;
        of_one_plan(conn, &arrived)?;
        let mut plans: BTreeMap<String, Vec<(i64, Arrived)>> = BTreeMap::new();
        for part in arrived {
            let plan = store.plan_number(conn, &part.id)?;
            let parts = plans.entry(part.sharding.whole_id()).or_default();
            // Before those that came.
            if parts.is_empty() {
                parts.extend(ended_parts(conn, &part.sharding)?);
            }
            parts.push((plan, part));
        }
        plans.into_values().map(|parts| join_all(conn, parts)).collect()
    };
    join().map_err(|fault| fault.at(JOIN, &path))
}

/// Files that a user names together are of one plan, cut in one way.
fn of_one_plan(conn: &Connection, arrived: &[Arrived]) -> Result<(), Fault> {
    let mut files = arrived.iter().filter(|part| part.is_file);
    let Some(first) = files.next() else { return Ok(()) };
    let started = |part: &Arrived| -> Result<PlanStarted, Fault> {
        let plan =
            number(conn, &part.id)?.ok_or_else(|| Fault::Damaged("a part is gone".into()))?;
        read::started(conn, plan)
    };
    for other in files {
        if first.sharding.plan != other.sharding.plan {
            let what = what_differs(&started(first)?, &started(other)?);
            let parts = Box::new([first.describe(), other.describe()]);
            return Err(StoreError::PartsOfOthers { parts, what }.into());
        }
        if first.sharding.parts != other.sharding.parts {
            let parts = Box::new([first.describe(), other.describe()]);
            return Err(StoreError::PartsCutOtherwise { parts }.into());
        }
    }
    Ok(())
}

/// Why two plans are not one, in words.
pub(super) fn what_differs(first: &PlanStarted, other: &PlanStarted) -> String {
    let (own, others) = (&first.plan, &other.plan);
    let pair = |what: &str, own: &dyn std::fmt::Display, other: &dyn std::fmt::Display| {
        format!("{what} ({own} and {other})")
    };
    match () {
        () if own.title != others.title => {
            let quoted = |title: &str| format!("`{}`", clean(title));
            pair("the title", &quoted(&own.title), &quoted(&others.title))
        }
        () if first.backend != other.backend => pair("the backend", &first.backend, &other.backend),
        () if first.source != other.source => "the text of the plan".to_string(),
        () if own.measure.seed != others.measure.seed => {
            pair("the seed", &own.measure.seed, &others.measure.seed)
        }
        () if own.measure.rounds != others.measure.rounds => {
            pair("the number of rounds", &own.measure.rounds, &others.measure.rounds)
        }
        () if own.measure != others.measure => "what is measured in a round".to_string(),
        () if own.variants != others.variants => "the variants".to_string(),
        () if own.lab != others.lab => "the machine of the lab".to_string(),
        () if own != others => "what the text of the plan means on the machine".to_string(),
        () if first.judged != other.judged => "what is judged".to_string(),
        () => "the version of schedlab".to_string(),
    }
}

fn number(conn: &Connection, id: &str) -> Result<Option<i64>, Fault> {
    let mut select = conn.prepare_cached("SELECT plan FROM plan WHERE id = ?1")?;
    Ok(select.query_row([id], |row| row.get(0)).optional()?)
}

/// The parts of a plan that are stored as plans of their own and have ended, ascending. Others are being
/// measured, or go on.
fn ended_parts(conn: &Connection, of: &Sharding) -> Result<Vec<(i64, Arrived)>, Fault> {
    let mut select = conn.prepare_cached(
        "SELECT plan, id, sharding FROM plan WHERE sharding IS NOT NULL AND id LIKE ?1",
    )?;
    let like = format!("{}-%", of.whole_id());
    let rows = select.query_map([like], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, read::sharding(row, 2)?))
    })?;
    let mut parts = Vec::new();
    for row in rows {
        let (plan, id, sharding) = row?;
        let Some(sharding) = sharding.filter(|own| own.part.is_some() && own.id() == id) else {
            continue;
        };
        let is_of_it = (&sharding.plan, sharding.parts) == (&of.plan, of.parts);
        let ended = read::sessions(conn, plan)?.last().and_then(|session| session.ended);
        if is_of_it && matches!(ended, Some(PlanEnd::Complete | PlanEnd::Budget)) {
            let name = format!("{id} of this store");
            parts.push((plan, Arrived { id, name, sharding, is_file: false }));
        }
    }
    parts.sort_by_key(|(_, part)| part.sharding.part);
    Ok(parts)
}

/// Joins parts of one plan; there is at least one.
fn join_all(conn: &Connection, mut parts: Vec<(i64, Arrived)>) -> Result<JoinedPlan, Fault> {
    // In the order of the parts, whatever the order of the files.
    parts.sort_by_key(|(_, part)| part.sharding.part);
    let [(first, _), ..] = &parts[..] else {
        return Err(Fault::Damaged("there is no part".to_string()));
    };
    let started = read::started(conn, *first)?;
    let started = PlanStarted {
        id: started.sharding.as_ref().map(Sharding::whole_id).unwrap_or_default(),
        sharding: started.sharding.map(|own| Sharding { part: None, ..own }),
        ..started
    };
    let (whole, started) = match number(conn, &started.id)? {
        Some(whole) => (whole, read::started(conn, whole)?),
        None => (insert_plan(conn, &started)?, started),
    };
    let mut join = Joining::new(conn, whole, &started)?;
    for (plan, part) in parts {
        join.add(plan, &part)?;
    }
    join.end()
}

struct Joining<'c> {
    conn: &'c Connection,
    whole: i64,
    started: &'c PlanStarted,
    sharding: Sharding,
    division: Division,
    /// Where the sessions came from that were added now.
    names: BTreeMap<u32, String>,
    ends: Vec<Option<PlanEnd>>,
    repeated: u64,
}

impl<'c> Joining<'c> {
    fn new(
        conn: &'c Connection,
        whole: i64,
        started: &'c PlanStarted,
    ) -> Result<Joining<'c>, Fault> {
        let sharding = started.sharding.clone();
        let sharding = sharding.ok_or_else(|| Fault::Damaged("a part is none".to_string()))?;
        let division = sharding.division(&started.plan);
        let (names, ends) = (BTreeMap::new(), Vec::new());
        let joining =
            Joining { conn, whole, started, sharding, division, names, ends, repeated: 0 };
        Ok(joining)
    }

    fn add(&mut self, plan: i64, part: &Arrived) -> Result<(), Fault> {
        let own = read::started(self.conn, plan)?;
        self.fits(&own, part)?;
        self.is_of_part(plan, part)?;
        self.drop_repeated(plan, part)?;
        self.ends.push(read::sessions(self.conn, plan)?.last().and_then(|session| session.ended));
        self.take(plan, part)?;
        take_annotations(self.conn, plan, self.whole)?;
        self.conn.execute("DELETE FROM plan WHERE plan = ?1", [plan])?;
        self.conn
            .prepare_cached(
                "UPDATE plan SET started_unix_ns = min(started_unix_ns, ?2) WHERE plan = ?1",
            )?
            .execute([self.whole, bits(own.started_unix_ns)])?;
        Ok(())
    }

    /// Whether it is of the plan that is stored, and cut as it is.
    fn fits(&self, own: &PlanStarted, part: &Arrived) -> Result<(), Fault> {
        let stored = self.started;
        let parts = || Box::new([format!("{} of this store", stored.id), part.describe()]);
        let cut = |started: &PlanStarted| {
            started.sharding.as_ref().map(|own| (own.parts, own.cut, own.plan.clone()))
        };
        if cut(stored) != cut(own) {
            return Err(StoreError::PartsCutOtherwise { parts: parts() }.into());
        }
        let alike = PlanStarted { sharding: stored.sharding.clone(), ..own.clone() };
        match difference(stored, &alike) {
            Some(_) => {
                let what = what_differs(stored, own);
                Err(StoreError::PartsOfOthers { parts: parts(), what }.into())
            }
            None => Ok(()),
        }
    }

    /// Each of its runs is one that this part has.
    fn is_of_part(&self, plan: i64, part: &Arrived) -> Result<(), Fault> {
        for key in run::keys(self.conn, plan)? {
            let of = self.division.part_of(key);
            if of.is_none() || part.sharding.part.is_some_and(|part| of != Some(part)) {
                return Err(StoreError::NotOfPart { part: part.describe(), key }.into());
            }
        }
        Ok(())
    }

    /// Removes the runs of `plan` that are there already.
    fn drop_repeated(&mut self, plan: i64, part: &Arrived) -> Result<(), Fault> {
        let sql =
            "SELECT arrived.run, known.run FROM run arrived JOIN run known USING (round, cell)
             WHERE arrived.plan = ?1 AND known.plan = ?2 ORDER BY arrived.run";
        let pairs: Vec<(i64, i64)> =
            rows(self.conn, sql, [plan, self.whole], |row| Ok((row.get(0)?, row.get(1)?)))?;
        for (arrived, known) in pairs {
            let ((key, _), own) = answer(self.conn, arrived)?;
            let ((_, session), other) = answer(self.conn, known)?;
            if own != other {
                let from = self.names.get(&session);
                let stored = || format!("{} of this store", self.started.id);
                let parts = Box::new([from.cloned().unwrap_or_else(stored), part.describe()]);
                let cell = self.started.cells.get(key.cell as usize);
                let cell =
                    cell.map(|cell| format!("{} / {}", cell.work.label(), cell.variant.name));
                let cell = cell.unwrap_or_default();
                return Err(StoreError::AnswersDiffer { parts, key, cell }.into());
            }
            self.conn.prepare_cached("DELETE FROM run WHERE run = ?1")?.execute([arrived])?;
            self.repeated += 1;
        }
        Ok(())
    }

    /// Moves the runs that are left, and the sessions that measured them.
    fn take(&mut self, plan: i64, part: &Arrived) -> Result<(), Fault> {
        let conn = self.conn;
        let sql = "SELECT environment FROM environment WHERE plan = ?1 AND EXISTS
                 (SELECT 1 FROM run WHERE run.plan = ?1 AND run.environment = environment.environment)
             ORDER BY environment";
        let sessions: Vec<i64> = rows(conn, sql, [plan], |row| row.get(0))?;
        for session in sessions {
            let next: u32 = conn
                .prepare_cached("SELECT count(*) FROM environment WHERE plan = ?1")?
                .query_row([self.whole], |row| row.get(0))?;
            conn.prepare_cached(
                "INSERT INTO environment SELECT ?3, ?4, started_unix_ns, ended, hostname, cpu_model,
                     kernel_release, kernel_version, boot_id, virtualisation, json
                 FROM environment WHERE plan = ?1 AND environment = ?2",
            )?
            .execute(params![plan, session, self.whole, next])?;
            conn.prepare_cached(
                "UPDATE run SET plan = ?3, environment = ?4 WHERE plan = ?1 AND environment = ?2",
            )?
            .execute(params![plan, session, self.whole, next])?;
            self.names.insert(next, part.describe());
        }
        Ok(())
    }

    /// Says how it ended, and what is missing.
    fn end(self) -> Result<JoinedPlan, Fault> {
        let missing = self.division.missing(run::keys(self.conn, self.whole)?);
        let lacks: u64 = missing.iter().map(|part| part.lacks).sum();
        let has_budget_end = self.ends.contains(&Some(PlanEnd::Budget));
        let end = match lacks {
            0 => PlanEnd::Complete,
            _ if has_budget_end && missing.iter().all(|part| part.lacks < part.planned) => {
                PlanEnd::Budget
            }
            _ => PlanEnd::Interrupted,
        };
        self.conn
            .prepare_cached(
                "UPDATE environment SET ended = ?2 WHERE plan = ?1 AND environment =
                     (SELECT max(environment) FROM environment WHERE plan = ?1)",
            )?
            .execute(params![self.whole, word(end)?])?;
        self.has_session()?;
        seal::whole(self.conn, self.whole)?;
        let planned = self.division.runs();
        let sessions = read::sessions(self.conn, self.whole)?;
        Ok(JoinedPlan {
            id: self.started.id.clone(),
            title: self.started.plan.title.clone(),
            runs: planned.saturating_sub(lacks),
            planned,
            repeated: self.repeated,
            missing,
            places: sessions
                .iter()
                .map(|session| Place::from_environment(&session.environment))
                .collect(),
            kernels: kernels(self.conn, self.whole)?,
            sharding: self.sharding,
        })
    }

    /// A plan of parts without any run has one all the same.
    fn has_session(&self) -> Result<(), Fault> {
        let started = self.started;
        let mut select = self.conn.prepare_cached("SELECT 1 FROM environment WHERE plan = ?1")?;
        if select.exists([self.whole])? {
            return Ok(());
        }
        let PlanStarted { started_unix_ns, environment, .. } = started;
        super::write::insert_environment(self.conn, self.whole, *started_unix_ns, environment)?;
        Ok(())
    }
}

/// Adds the tags and notes of one plan to another that has not all of them.
pub(super) fn take_annotations(conn: &Connection, from: i64, to: i64) -> Result<(), Fault> {
    conn.prepare_cached("INSERT OR IGNORE INTO tag SELECT ?2, name FROM tag WHERE plan = ?1")?
        .execute([from, to])?;
    conn.prepare_cached(
        "INSERT INTO note (plan, written_unix_ns, text)
         SELECT ?2, written_unix_ns, text FROM note WHERE plan = ?1
         EXCEPT SELECT plan, written_unix_ns, text FROM note WHERE plan = ?2",
    )?
    .execute([from, to])?;
    Ok(())
}

/// All that a run has but for the session that measured it.
type Answer = (Outcome, Vec<Window>);

/// Reads a run: its key, its session, and what it answered.
fn answer(conn: &Connection, run: i64) -> Result<((RunKey, u32), Answer), Fault> {
    let row = run::numbered(conn, run)?;
    let place = (row.key, row.environment);
    let mut windows = Vec::new();
    each_window(conn, run, &mut |window| {
        windows.push(window);
        Ok(())
    })?;
    Ok((place, (read::outcome(conn, row)?, windows)))
}

/// Variants whose guests had several kernels.
fn kernels(conn: &Connection, plan: i64) -> Result<Vec<(String, Vec<GuestKernel>)>, Fault> {
    let mut select = conn.prepare_cached(
        "SELECT DISTINCT variant, guest FROM run JOIN cell USING (plan, cell)
         WHERE plan = ?1 AND guest IS NOT NULL",
    )?;
    let rows = select.query_map([plan], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut variants: BTreeMap<String, Vec<GuestKernel>> = BTreeMap::new();
    for row in rows {
        let (variant, number): (String, i64) = row?;
        let kernel = guest(conn, number)?.kernel;
        let known = variants.entry(variant).or_default();
        if !known.contains(&kernel) {
            known.push(kernel);
        }
    }
    Ok(variants.into_iter().filter(|(_, kernels)| kernels.len() > 1).collect())
}
