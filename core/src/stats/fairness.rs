//! Computes each worker's entitlement to a pool of CPUs, the share that it got, and how even the shares are. Pure.
//!
//! A worker *wants* what it uses when it is alone, at most one CPU. Max-min fairness (Bertsekas and Gallager, *Data
//! Networks*, section 6.5.2) entitles a worker to its want or to the fair share, whichever is less. A want below
//! the fair share raises the share of the others, until the pool is used up or all wants are met. The fair share is
//! in proportion to weights: a worker of twice the weight counts as two (weighted water filling). A higher rank is
//! served first. Where workers may use different CPUs, filling goes on until each worker is limited by CPUs that
//! are used up. In cgroups, each level is filled by itself. Method: docs/method.md, "Fairness between sets".

use std::collections::BTreeSet;

use crate::model::{CpuSet, Reading};

use super::estimate;

/// A worker set in a run, next to the sets that it competes with.
#[derive(Debug, Clone, PartialEq)]
pub struct CompetingSet {
    /// The CPUs that its workers may use.
    pub cpus: Reading<CpuSet>,
    pub priority: Priority,
    /// The cgroup that its workers are in, by its index; `None`: the run's own.
    pub cgroup: Option<usize>,
    pub workers: Vec<Competitor>,
    /// Operations per second of one of the set, in any unit.
    pub rate: Reading<f64>,
    /// The rate in its solo run.
    pub solo_rate: Reading<f64>,
    /// False: the want is assumed, and Jain's index leaves the set out.
    pub is_want_measured: bool,
}

/// A cgroup that shares the grant of the one above with its siblings, and with workers next to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompetingCgroup {
    /// The index of the one above, which is less than its own; `None`: the run's own.
    pub parent: Option<usize>,
    /// The weight on the scale of workers' weights.
    pub weight: f64,
    /// CPUs that all in it have together at most.
    pub max: f64,
}

/// One worker of a set.
#[derive(Debug, Clone, PartialEq)]
pub struct Competitor {
    /// CPUs that it used alone. More than one CPU counts as one.
    pub want: Reading<f64>,
    /// CPUs that it used here.
    pub got: Reading<f64>,
    /// Operations per second; comparable within the set.
    pub rate: Reading<f64>,
}

/// The priority of a set's workers over those of other sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Priority {
    /// Only its ratio to other weights of the same rank matters.
    pub weight: f64,
    /// Lower ranks share the part that a higher rank does not want.
    pub rank: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Fairness {
    /// CPUs that at least one set may use.
    pub cpus: Reading<usize>,
    /// Jain's index over got / entitled of all workers whose want was measured and that are
    /// entitled to something.
    pub jain: Reading<f64>,
    /// Shares in the order of the sets.
    pub sets: Vec<SetShare>,
}

/// `want`, `entitled` and `got` are CPUs, the mean over the set's workers; the rest are ratios.
#[derive(Debug, Clone, PartialEq)]
pub struct SetShare {
    pub want: Reading<f64>,
    pub entitled: Reading<f64>,
    pub got: Reading<f64>,
    pub got_over_entitled: Reading<f64>,
    pub throughput_vs_solo: Reading<f64>,
    /// The rate of the fastest worker over that of the slowest.
    pub max_over_min: Reading<f64>,
}

impl Fairness {
    /// Makes everything that depends on entitlements unknown, because of `why`.
    pub fn without_entitlements(mut self, why: &str) -> Fairness {
        let unknown = || Reading::Unknown(why.to_string());
        self.jain = unknown();
        for set in &mut self.sets {
            (set.entitled, set.got_over_entitled) = (unknown(), unknown());
        }
        self
    }
}

/// Why a ratio to a solo run is not known.
pub const NO_SOLO_OPERATIONS: &str = "no operations in its solo run";

