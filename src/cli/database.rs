//! The database of results, for the subcommands that touch it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::analysis::{self, Selection};
use crate::model::{PlanHead, ScoreHead, ValueError};
use crate::report::clean;
use crate::store::{self, Store, StoreError};
use crate::sys::clock;

use super::exit_code::Failure;
use super::terminal;
use super::text::quoted;

/// The id of `--db`, which is one for all subcommands.
pub const OPTION: &str = "db";

/// Notes about damage that were made.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Where results lie, for the subcommands that touch them.
#[derive(Clone, Default)]
pub struct Database {
    path: Option<PathBuf>,
}

/// Subcommands have it without an argument of their own.
impl Args for Database {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for Database {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Database, clap::Error> {
        let path = matches.try_get_one::<PathBuf>(OPTION).ok().flatten();
        Ok(Database { path: path.cloned() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Database::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Database {
    pub fn at(path: &Path) -> Database {
        Database { path: Some(path.to_path_buf()) }
    }

    pub fn path(&self) -> Result<PathBuf, Failure> {
        match &self.path {
            Some(path) => Ok(path.clone()),
            None => Ok(store::default_path()?),
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

    /// A side for each text; says which plans `last`, `all` and variants alone pass over. `place` is the option that
    /// they were given to, if any.
    pub fn select(
        &self,
        place: &str,
        texts: &[String],
        heads: &[PlanHead],
    ) -> Result<Vec<Selection>, Failure> {
        let sides = analysis::select(texts, heads, clock::unix_ns());
        let sides = sides.map_err(|wrong| self.unselected(place, wrong))?;
        // Variants of one plan pass over the same.
        let mut said: Vec<&[String]> = Vec::new();
        for side in &sides {
            if !said.contains(&side.passed_over.as_slice()) {
                say_passed_over(side, heads);
                said.push(&side.passed_over);
            }
        }
        Ok(sides)
    }

    /// As [`Database::select`], for a command that takes plans as a whole.
    pub fn select_whole(&self, text: &str, heads: &[PlanHead]) -> Result<Vec<Selection>, Failure> {
        let sides = self.select("", &[text.to_string()], heads)?;
        sides.iter().take(1).for_each(say_whole);
        Ok(sides)
    }

    /// The one plan that `text` selects, as a whole.
    pub fn plan<'h>(&self, text: &str, heads: &'h [PlanHead]) -> Result<&'h PlanHead, Failure> {
        let (side, head) = analysis::plan(text, heads, clock::unix_ns())
            .map_err(|wrong| self.unselected("", wrong))?;
        say_passed_over(&side, heads);
        say_whole(&side);
        Ok(head)
    }

    /// The scores that `text` selects, newest first.
    pub fn scores<'h>(
        &self,
        text: &str,
        heads: &'h [ScoreHead],
    ) -> Result<Vec<&'h ScoreHead>, Failure> {
        analysis::stored_scores(text, heads, clock::unix_ns())
            .map_err(|wrong| self.unselected("", wrong))
    }

    /// The one score that `text` selects.
    pub fn score<'h>(&self, text: &str, heads: &'h [ScoreHead]) -> Result<&'h ScoreHead, Failure> {
        analysis::stored_score(text, heads, clock::unix_ns())
            .map_err(|wrong| self.unselected("", wrong))
    }

    /// A selection of stored plans that means nothing; `place` is the option it was given to, if any.
    fn unselected(&self, place: &str, wrong: ValueError) -> Failure {
        let hint = wrong.hint + &self.words();
        Failure::usage(format!("{place}{}", wrong.message), hint)
    }

    pub fn open(&self) -> Result<Store, Failure> {
        self.opened(Store::open(&self.path()?))
    }

    pub fn open_read_only(&self) -> Result<Store, Failure> {
        self.opened(Store::open_read_only(&self.path()?))
    }

    /// With its damage reported. A file that `--db` names and that cannot be opened is as any other; one that is not
    /// there only has nothing yet.
    fn opened(&self, store: Result<Store, StoreError>) -> Result<Store, Failure> {
        let store = store.map_err(|error| match &error {
            StoreError::Io { source, .. } if self.path.is_some() => {
                Failure::unread(error.to_string(), error.hint(), source)
            }
            _ => Failure::from(error),
        })?;
        Ok(self.reporting(store))
    }

    /// Notes say what is damaged in this store.
    pub fn reporting(&self, mut store: Store) -> Store {
        let db = self.clone();
        store.report_damage_to(move |damage, is_imported| {
            let hint = damage
                .remedy(is_imported)
                .map(|(words, then)| format!("; hint: {}{then}", db.command(&words)));
            let text = format!("{damage}{}", hint.unwrap_or_default());
            // A command opens a store more than once.
            let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
            if said.insert(text.clone()) {
                terminal::message(&format!("note: the store is damaged: {}", clean(&text)));
            }
        });
        store
    }
}

/// A command that takes plans with all of their variants says so where one is named.
fn say_whole(side: &Selection) {
    if side.names_variants() {
        let label = clean(&side.label);
        terminal::message(&format!("note: `{label}` takes the plan with all of its variants"));
    }
}

fn say_passed_over(side: &Selection, heads: &[PlanHead]) {
    let [newest, more @ ..] = side.passed_over.as_slice() else { return };
    let head = heads.iter().find(|head| head.id == *newest && head.runs.done > 0);
    let why = match head.map(|head| clean(&head.backend)) {
        Some(backend) => format!("of backend `{backend}`, which `backend={backend}` means"),
        None => "without a measured run, which its id means".to_string(),
    };
    let more = if more.is_empty() { String::new() } else { format!(", and {} more", more.len()) };
    let text = format!("note: `{}` passes over plan {newest}, {why}{more}", side.label);
    terminal::message(&text);
}
