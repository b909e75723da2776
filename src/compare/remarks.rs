//! What a reader of verdicts has to know beside them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{DisturbanceKind, PlanEnd, SampledPlan};

use super::build::Question;
use super::gather::{Boots, Gathered, Untaken, sessions};
use super::select::Selection;
use super::{Pairing, Row, Side, WorkTable, lab};

/// Fewer boots of a side do not show how much one boot differs from another.
const MIN_BOOTS: usize = 3;

/// Above this ratio of the spreads of unpaired sides verdicts are only approximate.
const MAX_SPREAD: f64 = 2.0;

/// Of sides that are not paired: where one scatters so much more than the other that permuted
/// labels no longer stand for equal sides.
fn spreads(works: &[WorkTable]) -> Option<String> {
    let rows = works.iter().flat_map(|work| &work.sets).flat_map(|set| &set.rows);
    let differs = |row: &&Row| {
        let own = row.cells.first().and_then(|cell| cell.cv);
        let others = row.cells.iter().skip(1).filter_map(|cell| cell.cv);
        own.is_some_and(|own| others.into_iter().any(|cv| cv.max(own) > MAX_SPREAD * cv.min(own)))
    };
    let count = rows.filter(differs).count();
    (count > 0).then(|| {
        format!(
            "In {count} of the metrics one side scatters more than twice as much as another: \
             BETTER and WORSE are approximate there (docs/verdicts.md)."
        )
    })
}

/// What the remarks are made from.
pub struct Basis<'a> {
    pub plans: &'a [SampledPlan],
    pub question: &'a Question,
    pub sides: &'a [(Side, Boots)],
    pub pairing: Pairing,
    /// Works whose values are in tables.
    pub shown: &'a [Gathered<'a>],
    /// Works that were not compared.
    pub left_out: &'a [Gathered<'a>],
}

pub fn remarks(basis: &Basis, works: &[WorkTable]) -> Vec<String> {
    let Basis { sides, pairing, .. } = *basis;
    let mut remarks = Vec::new();
    let is_ratio = !basis.shown.is_empty();
    if is_ratio && pairing == Pairing::None {
        remarks.push(match sides.iter().all(|(side, _)| side.is_exact()) {
            true => lab::apart(basis),
            false => "The sides were not measured in the same rounds: what changed on the machine \
                      between them (its load, heat, settings) is in the ratio and in no interval."
                .to_string(),
        });
        remarks.extend(spreads(works));
    }
    remarks.extend(machines_differ(basis));
    remarks.extend(pooled(basis));
    remarks.extend(resumed(basis));
    remarks.extend(lab::repeated(basis));
    remarks.extend(lab::builds(sides));
    remarks.extend(lab::rebuilt(basis.plans, basis.shown, sides.len()));
    remarks.extend(boots(sides).filter(|_| is_ratio));
    remarks.extend(knobs(basis));
    remarks.extend(disturbances(basis));
    let places: BTreeSet<&String> = sides.iter().flat_map(|(side, _)| &side.backends).collect();
    if places.contains(&"lab".to_string()) && places.len() > 1 {
        remarks.push(
            "Virtual time and a host's are beside each other (--mixed): one instruction takes a \
             fixed time in the lab, where there are no caches."
                .to_string(),
        );
    }
    let mut backends = sides.iter().flat_map(|(side, _)| &side.backends);
    if backends.any(|backend| backend == "null") {
        remarks.push("The backend null invents its figures.".to_string());
    }
    let is_used = |plan: &&SampledPlan| sides.iter().any(|(side, _)| side.plans.contains(&plan.id));
    let is_unfinished =
        |plan: &&SampledPlan| matches!(plan.ended, None | Some(PlanEnd::Interrupted));
    let unfinished = basis.plans.iter().filter(is_used).filter(is_unfinished);
    let unfinished: Vec<&str> = unfinished.map(|plan| plan.id.as_str()).collect();
    if !unfinished.is_empty() {
        let ids = unfinished.join(", ");
        remarks
            .push(format!("Not ended yet, or interrupted, and compared as far as it went: {ids}."));
    }
    remarks.extend(besides(basis));
    remarks
}