/// The entitlement of each set and the share that it got. One unknown want leaves all entitlements unknown, because
/// each depends on the wants of the others.
pub fn fairness(sets: &[CompetingSet], cgroups: &[CompetingCgroup]) -> Fairness {
    let entitled = entitled(sets, cgroups);
    let of_set = |at: usize| entitled.as_ref().map(|all| all[at].as_slice());
    Fairness {
        cpus: all(sets.iter().map(|set| set.cpus.as_ref()))
            .map(|cpus| cpus.into_iter().flat_map(CpuSet::iter).collect::<BTreeSet<u32>>().len()),
        jain: entitled.as_ref().and_then(|entitled| jain_of(sets, entitled)),
        sets: sets.iter().enumerate().map(|(at, set)| set_share(set, of_set(at))).collect(),
    }
}

/// CPUs that each worker of each set is entitled to.
fn entitled(sets: &[CompetingSet], cgroups: &[CompetingCgroup]) -> Reading<Vec<Vec<f64>>> {
    let cpus = match all(sets.iter().map(|set| set.cpus.as_ref())) {
        Reading::Known(cpus) => cpus,
        Reading::Unknown(why) => return Reading::Unknown(why),
    };
    let (mut claims, mut held_to) = (Vec::new(), Vec::new());
    for (set, cpus) in sets.iter().zip(cpus) {
        let Priority { weight, rank } = set.priority;
        for worker in &set.workers {
            match wanted(worker) {
                Reading::Known(want) => claims.push(Claim { want, weight, rank }),
                Reading::Unknown(why) => return Reading::Unknown(why),
            }
            held_to.push(cpus);
        }
    }
    let granted = match cgroups {
        [] => entitlements_on(&claims, &held_to).ok_or_else(|| {
            format!("the sets may use different CPUs in more than {MAX_CLASSES} ways")
        }),
        _ => {
            let of_set = |set: &CompetingSet| vec![set.cgroup; set.workers.len()];
            let of_claim: Vec<Option<usize>> = sets.iter().flat_map(of_set).collect();
            entitlements_in(cgroups, &claims, &of_claim, &held_to)
        }
    };
    let granted = match granted {
        Ok(granted) => granted,
        Err(why) => return Reading::Unknown(why),
    };
    let mut rest = granted.as_slice();
    let of_sets = sets.iter().map(|set| {
        let (own, others) = rest.split_at(set.workers.len());
        rest = others;
        own.to_vec()
    });
    Reading::Known(of_sets.collect())
}

fn wanted(worker: &Competitor) -> Reading<f64> {
    worker.want.clone().map(|want| want.min(1.0))
}

fn set_share(set: &CompetingSet, entitled: Reading<&[f64]>) -> SetShare {
    let workers = || set.workers.iter();
    let got = mean(workers().map(|worker| worker.got.clone()));
    let entitled = entitled.and_then(|each| Reading::from_option(estimate::mean(each), NO_WORKER));
    SetShare {
        want: mean(workers().map(wanted)),
        got_over_entitled: over(&got, &entitled, "it is entitled to nothing"),
        entitled,
        got,
        throughput_vs_solo: over(&set.rate, &set.solo_rate, NO_SOLO_OPERATIONS),
        max_over_min: all(workers().map(|worker| worker.rate.clone())).and_then(
            |rates| match rates.len() {
                1 => Reading::Unknown("one worker: nothing to compare".to_string()),
                _ => Reading::from_option(max_over_min(&rates), COMPLETED_NOTHING),
            },
        ),
    }
}

const NO_WORKER: &str = "the set has no worker";
pub const COMPLETED_NOTHING: &str = "a worker completed nothing";

fn jain_of(sets: &[CompetingSet], entitled: &[Vec<f64>]) -> Reading<f64> {
    let measured = sets.iter().zip(entitled).filter(|(set, _)| set.is_want_measured);
    let workers = measured.flat_map(|(set, entitled)| set.workers.iter().zip(entitled));
    let ratios = workers
        .filter(|(_, entitled)| **entitled > 0.0)
        .map(|(worker, entitled)| worker.got.clone().map(|got| got / entitled));
    let why = "no worker got anything";
    all(ratios).and_then(|ratios| Reading::from_option(estimate::jain(&ratios), why))
}

fn all<T>(parts: impl Iterator<Item = Reading<T>>) -> Reading<Vec<T>> {
    parts.collect()
}

