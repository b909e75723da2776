//! Finds the notes of an analysis. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    DisturbanceKind, GuestKernel, KnobMismatch, PlanEnd, Reading, SampledPlan, Unmeasured,
};
use crate::stats::{Unjudged, Verdict};

use super::super::question::Question;
use super::super::samples::{Boots, Disturbed, WorkSamples, asked_kernel, guests, sessions};
use super::super::select::Selection;
use super::super::{Family, Pairing, Side, WorkTable};
use super::{Note, Pooled};

/// Fewer boots of a side do not show how much one boot differs from another.
const MIN_BOOTS: usize = 3;
/// Above this ratio of the spreads of unpaired sides verdicts are only approximate.
const MAX_SPREAD_RATIO: f64 = 2.0;

/// What notes are found in.
pub struct Context<'a> {
    pub plans: &'a [SampledPlan],
    pub question: &'a Question,
    pub sides: &'a [(Side, Boots)],
    pub pairing: Pairing,
    /// Works that have tables.
    pub shown: &'a [WorkSamples<'a>],
    /// Works that were not compared.
    pub left_out: &'a [WorkSamples<'a>],
}

/// All but those of [`unknown`] and the refusals, the worst first.
pub fn find(context: &Context, works: &[WorkTable]) -> Vec<Note> {
    let mut notes = unmeasured(context);
    notes.extend(no_ratio(context, works));
    notes.extend(knobs(context));
    notes.extend(spoilt(context));
    notes.extend(disturbances(context));
    notes.extend(without_effect(context));
    let several = context.sides.iter().filter(|(side, _)| side.runs > 0).count() > 1;
    if several && context.pairing == Pairing::None && !context.shown.is_empty() {
        notes.push(match context.sides.iter().all(|(side, _)| side.is_exact()) {
            true => unpaired_exact(context),
            false => Note::Unpaired,
        });
        notes.extend(spreads(works));
        notes.extend(boots(context.sides));
    }
    notes.extend(machines_differ(context));
    notes.extend(pooled(context));
    notes.extend(resumed(context));
    notes.extend(repeated(context));
    notes.extend(builds(context.sides));
    notes.extend(rebuilt(context));
    notes.extend(clocks(context));
    notes.extend(unfinished(context));
    notes.extend(other_runs(context));
    notes.extend(probe_silent(context.plans, works));
    notes.extend(no_solo(works));
    notes.sort_by_key(Note::severity);
    notes
}

/// Runs that failed or were skipped: of each work and side the most frequent reason. A variant
/// that was skipped for one reason has one note.
fn unmeasured(context: &Context) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    let asked = |work: &&WorkSamples| context.question.takes_work(work);
    for work in context.shown.iter().chain(context.left_out).filter(asked) {
        for (side, (selection, own)) in
            context.question.sides.iter().zip(&work.unmeasured).enumerate()
        {
            let measured = work.sides[side].as_ref().map_or(0, |values| values.runs);
            let (skipped, failed): (Vec<_>, Vec<_>) = own.iter().partition(|run| run.is_skipped);
            let label = || work.key.label();
            let side = || selection.label.clone();
            if let Some((reason, others)) = main_reason(&failed) {
                let (runs, of) = (failed.len(), measured + own.len());
                let (side, work) = (side(), label());
                notes.push(Note::Failed { side, work, runs, of, reason, others });
            }
            if let Some((reason, _)) = main_reason(&skipped) {
                let known = notes.iter_mut().find_map(|note| match note {
                    Note::Skipped { side, works, reason: known }
                        if *side == selection.label && *known == reason =>
                    {
                        Some(works)
                    }
                    _ => None,
                });
                match known {
                    Some(works) => works.push(label()),
                    None => {
                        notes.push(Note::Skipped { side: side(), works: vec![label()], reason });
                    }
                }
            }
        }
    }
    notes
}

