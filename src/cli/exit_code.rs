//! The one table of exit codes, and the error that every subcommand ends with.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::compat::CompatError;
use crate::plan::PlanErrors;
use crate::store::StoreError;

/// Why a subcommand did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// A regression was found, and the caller asked for it: 1.
    Regression(String),
    /// For `git bisect run`: 125, which skips, and 255, which ends the bisection.
    Bisect { code: u8, text: String },
    /// The watched command's own exit code.
    Command { code: u8, text: String },
    /// The command line or the plan is wrong: 2.
    Usage(String),
    /// As `Usage`; rendered with source and carets already.
    Plan(PlanErrors),
    /// It cannot be measured here: 3.
    Here(String),
    /// A result could not be stored or read: 3.
    Store(StoreError),
    /// Stopped by a signal, resumable: 130.
    Interrupted(String),
    /// Whoever read our output went away: 0, and silent.
    OutputClosed,
}

impl Failure {
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::OutputClosed => 0,
            Failure::Regression(_) => 1,
            Failure::Bisect { code, .. } | Failure::Command { code, .. } => *code,
            Failure::Usage(_) | Failure::Plan(_) => 2,
            Failure::Here(_) | Failure::Store(_) => 3,
            Failure::Interrupted(_) => 130,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Here(text) => write!(f, "error: {text}"),
            Failure::Interrupted(text)
            | Failure::Regression(text)
            | Failure::Command { text, .. }
            | Failure::Bisect { text, .. } => write!(f, "{text}"),
            Failure::Plan(errors) => write!(f, "{}", super::terminal::render_plan_errors(errors)),
            Failure::Store(error) => write!(f, "error: {error}\nhint: {}", error.hint()),
            Failure::OutputClosed => Ok(()),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Store(error)
    }
}

impl From<CompatError> for Failure {
    fn from(error: CompatError) -> Self {
        match error {
            CompatError::Usage(why) => Failure::Usage(why),
            CompatError::Here(why) => Failure::Here(why),
        }
    }
}

/// Errors of writing our own output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Here(format!("cannot write the output: {error}")),
        }
    }
}
