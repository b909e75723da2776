//! The database of results, for the subcommands that touch it.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::analysis;
use crate::model::{PlanHead, ValueError};
use crate::report::clean;
use crate::store::{self, Store};

use super::exit_code::Failure;
use super::terminal;
use super::text::quoted;

/// Where results lie, for the subcommands that touch them.
#[derive(Args, Clone, Default)]
pub struct Database {
    /// The database of results [default: schedlab/schedlab.db in the XDG data folder]
    #[arg(long = "db", value_name = "FILE", global = false)]
    path: Option<PathBuf>,
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

    /// The one plan that `id` means.
    pub fn plan<'h>(&self, id: &str, heads: &'h [PlanHead]) -> Result<&'h PlanHead, Failure> {
        analysis::plan(id, heads).map_err(|wrong| self.unselected("", wrong))
    }

    /// A selection of stored plans that means nothing; `place` is the option it was given to, if any.
    pub fn unselected(&self, place: &str, wrong: ValueError) -> Failure {
        let hint = wrong.hint + &self.words();
        Failure::usage(format!("{place}{}", wrong.message), hint)
    }

    pub fn open(&self) -> Result<Store, Failure> {
        Ok(self.reporting(Store::open(&self.path()?)?))
    }

    pub fn open_read_only(&self) -> Result<Store, Failure> {
        Ok(self.reporting(Store::open_read_only(&self.path()?)?))
    }

    /// Notes say what is damaged in this store.
    pub fn reporting(&self, mut store: Store) -> Store {
        let db = self.clone();
        store.report_damage_to(move |damage| {
            let hint = damage.remedy().map(|words| format!("; hint: {}", db.command(&words)));
            let text = format!("{damage}{}", hint.unwrap_or_default());
            terminal::message(&format!("note: the store is damaged: {}", clean(&text)));
        });
        store
    }
}
