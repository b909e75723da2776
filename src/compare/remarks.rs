//! What a reader of verdicts has to know beside them. Pure.

use crate::model::{PlanEnd, SampledPlan};

use super::gather::Boots;
use super::{Pairing, Row, Side, WorkTable};

/// Fewer boots of a side do not show how much one boot differs from another.
const LEAST_BOOTS: usize = 3;

/// Above this ratio of the spreads of unpaired sides verdicts are only approximate.
const MOST_SPREAD: f64 = 2.0;

/// Of sides that are not paired: where one scatters so much more than the other that permuted
/// labels no longer stand for equal sides.
fn spreads(works: &[WorkTable]) -> Option<String> {
    let rows = works.iter().flat_map(|work| &work.sets).flat_map(|set| &set.rows);
    let differs = |row: &&Row| {
        let own = row.cells.first().and_then(|cell| cell.cv);
        let others = row.cells.iter().skip(1).filter_map(|cell| cell.cv);
        own.is_some_and(|own| others.into_iter().any(|cv| cv.max(own) > MOST_SPREAD * cv.min(own)))
    };
    let count = rows.filter(differs).count();
    (count > 0).then(|| {
        format!(
            "In {count} of the metrics one side scatters more than twice as much as another: \
             BETTER and WORSE are approximate there (docs/verdicts.md)."
        )
    })
}

pub fn remarks(
    plans: &[SampledPlan],
    sides: &[(Side, Boots)],
    pairing: Pairing,
    works: &[WorkTable],
) -> Vec<String> {
    let mut remarks = Vec::new();
    if pairing == Pairing::None {
        remarks.push(
            "The sides were not measured in the same rounds: what changed on the machine between \
             them (its load, heat, settings) is in the ratio and in no interval."
                .to_string(),
        );
        remarks.extend(spreads(works));
    }
    remarks.extend(boots(sides));
    let mut backends = sides.iter().flat_map(|(side, _)| &side.backends);
    if backends.any(|backend| backend == "null") {
        remarks.push("The backend null invents its figures.".to_string());
    }
    let is_unfinished =
        |plan: &&SampledPlan| matches!(plan.ended, None | Some(PlanEnd::Interrupted));
    let unfinished: Vec<&str> =
        plans.iter().filter(is_unfinished).map(|plan| plan.id.as_str()).collect();
    if !unfinished.is_empty() {
        let ids = unfinished.join(", ");
        remarks
            .push(format!("Not ended yet, or interrupted, and compared as far as it went: {ids}."));
    }
    remarks
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
        if !shares && fewest < LEAST_BOOTS {
            return Some(format!(
                "Boot-to-boot variation is not covered: {} was measured in {} and {} in {}. To \
                 cover it, reboot into each in turn, {LEAST_BOOTS} times or more, run the plan \
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
            };
            spreads(&[WorkTable { label: text(), name: text(), axes: Vec::new(), sets: vec![set] }])
        };
        assert_eq!(told(vec![row(Some(0.02), Some(0.04)), row(None, Some(0.04))]), None);
        let said = told(vec![row(Some(0.02), Some(0.041)), row(Some(0.041), Some(0.02))]);
        assert!(said.as_ref().is_some_and(|said| said.starts_with("In 2 of ")), "{said:?}");
    }
}
