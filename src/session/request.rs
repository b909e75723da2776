//! The request for a plan's measurement: all that a caller may say of it. Plain data.

use std::path::PathBuf;

use crate::backend::Mode;
use crate::model::{Cell, Judged, SampledPlan, Shard, quoted};

use super::{Database, PlanText, SessionError};

#[derive(Clone, Default)]
pub struct Request {
    pub plan: PlanSource,
    /// One of the plan's own scales.
    pub scale: Option<String>,
    /// `None`: this machine.
    pub backend: Option<String>,
    pub lab: LabRequest,
    pub measure: MeasureRequest,
    /// Probes next to the plan's own.
    pub probes: Vec<String>,
    /// Measure the first variant against itself.
    pub aa: bool,
    /// The part of the plan that is run alone.
    pub shard: Option<Shard>,
    /// A selection of stored plans that this one is compared with.
    pub against: Option<String>,
    pub judged: Judged,
    /// The caller acts on verdicts, so a plan that can have none is refused.
    pub needs_verdicts: bool,
    pub purpose: Purpose,
    /// Check all, and change nothing.
    pub dry_run: bool,
    /// Runs that are missing at the end are an error.
    pub strict: bool,
    pub quiet: bool,
    /// Gets the cells of a correct plan before anything looks for their programs.
    pub find_programs: Option<FindPrograms>,
    pub fleet: Option<FleetRequest>,
    /// Options of sbatch.
    pub sbatch: Vec<String>,
    /// The end of a command that gives the same report, but for the metrics.
    pub report_words: String,
    pub db: Database,
}

pub type FindPrograms = fn(&[Cell]) -> Result<(), SessionError>;

#[derive(Clone)]
pub enum PlanSource {
    /// A built-in plan, a file or a stored plan.
    Named(String),
    Text(PlanText),
    /// A stored plan goes on: the one whose id begins so, or the newest.
    Stored(Option<String>),
}

/// The plan of a user who names none.
pub const DEFAULT_PLAN: &str = "quick";

impl Default for PlanSource {
    fn default() -> PlanSource {
        PlanSource::Named(DEFAULT_PLAN.to_string())
    }
}

/// How the lab answers, and what its guests are.
#[derive(Clone, Default)]
pub struct LabRequest {
    /// The kernel of variants that name none.
    pub kernel: Option<String>,
    pub kernel_args: Option<String>,
    /// A file of `schedlab twin`, or its word for this machine.
    pub machine: Option<String>,
    pub mode: Mode,
    /// A shared cache in the words of `--cache`; `None`: the one of the configuration file.
    pub cache: Option<String>,
}

/// In place of the plan's own, as a user writes it.
#[derive(Clone, Default)]
pub struct MeasureRequest {
    /// `+20` adds so many to a stored plan that goes on.
    pub rounds: Option<String>,
    pub duration: Option<String>,
    pub seed: Option<i64>,
    pub budget: Option<String>,
    pub until_decided: bool,
}

/// The use of the results: it decides what looks have to decide, and which command goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose {
    #[default]
    Run,
    /// The expectations have to be decided.
    Test,
    /// The plan's text is made anew with each call.
    Try,
}

/// The one kind of fleet that there is.
pub const SLURM: &str = "slurm";

/// The nodes of a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetRequest {
    /// The most nodes at once.
    pub nodes: Option<u32>,
    pub partition: Option<String>,
    pub account: Option<String>,
    /// One that nodes see, too.
    pub folder: Option<PathBuf>,
    /// Hosts are what is measured.
    pub exclusive: bool,
}

impl Request {
    pub fn backend(&self) -> &str {
        self.backend.as_deref().unwrap_or(SampledPlan::LOCAL)
    }

    /// The command that goes on with an interrupted plan, which was begun with `judged`.
    pub fn resume_command(&self, id: &str, judged: &Judged) -> String {
        let (command, asked) = match self.purpose {
            _ if self.db.is_temporary() => return "the same command begins again".to_string(),
            Purpose::Run => ("run", self.judged.clone()),
            // A test has metrics of its own.
            Purpose::Test => ("test", self.judged.with_metrics(judged.metrics.clone())),
            Purpose::Try => return "the same command goes on".to_string(),
        };
        let words = if asked == *judged { String::new() } else { asked.words() };
        let fleet = self.fleet.as_ref().map(FleetRequest::words).unwrap_or_default();
        let how = [self.db.words(), self.lab.resume_words(), fleet].concat();
        format!("schedlab {command} --resume {id}{how}{words}")
    }

    /// The end of the command that gives an analysis of the plan again.
    pub fn analysis_words(&self) -> String {
        self.judged.words() + &self.report_words
    }
}

impl FleetRequest {
    /// The end of a command that goes on with the same.
    pub fn words(&self) -> String {
        let mut word = SLURM.to_string();
        if self.exclusive {
            word.push_str(",exclusive");
        }
        if let Some(folder) = &self.folder {
            word.push_str(&format!(",folder={}", folder.display()));
        }
        format!(" --fleet {}", quoted(&word))
    }
}

impl LabRequest {
    /// The options to repeat where a plan is resumed; the time limit is the plan's own.
    fn resume_words(&self) -> String {
        let verify = if self.mode.verify { " --verify" } else { "" };
        let cache = self.cache.as_ref();
        let cache = cache.map_or(String::new(), |cache| format!(" --cache {}", quoted(cache)));
        format!("{verify}{cache}")
    }

    /// Whether something is asked of the lab.
    pub fn is_given(&self) -> bool {
        let named = [&self.kernel, &self.kernel_args, &self.machine, &self.cache];
        let Mode { realtime, verify, again, covers: _ } = self.mode;
        named.iter().any(|word| word.is_some()) || realtime || verify || again
    }
}