/// Where sides differ in machine beside what they are told apart by.
fn machines_differ(basis: &Basis) -> Option<String> {
    let differ = |of: List| {
        let set = |side: &Side| of(side).iter().cloned().collect::<BTreeSet<String>>();
        basis.sides.windows(2).any(|pair| set(&pair[0].0) != set(&pair[1].0))
    };
    if !differ(|side| &side.machines) || basis.sides.iter().any(|(side, _)| side.runs == 0) {
        return None;
    }
    let variants = |at: usize| {
        let values = basis.shown.iter().filter_map(move |work| work.sides[at].as_ref());
        values.flat_map(|values| &values.variants).map(|of| &of.name).collect::<BTreeSet<_>>()
    };
    let all_named = basis.question.sides.iter().all(Selection::names_machines);
    let differ_besides = differ(|side| &side.kernels)
        || (1..basis.sides.len()).any(|at| variants(at) != variants(0))
        || !all_named;
    let told = |(side, _): &(Side, Boots)| format!("{} on {}", side.label, listed(&side.machines));
    let told: Vec<String> = basis.sides.iter().map(told).collect();
    differ_besides.then(|| {
        let told = told.join("; ");
        format!("The sides differ in machine too ({told}): the ratio holds that as well.")
    })
}

type List = fn(&Side) -> &Vec<String>;

/// Where a side holds runs of several machines or kernels; sides alike are told together.
fn pooled(basis: &Basis) -> Vec<String> {
    let mut remarks = Vec::new();
    let lists: [(&str, List); 2] =
        [("machines", |side| &side.machines), ("kernels", |side| &side.kernels)];
    for (what, of) in lists {
        let mut groups: Vec<(&Vec<String>, Vec<String>)> = Vec::new();
        for (at, (side, _)) in basis.sides.iter().enumerate() {
            let are_apart = what == "kernels" && !side.guests.is_empty() && !lab::pools(basis, at);
            if of(side).len() < 2 || are_apart {
                continue;
            }
            match groups.iter_mut().find(|(list, _)| *list == of(side)) {
                Some((_, labels)) => labels.push(side.label.clone()),
                None => groups.push((of(side), vec![side.label.clone()])),
            }
        }
        for (list, labels) in groups {
            let (list, verb) = (listed(list), if labels.len() == 1 { "pools" } else { "pool" });
            let labels = listed(&labels);
            remarks.push(format!(
                "{labels} {verb} the {what} {list}: what differs between them is in the spread, \
                 and a verdict is on all together."
            ));
        }
    }
    remarks
}

/// Plans whose runs are of several machines or kernels.
fn resumed(basis: &Basis) -> Vec<String> {
    let mut used: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    for side in 0..basis.sides.len() {
        for (plan, session) in sessions(basis.shown, side).into_keys() {
            used.entry(plan).or_default().insert(session);
        }
    }
    let mut remarks = Vec::new();
    for (plan, sessions) in used {
        let plan = &basis.plans[plan];
        let mut places: Vec<String> = sessions
            .iter()
            .map(|session| &plan.environments[*session as usize])
            .map(|of| format!("{} on {}", of.kernel_release, of.hostname))
            .collect();
        places.dedup();
        if places.len() > 1 {
            let places = places.join(", then ");
            remarks.push(format!("{} was resumed elsewhere: {places}.", plan.id));
        }
    }
    remarks
}

/// Knobs that read back otherwise than asked, of each side.
fn knobs(basis: &Basis) -> Vec<String> {
    let mut remarks = Vec::new();
    for (at, (side, _)) in basis.sides.iter().enumerate() {
        let mut found: BTreeMap<&Untaken, (usize, usize)> = BTreeMap::new();
        for values in basis.shown.iter().filter_map(|work| work.sides[at].as_ref()) {
            for (knob, count) in &values.untaken {
                let (untaken, runs) = found.entry(knob).or_default();
                *untaken += count;
                *runs += values.runs;
            }
        }
        for ((knob, asked, got), (untaken, runs)) in found {
            remarks.push(format!(
                "{}: the knob {knob} was asked {asked} and read back {got} in {untaken} of {runs} \
                 runs.",
                side.label
            ));
        }
    }
    remarks
}

