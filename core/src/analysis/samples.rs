//! The values of each side, by work, worker set and metric.
//!
//! Input: sampled plans and selections. Output: [`WorkSamples`], not yet judged. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    Cell, CountedRounds, Guest, GuestKernel, GuestTime, KnobReading, MetricKind, Plan, Reading,
    SampledMetric, SampledPlan, SampledRun, Unit, Unmeasured, Variant, WorkRounds, is_spoilt,
};
use crate::stats::{self, Schedule};

use super::lists::once;
use super::select::{Selection, without_maker};
use super::work::WorkKey;
use super::{CountedRun, Pairing, Side};

/// One work with the values of all sides that have it.
pub struct WorkSamples<'a> {
    pub key: WorkKey<'a>,
    /// The facts that other works of its label do not have: see [`distinguish`].
    pub facts: Vec<(String, String)>,
    /// By side; `None` where it has no run of this work.
    pub sides: Vec<Option<Values<'a>>>,
    /// By side: its runs that failed or were skipped. A side may have no others.
    pub unmeasured: Vec<Vec<&'a Unmeasured>>,
    /// By side: the number of those that failed, in rounds that count, repeats of exact ones left out.
    pub failed: Vec<usize>,
}

impl WorkSamples<'_> {
    /// The label of its key, with its facts: `web threads=4 duration=200ms`.
    pub fn label(&self) -> String {
        let facts = self.facts.iter().map(|(name, value)| format!(" {name}={value}"));
        facts.fold(self.key.label(), |label, fact| label + &fact)
    }
}

/// Gives works that have one label the facts in which they differ, so that each label stands once.
pub fn distinguish(works: &mut [WorkSamples]) {
    let mut by_label: BTreeMap<String, Vec<WorkKey>> = BTreeMap::new();
    works.iter().for_each(|work| by_label.entry(work.key.label()).or_default().push(work.key));
    for work in works {
        for other in &by_label[&work.key.label()] {
            work.key.fact_against(other).into_iter().for_each(|fact| once(&mut work.facts, fact));
        }
        work.facts.sort_unstable();
    }
}

#[derive(Default)]
pub struct Values<'a> {
    pub runs: usize,
    /// The runs, as plans have them.
    pub counted: Vec<CountedRun>,
    pub variants: Vec<&'a Variant>,
    /// One per worker set and metric, in the order in which runs have them.
    pub series: Vec<Series<'a>>,
    /// Exact runs that other plans have as well: each counts once.
    pub repeated: usize,
    /// Runs by the plan's position and its session.
    pub sessions: Counts<(usize, u32)>,
    /// Runs in the lab by the plan's position, the variant's name and the guest in its plan.
    pub guests: Counts<(usize, &'a str, u32)>,
    /// Runs by the knobs that read back as another value than asked.
    pub mismatches: Vec<(&'a KnobReading, usize)>,
    /// Rounds of this work that were left out because something from outside spoilt them.
    pub spoilt: usize,
    /// Spoilt rounds that are kept, since most rounds are spoilt.
    pub kept_spoilt: usize,
}

pub type Counts<K> = BTreeMap<K, usize>;

/// The name of a workload's operations in reports, and how many of these make one of its operations.
pub fn shown_ops(ops: &str) -> (&str, f64) {
    match ops {
        "kops" => ("ops", 1e3),
        ops => (ops, 1.0),
    }
}

pub struct Series<'a> {
    pub set: &'a str,
    pub kind: &'a MetricKind,
    /// The name of an operation; a thousand operations are counted as such in stores alone.
    pub ops: &'a str,
    /// Without its statistics: see [`super::Cell::with_statistics`].
    pub cell: super::Cell,
}

impl<'a> Series<'a> {
    /// Without values yet, and how many operations a value of this metric counts as one.
    fn new(metric: &'a SampledMetric) -> (Series<'a>, f64) {
        let (ops, multiple) = shown_ops(&metric.ops);
        let multiple = if metric.kind.unit == Unit::OpsPerS { multiple } else { 1.0 };
        let (set, kind) = (&metric.set, &metric.kind);
        (Series { set, kind, ops, cell: super::Cell::default() }, multiple)
    }

    pub fn without_values(&self) -> Series<'a> {
        Series { cell: super::Cell::default(), ..*self }
    }

    /// Whether both have values of one metric. A unit that changed makes it another one.
    pub fn is_of(&self, other: &Series) -> bool {
        let (own, others) = (self.kind, other.kind);
        (self.set, &own.name, own.unit) == (other.set, &others.name, others.unit)
            && own.direction == others.direction
    }
}

