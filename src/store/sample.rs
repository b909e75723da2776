//! What comparisons over many plans read of one: the values of its metrics, without workers,
//! histograms and windows; of disturbances and knobs only what is unlike it should be.
//!
//! Rows hang on a run and are clustered by its number, and the runs of a plan mostly follow
//! each other. So a stretch of them is one pass over two tables, side by side. Names are the
//! same from run to run: they are compared with those that stood in the same place before,
//! and kept once.

use std::collections::HashMap;

use rusqlite::{Connection, Row, Rows};

use super::Store;
use super::column::{from_word, misfit};
use super::error::{Fault, StoreError};
use super::read::{sessions, started};
use crate::model::{
    Cell, DisturbanceKind, Environment, Guest, RunIssues, RunKey, SampledMetric, SampledPlan,
    SampledRun, SampledValue, Unmeasured, place_of, told,
};

const RUNS: &str = "
    SELECT run, round, cell, environment, status = 'done', status = 'skipped', reason
    FROM run WHERE plan = ?1 ORDER BY run";
const SETS: &str = "
    SELECT run, name, ops FROM worker_set WHERE run BETWEEN ?1 AND ?2 ORDER BY run, worker_set";
const METRICS: &str = "
    SELECT run, worker_set, name, unit, direction, value FROM metric WHERE run BETWEEN ?1 AND ?2
    ORDER BY run, worker_set, metric";
const DISTURBANCES: &str = "
    SELECT run, kind FROM disturbance WHERE run BETWEEN ?1 AND ?2 ORDER BY run, disturbance";
/// By runs of the lab.
const GUESTS: &str = "
    SELECT run, knob, got, unknown FROM knob_reading
    WHERE run BETWEEN ?1 AND ?2 AND knob IN (?3, ?4, ?5, ?6) ORDER BY run, knob_reading";
/// What is unknown is not known to be otherwise.
const UNTAKEN: &str = "
    SELECT run, knob, asked, got FROM knob_reading
    WHERE run BETWEEN ?1 AND ?2 AND got <> asked AND knob <> ?3 ORDER BY run, knob_reading";

impl Store {
    /// What [`SampledPlan::of`] makes of the record of plan `id`, many times as fast.
    pub fn sampled(&self, id: &str) -> Result<SampledPlan, StoreError> {
        let read = || -> Result<_, Fault> {
            let snapshot = self.conn.unchecked_transaction()?;
            let plan = self.plan_number(&snapshot, id)?;
            let started = started(&snapshot, plan)?;
            let sessions = sessions(&snapshot, plan)?;
            let ended = sessions.last().and_then(|session| session.ended);
            let environments: Vec<Environment> =
                sessions.into_iter().map(|session| session.environment).collect();
            let (stored, unmeasured) = stored_runs(&snapshot, plan, environments.len())?;
            let mut samples = Samples::default();
            samples.troubles.unmeasured = unmeasured;
            for stretch in stored.chunk_by(|run, next| next.number == run.number + 1) {
                samples.read(&snapshot, &started.cells, stretch)?;
                samples.read_troubles(&snapshot, stretch)?;
                if started.backend == SampledPlan::LAB {
                    samples.read_guests(&snapshot, stretch)?;
                }
            }
            let Samples { metrics, runs, guests, values, troubles, .. } = samples;
            Ok(SampledPlan {
                id: started.id,
                backend: started.backend,
                started_unix_ns: started.started_unix_ns,
                plan: started.plan,
                cells: started.cells,
                environments,
                ended,
                metrics,
                runs,
                guests,
                values,
                troubles,
            })
        };
        read().map_err(|fault| fault.told(format!("read plan `{id}`"), &self.path))
    }
}

struct StoredRun {
    number: i64,
    key: RunKey,
    environment: u32,
    done: bool,
}

/// In the order in which they ended; beside them what is told of those that gave no values.
fn stored_runs(
    conn: &Connection,
    plan: i64,
    sessions: usize,
) -> Result<(Vec<StoredRun>, Vec<Unmeasured>), Fault> {
    let mut select = conn.prepare_cached(RUNS)?;
    let mut rows = select.query([plan])?;
    let (mut runs, mut unmeasured) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let key = RunKey { round: row.get(1)?, cell: row.get(2)? };
        let run =
            StoredRun { number: row.get(0)?, key, environment: row.get(3)?, done: row.get(4)? };
        if run.environment as usize >= sessions {
            return Err(Fault::Damaged("a run names an environment that is not stored".into()));
        }
        if !run.done {
            let (environment, is_skipped) = (run.environment, row.get(5)?);
            unmeasured.push(Unmeasured { key, environment, is_skipped, reason: row.get(6)? });
        }
        runs.push(run);
    }
    Ok((runs, unmeasured))
}

