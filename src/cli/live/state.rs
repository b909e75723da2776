//! The live view's state of a plan that runs: events and analyses in, a [`Scene`] in words and
//! numbers out. Reads no file; uses the clock only by way of [`Progress`].

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::{Analysis, Cell, Family, Note, Place, Row};
use crate::backend;
use crate::engine::{HostNews, Job};
use crate::model::{
    DisturbanceKind, Event, GuestTime, Outcome, PlanEnd, RunKey, RunResult, is_spoilt,
};
use crate::report::numbers::{Change, Scale};
use crate::report::{clean, disturbance, is_good, place, verdict};
use crate::stats::{Ratio, Schedule, Verdict};

use super::super::host_news;
use super::super::progress::Progress;
use crate::report::numbers::counted;

/// Folded from the events of a plan.
pub struct State {
    progress: Progress,
    current: Option<RunKey>,
    has_ended: bool,
    answer: Answer,
    outside: Outside,
    failed: Failed,
    /// The last that the host did.
    host: Option<String>,
}

/// The answer so far.
#[derive(Default)]
struct Answer {
    /// Rounds that the ratios are of.
    rounds: u32,
    /// Rounds after which the verdicts fell.
    look: Option<u32>,
    rows: Vec<Headline>,
    /// Most rounds of some works are spoilt, and count.
    counts_spoilt: bool,
}

/// Interference from outside with the runs.
#[derive(Default)]
struct Outside {
    runs: u64,
    spoilt: u64,
    /// Runs in a guest whose time nothing outside reaches.
    exact: u64,
    /// In how many runs, and the largest share of the pool's CPU time.
    kinds: BTreeMap<DisturbanceKind, (u64, f64)>,
    /// The last one, and of which cell.
    last: Option<String>,
    celsius: Option<f64>,
}

#[derive(Default)]
struct Failed {
    runs: u64,
    skipped: u64,
    /// The last reasons of each, with the cell.
    why_failed: String,
    why_skipped: String,
}

/// A label and a line.
pub type Fact = (&'static str, Tone, String);

/// All that the screen shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    pub title: String,
    /// Done, 0 to 1.
    pub share: f64,
    pub progress: String,
    pub facts: Vec<Fact>,
    pub baseline: String,
    pub rows: Vec<Headline>,
    /// How far the rows are decided, and when the next look is.
    pub standing: String,
}

/// A headline metric of a variant against the baseline; of a plan with one variant its values alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// The work, with the set where it has several.
    pub place: String,
    pub metric: String,
    /// None where there is one variant.
    pub variant: Option<String>,
    /// The medians of the baseline and of the variant.
    pub values: [String; 2],
    /// `-8.7 % +-4.7`; empty where there is nothing to compare.
    pub change: String,
    /// For its place in the picture; a difference has none.
    pub ratio: Option<Ratio>,
    /// The margin of SAME, as a share.
    pub margin: f64,
    /// In words; `None`: no look was at it yet.
    pub verdict: Option<String>,
    pub tone: Tone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Good,
    Bad,
    Warning,
    Faint,
}

impl Headline {
    fn is_of(&self, other: &Headline) -> bool {
        (&self.place, &self.metric, &self.variant) == (&other.place, &other.metric, &other.variant)
    }

    pub fn word(&self) -> &str {
        match &self.verdict {
            Some(verdict) => verdict,
            None if self.change.is_empty() => "",
            None => "so far",
        }
    }
}

impl Tone {
    fn read(row: &Row, cell: &Cell) -> Tone {
        match (is_good(row, cell), cell.verdict()) {
            (Some(true), _) => Tone::Good,
            (Some(false), _) => Tone::Bad,
            (None, Some(Verdict::Better | Verdict::Worse | Verdict::Same)) => Tone::Plain,
            _ => Tone::Faint,
        }
    }
}

impl State {
    pub fn new(job: &Job) -> State {
        State {
            progress: Progress::new(job),
            current: None,
            has_ended: false,
            answer: Answer::default(),
            outside: Outside::default(),
            failed: Failed::default(),
            host: None,
        }
    }

    pub fn host(&mut self, news: &HostNews) {
        self.progress.host(news);
        self.host = Some(host_news::describe(news, &self.progress.job().started.cells));
    }

