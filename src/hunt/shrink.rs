//! The smallest case that still breaks a rule: every way to make it a step smaller is tried, all of them in one go, and
//! the smallest that breaks it is the next. Ends where none does. Pure: whoever asks runs the candidates.

use std::collections::{BTreeSet, HashSet};

use crate::model::CpuSet;

use super::case::{Case, Change, Group, Load, Policy, Tasks};

/// Candidates of one step: the first that breaks the rule is the next case, and those that do not fit in come in the
/// next step.
const MAX_CANDIDATES: usize = 8;

/// Tasks, sets, events, and all else that makes a case hard to read. Every candidate is smaller.
pub fn size(case: &Case) -> (u32, usize, u32, u32) {
    let sum = |count: fn(&Tasks) -> u32| case.sets.iter().map(count).sum();
    let events = |set: &Tasks| {
        let later = set.cgroup.is_some_and(|own| own.later.is_some());
        let is_given = [set.at_ms > 0, set.for_ms.is_some(), set.change.is_some(), later];
        is_given.iter().map(|given| u32::from(*given)).sum()
    };
    let rest = |set: &Tasks| {
        let is_given = [
            set.load != Load::Spin,
            set.nice != 0,
            set.policy != Policy::Other,
            set.cgroup.is_some(),
            set.cgroup.is_some_and(|own| own.max.is_some()),
            set.cgroup.is_some_and(|own| own.outer.is_some()),
            set.change.as_ref().is_some_and(|change| change.nice != set.nice),
        ];
        let later = set.change.as_ref().and_then(|change| change.cpus.as_ref());
        let cpus: u32 = set.cpus.iter().chain(later).map(|cpus| cpus.len() as u32).sum();
        is_given.iter().map(|given| u32::from(*given)).sum::<u32>() + cpus
    };
    (sum(|set| set.count), case.sets.len(), sum(events), sum(rest))
}

pub struct Shrinker {
    case: Case,
    tried: HashSet<Case>,
}

impl Shrinker {
    pub fn new(case: Case) -> Shrinker {
        Shrinker { case, tried: HashSet::new() }
    }

    /// Cases to run next, the smallest first, each once in the life of a shrinker; none: it is done.
    pub fn candidates(&mut self) -> Vec<Case> {
        let mut all: Vec<Case> = smaller(&self.case);
        all.retain(|case| !self.tried.contains(case));
        all.sort_by_cached_key(|case| (size(case), case.clone()));
        all.dedup();
        all.truncate(MAX_CANDIDATES);
        self.tried.extend(all.iter().cloned());
        all
    }

    /// Goes on with this candidate, which breaks the rule.
    pub fn take(&mut self, broken: Case) {
        self.case = broken;
    }

    pub fn case(&self) -> &Case {
        &self.case
    }
}

/// All cases that are one step smaller.
fn smaller(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    for at in 0..case.sets.len() {
        if case.sets.len() > 1 {
            let mut less = case.clone();
            less.sets.remove(at);
            all.push(less);
        }
        for tasks in simpler(&case.sets[at]) {
            let mut less = case.clone();
            less.sets[at] = tasks;
            all.push(less);
        }
    }
    let groups: BTreeSet<Group> = case.sets.iter().filter_map(|set| set.cgroup).collect();
    for group in groups {
        for simple in simpler_groups(group) {
            let mut less = case.clone();
            let shared = less.sets.iter_mut().filter(|set| set.cgroup == Some(group));
            shared.for_each(|set| set.cgroup = Some(simple));
            all.push(less);
        }
    }
    // A set that merely repeats another one's tasks is more of the same.
    for at in 1..case.sets.len() {
        let (first, own) = (&case.sets[at - 1], &case.sets[at]);
        if (Tasks { count: first.count, ..own.clone() }) == *first {
            let mut less = case.clone();
            less.sets.remove(at);
            less.sets[at - 1].count += own.count;
            all.push(less);
        }
    }
    all.retain(|less| size(less) < size(case));
    all
}

