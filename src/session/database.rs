//! The database of results: where it is, how commands name it, and the stored plans that a text selects.

use std::path::{Path, PathBuf};

use crate::analysis::{self, Selection};
use crate::model::{Advice, PlanHead, ScoreHead, ValueError, quoted};
use crate::store::{self, Store, StoreError};
use crate::sys::{clock, scratch};

use super::{Notice, SessionError};

/// Where results lie, and who hears about them.
#[derive(Clone, Default)]
pub struct Database {
    path: Option<PathBuf>,
    listener: Option<fn(&Notice)>,
}

impl Database {
    /// `path`: `None` is the user's own.
    pub fn new(path: Option<PathBuf>, listener: fn(&Notice)) -> Database {
        Database { path, listener: Some(listener) }
    }

    /// Another one with the same listener.
    pub fn at(&self, path: &Path) -> Database {
        Database { path: Some(path.to_path_buf()), ..self.clone() }
    }

    /// The same one, and nobody hears.
    pub fn silent(&self) -> Database {
        Database { listener: None, ..self.clone() }
    }

    pub fn path(&self) -> Result<PathBuf, SessionError> {
        match &self.path {
            Some(path) => Ok(path.clone()),
            None => Ok(store::default_path()?),
        }
    }

    /// Whether it goes away with a process that made it.
    pub fn is_temporary(&self) -> bool {
        self.path.as_deref().is_some_and(scratch::holds)
    }

    pub fn notify(&self, notice: &Notice) {
        if let Some(listener) = self.listener {
            listener(notice);
        }
    }

    /// As it stands on a command line, with a space before it.
    pub fn words(&self) -> String {
        let path = self.path.as_ref().map(|path| path.to_string_lossy());
        path.map_or(String::new(), |path| format!(" --db {}", quoted(&path)))
    }

    /// A command for a hint, on the same store: it works when it is pasted.
    pub fn command(&self, words: &str) -> String {
        format!("schedlab {words}{}", self.words())
    }

    /// A side for each text; reports which plans `last`, `all` and variants alone pass over. `place` is the option
    /// that they were given to, if any.
    pub fn select(
        &self,
        place: &str,
        texts: &[String],
        heads: &[PlanHead],
    ) -> Result<Vec<Selection>, SessionError> {
        let sides = analysis::select(texts, heads, clock::unix_ns());
        let sides = sides.map_err(|wrong| self.unselected(place, wrong))?;
        // Variants of one plan pass over the same.
        let mut reported: Vec<&[String]> = Vec::new();
        for side in &sides {
            if !reported.contains(&side.passed_over.as_slice()) {
                self.notify(&Notice::PassedOver { side, heads });
                reported.push(&side.passed_over);
            }
        }
        Ok(sides)
    }

    /// As [`Database::select`], for a command that takes plans as a whole.
    pub fn select_whole(
        &self,
        text: &str,
        heads: &[PlanHead],
    ) -> Result<Vec<Selection>, SessionError> {
        let sides = self.select("", &[text.to_string()], heads)?;
        sides.iter().take(1).for_each(|side| self.notify_whole(side));
        Ok(sides)
    }

    /// A command that takes plans with all of their variants reports it where one is named.
    fn notify_whole(&self, side: &Selection) {
        if side.names_variants() {
            self.notify(&Notice::WholePlan { selected: &side.label });
        }
    }

    /// The one plan that `text` selects, as a whole.
    pub fn plan<'h>(
        &self,
        text: &str,
        heads: &'h [PlanHead],
    ) -> Result<&'h PlanHead, SessionError> {
        let (side, head) = analysis::plan(text, heads, clock::unix_ns())
            .map_err(|wrong| self.unselected("", wrong))?;
        self.notify(&Notice::PassedOver { side: &side, heads });
        self.notify_whole(&side);
        Ok(head)
    }

    /// The scores that `text` selects, newest first.
    pub fn scores<'h>(
        &self,
        text: &str,
        heads: &'h [ScoreHead],
    ) -> Result<Vec<&'h ScoreHead>, SessionError> {
        analysis::stored_scores(text, heads, clock::unix_ns())
            .map_err(|wrong| self.unselected("", wrong))
    }

    /// The one score that `text` selects.
    pub fn score<'h>(
        &self,
        text: &str,
        heads: &'h [ScoreHead],
    ) -> Result<&'h ScoreHead, SessionError> {
        analysis::stored_score(text, heads, clock::unix_ns())
            .map_err(|wrong| self.unselected("", wrong))
    }

    /// A selection of stored plans that means nothing; `place` is the option it was given to, if any.
    fn unselected(&self, place: &str, wrong: ValueError) -> SessionError {
        let hint = wrong.hint + &self.words();
        SessionError::usage(format!("{place}{}", wrong.message), hint)
    }

    pub fn open(&self) -> Result<Store, SessionError> {
        self.opened(Store::open(&self.path()?))
    }

    pub fn open_read_only(&self) -> Result<Store, SessionError> {
        self.opened(Store::open_read_only(&self.path()?))
    }

    /// As [`Database::open_read_only`]; where nothing is stored the hint is the command that makes what is asked for.
    pub fn open_read_only_for(&self, makes: String) -> Result<Store, SessionError> {
        self.open_read_only().map_err(|error| match error {
            SessionError::Store(missing @ StoreError::Missing { .. }) => {
                SessionError::here(missing.to_string(), makes)
            }
            other => other,
        })
    }

    /// With its damage reported. A named file that cannot be opened is as any other; one that is not
    /// there only has nothing yet.
    fn opened(&self, store: Result<Store, StoreError>) -> Result<Store, SessionError> {
        let store = store.map_err(|error| match &error {
            StoreError::Io { source, .. } if self.path.is_some() => {
                SessionError::unread(error.to_string(), error.hint().unwrap_or_default(), source)
            }
            _ => SessionError::from(error),
        })?;
        Ok(self.reporting(store))
    }

    /// The listener hears what is damaged in this store.
    pub fn reporting(&self, mut store: Store) -> Store {
        let db = self.clone();
        store.report_damage_to(move |damage, is_imported| {
            let remedy = damage.remedy(is_imported);
            let remedy = remedy.map(|(words, then)| format!("{}{then}", db.command(&words)));
            db.notify(&Notice::Damaged { damage, remedy });
        });
        store
    }
}
