//! From samples to an analysis with its verdicts.
//!
//! Input: sampled plans, selections and what the user asked for. Output: an [`Analysis`].
//! Pure: the same plans and question always give the same verdicts.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    Direction, Lab, Measure, Plan, PlanEnd, PlanHead, SampledPlan, SampledRun, Work,
};
use crate::stats::{self, Distance, Judged, NoEffect, Schedule, Unjudged, Verdict, shapes};

use super::explain::with_switches_per_op;
use super::fairness::fairness;
use super::hosts::Hosts;
use super::note_finder::{self, Context};
use super::notes::Note;
use super::pairing::{Common, common};
use super::question::Question;
use super::samples::{
    Boots, Series, Values, WorkSamples, by_variant, distinguish, first_rounds, gather, is_of,
    pairing, side,
};
use super::select::Selection;
use super::states::two_speeds;
use super::turns::carry_over;
use super::work::WorkKey;
use super::{
    Analysis, Cell, CountedRun, Family, InTurns, Method, Pairing, Pictures, PlanFacts, Row,
    SetTable, Side, WorkTable, Workers,
};

/// At most this part of tables without any difference has a false one: [`stats::LEVEL`] is less.
pub(super) const CLAIMED_ERROR: f64 = 0.05;

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

/// The analysis of the sides, which have no run in common. `plans` are those of all selections,
/// oldest first; `floors` are plans of [`with_floors`].
pub fn analyse(plans: &[SampledPlan], floors: &[SampledPlan], question: &Question) -> Analysis {
    let pairing =
        if question.over_hosts { Pairing::OverHosts } else { pairing(plans, &question.sides) };
    let samples = gather(plans, &question.sides, question.mixed, question.ratios_alone);
    let Common { mut shown, left_out, mut refused } = common(samples, question);
    distinguish(&mut shown);
    let floors = Floors::from_plans(floors);
    let mut works: Vec<WorkTable> =
        shown.iter_mut().map(|work| table_of(work, question, &mut refused)).collect();
    if let ([plan], Pairing::WithinRounds) = (plans, pairing)
        && SampledPlan::has_solos(&plan.plan)
    {
        for table in fairness(plan) {
            if let Some(work) = works.iter_mut().find(|work| work.label == table.work) {
                work.fairness = Some(table);
            }
        }
    }
    let looks = looks(plans, pairing, question.rounds_done);
    let begins = &first_rounds(plans);
    let sides = question.sides.iter().enumerate();
    let sides = sides.map(|(at, of)| side(plans, &shown, at, &of.label));
    let sides: Vec<(Side, Boots)> = sides.collect();
    let context =
        Context { plans, question, sides: &sides, pairing, shown: &shown, left_out: &left_out };
    let unknown = note_finder::unknown(&context, &works);
    let hosts = question.over_hosts.then(|| Hosts::from_plans(plans));
    hosts.iter().for_each(|hosts| hosts.draw(&mut works, begins));
    let judging =
        Judging { question, pairing, looks: &looks, begins, samples: &shown, floors: &floors };
    let floors = if question.ratios_alone { Vec::new() } else { judging.judge(&mut works) };
    let mut notes = question.refused.clone();
    notes.extend(refused);
    let verdicts = [Family::Headline, Family::Explaining].map(|of| verdicts_of(&works, of));
    if let Some(hosts) = &hosts {
        notes.extend(hosts.notes(&mut works, &question.sides, verdicts));
    }
    notes.extend(note_finder::find(&context, &works));
    notes.extend(unknown);
    notes.extend(two_speeds(plans, question, &works));
    notes.extend(carry_over(question, &works));
    notes.sort_by_key(Note::severity);
    let sides: Vec<Side> = sides.into_iter().map(|(side, _)| side).collect();
    let has_load = notes.iter().any(Note::is_outside_load);
    mark_useless(&mut works, &sides, question, has_load);
    Analysis {
        plans: plans.iter().map(PlanFacts::from_plan).collect(),
        method: Method {
            margin: question.margin,
            tail_margin: question.tail_margin,
            margins: question.margins.clone(),
            alpha: CLAIMED_ERROR,
            headline_verdicts: verdicts[0],
            explaining_verdicts: verdicts[1],
            pairing,
            floors,
            turns: in_turns(plans),
            looks: looks
                .map(|Looks { schedule, done, has_ended }| schedule.looks_at(done, has_ended)),
            seed: question.seed,
        },
        sides,
        hosts: hosts.map(|hosts| hosts.hosts).unwrap_or_default(),
        works,
        notes,
        command: question.command.clone(),
        store: question.store.clone(),
        pictures: Pictures::default(),
    }
}

