//! The user's question. Plain data.

use serde::Serialize;

use crate::model::{Direction, Importance, Judged, MetricKind, RunKey};

use super::Family;
use super::metrics::{Measured, margin_of, may_take, takes_metric};
use super::notes::Note;
use super::samples::{Series, WorkSamples};
use super::select::{Selection, matches};
use super::work::WorkKey;

/// Margins by default. What a difference has to be to matter is no question of noise: a throughput
/// is argued about from a few percent on, a 99th percentile hardly below a tenth.
const MARGIN: f64 = 0.02;
pub const TAIL_MARGIN: f64 = 0.1;

#[derive(Debug, Clone, Default)]
pub struct Question {
    /// The baseline first.
    pub sides: Vec<Selection>,
    pub margin: f64,
    pub tail_margin: f64,
    /// For metrics that a pattern names; the last one that fits holds.
    pub margins: Vec<(String, f64)>,
    /// Patterns of the metrics to judge; empty: the headline metrics.
    pub metrics: Vec<String>,
    /// Judge [`Measured`] in place of the headline metrics.
    pub fidelity: bool,
    /// Judge all other metrics too, as a family of their own.
    pub explaining: bool,
    pub mixed: bool,
    /// The baseline is any plans that `--against` names: works that it alone has are not asked about.
    pub against: bool,
    /// Each machine is one draw; its plans are [`super::alike`].
    pub over_hosts: bool,
    /// Plans that were refused before, and why; the caller read them.
    pub refused: Vec<Note>,
    pub seed: u64,
    /// How many rounds of a running plan are judged; `None`: all.
    pub rounds_done: Option<u32>,
    /// No verdicts: ratios and their intervals alone, which a running plan has at any moment.
    pub ratios_alone: bool,
    /// Knobs that cannot make a difference in a work; the caller knows the knobs.
    pub without_effect: Vec<WithoutEffect>,
    /// The windows of runs whose states are looked for; the caller knows the store.
    pub windows: Vec<RunWindows>,
    pub command: String,
    /// Behind any other command, so that it reads the same store: ` --db results.db`, or nothing.
    pub store: String,
}

/// A knob of a side that cannot make a difference in a work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WithoutEffect {
    pub side: String,
    pub knob: String,
    pub work: String,
    /// The scheduler that does not heed it; `None`: nothing with another value competes there, or the next holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Each worker set has its own value.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub own_of_sets: bool,
}

/// The throughput of each set of a run in its windows.
#[derive(Debug, Clone, PartialEq)]
pub struct RunWindows {
    /// The plan's id.
    pub plan: String,
    pub key: RunKey,
    pub sets: Vec<(String, Vec<f64>)>,
    /// The samples of the latency that has fewest of those whose 99th percentile is judged, where that is asked for.
    pub judged_samples: Option<u64>,
}

impl Question {
    pub fn new(sides: Vec<Selection>, command: String) -> Question {
        Question {
            sides,
            margin: MARGIN,
            tail_margin: TAIL_MARGIN,
            seed: 1,
            command,
            ..Question::default()
        }
    }

    /// With the metrics and the margins that are asked for.
    pub fn judging(mut self, judged: &Judged) -> Question {
        for (metric, margin) in &judged.margins {
            match metric {
                None => (self.margin, self.tail_margin) = (*margin, *margin),
                Some(metric) => self.margins.push((metric.clone(), *margin)),
            }
        }
        self.metrics.clone_from(&judged.metrics);
        self.explaining |= judged.all_metrics;
        self.mixed = judged.mixed;
        self
    }

    pub(super) fn family_of(&self, work: &WorkKey, set: &str, kind: &MetricKind) -> Family {
        let is_neutral = kind.direction == Direction::Neutral;
        let is_solo_run = work.is_solo_run();
        let is_asked = match self.metrics.is_empty() {
            true if self.fidelity => Measured::from_kind(kind).is_some() && !is_solo_run,
            true => kind.importance == Importance::Headline && !is_neutral && !is_solo_run,
            false => {
                let label = work.label();
                let mut patterns = self.metrics.iter();
                patterns.any(|of| takes_metric(of, (&label, is_solo_run), set, &kind.name))
            }
        };
        match () {
            () if is_asked => Family::Headline,
            () if self.explaining && !is_neutral => Family::Explaining,
            () => Family::None,
        }
    }

    /// Whether some metric of this work is to be judged, as far as is known.
    pub(super) fn takes_work(&self, work: &WorkSamples) -> bool {
        let label = work.key.label();
        let mut series = work.sides.iter().flatten().flat_map(|side| &side.series).peekable();
        if series.peek().is_some() {
            return series.any(|series| self.judges(&work.key, series));
        }
        let may_be = |work: Option<&str>| work.is_none_or(|work| matches(work, &label));
        let is_solo_run = work.key.is_solo_run();
        let patterns = self.metrics.iter().filter(|pattern| may_take(pattern, is_solo_run));
        let mut works = patterns.map(|pattern| pattern.rsplitn(3, '/').nth(2));
        self.metrics.is_empty() || works.any(may_be)
    }

    pub fn margin_of(&self, work: &str, set: &str, kind: &MetricKind) -> f64 {
        margin_of(&self.margins, [self.margin, self.tail_margin], (work, set, kind))
    }

    /// Whether a metric would be of the headline family.
    pub(super) fn judges(&self, work: &WorkKey, series: &Series) -> bool {
        self.family_of(work, series.set, series.kind) == Family::Headline
    }
}
