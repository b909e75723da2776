//! Finds the notes of an analysis. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    Disturbance, DisturbanceFact, DisturbanceKind, GuestKernel, KnobReading, MEANWHILE, PlanEnd,
    SCHED_PROBES, SampledPlan, SampledVersion, Unmeasured,
};
use crate::stats::{Unjudged, Verdict};

use super::lists::{cause, grouped, once};
use super::notes::{NoValue, Note, Pooled, UselessKnob};
use super::question::{Question, WithoutEffect};
use super::samples::{Boots, Values, WorkSamples, asked_kernel, guests, sessions, values};
use super::select::Selection;
use super::{FairnessTable, Family, Pairing, Place, Side, WorkTable};

/// Fewer boots of a side do not show how much one boot differs from another.
const MIN_BOOTS: usize = 3;
/// On a quiet machine the median sample is nearly as fast as the fastest.
const MAX_CALIBRATION_SPREAD: f64 = 0.05;
/// Calibrations of one quiet machine are nearer to each other.
const MAX_CALIBRATION_DIFFERENCE: f64 = 0.01;
/// By what share a machine's speed may change while a plan runs.
const MAX_CALIBRATION_DRIFT: f64 = 0.01;
/// Above this ratio of the spreads of unpaired sides verdicts are only approximate.
const MAX_SPREAD_RATIO: f64 = 2.0;

/// The data that notes are derived from.
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

impl Context<'_> {
    fn sides(&self) -> impl Iterator<Item = &Side> {
        self.sides.iter().map(|(side, _)| side)
    }

    /// Plans that some side has runs of.
    fn used_plans(&self) -> impl Iterator<Item = &SampledPlan> {
        let is_used = |plan: &&SampledPlan| self.sides().any(|side| side.plans.contains(&plan.id));
        self.plans.iter().filter(is_used)
    }
}

/// All but those of [`unknown`] and the refusals.
pub fn find(context: &Context, works: &[WorkTable]) -> Vec<Note> {
    let mut notes = unmeasured(context);
    notes.extend(no_ratio(context, works));
    notes.extend(knobs(context));
    notes.extend(spoilt(context));
    notes.extend(disturbances(context, works));
    notes.extend(without_effect(context));
    let several = context.sides().filter(|side| side.runs > 0).count() > 1;
    if several && context.pairing == Pairing::None && !context.shown.is_empty() {
        notes.push(if context.sides().all(Side::is_exact) {
            unpaired_exact(context)
        } else {
            Note::Unpaired
        });
        notes.extend(spreads(works));
        notes.extend(boots(context.sides));
    }
    notes.extend(machines_differ(context));
    // Over hosts they are what is judged, and each has its own speed.
    let over_hosts = context.pairing == Pairing::OverHosts;
    if !over_hosts {
        notes.extend(pooled(context));
    }
    notes.extend(resumed(context));
    notes.extend(repeated(context));
    notes.extend(builds(context));
    notes.extend(rebuilt(context));
    notes.extend(versions_differ(context));
    notes.extend(clocks(context));
    let is_open = |plan: &&SampledPlan| matches!(plan.ended, None | Some(PlanEnd::Interrupted));
    let open: Vec<&SampledPlan> = context.used_plans().filter(is_open).collect();
    let of_plan = |plan: &&SampledPlan| {
        let id = plan.id.clone();
        plan.missing_parts().into_iter().map(move |part| (id.clone(), part))
    };
    let missing = open.iter().flat_map(of_plan).collect();
    let ids = open.iter().map(|plan| plan.id.clone());
    notes.extend(some(ids, |plans| Note::Unfinished { plans, missing }));
    let gone = context.used_plans().filter_map(|plan| Some((plan.id.clone(), plan.gone_runs()?)));
    notes.extend(gone.map(|(plan, (runs, of))| Note::GoneRuns { plan, runs, of }));
    notes.extend(other_runs(context));
    notes.extend(context.plans.iter().filter_map(loose_calibration));
    let differ = calibrations_differ(context.plans).filter(|_| !over_hosts);
    notes.extend(differ.map(|(plans, share)| Note::CalibrationsDiffer { plans, share }));
    notes.extend(context.plans.iter().filter_map(calibration_drift));
    notes.extend(probe_silent(context.plans, works));
    notes.extend(no_solo(works));
    notes.extend(not_at_one_time(works));
    notes.extend(weights_unheeded(works));
    notes
}

