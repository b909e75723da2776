//! Knobs that only weigh workers against others, in a cell where nothing competes, and knobs that the cell's
//! sched_ext scheduler does not heed. Pure.

use std::fmt;

use crate::model::{Cell, Heeded, Value, WorkerSet};

use super::merged;

/// A knob that changes nothing in its cell, unless load from outside competes with it.
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
    /// The sched_ext scheduler does not heed it.
    Scheduler,
}

impl fmt::Display for KnobWithoutEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            WithoutEffect::OnAllWorkers => "all workers have it",
            WithoutEffect::OneCgroup => "no other cgroup competes with this one",
            WithoutEffect::Scheduler => "this sched_ext scheduler does not heed it",
        };
        write!(f, "{} {} changes nothing: {why}", self.knob, self.value)
    }
}

/// The first such knob of the cell. A cgroup in a pool may have neighbours, so that nothing is
/// known of its weight.
pub fn without_effect(cell: &Cell) -> Option<KnobWithoutEffect> {
    scheduler(cell).or_else(|| nice(cell)).or_else(|| cgroup(cell))
}

/// Knobs that our own schedulers do not heed; other schedulers are not known. They give slices of their own length.
fn scheduler(cell: &Cell) -> Option<KnobWithoutEffect> {
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
    all.into_iter().filter(|knob| is_ignored(knob)).find_map(|knob| {
        let value = knobs.clone().find(|(own, _)| *own == knob)?.1.clone();
        Some(KnobWithoutEffect { knob, value, why: WithoutEffect::Scheduler })
    })
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

fn cgroup(cell: &Cell) -> Option<KnobWithoutEffect> {
    let has_neighbours = cell.placement.pool.is_some();
    let why = WithoutEffect::OneCgroup;
    ["cgroup-weight", "cgroup-idle"].into_iter().filter(|_| !has_neighbours).find_map(|knob| {
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
    /// The variant's knobs, those of each set, and the finding.
    type Case = (Written, &'static [Written], Option<(&'static str, WithoutEffect)>);

    #[test]
    fn a_weight_that_weighs_against_nothing_is_found() {
        use WithoutEffect::{OnAllWorkers, OneCgroup, Scheduler};
        let cases: &[Case] = &[
            (&[("nice", "5")], &[], Some(("nice", OnAllWorkers))),
            (&[("nice", "5")], &[&[], &[]], Some(("nice", OnAllWorkers))),
            (&[], &[&[("nice", "5")]], Some(("nice", OnAllWorkers))),
            (&[("nice", "5")], &[&[], &[("nice", "5")]], Some(("nice", OnAllWorkers))),
            (&[("nice", "5")], &[&[], &[("nice", "6")]], None),
            (&[], &[&[("nice", "5")], &[]], None),
            (&[], &[&[], &[("nice", "5")]], None),
            (&[("nice", "5")], &[&[], &[("policy", "fifo")]], None),
            (&[("nice", "0")], &[], None),
            (&[("policy", "batch")], &[], None),
            (&[("cgroup-weight", "250")], &[], Some(("cgroup-weight", OneCgroup))),
            (
                &[("cgroup-weight", "250")],
                &[&[], &[("nice", "5")]],
                Some(("cgroup-weight", OneCgroup)),
            ),
            (&[("cgroup-weight", "100")], &[], None),
            (&[("cgroup-idle", "true")], &[], Some(("cgroup-idle", OneCgroup))),
            (&[("cgroup-idle", "false")], &[], None),
            (&[("cgroup-max", "50%")], &[], None),
            (
                &[("scx", "fifo"), ("nice", "5")],
                &[&[], &[("nice", "6")]],
                Some(("nice", Scheduler)),
            ),
            (&[("scx", "bad")], &[&[], &[("nice", "6")]], Some(("nice", Scheduler))),
            (&[("scx", "vtime")], &[&[], &[("nice", "6")]], None),
            (&[("scx", "vtime"), ("slice", "1ms")], &[], Some(("slice", Scheduler))),
            (&[("scx", "vtime"), ("cgroup-max", "50%")], &[], Some(("cgroup-max", Scheduler))),
            // It is not known what this scheduler heeds.
            (&[("scx", "./scx_lavd"), ("slice", "1ms")], &[&[], &[("nice", "6")]], None),
        ];
        for (written, sets, expected) in cases {
            let sets: Vec<_> = sets.iter().map(|set| knobs(set)).collect();
            let found = without_effect(&cell(variant(written), &sets));
            let found = found.map(|found| (found.knob, found.why));
            assert_eq!(found, *expected, "{written:?} {sets:?}");
        }
        let cgroups: [Group; 2] = [
            ("light", &[("cgroup-weight", "1")], None),
            ("heavy", &[("cgroup-weight", "10000")], None),
        ];
        for (scx, expected) in [("fifo", Some("cgroup-weight")), ("vtime", Some("cgroup-weight"))] {
            let cell = grouped(cell(variant(&[("scx", scx)]), &[]), &cgroups);
            assert_eq!(without_effect(&cell).map(|found| found.knob), expected, "{scx}");
        }
        assert_eq!(without_effect(&grouped(cell(variant(&[]), &[]), &cgroups)), None);
        let pooled = pooled(&[("cgroup-weight", "250")], "bench", None);
        assert_eq!(without_effect(&pooled), None, "the pool may have other cgroups");
    }
}
