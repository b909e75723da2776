//! From gathered values to a comparison with its verdicts.
//!
//! Input: sampled plans, selections and what the user asked for. Output: a [`Comparison`].
//! Pure: the same plans and question give the same verdicts for ever.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Plan, PlanEnd, PlanHead, SampledPlan, SampledRun, Work};
use crate::stats::{self, Family, Judged, Schedule, Verdict, shapes};

use super::gather::{Boots, Gathered, Series, Values, first_rounds, gather, is_of, pairing, side};
use super::metrics::{is_headline, metric_matches};
use super::missing::{self, Unknown};
use super::remarks::{Basis, remarks};
use super::select::{Selection, matches};
use super::{Cell, Comparison, Method, Pairing, Row, SetTable, Side, WorkTable, switches};

/// Of tables without any difference at most this part has one: what the level of
/// [`stats::LEVEL`] leaves room for.
pub(super) const CLAIMED_ERROR: f64 = 0.05;

/// What is to be compared, and how.
#[derive(Debug, Clone)]
pub struct Question {
    /// The baseline first.
    pub sides: Vec<Selection>,
    /// SAME means a ratio between 1 / (1 + margin) and 1 + margin.
    pub margin: f64,
    /// Of metrics that a pattern names; the last that fits holds.
    pub margins: Vec<(String, f64)>,
    /// Patterns of the metrics to judge; empty: the headlines.
    pub metrics: Vec<String>,
    /// Explaining metrics too.
    pub all_metrics: bool,
    /// Figures of different backends beside each other.
    pub mixed: bool,
    pub seed: u64,
    /// Of a plan that is running: how many of its rounds are looked at; else all.
    pub rounds_done: Option<u32>,
    /// The command that asks this.
    pub command: String,
}

impl Question {
    pub fn new(sides: Vec<Selection>, command: String) -> Question {
        let (margins, metrics) = (Vec::new(), Vec::new());
        Question {
            sides,
            margin: 0.02,
            margins,
            metrics,
            all_metrics: false,
            mixed: false,
            seed: 1,
            rounds_done: None,
            command,
        }
    }

    pub(super) fn takes(&self, work: &str, series: &Series) -> bool {
        if self.metrics.is_empty() {
            return self.all_metrics || is_headline(series.metric, series.unit, series.direction);
        }
        self.metrics.iter().any(|pattern| metric_matches(pattern, work, series.set, series.metric))
    }

    /// Whether some metric of this work is to be judged, as far as is known of it.
    pub(super) fn takes_work(&self, work: &Gathered) -> bool {
        let label = work.key.label();
        let mut series = work.sides.iter().flatten().flat_map(|side| &side.series).peekable();
        if series.peek().is_some() {
            return series.any(|series| self.takes(&label, series));
        }
        let may_be = |pattern: &String| match pattern.rsplitn(3, '/').nth(2) {
            Some(work) => matches(work, &label),
            None => true,
        };
        self.metrics.is_empty() || self.metrics.iter().any(may_be)
    }

    pub(super) fn margin_of(&self, work: &str, set: &str, metric: &str) -> f64 {
        let fits = |(pattern, _): &&(String, f64)| metric_matches(pattern, work, set, metric);
        self.margins.iter().rev().find(fits).map_or(self.margin, |(_, margin)| *margin)
    }
}

/// How many runs the first two sides that overlap have in common, and which sides these are. Runs
/// are not to be compared with themselves: a ratio of 1 without any spread shows nothing.
pub fn overlap(plans: &[SampledPlan], sides: &[Selection]) -> Option<(usize, [usize; 2])> {
    let shared = |a: &Selection, b: &Selection| {
        let both = |id: &String| a.plans.contains(id) && b.plans.contains(id);
        let plans = plans.iter().filter(|plan| both(&plan.id));
        let runs = plans.flat_map(|plan| plan.runs.iter().map(move |run| (plan, run)));
        let is_of = |(plan, run): &(&SampledPlan, &SampledRun)| {
            let cell = plan.cells.get(run.key.cell as usize);
            cell.is_some_and(|cell| {
                [a, b].iter().all(|side| {
                    side.takes_variant(&cell.variant.name)
                        && is_of(side, plan, cell, (run.environment, run.guest))
                })
            })
        };
        runs.filter(is_of).count()
    };
    let pairs = (0..sides.len()).flat_map(|b| (0..b).map(move |a| [a, b]));
    let counts = pairs.map(|[a, b]| (shared(&sides[a], &sides[b]), [a, b]));
    counts.into_iter().find(|(count, _)| *count > 0)
}

