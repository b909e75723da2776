//! Errors that know a way out.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// An error message and a way out: a command where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    pub hint: Option<String>,
}

impl Problem {
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem { message: message.into(), hint: Some(hint.into()) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl Error for Problem {}

/// Without a hint.
impl From<String> for Problem {
    fn from(message: String) -> Self {
        Problem { message, hint: None }
    }
}

impl From<&str> for Problem {
    fn from(message: &str) -> Self {
        message.to_string().into()
    }
}

/// An error that knows a way out.
pub trait Advice: Error {
    /// A way out, with a command where one helps.
    fn hint(&self) -> Option<Cow<'_, str>>;

    /// Whether the command line, the plan or a file that they name is wrong, and not the machine.
    fn is_usage(&self) -> bool {
        false
    }

    fn problem(&self) -> Problem {
        Problem { message: self.to_string(), hint: self.hint().map(Cow::into_owned) }
    }

    /// The error and its hint on one line, as the reason of a run without a result.
    fn reason(&self) -> String {
        let hint = self.hint().map(|hint| format!("; hint: {hint}"));
        format!("{self}{}", hint.unwrap_or_default())
    }
}