/// Marks the cells of sides that differ from the baseline in knobs without effect alone. A weight has an effect against
/// load from outside.
fn mark_useless(works: &mut [WorkTable], sides: &[Side], question: &Question, has_load: bool) {
    let Some(([baseline], rest)) = sides.split_first_chunk() else { return };
    for work in works {
        let label = work.label.clone();
        let is_useless = |side: &Side, knob: &str| {
            let mut found = question.without_effect.iter();
            found.any(|of| {
                let is_sure = of.scheduler.is_some() || of.own_of_sets || !has_load;
                let is_of_side = [&baseline.label, &side.label].contains(&&of.side);
                is_sure && is_of_side && of.knob == knob && of.work == label
            })
        };
        for (at, side) in rest.iter().enumerate() {
            let ([one], [other]) = (&baseline.variants[..], &side.variants[..]) else { continue };
            let knobs = one.knobs.keys().chain(other.knobs.keys());
            let mut differing =
                knobs.filter(|knob| one.knobs.get(*knob) != other.knobs.get(*knob)).peekable();
            let is_other_place = baseline.kernels != side.kernels || baseline.plans != side.plans;
            if is_other_place || differing.peek().is_none() {
                continue;
            }
            if differing.all(|knob| is_useless(side, knob)) {
                let rows = work.sets.iter_mut().flat_map(|set| &mut set.rows);
                rows.for_each(|row| row.cells[at + 1].changes_nothing = true);
            }
        }
    }
}

/// The turns of the plans; of none where one has other turns or separate runs.
fn in_turns(plans: &[SampledPlan]) -> Option<InTurns> {
    let block_ns = plans.first()?.plan.measure.turns_ns?;
    if plans.iter().any(|plan| plan.plan.measure.turns_ns != Some(block_ns)) {
        return None;
    }
    let switches = plans.iter().flat_map(|plan| &plan.switches_ns);
    let switches: Vec<f64> = switches.map(|ns| *ns as f64).collect();
    Some(InTurns { block_ns, switch_ns: stats::median(&switches).map(|ns| ns as u64) })
}

fn rows(works: &[WorkTable]) -> impl Iterator<Item = &Row> {
    works.iter().flat_map(WorkTable::rows).map(|(.., row)| row)
}

fn verdicts_of(works: &[WorkTable], family: Family) -> usize {
    let cells = rows(works).filter(|row| row.family == family).flat_map(|row| &row.cells);
    let judged = cells.filter_map(|cell| cell.judged.as_ref());
    // A metric that too many runs lack keeps its place in the family.
    let has_place = |judged: &&Judged| match judged.verdict {
        Verdict::Unjudged(why) => {
            matches!(why, Unjudged::NoEffect(NoEffect::OftenUnknown { .. }))
        }
        _ => true,
    };
    judged.filter(has_place).count()
}

/// Time of the host for each run in the lab next to its virtual time, its share of boots included.
const LAB_RUN_NS: u64 = 500_000_000;
/// Seconds of the host for a virtual second whose instructions are all executed; work that is given as a time is
/// skipped, and takes less.
const LAB_SLOWDOWN: u64 = 7;

impl PlanFacts {
    fn from_plan(plan: &SampledPlan) -> PlanFacts {
        let took_ns = (!plan.runs.is_empty()).then(|| took_ns(plan));
        let [rounds, failed] = plan.rounds();
        PlanFacts {
            id: plan.id.clone(),
            title: plan.plan.title.clone(),
            backend: plan.backend.clone(),
            started_unix_ns: plan.started_unix_ns,
            // A guest's clock is not the host's.
            took_ns: took_ns.filter(|_| !plan.has_guests()),
            simulated_ns: None,
            ended: plan.ended,
            measure: plan.plan.measure.clone(),
            durations_ns: plan.plan.durations_ns(),
            placement: plan.plan.placement.clone(),
            aa: plan.plan.aa,
            lab: plan.has_guests().then(|| plan.plan.lab.clone()),
            in_lab_ns: in_lab_ns(plan),
            rounds_done: rounds.len() as u32,
            rounds_failed: failed.len() as u32,
            rounds_lost: (rounds.len() as u32).saturating_sub(plan.rounds_measured()),
            environments: plan.environments.clone(),
        }
    }
}

