//! Whether a plan that comes from outside can be one of ours: its id is safe in selections
//! and file names, its cells are the plan's, and its runs have values that can be. Pure.

use std::collections::BTreeSet;

use super::error::StoreError;
use crate::model::clean;
use crate::model::{
    Cell, Metric, Plan, PlanStarted, Reading, RunKey, RunResult, SampledPlan, Statistic, Variant,
    Work,
};

const MAX_ID_CHARS: usize = 64;
/// Selections of `schedlab report`.
const RESERVED_IDS: [&str; 2] = ["last", "all"];
const MAX_ROUNDS: u32 = 100_000;

fn unsound(why: String) -> Result<(), StoreError> {
    Err(StoreError::Unsound(why))
}

pub fn plan(started: &PlanStarted) -> Result<(), StoreError> {
    id(&started.id)?;
    if started.sharding.as_ref().is_some_and(|own| !own.is_sound() || own.id() != started.id) {
        let id = &started.id;
        return unsound(format!("the plan `{id}` is not the part of a plan that it says it is"));
    }
    measure(&started.plan)?;
    cells(started)
}

pub fn id(id: &str) -> Result<(), StoreError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let shown = clean(&id.chars().take(MAX_ID_CHARS).collect::<String>());
    if id.is_empty() || id.len() > MAX_ID_CHARS || !id.chars().all(allowed) {
        return unsound(format!(
            "the plan's id `{shown}` is not 1 to {MAX_ID_CHARS} letters, digits and hyphens"
        ));
    }
    if RESERVED_IDS.contains(&id) {
        return unsound(format!("the plan's id `{shown}` has a meaning of its own in selections"));
    }
    Ok(())
}

fn measure(plan: &Plan) -> Result<(), StoreError> {
    let measure = &plan.measure;
    if !(1..=MAX_ROUNDS).contains(&measure.rounds) {
        let rounds = measure.rounds;
        return unsound(format!("the plan has {rounds} rounds, not 1 to {MAX_ROUNDS}"));
    }
    let times = [("duration_ns", measure.duration_ns), ("window_ns", measure.window_ns)];
    let of_works = plan.works.iter().flat_map(|work| {
        let own = [("duration_ns", work.duration_ns), ("lab_duration_ns", work.lab_duration_ns)];
        own.into_iter().filter_map(|(name, ns)| Some((name, ns?)))
    });
    match times.into_iter().chain(of_works).find(|(_, ns)| *ns == 0) {
        Some((name, _)) => unsound(format!("the plan's {name} is 0")),
        None => Ok(()),
    }
}

/// Cells are works times variants, the variants fastest, and the index is the position.
fn cells(started: &PlanStarted) -> Result<(), StoreError> {
    let (plan, cells) = (&started.plan, &started.cells);
    let (works, variants) = (plan.works.len(), plan.variants.len());
    if works == 0 || variants == 0 || works.checked_mul(variants) != Some(cells.len()) {
        let cells = cells.len();
        return unsound(format!(
            "the plan has {cells} cells for {works} works and {variants} variants"
        ));
    }
    let pairs = plan.works.iter().flat_map(|work| plan.variants.iter().map(move |v| (work, v)));
    let mut expected = pairs.zip(0..);
    let is_ours = |cell: &Cell, (work, variant): (&Work, &Variant), index: u32| {
        cell.index == index
            && cell.work == *work
            && cell.variant == *variant
            && cell.placement == plan.placement
    };
    let stranger = cells
        .iter()
        .position(|cell| expected.next().is_none_or(|(pair, at)| !is_ours(cell, pair, at)));
    stranger
        .map_or(Ok(()), |at| unsound(format!("cell {at} is not what the plan has in its place")))
}

/// `backend`: of the plan; other tools do not say how long they measured.
pub fn run(backend: &str, key: RunKey, result: &RunResult) -> Result<(), StoreError> {
    let refuse = |why: String| unsound(format!("round {} of cell {}: {why}", key.round, key.cell));
    if result.measured_ns == 0 && backend != SampledPlan::IMPORTED {
        return refuse("measured_ns is 0".to_string());
    }
    if result.sets.is_empty() {
        return refuse("it has no worker set".to_string());
    }
    let mut seen = BTreeSet::new();
    for set in &result.sets {
        let place = |name: &str| clean(&format!("{}/{name}", set.name));
        for Metric { kind, value } in &set.metrics {
            if !seen.insert((&set.name, &kind.name)) {
                return refuse(format!("`{}` stands twice", place(&kind.name)));
            }
            let value = value.as_ref().map(|value| *value);
            if let Reading::Known(value) = value
                && let Reading::Unknown(why) = kind.possible(value)
            {
                return refuse(format!("`{}`: {why}", place(&kind.name)));
            }
        }
        if let Some([lower, higher]) = disorder(&set.metrics) {
            let [lower, higher] = [lower, higher].map(|(name, value)| (place(name), value));
            let text = format!("`{}` is {}, above `{}`, {}", lower.0, lower.1, higher.0, higher.1);
            return refuse(text);
        }
    }
    Ok(())
}

/// Buckets of a histogram are so wide, where a maximum is exact.
const MAX_DISORDER: f64 = 0.02;

/// Parts per million of a mean in the order of quantiles: it lies between the least and the largest, and above or below
/// the others.
const MEAN: u32 = 1;

/// Two quantiles of one quantity, by name and value, of which the higher one is less.
fn disorder(metrics: &[Metric]) -> Option<[(&str, f64); 2]> {
    let mut quantiles: Vec<_> = metrics.iter().filter_map(quantile).collect();
    quantiles.sort_by_key(|(of, parts, ..)| (*of, *parts));
    let pairs = quantiles.iter().enumerate().flat_map(|(at, low)| {
        let above = quantiles[at + 1..].iter().take_while(|high| high.0 == low.0);
        above.map(|high| (*low, *high))
    });
    let is_wrong = |(low, high): &(Quantile, Quantile)| {
        let has_order = low.1 < high.1 && (low.1 != MEAN || high.1 == u32::MAX);
        has_order && low.3 > high.3 * (1.0 + MAX_DISORDER) + 1.0
    };
    let ((_, _, lower, low), (_, _, higher, high)) = { pairs }.find(is_wrong)?;
    Some([(lower, low), (higher, high)])
}

/// The quantity, parts per million, the name and the value.
type Quantile<'m> = (&'m str, u32, &'m str, f64);

/// `None` for other metrics.
fn quantile(metric: &Metric) -> Option<Quantile<'_>> {
    let Reading::Known(value) = metric.value else { return None };
    let name = metric.kind.name.as_str();
    // `wakeup_p99`, `wakeup_max`.
    let of = name.rsplit_once('_').map(|(of, _)| of);
    match metric.kind.statistic {
        Statistic::Quantile(parts) => Some((of?, parts, name, value)),
        Statistic::Max => Some((of?, u32::MAX, name, value)),
        Statistic::Mean if metric.kind.subject.is_none() => Some((name, MEAN, name, value)),
        _ => None,
    }
}
