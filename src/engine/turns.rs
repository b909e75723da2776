//! Runs that are made together: the variants of a work that take turns inside one run. Without turns each run is a
//! group of its own. Pure.

use crate::model::{Cell, Outcome, Plan, RunKey, RunSpec, Turns, WIRE_VERSION, Window};

/// Divides the missing runs of a round; all runs of a group are of one work.
pub fn groups(plan: &Plan, missing: &[RunKey]) -> Vec<Vec<RunKey>> {
    let mut groups: Vec<Vec<RunKey>> = Vec::new();
    for &key in missing {
        let place = |key: RunKey| (plan.work_of(key.cell), key.round);
        let own = groups.iter_mut().find(|group| place(group[0]) == place(key));
        match own.filter(|_| plan.measure.turns_ns.is_some()) {
            Some(group) => group.push(key),
            None => groups.push(vec![key]),
        }
    }
    groups
}

/// The runs that are made with this one, itself among them: all variants, even if some have their results already.
pub fn together(plan: &Plan, key: RunKey) -> Vec<RunKey> {
    if plan.measure.turns_ns.is_none() {
        return vec![key];
    }
    let variants = plan.variants.len().max(1) as u32;
    let first = key.cell / variants * variants;
    (first..first + variants).map(|cell| RunKey { cell, ..key }).collect()
}

/// The run of these cells; `None` without any. The seed depends on plan and round alone: in one round all variants
/// draw the same.
pub fn order(cells: Vec<Cell>, round: u32, plan: &Plan, kop_ps: Option<u64>) -> Option<RunSpec> {
    let measure = &plan.measure;
    let variants: Vec<_> = cells.iter().map(|cell| cell.variant.clone()).collect();
    let turns = measure.turns_ns.map(|block_ns| Turns::new(variants, block_ns));
    let mut cell = cells.into_iter().next()?;
    let mut duration_ns = plan.duration_ns(&cell.work);
    let mut window_ns = measure.window_ns.min(duration_ns);
    if let Some(turns) = &turns {
        cell.variant.knobs = turns.common_knobs();
        // Each variant has the time and the windows of a run of its own, in whole blocks.
        let variants = turns.variants.len() as u64;
        duration_ns = measure.whole_blocks_ns(duration_ns).saturating_mul(variants);
        window_ns = window_ns.saturating_mul(variants);
    }
    let section_ns = measure.warmup_ns.saturating_add(duration_ns);
    Some(RunSpec {
        wire: WIRE_VERSION,
        cell,
        warmup_ns: measure.warmup_ns,
        duration_ns,
        window_ns,
        limit_ns: section_ns.saturating_add(measure.grace_ns),
        seed: measure.seed_of(round),
        probes: plan.probes.clone(),
        kop_ps,
        executed: plan.lab.executed,
        model: Default::default(),
        start_unix_ns: None,
        cgroups: Default::default(),
        turns,
    })
}

/// The window of each variant: the workers of one come after those of another.
pub fn divided_window(window: Window, variants: usize) -> Vec<Window> {
    let Window { index, workers } = window;
    let each = (workers.len() / variants.max(1)).max(1);
    workers.chunks(each).map(|own| Window { index, workers: own.to_vec() }).collect()
}

/// The outcome of each variant.
pub fn divided_outcome(outcome: Outcome, variants: usize) -> Vec<Outcome> {
    let Outcome::Done { result } = outcome else { return vec![outcome; variants] };
    let results = result.by_variant();
    if results.len() != variants {
        let reason = format!("a run of {variants} variants has {} results", results.len());
        return vec![Outcome::Failed { reason }; variants];
    }
    results.into_iter().map(|result| Outcome::Done { result: Box::new(result) }).collect()
}