/// A plan that names no machine measures this one for it, unless a valid measurement is kept.
const MACHINE_NS: u64 = 30_000_000_000;

/// Programs may need files that no guest has, and nobody knows how long they take there.
fn has_programs(plan: &SampledPlan) -> bool {
    let mut sets = plan.plan.works.iter().flat_map(|work| &work.sets);
    sets.any(|set| set.params.contains_key("command"))
}

/// How long a host's plan takes in the lab: guests have as many CPUs as the host, which runs as many of them at once.
fn in_lab_ns(plan: &SampledPlan) -> Option<u64> {
    // Equal variants are equal to the bit there.
    if !Lab::is_here() || plan.backend != SampledPlan::LOCAL || plan.plan.aa || has_programs(plan) {
        return None;
    }
    let Measure { turns_ns, until_decided, budget_ns, .. } = &plan.plan.measure;
    let runs = if turns_ns.is_some() { 1 } else { plan.plan.variants.len() as u64 };
    let run_ns =
        |virtual_ns: u64| LAB_RUN_NS.saturating_add(virtual_ns.saturating_mul(LAB_SLOWDOWN));
    // Works that are longer there cost little: the host's length says more.
    let shorter_ns = |(host_ns, work): (u64, &Work)| {
        let own_ns = work.lab_duration_ns.map(|ns| ns.saturating_add(plan.plan.measure.warmup_ns));
        own_ns.map_or(host_ns, |own_ns| own_ns.min(host_ns))
    };
    let times_ns = plan.plan.run_times_ns().zip(&plan.plan.works).map(shorter_ns);
    let round_ns = times_ns.map(run_ns).fold(0, u64::saturating_add);
    let seeds_ns = round_ns.saturating_mul(runs).saturating_mul(plan.plan.lab.seeds.into());
    let machine_ns = if plan.plan.lab.model.twin.is_none() { MACHINE_NS } else { 0 };
    // More seeds are added until the budget ends.
    let budget_ns = budget_ns.filter(|_| *until_decided).unwrap_or(0);
    Some(seeds_ns.max(budget_ns).saturating_add(machine_ns))
}

/// The time in which a session measured, without the pauses between them: one that resumed the plan began with
/// its first run. Parts that were joined may have been measured at the same time.
fn took_ns(plan: &SampledPlan) -> u64 {
    let mut sessions: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    // A backend without a clock has runs before the plan.
    for run in plan.runs.iter().filter(|run| run.started_unix_ns >= plan.started_unix_ns) {
        let start = run.started_unix_ns;
        let end = start.saturating_add(run.measured_ns);
        let first = if run.environment == 0 { plan.started_unix_ns } else { start };
        let (began, ended) = sessions.entry(run.environment).or_insert((first, end));
        (*began, *ended) = (start.min(*began), end.max(*ended));
    }
    let mut sessions: Vec<(u64, u64)> = sessions.into_values().collect();
    sessions.sort_unstable();
    let (mut took, mut until) = (0, 0);
    for (began, ended) in sessions {
        took += ended.saturating_sub(began.max(until));
        until = until.max(ended);
    }
    took
}

/// The table has the values then, and the samples have them no more.
fn table_of(work: &mut WorkSamples, question: &Question, refused: &mut Vec<Note>) -> WorkTable {
    let label = work.label();
    let mut known: Vec<Series> = Vec::new();
    for series in work.sides.iter().flatten().flat_map(|side| &side.series) {
        if !known.iter().any(|other| other.is_of(series)) {
            known.push(series.without_values());
        }
    }
    let mut sets: Vec<SetTable> = Vec::new();
    for series in known {
        if work.sides.iter().flatten().any(|side| has_changed(&series, side)) {
            let (work, set) = (label.clone(), series.set.to_string());
            let note = Note::UnitChanged { work, set, metric: series.kind.name.clone() };
            if !refused.contains(&note) {
                refused.push(note);
            }
            continue;
        }
        let own = |side: &mut Option<Values>| {
            let found = side.as_mut()?.series.iter_mut().find(|own| own.is_of(&series))?;
            Some(std::mem::take(&mut found.cell).with_statistics())
        };
        let cells = work.sides.iter_mut().map(|side| own(side).unwrap_or_default()).collect();
        let row = Row { kind: series.kind.clone(), family: Family::None, cells };
        match sets.iter_mut().find(|set| set.name == series.set) {
            Some(set) => set.rows.push(row),
            None => sets.push(set_table(work, &series, row)),
        }
    }
    for set in &mut sets {
        with_switches_per_op(set);
        for row in &mut set.rows {
            row.family = question.family_of(&work.key, &set.name, &row.kind);
        }
    }
    let Work { name, axes, .. } = &work.key.cell.work;
    // Where sides are whole plans, one work of two variants is two works.
    let variant = work.key.variant.map(|variant| ("variant".to_string(), variant.name.clone()));
    let facts = work.facts.iter().cloned();
    let axes = axes.iter().cloned().chain(variant).chain(facts).collect();
    let runs = work.sides.iter_mut().map(|side| {
        side.as_mut().map(|values| std::mem::take(&mut values.counted)).unwrap_or_default()
    });
    let runs: Vec<Vec<CountedRun>> = runs.collect();
    // A run that failed has no value of any metric.
    let made = runs.iter().zip(&work.failed).map(|(runs, failed)| runs.len() + failed);
    let made: Vec<usize> = made.collect();
    for row in sets.iter_mut().flat_map(|set| &mut set.rows) {
        for (cell, made) in row.cells.iter_mut().zip(&made) {
            cell.runs = *made as u32;
            cell.lacking = cell.runs.saturating_sub(cell.values.len() as u32);
        }
    }
    let is_solo_run = work.key.is_solo_run();
    WorkTable { name: name.clone(), is_solo_run, axes, label, sets, fairness: None, runs }
}