/// The most frequent reason, the first of equally many, and the number of runs with another.
fn main_reason(runs: &[&&Unmeasured]) -> Option<(String, usize)> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for run in runs {
        match counts.iter_mut().find(|(reason, _)| *reason == run.reason) {
            Some((_, count)) => *count += 1,
            None => counts.push((&run.reason, 1)),
        }
    }
    let max = counts.iter().map(|(_, count)| *count).max()?;
    let (reason, _) = counts.iter().find(|(_, count)| *count == max)?;
    Some((reason.to_string(), runs.len() - max))
}

/// Headline metrics that are unknown in some runs of a side, those of one set in one note.
pub fn unknown(context: &Context, works: &[WorkTable]) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for (work, samples) in works.iter().zip(context.shown) {
        for (set, row) in work.sets.iter().flat_map(|set| set.rows.iter().map(move |r| (set, r))) {
            let sides = context.sides.iter().zip(&samples.sides).zip(&row.cells);
            for (((side, _), samples), cell) in sides {
                let of = samples.as_ref().map_or(0, |samples| samples.runs);
                let runs = of.saturating_sub(cell.values.len());
                if row.family != Family::Headline || runs == 0 {
                    continue;
                }
                let metric = row.kind.name.clone();
                let note = Note::NoValue {
                    side: side.label.clone(),
                    work: work.label.clone(),
                    set: set.name.clone(),
                    metrics: Vec::new(),
                    runs,
                    of,
                    reason: cell.unknown.first().map(|(_, reason)| reason.clone()),
                };
                add_unknown(&mut notes, note, metric);
            }
        }
    }
    notes
}

/// Adds the metric to the note that is the same but for its metrics.
fn add_unknown(notes: &mut Vec<Note>, note: Note, metric: String) {
    let without = |note: &Note| match note.clone() {
        Note::NoValue { side, work, set, runs, of, reason, .. } => {
            Note::NoValue { side, work, set, metrics: Vec::new(), runs, of, reason }
        }
        other => other,
    };
    let at = notes.iter().position(|known| without(known) == note).unwrap_or_else(|| {
        notes.push(note);
        notes.len() - 1
    });
    if let Note::NoValue { metrics, .. } = &mut notes[at] {
        metrics.push(metric);
    }
}

/// Headline rows whose values on both sides make no ratio.
fn no_ratio(context: &Context, works: &[WorkTable]) -> Vec<Note> {
    let mut notes = Vec::new();
    for work in works {
        for (set, row) in work.sets.iter().flat_map(|set| set.rows.iter().map(move |r| (set, r))) {
            if row.family != Family::Headline {
                continue;
            }
            for ((side, _), cell) in context.sides.iter().zip(&row.cells).skip(1) {
                if let Some(Verdict::Unjudged(Unjudged::NoRatio(why))) = cell.verdict() {
                    notes.push(Note::NoRatio {
                        side: side.label.clone(),
                        work: work.label.clone(),
                        set: set.name.clone(),
                        metric: row.kind.name.clone(),
                        why,
                    });
                }
            }
        }
    }
    notes
}

