//! The errors in a `.bench` file, by field, and why a run of it cannot be done here.

use std::fmt;

use crate::plan::MAX_WORKERS;
use crate::report::clean;

/// More workers of a set than any machine runs.
pub const MAX_COUNT: i64 = 1_000_000;
/// A day: a longer time is a mistake in a unit.
pub const MAX_RUNTIME_SECONDS: i64 = 86_400;

/// A field, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// From the outermost object or from the run: `WorkerSets[0].Count`.
    pub path: String,
    pub fault: Fault,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("is missing")]
    Missing,
    #[error("names no worker")]
    NoWorker,
    #[error("preset `{}` is not defined; there are {}", clean(.name), .known.join(", "))]
    UnknownPreset { name: String, known: Vec<String> },
    #[error("there is no worker set")]
    NoSet,
    #[error("{0}")]
    Word(WrongWord),
    #[error("{0} workers, not 1 to {MAX_COUNT}")]
    Count(i64),
    #[error("{0}: the run has more than {MAX_WORKERS} workers")]
    TooManyWorkers(i64),
    #[error("true, but workers have a SoftAffinity: one of both")]
    SoftAffinity,
    #[error("{0} is not a number of a CPU")]
    Cpu(i64),
    #[error("the list is empty")]
    NoCpu,
    #[error("{0}, not 1 to {MAX_RUNTIME_SECONDS}")]
    RuntimeSeconds(i64),
    #[error("{0} workers, and it is `Completed`")]
    CompletedWithout(i64),
    #[error("{0}, and it is `Completed`")]
    Completed(Box<Fault>),
    #[error("{0}")]
    Report(ReportError),
}

impl FieldError {
    pub fn new(path: impl Into<String>, fault: Fault) -> Self {
        FieldError { path: path.into(), fault }
    }

    /// The same below another path.
    pub fn below(self, parent: &str) -> Self {
        FieldError { path: format!("{parent}.{}", self.path), fault: self.fault }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joint = match self.fault {
            Fault::Missing | Fault::NoWorker => "",
            _ => ":",
        };
        write!(f, "`{}`{joint} {}", clean(&self.path), self.fault)
    }
}

/// A word of a worker's `Args`, by its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgsError {
    pub at: usize,
    pub wrong: WrongWord,
}

impl ArgsError {
    /// Turns this into an error of the field `args`.
    pub fn into_field(self, args: &str) -> FieldError {
        FieldError::new(format!("{args}[{}]", self.at), Fault::Word(self.wrong))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WrongWord {
    #[error("there is no `burnwait KOPS WAIT_NS`")]
    NoWork,
    #[error("`{}` is not a kind of work; there is `burnwait`", clean(.0))]
    Unknown(String),
    #[error("`{word}` has no {what} after it")]
    NoNumber { word: String, what: &'static str },
    #[error("`{}`, {what}, is not a whole number", clean(.text))]
    NotWhole { text: String, what: &'static str },
    #[error("`{}`, {what}, is not in {min} to {max}", clean(.text))]
    OutOfRange { text: String, what: &'static str, min: u64, max: u64 },
}

/// A report that makes no sense, of the worker that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportError {
    /// `Set` and `Id`, as far as the report has them; `None`: it has no `Id`.
    pub worker: Option<[Option<i64>; 2]>,
    pub fault: ReportFault,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportFault {
    #[error("`{0}` is missing")]
    Missing(&'static str),
    #[error("its `Set` is not one of the {sets} worker sets, counted from 0")]
    Set { sets: usize },
    #[error("its `Id` is not one of the {count} workers of set {set}, counted from 0")]
    Id { set: usize, count: i64 },
    #[error("`Now`, `Kops` and `Cputime` are counted from 0")]
    Negative,
    #[error("`Now` is {now} after {before}: it must grow")]
    Now { now: i64, before: i64 },
    #[error("`Kops` is {now} after {before}: it cannot fall")]
    Kops { now: i64, before: i64 },
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(worker) = self.worker {
            let [set, id] =
                worker.map(|part| part.map_or("?".to_string(), |part| part.to_string()));
            write!(f, "worker {set}:{id}: ")?;
        }
        self.fault.fmt(f)
    }
}

/// Why this machine cannot do a run as the file asks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotRun {
    #[error("WorkerType {0} is neither 0 (processes) nor 1 (guests of Xen)")]
    WorkerType(i64),
    #[error("SoftAffinity {0} is Xen's; Linux has none for processes")]
    SoftAffinity(String),
    #[error("SoftAffinity: {0}")]
    Soft(crate::model::CpuSetError),
    #[error("{0} is not a scheduler of Xen: credit, credit2, rtds, null")]
    NotOfXen(String),
    #[error("the scheduler {0} is Xen's")]
    XenScheduler(String),
    #[error(
        "there is no scheduler `{0}` here; policies are other, batch, idle, fifo, rr; --variants \
         PLAN names more"
    )]
    UnknownScheduler(String),
    #[error("worker sets in two pools, {} and {}, do not compete", shown_pool(.0), shown_pool(.1))]
    TwoPools(Option<String>, Option<String>),
    /// In the words of [`crate::model::PoolName`].
    #[error("{0}")]
    Pool(crate::model::PoolNameError),
    /// In the words of the backend.
    #[error("{0}")]
    Backend(String),
}

fn shown_pool(pool: &Option<String>) -> &str {
    pool.as_deref().unwrap_or("the whole machine")
}
