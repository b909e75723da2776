//! Imports exported streams and other stores, all of one or nothing. None of it is trusted.
//!
//! Holds one run's outcome or one window at a time, however long the plan.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

use rusqlite::Connection;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::Store;
use super::annotations::{self, Subject};
use super::check;
use super::column::numbered;
use super::damage::Damage;
use super::error::{Fault, IMPORT, StoreError};
use super::join::{self, Arrived, JoinedPlan};
use super::score;
use super::seal;
use super::stream::ALL;
use super::windows::Windows;
use crate::model::clean;
use crate::model::{
    DisturbanceFact, EVENT_SCHEMA, Event, MAX_LINE_BYTES, Outcome, PlanEnd, PlanStarted, RunCounts,
    RunResult, SampledPlan, are_above_wall, json_nodes,
};

/// Read of a line that does not begin as an object does.
const MAX_OTHER_BYTES: u64 = 64;
/// Values in a line: 100,000 workers have a million and a half.
const MAX_LINE_NODES: usize = 4_000_000;
/// Memory for each value of a line, in addition to two bytes for each byte of the line.
const NODE_BYTES: u64 = 48;
/// For the longest line with a few of them.
const MAX_LINE_MEMORY_BYTES: u64 = 2 * MAX_LINE_BYTES + (1 << 20);

/// Counts of imported things.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    pub plans: usize,
    pub runs: usize,
    pub scores: usize,
    /// Plans and scores that were there already.
    pub known: usize,
    /// Runs of which the windows count more than the whole run has.
    pub contradicting: usize,
    /// Runs whose workers have more CPU time than there was, and that do not say so.
    pub above_wall: usize,
    /// Plans that ended complete and have fewer runs here: their ids, the runs that came, and those that they had.
    pub incomplete: Vec<(String, u64, u64)>,
    /// Plans whose end no line has, likewise: the file was cut, or the plan was killed.
    pub unended: Vec<(String, u64, u64)>,
    /// Files that end within a line: the name, the number of that line, and its bytes, which are left out.
    pub cut: Vec<(String, u64, u64)>,
    /// Lines with events that only a newer schedlab knows.
    pub unknown_events: u64,
    /// Plans that parts were joined in.
    pub joined: Vec<JoinedPlan>,
}

/// Something to import.
pub struct Source<'a> {
    /// For messages; empty where there is one source alone.
    pub name: String,
    pub content: Content<'a>,
}

pub enum Content<'a> {
    /// Imports what `schedlab export` writes: a plan that is stored already is left out if it is the same, else refused.
    Lines(Box<dyn BufRead + 'a>),
    /// All plans and scores that are not there yet.
    Store(Box<Store>),
}

impl Store {
    /// Adds the plans of an exported stream: all of them or, where a line is wrong, none.
    /// A plan that is stored already is left out if it is the same, else refused.
    pub fn import(&mut self, input: impl BufRead) -> Result<Imported, StoreError> {
        let content = Content::Lines(Box::new(input));
        self.import_all([Source { name: String::new(), content }])
    }

    /// Adds what all sources have, or nothing, and joins the parts of plans.
    pub fn import_all<'a>(
        &mut self,
        sources: impl IntoIterator<Item = Source<'a>>,
    ) -> Result<Imported, StoreError> {
        self.current = None;
        let sql = |store: &Store, sql| {
            let run = store.conn.execute_batch(sql).map_err(Fault::from);
            run.map_err(|fault| fault.at(IMPORT, &store.path))
        };
        sql(self, "BEGIN IMMEDIATE")?;
        let result = Importer::new(self).take_all(sources).and_then(|imported| {
            sql(self, "COMMIT")?;
            Ok(imported)
        });
        self.current = None;
        if result.is_err() && !self.conn.is_autocommit() {
            sql(self, "ROLLBACK")?;
        }
        let imported = result?;
        self.measured = false;
        self.committed()?;
        Ok(imported)
    }
}