/// Compares the sides, which have no run in common. `plans` are those of all selections, oldest
/// first; `floors` has the newest A/A plans of these machines that are older than the newest of
/// `plans`.
pub fn compare(plans: &[SampledPlan], floors: &[SampledPlan], question: &Question) -> Comparison {
    let pairing = pairing(&question.sides);
    let (mut refused, mut unknown) = (Vec::new(), Unknown::default());
    let gathered = gather(plans, &question.sides, question.mixed);
    let mut missing = missing::lost(&gathered, question);
    let (works, left_out) = common(gathered, question, &mut refused);
    let floors = Floors::of(floors);
    let mut tables: Vec<WorkTable> =
        works.iter().map(|work| table_of(work, question, &mut refused, &mut unknown)).collect();
    let looks = looks(plans, pairing, question.rounds_done);
    let begins = first_rounds(plans);
    let floors = judge(&mut tables, &works, question, (&floors, &begins), (pairing, &looks));
    missing.extend(unknown.sentences());
    let labels: Vec<String> = question.sides.iter().map(|side| side.label.clone()).collect();
    missing.extend(missing::ratios(&tables, &labels));
    missing.extend(missing::knobs(&works, &labels));
    let rows = || tables.iter().flat_map(|work| &work.sets).flat_map(|set| &set.rows);
    let verdicts = rows().flat_map(|row| &row.cells).filter_map(|cell| cell.judged.as_ref());
    let family = verdicts.filter(|judged| !matches!(judged.verdict, Verdict::Unjudged(_))).count();
    let told = |(_, table): &(Gathered, &WorkTable)| !table.sets.is_empty();
    let shown: Vec<Gathered> =
        works.into_iter().zip(&tables).filter(told).map(|(work, _)| work).collect();
    let sides: Vec<(Side, Boots)> =
        labels.iter().enumerate().map(|(at, label)| side(plans, &shown, at, label)).collect();
    let basis =
        Basis { plans, question, sides: &sides, pairing, shown: &shown, left_out: &left_out };
    Comparison {
        method: Method {
            margin: question.margin,
            margins: question.margins.clone(),
            alpha: CLAIMED_ERROR,
            family,
            pairing,
            floors,
            looks: looks.map(|(schedule, done, has_ended)| {
                let looks = schedule.looks_at(done, has_ended);
                looks.iter().map(|look| look.rounds).collect()
            }),
            seed: question.seed,
        },
        remarks: remarks(&basis, &tables)
            .into_iter()
            .chain(switches::silent(plans, &tables))
            .collect(),
        sides: sides.into_iter().map(|(side, _)| side).collect(),
        works: tables,
        refused,
        missing,
        command: question.command.clone(),
    }
}

/// The positions in the plan of works with a comparison that is not decided.
pub fn open_works(comparison: &Comparison, plan: &Plan) -> BTreeSet<usize> {
    let is_open = |table: &WorkTable| {
        let cells = table.sets.iter().flat_map(|set| &set.rows).flat_map(|row| &row.cells);
        let mut judged = cells.filter_map(|cell| cell.judged.as_ref());
        judged.any(|judged| matches!(judged.verdict, Verdict::Inconclusive { .. }))
    };
    let labels: BTreeSet<&str> =
        comparison.works.iter().filter(|table| is_open(table)).map(|w| w.label.as_str()).collect();
    let works = plan.works.iter().enumerate();
    works.filter(|(_, work)| labels.contains(work.label().as_str())).map(|(at, _)| at).collect()
}

/// Works that the baseline and another side have, and the others; why these are not compared goes
/// to `refused`.
fn common<'a>(
    works: Vec<Gathered<'a>>,
    question: &Question,
    refused: &mut Vec<String>,
) -> (Vec<Gathered<'a>>, Vec<Gathered<'a>>) {
    let (common, partial): (Vec<_>, Vec<_>) =
        works.into_iter().partition(|work| has_baseline_and_another(&work.sides));
    for at in 0..partial.len() {
        refused.extend(why_partial(at, &partial, &common, question));
    }
    let (common, mut mixed): (Vec<_>, Vec<_>) =
        common.into_iter().partition(|work| is_unmixed(work, question, refused));
    mixed.extend(partial);
    (common, mixed)
}

pub(super) fn has_baseline_and_another<T>(sides: &[Option<T>]) -> bool {
    sides
        .split_first()
        .is_some_and(|(baseline, others)| baseline.is_some() && others.iter().any(Option::is_some))
}

