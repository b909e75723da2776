//! Kinds of threads: those alike, which are one role. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::TracedTask;

use super::settings::Settings;
use super::threads::{Place, Thread, Threads};

/// Threads have queues if there is a message while they are awake for so many wakeups.
const QUEUED_PARTS: u64 = 10;
/// More threads alike are one role all the same.
const MAX_QUEUED: usize = 8;
/// A thread with fewer wakeups does not show whether it mostly wakes others or is woken.
const MIN_COUNT: u64 = 20;
/// A group mostly wakes others if its mean ratio is at least this, and is mostly woken at the inverse or less.
const MUCH_MORE: f64 = 2.0;
/// The mean ratios of two groups of threads differ by at least this factor.
const MIN_FACTOR: f64 = 4.0;
/// Two groups have a gap between them: the ratios at its ends differ by this factor.
const GAP_FACTOR: f64 = 2.0;
/// In a gap is at most one thread for so many of the smaller group.
const GAP_PARTS: usize = 5;

/// How a thread works. Threads of one name that differ in it are no role: the replay of a role has any of its workers
/// do what any of the threads did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manner {
    /// It never sleeps, and wakes others.
    BusyWaker,
    /// It never sleeps.
    Busy,
    /// It wakes others much more often than it is woken.
    Wakes,
    /// It is woken much more often than it wakes others.
    Woken,
    Even,
}

impl Manner {
    pub fn is_busy(self) -> bool {
        matches!(self, Manner::BusyWaker | Manner::Busy)
    }
}

/// Process, name, whether it is the first thread, its priority, and how it was set.
type Name<'a> = (&'a str, &'a str, bool, u16, &'a Settings);
/// Threads alike, and how they work.
pub type Kind<'a> = (Name<'a>, Manner);

/// Threads alike, with their work. Those with less than `min_ns` of work of which no stretch was seen whole are none.
pub fn kinds<'a>(
    tasks: impl Iterator<Item = (&'a TracedTask, &'a Settings)>,
    first: &Threads,
    cut: &BTreeSet<Place>,
    min_ns: u64,
) -> BTreeMap<Kind<'a>, (u64, Vec<i32>)> {
    let mut kinds = BTreeMap::new();
    let mut ratios: BTreeMap<Name, Vec<(f64, i32)>> = BTreeMap::new();
    let mut others: Vec<(Name, i32)> = Vec::new();
    for (task, settings) in tasks {
        let Some(thread) = first.by_tid.get(&task.tid) else { continue };
        if thread.work_ns == 0 || (!thread.has_whole && thread.work_ns < min_ns) {
            continue;
        }
        let is_main = task.tid == task.pid;
        let name = (task.process.as_str(), task.name.as_str(), is_main, thread.prio, settings);
        match (busy(thread, task.tid, cut), log_ratio(thread)) {
            (Some(manner), _) => add(&mut kinds, (name, manner), first, &[task.tid]),
            (None, Some(ratio)) => ratios.entry(name).or_default().push((ratio, task.tid)),
            (None, None) => others.push((name, task.tid)),
        }
    }
    for (name, mut ratios) in ratios {
        ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (manner, tids) in by_manner(&ratios) {
            add(&mut kinds, (name, manner), first, &tids);
        }
    }
    // A thread that shows too little counts as most of its name do.
    for (name, tid) in others {
        let own = kinds.iter().filter(|((other, manner), _)| *other == name && !manner.is_busy());
        let most = own.max_by_key(|(_, (_, tids))| tids.len());
        let manner = most.map_or(Manner::Even, |((_, manner), _)| *manner);
        add(&mut kinds, (name, manner), first, &[tid]);
    }
    kinds.values_mut().for_each(|(_, tids)| tids.sort_unstable());
    kinds
}

/// Adds threads to their kind.
fn add<'a>(
    kinds: &mut BTreeMap<Kind<'a>, (u64, Vec<i32>)>,
    kind: Kind<'a>,
    threads: &Threads,
    tids: &[i32],
) {
    let (sum_ns, own) = kinds.entry(kind).or_default();
    *sum_ns += sum(threads, tids, |thread| thread.work_ns);
    own.extend(tids);
}

