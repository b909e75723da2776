//! How many rounds a plan needs, from what is stored of the same works.
//!
//! Input: the plan and stored plans with their values. Output: a [`Power`]: for each metric that
//! would be judged its spread, the smallest difference that the plan's own rounds find, and the
//! rounds that a given difference takes. Pure. Method: docs/verdicts.md.
//!
//! The spread is that of the log-ratios within rounds. What the variants do to the metric is in
//! the mean of these ratios and not in their spread, so plans that compare real variants show it
//! too; A/A plans go before them, since a variant may change the noise as well. In the lab they are no source: equal
//! variants give equal values there. Few rounds know
//! their spread badly, and would promise too few as often as too many: the rounds are computed with
//! what the spread does not exceed with probability 0.8.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Direction, GuestTime, Measure, MetricKind, Plan, SampledPlan};
use crate::stats::{self, Distance, Experiment, Family, Rounds};

use super::judge::CLAIMED_ERROR;
use super::lists::grouped;
use super::notes::Difference;
use super::question::{Question, RunWindows};
use super::run_length::{LengthAdvice, Times, run_length};
use super::samples::{Series, WorkSamples, by_variant};
use super::work::WorkKey;

/// A spread from fewer degrees of freedom is a guess.
const MIN_FREEDOM: usize = 3;
/// The probability that the spread is at most the one that rounds are computed with.
const CONFIDENCE: f64 = 0.8;
/// In standard deviations; no plan is made for more.
const LARGEST: f64 = 1e3;

/// The differences that a plan's rounds find, and the number of rounds that a difference needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Power {
    /// The difference to find: 0.03 is a ratio of 1.03.
    pub difference: f64,
    /// The probability of finding it, for each metric separately.
    pub power: f64,
    /// The rounds that the plan makes in its budget. In the lab, whose time is not the budget's, its first seeds, or as
    /// many as a verdict takes.
    pub rounds: u32,
    /// The same without a budget. On a host a plan that is measured until it is decided is meant to end by its budget.
    pub planned_rounds: u32,
    /// `None` in the lab, too: a guest's clock is not that of a budget.
    pub budget_ns: Option<u64>,
    /// Rounds are seeds of the lab, where A/A plans show no noise.
    pub is_exact: bool,
    /// Comparisons of one variant that share the error rate. A work of which nothing is stored
    /// is taken to have as many as the one that has most.
    pub comparisons: usize,
    /// Without the baseline; at least one.
    pub variants: usize,
    /// Error rate that is claimed, over all of them.
    pub alpha: f64,
    /// Fewer rounds find nothing, by this cautious estimate.
    pub min_rounds: u32,
    /// The duration of one round with its warm-ups, but without starting and ending runs.
    pub round_ns: u64,
    pub works: Vec<WorkPower>,
}

/// Why no spread of a work is known.
#[derive(Debug, Clone, PartialEq)]
pub enum NotKnown {
    /// The work that is stored under this name is a different one.
    OtherWork(Difference),
    TooFewRounds {
        needed: usize,
    },
    /// No stored plan of this machine has it with two variants.
    NotStored,
}

#[derive(Debug, Clone, PartialEq)]
pub struct WorkPower {
    pub label: String,
    pub rows: Result<Vec<MetricPower>, NotKnown>,
    /// Sets and metrics that are judged by differences, since a value is 0: for how many rounds is not known.
    pub by_differences: BTreeSet<(String, String)>,
    /// Sets and metrics of which no spread is known since runs have no value of them, each with the reason of one run.
    pub without_values: BTreeMap<(String, String), String>,
    pub flaws: Flaws,
    /// The advice on the length of its runs; `None` in the lab, and where nothing is known.
    pub run_length: Option<LengthAdvice>,
}

/// The stored runs of a work, and how many of them something is wrong with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flaws {
    pub runs: usize,
    /// Runs of spoilt rounds, which count since most rounds were spoilt.
    pub kept_spoilt: usize,
    /// Those that are left out.
    pub spoilt: usize,
    pub failed: usize,
}

impl Flaws {
    fn add(&mut self, work: &WorkSamples) {
        for values in work.sides.iter().flatten() {
            self.runs += values.runs;
            self.kept_spoilt += values.kept_spoilt;
            self.spoilt += values.spoilt;
        }
        self.failed += work.failed.iter().sum::<usize>();
    }
}