/// The note of a list, where there is something in it.
fn some<T>(found: impl Iterator<Item = T>, note: impl FnOnce(Vec<T>) -> Note) -> Option<Note> {
    let found: Vec<T> = found.collect();
    (!found.is_empty()).then(|| note(found))
}

/// Notes that were found name by name, their lists still empty: each once, with all of its names.
pub fn merged(found: impl IntoIterator<Item = (Note, String)>) -> Vec<Note> {
    let notes = grouped(found).into_iter().map(|(note, names)| {
        let mut each = Vec::new();
        names.into_iter().for_each(|name| once(&mut each, name));
        note.with_names(each)
    });
    notes.collect()
}

/// Runs that failed or were skipped: of each work and side the most frequent reason; that of
/// skipped ones once.
fn unmeasured(context: &Context) -> Vec<Note> {
    let (mut notes, mut skips) = (Vec::new(), Vec::new());
    let works = context.shown.iter().chain(context.left_out);
    for work in works.filter(|work| context.question.takes_work(work)) {
        for (at, (own, side)) in work.unmeasured.iter().zip(&context.question.sides).enumerate() {
            let (skipped, failed): (Vec<_>, Vec<_>) = own.iter().partition(|run| run.is_skipped);
            if let Some((reason, others)) = main_reason(&failed) {
                let measured = work.sides[at].as_ref().map_or(0, |values| values.runs);
                let (runs, of) = (failed.len(), measured + own.len());
                let (side, work) = (side.label.clone(), work.label());
                notes.push(Note::Failed { side, work, runs, of, reason, others });
            }
            if let Some((reason, _)) = main_reason(&skipped) {
                skips.push(((side.label.clone(), reason), work.label()));
            }
        }
    }
    let of_sides =
        grouped(skips).into_iter().map(|((side, reason), works)| ((works, reason), side));
    let skipped = grouped(of_sides).into_iter();
    notes.extend(skipped.map(|((works, reason), sides)| Note::Skipped { sides, works, reason }));
    notes
}

/// A reason of the most frequent cause, the first of equally many, and the number of runs with another cause.
fn main_reason(runs: &[&&Unmeasured]) -> Option<(String, usize)> {
    let mut counts: BTreeMap<String, (usize, Reverse<usize>)> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        counts.entry(cause(&run.reason, |_| true)).or_insert((0, Reverse(at))).0 += 1;
    }
    let (count, Reverse(at)) = counts.into_values().max()?;
    let reason = &runs[at].reason;
    // The disturbances of one run are not those of the others.
    let own = reason.split_once(MEANWHILE).map_or(reason.as_str(), |(own, _)| own);
    let is_shared = runs.iter().all(|run| run.reason == *reason);
    Some((if is_shared { reason } else { own }.to_string(), runs.len() - count))
}

/// Rows of the metrics that the report is about, with their places.
fn headlines(work: &WorkTable) -> impl Iterator<Item = Place<'_>> {
    work.rows().filter(|(.., row)| row.family == Family::Headline)
}

/// Headline metrics that are unknown in some runs of a side, those of one set in one note.
pub fn unknown(context: &Context, works: &[WorkTable]) -> Vec<Note> {
    let mut found = Vec::new();
    for (table, samples) in works.iter().zip(context.shown) {
        for (work, set, row) in headlines(table) {
            for ((side, values), cell) in context.sides().zip(&samples.sides).zip(&row.cells) {
                let of = values.as_ref().map_or(0, |values| values.runs);
                let runs = of.saturating_sub(cell.values.len());
                if runs == 0 {
                    continue;
                }
                let note = NoValue {
                    side: side.label.clone(),
                    work: work.label.clone(),
                    set: set.name.clone(),
                    metrics: Vec::new(),
                    runs,
                    of,
                    reason: cell.unknown.first().map(|(_, reason)| reason.clone()),
                };
                found.push((Note::NoValue(note), row.kind.name.clone()));
            }
        }
    }
    merged(found)
}

fn no_ratio(context: &Context, works: &[WorkTable]) -> Vec<Note> {
    let mut found = Vec::new();
    for (work, set, row) in works.iter().flat_map(headlines) {
        for (side, cell) in context.sides().zip(&row.cells).skip(1) {
            if let Some(Verdict::Unjudged(Unjudged::NoEffect(why))) = cell.verdict() {
                found.push((
                    (work.label.clone(), set.name.clone(), &row.kind.name, why),
                    &side.label,
                ));
            }
        }
    }
    let of_metrics = grouped(found).into_iter();
    let of_metrics =
        of_metrics.map(|((work, set, metric, why), sides)| ((work, set, sides, why), metric));
    let notes = grouped(of_metrics).into_iter().map(|((work, set, sides, why), metrics)| {
        let [sides, metrics] = [sides, metrics].map(|names| names.into_iter().cloned().collect());
        Note::NoRatio { sides, work, set, metrics, why }
    });
    notes.collect()
}