struct Importer<'s> {
    store: &'s mut Store,
    /// Ids that the source at hand began, and what they are called here until parts are joined.
    begun: BTreeMap<String, String>,
    /// The ones of them that are stored already.
    again: Vec<String>,
    /// The ones of them whose number of runs was fixed beforehand.
    fixed: Vec<String>,
    parts: Vec<Arrived>,
    /// Names that were given to what came.
    names: usize,
    /// The state of the run and the plan at hand.
    windows: Windows,
    warmup_ns: u64,
    backend: String,
    imported: Imported,
}

impl<'s> Importer<'s> {
    fn new(store: &'s mut Store) -> Importer<'s> {
        Importer {
            store,
            begun: BTreeMap::new(),
            again: Vec::new(),
            fixed: Vec::new(),
            parts: Vec::new(),
            names: 0,
            windows: Windows::default(),
            warmup_ns: 0,
            backend: String::new(),
            imported: Imported::default(),
        }
    }

    fn take_all<'a>(
        mut self,
        sources: impl IntoIterator<Item = Source<'a>>,
    ) -> Result<Imported, StoreError> {
        for Source { name, content } in sources {
            self.begun.clear();
            self.fixed.clear();
            let taken = match content {
                Content::Lines(mut input) => {
                    let taken = self.take_lines(&name, &mut *input);
                    taken.and_then(|()| self.leave_out()).and_then(|()| self.miss_runs())
                }
                Content::Store(other) => self.take_store(&name, &other),
            };
            taken.map_err(|error| error.in_source(&name))?;
        }
        self.imported.plans -= self.parts.len();
        self.imported.joined = join::arrived(self.store, self.parts)?;
        self.imported.plans += self.imported.joined.len();
        Ok(self.imported)
    }

