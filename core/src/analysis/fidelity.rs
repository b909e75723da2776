//! How well the lab's verdicts predict those of a host, for the same plan.
//!
//! Input: one analysis of each, verdicts inside each. Output: a [`Fidelity`]: their rows next to
//! each other, matched by work, worker set, metric and variant, and what they sum up to. Pure.

use serde::Serialize;

use crate::model::{Direction, SampledPlan, Unit};
use crate::stats::{self, Distance, Ratio, Verdict};

use super::metrics::Measured;
use super::note_finder;
use super::notes::{Difference, Note};
use super::select::Selection;
use super::work::WorkKey;
use super::{Analysis, Cell, Family, Place, Row, SetTable, WorkTable};

/// Absolute throughputs agree up to this ratio, either way.
pub const NEAR_THROUGHPUT: f64 = 1.15;
/// As [`NEAR_THROUGHPUT`], of medians of wakeup latencies.
pub const NEAR_WAKEUP: f64 = 1.5;
const WAKEUP: &str = "wakeup";

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fidelity {
    pub summary: Summary,
    /// Each variant but the baseline, in every judged metric that both have values of.
    pub rows: Vec<FidelityRow>,
    /// Throughputs and medians of wakeup latencies of every cell, the baseline's included.
    pub absolutes: Vec<Absolute>,
    /// Things that only one of the two has, each once.
    pub only: Vec<Only>,
    pub host: Analysis,
    pub lab: Analysis,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FidelityRow {
    /// The label of the work.
    pub work: String,
    /// `None` where the work has a single one.
    pub set: Option<String>,
    pub metric: String,
    pub unit: Unit,
    pub direction: Direction,
    pub measured: Option<Measured>,
    pub variant: String,
    pub host: Found,
    pub lab: Found,
    /// Whether the lab predicts the host; `None` where the host does not decide.
    pub prediction: Option<Prediction>,
    /// Whether the two disagree: by their verdicts, or by 95 % intervals that do not overlap where the host does not
    /// decide.
    pub disagrees: bool,
}

/// One metric of one cell as both measured it, in the metric's unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Absolute {
    pub work: String,
    /// As [`FidelityRow::set`].
    pub set: Option<String>,
    pub metric: String,
    pub unit: Unit,
    pub variant: String,
    pub host: f64,
    pub lab: f64,
    /// [`NEAR_THROUGHPUT`], [`NEAR_WAKEUP`].
    pub is_near: bool,
}

/// One instrument's result for a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Found {
    /// The variant's median, in the row's unit.
    pub median: Option<f64>,
    /// To the baseline.
    pub ratio: Option<Ratio>,
    pub verdict: Option<Verdict>,
    /// No difference is above it where the verdict is open.
    pub bound: Option<Distance>,
}

/// How the lab's verdict compares with the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prediction {
    Agrees,
    /// BETTER for WORSE, or the reverse.
    Contradicts,
    /// One calls it SAME, the other BETTER or WORSE.
    Differs,
    /// The lab has no verdict.
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Instrument {
    Host,
    Lab,
}

/// Something that only one instrument has values of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Only {
    pub on: Instrument,
    pub what: Lone,
    /// Why the other skipped it, where it did.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lone {
    Variant(String),
    Work(String),
    Cell { work: String, variant: String },
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Rows that are BETTER, WORSE or SAME on the host: all counts but signs are of these.
    pub decided: usize,
    pub agree: usize,
    pub contradict: usize,
    pub differ: usize,
    pub open: usize,
    /// Rows that are BETTER or WORSE on the host, and how many of these have a ratio of the lab on the same
    /// side of 1.
    pub signs: Share,
    /// Rows that the host leaves open or bounded, and how many of these the lab decides.
    pub settled: Share,
    /// How far the lab's ratio is from the host's, in decided rows.
    pub deviations: Vec<Deviation>,
    /// The absolute throughputs that are near the host's.
    pub throughput: Share,
    /// The absolute medians of wakeup latencies that are near the host's.
    pub wakeup_p50: Share,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    pub count: usize,
    pub of: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Deviation {
    pub measured: Measured,
    pub rows: usize,
    /// The median of `|ln(ratio in the lab / ratio on the host)|`.
    pub median_abs_ln: f64,
}

