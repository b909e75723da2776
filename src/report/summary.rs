//! What a record says, before any layout: runs grouped by work, worker set and variant, each
//! metric over its rounds with its ratio to the baseline, and what stands beside it (skips,
//! failures, disturbances, knobs that the kernel took otherwise).
//!
//! Input: a [`Record`]. Output borrows from it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    Cell, Direction, DisturbanceKind, Metric, Outcome, Reading, Record, RecordedRun, RunResult,
    Unit, Variant, Work, WorkerSet,
};
use crate::stats::{self, NoRatio, Ratio};

use super::disturbance_words::disturbance;
use super::fairness::{Solos, WorkFairness, fairness};

pub struct Summary<'a> {
    /// Rounds in which every cell has ended, whatever the outcome.
    pub rounds_done: u32,
    pub rounds_planned: u32,
    /// In the plan's order.
    pub works: Vec<WorkSummary<'a>>,
    /// Variants that could run in no cell, each for one reason.
    pub skipped_everywhere: Vec<Skip<'a>>,
    /// What took so much of the pool that the plan asks another question than it measured.
    pub takers: Vec<Interference>,
}

/// Something from outside that took more than [`MAX_TAKEN`] of the pool in some run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interference {
    pub kind: DisturbanceKind,
    /// Of the pool, in the worst run.
    pub worst_share: f64,
    /// Runs that lost more than [`MAX_TAKEN`].
    pub runs: usize,
    /// Runs that were measured.
    pub measured: usize,
}

/// The share of the pool that a run may lose to others and still tell of its plan.
pub const MAX_TAKEN: f64 = 0.25;

/// Why a metric that others have is unknown in a run that says nothing of it.
pub const NOT_REPORTED: &str = "the run does not report it";

/// All variants of one work.
pub struct WorkSummary<'a> {
    pub work: &'a Work,
    /// Foreground sets.
    pub sets: Vec<SetSummary<'a>>,
    /// Without those of [`Summary::skipped_everywhere`].
    pub skipped: Vec<Skip<'a>>,
    pub failed: Vec<Failure<'a>>,
    pub marks: Vec<Mark<'a>>,
    /// `None` for a solo run.
    pub fairness: Option<WorkFairness<'a>>,
}

pub struct SetSummary<'a> {
    pub set: &'a WorkerSet,
    /// Of the set's throughput: `requests`. Empty where nothing was measured.
    pub ops: &'a str,
    /// Workers that ran, in all roles; `None` where nothing was measured.
    pub workers: Option<usize>,
    /// Variants with at least one measured run, in the plan's order.
    pub rows: Vec<RowSummary<'a>>,
}

pub struct RowSummary<'a> {
    pub variant: &'a Variant,
    pub baseline: bool,
    /// Rounds with a measured run, ascending.
    pub rounds: Vec<u32>,
    /// In the order of the workload; the same for all rows of a set.
    pub metrics: Vec<MetricSummary<'a>>,
}

pub struct MetricSummary<'a> {
    pub name: &'a str,
    pub unit: Unit,
    pub direction: Direction,
    /// By round, ascending; finite.
    pub values: Vec<(u32, f64)>,
    /// Why rounds have no value.
    pub unknown: Vec<(String, Vec<u32>)>,
    pub median: Option<f64>,
    pub mean: Option<f64>,
    pub cv: Option<f64>,
    /// To the baseline, paired within rounds; `None` for the baseline itself, for what is
    /// neither better nor worse, and for all where the baseline has no measured run.
    pub ratio: Option<Result<Ratio, NoRatio>>,
}

pub struct Skip<'a> {
    pub variant: &'a Variant,
    pub reason: &'a str,
}

pub struct Failure<'a> {
    pub variant: &'a Variant,
    pub reason: &'a str,
    pub rounds: Vec<u32>,
}

