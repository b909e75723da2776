//! The rules, a file each, and their registry.

mod accounting;
mod bandwidth;
mod class_order;
mod fair_shares;
mod kernel_words;
mod latency_contract;
mod no_progress;
mod starvation;
mod work_conservation;

use super::contract::{Judgement, Rule};
use super::seen::Seen;

/// The gravest first: of a run that breaks several, the first one counts.
pub fn registry() -> &'static [&'static dyn Rule] {
    &[
        &kernel_words::KernelWords,
        &no_progress::NoProgress,
        &accounting::Accounting,
        &class_order::ClassOrder,
        &latency_contract::LatencyContract,
        &starvation::Starvation,
        &work_conservation::WorkConservation,
        &bandwidth::Bandwidth,
        &fair_shares::FairShares,
    ]
}

/// The judgements of all rules that have one, the gravest rule first, each with the part of the run that comes nearest to its bound.
pub fn judgements(parts: &[Seen]) -> Vec<(&'static dyn Rule, Judgement, &Seen)> {
    let of_rule = |rule: &&'static dyn Rule| {
        let judged = parts.iter().filter_map(|seen| Some((rule.judge(seen)?, seen)));
        // The first part of equals: Rust's `max_by` gives the last.
        let nearer = |best: (Judgement, _), own: (Judgement, _)| {
            if own.0.distance > best.0.distance { own } else { best }
        };
        judged.reduce(nearer).map(|(judgement, seen)| (*rule, judgement, seen))
    };
    registry().iter().filter_map(of_rule).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_page_has_every_rule() {
        let page = include_str!("../../../docs/hunt.md");
        let names: BTreeSet<&str> = registry().iter().map(|rule| rule.name()).collect();
        assert_eq!(names.len(), registry().len());
        for name in names {
            assert!(page.contains(&format!("| {name} |")), "{name}");
        }
    }
}
