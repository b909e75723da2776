//! `--db`, for the subcommands that touch the database of results.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::session::Database;

use super::notices;

/// The id of `--db`, which is one for all subcommands.
pub const OPTION: &str = "db";

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
        Ok(Database::new(path.cloned(), notices::show))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Database::from_arg_matches(matches)?;
        Ok(())
    }
}