/// Something beside the numbers of one or more variants.
pub struct Mark<'a> {
    pub kind: MarkKind<'a>,
    /// The text of the worst run where runs differ in figures alone.
    pub detail: String,
    /// What the worst is told by.
    figures: Vec<f64>,
    /// Whether other runs had smaller figures.
    pub worst_of_several: bool,
    pub touched: Vec<Touched<'a>>,
    /// Whether no measured run of the work is without it.
    pub every_run: bool,
    /// Whether it is a knob that all measured runs of the work tell of, such as the pool: it
    /// sets no row apart, and is told once for all.
    pub of_all_rows: bool,
}

/// A variant with the rounds that a mark stands beside.
pub struct Touched<'a> {
    pub variant: &'a Variant,
    pub rounds: Vec<u32>,
    /// Whether these are all of several measured rounds.
    pub every_round: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkKind<'a> {
    Disturbance(DisturbanceKind),
    /// A knob, by name, that did not read back as asked.
    Knob(&'a str),
}

/// One cell and the runs of it that count, by round.
pub struct CellRuns<'a> {
    pub cell: &'a Cell,
    pub runs: BTreeMap<u32, &'a RecordedRun>,
}

impl<'a> CellRuns<'a> {
    pub fn results(&self) -> impl Iterator<Item = (u32, &'a RunResult)> + '_ {
        self.runs.iter().filter_map(|(&round, run)| match &run.outcome {
            Outcome::Done { result } => Some((round, &**result)),
            Outcome::Failed { .. } | Outcome::Skipped { .. } => None,
        })
    }

    /// The reasons for which this cell was skipped; empty where anything else happened.
    fn skip_reasons(&self) -> BTreeSet<&'a str> {
        let reason = |run: &&'a RecordedRun| match &run.outcome {
            Outcome::Skipped { reason } => Some(reason.as_str()),
            Outcome::Done { .. } | Outcome::Failed { .. } => None,
        };
        self.runs.values().filter_map(reason).collect()
    }
}

pub fn summarise(record: &Record) -> Summary<'_> {
    let cells = cells_of(record);
    let skipped_everywhere = skipped_everywhere(record, &cells);
    let mut works: Vec<(&Work, Vec<&CellRuns>)> = Vec::new();
    for cell in &cells {
        match works.iter_mut().find(|(work, _)| **work == cell.cell.work) {
            Some((_, members)) => members.push(cell),
            None => works.push((&cell.cell.work, vec![cell])),
        }
    }
    let told: Vec<&str> = skipped_everywhere.iter().map(|skip| &*skip.variant.name).collect();
    let baseline = record.started.plan.variants.first().map(|variant| variant.name.as_str());
    let solos = Solos::of(&cells);
    let works = works
        .into_iter()
        .map(|(work, members)| WorkSummary {
            work,
            sets: foreground(work).map(|set| set_summary(set, &members, baseline)).collect(),
            skipped: skips(&members, &told),
            failed: failures(&members),
            marks: marks(&members),
            fairness: fairness(record, work, &members, &solos),
        })
        .collect();
    Summary {
        rounds_done: rounds_done(&cells),
        rounds_planned: record.started.plan.measure.rounds,
        works,
        skipped_everywhere,
        takers: takers(&cells),
    }
}

/// Only what others take by the share: a CPU that went offline is told by its own mark.
fn takers(cells: &[CellRuns]) -> Vec<Interference> {
    let results = || cells.iter().flat_map(|cell| cell.results());
    let taken = |kind, result: &RunResult| {
        let shares = result.disturbances.iter().filter(|found| found.kind() == kind);
        shares.filter_map(|found| found.share).fold(0.0, f64::max)
    };
    let taker = |kind| {
        let shares = results().map(|(_, result)| taken(kind, result));
        let much: Vec<f64> = shares.filter(|share| *share > MAX_TAKEN).collect();
        let worst_share = much.iter().copied().fold(0.0, f64::max);
        Interference { kind, worst_share, runs: much.len(), measured: results().count() }
    };
    let kinds = [DisturbanceKind::OutsideLoad, DisturbanceKind::Steal];
    kinds.map(taker).into_iter().filter(|taker| taker.runs > 0).collect()
}

