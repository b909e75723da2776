//! Knobs that only weigh workers against others, in a cell where nothing competes, knobs that each worker set has for
//! itself, and knobs that the cell's sched_ext scheduler does not heed. Pure.

use std::fmt;

use crate::model::{Cell, Heeded, Value, WorkerSet};

use super::{merged, set_fields};

/// A knob that changes nothing in its cell. A weight does where load from outside competes with it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnobWithoutEffect {
    pub knob: &'static str,
    pub value: Value,
    pub why: WithoutEffect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutEffect {
    /// Every worker of the cell has it, so that no two differ.
    OnAllWorkers,
    /// All workers are in the one cgroup of the run, which competes with no other.
    OneCgroup,
    /// Each worker set has its own, which wins over that of the variant, or a policy of its own, to which that of the
    /// variant does not belong.
    OwnOfSets,
    /// The sched_ext scheduler does not heed it.
    Scheduler,
}

impl fmt::Display for KnobWithoutEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            WithoutEffect::OnAllWorkers => "all workers have it",
            WithoutEffect::OwnOfSets => "each worker set has its own value or policy",
            WithoutEffect::OneCgroup => "no other cgroup competes with this one",
            WithoutEffect::Scheduler => "this sched_ext scheduler does not heed it",
        };
        write!(f, "{} {} changes nothing: {why}", self.knob, self.value)
    }
}

/// All such knobs of the cell, each once. A cgroup in a pool may have neighbours, so that nothing is
/// known of its weight.
pub fn without_effect(cell: &Cell) -> Vec<KnobWithoutEffect> {
    let mut all = scheduler(cell);
    for found in own_of_sets(cell).into_iter().chain(nice(cell)).chain(cgroup(cell)) {
        if all.iter().all(|one| one.knob != found.knob) {
            all.push(found);
        }
    }
    all
}

/// Knobs that our own schedulers do not heed; other schedulers are not known. They give slices of their own length.
fn scheduler(cell: &Cell) -> Vec<KnobWithoutEffect> {
    let heeded = Heeded::by(cell.variant.scx());
    let is_ignored = |knob: &str| match knob {
        "nice" => heeded.nice == Some(false),
        _ => heeded.cgroups == Some(false),
    };
    let sets = cell.work.sets.iter();
    let sets = sets.flat_map(|set| set.changes.iter().map(|of| &of.knobs).chain([&set.knobs]));
    let cgroups = cell.work.cgroups.iter();
    let cgroups =
        cgroups.flat_map(|of| of.changes.iter().map(|change| &change.knobs).chain([&of.knobs]));
    let knobs = [&cell.variant.knobs].into_iter().chain(sets).chain(cgroups).flatten();
    let all = ["cgroup-weight", "cgroup-max", "cgroup-idle", "nice", "slice"];
    let ignored = all.into_iter().filter(|knob| is_ignored(knob)).filter_map(|knob| {
        let value = knobs.clone().find(|(own, _)| *own == knob)?.1.clone();
        Some(KnobWithoutEffect { knob, value, why: WithoutEffect::Scheduler })
    });
    ignored.collect()
}

fn own_of_sets(cell: &Cell) -> Vec<KnobWithoutEffect> {
    let Cell { variant, work, .. } = cell;
    let fields = set_fields().into_iter();
    let found =
        fields.filter_map(|field| {
            let value = variant.knobs.get(field.name)?.clone();
            let is_hidden = |set: &WorkerSet| {
                let is_dropped = || {
                    let own = merged(&variant.knobs, &set.knobs);
                    set.changes.is_empty() && !own.contains_key(field.name)
                };
                set.knobs.contains_key(field.name) || is_dropped()
            };
            let why = WithoutEffect::OwnOfSets;
            (!work.sets.is_empty() && work.sets.iter().all(is_hidden))
                .then_some(KnobWithoutEffect { knob: field.name, value, why })
        });
    found.collect()
}

fn nice(cell: &Cell) -> Option<KnobWithoutEffect> {
    let nice = |set: &WorkerSet| merged(&cell.variant.knobs, &set.knobs).get("nice").cloned();
    if cell.work.sets.iter().any(|set| !set.changes.is_empty()) {
        return None;
    }
    let (first, others) = cell.work.sets.split_first()?;
    let value = nice(first).filter(|value| *value != Value::Int(0))?;
    let is_same = others.iter().all(|set| nice(set).as_ref() == Some(&value));
    let why = WithoutEffect::OnAllWorkers;
    is_same.then_some(KnobWithoutEffect { knob: "nice", value, why })
}