/// Why the work at this position of `partial` is not compared; `None` where that is told already.
fn why_partial(
    at: usize,
    partial: &[Gathered],
    common: &[Gathered],
    question: &Question,
) -> Option<String> {
    let work = &partial[at];
    let first = |work: &Gathered| work.sides.iter().position(Option::is_some);
    let on = |work: &Gathered| {
        let sides = question.sides.iter().zip(&work.sides).filter(|(_, values)| values.is_some());
        sides.map(|(side, _)| side.label.as_str()).collect::<Vec<_>>().join(" and ")
    };
    let is_lost = |(values, lost): (&Option<Values>, &Vec<_>)| values.is_some() || !lost.is_empty();
    if first(work).is_none() || work.sides.iter().zip(&work.lost).all(is_lost) {
        return None;
    }
    let name = work.key.label();
    let differs = |other: &Gathered| {
        let is_namesake = other.key.label() == name;
        if is_namesake { work.key.difference(&other.key) } else { None }
    };
    if let Some(difference) = common.iter().find_map(differs) {
        let of = on(work);
        return Some(format!("{name} of {of}: not the same work as the others': {difference}"));
    }
    // Of two works that differ both are here; the first tells it.
    let unlike =
        |(_, other): &(usize, &Gathered)| first(other).is_some() && differs(other).is_some();
    match partial.iter().enumerate().find(unlike) {
        Some((other_at, _)) if other_at < at => None,
        Some((_, other)) => {
            let (a, b) = if first(other) < first(work) { (other, work) } else { (work, other) };
            let difference = a.key.difference(&b.key)?;
            let (a, b) = (on(a), on(b));
            Some(format!("{name}: not the same work of {a} and {b}: {difference}"))
        }
        None => {
            let has = work.sides.iter().flatten().count();
            let have = if has == 1 { "has" } else { "have" };
            Some(format!("{name}: only {} {have} runs of it", on(work)))
        }
    }
}