/// Knobs that read back as another value than asked. A knob that took in no run of a work makes
/// the side another variant than its name says.
fn knobs(context: &Context) -> Vec<Note> {
    let mut notes = Vec::new();
    for (at, side) in context.sides().enumerate() {
        let label = || side.label.clone();
        let mut never: Vec<(Note, String)> = Vec::new();
        let mut found: Vec<(&KnobReading, usize, usize)> = Vec::new();
        for (work, values) in values(context.shown, at) {
            for (mismatch, runs) in &values.mismatches {
                let KnobReading { knob, asked, .. } = *mismatch;
                let own = values.mismatches.iter();
                let own = own.filter(|(other, _)| (&other.knob, &other.asked) == (knob, asked));
                if own.map(|(_, runs)| runs).sum::<usize>() >= values.runs {
                    let (knob, asked) = (knob.clone(), asked.clone());
                    let note =
                        Note::KnobNeverTook { side: label(), knob, asked, works: Vec::new() };
                    never.push((note, work.label()));
                }
                match found.iter_mut().find(|(known, ..)| known == mismatch) {
                    Some((_, count, of)) => (*count, *of) = (*count + runs, *of + values.runs),
                    None => found.push((mismatch, *runs, values.runs)),
                }
            }
        }
        notes.extend(merged(never));
        notes.extend(found.into_iter().map(|(mismatch, runs, of)| {
            let mismatch = mismatch.clone();
            Note::Knob { side: label(), mismatch, runs, of }
        }));
    }
    notes
}

/// Rounds that something from outside spoilt, by what was done with them.
fn spoilt(context: &Context) -> Vec<Note> {
    let most = |of: fn(&Values) -> (usize, usize)| {
        context.shown.iter().filter_map(move |work| {
            let counts = work.sides.iter().flatten().map(of);
            let (spoilt, of) = counts.max_by_key(|(spoilt, _)| *spoilt)?;
            (spoilt > 0).then(|| (work.label(), spoilt, of))
        })
    };
    let kept = most(|values| (values.kept_spoilt, values.runs));
    let dropped = most(|values| (values.spoilt, values.spoilt + values.runs));
    let kept = some(kept, |works| Note::AllSpoilt { works });
    kept.into_iter().chain(some(dropped, |works| Note::SpoiltRounds { works })).collect()
}

/// Counts the runs of each side for each kind, and keeps the worst.
fn disturbances(context: &Context, works: &[WorkTable]) -> Vec<Note> {
    let mut found: BTreeMap<(DisturbanceKind, bool), (Vec<usize>, &Disturbance)> = BTreeMap::new();
    for work in works {
        let sides = work.runs.iter().enumerate();
        for (side, run) in sides.flat_map(|(side, runs)| runs.iter().map(move |run| (side, run))) {
            let mut kinds = BTreeSet::new();
            for own in &context.plans[run.plan].runs[run.order].disturbances {
                let key = (own.kind(), touches_headline(work, &own.fact));
                let none = || (vec![0; context.sides.len()], own);
                let (runs, worst) = found.entry(key).or_insert_with(none);
                runs[side] += usize::from(kinds.insert(key));
                if own.size() > worst.size() {
                    *worst = own;
                }
            }
        }
    }
    let notes = found.into_iter().map(|((kind, touches_headline), (runs, worst))| {
        let runs = context.sides().zip(runs);
        let runs = runs.map(|(side, runs)| (side.label.clone(), runs, side.runs)).collect();
        match (touches_headline, worst.clone()) {
            (true, worst) => Note::Disturbed { kind, runs, worst },
            (false, worst) => Note::BoundElsewhere { runs, worst },
        }
    });
    notes.collect()
}

/// Latencies under way, and those that switches cut, make bounds of some metrics alone.
fn touches_headline(work: &WorkTable, fact: &DisturbanceFact) -> bool {
    let (DisturbanceFact::UnderWay { set, bounds, .. } | DisturbanceFact::Cut { set, bounds, .. }) =
        fact
    else {
        return true;
    };
    headlines(work).any(|(_, own, row)| own.name == *set && bounds.contains(&row.kind.name))
}

