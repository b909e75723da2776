//! Why a workload refuses its parameters, or why a worker cannot go on. The sentences about it
//! are made here. Pure.

use std::borrow::Cow;
use std::io;

use crate::model::{Advice, clean};
use crate::sys::fork::Ending;

use super::queue::QueueError;

#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// It has no value, or one of another kind. The caller fills in the defaults.
    #[error("parameter `{0}` is not set")]
    Unset(&'static str),
    #[error("{param} = `{}` {problem}", clean(value))]
    Param { param: &'static str, value: String, problem: String, hint: &'static str },
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Each of the parameters may be right. `param`: the one to change first, if that is known.
    #[error("{problem}")]
    Conflict { problem: String, hint: Option<String>, param: Option<String> },
    #[error("{what} make {workers} workers, more than the {max} that there can be")]
    TooMany { what: String, workers: u64, max: u64 },
    #[error("cannot {action}: {source}")]
    System { action: String, source: io::Error, hint: Option<String> },
    /// A child of a worker did not exit with 0.
    #[error("{}", describe_ending(*.0))]
    Child(Ending),
    /// A program ended in another way than was expected of it.
    /// `param`: the parameter that names it.
    #[error("{param} `{}` {}", clean(name), describe_end(*.ending, *.exit))]
    Program { param: &'static str, name: String, ending: Ending, exit: i32 },
    /// A server ended before its end was asked for. `was_ready`: while others used it.
    #[error("the server {} {}", describe_end(*.ending, -1), server_time(*.was_ready))]
    ServerEnded { ending: Ending, was_ready: bool },
    #[error("the server was not ready after 20 s")]
    ServerLate,
    /// `printed`: the text where the one match should have a number.
    #[error("{}", describe_no_value(metric, *count, printed))]
    NoValue { metric: String, count: usize, printed: String },
    #[error(
        "no JSON document that begins a line of the output has `{}` (metric `{}`)",
        clean(path),
        clean(metric)
    )]
    NoJson { metric: String, path: String },
    /// The part of the output that reports the failure.
    #[error("the program reported a failure: {}", clean(.0))]
    Reported(String),
    #[error("cannot read how busy the CPUs are: {0}")]
    CpuTimes(String),
}

impl WorkloadError {
    pub fn system(action: impl Into<String>, source: io::Error) -> WorkloadError {
        WorkloadError::System { action: action.into(), source, hint: None }
    }

    pub fn conflict(problem: String, hint: String) -> WorkloadError {
        WorkloadError::Conflict { problem, hint: Some(hint), param: None }
    }

    /// The key of the plan that is wrong, and the part of its value, where one alone is.
    pub fn place(&self) -> Option<(&str, Option<&str>)> {
        match self {
            WorkloadError::Unset(param) | WorkloadError::Program { param, .. } => {
                Some((*param, None))
            }
            WorkloadError::Param { param, value, .. } => Some((*param, Some(value.as_str()))),
            WorkloadError::Queue(error) => Some(("queue", Some(error.text.as_str()))),
            WorkloadError::Conflict { param: Some(param), .. } => Some((param.as_str(), None)),
            WorkloadError::TooMany { .. } => Some(("count", None)),
            _ => None,
        }
    }

    /// Adds the key that is wrong.
    pub fn at(mut self, key: &str) -> WorkloadError {
        if let WorkloadError::Conflict { param, .. } = &mut self {
            *param = Some(key.to_string());
        }
        self
    }
}

impl Advice for WorkloadError {
    fn hint(&self) -> Option<Cow<'_, str>> {
        let hint: Option<&str> = match self {
            WorkloadError::Param { hint, .. } => Some(hint),
            WorkloadError::Queue(_) => Some(QueueError::HINT),
            WorkloadError::ServerEnded { was_ready: false, .. } => {
                Some("a server stays in the foreground; schedlab ends it")
            }
            WorkloadError::Conflict { hint, .. } | WorkloadError::System { hint, .. } => {
                hint.as_deref()
            }
            _ => None,
        };
        hint.map(Cow::from)
    }
}

fn describe_ending(ending: Ending) -> String {
    match ending {
        Ending::Exited(status) => format!("the program failed with exit status {status}"),
        Ending::Killed(signal) => format!("a child was killed by signal {signal}"),
        Ending::Stopped(signal) => format!("a child was stopped by signal {signal}"),
    }
}

/// `expected`: below 0 where no end was.
fn describe_end(ending: Ending, expected: i32) -> String {
    match ending {
        Ending::Exited(status) if expected == 0 => format!("failed with exit status {status}"),
        Ending::Exited(status) if expected < 0 => format!("ended with exit status {status}"),
        Ending::Exited(status) => format!("ended with exit status {status}, not {expected}"),
        Ending::Killed(signal) => format!("was killed by signal {signal}"),
        Ending::Stopped(signal) => {
            let wants = [libc::SIGTTIN, libc::SIGTTOU].contains(&signal);
            let why = if wants { ": it wants the terminal" } else { "" };
            format!("was stopped by signal {signal}{why}")
        }
    }
}

fn server_time(was_ready: bool) -> &'static str {
    if was_ready { "while it was used" } else { "before it was ready" }
}

fn describe_no_value(metric: &str, count: usize, printed: &str) -> String {
    let metric = clean(metric);
    match count {
        0 => format!("the pattern of metric `{metric}` matches nothing of the output"),
        1 => format!("metric `{metric}` is not a number: `{}`", clean(printed)),
        count => format!("the pattern of metric `{metric}` matches {count} times"),
    }
}