fn mean(parts: impl Iterator<Item = Reading<f64>>) -> Reading<f64> {
    all(parts).and_then(|values| Reading::from_option(estimate::mean(&values), NO_WORKER))
}

/// `part / whole`; `none` is the reason for a whole of 0.
fn over(part: &Reading<f64>, whole: &Reading<f64>, none: &str) -> Reading<f64> {
    whole
        .clone()
        .zip(part.clone())
        .and_then(|(whole, part)| Reading::from_option((whole > 0.0).then_some(part / whole), none))
}

/// The demand of a worker on a pool.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Claim {
    /// CPUs.
    want: f64,
    weight: f64,
    rank: u32,
}

impl Claim {
    /// A want or a weight that is not positive entitles to nothing.
    fn counts(&self) -> bool {
        self.want > 0.0 && self.weight > 0.0 && self.weight.is_finite()
    }
}

/// Entitlements of claims in cgroups: the claims directly in a cgroup share its grant, so the part that one does
/// not want goes to its siblings first.
fn entitlements_in(
    cgroups: &[CompetingCgroup],
    claims: &[Claim],
    of_claim: &[Option<usize>],
    held_to: &[&CpuSet],
) -> Result<Vec<f64>, String> {
    if held_to.iter().any(|cpus| *cpus != held_to[0]) {
        return Err("sets in cgroups may use different CPUs".to_string());
    }
    if claims.iter().any(|claim| claim.rank != 0) {
        return Err("sets in cgroups have policies that go before weights".to_string());
    }
    // Cgroups follow the workers. A cgroup wants the sum of the wants in it.
    let mut all = claims.to_vec();
    all.extend(cgroups.iter().map(|of| Claim { want: 0.0, weight: of.weight, rank: 0 }));
    let mut above: Vec<Option<usize>> = of_claim.to_vec();
    above.extend(cgroups.iter().map(|of| of.parent));
    for at in (0..claims.len()).chain((claims.len()..all.len()).rev()) {
        if let Some(max) = at.checked_sub(claims.len()).map(|cgroup| cgroups[cgroup].max) {
            all[at].want = all[at].want.min(max);
        }
        if let Some(cgroup) = above[at] {
            all[claims.len() + cgroup].want += all[at].want;
        }
    }
    let mut granted = vec![0.0; all.len()];
    let cpus = held_to.first().map_or(0.0, |cpus| cpus.len() as f64);
    let mut places: Vec<(Option<usize>, f64)> = vec![(None, cpus)];
    while let Some((place, left)) = places.pop() {
        let own = |at: &usize| above[*at] == place && all[*at].counts();
        let members: Vec<usize> = (0..all.len()).filter(own).collect();
        if members.is_empty() {
            continue;
        }
        for (at, part) in serve(&all, members, left).parts {
            granted[at] = part;
            places.extend(at.checked_sub(claims.len()).map(|cgroup| (Some(cgroup), part)));
        }
    }
    granted.truncate(claims.len());
    Ok(granted)
}

/// In how many ways claims may differ in their CPUs: 2 to this power unions are computed.
const MAX_CLASSES: usize = 8;

/// Some classes of claims, and how many CPUs at least one of them may use.
struct Union {
    /// A bit for each class.
    classes: u32,
    cpus: f64,
}

impl Union {
    fn holds(&self, class: usize) -> bool {
        self.classes & 1 << class != 0
    }
}

/// Weighted max-min fair entitlements in CPUs, in the order of `claims`. `held_to`: the CPUs
/// that each claim may use. `None` where these differ in more than [`MAX_CLASSES`] ways.
fn entitlements_on(claims: &[Claim], held_to: &[&CpuSet]) -> Option<Vec<f64>> {
    let sets: BTreeSet<&CpuSet> = held_to.iter().copied().collect();
    let sets: Vec<&CpuSet> = sets.into_iter().collect();
    if sets.len() > MAX_CLASSES {
        return None;
    }
    let class = |cpus: &&CpuSet| sets.binary_search(cpus).unwrap_or_default();
    let class_of: Vec<usize> = held_to.iter().map(class).collect();
    let union = |classes: u32| {
        let own = sets.iter().enumerate().filter(|(class, _)| classes & 1 << class != 0);
        let cpus: BTreeSet<u32> = own.flat_map(|(_, cpus)| cpus.iter()).collect();
        Union { classes, cpus: cpus.len() as f64 }
    };
    let unions: Vec<Union> = (1..1 << sets.len()).map(union).collect();
    Some(grant(claims, &class_of, &unions))
}

