//! How like a load another one is, role by role. Pure.

use super::threads::Threads;

const MIN_BURSTS: usize = 200;
const MAX_EXCESS_NS: i64 = 10_000;
const MAX_PASSES: f64 = 32.0;
/// A role of a smaller weight is not worth naming.
const MIN_WEIGHT: f64 = 0.05;
const MIN_WORK: f64 = 0.1;
const MAX_WORK: f64 = 10.0;

/// A pass before which its worker sleeps costs so many times as much as one for which it does not.
const SLEEP_COSTS: u64 = 5;

/// How the passes of a role are replayed, so that the replay does what the load did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// The time that a pass of the replay itself needs of a CPU, with the sleep before it.
    pub cost_ns: u64,
    /// Passes of the replay for one of the load. A worker that finds its next post does not sleep, so fewer wakeups are
    /// seen of as many passes; shorter and more ones make up for it.
    pub passes: f64,
    /// Work of the replay for as much of the load.
    pub work: f64,
}

impl Fit {
    /// As long as nothing was measured.
    pub const USUAL: Fit = Fit { cost_ns: 1_500, passes: 1.0, work: 1.0 };

    /// The work of a pass whose load worked for so long. `goes_on`: without a wait before it.
    pub fn work_ns(self, load_ns: u64, goes_on: bool) -> u64 {
        let cost_ns = if goes_on { self.cost_ns / SLEEP_COSTS } else { self.cost_ns };
        ((load_ns as f64 * self.work / self.passes) as u64).saturating_sub(cost_ns)
    }

    /// The better fits after a replay with these, one for each role. `is_first`: the costs of passes are not known yet.
    pub fn after(before: &[Fit], rows: &[Likeness], is_first: bool) -> Vec<Fit> {
        let woken = || rows.iter().filter(|row| row.load.is_woken);
        let sum = |each: fn(&Likeness) -> f64| woken().map(each).sum::<f64>();
        // They wake each other, so all have one factor.
        let more = ratio(sum(|row| row.load.wakeups_per_s), sum(|row| row.replay.wakeups_per_s));
        let fit = |(before, row): (&Fit, &Likeness)| {
            let is_woken = row.load.is_woken;
            if let (true, false, Some(ns)) = (is_first, is_woken, row.excess_ns()) {
                return Fit { cost_ns: before.cost_ns.saturating_add_signed(ns), ..*before };
            }
            let passes = if is_woken { before.passes * more } else { before.passes };
            // A thread that is never woken works as much as its CPU lets it, whatever its stretches are.
            let is_busy = row.load.wakeups_per_s == 0.0;
            let more_work = if is_busy { 1.0 } else { ratio(row.load.cpus, row.replay.cpus) };
            let work = (before.work * more_work).clamp(MIN_WORK, MAX_WORK);
            Fit { passes: passes.clamp(1.0, MAX_PASSES), work, ..*before }
        };
        before.iter().zip(rows).map(fit).collect()
    }
}

/// 1 where nothing can be said.
fn ratio(load: f64, replay: f64) -> f64 {
    if load > 0.0 && replay > 0.0 { load / replay } else { 1.0 }
}

/// The doings of a role, for comparisons. Times are sorted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    pub name: String,
    /// Most of its wakeups are by threads that are watched, too.
    pub is_woken: bool,
    pub cpus: f64,
    pub switches_per_s: f64,
    pub wakeups_per_s: f64,
    pub bursts_ns: Vec<u64>,
    pub waits_ns: Vec<u64>,
}

impl Profile {
    /// Reads one role in so much time.
    pub fn read(threads: &Threads, role: usize, name: &str, wall_ns: u64) -> Profile {
        let own = || threads.by_tid.values().filter(|thread| thread.role == role);
        let wall_s = wall_ns.max(1) as f64 / 1e9;
        let sum = |each: fn(&super::threads::Thread) -> u64| own().map(each).sum::<u64>() as f64;
        let pieces = threads.pieces.iter().filter(|piece| piece.role == role);
        let woken = pieces.clone().filter(|piece| !piece.goes_on);
        let by_others = woken.clone().filter(|piece| piece.by.is_some()).count();
        let bursts = threads.bursts.iter().filter(|(own, _)| *own == role);
        let mut bursts_ns: Vec<u64> = bursts.map(|(_, work_ns)| *work_ns).collect();
        let mut waits_ns: Vec<u64> = pieces.filter_map(super::threads::Piece::sleep_ns).collect();
        bursts_ns.sort_unstable();
        waits_ns.sort_unstable();
        Profile {
            name: name.to_string(),
            is_woken: by_others > 0 && 2 * by_others >= woken.count(),
            cpus: sum(|thread| thread.work_ns) / 1e9 / wall_s,
            switches_per_s: sum(|thread| thread.switches) / wall_s,
            wakeups_per_s: sum(|thread| thread.wakeups) / wall_s,
            bursts_ns,
            waits_ns,
        }
    }
}

