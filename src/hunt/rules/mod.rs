//! The rules, a file each, and their registry.

mod accounting;
mod bandwidth;
mod class_order;
mod fair_shares;
mod kernel_words;
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
        &starvation::Starvation,
        &work_conservation::WorkConservation,
        &bandwidth::Bandwidth,
        &fair_shares::FairShares,
    ]
}

/// The first rule that a part of a run breaks, and the part.
pub fn broken(parts: &[Seen]) -> Option<(&'static dyn Rule, Judgement, &Seen)> {
    let judgements = registry().iter().flat_map(|rule| parts.iter().map(move |seen| (*rule, seen)));
    judgements.into_iter().find_map(|(rule, seen)| {
        let judgement = rule.judge(seen).filter(Judgement::is_broken)?;
        Some((rule, judgement, seen))
    })
}

/// How near the parts of a run came to the bound of any rule.
pub fn nearest(parts: &[Seen]) -> f64 {
    let judgements =
        parts.iter().flat_map(|seen| registry().iter().filter_map(|rule| rule.judge(seen)));
    judgements.map(|judgement| judgement.distance).fold(0.0, f64::max)
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
