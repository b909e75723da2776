//! The values of each side, by work, worker set and metric.
//!
//! Input: sampled plans and selections. Output: [`Gathered`], not yet compared. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    Cell, Direction, DisturbanceKind, Guest, GuestTime, KnobMismatch, Reading, SampledPlan,
    SampledRun, Unit, Unmeasured, Variant,
};

use super::select::{Selection, boot_of, without_maker};
use super::work::WorkKey;
use super::{Pairing, Side};

/// One work with the values of all sides that have it.
pub struct Gathered<'a> {
    pub key: WorkKey<'a>,
    /// By side; `None` where it has no run of this work.
    pub sides: Vec<Option<Values<'a>>>,
    /// By side: its runs that failed or were skipped. A side may have no others.
    pub lost: Vec<Vec<&'a Unmeasured>>,
}

/// Of one side: values by `(set, metric)`, in the order in which runs tell them.
#[derive(Default)]
pub struct Values<'a> {
    pub runs: usize,
    /// Those whose runs are in it, each once, as its plan has it.
    pub variants: Vec<&'a Variant>,
    pub series: Vec<Series<'a>>,
    /// Exact runs that other plans have as well: they are counted once.
    pub repeated: usize,
    /// Runs by the plan's position and its session.
    pub sessions: BTreeMap<(usize, u32), usize>,
    /// Runs in the lab by the plan's position, the variant's name and the guest in its plan.
    pub guests: BTreeMap<(usize, &'a str, u32), usize>,
    /// Runs by what disturbed them.
    pub disturbed: BTreeMap<DisturbanceKind, usize>,
    /// Runs by the knobs that read back otherwise than asked.
    pub untaken: BTreeMap<Untaken<'a>, usize>,
}

/// A knob, what was asked for and what it read back as.
pub type Untaken<'a> = (&'a str, String, String);

pub struct Series<'a> {
    pub set: &'a str,
    pub metric: &'a str,
    pub unit: Unit,
    pub direction: Direction,
    pub ops: &'a str,
    /// `(round, value)`: rounds of several plans are counted through.
    pub values: Vec<(u32, f64)>,
}

impl Series<'_> {
    /// Whether both have values of one metric. A unit that has changed makes it another one.
    pub fn is_of(&self, other: &Series) -> bool {
        (self.set, self.metric, self.unit) == (other.set, other.metric, other.unit)
            && self.direction == other.direction
    }
}

/// Whether the sides were measured in the same rounds: all in the same plans.
pub fn pairing(selections: &[Selection]) -> Pairing {
    let all_alike = selections.windows(2).all(|pair| pair[0].is_of_the_runs_of(&pair[1]));
    let told_apart = selections.iter().all(Selection::names_variants);
    if all_alike && told_apart { Pairing::WithinRounds } else { Pairing::None }
}

/// The works of all sides, in the order of the newest plan that has them. `mixed`: see [`WorkKey`].
pub fn gather<'a>(
    plans: &'a [SampledPlan],
    selections: &[Selection],
    mixed: bool,
) -> Vec<Gathered<'a>> {
    let by_variant = !selections.iter().any(Selection::names_variants);
    let mut works: Vec<Gathered> = Vec::new();
    let mut seen: Vec<BTreeMap<&str, Seen>> = selections.iter().map(|_| BTreeMap::new()).collect();
    for ((at, plan), first_round) in plans.iter().enumerate().zip(first_rounds(plans)).rev() {
        for cell in &plan.cells {
            let variant = by_variant.then_some(&cell.variant);
            let key = WorkKey { plan, cell, variant, mixed };
            for (side, selection) in selections.iter().enumerate() {
                if selection.takes_variant(&cell.variant.name) && selection.plans.contains(&plan.id)
                {
                    // Variants that are alike but for their names are measured apart.
                    let seen = seen[side].entry(&cell.variant.name).or_default();
                    let values = take((at, plan), cell, first_round, selection, seen);
                    let lost = lost(plan, cell, selection);
                    add(&mut works, key, (side, selections.len()), values, lost);
                }
            }
        }
    }
    works
}

/// Of each plan, where its rounds begin when those of all are counted through. `plans`: oldest
/// first.
pub fn first_rounds(plans: &[SampledPlan]) -> Vec<u32> {
    debug_assert!(plans.is_sorted_by_key(|plan| plan.started_unix_ns));
    let before = plans.iter().scan(0, |next, plan| {
        let first = *next;
        *next += rounds(plan);
        Some(first)
    });
    before.collect()
}

fn rounds(plan: &SampledPlan) -> u32 {
    plan.runs.iter().map(|run| run.key.round + 1).max().unwrap_or(0)
}