/// A role of the load and of its replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Likeness {
    pub load: Profile,
    pub replay: Profile,
    /// `None`: one of both has none.
    pub bursts_ks: Option<f64>,
    pub waits_ks: Option<f64>,
}

impl Likeness {
    pub fn new(load: Profile, replay: Profile) -> Likeness {
        let bursts_ks = kolmogorov_smirnov(&load.bursts_ns, &replay.bursts_ns);
        let waits_ks = kolmogorov_smirnov(&load.waits_ns, &replay.waits_ns);
        Likeness { load, replay, bursts_ks, waits_ks }
    }

    /// By how much the replay's shorter half of work is longer; not more than a replay can need. `None`: too few were
    /// seen.
    pub fn excess_ns(&self) -> Option<i64> {
        let bursts = self.load.bursts_ns.len().min(self.replay.bursts_ns.len());
        if bursts < MIN_BURSTS {
            return None;
        }
        let at = |all: &[u64], percent: usize| all.get(all.len() * percent / 100).copied();
        let differs = |percent: usize| {
            let load = at(&self.load.bursts_ns, percent)? as i64;
            Some(at(&self.replay.bursts_ns, percent)? as i64 - load)
        };
        let mut all: Vec<i64> = (1..10).filter_map(|part| differs(part * 5)).collect();
        all.sort_unstable();
        all.get(all.len() / 2).map(|ns| (*ns).clamp(-MAX_EXCESS_NS, MAX_EXCESS_NS))
    }

    /// 1: alike; 0: one has nothing of the other. The mean of all that is compared.
    pub fn score(&self) -> f64 {
        let pairs = [
            (self.load.cpus, self.replay.cpus),
            (self.load.switches_per_s, self.replay.switches_per_s),
            (self.load.wakeups_per_s, self.replay.wakeups_per_s),
        ];
        let ratios = pairs.into_iter().filter(|(load, replay)| load.max(*replay) > 0.0);
        let ratios = ratios.map(|(load, replay)| load.min(replay) / load.max(replay));
        let distances = [self.bursts_ks, self.waits_ks].into_iter().flatten();
        let parts: Vec<f64> = ratios.chain(distances.map(|distance| 1.0 - distance)).collect();
        if parts.is_empty() { 0.0 } else { parts.iter().sum::<f64>() / parts.len() as f64 }
    }
}

/// The mean over the roles: of each as much as its part of the work and of the wakeups.
pub fn score(roles: &[Likeness]) -> f64 {
    let weights = weights(roles);
    let all: f64 = weights.iter().sum();
    share(roles.iter().zip(weights).map(|(role, weight)| weight * role.score()).sum(), all)
}

/// The role with the lowest score among those that have a part in the load, where there are several.
pub fn worst_role(roles: &[Likeness]) -> Option<&Likeness> {
    let weights = weights(roles);
    let large = roles.iter().zip(weights).filter(|(_, weight)| *weight >= MIN_WEIGHT);
    let large: Vec<&Likeness> = large.map(|(role, _)| role).collect();
    let least = large.iter().copied().min_by(|one, other| one.score().total_cmp(&other.score()));
    least.filter(|_| large.len() > 1)
}

/// The sum of the shares that each role has of the work and of the wakeups.
fn weights(roles: &[Likeness]) -> Vec<f64> {
    let sum = |each: fn(&Profile) -> f64| roles.iter().map(|role| each(&role.load)).sum::<f64>();
    let (cpus, wakeups) = (sum(|of| of.cpus), sum(|of| of.wakeups_per_s));
    let weight =
        |role: &Likeness| share(role.load.cpus, cpus) + share(role.load.wakeups_per_s, wakeups);
    roles.iter().map(weight).collect()
}

fn share(part: f64, all: f64) -> f64 {
    if all > 0.0 { part / all } else { 0.0 }
}

/// The largest distance between the distributions of two sorted samples.
pub fn kolmogorov_smirnov(one: &[u64], other: &[u64]) -> Option<f64> {
    if one.is_empty() || other.is_empty() {
        return None;
    }
    let (mut at, mut next, mut max) = (0, 0, 0.0_f64);
    while at < one.len() && next < other.len() {
        let value = one[at].min(other[next]);
        at += one[at..].iter().take_while(|ns| **ns == value).count();
        next += other[next..].iter().take_while(|ns| **ns == value).count();
        let distance = at as f64 / one.len() as f64 - next as f64 / other.len() as f64;
        max = max.max(distance.abs());
    }
    Some(max)
}
