//! Sides in words: once what all have alike, then of each what it has of its own. Pure.

use std::collections::BTreeMap;

use crate::analysis::{Analysis, Side};
use crate::model::{GuestKernel, Value};
use crate::report::layout::clean;

use super::plans::about_parts;
use super::setup::knobs;
use super::words::{joined, listed};

/// The sides of an analysis in words.
pub struct Compared {
    /// The facts that all sides have; empty where there are none.
    pub alike: String,
    /// The knobs of each side as they differ from the baseline's, and its other facts. `None`: no side
    /// has any.
    pub own: Option<Vec<String>>,
}

/// `everything`: with machines, runs and plans, and all knobs of the baseline's.
pub fn compared(analysis: &Analysis, everything: bool) -> Compared {
    let sides = &analysis.sides;
    let facts: Vec<Vec<String>> =
        sides.iter().map(|side| facts(analysis, side, everything)).collect();
    let is_alike = |at: usize| facts.iter().all(|other| other[at] == facts[0][at]);
    let count = facts.first().map_or(0, Vec::len);
    let (alike, own): (Vec<usize>, Vec<usize>) =
        (0..count).partition(|at| sides.len() == 1 || is_alike(*at));
    let of = |side: usize, parts: &[usize]| {
        joined(parts.iter().map(|at| facts[side][*at].clone()), "; ")
    };
    let own = (0..sides.len()).map(|side| match sides[side].runs {
        0 => String::new(),
        _ => joined([differing_knobs(&sides[0], &sides[side], side), of(side, &own)], "; "),
    });
    let own: Vec<String> = own.collect();
    let has_any = own.iter().any(|text| !text.is_empty());
    let with_role = own.into_iter().enumerate().map(|(side, text)| match side {
        0 if sides.len() > 1 => joined(["baseline".to_string(), text], "; "),
        0 => text,
        _ if sides[side].runs == 0 => "not measured".to_string(),
        _ if text.is_empty() => "as the baseline".to_string(),
        _ => text,
    });
    let own = has_any.then(|| with_role.collect());
    Compared { own, alike: if count > 0 { of(0, &alike) } else { String::new() } }
}

/// Facts of a side, of each side in the same order.
fn facts(analysis: &Analysis, side: &Side, everything: bool) -> Vec<String> {
    let own_kernel = |(asked, kernel): &(String, GuestKernel)| {
        format!("{asked} ({:#})", GuestKernel { scheduler: None, ..kernel.clone() })
    };
    let mut schedulers: Vec<String> = Vec::new();
    for (_, kernel) in &side.guests {
        let name = kernel.scheduler.as_ref().and_then(|of| of.as_ref().known());
        schedulers.extend(name.map(|name| clean(name)).filter(|name| !schedulers.contains(name)));
    }
    let mut kernels: Vec<String> = side.guests.iter().map(own_kernel).collect();
    kernels.dedup();
    let is_scx = |name: &String| has_scx(side, name);
    schedulers.retain(|name| !is_scx(name));
    let kernel =
        if kernels.is_empty() { String::new() } else { format!("kernel {}", listed(&kernels)) };
    let mut facts = vec![kernel, schedulers.join(" and ")];
    if everything {
        let [kernel, others @ ..] = about_parts(analysis, side);
        if side.guests.is_empty() {
            facts[0] = kernel;
        }
        facts.extend(others);
        if let Some(plan) = facts.last_mut().filter(|_| is_named_by_label(side)) {
            plan.clear();
        }
    }
    facts
}

/// Whether the label is the id of the side's one plan, or the beginning of it, with terms behind it or none.
fn is_named_by_label(side: &Side) -> bool {
    let named = side.label.split(',').next().unwrap_or_default();
    let named = named.strip_prefix("plan=").unwrap_or(named);
    matches!(side.plans.as_slice(), [plan] if !named.is_empty() && plan.starts_with(named))
}

/// Whether the knobs of a side name this sched_ext scheduler already.
fn has_scx(side: &Side, name: &str) -> bool {
    let scx = side.variants.iter().filter_map(|variant| variant.scx());
    scx.map(|scx| format!("scx {}", clean(scx))).any(|scx| scx == *name)
}

/// `slice 3ms, no nice`: the knobs of a side that the baseline has not, or with another value. The
/// baseline has all of its own; the kernel of a guest is a fact of another kind.
pub fn differing_knobs(baseline: &Side, side: &Side, at: usize) -> String {
    let of = |side: &Side| match side.variants.as_slice() {
        [variant] => variant.knobs.clone(),
        _ => BTreeMap::new(),
    };
    let (mut own, others) = (of(side), of(baseline));
    if at == 0 {
        own.retain(|knob, _| knob != "kernel" || side.guests.is_empty());
        return clean(&knobs(&own));
    }
    let is_shown = |knob: &String| knob != "kernel" || side.guests.is_empty();
    let missing = others.keys().filter(|knob| !own.contains_key(*knob) && is_shown(knob));
    let missing: Vec<String> = missing.map(|knob| format!("no {knob}")).collect();
    let changed = |knob: &String, value: &Value| others.get(knob) != Some(value) && is_shown(knob);
    own.retain(|knob, value| changed(knob, value));
    clean(&joined(std::iter::once(knobs(&own)).chain(missing), ", "))
}
