//! The smallest case that still breaks a rule: every way to make it a step smaller is tried, all of them in one go, and
//! the smallest that breaks it is the next. Ends where none does. Pure: whoever asks runs the candidates.

use std::collections::{BTreeSet, HashSet};
use std::iter::once;

use crate::model::CpuSet;

use super::case::{Case, Change, Group, LaterWeight, Load, Machine, OffCpus, Policy, Tasks};

/// Candidates of one step: the first that breaks the rule is the next case, and those that do not fit in come in the
/// next step.
const MAX_CANDIDATES: usize = 8;

/// The numbers that a reader passes over: half a second, the weight that a cgroup has by itself, and one CPU in percent.
const ROUND_MS: u32 = 500;
const ROUND_WEIGHT: u32 = 100;
const ROUND_LIMIT: u32 = 100;

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
            set.slice_us.is_some(),
            set.clamp.is_some(),
            ![0, ROUND_MS].contains(&set.at_ms),
            set.change.as_ref().is_some_and(|change| change.at_ms != ROUND_MS),
            set.cgroup.is_some_and(|own| own.weight.is_some_and(|weight| weight != ROUND_WEIGHT)),
            set.cgroup.is_some_and(|own| own.max.is_some_and(|max| max != ROUND_LIMIT)),
            set.cgroup.is_some_and(|own| own.later.is_some_and(|later| later.at_ms != ROUND_MS)),
            set.cgroup.is_some(),
            set.cgroup.is_some_and(|own| own.max.is_some()),
            set.cgroup.is_some_and(|own| own.outer.is_some()),
            set.change.as_ref().is_some_and(|change| change.nice != set.nice),
            later_count(set).is_some(),
            set.change.as_ref().is_some_and(|change| change.policy.is_some()),
            set.change.as_ref().is_some_and(|change| change.slice_us.is_some()),
        ];
        let later = set.change.as_ref().filter(|change| set.moves(change));
        let later = later.and_then(|change| change.cpus.as_ref());
        let cpus: u32 = set.cpus.iter().chain(later).map(|cpus| cpus.len() as u32).sum();
        let fewest = later_count(set).map_or(0, |later| later.min(set.count));
        is_given.iter().map(|given| u32::from(*given)).sum::<u32>() + cpus + fewest
    };
    let off = case.offline.as_ref();
    let off_events = off.map_or(0, |off| 1 + u32::from(off.for_ms.is_some()));
    let off_rest = off.map_or(0, |off| off.cpus.len() as u32 + u32::from(off.at_ms != ROUND_MS));
    let (events, rest) = (sum(events) + off_events, sum(rest) + off_rest);
    (sum(Tasks::max_count), case.sets.len(), events, rest)
}

fn later_count(tasks: &Tasks) -> Option<u32> {
    tasks.change.as_ref()?.count
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
    for offline in simpler_offline(&case.offline) {
        all.push(Case { offline, ..case.clone() });
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
        if later_count(first).is_none() && (Tasks { count: first.count, ..own.clone() }) == *first {
            let mut less = case.clone();
            less.sets.remove(at);
            less.sets[at - 1].count += own.count;
            all.push(less);
        }
    }
    // CPUs may not go that some tasks have alone, and a chain has two ends.
    let is_possible = |less: &Case| {
        let are_enough = less.sets.iter().all(|set| set.count >= set.min_count());
        are_enough && less.clone().with_possible_offline() == *less
    };
    all.retain(|less| size(less) < size(case) && is_possible(less));
    all
}

fn simpler_offline(offline: &Option<OffCpus>) -> Vec<Option<OffCpus>> {
    let Some(off) = offline else { return Vec::new() };
    let fewer = fewer(&Some(off.cpus.clone())).into_iter().flatten();
    let fewer = fewer.map(|cpus| OffCpus { cpus, ..off.clone() });
    let simple =
        [OffCpus { for_ms: None, ..off.clone() }, OffCpus { at_ms: ROUND_MS, ..off.clone() }];
    once(None).chain(simple.into_iter().chain(fewer).map(Some)).collect()
}