/// Whether the sides were measured in the same rounds: all in the same plans. Other tools measure one
/// side after the other.
pub fn pairing(plans: &[SampledPlan], selections: &[Selection]) -> Pairing {
    if plans.iter().any(|plan| plan.backend == SampledPlan::IMPORTED) {
        return Pairing::None;
    }
    let all_alike = selections.windows(2).all(|pair| pair[0].is_of_the_runs_of(&pair[1]));
    let name_variants = selections.iter().all(Selection::names_variants);
    if all_alike && name_variants { Pairing::WithinRounds } else { Pairing::None }
}

/// The works of all sides, in the order of the newest plan that has them. `mixed`: see [`WorkKey`];
/// `as_at_end`: rounds count as if a running plan ended now.
pub fn gather<'a>(
    plans: &'a [SampledPlan],
    selections: &[Selection],
    mixed: bool,
    as_at_end: bool,
) -> Vec<WorkSamples<'a>> {
    let by_variant = !selections.iter().any(Selection::names_variants);
    let mut works: Vec<WorkSamples> = Vec::new();
    let mut seen: Vec<BTreeMap<&str, BTreeSet<String>>> = vec![BTreeMap::new(); selections.len()];
    for ((at, plan), first_round) in plans.iter().enumerate().zip(first_rounds(plans)).rev() {
        let counted = counted_rounds(plan, as_at_end || plan.ended.is_some());
        for cell in &plan.cells {
            let variant = by_variant.then_some(&cell.variant);
            let key = WorkKey { plan, cell, variant, mixed };
            let takes = |(_, side): &(usize, &Selection)| {
                side.takes_variant(&cell.variant.name) && side.plans.contains(&plan.id)
            };
            for (side, selection) in selections.iter().enumerate().filter(takes) {
                let runs = measured(plan, cell, selection);
                let unmeasured: Vec<&Unmeasured> = unmeasured(plan, cell, selection).collect();
                if runs.is_empty() && unmeasured.is_empty() {
                    continue;
                }
                let work = work_of(&mut works, key, selections.len());
                // Variants that differ in their names alone are still two variants.
                let seen = seen[side].entry(&cell.variant.name).or_default();
                let counted = &counted[plan.plan.work_of(cell.index)];
                let failed = unmeasured.iter().filter(|run| {
                    !run.is_skipped
                        && counted.counts(run.key.round)
                        && exact_failure(plan, cell, run).is_none_or(|whole| seen.insert(whole))
                });
                work.failed[side] += failed.count();
                work.unmeasured[side].extend(unmeasured);
                if !runs.is_empty() {
                    let counted = (first_round, counted);
                    let values = work.sides[side].get_or_insert_default();
                    values.take((at, plan), cell, &runs, counted, seen);
                }
            }
        }
    }
    let sides = works.iter_mut().flat_map(|work| &mut work.sides).flatten();
    for series in sides.flat_map(|side| &mut side.series) {
        series.cell.values.sort_unstable_by_key(|(round, _)| *round);
        // The values stay in memory while all is judged.
        series.cell.values.shrink_to_fit();
        series.cell.unknown.sort_unstable_by_key(|(round, _)| *round);
    }
    works
}

/// The works of one plan, each of its variants a side.
pub fn by_variant(plan: &SampledPlan) -> Vec<WorkSamples<'_>> {
    let variants = plan.plan.variants.iter();
    let sides = variants.map(|variant| Selection::of_variant(&plan.id, &variant.name));
    gather(std::slice::from_ref(plan), &sides.collect::<Vec<_>>(), false, false)
}

/// The number of each plan's first round when the rounds of all plans, oldest first, are counted through.
pub fn first_rounds(plans: &[SampledPlan]) -> Vec<u32> {
    debug_assert!(plans.is_sorted_by_key(|plan| plan.started_unix_ns));
    let before = plans.iter().scan(0, |next, plan| {
        let end = *next + rounds(plan);
        Some(std::mem::replace(next, end))
    });
    before.collect()
}

fn rounds(plan: &SampledPlan) -> u32 {
    plan.runs.iter().map(|run| run.key.round + 1).max().unwrap_or(0)
}