/// What touched runs of any side from outside.
fn disturbances(basis: &Basis) -> Vec<String> {
    let mut found: BTreeMap<DisturbanceKind, Vec<usize>> = BTreeMap::new();
    for work in basis.shown {
        for (side, values) in work.sides.iter().enumerate() {
            for (kind, runs) in values.iter().flat_map(|values| &values.disturbed) {
                found.entry(*kind).or_insert_with(|| vec![0; basis.sides.len()])[side] += runs;
            }
        }
    }
    let sentence = |(kind, counts): (DisturbanceKind, Vec<usize>)| {
        let sides = basis.sides.iter().zip(counts);
        let told = sides.map(|((side, _), count)| (count, side.runs, &side.label));
        let told: Vec<String> =
            told.map(|(n, runs, of)| format!("{n} of {runs} runs of {of}")).collect();
        format!("Disturbed: {} in {}.", word(kind), told.join(", "))
    };
    found.into_iter().map(sentence).collect()
}

fn word(kind: DisturbanceKind) -> &'static str {
    match kind {
        DisturbanceKind::Steal => "steal",
        DisturbanceKind::OutsideLoad => "load from outside",
        DisturbanceKind::Throttling => "throttling",
        DisturbanceKind::FrequencyChange => "a change of frequency",
        DisturbanceKind::ClockSourceChange => "a change of the clock source",
        DisturbanceKind::ClockStep => "a step of the clock",
        DisturbanceKind::CpuHotplug => "CPUs that went or came",
        DisturbanceKind::StarvedWorkers => "starved workers",
    }
}

/// What selections have beside what is in tables.
fn besides(basis: &Basis) -> Vec<String> {
    let mut remarks = Vec::new();
    for (at, selection) in basis.question.sides.iter().enumerate() {
        let asked: Vec<&Gathered> =
            basis.left_out.iter().filter(|work| basis.question.takes_work(work)).collect();
        let values = asked.iter().filter_map(|work| work.sides[at].as_ref());
        let (mut runs, mut plans) = (0, BTreeSet::new());
        for ((plan, _), count) in values.flat_map(|values| &values.sessions) {
            runs += count;
            plans.insert(*plan);
        }
        if runs > 0 {
            let ids: Vec<String> = plans.iter().map(|plan| basis.plans[*plan].id.clone()).collect();
            let (ids, label) = (listed(&ids), &selection.label);
            remarks.push(format!(
                "{label} has {runs} runs besides, in {ids}, of work that was not compared."
            ));
        }
    }
    remarks
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Where sides share no boot, a boot is a part of what is compared.
fn boots(sides: &[(Side, Boots)]) -> Option<String> {
    let ((baseline, own), others) = sides.split_first()?;
    let own = own.as_ref()?;
    for (other, boots) in others {
        // What is not known of one side says nothing about the others.
        let Some(boots) = boots else { continue };
        let shares = !own.is_disjoint(boots);
        let fewest = own.len().min(boots.len());
        if !shares && fewest < MIN_BOOTS {
            return Some(format!(
                "Boot-to-boot variation is not covered: {} was measured in {} and {} in {}. To \
                 cover it, reboot into each in turn, {MIN_BOOTS} times or more, run the plan \
                 each time, and compare all of these plans.",
                baseline.label,
                count(own.len()),
                other.label,
                count(boots.len()),
            ));
        }
    }
    None
}

fn count(boots: usize) -> String {
    if boots == 1 { "one boot".to_string() } else { format!("{boots} boots") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Cell, SetTable};
    use crate::model::{Direction, Unit};

    #[test]
    fn sides_that_scatter_unlike_each_other_are_told() {
        let cell = |cv| Cell {
            values: Vec::new(),
            mean: None,
            hmean: None,
            median: None,
            cv,
            judged: None,
            shapes: Vec::new(),
        };
        let row = |own, other| Row {
            metric: "throughput".to_string(),
            unit: Unit::OpsPerS,
            direction: Direction::HigherIsBetter,
            cells: vec![cell(own), cell(other)],
        };
        let told = |rows: Vec<Row>| {
            let text = String::new;
            let set = SetTable {
                name: text(),
                workload: text(),
                params: Default::default(),
                ops: text(),
                rows,
                switches: Vec::new(),
            };
            spreads(&[WorkTable { label: text(), name: text(), axes: Vec::new(), sets: vec![set] }])
        };
        assert_eq!(told(vec![row(Some(0.02), Some(0.04)), row(None, Some(0.04))]), None);
        let said = told(vec![row(Some(0.02), Some(0.041)), row(Some(0.041), Some(0.02))]);
        assert!(said.as_ref().is_some_and(|said| said.starts_with("In 2 of ")), "{said:?}");
    }
}
