//! What a reader of verdicts has to know beside them. Pure.

use crate::model::{PlanEnd, SampledPlan};

use super::gather::Boots;
use super::{Pairing, Side};

/// Fewer boots of a side do not show how much one boot differs from another.
const LEAST_BOOTS: usize = 3;

pub fn remarks(plans: &[SampledPlan], sides: &[(Side, Boots)], pairing: Pairing) -> Vec<String> {
    let mut remarks = Vec::new();
    if pairing == Pairing::None {
        remarks.push(
            "The sides were not measured in the same rounds: what changed on the machine between \
             them (its load, heat, settings) is in the ratio and in no interval."
                .to_string(),
        );
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
