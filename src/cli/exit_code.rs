//! The one table of exit codes, and the error that every subcommand ends with.

use std::io;
use std::process::ExitCode;

use thiserror::Error;

use crate::backend::BackendError;
use crate::compat::{CompatError, Whose};
use crate::model::{Advice, MissingFeature};
use crate::plan::{ChangeError, PlanErrors};
use crate::session::{SessionError, unknown_name};
use crate::store::StoreError;
use crate::sys::FolderError;

use super::terminal;

/// The meaning of each exit code, in the words of `--help`.
const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "done"),
    (
        "1",
        "a regression was found (where asked for), an expectation of `test` fails, a hunt found something, or a case of `try` holds",
    ),
    ("2", "the command line, the plan or a file to read that they name is wrong or not there"),
    (
        "3",
        "it could not be measured here, each run of a variant in one work failed, or a result could not be stored or read",
    ),
    ("130", "interrupted, and resumable"),
    ("125 and 255", "with --fail-on bisect: not decided or not measured, and wrong usage"),
    (
        "any other",
        "of `score`: the exit code of the watched command; 127 or 126 where it cannot be started",
    ),
];

/// [`EXIT_CODES`] as the last paragraph of the help.
pub fn help() -> String {
    let codes = EXIT_CODES.iter().map(|(code, meaning)| format!("{code} {meaning}"));
    format!("Exit codes: {}.", codes.collect::<Vec<_>>().join("; "))
}

/// Why a subcommand did not do what it was asked.
#[derive(Debug, Error)]
pub enum Failure {
    /// A regression was found, and the caller asked for it: 1.
    #[error("{0}")]
    Regression(String),
    /// For `git bisect run`: 125, which skips, and 255, which ends the bisection.
    #[error("{text}")]
    Bisect { code: u8, text: String },
    /// The watched command's own exit code, and what else went wrong.
    #[error("{}", .why.as_ref().map(ToString::to_string).unwrap_or_default())]
    Command { code: u8, why: Option<Box<Failure>> },
    /// The kind of the error gives the code: 2 where the command line or the plan is wrong, 130 after a signal, else 3.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The reader of our output went away: 0, and silent.
    #[error("")]
    OutputClosed,
}

impl Failure {
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        SessionError::usage(message, hint).into()
    }

    pub fn here(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        SessionError::here(message, hint).into()
    }

    pub fn unknown<'a>(
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'a str>,
        list: &str,
    ) -> Failure {
        SessionError::Usage(unknown_name(what, name, known, list)).into()
    }

    /// By whose fault it is.
    pub fn from_advice(error: &impl Advice) -> Failure {
        SessionError::from_advice(error).into()
    }

    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::OutputClosed => 0,
            Failure::Regression(_) => 1,
            Failure::Bisect { code, .. } | Failure::Command { code, .. } => *code,
            Failure::Session(SessionError::Interrupted(_)) => 130,
            Failure::Session(error) if error.is_usage() => 2,
            Failure::Session(_) => 3,
        })
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Output(error) => error.into(),
            error => SessionError::from(error).into(),
        }
    }
}

/// Errors that are a session's wherever they occur.
macro_rules! from_session {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                SessionError::from(error).into()
            }
        })*
    };
}

from_session!(BackendError, ChangeError, FolderError, PlanErrors);

impl From<MissingFeature> for Failure {
    fn from(missing: MissingFeature) -> Failure {
        Failure::here(missing.to_string(), MissingFeature::HINT)
    }
}

impl From<CompatError> for Failure {
    fn from(error: CompatError) -> Self {
        match error.whose {
            Whose::User => Failure::usage(error.message, error.hint),
            Whose::Machine => Failure::here(error.message, error.hint),
        }
    }
}

/// Errors of writing to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if let Some(missing) = error.get_ref().and_then(|of| of.downcast_ref::<MissingFeature>()) {
            return (*missing).into();
        }
        let hint = match error.kind() {
            io::ErrorKind::BrokenPipe => return Failure::OutputClosed,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "write to a file on a disk with space: df -h"
            }
            io::ErrorKind::FileTooLarge => "raise the limit of file sizes: ulimit -f unlimited",
            _ => "write to a file, with > FILE behind the command",
        };
        Failure::here(format!("cannot write to standard output: {error}"), hint)
    }
}

/// Reports a failure, and gives the exit code of the program.
pub fn finish(done: Result<(), Failure>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            match failure.to_string() {
                text if text.is_empty() => {}
                text => terminal::message(text.trim_end()),
            }
            failure.exit_code()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_failure_and_a_full_device_is_one_of_standard_output() {
        for of in [Failure::from, |error| Failure::from(StoreError::Output(error))] {
            let of: fn(io::Error) -> Failure = of;
            assert!(matches!(of(io::ErrorKind::BrokenPipe.into()), Failure::OutputClosed));
            let full = of(io::ErrorKind::StorageFull.into());
            let text = full.to_string();
            let is_here = matches!(full, Failure::Session(SessionError::Here(_)));
            assert!(is_here, "{full:?}");
            assert!(text.contains("to standard output: ") && text.contains("\nhint: "), "{text}");
        }
    }

    #[test]
    fn the_readme_names_every_code() {
        let readme = include_str!("../../README.md");
        let codes = readme.split("\n\n").find(|text| text.starts_with("Exit codes: "));
        let codes = codes.expect("a paragraph of exit codes");
        let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
        for (words, _) in EXIT_CODES {
            for number in words.split(' ').filter(is_number) {
                let named = codes.split([' ', '\n']).any(|word| word == number);
                assert!(named, "{number}: {codes}");
            }
        }
    }

    #[test]
    fn the_help_names_the_code_of_every_failure() {
        let failures = [
            Failure::OutputClosed,
            Failure::Regression(String::new()),
            Failure::usage("", ""),
            Failure::here("", ""),
            SessionError::Missing("".into()).into(),
            SessionError::Interrupted("".into()).into(),
            Failure::Bisect { code: 125, text: String::new() },
            Failure::Bisect { code: 255, text: String::new() },
        ];
        for failure in failures {
            let code = format!("{:?}", failure.exit_code());
            let digits: String = code.chars().filter(char::is_ascii_digit).collect();
            let is_named = |text: &str| text.split(' ').any(|word| word == digits);
            assert!(EXIT_CODES.iter().any(|(codes, _)| is_named(codes)), "{failure:?} {code}");
        }
    }
}