/// The rounds that count, by work of the plan: not those that load from outside spoilt, unless the plan counts all.
fn counted_rounds(plan: &SampledPlan, has_ended: bool) -> Vec<CountedRounds> {
    let mut works = vec![WorkRounds::default(); plan.plan.works.len()];
    for run in &plan.runs {
        let found = run.disturbances.iter().map(|found| (found.kind(), found.share));
        if let Some(rounds) = works.get_mut(plan.plan.work_of(run.key.cell)) {
            rounds.add(run.key.round, is_spoilt(found));
        }
    }
    if !plan.plan.measure.repeat_spoilt {
        return works.iter().map(WorkRounds::all).collect();
    }
    let needed = needed(plan);
    works.iter().map(|rounds| rounds.counted(needed, has_ended)).collect()
}

/// The clean rounds that any verdict on this plan's variants takes at its end.
fn needed(plan: &SampledPlan) -> u32 {
    let measure = &plan.plan.measure;
    let looks =
        measure.until_decided.then(|| Schedule::from_measure(measure).looks_at(rounds(plan), true));
    let share = looks.and_then(|looks| Some(looks.last()?.share)).unwrap_or(1.0);
    needed_of_share(&plan.plan, share)
}

/// The clean rounds that any verdict on a plan's variants takes at least.
pub fn needed_rounds(plan: &Plan) -> u32 {
    needed_of_share(plan, 1.0)
}

fn needed_of_share(plan: &Plan, share: f64) -> u32 {
    stats::min_rounds(stats::LEVEL * share, plan.variants.len().saturating_sub(1))
}

/// The runs of one cell that gave values, by position, of those that the selection takes.
fn measured(plan: &SampledPlan, cell: &Cell, selection: &Selection) -> Vec<usize> {
    let runs = plan.runs.iter().enumerate().filter(|(_, run)| {
        run.key.cell == cell.index && is_of(selection, plan, cell, (run.environment, run.guest))
    });
    runs.map(|(at, _)| at).collect()
}

/// The runs of one cell that gave no values, of those that the selection takes.
fn unmeasured<'a>(
    plan: &'a SampledPlan,
    cell: &Cell,
    selection: &Selection,
) -> impl Iterator<Item = &'a Unmeasured> {
    let index = cell.index;
    // The guest of another cell of the variant stands in: these runs would have had the same.
    let is_like = |run: &&SampledRun| {
        plan.cells.get(run.key.cell as usize).is_some_and(|other| other.variant == cell.variant)
    };
    let guest = plan.runs.iter().filter(is_like).find_map(|run| run.guest);
    plan.unmeasured.iter().filter(move |run| {
        run.key.cell == index && is_of(selection, plan, cell, (run.environment, guest))
    })
}

/// Whether a run of this cell, environment and guest is of the kernels and machines of a side: in
/// the lab a kernel is known by the name that was asked for, and by what was booted.
pub fn is_of(
    selection: &Selection,
    plan: &SampledPlan,
    cell: &Cell,
    (environment, guest): (u32, Option<u32>),
) -> bool {
    let environment = &plan.environments[environment as usize];
    if !plan.has_guests() {
        return selection.takes(&[&environment.kernel_release], &environment.hostname);
    }
    let asked = cell.variant.kernel_in(&plan.plan.lab);
    let booted = guest.and_then(|guest| plan.guests[guest as usize].kernel.release.as_deref());
    let names = [asked, without_maker(asked), booted.unwrap_or(asked)];
    selection.takes(&names, &environment.hostname)
}

/// The whole of an exact run: its work, seed, kernel and values. The lab repeats a run to the last
/// bit, so a second plan with the same seed adds no evidence.
fn whole(plan: &SampledPlan, cell: &Cell, at: usize) -> Option<String> {
    let run = &plan.runs[at];
    let guest = run.guest.map(|guest| &plan.guests[guest as usize])?;
    let values = run.values.iter().map(|(metric, value)| {
        let metric = &plan.metrics[*metric as usize];
        (metric.set.as_str(), metric.kind.name.as_str(), value.to_bits())
    });
    let asked = asked(plan, cell, run.key.round);
    let whole = || format!("{asked} {:?} {:?}", guest.kernel, values.collect::<Vec<_>>());
    (guest.time == GuestTime::Exact).then(whole)
}