/// One metric of one worker set.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricPower {
    pub set: String,
    pub metric: String,
    /// Standard deviation of the log-ratios within rounds, as they are. All that follows is
    /// computed with more: its upper limit of 80 %.
    pub sd_ln: f64,
    pub ratios: usize,
    /// Whether they are all from A/A plans.
    pub aa: bool,
    /// The resolution of the newest A/A plan, as a ratio's distance from 1: nothing below it is
    /// called BETTER or WORSE. 0 without such a plan.
    pub floor: f64,
    /// The smallest difference that the plan's rounds find, as a share; `None`: they find none.
    pub smallest: Option<f64>,
    /// For BETTER or WORSE where the ratio is off by [`Power::difference`].
    pub for_difference: Rounds,
    /// For SAME where there is no difference.
    pub for_same: Rounds,
}

impl Power {
    pub fn rows(&self) -> impl Iterator<Item = &MetricPower> {
        self.works.iter().filter_map(|work| work.rows.as_ref().ok()).flatten()
    }

    /// For BETTER or WORSE of any metric; `None` where no metric is known.
    pub fn for_difference(&self) -> Option<Rounds> {
        self.rows().map(|row| row.for_difference).max()
    }

    /// For any verdict: BETTER or WORSE, or SAME where there is no difference.
    pub fn for_all(&self) -> Option<Rounds> {
        self.rows().map(|row| row.for_difference.max(row.for_same)).max()
    }

    /// Metrics of which the plan's own rounds find the difference.
    pub fn found_as_planned(&self) -> usize {
        self.rows().filter(|row| row.for_difference <= Rounds::Number(self.rounds)).count()
    }

    /// The duration of this many rounds.
    pub fn time_ns(&self, rounds: u32) -> u64 {
        self.round_ns.saturating_mul(u64::from(rounds))
    }
}

/// Estimates from `stored`, newest first, how many rounds `planned` needs. `planned` has cells and
/// needs no runs; a plan of one variant is taken for one of two. `question` says which metrics are
/// judged, by which margins, and the windows of stored runs where they are known; its sides are not used.
pub fn power(
    planned: &SampledPlan,
    stored: &[SampledPlan],
    question: &Question,
    difference: f64,
    power: f64,
) -> Power {
    let shows_noise = |plan: &&SampledPlan| !(plan.plan.aa && is_exact(plan));
    let known: Vec<(&SampledPlan, Vec<WorkSamples>)> =
        stored.iter().filter(shows_noise).map(|plan| (plan, by_variant(plan))).collect();
    let asked = works(planned).into_iter().filter(|key| is_asked(key, &known, question));
    let works: Vec<(WorkKey, Spreads)> =
        asked.map(|key| (key, spreads(&key, &known, question))).collect();
    let counts = || {
        works.iter().filter_map(|(_, Spreads { metrics, by_differences, without_values, .. })| {
            Some(metrics.as_ref().ok()?.len() + by_differences.len() + without_values.len())
        })
    };
    let unknown = works.len() - counts().count();
    let comparisons = counts().sum::<usize>() + unknown * counts().max().unwrap_or(0);
    let variants = planned.plan.variants.len().saturating_sub(1).max(1);
    let alpha = Family::new(variants, question.seed).alpha;
    let unit = Experiment { spread: paired(1.0), comparisons, variants, alpha, power };
    let is_exact = planned.has_guests() && !planned.plan.lab.realtime;
    let (round_ns, planned_rounds) = (round_ns(&planned.plan), planned.plan.measure.rounds);
    let Measure { budget_ns, until_decided, .. } = planned.plan.measure;
    let min_rounds = stats::min_rounds(alpha, comparisons.max(1) * variants);
    // Guests have this number of seeds whatever the budget is.
    let first = u64::from(if planned.has_guests() { planned.plan.lab.seeds } else { 1 });
    let fitting = match budget_ns {
        Some(ns) if !is_exact => (ns / round_ns.max(1)).max(first),
        // Fewer than those of any verdict say nothing, and more follow while something is open.
        Some(_) if until_decided => first.max(min_rounds.into()),
        _ => u64::MAX,
    };
    let rounds = u64::from(planned_rounds).min(fitting) as u32;
    let planned_rounds = if until_decided && !is_exact { rounds } else { planned_rounds };
    let finds = smallest(&unit, rounds);
    let works = works.into_iter().map(|(key, spreads)| {
        let Spreads { metrics, by_differences, without_values, flaws } = spreads;
        let label = key.label();
        let run_length = metrics.as_ref().ok().and_then(|_| advice(&key, &known, question));
        let row = |Metric { set, kind, scatter }| {
            let margin = question.margin_of(&label, set, kind);
            let cautious_ln = scatter.cautious_sd_ln();
            let experiment = Experiment { spread: paired(cautious_ln), ..unit };
            MetricPower {
                set: set.to_string(),
                metric: kind.name.clone(),
                sd_ln: scatter.sd_ln(),
                ratios: scatter.ratios,
                aa: scatter.aa,
                floor: scatter.floor,
                smallest: finds.map(|sds| (sds * cautious_ln).exp_m1()),
                for_difference: stats::rounds_needed(&experiment, difference.ln_1p()),
                for_same: stats::rounds_for_same(&experiment, 0.0, margin.ln_1p()),
            }
        };
        let rows = metrics.map(|metrics| metrics.into_iter().map(row).collect());
        WorkPower { rows, label, by_differences, without_values, flaws, run_length }
    });
    Power {
        difference,
        power,
        rounds,
        planned_rounds,
        budget_ns: budget_ns.filter(|_| !is_exact),
        is_exact,
        comparisons,
        variants,
        alpha: CLAIMED_ERROR,
        min_rounds,
        round_ns,
        works: works.collect(),
    }
}