/// Knobs that read back as another value than asked. A knob that took in no run of a work makes
/// the side another variant than its name says.
fn knobs(context: &Context) -> Vec<Note> {
    let mut notes = Vec::new();
    for (at, (side, _)) in context.sides.iter().enumerate() {
        let mut never: Vec<(&KnobMismatch, Vec<String>)> = Vec::new();
        let mut found: Vec<(&KnobMismatch, usize, usize)> = Vec::new();
        for work in context.shown {
            let Some(values) = &work.sides[at] else { continue };
            for (knob, runs) in &values.mismatches {
                let same = |other: &&KnobMismatch| {
                    (&other.knob, &other.asked) == (&knob.knob, &knob.asked)
                };
                let own = values.mismatches.iter().filter(|(other, _)| same(other));
                if own.map(|(_, runs)| runs).sum::<usize>() >= values.runs {
                    match never.iter_mut().find(|(known, _)| same(known)) {
                        Some((_, works)) if works.last() == Some(&work.key.label()) => {}
                        Some((_, works)) => works.push(work.key.label()),
                        None => never.push((knob, vec![work.key.label()])),
                    }
                }
                match found.iter_mut().find(|(known, _, _)| known == knob) {
                    Some((_, count, of)) => {
                        *count += runs;
                        *of += values.runs;
                    }
                    None => found.push((knob, *runs, values.runs)),
                }
            }
        }
        let label = || side.label.clone();
        notes.extend(never.into_iter().map(|(KnobMismatch { knob, asked, .. }, works)| {
            Note::KnobNeverTook { side: label(), knob: knob.clone(), asked: asked.clone(), works }
        }));
        notes.extend(found.into_iter().map(|(mismatch, runs, of)| Note::Knob {
            side: label(),
            mismatch: mismatch.clone(),
            runs,
            of,
        }));
    }
    notes
}

/// Rounds that something from outside spoilt, by what was done with them.
fn spoilt(context: &Context) -> Vec<Note> {
    let (mut dropped, mut kept) = (Vec::new(), Vec::new());
    for work in context.shown {
        let values: Vec<_> = work.sides.iter().flatten().collect();
        let of = |count: fn(&super::super::samples::Values) -> (usize, usize)| {
            values.iter().map(|values| count(values)).max_by_key(|(spoilt, _)| *spoilt)
        };
        if let Some((rounds @ 1.., of)) = of(|v| (v.spoilt, v.spoilt + v.runs)) {
            dropped.push((work.key.label(), rounds, of));
        }
        if let Some((rounds @ 1.., of)) = of(|v| (v.kept_spoilt, v.runs)) {
            kept.push((work.key.label(), rounds, of));
        }
    }
    let dropped = (!dropped.is_empty()).then_some(Note::SpoiltRounds { works: dropped });
    let kept = (!kept.is_empty()).then_some(Note::AllSpoilt { works: kept });
    kept.into_iter().chain(dropped).collect()
}

/// What touched runs of any side from outside.
fn disturbances(context: &Context) -> Vec<Note> {
    let mut found: BTreeMap<DisturbanceKind, (Vec<usize>, Disturbed)> = BTreeMap::new();
    for work in context.shown {
        for (side, values) in work.sides.iter().enumerate() {
            for (kind, own) in values.iter().flat_map(|values| &values.disturbed) {
                let (runs, worst) =
                    found.entry(*kind).or_insert_with(|| (vec![0; context.sides.len()], *own));
                runs[side] += own.runs;
                if own.worst.share > worst.worst.share {
                    *worst = *own;
                }
            }
        }
    }
    let note = |(kind, (runs, worst)): (DisturbanceKind, (Vec<usize>, Disturbed))| {
        let sides = context.sides.iter().zip(runs);
        let runs = sides.map(|((side, _), runs)| (side.label.clone(), runs, side.runs)).collect();
        Note::Disturbed { kind, runs, worst: worst.worst.clone() }
    };
    found.into_iter().map(note).collect()
}

/// Knobs of a variant that cannot make a difference in a work.
fn without_effect(context: &Context) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for found in &context.question.without_effect {
        let known = notes.iter_mut().find_map(|note| match note {
            Note::KnobWithoutEffect { side, knob, works }
                if (&*side, &*knob) == (&found.side, &found.knob) =>
            {
                Some(works)
            }
            _ => None,
        });
        match known {
            Some(works) if works.contains(&found.work) => {}
            Some(works) => works.push(found.work.clone()),
            None => notes.push(Note::KnobWithoutEffect {
                side: found.side.clone(),
                knob: found.knob.clone(),
                works: vec![found.work.clone()],
            }),
        }
    }
    notes
}