/// Whether a side has another metric of this name in the same set, and not this one.
fn has_changed(series: &Series, side: &Values) -> bool {
    let name = (series.set, &series.kind.name);
    !side.series.iter().any(|own| own.is_of(series))
        && side.series.iter().any(|other| (other.set, &other.kind.name) == name)
}

fn set_table(work: &WorkSamples, series: &Series, row: Row) -> SetTable {
    let own = work.key.cell.work.sets.iter().find(|set| set.name == series.set);
    SetTable {
        name: series.set.to_string(),
        workload: own.map(|set| set.workload.clone()).unwrap_or_default(),
        params: own.map(|set| set.params.clone()).unwrap_or_default(),
        workers: own.map(|set| Workers { count: set.count, kind: set.kind }),
        knobs: own.map(|set| set.knobs.clone()).unwrap_or_default(),
        cgroups: own.map(|set| work.key.cell.work.cgroups_of(set)).unwrap_or_default(),
        changes: own.map(|set| set.changes.clone()).unwrap_or_default(),
        ops: series.ops.to_string(),
        rows: vec![row],
    }
}

impl Cell {
    pub(super) fn with_statistics(self) -> Cell {
        let plain: Vec<f64> = self.values.iter().map(|(_, value)| *value).collect();
        Cell {
            mean: stats::mean(&plain),
            hmean: stats::harmonic_mean(&plain),
            median: stats::median(&plain),
            cv: stats::cv(&plain),
            shapes: shapes(&self.values),
            ..self
        }
    }
}

/// The looks of a plan whose rounds go on until all is decided.
struct Looks {
    schedule: Schedule,
    done: u32,
    has_ended: bool,
}

fn looks(plans: &[SampledPlan], pairing: Pairing, rounds_done: Option<u32>) -> Option<Looks> {
    let [plan] = plans else { return None };
    if pairing != Pairing::WithinRounds || !plan.plan.measure.until_decided {
        return None;
    }
    let all = plan.rounds()[0].last().map_or(0, |last| last + 1);
    // An end that the verdicts made leaves the last look nothing to spend.
    let has_ended =
        rounds_done.is_none() && matches!(plan.ended, Some(PlanEnd::Complete | PlanEnd::Budget));
    let schedule = Schedule::from_measure(&plan.plan.measure);
    Some(Looks { schedule, done: rounds_done.unwrap_or(all), has_ended })
}

/// The positions in the plan of works with a headline metric that is not decided: more rounds may also have the values that
/// too many lack so far.
pub fn open_works(analysis: &Analysis, plan: &Plan) -> BTreeSet<usize> {
    let is_open = |cell: &Cell| {
        matches!(
            cell.verdict(),
            Some(
                Verdict::Inconclusive { .. }
                    | Verdict::Unjudged(Unjudged::NoEffect(NoEffect::OftenUnknown { .. }))
            )
        )
    };
    let open = analysis.rows_of(Family::Headline);
    let open = open.filter(|(.., row)| row.cells.iter().any(is_open));
    let labels: BTreeSet<&str> = open.map(|(work, ..)| work.label.as_str()).collect();
    let works = plan.works.iter().enumerate();
    works.filter(|(_, work)| labels.contains(work.label().as_str())).map(|(at, _)| at).collect()
}