fn foreground(work: &Work) -> impl Iterator<Item = &WorkerSet> {
    work.sets.iter().filter(|set| !set.background)
}

/// Cells by the order of the plan's variants. Of several runs of one cell and round, the
/// last counts: the plan was resumed, and that is what the resumption put in its place.
fn cells_of(record: &Record) -> Vec<CellRuns<'_>> {
    let variants = &record.started.plan.variants;
    let mut cells: Vec<CellRuns> =
        record.started.cells.iter().map(|cell| CellRuns { cell, runs: BTreeMap::new() }).collect();
    let place: BTreeMap<u32, usize> =
        cells.iter().enumerate().map(|(at, runs)| (runs.cell.index, at)).collect();
    for run in &record.runs {
        if let Some(&at) = place.get(&run.key.cell) {
            cells[at].runs.insert(run.key.round, run);
        }
    }
    let position = |name: &str| variants.iter().position(|variant| variant.name == name);
    cells.sort_by_key(|runs| {
        let place = position(&runs.cell.variant.name).unwrap_or(variants.len());
        (place, runs.cell.index)
    });
    // Works keep the order in which the first variant has them.
    cells
}

fn rounds_done(cells: &[CellRuns]) -> u32 {
    let mut ended: BTreeMap<u32, usize> = BTreeMap::new();
    for round in cells.iter().flat_map(|cell| cell.runs.keys()) {
        *ended.entry(*round).or_default() += 1;
    }
    ended.values().filter(|count| **count == cells.len()).count() as u32
}

fn skipped_everywhere<'a>(record: &'a Record, cells: &[CellRuns<'a>]) -> Vec<Skip<'a>> {
    let skip = |variant: &'a Variant| {
        let own: Vec<&CellRuns> =
            cells.iter().filter(|cell| cell.cell.variant.name == variant.name).collect();
        let reasons: BTreeSet<&str> = own.iter().flat_map(|cell| cell.skip_reasons()).collect();
        let all = own.iter().all(|cell| {
            cell.runs.values().all(|run| matches!(run.outcome, Outcome::Skipped { .. }))
        });
        let mut reasons = reasons.into_iter();
        match (all, reasons.next(), reasons.next()) {
            (true, Some(reason), None) => Some(Skip { variant, reason }),
            _ => None,
        }
    };
    record.started.plan.variants.iter().filter_map(skip).collect()
}

fn skips<'a>(members: &[&CellRuns<'a>], told: &[&str]) -> Vec<Skip<'a>> {
    let untold = members.iter().filter(|cell| !told.contains(&&*cell.cell.variant.name));
    untold
        .flat_map(|cell| {
            let variant = &cell.cell.variant;
            cell.skip_reasons().into_iter().map(move |reason| Skip { variant, reason })
        })
        .collect()
}

fn failures<'a>(members: &[&CellRuns<'a>]) -> Vec<Failure<'a>> {
    let mut failures: Vec<Failure> = Vec::new();
    for cell in members {
        let own = failures.len();
        for (&round, run) in &cell.runs {
            let Outcome::Failed { reason } = &run.outcome else { continue };
            match failures[own..].iter_mut().find(|failure| failure.reason == reason) {
                Some(failure) => failure.rounds.push(round),
                None => {
                    let variant = &cell.cell.variant;
                    failures.push(Failure { variant, reason, rounds: vec![round] });
                }
            }
        }
    }
    failures
}

