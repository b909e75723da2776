//! Lists in the order in which things first come. Pure.

use crate::model::MEANWHILE;

/// Values by key, both in the order in which they first come.
pub fn grouped<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// The common part of reasons that differ in numbers alone, in names in backticks that `is_own` takes, and in what else
/// happened on the machine.
pub fn cause(reason: &str, is_own: impl Fn(&str) -> bool) -> String {
    let own = reason.split_once(MEANWHILE).map_or(reason, |(own, _)| own);
    let parts = own.split('`').enumerate();
    let kept = parts.filter(|(at, part)| at % 2 == 0 || !is_own(part));
    kept.flat_map(|(_, part)| part.chars()).filter(|c| !c.is_ascii_digit() && *c != '.').collect()
}

/// Adds what is not in the list yet.
pub fn once<T: PartialEq>(list: &mut Vec<T>, more: T) {
    if !list.contains(&more) {
        list.push(more);
    }
}