/// Why two sides say nothing of fidelity.
#[derive(Debug, Clone, PartialEq)]
pub enum FidelityError {
    /// A plan of this side was measured elsewhere.
    Backend {
        side: String,
        wanted: Instrument,
        plan: String,
        backend: String,
    },
    /// A side is of whole plans.
    NamesVariants {
        side: String,
    },
    Baselines {
        host: String,
        lab: String,
    },
    /// Plans of both whose works of this label are not the same.
    NotSameWork {
        work: String,
        plans: [String; 2],
        difference: Box<Difference>,
    },
    NothingInCommon,
    /// Work in time is not the same work in two plans of the host.
    Calibrations {
        plans: [String; 2],
        share: f64,
    },
}

/// The sides of one instrument: each variant of its plans, the baseline first.
pub fn variants_of(side: &Selection, plans: &[SampledPlan]) -> Vec<Selection> {
    let mut names: Vec<&str> = Vec::new();
    let variants = plans.iter().flat_map(|plan| &plan.plan.variants);
    variants.for_each(|variant| super::lists::once(&mut names, variant.name.as_str()));
    names.into_iter().map(|name| side.with_variant(name)).collect()
}

/// Whether the plans of both sides, the host's first, are the same works under the same variants.
pub fn check(sides: [&Selection; 2], plans: [&[SampledPlan]; 2]) -> Result<(), FidelityError> {
    for ((side, plans), wanted) in sides.iter().zip(plans).zip([Instrument::Host, Instrument::Lab])
    {
        let is_wanted = |plan: &&SampledPlan| match wanted {
            Instrument::Host => !plan.has_guests() && plan.backend != SampledPlan::NULL,
            Instrument::Lab => plan.has_guests(),
        };
        let side = side.label.clone();
        if let Some(SampledPlan { id, backend, .. }) = plans.iter().find(|plan| !is_wanted(plan)) {
            let (plan, backend) = (id.clone(), backend.clone());
            return Err(FidelityError::Backend { side, wanted, plan, backend });
        }
    }
    if let Some(side) = sides.into_iter().find(|side| side.names_variants()) {
        return Err(FidelityError::NamesVariants { side: side.label.clone() });
    }
    let baseline = |plans: &[SampledPlan]| {
        let first = plans.first().and_then(|plan| plan.plan.variants.first());
        first.map_or(String::new(), |variant| variant.name.clone())
    };
    let [host, lab] = plans.map(baseline);
    if host != lab {
        return Err(FidelityError::Baselines { host, lab });
    }
    same_works(plans)?;
    match note_finder::calibrations_differ(plans[0]) {
        Some((plans, share)) => Err(FidelityError::Calibrations { plans, share }),
        None => Ok(()),
    }
}

fn same_works([hosts, labs]: [&[SampledPlan]; 2]) -> Result<(), FidelityError> {
    fn keys(plans: &[SampledPlan]) -> impl Iterator<Item = WorkKey<'_>> {
        let cells = plans.iter().flat_map(|plan| plan.cells.iter().map(move |cell| (plan, cell)));
        cells.map(|(plan, cell)| WorkKey { plan, cell, variant: Some(&cell.variant), mixed: true })
    }
    let mut in_common = false;
    for host in keys(hosts) {
        let label = host.label();
        for lab in keys(labs).filter(|lab| lab.label() == label) {
            in_common = true;
            if let Some(difference) = host.difference(&lab) {
                let plans = [host, lab].map(|key| key.plan.id.clone());
                let difference = Box::new(difference);
                return Err(FidelityError::NotSameWork { work: label, plans, difference });
            }
        }
    }
    if in_common { Ok(()) } else { Err(FidelityError::NothingInCommon) }
}

/// Analyses of plans that [`check`] accepts; their sides are [`variants_of`] them.
pub fn fidelity(host: Analysis, lab: Analysis) -> Fidelity {
    let (mut rows, mut absolutes) = (Vec::new(), Vec::new());
    for (work, set, row) in host.rows_of(Family::Headline) {
        let Some(other) = same_row(&lab, work, set, row) else { continue };
        for (at, cell) in row.cells.iter().enumerate() {
            let Some((lab_at, lab_cell)) = same_cell(&host, &lab, other, at) else { continue };
            let variant = &host.sides[at].label;
            absolutes.extend(absolute((work, set, row), variant, [cell, lab_cell]));
            if at == 0 || cell.values.is_empty() || lab_cell.values.is_empty() {
                continue;
            }
            let found = [Found::from_row(&host, row, at), Found::from_row(&lab, other, lab_at)];
            rows.push(row_of((work, set, row), variant, found));
        }
    }
    let (summary, only) = (Summary::from_rows(&rows, &absolutes), only(&host, &lab));
    Fidelity { summary, rows, absolutes, only, host, lab }
}