struct Judging<'a> {
    question: &'a Question,
    pairing: Pairing,
    looks: &'a Option<Looks>,
    /// Where the rounds of each plan begin.
    begins: &'a [u32],
    /// The work of each table.
    samples: &'a [WorkSamples<'a>],
    floors: &'a Floors<'a>,
}

impl Judging<'_> {
    /// Puts the verdicts into the cells of all sides but the first. Each family has an error rate
    /// of its own, so the verdicts on headline metrics are the same whether or not the others are
    /// judged. Returns the ids of the plans whose floors were used, oldest first.
    fn judge(&self, works: &mut [WorkTable]) -> Vec<String> {
        let mut used: BTreeSet<(u64, String)> = BTreeSet::new();
        for family in [Family::Headline, Family::Explaining] {
            for side in 1..self.question.sides.len() {
                used.extend(self.judge_side(works, family, side));
            }
        }
        used.into_iter().map(|(_, id)| id).collect()
    }

    fn judge_side(
        &self,
        works: &mut [WorkTable],
        family: Family,
        side: usize,
    ) -> Vec<(u64, String)> {
        let is_judged = |row: &Row| {
            let both = [&row.cells[0], &row.cells[side]];
            row.family == family
                && both.iter().all(|cell| !cell.values.is_empty())
                && !both.iter().all(|cell| cell.is_all_zero())
        };
        // A side without a run, as a variant that was skipped, asks nothing.
        let has_values = |side: &usize| rows(works).any(|row| !row.cells[*side].values.is_empty());
        let others = (1..self.question.sides.len()).filter(has_values).count().max(1);
        let verdicts = rows(works).filter(|row| is_judged(row)).count() * others;
        let (mut comparisons, mut floor_plans) = (Vec::new(), Vec::new());
        for (block, (table, work)) in works.iter().zip(self.samples).enumerate() {
            for (_, set, row) in table.rows().filter(|(.., row)| is_judged(row)) {
                let (floor, of) = self.floors.of_metric(work, &set.name, &row.kind.name).unzip();
                floor_plans.push(of);
                let over = row.cells[side].over_hosts.as_ref();
                let (one, other) = match over {
                    Some(over) => (&over.unchanged, &over.draws),
                    None => (&row.cells[0].values, &row.cells[side].values),
                };
                let between = (self.pairing == Pairing::None)
                    .then(|| [one, other].map(|values| by_plan(values, self.begins)))
                    .and_then(|[one, other]| stats::floor_between([&one, &other], verdicts));
                comparisons.push(stats::Comparison {
                    // Hosts may affect all works alike, so the signs of all works flip together.
                    block: if over.is_some() { 0 } else { block },
                    baseline: one,
                    variant: other,
                    direction: judged_direction(row.kind.direction),
                    margin: self.question.margin_of(&table.label, &set.name, &row.kind),
                    floor: larger(floor, between),
                    paired: self.pairing != Pairing::None,
                });
            }
        }
        let of = stats::Family::new(others, self.question.seed);
        let judged: Vec<Judged> = match self.looks {
            None => stats::judge(&comparisons, &of),
            Some(Looks { schedule, done, has_ended }) => {
                stats::replay(&comparisons, &of, schedule, *done, *has_ended)
            }
        };
        let rows = works.iter_mut().flat_map(|work| &mut work.sets).flat_map(|set| &mut set.rows);
        let rows = rows.filter(|row| is_judged(row));
        let mut used = Vec::new();
        for ((row, judged), floor) in rows.zip(judged).zip(floor_plans) {
            // It keeps its place in the family, so the error rate of the others is what it was.
            let judged = often_unknown(row, side).map_or(judged, Judged::without_effect);
            if !matches!(judged.verdict, Verdict::Unjudged(_)) {
                used.extend(floor.map(|plan| (plan.started_unix_ns, plan.id.clone())));
            }
            row.cells[side].judged = Some(judged);
        }
        if self.pairing == Pairing::WithinRounds && self.looks.is_none() {
            let all =
                works.iter_mut().flat_map(|work| &mut work.sets).flat_map(|set| &mut set.rows);
            all.filter(|row| row.family == family).for_each(|row| count_lone_rounds(row, side));
        }
        used
    }
}