fn paired(sd_ln: f64) -> stats::Spread {
    stats::Spread::Paired { sd_ln }
}

/// The time of one round, warm-ups included, without the starts and ends of runs.
pub fn round_ns(plan: &Plan) -> u64 {
    let round_ns = plan.run_times_ns().fold(0, u64::saturating_add);
    round_ns.saturating_mul(plan.variants.len().max(2) as u64)
}

/// The difference that this many rounds find, in standard deviations: the same for all rows of a table.
fn smallest(unit: &Experiment, rounds: u32) -> Option<f64> {
    let finds = |sds: f64| stats::rounds_needed(unit, sds) <= Rounds::Number(rounds);
    if !finds(LARGEST) {
        return None;
    }
    let (mut too_small, mut found) = (0.0, LARGEST);
    while found - too_small > 1e-6 * found {
        let middle = (too_small + found) / 2.0;
        if finds(middle) { found = middle } else { too_small = middle }
    }
    Some(found)
}

/// Whether a work may have a metric that was asked for; a stored one shows it.
fn is_asked(
    key: &WorkKey,
    known: &[(&SampledPlan, Vec<WorkSamples>)],
    question: &Question,
) -> bool {
    let label = key.label();
    let all = known.iter().flat_map(|(_, works)| works);
    let mut stored = all.filter(|work| work.key.label() == label).peekable();
    stored.peek().is_none() || stored.any(|work| question.takes_work(work))
}

/// Each work once, as the baseline's cell has it.
fn works(planned: &SampledPlan) -> Vec<WorkKey<'_>> {
    let baseline = planned.plan.variants.first().map(|variant| &variant.name);
    let cells = planned.cells.iter().filter(|cell| Some(&cell.variant.name) == baseline);
    cells.map(|cell| WorkKey { plan: planned, cell, variant: None, mixed: false }).collect()
}

/// The spread of ratios about the mean of their variant and plan.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Scatter {
    squares: f64,
    freedom: usize,
    ratios: usize,
    aa: bool,
    floor: f64,
}

impl Scatter {
    fn sd_ln(&self) -> f64 {
        (self.squares / self.freedom.max(1) as f64).sqrt()
    }

    fn cautious_sd_ln(&self) -> f64 {
        let limit = stats::deviation_at_most(self.squares, self.freedom, CONFIDENCE);
        limit.unwrap_or(f64::INFINITY)
    }