fn same_row<'a>(lab: &'a Analysis, work: &WorkTable, set: &SetTable, row: &Row) -> Option<&'a Row> {
    let is_same = |(of, its, other): &Place| {
        (&of.label, &its.name) == (&work.label, &set.name)
            && (&other.kind.name, other.kind.unit) == (&row.kind.name, row.kind.unit)
    };
    lab.rows_of(Family::Headline).find(is_same).map(|(.., row)| row)
}

/// The lab's cell of the same variant, and its position.
fn same_cell<'a>(
    host: &Analysis,
    lab: &Analysis,
    row: &'a Row,
    at: usize,
) -> Option<(usize, &'a Cell)> {
    let label = &host.sides[at].label;
    let lab_at = lab.sides.iter().position(|side| side.label == *label)?;
    Some((lab_at, &row.cells[lab_at]))
}

impl Found {
    fn from_row(analysis: &Analysis, row: &Row, at: usize) -> Found {
        let cell = &row.cells[at];
        let (ratio, verdict) = (analysis.ratio(row, at), cell.verdict());
        let bound = cell.judged.and_then(|judged| judged.bound);
        Found { median: cell.median, ratio, verdict, bound }
    }
}

/// The set's name, where the work has several.
fn set_name(work: &WorkTable, set: &SetTable) -> Option<String> {
    (work.sets.len() > 1).then(|| set.name.clone())
}

fn row_of((work, set, row): Place, variant: &str, [host, lab]: [Found; 2]) -> FidelityRow {
    let prediction = prediction(host.verdict, lab.verdict);
    FidelityRow {
        work: work.label.clone(),
        set: set_name(work, set),
        metric: row.kind.name.clone(),
        unit: row.kind.unit,
        direction: row.kind.direction,
        measured: Measured::from_kind(&row.kind),
        variant: variant.to_string(),
        host,
        lab,
        prediction,
        disagrees: disagree(prediction, [host, lab]),
    }
}

fn disagree(prediction: Option<Prediction>, both: [Found; 2]) -> bool {
    match prediction {
        Some(prediction) => matches!(prediction, Prediction::Contradicts | Prediction::Differs),
        None => {
            let [host, lab] = both.map(|found| found.ratio.and_then(|ratio| ratio.interval));
            host.zip(lab).is_some_and(|(host, lab)| host.high < lab.low || lab.high < host.low)
        }
    }
}

/// `None` for metrics that are not compared as they are, and where one has no value.
fn absolute((work, set, row): Place, variant: &str, cells: [&Cell; 2]) -> Option<Absolute> {
    let near = match Measured::from_kind(&row.kind)? {
        Measured::Throughput => NEAR_THROUGHPUT,
        Measured::P50 if row.kind.subject.as_deref() == Some(WAKEUP) => NEAR_WAKEUP,
        _ => return None,
    };
    let [host, lab] = [cells[0].median?, cells[1].median?];
    Some(Absolute {
        work: work.label.clone(),
        set: set_name(work, set),
        metric: row.kind.name.clone(),
        unit: row.kind.unit,
        variant: variant.to_string(),
        host,
        lab,
        is_near: host == lab || (host > 0.0 && (1.0 / near..=near).contains(&(lab / host))),
    })
}

fn is_difference(verdict: Option<Verdict>) -> bool {
    matches!(verdict, Some(Verdict::Better | Verdict::Worse))
}

fn is_decided(verdict: Option<Verdict>) -> bool {
    is_difference(verdict) || verdict == Some(Verdict::Same)
}

fn prediction(host: Option<Verdict>, lab: Option<Verdict>) -> Option<Prediction> {
    is_decided(host).then(|| match () {
        () if !is_decided(lab) => Prediction::Open,
        () if host == lab => Prediction::Agrees,
        () if is_difference(host) && is_difference(lab) => Prediction::Contradicts,
        () => Prediction::Differs,
    })
}