/// The values of one cell, of runs that the selection takes.
fn take<'a>(
    (plan_at, plan): (usize, &'a SampledPlan),
    cell: &'a Cell,
    first_round: u32,
    selection: &Selection,
    seen: &mut Seen,
) -> Values<'a> {
    let mut values = Values { variants: vec![&cell.variant], ..Values::default() };
    let mut place: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, run) in plan.runs.iter().enumerate() {
        if run.key.cell != cell.index || !is_of(selection, plan, cell, (run.environment, run.guest))
        {
            continue;
        }
        if seen.is_again(plan, cell, at) {
            values.repeated += 1;
            continue;
        }
        values.runs += 1;
        *values.sessions.entry((plan_at, run.environment)).or_default() += 1;
        if let Some(guest) = run.guest {
            *values.guests.entry((plan_at, &cell.variant.name, guest)).or_default() += 1;
        }
        let kinds: BTreeSet<_> = plan.disturbances_of(at).map(|found| found.kind()).collect();
        for kind in kinds {
            *values.disturbed.entry(kind).or_default() += 1;
        }
        for KnobMismatch { knob, asked, got } in plan.untaken_of(at) {
            if let Reading::Known(got) = got {
                let untaken = (knob.as_str(), asked.to_string(), got.to_string());
                *values.untaken.entry(untaken).or_default() += 1;
            }
        }
        for sampled in plan.values_of(at) {
            let metric = &plan.metrics[sampled.metric as usize];
            let series = *place.entry(sampled.metric).or_insert_with(|| {
                values.series.push(Series {
                    set: &metric.set,
                    metric: &metric.kind.name,
                    unit: metric.kind.unit,
                    direction: metric.kind.direction,
                    ops: &metric.ops,
                    values: Vec::new(),
                });
                values.series.len() - 1
            });
            values.series[series].values.push((first_round + run.key.round, sampled.value));
        }
    }
    values.series.iter_mut().for_each(|series| series.values.sort_unstable_by_key(|(r, _)| *r));
    values
}

/// The runs of one cell that gave no values, of those that the selection takes.
fn lost<'a>(
    plan: &'a SampledPlan,
    cell: &Cell,
    selection: &Selection,
) -> impl Iterator<Item = &'a Unmeasured> {
    let index = cell.index;
    // What was booted for others of the variant would have been for these.
    let is_like = |run: &&SampledRun| {
        plan.cells.get(run.key.cell as usize).is_some_and(|other| other.variant == cell.variant)
    };
    let guest = plan.runs.iter().filter(is_like).find_map(|run| run.guest);
    plan.issues.unmeasured.iter().filter(move |run| {
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
    if plan.backend != SampledPlan::LAB {
        return selection.takes(&[&environment.kernel_release], &environment.hostname);
    }
    let asked = plan.plan.lab.kernel_of(&cell.variant);
    let booted = guest.and_then(|guest| plan.guests[guest as usize].kernel.release.as_deref());
    let names = [asked, without_maker(asked), booted.unwrap_or(asked)];
    selection.takes(&names, &environment.hostname)
}

/// Exact runs that a side has already. Who asks the same of the lab again gets the same again: that
/// is no further evidence.
#[derive(Default)]
struct Seen(BTreeSet<String>);

impl Seen {
    /// Whether another plan has this very run: alike in all that it was asked for, and in every value.
    fn is_again(&mut self, plan: &SampledPlan, cell: &Cell, at: usize) -> bool {
        let run = &plan.runs[at];
        let Some(guest) = run.guest.map(|guest| &plan.guests[guest as usize]) else { return false };
        if guest.time != GuestTime::Exact {
            return false;
        }
        let values: Vec<(&str, &str, u64)> = plan
            .values_of(at)
            .iter()
            .map(|sampled| {
                let metric = &plan.metrics[sampled.metric as usize];
                (metric.set.as_str(), metric.kind.name.as_str(), sampled.value.to_bits())
            })
            .collect();
        let asked = (plan.plan.measure.seed, run.key.round, cell.work.label(), &cell.variant.knobs);
        !self.0.insert(format!("{asked:?} {:?} {values:?}", guest.kernel))
    }
}

/// Puts the values of a cell to the work that they are of.
fn add<'a>(
    works: &mut Vec<Gathered<'a>>,
    key: WorkKey<'a>,
    (side, sides): (usize, usize),
    values: Values<'a>,
    lost: impl Iterator<Item = &'a Unmeasured>,
) {
    let mut lost = lost.peekable();
    let is_empty = values.runs + values.repeated == 0;
    if is_empty && lost.peek().is_none() {
        return;
    }
    let same = |work: &&mut Gathered| {
        work.key.label() == key.label() && work.key.difference(&key).is_none()
    };
    let work = match works.iter_mut().find(same) {
        Some(work) => work,
        None => {
            let none = std::iter::repeat_with(|| None).take(sides).collect();
            works.push(Gathered { key, sides: none, lost: vec![Vec::new(); sides] });
            works.last_mut().expect("one was pushed")
        }
    };
    work.lost[side].extend(lost);
    if is_empty {
        return;
    }
    match &mut work.sides[side] {
        Some(known) => known.append(values),
        empty => *empty = Some(values),
    }
}