fn without_effect(context: &Context) -> Vec<Note> {
    merged(context.question.without_effect.iter().map(|found| {
        let WithoutEffect { side, knob, work, scheduler, own_of_sets } = found.clone();
        let works = Vec::new();
        let knob = UselessKnob { side, knob, works, scheduler, own_of_sets };
        (Note::KnobWithoutEffect(knob), work)
    }))
}

/// Metrics whose sides scatter so differently that permuted labels do not stand for equal sides.
fn spreads(works: &[WorkTable]) -> Option<Note> {
    let differs = |(.., row): &Place| {
        let mut spreads = row.cells.iter().map(|cell| cell.cv);
        let own = spreads.next().flatten();
        let is_far = |own: f64, cv: f64| cv.max(own) > MAX_SPREAD_RATIO * cv.min(own);
        own.is_some_and(|own| spreads.flatten().any(|cv| is_far(own, cv)))
    };
    let metrics = works.iter().flat_map(headlines).filter(differs).count();
    (metrics > 0).then_some(Note::SpreadsDiffer { metrics })
}

/// Exact sides of different plans: no load, heat or boot of a host is in the ratio.
fn unpaired_exact(context: &Context) -> Note {
    let (mut seeds, mut emulators) = (Vec::new(), BTreeSet::new());
    for side in 0..context.sides.len() {
        let mut own = BTreeSet::new();
        for (plan, session) in sessions(context.shown, side).into_keys() {
            let plan = &context.plans[plan];
            own.insert((plan.plan.measure.seed, plan.plan.measure.rounds));
            emulators.extend(plan.environments[session as usize].cpu_model.clone().known());
        }
        seeds.push(own);
    }
    let same_seeds = seeds.windows(2).all(|pair| pair[0] == pair[1]);
    let emulators = if emulators.len() > 1 { emulators.into_iter().collect() } else { Vec::new() };
    Note::UnpairedExact { same_seeds, emulators }
}

/// Sides that differ in machine, where that is not what distinguishes them.
fn machines_differ(context: &Context) -> Option<Note> {
    let differ = |of: fn(&Side) -> BTreeSet<&String>| {
        context.sides.windows(2).any(|pair| of(&pair[0].0) != of(&pair[1].0))
    };
    if !differ(|side| side.machines.iter().collect()) || context.sides().any(|side| side.runs == 0)
    {
        return None;
    }
    let differ_otherwise = differ(|side| side.kernels.iter().collect())
        || differ(|side| side.variants.iter().map(|variant| &variant.name).collect())
        || !context.question.sides.iter().all(Selection::names_machines);
    let sides = context.sides().map(|side| (side.label.clone(), side.machines.clone()));
    differ_otherwise.then(|| Note::MachinesDiffer { sides: sides.collect() })
}

/// Sides that hold runs of several machines or kernels, those with the same list in one note.
fn pooled(context: &Context) -> Vec<Note> {
    let side = |(at, side): (usize, &'_ Side)| {
        // Sides that are whole plans of the lab compare each variant with itself.
        let by_variant = !side.guests.is_empty() && !pools_guests(context, at);
        let kernels = if by_variant { Vec::new() } else { side.kernels.clone() };
        (side.label.clone(), side.machines.clone(), kernels)
    };
    let sides: Vec<_> = context.sides().enumerate().map(side).collect();
    let machines = sides.iter().map(|(side, names, _)| (side, Pooled::Machines, names));
    let kernels = sides.iter().map(|(side, _, names)| (side, Pooled::Kernels, names));
    let several = machines.chain(kernels).filter(|(.., names)| names.len() > 1);
    merged(several.map(|(side, what, names)| {
        (Note::Pooled { sides: Vec::new(), what, names: names.clone() }, side.clone())
    }))
}

/// Whether some work of a side has runs on several kernels of the lab.
fn pools_guests(context: &Context, side: usize) -> bool {
    values(context.shown, side).any(|(_, values)| {
        let kernels = values.guests.keys().map(|(plan, variant, guest)| {
            let plan = &context.plans[*plan];
            (asked_kernel(plan, variant), &plan.guests[*guest as usize].kernel)
        });
        kernels.collect::<BTreeSet<_>>().len() > 1
    })
}