/// What has been read of a plan, and what is known of its names.
#[derive(Default)]
struct Samples {
    metrics: Vec<SampledMetric>,
    runs: Vec<SampledRun>,
    guests: Vec<Guest>,
    values: Vec<SampledValue>,
    troubles: RunIssues,
    /// The number of each of `runs`, ascending.
    numbers: Vec<i64>,
    sets: Vec<Set>,
    /// Name to operation to position in `sets`.
    ids: HashMap<String, HashMap<String, usize>>,
    /// The sets of the run at hand; `None`: its values are no samples.
    present: Vec<Option<usize>>,
    /// Counts the sets of all runs.
    stamp: u64,
}

/// What is known of worker sets of one name that count one thing.
struct Set {
    name: String,
    ops: String,
    names: Vec<Name>,
    ids: HashMap<String, usize>,
    /// Positions in `names`, in the order of the rows of the last run.
    order: Vec<usize>,
}

/// Metrics of one name.
struct Name {
    name: String,
    /// The set of a run that last had it: of several in one, the first counts.
    seen: u64,
    columns: Vec<Column>,
}

/// Metrics of one name, unit and direction.
struct Column {
    unit: String,
    direction: String,
    metric: u32,
}

impl Samples {
    /// Adds consecutive runs.
    fn read(&mut self, conn: &Connection, cells: &[Cell], runs: &[StoredRun]) -> Result<(), Fault> {
        let [Some(first), Some(last)] = [runs.first(), runs.last()] else { return Ok(()) };
        let between = [first.number, last.number];
        let (mut sets, mut metrics) = (conn.prepare_cached(SETS)?, conn.prepare_cached(METRICS)?);
        let mut sets = SetRows { rows: sets.query(between)?, ahead: None };
        let mut metrics = metrics.query(between)?;
        let mut runs = runs.iter();
        let (mut run, mut set, mut place) = (None, None, 0);
        while let Some(row) = metrics.next()? {
            let (of_run, of_set) = (row.get(0)?, row.get(1)?);
            while run.is_none_or(|run| run < of_run)
                && let Some(next) = runs.next()
            {
                self.begin(next, cells, &mut sets)?;
                (run, set) = (Some(next.number), None);
            }
            if set != Some(of_set) {
                (set, place) = (Some(of_set), 0);
                self.stamp += 1;
            }
            self.add(of_set, place, row)?;
            place += 1;
        }
        runs.try_for_each(|run| self.begin(run, cells, &mut sets))
    }

    fn begin(
        &mut self,
        run: &StoredRun,
        cells: &[Cell],
        sets: &mut SetRows<'_>,
    ) -> Result<(), Fault> {
        let work = cells.get(run.key.cell as usize).map(|cell| &cell.work).filter(|_| run.done);
        self.present.clear();
        while let Some(set) = sets.next_of(run.number, self)? {
            let name = &self.sets[set].name;
            let is_second =
                self.present.iter().flatten().any(|&before| self.sets[before].name == *name);
            let is_sample = work.is_some_and(|work| SampledPlan::takes(work, name)) && !is_second;
            self.present.push(is_sample.then_some(set));
        }
        if work.is_some() {
            let (key, environment) = (run.key, run.environment);
            self.numbers.push(run.number);
            let first_value = count(self.values.len())?;
            self.runs.push(SampledRun { key, environment, first_value, guest: None });
        }
        Ok(())
    }

    /// What is odd about consecutive runs, which have been read.
    fn read_troubles(&mut self, conn: &Connection, runs: &[StoredRun]) -> Result<(), Fault> {
        let [Some(first), Some(last)] = [runs.first(), runs.last()] else { return Ok(()) };
        let mut select = conn.prepare_cached(DISTURBANCES)?;
        let mut rows = select.query([first.number, last.number])?;
        let (mut of, mut kinds): (_, Vec<DisturbanceKind>) = (None, Vec::new());
        while let Some(row) = rows.next()? {
            let Ok(run) = self.numbers.binary_search(&row.get(0)?) else { continue };
            if let Some(before) = of.replace(run)
                && before != run
            {
                self.troubles.add_disturbances(count(before)?, std::mem::take(&mut kinds));
            }
            kinds.push(from_word(row, 1)?);
        }
        if let Some(run) = of {
            self.troubles.add_disturbances(count(run)?, kinds);
        }
        let mut select = conn.prepare_cached(UNTAKEN)?;
        let mut rows = select.query((first.number, last.number, RunIssues::POOL))?;
        while let Some(row) = rows.next()? {
            let Ok(run) = self.numbers.binary_search(&row.get(0)?) else { continue };
            let (knob, asked, got) = (text(row, 1)?, text(row, 2)?, text(row, 3)?);
            self.troubles.add_knob(count(run)?, knob, asked, got);
        }
        Ok(())
    }