    pub fn apply(&mut self, event: &Event) {
        self.progress.apply(event);
        match event {
            Event::RunStarted { key } => self.current = Some(*key),
            Event::RunEnded { key, outcome } => self.run_ended(*key, outcome),
            Event::PlanEnded { reason, .. } => self.has_ended = *reason != PlanEnd::Interrupted,
            Event::PlanStarted(_) | Event::Window { .. } => {}
        }
    }

    fn run_ended(&mut self, key: RunKey, outcome: &Outcome) {
        let cell = self.progress.cell(key);
        match outcome {
            Outcome::Done { result } => self.outside.add(&cell, result),
            Outcome::Failed { reason } => {
                self.failed.runs += 1;
                self.failed.why_failed = clean(&format!("{cell}: {reason}"));
            }
            Outcome::Skipped { reason } => {
                self.failed.skipped += 1;
                self.failed.why_skipped = clean(&format!("{cell}: {reason}"));
            }
        }
    }

    /// The temperature of the hottest part, where it is known.
    pub fn heat(&mut self, celsius: Option<f64>) {
        self.outside.celsius = celsius;
    }

    /// Takes the ratios so far, and the verdicts of a look after `look` rounds.
    pub fn answer(&mut self, analysis: &Analysis, look: Option<u32>) {
        let sides = || 1..analysis.sides.len().max(1);
        let rows = analysis.rows_of(Family::Headline).flat_map(|place| {
            let alone = (analysis.sides.len() == 1).then_some(0);
            sides().chain(alone).map(move |side| (place, side))
        });
        let mut rows: Vec<Headline> =
            rows.map(|(place, side)| headline(analysis, place, side)).collect();
        // A look is at clean rounds alone, and may have none.
        if look.is_some() && rows.is_empty() {
            return;
        }
        if look.is_none() {
            for row in &mut rows {
                let earlier = self.answer.rows.iter().find(|earlier| earlier.is_of(row));
                row.verdict = earlier.and_then(|earlier| earlier.verdict.clone());
            }
        }
        let look = look.or(self.answer.look);
        let rounds = analysis.plan().map_or(0, |plan| plan.rounds_done);
        let counts_spoilt =
            analysis.notes.iter().any(|note| matches!(note, Note::AllSpoilt { .. }));
        self.answer = Answer { rounds, look, rows, counts_spoilt };
    }

    /// `interrupted`: somebody asked for an end.
    pub fn scene(&self, interrupted: bool) -> Scene {
        let progress = &self.progress;
        let started = &progress.job().started;
        let host = self.host.clone().map(|text| ("host", Tone::Warning, text));
        let facts = [self.now(interrupted), self.machine(), self.disturbed(), host];
        let missing = progress.missing().map(|text| ("missing", Tone::Warning, text));
        let facts = facts.into_iter().flatten().chain(self.failed.facts()).chain(missing).collect();
        Scene {
            title: clean(&started.plan.title),
            share: progress.share(),
            progress: format!("{}, {} gone, {}", progress.runs(), progress.gone(), progress.left()),
            facts,
            baseline: started
                .plan
                .variants
                .first()
                .map(|first| clean(&first.name))
                .unwrap_or_default(),
            rows: self.answer.rows.clone(),
            standing: self.standing(),
        }
    }

    fn now(&self, interrupted: bool) -> Option<Fact> {
        let warn = |text: &str| Some(("now", Tone::Warning, text.to_string()));
        if interrupted {
            return warn(
                "interrupted: it ends, and what was measured is stored; once more: at once",
            );
        }
        if self.has_ended {
            return warn("done: the report follows");
        }
        let key = self.current?;
        let round = key.round + 1;
        // Rounds that are measured again come after the plan's own.
        let of = if self.progress.until_decided() {
            String::new()
        } else {
            format!(" of {}", self.progress.job().started.plan.measure.rounds.max(round))
        };
        Some(("now", Tone::Plain, format!("round {round}{of}: {}", self.progress.cell(key))))
    }

    fn machine(&self) -> Option<Fact> {
        let started = &self.progress.job().started;
        let invents =
            backend::find(&started.backend).is_some_and(|of| of.capabilities.invents_figures);
        let text = if invents {
            "none: the figures are invented".to_string()
        } else {
            self.outside.text()
        };
        (!text.is_empty()).then_some(("machine", Tone::Plain, text))
    }

    fn disturbed(&self) -> Option<Fact> {
        let last = self.outside.last.as_ref()?;
        Some(("noted", Tone::Warning, last.clone()))
    }