impl Share {
    fn add(&mut self, counts: bool) {
        self.count += usize::from(counts);
        self.of += 1;
    }
}

impl Summary {
    fn from_rows(rows: &[FidelityRow], absolutes: &[Absolute]) -> Summary {
        let mut summary = Summary::default();
        let decided = || rows.iter().filter_map(|row| Some((row, row.prediction?)));
        for (row, prediction) in decided() {
            summary.decided += 1;
            *match prediction {
                Prediction::Agrees => &mut summary.agree,
                Prediction::Contradicts => &mut summary.contradict,
                Prediction::Differs => &mut summary.differ,
                Prediction::Open => &mut summary.open,
            } += 1;
            if let (true, Some([host, lab])) = (is_difference(row.host.verdict), row.ratios()) {
                summary.signs.add(if host > 1.0 { lab > 1.0 } else { lab < 1.0 });
            }
        }
        for row in rows.iter().filter(|row| row.prediction.is_none()) {
            summary.settled.add(is_decided(row.lab.verdict));
        }
        for absolute in absolutes {
            let is_rate = absolute.unit == Unit::OpsPerS;
            let share = if is_rate { &mut summary.throughput } else { &mut summary.wakeup_p50 };
            share.add(absolute.is_near);
        }
        let deviation = |measured| {
            let rows = decided().filter(|(row, _)| row.measured == Some(measured));
            let deviations: Vec<f64> = rows.filter_map(|(row, _)| row.abs_ln()).collect();
            let median_abs_ln = stats::median(&deviations)?;
            Some(Deviation { measured, rows: deviations.len(), median_abs_ln })
        };
        summary.deviations = Measured::ALL.into_iter().filter_map(deviation).collect();
        summary
    }
}

impl FidelityRow {
    fn ratios(&self) -> Option<[f64; 2]> {
        Some([self.host.ratio?.ratio, self.lab.ratio?.ratio])
    }

    /// Whether the lab decides what the host leaves open.
    pub fn is_settled(&self) -> bool {
        self.prediction.is_none() && is_decided(self.lab.verdict)
    }

    /// How far the lab's ratio is from the host's: the absolute logarithm.
    pub fn abs_ln(&self) -> Option<f64> {
        let [host, lab] = self.ratios()?;
        Some((lab / host).ln().abs()).filter(|ln| ln.is_finite())
    }
}

/// Lists what only one of the two measured: whole variants and works first, then single cells of the rest.
fn only(host: &Analysis, lab: &Analysis) -> Vec<Only> {
    let mut found = Vec::new();
    for (on, own, other) in [(Instrument::Host, host, lab), (Instrument::Lab, lab, host)] {
        let [cells, others] = [own, other].map(measured_cells);
        let lone = cells.iter().filter(|cell| !others.contains(cell));
        let has = |is: fn(&(&str, &str), &(&str, &str)) -> bool, cell| {
            others.iter().any(|other| is(other, cell))
        };
        for cell @ (work, variant) in lone {
            let what = match () {
                () if !has(|one, other| one.1 == other.1, cell) => {
                    Lone::Variant(variant.to_string())
                }
                () if !has(|one, other| one.0 == other.0, cell) => Lone::Work(work.to_string()),
                () => Lone::Cell { work: work.to_string(), variant: variant.to_string() },
            };
            let reason = skipped(other, work, variant).map(str::to_string);
            super::lists::once(&mut found, Only { on, what, reason });
        }
    }
    found
}

/// The cells that have values: label of the work and variant.
fn measured_cells(analysis: &Analysis) -> Vec<(&str, &str)> {
    let mut cells = Vec::new();
    for (work, _, row) in analysis.rows() {
        for (side, cell) in analysis.sides.iter().zip(&row.cells) {
            if !cell.values.is_empty() {
                super::lists::once(&mut cells, (work.label.as_str(), side.label.as_str()));
            }
        }
    }
    cells
}

/// Why an instrument skipped this cell.
fn skipped<'a>(analysis: &'a Analysis, work: &str, variant: &str) -> Option<&'a str> {
    analysis.notes.iter().find_map(|note| match note {
        Note::Skipped { sides, works, reason } => {
            let names = |list: &[String], name: &str| list.iter().any(|own| own == name);
            let is_it = names(sides, variant) && names(works, work);
            is_it.then_some(reason.as_str())
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests;