    /// The guests of consecutive runs, which have been read.
    fn read_guests(&mut self, conn: &Connection, runs: &[StoredRun]) -> Result<(), Fault> {
        let [Some(first), Some(last)] = [runs.first(), runs.last()] else { return Ok(()) };
        let [kernel, version, digest, time] = told::OF_GUEST;
        let mut select = conn.prepare_cached(GUESTS)?;
        let mut rows = select.query((first.number, last.number, kernel, version, digest, time))?;
        let mut row = rows.next()?;
        let begins = self.numbers.partition_point(|number| *number < first.number);
        for at in begins..self.numbers.len() {
            let mut guest = Guest::default();
            while let Some(own) = row
                && let of = own.get::<_, i64>(0)?
                && of <= self.numbers[at]
            {
                if of == self.numbers[at] {
                    let got = own.get_ref(2)?.as_str_or_null().map_err(|why| misfit(2, why))?;
                    let why = own.get_ref(3)?.as_str_or_null().map_err(|why| misfit(3, why))?;
                    guest.tell(text(own, 1)?, got.ok_or(why.unwrap_or_default()));
                }
                row = rows.next()?;
            }
            self.runs[at].guest = Some(place_of(&mut self.guests, guest));
        }
        Ok(())
    }

    /// A row of [`METRICS`] that stands at this place within its set.
    fn add(&mut self, number: i64, place: usize, row: &Row<'_>) -> Result<(), Fault> {
        let present = usize::try_from(number).ok().and_then(|number| self.present.get(number));
        let Some(present) = present else {
            return Err(Fault::Damaged(format!("a run has no worker set {number}")));
        };
        let Some(set) = *present else { return Ok(()) };
        let set = &mut self.sets[set];
        let name = set.position(place, text(row, 2)?);
        let name = &mut set.names[name];
        if std::mem::replace(&mut name.seen, self.stamp) == self.stamp {
            return Ok(());
        }
        let value = match row.get::<_, Option<f64>>(5)? {
            Some(value) if value.is_finite() => value,
            _ => return Ok(()),
        };
        let (unit, direction) = (text(row, 3)?, text(row, 4)?);
        let known =
            name.columns.iter().find(|known| known.unit == unit && known.direction == direction);
        let metric = match known {
            Some(column) => column.metric,
            None => {
                let metric = count(self.metrics.len())?;
                self.metrics.push(SampledMetric {
                    set: set.name.clone(),
                    ops: set.ops.clone(),
                    kind: crate::model::MetricKind::legacy(
                        "",
                        &name.name,
                        from_word(row, 3)?,
                        from_word(row, 4)?,
                    ),
                });
                let (unit, direction) = (unit.to_string(), direction.to_string());
                name.columns.push(Column { unit, direction, metric });
                metric
            }
        };
        self.values.push(SampledValue { metric, value });
        Ok(())
    }

    /// The position in `sets`.
    fn set(&mut self, name: &str, ops: &str) -> usize {
        if let Some(&set) = self.ids.get(name).and_then(|by_ops| by_ops.get(ops)) {
            return set;
        }
        let set = self.sets.len();
        self.ids.entry(name.to_string()).or_default().insert(ops.to_string(), set);
        let (name, ops) = (name.to_string(), ops.to_string());
        let (names, ids, order) = (Vec::new(), HashMap::new(), Vec::new());
        self.sets.push(Set { name, ops, names, ids, order });
        set
    }
}

impl Set {
    /// The position of this name in `names`. Mostly it is the one that stood in this place
    /// the last time.
    fn position(&mut self, place: usize, name: &str) -> usize {
        if let Some(&before) = self.order.get(place)
            && self.names[before].name == name
        {
            return before;
        }
        let position = self.ids.get(name).copied().unwrap_or_else(|| {
            self.ids.insert(name.to_string(), self.names.len());
            self.names.push(Name { name: name.to_string(), seen: 0, columns: Vec::new() });
            self.names.len() - 1
        });
        self.order.truncate(place);
        self.order.push(position);
        position
    }
}

/// Rows of [`SETS`].
struct SetRows<'s> {
    rows: Rows<'s>,
    /// Read already: the number of its run and its position in [`Samples::sets`].
    ahead: Option<(i64, usize)>,
}

impl SetRows<'_> {
    /// The next set of this run; rows of runs before it are passed over.
    fn next_of(&mut self, run: i64, samples: &mut Samples) -> Result<Option<usize>, Fault> {
        loop {
            let (of_run, set) = match self.ahead.take() {
                Some(ahead) => ahead,
                None => match self.rows.next()? {
                    Some(row) => (row.get(0)?, samples.set(text(row, 1)?, text(row, 2)?)),
                    None => return Ok(None),
                },
            };
            if of_run == run {
                return Ok(Some(set));
            }
            if of_run > run {
                self.ahead = Some((of_run, set));
                return Ok(None);
            }
        }
    }
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r str> {
    row.get_ref(column)?.as_str().map_err(|why| misfit(column, why))
}

fn count(length: usize) -> Result<u32, Fault> {
    u32::try_from(length).map_err(|_| Fault::Damaged(format!("a plan has {length} values")))
}