    fn take_lines(&mut self, name: &str, input: &mut dyn BufRead) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        let (mut unknown, mut is_ours) = (None, false);
        for line in 1.. {
            bytes.clear();
            let mut read = || {
                // Read no more of a line that is not an object: its end may be far.
                let is_object = matches!(input.fill_buf()?.first(), Some(b'{' | b' ' | b'\t'));
                let max_bytes = if is_object { MAX_LINE_BYTES } else { MAX_OTHER_BYTES };
                input.take(max_bytes).read_until(b'\n', &mut bytes)
            };
            let read = read().map_err(|source| StoreError::Input { line, source })?;
            if read == 0 {
                break;
            }
            let is_cut = !bytes.ends_with(b"\n") && input.fill_buf().is_ok_and(<[u8]>::is_empty);
            let text = std::str::from_utf8(&bytes).map_err(|why| {
                let source = io::Error::new(io::ErrorKind::InvalidData, why);
                StoreError::Input { line, source }
            });
            match text.and_then(|text| self.take_line(text, line, name)) {
                Err(StoreError::Malformed { .. } | StoreError::Input { .. })
                    if is_cut && is_ours =>
                {
                    self.imported.cut.push((name.to_string(), line, read as u64));
                }
                Err(error @ StoreError::UnknownEvent { .. }) => {
                    self.imported.unknown_events += 1;
                    unknown = unknown.or(Some(error));
                }
                taken => is_ours = taken.map(|()| true)?,
            }
        }
        // Other programs write lines with events, too.
        unknown.filter(|_| !is_ours).map_or(Ok(()), Err)
    }

    fn take_line(&mut self, text: &str, line: u64, name: &str) -> Result<(), StoreError> {
        let refuse = |source| StoreError::Line { line, source: Box::new(source) };
        if let Some(line) = annotations::parse(text) {
            return self.store.import_annotations(&line, &self.begun).map_err(refuse);
        }
        if let Some(line) = score::parse(text) {
            let is_new = self.store.import_score(&line).map_err(refuse)?;
            let imported = &mut self.imported;
            *(if is_new { &mut imported.scores } else { &mut imported.known }) += 1;
            return Ok(());
        }
        self.take(parse(text, line)?, name, true).map_err(refuse)
    }

    fn take_store(&mut self, name: &str, other: &Store) -> Result<(), StoreError> {
        for (plan, id) in other.plans()? {
            let is_part = other.is_part(plan)?;
            if !is_part && self.is_stored(&id)? {
                let of = Subject::Plan(&id);
                annotations::add_all(self.store, &of, &other.annotations(of)?)?;
                self.imported.known += 1;
                continue;
            }
            let read = other.read_plan(plan, &mut |event| Ok(self.take(event, name, false)?));
            read.map_err(|fault| fault.within(&id, format!("read plan `{id}`"), other.path()))?;
            let annotations = other.annotations(id.as_str())?;
            let own = self.begun.get(&id).unwrap_or(&id).clone();
            annotations::add_all(self.store, &Subject::Plan(&own), &annotations)?;
        }
        for id in other.scores()? {
            if self.store.score_number(&self.store.conn, &id).is_ok() {
                self.imported.known += 1
            } else {
                check::id(&id)?;
                self.store.save_score(&other.score(&id)?)?;
                self.imported.scores += 1;
            }
            let of = Subject::Score(&id);
            annotations::add_all(self.store, &of, &other.annotations(of)?)?;
        }
        Ok(())
    }

    fn take(&mut self, mut event: Event, name: &str, is_file: bool) -> Result<(), StoreError> {
        if let Event::PlanStarted(started) = &mut event {
            check::plan(started)?;
            let own = match self.begun.get(&started.id) {
                Some(own) => own.clone(),
                None => self.begin(started, name, is_file)?,
            };
            started.id = own;
            self.warmup_ns = started.plan.measure.warmup_ns;
            self.backend.clone_from(&started.backend);
        }
        match &event {
            Event::Window { key, window } => self.windows.add(*key, window, self.warmup_ns),
            Event::RunEnded { key, outcome: Outcome::Done { result } } => {
                check::run(&self.backend, *key, result)?;
                self.imported.contradicting += usize::from(self.windows.contradict(*key, result));
                self.imported.above_wall += usize::from(is_above_wall(result));
            }
            Event::RunStarted { .. } => self.windows = Windows::default(),
            _ => {}
        }
        self.store.apply(&event).map_err(StoreError::in_import)?;
        self.imported.runs += usize::from(matches!(event, Event::RunEnded { .. }));
        Ok(())
    }

    /// Begins a plan and returns its id in this store.
    fn begin(
        &mut self,
        started: &PlanStarted,
        name: &str,
        is_file: bool,
    ) -> Result<String, StoreError> {
        let id = &started.id;
        let own = match &started.sharding {
            Some(sharding) => {
                let own = self.free_name();
                let (name, sharding) = (name.to_string(), sharding.clone());
                self.parts.push(Arrived { id: own.clone(), name, sharding, is_file });
                own
            }
            None if self.is_stored(id)? => {
                self.again.push(id.clone());
                self.free_name()
            }
            None => {
                let is_fixed =
                    started.backend != SampledPlan::IMPORTED && !started.plan.measure.until_decided;
                self.fixed.extend(is_fixed.then(|| id.clone()));
                id.clone()
            }
        };
        self.imported.plans += 1;
        self.begun.insert(id.clone(), own.clone());
        Ok(own)
    }

    /// For a plan until it has its own.
    fn free_name(&mut self) -> String {
        loop {
            let name = format!("arrived-{}", self.names);
            self.names += 1;
            if !self.is_stored(&name).unwrap_or(false) {
                return name;
            }
        }
    }

    /// Removes what came and was there already, if it is the same.
    fn leave_out(&mut self) -> Result<(), StoreError> {
        for id in std::mem::take(&mut self.again) {
            let own = self.begun.get(&id).unwrap_or(&id).clone();
            let store = &mut *self.store;
            let compare = || -> Result<_, Fault> {
                let conn = &store.conn;
                let (stored, came) =
                    (store.plan_number(conn, &id)?, store.plan_number(conn, &own)?);
                let (own, runs) = digest(store, came)?;
                if digest(store, stored)?.0 != own {
                    let (id, path) = (id.clone(), store.path.clone());
                    return Err(StoreError::PlanStored { id, path }.into());
                }
                join::take_annotations(conn, came, stored)?;
                seal::plan(conn, stored)?;
                Ok(runs)
            };
            let runs = compare().map_err(|fault| fault.within(&id, IMPORT, &store.path))?;
            store.remove(&own)?;
            self.imported.plans -= 1;
            self.imported.runs -= runs;
            self.imported.known += 1;
        }
        Ok(())
    }

    /// Looks for new plans of which the source has not all runs, or not the end.
    fn miss_runs(&mut self) -> Result<(), StoreError> {
        let mut heads = self.store.plan_heads()?;
        heads.retain(|head| self.begun.get(&head.id) == Some(&head.id));
        for head in heads {
            let RunCounts { done, failed, skipped, total, .. } = head.runs;
            let came = done + failed + skipped;
            let is_fixed = self.fixed.contains(&head.id);
            match head.ended {
                None => self.imported.unended.push((head.id, came, total)),
                // One of which all runs fail ends complete before its time.
                Some(PlanEnd::Complete) if is_fixed && done > 0 && came < total => {
                    self.imported.incomplete.push((head.id, came, total));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn is_stored(&self, id: &str) -> Result<bool, StoreError> {
        match self.store.plan_number(&self.store.conn, id) {
            Ok(_) => Ok(true),
            Err(Fault::Store(StoreError::UnknownPlan { .. })) => Ok(false),
            Err(fault) => Err(fault.at(IMPORT, &self.store.path)),
        }
    }
}

impl Store {
    /// Number and id; the oldest first. Fails where one is gone; one that is damaged fails when it is read: all are
    /// imported or none.
    fn plans(&self) -> Result<Vec<(i64, String)>, StoreError> {
        let read = |conn: &Connection| match seal::missing(conn, "plan")? {
            0 => numbered(conn, ALL),
            missing => Err(self.incomplete(Damage::Plans(missing))),
        };
        self.snapshot(read).map_err(|fault| fault.at("list the plans", &self.path))
    }

    /// Ids; as [`Store::plans`].
    fn scores(&self) -> Result<Vec<String>, StoreError> {
        let read = |conn: &Connection| match seal::missing(conn, "score")? {
            0 => numbered(conn, score::ALL),
            missing => Err(self.incomplete(Damage::Scores(missing))),
        };
        let scores =
            self.snapshot(read).map_err(|fault| fault.at("list the scores", &self.path))?;
        Ok(scores.into_iter().map(|(_, id)| id).collect())
    }

    fn incomplete(&self, gone: Damage) -> Fault {
        StoreError::Incomplete { path: self.path.clone(), gone }.into()
    }

    /// Or parts are joined in it.
    fn is_part(&self, plan: i64) -> Result<bool, StoreError> {
        let read = || -> Result<_, Fault> {
            let mut select = self
                .conn
                .prepare_cached("SELECT sharding IS NOT NULL FROM plan WHERE plan = ?1")?;
            Ok(select.query_row([plan], |row| row.get(0))?)
        };
        read().map_err(|fault| fault.at("list the plans", &self.path))
    }

    fn read_plan(
        &self,
        plan: i64,
        see: &mut dyn FnMut(Event) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let snapshot = self.conn.unchecked_transaction()?;
        self.each_event(&snapshot, plan, see)
    }

    /// Adds what an export says about a plan that it brought, one of `begun`.
    fn import_annotations(
        &mut self,
        line: &annotations::Line,
        begun: &BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        let annotations::Line::PlanAnnotated { id, annotations } = line;
        let Some(own) = begun.get(id) else {
            let why = format!("no event before it starts the plan `{}`", clean(id));
            return Err(StoreError::Unsound(why));
        };
        annotations::add_all(self, &Subject::Plan(own), annotations)
    }
}

fn is_above_wall(result: &RunResult) -> bool {
    let is_said = |fact: &DisturbanceFact| matches!(fact, DisturbanceFact::CpuTimeAboveWall { .. });
    let workers = result.sets.iter().flat_map(|set| &set.workers);
    are_above_wall(workers.map(|worker| (worker.cpu_ns, worker.wall_ns)), None)
        && !result.disturbances.iter().any(|found| is_said(&found.fact))
}

/// Digests all that is stored of a plan but for its name, and says how many runs that is.
fn digest(store: &Store, plan: i64) -> Result<(Vec<u8>, usize), Fault> {
    let (mut digest, mut runs) = (Sha256::new(), 0);
    store.each_event(&store.conn, plan, &mut |mut event| {
        match &mut event {
            Event::PlanStarted(started) => started.id.clear(),
            Event::RunEnded { .. } => runs += 1,
            _ => {}
        }
        let text = serde_json::to_vec(&event).map_err(|why| Fault::Event(why.to_string()))?;
        digest.update(text);
        Ok(())
    })?;
    Ok((digest.finalize().to_vec(), runs))
}

/// The events of an export that this schedlab knows.
const EVENTS: [&str; 7] = [
    "plan_started",
    "run_started",
    "window",
    "run_ended",
    "plan_ended",
    "plan_annotated",
    "score_saved",
];

fn parse(text: &str, line: u64) -> Result<Event, StoreError> {
    #[derive(Deserialize)]
    struct Head {
        event: String,
        schema: Option<u64>,
    }
    let (bytes, nodes) = (text.len() as u64, json_nodes(text.as_bytes()));
    check_size(bytes, nodes).map_err(|why| StoreError::Malformed { line, why })?;
    serde_json::from_str(text).map_err(|why| match serde_json::from_str(text) {
        // The version of a newer event is wrong, not its syntax.
        Ok(Head { schema: Some(found), .. }) if found > u64::from(EVENT_SCHEMA) => {
            let source = Box::new(StoreError::Schema { found, known: EVENT_SCHEMA });
            StoreError::Line { line, source }
        }
        Ok(Head { event, .. }) if !EVENTS.contains(&event.as_str()) => {
            StoreError::UnknownEvent { line, event }
        }
        _ if why.is_eof() => {
            let is_empty = text.trim_ascii().is_empty();
            let why = if is_empty {
                "it is empty"
            } else {
                "it ends before its JSON does: is the file complete?"
            };
            StoreError::Malformed { line, why: why.to_string() }
        }
        _ => StoreError::Malformed { line, why: why.to_string() },
    })
}

/// Fails where a line would take too much memory once it is read.
fn check_size(bytes: u64, nodes: usize) -> Result<(), String> {
    match () {
        () if bytes >= MAX_LINE_BYTES => Err(format!("it is longer than {MAX_LINE_BYTES} bytes")),
        () if nodes > MAX_LINE_NODES => Err(format!("it has more than {MAX_LINE_NODES} values")),
        () if 2 * bytes + NODE_BYTES * nodes as u64 > MAX_LINE_MEMORY_BYTES => {
            Err(format!("its {nodes} values are too many for a line of {bytes} bytes"))
        }
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_known_events_has_all_that_are_parsed() {
        let text = r#"{"event":""}"#;
        let said = [
            serde_json::from_str::<Event>(text).unwrap_err().to_string(),
            serde_json::from_str::<annotations::Line>(text).unwrap_err().to_string(),
            serde_json::from_str::<score::Line>(text).unwrap_err().to_string(),
        ];
        let quoted = said.iter().flat_map(|said| said.split('`').skip(1).step_by(2));
        let names: Vec<&str> = quoted.filter(|name| !name.is_empty()).collect();
        assert_eq!(names, EVENTS);
    }

    #[test]
    fn bytes_and_values_of_a_line_are_limited_together() {
        let cases = [
            (127 << 20, 10, true),
            (128 << 20, 10, false),
            (30 << 20, 1_500_000, true),
            (20 << 20, 4_000_000, true),
            (20 << 20, 4_000_001, false),
            (109_000_000, 3_900_000, false),
            (80_000_000, 2_000_000, true),
            (100_000_000, 2_000_000, false),
        ];
        for (bytes, nodes, is_taken) in cases {
            assert_eq!(check_size(bytes, nodes).is_ok(), is_taken, "{bytes} {nodes}");
        }
        let refused = parse(&format!("[{}0]", "0,".repeat(MAX_LINE_NODES)), 3).unwrap_err();
        assert!(refused.to_string().contains("it has more than 4000000 values"), "{refused}");
    }
}