/// Metrics in which one side scatters so much more than another that permuted labels no longer
/// stand for equal sides.
fn spreads(works: &[WorkTable]) -> Option<Note> {
    let rows = works.iter().flat_map(|work| &work.sets).flat_map(|set| &set.rows);
    let differs = |row: &&super::super::Row| {
        let own = row.cells.first().and_then(|cell| cell.cv);
        let others = row.cells.iter().skip(1).filter_map(|cell| cell.cv);
        let is_far = |own: f64, cv: f64| cv.max(own) > MAX_SPREAD_RATIO * cv.min(own);
        row.family == Family::Headline
            && own.is_some_and(|own| others.into_iter().any(|cv| is_far(own, cv)))
    };
    let metrics = rows.filter(differs).count();
    (metrics > 0).then_some(Note::SpreadsDiffer { metrics })
}

/// Exact sides of different plans: no load, heat or boot of a host is in the ratio.
fn unpaired_exact(context: &Context) -> Note {
    let plans_of = |side| sessions(context.shown, side).into_keys();
    let seeds: Vec<BTreeSet<(u64, u32)>> = (0..context.sides.len())
        .map(|side| {
            let plans = plans_of(side).map(|(plan, _)| &context.plans[plan].plan.measure);
            plans.map(|measure| (measure.seed, measure.rounds)).collect()
        })
        .collect();
    let emulators: BTreeSet<String> = (0..context.sides.len())
        .flat_map(plans_of)
        .filter_map(|(plan, session)| {
            match &context.plans[plan].environments[session as usize].cpu_model {
                Reading::Known(name) => Some(name.clone()),
                Reading::Unknown(_) => None,
            }
        })
        .collect();
    let same_seeds = seeds.windows(2).all(|pair| pair[0] == pair[1]);
    let emulators = if emulators.len() > 1 { emulators.into_iter().collect() } else { Vec::new() };
    Note::UnpairedExact { same_seeds, emulators }
}

/// Sides that differ in machine, where that is not what distinguishes them.
fn machines_differ(context: &Context) -> Option<Note> {
    let differ = |of: List| {
        let set = |side: &Side| of(side).iter().cloned().collect::<BTreeSet<String>>();
        context.sides.windows(2).any(|pair| set(&pair[0].0) != set(&pair[1].0))
    };
    if !differ(|side| &side.machines) || context.sides.iter().any(|(side, _)| side.runs == 0) {
        return None;
    }
    let variants =
        |side: &Side| side.variants.iter().map(|of| of.name.clone()).collect::<BTreeSet<_>>();
    let names_all = context.question.sides.iter().all(Selection::names_machines);
    let differ_otherwise = differ(|side| &side.kernels)
        || context.sides.windows(2).any(|pair| variants(&pair[0].0) != variants(&pair[1].0))
        || !names_all;
    let sides = context.sides.iter().map(|(side, _)| (side.label.clone(), side.machines.clone()));
    differ_otherwise.then(|| Note::MachinesDiffer { sides: sides.collect() })
}

type List = fn(&Side) -> &Vec<String>;

/// Sides that hold runs of several machines or kernels, those with the same list in one note.
fn pooled(context: &Context) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    let lists: [(Pooled, List); 2] =
        [(Pooled::Machines, |side| &side.machines), (Pooled::Kernels, |side| &side.kernels)];
    for (pooled, of) in lists {
        for (at, (side, _)) in context.sides.iter().enumerate() {
            // Sides that are whole plans of the lab compare each variant with itself.
            let by_variant =
                pooled == Pooled::Kernels && !side.guests.is_empty() && !pools_guests(context, at);
            if of(side).len() < 2 || by_variant {
                continue;
            }
            let known = notes.iter_mut().find_map(|note| match note {
                Note::Pooled { sides, what, names } if *what == pooled && names == of(side) => {
                    Some(sides)
                }
                _ => None,
            });
            match known {
                Some(sides) => sides.push(side.label.clone()),
                None => notes.push(Note::Pooled {
                    sides: vec![side.label.clone()],
                    what: pooled,
                    names: of(side).clone(),
                }),
            }
        }
    }
    notes
}