/// Whether each side has this work of one variant; where not, `refused` says so.
fn is_unmixed(work: &Gathered, question: &Question, refused: &mut Vec<String>) -> bool {
    let before = refused.len();
    for (side, values) in question.sides.iter().zip(&work.sides) {
        let variants = values.as_ref().map_or(&[][..], |values| values.variants.as_slice());
        let [first, _, ..] = variants else { continue };
        let mut names: Vec<&str> = variants.iter().map(|v| v.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let (name, label) = (work.key.label(), &side.label);
        refused.push(match names.len() {
            1 => format!("{name} of {label}: the knobs of {} differ from plan to plan", first.name),
            _ => {
                let names = names.join(", ");
                format!("{name} of {label} mixes the variants {names}: name one of them")
            }
        });
    }
    refused.len() == before
}

fn table_of(
    work: &Gathered,
    question: &Question,
    refused: &mut Vec<String>,
    unknown: &mut Unknown,
) -> WorkTable {
    let label = work.key.label();
    let mut sets: Vec<SetTable> = Vec::new();
    let sides: Vec<Option<&Values>> = work.sides.iter().map(Option::as_ref).collect();
    let mut rows: Vec<&Series> = Vec::new();
    for series in sides.iter().flatten().flat_map(|side| &side.series) {
        let known = rows.iter().any(|row| row.is_of(series));
        if !known && question.takes(&label, series) {
            rows.push(series);
        }
    }
    for series in rows {
        let (set, metric) = (series.set, series.metric);
        let place = format!("{label}, {set}");
        let found = sides.iter().map(|side| side.as_ref()?.series.iter().find(|s| s.is_of(series)));
        let found: Vec<Option<&Series>> = found.collect();
        let has_other = |(side, own): (&Option<&Values>, &Option<&Series>)| {
            let mut others = side.iter().flat_map(|side| &side.series);
            own.is_none() && others.any(|own| (own.set, own.metric) == (set, metric))
        };
        if sides.iter().zip(&found).any(has_other) {
            let sentence = format!("{place}, {metric}: its unit or its direction has changed");
            if !refused.contains(&sentence) {
                refused.push(sentence);
            }
            continue;
        }
        for ((side, own), selection) in sides.iter().zip(&found).zip(&question.sides) {
            let Some(side) = side else { continue };
            let known = own.map_or(0, |own| own.values.len());
            unknown.add(&selection.label, &place, metric, (known, side.runs));
        }
        if !has_baseline_and_another(&found) {
            continue;
        }
        let cells = found.iter().map(|own| cell(own.map_or(&[], |own| own.values.as_slice())));
        let cells = cells.collect();
        let (metric, unit, direction) = (metric.to_string(), series.unit, series.direction);
        let row = Row { metric, unit, direction, cells };
        match sets.iter_mut().find(|set| set.name == series.set) {
            Some(set) => set.rows.push(row),
            None => sets.push(set_table(work, series, row)),
        }
    }
    for set in &mut sets {
        set.switches = switches::of_set(set, &sides);
    }
    let Work { name, axes, .. } = &work.key.cell.work;
    // Where sides are whole plans, one work of two variants is two works.
    let variant = work.key.variant.map(|variant| ("variant".to_string(), variant.name.clone()));
    let axes = axes.iter().cloned().chain(variant).collect();
    WorkTable { name: name.clone(), axes, label, sets }
}

fn set_table(work: &Gathered, series: &Series, row: Row) -> SetTable {
    let own = work.key.cell.work.sets.iter().find(|set| set.name == series.set);
    SetTable {
        name: series.set.to_string(),
        workload: own.map(|set| set.workload.clone()).unwrap_or_default(),
        params: own.map(|set| set.params.clone()).unwrap_or_default(),
        ops: series.ops.to_string(),
        rows: vec![row],
        switches: Vec::new(),
    }
}

pub(super) fn cell(values: &[(u32, f64)]) -> Cell {
    let plain: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    Cell {
        values: values.to_vec(),
        mean: stats::mean(&plain),
        hmean: stats::harmonic_mean(&plain),
        median: stats::median(&plain),
        cv: stats::cv(&plain),
        judged: None,
        shapes: shapes(values),
    }
}

/// Rounds done and whether it has ended, where rounds went on until all was decided.
fn looks(
    plans: &[SampledPlan],
    pairing: Pairing,
    rounds_done: Option<u32>,
) -> Option<(Schedule, u32, bool)> {
    let [plan] = plans else { return None };
    if pairing != Pairing::WithinRounds || !plan.plan.measure.until_decided {
        return None;
    }
    let all = plan.runs.iter().map(|run| run.key.round + 1).max().unwrap_or(0);
    let done = rounds_done.unwrap_or(all);
    // An end that the verdicts made gives the last look no more to spend: they looked.
    let has_ended =
        rounds_done.is_none() && matches!(plan.ended, Some(PlanEnd::Complete | PlanEnd::Budget));
    Some((Schedule::of(&plan.plan.measure), done, has_ended))
}

/// Puts the verdicts into the cells of all sides but the first: of each side one family. Returns
/// the ids of the plans whose floors hold in it, oldest first.
fn judge(
    tables: &mut [WorkTable],
    works: &[Gathered],
    question: &Question,
    (floors, begins): (&Floors, &[u32]),
    (pairing, looks): (Pairing, &Option<(Schedule, u32, bool)>),
) -> Vec<String> {
    let family = Family::new(question.sides.len() - 1, question.seed);
    let mut used: BTreeSet<(u64, String)> = BTreeSet::new();
    let rows = tables.iter().flat_map(|work| &work.sets).map(|set| set.rows.len());
    let verdicts = rows.sum::<usize>() * (question.sides.len() - 1);
    for side in 1..question.sides.len() {
        let (mut comparisons, mut floor_plans) = (Vec::new(), Vec::new());
        for (block, (table, work)) in tables.iter().zip(works).enumerate() {
            for (set, row) in
                table.sets.iter().flat_map(|set| set.rows.iter().map(move |row| (set, row)))
            {
                let (floor, of) = floors.of_metric(work, &set.name, &row.metric).unzip();
                floor_plans.push(of);
                let (one, other) = (&row.cells[0].values, &row.cells[side].values);
                let between = (pairing == Pairing::None)
                    .then(|| [one, other].map(|values| by_plan(values, begins)))
                    .and_then(|[one, other]| stats::floor_between([&one, &other], verdicts));
                comparisons.push(stats::Comparison {
                    block,
                    baseline: one,
                    variant: other,
                    direction: row.direction,
                    margin: question.margin_of(&table.label, &set.name, &row.metric),
                    floor: floor.unwrap_or(0.0).max(between.unwrap_or(0.0)),
                    paired: pairing == Pairing::WithinRounds,
                });
            }
        }
        let judged: Vec<Judged> = match looks {
            None => stats::judge(&comparisons, &family),
            Some((schedule, done, has_ended)) => {
                stats::replay(&comparisons, &family, schedule, *done, *has_ended)
            }
        };
        let rows = tables.iter_mut().flat_map(|work| &mut work.sets).flat_map(|set| &mut set.rows);
        for ((row, judged), floor) in rows.zip(judged).zip(floor_plans) {
            if !matches!(judged.verdict, Verdict::Unjudged(_)) {
                used.extend(floor.map(|plan| (plan.started_unix_ns, plan.id.clone())));
            }
            // Of what was not measured, or never happened on both sides, there is no verdict.
            let is_there = !row.cells[side].values.is_empty();
            let is_nothing = row.cells[0].is_all_zero() && row.cells[side].is_all_zero();
            row.cells[side].judged = (is_there && !is_nothing).then_some(judged);
        }
    }
    used.into_iter().map(|(_, id)| id).collect()
}

/// Values of runs whose rounds are counted through, plan by plan.
fn by_plan(values: &[(u32, f64)], begins: &[u32]) -> Vec<Vec<f64>> {
    let plan_of = |round: u32| begins.partition_point(|begin| *begin <= round);
    let plans = values.chunk_by(|(one, _), (other, _)| plan_of(*one) == plan_of(*other));
    plans.map(|runs| runs.iter().map(|(_, value)| *value).collect()).collect()
}

/// The A/A plans of the machines of these plans, in the order of `heads`; none for A/A itself. Those
/// that started later than all of these plans do not count: what was compared stays as it was.
pub fn with_floors<'a>(heads: &'a [PlanHead], plans: &[SampledPlan]) -> Vec<&'a PlanHead> {
    if plans.iter().any(|plan| plan.plan.aa) {
        return Vec::new();
    }
    let environments = plans.iter().flat_map(|plan| &plan.environments);
    let hosts: BTreeSet<&str> = environments.map(|of| of.hostname.as_str()).collect();
    let newest = plans.iter().map(|plan| plan.started_unix_ns).max().unwrap_or(0);
    let counts = |head: &&PlanHead| {
        let mut machines = head.environments.iter().map(|of| of.hostname.as_str());
        head.aa && head.started_unix_ns < newest && machines.any(|machine| hosts.contains(machine))
    };
    heads.iter().filter(counts).collect()
}