fn simpler(tasks: &Tasks) -> Vec<Tasks> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Tasks)| {
        let mut less = tasks.clone();
        change(&mut less);
        let (count, policy, slice_us) = (less.count, less.policy, less.slice_us);
        less.change.iter_mut().for_each(|own| {
            own.count = own.count.filter(|own| *own != count);
            own.policy = own.policy.filter(|own| *own != policy);
            own.slice_us = own.slice_us.filter(|own| Some(*own) != slice_us);
        });
        all.push(less);
    };
    for count in fewer_tasks(tasks.count) {
        add(&|less| less.count = count);
    }
    add(&|less| less.load = Load::Spin);
    add(&|less| less.at_ms = 0);
    if tasks.at_ms > 0 {
        add(&|less| less.at_ms = ROUND_MS);
    }
    add(&|less| less.for_ms = None);
    add(&|less| less.nice = 0);
    add(&|less| less.policy = Policy::Other);
    add(&|less| less.slice_us = None);
    add(&|less| less.clamp = None);
    add(&|less| less.cgroup = None);
    for cpus in fewer(&tasks.cpus) {
        add(&|less| {
            // Tasks that stay where they are do so with fewer CPUs.
            let stays = less.change.iter_mut().filter(|change| change.cpus == tasks.cpus);
            stays.for_each(|change| change.cpus = cpus.clone());
            less.cpus = cpus.clone();
        });
    }
    let Some(change) = &tasks.change else { return all };
    add(&|less| less.change = None);
    // As it is after the change, from the begin on.
    add(&|less| {
        (less.cpus, less.nice, less.change) = (change.cpus.clone(), change.nice, None);
        less.count = change.count.unwrap_or(less.count);
        less.policy = change.policy.unwrap_or(less.policy);
        less.slice_us = change.slice_us.or(less.slice_us);
    });
    add(&|less| less.change = Some(Change { policy: None, ..change.clone() }));
    add(&|less| less.change = Some(Change { slice_us: None, ..change.clone() }));
    let mut simpler =
        vec![(0, 0, change.cpus.clone()), (tasks.nice, tasks.nice, change.cpus.clone())];
    add(&|less| less.change = Some(Change { at_ms: ROUND_MS, ..change.clone() }));
    simpler.push((tasks.nice, change.nice, tasks.cpus.clone()));
    if let Some(count) = change.count {
        for count in once(None).chain(fewer_tasks(count).map(Some)) {
            add(&|less| less.change = Some(Change { count, ..change.clone() }));
        }
    }
    simpler.extend(fewer(&change.cpus).into_iter().map(|cpus| (tasks.nice, change.nice, cpus)));
    for (nice_before, nice, cpus) in simpler {
        add(&|less| {
            (less.nice, less.change) =
                (nice_before, Some(Change { cpus: cpus.clone(), nice, ..change.clone() }));
        });
    }
    all
}

fn fewer_tasks(count: u32) -> impl Iterator<Item = u32> {
    [1, count / 2, count - 1].into_iter().filter(|fewer| *fewer > 0)
}

fn simpler_groups(group: Group) -> Vec<Group> {
    // As it is after the change, from the begin on.
    let changed =
        group.later.map(|later| Group { weight: Some(later.weight), later: None, ..group });
    let less = [
        Group { max: None, ..group },
        Group { outer: None, ..group },
        Group { later: None, ..group },
        Group { weight: group.weight.map(|_| ROUND_WEIGHT), ..group },
        Group { max: group.max.map(|_| ROUND_LIMIT), ..group },
        Group { later: group.later.map(|later| LaterWeight { at_ms: ROUND_MS, ..later }), ..group },
    ];
    less.into_iter().chain(changed).filter(|simple| *simple != group).collect()
}

/// Smaller guests that the case may still fit, the smallest first, and the case on each. There is at most one of each
/// kind: without a cache, without a core of each cache, and without nodes, siblings or caches.
pub fn smaller_machines(machine: Machine, case: &Case) -> Vec<(Machine, Case)> {
    let fits = |gone: &Gone| Some((gone.machine, without_cpus(case, gone)?));
    // The fewest sets lose the fewest CPUs.
    let uses = |gone: &Gone| {
        let later = case.sets.iter().filter_map(|set| set.change.as_ref()?.cpus.as_ref());
        let later = later.chain(case.offline.iter().map(|off| &off.cpus));
        let cpus = case.sets.iter().filter_map(|set| set.cpus.as_ref()).chain(later);
        cpus.map(|cpus| gone.cpus.iter().filter(|cpu| cpus.contains(**cpu)).count()).sum::<usize>()
    };
    let gentlest = |mut kind: Vec<Gone>| {
        kind.sort_by_key(uses);
        kind.iter().find_map(fits)
    };
    let mut all: Vec<(Machine, Case)> = Vec::new();
    all.extend(gentlest(without_cache(machine)));
    all.extend(gentlest(without_core(machine)));
    let flat = [
        Machine { nodes: 1, ..machine },
        Machine { threads: 1, ..machine },
        Machine { llcs: machine.nodes, ..machine },
    ];
    let flat = flat.into_iter().filter(|flat| *flat != machine);
    all.extend(flat.map(|machine| (machine, case.clone())));
    all.sort_by_key(|(machine, _)| *machine);
    all
}

/// A machine, and the CPUs of a larger one that it lacks.
struct Gone {
    machine: Machine,
    cpus: Vec<u32>,
}