fn resumed(context: &Context) -> Vec<Note> {
    let all = (0..context.sides.len()).flat_map(|side| sessions(context.shown, side).into_keys());
    let used = grouped(all.collect::<BTreeSet<_>>());
    let note = |(plan, sessions): (usize, Vec<u32>)| {
        let plan = &context.plans[plan];
        let environments = sessions.iter().map(|session| &plan.environments[*session as usize]);
        let places = environments.map(|of| (of.kernel_release.clone(), of.hostname.clone()));
        let mut places: Vec<(String, String)> = places.collect();
        places.dedup();
        // An imported plan has a session for each variant.
        let is_resumed = places.len() > 1 && plan.backend != SampledPlan::IMPORTED;
        is_resumed.then(|| Note::ResumedElsewhere { plan: plan.id.clone(), places })
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
        let baseline = (baseline.label.clone(), own.len());
        let other = (other.label.clone(), boots.len());
        is_few.then_some(Note::FewBoots { baseline, other, needed: MIN_BOOTS })
    })
}

fn repeated(context: &Context) -> Vec<Note> {
    let sides = context.sides().enumerate().map(|(at, side)| Note::Repeated {
        side: side.label.clone(),
        runs: values(context.shown, at).map(|(_, values)| values.repeated).sum(),
    });
    sides.filter(|note| !matches!(note, Note::Repeated { runs: 0, .. })).collect()
}

fn builds(context: &Context) -> Vec<Note> {
    let mut builds: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for (_, kernel) in context.sides().flat_map(|side| &side.guests) {
        if let (Some(release), Some(digest)) = (&kernel.release, &kernel.digest) {
            once(builds.entry(release).or_default(), digest.clone());
        }
    }
    let several = builds.into_iter().filter(|(_, digests)| digests.len() > 1);
    several.map(|(release, digests)| Note::Builds { release: release.clone(), digests }).collect()
}

fn rebuilt(context: &Context) -> Vec<Note> {
    let mut kernels: BTreeMap<(usize, &str), Vec<&GuestKernel>> = BTreeMap::new();
    let all = (0..context.sides.len()).flat_map(|side| guests(context.shown, side).into_keys());
    for (plan, variant, guest) in all {
        let kernel = &context.plans[plan].guests[guest as usize].kernel;
        kernels.entry((plan, variant)).or_default().push(kernel);
    }
    let once = kernels.into_iter().map(|(of, kernels)| (of, GuestKernel::each_once(kernels)));
    let several = once.filter(|(_, kernels)| kernels.len() > 1);
    let note = |((plan, variant), kernels): ((usize, &str), Vec<&GuestKernel>)| Note::Rebuilt {
        plan: context.plans[plan].id.clone(),
        variant: variant.to_string(),
        kernels: kernels.iter().map(|kernel| kernel.to_string()).collect(),
    };
    several.map(note).collect()
}

