//! Notes for the reader of an analysis, in addition to the numbers: typed facts, no sentences.
//! `report::phrases` makes English from them. Pure.

use serde::Serialize;

use crate::model::{Disturbance, DisturbanceKind, KnobReading, MissingPart, Value};
use crate::stats::NoEffect;

use super::fairness::Unheeded;
use super::host::HostKind;

/// How much a note bears on the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something was to be judged and was not: a gate has no answer.
    Bad,
    /// The verdicts may be about something else than the sides.
    Warning,
    /// Good to know.
    Info,
}

/// A difference between two works of one label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", content = "of", rename_all = "snake_case")]
pub enum Difference {
    Backend(String, String),
    // The machine, speed or clock of the lab's guests.
    Guests,
    Time { what: &'static str, own_ns: u64, other_ns: u64 },
    Probes(Vec<String>, Vec<String>),
    Placement,
    VariantKnobs,
    // The number of worker sets.
    Sets(usize, usize),
    Field { set: String, field: String, own: String, other: String },
    // The kind, knobs or role in the background of a worker set.
    SetKnobs(String),
    // A work that one of two plans has.
    OnlyOne(String),
    // A plan that was measured on several machines.
    Machines,
}

/// The thing that the runs of a side are pooled from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooled {
    Machines,
    Kernels,
}

/// Metrics of one worker set that are not known in some runs of a side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NoValue {
    pub side: String,
    pub work: String,
    pub set: String,
    pub metrics: Vec<String>,
    pub runs: usize,
    pub of: usize,
    pub reason: Option<String>,
}

/// A knob that cannot make a difference in these works: the scheduler does not heed it, each worker set has its own value,
/// or else nothing with another value competes there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UselessKnob {
    pub side: String,
    pub knob: String,
    pub works: Vec<String>,
    pub scheduler: Option<String>,
    pub own_of_sets: bool,
}

/// A fact about the runs of an analysis. Sides are labels, works are labels of works.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    Failed { side: String, work: String, runs: usize, of: usize, reason: String, others: usize },
    // Variants that cannot be had here.
    Skipped { sides: Vec<String>, works: Vec<String>, reason: String },
    NoValue(NoValue),
    NoRatio { sides: Vec<String>, work: String, set: String, metrics: Vec<String>, why: NoEffect },
    // A knob that had the value asked for in no run of these works.
    KnobNeverTook { side: String, knob: String, asked: Value, works: Vec<String> },
    NotSameWork { works: Vec<String>, sides: Vec<String>, others: Vec<String>, why: Difference },
    // Only these sides have runs of them.
    OnlyOn { works: Vec<String>, sides: Vec<String> },
    KnobsDiffer { work: String, side: String, variant: String },
    MixedVariants { work: String, side: String, variants: Vec<String> },
    UnitChanged { work: String, set: String, metric: String },
    // Over hosts: plans that are not the one that the others are, with the name of their host.
    OtherPlan { plans: Vec<(String, String)>, why: Difference },

    // Something from outside touched runs: of each side how many, and the worst of them.
    Disturbed { kind: DisturbanceKind, runs: Vec<(String, usize, usize)>, worst: Disturbance },
    // Latencies under way that make bounds of other metrics than headline ones.
    BoundElsewhere { runs: Vec<(String, usize, usize)>, worst: Disturbance },
    // Rounds of a work that were left out of it, since something from outside spoilt them.
    SpoiltRounds { works: Vec<(String, usize, usize)> },
    // Most rounds of these works were spoilt, so all are kept.
    AllSpoilt { works: Vec<(String, usize, usize)> },
    Knob { side: String, mismatch: KnobReading, runs: usize, of: usize },
    // A knob that cannot make a difference in these works.
    KnobWithoutEffect(UselessKnob),
    // The sides share no rounds.
    Unpaired,
    // The sides share no rounds, and every run is exact.
    UnpairedExact { same_seeds: bool, emulators: Vec<String> },
    // The number of metrics in which one side scatters more than twice as much as another.
    SpreadsDiffer { metrics: usize },
    MachinesDiffer { sides: Vec<(String, Vec<String>)> },
    Pooled { sides: Vec<String>, what: Pooled, names: Vec<String> },
    // A plan that was resumed on another kernel or machine: `(kernel, machine)`.
    ResumedElsewhere { plan: String, places: Vec<(String, String)> },
    // Too few boots to cover what differs from boot to boot.
    FewBoots { baseline: (String, usize), other: (String, usize), needed: usize },
    // Exact runs that other plans of the side have as well.
    Repeated { side: String, runs: usize },
    Rebuilt { plan: String, variant: String, kernels: Vec<String> },
    // Versions that the program of a worker set has, each with the sides where it is that.
    VersionsDiffer { set: String, versions: Vec<(String, Vec<String>)> },
    HostAndLab,
    // Fewer hosts than any verdict over hosts takes.
    TooFewHosts { hosts: usize, least: usize },
    // Hosts that differ in processor or kernel.
    HostKinds { kinds: Vec<HostKind> },
    // A host whose ratios differ from those of the others.
    HostDiffers { host: String, side: String, work: String, set: String, metrics: Vec<String> },
    NotExact { side: String, runs: usize, of: usize, why: String },
    // Runs switch between two speeds, in operations a second; of each side the share of its time at the higher one.
    TwoSpeeds { work: String, set: String, low: f64, high: f64, in_high: Vec<(String, f64)> },
    // In turns: sides whose ratio to the baseline is this many times as large in the late halves of blocks as in the
    // early ones.
    CarryOver { work: String, set: String, sides: Vec<(String, f64)> },

    // Work is given as times, and samples of the machine's speed scattered.
    LooseCalibration { plan: String, spread: f64 },
    // Work is given as times, and the same time was other work in these plans: by so much more.
    CalibrationsDiffer { plans: [String; 2], share: f64 },
    // At the end of a session the machine worked slower by this share than when it was calibrated.
    CalibrationDrift { plan: String, slower: f64 },
    // Timers that go off at ticks alone.
    CoarseTimers { sides: Vec<(String, u64)> },
    Builds { release: String, digests: Vec<String> },
    // A backend that invents its figures.
    Invented,
    // Plans that have not ended, or were interrupted; of those that parts were joined in, the parts that lack runs.
    Unfinished { plans: Vec<String>, missing: Vec<(String, MissingPart)> },
    // A plan that ended complete, of which only so many runs are there.
    GoneRuns { plan: String, runs: u64, of: u64 },
    OtherRuns { side: String, runs: usize, plans: Vec<String> },
    // A probe that counted no switches of some sets.
    ProbeSilent { probe: String },
    // Worker sets without a solo run: their fairness is not known.
    NoSolo { work: String, sets: Vec<String> },
    // Worker sets that are active at another time than others of the work: no fairness.
    NotAtOneTime { work: String, sets: Vec<String> },
    // A scheduler that does not heed weights in which sets differ, or of which that is not known: no fairness.
    WeightsUnheeded { work: String, of: Unheeded },
}