    fn standing(&self) -> String {
        let Answer { rounds, look, rows, counts_spoilt } = &self.answer;
        let measure = &self.progress.job().started.plan.measure;
        let is_alone = self.progress.job().started.plan.variants.len() < 2;
        let next = measure
            .until_decided
            .then(|| Schedule::from_measure(measure).next_look(*rounds))
            .flatten();
        let after = match next {
            _ if is_alone => "one variant alone, so nothing is compared".to_string(),
            Some(next) => format!("the next look is after {next}"),
            None => "verdicts come with the report".to_string(),
        };
        let most = if *counts_spoilt { ", most of them spoilt" } else { "" };
        let rounds = counted(*rounds, "round") + most;
        match look {
            _ if rows.is_empty() => format!("no result yet; {after}"),
            Some(look) => {
                format!("verdicts of the look after round {look}, intervals of {rounds}; {after}")
            }
            None => format!("so far, after {rounds}; {after}"),
        }
    }
}

fn headline(analysis: &Analysis, (work, set, row): Place, side: usize) -> Headline {
    let effect = analysis.effect(row, side).filter(|_| side > 0);
    let change = effect.map(|of| Change::from_effect(&of, row.kind.unit).with_interval());
    let scale = Scale::of_row(row);
    let median = |side: usize| scale.with_suffix(row.cells.get(side).and_then(|cell| cell.median));
    Headline {
        place: place(work, set),
        metric: clean(&row.kind.name),
        variant: (side > 0).then(|| clean(&analysis.sides[side].label)),
        values: [median(0), median(side)],
        change: change.unwrap_or_default(),
        ratio: effect.and_then(|effect| effect.ratio()),
        margin: analysis.method.margin_of((work, set, row)),
        verdict: row.cells.get(side).and_then(|cell| verdict(analysis, row, cell)),
        tone: row.cells.get(side).map_or(Tone::Faint, |cell| Tone::read(row, cell)),
    }
}

impl Outside {
    fn add(&mut self, cell: &str, result: &RunResult) {
        self.runs += 1;
        let found = &result.disturbances;
        let shares = found.iter().map(|found| (found.kind(), found.share));
        self.spoilt += u64::from(is_spoilt(shares));
        let exact = result.guest.as_ref().is_some_and(|guest| guest.time == GuestTime::Exact);
        self.exact += u64::from(exact);
        let mut kinds = BTreeSet::new();
        for found in found {
            let (runs, most) = self.kinds.entry(found.kind()).or_default();
            *runs += u64::from(kinds.insert(found.kind()));
            *most = most.max(found.share.unwrap_or(0.0));
        }
        let worst = found.iter().max_by(|a, b| a.size().total_cmp(&b.size()));
        if let Some(worst) = worst {
            self.last = Some(format!("{cell}: {}", disturbance(&worst.fact)));
        }
    }

    /// `84 runs: steal in 31, up to 3.1 %; 3 spoilt; 61 C`.
    fn text(&self) -> String {
        if self.runs == 0 {
            return String::new();
        }
        if self.exact == self.runs {
            return "virtual time: what else happens here changes nothing".to_string();
        }
        let kinds = self.kinds.iter().map(|(kind, (runs, most))| {
            let word = kind.word();
            if *most > 0.0 {
                format!("{word} in {runs}, up to {:.1} %", 100.0 * most)
            } else {
                format!("{word} in {runs}")
            }
        });
        let mut parts: Vec<String> = kinds.collect();
        if parts.is_empty() {
            parts.push("nothing from outside".to_string());
        }
        parts.extend((self.spoilt > 0).then(|| format!("{} spoilt", self.spoilt)));
        parts.extend(self.celsius.map(|celsius| format!("{celsius:.0} C")));
        format!("{}: {}", counted(self.runs, "run"), parts.join("; "))
    }
}

impl Failed {
    fn facts(&self) -> impl Iterator<Item = Fact> {
        let fact = |label, tone, runs: u64, why: &str| {
            (runs > 0)
                .then(|| (label, tone, format!("{}, the last of {why}", counted(runs, "run"))))
        };
        let failed = fact("failed", Tone::Bad, self.runs, &self.why_failed);
        let skipped = fact("skipped", Tone::Warning, self.skipped, &self.why_skipped);
        [failed, skipped].into_iter().flatten()
    }
}