/// Whether some work of a side has runs on several kernels of the lab.
fn pools_guests(context: &Context, side: usize) -> bool {
    let values = context.shown.iter().filter_map(|work| work.sides[side].as_ref());
    let mut kernels = values.map(|values| {
        let kernel = |(plan, variant, guest): &(usize, &str, u32)| {
            let plan = &context.plans[*plan];
            (asked_kernel(plan, variant), &plan.guests[*guest as usize].kernel)
        };
        values.guests.keys().map(kernel).collect::<BTreeSet<_>>().len()
    });
    kernels.any(|kernels| kernels > 1)
}

/// Plans whose runs are of several machines or kernels.
fn resumed(context: &Context) -> Vec<Note> {
    let mut used: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    for side in 0..context.sides.len() {
        for (plan, session) in sessions(context.shown, side).into_keys() {
            used.entry(plan).or_default().insert(session);
        }
    }
    let note = |(plan, sessions): (usize, BTreeSet<u32>)| {
        let plan = &context.plans[plan];
        let mut places: Vec<(String, String)> = sessions
            .iter()
            .map(|session| &plan.environments[*session as usize])
            .map(|of| (of.kernel_release.clone(), of.hostname.clone()))
            .collect();
        places.dedup();
        (places.len() > 1).then(|| Note::ResumedElsewhere { plan: plan.id.clone(), places })
    };
    used.into_iter().filter_map(note).collect()
}

/// Where sides share no boot, a boot is a part of what is compared.
fn boots(sides: &[(Side, Boots)]) -> Option<Note> {
    let ((baseline, own), others) = sides.split_first()?;
    let own = own.as_ref().filter(|_| baseline.runs > 0)?;
    others.iter().filter(|(side, _)| side.runs > 0).find_map(|(other, boots)| {
        let boots = boots.as_ref()?;
        let is_few = own.is_disjoint(boots) && own.len().min(boots.len()) < MIN_BOOTS;
        is_few.then(|| Note::FewBoots {
            baseline: (baseline.label.clone(), own.len()),
            other: (other.label.clone(), boots.len()),
            needed: MIN_BOOTS,
        })
    })
}

/// Sides of which several plans have the same exact runs.
fn repeated(context: &Context) -> Vec<Note> {
    let of_side = |side: usize| -> usize {
        let values = context.shown.iter().filter_map(|work| work.sides[side].as_ref());
        values.map(|values| values.repeated).sum()
    };
    let note = |(at, (side, _)): (usize, &(Side, Boots))| {
        let runs = of_side(at);
        (runs > 0).then(|| Note::Repeated { side: side.label.clone(), runs })
    };
    context.sides.iter().enumerate().filter_map(note).collect()
}

/// Releases of which the sides ran several builds.
fn builds(sides: &[(Side, Boots)]) -> Vec<Note> {
    let mut builds: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (_, kernel) in sides.iter().flat_map(|(side, _)| &side.guests) {
        if let (Some(release), Some(digest)) = (&kernel.release, &kernel.digest) {
            let known = builds.entry(release).or_default();
            if !known.contains(digest) {
                known.push(digest.clone());
            }
        }
    }
    let several = builds.into_iter().filter(|(_, digests)| digests.len() > 1);
    several
        .map(|(release, digests)| Note::Builds { release: release.to_string(), digests })
        .collect()
}