/// What disturbed the runs of one work. Of a kind that has a size the worst is shown for
/// all; other lines become one if they differ in figures alone.
fn marks<'a>(members: &[&CellRuns<'a>]) -> Vec<Mark<'a>> {
    let mut marks: BTreeMap<(MarkKind, String), Mark> = BTreeMap::new();
    for cell in members {
        for (round, result) in cell.results() {
            for (kind, share, detail) in remarks(result) {
                let (shape, figures) = match share {
                    Some(share) => (String::new(), vec![share]),
                    None => shape_of(&detail),
                };
                let mark = marks.entry((kind, shape)).or_insert_with(|| Mark {
                    kind,
                    detail: detail.clone(),
                    figures: figures.clone(),
                    worst_of_several: false,
                    touched: Vec::new(),
                    every_run: false,
                    of_all_rows: false,
                });
                if mark.detail != detail {
                    mark.worst_of_several = true;
                    if mark.figures < figures {
                        (mark.detail, mark.figures) = (detail, figures);
                    }
                }
                touch(&mut mark.touched, &cell.cell.variant, round);
            }
        }
    }
    marks.into_values().map(|mark| with_extent(mark, members)).collect()
}

fn touch<'a>(touched: &mut Vec<Touched<'a>>, variant: &'a Variant, round: u32) {
    match touched.last_mut() {
        Some(last) if last.variant.name == variant.name => {
            if last.rounds.last() != Some(&round) {
                last.rounds.push(round);
            }
        }
        _ => touched.push(Touched { variant, rounds: vec![round], every_round: false }),
    }
}

/// Compares what a mark touches with all that was measured.
fn with_extent<'a>(mut mark: Mark<'a>, members: &[&CellRuns<'a>]) -> Mark<'a> {
    let measured = |cell: &CellRuns| cell.results().count();
    for touched in &mut mark.touched {
        let own = members.iter().find(|cell| cell.cell.variant.name == touched.variant.name);
        let count = own.map_or(0, |cell| measured(cell));
        touched.every_round = count > 1 && touched.rounds.len() == count;
    }
    let runs: usize = members.iter().map(|cell| measured(cell)).sum();
    let touched: usize = mark.touched.iter().map(|touched| touched.rounds.len()).sum();
    mark.every_run = runs > 1 && touched == runs;
    mark.of_all_rows = matches!(mark.kind, MarkKind::Knob(_)) && touched == runs;
    mark
}

/// A pool is never told as it was asked for: what it became is the finding.
const POOL: &str = "pool";

/// Everything of one run that a reader of its numbers has to know.
fn remarks(result: &RunResult) -> impl Iterator<Item = (MarkKind<'_>, Option<f64>, String)> {
    let disturbances = result
        .disturbances
        .iter()
        .map(|found| (MarkKind::Disturbance(found.kind()), found.share, disturbance(&found.fact)));
    let knobs = result.knobs.iter().filter_map(|reading| {
        let (knob, asked) = (&reading.knob, &reading.asked);
        let detail = match &reading.got {
            Reading::Known(got) if got == asked => return None,
            Reading::Known(got) if knob == POOL => format!("pool {asked}: {got}"),
            Reading::Known(got) => format!("{knob} asked {asked}, kernel took {got}"),
            Reading::Unknown(why) => format!("{knob} asked {asked}, not read back: {why}"),
        };
        Some((MarkKind::Knob(knob.as_str()), None, detail))
    });
    disturbances.chain(knobs)
}

/// A text with its figures taken out, and the figures.
fn shape_of(text: &str) -> (String, Vec<f64>) {
    let mut shape = String::new();
    let mut figures = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = &rest[start..];
        let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
        let number = digits[..end].trim_end_matches('.');
        shape.push_str(&rest[..start]);
        match number.parse() {
            Ok(figure) => {
                figures.push(figure);
                shape.push('#');
            }
            Err(_) => shape.push_str(number),
        }
        rest = &digits[number.len()..];
    }
    shape.push_str(rest);
    (shape, figures)
}