fn simpler(tasks: &Tasks) -> Vec<Tasks> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Tasks)| {
        let mut less = tasks.clone();
        change(&mut less);
        all.push(less);
    };
    for count in [1, tasks.count / 2, tasks.count - 1] {
        if count > 0 {
            add(&|less| less.count = count);
        }
    }
    add(&|less| less.load = Load::Spin);
    add(&|less| less.at_ms = 0);
    add(&|less| less.for_ms = None);
    add(&|less| less.nice = 0);
    add(&|less| less.policy = Policy::Other);
    add(&|less| less.cgroup = None);
    for cpus in fewer(&tasks.cpus) {
        add(&|less| less.cpus = cpus.clone());
    }
    let Some(change) = &tasks.change else { return all };
    add(&|less| less.change = None);
    // As it is after the change, from the begin on.
    add(&|less| {
        (less.cpus, less.nice, less.change) = (change.cpus.clone(), change.nice, None);
    });
    let mut simpler =
        vec![(0, 0, change.cpus.clone()), (tasks.nice, tasks.nice, change.cpus.clone())];
    simpler.extend(fewer(&change.cpus).into_iter().map(|cpus| (tasks.nice, change.nice, cpus)));
    for (nice_before, nice, cpus) in simpler {
        let at_ms = change.at_ms;
        add(&|less| {
            (less.nice, less.change) =
                (nice_before, Some(Change { at_ms, cpus: cpus.clone(), nice }));
        });
    }
    all
}

fn simpler_groups(group: Group) -> Vec<Group> {
    // As it is after the change, from the begin on.
    let changed =
        group.later.map(|later| Group { weight: Some(later.weight), later: None, ..group });
    let less = [
        Group { max: None, ..group },
        Group { outer: None, ..group },
        Group { later: None, ..group },
    ];
    less.into_iter().chain(changed).filter(|simple| *simple != group).collect()
}

/// All CPUs, and these without each of them.
fn fewer(cpus: &Option<CpuSet>) -> Vec<Option<CpuSet>> {
    let mut all = vec![None];
    for gone in cpus.iter().filter(|cpus| cpus.len() > 1).flat_map(|cpus| cpus.iter()) {
        let left = cpus.iter().flat_map(|cpus| cpus.iter()).filter(|cpu| *cpu != gone);
        all.push(Some(left.collect()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hunt::{Generator, Machine};

    const MACHINE: Machine = Machine { cpus: 4, llcs: 2, nodes: 1, threads: 1 };

    /// Shrinks a case by a made-up fault; also gives the number of steps.
    fn shrink(case: Case, breaks: impl Fn(&Case) -> bool) -> (Case, usize) {
        let mut shrinker = Shrinker::new(case);
        let mut steps = 0;
        loop {
            let candidates = shrinker.candidates();
            if candidates.is_empty() {
                return (shrinker.case().clone(), steps);
            }
            steps += 1;
            for candidate in &candidates {
                assert!(size(candidate) < size(shrinker.case()), "{candidate}");
            }
            if let Some(case) = candidates.into_iter().find(&breaks) {
                shrinker.take(case);
            }
        }
    }

    #[test]
    fn a_case_shrinks_to_what_its_fault_needs() {
        // Three tasks on CPU 3 in one set, and some other task that is niced.
        let breaks = |case: &Case| {
            let on_3 = |set: &Tasks| {
                set.count >= 3 && set.cpus.as_ref().is_some_and(|cpus| cpus.contains(3))
            };
            let first = case.sets.iter().position(on_3);
            let others = case.sets.iter().enumerate().filter(|(at, _)| Some(*at) != first);
            first.is_some() && others.into_iter().any(|(_, set)| set.nice != 0)
        };
        let mut generator = Generator::new(4, 0, MACHINE);
        let found = (0..2000).map(|_| generator.next_case()).filter(|case| breaks(case)).take(20);
        let found: Vec<Case> = found.collect();
        assert_eq!(found.len(), 20);
        for case in found {
            let (least, steps) = shrink(case.clone(), breaks);
            assert_eq!(size(&least), (4, 2, 0, 2), "{case} became {least}");
            assert!(steps < 60, "{steps}");
        }
    }

    #[test]
    fn a_fault_that_needs_all_of_a_case_leaves_it_as_it_is() {
        let case = Generator::new(1, 0, MACHINE).next_case();
        assert_eq!(shrink(case.clone(), |_| false).0, case);
    }

    #[test]
    fn sets_that_share_a_cgroup_keep_it_when_it_becomes_simpler() {
        let group = |case: &Case, at: usize| case.sets.get(at).and_then(|set| set.cgroup);
        // A weight that is changed to 400, of a cgroup with two sets.
        let breaks = |case: &Case| {
            let own = group(case, 0).filter(|own| Some(*own) == group(case, 1));
            own.is_some_and(|own| own.later.is_some_and(|later| later.weight == 400))
        };
        let mut generator = Generator::new(9, 0, MACHINE);
        let has_all = |case: &Case| {
            let own = group(case, 0).filter(|_| breaks(case));
            own.is_some_and(|own| own.max.is_some() && own.outer.is_some())
        };
        let case = std::iter::repeat_with(|| generator.next_case()).find(has_all).unwrap();
        let (least, _) = shrink(case, breaks);
        assert_eq!(size(&least), (2, 2, 2, 2), "{least}");
    }
}