    /// `None` where no verdict would be had: too few ratios, or a value without a logarithm.
    fn between(baseline: &Series, variant: &Series) -> Option<Scatter> {
        let values = [&baseline.cell.values, &variant.cell.values];
        let ratios = stats::log_ratios(values[0], values[1])?;
        let freedom = ratios.len().checked_sub(1).filter(|freedom| *freedom > 0)?;
        let ratios: Vec<f64> = ratios.into_iter().map(|(_, ratio)| ratio).collect();
        let mean = stats::mean(&ratios)?;
        let squares = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum();
        let Distance::Ratio(floor) = stats::paired_effect(values[0], values[1]).ok()?.reach()?
        else {
            return None;
        };
        Some(Scatter { squares, freedom, ratios: ratios.len(), aa: false, floor })
    }

    /// Takes an older plan in: the floor stays that of the newest.
    fn add(&mut self, more: Scatter) {
        if self.ratios == 0 {
            self.floor = more.floor;
        }
        self.squares += more.squares;
        self.freedom += more.freedom;
        self.ratios += more.ratios;
    }
}

/// A metric of a worker set, and how its ratios scatter.
struct Metric<'a> {
    set: &'a str,
    kind: &'a MetricKind,
    scatter: Scatter,
}

/// The spreads of metrics, or why none is known, and the sets and metrics that have none, as [`WorkPower`] has them.
struct Spreads<'a> {
    metrics: Result<Vec<Metric<'a>>, NotKnown>,
    by_differences: BTreeSet<(String, String)>,
    without_values: BTreeMap<(String, String), String>,
    flaws: Flaws,
}

/// The spreads of the metrics of one work that would be judged, in the order of the runs.
fn spreads<'a>(
    key: &WorkKey,
    known: &[(&SampledPlan, Vec<WorkSamples<'a>>)],
    question: &Question,
) -> Spreads<'a> {
    let (mut found, mut by_differences) = (Vec::new(), BTreeSet::new());
    let mut without_values = BTreeMap::new();
    let (mut differs, mut flaws) = (None, Flaws::default());
    let works = known.iter().flat_map(|(plan, works)| works.iter().map(move |work| (plan, work)));
    for (plan, work) in works {
        match key.difference(&work.key) {
            None => {
                flaws.add(work);
                let place = |of: &Metric<'a>| (of.set, of.kind.name.as_str());
                for metric in of_work(work, question) {
                    let own = (place(&metric), (plan.plan.aa, metric));
                    // An exact plan that runs again repeats its values to the bit, and says nothing new.
                    let is_same = |(at, (aa, other)): &(_, (bool, Metric))| {
                        (at, *aa, other.scatter) == (&own.0, own.1.0, own.1.1.scatter)
                    };
                    if !is_exact(plan) || !found.iter().any(is_same) {
                        found.push(own);
                    }
                }
                by_differences.extend(without_ratio(work, question));
                without_values.extend(without_value(work, question));
            }
            Some(difference) if work.key.label() == key.label() => {
                differs.get_or_insert(difference);
            }
            Some(_) => {}
        }
    }
    without_values.retain(|(set, metric), _| {
        found.iter().all(|(place, _)| *place != (set.as_str(), metric.as_str()))
    });
    if found.is_empty() && by_differences.is_empty() && without_values.is_empty() {
        let why = differs.map_or(NotKnown::NotStored, NotKnown::OtherWork);
        return Spreads { metrics: Err(why), by_differences, without_values, flaws };
    }
    let metrics = grouped(found).into_iter().filter_map(|(_, plans)| {
        let [aa, others] = [true, false].map(|aa| {
            let mut all = Scatter { aa, ..Scatter::default() };
            plans.iter().filter(|(of, _)| *of == aa).for_each(|(_, of)| all.add(of.scatter));
            all
        });
        let mut both = [aa, Scatter { floor: aa.floor, ..others }].into_iter();
        let scatter = both.find(|scatter| scatter.freedom >= MIN_FREEDOM)?;
        Some(Metric { scatter, ..plans[0].1 })
    });
    let metrics: Vec<Metric> = metrics.collect();
    let is_any_named = !by_differences.is_empty() || !without_values.is_empty();
    let metrics = if metrics.is_empty() && !is_any_named {
        Err(NotKnown::TooFewRounds { needed: MIN_FREEDOM + 1 })
    } else {
        Ok(metrics)
    };
    Spreads { metrics, by_differences, without_values, flaws }
}