impl Note {
    pub fn severity(&self) -> Severity {
        use Note::*;
        match self {
            note if note.is_gap() || matches!(note, AllSpoilt { .. }) => Severity::Bad,
            SpoiltRounds { .. }
            | UnpairedExact { .. }
            | CoarseTimers { .. }
            | Builds { .. }
            | Unfinished { .. }
            | OtherRuns { .. }
            | ProbeSilent { .. }
            | NoSolo { .. }
            | NotAtOneTime { .. }
            | BoundElsewhere { .. }
            | TwoSpeeds { .. }
            | Disturbed { kind: DisturbanceKind::ProbeSource, .. } => Severity::Info,
            _ => Severity::Warning,
        }
    }

    /// Whether something was to be judged and was not: then a gate has no answer.
    pub fn is_gap(&self) -> bool {
        use Note::*;
        matches!(
            self,
            Failed { .. } | Skipped { .. } | NoValue { .. } | NoRatio { .. } | KnobNeverTook { .. }
        )
    }

    /// Whether tasks outside of the plan ran in some round.
    pub fn is_outside_load(&self) -> bool {
        matches!(self, Note::Disturbed { kind: DisturbanceKind::OutsideLoad, .. })
    }

    /// Whether it says why something was not compared.
    pub fn is_refusal(&self) -> bool {
        use Note::*;
        matches!(
            self,
            NotSameWork { .. }
                | OnlyOn { .. }
                | KnobsDiffer { .. }
                | MixedVariants { .. }
                | UnitChanged { .. }
                | OtherPlan { .. }
        )
    }

    /// The side of a note without figures, which other sides may have, too.
    pub fn side_mut(&mut self) -> Option<&mut String> {
        match self {
            Note::KnobNeverTook { side, .. }
            | Note::KnobWithoutEffect(UselessKnob { side, .. })
            | Note::KnobsDiffer { side, .. }
            | Note::MixedVariants { side, .. } => Some(side),
            _ => None,
        }
    }

    /// The note with these in its list, where it is of a kind that is found name by name.
    pub(super) fn with_names(mut self, found: Vec<String>) -> Note {
        match &mut self {
            Note::NotSameWork { works: names, .. }
            | Note::OnlyOn { works: names, .. }
            | Note::KnobNeverTook { works: names, .. }
            | Note::KnobWithoutEffect(UselessKnob { works: names, .. })
            | Note::Pooled { sides: names, .. }
            | Note::HostDiffers { metrics: names, .. }
            | Note::NoValue(NoValue { metrics: names, .. }) => *names = found,
            _ => {}
        }
        self
    }
}