fn sum(threads: &Threads, tids: &[i32], each: fn(&Thread) -> u64) -> u64 {
    tids.iter().filter_map(|tid| threads.by_tid.get(tid)).map(each).sum()
}

/// How a thread works that never sleeps.
fn busy(thread: &Thread, tid: i32, cut: &BTreeSet<Place>) -> Option<Manner> {
    let is_cut = cut.range((tid, 0)..=(tid, u64::MAX)).next().is_some();
    match () {
        () if thread.has_slept => None,
        () if is_cut => Some(Manner::BusyWaker),
        () => (!thread.has_whole).then_some(Manner::Busy),
    }
}

/// The logarithm of wakeups made for one received; `None`: the thread had too few to show it.
fn log_ratio(thread: &Thread) -> Option<f64> {
    let [posts, wakeups] = [thread.posts, thread.wakeups].map(|count| (count.max(1) as f64).ln());
    (thread.posts.max(thread.wakeups) >= MIN_COUNT).then_some(posts - wakeups)
}

/// Threads of one name by how they work, from their ratios in ascending order. Each group has the manner of its mean:
/// limits for single threads would divide equals that are near a limit.
fn by_manner(threads: &[(f64, i32)]) -> Vec<(Manner, Vec<i32>)> {
    if let Some(at) = split_point(threads) {
        let (below, above) = threads.split_at(at);
        return [below, above].into_iter().flat_map(by_manner).collect();
    }
    let sum: f64 = threads.iter().map(|(ratio, _)| ratio).sum();
    let manner = match sum / threads.len() as f64 {
        mean if mean >= MUCH_MORE.ln() => Manner::Wakes,
        mean if mean <= -MUCH_MORE.ln() => Manner::Woken,
        _ => Manner::Even,
    };
    vec![(manner, threads.iter().map(|(_, tid)| *tid).collect())]
}

/// Where the second of two groups begins: at the gap that explains most of the variance. A wide group without a gap is
/// one group. Threads between two gaps fill neither of them, so gaps are far from each other, and there are few.
fn split_point(threads: &[(f64, i32)]) -> Option<usize> {
    let count = threads.len();
    let all: f64 = threads.iter().map(|(ratio, _)| ratio).sum();
    let mut sum = 0.0;
    let splits = threads.windows(2).enumerate().filter_map(|(at, pair)| {
        let (below, above) = (at + 1, count - at - 1);
        sum += pair[0].0;
        let difference = (all - sum) / above as f64 - sum / below as f64;
        let middle = f64::midpoint(pair[0].0, pair[1].0);
        let up_to = |limit: f64| threads.partition_point(|(ratio, _)| *ratio < limit);
        let half = GAP_FACTOR.ln() / 2.0;
        let within = up_to(middle + half) - up_to(middle - half);
        let is_split = difference >= MIN_FACTOR.ln() && within * GAP_PARTS <= below.min(above);
        is_split.then_some((below, below as f64 * above as f64 * difference * difference))
    });
    splits.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(below, _)| below)
}

/// Few threads alike to which messages come while they are awake are a role each: such a message waits until its own
/// reader has time, and no fellow that sleeps wakes up for it.
pub fn with_own_queues<K: Copy>(
    kinds: Vec<(K, (u64, Vec<i32>))>,
    threads: &Threads,
    max_sets: usize,
) -> Vec<(K, (u64, Vec<i32>))> {
    let has_queues = |tids: &[i32]| {
        let received = sum(threads, tids, |own| own.received);
        (2..=MAX_QUEUED).contains(&tids.len())
            && received > 0
            && received * QUEUED_PARTS >= sum(threads, tids, |own| own.wakeups)
    };
    let mut room = max_sets - kinds.len();
    let mut apiece = Vec::new();
    for (kind, (work_ns, tids)) in kinds {
        if tids.len() <= room + 1 && has_queues(&tids) {
            room -= tids.len() - 1;
            let work_ns = |tid: &i32| sum(threads, &[*tid], |own| own.work_ns);
            let own = tids.iter().map(|tid| (kind, (work_ns(tid), vec![*tid])));
            apiece.extend(own);
        } else {
            apiece.push((kind, (work_ns, tids)));
        }
    }
    apiece
}