/// Grants are feasible if, and only if, the grants of each union's classes add up to no more than
/// its CPUs (maximum flow from claims to CPUs equals minimum cut; no claim is above one CPU).
fn grant(claims: &[Claim], class_of: &[usize], unions: &[Union]) -> Vec<f64> {
    let mut granted = vec![0.0; claims.len()];
    let counting = || (0..claims.len()).filter(|&at| claims[at].counts());
    let ranks: BTreeSet<u32> = counting().map(|at| claims[at].rank).collect();
    for rank in ranks.into_iter().rev() {
        let mut open: Vec<usize> = counting().filter(|&at| claims[at].rank == rank).collect();
        // The level (grant / weight) of all claims rises until a union is used up. Its members
        // keep their grants, and the others rise further.
        while let Some(tightest) = tightest(claims, class_of, unions, &granted, &open) {
            tightest.parts.iter().for_each(|&(at, part)| granted[at] = part);
            let served: BTreeSet<usize> = tightest.parts.iter().map(|&(at, _)| at).collect();
            open.retain(|at| !served.contains(at));
        }
    }
    granted
}

/// The open claims of a union, served with the rest of it.
struct Served {
    parts: Vec<(usize, f64)>,
    /// Grant / weight of the members that want more; infinite where all wants are met.
    level: f64,
}

/// The union that is used up first, among those with open claims.
fn tightest(
    claims: &[Claim],
    class_of: &[usize],
    unions: &[Union],
    granted: &[f64],
    open: &[usize],
) -> Option<Served> {
    let served = unions.iter().filter_map(|union| {
        let members: Vec<usize> =
            open.iter().copied().filter(|&at| union.holds(class_of[at])).collect();
        let own = granted.iter().zip(class_of).filter(|(_, class)| union.holds(**class));
        let used: f64 = own.map(|(granted, _)| granted).sum();
        let left = (union.cpus - used).max(0.0);
        (!members.is_empty()).then(|| serve(claims, members, left))
    });
    served.min_by(|a, b| a.level.total_cmp(&b.level))
}

/// Grants the `members` their part of `left` CPUs.
fn serve(claims: &[Claim], mut members: Vec<usize>, mut left: f64) -> Served {
    // Relative to the largest: equal weights become 1, and divide without an error.
    let largest = members.iter().map(|&at| claims[at].weight).fold(0.0, f64::max);
    let weight = |at: usize| claims[at].weight / largest;
    let level = |at: usize| claims[at].want / weight(at);
    members.sort_unstable_by(|&a, &b| level(a).total_cmp(&level(b)));
    // Added from the end, so that no rounding makes a weight more than its remainder.
    let mut remainders: Vec<f64> = Vec::with_capacity(members.len());
    for &at in members.iter().rev() {
        remainders.push(remainders.last().unwrap_or(&0.0) + weight(at));
    }
    let mut served = Served { parts: Vec::with_capacity(members.len()), level: f64::INFINITY };
    // In ascending order of want / weight: a claim below its share takes its want. From the first
    // claim above its share on, all have the same level.
    for (&at, remainder) in members.iter().zip(remainders.iter().rev()) {
        let share = left * weight(at) / remainder;
        let part = claims[at].want.min(share);
        if part < claims[at].want {
            served.level = served.level.min(part / claims[at].weight);
        }
        served.parts.push((at, part));
        left = (left - part).max(0.0);
    }
    served
}

/// The largest value over the smallest. `None` below two values, where one is not finite or is
/// negative, and where the smallest is 0.
fn max_over_min(values: &[f64]) -> Option<f64> {
    let sound = values.len() >= 2 && values.iter().all(|value| value.is_finite());
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(0.0, f64::max);
    (sound && min > 0.0).then_some(max / min)
}

#[cfg(test)]
mod tests;
