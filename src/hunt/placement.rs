//! How even shares can be where no task moves: some weights fit no CPUs, and only a balancer that rotates tasks would
//! give each its share. The best placement is searched greedily and by single moves and swaps, so the answer may be
//! below the best, and never above. Pure.

use std::cmp::Ordering;

use crate::model::CpuSet;

/// Each step tries all pairs of tasks.
const MAX_TASKS: usize = 64;

/// A task that never sleeps.
pub struct Placed<'a> {
    pub weight: f64,
    pub cpus: &'a CpuSet,
    /// CPUs that it is entitled to.
    pub entitled: f64,
}

/// The smallest part of its entitlement that a task has in the best placement found, at most 1. `capacities`: what each
/// CPU has for these tasks.
pub fn evenness(tasks: &[Placed], capacities: &[(u32, f64)]) -> f64 {
    // So many are moved in vain for long, and mostly fit.
    if tasks.len() > MAX_TASKS {
        return 1.0;
    }
    let mut places = placed_by_weight(tasks, capacities);
    let mut best = parts(tasks, capacities, &places);
    while let Some((better, moved)) = best_step(tasks, capacities, &places, &best) {
        (best, places) = (better, moved);
    }
    best.first().copied().unwrap_or(1.0)
}

/// The heaviest first, each on the CPU with the least weight. A place is a position in `capacities`.
fn placed_by_weight(tasks: &[Placed], capacities: &[(u32, f64)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by(|one, other| tasks[*other].weight.total_cmp(&tasks[*one].weight));
    let mut places = vec![0; tasks.len()];
    let mut loads = vec![0.0; capacities.len()];
    for task in order {
        let allowed =
            (0..capacities.len()).filter(|at| tasks[task].cpus.contains(capacities[*at].0));
        let load = |at: &usize| (loads[*at] + tasks[task].weight) / capacities[*at].1;
        let least = allowed.min_by(|one, other| load(one).total_cmp(&load(other)));
        places[task] = least.unwrap_or(0);
        loads[places[task]] += tasks[task].weight;
    }
    places
}

/// The parts of their entitlements that tasks have at these places, the smallest first.
fn parts(tasks: &[Placed], capacities: &[(u32, f64)], places: &[usize]) -> Vec<f64> {
    let mut loads = vec![0.0; capacities.len()];
    for (task, place) in tasks.iter().zip(places) {
        loads[*place] += task.weight;
    }
    let part = |(task, place): (&Placed, &usize)| {
        (capacities[*place].1 * task.weight / loads[*place] / task.entitled).min(1.0)
    };
    let mut parts: Vec<f64> = tasks.iter().zip(places).map(part).collect();
    parts.sort_by(f64::total_cmp);
    parts
}

/// The places after the move or the swap that helps most; `None`: no one helps.
fn best_step(
    tasks: &[Placed],
    capacities: &[(u32, f64)],
    places: &[usize],
    best: &[f64],
) -> Option<(Vec<f64>, Vec<usize>)> {
    let may = |task: usize, at: usize| tasks[task].cpus.contains(capacities[at].0);
    let all = 0..tasks.len();
    let moves = all.clone().flat_map(|task| (0..capacities.len()).map(move |at| (task, at)));
    let moves = moves.filter(|(task, at)| places[*task] != *at && may(*task, *at));
    let moved = moves.map(|(task, at)| {
        let mut moved = places.to_vec();
        moved[task] = at;
        moved
    });
    let swaps = all.clone().flat_map(|one| all.clone().map(move |other| (one, other)));
    let swaps = swaps.filter(|(one, other)| {
        one < other && may(*one, places[*other]) && may(*other, places[*one])
    });
    let swapped = swaps.map(|(one, other)| {
        let mut swapped = places.to_vec();
        swapped.swap(one, other);
        swapped
    });
    let steps = moved.chain(swapped).map(|places| (parts(tasks, capacities, &places), places));
    let is_better = |parts: &[f64]| compare(parts, best) == Ordering::Greater;
    steps.filter(|(parts, _)| is_better(parts)).max_by(|one, other| compare(&one.0, &other.0))
}

/// By the smallest part, then by the next. A difference that rounding makes is none, so that steps come to an end.
fn compare(one: &[f64], other: &[f64]) -> Ordering {
    const ROUNDING: f64 = 1e-9;
    let differing = one.iter().zip(other).find(|(one, other)| (*one - *other).abs() > ROUNDING);
    differing.map_or(Ordering::Equal, |(one, other)| one.total_cmp(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evenness_of(tasks: &[(f64, &str, f64)], capacities: &[f64]) -> f64 {
        let cpus: Vec<CpuSet> = tasks.iter().map(|(_, cpus, _)| cpus.parse().unwrap()).collect();
        let tasks = tasks.iter().zip(&cpus).map(|((weight, _, entitled), cpus)| Placed {
            weight: *weight,
            cpus,
            entitled: *entitled,
        });
        let capacities: Vec<(u32, f64)> = (0..).zip(capacities.iter().copied()).collect();
        evenness(&tasks.collect::<Vec<_>>(), &capacities)
    }

    #[test]
    fn tasks_that_fit_their_cpus_have_all_they_are_entitled_to() {
        assert_eq!(evenness_of(&[], &[1.0]), 1.0);
        assert_eq!(evenness_of(&[(1.0, "0", 1.0), (1.0, "0-1", 1.0)], &[1.0, 1.0]), 1.0);
        // The heavier one has to leave the CPU that it would have chosen.
        let swap = [(2.0, "0-1", 0.5), (1.0, "0", 0.5), (1.0, "0", 0.5), (2.0, "0-1", 0.5)];
        assert_eq!(evenness_of(&swap, &[1.0, 1.0]), 1.0);
    }

    #[test]
    fn three_tasks_on_two_cpus_have_half_of_one_where_none_moves() {
        let third = [(1.0, "0-1", 2.0 / 3.0); 3];
        assert!((evenness_of(&third, &[1.0, 1.0]) - 0.75).abs() < 1e-9);
        // A real-time task leaves a twentieth of a CPU.
        assert!((evenness_of(&third, &[1.0, 0.05]) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn heavy_tasks_share_a_cpu_where_a_light_one_would_have_too_little() {
        let tasks = [
            (9548.0, "0-3", 1.0),
            (9548.0, "0-3", 1.0),
            (9548.0, "0-3", 1.0),
            (1024.0, "0-1", 1.0 / 3.0),
            (1024.0, "2-3", 1.0 / 3.0),
            (1024.0, "2-3", 1.0 / 3.0),
        ];
        assert!((evenness_of(&tasks, &[1.0; 4]) - 0.5).abs() < 1e-9);
    }
}