/// Programs that are not the same on all sides, or all the time on one.
fn versions_differ(context: &Context) -> Vec<Note> {
    // Works whose sets are called alike may run other programs.
    let mut found: BTreeMap<(&str, &str), BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    for plan in context.used_plans() {
        for SampledVersion { cell, set, version } in &plan.versions {
            let Some(cell) = plan.cells.get(*cell as usize) else { continue };
            if !context.shown.iter().any(|work| work.key.cell.work.name == cell.work.name) {
                continue;
            }
            for side in context.sides().filter(|side| side.plans.contains(&plan.id)) {
                if side.variants.iter().any(|variant| variant.name == cell.variant.name) {
                    let of = (cell.work.name.as_str(), set.as_str());
                    let sides = found.entry(of).or_default().entry(version).or_default();
                    once(sides, side.label.clone());
                }
            }
        }
    }
    let several = found.into_iter().filter(|(_, versions)| versions.len() > 1);
    let mut notes: Vec<Note> = Vec::new();
    for ((_, set), versions) in several {
        let versions = versions.into_iter().map(|(of, sides)| (of.to_string(), sides)).collect();
        // Several works may run one program: note it once.
        let note = Note::VersionsDiffer { set: set.to_string(), versions };
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

fn clocks(context: &Context) -> Vec<Note> {
    let mut notes = Vec::new();
    let has = |of: fn(&Side) -> bool| context.sides().any(of);
    if has(|side| side.times.runs() > 0) && has(|side| side.runs > side.times.runs()) {
        notes.push(Note::HostAndLab);
    }
    let not_exact = context.sides().filter(|side| side.times.not_exact > 0);
    notes.extend(not_exact.map(|side| Note::NotExact {
        side: side.label.clone(),
        runs: side.times.not_exact,
        of: side.times.runs(),
        why: side.times.why.clone().unwrap_or_default(),
    }));
    let coarse = |side: &Side| Some((side.label.clone(), side.coarse_timers_ns?));
    let coarse = context.sides().filter_map(coarse);
    notes.extend(some(coarse, |sides| Note::CoarseTimers { sides }));
    let is_invented = context.used_plans().any(|plan| plan.backend == SampledPlan::NULL);
    notes.extend(is_invented.then_some(Note::Invented));
    notes
}

/// Runs of the selections that are in no table.
fn other_runs(context: &Context) -> Vec<Note> {
    let mut notes = Vec::new();
    for (at, selection) in context.question.sides.iter().enumerate() {
        let asked = values(context.left_out, at);
        let asked = asked.filter(|(work, _)| context.question.takes_work(work));
        let (mut runs, mut plans) = (0, BTreeSet::new());
        for ((plan, _), count) in asked.flat_map(|(_, values)| &values.sessions) {
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

/// Sessions that go on keep the first calibration.
fn loose_calibration(plan: &SampledPlan) -> Option<Note> {
    let spread = plan.environments.first()?.calibration?.spread;
    (spread > MAX_CALIBRATION_SPREAD)
        .then(|| Note::LooseCalibration { plan: plan.id.clone(), spread })
}

/// The plans in which the same time was least and most work, and by what share more, where that
/// matters. Guests have no calibration that is stored.
pub fn calibrations_differ(plans: &[SampledPlan]) -> Option<([String; 2], f64)> {
    let calibrated = plans
        .iter()
        .filter_map(|plan| Some((plan.environments.first()?.calibration?.kop_ps, &plan.id)));
    let (least, most) = (calibrated.clone().max()?, calibrated.min()?);
    let share = least.0 as f64 / most.0 as f64 - 1.0;
    let plans = [least, most].map(|(_, id)| id.clone());
    (share > MAX_CALIBRATION_DIFFERENCE).then_some((plans, share))
}

/// The largest change of the machine's speed from the first calibration to the end of a session.
fn calibration_drift(plan: &SampledPlan) -> Option<Note> {
    let first_ps = plan.environments.first()?.calibration?.kop_ps as f64;
    let ends = plan.environments.iter().filter_map(|session| session.calibration_at_end);
    let drifts = ends.map(|end| end.kop_ps as f64 / first_ps - 1.0);
    let slower = drifts.max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
    (slower.abs() > MAX_CALIBRATION_DRIFT)
        .then(|| Note::CalibrationDrift { plan: plan.id.clone(), slower })
}

fn probe_silent(plans: &[SampledPlan], works: &[WorkTable]) -> Option<Note> {
    let mut probes = plans.iter().flat_map(|plan| &plan.plan.probes);
    let probe = probes.find(|probe| SCHED_PROBES.contains(&probe.as_str()))?;
    let mut sets = works.iter().flat_map(|work| &work.sets);
    let is_silent = sets.any(|set| set.throughput().is_some() && set.switches().next().is_none());
    is_silent.then(|| Note::ProbeSilent { probe: probe.clone() })
}

fn no_solo(works: &[WorkTable]) -> Vec<Note> {
    let missing = works.iter().filter_map(|work| Some((work, &work.fairness.as_ref()?.missing)));
    let note = |(work, sets): (&WorkTable, &Vec<String>)| {
        (!sets.is_empty()).then(|| Note::NoSolo { work: work.label.clone(), sets: sets.clone() })
    };
    missing.filter_map(note).collect()
}

fn weights_unheeded(works: &[WorkTable]) -> Vec<Note> {
    let tables = works.iter().filter_map(|work| Some((work, work.fairness.as_ref()?)));
    let note = |(work, table): (&WorkTable, &FairnessTable)| {
        let work = work.label.clone();
        let of = table.unheeded.clone().into_iter();
        of.map(move |of| Note::WeightsUnheeded { work: work.clone(), of })
    };
    // Sides of one variant have one table.
    let mut notes = Vec::new();
    tables.flat_map(note).for_each(|note| once(&mut notes, note));
    notes
}

/// Only works whose sets have all the solo runs that fairness needs.
fn not_at_one_time(works: &[WorkTable]) -> Vec<Note> {
    let tables = works.iter().filter_map(|work| Some((work, work.fairness.as_ref()?)));
    let phased = tables.filter(|(_, table)| table.missing.is_empty() && !table.phased.is_empty());
    let note = |(work, table): (&WorkTable, &FairnessTable)| Note::NotAtOneTime {
        work: work.label.clone(),
        sets: table.phased.clone(),
    };
    phased.map(note).collect()
}