/// A side may lack values in this part of its runs.
const MAX_LACKING: f64 = 0.5;
/// A side may lack them in this part more of its runs than the other, and in this number of runs more at any rate.
const MAX_LACKING_MORE: f64 = 0.2;
const MAX_LACKING_BY_CHANCE: f64 = 1.0;

/// Why the values of a row are those of survivors: a p99 that is unknown where tasks starved is known in rounds that
/// went well.
pub(super) fn often_unknown(row: &Row, side: usize) -> Option<NoEffect> {
    let cells = [&row.cells[0], &row.cells[side]];
    let (lacking, runs) = (cells.map(|cell| cell.lacking), cells.map(|cell| cell.runs));
    let shares = cells.map(|cell| f64::from(cell.lacking) / f64::from(cell.runs.max(1)));
    let more = (shares[0] - shares[1]).abs();
    let more_runs = more * f64::from(runs[0].min(runs[1]));
    let is_often = shares.iter().any(|share| *share > MAX_LACKING)
        || (more > MAX_LACKING_MORE && more_runs > MAX_LACKING_BY_CHANCE);
    is_often.then_some(NoEffect::OftenUnknown { lacking, runs })
}

/// Adds to the rounds that a verdict needs those that will have no pair, as some of these had none.
fn count_lone_rounds(row: &mut Row, side: usize) {
    let [pairs, made] = row.rounds(side);
    if let Some(Judged { verdict: Verdict::Inconclusive { rounds, .. }, .. }) =
        &mut row.cells[side].judged
    {
        *rounds = rounds.of_made(pairs, made);
    }
}

/// A counter that a user asks for is judged: BETTER is shown as LESS, WORSE as MORE.
fn judged_direction(direction: Direction) -> Direction {
    match direction {
        Direction::Neutral => Direction::LowerIsBetter,
        other => other,
    }
}

/// The floor that counts where runs have one of A/A and one between plans, which has the scale of what
/// is compared.
fn larger(within: Option<Distance>, between: Option<Distance>) -> Option<Distance> {
    match (within, between) {
        (Some(within), Some(between)) => Some(within.max(between).unwrap_or(between)),
        (within, between) => between.or(within),
    }
}

/// Values of runs whose rounds are counted through, plan by plan.
fn by_plan(values: &[(u32, f64)], begins: &[u32]) -> Vec<Vec<f64>> {
    let plan_of = |round: u32| begins.partition_point(|begin| *begin <= round);
    let plans = values.chunk_by(|(one, _), (other, _)| plan_of(*one) == plan_of(*other));
    plans.map(|runs| runs.iter().map(|(_, value)| *value).collect()).collect()
}

/// The A/A plans of the machines of these plans, in the order of `heads`; none for A/A itself. Those
/// that started later than all of these plans do not count, so that an analysis never changes.
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

/// The smallest effects that this machine's own A/A plans resolve.
pub(super) struct Floors<'a>(Vec<WorkSamples<'a>>);

impl<'a> Floors<'a> {
    pub(super) fn from_plans(plans: &'a [SampledPlan]) -> Floors<'a> {
        Floors(plans.iter().flat_map(by_variant).collect())
    }

    /// From the newest A/A plan that has one, and that plan.
    pub(super) fn of_metric(
        &self,
        work: &WorkSamples,
        set: &str,
        metric: &str,
    ) -> Option<(Distance, &'a SampledPlan)> {
        let key = WorkKey { variant: None, ..work.key };
        let same = |known: &&WorkSamples| {
            let known = WorkKey { variant: None, ..known.key };
            known.label() == key.label() && known.difference(&key).is_none()
        };
        let mut known = self.0.iter().rev().filter(same);
        known.find_map(|work| Some((floor_of(work, set, metric)?, work.key.plan)))
    }
}

/// Fewer pairs have a wide interval whatever the machine.
const MIN_PAIRS: usize = 8;

/// How far from no change the interval of two equal sides goes.
fn floor_of(work: &WorkSamples, set: &str, metric: &str) -> Option<Distance> {
    let [Some(first), Some(again), ..] = work.sides.as_slice() else { return None };
    let mut metrics = first.series.iter().filter(|own| (own.set, &*own.kind.name) == (set, metric));
    metrics.find_map(|own| {
        let other = again.series.iter().find(|other| other.is_of(own))?;
        let effect = stats::paired_effect(&own.cell.values, &other.cell.values).ok()?;
        effect.reach().filter(|_| effect.pairs() >= MIN_PAIRS)
    })
}

#[cfg(test)]
mod tests;
