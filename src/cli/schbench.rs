//! `schedlab schbench`, and the binary called by the name `schbench`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use crate::compat::schbench::{self, End, SchbenchArgs};
use crate::session::SessionError;

use super::{Failure, finish};

#[derive(Parser)]
#[command(name = "schbench", version, max_term_width = 100)]
struct Alone {
    #[command(flatten)]
    args: SchbenchArgs,
}

pub fn run(args: SchbenchArgs) -> Result<(), Failure> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let cmdline = words.join(" ".as_ref()).to_string_lossy().into_owned();
    match schbench::run(args, cmdline) {
        Ok(End::Done) => Ok(()),
        Ok(End::Interrupted) => Err(SessionError::Interrupted("".into()).into()),
        Err(error) => Err(error.into()),
    }
}

/// The whole program under the name `schbench`.
pub fn main() -> ExitCode {
    finish(run(Alone::parse().args))
}
