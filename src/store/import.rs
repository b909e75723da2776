//! What comes from outside, into the store: exported streams and other stores, all of it or nothing. Nothing of it is
//! trusted.
//!
//! Holds one run's outcome or one window at a time, however long the plan.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use serde::Deserialize;

use super::Store;
use super::annotations::{self, Subject};
use super::check::{self, Unsound};
use super::error::{Fault, StoreError};
use super::join::{self, Arrived, JoinedPlan};
use super::score;
use super::stream::ALL;
use crate::model::{EVENT_SCHEMA, Event, PlanStarted};

/// A longer line is no event of ours: 100,000 workers need a tenth of it.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// What an import added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    pub plans: usize,
    pub runs: usize,
    pub scores: usize,
    /// Plans and scores of other stores that were there already.
    pub known: usize,
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
    /// What `schedlab export` writes: a plan that is stored already is refused.
    Lines(Box<dyn BufRead + 'a>),
    /// All plans and scores that are not there yet.
    Store(Box<Store>),
}

impl Store {
    /// Adds the plans of an exported stream: all of them or, where a line is wrong, none.
    /// A plan that is stored already is refused.
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
            run.map_err(|fault| fault.at("import", &store.path))
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
        self.committed()?;
        Ok(imported)
    }
}

struct Importer<'s> {
    store: &'s mut Store,
    /// Ids that the source at hand began, and what they are called here until parts are joined.
    begun: BTreeMap<String, String>,
    parts: Vec<Arrived>,
    imported: Imported,
}

impl<'s> Importer<'s> {
    fn new(store: &'s mut Store) -> Importer<'s> {
        let (begun, parts, imported) = (BTreeMap::new(), Vec::new(), Imported::default());
        Importer { store, begun, parts, imported }
    }

    fn take_all<'a>(
        mut self,
        sources: impl IntoIterator<Item = Source<'a>>,
    ) -> Result<Imported, StoreError> {
        for Source { name, content } in sources {
            self.begun.clear();
            let taken = match content {
                Content::Lines(mut input) => self.take_lines(&name, &mut *input),
                Content::Store(other) => self.take_store(&name, &other),
            };
            taken.map_err(|error| error.of(&name))?;
        }
        self.imported.joined = join::arrived(self.store, self.parts)?;
        Ok(self.imported)
    }

    fn take_lines(&mut self, name: &str, input: &mut dyn BufRead) -> Result<(), StoreError> {
        let mut text = String::new();
        for line in 1.. {
            text.clear();
            let read = input.take(MAX_LINE_BYTES).read_line(&mut text);
            if read.map_err(|source| StoreError::Input { line, source })? == 0 {
                break;
            }
            let refuse = |source| StoreError::Line { line, source: Box::new(source) };
            if let Some(line) = annotations::parse(&text) {
                self.store.import_annotations(&line, &self.begun).map_err(refuse)?;
                continue;
            }
            if let Some(line) = score::parse(&text) {
                self.store.import_score(&line).map_err(refuse)?;
                self.imported.scores += 1;
                continue;
            }
            self.take(parse(&text, line)?, name, true).map_err(refuse)?;
        }
        Ok(())
    }

    fn take_store(&mut self, name: &str, other: &Store) -> Result<(), StoreError> {
        for (plan, id) in other.plans()? {
            let is_part = other.is_part(plan)?;
            if !is_part && self.is_stored(&id)? {
                self.imported.known += 1;
                continue;
            }
            let read = other.read_plan(plan, &mut |event| Ok(self.take(event, name, false)?));
            read.map_err(|fault| fault.at(format!("read plan `{id}`"), other.path()))?;
            let annotations = other.annotations(id.as_str())?;
            let own = self.begun.get(&id).unwrap_or(&id).clone();
            annotations::add_all(self.store, &Subject::Plan(&own), &annotations)?;
        }
        for head in other.score_heads()?.iter().rev() {
            match self.store.score_number(&self.store.conn, &head.id).is_ok() {
                true => self.imported.known += 1,
                false => {
                    check::id(&head.id)?;
                    self.store.save_score(&other.score(&head.id)?)?;
                    let of = Subject::Score(&head.id);
                    annotations::add_all(self.store, &of, &other.annotations(of)?)?;
                    self.imported.scores += 1;
                }
            }
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
        }
        self.store.apply(&event)?;
        self.imported.runs += usize::from(matches!(event, Event::RunEnded { .. }));
        Ok(())
    }

    /// What the plan is called here.
    fn begin(
        &mut self,
        started: &PlanStarted,
        name: &str,
        is_file: bool,
    ) -> Result<String, StoreError> {
        let id = &started.id;
        let own = match &started.sharding {
            Some(sharding) => {
                let mut free = (self.parts.len()..).map(|number| format!("arrived-{number}"));
                // Names without an end.
                let own =
                    free.find(|own| !self.is_stored(own).unwrap_or(false)).unwrap_or_default();
                let (name, sharding) = (name.to_string(), sharding.clone());
                self.parts.push(Arrived { id: own.clone(), name, sharding, is_file });
                own
            }
            None if self.is_stored(id)? => {
                let path = self.store.path.clone();
                return Err(StoreError::PlanStored { id: id.clone(), path });
            }
            None => id.clone(),
        };
        self.imported.plans += 1;
        self.begun.insert(id.clone(), own.clone());
        Ok(own)
    }

    fn is_stored(&self, id: &str) -> Result<bool, StoreError> {
        match self.store.plan_number(&self.store.conn, id) {
            Ok(_) => Ok(true),
            Err(Fault::Store(StoreError::UnknownPlan { .. })) => Ok(false),
            Err(fault) => Err(fault.at("import", &self.store.path)),
        }
    }
}

impl Store {
    /// Number and id; the oldest first.
    fn plans(&self) -> Result<Vec<(i64, String)>, StoreError> {
        self.sound_plans(&self.conn, ALL).map_err(|fault| fault.at("list the plans", &self.path))
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
            let shown = id.escape_default().to_string();
            return Err(Unsound::NotStarted { shown }.into());
        };
        annotations::add_all(self, &Subject::Plan(own), annotations)
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