fn set_summary<'a>(
    set: &'a WorkerSet,
    members: &[&CellRuns<'a>],
    baseline: Option<&str>,
) -> SetSummary<'a> {
    let mut columns: Vec<&Metric> = Vec::new();
    let (mut ops, mut workers) = ("", None);
    for (_, result) in members.iter().flat_map(|cell| cell.results()) {
        for found in result.sets.iter().filter(|found| found.name == set.name) {
            ops = &found.ops;
            workers = workers.max(Some(found.workers.len()));
            for metric in &found.metrics {
                if !columns.iter().any(|column| column.kind.name == metric.kind.name) {
                    columns.push(metric);
                }
            }
        }
    }
    let mut rows: Vec<RowSummary> = members
        .iter()
        .map(|cell| row(set, cell, &columns, baseline))
        .filter(|row| !row.rounds.is_empty())
        .collect();
    compare(&mut rows);
    SetSummary { set, ops, workers, rows }
}

fn row<'a>(
    set: &WorkerSet,
    cell: &CellRuns<'a>,
    columns: &[&'a Metric],
    baseline: Option<&str>,
) -> RowSummary<'a> {
    let variant = &cell.cell.variant;
    RowSummary {
        variant,
        baseline: baseline == Some(variant.name.as_str()),
        rounds: cell.results().map(|(round, _)| round).collect(),
        metrics: columns.iter().map(|column| metric(set, cell, column)).collect(),
    }
}

/// One metric of one row, without its ratio.
fn metric<'a>(set: &WorkerSet, cell: &CellRuns<'a>, column: &'a Metric) -> MetricSummary<'a> {
    let results = cell.results();
    let values = results.map(|(round, result)| (round, reading(set, result, &column.kind.name)));
    MetricSummary::over_rounds(&column.kind.name, column.kind.unit, column.kind.direction, values)
}

impl<'a> MetricSummary<'a> {
    /// From its reading in each round, ascending; without a ratio.
    pub fn over_rounds<'r>(
        name: &'a str,
        unit: Unit,
        direction: Direction,
        readings: impl Iterator<Item = (u32, Option<&'r Reading<f64>>)>,
    ) -> Self {
        let mut values = Vec::new();
        let mut unknown: Vec<(String, Vec<u32>)> = Vec::new();
        for (round, reading) in readings {
            let why = match reading {
                Some(Reading::Known(value)) if value.is_finite() => {
                    values.push((round, *value));
                    continue;
                }
                Some(Reading::Known(value)) => format!("{value} is not a finite number"),
                Some(Reading::Unknown(why)) => why.clone(),
                None => NOT_REPORTED.to_string(),
            };
            match unknown.iter_mut().find(|(reason, _)| *reason == why) {
                Some((_, rounds)) => rounds.push(round),
                None => unknown.push((why, vec![round])),
            }
        }
        let plain: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
        MetricSummary {
            name,
            unit,
            direction,
            median: stats::median(&plain),
            mean: stats::mean(&plain),
            cv: stats::cv(&plain),
            values,
            unknown,
            ratio: None,
        }
    }
}

fn reading<'a>(set: &WorkerSet, result: &'a RunResult, name: &str) -> Option<&'a Reading<f64>> {
    let found = result.sets.iter().find(|found| found.name == set.name)?;
    found.metrics.iter().find(|metric| metric.kind.name == name).map(|metric| &metric.value)
}