fn cgroup(cell: &Cell) -> impl Iterator<Item = KnobWithoutEffect> {
    let has_neighbours = cell.placement.pool.is_some();
    let why = WithoutEffect::OneCgroup;
    let weights = ["cgroup-weight", "cgroup-idle"].into_iter().filter(move |_| !has_neighbours);
    weights.filter_map(move |knob| {
        let value = cell.variant.knobs.get(knob)?.clone();
        let is_usual = value == Value::Int(100) || value == Value::Bool(false);
        (!is_usual).then_some(KnobWithoutEffect { knob, value, why })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::testing::{Group, cell, grouped, knobs, pooled, variant};

    type Written = &'static [(&'static str, &'static str)];
    /// The variant's knobs, those of each set, and the findings.
    type Case = (Written, &'static [Written], &'static [(&'static str, WithoutEffect)]);

    #[test]
    fn a_weight_that_weighs_against_nothing_is_found() {
        use WithoutEffect::{OnAllWorkers, OneCgroup, OwnOfSets, Scheduler};
        let cases: &[Case] = &[
            (&[("nice", "5")], &[], &[("nice", OnAllWorkers)]),
            (&[("nice", "5")], &[&[], &[]], &[("nice", OnAllWorkers)]),
            (&[], &[&[("nice", "5")]], &[("nice", OnAllWorkers)]),
            (&[("nice", "5")], &[&[], &[("nice", "5")]], &[("nice", OnAllWorkers)]),
            (&[("nice", "5")], &[&[], &[("nice", "6")]], &[]),
            (&[], &[&[("nice", "5")], &[]], &[]),
            (&[], &[&[], &[("nice", "5")]], &[]),
            (&[("nice", "5")], &[&[], &[("policy", "fifo")]], &[]),
            (&[("nice", "0")], &[], &[]),
            (&[("nice", "5")], &[&[("nice", "0")]], &[("nice", OwnOfSets)]),
            (&[("slice", "100us")], &[&[("slice", "3ms")]], &[("slice", OwnOfSets)]),
            (&[("slice", "100us")], &[&[("slice", "3ms")], &[]], &[]),
            (&[("slice", "3ms")], &[&[("policy", "idle")]], &[("slice", OwnOfSets)]),
            (&[("slice", "3ms")], &[&[("policy", "idle")], &[]], &[]),
            (&[("nice", "5")], &[&[("policy", "fifo")], &[("nice", "1")]], &[("nice", OwnOfSets)]),
            (&[("uclamp-min", "10%")], &[&[("policy", "idle")]], &[]),
            (&[("policy", "batch")], &[], &[]),
            (&[("cgroup-weight", "250")], &[], &[("cgroup-weight", OneCgroup)]),
            (
                &[("cgroup-weight", "250")],
                &[&[], &[("nice", "5")]],
                &[("cgroup-weight", OneCgroup)],
            ),
            (&[("cgroup-weight", "100")], &[], &[]),
            (&[("cgroup-idle", "true")], &[], &[("cgroup-idle", OneCgroup)]),
            (&[("cgroup-idle", "false")], &[], &[]),
            (&[("cgroup-max", "50%")], &[], &[]),
            (&[("scx", "fifo"), ("nice", "5")], &[&[], &[("nice", "6")]], &[("nice", Scheduler)]),
            (&[("scx", "bad")], &[&[], &[("nice", "6")]], &[("nice", Scheduler)]),
            (&[("scx", "vtime")], &[&[], &[("nice", "6")]], &[]),
            (&[("scx", "vtime"), ("slice", "1ms")], &[], &[("slice", Scheduler)]),
            (&[("scx", "vtime"), ("cgroup-max", "50%")], &[], &[("cgroup-max", Scheduler)]),
            (
                &[("scx", "fifo"), ("nice", "5"), ("slice", "3ms"), ("cgroup-max", "50%")],
                &[],
                &[("cgroup-max", Scheduler), ("nice", Scheduler), ("slice", Scheduler)],
            ),
            (
                &[("nice", "5"), ("cgroup-weight", "300")],
                &[],
                &[("nice", OnAllWorkers), ("cgroup-weight", OneCgroup)],
            ),
            // It is not known what this scheduler heeds.
            (&[("scx", "./scx_lavd"), ("slice", "1ms")], &[&[], &[("nice", "6")]], &[]),
        ];
        for (written, sets, expected) in cases {
            let sets: Vec<_> = sets.iter().map(|set| knobs(set)).collect();
            let found = without_effect(&cell(variant(written), &sets));
            let found: Vec<_> = found.into_iter().map(|found| (found.knob, found.why)).collect();
            assert_eq!(found, *expected, "{written:?} {sets:?}");
        }
        let cgroups: [Group; 2] = [
            ("light", &[("cgroup-weight", "1")], None),
            ("heavy", &[("cgroup-weight", "10000")], None),
        ];
        for scx in ["fifo", "vtime"] {
            let own = variant(&[("scx", scx), ("slice", "1ms")]);
            let found = without_effect(&grouped(cell(own, &[]), &cgroups));
            let found: Vec<_> = found.into_iter().map(|found| found.knob).collect();
            assert_eq!(found, ["cgroup-weight", "slice"], "{scx}");
        }
        assert_eq!(without_effect(&grouped(cell(variant(&[]), &[]), &cgroups)), []);
        let pooled = pooled(&[("cgroup-weight", "250")], "bench", None);
        assert_eq!(without_effect(&pooled), [], "the pool may have other cgroups");
    }
}