/// Whether all of its runs were exact ones of the lab.
fn is_exact(plan: &SampledPlan) -> bool {
    plan.has_guests() && plan.guests.iter().all(|guest| guest.time == GuestTime::Exact)
}

/// The advice on the length of a work's runs by the windows of those that are stored. In the lab the start of a run
/// costs as much as seconds of some loads, and runs of one trajectory are no sample.
fn advice(
    key: &WorkKey,
    known: &[(&SampledPlan, Vec<WorkSamples>)],
    question: &Question,
) -> Option<LengthAdvice> {
    let plan = key.plan;
    if plan.has_guests() {
        return None;
    }
    if plan.plan.measure.turns_ns.is_some() {
        return Some(LengthAdvice::Turns);
    }
    let works = known.iter().flat_map(|(plan, works)| works.iter().map(move |work| (plan, work)));
    let same = works.filter(|(_, work)| key.difference(&work.key).is_none());
    let groups = same.flat_map(|(plan, work)| {
        let cells = plan.cells.iter().filter(|cell| cell.work == work.key.cell.work);
        cells.map(|cell| {
            let is_own = |run: &&RunWindows| run.plan == plan.id && run.key.cell == cell.index;
            question.windows.iter().filter(is_own).collect()
        })
    });
    let groups: Vec<Vec<&RunWindows>> = groups.collect();
    // Sets that change in mid-run or are not there all the time have no speed of the whole run.
    if groups.iter().flatten().all(|run| run.sets.is_empty()) {
        return None;
    }
    let duration_ns = plan.plan.duration_ns(&key.cell.work);
    let measure = &plan.plan.measure;
    let window_ns = measure.window_ns.min(duration_ns);
    let times = Times { duration_ns, warmup_ns: measure.warmup_ns, window_ns };
    Some(run_length(&groups, times, stats::HEADLINE_QUANTILE.samples_needed()))
}

/// The set, metric and spread of each variant against the baseline, for a work of one stored plan.
fn of_work<'g, 'a>(
    work: &'g WorkSamples<'a>,
    question: &'g Question,
) -> impl Iterator<Item = Metric<'a>> + 'g {
    judged(work, question).filter_map(|[baseline, variant]| {
        let scatter = Scatter::between(baseline, variant)?;
        Some(Metric { set: baseline.set, kind: baseline.kind, scatter })
    })
}

/// The sets and metrics of a work in which a value has no logarithm.
fn without_ratio(work: &WorkSamples, question: &Question) -> Vec<(String, String)> {
    let judged = judged(work, question).filter(|sides| {
        let [baseline, variant] = sides.map(|side| &side.cell.values);
        stats::log_ratios(baseline, variant).is_none()
            && !stats::differences(baseline, variant).is_empty()
    });
    judged.map(|[baseline, _]| (baseline.set.to_string(), baseline.kind.name.clone())).collect()
}

/// The sets and metrics of a work that have no ratio since runs lack their values, each with the reason of one run.
fn without_value(work: &WorkSamples, question: &Question) -> Vec<((String, String), String)> {
    let lacking = judged(work, question).filter_map(|sides| {
        let [baseline, variant] = sides;
        if Scatter::between(baseline, variant).is_some() {
            return None;
        }
        let (_, reason) = sides.into_iter().find_map(|side| side.cell.unknown.first())?;
        Some(((baseline.set.to_string(), baseline.kind.name.clone()), reason.clone()))
    });
    lacking.collect()
}

/// The pairs that would be judged in a work of one stored plan: each variant against the baseline.
fn judged<'g, 'a>(
    work: &'g WorkSamples<'a>,
    question: &'g Question,
) -> impl Iterator<Item = [&'g Series<'a>; 2]> {
    let baseline = work.sides.first().and_then(Option::as_ref);
    let others = work.sides.iter().skip(1).flatten();
    let series = baseline.into_iter().flat_map(|side| &side.series);
    let series = series.filter(move |series| {
        series.kind.direction != Direction::Neutral && question.judges(&work.key, series)
    });
    series.flat_map(move |series| {
        let (set, kind) = (series.set, series.kind);
        let others = others.clone().flat_map(|side| &side.series);
        let same = others.filter(move |other| (other.set, &other.kind.name) == (set, &kind.name));
        same.map(move |other| [series, other])
    })
}

#[cfg(test)]
mod tests;