impl<'a> Values<'a> {
    fn append(&mut self, more: Values<'a>) {
        self.runs += more.runs;
        self.repeated += more.repeated;
        for (session, runs) in more.sessions {
            *self.sessions.entry(session).or_default() += runs;
        }
        for (guest, runs) in more.guests {
            *self.guests.entry(guest).or_default() += runs;
        }
        for (kind, runs) in more.disturbed {
            *self.disturbed.entry(kind).or_default() += runs;
        }
        for (knob, runs) in more.untaken {
            *self.untaken.entry(knob).or_default() += runs;
        }
        for variant in more.variants {
            if !self.variants.contains(&variant) {
                self.variants.push(variant);
            }
        }
        for series in more.series {
            let known = self.series.iter_mut().find(|known| known.is_of(&series));
            match known {
                // Plans come newest first, their rounds ascend.
                Some(known) => {
                    known.values.splice(0..0, series.values);
                }
                None => self.series.push(series),
            }
        }
    }
}

/// The boots in which runs were made, by id; `None` where some run does not know.
pub type Boots = Option<BTreeSet<String>>;

/// What the runs of the works in tables have in common, for the head of a report.
pub fn side(plans: &[SampledPlan], works: &[Gathered], at: usize, label: &str) -> (Side, Boots) {
    let mut side = Side { label: label.to_string(), ..Side::default() };
    let mut boots = Some(BTreeSet::new());
    for ((plan, session), runs) in sessions(works, at) {
        let (plan, environment) = (&plans[plan], &plans[plan].environments[session as usize]);
        side.runs += runs;
        once(&mut side.plans, &plan.id);
        once(&mut side.backends, &plan.backend);
        once(&mut side.machines, &environment.hostname);
        if plan.backend == SampledPlan::LAB {
            // The environment names the kernels of all variants, and there is nothing to reboot.
            boots = None;
            continue;
        }
        once(&mut side.kernels, &environment.kernel_release);
        match (boot_of(&environment.boot_id), &mut boots) {
            (Some(boot), Some(boots)) => {
                boots.insert(boot.to_string());
            }
            _ => boots = None,
        }
    }
    for ((plan, variant, guest), runs) in guests(works, at) {
        let Guest { kernel, time, .. } = &plans[plan].guests[guest as usize];
        side.times.add(time, runs);
        let asked = asked_kernel(&plans[plan], variant);
        once(&mut side.kernels, &format!("{asked} ({kernel:#})"));
        if !side.guests.iter().any(|(name, known)| (name.as_str(), known) == (asked, kernel)) {
            side.guests.push((asked.to_string(), kernel.clone()));
        }
    }
    side.boots = boots.as_ref().map(BTreeSet::len);
    (side, boots)
}

/// The kernel that a variant of a plan for the lab asks for.
pub fn asked_kernel<'a>(plan: &'a SampledPlan, variant: &str) -> &'a str {
    let variant = plan.plan.variants.iter().find(|own| own.name == variant);
    variant.map_or(&plan.plan.lab.kernel, |variant| plan.plan.lab.kernel_of(variant))
}

/// Runs of one side in the lab by plan, variant and guest: in order of time.
pub fn guests<'a>(works: &[Gathered<'a>], side: usize) -> BTreeMap<(usize, &'a str, u32), usize> {
    let mut guests = BTreeMap::new();
    for values in works.iter().filter_map(|work| work.sides[side].as_ref()) {
        for (guest, runs) in &values.guests {
            *guests.entry(*guest).or_default() += runs;
        }
    }
    guests
}

/// Runs of one side by the plan's position and its session: in order of time.
pub fn sessions(works: &[Gathered], side: usize) -> BTreeMap<(usize, u32), usize> {
    let mut sessions = BTreeMap::new();
    for values in works.iter().filter_map(|work| work.sides[side].as_ref()) {
        for (session, runs) in &values.sessions {
            *sessions.entry(*session).or_default() += runs;
        }
    }
    sessions
}

fn once(list: &mut Vec<String>, text: &str) {
    if !list.iter().any(|known| known == text) {
        list.push(text.to_string());
    }
}