/// As [`whole`], of a run that failed.
fn exact_failure(plan: &SampledPlan, cell: &Cell, run: &Unmeasured) -> Option<String> {
    let is_exact = plan.has_guests() && !plan.plan.lab.realtime;
    is_exact.then(|| format!("{} failed", asked(plan, cell, run.key.round)))
}

/// All that an exact run was asked to do.
fn asked(plan: &SampledPlan, cell: &Cell, round: u32) -> String {
    format!("{:?}", (plan.plan.measure.seed, round, cell.work.label(), &cell.variant.knobs))
}

/// The work of this key, new where there is none yet.
fn work_of<'w, 'a>(
    works: &'w mut Vec<WorkSamples<'a>>,
    key: WorkKey<'a>,
    sides: usize,
) -> &'w mut WorkSamples<'a> {
    let label = key.label();
    let is_same =
        |work: &WorkSamples| work.key.label() == label && work.key.difference(&key).is_none();
    let at = works.iter().position(is_same).unwrap_or_else(|| {
        let none = std::iter::repeat_with(|| None).take(sides).collect();
        let unmeasured = vec![Vec::new(); sides];
        let failed = vec![0; sides];
        works.push(WorkSamples { key, facts: Vec::new(), sides: none, unmeasured, failed });
        works.len() - 1
    });
    &mut works[at]
}

impl<'a> Values<'a> {
    /// Takes these runs of one cell in.
    fn take(
        &mut self,
        (plan_at, plan): (usize, &'a SampledPlan),
        cell: &'a Cell,
        runs: &[usize],
        (first_round, counted): (u32, &CountedRounds),
        seen: &mut BTreeSet<String>,
    ) {
        once(&mut self.variants, &cell.variant);
        let mut place: BTreeMap<u32, (usize, f64)> = BTreeMap::new();
        for &at in runs {
            let run = &plan.runs[at];
            if !counted.counts(run.key.round) {
                self.spoilt += 1;
                continue;
            }
            self.kept_spoilt += usize::from(counted.spoilt().contains(&run.key.round));
            if whole(plan, cell, at).is_some_and(|whole| !seen.insert(whole)) {
                self.repeated += 1;
                continue;
            }
            self.runs += 1;
            let round = first_round + run.key.round;
            self.counted.push(CountedRun { plan: plan_at, order: at, key: run.key, round });
            *self.sessions.entry((plan_at, run.environment)).or_default() += 1;
            if let Some(guest) = run.guest {
                *self.guests.entry((plan_at, &cell.variant.name, guest)).or_default() += 1;
            }
            run.mismatches.iter().for_each(|knob| self.add_mismatch(knob));
            for (metric, value) in &run.values {
                let (series, multiple) = self.series_of(plan, *metric, &mut place);
                series.cell.values.push((round, multiple * value));
            }
            for (metric, reason) in &run.unknown {
                let (series, _) = self.series_of(plan, *metric, &mut place);
                series.cell.unknown.push((round, reason.clone()));
            }
        }
    }

    /// The series of a metric of the plan, with [`Series::new`]'s multiple; `place` caches where known ones are.
    fn series_of(
        &mut self,
        plan: &'a SampledPlan,
        metric: u32,
        place: &mut BTreeMap<u32, (usize, f64)>,
    ) -> (&mut Series<'a>, f64) {
        let (at, multiple) = *place.entry(metric).or_insert_with(|| {
            let (new, multiple) = Series::new(&plan.metrics[metric as usize]);
            let known = self.series.iter().position(|known| known.is_of(&new));
            let at = known.unwrap_or(self.series.len());
            self.series.extend(known.is_none().then_some(new));
            (at, multiple)
        });
        (&mut self.series[at], multiple)
    }

    fn add_mismatch(&mut self, knob: &'a KnobReading) {
        match self.mismatches.iter_mut().find(|(own, _)| *own == knob) {
            Some((_, count)) => *count += 1,
            None => self.mismatches.push((knob, 1)),
        }
    }
}

/// The boots in which runs were made, by id; `None` where some run does not know.
pub type Boots = Option<BTreeSet<String>>;

/// The common facts of the runs of the works in tables, for the head of a report.
pub fn side(plans: &[SampledPlan], works: &[WorkSamples], at: usize, label: &str) -> (Side, Boots) {
    let mut side = Side { label: label.to_string(), ..Side::default() };
    let mut boots: BTreeSet<Option<String>> = BTreeSet::new();
    for ((plan, session), runs) in sessions(works, at) {
        let (plan, environment) = (&plans[plan], &plans[plan].environments[session as usize]);
        side.runs += runs;
        once(&mut side.plans, plan.id.clone());
        once(&mut side.backends, plan.backend.clone());
        once(&mut side.machines, environment.hostname.clone());
        // In the lab it names the kernels of all variants, and no host was booted.
        let host = (!plan.has_guests()).then_some(environment);
        host.into_iter().for_each(|host| once(&mut side.kernels, host.kernel_release.clone()));
        boots.insert(host.and_then(|host| host.boot_id.clone().known()));
    }
    for ((plan, variant, guest), runs) in guests(works, at) {
        let Guest { kernel, time, capacity: _, coarse_timers_ns } =
            &plans[plan].guests[guest as usize];
        side.times.add(time, runs);
        side.coarse_timers_ns = side.coarse_timers_ns.max(*coarse_timers_ns);
        let asked = asked_kernel(&plans[plan], variant);
        let kernel = with_scheduler(kernel, &plans[plan], variant);
        once(&mut side.kernels, format!("{asked} ({kernel:#})"));
        once(&mut side.guests, (asked.to_string(), kernel));
    }
    for (_, values) in values(works, at) {
        values.variants.iter().for_each(|variant| once(&mut side.variants, (*variant).clone()));
    }
    let boots: Boots = boots.into_iter().collect();
    side.boots = boots.as_ref().map(BTreeSet::len);
    (side, boots)
}

/// A guest's kernel with the scheduler that ran: a guest knows the one that it booted with.
fn with_scheduler(kernel: &GuestKernel, plan: &SampledPlan, variant: &str) -> GuestKernel {
    let variant = plan.plan.variants.iter().find(|own| own.name == variant);
    let scx = variant.and_then(Variant::scx).map(|scx| Reading::Known(format!("scx {scx}")));
    GuestKernel { scheduler: scx.or_else(|| kernel.scheduler.clone()), ..kernel.clone() }
}

/// The kernel that a variant of a plan for the lab asks for.
pub fn asked_kernel<'a>(plan: &'a SampledPlan, variant: &str) -> &'a str {
    let variant = plan.plan.variants.iter().find(|own| own.name == variant);
    variant.map_or(&plan.plan.lab.kernel, |variant| variant.kernel_in(&plan.plan.lab))
}