/// What this machine's own A/A plans resolve, as a ratio's distance from 1.
struct Floors<'a> {
    works: Vec<(Gathered<'a>, FloorsOfWork)>,
}

/// By worker set and metric.
type FloorsOfWork = BTreeMap<(String, String), f64>;

impl<'a> Floors<'a> {
    fn of(plans: &'a [SampledPlan]) -> Floors<'a> {
        let mut works = Vec::new();
        for plan in plans {
            let sides: Vec<Selection> = plan
                .plan
                .variants
                .iter()
                .map(|variant| Selection::of_variant(&plan.id, &variant.name))
                .collect();
            for work in gather(std::slice::from_ref(plan), &sides, false) {
                let floors = floors_of(&work);
                works.push((work, floors));
            }
        }
        Floors { works }
    }

    /// The newest word on it, and the plan that says so.
    fn of_metric(
        &self,
        work: &Gathered,
        set: &str,
        metric: &str,
    ) -> Option<(f64, &'a SampledPlan)> {
        let same = |known: &&(Gathered, FloorsOfWork)| {
            known.0.key.cell.work.label() == work.key.cell.work.label()
                && super::work::WorkKey { variant: None, ..known.0.key }
                    .difference(&super::work::WorkKey { variant: None, ..work.key })
                    .is_none()
        };
        let key = (set.to_string(), metric.to_string());
        let mut known = self.works.iter().rev().filter(same);
        known.find_map(|(work, floors)| Some((*floors.get(&key)?, work.key.plan)))
    }
}

/// The interval of fewer pairs is that of a few pairs: it tells their number, not the machine.
const MIN_PAIRS: usize = 8;

/// Of the first two sides, which do the same: how far from 1 the interval of their ratio goes.
fn floors_of(work: &Gathered) -> FloorsOfWork {
    let mut floors = BTreeMap::new();
    let [Some(first), Some(again), ..] = work.sides.as_slice() else { return floors };
    for series in &first.series {
        let other = again.series.iter().find(|own| own.is_of(series));
        let ratio = other.map(|other| stats::paired_ratio(&series.values, &other.values));
        if let Some(Ok(ratio)) = ratio
            && ratio.pairs >= MIN_PAIRS
            && let Some(interval) = ratio.interval
        {
            let floor = interval.high.max(1.0 / interval.low) - 1.0;
            floors.insert((series.set.to_string(), series.metric.to_string()), floor);
        }
    }
    floors
}