/// The machine without each of its caches.
fn without_cache(machine: Machine) -> Vec<Gone> {
    let in_cache = machine.cpus / machine.llcs;
    if machine.llcs == 1 || machine.nodes > 1 {
        return Vec::new();
    }
    let left = Machine { cpus: machine.cpus - in_cache, llcs: machine.llcs - 1, ..machine };
    let cpus = |cache: u32| (cache * in_cache..(cache + 1) * in_cache).collect();
    (0..machine.llcs).map(|cache| Gone { machine: left, cpus: cpus(cache) }).collect()
}

/// The machine without one core of each of its caches.
fn without_core(machine: Machine) -> Vec<Gone> {
    let in_cache = machine.cpus / machine.llcs;
    let cores = in_cache / machine.threads;
    if cores == 1 {
        return Vec::new();
    }
    let left = Machine { cpus: machine.cpus - machine.llcs * machine.threads, ..machine };
    let is_of_core = |cpu: &u32, core: u32| cpu % in_cache / machine.threads == core;
    let cpus = |core: u32| (0..machine.cpus).filter(|cpu| is_of_core(cpu, core)).collect();
    (0..cores).map(|core| Gone { machine: left, cpus: cpus(core) }).collect()
}

/// The case on a machine whose CPUs lack some; `None`: tasks are held to those, real-time ones would have all others, or
/// one CPU is left.
fn without_cpus(case: &Case, gone: &Gone) -> Option<Case> {
    let (machine, gone) = (gone.machine, &gone.cpus);
    let number = |cpu: u32| cpu - gone.iter().filter(|own| **own < cpu).count() as u32;
    let left = |cpus: &Option<CpuSet>| {
        let Some(cpus) = cpus else { return Some(None) };
        let left: CpuSet = cpus.iter().filter(|cpu| !gone.contains(cpu)).map(number).collect();
        match left.len() as u32 {
            0 => None,
            all if all == machine.cpus => Some(None),
            _ => Some(Some(left)),
        }
    };
    let mut case = case.clone();
    for set in &mut case.sets {
        set.cpus = left(&set.cpus)?;
        if let Some(change) = &mut set.change {
            change.cpus = left(&change.cpus)?;
        }
    }
    if let Some(off) = &mut case.offline {
        off.cpus = left(&Some(off.cpus.clone()))??;
    }
    let off = case.offline.as_ref().map_or(0, |off| off.cpus.len() as u32);
    let is_possible = case.clone().with_possible_offline() == case;
    let real_time = case.sets.iter().filter(|set| set.policy == Policy::Fifo);
    let real_time: u32 = real_time.map(|set| set.count).sum();
    (machine.cpus > 1 && real_time + off < machine.cpus && is_possible).then_some(case)
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
    use crate::hunt::case::Clamp;
    use crate::hunt::testing::{change, tasks};
    use crate::hunt::{Generator, Machine};

    const MACHINE: Machine = Machine { cpus: 4, llcs: 2, nodes: 1, threads: 1 };

    #[test]
    fn a_smaller_guest_has_the_cpus_that_tasks_are_held_to() {
        let set = |cpus: &[u32]| Tasks { cpus: Some(cpus.iter().copied().collect()), ..tasks() };
        let shown = |from: &str, sets: &[&[u32]]| {
            let sets = sets.iter().map(|cpus| set(cpus)).collect();
            let case = Case { sets, offline: None };
            let machines = smaller_machines(from.parse().unwrap(), &case).into_iter();
            let text = |(machine, case): (Machine, Case)| {
                let cpus = case.sets.iter().map(|set| match &set.cpus {
                    None => "all".to_string(),
                    Some(cpus) => cpus.to_string(),
                });
                let cpus = cpus.collect::<Vec<_>>().join(" ");
                format!("{machine} {cpus}")
            };
            machines.map(text).collect::<Vec<_>>()
        };
        assert_eq!(
            shown("6x3", &[&[4], &[1, 5]]),
            ["4x2 2 1,3", "6x1 4 1,5"],
            "CPUs 2 and 3 are of no use to it, and each core of a cache is"
        );
        assert_eq!(shown("8x2t2", &[&[2, 3], &[6]]), ["4x2t2 0-1 2", "8x1t2 2-3 6", "8x2 2-3 6"]);
        assert!(shown("2x1", &[&[0], &[1]]).is_empty(), "one CPU has no balancer");
    }

    #[test]
    fn a_smaller_guest_has_room_for_changes_and_real_time_tasks() {
        let machines = |machine: &str, tasks: Tasks| {
            let case = Case { sets: vec![tasks], offline: None };
            let machines = smaller_machines(machine.parse().unwrap(), &case).into_iter();
            machines.map(|(machine, _)| machine.to_string()).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(machines("4x2", tasks()), "2x1, 2x2, 4x1");
        let real_time = Tasks { policy: Policy::Fifo, count: 2, ..tasks() };
        assert_eq!(machines("4x2", real_time), "4x1", "it leaves a CPU");
        let set = |cpu: u32| Some([cpu].into_iter().collect::<CpuSet>());
        let change = Change { at_ms: 300, cpus: set(1), ..change() };
        let held = Tasks { cpus: set(2), change: Some(change), ..tasks() };
        assert_eq!(machines("4x2", held), "4x1", "CPUs 1 and 2 have to stay");
        assert_eq!(machines("4x2n2", tasks()), "2x2n2, 4x2", "a cache is a node");
    }

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
    fn cpus_that_are_off_shrink_and_move_with_the_machine() {
        let off =
            |cpus: &str| OffCpus { cpus: cpus.parse().unwrap(), at_ms: 700, for_ms: Some(300) };
        let case = Case { sets: vec![tasks(), tasks()], offline: Some(off("1,3")) };
        let is_off = |case: &Case, cpu: u32| case.offline.iter().any(|off| off.cpus.contains(cpu));
        let shrunk = |breaks: &dyn Fn(&Case) -> bool| shrink(case.clone(), breaks).0.to_string();
        let expected = "1 task on any CPU; CPU 3 is off from 500 ms on";
        assert_eq!(shrunk(&|case| is_off(case, 3)), expected);
        assert_eq!(shrunk(&|_| true), "1 task on any CPU");
        let held = Tasks { cpus: Some("1-2".parse().unwrap()), ..tasks() };
        let case = Case { sets: vec![held], offline: Some(off("2")) };
        assert_eq!(shrink(case.clone(), |case| is_off(case, 2)).0.sets, [tasks()]);
        let machines = smaller_machines("4x2".parse().unwrap(), &case);
        let shown = machines.iter().map(|(machine, case)| format!("{machine}: {case}"));
        assert_eq!(
            shown.collect::<Vec<_>>(),
            ["4x1: 1 task on CPUs 1-2; CPU 2 is off from 700 ms on, for 300 ms"],
            "one of two CPUs is left, or CPU 1 becomes CPU 0, or CPU 2 goes"
        );
    }

    #[test]
    fn a_number_that_changes_shrinks_to_what_the_fault_needs() {
        let shrunk = |breaks: &dyn Fn(u32, u32) -> bool| {
            let breaks = |case: &Case| {
                case.sets.iter().any(|set| breaks(set.count, later_count(set).unwrap_or(set.count)))
            };
            let mut generator = Generator::new(4, 0, MACHINE);
            let case = std::iter::repeat_with(|| generator.next_case()).find(&breaks).unwrap();
            shrink(case, breaks).0.to_string()
        };
        assert_eq!(
            shrunk(&|before, after| after > before + 1),
            "1 task on any CPU, from 500 ms on 3 of them"
        );
        assert_eq!(
            shrunk(&|before, after| before > after && before > 2),
            "3 tasks on any CPU, from 500 ms on 1 of them"
        );
        assert_eq!(shrunk(&|before, after| before.max(after) > 2), "3 tasks on any CPU");
    }

    #[test]
    fn changed_policies_and_slices_clamps_and_chains_shrink_to_what_the_fault_needs() {
        let change = Change { policy: Some(Policy::Batch), slice_us: Some(100), ..change() };
        let clamp = Some(Clamp::AtLeast);
        let set = Tasks { load: Load::Chain, count: 4, clamp, change: Some(change), ..tasks() };
        let case = Case { sets: vec![set], offline: None };
        let shrunk = |breaks: &dyn Fn(&Tasks) -> bool| {
            shrink(case.clone(), |case| breaks(&case.sets[0])).0.to_string()
        };
        let later = |set: &Tasks| set.change.clone();
        for (words, breaks) in [
            ("1 task", &(|_: &Tasks| true) as &dyn Fn(&Tasks) -> bool),
            ("2 tasks that wake each other, one after each 200 us", &|own| own.load == Load::Chain),
            ("1 task, uclamp-min 80%", &|own| own.clamp.is_some()),
            ("1 task, from 500 ms on under policy batch", &|own| {
                later(own).is_some_and(|own| own.policy.is_some())
            }),
            ("1 task, from 500 ms on with slices of 100 us", &|own| {
                later(own).is_some_and(|own| own.slice_us.is_some())
            }),
            ("1 task, policy batch", &|own| own.policy == Policy::Batch || later(own).is_some()),
        ] {
            assert_eq!(shrunk(breaks).replace(" on any CPU", ""), words);
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