/// Fills in the ratios of all rows to the baseline's.
fn compare(rows: &mut [RowSummary]) {
    let Some(baseline) = rows.iter().find(|row| row.baseline) else { return };
    let baseline: Vec<Vec<(u32, f64)>> =
        baseline.metrics.iter().map(|metric| metric.values.clone()).collect();
    for row in rows.iter_mut().filter(|row| !row.baseline) {
        let metrics = row.metrics.iter_mut().zip(&baseline);
        for (metric, below) in metrics.filter(|(own, _)| own.direction != Direction::Neutral) {
            metric.ratio = Some(stats::paired_ratio(below, &metric.values));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::{self, PlanBuilder};

    #[test]
    fn ratios_are_paired_within_rounds_whatever_the_order_of_runs() {
        // The machine gets ten times slower from round to round; the ratio stays 2.
        let mut plan = PlanBuilder::new(3, &["base", "twice"]);
        for (round, value) in [(2, 1.0), (0, 100.0), (1, 10.0)] {
            plan.done(round, "twice", |run| run.metric("throughput", 2.0 * value));
            plan.done(round, "base", |run| run.metric("throughput", value));
        }
        let record = plan.record();
        let summary = summarise(&record);
        let rows = &summary.works[0].sets[0].rows;
        let ratio = rows[1].metrics[0].ratio.unwrap().unwrap();
        assert_eq!(rows[1].metrics[0].values, vec![(0, 200.0), (1, 20.0), (2, 2.0)]);
        assert!((ratio.ratio - 2.0).abs() < 1e-12 && ratio.pairs == 3);
        assert!(rows[0].baseline && rows[0].metrics[0].ratio.is_none());
        assert_eq!((summary.rounds_done, summary.rounds_planned), (3, 3));
    }

    #[test]
    fn of_two_runs_of_one_cell_and_round_the_last_counts() {
        let mut plan = PlanBuilder::new(1, &["base"]);
        plan.failed(0, "base", "killed");
        plan.done(0, "base", |run| run.metric("throughput", 5.0));
        let record = plan.record();
        let summary = summarise(&record);
        assert!(summary.works[0].failed.is_empty());
        assert_eq!(summary.works[0].sets[0].rows[0].metrics[0].median, Some(5.0));
    }

    #[test]
    fn a_round_is_done_when_all_its_cells_have_ended() {
        let mut plan = PlanBuilder::new(3, &["base", "other"]);
        plan.done(0, "base", |run| run.metric("throughput", 5.0));
        plan.skipped(0, "other", "no");
        plan.done(1, "base", |run| run.metric("throughput", 5.0));
        assert_eq!(summarise(&plan.record()).rounds_done, 1);
    }

    #[test]
    fn a_value_that_is_not_finite_is_unknown() {
        let mut plan = PlanBuilder::new(2, &["base"]);
        plan.done(0, "base", |run| run.metric("throughput", f64::NAN));
        plan.done(1, "base", |run| run.metric("throughput", 3.0));
        let record = plan.record();
        let summary = summarise(&record);
        let metric = &summary.works[0].sets[0].rows[0].metrics[0];
        assert_eq!((metric.median, metric.values.len()), (Some(3.0), 1));
        assert_eq!(metric.unknown, vec![("NaN is not a finite number".to_string(), vec![0])]);
    }

    #[test]
    fn a_skip_everywhere_is_told_once_and_a_skip_here_and_there_where_it_is() {
        let record = testing::troubled().record();
        let summary = summarise(&record);
        let everywhere: Vec<&str> =
            summary.skipped_everywhere.iter().map(|skip| &*skip.variant.name).collect();
        assert_eq!(everywhere, ["fifo"]);
        let here: Vec<Vec<&str>> = summary
            .works
            .iter()
            .map(|work| work.skipped.iter().map(|skip| &*skip.variant.name).collect())
            .collect();
        assert_eq!(here, [vec![], vec!["batch"]]);
    }

    #[test]
    fn lines_that_differ_in_figures_are_one_mark_with_the_worst() {
        let steal = DisturbanceKind::Steal;
        let mut plan = PlanBuilder::new(4, &["base", "other"]);
        for (round, percent) in [(0, "0.9 %"), (1, "12.4 %"), (2, "3.1 %")] {
            plan.done(round, "base", |run| {
                run.metric("throughput", 1.0).disturbed(steal, &format!("{percent} of a CPU"))
            });
        }
        plan.done(3, "other", |run| {
            run.metric("throughput", 1.0).disturbed(steal, "1.0 % of a CPU").knob(
                "slice",
                "50us",
                Reading::Known("100us".to_string()),
            )
        });
        let record = plan.record();
        let summary = summarise(&record);
        let marks = &summary.works[0].marks;
        assert_eq!(marks.len(), 2);
        assert_eq!((&*marks[0].detail, marks[0].worst_of_several), ("12.4 % of a CPU", true));
        let touched: Vec<(&str, &[u32])> =
            marks[0].touched.iter().map(|own| (&*own.variant.name, &*own.rounds)).collect();
        assert_eq!(touched, [("base", &[0, 1, 2][..]), ("other", &[3])]);
        assert!(marks[0].every_run && marks[0].touched[0].every_round);
        assert_eq!(marks[1].detail, "slice asked 50us, kernel took 100us");
    }

    #[test]
    fn every_round_is_every_measured_round() {
        let steal = DisturbanceKind::Steal;
        let mut plan = PlanBuilder::new(4, &["all", "some", "once", "none"]);
        let calm = |run: testing::RunBuilder| run.metric("throughput", 1.0);
        for round in 0..3 {
            plan.done(round, "all", |run| calm(run).disturbed(steal, "1 %"));
            plan.done(round, "some", |run| match round {
                1 => calm(run),
                _ => calm(run).disturbed(steal, "1 %"),
            });
        }
        plan.failed(3, "all", "died");
        plan.done(0, "once", |run| calm(run).disturbed(steal, "1 %"));
        let told = |plan: PlanBuilder| {
            let record = plan.record();
            let summary = summarise(&record);
            let mark = &summary.works[0].marks[0];
            (mark.touched.iter().map(|own| own.every_round).collect::<Vec<_>>(), mark.every_run)
        };
        assert_eq!(told(plan.clone()), (vec![true, false, false], false));
        plan.done(1, "some", |run| calm(run).disturbed(steal, "1 %"));
        assert_eq!(told(plan.clone()), (vec![true, true, false], true));
        plan.done(0, "none", calm);
        assert_eq!(told(plan), (vec![true, true, false], false));
    }

    #[test]
    fn what_took_much_of_the_pool_is_told_with_its_worst_run_of_all_works() {
        let (load, steal) = (DisturbanceKind::OutsideLoad, DisturbanceKind::Steal);
        let hotplug = DisturbanceKind::CpuHotplug;
        let mut plan =
            PlanBuilder::new(3, &["base", "other"]).work("solo", &[], &[("s", "spin", false)]);
        plan.done(0, "base", |run| run.took(load, 0.25).took(steal, 0.1));
        plan.done(0, "other", |run| run.took(load, 0.3).took(hotplug, 0.5));
        plan.done_in(1, 0, "base", |run| run.took(load, 0.1).took(load, 0.5));
        plan.failed(1, "base", "died");
        let taker = Interference { kind: load, worst_share: 0.5, runs: 2, measured: 3 };
        assert_eq!(summarise(&plan.record()).takers, [taker]);
    }

    #[test]
    fn what_is_neither_better_nor_worse_has_no_ratio() {
        let mut plan = PlanBuilder::new(2, &["base", "other"]);
        for (round, variant) in [(0, "base"), (0, "other"), (1, "base"), (1, "other")] {
            plan.done(round, variant, |run| {
                run.metric("throughput", 2.0).metric("migrations", 3.0)
            });
        }
        let record = plan.record();
        let summary = summarise(&record);
        let metrics = &summary.works[0].sets[0].rows[1].metrics;
        assert!(metrics[0].ratio.is_some() && metrics[1].ratio.is_none());
        assert_eq!(metrics[1].median, Some(3.0));
    }

    #[test]
    fn figures_are_taken_out_of_a_text() {
        let cases: &[(&str, &str, &[f64])] = &[
            ("steal 3.1 % in 2 windows", "steal # % in # windows", &[3.1, 2.0]),
            ("no figure", "no figure", &[]),
            ("ends in 5.", "ends in #.", &[5.0]),
            ("kernel 6.18.5", "kernel 6.18.5", &[]),
            ("7", "#", &[7.0]),
            ("", "", &[]),
        ];
        for (text, shape, figures) in cases {
            assert_eq!(shape_of(text), (shape.to_string(), figures.to_vec()), "{text}");
        }
    }
}