/// Rounds of one variant on kernels that are not one and the same.
fn rebuilt(context: &Context) -> Vec<Note> {
    let mut kernels: BTreeMap<(usize, &str), Vec<&GuestKernel>> = BTreeMap::new();
    let all = (0..context.sides.len()).flat_map(|side| guests(context.shown, side).into_keys());
    for (plan, variant, guest) in all {
        let kernel = &context.plans[plan].guests[guest as usize].kernel;
        kernels.entry((plan, variant)).or_default().push(kernel);
    }
    let once = kernels.into_iter().map(|(of, kernels)| (of, GuestKernel::each_once(kernels)));
    let several = once.filter(|(_, kernels)| kernels.len() > 1);
    several
        .map(|((plan, variant), kernels)| Note::Rebuilt {
            plan: context.plans[plan].id.clone(),
            variant: variant.to_string(),
            kernels: kernels.iter().map(|kernel| kernel.to_string()).collect(),
        })
        .collect()
}

/// By which clocks the runs were measured.
fn clocks(context: &Context) -> Vec<Note> {
    let mut notes = Vec::new();
    let sides = || context.sides.iter().map(|(side, _)| side);
    let has = |of: fn(&Side) -> bool| sides().any(of);
    if has(|side| side.times.runs() > 0) && has(|side| side.runs > side.times.runs()) {
        notes.push(Note::HostAndLab);
    }
    for side in sides().filter(|side| side.times.not_exact > 0) {
        notes.push(Note::NotExact {
            side: side.label.clone(),
            runs: side.times.not_exact,
            of: side.times.runs(),
            why: side.times.why.clone().unwrap_or_default(),
        });
    }
    let coarse = sides().filter_map(|side| Some((side.label.clone(), side.coarse_timers_ns?)));
    let coarse: Vec<(String, u64)> = coarse.collect();
    if !coarse.is_empty() {
        notes.push(Note::CoarseTimers { sides: coarse });
    }
    let mut plans = context.plans.iter().filter(|plan| is_used(context, plan));
    if plans.any(|plan| plan.backend == SampledPlan::NULL) {
        notes.push(Note::Invented);
    }
    notes
}

fn is_used(context: &Context, plan: &SampledPlan) -> bool {
    context.sides.iter().any(|(side, _)| side.plans.contains(&plan.id))
}

fn unfinished(context: &Context) -> Option<Note> {
    let plans = context.plans.iter().filter(|plan| is_used(context, plan));
    let open = plans.filter(|plan| matches!(plan.ended, None | Some(PlanEnd::Interrupted)));
    let plans: Vec<String> = open.map(|plan| plan.id.clone()).collect();
    (!plans.is_empty()).then_some(Note::Unfinished { plans })
}

/// Runs of the selections that are in no table.
fn other_runs(context: &Context) -> Vec<Note> {
    let mut notes = Vec::new();
    for (at, selection) in context.question.sides.iter().enumerate() {
        let asked = context.left_out.iter().filter(|work| context.question.takes_work(work));
        let values = asked.filter_map(|work| work.sides[at].as_ref());
        let (mut runs, mut plans) = (0, BTreeSet::new());
        for ((plan, _), count) in values.flat_map(|values| &values.sessions) {
            runs += count;
            plans.insert(*plan);
        }
        if runs > 0 {
            let plans = plans.iter().map(|plan| context.plans[*plan].id.clone()).collect();
            notes.push(Note::OtherRuns { side: selection.label.clone(), runs, plans });
        }
    }
    notes
}

fn probe_silent(plans: &[SampledPlan], works: &[WorkTable]) -> Option<Note> {
    let probe = plans.iter().find_map(|plan| plan.plan.probes.first())?;
    let mut sets = works.iter().flat_map(|work| &work.sets);
    let is_silent = sets.any(|set| set.throughput().is_some() && set.switches().next().is_none());
    is_silent.then(|| Note::ProbeSilent { probe: probe.clone() })
}

/// Works that have solo runs of some of their sets alone.
fn no_solo(works: &[WorkTable]) -> Vec<Note> {
    let fairness = works.iter().filter_map(|work| Some((work, work.fairness.as_ref()?)));
    fairness
        .filter(|(_, table)| !table.missing.is_empty())
        .map(|(work, table)| Note::NoSolo { work: work.label.clone(), sets: table.missing.clone() })
        .collect()
}
