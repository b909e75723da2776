//! `solo = true`: a work for each set of a `[[workload]]` alone, with one of it, before the work in which the
//! sets compete. The solo run shows what a set wants while it is active, so it has no phase and no changes.
//!
//! Each is made once, and none if the plan already has such a work. Pure.

use std::collections::BTreeSet;

use crate::model::{Cgroup, Work, WorkerSet, solo_name};
use crate::workload::Pool;

use super::draft::Draft;
use super::error::Faults;

/// The works of all drafts, each draft's solo runs before its own.
pub fn add(
    drafts: &[Draft],
    works: Vec<Vec<Work>>,
    pool: &dyn Fn(Option<u32>) -> Pool,
    seed: u64,
    faults: &mut Faults,
) -> Vec<Work> {
    let mut had: BTreeSet<_> = works.iter().flatten().filter_map(key).collect();
    let mut all = Vec::new();
    for (draft, works) in drafts.iter().zip(works) {
        if draft.solo {
            for solo in works.iter().flat_map(|work| alone(draft, work)) {
                if !key(&solo).is_some_and(|key| had.insert(key)) {
                    continue;
                }
                if !draft.fits(&solo, &pool(solo.llcs), seed, faults) {
                    break;
                }
                all.push(solo);
            }
        }
        all.extend(works);
    }
    all
}

/// The same for solo runs that are.
fn key(work: &Work) -> Option<(Option<u32>, String)> {
    Some((work.llcs, work.solo()?.solo_key()))
}

/// Each set of one work alone.
fn alone<'d>(draft: &'d Draft, work: &'d Work) -> impl Iterator<Item = Work> + 'd {
    draft.solo_axes().map(move |(index, own)| {
        let set = &work.sets[index];
        let set = WorkerSet { count: 1, phase: None, changes: Vec::new(), ..set.clone() };
        let without_changes = |of| Cgroup { changes: Vec::new(), ..of };
        let cgroups = work.cgroups_of(&set).into_iter().map(without_changes).collect();
        let axes = work.axes.iter().zip(own).filter(|(_, own)| *own);
        Work {
            name: solo_name(&work.name, &set.name),
            axes: axes.map(|(axis, _)| axis.clone()).collect(),
            llcs: work.llcs,
            duration_ns: work.duration_ns,
            lab_duration_ns: work.lab_duration_ns,
            cgroups,
            offline: Vec::new(),
            sets: vec![set],
        }
    })
}

/// Maximum number of works that [`add`] adds for a draft. Saturates.
pub fn max_works(draft: &Draft) -> u128 {
    if !draft.solo {
        return 0;
    }
    let points = draft.solo_axes().map(|(_, own)| {
        let sizes = draft.axis_sizes().zip(own).filter(|(_, own)| *own);
        sizes.fold(1_u128, |product, (size, _)| product.saturating_mul(size as u128))
    });
    points.fold(0, u128::saturating_add)
}