#[cfg(test)]
mod tests {
    use super::Manner::{Even, Wakes, Woken};
    use super::*;

    /// The manners of threads with these ratios, and how many threads have them.
    fn manners(ratios: impl IntoIterator<Item = f64>) -> Vec<(Manner, usize)> {
        let mut ratios: Vec<(f64, i32)> = ratios.into_iter().map(f64::ln).zip(1..).collect();
        ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
        by_manner(&ratios).into_iter().map(|(manner, tids)| (manner, tids.len())).collect()
    }

    /// As many ratios, evenly spread on a logarithmic scale between a part of the middle and a multiple of it.
    fn spread(count: i32, middle: f64, factor: f64) -> impl Iterator<Item = f64> {
        (0..count)
            .map(move |at| middle * factor.powf(f64::from(2 * at + 1) / f64::from(count) - 1.0))
    }

    fn around(middle: f64) -> impl Iterator<Item = f64> {
        spread(100, middle, 1.65)
    }

    #[test]
    fn equals_are_one_kind_wherever_the_limits_are() {
        for (middle, manner) in
            [(0.3, Woken), (0.45, Woken), (0.6, Even), (1.0, Even), (1.8, Even), (2.2, Wakes)]
        {
            assert_eq!(manners(around(middle)), [(manner, 100)], "{middle}");
        }
    }

    #[test]
    fn a_wide_group_without_a_gap_is_one_kind() {
        for factor in [4.0, 8.0, 16.0] {
            assert_eq!(manners(spread(100, 1.0, factor)), [(Even, 100)], "{factor}");
        }
        // A bell: its middle is dense.
        let bell = spread(100, 1.0, 2.0).chain(spread(40, 1.0, 8.0));
        assert_eq!(manners(bell), [(Even, 140)]);
        // One side of a bell.
        let slope = spread(100, 2.0, 1.5).chain(spread(40, 4.0, 4.0));
        assert_eq!(manners(slope), [(Wakes, 140)]);
    }

    #[test]
    fn groups_with_a_gap_between_them_are_kinds() {
        assert_eq!(manners(around(0.25).chain(around(2.5))), [(Woken, 100), (Wakes, 100)]);
        // A few in the gap.
        let with_few = around(0.25).chain(around(4.0)).chain(spread(10, 1.0, 1.3));
        assert_eq!(manners(with_few), [(Woken, 105), (Wakes, 105)]);
        assert_eq!(manners(around(1.0).chain([16.0])), [(Even, 100), (Wakes, 1)]);
        let three = around(0.1).chain(around(1.0)).chain(around(8.0));
        assert_eq!(manners(three), [(Woken, 100), (Even, 100), (Wakes, 100)]);
        // Nobody wakes half of the threads, which wake others by very different numbers.
        let halves = around(1.0).chain(spread(100, 1_000.0, 10.0));
        assert_eq!(manners(halves), [(Even, 100), (Wakes, 100)]);
    }

    #[test]
    fn few_threads_are_kinds_if_they_differ_by_the_factor() {
        assert_eq!(manners([2.0]), [(Wakes, 1)]);
        assert_eq!(manners([0.5]), [(Woken, 1)]);
        assert_eq!(manners([1.0, 3.9]), [(Even, 2)]);
        assert_eq!(manners([1.0, 4.1]), [(Even, 1), (Wakes, 1)]);
        assert_eq!(manners([0.9, 1.2, 5.0]), [(Even, 2), (Wakes, 1)]);
        assert_eq!(manners([1.0, 2.2, 4.0]), [(Wakes, 3)]);
    }

    #[test]
    fn ten_thousand_threads_are_few_groups() {
        let step = |at: i32| 1.9_f64.powi(at % 9 - 4);
        assert_eq!(manners((0..10_000).map(step)).len(), 1);
        let comb = |at: i32| 4.1_f64.powi(at % 20 - 10);
        assert_eq!(manners((0..10_000).map(comb)).len(), 20);
    }
}