/// The works that a side has runs of, with its samples of them.
pub fn values<'w, 'a>(
    works: &'w [WorkSamples<'a>],
    side: usize,
) -> impl Iterator<Item = (&'w WorkSamples<'a>, &'w Values<'a>)> {
    works.iter().filter_map(move |work| Some((work, work.sides[side].as_ref()?)))
}

/// Runs of one side in the lab by plan, variant and guest: in order of time.
pub fn guests<'a>(works: &[WorkSamples<'a>], side: usize) -> Counts<(usize, &'a str, u32)> {
    sums(values(works, side).map(|(_, values)| &values.guests))
}

/// Runs of one side by the plan's position and its session: in order of time.
pub fn sessions(works: &[WorkSamples], side: usize) -> Counts<(usize, u32)> {
    sums(values(works, side).map(|(_, values)| &values.sessions))
}

fn sums<'w, K: Ord + Copy + 'w>(counts: impl Iterator<Item = &'w Counts<K>>) -> Counts<K> {
    let mut sums = Counts::new();
    counts.flatten().for_each(|(of, runs)| *sums.entry(*of).or_default() += runs);
    sums
}

#[cfg(test)]
mod tests {
    use super::super::testing::{plan, rounds};
    use super::*;
    use crate::model::LookRule;

    #[test]
    fn the_last_look_says_how_many_clean_rounds_are_needed() {
        let mut measured = rounds(plan("p1", 1, &["default", "batch"]), 0..40, &[1.0, 1.0]);
        assert_eq!(needed(&measured), stats::min_rounds(stats::LEVEL, 1));
        measured.plan.measure.until_decided = true;
        measured.plan.measure.looks = LookRule::Even;
        // Four looks leave 0.9 to the fourth power, of which an end has nine tenths.
        let share = 0.9f64.powi(5);
        assert_eq!(needed(&measured), stats::min_rounds(stats::LEVEL * share, 1));
        assert_ne!(needed(&measured), stats::min_rounds(stats::LEVEL * 0.1, 1));
    }
}
